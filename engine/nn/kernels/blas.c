/* Products through OpenBLAS, for CPUs that have none of our vector levels.
 *
 * Our vector levels are faster than OpenBLAS (docs/kernels.md), and linking OpenBLAS alone adds 6
 * ms and a thread to every start of the command. So the library is loaded only when this level is
 * chosen. Each call looks its functions up by name: some 100 ns before a product of at least 100
 * us. Small products run on the scalar level, and all products do where the library is missing.
 * OpenBLAS chooses its own order of summation: at this level, and only here, the bits of a row may
 * depend on the rows computed with it. */
#define _GNU_SOURCE /* RTLD_DEFAULT */

#include "nn/kernels/internal.h"
#include "nn/kernels/scalar/epilogue.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>

/* cblas.h: CBLAS_ORDER RowMajor, CBLAS_TRANSPOSE */
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
typedef void sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);

static void *find(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

static sgemm_fn *worth_blas(size_t m, size_t n, size_t k, size_t lda, size_t ldb, size_t ldc)
{
    sgemm_fn *fn = NULL;
    void *p;
    if (m < 4 || n < 4 || k < 4 || m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX ||
        ldb > INT_MAX || ldc > INT_MAX || (double)m * (double)n * (double)k < 1e6)
        return NULL;
    p = find("cblas_sgemm");
    memcpy(&fn, &p, sizeof fn); /* POSIX: a pointer from dlsym may be a function pointer */
    return fn;
}

static void finish_rows(size_t m, size_t n, float *c, size_t ldc,
                        const struct steno_gemm_epilogue *ep)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            c[i * ldc + j] = epilogue_scalar(c[i * ldc + j], i, j, ep);
}

static void gemm_f32__blas(size_t m, size_t n, size_t k, const float *a, size_t lda, bool trans_a,
                           const float *b, size_t ldb, bool trans_b, float *c, size_t ldc,
                           const struct steno_gemm_epilogue *ep, void *work)
{
    sgemm_fn *sgemm = worth_blas(m, n, k, lda, ldb, ldc);
    if (!sgemm) {
        steno_kernels_gemm_f32__scalar(m, n, k, a, lda, trans_a, b, ldb, trans_b, c, ldc, ep, work);
        return;
    }
    sgemm(ROW_MAJOR, trans_a ? TRANS : NO_TRANS, trans_b ? TRANS : NO_TRANS, (int)m, (int)n, (int)k,
          1.0f, a, (int)lda, b, (int)ldb, 0.0f, c, (int)ldc);
    if (ep)
        finish_rows(m, n, c, ldc, ep);
}

/* The packed form is that of the scalar level: B as [K,N]. */
static void gemm_f32_packed__blas(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                  const void *packed, float *c, size_t ldc,
                                  const struct steno_gemm_epilogue *ep)
{
    gemm_f32__blas(m, n, k, a, lda, false, packed, n, false, c, ldc, ep, NULL);
}

static void gemm_f32_packed_part__blas(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                       const void *packed, float *c, size_t ldc,
                                       const struct steno_gemm_epilogue *ep, size_t part,
                                       size_t n_parts)
{
    size_t i0 = m * part / n_parts, i1 = m * (part + 1) / n_parts;
    struct steno_gemm_epilogue here = {.alpha = 1};
    if (ep) {
        here = *ep;
        if (ep->bias && ep->bias_rows)
            here.bias += i0;
        if (ep->residual)
            here.residual += i0 * ep->ldr;
    }
    gemm_f32_packed__blas(i1 - i0, n, k, a + i0 * lda, lda, packed, c + i0 * ldc, ldc,
                          ep ? &here : NULL);
}

void steno_kernels_gemm__blas(steno_kernels *k)
{
    void (*set_threads)(int) = NULL;
    void *p;
    if (!dlopen("libopenblas.so.0",
                RTLD_NOW | RTLD_GLOBAL)) /* stays loaded until the process ends */
        return;
    p = find("openblas_set_num_threads");
    memcpy(&set_threads, &p, sizeof set_threads);
    if (set_threads)
        set_threads(1); /* the worker team owns the cores */
    k->level = "blas";
    k->gemm_f32 = gemm_f32__blas;
    k->gemm_f32_packed = gemm_f32_packed__blas;
    k->gemm_f32_packed_part = gemm_f32_packed_part__blas;
}
