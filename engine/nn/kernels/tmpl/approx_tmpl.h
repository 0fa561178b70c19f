/* Approximate activations after a product of 8 or 16 bits, as accurate as the next product needs.
 * Included after math_tmpl.h. */
#ifndef STENO_NN_KERNELS_TMPL_APPROX_TMPL_H
#define STENO_NN_KERNELS_TMPL_APPROX_TMPL_H

#include "nn/kernels/tmpl/activate_tmpl.h"

/* p = one 2^f, |f| <= 1/2, by the polynomial of degree 4 of least relative error (2.6e-6). */
V_MANY_OF approx_exp2_fraction(vf *p, const vf *f, float one, int n)
{
    V_EACH(i, n) p[i] = v_fma(v_set1(9.5701e-3f * one), f[i], v_set1(5.591787e-2f * one));
    V_EACH(i, n) p[i] = v_fma(p[i], f[i], v_set1(2.4024745e-1f * one));
    V_EACH(i, n) p[i] = v_fma(p[i], f[i], v_set1(6.9312181e-1f * one));
    V_EACH(i, n) p[i] = v_fma(p[i], f[i], v_set1(9.9999926e-1f * one));
}

/* x = x / (1 + 2^t), within 2^-13 of it. Each step runs for all vectors before the next step,
 * because the dependency chain of one is longer than the CPU's window for other work. */
V_MANY_OF approx_by_odds(vf *x, const vf *t, int n)
{
    vf f[V_MANY], whole[V_MANY], p[V_MANY];
    V_EACH(i, n) f[i] = v_fraction(v_min(t[i], v_set1(126.0f)), &whole[i]);
    approx_exp2_fraction(p, f, 1, n);
    V_EACH(i, n) p[i] = v_set1(1.0f) + v_ldexp_normal(p[i], whole[i]);
    V_EACH(i, n) p[i] = v_approx_recip(p[i]);
    V_EACH(i, n) x[i] = x[i] * p[i];
}

/* x = x / (1 + e^-x) within 2^-13 of it, for n vectors. This is half the work of v_silu. The
 * accuracy suffices, because the factors of the product before and of the next one have 8 or 16
 * bits. Far from zero the quotient is x or 0 anyway. */
V_MANY_OF approx_silu(vf *x, int n)
{
    vf t[V_MANY];
    V_EACH(i, n) t[i] = x[i] * v_set1(-1.44269504088896341f);
    approx_by_odds(x, t, n);
}

/* x = x Phi(x), where Phi is the normal distribution. The error is at most 2^-13 of the result plus
 * 2^-18. Phi = 1 / (1 + 2^t): t is x times a polynomial in x^2, fitted to log2((1 - Phi) / Phi)
 * (least squares, reweighted until the errors of the result were level: 3.1e-6; within 2^-11 of the
 * result down to -3). Beyond the polynomial's range its last value goes on, since Phi is 0 or 1
 * there. */
V_MANY_OF approx_gelu(vf *x, int n)
{
    vf s[V_MANY], t[V_MANY];
    V_EACH(i, n) s[i] = v_min(x[i] * x[i], v_set1(25.0f));
    V_EACH(i, n) t[i] = v_fma(v_set1(-3.21038119e-6f), s[i], v_set1(8.79098304e-5f));
    V_EACH(i, n) t[i] = v_fma(t[i], s[i], v_set1(3.62047409e-4f));
    V_EACH(i, n) t[i] = v_fma(t[i], s[i], v_set1(-1.05229976e-1f));
    V_EACH(i, n) t[i] = v_fma(t[i], s[i], v_set1(-2.30204378f));
    V_EACH(i, n) t[i] = t[i] * x[i];
    approx_by_odds(x, t, n);
}

V_MANY_OF activate_approx_each(vf *v, int n, const struct steno_gemm_epilogue *ep)
{
    if (ep->act == STENO_ACT_SILU)
        approx_silu(v, n);
    else if (ep->act == STENO_ACT_GELU)
        approx_gelu(v, n);
    else
        activate_each(v, n, ep);
}

static inline vf activate_approx(vf v, const struct steno_gemm_epilogue *ep)
{
    activate_approx_each(&v, 1, ep);
    return v;
}

#endif
