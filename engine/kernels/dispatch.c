#include "kernels/internal.h"

#include "base/cpu.h"

void steno_kernels_init(steno_kernels *k, unsigned cpu)
{
    k->level = "scalar";
    k->cpu = cpu;
    steno_kernels_scalar_elementwise(k);
    steno_kernels_scalar_rows(k);
    steno_kernels_scalar_gemm(k);
    steno_kernels_scalar_conv(k);
}
