#include "nn/kernels/internal.h"

#include "base/cpu.h"

static void set_scalar(steno_kernels *k)
{
    k->level = "scalar";
    steno_kernels_elementwise__scalar(k);
    steno_kernels_rows__scalar(k);
    steno_kernels_gemm__scalar(k);
    steno_kernels_conv__scalar(k);
    steno_kernels_attention__scalar(k);
    steno_kernels_attend__scalar(k);
    steno_kernels_attend_i8__scalar(k);
    steno_kernels_gemm_i8__scalar(k);
    steno_kernels_gemm_nbits__scalar(k);
    steno_kernels_gemm_w16__scalar(k);
    steno_kernels_fbank__scalar(k);
}

#if defined(__x86_64__)
static void set_avx2(steno_kernels *k)
{
    k->level = "avx2";
    steno_kernels_elementwise__avx2(k);
    steno_kernels_rows__avx2(k);
    steno_kernels_gemm__avx2(k);
    steno_kernels_conv__avx2(k);
    steno_kernels_nhwc__avx2(k);
    steno_kernels_attention__avx2(k);
    steno_kernels_attend__avx2(k);
    steno_kernels_attend_i16__avx2(k);
    steno_kernels_attend_i8__avx2(k);
    steno_kernels_gemm_i8__avx2(k);
    steno_kernels_gemm_nbits__avx2(k);
    steno_kernels_gemm_wbf16__avx2(k);
    steno_kernels_gemm_wf16__avx2(k);
    steno_kernels_fbank__avx2(k);
}

static void set_avxvnni(steno_kernels *k)
{
    k->level = "avxvnni";
    steno_kernels_gemm_i8__avxvnni(k);
    steno_kernels_attend_i8__avxvnni(k);
    steno_kernels_attend_i16__avxvnni(k);
}

static void set_avx512(steno_kernels *k)
{
    k->level = "avx512";
    steno_kernels_elementwise__avx512(k);
    steno_kernels_rows__avx512(k);
    steno_kernels_gemm__avx512(k);
    steno_kernels_conv__avx512(k);
    steno_kernels_nhwc__avx512(k);
    steno_kernels_attention__avx512(k);
    steno_kernels_attend__avx512(k);
    steno_kernels_gemm_i8__avx512(k);
    steno_kernels_gemm_nbits__avx512(k);
    steno_kernels_gemm_wbf16__avx512(k);
    steno_kernels_gemm_wf16__avx512(k);
}

static void set_vnni(steno_kernels *k)
{
    k->level = "vnni";
    steno_kernels_gemm_i8__vnni(k);
    steno_kernels_attend_i8__vnni(k);
    steno_kernels_attend_i16__vnni(k);
}

static void set_bf16(steno_kernels *k)
{
    k->level = "bf16";
    steno_kernels_gemm__bf16(k);
    steno_kernels_attend__bf16(k);
}

static void set_amx(steno_kernels *k)
{
    k->level = "amx";
    steno_kernels_gemm_i8__amx(k);
    steno_kernels_gemm__amx(k);
    steno_kernels_gemm_f32__amx(k);
    steno_kernels_attend__amx(k);
}
#endif

#if defined(__aarch64__)
static void set_neon(steno_kernels *k)
{
    k->level = "neon";
    steno_kernels_elementwise__neon(k);
    steno_kernels_rows__neon(k);
    steno_kernels_gemm__neon(k);
    steno_kernels_conv__neon(k);
    steno_kernels_nhwc__neon(k);
    steno_kernels_attention__neon(k);
    steno_kernels_attend__neon(k);
    steno_kernels_attend_i8__neon(k);
    steno_kernels_gemm_i8__neon(k);
    steno_kernels_gemm_nbits__neon(k);
    steno_kernels_gemm_wbf16__neon(k);
    steno_kernels_gemm_wf16__neon(k);
}

static void set_dotprod(steno_kernels *k)
{
    k->level = "dotprod";
    steno_kernels_gemm_i8__dotprod(k);
}
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
