/* Feature frames of a piece of audio at once, in memory that the next piece uses again. */
#ifndef STENO_FAMILIES_COMMON_PIECE_FEATURES_H
#define STENO_FAMILIES_COMMON_PIECE_FEATURES_H

#include <stdbool.h>

#include "speech/features/fbank.h"

/* Confined: one for each worker. */
struct steno_piece_features {
    steno_fbank *fbank;
    float *frames; /* [n, bins] of the last piece */
    size_t cap;    /* floats */
};

/* front: of the model, which outlives f. STENO_ERR_NOMEM. Close also after a failure. */
STENO_MUST steno_status steno_piece_features_open(struct steno_piece_features *f,
                                                  const steno_fbank *front, steno_err *err);
void steno_piece_features_close(struct steno_piece_features *f);
/* Compute the frames of pcm [n]: f->frames [*frames, bins], valid until the next call. *frames is 0
 * if there are too few samples for one. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_piece_features_compute(struct steno_piece_features *f,
                                                     const float *pcm, size_t n, size_t *frames,
                                                     steno_err *err);

/* Make room for n floats in an aligned block *p of *cap floats, whose content is lost if it moves.
 * False: out of memory; the block stays. */
bool steno_floats_reserve(float **p, size_t *cap, size_t n);
/* The same; the first `keep` floats stay. */
bool steno_floats_extend(float **p, size_t *cap, size_t n, size_t keep);

#endif
