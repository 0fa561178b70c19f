/* Who speaks when in a recording, by a Sortformer: its probabilities are kept until the end. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "speech/speakers/activity.h"
#include "speech/speakers/diarize_method.h"
#include "speech/speakers/sortformer_stream.h"
#include "speech/speakers/sortformer_voices.h"

#define MAX_ROWS (11u * 24 * 3600 * 100) /* 11 days at 10 ms */

struct recording {
    steno_diarization base;
    steno_session *session;
    steno_embedder *embedder; /* NULL: there is none */
    struct steno_sortformer_stream stream;
    struct steno_sortformer_voices voices;
    float *p; /* [rows, speakers], room for cap numbers */
    size_t rows, cap;
};

static struct recording *recording_of(steno_diarization *d)
{
    return (struct recording *)d;
}

static steno_status keep_rows(void *ctx, const float *p, size_t n, bool provisional, steno_err *err)
{
    struct recording *r = ctx;
    const size_t speakers = r->base.speakers->sortformer.speakers;
    (void)provisional; /* a recording is not peeked into */
    if (r->rows + n > MAX_ROWS)
        return steno_fail(err, STENO_ERR_LIMIT, "speakers: the recording is too long");
    if (STENO_RESERVE(&r->p, &r->cap, (r->rows + n) * speakers))
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    memcpy(r->p + r->rows * speakers, p, n * speakers * sizeof *p);
    r->rows += n;
    return r->embedder ? steno_sortformer_voices_told(&r->voices, r->embedder, p, n, err)
                       : STENO_OK;
}

static steno_status open_recording(steno_diarization *d, steno_err *err)
{
    struct recording *r = recording_of(d);
    const steno_speakers *speakers = d->speakers;
    const struct steno_sortformer *s = &speakers->sortformer;
    const size_t ahead = (s->recording.chunk + s->recording.right + 1) * STENO_SORTFORMER_SAMPLES;
    steno_status st;
    if (d->opt.threshold > 0)
        return steno_fail(err, STENO_ERR_INVAL,
                          "speakers: a Sortformer has no threshold between voices");
    st = steno_session_open(&r->session, s->net,
                            &(struct steno_session_options){.threads = speakers->threads}, err);
    if (!st)
        st = steno_sortformer_stream_open(&r->stream, s, &s->recording, keep_rows, r, err);
    if (st || !speakers->embedding.net)
        return st;
    st = steno_embedder_open(&r->embedder, &speakers->embedding, speakers->threads, err);
    return st ? st
              : steno_sortformer_voices_open(&r->voices, s, speakers->embedding.dim,
                                             ahead + STENO_RESAMPLER_PART, err);
}

static void close_recording(steno_diarization *d)
{
    struct recording *r = recording_of(d);
    steno_sortformer_stream_close(&r->stream);
    steno_sortformer_voices_close(&r->voices);
    steno_session_close(r->session);
    steno_embedder_close(r->embedder);
    free(r->p);
}

static steno_status take_recording(steno_diarization *d, const float *x, size_t n, steno_err *err)
{
    struct recording *r = recording_of(d);
    if (r->embedder)
        steno_sortformer_voices_push(&r->voices, x, n);
    return steno_sortformer_stream_push(&r->stream, r->session, x, n, err);
}

static steno_status end_recording(steno_diarization *d, steno_err *err)
{
    struct recording *r = recording_of(d);
    const steno_status st = steno_sortformer_stream_end(&r->stream, r->session, err);
    return st || !r->embedder ? st : steno_sortformer_voices_end(&r->voices, r->embedder, err);
}

/* Keep those who talk most, as many as there may be. */
static void choose(const struct recording *r, size_t most, bool *keep)
{
    const size_t speakers = r->base.speakers->sortformer.speakers;
    size_t talks[STENO_ARRIVAL_SPEAKERS] = {0};
    for (size_t f = 0; f < r->rows; f++)
        for (size_t s = 0; s < speakers; s++)
            talks[s] += r->p[f * speakers + s] > STENO_ACTIVITY_TALKS;
    for (size_t s = 0; s < speakers; s++) {
        size_t before = 0;
        for (size_t k = 0; k < speakers; k++)
            before += talks[k] > talks[s] || (talks[k] == talks[s] && k < s);
        keep[s] = before < most;
    }
}

static steno_status find_recording(steno_diarization *d, steno_err *err)
{
    const struct recording *r = recording_of(d);
    const struct steno_sortformer *s = &d->speakers->sortformer;
    const int most = d->opt.speakers ? d->opt.speakers : d->opt.max_speakers;
    bool keep[STENO_ARRIVAL_SPEAKERS];
    float *p = malloc((r->rows * s->speakers + 1) * sizeof *p);
    const struct steno_activity a = {.p = p,
                                     .frames = r->rows,
                                     .speakers = s->speakers,
                                     .frame = (double)STENO_SORTFORMER_SAMPLES / (double)s->parts /
                                              STENO_SORTFORMER_RATE,
                                     .length = (double)d->samples / STENO_SORTFORMER_RATE};
    steno_status st;
    if (!p)
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    if (r->rows)
        memcpy(p, r->p, r->rows * s->speakers * sizeof *p);
    choose(r, most ? (size_t)most : s->speakers, keep);
    steno_activity_fold(p, r->rows, s->speakers, keep);
    st = steno_activity_turns(&a, &steno_activity_nemo, &d->turns, &d->n_turns, err);
    steno_activity_exclude(p, r->rows, s->speakers);
    if (!st)
        st = steno_activity_turns(&a, &steno_activity_nemo, &d->exclusive, &d->n_exclusive, err);
    d->found = (int)s->speakers;
    free(p);
    return st;
}

static float voice_recording(const steno_diarization *d, int found, float *out)
{
    const struct recording *r = (const struct recording *)d;
    return r->embedder ? steno_sortformer_voices_of(&r->voices, found, out) : 0;
}

const struct steno_diarization_method steno_diarization_sortformer = {.size =
                                                                          sizeof(struct recording),
                                                                      .open = open_recording,
                                                                      .close = close_recording,
                                                                      .take = take_recording,
                                                                      .end = end_recording,
                                                                      .find = find_recording,
                                                                      .voice = voice_recording};
