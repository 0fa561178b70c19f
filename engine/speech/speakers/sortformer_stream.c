/* Log-mel frames gather until a step has all it reads: frames before its chunk, the chunk, frames
 * after it. What a step says of its chunk is told; then its frames are remembered. NeMo's
 * streaming_feat_loader divides a whole recording so; the last steps have what there is. */
#include "speech/speakers/sortformer_stream.h"

#include <stdlib.h>
#include <string.h>

#include "speech/features/logmel.h"

#define MELS STENO_SORTFORMER_MELS
#define EDGE 4 /* mel frames that only the end of a stream completes */

steno_status steno_sortformer_stream_open(struct steno_sortformer_stream *f,
                                          const struct steno_sortformer *s,
                                          const struct steno_sortformer_steps *steps,
                                          steno_sortformer_told_fn *told, void *ctx, steno_err *err)
{
    const struct steno_fbank_options mel = steno_logmel_nemo(STENO_SORTFORMER_RATE, s->bins);
    const struct steno_arrival_rules rules = {.cache = steps->cache,
                                              .queue = steps->queue,
                                              .chunk = steps->chunk,
                                              .period = steps->period,
                                              .speakers = s->speakers,
                                              .dim = s->dim,
                                              .rests = s->rests,
                                              .silence = s->silence};
    steno_status st;
    *f = (struct steno_sortformer_stream){.s = s, .steps = *steps, .told = told, .ctx = ctx};
    f->most = steno_sortformer_most(s, steps) * MELS;
    f->cap = f->most + EDGE;
    f->mel = malloc(f->cap * s->bins * sizeof *f->mel);
    f->read = malloc(f->most * s->bins * sizeof *f->read);
    st = f->mel && f->read ? steno_arrival_init(&f->memory, &rules, err)
                           : steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    if (!st)
        st = steno_fbank_open(&f->fbank, &mel, err);
    if (!st)
        st = steno_fbank_open_like(&f->ahead, f->fbank, err);
    if (st)
        steno_sortformer_stream_close(f);
    return st;
}

void steno_sortformer_stream_close(struct steno_sortformer_stream *f)
{
    steno_arrival_free(&f->memory);
    steno_fbank_close(f->ahead);
    steno_fbank_close(f->fbank);
    free(f->mel);
    free(f->read);
    memset(f, 0, sizeof *f);
}

static size_t frames_of(size_t rows)
{
    return (rows + MELS - 1) / MELS;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Run the network on the first n rows that are there, and tell the frames [skip, skip + frames). */
static steno_status tell_step(struct steno_sortformer_stream *f, steno_session *session, size_t n,
                              size_t skip, size_t frames, bool provisional,
                              struct steno_sortformer_answer *a, steno_err *err)
{
    const size_t parts = f->s->parts;
    steno_status st = steno_sortformer_run(f->s, session, f->read, n, &f->memory, a, err);
    return st ? st
              : f->told(f->ctx, a->told + skip * parts * f->s->speakers, frames * parts,
                        provisional, err);
}

/* Take the next chunk, of which so many rows are there, and drop what no later step reads. */
static steno_status take_step(struct steno_sortformer_stream *f, steno_session *session,
                              size_t rows, steno_err *err)
{
    const size_t bins = f->s->bins, skip = f->left / MELS, end = f->left + rows;
    const size_t n = end + smaller(f->steps.right * MELS, f->have - end);
    const size_t kept = smaller(f->steps.left * MELS, end);
    struct steno_sortformer_answer a;
    steno_status st;
    memcpy(f->read, f->mel, n * bins * sizeof *f->mel);
    st = tell_step(f, session, n, skip, frames_of(rows), false, &a, err);
    if (st)
        return st;
    steno_arrival_take(&f->memory, a.memory, a.embeddings + skip * f->s->dim,
                       a.probs + skip * f->s->speakers, frames_of(rows));
    f->have -= end - kept;
    memmove(f->mel, f->mel + (end - kept) * bins, f->have * bins * sizeof *f->mel);
    f->left = kept;
    return STENO_OK;
}

steno_status steno_sortformer_stream_push(struct steno_sortformer_stream *f, steno_session *session,
                                          const float *pcm, size_t n, steno_err *err)
{
    const size_t chunk = f->steps.chunk * MELS, whole = chunk + f->steps.right * MELS;
    while (n) {
        size_t used, made;
        steno_status st = steno_fbank_push(f->fbank, pcm, n, &used, f->mel + f->have * f->s->bins,
                                           f->cap - f->have, &made);
        if (st == STENO_NEED_MORE)
            st = STENO_OK;
        f->have += made;
        while (!st && f->have - f->left >= whole)
            st = take_step(f, session, chunk, err);
        if (st)
            return st;
        pcm += used;
        n -= used;
    }
    return STENO_OK;
}

steno_status steno_sortformer_stream_peek(struct steno_sortformer_stream *f, steno_session *session,
                                          steno_err *err)
{
    const size_t skip = f->left / MELS;
    size_t n = f->have, made = 1;
    struct steno_sortformer_answer a;
    steno_status st = STENO_OK;
    memcpy(f->read, f->mel, f->have * f->s->bins * sizeof *f->mel);
    steno_fbank_follow(f->ahead, f->fbank);
    while (!st && made && n < f->most) {
        st = steno_fbank_flush(f->ahead, f->read + n * f->s->bins, f->most - n, &made);
        n += made;
    }
    if (st || frames_of(n) <= skip)
        return st;
    return tell_step(f, session, n, skip, frames_of(n) - skip, true, &a, err);
}

steno_status steno_sortformer_stream_end(struct steno_sortformer_stream *f, steno_session *session,
                                         steno_err *err)
{
    size_t made = 1;
    steno_status st = STENO_OK;
    while (!st && made && f->have < f->cap) {
        st = steno_fbank_flush(f->fbank, f->mel + f->have * f->s->bins, f->cap - f->have, &made);
        f->have += made;
    }
    while (!st && f->have > f->left)
        st = take_step(f, session, smaller(f->steps.chunk * MELS, f->have - f->left), err);
    return st;
}
