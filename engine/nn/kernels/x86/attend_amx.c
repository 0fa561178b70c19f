/* Attention of up to 32 rows of one head by AMX's products of bf16, KEYS keys at a time. Scores and
 * products with positions go from tiles to L1 and are read from there once. They become bf16
 * weights in registers, one row of a block at a time. The weights are the left factor of the
 * product with V, whose sums wait in L2 for the next block (online softmax: Milakov and Gimelshein
 * 2018; Dao et al., FlashAttention, 2022).
 *
 * K, V and positions are packed as gemm_bf16_amx.c packs weights: panels of NR columns, with a row
 * of NR pairs for every two elements of the other axis. That axis is padded with zeros to a
 * multiple of 16 rows of pairs, so that 16 rows of half a panel are a register. */
#include "nn/kernels/internal.h"

#include "nn/kernels/x86/amx.h"
#include "nn/kernels/x86/vec_avx512.h"
#include "nn/kernels/x86/approx_exp2_tmpl.h"

#include <math.h>
#include <stdalign.h>
#include <string.h>

enum {
    NR = 32,
    ROWS = STENO_ATTEND_ROWS,
    KEYS = 128,
    VECTORS = KEYS / VL,
    /* Lanes of a row of each buffer: an odd number of cache lines. */
    Q_ROW = STENO_ATTEND_SIZE / 2 + AMX_LANES,
    S_ROW = KEYS + ROWS + VL,
    STEP_BYTES = AMX_LANES * NR * 4, /* bytes of 16 rows of a panel */
    PREFETCH_DISTANCE = 8 << 10      /* bytes of prefetch distance, into L2 */
};

_Static_assert(ROWS == 2 * AMX_ROWS && KEYS % NR == 0, "rows are two tiles, keys whole panels");

struct work {
    alignas(64) uint32_t q[ROWS * Q_ROW],
        qp[ROWS * Q_ROW]; /* pairs: rows for K, rows for positions */
    /* Products of the rows with positions, then their scores, then their weights in pairs. Each
     * replaces the one before, so that all of the working data fits into L1. */
    alignas(64) float s[ROWS * S_ROW];
    alignas(64) float sum[ROWS * VL]; /* of weights, per lane */
    alignas(64) float max[ROWS], base[ROWS], keep[ROWS];
    size_t ldo;
};

static size_t lanes_of(size_t k)
{
    return ((k + 1) / 2 + AMX_LANES - 1) / AMX_LANES * AMX_LANES;
}

#define KV_PAGE_DEPTH lanes_of
#include "nn/kernels/x86/kv_append_bf16_tmpl.h"

/* Columns [c, c + 32) of rows of q plus a bias, as pairs of bf16. some: only that many columns. */
static inline __attribute__((always_inline)) void
fill_step(const struct steno_attend *a, const float *bias, uint32_t *to, size_t c, size_t some)
{
    const vm low = v_tail(some < VL ? some : VL), high = v_tail(some < VL ? 0 : some - VL);
    const vf b0 = bias ? v_load_m(bias + c, low) : v_zero(),
             b1 = bias ? v_load_m(bias + c + VL, high) : v_zero();
    const float *q = a->q + c;
    for (size_t i = 0; i < a->m; i++, q += a->ldq) {
        __builtin_prefetch(q + ROWS * a->ldq); /* for the next tile */
        __builtin_prefetch(q + ROWS * a->ldq + VL);
        _mm512_store_si512(
            to + i * Q_ROW + c / 2,
            (__m512i)_mm512_cvtne2ps_pbh(v_load_m(q + VL, high) + b1, v_load_m(q, low) + b0));
    }
}

/* Rows of q plus a bias, padded with zeros. */
static void fill(const struct steno_attend *a, const float *bias, uint32_t *to)
{
    size_t c = 0;
    for (; c + NR <= a->size; c += NR)
        fill_step(a, bias, to, c, NR);
    if (c < a->size)
        fill_step(a, bias, to, c, a->size - c);
}

/* Where to store finished sums of 16 columns. at NULL: none. */
struct finished {
    float *at;
    size_t row;
    bool odd; /* the sums are in registers 2 and 3, else in 0 and 1 */
};

/* A product of the rows with 16 columns. */
struct half {
    const uint32_t *a;
    size_t a_row, lanes;
    const char *b;
    const float *from; /* sums start with this, or NULL: with zeros */
    size_t from_row;
    float *to;
    size_t to_row;
    const char *prefetch; /* memory to prefetch, at the speed at which B is read; or NULL */
};

#define ALWAYS static inline __attribute__((always_inline))

ALWAYS void store(const struct finished *f, bool odd, bool high)
{
    if (f->at && odd && high)
        AMX_STORE(3, f->at + AMX_ROWS * f->row, 4 * f->row);
    else if (f->at && odd)
        AMX_STORE(2, f->at, 4 * f->row);
    else if (f->at && high)
        AMX_STORE(1, f->at + AMX_ROWS * f->row, 4 * f->row);
    else if (f->at)
        AMX_STORE(0, f->at, 4 * f->row);
}

/* Compute the sums of half x in registers 2 and 3 if odd, else in 0 and 1, and store those of the
 * half before meanwhile. A store right after the products that it waits for would make others wait
 * (95 of 308 cycles for two halves). */
ALWAYS void half_of(const struct half *x, const struct finished *before, bool odd, bool high)
{
    const uint32_t *a = x->a;
    const char *b = x->b, *prefetch = x->prefetch;
    if (x->from && odd) {
        AMX_LOAD(2, x->from, 4 * x->from_row);
        if (high)
            AMX_LOAD(3, x->from + AMX_ROWS * x->from_row, 4 * x->from_row);
    } else if (x->from) {
        AMX_LOAD(0, x->from, 4 * x->from_row);
        if (high)
            AMX_LOAD(1, x->from + AMX_ROWS * x->from_row, 4 * x->from_row);
    } else if (odd) {
        AMX_ZERO(2);
        AMX_ZERO(3);
    } else {
        AMX_ZERO(0);
        AMX_ZERO(1);
    }
    for (size_t u = 0; u < x->lanes; u += AMX_LANES, a += AMX_LANES, b += STEP_BYTES) {
        AMX_PASS(6, b, 4 * NR);
        AMX_LOAD(4, a, 4 * x->a_row);
        if (odd)
            AMX_DOT_BF16(2, 4, 6);
        else
            AMX_DOT_BF16(0, 4, 6);
        if (high) {
            AMX_LOAD(5, a + AMX_ROWS * x->a_row, 4 * x->a_row);
            if (odd)
                AMX_DOT_BF16(3, 5, 6);
            else
                AMX_DOT_BF16(1, 5, 6);
        }
        if (!u)
            store(before, !odd, false);
        if (prefetch) {
            amx_prefetch_lines(prefetch, 0, AMX_LANES);
            prefetch += AMX_LANES * 64;
        }
    }
    if (high)
        store(before, !odd, true);
}

static void next_half(const struct half *x, struct finished *f, bool high)
{
    const struct finished before = *f;
    *f = (struct finished){x->to, x->to_row, !before.odd};
    if (f->odd && high)
        half_of(x, &before, true, true);
    else if (f->odd)
        half_of(x, &before, true, false);
    else if (high)
        half_of(x, &before, false, true);
    else
        half_of(x, &before, false, false);
}

static void last_half(const struct finished *f, bool high)
{
    store(f, f->odd, false);
    if (high)
        store(f, f->odd, true);
}

/* Scores of n keys from j on. The sums start with the products with positions; row i + 1 reads
 * these one column earlier than row i, because the row stride is one element shorter. Once the sums
 * of columns c on have started, columns [0, c + 16) are not read again, so the sums are stored
 * there. */
static void scores(const struct steno_attend *a, struct work *w, size_t j, size_t n,
                   struct finished *f)
{
    const bool high = a->m > AMX_ROWS;
    const size_t lanes = lanes_of(a->size), panel = lanes * NR * 4, halves = (n + NR - 1) / NR * 2;
    const char *k = (const char *)a->k + j / NR * panel, *p = a->p;
    struct half x = {.a = w->qp, .a_row = Q_ROW, .lanes = lanes, .to_row = S_ROW};
    for (size_t i = 0; p && i < halves + 2 * a->shifted; i++) {
        x.b = p + ((j - a->from) / NR + i / 2) * panel + i % 2 * 64;
        x.to = w->s + i * AMX_LANES;
        next_half(&x, f, high);
    }
    x.a = w->q;
    x.from_row = S_ROW - a->shifted;
    for (size_t i = 0; i < halves; i++) {
        x.b = k + i / 2 * panel + i % 2 * 64;
        x.from = p ? w->s + i * AMX_LANES + (a->shifted ? ROWS - 1 : 0) : NULL;
        x.to = w->s + i * AMX_LANES;
        x.prefetch = a->cold ? k + PREFETCH_DISTANCE + i * panel / 2 : NULL;
        next_half(&x, f, high);
    }
}

/* o += weights times V, for n keys from j on. o is already in the unit of the new weights, or
 * starts with zeros at the first keys. */
static void add_values(const struct steno_attend *a, const struct work *w, size_t j, size_t n,
                       struct finished *f)
{
    const bool first = a->first && j == a->from;
    const size_t panel = lanes_of(a->keys) * NR * 4;
    struct half x = {.a = (const uint32_t *)w->s,
                     .a_row = S_ROW,
                     .lanes = (n + NR - 1) / NR * AMX_LANES,
                     .from_row = w->ldo,
                     .to_row = w->ldo};
    for (size_t c = 0; c < w->ldo; c += AMX_LANES) {
        x.b = (const char *)a->v + j / 2 * NR * 4 + c / NR * panel + c % NR * 4;
        x.to = a->o + c;
        x.from = first ? NULL : x.to;
        x.prefetch =
            a->cold ? (const char *)a->v + PREFETCH_DISTANCE + c / AMX_LANES * panel / 2 : NULL;
        next_half(&x, f, a->m > AMX_ROWS);
    }
}

#define EACH APPROX_EACH
enum { EACH_VECTORS = VECTORS };

#define LARGE_SCORE ((float)(1 << 22)) /* in the unit of weights; half an ulp of it is 1/4 */
static const float log2e = 1.44269504088896341f;

ALWAYS vf fold(vf a, vf b, bool max)
{
    return max ? v_max(a, b) : _mm512_add_ps(a, b);
}

/* The largest lane, or the sum of lanes, of each of 16 vectors: two vectors are folded into one,
 * four times. */
ALWAYS vf fold_each(const vf *x, bool max)
{
    vf a[8], b[4], c[2];
    EACH(i, 8)
    a[i] = fold(_mm512_unpacklo_ps(x[2 * i], x[2 * i + 1]),
                _mm512_unpackhi_ps(x[2 * i], x[2 * i + 1]), max);
    EACH(i, 4)
    {
        const __m512d p = _mm512_castps_pd(a[2 * i]), q = _mm512_castps_pd(a[2 * i + 1]);
        b[i] = fold(_mm512_castpd_ps(_mm512_unpacklo_pd(p, q)),
                    _mm512_castpd_ps(_mm512_unpackhi_pd(p, q)), max);
    }
    EACH(i, 2)
    c[i] = fold(_mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], 0x88),
                _mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], 0xdd), max);
    return fold(_mm512_shuffle_f32x4(c[0], c[1], 0x88), _mm512_shuffle_f32x4(c[0], c[1], 0xdd),
                max);
}

/* The lanes of a vector of keys from `at` on that are in [from, to). */
static inline vm lanes_in(size_t at, size_t from, size_t to)
{
    const size_t lo = from > at ? from - at : 0, hi = to > at ? to - at : 0;
    return v_tail(hi < VL ? hi : VL) & (vm)~v_tail(lo < VL ? lo : VL);
}

/* The largest of each lane of row i of scores, KEYS of them, all seen. */
ALWAYS vf whole_row(const struct work *w, size_t i)
{
    const float *s = w->s + i * S_ROW;
    vf x[VECTORS];
    EACH(v, VECTORS) x[v] = v_load(s + v * VL);
    for (int c = VECTORS / 2; c; c /= 2)
        EACH(v, c) x[v] = v_max(x[v], x[v + c]);
    return x[0];
}

/* Row i, n vectors from key j on: scores as powers of two, -inf for keys that the row does not see.
 * Returns the largest of each lane. */
static vf part_row(const struct steno_attend *a, struct work *w, size_t i, size_t j, size_t n)
{
    const struct steno_attend_seen all = {0, a->to, NULL}, seen = a->seen ? a->seen[i] : all;
    const size_t to = seen.to < a->to ? seen.to : a->to;
    const float *mask = seen.mask ? seen.mask + (j - a->from) : NULL;
    const vf by = v_set1(a->scale * log2e);
    float *s = w->s + i * S_ROW;
    vf top = v_set1(-INFINITY);
    for (size_t v = 0, at = j; v < n; v++, at += VL, s += VL) {
        vf x = v_load(s) * by;
        if (!mask && seen.from <= at && at + VL <= to) {
            top = v_max(top, x);
        } else {
            const vm m = lanes_in(at, seen.from, to);
            if (mask)
                x = v_fma(v_load_m(mask + v * VL, m), v_set1(log2e), x);
            x = v_select(m, x, v_set1(-INFINITY));
            top = v_max(top, x);
        }
        v_store(s, x);
    }
    return top;
}

/* Update the largest scores so far of 16 rows from i0 on. keep: the factor from the old unit of the
 * sums to the new one. */
static void raise(struct work *w, size_t i0, const vf *tops, float scale)
{
    const vf old = v_load(w->max + i0), top = v_max(fold_each(tops, true) * v_set1(scale), old);
    vf keep = old - top;
    approx_exp2_each(&keep, 1);
    v_store(w->max + i0, top);
    v_store(w->base + i0, v_select(v_lt(v_set1(-INFINITY), top), top, v_zero()));
    v_store(w->keep + i0, v_select(v_lt(old, top), keep, v_set1(1.0f)));
}

/* Row i of scores, n vectors, to bf16 weights; adds to their sum. Converts the row of o to the new
 * unit. */
ALWAYS void weigh(const struct steno_attend *a, struct work *w, size_t i, int n, float scale,
                  bool first)
{
    float *s = w->s + i * S_ROW;
    const vf by = v_set1(scale), base = v_set1(-w->base[i]), keep = v_set1(w->keep[i]);
    float *o = a->o + i * w->ldo;
    vf x[EACH_VECTORS];
    EACH(v, n) x[v] = v_fma(v_load(s + v * VL), by, base);
    approx_exp2_each(x, n);
    EACH(v, n / 2)
    _mm512_store_si512(s + v * VL, (__m512i)_mm512_cvtne2ps_pbh(x[2 * v + 1], x[2 * v]));
    for (int c = n / 2; c; c /= 2)
        EACH(v, c) x[v] = x[v] + x[v + c];
    v_store(w->sum + i * VL, v_fma(v_load(w->sum + i * VL), keep, x[0]));
    for (size_t c = 0; !first && c < w->ldo; c += VL)
        v_store(o + c, v_load(o + c) * keep);
}

/* Where the base is so large that its rounding error is not far below the unit, weigh would take it
 * from an exact product, and a weight could overflow: round the products with the scale as the
 * base. Returns the scale that remains. */
static float round_large(struct work *w, size_t m, float scale)
{
    bool large = false;
    for (size_t i = 0; i < m; i++)
        large |= fabsf(w->base[i]) > LARGE_SCORE;
    for (size_t i = 0; large && i < m; i++)
        for (size_t c = 0; c < KEYS; c += VL)
            v_store(w->s + i * S_ROW + c, v_load(w->s + i * S_ROW + c) * v_set1(scale));
    return large ? 1 : scale;
}

/* All rows of scores of n keys from j on, to weights. */
static void weigh_rows(const struct steno_attend *a, struct work *w, size_t j, size_t n)
{
    const bool whole = a->scale > 0 && n == KEYS && attend_sees_all(a, j, n),
               first = a->first && j == a->from;
    const size_t vectors = n > KEYS / 2 ? VECTORS : n > KEYS / 4 ? VECTORS / 2 : VECTORS / 4;
    float scale = whole ? a->scale * log2e : 1;
    for (size_t i0 = 0; i0 < a->m; i0 += AMX_ROWS) {
        const size_t h = a->m - i0 < AMX_ROWS ? a->m - i0 : AMX_ROWS;
        vf tops[AMX_ROWS];
        for (size_t i = 0; i < h; i++)
            tops[i] = whole ? whole_row(w, i0 + i) : part_row(a, w, i0 + i, j, vectors);
        for (size_t i = h; i < AMX_ROWS; i++)
            tops[i] = v_zero();
        raise(w, i0, tops, scale);
    }
    if (whole)
        scale = round_large(w, a->m, scale);
    for (size_t i = 0; i < a->m; i++)
        if (vectors == VECTORS)
            weigh(a, w, i, VECTORS, scale, first);
        else if (vectors == VECTORS / 2)
            weigh(a, w, i, VECTORS / 2, scale, first);
        else
            weigh(a, w, i, VECTORS / 4, scale, first);
}

static void attend_bf16(const struct steno_attend *a)
{
    const uint8_t low = (uint8_t)(a->m < AMX_ROWS ? a->m : AMX_ROWS);
    const uint8_t high = (uint8_t)(a->m > AMX_ROWS ? a->m - AMX_ROWS : AMX_ROWS);
    struct finished f = {0};
    struct work w;
    if (a->from >= a->to || !a->m)
        return;
    w.ldo = steno_attend_ldo(a->v_size);
    fill(a, a->q_bias, w.q);
    if (a->p)
        fill(a, a->p_bias, w.qp);
    for (size_t i = 0; i < ROWS; i++) {
        w.max[i] = i < a->m ? a->max[i] : 0;
        v_store(w.sum + i * VL, v_load_m(a->sum + i, i < a->m));
    }
    amx_configure((const uint8_t[8]){low, high, low, high, low, high, AMX_ROWS, AMX_ROWS});
    for (size_t j = a->from; j < a->to; j += KEYS) {
        const size_t n = a->to - j < KEYS ? a->to - j : KEYS;
        scores(a, &w, j, n, &f);
        last_half(&f, a->m > AMX_ROWS);
        weigh_rows(a, &w, j, n);
        f.at = NULL;
        add_values(a, &w, j, n, &f);
    }
    last_half(&f, a->m > AMX_ROWS);
    amx_end();
    for (size_t i0 = 0; i0 < a->m; i0 += AMX_ROWS) {
        vf sums[AMX_ROWS];
        const vm m = v_tail(a->m - i0 < AMX_ROWS ? a->m - i0 : AMX_ROWS);
        EACH(i, AMX_ROWS) sums[i] = v_load(w.sum + (i0 + i) * VL);
        v_store_m(a->sum + i0, m, fold_each(sums, false));
        v_store_m(a->max + i0, m, v_load(w.max + i0));
    }
}

void steno_kernels_attend__amx(steno_kernels *k)
{
    k->attend_bf16 =
        (struct steno_attend_kernel){k->gemm_bf16.packed_bytes, k->gemm_bf16.pack, attend_bf16};
    k->kv_append_bf16 = kv_append_bf16;
    k->attend_rounded_as = STENO_ATTEND_BF16;
}
