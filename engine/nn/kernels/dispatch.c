#include "nn/kernels/internal.h"

#include "base/cpu.h"

#define CALL(PART) PART(k);
#define LEVEL(NAME, PARTS)                                                                         \
    static void set_##NAME(steno_kernels *k)                                                       \
    {                                                                                              \
        k->level = #NAME;                                                                          \
        PARTS(CALL)                                                                                \
    }

LEVEL(scalar, STENO_KERNELS_SCALAR)
#if defined(__x86_64__)
LEVEL(avx2, STENO_KERNELS_AVX2)
LEVEL(avxvnni, STENO_KERNELS_AVXVNNI)
LEVEL(avx512, STENO_KERNELS_AVX512)
LEVEL(vnni, STENO_KERNELS_VNNI)
LEVEL(bf16, STENO_KERNELS_BF16)
LEVEL(amx, STENO_KERNELS_AMX)
#elif defined(__aarch64__)
LEVEL(neon, STENO_KERNELS_NEON)
LEVEL(dotprod, STENO_KERNELS_DOTPROD)
#endif

void steno_kernels_init(steno_kernels *k, unsigned cpu)
{
    *k = (steno_kernels){.cpu = cpu};
    set_scalar(k);
    if (cpu & STENO_CPU_BLAS)
        steno_kernels_gemm__blas(k);
#if defined(__x86_64__)
    if (cpu & STENO_CPU_AVX2)
        set_avx2(k);
    if ((cpu & STENO_CPU_AVX2) && (cpu & STENO_CPU_AVXVNNI))
        set_avxvnni(k);
    if (cpu & STENO_CPU_AVX512)
        set_avx512(k);
    if ((cpu & STENO_CPU_AVX512) && (cpu & STENO_CPU_VNNI))
        set_vnni(k);
    k->peak_bf16 = k->peak_f32;
    if ((cpu & STENO_CPU_AVX512) && (cpu & STENO_CPU_BF16))
        set_bf16(k);
    if ((cpu & STENO_CPU_BF16) && (cpu & STENO_CPU_AMX))
        set_amx(k);
#elif defined(__aarch64__)
    if (cpu & STENO_CPU_NEON)
        set_neon(k);
    if ((cpu & STENO_CPU_NEON) && (cpu & STENO_CPU_DOTPROD))
        set_dotprod(k);
    k->peak_bf16 = k->peak_f32;
#else
    k->peak_bf16 = k->peak_f32;
#endif
}
