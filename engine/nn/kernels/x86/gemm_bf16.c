#include "nn/kernels/x86/vec_avx512.h"

#undef ISA
#define ISA bf16
#include "nn/kernels/x86/bf16_tmpl.h"
#include "nn/kernels/tmpl/winograd_tmpl.h"

static double peak_bf16(size_t rounds)
{
    enum { SUMS = 24 };
    vf sum[SUMS], a = v_set1(1.0f), b = v_set1(0.5f);
    volatile float sink;
    for (int i = 0; i < SUMS; i++)
        sum[i] = v_set1((float)i);
    for (size_t t = 0; t < rounds; t++) {
        __asm__ volatile("" : "+" V_REGISTER(a), "+" V_REGISTER(b));
#pragma GCC unroll 24
        for (int i = 0; i < SUMS; i++)
            sum[i] = mac(a, b, sum[i]);
    }
    for (int i = 1; i < SUMS; i++)
        sum[0] = sum[0] + sum[i];
    sink = v_hsum(sum[0]);
    (void)sink;
    return (double)rounds * SUMS * VL * 4;
}

void V_NAME(steno_kernels_gemm)(steno_kernels *k)
{
    k->gemm_bf16 =
        (struct steno_gemm_weights){packed_bytes, pack, product_part, conv_part, conv_winograd};
    k->peak_bf16 = peak_bf16;
}
