/* Trials of a cached encoder: steps on noise, to time them, and to test a network at load. */
#ifndef STENO_FAMILIES_COMMON_CACHED_ENCODER_TRIAL_H
#define STENO_FAMILIES_COMMON_CACHED_ENCODER_TRIAL_H

#include "speech/families/common/cached_encoder.h"

/* Trials of struct steno_family, on the batch of a worker, borrowed. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_cached_encoder_trial_open(void **trial, steno_cached_encoder_batch *b,
                                                        steno_err *err);
STENO_MUST steno_status steno_cached_encoder_trial_run(void *trial, int size, steno_err *err);
void steno_cached_encoder_trial_close(void *trial);

/* What a search reads of a step. */
struct steno_cached_encoder_reader {
    /* Write out [n, values] for y [n, frames, width] of n <= 2 streams. NULL: y itself. */
    steno_status (*read)(void *arg, const float *y, size_t n, float *out, steno_err *err);
    void *arg;
    size_t values; /* of one stream; not used without `read` */
    /* Any difference between a batch and streams alone counts. For quantized networks, which may
     * have products that round over the range of the whole batch. */
    bool exact;
};

/* Run a few steps on noise, alone and as a batch, so that a network that fails does so at load and
 * not with the first stream. Where the streams of a batch change each other's results, e takes no
 * batches (e->batches). b: of e, for two streams. Errors of the steps and of r->read;
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_cached_encoder_try(struct steno_cached_encoder *e,
                                                 steno_cached_encoder_batch *b,
                                                 const struct steno_cached_encoder_reader *r,
                                                 steno_err *err);

#endif
