#include "tests/kernels/kcheck.h"

#include <string.h>

static const size_t lengths[] = {1,  2,  3,  7,  8,  9,   15,  16,  17,  31,  32,   33,   47,
                                 63, 64, 65, 80, 97, 127, 128, 129, 256, 512, 1000, 2048, 5000};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

static void sums(const steno_kernels *k, bool dot)
{
    for (size_t l = 0; l <= N_LENGTHS; l++) {
        size_t n = l ? lengths[l - 1] : 0;
        float *a = guard_new(n), *b = guard_new(n), got;
        double want = 0, mag = 0;
        fill_uniform(a, n);
        fill_uniform(b, n);
        for (size_t i = 0; i < n; i++) {
            double v = dot ? (double)a[i] * (double)b[i] : (double)a[i];
            want += v;
            mag += fabs(v);
        }
        got = dot ? k->dot_f32(a, b, n) : k->sum_f32(a, n);
        if (!close_to(got, want, 2 * (double)n * EPS * mag))
            test_fail("n %zu: %a, exact %a", n, (double)got, want);
        guard_free(a);
        guard_free(b);
    }
}

static void dots_at(const steno_kernels *k, size_t m, size_t cols, size_t n)
{
    const size_t lda = n + random_below(20), ldb = n + random_below(20),
                 ldy = cols + random_below(3);
    const size_t a_len = m ? (m - 1) * lda + n : 0, b_len = cols ? (cols - 1) * ldb + n : 0;
    float *a = guard_new(a_len), *b = guard_new(b_len), *y = guard_new(m * ldy);
    fill_uniform(a, a_len);
    fill_uniform(b, b_len);
    for (size_t i = 0; i < m * ldy; i++)
        y[i] = 1000;
    k->dots_f32(y, ldy, a, lda, m, b, ldb, cols, n);
    for (size_t i = 0; i < m * ldy; i++) {
        const size_t r = i / ldy, c = i % ldy;
        double want = c < cols ? 0 : 1000, mag = 0;
        for (size_t u = 0; c < cols && u < n; u++) {
            const double v = (double)a[r * lda + u] * (double)b[c * ldb + u];
            want += v;
            mag += fabs(v);
        }
        if (!close_to(y[i], want, 2 * (double)n * EPS * mag))
            test_fail("row %zu of %zu, column %zu of %zu, n %zu: %a, exact %a", r, m, c, cols, n,
                      (double)y[i], want);
    }
    guard_free(a);
    guard_free(b);
    guard_free(y);
}

static void dots(const steno_kernels *k)
{
    for (size_t l = 0; l < N_LENGTHS; l++)
        for (size_t m = 0; m < 10; m++)
            for (size_t cols = 0; cols < 6; cols++)
                dots_at(k, m, cols, lengths[l]);
}

static void extremes(const steno_kernels *k, bool largest)
{
    for (size_t n = 0; n < 150; n++)
        for (int nan = 0; nan < 2; nan++) {
            float *x = guard_new(n), got, want = largest ? -INFINITY : INFINITY;
            fill_uniform(x, n);
            for (size_t i = 0; i < n; i++)
                want = largest ? fmaxf(want, x[i]) : fminf(want, x[i]);
            if (nan && n) {
                x[random_below(n)] = NAN;
                want = NAN;
            }
            got = largest ? k->max_reduce_f32(x, n) : k->min_reduce_f32(x, n);
            if (ulp_error(got, (double)want) > 0)
                test_fail("n %zu nan %d: %a, exact %a", n, nan, (double)got, (double)want);
            guard_free(x);
        }
}

/* The parts of a row check: the spread of the inputs, whether some are -inf, and a function that
 * compares a row. */
typedef void row_check(const float *y, const float *x, size_t n);

static double row_stats(const float *x, size_t n, double *max)
{
    double sum = 0;
    *max = -INFINITY;
    for (size_t i = 0; i < n; i++)
        *max = fmax(*max, (double)x[i]);
    for (size_t i = 0; i < n; i++)
        sum += exp((double)x[i] - *max);
    return sum;
}

/* exp(x - max): the rounding of the subtraction costs |x - max| eps, the function 4 ulp, the sum n
 * eps. */
static void softmax_row(const float *y, const float *x, size_t n)
{
    double max, sum = row_stats(x, n, &max);
    for (size_t i = 0; i < n; i++) {
        double d = (double)x[i] - max, want = exp(d) / sum;
        double far = isinf(d) ? 0 : fabs(d);
        if (!close_to(y[i], want, (20 + far + (double)n / 8) * EPS * want + 1e-44))
            test_fail("cols %zu: y[%zu] = %a, exact %a", n, i, (double)y[i], want);
    }
}

static void log_softmax_row(const float *y, const float *x, size_t n)
{
    double max, sum = row_stats(x, n, &max);
    for (size_t i = 0; i < n; i++) {
        double want = (double)x[i] - max - log(sum);
        if (!close_to(y[i], want, 4 * EPS * (fabs(want) + fabs((double)x[i]) + 10 + (double)n / 8)))
            test_fail("cols %zu: y[%zu] = %a, exact %a", n, i, (double)y[i], want);
    }
}

/* As log_softmax_row: the sum has n rounding errors at most, and one of the result. */
static void log_sums(const steno_kernels *k)
{
    for (size_t l = 0; l < N_LENGTHS; l++)
        for (int masked = 0; masked < 3; masked++) {
            const size_t n = lengths[l];
            float *x = guard_new(n), got;
            double max, sum, want;
            fill_uniform(x, n);
            for (size_t i = 0; i < n; i++)
                x[i] = masked == 2 ? -INFINITY : x[i] * (masked ? 80.0f : 5.0f);
            if (masked == 1 && n > 1)
                x[random_below(n)] = -INFINITY;
            sum = row_stats(x, n, &max);
            want = isinf(max) ? max : max + log(sum);
            got = k->log_sum_f32(x, n);
            if (!close_to(got, want, 4 * EPS * (fabs(max) + 10 + (double)n / 8)))
                test_fail("n %zu: %a, exact %a", n, (double)got, want);
            if (n) {
                x[random_below(n)] = NAN;
                if (!isnan(k->log_sum_f32(x, n)))
                    test_fail("n %zu: NaN is lost", n);
            }
            guard_free(x);
        }
}

static void softmaxes(void (*fn)(float *, const float *, size_t, size_t), row_check *check)
{
    for (size_t l = 0; l < N_LENGTHS; l++)
        for (size_t rows = 0; rows < 4; rows++) {
            size_t n = lengths[l];
            float *x = guard_new(rows * n), *y = guard_new(rows * n);
            fill_uniform(x, rows * n);
            for (size_t i = 0; i < rows * n; i++)
                x[i] *= rows == 1 ? 80.0f : 5.0f;
            if (rows == 3 && n > 1) /* a masked score */
                x[random_below(n)] = -INFINITY;
            fn(y, x, rows, n);
            for (size_t r = 0; r < rows; r++)
                check(y + r * n, x + r * n, n);
            memcpy(y, x, rows * n * sizeof *y);
            fn(y, y, rows, n);
            for (size_t r = 0; r < rows; r++)
                check(y + r * n, x + r * n, n);
            guard_free(x);
            guard_free(y);
        }
}

static void softmax_of_only_minus_infinity(const steno_kernels *k)
{
    float x[20], y[20];
    for (size_t i = 0; i < 20; i++)
        x[i] = -INFINITY;
    k->softmax_f32(y, x, 1, 20);
    for (size_t i = 0; i < 20; i++)
        if (!isnan(y[i]))
            test_fail("softmax of a fully masked row is %a, not NaN", (double)y[i]);
}

static void norm_row(const float *y, const float *x, size_t n, const float *gamma,
                     const float *beta, double eps, bool rms)
{
    double mean = 0, var = 0, top = 0, scale;
    for (size_t i = 0; i < n && !rms; i++)
        mean += (double)x[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        var += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
        top = fmax(top, fabs((double)x[i]));
    }
    scale = 1 / sqrt(var + eps);
    for (size_t i = 0; i < n; i++) {
        double g = gamma ? (double)gamma[i] : 1, b = beta ? (double)beta[i] : 0;
        double want = ((double)x[i] - mean) * scale * g + b;
        double bound = ((double)n / 16 + 16) * EPS * (top * scale * fabs(g) + fabs(b));
        if (!close_to(y[i], want, bound))
            test_fail("cols %zu: y[%zu] = %a, exact %a", n, i, (double)y[i], want);
    }
}

static void norms(const steno_kernels *k, bool rms)
{
    for (size_t l = 0; l < N_LENGTHS; l++)
        for (size_t rows = 0; rows < 4; rows++) {
            size_t n = lengths[l];
            float *x = guard_new(rows * n), *y = guard_new(rows * n);
            float *gamma = guard_new(n), *beta = guard_new(n);
            const float *g = rows & 1 ? gamma : NULL, *b = rows & 2 && !rms ? beta : NULL;
            fill_uniform(x, rows * n);
            fill_uniform(gamma, n);
            fill_uniform(beta, n);
            for (size_t i = 0; i < rows * n; i++)
                x[i] = x[i] * 3.0f + (rows == 2 ? 10.0f : 0.0f);
            if (rms)
                k->rmsnorm_f32(y, x, rows, n, g, 1e-5f);
            else
                k->layernorm_f32(y, x, rows, n, g, b, 1e-5f);
            for (size_t r = 0; r < rows; r++)
                norm_row(y + r * n, x + r * n, n, g, b, 1e-5, rms);
            if (rms)
                k->rmsnorm_f32(x, x, rows, n, g, 1e-5f);
            else
                k->layernorm_f32(x, x, rows, n, g, b, 1e-5f);
            if (rows && memcmp(x, y, rows * n * sizeof *x))
                test_fail("%zu x %zu: other bits in place", rows, n);
            guard_free(x);
            guard_free(y);
            guard_free(gamma);
            guard_free(beta);
        }
}

static void transposes(const steno_kernels *k)
{
    static const size_t sizes[][2] = {{0, 5},   {1, 1},   {3, 8},    {8, 8},   {7, 9},
                                      {16, 17}, {33, 24}, {40, 100}, {129, 65}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t rows = sizes[s][0], cols = sizes[s][1], lds = cols + 3, ldd = rows + 2;
        size_t src_n = rows ? (rows - 1) * lds + cols : 0,
               dst_n = rows ? (cols - 1) * ldd + rows : 0;
        float *src = guard_new(src_n), *dst = guard_new(dst_n);
        fill_uniform(src, src_n);
        for (size_t i = 0; i < dst_n; i++)
            dst[i] = 7.0f;
        k->transpose_f32(dst, ldd, src, lds, rows, cols);
        for (size_t c = 0; c < cols; c++)
            for (size_t r = 0; r < ldd && c * ldd + r < dst_n; r++) {
                float want = r < rows ? src[r * lds + c] : 7.0f;
                if (memcmp(&dst[c * ldd + r], &want, sizeof want))
                    test_fail("%zu x %zu: wrong at %zu, %zu", rows, cols, r, c);
            }
        guard_free(src);
        guard_free(dst);
    }
}

static float window(const struct steno_pool *p, const float *x)
{
    float v = 0;
    for (size_t c = 0; c < p->cols; c++) {
        float column = x[c];
        for (size_t r = 1; r < p->rows; r++) {
            const float t = x[r * p->ldx + c];
            column = !p->max ? column + t : isnan(column) || column > t ? column : t;
        }
        v = !c ? column : !p->max ? v + column : isnan(v) || v > column ? v : column;
    }
    return v;
}

static void windows_of(const steno_kernels *k, struct steno_pool p)
{
    const size_t wide = p.n ? (p.n - 1) * p.stride + p.cols : 0;
    float *x, *y;
    p.ldx = wide + random_below(3);
    p.step = random_below(2) ? wide + random_below(40) : 1 + random_below(9);
    p.ldy = p.n + random_below(5);
    const size_t total = p.n ? (p.m - 1) * p.step + (p.rows - 1) * p.ldx + wide : 0;
    const size_t out = p.n ? (p.m - 1) * p.ldy + p.n : 0;
    x = guard_new(total);
    y = guard_new(out);
    p.x = x;
    p.y = y;
    fill_uniform(x, total);
    for (size_t i = 0; i < out; i++)
        y[i] = 7;
    if (total && random_below(2))
        x[random_below((unsigned)total)] = NAN;
    k->pool_f32(&p);
    for (size_t i = 0; i < out; i++) {
        const size_t row = i / p.ldy, o = i % p.ldy;
        const float want = o < p.n ? window(&p, x + row * p.step + o * p.stride) : 7;
        if (isnan(want) ? !isnan(y[i]) : y[i] != want)
            test_fail("%zu of %zu, stride %zu, %zu x %zu: %a, want %a", p.m, p.n, p.stride, p.rows,
                      p.cols, (double)y[i], (double)want);
    }
    guard_free(x);
    guard_free(y);
}

/* Sums go in one order at every level. */
static void windows(const steno_kernels *k)
{
    for (size_t n = 0; n < 150; n += n < 40 ? 1 : 13)
        for (size_t size = 0; size < 24; size++)
            windows_of(k, (struct steno_pool){.m = 1 + random_below(4),
                                              .n = n,
                                              .stride = 1 + size % 2,
                                              .rows = 1 + size / 2 % 3,
                                              .cols = 1 + size / 6,
                                              .max = random_below(2)});
}

void check_rows(const steno_kernels *k)
{
    if (test_begin(k, "sum_f32")) {
        sums(k, false);
        test_end();
    }
    if (test_begin(k, "dot_f32")) {
        sums(k, true);
        test_end();
    }
    if (test_begin(k, "dots_f32")) {
        dots(k);
        test_end();
    }
    if (test_begin(k, "max_reduce_f32")) {
        extremes(k, true);
        test_end();
    }
    if (test_begin(k, "min_reduce_f32")) {
        extremes(k, false);
        test_end();
    }
    if (test_begin(k, "pool_f32")) {
        windows(k);
        test_end();
    }
    if (test_begin(k, "log_sum_f32")) {
        log_sums(k);
        test_end();
    }
    if (test_begin(k, "softmax_f32")) {
        softmaxes(k->softmax_f32, softmax_row);
        softmax_of_only_minus_infinity(k);
        test_end();
    }
    if (test_begin(k, "log_softmax_f32")) {
        softmaxes(k->log_softmax_f32, log_softmax_row);
        test_end();
    }
    if (test_begin(k, "layernorm_f32")) {
        norms(k, false);
        test_end();
    }
    if (test_begin(k, "rmsnorm_f32")) {
        norms(k, true);
        test_end();
    }
    if (test_begin(k, "transpose_f32")) {
        transposes(k);
        test_end();
    }
}
