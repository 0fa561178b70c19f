/* The product with weights in bf16 on CPUs that multiply such numbers: vdpbf16ps adds two products
 * to each f32 sum, so that its peak is twice that of f32. A is rounded to bf16, to nearest even, as
 * it is copied; denormals count as zero on both sides.
 *
 * Packed B: panels of NR columns as in gemm_tmpl.h, each [(K + 1) / 2][NR] pairs of weights that
 * follow each other along K, an odd K filled up with zero: one vector of pairs goes with a broadcast
 * of one pair of A. Tiles and blocks are those of f32 (a pair is as wide as a float), so a block is
 * 2 KC deep. */
#include "kernels/x86/vec_avx512.h"

#include "kernels/half.h"

#undef ISA
#define ISA bf16
#define GEMM_W16
#define GEMM_PAIRS
typedef uint32_t b_t;

static inline vf b_load(const b_t *p)
{
    return _mm512_loadu_ps(p);
}

static inline vf mac(vf a, vf b, vf sum)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

static inline void round_pairs(float *to, const float *from, size_t n)
{
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        _mm512_storeu_ps(to + i / 2, (__m512)_mm512_cvtne2ps_pbh(v_load(from + i + VL),
                                                                 v_load(from + i)));
    if (i < n) {
        const size_t left = n - i;
        const vf low = v_load_m(from + i, v_tail(left < VL ? left : VL));
        const vf high = left > VL ? v_load_m(from + i + VL, v_tail(left - VL)) : v_zero();
        v_store_m(to + i / 2, v_tail((left + 1) / 2), (__m512)_mm512_cvtne2ps_pbh(high, low));
    }
}

#include "kernels/x86/gemm_tmpl.h"

static size_t packed_bytes(size_t k, size_t n)
{
    return panels(n) * ((k + 1) / 2) * NR * sizeof(b_t);
}

static void pack(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n)
{
    b_t *p = dst;
    const size_t down = trans ? 1 : ldb, along = trans ? ldb : 1;
    for (size_t j = 0; j < n; j += NR)
        for (size_t i = 0; i < k; i += 2, p += NR)
            for (size_t x = 0; x < NR; x++) {
                const float *at = b + i * down + (j + x) * along;
                p[x] = j + x < n ? half_to_bf16(*at) : 0;
                if (j + x < n && i + 1 < k)
                    p[x] |= (uint32_t)half_to_bf16(at[down]) << 16;
            }
}

#include "kernels/x86/gemm_w16_part_tmpl.h"

static double peak_bf16(size_t turns)
{
    enum { SUMS = 24 };
    vf sum[SUMS], a = v_set1(1.0f), b = v_set1(0.5f);
    volatile float sink;
    for (int i = 0; i < SUMS; i++)
        sum[i] = v_set1((float)i);
    for (size_t t = 0; t < turns; t++) {
        __asm__ volatile("" : "+v"(a), "+v"(b));
#pragma GCC unroll 24
        for (int i = 0; i < SUMS; i++)
            sum[i] = mac(a, b, sum[i]);
    }
    for (int i = 1; i < SUMS; i++)
        sum[0] = sum[0] + sum[i];
    sink = v_hsum(sum[0]);
    (void)sink;
    return (double)turns * SUMS * VL * 4;
}

void V_NAME(steno_kernels_gemm)(steno_kernels *k)
{
    k->gemm_bf16 = (struct steno_gemm_w16){packed_bytes, pack, product_part, conv_part};
    k->peak_bf16 = peak_bf16;
}
