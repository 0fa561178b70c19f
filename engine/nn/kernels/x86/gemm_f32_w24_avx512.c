#include "nn/kernels/x86/vec_i32_avx512.h"

#include <stdbool.h>

/* The last numbers of a row of a panel. Their three bytes are the lowest bytes of the words of the
 * three lines. */
static inline __attribute__((always_inline)) __m512i last_of(const char *x, bool busy)
{
    const __mmask64 byte1 = 0x2222222222222222, byte2 = 0x4444444444444444,
                    byte3 = 0x8888888888888888;
    const char *y = x + 64, *z = y + 64;
    if (busy) { /* shifts compete with multiply-adds for ports; loads across two lines do not */
        const __m512i upper =
            _mm512_mask_loadu_epi8(_mm512_maskz_loadu_epi8(byte1, z - 1), byte2, y - 2);
        return _mm512_mask_loadu_epi8(upper, byte3, x - 3);
    }
    const __m512i upper = _mm512_mask_mov_epi8(_mm512_slli_epi32(_mm512_loadu_si512(y), 16), byte3,
                                               _mm512_slli_epi32(_mm512_loadu_si512(x), 24));
    return _mm512_mask_mov_epi8(_mm512_slli_epi32(_mm512_loadu_si512(z), 8), byte2 | byte3, upper);
}

static inline __attribute__((always_inline)) void widen_two(vf *v, const void *b, bool busy)
{
    const __mmask64 upper = 0xeeeeeeeeeeeeeeee;
    const char *x = b, *y = x + 64, *z = y + 64;
    const __m512i last = last_of(x, busy);
    v[0] = _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi8(upper, x));
    v[1] = _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi8(upper, y));
    v[2] = _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi8(upper, z));
    v[3] = _mm512_cvtepi32_ps(last);
}

#include "nn/kernels/tmpl/gemm_f32_w24_tmpl.h"
