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
