/* Eight floats to integers of 8 and 16 bits, and four bytes to all lanes, for attention to bytes.
 */
#ifndef STENO_NN_KERNELS_X86_PUT_BYTES_AVX2_H
#define STENO_NN_KERNELS_X86_PUT_BYTES_AVX2_H

#include "nn/kernels/x86/vec_avx2.h"

#include "nn/kernels/attend_i8.h"
#include "nn/kernels/tmpl/math_tmpl.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { LOOK_AHEAD = 16 << 10 /* bytes */ };

static const float exponent_unit = 1;

enum { WEIGHTS = V_MANY };

static inline __attribute__((always_inline)) void weights_each(vf *x, int n)
{
    v_exp_each(x, n);
}

static inline __m128i as_i16(vf x)
{
    const __m256i i = _mm256_cvtps_epi32(x);
    return _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
}

static inline void put_u8(uint8_t *to, vf x)
{
    const __m128i i = as_i16(x);
    _mm_storel_epi64((__m128i *)(void *)to, _mm_packus_epi16(i, i));
}

static inline int32_t sum_of(__m128i x)
{
    x = _mm_hadd_epi32(x, x);
    return _mm_cvtsi128_si32(_mm_hadd_epi32(x, x));
}

#endif
