/* Sixteen 32-bit integers at a time: AVX-512 F, BW. Same names as vec_i32_avx2.h, which explains
 * them. */
#ifndef STENO_NN_KERNELS_X86_VEC_I32_AVX512_H
#define STENO_NN_KERNELS_X86_VEC_I32_AVX512_H

#include "nn/kernels/x86/vec_avx512.h"

#include <stdint.h>
#include <string.h>

typedef __m512i vi;

static inline vi vi_zero(void)
{
    return _mm512_setzero_si512();
}
static inline vi vi_set1(int32_t x)
{
    return _mm512_set1_epi32(x);
}
static inline vi vi_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
static inline void vi_store(void *p, vi v)
{
    _mm512_storeu_si512(p, v);
}
static inline vi vi_load_m(const void *p, vm m)
{
    return _mm512_maskz_loadu_epi32(m, p);
}
static inline void vi_store_m(void *p, vm m, vi v)
{
    _mm512_mask_storeu_epi32(p, m, v);
}
/* Load VL unsigned bytes. */
static inline vi vi_bytes(const void *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(p));
}
static inline vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}
static inline vi vi_shift4(vi a)
{
    return _mm512_srli_epi32(a, 4);
}
/* The low four bits of each as a float. */
static inline vf vi_nibbles(vi a)
{
    const vf numbers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_permutexvar_ps(a, numbers); /* which reads no other bits */
}
static inline vi vi_times256(vi a)
{
    return _mm512_slli_epi32(a, 8);
}
static inline vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}
static inline vi vi_sub(vi a, vi b)
{
    return _mm512_sub_epi32(a, b);
}
static inline vi vi_mul(vi a, vi b)
{
    return _mm512_mullo_epi32(a, b);
}
static inline vi vi_digits(vi x)
{
    return _mm512_or_si512(_mm512_and_si512(x, _mm512_set1_epi32(0x7fff)),
                           _mm512_slli_epi32(_mm512_srai_epi32(x, 15), 24));
}
static inline vi vi_less(vi s, vi digits, int32_t z)
{
    const vi by = _mm512_set1_epi32((int32_t)(((uint32_t)-z & 0xffff) | (uint32_t)-z << 23));
#ifdef __AVX512VNNI__
    return _mm512_dpwssd_epi32(s, digits, by);
#else
    return _mm512_add_epi32(s, _mm512_madd_epi16(digits, by));
#endif
}
static inline vf vi_to_float(vi a)
{
    return _mm512_cvtepi32_ps(a);
}
static inline vi vi_widen(const void *p)
{
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(p));
}
static inline vi vi_madd(vi acc, vi a, vi b)
{
    return _mm512_add_epi32(acc, _mm512_madd_epi16(a, b));
}
static inline int32_t vi_hsum(vi a)
{
    return _mm512_reduce_add_epi32(a);
}
static inline vi vi_narrow(vi a, vi b)
{
    const __m512i order = _mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    return _mm512_permutexvar_epi32(order, _mm512_packs_epi32(a, b));
}
static inline vi vi_pairs(vi a, vi b)
{
    return _mm512_or_si512(_mm512_and_si512(a, _mm512_set1_epi32(0xffff)),
                           _mm512_slli_epi32(b, 16));
}
static inline vi vi_round(vf v)
{
    return _mm512_cvtps_epi32(v);
}
static inline void vi_store_u8x4(uint8_t *p, vi a, vi b, vi c, vi d)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const vi low = _mm512_packs_epi32(a, b), high = _mm512_packs_epi32(c, d);
    vi_store(p, _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high)));
}
/* The same, clamped to -128 and 127. */
static inline void vi_store_i8x4(uint8_t *p, vi a, vi b, vi c, vi d)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const vi low = _mm512_packs_epi32(a, b), high = _mm512_packs_epi32(c, d);
    vi_store(p, _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high)));
}
static inline void vi_store_bytes(uint8_t *p, vf v, vf from, size_t n)
{
    __mmask16 ordered = _mm512_cmp_ps_mask(from, from, _CMP_ORD_Q);
    _mm512_mask_cvtepi32_storeu_epi8(p, v_tail(n), _mm512_maskz_cvtps_epi32(ordered, v));
}

#endif
