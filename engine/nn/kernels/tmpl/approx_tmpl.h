/* Approximate activations after a product of 8 or 16 bits, as accurate as the next product needs.
 * Included after math_tmpl.h. */
#ifndef STENO_NN_KERNELS_TMPL_APPROX_TMPL_H
#define STENO_NN_KERNELS_TMPL_APPROX_TMPL_H

#include "nn/kernels/tmpl/activate_tmpl.h"

/* x = x / (1 + e^-x) within 2^-13 of it, for n vectors. This is half the work of v_silu. The
 * accuracy suffices, because the factors of the product before and of the next one have 8 or 16
 * bits.
 * e^-x = 2^whole 2^f, |f| <= 1/2; 2^f by its polynomial of degree 4 of least relative error
 * (2.6e-6). Far from zero the quotient is x or 0 anyway. Each step runs for all vectors before the
 * next step, because the dependency chain of one is longer than the CPU's window for other work. */
V_MANY_OF approx_silu(vf *x, int n)
{
    vf f[V_MANY], whole[V_MANY], p[V_MANY];
    V_EACH(i, n) f[i] = v_fraction(x[i] * v_set1(-1.44269504088896341f), &whole[i]);
    V_EACH(i, n) p[i] = v_fma(v_set1(9.5701e-3f), f[i], v_set1(5.591787e-2f));
    V_EACH(i, n) p[i] = v_fma(p[i], f[i], v_set1(2.4024745e-1f));
    V_EACH(i, n) p[i] = v_fma(p[i], f[i], v_set1(6.9312181e-1f));
    V_EACH(i, n) p[i] = v_fma(p[i], f[i], v_set1(9.9999926e-1f));
    V_EACH(i, n) p[i] = v_set1(1.0f) + v_ldexp(p[i], whole[i]);
    V_EACH(i, n) p[i] = v_approx_recip(p[i]);
    V_EACH(i, n) x[i] = x[i] * p[i];
}

V_MANY_OF activate_approx_each(vf *v, int n, const struct steno_gemm_epilogue *ep)
{
    if (ep->act == STENO_ACT_SILU)
        approx_silu(v, n);
    else
        activate_each(v, n, ep);
}

static inline vf activate_approx(vf v, const struct steno_gemm_epilogue *ep)
{
    activate_approx_each(&v, 1, ep);
    return v;
}

#endif
