/* One frame at a time, with vectors of four that every CPU has. The order of its sums is part of
 * the slot's contract: other levels compute several frames at once with the same bits. */
#include "nn/kernels/fbank.h"
#include "nn/kernels/internal.h"
#include "nn/kernels/scalar/fbank_compress.h"
#include "nn/kernels/vec4.h"

static float mean_of(const float *x, size_t n)
{
    steno_v4 a = v4_set1(0), b = a;
    float rest = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        a += v4_load(x + i);
        b += v4_load(x + i + 4);
    }
    for (; i < n; i++)
        rest += x[i];
    return (v4_sum(a + b) + rest) / (float)n;
}

void steno_fbank_window(const struct steno_fbank_tables *t, const float *x, float *frame)
{
    float dc = t->remove_dc ? mean_of(x, t->length) : 0, p = t->preemph;
    const steno_v4 dc4 = v4_set1(dc), p4 = v4_set1(p);
    const float *w = t->window;
    float *y = frame;
    size_t i = 1;
    y[0] = ((x[0] - dc) - p * (x[0] - dc)) * w[0]; /* Kaldi: x[-1] is x[0] */
    for (; i + STENO_V4 <= t->length; i += STENO_V4)
        v4_store(y + i,
                 ((v4_load(x + i) - dc4) - p4 * (v4_load(x + i - 1) - dc4)) * v4_load(w + i));
    for (; i < t->length; i++)
        y[i] = ((x[i] - dc) - p * (x[i - 1] - dc)) * w[i];
}

void steno_fbank_filter(const struct steno_fbank_tables *t, const float *power, float *out)
{
    for (size_t i = 0; 4 * i < t->bins; i++) {
        const struct steno_mel_quad *q = &t->quad[i];
        const float *w = t->weights + q->at;
        steno_v4 s[4] = {v4_set1(0), v4_set1(0), v4_set1(0), v4_set1(0)}, sums;
        for (size_t at = 0; at < q->vectors * STENO_V4; at += STENO_V4, w += 4 * STENO_V4)
            for (size_t f = 0; f < 4; f++)
                s[f] += v4_load(w + f * STENO_V4) * v4_load(power + q->first[f] + at);
        sums = v4_sums(s[0], s[1], s[2], s[3]);
        memcpy(out + 4 * i, &sums, (t->bins - 4 * i < 4 ? t->bins - 4 * i : 4) * sizeof *out);
    }
}

void steno_fbank_compress(const struct steno_fbank_tables *t, float *x)
{
    const steno_v4 floor = v4_set1(t->floor), offset = v4_set1(t->offset);
    const steno_v4 scale = v4_set1(t->log_scale);
    size_t i = 0;
    for (; i < t->bins && fbank_by_four(t, i); i += STENO_V4) {
        steno_v4 v = v4_max(v4_load(x + i), floor) + offset;
        v4_store(x + i, t->log ? v4_log(v) * scale : v);
    }
    for (; i < t->bins; i++)
        x[i] = fbank_compress(t, x[i]);
}

void steno_kernels_fbank_f32__scalar(const struct steno_fbank_tables *t, const float *x, size_t n,
                                     float *out)
{
    float frame[STENO_FBANK_FFT], scratch[2 * STENO_FBANK_FFT];
    float power[STENO_FBANK_FFT / 2 + 1 + STENO_FBANK_PAD];
    memset(frame + t->length, 0, (t->fft.n - t->length) * sizeof *frame);
    memset(power + t->fft.m + 1, 0, STENO_FBANK_PAD * sizeof *power);
    for (size_t i = 0; i < n; i++, x += t->shift, out += t->bins) {
        steno_fbank_window(t, x, frame);
        steno_fft_spectrum(&t->fft, frame, power, scratch);
        steno_fbank_filter(t, power, out);
        steno_fbank_compress(t, out);
    }
}

void steno_kernels_fbank__scalar(steno_kernels *k)
{
    k->fbank_f32 = steno_kernels_fbank_f32__scalar;
}
