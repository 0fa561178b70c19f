/* Matrix product, the specification: plain sums, row by row. The packed form is B as [K,N]. */
#include "nn/kernels/internal.h"
#include "nn/kernels/scalar/epilogue.h"

#include <string.h>

static size_t gemm_f32_packed_bytes__scalar(size_t k, size_t n)
{
    return k * n * sizeof(float);
}

static void gemm_f32_pack__scalar(void *dst, const float *b, size_t ldb, bool trans, size_t k,
                                  size_t n)
{
    float *p = dst;
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < n; j++)
            *p++ = trans ? b[j * ldb + i] : b[i * ldb + j];
}

/* Rows [i0, i1) of C. Sums grow in C itself, k by k, so that B is read along its rows. */
static void rows(size_t i0, size_t i1, size_t n, size_t k, const float *a, size_t a_row,
                 size_t a_col, const float *b, size_t b_row, size_t b_col, float *c, size_t ldc,
                 const struct steno_gemm_epilogue *ep)
{
    for (size_t i = i0; i < i1; i++) {
        float *row = c + i * ldc;
        memset(row, 0, n * sizeof *row);
        for (size_t l = 0; l < k; l++) {
            float v = a[i * a_row + l * a_col];
            for (size_t j = 0; j < n; j++)
                row[j] += v * b[l * b_row + j * b_col];
        }
        for (size_t j = 0; j < n; j++)
            row[j] = epilogue_scalar(row[j], i, j, ep);
    }
}

static void gemm_f32_packed_part__scalar(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                         const void *packed, float *c, size_t ldc,
                                         const struct steno_gemm_epilogue *ep, size_t part,
                                         size_t n_parts)
{
    rows(m * part / n_parts, m * (part + 1) / n_parts, n, k, a, lda, 1, packed, n, 1, c, ldc, ep);
}

static void gemm_f32_packed__scalar(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                    const void *packed, float *c, size_t ldc,
                                    const struct steno_gemm_epilogue *ep)
{
    rows(0, m, n, k, a, lda, 1, packed, n, 1, c, ldc, ep);
}

static size_t gemm_f32_work__scalar(size_t m, size_t n, size_t k)
{
    (void)m, (void)n, (void)k;
    return 0;
}

void steno_kernels_gemm_f32__scalar(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                    bool trans_a, const float *b, size_t ldb, bool trans_b,
                                    float *c, size_t ldc, const struct steno_gemm_epilogue *ep,
                                    void *work)
{
    (void)work;
    rows(0, m, n, k, a, trans_a ? 1 : lda, trans_a ? lda : 1, b, trans_b ? 1 : ldb,
         trans_b ? ldb : 1, c, ldc, ep);
}

void steno_kernels_gemm__scalar(steno_kernels *k)
{
    k->gemm_panel = 0;
    k->gemm_f32_packed_bytes = gemm_f32_packed_bytes__scalar;
    k->gemm_f32_pack = gemm_f32_pack__scalar;
    k->gemm_f32_packed = gemm_f32_packed__scalar;
    k->gemm_f32_packed_part = gemm_f32_packed_part__scalar;
    k->gemm_f32_work = gemm_f32_work__scalar;
    k->gemm_f32 = steno_kernels_gemm_f32__scalar;
}
