/* Attention of row tiles (kernels.h, struct steno_attend), the specification, in f32, bf16 and
 * integers of 16 bits.
 *
 * Packed: panels of PANEL columns, each [K][PANEL]. Integers: before them the unit of each column
 * of K or V, f32 [STENO_ATTEND_SIZE], NaN where a number of the column is not finite. */
#include "nn/kernels/attend_i8.h"
#include "nn/kernels/half.h"
#include "nn/kernels/internal.h"

#include <math.h>
#include <string.h>

enum { PANEL = 32, KEY_STEPS = 2047, QUERY_STEPS = 4095, WEIGHT_STEPS = 16383, VALUE_STEPS = 1023 };

static size_t whole(size_t n)
{
    return (n + PANEL - 1) / PANEL * PANEL;
}

/* Number (i, j) of a packed [K, .]. */
static size_t place(size_t k, size_t i, size_t j)
{
    return (j / PANEL * k + i) * PANEL + j % PANEL;
}

/* ---- packing ---- */

static float from_matrix(const float *b, size_t ldb, bool trans, size_t i, size_t j)
{
    return trans ? b[j * ldb + i] : b[i * ldb + j];
}

static size_t packed_bytes_f32(size_t k, size_t n)
{
    return k * whole(n) * sizeof(float);
}

static void pack_f32(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n)
{
    float *to = dst;
    memset(to, 0, packed_bytes_f32(k, n));
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < n; j++)
            to[place(k, i, j)] = from_matrix(b, ldb, trans, i, j);
}

static size_t packed_bytes_bf16(size_t k, size_t n)
{
    return k * whole(n) * sizeof(uint16_t);
}

static void pack_bf16(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n)
{
    uint16_t *to = dst;
    memset(to, 0, packed_bytes_bf16(k, n));
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < n; j++)
            to[place(k, i, j)] = half_to_bf16(from_matrix(b, ldb, trans, i, j));
}

static void kv_append_bf16__scalar(void *page, size_t size, size_t v_size, size_t at, size_t n,
                                   const float *k, size_t ldk, const float *v, size_t ldv)
{
    uint16_t *keys = page, *values = keys + size * STENO_KV_PAGE_KEYS;
    for (size_t j = 0; j < n; j++) {
        for (size_t i = 0; i < size; i++)
            keys[place(size, i, at + j)] = half_to_bf16(k[j * ldk + i]);
        for (size_t i = 0; i < v_size; i++)
            values[place(STENO_KV_PAGE_KEYS, at + j, i)] = half_to_bf16(v[j * ldv + i]);
    }
}

static size_t packed_bytes_i16(size_t k, size_t n)
{
    return STENO_ATTEND_SIZE * sizeof(float) + k * whole(n) * sizeof(int16_t);
}

/* The larger magnitude; NaN if either is. */
static float larger(float top, float x)
{
    return fabsf(x) > top || x != x ? fabsf(x) : top;
}

/* Keys, which are transposed, have columns along K; values along N. */
static void pack_i16(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n)
{
    const size_t columns = trans ? k : n, rows = trans ? n : k;
    float *unit = dst;
    int16_t *to = (int16_t *)(unit + STENO_ATTEND_SIZE);
    memset(dst, 0, packed_bytes_i16(k, n));
    for (size_t c = 0; c < columns; c++) {
        float top = 0, by;
        for (size_t r = 0; r < rows && top == top; r++)
            top = larger(top, b[r * ldb + c]);
        by = attend_i8_steps(top, trans ? KEY_STEPS : VALUE_STEPS, &unit[c]);
        for (size_t r = 0; r < rows && by > 0; r++)
            to[trans ? place(k, c, r) : place(k, r, c)] = (int16_t)rintf(b[r * ldb + c] * by);
    }
}

/* ---- rows ---- */

enum form { F32, BF16, I16 };

/* q of a row plus a bias, rounded, as it multiplies packed numbers. Returns what products are in
 * units of. */
static float query(const struct steno_attend *a, enum form form, size_t i, const float *bias,
                   float *to)
{
    const float *q = a->q + i * a->ldq, *k_unit = a->k;
    float top = 0, by, unit;
    for (size_t c = 0; c < a->size; c++) {
        to[c] = bias ? q[c] + bias[c] : q[c];
        if (form == BF16)
            to[c] = half_from_bf16(half_to_bf16(to[c]));
        if (form == I16)
            to[c] *= k_unit[c];
        if (top == top)
            top = larger(top, to[c]);
    }
    if (form != I16)
        return 1;
    by = attend_i8_steps(top, QUERY_STEPS, &unit);
    for (size_t c = 0; c < a->size; c++)
        to[c] = by > 0 ? rintf(to[c] * by) : 0;
    return unit;
}

static double number(enum form form, const void *packed, size_t at)
{
    if (form == F32)
        return (double)((const float *)packed)[at];
    if (form == BF16)
        return (double)half_from_bf16(((const uint16_t *)packed)[at]);
    return ((const int16_t *)((const float *)packed + STENO_ATTEND_SIZE))[at];
}

/* q times column j of a packed [size, .]. */
static double product(const struct steno_attend *a, enum form form, const float *q,
                      const void *packed, size_t j)
{
    double sum = 0;
    for (size_t c = 0; c < a->size; c++)
        sum += (double)q[c] * number(form, packed, place(a->size, c, j));
    return sum;
}

/* Scores of row i, t[0] for key a->from; -inf for keys that the row does not see. */
static void scores(const struct steno_attend *a, enum form form, size_t i, float *t)
{
    const struct steno_attend_seen all = {0, a->to, NULL}, seen = a->seen ? a->seen[i] : all;
    const float log2 = form == F32 ? 1 : 1 / STENO_ATTEND_LOG2;
    float q[STENO_ATTEND_SIZE], qp[STENO_ATTEND_SIZE];
    const double unit = (double)query(a, form, i, a->q_bias, q);
    if (a->p)
        (void)query(a, form, i, a->p_bias, qp);
    for (size_t j = a->from; j < a->to; j++) {
        const size_t at = j - a->from, p = at + (a->shifted ? STENO_ATTEND_ROWS - 1 - i : 0);
        double sum;
        t[at] = -INFINITY;
        if (j < seen.from || j >= seen.to)
            continue;
        sum = product(a, form, q, a->k, j) * unit;
        if (a->p)
            sum += product(a, form, qp, a->p, p);
        t[at] = (float)((double)a->scale * sum + (seen.mask ? (double)seen.mask[at] : 0)) * log2;
    }
}

/* The weight of a score t, and what multiplies the values. */
static double weigh(enum form form, float t, float max, double *rounded)
{
    const double w = form == F32 ? exp((double)t - (double)max) : exp2((double)t - (double)max);
    *rounded = form == BF16  ? (double)half_from_bf16(half_to_bf16((float)w))
               : form == I16 ? rint(w * WEIGHT_STEPS) / WEIGHT_STEPS
                             : w;
    return form == I16 ? *rounded : w;
}

/* Keys [a->from, a->to) for row i; at most PANEL of them. */
static void row(const struct steno_attend *a, enum form form, size_t i, bool first)
{
    float t[PANEL], max = a->max[i], *o = a->o + i * steno_attend_ldo(a->v_size);
    double w[PANEL], sum = 0, keep;
    const float *v_unit = a->v;
    scores(a, form, i, t);
    for (size_t j = 0; j < a->to - a->from; j++)
        max = t[j] > max || t[j] != t[j] ? t[j] : max;
    if (max != max)
        max = 0;
    keep = max > a->max[i] ? exp2(((double)a->max[i] - (double)max) * (form == F32 ? M_LOG2E : 1))
                           : 1;
    for (size_t j = 0; j < a->to - a->from; j++)
        sum += weigh(form, t[j], max > -INFINITY ? max : 0, &w[j]);
    for (size_t c = 0; c < a->v_size; c++) {
        double s = 0;
        for (size_t j = a->from; j < a->to; j++)
            s += w[j - a->from] * number(form, a->v, place(a->keys, j, c));
        o[c] = (float)((first ? 0 : (double)o[c] * keep) +
                       s * (form == I16 ? (double)v_unit[c] : 1));
    }
    a->sum[i] = (float)((double)a->sum[i] * keep + sum);
    a->max[i] = max;
}

/* A panel of keys at a time. */
static void attend(const struct steno_attend *a, enum form form)
{
    struct steno_attend_seen seen[STENO_ATTEND_ROWS];
    struct steno_attend some = *a;
    if (a->seen)
        memcpy(seen, a->seen, a->m * sizeof *seen);
    some.seen = a->seen ? seen : NULL;
    for (some.from = a->from; some.from < a->to; some.from = some.to) {
        some.to = a->to - some.from < PANEL ? a->to : some.from + PANEL;
        for (size_t i = 0; i < a->m; i++) {
            row(&some, form, i, a->first && some.from == a->from);
            if (a->seen && seen[i].mask)
                seen[i].mask += some.to - some.from;
        }
        if (a->p)
            some.p = (const char *)some.p +
                     (form == F32 ? packed_bytes_f32 : packed_bytes_bf16)(a->size, PANEL);
    }
}

static void attend_f32__scalar(const struct steno_attend *a)
{
    attend(a, F32);
}

static void attend_bf16__scalar(const struct steno_attend *a)
{
    attend(a, BF16);
}

static void attend_i16__scalar(const struct steno_attend *a)
{
    attend(a, I16);
}

void steno_kernels_attend__scalar(steno_kernels *k)
{
    k->attend_f32 = (struct steno_attend_kernel){packed_bytes_f32, pack_f32, attend_f32__scalar};
    k->attend_bf16 =
        (struct steno_attend_kernel){packed_bytes_bf16, pack_bf16, attend_bf16__scalar};
    k->attend_i16 = (struct steno_attend_kernel){packed_bytes_i16, pack_i16, attend_i16__scalar};
    k->kv_append_bf16 = kv_append_bf16__scalar;
    k->attend_as = k->attend_rounded_as = STENO_ATTEND_PRODUCTS;
}
