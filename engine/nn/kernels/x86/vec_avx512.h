/* Sixteen floats at a time: AVX-512 F, DQ. Same names as vec_avx2.h, which explains them. */
#ifndef STENO_NN_KERNELS_X86_VEC_AVX512_H
#define STENO_NN_KERNELS_X86_VEC_AVX512_H

#include <immintrin.h>
#include <stddef.h>

#define ISA avx512
#define VL 16

/* Heights of the register tile of a product (tmpl/tiles_tmpl.h): 14 x 2 sums, 2 of B and 1 of A are
 * 31 of 32 registers. */
#define V_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#ifndef V_REGISTER
#define V_REGISTER "v" /* asm constraint */
#endif

typedef __m512 vf;
typedef __mmask16 vm;

static inline vf v_set1(float x)
{
    return _mm512_set1_ps(x);
}
static inline vf v_zero(void)
{
    return _mm512_setzero_ps();
}
static inline vf v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline void v_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}
static inline vm v_tail(size_t n)
{
    return (vm)((1u << n) - 1u);
}
static inline vf v_load_m(const float *p, vm m)
{
    return _mm512_maskz_loadu_ps(m, p);
}
static inline void v_store_m(float *p, vm m, vf v)
{
    _mm512_mask_storeu_ps(p, m, v);
}
static inline vf v_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline vf v_fnma(vf a, vf b, vf c)
{
    return _mm512_fnmadd_ps(a, b, c);
}
static inline vf v_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
static inline vf v_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}
static inline vf v_sqrt(vf a)
{
    return _mm512_sqrt_ps(a);
}
static inline vf v_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf v_select(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}
static inline vm v_lt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
static inline vm v_is_nan(vf a)
{
    return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}
static inline vf v_abs(vf a)
{
    return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a);
}
static inline vf v_neg(vf a)
{
    return _mm512_xor_ps(_mm512_set1_ps(-0.0f), a);
}
static inline vf v_copysign(vf a, vf s)
{
    const vf sign = _mm512_set1_ps(-0.0f);
    return _mm512_or_ps(_mm512_andnot_ps(sign, a), _mm512_and_ps(sign, s));
}
static inline vf v_ldexp_1p(vf a, vf n)
{
    return _mm512_scalef_ps(a + v_set1(1.0f), n);
}
static inline vf v_ldexp_normal(vf a, vf n)
{
    return _mm512_scalef_ps(a, n);
}
/* Needs no clamp: vreduceps takes any t, and vscalefps any *whole. */
static inline vf v_fraction(vf t, vf *whole)
{
    const vf f = _mm512_reduce_ps(t, 8);
    *whole = t - f;
    return f;
}
/* Within 2^-14. */
static inline vf v_approx_recip(vf a)
{
    return _mm512_rcp14_ps(a);
}
static inline vf v_frexp(vf a, vf *e)
{
    *e = _mm512_getexp_ps(a) + v_set1(1.0f);
    return _mm512_getmant_ps(a, _MM_MANT_NORM_p5_1, _MM_MANT_SIGN_src);
}
static inline vf v_even(vf a, vf b)
{
    const __m512i at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(a, at, b);
}
/* a[1], a[3], ... b[1], b[3], ... */
static inline vf v_odd(vf a, vf b)
{
    const __m512i at = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_permutex2var_ps(a, at, b);
}
static inline float v_hsum(vf a)
{
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
static inline float v_hmax(vf a)
{
    return _mm512_reduce_max_ps(a);
}
static inline int v_any(vm m)
{
    return m;
}

#include "nn/kernels/x86/transpose8.h" /* transpose_blocks, for these vectors */

#endif
