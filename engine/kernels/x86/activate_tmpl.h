/* The activation of an epilogue on one vector. Included after math_tmpl.h. */
#ifndef STENO_KERNELS_X86_ACTIVATE_TMPL_H
#define STENO_KERNELS_X86_ACTIVATE_TMPL_H

#include "kernels/kernels.h"

static inline vf activate(vf v, const struct steno_gemm_epilogue *ep)
{
    switch (ep->act) {
    case STENO_ACT_NONE:
        break;
    case STENO_ACT_RELU:
        return v_max(v_zero(), v);
    case STENO_ACT_SIGMOID:
        return v_sigmoid(v);
    case STENO_ACT_TANH:
        return v_tanh(v);
    case STENO_ACT_SILU:
        return v_silu(v);
    case STENO_ACT_GELU:
        return v_gelu(v);
    case STENO_ACT_CLIP:
        return v_clamp(v, ep->act_min, ep->act_max);
    case STENO_ACT_SWOOSH:
        return v_swoosh(v, ep->act_min, ep->act_max);
    }
    return v;
}

#endif
