/* Who speaks, told while it is said, by a Sortformer: its speakers are the labels, numbered as they
 * arrive and never merged. A frame has the most probable of those who talk. */
#include <string.h>

#include "speech/speakers/activity.h"
#include "speech/speakers/cluster.h"
#include "speech/speakers/live_method.h"
#include "speech/speakers/sortformer_stream.h"
#include "speech/speakers/sortformer_voices.h"

struct live_sortformer {
    steno_live_speakers base;
    struct steno_sortformer_stream stream;
    struct steno_sortformer_voices voices; /* of speakers with an embedding network */
    steno_embedder *embedder;              /* of the caller; NULL: nobody is known */
};

static struct live_sortformer *live_sortformer_of(steno_live_speakers *l)
{
    return (struct live_sortformer *)l;
}

/* The label of a row; speakers beyond the most are the nearest of the others. */
static uint8_t label_of_row(const steno_live_speakers *l, const float *row)
{
    const size_t speakers = l->speakers->sortformer.speakers;
    float p[STENO_ARRIVAL_SPEAKERS];
    bool keep[STENO_ARRIVAL_SPEAKERS];
    memcpy(p, row, speakers * sizeof *p);
    for (size_t s = 0; s < speakers; s++)
        keep[s] = s < (size_t)l->max_speakers;
    steno_activity_fold(p, 1, speakers, keep);
    steno_activity_exclude(p, 1, speakers);
    for (size_t s = 0; s < speakers; s++)
        if (p[s] > STENO_ACTIVITY_TALKS)
            return (uint8_t)s;
    return STENO_LIVE_NOBODY;
}

static steno_status label_rows(void *ctx, const float *p, size_t n, bool provisional,
                               steno_err *err)
{
    struct live_sortformer *l = ctx;
    steno_live_speakers *base = &l->base;
    for (size_t i = 0; i < n; i++)
        (void)steno_live_put(base, base->labelled + (int64_t)i,
                             label_of_row(base, p + i * base->speakers->sortformer.speakers));
    if (provisional) {
        base->flushed = base->labelled + (int64_t)n;
        return STENO_OK;
    }
    base->labelled += (int64_t)n;
    if (!l->voices.pcm)
        return STENO_OK;
    const steno_status st = steno_sortformer_voices_told(&l->voices, l->embedder, p, n, err);
    return st || !l->embedder ? st : steno_live_find_people(base, err);
}

static steno_status open_live_sortformer(steno_live_speakers *base, steno_err *err)
{
    struct live_sortformer *l = live_sortformer_of(base);
    const struct steno_sortformer *s = &base->speakers->sortformer;
    const size_t ahead =
        (s->live.chunk + s->live.right + 1) * STENO_SORTFORMER_SAMPLES + STENO_RESAMPLER_PART;
    const steno_status st =
        steno_sortformer_stream_open(&l->stream, s, &s->live, label_rows, l, err);
    base->shift = STENO_SORTFORMER_SAMPLES / s->parts;
    base->n_labels = (int)s->speakers;
    return st || !base->speakers->embedding.net
               ? st
               : steno_sortformer_voices_open(&l->voices, s, base->speakers->embedding.dim, ahead,
                                              err);
}

static void close_live_sortformer(steno_live_speakers *base)
{
    struct live_sortformer *l = live_sortformer_of(base);
    steno_sortformer_stream_close(&l->stream);
    steno_sortformer_voices_close(&l->voices);
}

static steno_status take_live_sortformer(steno_live_speakers *base, steno_live_networks *w,
                                         const float *x, size_t n, steno_err *err)
{
    struct live_sortformer *l = live_sortformer_of(base);
    l->embedder = base->n_prints ? w->embedder : NULL;
    if (l->voices.pcm)
        steno_sortformer_voices_push(&l->voices, x, n);
    return steno_sortformer_stream_push(&l->stream, w->session, x, n, err);
}

static steno_status flush_live_sortformer(steno_live_speakers *base, steno_live_networks *w,
                                          steno_err *err)
{
    struct live_sortformer *l = live_sortformer_of(base);
    if (base->samples / (int64_t)base->shift <= steno_live_labelled(base))
        return STENO_OK;
    return steno_sortformer_stream_peek(&l->stream, w->session, err);
}

static steno_status end_live_sortformer(steno_live_speakers *base, steno_live_networks *w,
                                        steno_err *err)
{
    struct live_sortformer *l = live_sortformer_of(base);
    return steno_sortformer_stream_end(&l->stream, w->session, err);
}

static double voice_live_sortformer(const steno_live_speakers *base, int label, float *out)
{
    const struct live_sortformer *l = (const struct live_sortformer *)base;
    const float seconds = l->voices.pcm ? steno_sortformer_voices_of(&l->voices, label, out) : 0;
    if (seconds > 0)
        steno_cluster_unit(out, 1, base->speakers->embedding.dim);
    return (double)seconds;
}

const struct steno_live_method steno_live_by_sortformer = {.size = sizeof(struct live_sortformer),
                                                           .open = open_live_sortformer,
                                                           .close = close_live_sortformer,
                                                           .take = take_live_sortformer,
                                                           .flush = flush_live_sortformer,
                                                           .end = end_live_sortformer,
                                                           .voice = voice_live_sortformer};
