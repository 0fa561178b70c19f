/* Attention to keys and values in 8 bits, the specification. */
#include "nn/kernels/attend_i8.h"
#include "nn/kernels/internal.h"

#include <math.h>
#include <string.h>

enum { KEYS = STENO_KV_PAGE_KEYS };

static float largest(const float *x, size_t n)
{
    float top = 0;
    for (size_t i = 0; i < n; i++)
        top = fabsf(x[i]) > top || x[i] != x[i] ? fabsf(x[i]) : top;
    return top;
}

/* x in steps; 0 if the largest number is not finite. */
static int32_t round_to(float x, float by)
{
    const float r = rintf(x * by);
    return r == r ? (int32_t)r : 0;
}

static void kv_pack_i8__scalar(void *page, size_t size, size_t v_size, size_t n, const float *k,
                               size_t ldk, const float *v, size_t ldv)
{
    const struct kv_i8_layout l = kv_i8_layout(size, v_size);
    uint8_t *keys = page, *values = keys + l.values;
    float *k_unit = (float *)(void *)(keys + l.units), *v_unit = k_unit + KEYS;
    memset(page, 128, l.units);
    memset(k_unit, 0, 2 * KEYS * sizeof *k_unit);
    for (size_t j = 0; j < n; j++, k += ldk, v += ldv) {
        const float k_by = attend_i8_steps(largest(k, size), ATTEND_I8, &k_unit[j]);
        const float v_by = attend_i8_steps(largest(v, v_size), ATTEND_I8, &v_unit[j]);
        for (size_t c = 0; c < size; c++)
            keys[(c / 4 * KEYS + j) * 4 + c % 4] = (uint8_t)(128 + round_to(k[c], k_by));
        for (size_t c = 0; c < v_size; c++)
            values[(j / 4 * l.v_columns + c) * 4 + j % 4] = (uint8_t)(128 + round_to(v[c], v_by));
    }
    attend_i8_mark(k_unit, v_unit);
}

/* Scores of a page's keys, in units of the query. */
static void scores(const struct kv_i8_layout *l, const uint8_t *page, const int32_t *q, size_t size,
                   size_t n, float *s)
{
    const float *unit = (const float *)(const void *)(page + l->units);
    for (size_t j = 0; j < n; j++) {
        int32_t sum = 0;
        for (size_t c = 0; c < size; c++)
            sum += q[c] * (page[(c / 4 * KEYS + j) * 4 + c % 4] - 128);
        s[j] = (float)sum * unit[j];
    }
}

/* y += weights times a page's values; weights s [n] already contain the values' units. */
static void add_values(const struct kv_i8_layout *l, const uint8_t *page, const float *s, size_t n,
                       float *y, size_t v_size)
{
    const uint8_t *values = page + l->values;
    float unit;
    const float by = attend_i8_steps(largest(s, n), ATTEND_I16, &unit);
    for (size_t c = 0; c < v_size; c++) {
        int32_t sum = 0;
        for (size_t j = 0; j < n; j++)
            sum += round_to(s[j], by) * (values[(j / 4 * l->v_columns + c) * 4 + j % 4] - 128);
        y[c] += (float)sum * unit;
    }
}

static void one_query(const struct steno_attend_i8 *a, const float *q, float *y)
{
    const struct kv_i8_layout l = kv_i8_layout(a->size, a->v_size);
    const uint8_t *page = a->pages;
    int32_t steps[STENO_ATTEND_SIZE];
    float unit, max = -INFINITY, sum = 0;
    const float by = attend_i8_steps(largest(q, a->size), ATTEND_I16, &unit);
    for (size_t c = 0; c < a->size; c++)
        steps[c] = round_to(q[c], by);
    memset(y, 0, a->v_size * sizeof *y);
    for (size_t at = 0; at < a->n; at += KEYS, page += l.bytes) {
        const float *v_unit = (const float *)(const void *)(page + l.units) + KEYS;
        const size_t n = a->n - at < KEYS ? a->n - at : KEYS;
        float s[KEYS], keep, top = max;
        scores(&l, page, steps, a->size, n, s);
        for (size_t j = 0; j < n; j++) {
            s[j] *= unit * a->scale;
            top = s[j] > top || s[j] != s[j] ? s[j] : top;
        }
        keep = expf(max - top);
        max = top;
        sum *= keep;
        for (size_t j = 0; j < n; j++) {
            s[j] = expf(s[j] - top);
            sum += s[j];
            s[j] *= v_unit[j];
        }
        for (size_t c = 0; c < a->v_size; c++)
            y[c] *= keep;
        add_values(&l, page, s, n, y, a->v_size);
    }
    for (size_t c = 0; c < a->v_size; c++)
        y[c] /= sum;
}

static void attend_i8__scalar(const struct steno_attend_i8 *a)
{
    for (size_t i = 0; i < a->m; i++)
        one_query(a, a->q + i * a->ldq, a->y + i * a->ldy);
}

void steno_kernels_attend_i8__scalar(steno_kernels *k)
{
    k->kv_pack_i8 = kv_pack_i8__scalar;
    k->attend_i8 = attend_i8__scalar;
}
