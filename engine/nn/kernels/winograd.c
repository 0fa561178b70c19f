#include "nn/kernels/winograd.h"

enum { MIN_CHANNELS = 128 }; /* each product adds its sums to C: once per c_in multiply-adds */

/* Channels must be a multiple of four: a whole element of the weights of fewest bits, so that each
 * slot begins with a whole element. */
bool steno_winograd_fits(const struct steno_conv *s)
{
    for (int d = 0; d < 2; d++)
        if (s->kernel[d] != 3 || s->stride[d] != 2 || s->dilation[d] != 1)
            return false;
    return s->group == 1 && s->c_in >= MIN_CHANNELS && s->c_in % 4 == 0 && s->c_out >= 16;
}

static void kinds(const float *w, size_t step, float *to, size_t to_step)
{
    to[STENO_WINOGRAD_FIRST * to_step] = w[0];
    to[STENO_WINOGRAD_ODD * to_step] = w[step];
    to[STENO_WINOGRAD_LAST * to_step] = w[2 * step];
    to[STENO_WINOGRAD_PLUS * to_step] = (w[0] + w[2 * step]) / 2;
    to[STENO_WINOGRAD_MINUS * to_step] = (w[0] - w[2 * step]) / 2;
}

void steno_winograd_weights(float *to, const float *w, size_t c_out, size_t c_in)
{
    enum { K = STENO_WINOGRAD_KINDS };
    float rows[K][3], all[K][K];
    for (size_t o = 0; o < c_out; o++, to += STENO_WINOGRAD_SLOTS * c_in)
        for (size_t c = 0; c < c_in; c++, w += 9) {
            for (size_t i = 0; i < 3; i++)
                kinds(w + i, 3, &rows[0][i], 3);
            for (int a = 0; a < K; a++)
                kinds(rows[a], 1, all[a], 1);
            for (int a = 0; a < K; a++)
                for (int b = 0; b < K; b++)
                    to[steno_winograd_slot(a, b) * c_in + c] = all[a][b];
        }
}
