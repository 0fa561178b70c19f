/* sdot adds four products of s8 to each lane; nothing saturates. udot needs unsigned weights, and
 * usdot is a later extension (I8MM). */
#include "nn/kernels/arm/vec_i32_neon.h"

#undef ISA
#define ISA dotprod
#define KG 4
#define A_U8 0
#define A_S8 1
#define SUMS_16 0
#define weights vi_load
#define dot(acc, a, b) vdotq_s32(acc, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b))
#include "nn/kernels/tmpl/gemm_i8_tmpl.h"
