#include "nn/kernels/x86/vec_i32_avx2.h"

#include <stdbool.h>

static inline __attribute__((always_inline)) void widen_two(vf *v, const void *b, bool busy)
{
    (void)busy;
    const __m256i upper = _mm256_set1_epi32((int)0xffffff00), *at = b;
    const __m256i x = _mm256_loadu_si256(at), y = _mm256_loadu_si256(at + 1),
                  z = _mm256_loadu_si256(at + 2);
    const __m256i second = _mm256_srli_epi32(_mm256_slli_epi32(y, 24), 8);
    const __m256i xy = _mm256_or_si256(_mm256_slli_epi32(x, 24), second);
    v[0] = _mm256_cvtepi32_ps(_mm256_and_si256(x, upper));
    v[1] = _mm256_cvtepi32_ps(_mm256_and_si256(y, upper));
    v[2] = _mm256_cvtepi32_ps(_mm256_and_si256(z, upper));
    v[3] = _mm256_cvtepi32_ps(_mm256_blend_epi16(_mm256_slli_epi32(z, 8), xy, 0xaa));
}

#include "nn/kernels/tmpl/gemm_f32_w24_tmpl.h"
