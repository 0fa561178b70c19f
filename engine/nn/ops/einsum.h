/* A sum of products of two factors over strided axes, computed by matrix products: what Einsum of
 * two factors is. */
#ifndef STENO_NN_OPS_EINSUM_H
#define STENO_NN_OPS_EINSUM_H

#include "nn/ops/internal.h"

enum { STENO_EINSUM_A, STENO_EINSUM_B, STENO_EINSUM_Y };

/* n: the extent. step: of A, B and the result, in elements; 0 where the axis is not in it. */
struct steno_einsum_axis {
    int64_t n, step[3];
};

/* y[result axes] = sum over the other axes of a * b, in f32.
 * axis: [n] axes of extents of 1 and more, those of the result in its order, then the summed ones;
 * n is at most 2 * STENO_MAX_RANK. y is dense.
 * Factors and results that no matrix product can address are copied. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ops_einsum_product(struct steno_op_ctx *ctx,
                                                 const struct steno_einsum_axis *axis, int n,
                                                 const float *a, const float *b, float *y,
                                                 steno_err *err);

#endif
