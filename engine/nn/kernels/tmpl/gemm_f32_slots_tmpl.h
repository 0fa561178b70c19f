/* The slots of the f32 product (kernels.h): packing, and products with B packed or as it is.
 * Included after gemm_f32_tmpl.h. */

static size_t V_NAME(gemm_f32_packed_bytes)(size_t k, size_t n)
{
    return panels(n) * k * NR * sizeof(float);
}

/* Pack one panel: columns [0, cols) of b, the rest zero. */
static void pack_panel(float *dst, const float *b, size_t ldb, bool trans, size_t k, size_t cols)
{
    if (trans) {
        if (cols < NR)
            memset(dst, 0, k * NR * sizeof *dst);
        transpose_blocks(dst, NR, b, ldb, cols, k);
        return;
    }
    for (size_t i = 0; i < k; i++, dst += NR, b += ldb) {
        v_store(dst, v_load_m(b, v_tail(cols < VL ? cols : VL)));
        v_store(dst + VL, v_load_m(b + VL, v_tail(cols < VL ? 0 : cols - VL)));
    }
}

static void V_NAME(gemm_f32_pack)(void *dst, const float *b, size_t ldb, bool trans, size_t k,
                                  size_t n)
{
    float *p = dst;
    for (size_t j = 0; j < n; j += NR, p += k * NR)
        pack_panel(p, b + j * (trans ? ldb : 1), ldb, trans, k, n - j < NR ? n - j : NR);
}

static void V_NAME(gemm_f32_packed)(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                    const void *packed, float *c, size_t ldc,
                                    const struct steno_gemm_epilogue *ep)
{
    struct product p = product_of(n, k, a, lda, packed, c, ldc, ep);
    multiply(&p, 0, m, 0, panels(n));
}

static void V_NAME(gemm_f32_packed_part)(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                         const void *packed, float *c, size_t ldc,
                                         const struct steno_gemm_epilogue *ep, size_t part,
                                         size_t n_parts)
{
    const struct product p = product_of(n, k, a, lda, packed, c, ldc, ep);
    multiply_part(&p, m, part, n_parts);
}

static size_t V_NAME(gemm_f32_work)(size_t m, size_t n, size_t k)
{
    (void)m;
    return V_NAME(gemm_f32_packed_bytes)(k, n);
}

/* An unpacked B is read row by row where it fills whole panels. A transposed B and the last,
 * partial panel are packed first. */
static void V_NAME(gemm_f32)(size_t m, size_t n, size_t k, const float *a, size_t lda, bool trans_a,
                             const float *b, size_t ldb, bool trans_b, float *c, size_t ldc,
                             const struct steno_gemm_epilogue *ep, void *work)
{
    struct product p = product_of(n, k, a, lda, work, c, ldc, ep);
    size_t full = trans_b ? 0 : n / NR, np = panels(n);
    p.a_row = trans_a ? 1 : lda;
    p.a_col = trans_a ? lda : 1;
    if (full) {
        struct product direct = p;
        direct.b = b;
        direct.b_row = ldb;
        direct.b_next = NR;
        multiply(&direct, 0, m, 0, full);
    }
    if (full == np)
        return;
    for (size_t j = full; j < np; j++)
        pack_panel((float *)work + (j - full) * k * NR, b + j * NR * (trans_b ? ldb : 1), ldb,
                   trans_b, k, n - j * NR < NR ? n - j * NR : NR);
    p.b = (float *)work - full * p.b_next;
    multiply(&p, 0, m, full, np);
}

void V_NAME(steno_kernels_gemm)(steno_kernels *k)
{
    k->gemm_f32_packed_bytes = V_NAME(gemm_f32_packed_bytes);
    k->gemm_panel = NR;
    k->gemm_f32_pack = V_NAME(gemm_f32_pack);
    k->gemm_f32_packed = V_NAME(gemm_f32_packed);
    k->gemm_f32_packed_part = V_NAME(gemm_f32_packed_part);
    k->gemm_f32_work = V_NAME(gemm_f32_work);
    k->gemm_f32 = V_NAME(gemm_f32);
}
