/* A CPU with every level of x86-64: the emulated kernels need only AVX2 and C. */
#include "base/cpu.h"

#include "nn/kernels/x86/amx_ops.h"

_Thread_local struct emulated_tiles emulated_tiles;

unsigned steno_cpu_detect(void)
{
    return STENO_CPU_AVX2 | STENO_CPU_AVXVNNI | STENO_CPU_AVX512 | STENO_CPU_VNNI | STENO_CPU_BF16 |
           STENO_CPU_AMX;
}
