/* Softmax over a row of attention scores that comes in blocks: the specification. */
#include "kernels/internal.h"

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

void steno_kernels_attention__scalar(steno_kernels *k)
{
    k->softmax_step_f32 = softmax_step_f32__scalar;
}
