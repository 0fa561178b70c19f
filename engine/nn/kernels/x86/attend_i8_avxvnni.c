/* Attention to bytes by the vpdpbusd of CPUs without AVX-512, eight columns at a time. Its second
 * factor is signed bytes, so the 16 bits of the left factor are two of them: 256 high + low. */
#include "nn/kernels/x86/put_bytes_avx2.h"

#undef ISA
#ifdef EVEX /* tests/kernels/evex_vnni.c */
#define ISA evex
#define DOT(acc, a, b) _mm256_dpbusd_epi32(acc, a, b)
#else
#define ISA avxvnni
#define DOT(acc, a, b) _mm256_dpbusd_avx_epi32(acc, a, b)
#endif

/* high and low are the two bytes of each number. */
struct factor {
    alignas(32) int8_t high[STENO_ATTEND_SIZE], low[STENO_ATTEND_SIZE];
    __m128i sum; /* in parts */
};

static inline void factor_put(struct factor *f, size_t i, vf x)
{
    const __m128i n = as_i16(x), one = _mm_set1_epi16(1);
    const __m128i high = _mm_srai_epi16(_mm_adds_epi16(n, _mm_set1_epi16(128)), 8);
    const __m128i low = _mm_sub_epi16(n, _mm_slli_epi16(high, 8)), sum = _mm_madd_epi16(n, one);
    _mm_storel_epi64((__m128i *)(void *)(f->high + i), _mm_packs_epi16(high, high));
    _mm_storel_epi64((__m128i *)(void *)(f->low + i), _mm_packs_epi16(low, low));
    f->sum = i ? _mm_add_epi32(f->sum, sum) : sum;
}

static inline __m256i four_bytes(const int8_t *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return _mm256_set1_epi32(x);
}

/* n vectors of columns from b on. n is a constant at compile time. */
static inline __attribute__((always_inline)) void columns_of(const uint8_t *b, size_t row,
                                                             size_t steps, const struct factor *f,
                                                             __m256i minus, float *out, bool first,
                                                             int n)
{
    __m256i h[4], l[4];
#pragma GCC unroll 4
    for (int v = 0; v < n; v++) {
        h[v] = _mm256_setzero_si256();
        l[v] = minus;
    }
    for (size_t s = 0; s < steps; s++, b += row) {
        const __m256i x = four_bytes(f->high + 4 * s), y = four_bytes(f->low + 4 * s);
#pragma GCC unroll 4
        for (int v = 0; v < n; v++) {
            const __m256i w = _mm256_loadu_si256((const __m256i *)(const void *)(b + 32 * v));
            if (first && v % 2 == 0)
                _mm_prefetch((const char *)b + LOOK_AHEAD + 32 * v, _MM_HINT_T0);
            h[v] = DOT(h[v], w, x);
            l[v] = DOT(l[v], w, y);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < n; v++)
        v_store(out + v * VL,
                _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_slli_epi32(h[v], 8), l[v])));
}

static void product(const uint8_t *b, size_t steps, size_t columns, const struct factor *f,
                    float *out, bool first)
{
    const __m256i minus = _mm256_set1_epi32(attend_i8_minus(sum_of(f->sum)));
    size_t c = 0;
    for (; c + 32 <= columns; c += 32)
        columns_of(b + 4 * c, 4 * columns, steps, f, minus, out + c, first, 4);
    for (; c < columns; c += 16)
        columns_of(b + 4 * c, 4 * columns, steps, f, minus, out + c, first, 2);
}

#include "nn/kernels/tmpl/attend_i8_tmpl.h"
