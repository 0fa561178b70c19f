/* Attention, the specification: softmax over blocks of a row of scores; scores and weighted sums of
 * rows at arbitrary places. */
#include "nn/kernels/internal.h"

#include <math.h>
#include <string.h>

static float softmax_step_f32__scalar(float *s, size_t n, float scale, const float *bias,
                                      const float *mask, float *max, float *sum)
{
    float top = *max, keep;
    double total = 0;
    for (size_t i = 0; i < n; i++) {
        s[i] = scale * (bias ? s[i] + bias[i] : s[i]);
        if (mask)
            s[i] += mask[i];
        top = top > s[i] || top != top ? top : s[i];
    }
    if (top == -INFINITY) {
        memset(s, 0, n * sizeof *s);
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        s[i] = expf(s[i] - top);
        total += (double)s[i];
    }
    keep = *max == top ? 1.0f : expf(*max - top);
    *sum = (float)((double)*sum * (double)keep + total);
    *max = top;
    return keep;
}

static void dot_rows_f32__scalar(float *s, size_t n, const float *q, size_t size, float scale,
                                 const float *rows, size_t row, const int32_t *at)
{
    for (size_t i = 0; i < n; i++) {
        const float *r = rows + (size_t)at[i] * row;
        double sum = 0;
        for (size_t c = 0; c < size; c++)
            sum += (double)q[c] * (double)r[c];
        s[i] = (float)(sum * (double)scale);
    }
}

static void mix_rows_f32__scalar(float *y, size_t size, const float *w, size_t n, const float *rows,
                                 size_t row, const int32_t *at)
{
    for (size_t c = 0; c < size; c++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += (double)w[i] * (double)rows[(size_t)at[i] * row + c];
        y[c] = (float)sum;
    }
}

static void attend_few_f32__scalar(size_t m, size_t n, const struct steno_attend_few *a)
{
    for (size_t i = 0; i < m; i++) {
        float s[STENO_ATTEND_FEW_KEYS], top = -INFINITY, sum = 0;
        for (size_t j = 0; j < n; j++) {
            s[j] = 0;
            for (size_t d = 0; d < a->size; d++)
                s[j] += a->q[i * a->ldq + d] * a->k[j * a->ldk + d];
        }
        (void)softmax_step_f32__scalar(s, n, a->scale, NULL, a->mask ? a->mask + i * a->ldm : NULL,
                                       &top, &sum);
        for (size_t c = 0; c < a->v_size; c++) {
            float y = 0;
            for (size_t j = 0; j < n; j++)
                y += s[j] * a->v[j * a->ldv + c];
            a->y[i * a->ldy + c] = y / sum;
        }
    }
}

void steno_kernels_attention__scalar(steno_kernels *k)
{
    k->dot_rows_f32 = dot_rows_f32__scalar;
    k->mix_rows_f32 = mix_rows_f32__scalar;
    k->softmax_step_f32 = softmax_step_f32__scalar;
    k->attend_few_f32 = attend_few_f32__scalar;
}
