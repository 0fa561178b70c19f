#include "nn/kernels/arm/vec_neon.h"

#include "nn/kernels/half.h"
#define to_half half_to_bf16
#include "nn/kernels/tmpl/gemm_w16_tmpl.h"

static inline vf b_load(const b_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

void V_NAME(steno_kernels_gemm_wbf16)(steno_kernels *k)
{
    k->gemm_bf16 =
        (struct steno_gemm_weights){packed_bytes, pack, product_part, conv_part, conv_winograd};
}
