#include "nn/kernels/x86/vec_avx512.h"

#include "nn/kernels/x86/approx_exp2_tmpl.h"

#undef ISA
#define ISA bf16
#define ATTEND_PAIRS
#include "nn/kernels/tmpl/attend_tmpl.h"

#define KV_PAGE_DEPTH depth_of
#include "nn/kernels/x86/kv_append_bf16_tmpl.h"

void steno_kernels_attend__bf16(steno_kernels *k)
{
    k->attend_bf16 =
        (struct steno_attend_kernel){k->gemm_bf16.packed_bytes, k->gemm_bf16.pack, attend};
    k->kv_append_bf16 = kv_append_bf16;
    k->attend_rounded_as = STENO_ATTEND_BF16;
}
