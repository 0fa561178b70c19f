#include "nn/ops/internal.h"

void steno_ops_activate(const steno_kernels *k, enum steno_activation act, float act_min,
                        float act_max, float *y, size_t n)
{
    switch (act) {
    case STENO_ACT_NONE:
        break;
    case STENO_ACT_RELU:
        k->relu_f32(y, y, n);
        break;
    case STENO_ACT_SIGMOID:
        k->sigmoid_f32(y, y, n);
        break;
    case STENO_ACT_TANH:
        k->tanh_f32(y, y, n);
        break;
    case STENO_ACT_SILU:
        k->silu_f32(y, y, n);
        break;
    case STENO_ACT_GELU:
        k->gelu_f32(y, y, n);
        break;
    case STENO_ACT_CLIP:
        k->clip_f32(y, y, n, act_min, act_max);
        break;
    case STENO_ACT_SWOOSH:
        k->swoosh_f32(y, y, n, act_min, act_max);
        break;
    case STENO_ACT_HARD_SIGMOID:
        k->hard_sigmoid_f32(y, y, n, act_min, act_max);
        break;
    case STENO_ACT_HARD_SWISH:
        k->hard_swish_f32(y, y, n);
        break;
    case STENO_ACT_LEAKY_RELU:
        k->leaky_relu_f32(y, y, n, act_min, 0);
        break;
    case STENO_ACT_ELU:
        k->elu_f32(y, y, n, act_min, act_max);
        break;
    case STENO_ACT_SOFTPLUS:
        k->softplus_f32(y, y, n);
        break;
    case STENO_ACT_SOFTSIGN:
        k->softsign_f32(y, y, n);
        break;
    case STENO_ACT_MISH:
        k->mish_f32(y, y, n);
        break;
    }
}
