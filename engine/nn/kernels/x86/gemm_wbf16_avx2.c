#include "nn/kernels/x86/vec_avx2.h"

#include "nn/kernels/half.h"
#define to_half half_to_bf16
#include "nn/kernels/tmpl/gemm_w16_tmpl.h"

static inline vf b_load(const b_t *p)
{
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16));
}

void V_NAME(steno_kernels_gemm_wbf16)(steno_kernels *k)
{
    k->gemm_bf16 =
        (struct steno_gemm_weights){packed_bytes, pack, product_part, conv_part, conv_winograd};
}
