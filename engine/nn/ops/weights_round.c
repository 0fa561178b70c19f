#include "nn/ops/weights_round.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Columns that are being quantized: COLUMNS at a time, each contiguous. */
enum { COLUMNS = 16, BINS = 256 };

struct columns {
    const steno_kernels *k;
    float *x;     /* [COLUMNS][K] */
    float *rest;  /* [K] of the elements `at`, which may be rounded to the other side */
    uint32_t *at; /* [K] */
};

/* Columns n ... of w, each contiguous in `to`. Rows of a matrix are pages apart, which the hardware
 * prefetcher does not follow; the next DISTANCE rows are prefetched here. */
static void gather_scaled_rows(const steno_kernels *k, float *to, const struct steno_f32_matrix *w,
                               size_t n, size_t cols)
{
    enum { DISTANCE = 32 };
    if (w->trans) {
        for (size_t c = 0; c < cols; c++)
            memcpy(to + c * w->k, w->x + (n + c) * w->ld, w->k * sizeof *to);
        return;
    }
    for (size_t r = 0; r < w->k; r += DISTANCE) {
        const size_t some = w->k - r < DISTANCE ? w->k - r : DISTANCE;
        for (size_t i = r + DISTANCE; i < w->k && i < r + 2 * DISTANCE; i++)
            __builtin_prefetch(w->x + i * w->ld + n);
        k->transpose_f32(to + r, w->k, w->x + r * w->ld + n, w->ld, some, cols);
    }
}

static size_t bin_of(float rest) /* rest is in (0, 1/2] */
{
    const float at = rest * 2 * BINS;
    return at < BINS - 1 ? (size_t)at : BINS - 1;
}

/* Round `flips` of n elements to the other side; those nearest to the midpoint go first. */
static void flip(const struct columns *b, size_t n, int8_t *q, int sign, size_t flips)
{
    size_t count[BINS] = {0}, least = BINS;
    for (size_t i = 0; i < n; i++)
        count[bin_of(b->rest[i])]++;
    for (size_t sum = 0; least && sum < flips; sum += count[--least])
        ;
    for (int pass = 0; pass < 2; pass++) /* first all bins above `least`, then part of it */
        for (size_t i = 0; i < n && flips; i++) {
            const size_t at = bin_of(b->rest[i]);
            if (pass ? at != least : at <= least)
                continue;
            q[b->at[i]] = (int8_t)(q[b->at[i]] + sign);
            flips--;
        }
}

/* Collect the elements for which rounding left more than `more` steps on the side of sign. */
static size_t candidates(const struct columns *b, const float *x, const int8_t *q, size_t n,
                         float by, int sign, float more)
{
    const float side = (float)sign;
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        const float rest = (x[i] * by - (float)q[i]) * side;
        b->rest[found] = rest;
        b->at[found] = (uint32_t)i;
        found += rest > more && q[i] * sign < 127;
    }
    return found;
}

/* Errors are computed and squared in blocks of SOME: a loop of a known length vectorizes. */
enum { SOME = 512 };

static inline __attribute__((always_inline)) double squares_of(const float *x, const int8_t *q,
                                                               size_t n, float step)
{
    float off[SOME];
    for (size_t i = 0; i < n; i++)
        off[i] = x[i] - step * (float)q[i];
    return steno_square_sum(off, n);
}

static double squares(const float *x, const int8_t *q, size_t n, float step)
{
    double error = 0;
    for (; n >= SOME; n -= SOME, x += SOME, q += SOME)
        error += squares_of(x, q, SOME, step);
    return error + squares_of(x, q, n, step);
}

/* Quantize one column to q over its own range, symmetric; *scale is the step. The rounding errors
 * of the column add up to at most half a step. Activations mostly have a mean, above all after a
 * ReLU, and that mean would multiply the sum of the errors. Returns the sum of squared errors. */
static double round_column(const struct columns *b, const float *x, size_t n, int8_t *q,
                           float *scale)
{
    enum { MOST = 1 << 20 };
    float range[2] = {0, 0}, step, rest;
    size_t flips, found;
    int64_t sum = 0;
    int sign;
    b->k->range_f32(x, n, range);
    step = fmaxf(-range[0], range[1]) / 127;
    step = step > 0 && 1 / step < INFINITY && step < INFINITY ? step : 1;
    *scale = step;
    b->k->quantize_f32(q, x, n, step, 0, true);
    for (size_t i = 0; i < n; i += MOST) {
        int32_t part = 0;
        for (size_t j = i; j < n && j < i + MOST; j++)
            part += q[j];
        sum += part;
    }
    rest = b->k->sum_f32(x, n) / step - (float)sum;
    if (fabsf(rest) > 0.5f && fabsf(rest) < (float)n) {
        sign = rest < 0 ? -1 : 1;
        flips = (size_t)lrintf(fabsf(rest));
        found = candidates(b, x, q, n, 1 / step, sign,
                           fmaxf(0, 0.5f - (1.5f * (float)flips + 8) / (float)n));
        if (found < flips)
            found = candidates(b, x, q, n, 1 / step, sign, 0);
        flip(b, found, q, sign, flips);
    }
    return squares(x, q, n, step);
}

bool steno_round_columns(const steno_kernels *k, const struct steno_f32_matrix *w, int8_t *q,
                         float *scale, double *error)
{
    struct columns b = {.k = k};
    b.x = malloc((COLUMNS + 1) * (w->k + 1) * sizeof *b.x);
    b.at = malloc((w->k + 1) * sizeof *b.at);
    if (!b.x || !b.at) {
        free(b.x);
        free(b.at);
        return false;
    }
    b.rest = b.x + COLUMNS * w->k; /* candidates() writes one element past what it holds */
    for (size_t n = 0; n < w->n; n += COLUMNS) {
        const size_t cols = w->n - n < COLUMNS ? w->n - n : COLUMNS;
        gather_scaled_rows(k, b.x, w, n, cols);
        for (size_t c = 0; c < cols; c++)
            *error += round_column(&b, b.x + c * w->k, w->k, q + (n + c) * w->k, &scale[n + c]);
    }
    free(b.x);
    free(b.at);
    return true;
}

/* ---- 16 bits ---- */

static inline __attribute__((always_inline)) double error_of(const float *x, size_t n, bool bf16)
{
    float off[SOME];
    for (size_t i = 0; i < n; i++)
        off[i] = x[i] - (bf16 ? steno_ops_nearest_bf16(x[i])
                              : steno_ops_f16_to_f32(steno_ops_f32_to_f16(x[i])));
    return steno_square_sum(off, n);
}

static double error_of_row(const float *x, size_t n, bool bf16)
{
    double error = 0;
    for (; n >= SOME; n -= SOME, x += SOME)
        error += bf16 ? error_of(x, SOME, true) : error_of(x, SOME, false);
    return error + error_of(x, n, bf16);
}

double steno_round_error(const float *w, size_t n, enum steno_precision p)
{
    return p == STENO_FP32 ? 0 : error_of_row(w, n, p != STENO_FP16_WEIGHTS);
}

double steno_round_matrix_error(const struct steno_f32_matrix *w, enum steno_precision p)
{
    const size_t rows = w->trans ? w->n : w->k, cols = w->trans ? w->k : w->n;
    double error = 0;
    for (size_t r = 0; r < rows && p != STENO_FP32; r++)
        error += steno_round_error(w->x + r * w->ld, cols, p);
    return error;
}

/* ---- range ---- */

bool steno_round_finite(const steno_kernels *k, enum steno_precision p, const float *w, size_t n,
                        bool transformed)
{
    const float most = (p == STENO_FP16_WEIGHTS   ? 65504.0f
                        : p == STENO_BF16_WEIGHTS ? 3.38e38f
                                                  : 1e30f) /
                       (transformed ? 64 : 1);
    float range[2] = {0, 0};
    k->range_f32(w, n, range);
    if (range[0] >= -most && range[1] <= most)
        return p != STENO_INT8_WEIGHTS || isfinite(steno_square_sum(w, n));
    for (size_t i = 0; i < n; i++)
        if (isfinite(w[i]) ? fabsf(w[i]) > most : p == STENO_INT8_WEIGHTS)
            return false;
    return true;
}
