/* Products and convolutions of struct steno_gemm_weights, by parts. Included after gemm_tmpl.h with
 * GEMM_W16. */
#include "nn/kernels/tmpl/patches_tmpl.h"
#ifdef AMX_DOT
#define conv_winograd NULL /* it saves little compared with the sums it needs */
#else
#include "nn/kernels/tmpl/winograd_tmpl.h"
#endif

static void product_part(size_t m, size_t n, size_t k, const float *a, size_t lda,
                         const void *packed, float *c, size_t ldc,
                         const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)
{
    struct product p = product_of(n, k, a, lda, packed, c, ldc, ep);
    size_t np = panels(n);
    BEGIN(m);
#ifdef AMX_DOT
    if (n_parts > 1 && m >= 3 * MR * n_parts)
        multiply(&p, amx_first_row(m, part, n_parts), amx_first_row(m, part + 1, n_parts), 0, np);
#else
    if (m >= 4 * MR * n_parts && np < 4 * n_parts)
        multiply(&p, m * part / n_parts, m * (part + 1) / n_parts, 0, np);
#endif
    else
        multiply(&p, 0, m, np * part / n_parts, np * (part + 1) / n_parts);
    END();
}

static void conv_part(const struct steno_conv *s, const float *x, const void *packed, float *y,
                      const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)
{
    BEGIN(s->out[0] * s->out[1]);
    if (s->out[0] && s->out[1])
        product_of_patches(s, x, packed, 0, y, ep, part, n_parts);
    END();
}
