/* What attention to bytes needs at the levels of eight lanes. */
#ifndef STENO_NN_KERNELS_X86_ATTEND_I8_AVX2_H
#define STENO_NN_KERNELS_X86_ATTEND_I8_AVX2_H

#include "nn/kernels/x86/vec_i32_avx2.h"

#include "nn/kernels/attend_i8.h"
#include "nn/kernels/tmpl/math_tmpl.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Eight integers to 16 bits, with saturation. */
static inline __m128i as_i16(vi v)
{
    return _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

#endif
