/* Attention to bytes by vpmaddwd: bytes become 16 bits when they are read. A step of a column is
 * two lanes, its rows 0 and 1, and 2 and 3, which are added at the end. */
#include "nn/kernels/x86/attend_i8_avx2.h"

enum { MOST = 4 };

struct numbers {
    alignas(32) int16_t n[STENO_ATTEND_SIZE];
};

static inline void put_numbers(struct numbers *to, size_t i, vi v)
{
    _mm_store_si128((__m128i *)(void *)(to->n + i), as_i16(v));
}

static inline __attribute__((always_inline)) void columns_of(const uint8_t *b, size_t row,
                                                             size_t steps, const struct numbers *a,
                                                             int32_t minus, float *out, bool first,
                                                             int n)
{
    vi sum[2 * MOST];
#pragma GCC unroll 8
    for (int v = 0; v < 2 * n; v++)
        sum[v] = vi_zero();
    for (size_t s = 0; s < steps; s++, b += row) {
        int64_t four;
        vi x;
        memcpy(&four, a->n + 4 * s, sizeof four);
        x = _mm256_set1_epi64x(four);
#pragma GCC unroll 8
        for (int v = 0; v < 2 * n; v++) {
            const __m128i w = _mm_loadu_si128((const __m128i *)(const void *)(b + 16 * v));
            if (first && v % 4 == 0)
                __builtin_prefetch(b + ATTEND_I8_AHEAD + 16 * v, 0, 3);
            sum[v] = vi_madd(sum[v], _mm256_cvtepu8_epi16(w), x);
            __asm__("" : "+" V_REGISTER(sum[v]));
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < n; v++) {
        const vi both =
            _mm256_permute4x64_epi64(_mm256_hadd_epi32(sum[2 * v], sum[2 * v + 1]), 0xd8);
        v_store(out + v * VL, vi_to_float(vi_add(both, vi_set1(minus))));
    }
}

#include "nn/kernels/tmpl/attend_i8_tmpl.h"
