#include "kernels/x86/vec_i32_avx512.h"

static inline __attribute__((always_inline)) void widen_two(vf *v, const void *b)
{
    const __mmask64 upper = 0xeeeeeeeeeeeeeeee;
    const __m512i *at = b;
    const __m512i x = _mm512_loadu_si512(at), y = _mm512_loadu_si512(at + 1), z = _mm512_loadu_si512(at + 2);
    const __m512i xy = _mm512_mask_mov_epi8(_mm512_slli_epi32(y, 16), 0x8888888888888888, _mm512_slli_epi32(x, 24));
    v[0] = _mm512_cvtepi32_ps(_mm512_maskz_mov_epi8(upper, x));
    v[1] = _mm512_cvtepi32_ps(_mm512_maskz_mov_epi8(upper, y));
    v[2] = _mm512_cvtepi32_ps(_mm512_maskz_mov_epi8(upper, z));
    v[3] = _mm512_cvtepi32_ps(_mm512_mask_mov_epi8(_mm512_slli_epi32(z, 8), 0xcccccccccccccccc, xy));
}

#include "kernels/x86/gemm_fixed_tmpl.h"
