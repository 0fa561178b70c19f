/* The functions that fill the kernel table: each file of a level sets the slots of its family. */
#ifndef STENO_NN_KERNELS_INTERNAL_H
#define STENO_NN_KERNELS_INTERNAL_H

#include "nn/kernels/kernels.h"

#include <float.h>
#include <math.h>

/* The parts of each level. A later level replaces slots of those before it (dispatch.c). */
#define STENO_KERNELS_SCALAR(X)                                                                    \
    X(steno_kernels_elementwise__scalar)                                                           \
    X(steno_kernels_rows__scalar)                                                                  \
    X(steno_kernels_gemm__scalar)                                                                  \
    X(steno_kernels_conv__scalar)                                                                  \
    X(steno_kernels_attention__scalar)                                                             \
    X(steno_kernels_attend__scalar)                                                                \
    X(steno_kernels_attend_i8__scalar)                                                             \
    X(steno_kernels_gemm_i8__scalar)                                                               \
    X(steno_kernels_gemm_nbits__scalar)                                                            \
    X(steno_kernels_gemm_w16__scalar)                                                              \
    X(steno_kernels_fbank__scalar)
#if defined(__x86_64__)
#define STENO_KERNELS_AVX2(X)                                                                      \
    X(steno_kernels_elementwise__avx2)                                                             \
    X(steno_kernels_rows__avx2)                                                                    \
    X(steno_kernels_gemm__avx2)                                                                    \
    X(steno_kernels_conv__avx2)                                                                    \
    X(steno_kernels_nhwc__avx2)                                                                    \
    X(steno_kernels_attention__avx2)                                                               \
    X(steno_kernels_attend__avx2)                                                                  \
    X(steno_kernels_attend_i16__avx2)                                                              \
    X(steno_kernels_attend_i8__avx2)                                                               \
    X(steno_kernels_gemm_i8__avx2)                                                                 \
    X(steno_kernels_gemm_nbits__avx2)                                                              \
    X(steno_kernels_gemm_wbf16__avx2)                                                              \
    X(steno_kernels_gemm_wf16__avx2)                                                               \
    X(steno_kernels_fbank__avx2)
#define STENO_KERNELS_AVXVNNI(X)                                                                   \
    X(steno_kernels_gemm_i8__avxvnni)                                                              \
    X(steno_kernels_attend_i8__avxvnni)                                                            \
    X(steno_kernels_attend_i16__avxvnni)
#define STENO_KERNELS_AVX512(X)                                                                    \
    X(steno_kernels_elementwise__avx512)                                                           \
    X(steno_kernels_rows__avx512)                                                                  \
    X(steno_kernels_gemm__avx512)                                                                  \
    X(steno_kernels_conv__avx512)                                                                  \
    X(steno_kernels_nhwc__avx512)                                                                  \
    X(steno_kernels_attention__avx512)                                                             \
    X(steno_kernels_attend__avx512)                                                                \
    X(steno_kernels_gemm_i8__avx512)                                                               \
    X(steno_kernels_gemm_nbits__avx512)                                                            \
    X(steno_kernels_gemm_wbf16__avx512)                                                            \
    X(steno_kernels_gemm_wf16__avx512)
#define STENO_KERNELS_VNNI(X)                                                                      \
    X(steno_kernels_gemm_i8__vnni)                                                                 \
    X(steno_kernels_attend_i8__vnni)                                                               \
    X(steno_kernels_attend_i16__vnni)
#define STENO_KERNELS_BF16(X)                                                                      \
    X(steno_kernels_gemm__bf16)                                                                    \
    X(steno_kernels_attend__bf16)
#define STENO_KERNELS_AMX(X)                                                                       \
    X(steno_kernels_gemm_i8__amx)                                                                  \
    X(steno_kernels_gemm__amx)                                                                     \
    X(steno_kernels_gemm_f32__amx)                                                                 \
    X(steno_kernels_attend__amx)
#elif defined(__aarch64__)
#define STENO_KERNELS_NEON(X)                                                                      \
    X(steno_kernels_elementwise__neon)                                                             \
    X(steno_kernels_rows__neon)                                                                    \
    X(steno_kernels_gemm__neon)                                                                    \
    X(steno_kernels_conv__neon)                                                                    \
    X(steno_kernels_nhwc__neon)                                                                    \
    X(steno_kernels_attention__neon)                                                               \
    X(steno_kernels_attend__neon)                                                                  \
    X(steno_kernels_attend_i8__neon)                                                               \
    X(steno_kernels_gemm_i8__neon)                                                                 \
    X(steno_kernels_gemm_nbits__neon)                                                              \
    X(steno_kernels_gemm_wbf16__neon)                                                              \
    X(steno_kernels_gemm_wf16__neon)
#define STENO_KERNELS_DOTPROD(X) X(steno_kernels_gemm_i8__dotprod)
#endif

/* The scalar slot, for levels that replace it for several frames only. */
void steno_kernels_fbank_f32__scalar(const struct steno_fbank_tables *t, const float *x, size_t n,
                                     float *out);
void steno_kernels_gemm__blas(steno_kernels *k); /* after scalar; no change without OpenBLAS */
/* The scalar product, for levels that replace it for large products only. */
void steno_kernels_gemm_f32__scalar(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                    bool trans_a, const float *b, size_t ldb, bool trans_b,
                                    float *c, size_t ldc, const struct steno_gemm_epilogue *ep,
                                    void *work);
#define DECLARE(PART) void PART(steno_kernels *k);
STENO_KERNELS_SCALAR(DECLARE)
#if defined(__x86_64__)
STENO_KERNELS_AVX2(DECLARE)
STENO_KERNELS_AVXVNNI(DECLARE)
STENO_KERNELS_AVX512(DECLARE)
STENO_KERNELS_VNNI(DECLARE)
STENO_KERNELS_BF16(DECLARE)
STENO_KERNELS_AMX(DECLARE)
#elif defined(__aarch64__)
STENO_KERNELS_NEON(DECLARE)
STENO_KERNELS_DOTPROD(DECLARE)
#endif
#undef DECLARE

/* True when all rows see keys [j, j + n) and nothing is added to their scores. */
static inline bool attend_sees_all(const struct steno_attend *a, size_t j, size_t n)
{
    for (size_t i = 0; a->seen && i < a->m; i++)
        if (a->seen[i].from > j || j + n > a->seen[i].to || a->seen[i].mask)
            return false;
    return true;
}

/* Scale, its reciprocal (*by) and the zero point of u8 for numbers in [lo, hi], which contains
 * 0. */
static inline float quantize_range(float lo, float hi, float *by, int32_t *zero)
{
    float scale = (hi - lo) / 255, at;
    if (!(scale > 0) || !(1 / scale <= FLT_MAX)) /* all numbers are (nearly) zero: any scale does */
        scale = 1;
    *by = 1 / scale;
    at = -lo * *by;
    *zero = (int32_t)rintf(at > 0 ? at < 255 ? at : 255 : 0);
    return scale;
}

#endif
