/* Vectors of the speakers that a Sortformer tells apart, of what each says alone: by them people
 * are known again. */
#ifndef STENO_SPEAKERS_SORTFORMER_VOICES_H
#define STENO_SPEAKERS_SORTFORMER_VOICES_H

#include "base/array.h"
#include "speech/speakers/embedding.h"
#include "speech/speakers/sortformer.h"

/* Confined. Zeros: closed. */
struct steno_sortformer_voices {
    size_t dim, speakers, row; /* row: samples of a row that is told */
    float *pcm;                /* [cap] of rows that are not told yet */
    size_t cap, have;
    float *alone; /* [speakers, STENO_SORTFORMER_PIECE] that wait to be embedded */
    size_t n_alone[STENO_ARRIVAL_SPEAKERS];
    float *vector; /* [dim] */
    float *sum;    /* [speakers, dim] of unit vectors, each times its seconds */
    float seconds[STENO_ARRIVAL_SPEAKERS];
    struct steno_blocks memory; /* of the arrays */
};

#define STENO_SORTFORMER_PIECE 32000 /* samples that are embedded at once */

/* ahead: samples that come before their rows are told, at most; dim: of the vectors.
 * STENO_ERR_NOMEM; v is closed after a failure too. */
STENO_MUST steno_status steno_sortformer_voices_open(struct steno_sortformer_voices *v,
                                                     const struct steno_sortformer *s, size_t dim,
                                                     size_t ahead, steno_err *err);
void steno_sortformer_voices_close(struct steno_sortformer_voices *v);
/* Samples [n] come; what is more than `ahead` is lost. */
void steno_sortformer_voices_push(struct steno_sortformer_voices *v, const float *pcm, size_t n);
/* So much is said of the next rows: p [n, speakers]. embedder NULL: they are passed over. */
STENO_MUST steno_status steno_sortformer_voices_told(struct steno_sortformer_voices *v,
                                                     steno_embedder *embedder, const float *p,
                                                     size_t n, steno_err *err);
/* Embed what is left. */
STENO_MUST steno_status steno_sortformer_voices_end(struct steno_sortformer_voices *v,
                                                    steno_embedder *embedder, steno_err *err);
/* The voice of a speaker: out [dim], not of unit length. Returns the seconds behind it. */
float steno_sortformer_voices_of(const struct steno_sortformer_voices *v, int speaker, float *out);

#endif
