/* The f32 product of gemm_avx512.c with loads and prefetches in the order that suits the memory of
 * CPUs with AMX (Granite Rapids). */
#include "nn/kernels/x86/amx_ops.h"
#include "nn/kernels/x86/vec_avx512.h"

/* Load a line, and prefetch a later one from memory. */
#define GEMM_PACED_ROWS 6
#define GEMM_PACED(p, prefetch) paced_line(p, (p) + (prefetch))
static inline __attribute__((always_inline)) vf paced_line(const float *p, const float *later)
{
    __builtin_prefetch(later, 0, 2);
    const vf v = (vf)amx_line(p);
    AMX_PACE(4);
    return v;
}

#include "nn/kernels/tmpl/gemm_f32_tmpl.h"

static void packed(size_t m, size_t n, size_t k, const float *a, size_t lda, const void *weights,
                   float *c, size_t ldc, const struct steno_gemm_epilogue *ep)
{
    const struct product p = product_of(n, k, a, lda, weights, c, ldc, ep);
    multiply(&p, 0, m, 0, panels(n));
}

static void packed_part(size_t m, size_t n, size_t k, const float *a, size_t lda,
                        const void *weights, float *c, size_t ldc,
                        const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)
{
    const struct product p = product_of(n, k, a, lda, weights, c, ldc, ep);
    multiply_part(&p, m, part, n_parts);
}

void steno_kernels_gemm_f32__amx(steno_kernels *k)
{
    k->gemm_f32_packed = packed;
    k->gemm_f32_packed_part = packed_part;
}
