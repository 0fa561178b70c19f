/* Attention of up to 32 rows of one head for one vector width, KEYS keys at a time. The products of
 * the rows with positions and keys are stored in L1, read from there once, and replaced by weights.
 * The weights are the left factor of the product with V, whose sums are kept for the next block
 * (online softmax: Milakov and Gimelshein 2018; Dao et al., FlashAttention, 2022).
 * Included after vec_<isa>.h by attend_avx2.c, attend_avx512.c, attend_neon.c, with ATTEND_PAIRS by
 * attend_bf16.c, and with ATTEND_INTS by attend_i16_*.c.
 *
 * K, V and positions are packed in panels of NR columns, as gemm_tmpl.h packs weights. q and
 * weights are what gemm_tmpl.h calls A: numbers, or pairs of consecutive bf16 or integers. Register
 * tiles have the same size as there, and nearly equal heights.
 *
 * The sums of scores start with the products with positions. Row i + 1 reads these one column
 * earlier than row i: the row stride is one element shorter. The next block needs the last ROWS
 * products with positions again. They are stored after those of this block and moved to the front
 * at the end of the block, so each is computed once. */
#include "nn/kernels/internal.h"

#include "nn/kernels/tmpl/math_tmpl.h"

#ifdef ATTEND_INTS
#include "nn/kernels/tmpl/approx_tmpl.h"
#endif
#include "nn/kernels/tmpl/prefetch.h"

#include <stdalign.h>
#include <string.h>

enum {
    NR = 2 * VL,
    ROWS = STENO_ATTEND_ROWS,
    KEYS = 128,
    TILE = VL == 8 ? 6 : 12, /* rows of a register tile, for NR columns of sums, two vectors of B,
                              * one number of A */
#if defined ATTEND_PAIRS || defined ATTEND_INTS
    STEP = 2, /* numbers per element */
#else
    STEP = 1,
#endif
    /* Row strides of the buffers in L1: an odd number of cache lines. */
    Q_ROW = STENO_ATTEND_SIZE / STEP + 16,
    S_ROW = KEYS + ROWS + 16
};

_Static_assert(ROWS % NR == 0 && KEYS % NR == 0 && ROWS % VL == 0,
               "rows and keys are whole panels");

struct work {
    alignas(64) float q[ROWS * Q_ROW],
        qp[ROWS * Q_ROW]; /* elements: rows for K, rows for positions */
    /* Products of the rows with positions, then their scores, then their weights. */
    alignas(64) float s[ROWS * S_ROW];
    alignas(64) float top[ROWS * VL],
        sum[ROWS * VL]; /* per lane: the largest score of the block; the sum of weights */
    alignas(64) float high[ROWS], max[ROWS], base[ROWS], keep[ROWS];
#ifdef ATTEND_INTS
    alignas(64) float unit[ROWS]; /* of the integers of q */
#endif
};

#define LARGE_SCORE ((float)(1 << 22)) /* in the unit of weights; half an ulp of it is 1/4 */

/* A weight of 1. */
#ifdef ATTEND_INTS
enum { KEY_STEPS = 2047, QUERY_STEPS = 4095, WEIGHT_STEPS = 16383, VALUE_STEPS = 1023 };
#define ONE ((float)WEIGHT_STEPS)
#else
#define ONE 1.0f
#endif

#define ALWAYS static inline __attribute__((always_inline))

/* A product of rows of A with NR columns of B. */
struct tile {
    const float *a, *b;
    size_t steps;
    const float *from; /* sums start with this or, where A is weights, with this times keep of each
                        * row; NULL: zeros */
    size_t from_row;
    const float *keep;
#ifdef ATTEND_INTS
    const float *unit; /* of the columns, where A is weights */
#endif
    float *to;
    size_t to_row;
    float *top; /* per row and lane: raised to the largest sum; or NULL */
};

#define EACH_ROW _Pragma("GCC unroll 12") for (int i = 0; i < h; i++)

#ifdef ATTEND_PAIRS
static const float unit = 1.44269504088896341f; /* weights are computed as powers of two */

ALWAYS vf mac(vf a, vf b, vf sum)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

ALWAYS void weights_of(vf *x, int n)
{
    approx_exp2_each(x, n);
}

/* Store two vectors of numbers as elements. */
ALWAYS void put(float *to, vf low, vf high)
{
    v_store(to, (vf)_mm512_cvtne2ps_pbh(high, low));
}
#elif defined ATTEND_INTS
static const float unit = 1.44269504088896341f;

/* ONE 2^x within 3e-6 of it for numbers that exceed 0 by no more than an ulp; 2^-126 below that. */
ALWAYS void weights_of(vf *x, int n)
{
    vf f[V_MANY], whole[V_MANY];
    V_EACH(i, n) x[i] = v_max(v_set1(-126.0f), x[i]);
    V_EACH(i, n) whole[i] = v_round(x[i]);
    V_EACH(i, n) f[i] = x[i] - whole[i];
    approx_exp2_fraction(x, f, ONE, n);
    V_EACH(i, n) x[i] = v_ldexp_normal(x[i], whole[i]);
}
#else
static const float unit = 1;

/* Exponentials of numbers that exceed 0 by no more than an ulp. */
ALWAYS void weights_of(vf *x, int n)
{
    V_EACH(i, n) x[i] = v_max(v_set1(-105.0f), x[i]);
    v_exp_clamped_each(x, n);
}
#endif

static size_t depth_of(size_t k)
{
    return (k + STEP - 1) / STEP;
}

#ifdef ATTEND_INTS
#include "nn/kernels/tmpl/attend_i16_tmpl.h"
#else
#ifndef ATTEND_PAIRS
ALWAYS vf mac(vf a, vf b, vf sum)
{
    return v_fma(a, b, sum);
}

ALWAYS void put(float *to, vf low, vf high)
{
    v_store(to, low);
    v_store(to + VL, high);
}
#endif

static const float *panels_of(const void *packed)
{
    return packed;
}

/* Rows of q plus a bias, as elements. */
static void fill_with(const struct steno_attend *a, const float *bias, float *to)
{
    const float *q = a->q;
    for (size_t i = 0; i < a->m; i++, q += a->ldq, to += Q_ROW)
        for (size_t c = 0; c < a->size; c += NR) {
            const vm m0 = tail_at(a->size, c), m1 = tail_at(a->size, c + VL);
            vf x0 = v_load_m(q + c, m0), x1 = v_load_m(q + c + VL, m1);
            if (bias) {
                x0 = x0 + v_load_m(bias + c, m0);
                x1 = x1 + v_load_m(bias + c + VL, m1);
            }
            put(to + c / STEP, x0, x1);
        }
}

static void fill(const struct steno_attend *a, struct work *w)
{
    fill_with(a, a->q_bias, w->q);
    if (a->p)
        fill_with(a, a->p_bias, w->qp);
}

/* h rows, a_row floats apart. on: sums start with x->from. h, a_row and on are constants at compile
 * time. */
ALWAYS void tile_of(const struct tile *x, int h, size_t a_row, bool on)
{
    vf s[TILE][2];
    const float *a = x->a, *b = x->b, *from = x->from;
    float *to = x->to;
    EACH_ROW
    {
        s[i][0] = on ? v_load(from) : v_zero();
        s[i][1] = on ? v_load(from + VL) : v_zero();
        from += x->from_row;
        if (on && a_row == S_ROW) {
            s[i][0] = s[i][0] * v_set1(x->keep[i]);
            s[i][1] = s[i][1] * v_set1(x->keep[i]);
        }
    }
    for (size_t u = x->steps; u; u--, a++, b += NR) {
        const vf b0 = v_load(b), b1 = v_load(b + VL);
        EACH_ROW
        {
            const vf w = v_set1(a[(size_t)i * a_row]);
            s[i][0] = mac(w, b0, s[i][0]);
            s[i][1] = mac(w, b1, s[i][1]);
        }
    }
    EACH_ROW
    {
        v_store(to, s[i][0]);
        v_store(to + VL, s[i][1]);
        to += x->to_row;
    }
    if (x->top)
        EACH_ROW
    v_store(x->top + i * VL, v_max(v_max(s[i][0], s[i][1]), v_load(x->top + i * VL)));
}

#endif

typedef void tile_fn(const struct tile *x);
#define TILE_NAMED(name, n, a_row, on)                                                             \
    static void name##_##n(const struct tile *x)                                                   \
    {                                                                                              \
        tile_of(x, n, a_row, on);                                                                  \
    }
#ifdef ATTEND_INTS
#define Q_ON(n)
#else
#define Q_ON(n) TILE_NAMED(q_on, n, Q_ROW, true)
#endif
#define TILE_OF(n)                                                                                 \
    TILE_NAMED(q_new, n, Q_ROW, false)                                                             \
    Q_ON(n)                                                                                        \
    TILE_NAMED(s_new, n, S_ROW, false)                                                             \
    TILE_NAMED(s_on, n, S_ROW, true)
TILE_OF(1)
TILE_OF(2)
TILE_OF(3)
TILE_OF(4)
TILE_OF(5)
TILE_OF(6)
#if VL == 8
#define TILES(of)                                                                                  \
    {                                                                                              \
        NULL, of##_1, of##_2, of##_3, of##_4, of##_5, of##_6                                       \
    }
#else
TILE_OF(7)
TILE_OF(8)
TILE_OF(9)
TILE_OF(10)
TILE_OF(11)
TILE_OF(12)
#define TILES(of)                                                                                  \
    {                                                                                              \
        NULL, of##_1, of##_2, of##_3, of##_4, of##_5, of##_6, of##_7, of##_8, of##_9, of##_10,     \
            of##_11, of##_12                                                                       \
    }
#endif
/* [sums start with from][rows] */
#ifdef ATTEND_INTS
static tile_fn *const by_q[1][TILE + 1] = {TILES(q_new)}; /* no positions */
#else
static tile_fn *const by_q[2][TILE + 1] = {TILES(q_new), TILES(q_on)};
#endif
static tile_fn *const by_s[2][TILE + 1] = {TILES(s_new), TILES(s_on)};

/* All m rows; x describes row 0. */
ALWAYS void each_tile(const struct tile *x, size_t m, tile_fn *const (*by)[TILE + 1], size_t a_row)
{
    const size_t tiles = (m + TILE - 1) / TILE;
    for (size_t t = 0, i = 0, end; t < tiles; t++, i = end) {
        struct tile y = *x;
        end = m * (t + 1) / tiles;
        y.a += i * a_row;
        y.from = x->from ? x->from + i * x->from_row : NULL;
        y.keep = x->keep ? x->keep + i : NULL;
        y.to += i * x->to_row;
        y.top = x->top ? x->top + i * VL : NULL;
        by[x->from != NULL][end - i](&y);
    }
}

/* Scores of n keys from j on. With tops, w->top becomes the largest score of each lane; the last
 * panel is left out unless it is whole. */
static void scores(const struct steno_attend *a, struct work *w, size_t j, size_t n, bool tops)
{
    const size_t panel = depth_of(a->size) * NR, cols = (n + NR - 1) / NR * NR,
                 shift = a->shifted ? ROWS : 0;
    const float *p = a->p;
    struct tile x = {.a = w->qp, .steps = depth_of(a->size), .to_row = S_ROW};
    for (size_t c = j == a->from ? 0 : shift; p && c < cols + shift; c += NR) {
        x.b = p + (j - a->from + c) / NR * panel;
        x.to = w->s + c;
        each_tile(&x, a->m, by_q, Q_ROW);
    }
    x.a = w->q;
#ifdef ATTEND_INTS
    x.keep = w->unit;
#endif
    x.from_row = S_ROW - a->shifted;
    for (size_t c = 0; c < cols; c += NR) {
        x.b = panels_of(a->k) + (j + c) / NR * panel;
        x.from = p ? w->s + c + (a->shifted ? ROWS - 1 : 0) : NULL;
        x.to = w->s + c;
        x.top = tops && c + NR <= n ? w->top : NULL;
        each_tile(&x, a->m, by_q, Q_ROW);
    }
}

/* o += weights times V, for n keys from j on. o is first converted to the unit of the new weights,
 * or starts with zeros at the first keys. */
static void add_values(const struct steno_attend *a, struct work *w, size_t j, size_t n)
{
    const bool first = a->first && j == a->from;
    const size_t panel = depth_of(a->keys) * NR, ldo = steno_attend_ldo(a->v_size);
    struct tile x = {
        .a = w->s, .steps = depth_of(n), .from_row = ldo, .keep = w->keep, .to_row = ldo};
    for (size_t c = 0; c < a->v_size; c += NR) {
        x.b = panels_of(a->v) + c / NR * panel + j / STEP * NR;
#ifdef ATTEND_INTS
        x.unit = (const float *)a->v + c;
#endif
        x.to = a->o + c;
        x.from = first ? NULL : x.to;
        each_tile(&x, a->m, by_s, S_ROW);
    }
}

/* The lanes of x are keys from `at` on: those outside [from, to) become -inf. */
ALWAYS vf lanes_in(vf x, size_t at, size_t from, size_t to)
{
    const size_t lo = from > at ? from - at : 0, hi = to > at ? to - at : 0;
    x = v_select(v_tail(hi < VL ? hi : VL), x, v_set1(-INFINITY));
    return v_select(v_tail(lo < VL ? lo : VL), v_set1(-INFINITY), x);
}

/* Row i, keys [j, j + n): scores in the unit of weights, -inf for keys that the row does not see,
 * and the largest score of each lane. */
static void mask_row(const struct steno_attend *a, struct work *w, size_t i, size_t j, size_t n)
{
    const struct steno_attend_seen all = {0, a->to, NULL}, seen = a->seen ? a->seen[i] : all;
    const size_t to = seen.to < a->to ? seen.to : a->to;
    const float *mask = seen.mask ? seen.mask + (j - a->from) : NULL;
    const vf by = v_set1(a->scale * unit);
    float *s = w->s + i * S_ROW;
    vf top = v_set1(-INFINITY);
    for (size_t c = 0; c < (n + NR - 1) / NR * NR; c += VL) {
        const size_t left = n > c ? n - c : 0;
        vf x = v_load(s + c) * by;
        if (mask)
            x = v_fma(v_load_m(mask + c, v_tail(left < VL ? left : VL)), v_set1(unit), x);
        if (mask || seen.from > j + c || j + c + VL > to)
            x = lanes_in(x, j + c, seen.from, to);
        top = v_max(x, top);
        v_store(s + c, x);
    }
    v_store(w->top + i * VL, top);
}

/* Columns [n, cols) of all rows become -inf. The columns before n in the same panel now count for
 * the largest score of each lane. */
static void cut(const struct steno_attend *a, struct work *w, size_t n, size_t cols)
{
    for (size_t i = 0; i < a->m; i++)
        for (size_t c = n / NR * NR; c < cols; c += VL) {
            float *s = w->s + i * S_ROW + c, *top = w->top + i * VL;
            const vf x = lanes_in(v_load(s), c, 0, n);
            v_store(s, x);
            v_store(top, v_max(x, v_load(top)));
        }
}

/* Update the largest scores so far of all rows. keep: the factor from the old unit of the sums to
 * the new one. */
static void raise(struct work *w, size_t m, float scale)
{
    for (size_t i = 0; i < m; i++)
        w->high[i] = v_hmax(v_load(w->top + i * VL));
    for (size_t i = 0; i < m; i += VL) {
        const vf old = v_load(w->max + i), top = v_max(v_load(w->high + i) * v_set1(scale), old);
        vf keep = old - top;
        weights_of(&keep, 1);
        keep = keep * v_set1(1 / ONE);
        v_store(w->max + i, top);
        v_store(w->base + i, v_select(v_lt(v_set1(-INFINITY), top), top, v_zero()));
        v_store(w->keep + i, v_select(v_lt(old, top), keep, v_set1(1.0f)));
    }
}

/* weigh subtracts a rounded base from an exact product with the scale. True where the rounding
 * error is not far below the unit: a weight could overflow, or all of a row underflow. */
static bool has_large(const struct work *w, size_t m)
{
    bool large = false;
    for (size_t i = 0; i < m; i++)
        large |= fabsf(w->base[i]) > LARGE_SCORE;
    return large;
}

/* Round the products with the scale, as the base. */
static void multiply(struct work *w, size_t m, size_t cols, float scale)
{
    for (size_t i = 0; i < m; i++)
        for (size_t c = 0; c < cols; c += VL)
            v_store(w->s + i * S_ROW + c, v_load(w->s + i * S_ROW + c) * v_set1(scale));
}

ALWAYS vf weigh_some(const float *s, float *to, int n, vf by, vf base)
{
    vf x[V_MANY];
    V_EACH(v, n) x[v] = v_fma(v_load(s + v * VL), by, base);
    weights_of(x, n);
    if (ONE > 1) /* the sum counts the integers that multiply the values */
        V_EACH(v, n) x[v] = v_round(x[v]);
    V_EACH(v, n / 2) put(to + v * NR / STEP, x[2 * v], x[2 * v + 1]);
    V_EACH(v, n / 2)
    x[v] = x[2 * v] + x[2 * v + 1];
    for (int v = 1; v < n / 2; v++)
        x[0] = x[0] + x[v];
    return x[0];
}

/* Row i of scores to weights; adds to their sum. */
static void weigh(struct work *w, size_t i, size_t cols, float scale)
{
    float *s = w->s + i * S_ROW;
    const vf by = v_set1(scale), base = v_set1(-w->base[i]);
    vf sum = v_load(w->sum + i * VL) * v_set1(w->keep[i]);
    size_t c = 0;
    for (; c + V_MANY * VL <= cols; c += V_MANY * VL)
        sum = sum + weigh_some(s + c, s + c / STEP, V_MANY, by, base);
    for (; c < cols; c += NR)
        sum = sum + weigh_some(s + c, s + c / STEP, 2, by, base);
    v_store(w->sum + i * VL, sum);
}

static void block(const struct steno_attend *a, struct work *w, size_t j, size_t n)
{
    const bool whole = a->scale > 0 && attend_sees_all(a, j, n);
    const size_t cols = (n + NR - 1) / NR * NR;
    float scale = whole ? a->scale * unit : 1;
    for (size_t i = 0; i < a->m; i++)
        v_store(w->top + i * VL, v_set1(-INFINITY));
    scores(a, w, j, n, whole);
    if (whole && n < cols)
        cut(a, w, n, cols);
    for (size_t i = 0; !whole && i < a->m; i++)
        mask_row(a, w, i, j, n);
    raise(w, a->m, scale);
    if (whole && has_large(w, a->m)) {
        multiply(w, a->m, cols, scale);
        scale = 1;
    }
    for (size_t i = 0; i < a->m; i++)
        weigh(w, i, cols, scale);
    add_values(a, w, j, n);
    for (size_t i = 0; a->shifted && j + n < a->to && i < a->m; i++)
        memcpy(w->s + i * S_ROW, w->s + i * S_ROW + KEYS, ROWS * sizeof *w->s);
}

/* Meanwhile a share of the next ROWS rows of q comes into the caches, if there are any. */
ALWAYS void prefetch_rows(const struct steno_attend *a, size_t j)
{
    const size_t keys = a->to - a->from, done = j - a->from;
    const size_t from = ROWS * done / keys, to = ROWS * (done + KEYS) / keys;
    for (size_t i = ROWS + from; i < ROWS + (to < ROWS ? to : ROWS); i++)
        prefetch_floats(a->q + i * a->ldq, a->size);
}

static void attend(const struct steno_attend *a)
{
    struct work w;
    if (a->from >= a->to || !a->m)
        return;
    fill(a, &w);
    for (size_t i = 0; i < ROWS; i++) {
        w.high[i] = w.max[i] = i < a->m ? a->max[i] : 0;
        v_store(w.sum + i * VL, v_zero());
        w.sum[i * VL] = i < a->m ? a->sum[i] * ONE : 0;
    }
    for (size_t j = a->from; j < a->to; j += KEYS) {
        prefetch_rows(a, j);
        block(a, &w, j, a->to - j < KEYS ? a->to - j : KEYS);
    }
    for (size_t i = 0; i < a->m; i++) {
        a->max[i] = w.max[i];
        a->sum[i] = v_hsum(v_load(w.sum + i * VL)) * (1 / ONE);
    }
}

#ifdef ATTEND_INTS
void V_NAME(steno_kernels_attend_i16)(steno_kernels *k)
{
    k->attend_i16 = (struct steno_attend_kernel){packed_bytes, pack, attend};
    k->attend_rounded_as = STENO_ATTEND_I16;
}
#endif
