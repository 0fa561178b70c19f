/* The epilogue of a matrix product or convolution, one element at a time. */
#ifndef STENO_NN_KERNELS_SCALAR_EPILOGUE_H
#define STENO_NN_KERNELS_SCALAR_EPILOGUE_H

#include "nn/kernels/kernels.h"

#include <math.h>

static inline float swoosh_scalar(float x, float shift, float offset)
{
    float z = x - shift, softplus = (z > 0 || z != z ? z : 0.0f) + log1pf(expf(-fabsf(z)));
    return softplus - 0.08f * x - offset;
}

/* Sigmoid and softplus use e^-|v|, so that nothing overflows and results near zero keep their
 * digits. */
static inline float softplus_scalar(float v)
{
    return (v > 0 || v != v ? v : 0.0f) + log1pf(expf(-fabsf(v)));
}

static inline float hard_sigmoid_scalar(float v, float a, float b)
{
    float y = a * v + b;
    return y < 0.0f ? 0.0f : y > 1.0f ? 1.0f : y;
}

static inline float elu_scalar(float v, float a, float b)
{
    return v > 0.0f ? v : a * expm1f(b * v);
}

static inline float activate_scalar(float v, const struct steno_gemm_epilogue *ep)
{
    switch (ep->act) {
    case STENO_ACT_NONE:
        break;
    case STENO_ACT_RELU:
        return v > 0.0f || v != v ? v : 0.0f;
    case STENO_ACT_SIGMOID:
        return 1.0f / (1.0f + expf(-v));
    case STENO_ACT_TANH:
        return tanhf(v);
    case STENO_ACT_SILU:
        return v / (1.0f + expf(-v));
    case STENO_ACT_GELU:
        return 0.5f * v * (1.0f + erff(v * 0.70710678118654752440f));
    case STENO_ACT_CLIP:
        return v < ep->act_min ? ep->act_min : v > ep->act_max ? ep->act_max : v;
    case STENO_ACT_SWOOSH:
        return swoosh_scalar(v, ep->act_min, ep->act_max);
    case STENO_ACT_HARD_SIGMOID:
        return hard_sigmoid_scalar(v, ep->act_min, ep->act_max);
    case STENO_ACT_HARD_SWISH:
        return v * hard_sigmoid_scalar(v, 1 / 6.0f, 0.5f);
    case STENO_ACT_LEAKY_RELU:
        return v < 0.0f ? ep->act_min * v : v;
    case STENO_ACT_ELU:
        return elu_scalar(v, ep->act_min, ep->act_max);
    case STENO_ACT_SOFTPLUS:
        return softplus_scalar(v);
    case STENO_ACT_SOFTSIGN:
        return v / (1.0f + fabsf(v));
    case STENO_ACT_MISH:
        return v * tanhf(softplus_scalar(v));
    }
    return v;
}

/* Epilogue of element (i, j): row i, column j of C. */
static inline float epilogue_scalar(float v, size_t i, size_t j,
                                    const struct steno_gemm_epilogue *ep)
{
    if (!ep)
        return v;
    v *= ep->alpha;
    if (ep->bias)
        v += ep->bias[ep->bias_rows ? i : j];
    v = activate_scalar(v, ep);
    return ep->residual ? v + ep->residual[i * ep->ldr + j] : v;
}

#endif
