/* Mean and variance normalisation of feature frames. */
#ifndef STENO_FEATURES_CMVN_H
#define STENO_FEATURES_CMVN_H

#include "base/status.h"

typedef struct steno_cmvn steno_cmvn; /* global statistics; frozen after open */

/* y = (x - mean) / std per dimension. mean, std: [dim], copied; NULL mean = 0, NULL std = 1. A std
 * that is not a positive finite number is STENO_ERR_INVAL. */
STENO_MUST steno_status steno_cmvn_open(steno_cmvn **out, const float *mean, const float *std,
                                        size_t dim, steno_err *err);
/* From accumulated statistics (ESPnet feats_stats.npz): mean = sum / count,
 * std = sqrt(max(sum_square / count - mean^2, 1e-20)). */
STENO_MUST steno_status steno_cmvn_open_stats(steno_cmvn **out, double count, const double *sum,
                                              const double *sum_square, size_t dim, steno_err *err);
void steno_cmvn_close(steno_cmvn *c);
/* In place, x [frames, dim]. */
void steno_cmvn_apply(const steno_cmvn *c, float *x, size_t frames);

/* Per utterance, in place: subtract each dimension's mean; with `vars` also divide by
 * (std + eps), std with divisor frames - ddof (NeMo "per_feature": ddof 1, eps 1e-5; ESPnet
 * utterance_mvn: ddof 0, eps 0 and std at least 1e-20). frames - ddof < 1: means only. */
void steno_cmvn_utterance(float *x, size_t frames, size_t dim, bool vars, unsigned ddof,
                          double eps);

#endif
