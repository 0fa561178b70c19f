/* f32 product with 16-bit weights, the specification. Packed: [K,N]. */
#include "nn/kernels/half.h"
#include "nn/kernels/internal.h"
#include "nn/kernels/scalar/epilogue.h"

static size_t packed_bytes(size_t k, size_t n)
{
    return k * n * sizeof(uint16_t);
}

/* Index of the input pixel that a tap of an output pixel reads; SIZE_MAX outside the image. */
static size_t pixel_of_tap(const struct steno_conv *s, size_t pixel, size_t tap)
{
    const size_t o[2] = {pixel / s->out[1], pixel % s->out[1]};
    const size_t k[2] = {tap / s->kernel[1], tap % s->kernel[1]};
    size_t i[2];
    for (int d = 0; d < 2; d++) {
        i[d] = o[d] * s->stride[d] + k[d] * s->dilation[d] - s->pad[d]; /* wraps below zero */
        if (i[d] >= s->in[d])
            return SIZE_MAX;
    }
    return i[0] * s->in[1] + i[1];
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
    }                                                                                              \
    /* y += the pixel x times the weights of one tap. */                                           \
    static void tap_##T(const struct steno_conv *s, const float *x, const uint16_t *w, float *y)   \
    {                                                                                              \
        for (size_t c = 0; c < s->c_in; c++, w += s->c_out)                                        \
            for (size_t o = 0; o < s->c_out; o++)                                                  \
                y[o] += x[c] * half_from_##T(w[o]);                                                \
    }                                                                                              \
    static void conv_##T(const struct steno_conv *s, const float *x, const void *packed, float *y, \
                         const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)        \
    {                                                                                              \
        const size_t pixels = s->out[0] * s->out[1], taps = s->kernel[0] * s->kernel[1];           \
        for (size_t p = pixels * part / n_parts; p < pixels * (part + 1) / n_parts; p++) {         \
            float *row = y + p * s->c_out;                                                         \
            memset(row, 0, s->c_out * sizeof *row);                                                \
            for (size_t t = 0; t < taps; t++) {                                                    \
                size_t at = pixel_of_tap(s, p, t);                                                 \
                if (at != SIZE_MAX)                                                                \
                    tap_##T(s, x + at * s->c_in,                                                   \
                            (const uint16_t *)packed + t * s->c_in * s->c_out, row);               \
            }                                                                                      \
            for (size_t o = 0; o < s->c_out; o++)                                                  \
                row[o] = epilogue_scalar(row[o], p, o, ep);                                        \
        }                                                                                          \
    }
W16(bf16)
W16(f16)

void steno_kernels_gemm_w16__scalar(steno_kernels *k)
{
    k->gemm_bf16 =
        (struct steno_gemm_weights){packed_bytes, pack_bf16, part_bf16, conv_bf16, conv_bf16};
    k->gemm_f16 = (struct steno_gemm_weights){packed_bytes, pack_f16, part_f16, conv_f16, conv_f16};
}
