/* Eight integers to 16 bits, and eight floats to bytes, for attention to bytes. */
#ifndef STENO_NN_KERNELS_X86_PUT_BYTES_AVX2_H
#define STENO_NN_KERNELS_X86_PUT_BYTES_AVX2_H

#include "nn/kernels/x86/vec_i32_avx2.h"

#include "nn/kernels/attend_i8.h"
#include "nn/kernels/tmpl/math_tmpl.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline __m128i as_i16(vi v)
{
    return _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

static inline void put_u8(uint8_t *to, vf x)
{
    const __m128i i = as_i16(vi_round(x));
    _mm_storel_epi64((__m128i *)(void *)to, _mm_packus_epi16(i, i));
}

#endif
