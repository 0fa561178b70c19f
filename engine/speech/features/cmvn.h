/* Mean and variance normalisation of feature frames. */
#ifndef STENO_FEATURES_CMVN_H
#define STENO_FEATURES_CMVN_H

#include "base/status.h"

typedef struct steno_cmvn steno_cmvn; /* global statistics; frozen after open */

/* y = (x - mean) / std per dimension. mean, std: [dim], copied; NULL mean = 0, NULL std = 1.
 * STENO_ERR_INVAL: a std that is not a positive finite number. */
STENO_MUST steno_status steno_cmvn_open(steno_cmvn **out, const float *mean, const float *std,
                                        size_t dim, steno_err *err);
/* The same as y = (x + neg_mean) * inv_std: FunASR's am.mvn and the metadata of its ONNX exports.
 */
STENO_MUST steno_status steno_cmvn_open_inverse(steno_cmvn **out, const float *neg_mean,
                                                const float *inv_std, size_t dim, steno_err *err);
void steno_cmvn_close(steno_cmvn *c);
/* Normalize in place, x [frames, dim]. */
void steno_cmvn_apply(const steno_cmvn *c, float *x, size_t frames);

/* Normalisation by the statistics of the utterance itself. */
struct steno_utterance_norm {
    bool keep_means; /* do not subtract each dimension's mean */
    bool vars;       /* divide by max(std, least) + eps, std with divisor frames - ddof */
    unsigned ddof;
    double eps, least;
};
#define STENO_NORM_NEMO                                                                            \
    ((struct steno_utterance_norm){.vars = true, .ddof = 1, .eps = 1e-5, .least = 1e-20})
#define STENO_NORM_ESPNET ((struct steno_utterance_norm){.vars = true, .least = 1e-20})
/* Normalize in place, x [frames, dim]. With frames < ddof + 1 it does not divide. NEMO: NeMo's
 * "per_feature"; ESPNET: utterance_mvn with norm_vars (espnet2/layers/utterance_mvn.py). */
void steno_cmvn_utterance(float *x, size_t frames, size_t dim,
                          const struct steno_utterance_norm *o);

#endif
