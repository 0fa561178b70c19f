/* Attention to bytes by vpdpbusd, sixteen columns at a time. */
#include "nn/kernels/x86/vec_i32_avx512.h"

#include "nn/kernels/x86/approx_exp2_tmpl.h"
#include "nn/kernels/attend_i8.h"
#include "nn/kernels/tmpl/math_tmpl.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#undef ISA
#define ISA vnni
#define dot(acc, a, b) _mm512_dpbusd_epi32(acc, a, b)

/* Weights are computed as powers of two, all of a page together. */
#undef V_EACH
#define V_EACH APPROX_EACH
#define weights_each approx_exp2_each
#define EXPONENT_UNIT 1.44269504088896341f

enum { MOST = 8, WEIGHTS = APPROX_MANY };

static inline void put_halves(int8_t *high, int8_t *low, vi v)
{
    const vi h = _mm512_srai_epi32(vi_add(v, vi_set1(128)), 8);
    _mm_store_si128((__m128i *)(void *)high, _mm512_cvtepi32_epi8(h));
    _mm_store_si128((__m128i *)(void *)low, _mm512_cvtepi32_epi8(v));
}

#include "nn/kernels/x86/attend_i8_dpbusd_tmpl.h"
