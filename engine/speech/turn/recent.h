/* The last STENO_TURN_SAMPLES of a speaker, at the network's rate. Memory grows up to 640 KB. */
#ifndef STENO_TURN_RECENT_H
#define STENO_TURN_RECENT_H

#include "speech/turn/features.h"

typedef struct steno_turn_recent steno_turn_recent; /* confined */

/* rate: of the samples, Hz. Errors of steno_resampler_open. */
STENO_MUST steno_status steno_turn_recent_open(steno_turn_recent **out, int rate, steno_err *err);
void steno_turn_recent_close(steno_turn_recent *r);
/* Append pcm [n]. */
STENO_MUST steno_status steno_turn_recent_push(steno_turn_recent *r, const float *pcm, size_t n,
                                               steno_err *err);
/* No more samples come: take what the resampler holds back. */
STENO_MUST steno_status steno_turn_recent_end(steno_turn_recent *r, steno_err *err);
/* The samples that are kept: *n at the result, valid until the next push. */
const float *steno_turn_recent_samples(const steno_turn_recent *r, size_t *n);
/* Begin a new signal of the same rate. */
STENO_MUST steno_status steno_turn_recent_reset(steno_turn_recent *r, steno_err *err);
/* Forget all but the last n samples at the network's rate. */
void steno_turn_recent_keep(steno_turn_recent *r, size_t n);

#endif
