#include "nn/kernels/x86/vec_avx2.h"

#include "nn/kernels/tmpl/attend_tmpl.h"

void V_NAME(steno_kernels_attend)(steno_kernels *k)
{
    k->attend_f32 = attend;
}
