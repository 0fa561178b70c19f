/* Scores that a network gave, before a search reads them. */
#ifndef STENO_FAMILIES_COMMON_SCORES_H
#define STENO_FAMILIES_COMMON_SCORES_H

#include "base/status.h"

/* Number of the highest of n >= 1 scores, the first of equals. */
int32_t steno_scores_likeliest(const float *x, int n);
/* out[i] = x[i] - log sum exp x, for n >= 1 scores; out may be x. */
void steno_log_softmax(const float *x, size_t n, float *out);
/* STENO_ERR_FORMAT: a score is NaN. file: for messages. */
STENO_MUST steno_status steno_scores_check(const float *scores, size_t n, const char *file,
                                           steno_err *err);

#endif
