/* The activation of an epilogue, on n vectors (math_tmpl.h) or on one. Included after
 * math_tmpl.h. */
#ifndef STENO_NN_KERNELS_TMPL_ACTIVATE_TMPL_H
#define STENO_NN_KERNELS_TMPL_ACTIVATE_TMPL_H

#include "nn/kernels/kernels.h"
#include "nn/kernels/tmpl/curves_tmpl.h"

/* Activations that few networks have, on n vectors in memory: a call instead of code in every
 * kernel. elementwise_tmpl.h has the function, once per vector width. */
#define ACTIVATE_RARELY V_CAT(steno_activate_rarely, VL)
void ACTIVATE_RARELY(vf *v, int n, enum steno_activation act, float a, float b);

V_MANY_OF activate_each(vf *v, int n, const struct steno_gemm_epilogue *ep)
{
    vf apart[V_MANY];
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
    case STENO_ACT_HARD_SWISH:
        V_EACH(i, n) v[i] = v_hard_swish(v[i]);
        break;
    case STENO_ACT_HARD_SIGMOID:
    case STENO_ACT_LEAKY_RELU:
    case STENO_ACT_ELU:
    case STENO_ACT_SOFTPLUS:
    case STENO_ACT_SOFTSIGN:
    case STENO_ACT_MISH:
        V_EACH(i, n) apart[i] = v[i]; /* so that v stays in registers */
        ACTIVATE_RARELY(apart, n, ep->act, ep->act_min, ep->act_max);
        V_EACH(i, n) v[i] = apart[i];
        break;
    }
}

static inline vf activate(vf v, const struct steno_gemm_epilogue *ep)
{
    activate_each(&v, 1, ep);
    return v;
}

#endif
