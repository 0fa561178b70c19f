/* Products of 8-bit tensors, shared by every operator that has one: weights packed once, zero
 * points, parallel work (kernels.h, struct steno_gemm_i8).
 *
 * A caller with f32 activations x [m,k] and weights packed at load does this:
 *     q = steno_op_scratch(ctx, m * k);
 *     steno_ops_range(kernels, x, m * k, &scale, &zero);
 *     steno_ops_quantize(ctx, q, x, m * k, scale, zero, false);
 *     steno_ops_gemm_i8(ctx, &(struct steno_gemm_i8){m, n, k, q, k, ...}); */
#ifndef STENO_NN_OPS_INT8_H
#define STENO_NN_OPS_INT8_H

#include "nn/ops/matmul.h"

/* Weights [k, n] with their zero points in the kernel's layout. Frozen. */
struct steno_packed_i8 {
    size_t k, n;
    size_t bytes;
    void *data;
    void *own; /* the block if it is freed with this struct, NULL if it is the network's */
};

/* Pack 8-bit weights q [K,N], or [N,K] when trans. zero: NULL, one or N entries of q's type; the
 * caller has checked it. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_packed_i8_new(const steno_kernels *k, const void *q, steno_dtype t,
                                            bool trans, size_t rows, size_t cols,
                                            const struct steno_tensor *zero,
                                            struct steno_packed_i8 **out, steno_err *err);
void steno_packed_i8_free(void *w); /* a release function; accepts NULL */

/* While preparing: pack inputs w_in and zero_in (may be past the node's inputs) into *out if they
 * are constant bytes [K,N] that fit each other, and release the original. Else *out is NULL, and
 * run packs them. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_prepare_pack_i8(struct steno_prepare *pc, int w_in, int zero_in,
                                              struct steno_packed_i8 **out, steno_err *err);

/* Element i of a tensor of zero points, u8 or i8. */
int32_t steno_ops_zero_at(const struct steno_tensor *z, size_t i);
/* gemm_i8_pack with the zero points of a tensor: NULL, one, or one for each column. False: out of
 * memory. */
bool steno_ops_pack_i8(const steno_kernels *k, void *packed, const struct steno_weights_i8 *w,
                       const struct steno_tensor *zero);

/* The factors of one product, or of a batch of products, as an operator has them. */
struct steno_product_i8 {
    /* a_zero: one, one per row of a matrix, or one per row of all matrices; NULL = 0. b_zero: one,
     * one per column, or one per column of each matrix; not read when w is set. */
    const struct steno_tensor *a, *a_zero;
    const struct steno_tensor *b, *b_zero;
    const struct steno_packed_i8 *w; /* b packed at load, or NULL */
    size_t scale_step;               /* step from one matrix of B to the next: 0, 1 or N */
};
/* Check geometry, types and sizes, and fill *p. STENO_ERR_INVAL. */
STENO_MUST steno_status steno_ops_product_i8_plan(struct steno_op_ctx *ctx,
                                                  const struct steno_product_i8 *x,
                                                  struct steno_matmul *p, steno_err *err);
/* Compute all products and apply the epilogue of `like` (scale, row_scale of all rows, ep; the rest
 * of `like` is filled in here). steno_ops_product_i8_plan was called for x. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ops_product_i8(struct steno_op_ctx *ctx,
                                             const struct steno_product_i8 *x,
                                             const struct steno_matmul *p,
                                             const struct steno_gemm_i8 *like, void *c,
                                             steno_err *err);

/* One product on the worker team. */
void steno_ops_gemm_i8(struct steno_op_ctx *ctx, const struct steno_gemm_i8 *g);

/* Scale and zero point for quantizing x to u8 over its own range and 0: ONNX DynamicQuantizeLinear,
 * opset 11. n = 0 and all zeros give scale 1 and zero point 0. */
void steno_ops_range(const steno_kernels *k, const float *x, size_t n, float *scale, int32_t *zero);
/* scale * with[i * step] for n columns, in scratch; NULL when out of memory. */
float *steno_ops_scales(struct steno_op_ctx *ctx, float scale, const float *with, size_t step,
                        size_t n);
/* Quantize n elements of x to u8, or to i8 when to_signed, on the worker team. */
void steno_ops_quantize(struct steno_op_ctx *ctx, void *q, const float *x, size_t n, float scale,
                        int32_t zero, bool to_signed);

#endif
