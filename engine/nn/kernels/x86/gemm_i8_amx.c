#include "nn/kernels/x86/amx.h"
#include "nn/kernels/x86/vec_i32_avx512.h"

/* Load a line of the weights, and prefetch a later one from memory. */
static inline __attribute__((always_inline)) vi paced_line(const int8_t *p)
{
    __builtin_prefetch(p + 8192, 0, 2);
    const vi v = amx_line(p);
    AMX_PACE(4);
    return v;
}

#undef ISA
#define ISA amx
#define row_weights(p) paced_line(p)
#define KG 4
#define A_U8 1
#define A_S8 0
#define SUMS_16 0
#define weights vi_load
#define dot(acc, a, b) _mm512_dpbusd_epi32(acc, a, b)
#define AMX_DOT AMX_DOT_U8
#include "nn/kernels/tmpl/gemm_i8_tmpl.h"
