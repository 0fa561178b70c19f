/* f32 product with block-quantized weights, the specification. Packed: the values [K,N], one byte
 * each, then scales and zero points [blocks,N]. */
#include "nn/kernels/internal.h"
#include "nn/kernels/scalar/epilogue.h"

#include <string.h>

static size_t packed_bytes(const struct steno_nbits *b)
{
    size_t blocks = (b->k + b->block - 1) / b->block;
    return (b->k * b->n + 3) / 4 * 4 + 2 * blocks * b->n * sizeof(float);
}

static size_t work_bytes(const struct steno_nbits *b, size_t n_parts)
{
    (void)b, (void)n_parts;
    return 0;
}

static void pack(void *dst, const struct steno_nbits *b)
{
    size_t blocks = (b->k + b->block - 1) / b->block;
    float *s = (float *)(void *)((uint8_t *)dst + (b->k * b->n + 3) / 4 * 4),
          *z = s + blocks * b->n;
    uint8_t *q = dst;
    for (size_t k = 0; k < b->k; k++)
        for (size_t n = 0; n < b->n; n++)
            *q++ = steno_nbits_value(b, k, n);
    for (size_t j = 0; j < blocks; j++)
        for (size_t n = 0; n < b->n; n++) {
            *s++ = b->scale[n * blocks + j];
            *z++ = b->has_zero ? b->zero[n * blocks + j] : (float)(1u << (b->bits - 1));
        }
}

static void product_part(const struct steno_nbits *b, size_t m, const float *a, size_t lda,
                         const void *packed, float *c, size_t ldc,
                         const struct steno_gemm_epilogue *ep, void *work, size_t part,
                         size_t n_parts)
{
    size_t blocks = (b->k + b->block - 1) / b->block;
    const uint8_t *q = packed;
    const float *s =
        (const float *)(const void *)((const uint8_t *)packed + (b->k * b->n + 3) / 4 * 4);
    const float *z = s + blocks * b->n;
    (void)work;
    for (size_t i = m * part / n_parts; i < m * (part + 1) / n_parts; i++) {
        float *row = c + i * ldc;
        memset(row, 0, b->n * sizeof *row);
        for (size_t k = 0; k < b->k; k++)
            for (size_t n = 0; n < b->n; n++) {
                size_t at = k / b->block * b->n + n;
                row[n] += a[i * lda + k] * (((float)q[k * b->n + n] - z[at]) * s[at]);
            }
        for (size_t n = 0; n < b->n; n++)
            row[n] = epilogue_scalar(row[n], i, n, ep);
    }
}

void steno_kernels_gemm_nbits__scalar(steno_kernels *k)
{
    k->gemm_nbits = (struct steno_gemm_nbits){packed_bytes, pack, work_bytes, product_part};
}
