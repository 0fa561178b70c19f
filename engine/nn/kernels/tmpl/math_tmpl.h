/* exp, log, tanh, sigmoid, erf on vectors. Included after vec_<isa>.h.
 * Every function is correct for NaN, infinities and denormals (unless the thread flushes those),
 * and within 4 ulp of the exact value everywhere; kcheck tests the whole float range. */
#ifndef STENO_NN_KERNELS_TMPL_MATH_TMPL_H
#define STENO_NN_KERNELS_TMPL_MATH_TMPL_H

#include <math.h>

/* The instructions return b where either is NaN, so the operand that may be NaN comes second. */
static inline vf v_clamp(vf x, float lo, float hi)
{
    return v_min(v_set1(hi), v_max(v_set1(lo), x));
}

/* Lanes of numbers c, c + 1, ... of n. */
static inline __attribute__((always_inline)) vm tail_at(size_t n, size_t c)
{
    return v_tail(n <= c ? 0 : n - c < VL ? n - c : VL);
}

/* NaN if either is. */
static inline vf v_max_nan(vf a, vf b)
{
    return v_select(v_is_nan(a), a, v_max(a, b));
}
static inline vf v_min_nan(vf a, vf b)
{
    return v_select(v_is_nan(a), a, v_min(a, b));
}

/* Functions of n vectors (n constant, at most V_MANY) run each step for all vectors before the next
 * step. The dependency chain of an exponential is longer than the CPU's window for other work, so a
 * loop over whole exponentials stalls (Cascade Lake, a scheduler of 97 operations: 18 cycles a
 * vector instead of 11). The single form is the same with n = 1. */
enum { V_MANY = VL == 16 ? 4 : 2 };
#define V_EACH(i, n) _Pragma("GCC unroll 4") for (int i = 0; i < (n); i++)
#define V_MANY_OF static inline __attribute__((always_inline)) void

/* e^x = 2^whole (1 + p): x = whole ln(2) + r, |r| <= ln(2)/2, ln(2) in two parts; p = e^r - 1 by
 * the polynomial of Cephes expf (Moshier). x must be in [-105, 89]. */
V_MANY_OF v_exp_parts_each(const vf *x, vf *whole, vf *p, int n)
{
    vf r[V_MANY];
    V_EACH(i, n) whole[i] = v_round(x[i] * v_set1(1.44269504088896341f));
    V_EACH(i, n) r[i] = v_fnma(whole[i], v_set1(0.693359375f), x[i]);
    V_EACH(i, n) r[i] = v_fnma(whole[i], v_set1(-2.12194440e-4f), r[i]);
    V_EACH(i, n) p[i] = v_fma(v_set1(1.9875691500e-4f), r[i], v_set1(1.3981999507e-3f));
    V_EACH(i, n) p[i] = v_fma(p[i], r[i], v_set1(8.3334519073e-3f));
    V_EACH(i, n) p[i] = v_fma(p[i], r[i], v_set1(4.1665795894e-2f));
    V_EACH(i, n) p[i] = v_fma(p[i], r[i], v_set1(1.6666665459e-1f));
    V_EACH(i, n) p[i] = v_fma(p[i], r[i], v_set1(5.0000001201e-1f));
    V_EACH(i, n) p[i] = v_fma(p[i], r[i] * r[i], r[i]);
}

/* x must be in [-105, 89]. */
V_MANY_OF v_exp_clamped_each(vf *x, int n)
{
    vf whole[V_MANY], p[V_MANY];
    v_exp_parts_each(x, whole, p, n);
    V_EACH(i, n) x[i] = v_ldexp_1p(p[i], whole[i]);
}

/* The clamp keeps n small; beyond it the result is infinity or zero anyway. */
V_MANY_OF v_exp_each(vf *x, int n)
{
    V_EACH(i, n) x[i] = v_clamp(x[i], -105.0f, 89.0f);
    v_exp_clamped_each(x, n);
}

static inline vf v_exp(vf x)
{
    v_exp_each(&x, 1);
    return x;
}

/* log(m 2^e) = e ln 2 + log(m), m in [sqrt 1/2, sqrt 2); polynomial of Cephes logf. */
static inline vf v_log(vf x)
{
    const vf one = v_set1(1.0f);
    vf e, m = v_frexp(x, &e), z, p, y;
    vm low = v_lt(m, v_set1(0.707106781186547524f));
    e = v_select(low, e - one, e);
    m = v_select(low, m + m, m) - one;
    z = m * m;
    p = v_fma(v_set1(7.0376836292e-2f), m, v_set1(-1.1514610310e-1f));
    p = v_fma(p, m, v_set1(1.1676998740e-1f));
    p = v_fma(p, m, v_set1(-1.2420140846e-1f));
    p = v_fma(p, m, v_set1(1.4249322787e-1f));
    p = v_fma(p, m, v_set1(-1.6668057665e-1f));
    p = v_fma(p, m, v_set1(2.0000714765e-1f));
    p = v_fma(p, m, v_set1(-2.4999993993e-1f));
    p = v_fma(p, m, v_set1(3.3333331174e-1f));
    y = p * m * z;
    y = v_fma(e, v_set1(-2.12194440e-4f), y);
    y = v_fnma(z, v_set1(0.5f), y);
    y = v_fma(e, v_set1(0.693359375f), m + y);
    /* Compares with zero and not with the smallest denormal: while operators run, denormals are
     * flushed, and the smallest denormal is zero too. */
    y = v_select(v_lt(v_zero(), v_abs(x)), y, v_set1(-INFINITY));
    y = v_select(v_lt(x, v_set1(INFINITY)), y, x); /* inf, NaN */
    return v_select(v_lt(x, v_zero()), v_set1(NAN), y);
}

/* Odd polynomial of Cephes tanhf below 0.625, else 1 - 2 / (e^2|x| + 1). */
V_MANY_OF v_tanh_each(vf *x, int n)
{
    const vf one = v_set1(1.0f);
    vf a[V_MANY], s[V_MANY], p[V_MANY], e[V_MANY];
    V_EACH(i, n) a[i] = v_abs(x[i]);
    V_EACH(i, n) e[i] = a[i] + a[i];
    v_exp_each(e, n);
    V_EACH(i, n) e[i] = one - v_set1(2.0f) / (e[i] + one);
    V_EACH(i, n) s[i] = x[i] * x[i];
    V_EACH(i, n) p[i] = v_fma(v_set1(-5.70498872745e-3f), s[i], v_set1(2.06390887954e-2f));
    V_EACH(i, n) p[i] = v_fma(p[i], s[i], v_set1(-5.37397155531e-2f));
    V_EACH(i, n) p[i] = v_fma(p[i], s[i], v_set1(1.33314422036e-1f));
    V_EACH(i, n) p[i] = v_fma(p[i], s[i], v_set1(-3.33332819422e-1f));
    V_EACH(i, n) p[i] = v_fma(p[i] * s[i], x[i], x[i]);
    V_EACH(i, n)
    x[i] = v_select(v_lt(a[i], v_set1(0.625f)), p[i], v_copysign(e[i], x[i]));
}

/* 1 / (1 + e^-x), computed from e^-|x| so that nothing overflows and small results keep their
 * digits. */
V_MANY_OF v_sigmoid_each(vf *x, int n)
{
    const vf one = v_set1(1.0f);
    vf e[V_MANY];
    V_EACH(i, n) e[i] = v_neg(v_abs(x[i]));
    v_exp_each(e, n);
    V_EACH(i, n) x[i] = v_select(v_lt(x[i], v_zero()), e[i], one) / (one + e[i]);
}

/* Two minimax forms that meet at 475/512: an odd polynomial below, 1 - e^P(|x|) above (scheme and
 * coefficients of N. Juffa's erff, each below 1 ulp with an exact exp). */
V_MANY_OF v_erf_each(vf *x, int n)
{
    vf t[V_MANY], s[V_MANY], r[V_MANY], u[V_MANY];
    V_EACH(i, n) t[i] = v_abs(x[i]);
    V_EACH(i, n) s[i] = x[i] * x[i];
    V_EACH(i, n) r[i] = v_fma(v_set1(-1.72853470e-5f), t[i], v_set1(3.83197126e-4f));
    V_EACH(i, n) u[i] = v_fma(v_set1(-3.88396438e-3f), t[i], v_set1(2.42546219e-2f));
    V_EACH(i, n) r[i] = v_fma(r[i], s[i], u[i]);
    V_EACH(i, n) r[i] = v_fma(r[i], t[i], v_set1(-1.06777877e-1f));
    V_EACH(i, n) r[i] = v_fma(r[i], t[i], v_set1(-6.34846687e-1f));
    V_EACH(i, n) r[i] = v_fma(r[i], t[i], v_set1(-1.28717512e-1f));
    V_EACH(i, n) r[i] = v_fma(r[i], t[i], v_neg(t[i]));
    v_exp_each(r, n);
    V_EACH(i, n) r[i] = v_copysign(v_set1(1.0f) - r[i], x[i]);
    V_EACH(i, n) u[i] = v_fma(v_set1(-5.96761703e-4f), s[i], v_set1(4.99119423e-3f));
    V_EACH(i, n) u[i] = v_fma(u[i], s[i], v_set1(-2.67681349e-2f));
    V_EACH(i, n) u[i] = v_fma(u[i], s[i], v_set1(1.12819925e-1f));
    V_EACH(i, n) u[i] = v_fma(u[i], s[i], v_set1(-3.76125336e-1f));
    V_EACH(i, n) u[i] = v_fma(u[i], s[i], v_set1(1.28379166e-1f));
    V_EACH(i, n) u[i] = v_fma(u[i], x[i], x[i]);
    V_EACH(i, n) x[i] = v_select(v_lt(v_set1(0.927734375f), t[i]), r[i], u[i]);
}

V_MANY_OF v_silu_each(vf *x, int n)
{
    vf y[V_MANY];
    V_EACH(i, n) y[i] = x[i];
    v_sigmoid_each(y, n);
    V_EACH(i, n) x[i] = x[i] * y[i];
}

V_MANY_OF v_gelu_each(vf *x, int n)
{
    vf y[V_MANY];
    V_EACH(i, n) y[i] = x[i] * v_set1(0.70710678118654752440f);
    v_erf_each(y, n);
    V_EACH(i, n) x[i] = v_set1(0.5f) * x[i] * (v_set1(1.0f) + y[i]);
}

/* x = to + log(1 + x), x in [0, 1], within 1e-7: x times a polynomial fitted to log(1 + x) / x
 * (least squares, reweighted until the errors of x P(x) were level; 8e-10 before rounding). */
V_MANY_OF v_add_log1p_unit_each(vf *x, const vf *to, int n)
{
    vf p[V_MANY];
    V_EACH(i, n) p[i] = v_fma(v_set1(-2.424622653e-3f), x[i], v_set1(1.588539593e-2f));
    V_EACH(i, n) p[i] = v_fma(p[i], x[i], v_set1(-4.884566739e-2f));
    V_EACH(i, n) p[i] = v_fma(p[i], x[i], v_set1(9.691154957e-2f));
    V_EACH(i, n) p[i] = v_fma(p[i], x[i], v_set1(-1.469130367e-1f));
    V_EACH(i, n) p[i] = v_fma(p[i], x[i], v_set1(1.942335069e-1f));
    V_EACH(i, n) p[i] = v_fma(p[i], x[i], v_set1(-2.489212006e-1f));
    V_EACH(i, n) p[i] = v_fma(p[i], x[i], v_set1(3.332148492e-1f));
    V_EACH(i, n) p[i] = v_fma(p[i], x[i], v_set1(-4.999934733e-1f));
    V_EACH(i, n) p[i] = v_fma(p[i], x[i], v_set1(9.999998808e-1f));
    V_EACH(i, n) x[i] = v_fma(p[i], x[i], to[i]);
}

/* log(1 + e^(x - shift)) - 0.08 x - offset, computed from e^-|x - shift|. */
V_MANY_OF v_swoosh_each(vf *x, int n, float shift, float offset)
{
    vf z[V_MANY], e[V_MANY];
    V_EACH(i, n) z[i] = x[i] - v_set1(shift);
    V_EACH(i, n) e[i] = v_max(v_set1(-105.0f), v_neg(v_abs(z[i])));
    V_EACH(i, n) z[i] = v_max(v_zero(), z[i]);
    v_exp_clamped_each(e, n);
    v_add_log1p_unit_each(e, z, n);
    V_EACH(i, n) x[i] = v_fnma(x[i], v_set1(0.08f), e[i]) - v_set1(offset);
}

#define V_CAT_(a, b) a##__##b
#define V_CAT(a, b) V_CAT_(a, b)
#define V_NAME(op) V_CAT(op, ISA) /* op__avx2 */

#endif
