#include "tests/kernels/kcheck.h"

static double softplus(double v)
{
    return fmax(v, 0) + log1p(exp(-fabs(v)));
}

static double hard_sigmoid(double v, double a, double b)
{
    return fmax(fmin(a * v + b, 1), 0);
}

double activation_of(double v, const struct steno_gemm_epilogue *ep)
{
    const double a = (double)ep->act_min, b = (double)ep->act_max;
    switch (ep->act) {
    case STENO_ACT_NONE:
        break;
    case STENO_ACT_RELU:
        return v > 0 ? v : 0;
    case STENO_ACT_SIGMOID:
        return 1 / (1 + exp(-v));
    case STENO_ACT_TANH:
        return tanh(v);
    case STENO_ACT_SILU:
        return v / (1 + exp(-v));
    case STENO_ACT_GELU:
        return 0.5 * v * (1 + erf(v * 0.70710678118654752440));
    case STENO_ACT_CLIP:
        return fmin(fmax(v, a), b);
    case STENO_ACT_SWOOSH:
        return softplus(v - a) - 0.08 * v - b;
    case STENO_ACT_HARD_SIGMOID:
        return hard_sigmoid(v, a, b);
    case STENO_ACT_HARD_SWISH:
        return v * hard_sigmoid(v, 1 / 6.0, 0.5);
    case STENO_ACT_LEAKY_RELU:
        return v < 0 ? a * v : v;
    case STENO_ACT_ELU:
        return v > 0 ? v : a * expm1(b * v);
    case STENO_ACT_SOFTPLUS:
        return softplus(v);
    case STENO_ACT_SOFTSIGN:
        return v / (1 + fabs(v));
    case STENO_ACT_MISH:
        return v * tanh(softplus(v));
    }
    return v;
}
