/* Attention to keys and values in 8 bits, for one vector width (kernels.h: attend_i8). Keys and
 * values of a page are right factors of the same kind of product: steps of four rows, in which the
 * four bytes of a column are a lane. The left factor, a query or the weights of keys, has 16 bits.
 * So the only rounding that matters is that of the bytes. A page's scores, weights and sums are
 * each computed for all queries: those of one query are a chain that the CPU would wait for.
 *
 * Included after vec_<isa>.h, vec_i32_<isa>.h, math_tmpl.h and the definitions that differ:
 *   struct numbers            STENO_ATTEND_SIZE numbers of a left factor, as columns_of reads them
 *   put_numbers(to, i, v)     store VL integers of 16 bits as numbers i to i + VL
 *   columns_of(b, row, steps, a, minus, out, first, n)
 *       out[c] = minus + sum over i < 4 steps of a[i] b[i][c] for n vectors of columns, exact; a
 *       step is `row` bytes of b. first: b is not in the caches, and neither is what follows it in
 *       memory. n and first are constants at compile time.
 *   MOST                      n of columns_of is this, half of it, or 16 columns
 * and, where weights are not exponentials by math_tmpl.h:
 *   weights_each(x, n), EXPONENT_UNIT     e^x for n vectors, x <= 0; 1 is EXPONENT_UNIT in x
 *   WEIGHTS                   n of weights_each is this or 1 */
#include "nn/kernels/attend_i8.h"
#include "nn/kernels/internal.h"

#include "nn/kernels/tmpl/prefetch.h"

#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

#ifndef weights_each
#define weights_each v_exp_each
#define EXPONENT_UNIT 1.0f
enum { WEIGHTS = V_MANY };
#endif

enum {
    KEYS = STENO_KV_PAGE_KEYS,
    ROWS = STENO_ATTEND_ROWS,
    SIZE = STENO_ATTEND_SIZE,
    AHEAD = 12 /* rows */
};

/* The left factor of a product. */
struct factor {
    struct numbers n;
    vi sum; /* of all numbers, in parts */
};

/* Numbers i to i + VL, rounded; in order from 0 on. */
static inline void factor_put(struct factor *f, size_t i, vf x)
{
    const vi v = vi_round(x);
    put_numbers(&f->n, i, v);
    f->sum = i ? vi_add(f->sum, v) : v;
}

static inline __attribute__((always_inline)) void each_column(const uint8_t *b, size_t steps,
                                                              size_t columns,
                                                              const struct factor *f, float *out,
                                                              bool first)
{
    const int32_t minus = attend_i8_minus(vi_hsum(f->sum));
    const size_t row = 4 * columns, most = MOST * VL, half = most / 2;
    size_t c = 0;
    for (; c + most <= columns; c += most)
        columns_of(b + 4 * c, row, steps, &f->n, minus, out + c, first, MOST);
    for (; half > 16 && c + half <= columns; c += half)
        columns_of(b + 4 * c, row, steps, &f->n, minus, out + c, first, MOST / 2);
    for (; most > 16 && c < columns; c += 16)
        columns_of(b + 4 * c, row, steps, &f->n, minus, out + c, first, 16 / VL);
}

/* out[c] = sum over i < 4 steps of f[i] (b[i][c] - 128), exact; columns: a multiple of 16. first as
 * in columns_of. */
static void product(const uint8_t *b, size_t steps, size_t columns, const struct factor *f,
                    float *out, bool first)
{
    if (first)
        each_column(b, steps, columns, f, out, true);
    else
        each_column(b, steps, columns, f, out, false);
}

static float largest(const float *x, size_t n)
{
    vf top = v_zero();
    for (size_t i = 0; i < n; i += VL)
        top = v_max_nan(top, v_abs(v_load_m(x + i, tail_at(n, i))));
    return v_any(v_is_nan(top)) ? NAN : v_hmax(top);
}

/* x [n] in units of *unit; the last vector is filled up with zeros. */
static void to_factor(const float *x, size_t n, struct factor *f, float *unit)
{
    const vf by = v_set1(attend_i8_steps(largest(x, n), ATTEND_I16, unit));
    for (size_t i = 0; i < n; i += VL)
        factor_put(f, i, v_load_m(x + i, tail_at(n, i)) * by);
}

/* Four vectors of numbers in steps, rounded and raised by 128: the bytes of each lane, x[0] first.
 */
static inline vi four_u8(const vf *x)
{
    vi v = vi_round(x[3]);
    for (int i = 2; i >= 0; i--)
        v = vi_add(vi_times256(v), vi_round(x[i]));
    return vi_add(v, vi_set1((int32_t)0x80808080));
}

/* Keys [n, size], VL at a time: columns of them are vectors once they are transposed. */
static void pack_keys(uint8_t *to, float *unit, size_t size, size_t n, const float *k, size_t ldk)
{
    alignas(64) float t[SIZE * VL], by[VL];
    memset(t + size * VL, 0, -size % 4 * VL * sizeof *t); /* a step's columns behind the last */
    for (size_t j = 0; j < n; j += VL, k += VL * ldk) {
        const size_t rows = n - j < VL ? n - j : VL;
        vf top = v_zero(), steps;
        if (rows < VL)
            memset(t, 0, size * VL * sizeof *t);
        for (size_t i = 0; i < VL; i++)
            prefetch_floats(k + (VL + i) * ldk, size);
        transpose_blocks(t, VL, k, ldk, rows, size);
        for (size_t c = 0; c < size; c++)
            top = v_max_nan(top, v_abs(v_load(t + c * VL)));
        v_store(by, top);
        for (size_t i = 0; i < VL; i++)
            by[i] = attend_i8_steps(by[i], ATTEND_I8, &unit[j + i]);
        steps = v_load(by);
        for (size_t c = 0; c < size; c += 4) {
            vf x[4];
            for (size_t i = 0; i < 4; i++)
                x[i] = v_load(t + (c + i) * VL) * steps;
            vi_store(to + (c * KEYS / 4 + j) * 4, four_u8(x));
        }
    }
}

/* Values [n, size], four at a time, padded to `columns`. */
static void pack_values(uint8_t *to, float *unit, size_t size, size_t columns, size_t n,
                        const float *v, size_t ldv)
{
    for (size_t j = 0; j < n; j += 4, v += 4 * ldv, to += 4 * columns) {
        const size_t rows = n - j < 4 ? n - j : 4;
        float by[4] = {0};
        for (size_t i = 0; i < 4; i++)
            prefetch_floats(v + (AHEAD + i) * ldv, size);
        for (size_t i = 0; i < rows; i++)
            by[i] = attend_i8_steps(largest(v + i * ldv, size), ATTEND_I8, &unit[j + i]);
        for (size_t c = 0; c < columns; c += VL) {
            const vm m = tail_at(size, c);
            vf x[4];
            for (size_t i = 0; i < 4; i++) {
                x[i] = v_zero();
                if (i < rows)
                    x[i] = v_load_m(v + i * ldv + c, m) * v_set1(by[i]);
            }
            vi_store(to + 4 * c, four_u8(x));
        }
    }
}

static void V_NAME(kv_pack_i8)(void *page, size_t size, size_t v_size, size_t n, const float *k,
                               size_t ldk, const float *v, size_t ldv)
{
    const struct kv_i8_layout l = kv_i8_layout(size, v_size);
    uint8_t *keys = page;
    float *k_unit = (float *)(void *)(keys + l.units), *v_unit = k_unit + KEYS;
    if (n < KEYS)
        memset(page, 128, l.units);
    memset(k_unit, 0, 2 * KEYS * sizeof *k_unit);
    pack_keys(keys, k_unit, size, n, k, ldk);
    pack_values(keys + l.values, v_unit, v_size, l.v_columns, n, v, ldv);
    attend_i8_mark(k_unit, v_unit);
}

/* A query. Its sums are in units of e^max, and so are the weights of the page. */
struct query {
    struct factor q, weights;
    alignas(64) float s[KEYS];   /* scores, then weights times the units of the values */
    float scale, max, sum, keep; /* keep: e^(old maximum - new) */
    float weight_unit;
};

/* Scores of the first n keys to weights. */
static void weigh(struct query *q, const float *k_unit, size_t n)
{
    const float *v_unit = k_unit + KEYS;
    vf by = v_set1(q->scale), top = v_set1(q->max), sum = v_zero(), high = v_zero(), keep;
    float max;
    for (size_t j = 0; j < KEYS; j += VL) {
        vf t = v_load(q->s + j) * (v_load(k_unit + j) * by);
        if (j + VL > n)
            t = v_select(v_tail(n > j ? n - j : 0), t, v_set1(-INFINITY));
        v_store(q->s + j, t);
        top = v_max(top, t);
    }
    max = v_hmax(top);
    keep = v_set1(q->max - max);
    weights_each(&keep, 1);
    q->keep = v_hmax(keep);
    q->max = max;
    for (size_t j = 0; j < KEYS; j += WEIGHTS * VL) {
        vf e[WEIGHTS];
        V_EACH(i, WEIGHTS) e[i] = v_load(q->s + j + (size_t)i * VL) - v_set1(max);
        weights_each(e, WEIGHTS);
        V_EACH(i, WEIGHTS) sum = sum + e[i];
        V_EACH(i, WEIGHTS) e[i] = e[i] * v_load(v_unit + j + (size_t)i * VL);
        V_EACH(i, WEIGHTS) high = v_max(high, e[i]);
        V_EACH(i, WEIGHTS) v_store(q->s + j + (size_t)i * VL, e[i]);
    }
    q->sum = q->sum * q->keep + v_hsum(sum);
    by = v_set1(attend_i8_steps(v_hmax(high), ATTEND_I16, &q->weight_unit));
    for (size_t j = 0; j < KEYS; j += VL)
        factor_put(&q->weights, j, v_load(q->s + j) * by);
}

/* y [n] = y * keep + x * by */
static void mix(float *y, size_t n, float keep, const float *x, float by)
{
    for (size_t c = 0; c < n; c += VL) {
        const vm m = tail_at(n, c);
        v_store_m(y + c, m, v_fma(v_load(x + c), v_set1(by), v_load_m(y + c, m) * v_set1(keep)));
    }
}

/* Part i of m of the `bytes` at p into L2. A page of 64 numbers is 17 KiB, so two of them do not
 * fit into every L1. */
static inline void fetch_part(const uint8_t *p, size_t bytes, size_t i, size_t m)
{
    const size_t lines = (bytes + 63) / 64, end = lines * (i + 1) / m;
    for (size_t x = lines * i / m; x < end; x++)
        __builtin_prefetch(p + 64 * x, 0, 2);
}

/* A single query fetches pages as it reads them. Of several each fetches a part of the next page:
 * if the first fetched all of it, memory would be idle while the others compute. */
static void V_NAME(attend_i8)(const struct steno_attend_i8 *a)
{
    const bool alone = a->m == 1;
    const struct kv_i8_layout l = kv_i8_layout(a->size, a->v_size);
    const uint8_t *page = a->pages;
    struct query all[ROWS];
    alignas(64) float o[SIZE + VL];
    for (size_t i = 0; i < a->m; i++) {
        all[i].max = -INFINITY;
        all[i].sum = 0;
        to_factor(a->q + i * a->ldq, a->size, &all[i].q, &all[i].scale);
        all[i].scale *= a->scale * EXPONENT_UNIT;
        memset(a->y + i * a->ldy, 0, a->v_size * sizeof *a->y);
    }
    for (size_t at = 0; at < a->n; at += KEYS, page += l.bytes) {
        const float *units = (const float *)(const void *)(page + l.units);
        for (size_t i = 0; i < a->m; i++) {
            if (!alone)
                fetch_part(page + l.bytes, l.values, i, a->m);
            product(page, l.k_steps, KEYS, &all[i].q, all[i].s, alone);
        }
        for (size_t i = 0; i < a->m; i++)
            weigh(&all[i], units, a->n - at < KEYS ? a->n - at : KEYS);
        for (size_t i = 0; i < a->m; i++) {
            if (!alone)
                fetch_part(page + l.bytes + l.values, l.bytes - l.values, i, a->m);
            product(page + l.values, KEYS / 4, l.v_columns, &all[i].weights, o, alone);
            mix(a->y + i * a->ldy, a->v_size, all[i].keep, o, all[i].weight_unit);
        }
    }
    memset(o, 0, sizeof o);
    for (size_t i = 0; i < a->m; i++)
        mix(a->y + i * a->ldy, a->v_size, 1 / all[i].sum, o, 0);
}

void V_NAME(steno_kernels_attend_i8)(steno_kernels *k)
{
    k->kv_pack_i8 = V_NAME(kv_pack_i8);
    k->attend_i8 = V_NAME(attend_i8);
}
