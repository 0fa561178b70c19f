/* What the com.microsoft families share: weights of 8 bits and activations quantized at run time.
 */
#ifndef STENO_NN_OPS_CONTRIB_H
#define STENO_NN_OPS_CONTRIB_H

#include "nn/ops/internal.h"

/* Input i, NULL when it is absent or beyond the node's inputs. */
static inline const struct steno_tensor *steno_contrib_in(const struct steno_op_ctx *ctx, int i)
{
    return i < steno_op_n_in(ctx) ? steno_op_in(ctx, i) : NULL;
}

/* Weights [..., K, N] of u8 or i8 with scale and zero point: one, one per column, one per matrix or
 * one per column and matrix. */
struct steno_int8 {
    const struct steno_tensor *q, *scale, *zero; /* zero NULL = 0 */
};

/* NULL, or what is wrong with types and sizes. */
const char *steno_int8_check(const struct steno_int8 *w);
/* (q - zero) * scale as f32, every element; w has been checked. */
void steno_int8_widen(const struct steno_int8 *w, float *out);
/* For a product by w in integers (nn/ops/int8.h): its scales times `with`, one for each column, or
 * for each column of each matrix (*step = N, else 0); and its zero points in *zero in a form that
 * the product takes (its data in scratch where that differs from w's). w has been checked.
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_int8_spread(struct steno_op_ctx *ctx, const struct steno_int8 *w,
                                          const struct steno_shape *shape, float with,
                                          const float **scale, size_t *step,
                                          struct steno_tensor *zero, steno_err *err);
/* Widened into scratch. Errors of steno_int8_check, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_int8_scratch(struct steno_op_ctx *ctx, const struct steno_int8 *w,
                                           const float **out, steno_err *err);
/* x as u8 over its own range and 0, as DynamicQuantizeLinear does: y = q - zero, whole numbers.
 * Returns the scale. x == y allowed. */
float steno_contrib_dynamic(const steno_kernels *k, const float *x, size_t n, float *y);
bool steno_ops_fused_act_known(const char *name);
/* In place, the attribute "activation" of FusedGemm and FusedConv: Relu, Sigmoid, Tanh, LeakyRelu,
 * HardSigmoid, Elu, Softplus, Softsign, ThresholdedRelu, Clip; ours Swish, HardSwish, Gelu.
 * Parameters are activation_params, or
 * activation_alpha, activation_beta (activation_gamma) by name. No attribute: nothing.
 * STENO_ERR_UNSUPPORTED for another name. */
STENO_MUST steno_status steno_ops_fused_act(const struct steno_op_ctx *ctx, float *x, size_t n,
                                            steno_err *err);

#endif
