/* What the com.microsoft families share: 8-bit weights, and activations quantized at run time. */
#ifndef STENO_NN_OPS_CONTRIB_H
#define STENO_NN_OPS_CONTRIB_H

#include "nn/ops/internal.h"

/* Weights [..., K, N] of u8 or i8 with scale and zero point: one value, one per column, one per
 * matrix, or one per column and matrix. */
struct steno_int8 {
    const struct steno_tensor *q, *scale, *zero; /* zero NULL = 0 */
};

/* The steps by which a parameter of n entries goes over `matrices` matrices of `cols` columns.
 * False: it does not fit. */
bool steno_int8_steps(size_t n, size_t matrices, size_t cols, size_t *per_matrix, size_t *per_col);
/* Returns NULL, or a message that says what is wrong with types and sizes. */
const char *steno_int8_check(const struct steno_int8 *w);
/* out = (q - zero) * scale as f32, for every element; w has been checked. */
void steno_int8_widen(const struct steno_int8 *w, float *out);
/* Prepare a product by w in integers (nn/ops/int8.h). *scale: w's scales times `with`, one for each
 * column, or one for each column of each matrix (then *step = N, else 0). *zero: the zero points in
 * a form that the product takes (its data lies in scratch where that differs from w's). w has been
 * checked. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_int8_spread(struct steno_op_ctx *ctx, const struct steno_int8 *w,
                                          const struct steno_shape *shape, float with,
                                          const float **scale, size_t *step,
                                          struct steno_tensor *zero, steno_err *err);
/* Dequantize into scratch. Errors of steno_int8_check, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_int8_scratch(struct steno_op_ctx *ctx, const struct steno_int8 *w,
                                           const float **out, steno_err *err);
/* Rotary position: y = x [size] with pairs turned by angles whose cosines and sines are c and s
 * [half]. Pair k is elements 2k and 2k + 1 if interleaved, else k and k + half; the rest stays. */
void steno_contrib_rotate(size_t half, size_t size, bool interleaved, const float *x,
                          const float *c, const float *s, float *y);
/* Quantize x to u8 over its own range and 0, as DynamicQuantizeLinear does: y = q - zero, whole
 * numbers as f32. Returns the scale. x == y is allowed. */
float steno_contrib_dynamic(const steno_kernels *k, const float *x, size_t n, float *y);
/* Read the attribute "activation" and its parameters p. *act: STENO_ACT_NONE without the attribute
 * and for ThresholdedRelu, which no epilogue has. False: an unknown name. */
bool steno_ops_fused_act_of(const struct steno_node *n, enum steno_activation *act, float p[2]);
/* Apply the attribute "activation" of FusedGemm and FusedConv to x in place: Relu, Sigmoid, Tanh,
 * LeakyRelu, HardSigmoid, Elu, Softplus, Softsign, ThresholdedRelu, Clip; ours: Swish, HardSwish,
 * Gelu. Parameters: activation_params, or activation_alpha, activation_beta (activation_gamma) by
 * name. Without the attribute x is unchanged. STENO_ERR_UNSUPPORTED: another name. */
STENO_MUST steno_status steno_ops_fused_act(const struct steno_op_ctx *ctx, float *x, size_t n,
                                            steno_err *err);

#endif
