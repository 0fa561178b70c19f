/* What follows the filter bank in FunASR's models: low frame rate, normalisation. */
#ifndef STENO_FAMILIES_FUNASR_FRONT_H
#define STENO_FAMILIES_FUNASR_FRONT_H

#include "speech/families/common/piece_features.h"
#include "speech/families/funasr/meta.h"

#define STENO_FUNASR_RATE 16000
#define STENO_FUNASR_BINS ((size_t)80)
#define STENO_FUNASR_HOP ((size_t)160)

/* Frozen: one per model. */
struct steno_funasr_front {
    struct steno_lfr lfr;
    steno_cmvn *cmvn; /* NULL: frames are not normalised */
};

/* With numbers: [window * bins] each, or NULL. STENO_ERR_FORMAT: an inverse deviation that is none.
 */
STENO_MUST steno_status steno_funasr_front_make(struct steno_funasr_front *f,
                                                const struct steno_lfr *lfr, const float *neg_mean,
                                                const float *inv_stddev, steno_err *err);

/* Confined: one per worker. */
struct steno_funasr_frames {
    float *rows; /* [n, bins * window] */
    size_t cap_rows;
};

/* Frames of a whole piece of audio: f->rows [*n, bins * window], valid until the next call.
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_funasr_frames_of(struct steno_funasr_frames *f,
                                               const struct steno_funasr_front *front,
                                               struct steno_piece_features *features,
                                               const float *pcm, size_t n, size_t *rows,
                                               steno_err *err);

#endif
