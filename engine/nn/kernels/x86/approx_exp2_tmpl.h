/* 2^x for weights that are rounded to bf16: sixteen lanes. Included after vec_avx512.h. */
#ifndef STENO_NN_KERNELS_X86_APPROX_EXP2_TMPL_H
#define STENO_NN_KERNELS_X86_APPROX_EXP2_TMPL_H

#define APPROX_EACH(v, n) _Pragma("GCC unroll 8") for (int v = 0; v < (n); v++)
enum { APPROX_MANY = 8 }; /* maximum of vectors that take each step together */

/* 2^x within 3e-6, except for denormals; 0 for -inf. The fraction f of x above the next lower
 * integer goes through a polynomial, 1 + f P(f), fitted to 2^f on [0, 1] (least squares, reweighted
 * until its relative errors were level). The scaling instruction applies the integer itself. */
static inline __attribute__((always_inline)) void approx_exp2_each(vf *x, int n)
{
    vf f[APPROX_MANY], p[APPROX_MANY];
    APPROX_EACH(v, n) f[v] = _mm512_reduce_ps(x[v], _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    APPROX_EACH(v, n) p[v] = v_fma(v_set1(1.342668511e-2f), f[v], v_set1(5.224247236e-2f));
    APPROX_EACH(v, n) p[v] = v_fma(p[v], f[v], v_set1(2.412802061e-1f));
    APPROX_EACH(v, n) p[v] = v_fma(p[v], f[v], v_set1(6.930448446e-1f));
    APPROX_EACH(v, n) p[v] = v_fma(p[v], f[v], v_set1(1.0f));
    APPROX_EACH(v, n) x[v] = _mm512_scalef_ps(p[v], x[v]);
}

#endif
