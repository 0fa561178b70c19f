/* Products of 8-bit tensors, shared by every operator that has one: weights packed once, zero
 * points, work shared out over the team (kernels.h, struct steno_gemm_i8).
 *
 * The whole way for a caller with f32 activations x [m,k] and weights packed at load:
 *     q = steno_op_scratch(ctx, m * k);
 *     steno_ops_range(ctx, x, m * k, &scale, &zero);
 *     steno_ops_quantize(ctx, q, x, m * k, scale, zero);
 *     steno_ops_gemm_i8(ctx, &(struct steno_gemm_i8){m, n, k, q, k, ...}); */
#ifndef STENO_NN_OPS_INT8_H
#define STENO_NN_OPS_INT8_H

#include "nn/ops/matmul.h"

/* Weights [k, n] with their zero points in the kernel's layout. Frozen. */
struct steno_packed_i8 {
    size_t k, n;
    size_t bytes;
    void *data;
    void *own; /* the block when it goes with this, NULL when it is the network's */
};

static inline bool steno_ops_is_byte(steno_dtype t)
{
    return t == STENO_U8 || t == STENO_I8;
}

/* The packed form of 8-bit q [K,N], or [N,K] when trans. zero: NULL, one or N entries of its type;
 * checked by the caller. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_packed_i8_new(const steno_kernels *k, const void *q, steno_dtype t,
                                            bool trans, size_t rows, size_t cols,
                                            const struct steno_tensor *zero,
                                            struct steno_packed_i8 **out, steno_err *err);
void steno_packed_i8_free(void *w); /* a release function; accepts NULL */

/* While preparing: inputs w_in and zero_in (may be past the node's inputs) packed into *out when
 * they are constant bytes [K,N] that fit each other; else *out is NULL and run sees to it. The
 * original is given up. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_prepare_pack_i8(struct steno_prepare *pc, int w_in, int zero_in,
                                              struct steno_packed_i8 **out, steno_err *err);

/* Element i of zero points, u8 or i8. */
int32_t steno_ops_zero_at(const struct steno_tensor *z, size_t i);
/* gemm_i8_pack with the zero points of a tensor: NULL, one or one for each column. False: no
 * memory. */
bool steno_ops_pack_i8(const steno_kernels *k, void *packed, const struct steno_weights_i8 *w,
                       const struct steno_tensor *zero);

/* One product (or a batch of them) as an operator has it. */
struct steno_product_i8 {
    const struct steno_tensor *a, *a_zero; /* zero NULL = 0; one, one for each row of a matrix, or
                                              one for each row of all */
    const struct steno_tensor *b, *b_zero; /* one, one for each column, or one for each column of
                                              each matrix; b_zero is not read when w is there */
    const struct steno_packed_i8 *w;       /* b packed at load, or NULL */
    size_t scale_step;                     /* from a matrix of B to the next: 0, 1 or N */
};
/* Geometry, types and sizes. STENO_ERR_INVAL. */
STENO_MUST steno_status steno_ops_product_i8_plan(struct steno_op_ctx *ctx,
                                                  const struct steno_product_i8 *x,
                                                  struct steno_matmul *p, steno_err *err);
/* c = every product, after the epilogue of `like` (scale, row_scale of all rows, ep; the rest of it
 * is filled in here). x has been planned. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ops_product_i8(struct steno_op_ctx *ctx,
                                             const struct steno_product_i8 *x,
                                             const struct steno_matmul *p,
                                             const struct steno_gemm_i8 *like, void *c,
                                             steno_err *err);

/* One product on the team. */
void steno_ops_gemm_i8(struct steno_op_ctx *ctx, const struct steno_gemm_i8 *g);

/* Scale and zero point of x over its own range and 0, to u8. ONNX DynamicQuantizeLinear, opset 11.
 * n = 0 and all zeros give 1 and 0. */
void steno_ops_range(const steno_kernels *k, const float *x, size_t n, float *scale, int32_t *zero);
/* scale[i] * with[i * step] for n columns, in scratch; NULL when out of memory. */
float *steno_ops_scales(struct steno_op_ctx *ctx, float scale, const float *with, size_t step,
                        size_t n);
/* u8 of n elements of x, on the team. */
void steno_ops_quantize(struct steno_op_ctx *ctx, void *q, const float *x, size_t n, float scale,
                        int32_t zero, bool to_signed);

#endif
