#include "nn/kernels/x86/vec_avx512.h"

#include "nn/kernels/tmpl/attend_tmpl.h"

void V_NAME(steno_kernels_attend)(steno_kernels *k)
{
    k->attend_f32 = attend;
    k->attend_i16 = NULL; /* f32 of 16 lanes is faster than 16 bits of 8 */
}
