/* Packed weights of an 8-bit product (gemm_i8_tmpl.h has the layout). */

static size_t panels_of(size_t n)
{
    return (n + NR - 1) / NR;
}

static size_t lanes_of(size_t k)
{
    return (k + KU_STEP * KG - 1) / (KU_STEP * KG) * KU_STEP;
}

static size_t V_NAME(gemm_i8_packed_bytes)(size_t k, size_t n)
{
    return sizeof(struct head) + panels_of(n) * (2 * NR * sizeof(int32_t) + lanes_of(k) * LANE_ROW);
}

static struct packed open_packed(const void *data, size_t k, size_t n)
{
    struct packed p;
    p.head = data;
    p.sum = (const int32_t *)(p.head + 1);
    p.panels = (const int8_t *)(p.sum + panels_of(n) * NR);
    p.panel = lanes_of(k) * LANE_ROW;
    p.zero = (const int32_t *)(const void *)(p.panels + panels_of(n) * p.panel);
    return p;
}

/* Pack columns [j, j + cols) into the panel at dst and add their sums to sum. */
static void pack_panel(int8_t *dst, int32_t *sum, const struct steno_weights_i8 *w, size_t j,
                       size_t cols)
{
    const uint8_t flip = w->is_signed ? 0 : 0x80, raised = SUMS_16 ? 0x80 : 0;
    const uint8_t *b = (const uint8_t *)w->b + j * (w->trans ? w->ldb : 1);
    const size_t down = w->trans ? 1 : w->ldb, along = w->trans ? w->ldb : 1;
    memset(dst, 0, lanes_of(w->k) * LANE_ROW);
    for (size_t k = 0; k < w->k; k++) {
        int8_t *to = dst + k / KG * LANE_ROW + k % KG;
        for (size_t x = 0; x < cols; x++) {
            int8_t v = (int8_t)(b[k * down + x * along] ^ flip);
            to[x * KG] = (int8_t)((uint8_t)v ^ raised);
            sum[x] = (int32_t)((uint32_t)sum[x] + (uint32_t)v);
        }
    }
}

static void V_NAME(gemm_i8_pack)(void *dst, const struct steno_weights_i8 *w)
{
    const size_t np = panels_of(w->n);
    struct head *h = dst;
    int32_t *sum = (int32_t *)(h + 1);
    int8_t *p = (int8_t *)(sum + np * NR);
    int32_t *zero = (int32_t *)(void *)(p + np * lanes_of(w->k) * LANE_ROW);
    memset(dst, 0, sizeof *h + np * NR * sizeof *sum);
    memset(zero, 0, np * NR * sizeof *zero);
    for (size_t j = 0; j < w->n; j++) {
        zero[j] = (w->zero ? w->zero[j * w->zero_step] : 0) - (w->is_signed ? 0 : 128);
        h->any_zero |= zero[j];
        sum[j] = (int32_t)(0 - (uint32_t)w->k * (uint32_t)zero[j]);
    }
    for (size_t j = 0; j < w->n; j += NR, p += lanes_of(w->k) * LANE_ROW)
        pack_panel(p, sum + j, w, j, w->n - j < NR ? w->n - j : NR);
}
