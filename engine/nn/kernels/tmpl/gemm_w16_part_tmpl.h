/* Products and convolutions of struct steno_gemm_weights, by parts. Included after gemm_tmpl.h. */
#include "nn/kernels/tmpl/patches_tmpl.h"

static void product_part(size_t m, size_t n, size_t k, const float *a, size_t lda,
                         const void *packed, float *c, size_t ldc,
                         const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)
{
    const struct product p = product_of(n, k, a, lda, packed, c, ldc, ep);
    begin(m);
    multiply_part(&p, m, part, n_parts);
    end();
}

static void conv_part(const struct steno_conv *s, const float *x, const void *packed, float *y,
                      const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)
{
    begin(s->out[0] * s->out[1]);
    if (s->out[0] && s->out[1])
        product_of_patches(s, x, packed, 0, y, ep, part, n_parts);
    end();
}
