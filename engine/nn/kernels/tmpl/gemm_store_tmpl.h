/* The sums of a register tile, through the epilogue to C. Included by gemm_tmpl.h. */

/* Store finished sums of row i, columns from j on, lanes m, through the epilogue to C. */
static inline void store_vector(const struct product *p, vf v, size_t i, size_t j, vm m,
                                const struct steno_gemm_epilogue *ep)
{
    if (ep) {
        vf bias = v_zero();
        if (ep->bias)
            bias = ep->bias_rows ? v_set1(ep->bias[i]) : v_load_m(ep->bias + j, m);
        v = v_fma(v, v_set1(ep->alpha), bias);
        if (ep->act)
            v = ACTIVATE(v, ep);
        if (ep->residual)
            v = v + v_load_m(ep->residual + i * ep->ldr + j, m);
    }
    v_store_m(p->c + i * p->ldc + j, m, v);
}

/* Store `cols` columns of a tile from j on, at most a panel. */
static void store_some(const struct product *p, const float *tile, size_t rows, size_t width,
                       size_t i, size_t j, size_t cols, bool first,
                       const struct steno_gemm_epilogue *ep)
{
    const vm m[2] = {v_tail(cols < VL ? cols : VL), v_tail(cols < VL ? 0 : cols - VL)};
    const bool by_column = ep && ep->bias && !ep->bias_rows;
    const vf alpha = v_set1(ep ? ep->alpha : 1);
    vf bias[2] = {v_zero(), v_zero()};
    const size_t vectors = cols > VL ? 2 : 1;
    for (size_t x = 0; by_column && x < vectors; x++)
        bias[x] = v_load_m(ep->bias + j + x * VL, m[x]);
    for (size_t r = 0; r < rows; r++, tile += width)
        for (size_t x = 0; x < vectors; x++) {
            float *c = p->c + (i + r) * p->ldc + j + x * VL;
            vf v = v_load(tile + x * VL);
            if (!first)
                v = v + v_load_m(c, m[x]);
            if (ep) {
                v = v_fma(v, alpha, ep->bias && ep->bias_rows ? v_set1(ep->bias[i + r]) : bias[x]);
                if (ep->act)
                    v = ACTIVATE(v, ep);
                if (ep->residual)
                    v = v + v_load_m(ep->residual + (i + r) * ep->ldr + j + x * VL, m[x]);
            }
            v_store_m(c, m[x], v);
        }
}

/* Store n rows of a tile of a whole panel from row i on: without masks, and the bias stays in
 * registers. */
V_MANY_OF store_rows(const struct product *p, const float *tile, int n, size_t width, size_t i,
                     size_t j, bool first, const struct steno_gemm_epilogue *ep, const vf *bias)
{
    float *c = p->c + i * p->ldc + j;
    vf v[V_MANY];
    V_EACH(x, 2 * n) v[x] = v_load(tile + (size_t)(x / 2) * width + x % 2 * VL);
    if (!first)
        V_EACH(x, 2 * n) v[x] = v[x] + v_load(c + (size_t)(x / 2) * p->ldc + x % 2 * VL);
    if (ep) {
        const vf alpha = v_set1(ep->alpha);
        V_EACH(x, 2 * n)
        v[x] = v_fma(v[x], alpha,
                     ep->bias && ep->bias_rows ? v_set1(ep->bias[i + x / 2]) : bias[x % 2]);
        if (ep->act)
            ACTIVATE_EACH(v, 2 * n, ep);
        if (ep->residual)
            V_EACH(x, 2 * n)
        v[x] = v[x] + v_load(ep->residual + (i + x / 2) * ep->ldr + j + x % 2 * VL);
    }
    V_EACH(x, 2 * n) v_store(c + (size_t)(x / 2) * p->ldc + x % 2 * VL, v[x]);
}

/* Store all rows of a tile with an activation of next to no operations. All decisions are made once
 * per tile: made once per row, they took two thirds of the time of a product of K = 16. */
static inline __attribute__((always_inline)) void
store_lightly(const struct product *p, const float *tile, size_t rows, size_t width, size_t i,
              size_t j, bool first, const struct steno_gemm_epilogue *ep, const vf *bias,
              enum steno_activation act)
{
    const struct steno_gemm_epilogue only = {
        .act = act, .act_min = ep ? ep->act_min : 0, .act_max = ep ? ep->act_max : 0};
    const vf alpha = v_set1(ep ? ep->alpha : 1), b0 = bias[0], b1 = bias[1];
    const float *residual = ep && ep->residual ? ep->residual + i * ep->ldr + j : NULL;
    const size_t ldc = p->ldc, ldr = ep ? ep->ldr : 0;
    float *c = p->c + i * ldc + j;
    for (size_t r = 0; r < rows; r++, tile += width, c += ldc) {
        vf v[2] = {v_load(tile), v_load(tile + VL)};
        if (!first) {
            v[0] = v[0] + v_load(c);
            v[1] = v[1] + v_load(c + VL);
        }
        if (ep) {
            v[0] = v_fma(v[0], alpha, b0);
            v[1] = v_fma(v[1], alpha, b1);
            ACTIVATE_EACH(v, 2, &only);
            if (residual) {
                v[0] = v[0] + v_load(residual + r * ldr);
                v[1] = v[1] + v_load(residual + r * ldr + VL);
            }
        }
        v_store(c, v[0]);
        v_store(c + VL, v[1]);
    }
}

static void store_whole(const struct product *p, const float *tile, size_t rows, size_t width,
                        size_t i, size_t j, bool first, const struct steno_gemm_epilogue *ep)
{
    const bool by_column = ep && ep->bias && !ep->bias_rows;
    const vf bias[2] = {by_column ? v_load(ep->bias + j) : v_zero(),
                        by_column ? v_load(ep->bias + j + VL) : v_zero()};
    size_t r = 0;
    if (by_column || !ep || !ep->bias)
        switch (ep ? ep->act : STENO_ACT_NONE) {
        case STENO_ACT_NONE:
            store_lightly(p, tile, rows, width, i, j, first, ep, bias, STENO_ACT_NONE);
            return;
        case STENO_ACT_RELU:
            store_lightly(p, tile, rows, width, i, j, first, ep, bias, STENO_ACT_RELU);
            return;
        case STENO_ACT_CLIP:
            store_lightly(p, tile, rows, width, i, j, first, ep, bias, STENO_ACT_CLIP);
            return;
        default:
            break;
        }
    for (; r + V_MANY / 2 <= rows; r += V_MANY / 2)
        store_rows(p, tile + r * width, V_MANY / 2, width, i + r, j, first, ep, bias);
    if (r < rows)
        store_rows(p, tile + r * width, 1, width, i + r, j, first, ep, bias);
}

static void store_tile(const struct product *p, const float *tile, size_t rows, size_t width,
                       size_t i, size_t j, size_t cols, bool first, bool last)
{
    if (p->spread) {
        p->spread(p, tile, rows, width, i, j, cols);
        return;
    }
    if (cols == NR) {
        store_whole(p, tile, rows, width, i, j, first, last ? p->ep : NULL);
        return;
    }
    store_some(p, tile, rows, width, i, j, cols, first, last ? p->ep : NULL);
}
