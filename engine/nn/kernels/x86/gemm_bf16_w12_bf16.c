/* The bf16 product of gemm_bf16.c with weights in 12 bits. Products of few rows take the time of
 * reading their weights. A weight keeps its sign, its fraction, and the distance of its exponent
 * above `base`, 2 to 15. The largest number of a column has 14 or 15, so 14 powers of two are
 * covered. Smaller numbers become the smallest of these powers or 0, by the rules of
 * gemm_bf16_w12_amx.c. All others do not change, and neither do the bits of a product of them.
 *
 * An element is four numbers of a column along K. A word of a line is two of them (scaled_tmpl.h):
 * in each half of a word, bit 15 is the sign and bits 10 to 0 are what remains of exponent and
 * fraction. So each half is a valid bf16 number, too small by 2^base. Bits 14 to 11 belong to the
 * second words of columns 16 to 31: those of line 0 are the exponent, of line 1 the upper bits of
 * the fraction, of line 2 the sign and the lower bits of the fraction. 10 operations widen 128
 * weights. A is multiplied by 2^48 when it is rounded, so that products stay above the smallest
 * number. From 2^79 on A is infinite, and products below 2^-63 of a column's largest number count
 * as zero. */
#include "nn/kernels/x86/vec_avx512.h"

#undef ISA
#define ISA bf16

#include <stdbool.h>
#include <stdint.h>

#define GEMM_SCALED
#define GEMM_APPROX
enum { K_STEP = 4, A_UP = 48, BINADES = 7 };

static inline vf mac(vf a, vf b, vf sum)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

/* Bits of `a` where mask is 1, else of b. */
static inline __m512i chosen(uint16_t mask, __m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi32(_mm512_set1_epi16((int16_t)mask), a, b, 0xca);
}

static inline __attribute__((always_inline)) void widen_two(vf *v, const void *b, bool busy)
{
    (void)busy;
    const __m512i here = _mm512_set1_epi16((int16_t)0x87ff);
    const __m512i *at = b;
    const __m512i x = _mm512_loadu_si512(at), y = _mm512_loadu_si512(at + 1),
                  z = _mm512_loadu_si512(at + 2);
    const __m512i upper = chosen(0x0780, _mm512_srli_epi16(x, 4), _mm512_srli_epi16(y, 8));
    const __m512i ends = chosen(0x8000, _mm512_slli_epi16(z, 1), _mm512_srli_epi16(z, 11));
    v[0] = (vf)_mm512_and_si512(x, here);
    v[1] = (vf)_mm512_and_si512(y, here);
    v[2] = (vf)_mm512_and_si512(z, here);
    v[3] = (vf)chosen(0x8007, ends, upper);
}

/* One vector of the numbers of x from i on, of n, times 2^48. */
static inline vf lifted(const float *x, size_t i, size_t n)
{
    return v_load_m(x + i, v_tail(n <= i ? 0 : n - i < VL ? n - i : VL)) * v_set1(0x1p48f);
}

static inline void round_pairs(float *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i += 2 * VL) {
        const vf low = lifted(from, i, n), high = lifted(from, i + VL, n);
        v_store_m(to + i / 2, v_tail(n - i < 2 * VL ? (n - i + 1) / 2 : VL),
                  (vf)_mm512_cvtne2ps_pbh(high, low));
    }
}

#include "nn/kernels/tmpl/gemm_tmpl.h"

struct columns {
    __m512i base; /* in both halves of a word: the upper seven bits of an exponent. Exponents above
                   * it are kept */
};

static vf columns_of(struct columns *c, vf most)
{
    const __m512i h = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(most));
    const vm nonfinite = _mm512_cmpge_epi32_mask(h, _mm512_set1_epi32(0x7f80));
    const __m512i base =
        _mm512_max_epi32(_mm512_sub_epi32(_mm512_srli_epi32(h, 8), _mm512_set1_epi32(BINADES)),
                         _mm512_setzero_si512());
    c->base = _mm512_or_si512(base, _mm512_slli_epi32(base, 16));
    return v_select(
        nonfinite, v_set1(NAN),
        _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_slli_epi32(base, 1), _mm512_set1_epi32(A_UP))));
}

static inline __m512i bits(__m512i v, uint16_t mask)
{
    return _mm512_and_si512(v, _mm512_set1_epi16((int16_t)mask));
}

/* Two rows of 16 columns as words. */
static inline __m512i words(const float *w, const float *next, const struct columns *c)
{
    const __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(v_load(w)));
    const __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(v_load(next)));
    const __m512i h = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
    const __m512i bare = _mm512_and_si512(h, _mm512_set1_epi16(0x7fff)),
                  above = _mm512_srli_epi16(bare, 8);
    const __m512i sign = _mm512_and_si512(h, _mm512_set1_epi16((int16_t)0x8000));
    const __mmask32 there = _mm512_cmpgt_epi16_mask(above, c->base);
    /* the smallest kept power is 2^(2 (base + 1)): numbers of half of it and more become it */
    const __mmask32 nearly = _mm512_cmpeq_epi16_mask(above, c->base) &
                             _mm512_test_epi16_mask(h, _mm512_set1_epi16(0x80)) &
                             _mm512_test_epi16_mask(c->base, c->base);
    const __m512i kept =
        _mm512_maskz_mov_epi16(there, _mm512_sub_epi16(bare, _mm512_slli_epi16(c->base, 8)));
    const __m512i left = _mm512_mask_mov_epi16(kept, nearly, _mm512_set1_epi16(0x100));
    const __m512i all = _mm512_or_si512(left, _mm512_maskz_mov_epi16(there | nearly, sign));
    return bits(all, 0x87ff); /* NaN has more bits */
}

static void pack_row(float *to, float w[][NR], const struct columns *c)
{
    const __m512i last = words(w[2] + VL, w[3] + VL, &c[1]);
    const __m512i first[3] = {words(w[0], w[1], &c[0]), words(w[0] + VL, w[1] + VL, &c[1]),
                              words(w[2], w[3], &c[0])};
    const __m512i rest[3] = {_mm512_slli_epi16(bits(last, 0x0780), 4),
                             _mm512_slli_epi16(bits(last, 0x0078), 8),
                             _mm512_or_si512(_mm512_slli_epi16(bits(last, 0x0007), 11),
                                             _mm512_srli_epi16(bits(last, 0x8000), 1))};
    for (int i = 0; i < 3; i++)
        v_store(to + i * VL, (vf)_mm512_or_si512(first[i], rest[i]));
}

#include "nn/kernels/tmpl/scaled_tmpl.h"

void V_NAME(steno_kernels_gemm_bf16_w12)(steno_kernels *k)
{
    k->gemm_bf16_w12 =
        (struct steno_gemm_weights){packed_bytes, pack, product_part, conv_part, conv_winograd};
}
