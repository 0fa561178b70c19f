/* 3x3 convolution of stride 2 by nn/kernels/winograd.h for one vector width. Included after
 * patches_tmpl.h.
 *
 * There is one product per slot of the weights. Its rows are units: along an axis one unit per
 * output (kind ODD) or one per three outputs (the other kinds). The transforms never exist in
 * memory as a whole. Sums and differences of pixels are computed where the product copies a block
 * of its left side. A finished register tile is added to Y at all its places, up to 9 pixels. Y
 * starts as zeros. The product of kinds ODD and ODD touches each pixel once and comes last, with
 * the epilogue.
 *
 * Blocks have about MC units of outer products, so that their part of Y (up to 9 pixels per unit)
 * stays in the caches for all 25 products. The weights come from L3 or memory again for each
 * block. */
#include "nn/kernels/winograd.h"

struct winograd_row {
    const float *from[4]; /* pixels, axis 0 slower; NULL: zeros */
    float *to;            /* first pixel in Y */
    size_t n[2];          /* pixels along each axis */
};

struct winograd {
    const struct steno_conv *s;
    const float *x;
    float *y;
    int kind[2];
    size_t first; /* row of the product that row[0] describes */
    struct winograd_row row[MC];
};

/* Fill the table for rows [i, i + rows) of the product. */
static void winograd_rows(struct winograd *w, size_t i, size_t rows)
{
    const struct steno_conv *s = w->s;
    const size_t across = steno_winograd_units(w->kind[1], s->out[1]);
    w->first = i;
    for (size_t r = 0; r < rows; r++) {
        const struct steno_winograd_unit u =
            steno_winograd_unit(s, 0, w->kind[0], (i + r) / across);
        const struct steno_winograd_unit v =
            steno_winograd_unit(s, 1, w->kind[1], (i + r) % across);
        struct winograd_row *row = &w->row[r];
        for (int t = 0; t < 4; t++) {
            const size_t i0 = u.from[t / 2], i1 = v.from[t % 2];
            row->from[t] =
                i0 < s->in[0] && i1 < s->in[1] ? w->x + (i0 * s->in[1] + i1) * s->c_in : NULL;
        }
        row->to = w->y + (u.to * s->out[1] + v.to) * s->c_out;
        row->n[0] = u.n;
        row->n[1] = v.n;
    }
}

/* to = (a + s1 b) + s0 (c + s1 d), n floats. two: only a and b, with s1. */
static inline __attribute__((always_inline)) void winograd_sum(float *to, const float *const *from,
                                                               size_t n, vf s0, vf s1, bool two)
{
    for (size_t c = 0; c < n; c += VL) {
        const vm m = v_tail(n - c < VL ? n - c : VL);
        vf v = v_fma(v_load_m(from[1] + c, m), s1, v_load_m(from[0] + c, m));
        if (!two)
            v = v_fma(v_fma(v_load_m(from[3] + c, m), s1, v_load_m(from[2] + c, m)), s0, v);
        v_store_m(to + c, m, v);
    }
}

static vf winograd_sign(int kind)
{
    return v_set1(kind == STENO_WINOGRAD_PLUS ? 1.0f : -1.0f);
}

/* Channels [k0, k0 + n), at most KC of them. */
static void winograd_gather_row(const struct winograd *w, const struct winograd_row *r, size_t k0,
                                size_t n, float *to)
{
    static const float zeros[K_STEP * KC];
    const bool odd0 = w->kind[0] == STENO_WINOGRAD_ODD, odd1 = w->kind[1] == STENO_WINOGRAD_ODD;
    const float *from[4];
    for (int t = 0; t < 4; t++)
        from[t] = r->from[t] ? r->from[t] + k0 : zeros;
    if (odd0 && odd1) {
        memcpy(to, from[0], n * sizeof *to);
        return;
    }
    if (odd1)
        from[1] = from[2];
    if (odd0 || odd1)
        winograd_sum(to, from, n, v_zero(), winograd_sign(w->kind[odd0]), true);
    else
        winograd_sum(to, from, n, winograd_sign(w->kind[0]), winograd_sign(w->kind[1]), false);
}

static void winograd_gather(const struct product *p, float *buf, size_t i0, size_t rows, size_t k0,
                            size_t kc)
{
    for (size_t r = 0; r < rows; r++)
        winograd_gather_row(p->few, &p->few->row[i0 + r - p->few->first], k0, kc, buf + r * A_LD);
}

/* c += v or c -= v, lanes m. whole: all lanes. */
static inline __attribute__((always_inline)) void winograd_add(float *c, vf v, bool minus, vm m,
                                                               bool whole)
{
    const vf old = whole ? v_load(c) : v_load_m(c, m), sum = minus ? old - v : old + v;
    if (whole)
        v_store(c, sum);
    else
        v_store_m(c, m, sum);
}

/* Add columns [j, j + cols) of `rows` rows from i on, each to all of its pixels. */
static inline __attribute__((always_inline)) void winograd_tile(const struct winograd *w,
                                                                const float *tile, size_t rows,
                                                                size_t width, size_t i, size_t j,
                                                                size_t cols, bool whole)
{
    const bool minus0 = w->kind[0] == STENO_WINOGRAD_MINUS;
    const bool minus1 = w->kind[1] == STENO_WINOGRAD_MINUS;
    const vm m0 = v_tail(cols < VL ? cols : VL), m1 = v_tail(cols < VL ? 0 : cols - VL);
    const size_t line = w->s->out[1] * w->s->c_out, pixel = w->s->c_out;
    for (size_t r = 0; r < rows; r++, tile += width) {
        const struct winograd_row *row = &w->row[i + r - w->first];
        const vf v0 = v_load(tile), v1 = v_load(tile + VL);
        for (size_t a = 0; a < row->n[0]; a++)
            for (size_t b = 0; b < row->n[1]; b++) {
                const bool minus = (minus0 && a == 1) != (minus1 && b == 1);
                float *c = row->to + a * line + b * pixel + j;
                winograd_add(c, v0, minus, m0, whole);
                if (cols > VL)
                    winograd_add(c + VL, v1, minus, m1, whole);
            }
    }
}

static void winograd_spread(const struct product *p, const float *tile, size_t rows, size_t width,
                            size_t i, size_t j, size_t cols)
{
    if (cols == NR)
        winograd_tile(p->few, tile, rows, width, i, j, NR, true);
    else
        winograd_tile(p->few, tile, rows, width, i, j, cols, false);
}

/* The product of w's kinds for outputs [o0, o1) of axis 0, units [u0, u1) where units have three
 * outputs. `then` is the slot of the next product. */
static void winograd_product(struct winograd *w, struct product p, size_t then, size_t o0,
                             size_t u0, size_t u1, size_t j0, size_t j1)
{
    const struct steno_conv *s = w->s;
    const bool odd = w->kind[0] == STENO_WINOGRAD_ODD;
    const size_t across = steno_winograd_units(w->kind[1], s->out[1]);
    const size_t most = steno_winograd_units(w->kind[0], s->out[0]);
    const size_t end = odd && 3 * u1 < most ? 3 * u1 : !odd && u1 < most ? u1 : most;
    const b_t *next = p.b + then * p.k * NR;
    p.b += steno_winograd_slot(w->kind[0], w->kind[1]) * p.k * NR;
    p.spread = odd && w->kind[1] == STENO_WINOGRAD_ODD ? NULL : winograd_spread;
    for (size_t i = (odd ? o0 : u0) * across, rows; i < end * across; i += rows) {
        rows = end * across - i < MC ? end * across - i : MC;
        winograd_rows(w, i, rows);
        p.then = i + rows < end * across ? p.b : next;
        for (size_t k0 = 0; k0 < p.k; k0 += KC)
            multiply_block(&p, p.b + k0 * NR, i, i + rows, j0, j1, k0,
                           p.k - k0 < KC ? p.k - k0 : KC);
    }
}

/* The n-th pair of kinds in the order of the products. ODD and ODD comes last; after it the order
 * starts again. */
static int winograd_pair(int n)
{
    enum {
        ODD_PAIR = STENO_WINOGRAD_ODD * STENO_WINOGRAD_KINDS + STENO_WINOGRAD_ODD,
        LAST = STENO_WINOGRAD_SLOTS - 1
    };
    n %= STENO_WINOGRAD_SLOTS;
    return n == LAST ? ODD_PAIR : n < ODD_PAIR ? n : n + 1;
}

/* Units [u0, u1) of axis 0, panels [j0, j1). */
static void winograd_block(struct winograd *w, const struct product *p, size_t u0, size_t u1,
                           size_t j0, size_t j1)
{
    const struct steno_conv *s = w->s;
    const size_t o1 = 3 * u1 < s->out[0] ? 3 * u1 : s->out[0];
    const size_t left = s->c_out - j0 * NR, cols = (j1 - j0) * NR;
    for (size_t i = 3 * u0 * s->out[1]; i < o1 * s->out[1]; i++)
        memset(w->y + i * s->c_out + j0 * NR, 0, (cols < left ? cols : left) * sizeof *w->y);
    for (int n = 0; n < STENO_WINOGRAD_SLOTS; n++) {
        const int pair = winograd_pair(n), next = winograd_pair(n + 1);
        const size_t then =
            steno_winograd_slot(next / STENO_WINOGRAD_KINDS, next % STENO_WINOGRAD_KINDS);
        w->kind[0] = pair / STENO_WINOGRAD_KINDS;
        w->kind[1] = pair % STENO_WINOGRAD_KINDS;
        winograd_product(w, *p, then, 3 * u0, u0, u1, j0, j1);
    }
}

static size_t winograd_rows_of_all(size_t out)
{
    size_t n = 0;
    for (int kind = 0; kind < STENO_WINOGRAD_KINDS; kind++)
        n += steno_winograd_units(kind, out);
    return n;
}

/* Decides by counts alone, so that the bits depend only on the extents of the image. Reading a
 * matrix of weights from memory takes the time of READ rows of its product (30 GB/s and 118 GFLOP/s
 * in f32; in 16 bits both are twice that), and there are 16 more matrices. */
static bool winograd_pays(const struct steno_conv *s)
{
    enum { READ = 8 };
    return winograd_rows_of_all(s->out[0]) * winograd_rows_of_all(s->out[1]) +
               (STENO_WINOGRAD_SLOTS - 9) * READ <
           9 * s->out[0] * s->out[1];
}

static void conv_winograd(const struct steno_conv *s, const float *x, const void *packed, float *y,
                          const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)
{
    const size_t np = panels(s->c_out), down = (s->out[0] + 2) / 3, across = (s->out[1] + 2) / 3;
    const bool by_rows = down * across >= 2 * MC * n_parts && down >= 8 * n_parts;
    const size_t u0 = by_rows ? down * part / n_parts : 0;
    const size_t n = (by_rows ? down * (part + 1) / n_parts : down) - u0;
    const size_t j0 = by_rows ? 0 : np * part / n_parts;
    const size_t j1 = by_rows ? np : np * (part + 1) / n_parts;
    const size_t blocks = (n * across + MC - 1) / MC;
    struct winograd w = {.s = s, .x = x, .y = y};
    struct product p = product_of(s->c_out, s->c_in, x, 0, packed, y, s->c_out, ep);
    p.b_next = STENO_WINOGRAD_SLOTS * p.b_next;
    if (!s->out[0] || !s->out[1])
        return;
    if (!winograd_pays(s)) {
        product_of_patches(s, x, packed, p.b_next, y, ep, part, n_parts);
        return;
    }
    p.few = &w;
    p.gather = winograd_gather;
    p.add = true;
    for (size_t b = 0; b < blocks && j0 < j1; b++)
        winograd_block(&w, &p, u0 + n * b / blocks, u0 + n * (b + 1) / blocks, j0, j1);
}
