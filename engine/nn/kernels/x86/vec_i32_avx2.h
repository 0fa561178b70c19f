/* Eight 32-bit integers at a time: AVX2. Same names as in vec_i32_avx512.h. */
#ifndef STENO_NN_KERNELS_X86_VEC_I32_AVX2_H
#define STENO_NN_KERNELS_X86_VEC_I32_AVX2_H

#include "nn/kernels/x86/vec_avx2.h"

#include <stdint.h>
#include <string.h>

typedef __m256i vi;

static inline vi vi_zero(void)
{
    return _mm256_setzero_si256();
}
static inline vi vi_set1(int32_t x)
{
    return _mm256_set1_epi32(x);
}
static inline vi vi_load(const void *p)
{
    return _mm256_loadu_si256(p);
}
static inline void vi_store(void *p, vi v)
{
    _mm256_storeu_si256(p, v);
}
static inline vi vi_load_m(const void *p, vm m)
{
    return _mm256_maskload_epi32(p, m);
}
static inline void vi_store_m(void *p, vm m, vi v)
{
    _mm256_maskstore_epi32(p, m, v);
}
/* Load VL unsigned bytes. */
static inline vi vi_bytes(const void *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(p));
}
static inline vi vi_and(vi a, vi b)
{
    return _mm256_and_si256(a, b);
}
static inline vi vi_shift4(vi a)
{
    return _mm256_srli_epi32(a, 4);
}
static inline vi vi_times256(vi a)
{
    return _mm256_slli_epi32(a, 8);
}
static inline vi vi_add(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}
static inline vi vi_sub(vi a, vi b)
{
    return _mm256_sub_epi32(a, b);
}
static inline vi vi_mul(vi a, vi b)
{
    return _mm256_mullo_epi32(a, b);
}
/* |x| < 2^22 as two digits of 16 bits, for vi_less. */
static inline vi vi_digits(vi x)
{
    return _mm256_or_si256(_mm256_and_si256(x, _mm256_set1_epi32(0x7fff)),
                           _mm256_slli_epi32(_mm256_srai_epi32(x, 15), 24));
}
/* s - x z, |z| < 256: the lower digit times -z, plus the upper one, stored times 2^8, times -2^7 z.
 * A 32-bit product takes twice as long. */
static inline vi vi_less(vi s, vi digits, int32_t z)
{
    const uint32_t by = ((uint32_t)-z & 0xffff) | (uint32_t)-z << 23;
    return _mm256_add_epi32(s, _mm256_madd_epi16(digits, _mm256_set1_epi32((int32_t)by)));
}
static inline vf vi_to_float(vi a)
{
    return _mm256_cvtepi32_ps(a);
}
/* The low four bits of each as a float. */
static inline vf vi_nibbles(vi a)
{
    return vi_to_float(vi_and(a, vi_set1(15)));
}
/* Load VL pairs of bytes, widened to pairs of 16 bits. */
static inline vi vi_widen(const void *p)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(p));
}
/* Add the sums of the two products of 16-bit pairs to acc. */
static inline vi vi_madd(vi acc, vi a, vi b)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b));
}
/* The same in the register of acc, of which the compiler otherwise makes copies in tiles. */
static inline vi vi_add_pairs(vi acc, vi a, vi b)
{
    const vi x = _mm256_madd_epi16(a, b);
    __asm__("vpaddd %1, %0, %0" : "+x"(acc) : "x"(x));
    return acc;
}
/* The lanes of a, then of b, saturated to 16 bits. */
static inline vi vi_narrow(vi a, vi b)
{
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
}
/* The lower 16 bits of each lane of a, and those of b above them. */
static inline vi vi_pairs(vi a, vi b)
{
    return _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa);
}
/* Add the sums of the four products of signed bytes of a and unsigned bytes of b. Sums of two must
 * fit into 16 bits. The ones come from memory, since 12 sums leave no register for them. */
static inline vi vi_dot_bytes(vi acc, vi a, vi b)
{
    static const struct {
        _Alignas(32) int16_t one[16];
    } ones = {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
    vi pairs = _mm256_maddubs_epi16(b, a);
    __asm__("vpmaddwd %1, %0, %0" : "+x"(pairs) : "m"(ones));
    return _mm256_add_epi32(acc, pairs);
}
/* 32 unsigned bytes of p, the top bits flipped where flip is 0x80, less `by`, to q. Two
 * bits of the result are 1 for each pair that is wrong in q, since its sum is above 127 or below
 * -128 after numbers of the other sign are left out. *sum += all numbers. */
static inline uint32_t vi_lower_bytes(int8_t *q, const uint8_t *p, int flip, int by, vi *sum)
{
    const vi v = _mm256_xor_si256(vi_load(p), _mm256_set1_epi8((char)flip));
    const vi less = _mm256_set1_epi16((short)by), zero = vi_zero();
    const vi even = _mm256_sub_epi16(_mm256_and_si256(v, _mm256_set1_epi16(0xff)), less),
             odd = _mm256_sub_epi16(_mm256_srli_epi16(v, 8), less);
    const vi high = _mm256_add_epi16(_mm256_max_epi16(even, zero), _mm256_max_epi16(odd, zero)),
             low = _mm256_add_epi16(_mm256_min_epi16(even, zero), _mm256_min_epi16(odd, zero));
    const vi bad = _mm256_or_si256(_mm256_cmpgt_epi16(high, _mm256_set1_epi16(127)),
                                   _mm256_cmpgt_epi16(_mm256_set1_epi16(-128), low));
    *sum = vi_add(*sum, _mm256_madd_epi16(_mm256_add_epi16(even, odd), _mm256_set1_epi16(1)));
    vi_store(q, _mm256_sub_epi8(v, _mm256_set1_epi8((char)by)));
    return (uint32_t)_mm256_movemask_epi8(bad);
}
/* The sum of all lanes of the result grows by the sum of 32 unsigned bytes, top bits flipped. */
static inline vi vi_add_bytes(vi sum, const uint8_t *p, int flip)
{
    const vi v = _mm256_xor_si256(vi_load(p), _mm256_set1_epi8((char)flip));
    return vi_add(sum, _mm256_sad_epu8(v, vi_zero()));
}
static inline int32_t vi_hsum(vi a)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}
/* Round to nearest even; NaN becomes the most negative number. */
static inline vi vi_round(vf v)
{
    return _mm256_cvtps_epi32(v);
}
/* Store the lanes of a, then of b, c and d, clamped to 0 and 255. */
static inline void vi_store_u8x4(uint8_t *p, vi a, vi b, vi c, vi d)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const vi low = _mm256_packs_epi32(a, b), high = _mm256_packs_epi32(c, d);
    vi_store(p, _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order));
}
/* The same, clamped to -128 and 127. */
static inline void vi_store_i8x4(uint8_t *p, vi a, vi b, vi c, vi d)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const vi low = _mm256_packs_epi32(a, b), high = _mm256_packs_epi32(c, d);
    vi_store(p, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order));
}
/* Store the low bytes of lanes [0, n); 0 where `from` is NaN. */
static inline void vi_store_bytes(uint8_t *p, vf v, vf from, size_t n)
{
    __m256 ordered = _mm256_cmp_ps(from, from, _CMP_ORD_Q);
    const __m256i low =
        _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12,
                         -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    __m256i i = _mm256_and_si256(_mm256_cvtps_epi32(v), _mm256_castps_si256(ordered));
    uint64_t b;
    i = _mm256_shuffle_epi8(i, low);
    b = (uint32_t)_mm256_extract_epi32(i, 0) | (uint64_t)(uint32_t)_mm256_extract_epi32(i, 4) << 32;
    memcpy(p, &b, n);
}

#endif
