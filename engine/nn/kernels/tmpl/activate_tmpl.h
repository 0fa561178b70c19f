/* The activation of an epilogue, on n vectors (math_tmpl.h) or on one. Included after
 * math_tmpl.h. */
#ifndef STENO_NN_KERNELS_TMPL_ACTIVATE_TMPL_H
#define STENO_NN_KERNELS_TMPL_ACTIVATE_TMPL_H

#include "nn/kernels/kernels.h"

V_MANY_OF activate_each(vf *v, int n, const struct steno_gemm_epilogue *ep)
{
    switch (ep->act) {
    case STENO_ACT_NONE:
        break;
    case STENO_ACT_RELU:
        V_EACH(i, n) v[i] = v_max(v_zero(), v[i]);
        break;
    case STENO_ACT_SIGMOID:
        v_sigmoid_each(v, n);
        break;
    case STENO_ACT_TANH:
        v_tanh_each(v, n);
        break;
    case STENO_ACT_SILU:
        v_silu_each(v, n);
        break;
    case STENO_ACT_GELU:
        v_gelu_each(v, n);
        break;
    case STENO_ACT_CLIP:
        V_EACH(i, n) v[i] = v_clamp(v[i], ep->act_min, ep->act_max);
        break;
    case STENO_ACT_SWOOSH:
        v_swoosh_each(v, n, ep->act_min, ep->act_max);
        break;
    }
}

static inline vf activate(vf v, const struct steno_gemm_epilogue *ep)
{
    activate_each(&v, 1, ep);
    return v;
}

#endif
