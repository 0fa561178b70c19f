/* Attention to bytes by vpmaddwd: bytes become 16 bits when they are read. A step of a column is
 * two lanes, its rows 0 and 1, and 2 and 3, which are added at the end. */
#include "nn/kernels/x86/put_bytes_avx2.h"

struct factor {
    alignas(32) int16_t n[STENO_ATTEND_SIZE];
    __m128i sum; /* in parts */
};

static inline void factor_put(struct factor *f, size_t i, vf x)
{
    const __m128i n = as_i16(x), sum = _mm_madd_epi16(n, _mm_set1_epi16(1));
    _mm_store_si128((__m128i *)(void *)(f->n + i), n);
    f->sum = i ? _mm_add_epi32(f->sum, sum) : sum;
}

/* 8 n columns from b on. n is a constant at compile time. */
static inline __attribute__((always_inline)) void columns_of(const uint8_t *b, size_t row,
                                                             size_t steps, const int16_t *a,
                                                             __m256i minus, float *out, bool first,
                                                             int n)
{
    __m256i sum[8];
#pragma GCC unroll 8
    for (int v = 0; v < 2 * n; v++)
        sum[v] = _mm256_setzero_si256();
    for (size_t s = 0; s < steps; s++, b += row) {
        int64_t four;
        __m256i x;
        memcpy(&four, a + 4 * s, sizeof four);
        x = _mm256_set1_epi64x(four);
#pragma GCC unroll 8
        for (int v = 0; v < 2 * n; v++) {
            const __m128i w = _mm_loadu_si128((const __m128i *)(const void *)(b + 16 * v));
            if (first && v % 4 == 0)
                _mm_prefetch((const char *)b + LOOK_AHEAD + 16 * v, _MM_HINT_T0);
            sum[v] = _mm256_add_epi32(sum[v], _mm256_madd_epi16(_mm256_cvtepu8_epi16(w), x));
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < n; v++) {
        const __m256i both =
            _mm256_permute4x64_epi64(_mm256_hadd_epi32(sum[2 * v], sum[2 * v + 1]), 0xd8);
        v_store(out + v * VL, _mm256_cvtepi32_ps(_mm256_add_epi32(both, minus)));
    }
}

static void product(const uint8_t *b, size_t steps, size_t columns, const struct factor *f,
                    float *out, bool first)
{
    const __m256i minus = _mm256_set1_epi32(attend_i8_minus(sum_of(f->sum)));
    size_t c = 0;
    for (; c + 32 <= columns; c += 32)
        columns_of(b + 4 * c, 4 * columns, steps, f->n, minus, out + c, first, 4);
    for (; c < columns; c += 16)
        columns_of(b + 4 * c, 4 * columns, steps, f->n, minus, out + c, first, 2);
}

#include "nn/kernels/tmpl/attend_i8_tmpl.h"
