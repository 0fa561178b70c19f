/* Reductions, softmax and normalisation over rows, transpose: the specification.
 * Sums are in double here, so that an error bound on the other levels measures only those
 * levels. */
#include "nn/kernels/internal.h"

#include <math.h>

static float sum_f32__scalar(const float *x, size_t n)
{
    double s = 0;
    for (size_t i = 0; i < n; i++)
        s += (double)x[i];
    return (float)s;
}

static float max_reduce_f32__scalar(const float *x, size_t n)
{
    float m = -INFINITY;
    for (size_t i = 0; i < n; i++)
        m = m > x[i] || m != m ? m : x[i];
    return m;
}

static float min_reduce_f32__scalar(const float *x, size_t n)
{
    float m = INFINITY;
    for (size_t i = 0; i < n; i++)
        m = m < x[i] || m != m ? m : x[i];
    return m;
}

static float log_sum_f32__scalar(const float *x, size_t n)
{
    const float max = max_reduce_f32__scalar(x, n);
    double sum = 0;
    if (max == -INFINITY)
        return max;
    for (size_t i = 0; i < n; i++)
        sum += (double)expf(x[i] - max);
    return max + (float)log(sum);
}

static float dot_f32__scalar(const float *a, const float *b, size_t n)
{
    double s = 0;
    for (size_t i = 0; i < n; i++)
        s += (double)a[i] * (double)b[i];
    return (float)s;
}

static void dots_f32__scalar(float *y, size_t ldy, const float *a, size_t lda, size_t m,
                             const float *b, size_t ldb, size_t cols, size_t n)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < cols; j++)
            y[i * ldy + j] = dot_f32__scalar(a + i * lda, b + j * ldb, n);
}

static void softmax_f32__scalar(float *y, const float *x, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        float max = max_reduce_f32__scalar(x, cols), sum;
        for (size_t i = 0; i < cols; i++)
            y[i] = expf(x[i] - max);
        sum = sum_f32__scalar(y, cols);
        for (size_t i = 0; i < cols; i++)
            y[i] /= sum;
    }
}

static void log_softmax_f32__scalar(float *y, const float *x, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        float max = max_reduce_f32__scalar(x, cols);
        double sum = 0;
        for (size_t i = 0; i < cols; i++)
            sum += (double)expf(x[i] - max);
        for (size_t i = 0; i < cols; i++)
            y[i] = x[i] - max - (float)log(sum);
    }
}

static void layernorm_f32__scalar(float *y, const float *x, size_t rows, size_t cols,
                                  const float *gamma, const float *beta, float eps)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        double mean = 0, var = 0;
        for (size_t i = 0; i < cols; i++)
            mean += (double)x[i];
        mean /= (double)cols;
        for (size_t i = 0; i < cols; i++)
            var += ((double)x[i] - mean) * ((double)x[i] - mean);
        /* The variance is an f32, as in every other level: beyond the range of f32 the row becomes
         * beta. */
        double scale = 1.0 / sqrt((double)(float)(var / (double)cols + (double)eps));
        for (size_t i = 0; i < cols; i++) {
            double v = ((double)x[i] - mean) * scale;
            y[i] = (float)(v * (gamma ? (double)gamma[i] : 1.0) + (beta ? (double)beta[i] : 0.0));
        }
    }
}

static void rmsnorm_f32__scalar(float *y, const float *x, size_t rows, size_t cols,
                                const float *gamma, float eps)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        double sq = 0;
        for (size_t i = 0; i < cols; i++)
            sq += (double)x[i] * (double)x[i];
        double scale = 1.0 / sqrt((double)(float)(sq / (double)cols + (double)eps));
        for (size_t i = 0; i < cols; i++)
            y[i] = (float)((double)x[i] * scale * (gamma ? (double)gamma[i] : 1.0));
    }
}

static void transpose_f32__scalar(float *dst, size_t ldd, const float *src, size_t lds, size_t rows,
                                  size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            dst[c * ldd + r] = src[r * lds + c];
}

/* The largest of n numbers `step` apart, or their sum. */
static float reduce(const float *x, size_t step, size_t n, bool max)
{
    float v = x[0];
    for (size_t i = 1; i < n; i++)
        if (!max)
            v += x[i * step];
        else if (x[i * step] > v || x[i * step] != x[i * step])
            v = x[i * step];
    return v;
}

static void pool_f32__scalar(const struct steno_pool *p)
{
    for (size_t i = 0; i < p->m; i++)
        for (size_t o = 0; o < p->n; o++) {
            const float *x = p->x + i * p->step + o * p->stride;
            float *y = p->y + i * p->ldy + o;
            *y = reduce(x, p->ldx, p->rows, p->max);
            for (size_t c = 1; c < p->cols; c++) {
                const float both[2] = {*y, reduce(x + c, p->ldx, p->rows, p->max)};
                *y = reduce(both, 1, 2, p->max);
            }
        }
}

void steno_kernels_rows__scalar(steno_kernels *k)
{
    k->sum_f32 = sum_f32__scalar;
    k->max_reduce_f32 = max_reduce_f32__scalar;
    k->min_reduce_f32 = min_reduce_f32__scalar;
    k->pool_f32 = pool_f32__scalar;
    k->log_sum_f32 = log_sum_f32__scalar;
    k->dot_f32 = dot_f32__scalar;
    k->dots_f32 = dots_f32__scalar;
    k->softmax_f32 = softmax_f32__scalar;
    k->log_softmax_f32 = log_softmax_f32__scalar;
    k->layernorm_f32 = layernorm_f32__scalar;
    k->rmsnorm_f32 = rmsnorm_f32__scalar;
    k->transpose_f32 = transpose_f32__scalar;
}
