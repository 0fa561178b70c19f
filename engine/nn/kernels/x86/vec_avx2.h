/* Eight floats at a time: AVX2 + FMA. Same names as in vec_avx512.h, so that the templates
 * (*_tmpl.h) are written once. + - * / on vf are the compiler's own vector operators. */
#ifndef STENO_NN_KERNELS_X86_VEC_AVX2_H
#define STENO_NN_KERNELS_X86_VEC_AVX2_H

#include <immintrin.h>
#include <stddef.h>

#define ISA avx2
#define VL 8

/* Heights of the register tile of a product (tmpl/tiles_tmpl.h): 6 x 2 sums, 2 of B and 1 of A are
 * 15 of 16 registers. */
#define V_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define V_REGISTER "v" /* asm constraint */

typedef __m256 vf;
typedef __m256i vm; /* lane mask: all ones or zero per lane */

static inline vf v_set1(float x)
{
    return _mm256_set1_ps(x);
}
static inline vf v_zero(void)
{
    return _mm256_setzero_ps();
}
static inline vf v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
static inline void v_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v);
}
/* Mask of the first n lanes, n <= VL. */
static inline vm v_tail(size_t n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}
/* Memory of lanes outside the mask is not accessed; they load as zero. */
static inline vf v_load_m(const float *p, vm m)
{
    return _mm256_maskload_ps(p, m);
}
static inline void v_store_m(float *p, vm m, vf v)
{
    _mm256_maskstore_ps(p, m, v);
}
static inline vf v_fma(vf a, vf b, vf c) /* a * b + c */
{
    return _mm256_fmadd_ps(a, b, c);
}
static inline vf v_fnma(vf a, vf b, vf c) /* c - a * b */
{
    return _mm256_fnmadd_ps(a, b, c);
}
/* Returns b where either is NaN (the rule of the instruction). */
static inline vf v_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}
static inline vf v_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}
static inline vf v_sqrt(vf a)
{
    return _mm256_sqrt_ps(a);
}
static inline vf v_round(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf v_select(vm m, vf a, vf b) /* m ? a : b */
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(m));
}
static inline vm v_lt(vf a, vf b)
{
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
static inline vm v_is_nan(vf a)
{
    return _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}
static inline vf v_abs(vf a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
static inline vf v_neg(vf a)
{
    return _mm256_xor_ps(_mm256_set1_ps(-0.0f), a);
}
/* Magnitude of a with the sign of s. */
static inline vf v_copysign(vf a, vf s)
{
    const vf sign = _mm256_set1_ps(-0.0f);
    return _mm256_or_ps(_mm256_andnot_ps(sign, a), _mm256_and_ps(sign, s));
}
/* (1 + a) 2^n for integer n in [-250, 250]. Two exact factors, so that a denormal result is rounded
 * once. */
static inline vf v_ldexp_1p(vf a, vf n)
{
    __m256i e = _mm256_cvtps_epi32(n), e1 = _mm256_srai_epi32(e, 1), e2 = _mm256_sub_epi32(e, e1);
    const __m256i bias = _mm256_set1_epi32(127);
    vf f1 = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e1, bias), 23));
    vf f2 = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e2, bias), 23));
    return v_fma(a, f1, f1) * f2;
}
/* a * 2^n, where a and the result are normal numbers. */
static inline vf v_ldexp_normal(vf a, vf n)
{
    const __m256i e = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), e));
}
/* t = *whole + the fraction, |fraction| <= 1/2. t is clamped to [-126, 150]. */
static inline vf v_fraction(vf t, vf *whole)
{
    t = v_min(v_set1(150.0f), v_max(v_set1(-126.0f), t));
    *whole = v_round(t);
    return t - *whole;
}
/* 1 / a within 2^-13 of it. */
static inline vf v_approx_recip(vf a)
{
    return v_set1(1.0f) / a;
}
/* a = m * 2^e with m in [1/2, 1) for positive finite a. */
static inline vf v_frexp(vf a, vf *e)
{
    vm tiny = v_lt(a, v_set1(1.17549435e-38f));
    __m256i bits;
    a = v_select(tiny, a * v_set1(8388608.0f), a);
    bits = _mm256_castps_si256(a);
    *e = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(126))) -
         v_select(tiny, v_set1(23.0f), v_zero());
    bits = _mm256_and_si256(bits, _mm256_set1_epi32(0x007fffff));
    return _mm256_castsi256_ps(_mm256_or_si256(bits, _mm256_set1_epi32(0x3f000000)));
}
/* Every other element of a, then of b: a[0], a[2], ... b[0], b[2], ... */
static inline vf v_even(vf a, vf b)
{
    __m256d v = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(v, 0xd8));
}
/* a[1], a[3], ... b[1], b[3], ... */
static inline vf v_odd(vf a, vf b)
{
    __m256d v = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(v, 0xd8));
}
static inline float v_hsum(vf a)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
static inline float v_hmax(vf a)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
static inline int v_any(vm m)
{
    return _mm256_movemask_ps(_mm256_castsi256_ps(m));
}

#include "nn/kernels/x86/transpose8.h" /* transpose_blocks, for these vectors */

#endif
