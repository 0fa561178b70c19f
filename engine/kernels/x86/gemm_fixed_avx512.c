/* f32 products whose weights are kept in 24 bits: whole numbers q, |q| <= 2^23, times a power of two of each column.
 * Products of few rows are bound by reading weights, of which there are a quarter less; sums are those of f32
 * otherwise, in the order of k. What rounding loses is at most 2^-24 of a column's largest weight, the order of what a sum of
 * f32 loses. An element is q of k and k + 1, a word of a line 2^8 q (scaled_tmpl.h): 12 operations a row of a panel find
 * room beside the 56 multiply-adds of the highest tile. A is multiplied by 2^-36 as it is copied, so that no sum is
 * beyond what f32 has; numbers of it below 2^-90 lose bits. */
#include "kernels/x86/vec_avx512.h"

#include <stdint.h>

#define GEMM_W16
#define GEMM_PAIRS
#define GEMM_SCALED
typedef struct {
    uint8_t byte[6];
} b_t;
enum { K_STEP = 2 };

static inline vf mac(vf a, vf b, vf sum)
{
    return v_fma(a, b, sum);
}

static inline __attribute__((always_inline)) void widen_two(vf *v, const b_t *b)
{
    const __mmask64 upper = 0xeeeeeeeeeeeeeeee;
    const __m512i *at = (const __m512i *)(const void *)b;
    const __m512i x = _mm512_loadu_si512(at), y = _mm512_loadu_si512(at + 1), z = _mm512_loadu_si512(at + 2);
    const __m512i xy = _mm512_mask_mov_epi8(_mm512_slli_epi32(y, 16), 0x8888888888888888, _mm512_slli_epi32(x, 24));
    v[0] = _mm512_cvtepi32_ps(_mm512_maskz_mov_epi8(upper, x));
    v[1] = _mm512_cvtepi32_ps(_mm512_maskz_mov_epi8(upper, y));
    v[2] = _mm512_cvtepi32_ps(_mm512_maskz_mov_epi8(upper, z));
    v[3] = _mm512_cvtepi32_ps(_mm512_mask_mov_epi8(_mm512_slli_epi32(z, 8), 0xcccccccccccccccc, xy));
}

static inline void round_pairs(float *to, const float *from, size_t n)
{
    const vf by = v_set1(0x1p-36f);
    size_t i = 0;
    for (; i + VL <= n; i += VL)
        v_store(to + i, v_load(from + i) * by);
    if (i < n)
        v_store_m(to + i, v_tail((n - i + 1) / 2 * 2), v_load_m(from + i, v_tail(n - i)) * by);
}

#include "kernels/x86/gemm_tmpl.h"

struct columns {
    vf by; /* weights are q 2^-by */
};

static vf columns_of(struct columns *c, __m512i most)
{
    const vm odd = _mm512_cmpge_epi32_mask(most, _mm512_set1_epi32(0x7f800000));
    const vm some = _mm512_cmpge_epi32_mask(most, _mm512_set1_epi32(1));
    const vf e = v_select((vm)(some & ~odd), _mm512_getexp_ps((vf)most) + v_set1(1), v_zero());
    c->by = v_set1(23) - e;
    return v_select(odd, v_set1(NAN), e + v_set1(5)); /* 36 - 31: 2^8 q 2^-36 is b 2^(31 - e - 36) */
}

static inline __m512i whole(const float *w, const struct columns *c)
{
    const __m512i q = _mm512_cvtps_epi32(v_ldexp(v_load(w), c->by));
    return _mm512_min_epi32(q, _mm512_set1_epi32(0x7fffff));
}

static void pack_row(__m512i *to, float w[][NR], const struct columns *c)
{
    const __m512i low = _mm512_set1_epi32(0xff), last = whole(w[1] + VL, &c[1]);
    const __m512i q[3] = {whole(w[0], &c[0]), whole(w[0] + VL, &c[1]), whole(w[1], &c[0])};
    const __m512i rest[3] = {_mm512_srli_epi32(last, 16), _mm512_srli_epi32(last, 8), last};
    for (int i = 0; i < 3; i++)
        _mm512_storeu_si512(to + i, _mm512_or_si512(_mm512_slli_epi32(q[i], 8), _mm512_and_si512(rest[i], low)));
}

#include "kernels/x86/scaled_tmpl.h"

void V_NAME(steno_kernels_gemm_fixed)(steno_kernels *k)
{
    k->gemm_fixed = (struct steno_gemm_weights){packed_bytes, pack, product_part, conv_part, conv_winograd};
    k->tight_rows = 2 * MR - 1;
}
