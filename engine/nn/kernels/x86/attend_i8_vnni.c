/* Attention to bytes by vpdpbusd, sixteen columns at a time. Its second factor is signed bytes, so
 * the 16 bits of the left factor are two of them: 256 high + low. */
#include "nn/kernels/x86/vec_avx512.h"

#include "nn/kernels/x86/approx_exp2_tmpl.h"
#include "nn/kernels/attend_i8.h"
#include "nn/kernels/tmpl/math_tmpl.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#undef ISA
#define ISA vnni

enum {
    LOOK_AHEAD = 16 << 10, /* bytes */
    WEIGHTS = 8
};

/* high and low are the two bytes of each number. */
struct factor {
    alignas(64) int8_t high[STENO_ATTEND_SIZE], low[STENO_ATTEND_SIZE];
    __m512i sum; /* in parts */
};

static inline void factor_put(struct factor *f, size_t i, vf x)
{
    const __m512i n = _mm512_cvtps_epi32(x);
    const __m512i high = _mm512_srai_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(128)), 8);
    _mm_store_si128((__m128i *)(void *)(f->high + i), _mm512_cvtepi32_epi8(high));
    _mm_store_si128((__m128i *)(void *)(f->low + i), _mm512_cvtepi32_epi8(n));
    f->sum = i ? _mm512_add_epi32(f->sum, n) : n;
}

static void put_u8(uint8_t *to, vf x)
{
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
}

static inline __m512i four_bytes(const int8_t *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return _mm512_set1_epi32(x);
}

static const float exponent_unit = 1.44269504088896341f; /* weights are computed as powers of two */

static inline __attribute__((always_inline)) void weights_each(vf *x, int n)
{
    approx_exp2_each(x, n);
}

#undef V_EACH
#define V_EACH APPROX_EACH

/* n vectors of columns from b on. n is a constant at compile time. Sums of their own for every
 * other step, where n is 4, gain nothing. */
static inline __attribute__((always_inline)) void columns_of(const uint8_t *b, size_t row,
                                                             size_t steps, const struct factor *f,
                                                             __m512i minus, float *out, bool first,
                                                             int n)
{
    __m512i h[8], l[8];
#pragma GCC unroll 8
    for (int v = 0; v < n; v++) {
        h[v] = _mm512_setzero_si512();
        l[v] = minus;
    }
    for (size_t s = 0; s < steps; s++, b += row) {
        const __m512i x = four_bytes(f->high + 4 * s), y = four_bytes(f->low + 4 * s);
#pragma GCC unroll 8
        for (int v = 0; v < n; v++) {
            const __m512i w = _mm512_loadu_si512(b + 64 * v);
            if (first)
                _mm_prefetch((const char *)b + LOOK_AHEAD + 64 * v, _MM_HINT_T0);
            h[v] = _mm512_dpbusd_epi32(h[v], w, x);
            l[v] = _mm512_dpbusd_epi32(l[v], w, y);
        }
    }
#pragma GCC unroll 8
    for (int v = 0; v < n; v++)
        v_store(out + v * VL,
                _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(h[v], 8), l[v])));
}

static inline __attribute__((always_inline)) void each_column(const uint8_t *b, size_t steps,
                                                              size_t columns,
                                                              const struct factor *f, float *out,
                                                              bool first)
{
    const __m512i minus = _mm512_set1_epi32(attend_i8_minus(_mm512_reduce_add_epi32(f->sum)));
    size_t c = 0;
    for (; c + 128 <= columns; c += 128)
        columns_of(b + 4 * c, 4 * columns, steps, f, minus, out + c, first, 8);
    for (; c + 64 <= columns; c += 64)
        columns_of(b + 4 * c, 4 * columns, steps, f, minus, out + c, first, 4);
    for (; c < columns; c += 16)
        columns_of(b + 4 * c, 4 * columns, steps, f, minus, out + c, first, 1);
}

static void product(const uint8_t *b, size_t steps, size_t columns, const struct factor *f,
                    float *out, bool first)
{
    if (first)
        each_column(b, steps, columns, f, out, true);
    else
        each_column(b, steps, columns, f, out, false);
}

#include "nn/kernels/tmpl/attend_i8_tmpl.h"
