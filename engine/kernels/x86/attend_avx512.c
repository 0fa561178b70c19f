#include "kernels/x86/vec_avx512.h"

#include "kernels/x86/attend_tmpl.h"

void V_NAME(steno_kernels_attend)(steno_kernels *k)
{
    k->attend_f32 = attend;
}
