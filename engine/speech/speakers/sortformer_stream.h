/* A stream through a Sortformer: samples in, probabilities of speakers out. How the samples were
 * divided does not matter. Memory does not grow. */
#ifndef STENO_SPEAKERS_SORTFORMER_STREAM_H
#define STENO_SPEAKERS_SORTFORMER_STREAM_H

#include "speech/features/fbank.h"
#include "speech/speakers/sortformer.h"

/* What is told of the rows that come after those of the last call: p [n, speakers]. provisional:
 * of a peek, and told again later. */
typedef steno_status steno_sortformer_told_fn(void *ctx, const float *p, size_t n, bool provisional,
                                              steno_err *err);

/* Confined. */
struct steno_sortformer_stream {
    const struct steno_sortformer *s;
    struct steno_sortformer_steps steps;
    struct steno_arrival memory;
    steno_fbank *fbank, *ahead; /* the second follows the first to look ahead */
    float *mel;                 /* [cap, bins] */
    size_t cap, have;           /* rows of it */
    size_t left;                /* of these, that were told */
    float *read;                /* [most, bins] that a step reads */
    size_t most;
    steno_sortformer_told_fn *told;
    void *ctx;
};

/* steps: s->recording or s->live. f is closed after a failure too. */
STENO_MUST steno_status steno_sortformer_stream_open(struct steno_sortformer_stream *f,
                                                     const struct steno_sortformer *s,
                                                     const struct steno_sortformer_steps *steps,
                                                     steno_sortformer_told_fn *told, void *ctx,
                                                     steno_err *err);
void steno_sortformer_stream_close(struct steno_sortformer_stream *f);
/* Take samples [n] at STENO_SORTFORMER_RATE. */
STENO_MUST steno_status steno_sortformer_stream_push(struct steno_sortformer_stream *f,
                                                     steno_session *session, const float *pcm,
                                                     size_t n, steno_err *err);
/* Tell all rows up to now, as if the stream ended here, and change nothing. */
STENO_MUST steno_status steno_sortformer_stream_peek(struct steno_sortformer_stream *f,
                                                     steno_session *session, steno_err *err);
/* The stream ends: tell all rows. */
STENO_MUST steno_status steno_sortformer_stream_end(struct steno_sortformer_stream *f,
                                                    steno_session *session, steno_err *err);

#endif
