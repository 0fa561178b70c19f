#include "nn/kernels/x86/vec_avx512.h"

#include "nn/kernels/x86/near_exp2_tmpl.h"

#undef ISA
#define ISA bf16
#define ATTEND_PAIRS
#include "nn/kernels/tmpl/attend_tmpl.h"

#define KEPT_DEPTH depth_of
#include "nn/kernels/x86/keep_bf16_tmpl.h"

void steno_kernels_attend__bf16(steno_kernels *k)
{
    k->attend_bf16 = attend;
    k->keep_bf16 = keep_bf16;
}
