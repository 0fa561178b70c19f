#include "nn/kernels/x86/amx.h"
#include "nn/kernels/x86/vec_avx512.h"

#undef ISA
#define ISA amx
#define AMX_DOT AMX_DOT_BF16
#include "nn/kernels/x86/bf16_tmpl.h"

static double peak_bf16(size_t rounds)
{
    return amx_peak(rounds, 2);
}

void V_NAME(steno_kernels_gemm)(steno_kernels *k)
{
    /* Winograd's form saves little compared with the sums it needs */
    k->gemm_bf16 = (struct steno_gemm_weights){packed_bytes, pack, product_part, conv_part, NULL};
    k->peak_bf16 = peak_bf16;
}
