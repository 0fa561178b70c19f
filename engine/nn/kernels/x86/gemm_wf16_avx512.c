#include "nn/kernels/x86/vec_avx512.h"

#include "nn/kernels/half.h"
#define to_half half_to_f16
#include "nn/kernels/tmpl/gemm_w16_tmpl.h"

static inline vf b_load(const b_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

void V_NAME(steno_kernels_gemm_wf16)(steno_kernels *k)
{
    k->gemm_f16 =
        (struct steno_gemm_weights){packed_bytes, pack, product_part, conv_part, conv_winograd};
}
