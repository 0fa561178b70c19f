/* Slots `part` and `conv` of struct steno_gemm_weights, for a product that arranges its tiles
 * itself. Divides the work into parts. Included after patches_tmpl.h and
 *   MULTIPLY(p, i0, i1, j0, j1)   rows [i0, i1), in tiles of 16, and panels [j0, j1); configures
 *                                 tiles
 *   PANELS(n)                     panels of n columns */

static void share(const struct product *p, size_t m, size_t part, size_t n_parts)
{
    const size_t np = PANELS(p->n), tiles = (m + AMX_ROWS - 1) / AMX_ROWS;
    if (!m)
        return;
    if (n_parts > 1 &&
        tiles >= 6 * n_parts) { /* rows stay in the cache of the core that computed them */
        const size_t i1 = tiles * (part + 1) / n_parts * AMX_ROWS;
        MULTIPLY(p, tiles * part / n_parts * AMX_ROWS, i1 < m ? i1 : m, 0, np);
    } else
        MULTIPLY(p, 0, m, np * part / n_parts, np * (part + 1) / n_parts);
    amx_end();
}

static void weights_part(size_t m, size_t n, size_t k, const float *a, size_t lda,
                         const void *packed, float *c, size_t ldc,
                         const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)
{
    const struct product p = product_of(n, k, a, lda, packed, c, ldc, ep);
    share(&p, m, part, n_parts);
}

static void weights_conv(const struct steno_conv *s, const float *x, const void *packed, float *y,
                         const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)
{
    struct product p =
        product_of(s->c_out, s->kernel[0] * s->kernel[1] * s->c_in, x, 0, packed, y, s->c_out, ep);
    p.gather = gather_patches;
    p.in_place = patch_in_place;
    p.image = s;
    share(&p, s->out[0] * s->out[1], part, n_parts);
}
