#include "nn/kernels/x86/vec_avx512.h"

#include "nn/kernels/half.h"
#define to_half half_to_bf16
#include "nn/kernels/tmpl/gemm_w16_tmpl.h"

static inline vf b_load(const b_t *p)
{
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p)), 16));
}

void V_NAME(steno_kernels_gemm_wbf16)(steno_kernels *k)
{
    k->gemm_bf16 =
        (struct steno_gemm_weights){packed_bytes, pack, product_part, conv_part, conv_winograd};
}
