/* The slot fbank_f32 against the definition in double: every energy within the rounding of its
 * samples, of a transform of log2 n stages, and of the filter's sum. Also bit by bit against the
 * scalar level, one frame at a time, as the slot's contract says. */
#include "tests/kernels/kcheck.h"

#include "nn/kernels/fbank.h"
#include "nn/kernels/internal.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_N = STENO_FBANK_FFT, MAX_BINS = 84, MAX_WEIGHTS = MAX_BINS * (MAX_N / 2 + 8) };

static const struct fbank_case {
    size_t length, fft, shift, bins;
    bool remove_dc, log;
    float preemph, floor, log_scale, offset;
} cases[] = {
    {400, 512, 160, 80, true, true, 0.97f, FLT_EPSILON, 1, 0}, /* Kaldi's at 16 kHz */
    {200, 256, 80, 40, true, true, 0.97f, FLT_EPSILON, 1, 0},  /* ... and at 8 kHz */
    {512, 512, 128, 80, false, true, 0, 1e-10f, 0.434294482f, 0},
    /* no floor: the C library's logarithm throughout */
    {129, 256, 1, 23, true, true, 0.5f, 0, 1, 0},
    {64, 64, 200, 1, false, false, 1, 0, 1, 0},
    {7, 64, 3, 81, true, false, 0.97f, 0.25f, 1, 0},
    {320, 512, 160, 18, false, true, 0.97f, 1e-6f, 1, 0},
    {400, 512, 160, 82, false, true, 0.97f, 0, 1, 0x1p-24f}, /* NeMo's */
};
static const size_t counts[] = {0, 1, 2, 3, 7, 8, 9, 10, 11, 16, 21};

struct front {
    struct steno_fbank_tables t;
    struct steno_mel_quad quad[(MAX_BINS + 3) / 4];
    float window[MAX_N], weights[MAX_WEIGHTS], *room;
    double cosine[MAX_N], sine[MAX_N]; /* of 2 pi i/n */
};

/* Filters with random places and weights; those of a quad have the same width. */
static void fill_filters(struct front *f, size_t bins, size_t spectrum)
{
    size_t at = 0;
    for (size_t q = 0; 4 * q < bins; q++) {
        const size_t vectors = 1 + random_below(spectrum / 4 < 6 ? spectrum / 4 : 6);
        f->quad[q].vectors = (unsigned)vectors;
        f->quad[q].at = at;
        for (size_t i = 0; i < 4; i++)
            f->quad[q].first[i] = (unsigned)random_below(spectrum - 4 * vectors + 1);
        at += 16 * vectors;
    }
    fill_uniform(f->weights, at);
    for (size_t i = 0; i < at; i++)
        f->weights[i] = fabsf(f->weights[i]);
}

static bool front_init(struct front *f, const struct fbank_case *c)
{
    f->room = malloc(steno_fft_room(c->fft) * sizeof *f->room);
    if (!f->room)
        return false;
    fill_uniform(f->window, c->length);
    fill_filters(f, c->bins, c->fft / 2 + 1);
    f->t = (struct steno_fbank_tables){.length = c->length,
                                       .shift = c->shift,
                                       .remove_dc = c->remove_dc,
                                       .preemph = c->preemph,
                                       .window = f->window,
                                       .bins = c->bins,
                                       .quad = f->quad,
                                       .weights = f->weights,
                                       .floor = c->floor,
                                       .log = c->log,
                                       .log_scale = c->log_scale,
                                       .offset = c->offset};
    steno_fft_fill(&f->t.fft, c->fft, f->room);
    for (size_t i = 0; i < c->fft; i++) {
        f->cosine[i] = cos(2 * acos(-1) * (double)i / (double)c->fft);
        f->sine[i] = sin(2 * acos(-1) * (double)i / (double)c->fft);
    }
    return true;
}

/* |X|^2 of a frame, [n/2 + 1], and the error bound of each. */
static void exact_power(const struct front *f, const float *x, double *power, double *off)
{
    const struct steno_fbank_tables *t = &f->t;
    const size_t n = t->fft.n;
    double y[MAX_N], dc = 0, sum = 0, stages = log2((double)n) + 8;
    for (size_t i = 0; i < t->length && t->remove_dc; i++)
        dc += (double)x[i] / (double)t->length;
    for (size_t i = 0; i < t->length; i++) {
        const double now = (double)x[i], before = (double)x[i ? i - 1 : 0];
        y[i] = ((now - dc) - (double)t->preemph * (before - dc)) * (double)t->window[i];
        sum += (fabs(now) + fabs(before) + 2 * fabs(dc)) * fabs((double)t->window[i]);
    }
    for (size_t k = 0; k <= n / 2; k++) {
        double re = 0, im = 0, d = 4 * stages * EPS * sum;
        for (size_t i = 0; i < t->length; i++) {
            re += y[i] * f->cosine[k * i % n];
            im -= y[i] * f->sine[k * i % n];
        }
        power[k] = re * re + im * im;
        off[k] = 2 * sqrt(power[k]) * d + d * d;
    }
}

static void check_frame(const struct front *f, const float *x, const float *got, size_t frame)
{
    const struct steno_fbank_tables *t = &f->t;
    double power[MAX_N / 2 + 1], off[MAX_N / 2 + 1];
    exact_power(f, x, power, off);
    for (size_t b = 0; b < t->bins; b++) {
        const struct steno_mel_quad *q = &t->quad[b / 4];
        double e = 0, d = 0, floor = (double)t->floor + (double)t->offset;
        for (size_t i = 0; i < 4 * q->vectors && q->first[b % 4] + i <= t->fft.n / 2; i++) {
            const double w = (double)t->weights[q->at + (i / 4 * 4 + b % 4) * 4 + i % 4];
            e += w * power[q->first[b % 4] + i];
            d += w * off[q->first[b % 4] + i];
        }
        e += (double)t->offset;
        d += (double)(q->vectors + 8) * EPS * e;
        if (t->log) {
            const double low = fmax(e - d, floor), want = log(fmax(e, floor));
            if (!(low > 0))
                continue; /* rounding may have reduced it to nothing */
            d = (log(fmax(e + d, floor)) - log(low) + 8 * EPS * (fabs(want) + 1)) *
                (double)t->log_scale;
            e = want * (double)t->log_scale;
        } else {
            e = fmax(e, floor);
        }
        if (!close_to(got[b], e, d))
            test_fail("length %zu of %zu, frame %zu, bin %zu: %.9g, exact %.9g, bound %.3g",
                      t->length, t->fft.n, frame, b, (double)got[b], e, d);
    }
}

static void check_frames(const steno_kernels *k, const struct front *f, size_t n)
{
    const struct steno_fbank_tables *t = &f->t;
    const size_t samples = n ? (n - 1) * t->shift + t->length : 0;
    float *x = guard_new(samples), *out = guard_new(n * t->bins), one[MAX_BINS];
    fill_uniform(x, samples);
    k->fbank_f32(t, x, n, out);
    for (size_t i = 0; i < n; i++) {
        steno_kernels_fbank_f32__scalar(t, x + i * t->shift, 1, one);
        if (memcmp(one, out + i * t->bins, t->bins * sizeof *one))
            test_fail("length %zu of %zu: frame %zu of %zu has other bits than alone", t->length,
                      t->fft.n, i, n);
        if (!KCHECK_FEW || i % 8 == 2)
            check_frame(f, x + i * t->shift, out + i * t->bins, i);
    }
    guard_free(x);
    guard_free(out);
}

void check_fbank(const steno_kernels *k)
{
    struct front *f = malloc(sizeof *f);
    if (!test_begin(k, "fbank_f32")) {
        free(f);
        return;
    }
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        if (!f || !front_init(f, &cases[c])) {
            test_fail("out of memory");
            break;
        }
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            check_frames(k, f, counts[i]);
        free(f->room);
    }
    free(f);
    test_end();
}
