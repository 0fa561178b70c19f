/* f32 product with weights of 16 bits, the specification. Packed: [K,N]. */
#include "kernels/half.h"
#include "kernels/internal.h"
#include "kernels/scalar/epilogue.h"

static size_t packed_bytes(size_t k, size_t n)
{
    return k * n * sizeof(uint16_t);
}

#define W16(T)                                                                                     \
    static void pack_##T(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n)    \
    {                                                                                              \
        uint16_t *p = dst;                                                                         \
        for (size_t i = 0; i < k; i++)                                                             \
            for (size_t j = 0; j < n; j++)                                                         \
                *p++ = half_to_##T(trans ? b[j * ldb + i] : b[i * ldb + j]);                       \
    }                                                                                              \
    static void part_##T(size_t m, size_t n, size_t k, const float *a, size_t lda,                 \
                         const void *packed, float *c, size_t ldc,                                 \
                         const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)        \
    {                                                                                              \
        for (size_t i = m * part / n_parts; i < m * (part + 1) / n_parts; i++) {                   \
            float *row = c + i * ldc;                                                              \
            const uint16_t *b = packed;                                                            \
            memset(row, 0, n * sizeof *row);                                                       \
            for (size_t l = 0; l < k; l++, b += n)                                                 \
                for (size_t j = 0; j < n; j++)                                                     \
                    row[j] += a[i * lda + l] * half_from_##T(b[j]);                                \
            for (size_t j = 0; j < n; j++)                                                         \
                row[j] = epilogue_scalar(row[j], i, j, ep);                                        \
        }                                                                                          \
    }
W16(bf16)
W16(f16)

void steno_kernels_gemm_w16__scalar(steno_kernels *k)
{
    k->gemm_bf16 = (struct steno_gemm_w16){packed_bytes, pack_bf16, part_bf16};
    k->gemm_f16 = (struct steno_gemm_w16){packed_bytes, pack_f16, part_f16};
}
