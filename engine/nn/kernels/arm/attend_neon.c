#include "nn/kernels/arm/vec_neon.h"

#include "nn/kernels/tmpl/attend_tmpl.h"

void V_NAME(steno_kernels_attend)(steno_kernels *k)
{
    k->attend_f32 =
        (struct steno_attend_kernel){k->gemm_f32_packed_bytes, k->gemm_f32_pack, attend};
    k->attend_as = k->attend_rounded_as = STENO_ATTEND_F32;
}
