/* What the com.microsoft families share: weights of 8 bits and activations quantized at run time. */
#ifndef STENO_OPS_MS_H
#define STENO_OPS_MS_H

#include "ops/internal.h"

/* Input i, NULL when it is absent or beyond the node's inputs. */
static inline const struct steno_tensor *steno_ms_in(const struct steno_op_ctx *ctx, int i)
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
/* Widened into scratch. Errors of steno_int8_check, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_int8_scratch(struct steno_op_ctx *ctx, const struct steno_int8 *w,
                                           const float **out, steno_err *err);
/* x as u8 over its own range and 0, as DynamicQuantizeLinear does: y = q - zero, whole numbers.
 * Returns the scale. x == y allowed. */
float steno_ms_dynamic(const steno_kernels *k, const float *x, size_t n, float *y);
/* u8 or i8 activations less their zero point (one, or NULL) times their scale (one): f32 in scratch.
 */
STENO_MUST steno_status steno_ms_activation(struct steno_op_ctx *ctx, const struct steno_tensor *x,
                                            const struct steno_tensor *scale,
                                            const struct steno_tensor *zero, const float **out,
                                            steno_err *err);

bool steno_ops_fused_act_known(const char *name);
/* In place, the attribute "activation" of FusedGemm and FusedConv: Relu, Sigmoid, Tanh, LeakyRelu,
 * HardSigmoid, Elu, Softplus, Softsign, ThresholdedRelu, Clip. Parameters are activation_params, or
 * activation_alpha, activation_beta (activation_gamma) by name. No attribute: nothing.
 * STENO_ERR_UNSUPPORTED for another name. */
STENO_MUST steno_status steno_ops_fused_act(const struct steno_op_ctx *ctx, float *x, size_t n,
                                            steno_err *err);

#endif
