/* The sums of an 8-bit product, rescaled, to C. Included by gemm_i8_tmpl.h. */

/* Values that are the same for all rows of one vector of columns. */
struct column {
    size_t j;
    vm m;
    vi sum, zero, shared; /* shared: zero point of A times sum, where all rows have the same one */
    vf scale, bias;
};

static inline struct column column_at(const struct product *p, size_t j, size_t left)
{
    const struct steno_gemm_i8 *g = p->g;
    const struct steno_gemm_epilogue *ep = g->ep;
    struct column c;
    c.j = j;
    c.m = v_tail(left < VL ? left : VL);
    c.sum = vi_load(p->b.sum + j);
    c.zero = p->b.head->any_zero ? vi_load(p->b.zero + j) : vi_zero();
    c.shared = vi_mul(c.sum, vi_set1(p->a_zero));
    c.scale = g->scale ? v_load_m(g->scale + j, c.m) : v_zero();
    c.bias = g->scale && ep && ep->bias ? v_load_m(ep->bias + j, c.m) : v_zero();
    return c;
}

static inline void finish_floats(const struct product *p, const struct column *c, vi sum, size_t i)
{
    const struct steno_gemm_i8 *g = p->g;
    const struct steno_gemm_epilogue *ep = g->ep;
    vf v = vi_to_float(sum) * c->scale;
    if (g->row_scale)
        v = v * v_set1(g->row_scale[i]);
    if (ep) {
        if (ep->bias)
            v = v + c->bias;
        if (ep->act)
            v = activate_approx(v, ep);
        if (ep->residual)
            v = v + v_load_m(ep->residual + i * ep->ldr + c->j, c->m);
    }
    v_store_m((float *)g->c + i * g->ldc + c->j, c->m, v);
}

/* Finish a sum of row i, whose numbers were raised by shift; zero points are not subtracted yet. */
static inline void finish(const struct product *p, const struct column *c, vi sum, size_t i,
                          int32_t shift, int32_t a_sum)
{
    const struct steno_gemm_i8 *g = p->g;
    if (g->a_zero && g->a_zero_step)
        sum = vi_sub(sum, vi_mul(c->sum, vi_set1(g->a_zero[i] + shift)));
    else if (SUMS_16)
        sum = vi_sub(sum, vi_mul(c->sum, vi_set1(p->a_zero + shift)));
    else
        sum = vi_sub(sum, c->shared);
    if (p->b.head->any_zero)
        sum = vi_sub(sum, vi_mul(c->zero, vi_set1(a_sum)));
    if (g->scale)
        finish_floats(p, c, sum, i);
    else
        vi_store_m((int32_t *)g->c + i * g->ldc + c->j, c->m, sum);
}

/* Values that are the same for all rows of a tile: a panel's columns, and the places in C and a
 * residual. */
struct rounded_tile {
    vi sum[2], digits[2]; /* of the columns */
    vf scale[2], bias[2];
    const int32_t *zero;               /* of each row of A, less shift */
    struct copied shift;               /* of each row */
    const float *row_scale, *residual; /* row_scale [M]; residual or NULL */
    float *c;
    size_t ldr, ldc, width; /* of residual, C and the tile */
    bool first, small;      /* small: sums are below 2^22 */
};

#define ZERO_OF(t, r) ((t)->zero[r] + shift_at((t)->shift, r))

/* Rows [r, r + n) through the epilogue, with the operations of finish_floats. */
V_MANY_OF finish_rows(const struct rounded_tile *t, const struct steno_gemm_epilogue *ep,
                      const int32_t *tile, size_t r, int n, bool biased, enum steno_activation act)
{
    vi s[V_MANY];
    vf v[V_MANY];
    V_EACH(i, 2 * n) s[i] = vi_load(tile + (r + i / 2) * t->width + i % 2 * VL);
    if (!t->first)
        V_EACH(i, 2 * n) s[i] = vi_add(s[i], vi_load(t->c + (r + i / 2) * t->ldc + i % 2 * VL));
    if (t->small)
        V_EACH(i, 2 * n) s[i] = vi_less(s[i], t->digits[i % 2], ZERO_OF(t, r + i / 2));
    else
        V_EACH(i, 2 * n)
    s[i] = vi_sub(s[i], vi_mul(t->sum[i % 2], vi_set1(ZERO_OF(t, r + i / 2))));
    V_EACH(i, 2 * n) v[i] = vi_to_float(s[i]) * t->scale[i % 2];
    V_EACH(i, 2 * n) v[i] = v[i] * v_set1(t->row_scale[r + i / 2]);
    if (biased)
        V_EACH(i, 2 * n) v[i] = v[i] + t->bias[i % 2];
    if (act == STENO_ACT_SILU)
        approx_silu(v, 2 * n);
    else if (act == STENO_ACT_RELU)
        V_EACH(i, 2 * n) v[i] = v_max(v_zero(), v[i]);
    else if (act == STENO_ACT_GELU)
        approx_gelu(v, 2 * n);
    else if (act)
        activate_each(v, 2 * n, ep);
    if (t->residual)
        V_EACH(i, 2 * n) v[i] = v[i] + v_load(t->residual + (r + i / 2) * t->ldr + i % 2 * VL);
    V_EACH(i, 2 * n) v_store(t->c + (r + i / 2) * t->ldc + i % 2 * VL, v[i]);
}

/* The most frequent case: a row_scale and zero point per row, weights without zero points, a whole
 * panel. The operations are those of store_tile, without decisions per vector. */
static inline __attribute__((always_inline)) void
store_rounded(const struct product *p, const struct part *a, const int32_t *tile, size_t r0,
              size_t rows, size_t width, size_t j, bool biased, enum steno_activation act)
{
    const struct steno_gemm_i8 *g = p->g;
    const struct steno_gemm_epilogue *ep = g->ep;
    const size_t i = a->i0 + r0, ldr = ep ? ep->ldr : 0;
    const struct rounded_tile t = {
        .sum = {vi_load(p->b.sum + j), vi_load(p->b.sum + j + VL)},
        .digits = {vi_digits(vi_load(p->b.sum + j)), vi_digits(vi_load(p->b.sum + j + VL))},
        .scale = {v_load(g->scale + j), v_load(g->scale + j + VL)},
        .bias = {biased ? v_load(ep->bias + j) : v_zero(),
                 biased ? v_load(ep->bias + j + VL) : v_zero()},
        .zero = g->a_zero + i,
        .shift = copied_from(*a->copied, r0),
        .row_scale = g->row_scale + i,
        .residual = ep && ep->residual ? ep->residual + i * ldr + j : NULL,
        .c = (float *)g->c + i * g->ldc + j,
        .ldr = ldr,
        .ldc = g->ldc,
        .width = width,
        .first = a->first,
        .small = g->k < 32768};
    size_t r = 0;
    for (; r + V_MANY / 2 <= rows; r += V_MANY / 2)
        finish_rows(&t, ep, tile, r, V_MANY / 2, biased, act);
    if (r < rows)
        finish_rows(&t, ep, tile, r, 1, biased, act);
}

/* Store the sums of a block of K that is not the last, for a whole panel. */
static void store_sums(const struct product *p, const struct part *a, const int32_t *tile,
                       size_t r0, size_t rows, size_t width, size_t j)
{
    int32_t *to = (int32_t *)p->g->c + (a->i0 + r0) * p->g->ldc + j;
    for (size_t r = 0; r < rows; r++, tile += width, to += p->g->ldc) {
        vi v0 = vi_load(tile), v1 = vi_load(tile + VL);
        if (!a->first) {
            v0 = vi_add(v0, vi_load(to));
            v1 = vi_add(v1, vi_load(to + VL));
        }
        vi_store(to, v0);
        vi_store(to + VL, v1);
    }
}

static void store_tile(const struct product *p, const struct part *a, const int32_t *tile,
                       size_t r0, size_t rows, size_t width, size_t j)
{
    const struct steno_gemm_i8 *g = p->g;
    if (a->last && g->scale && g->row_scale && g->a_zero && g->a_zero_step && j + NR <= g->n &&
        !p->b.head->any_zero) {
        const bool biased = g->ep && g->ep->bias;
        const enum steno_activation act = g->ep ? g->ep->act : STENO_ACT_NONE;
        if (biased && !act)
            store_rounded(p, a, tile, r0, rows, width, j, true, STENO_ACT_NONE);
        else if (biased && act == STENO_ACT_SILU)
            store_rounded(p, a, tile, r0, rows, width, j, true, STENO_ACT_SILU);
        else if (biased && act == STENO_ACT_RELU)
            store_rounded(p, a, tile, r0, rows, width, j, true, STENO_ACT_RELU);
        else if (biased && act == STENO_ACT_GELU)
            store_rounded(p, a, tile, r0, rows, width, j, true, STENO_ACT_GELU);
        else
            store_rounded(p, a, tile, r0, rows, width, j, biased, act);
        return;
    }
    if (!a->last && j + NR <= g->n) {
        store_sums(p, a, tile, r0, rows, width, j);
        return;
    }
    for (size_t x = 0; x < NR && j + x < g->n; x += VL) {
        struct column c = column_at(p, j + x, g->n - j - x);
        for (size_t r = 0; r < rows; r++) {
            size_t i = a->i0 + r0 + r;
            int32_t *to = (int32_t *)g->c + i * g->ldc + j + x;
            vi v = vi_load(tile + r * width + x);
            if (!a->first)
                v = vi_add(v, vi_load_m(to, c.m));
            if (a->last)
                finish(p, &c, v, i, shift_at(*a->copied, r0 + r),
                       p->b.head->any_zero ? a->a_sum[r0 + r] : 0);
            else
                vi_store_m(to, c.m, v);
        }
    }
}
