/* Reductions, softmax, normalisation and transpose for one vector width.
 * Sums run in four parallel vectors, which also bounds their error by about n / (4 VL) eps. */
#include "nn/kernels/internal.h"

#include "nn/kernels/tmpl/math_tmpl.h"

/* acc op= f(x) over n elements in four accumulators. rest: the contribution of lanes outside the
 * mask. */
#define REDUCE(acc, init, step, join)                                                              \
    do {                                                                                           \
        vf s0 = init, s1 = init, s2 = init, s3 = init;                                             \
        for (; i + 4 * VL <= n; i += 4 * VL) {                                                     \
            s0 = step(s0, i);                                                                      \
            s1 = step(s1, i + VL);                                                                 \
            s2 = step(s2, i + 2 * VL);                                                             \
            s3 = step(s3, i + 3 * VL);                                                             \
        }                                                                                          \
        for (; i + VL <= n; i += VL)                                                               \
            s0 = step(s0, i);                                                                      \
        acc = join(join(s0, s1), join(s2, s3));                                                    \
    } while (0)

static inline vf plus(vf a, vf b)
{
    return a + b;
}

static float V_NAME(sum_f32)(const float *x, size_t n)
{
    size_t i = 0;
    vf s;
#define STEP(acc, at) ((acc) + v_load(x + (at)))
    REDUCE(s, v_zero(), STEP, plus);
#undef STEP
    if (i < n)
        s += v_load_m(x + i, v_tail(n - i));
    return v_hsum(s);
}

static float V_NAME(dot_f32)(const float *a, const float *b, size_t n)
{
    size_t i = 0;
    vf s;
#define STEP(acc, at) v_fma(v_load(a + (at)), v_load(b + (at)), acc)
    REDUCE(s, v_zero(), STEP, plus);
#undef STEP
    if (i < n) {
        vm m = v_tail(n - i);
        s = v_fma(v_load_m(a + i, m), v_load_m(b + i, m), s);
    }
    return v_hsum(s);
}

#if defined(__x86_64__)
#define KEEP(x)                                                                                    \
    __asm__("" : "+" V_REGISTER(x)) /* in a register: else each multiply-add would load it */
#else
#define KEEP(x) ((void)0)
#endif

/* A few rows a_i times one or two rows b_j: at most eight sums. */
static inline __attribute__((always_inline)) void dots_of(float *y, size_t ldy, const float *a,
                                                          size_t lda, size_t m, const float *b,
                                                          size_t ldb, size_t cols, size_t n)
{
    vf sum[4][2];
    size_t i = 0;
    for (size_t r = 0; r < m; r++)
        sum[r][0] = sum[r][1] = v_zero();
    for (; i + VL <= n; i += VL) {
        const vf b0 = v_load(b + i), b1 = cols > 1 ? v_load(b + ldb + i) : b0;
#pragma GCC unroll 4
        for (size_t r = 0; r < m; r++) {
            vf x = v_load(a + r * lda + i);
            KEEP(x);
            sum[r][0] = v_fma(x, b0, sum[r][0]);
            if (cols > 1)
                sum[r][1] = v_fma(x, b1, sum[r][1]);
        }
    }
    if (i < n) {
        const vm mask = v_tail(n - i);
        const vf b0 = v_load_m(b + i, mask), b1 = cols > 1 ? v_load_m(b + ldb + i, mask) : b0;
#pragma GCC unroll 4
        for (size_t r = 0; r < m; r++) {
            const vf x = v_load_m(a + r * lda + i, mask);
            sum[r][0] = v_fma(x, b0, sum[r][0]);
            if (cols > 1)
                sum[r][1] = v_fma(x, b1, sum[r][1]);
        }
    }
    for (size_t r = 0; r < m; r++)
        for (size_t c = 0; c < cols; c++)
            y[r * ldy + c] = v_hsum(sum[r][c]);
}

static inline __attribute__((always_inline)) void dots_of_cols(float *y, size_t ldy, const float *a,
                                                               size_t lda, size_t m, const float *b,
                                                               size_t ldb, size_t cols, size_t n)
{
    size_t r = 0;
    for (; r + 4 <= m; r += 4)
        dots_of(y + r * ldy, ldy, a + r * lda, lda, 4, b, ldb, cols, n);
    for (; r < m; r++)
        dots_of(y + r * ldy, ldy, a + r * lda, lda, 1, b, ldb, cols, n);
}

static void V_NAME(dots_f32)(float *y, size_t ldy, const float *a, size_t lda, size_t m,
                             const float *b, size_t ldb, size_t cols, size_t n)
{
    size_t c = 0;
    for (; c + 2 <= cols; c += 2)
        dots_of_cols(y + c, ldy, a, lda, m, b + c * ldb, ldb, 2, n);
    if (c < cols)
        dots_of_cols(y + c, ldy, a, lda, m, b + c * ldb, ldb, 1, n);
}

/* The largest lane; NaN if any lane is NaN. */
static inline float hmax_nan(vf s)
{
    return v_any(v_is_nan(s)) ? NAN : v_hmax(s);
}

static float V_NAME(max_reduce_f32)(const float *x, size_t n)
{
    size_t i = 0;
    vf s;
#define STEP(acc, at) v_max_nan(acc, v_load(x + (at)))
    REDUCE(s, v_set1(-INFINITY), STEP, v_max_nan);
#undef STEP
    if (i < n) {
        vm m = v_tail(n - i);
        s = v_max_nan(s, v_select(m, v_load_m(x + i, m), v_set1(-INFINITY)));
    }
    return hmax_nan(s);
}

static float V_NAME(min_reduce_f32)(const float *x, size_t n)
{
    size_t i = 0;
    vf s;
#define STEP(acc, at) v_min_nan(acc, v_load(x + (at)))
    REDUCE(s, v_set1(INFINITY), STEP, v_min_nan);
#undef STEP
    if (i < n) {
        vm m = v_tail(n - i);
        s = v_min_nan(s, v_select(m, v_load_m(x + i, m), v_set1(INFINITY)));
    }
    return -hmax_nan(v_neg(s));
}

/* n vectors of e^(x - top), stored to y unless it is NULL. sum: separate sums of even and odd
 * vectors. */
V_MANY_OF exp_block(float *y, const float *x, int n, vf top, vf *sum)
{
    vf e[V_MANY];
    V_EACH(i, n) e[i] = v_load(x + i * VL) - top;
    v_exp_each(e, n);
    V_EACH(i, n) sum[i % 2] = sum[i % 2] + e[i];
    if (y)
        V_EACH(i, n) v_store(y + i * VL, e[i]);
}

/* y = e^(x - max) unless y is NULL. Returns the sum. */
static float exp_sum(float *y, const float *x, size_t n, float max)
{
    const vf top = v_set1(max);
    vf s[2] = {v_zero(), v_zero()}, e;
    size_t i = 0;
    for (; i + V_MANY * VL <= n; i += V_MANY * VL)
        exp_block(y ? y + i : NULL, x + i, V_MANY, top, s);
    for (; i + 2 * VL <= n; i += 2 * VL)
        exp_block(y ? y + i : NULL, x + i, 2, top, s);
    for (; i < n; i += VL) {
        vm m = v_tail(n - i < VL ? n - i : VL);
        e = v_select(m, v_exp(v_load_m(x + i, m) - top), v_zero());
        if (y)
            v_store_m(y + i, m, e);
        s[0] = s[0] + e;
    }
    return v_hsum(s[0] + s[1]);
}

static float V_NAME(log_sum_f32)(const float *x, size_t n)
{
    const float max = V_NAME(max_reduce_f32)(x, n);
    return max == -INFINITY ? max : max + logf(exp_sum(NULL, x, n, max));
}

/* y = x * scale + shift over a row, in place or not. */
static inline void row_affine(float *y, const float *x, size_t n, vf scale, vf shift)
{
    for (; n >= VL; n -= VL, x += VL, y += VL)
        v_store(y, v_fma(v_load(x), scale, shift));
    if (n) {
        vm m = v_tail(n);
        v_store_m(y, m, v_fma(v_load_m(x, m), scale, shift));
    }
}

static void V_NAME(softmax_f32)(float *y, const float *x, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        float sum = exp_sum(y, x, cols, V_NAME(max_reduce_f32)(x, cols));
        row_affine(y, y, cols, v_set1(1.0f / sum), v_zero());
    }
}

static void V_NAME(log_softmax_f32)(float *y, const float *x, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        float max = V_NAME(max_reduce_f32)(x, cols);
        float log_sum = logf(exp_sum(NULL, x, cols, max));
        const vf top = v_set1(max), ls = v_set1(log_sum);
        size_t i = 0;
        for (; i + VL <= cols; i += VL)
            v_store(y + i, v_load(x + i) - top - ls);
        if (i < cols) {
            vm m = v_tail(cols - i);
            v_store_m(y + i, m, v_load_m(x + i, m) - top - ls);
        }
    }
}

static inline vf square_of(vf x, vf mean, vf sum)
{
    const vf d = x - mean;
    return v_fma(d, d, sum);
}

/* Sum of (x - mean)^2. */
static float square_sum(const float *x, size_t n, float mean)
{
    const vf c = v_set1(mean);
    size_t i = 0;
    vf s;
#define STEP(acc, at) square_of(v_load(x + (at)), c, acc)
    REDUCE(s, v_zero(), STEP, plus);
#undef STEP
    if (i < n) {
        const vm m = v_tail(n - i);
        s = square_of(v_select(m, v_load_m(x + i, m), c), c, s);
    }
    return v_hsum(s);
}

/* y = (x - mean) * scale * gamma + beta; NULL gamma is 1, NULL beta is 0. */
static void normalize(float *y, const float *x, size_t n, float mean, float scale,
                      const float *gamma, const float *beta)
{
    const vf c = v_set1(mean), s = v_set1(scale);
    size_t i = 0;
    for (; i + VL <= n; i += VL) {
        const vf g = gamma ? v_load(gamma + i) : v_set1(1.0f);
        v_store(y + i, v_fma((v_load(x + i) - c) * s, g, beta ? v_load(beta + i) : v_zero()));
    }
    if (i < n) {
        const vm m = v_tail(n - i);
        const vf g = gamma ? v_load_m(gamma + i, m) : v_set1(1.0f);
        const vf b = beta ? v_load_m(beta + i, m) : v_zero();
        v_store_m(y + i, m, v_fma((v_load_m(x + i, m) - c) * s, g, b));
    }
}

/* Two rows at a time: the work on one fills the latency of the horizontal sums of the other. */
static void V_NAME(layernorm_f32)(float *y, const float *x, size_t rows, size_t cols,
                                  const float *gamma, const float *beta, float eps)
{
    const float n = (float)cols;
    size_t r = 0;
    for (; r + 2 <= rows; r += 2, x += 2 * cols, y += 2 * cols) {
        const float m0 = V_NAME(sum_f32)(x, cols) / n, m1 = V_NAME(sum_f32)(x + cols, cols) / n;
        const float v0 = square_sum(x, cols, m0) / n, v1 = square_sum(x + cols, cols, m1) / n;
        normalize(y, x, cols, m0, 1.0f / sqrtf(v0 + eps), gamma, beta);
        normalize(y + cols, x + cols, cols, m1, 1.0f / sqrtf(v1 + eps), gamma, beta);
    }
    if (r < rows) {
        const float mean = V_NAME(sum_f32)(x, cols) / n;
        normalize(y, x, cols, mean, 1.0f / sqrtf(square_sum(x, cols, mean) / n + eps), gamma, beta);
    }
}

static void V_NAME(rmsnorm_f32)(float *y, const float *x, size_t rows, size_t cols,
                                const float *gamma, float eps)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        float mean_sq = square_sum(x, cols, 0.0f) / (float)cols;
        normalize(y, x, cols, 0.0f, 1.0f / sqrtf(mean_sq + eps), gamma, NULL);
    }
}

static void V_NAME(transpose_f32)(float *dst, size_t ldd, const float *src, size_t lds, size_t rows,
                                  size_t cols)
{
    transpose_blocks(dst, ldd, src, lds, rows, cols);
}

/* ---- windows ---- */

static inline __attribute__((always_inline)) vf pool_tap(vf acc, vf v, bool max)
{
    if (max)
        return v_max_nan(v, acc);
    return acc + v;
}

/* VL columns of a window, or those of the mask, reduced over its rows. */
static inline __attribute__((always_inline)) vf pool_column(const float *x, size_t ldx, size_t rows,
                                                            bool whole, vm m, bool max)
{
    vf acc = whole ? v_load(x) : v_load_m(x, m);
    for (size_t r = 1; r < rows; r++) {
        x += ldx;
        acc = pool_tap(acc, whole ? v_load(x) : v_load_m(x, m), max);
    }
    return acc;
}

/* n <= VL outputs, VL where `whole`, of windows of rows x cols. Two columns of windows that are two
 * apart share their loads. Nothing behind the last column is read. */
static inline __attribute__((always_inline)) vf pool_vector(const float *x, size_t ldx, size_t rows,
                                                            size_t cols, size_t n, bool whole,
                                                            bool by_two, bool max)
{
    const size_t end = by_two ? 2 * n - 1 : n; /* elements that a column reads */
    const vm first = v_tail(end < VL ? end : VL), second = v_tail(end < VL ? 0 : end - VL);
    const vm lower = v_tail(end + 1 < VL ? end + 1 : VL), /* that two columns read */
        upper = v_tail(end + 1 < VL ? 0 : end + 1 - VL);
    vf acc = v_zero();
    for (size_t c = 0; c < cols && !by_two; c++) {
        const vf v = pool_column(x + c, ldx, rows, whole, first, max);
        acc = c ? pool_tap(acc, v, max) : v;
    }
    for (size_t c = 0; c < cols && by_two; c += 2) {
        const bool two = c + 1 < cols;
        const vf low = pool_column(x + c, ldx, rows, whole, two ? lower : first, max);
        const vf high = two ? pool_column(x + c + VL, ldx, rows, whole, upper, max)
                            : pool_column(x + c + VL, ldx, rows, false, second, max);
        acc = c ? pool_tap(acc, v_even(low, high), max) : v_even(low, high);
        if (two)
            acc = pool_tap(acc, v_odd(low, high), max);
    }
    return acc;
}

/* The last vector of a row begins early and writes some outputs twice: masked stores are slow. */
static inline __attribute__((always_inline)) void pool_rows(const struct steno_pool *p, size_t rows,
                                                            size_t cols, bool by_two, bool max)
{
    const size_t n = p->n, stride = by_two ? 2 : 1;
    for (size_t i = 0; i < p->m && n; i++) {
        const float *x = p->x + i * p->step;
        float *y = p->y + i * p->ldy;
        if (n < VL)
            v_store_m(y, v_tail(n), pool_vector(x, p->ldx, rows, cols, n, false, by_two, max));
        for (size_t at = 0; n >= VL && at < n; at += VL) {
            const size_t o = at + VL <= n ? at : n - VL;
            v_store(y + o, pool_vector(x + o * stride, p->ldx, rows, cols, VL, true, by_two, max));
        }
    }
}

/* Common windows without loops. */
static inline __attribute__((always_inline)) void pool_windows(const struct steno_pool *p,
                                                               bool by_two, bool max)
{
    if (p->rows == 1 && p->cols == 3)
        pool_rows(p, 1, 3, by_two, max);
    else if (by_two && p->rows == 2 && p->cols == 2)
        pool_rows(p, 2, 2, true, max);
    else if (!by_two && p->rows == 3 && p->cols == 1)
        pool_rows(p, 3, 1, false, max);
    else if (!by_two && p->rows == 1 && p->cols == 5)
        pool_rows(p, 1, 5, false, max);
    else if (!by_two && p->rows == 5 && p->cols == 1)
        pool_rows(p, 5, 1, false, max);
    else
        pool_rows(p, p->rows, p->cols, by_two, max);
}

static void V_NAME(pool_f32)(const struct steno_pool *p)
{
    if (p->stride == 1 && p->max)
        pool_windows(p, false, true);
    else if (p->stride == 1)
        pool_windows(p, false, false);
    else if (p->max)
        pool_windows(p, true, true);
    else
        pool_windows(p, true, false);
}

void V_NAME(steno_kernels_rows)(steno_kernels *k)
{
    k->sum_f32 = V_NAME(sum_f32);
    k->max_reduce_f32 = V_NAME(max_reduce_f32);
    k->min_reduce_f32 = V_NAME(min_reduce_f32);
    k->pool_f32 = V_NAME(pool_f32);
    k->log_sum_f32 = V_NAME(log_sum_f32);
    k->dot_f32 = V_NAME(dot_f32);
    k->dots_f32 = V_NAME(dots_f32);
    k->softmax_f32 = V_NAME(softmax_f32);
    k->log_softmax_f32 = V_NAME(log_softmax_f32);
    k->layernorm_f32 = V_NAME(layernorm_f32);
    k->rmsnorm_f32 = V_NAME(rmsnorm_f32);
    k->transpose_f32 = V_NAME(transpose_f32);
}
