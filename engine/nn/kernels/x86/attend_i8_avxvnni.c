/* Attention to bytes by the vpdpbusd of CPUs without AVX-512, eight columns at a time. */
#include "nn/kernels/x86/attend_i8_avx2.h"
#include "nn/kernels/x86/vnni_avx2.h"

enum { MOST = 4 };

static inline void put_halves(int8_t *high, int8_t *low, vi v)
{
    const __m128i n = as_i16(v);
    const __m128i h = _mm_srai_epi16(_mm_adds_epi16(n, _mm_set1_epi16(128)), 8);
    const __m128i l = _mm_sub_epi16(n, _mm_slli_epi16(h, 8));
    _mm_storel_epi64((__m128i *)(void *)high, _mm_packs_epi16(h, h));
    _mm_storel_epi64((__m128i *)(void *)low, _mm_packs_epi16(l, l));
}

#include "nn/kernels/x86/attend_i8_dpbusd_tmpl.h"
