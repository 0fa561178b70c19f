/* Attention to keys and values in 8 bits: pages have the scalar level's bytes, and results are
 * those of the numbers that the page holds. */
#include "tests/kernels/kcheck.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS = STENO_KV_PAGE_KEYS };

struct shape {
    size_t m, n, size, v_size;
};

struct data {
    struct shape s;
    float scale, *q, *k, *v, *y;
    char *pages;
    size_t page_bytes, n_pages;
};

static float *numbers(size_t n)
{
    float *x = guard_new(n);
    fill_uniform(x, n);
    return x;
}

static void pack(const steno_kernels *k, const struct data *d, char *pages)
{
    for (size_t at = 0; at < d->s.n; at += KEYS, pages += d->page_bytes)
        k->kv_pack_i8(pages, d->s.size, d->s.v_size, d->s.n - at < KEYS ? d->s.n - at : KEYS,
                      d->k + at * d->s.size, d->s.size, d->v + at * d->s.v_size, d->s.v_size);
}

static void data_open(struct data *d, const steno_kernels *k, struct shape s, float scale)
{
    *d = (struct data){.s = s, .scale = scale};
    d->q = numbers(s.m * s.size);
    d->k = numbers(s.n * s.size);
    d->v = numbers(s.n * s.v_size);
    d->y = guard_new(s.m * s.v_size);
    d->page_bytes = steno_kv_i8_page_bytes(s.size, s.v_size);
    d->n_pages = (s.n + KEYS - 1) / KEYS;
    d->pages = steno_aligned_alloc(d->n_pages * d->page_bytes);
    if (!d->pages)
        abort();
    memset(d->pages, 0x55, d->n_pages * d->page_bytes);
    pack(k, d, d->pages);
}

static void data_close(struct data *d)
{
    guard_free(d->q);
    guard_free(d->k);
    guard_free(d->v);
    guard_free(d->y);
    steno_aligned_free(d->pages);
}

static void run(const steno_kernels *k, struct data *d)
{
    k->attend_i8(&(struct steno_attend_i8){.m = d->s.m,
                                           .n = d->s.n,
                                           .size = d->s.size,
                                           .v_size = d->s.v_size,
                                           .q = d->q,
                                           .ldq = d->s.size,
                                           .pages = d->pages,
                                           .scale = d->scale,
                                           .y = d->y,
                                           .ldy = d->s.v_size});
}

/* Number c of key (or value) j as its page has it. */
static double stored(const struct data *d, bool value, size_t j, size_t c)
{
    const char *page = d->pages + j / KEYS * d->page_bytes;
    const size_t steps = (d->s.size + 3) / 4, columns = (d->s.v_size + 15) / 16 * 16, at = j % KEYS;
    const uint8_t *keys = (const uint8_t *)page, *values = keys + steps * KEYS * 4;
    const float *units = (const float *)(const void *)(values + KEYS * columns);
    const int byte =
        value ? values[(at / 4 * columns + c) * 4 + at % 4] : keys[(c / 4 * KEYS + at) * 4 + c % 4];
    return (byte - 128) * (double)units[(value ? KEYS : 0) + at];
}

static void check_pages(const struct data *d)
{
    const size_t bytes = d->n_pages * d->page_bytes;
    steno_kernels scalar;
    char *want = steno_aligned_alloc(bytes);
    steno_kernels_init(&scalar, 0);
    if (!want)
        abort();
    pack(&scalar, d, want);
    if (memcmp(want, d->pages, bytes) != 0)
        test_fail("the pages of %zu keys of %zu and %zu numbers are not the scalar level's", d->s.n,
                  d->s.size, d->s.v_size);
    steno_aligned_free(want);
    for (size_t j = 0; j < d->s.n; j++)
        for (int value = 0; value < 2; value++) {
            const size_t n = value ? d->s.v_size : d->s.size;
            const float *x = (value ? d->v : d->k) + j * n;
            for (size_t c = 0; c < n; c++)
                if (!close_to((float)stored(d, value, j, c), (double)x[c],
                              largest_magnitude(x, 1, n) * (1 / 254.0 + 4 * EPS)))
                    test_fail("number %zu of row %zu is %g instead of %g", c, j,
                              stored(d, value, j, c), (double)x[c]);
        }
}

/* Row i against the numbers of the pages. Scores are off by half a step of the query for each
 * number of a key, weights by that and by half a step of the largest weight of the page. */
static void check_row(const struct data *d, size_t i)
{
    const struct shape s = d->s;
    const float *q = d->q + i * s.size;
    double *t = malloc(s.n * sizeof *t), top = -INFINITY, sum = 0, off = 0, bound;
    if (!t)
        abort();
    for (size_t j = 0; j < s.n; j++) {
        double dot = 0, keys = 0;
        for (size_t c = 0; c < s.size; c++) {
            dot += (double)q[c] * stored(d, false, j, c);
            keys += fabs(stored(d, false, j, c));
        }
        t[j] = (double)d->scale * dot;
        top = fmax(top, t[j]);
        off = fmax(off, fabs((double)d->scale) * keys * largest_magnitude(q, 1, s.size) / 65024);
    }
    for (size_t j = 0; j < s.n; j++)
        sum += t[j] = exp(t[j] - top);
    bound = (2 * off + (double)s.n / (65024 * sum) + 64 * EPS) * 1.01;
    for (size_t c = 0; c < s.v_size; c++) {
        double y = 0;
        for (size_t j = 0; j < s.n; j++)
            y += t[j] / sum * stored(d, true, j, c);
        if (!close_to(d->y[i * s.v_size + c], y, bound))
            test_fail("%zux%zu, sizes %zu and %zu: row %zu, number %zu is %.9g instead of %.9g, "
                      "bound %.3g",
                      s.m, s.n, s.size, s.v_size, i, c, (double)d->y[i * s.v_size + c], y, bound);
    }
    free(t);
}

static void shapes(const steno_kernels *k)
{
    static const size_t keys[] = {1, 2, 31, 127, 128, 129, 300, 1500},
                        sizes[] = {1, 3, 16, 33, 64, 80, STENO_ATTEND_SIZE},
                        values[] = {1, 15, 16, 32, 64, 100, STENO_ATTEND_SIZE},
                        rows[] = {1, 5, STENO_ATTEND_ROWS};
    size_t turn = 0;
    for (size_t n = 0; n < sizeof keys / sizeof *keys; n += 1 + KCHECK_FEW)
        for (size_t m = 0; m < sizeof rows / sizeof *rows; m++)
            for (size_t i = 0; i < 7; i += 1 + 2 * KCHECK_FEW, turn++) {
                struct data d;
                data_open(&d, k, (struct shape){rows[m], keys[n], sizes[i], values[turn % 7]},
                          turn % 3 == 0   ? 0.125f
                          : turn % 3 == 1 ? -2.0f
                                          : 8.0f);
                if (!m)
                    check_pages(&d);
                run(k, &d);
                check_row(&d, 0);
                check_row(&d, rows[m] - 1);
                data_close(&d);
            }
}

/* Zeros give the mean of the values; tiny numbers, zeros; a number that is not finite, NaN. */
static void special_numbers(const steno_kernels *k)
{
    static const float nonfinite[] = {NAN, INFINITY, -INFINITY};
    struct data d;
    data_open(&d, k, (struct shape){2, 200, 64, 64}, 1);
    memset(d.q, 0, 64 * sizeof *d.q);
    memset(d.k + 64, 0, 64 * sizeof *d.k);
    memset(d.v + 64, 0, 64 * sizeof *d.v);
    for (size_t i = 0; i < 64; i++)
        d.k[128 + i] = d.v[128 + i] = 0x1p-140f;
    pack(k, &d, d.pages);
    run(k, &d);
    check_row(&d, 0);
    check_row(&d, 1);
    for (int place = 0; place < 3; place++)
        for (int i = 0; i < 3; i++) {
            float *x = place == 0 ? &d.q[3] : place == 1 ? &d.k[150 * 64 + 7] : &d.v[9 * 64 + 60];
            const float old = *x;
            *x = nonfinite[i];
            pack(k, &d, d.pages);
            run(k, &d);
            if (!isnan(d.y[0]))
                test_fail("%g in %s gives %g", (double)nonfinite[i],
                          place == 0   ? "a query"
                          : place == 1 ? "a key"
                                       : "a value",
                          (double)d.y[0]);
            *x = old;
        }
    data_close(&d);
}

void check_attend_i8(const steno_kernels *k)
{
    if (!test_begin(k, "attend_i8"))
        return;
    shapes(k);
    special_numbers(k);
    test_end();
}
