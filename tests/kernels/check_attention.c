#include "tests/kernels/kcheck.h"

#include <string.h>

struct row {
    size_t n, block;
    float *s, *bias, *mask,
        *weight; /* weight: the weights that the steps give, in the unit of the last maximum */
    float scale, max, sum;
};

static double exact_score(const struct row *r, size_t i)
{
    double t = (double)r->s[i] + (r->bias ? (double)r->bias[i] : 0);
    return (double)r->scale * t + (r->mask ? (double)r->mask[i] : 0);
}

static void run_blocks(const steno_kernels *k, struct row *r)
{
    r->max = -INFINITY;
    r->sum = 0;
    for (size_t at = 0; at < r->n; at += r->block) {
        size_t n = r->n - at < r->block ? r->n - at : r->block;
        float *s = guard_new(n), *b = r->bias ? guard_new(n) : NULL;
        float *m = r->mask ? guard_new(n) : NULL, c;
        memcpy(s, r->s + at, n * sizeof *s);
        if (b)
            memcpy(b, r->bias + at, n * sizeof *b);
        if (m)
            memcpy(m, r->mask + at, n * sizeof *m);
        c = k->softmax_step_f32(s, n, r->scale, b, m, &r->max, &r->sum);
        for (size_t i = 0; i < at; i++)
            r->weight[i] *= c;
        memcpy(r->weight + at, s, n * sizeof *s);
        guard_free(s);
        if (b)
            guard_free(b);
        if (m)
            guard_free(m);
    }
}

/* Each t is rounded three times, and each weight takes one multiplication per block. */
static void compare(const struct row *r)
{
    double max = -INFINITY, sum = 0, top = 0, bound;
    for (size_t i = 0; i < r->n; i++) {
        max = fmax(max, exact_score(r, i));
        if (!isinf(exact_score(r, i)))
            top = fmax(top, fabs(exact_score(r, i)) + fabs((double)r->scale * (double)r->s[i]));
    }
    for (size_t i = 0; i < r->n; i++)
        sum += isinf(max) ? 0 : exp(exact_score(r, i) - max);
    bound = (4 * top + 20 + (double)r->n / 8 + 6.0 * (double)(r->n / r->block)) * EPS;
    if (!close_to(r->max, max, 4 * top * EPS))
        test_fail("n %zu block %zu: max %a, exact %a", r->n, r->block, (double)r->max, max);
    if (!close_to(r->sum, sum, 2 * bound * sum))
        test_fail("n %zu block %zu: sum %a, exact %a", r->n, r->block, (double)r->sum, sum);
    for (size_t i = 0; i < r->n; i++) {
        double want = isinf(max) ? 0 : exp(exact_score(r, i) - max);
        if (!close_to(r->weight[i], want, 2 * bound * want + 1e-40))
            test_fail("n %zu block %zu: weight %zu is %a, exact %a", r->n, r->block, i,
                      (double)r->weight[i], want);
    }
}

static void rows(const steno_kernels *k, bool bias, bool mask, size_t hidden)
{
    static const size_t lengths[] = {1, 7, 15, 16, 17, 31, 32, 33, 64, 100, 255, 749};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (size_t block = 5; block < 1000; block = block * 4 + 12) {
            struct row r = {.n = lengths[l], .block = block, .scale = 0.125f};
            r.s = guard_new(r.n);
            r.weight = guard_new(r.n);
            r.bias = bias ? guard_new(r.n) : NULL;
            r.mask = mask ? guard_new(r.n) : NULL;
            fill_uniform(r.s, r.n);
            for (size_t i = 0; i < r.n; i++)
                r.s[i] *= 90.0f;
            if (bias)
                fill_uniform(r.bias, r.n);
            if (mask)
                fill_uniform(r.mask, r.n);
            for (size_t i = 0; mask && hidden && i < r.n; i++)
                if (i % hidden == 0 || i < 40)
                    r.mask[i] = -INFINITY;
            run_blocks(k, &r);
            compare(&r);
            guard_free(r.s);
            guard_free(r.weight);
            if (bias)
                guard_free(r.bias);
            if (mask)
                guard_free(r.mask);
        }
}

static void nan_stays(const steno_kernels *k)
{
    for (size_t at = 0; at < 40; at++) {
        float s[40], max = -INFINITY, sum = 0;
        fill_uniform(s, 40);
        s[at] = NAN;
        (void)k->softmax_step_f32(s, 40, 1, NULL, NULL, &max, &sum);
        if (!isnan(sum) || !isnan(s[0]))
            test_fail("NaN at %zu: sum %a, first weight %a", at, (double)sum, (double)s[0]);
    }
}

/* n of 64 rows that are `row` floats apart, with `size` floats each, against sums in double. */
static void rows_anywhere(const steno_kernels *k, size_t size, size_t n, bool mixed)
{
    const size_t row = size + 3, out = mixed ? size : n;
    float *rows = guard_new(64 * row - 3), *x = guard_new(mixed ? n : size), *y = guard_new(out);
    int32_t at[40];
    fill_uniform(rows, 64 * row - 3);
    fill_uniform(x, mixed ? n : size);
    for (size_t i = 0; i < n; i++)
        at[i] = (int32_t)random_below(64);
    if (mixed)
        k->mix_rows_f32(y, size, x, n, rows, row, at);
    else
        k->dot_rows_f32(y, n, x, size, 0.125f, rows, row, at);
    for (size_t i = 0; i < out; i++) {
        double want = 0, mag = 0;
        for (size_t j = 0; j < (mixed ? n : size); j++) {
            double v = mixed ? (double)x[j] * (double)rows[(size_t)at[j] * row + i]
                             : 0.125 * (double)x[j] * (double)rows[(size_t)at[i] * row + j];
            want += v;
            mag += fabs(v);
        }
        if (!close_to(y[i], want, 2 * (double)(mixed ? n : size) * EPS * mag))
            test_fail("size %zu, %zu rows, number %zu: %a, exact %a", size, n, i, (double)y[i],
                      want);
    }
    guard_free(rows);
    guard_free(x);
    guard_free(y);
}

static void rows_anywhere_all(const steno_kernels *k, bool mixed)
{
    for (size_t size = 1; size < 150; size += size < 70 ? 1 : 13)
        for (size_t n = 0; n < 40; n += n < 10 ? 1 : 7)
            rows_anywhere(k, size, n, mixed);
}

struct attend_case {
    size_t m, n, size, v_size;
    bool mask;
};

/* Scores have `size` rounding errors, which go through e^(.); then n products are summed. */
static void attend_one(const steno_kernels *k, const struct attend_case *c)
{
    const size_t ldq = c->size + 3, ldk = c->size + 1, ldv = c->v_size + 2, ldy = c->v_size + 5;
    const size_t past = (c->n + 7) / 8 * 8; /* rows of k that the kernel may read */
    float *q = guard_new((c->m - 1) * ldq + c->size), *kk = guard_new(past * ldk);
    float *v = guard_new((c->n - 1) * ldv + c->v_size),
          *y = guard_new((c->m - 1) * ldy + c->v_size);
    float *mask = c->mask ? guard_new(c->m * c->n) : NULL;
    struct steno_attend_few a = {.q = q,
                                 .k = kk,
                                 .v = v,
                                 .mask = mask,
                                 .y = y,
                                 .ldq = ldq,
                                 .ldk = ldk,
                                 .ldv = ldv,
                                 .ldm = c->n,
                                 .ldy = ldy,
                                 .size = c->size,
                                 .v_size = c->v_size,
                                 .scale = 0.25f};
    fill_uniform(q, (c->m - 1) * ldq + c->size);
    fill_wild(kk, past * ldk);
    fill_uniform(kk, c->n * ldk);
    fill_uniform(v, (c->n - 1) * ldv + c->v_size);
    for (size_t i = 0; mask && i < c->m * c->n; i++)
        mask[i] = i % c->n && i % 3 == 0 ? -INFINITY : (float)(i % 5);
    for (size_t i = 0; i < (c->m - 1) * ldy + c->v_size; i++)
        y[i] = 7;
    k->attend_few_f32(c->m, c->n, &a);
    for (size_t i = 0; i < c->m; i++) {
        double s[STENO_ATTEND_FEW_KEYS], sum = 0, error = 8 * EPS * (double)(c->size + c->n + 16);
        for (size_t j = 0; j < c->n; j++) {
            double t = 0;
            for (size_t d = 0; d < c->size; d++)
                t += (double)q[i * ldq + d] * (double)kk[j * ldk + d];
            s[j] = exp(0.25 * t + (mask ? (double)mask[i * c->n + j] : 0));
            sum += s[j];
        }
        for (size_t x = 0; x < c->v_size; x++) {
            double want = 0;
            for (size_t j = 0; j < c->n; j++)
                want += s[j] / sum * (double)v[j * ldv + x];
            if (!close_to(y[i * ldy + x], want, error))
                test_fail("m %zu n %zu size %zu: row %zu column %zu is %a, exact %a", c->m, c->n,
                          c->size, i, x, (double)y[i * ldy + x], want);
        }
        for (size_t x = c->v_size; i + 1 < c->m && x < ldy; x++)
            if (y[i * ldy + x] < 7 || y[i * ldy + x] > 7)
                test_fail("m %zu n %zu: written between rows", c->m, c->n);
    }
    guard_free(q);
    guard_free(kk);
    guard_free(v);
    guard_free(y);
    if (mask)
        guard_free(mask);
}

static void attend_cases(const steno_kernels *k)
{
    static const size_t keys[] = {1, 2, 7, 8, 9, 15, 16, 17, 30, 31, 32, 33, 63, 64};
    static const size_t sizes[] = {1, 5, 16, 32, 33, 128};
    for (size_t m = 1; m <= STENO_ATTEND_FEW_ROWS; m++)
        for (size_t n = 0; n < sizeof keys / sizeof *keys; n++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (int mask = 0; mask < 2; mask++)
                    attend_one(k, &(struct attend_case){m, keys[n], sizes[s],
                                                        sizes[(s + n) % 6] + m % 3, mask != 0});
}

static void a_row_that_sees_nothing_is_nan(const steno_kernels *k)
{
    float q[2] = {1, 1}, kv[8] = {1, 2, 3}, mask[6], y[2] = {0};
    struct steno_attend_few a = {.q = q,
                                 .k = kv,
                                 .v = kv,
                                 .mask = mask,
                                 .y = y,
                                 .ldq = 1,
                                 .ldk = 1,
                                 .ldv = 1,
                                 .ldm = 3,
                                 .ldy = 1,
                                 .size = 1,
                                 .v_size = 1,
                                 .scale = 1};
    for (int i = 0; i < 6; i++)
        mask[i] = i < 3 ? -INFINITY : 0;
    k->attend_few_f32(2, 3, &a);
    if (!isnan(y[0]) || isnan(y[1]))
        test_fail("rows are %a and %a", (double)y[0], (double)y[1]);
}

void check_attention(const steno_kernels *k)
{
    if (test_begin(k, "dot_rows_f32")) {
        rows_anywhere_all(k, false);
        test_end();
    }
    if (test_begin(k, "mix_rows_f32")) {
        rows_anywhere_all(k, true);
        test_end();
    }
    if (test_begin(k, "softmax_step_f32")) {
        rows(k, false, false, 0);
        rows(k, true, false, 0);
        rows(k, false, true, 0);
        rows(k, true, true, 3);
        rows(k, false, true, 1);
        nan_stays(k);
        test_end();
    }
    if (test_begin(k, "attend_few_f32")) {
        attend_cases(k);
        a_row_that_sees_nothing_is_nan(k);
        test_end();
    }
}
