/* Eight frames at a time. Where one frame is computed with a number (scalar/fbank.c, fft.c), this
 * has a vector with one frame per lane. So nothing crosses lanes except the transposes at both
 * ends. Every sum has the same order as for one frame, and nothing is an FMA: the bits depend
 * neither on the number of frames nor on the CPU.
 *
 * Eight lanes and not sixteen: the arrays of a 256-point transform have 16 KiB and stay in L1, and
 * a model's step is mostly a multiple of eight frames. NEON has no such level: one frame already
 * fills its four lanes. */
#include "nn/kernels/fbank.h"
#include "nn/kernels/internal.h"
#include "nn/kernels/scalar/fbank_compress.h"

#include <string.h>

enum {
    LANES = 8,
    LANES_MIN = 3, /* from this number of frames on it is faster than one frame at a time */
    FOUR = 4       /* lanes of scalar/fbank.c, whose order of sums this file keeps */
};

typedef float v8 __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));
_Static_assert(sizeof(v8) / sizeof(float) == LANES, "a lane for each frame");

static inline v8 load(const float *p)
{
    v8 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline v8 set1(float x)
{
    return (v8){x, x, x, x, x, x, x, x};
}

#define V v8
#define VI v8i
#define SET1 set1
#define LOG v8_log
#include "nn/kernels/tmpl/log_tmpl.h"

#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (v8i){__VA_ARGS__})
#endif

static inline void transpose(v8 v[8])
{
    v8 a[8], b[8];
    for (int i = 0; i < 4; i++) {
        a[2 * i] = SHUFFLE(v[2 * i], v[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        a[2 * i + 1] = SHUFFLE(v[2 * i], v[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            b[i + 2 * k] = SHUFFLE(a[i + k], a[i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            b[i + 2 * k + 1] = SHUFFLE(a[i + k], a[i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        v[i] = SHUFFLE(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        v[i + 4] = SHUFFLE(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* ---- samples -> windowed frames ---------------------------------------------------------------*/

/* Sample i of every frame to y[i]. Lanes without a frame repeat the last frame. */
static void gather(const struct steno_fbank_tables *f, const float *x, size_t n, v8 *y)
{
    size_t i = 0;
    for (; i + 8 <= f->length; i += 8) {
        for (size_t k = 0; k < LANES; k++)
            y[i + k] = load(x + (k < n ? k : n - 1) * f->shift + i);
        transpose(y + i);
    }
    for (; i < f->length; i++)
        for (size_t k = 0; k < LANES; k++)
            y[i][k] = x[(k < n ? k : n - 1) * f->shift + i];
}

/* Sums in the order of mean_of() of scalar/fbank.c: two vectors of four, then the rest. */
static v8 mean_of(const v8 *x, size_t n)
{
    v8 s0 = set1(0), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0, rest = s0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        s0 += x[i], s1 += x[i + 1], s2 += x[i + 2], s3 += x[i + 3];
        s4 += x[i + 4], s5 += x[i + 5], s6 += x[i + 6], s7 += x[i + 7];
    }
    for (; i < n; i++)
        rest += x[i];
    return ((((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))) + rest) / set1((float)n);
}

/* y [fft_size]: samples to windowed samples in place, followed by zeros. */
static void prepare(const struct steno_fbank_tables *f, v8 *y)
{
    const v8 dc = f->remove_dc ? mean_of(y, f->length) : set1(0), p = set1(f->preemph);
    v8 before = y[0] - dc;
    for (size_t i = 0; i < f->length; i++) {
        v8 now = y[i] - dc;
        y[i] = (now - p * before) * set1(f->window[i]);
        before = now;
    }
    for (size_t i = f->length; i < f->fft.n; i++)
        y[i] = set1(0);
}

/* ---- transform --------------------------------------------------------------------------------*/

/* Complex number k of an array is re at [2 k], im at [2 k + 1]. t: the six twiddles, `step` floats
 * apart. in, out: distance between the four inputs, and between the four outputs. */
static inline void butterfly(const v8 *x, size_t in, v8 *y, size_t out, const float *t, size_t step)
{
    const v8 *x0 = x, *x1 = x + 2 * in, *x2 = x + 4 * in, *x3 = x + 6 * in;
    v8 ar = x0[0] + x2[0], ai = x0[1] + x2[1];
    v8 br = x0[0] - x2[0], bi = x0[1] - x2[1];
    v8 cr = x1[0] + x3[0], ci = x1[1] + x3[1];
    v8 dr = x1[1] - x3[1], di = x3[0] - x1[0];
    v8 *y0 = y, *y1 = y + 2 * out, *y2 = y + 4 * out, *y3 = y + 6 * out;
    y0[0] = ar + cr;
    y0[1] = ai + ci;
    y1[0] = (br + dr) * set1(t[0]) - (bi + di) * set1(t[step]);
    y1[1] = (br + dr) * set1(t[step]) + (bi + di) * set1(t[0]);
    y2[0] = (ar - cr) * set1(t[2 * step]) - (ai - ci) * set1(t[3 * step]);
    y2[1] = (ar - cr) * set1(t[3 * step]) + (ai - ci) * set1(t[2 * step]);
    y3[0] = (br - dr) * set1(t[4 * step]) - (bi - di) * set1(t[5 * step]);
    y3[1] = (br - dr) * set1(t[5 * step]) + (bi - di) * set1(t[4 * step]);
}

/* The stages of fft.c. a, b: [2 m]. Returns the array that the last stage wrote. */
static const v8 *transform(const struct steno_fft_tables *f, v8 *a, v8 *b)
{
    size_t m = f->m, run = 4, len = m / 4;
    const float *tw = f->tw;
    v8 *x = b, *y = a, *swap;
    for (size_t p = 0; p < m / 4; p++)
        butterfly(a + 2 * p, m / 4, b + 8 * p, 1, tw + p / FOUR * 24 + p % FOUR, FOUR);
    tw += 6 * (m / 4);
    for (; len >= 4; len /= 4, run *= 4) {
        for (size_t p = 0; p < len / 4; p++, tw += 6)
            for (size_t q = 0; q < run; q++)
                butterfly(x + 2 * (q + run * p), run * (len / 4), y + 2 * (q + run * 4 * p), run,
                          tw, 1);
        swap = x;
        x = y;
        y = swap;
    }
    if (len == 1)
        return x;
    for (size_t q = 0; q < m; q++) { /* a factor of 2 remains: m/2 numbers of two parts */
        y[q] = x[q] + x[q + m];
        y[q + m] = x[q] - x[q + m];
    }
    return y;
}

static void take_apart(const struct steno_fft_tables *f, const v8 *z, v8 *power)
{
    size_t m = f->m;
    const v8 half = set1(0.5f);
    power[0] = (z[0] + z[1]) * (z[0] + z[1]);
    power[m] = (z[0] - z[1]) * (z[0] - z[1]);
    power[m / 2] = z[m] * z[m] + z[m + 1] * z[m + 1];
    for (size_t k = 1; k < m / 2; k++) {
        v8 ar = z[2 * k], ai = z[2 * k + 1], br = z[2 * (m - k)], bi = z[2 * (m - k) + 1];
        v8 er = (ar + br) * half, ei = (ai - bi) * half;
        v8 dr = (ai + bi) * half, di = (br - ar) * half;
        v8 c = set1(f->cosine[k]), s = set1(f->sine[k]);
        v8 tr = dr * c + di * s, ti = di * c - dr * s;
        v8 xr = er + tr, xi = ei + ti, yr = er - tr, yi = ei - ti;
        power[k] = xr * xr + xi * xi;
        power[m - k] = yr * yr + yi * yi;
    }
}

/* ---- spectrum -> energies ---------------------------------------------------------------------*/

/* Filter `i` of the quad. It has four sums, one for each lane of the vectors of scalar/fbank.c. */
static inline v8 filter(const struct steno_mel_quad *q, const float *weights, const v8 *power,
                        size_t i)
{
    const float *w = weights + q->at + i * FOUR;
    const v8 *p = power + q->first[i];
    v8 s0 = set1(0), s1 = s0, s2 = s0, s3 = s0;
    for (size_t at = 0; at < q->vectors; at++, w += 4 * FOUR, p += FOUR) {
        s0 += set1(w[0]) * p[0];
        s1 += set1(w[1]) * p[1];
        s2 += set1(w[2]) * p[2];
        s3 += set1(w[3]) * p[3];
    }
    return (s0 + s1) + (s2 + s3);
}

/* Floor, offset and logarithm of bin b, computed as for one frame. */
static inline v8 compress(const struct steno_fbank_tables *f, size_t b, v8 e)
{
    v8i less;
    if (!fbank_by_four(f, b)) {
        for (size_t k = 0; k < LANES; k++)
            e[k] = fbank_compress(f, e[k]);
        return e;
    }
    less = (v8i)(e < set1(f->floor));
    e = (v8)(((v8i)set1(f->floor) & less) | ((v8i)e & ~less)) + set1(f->offset);
    return f->log ? v8_log(e) * set1(f->log_scale) : e;
}

static void energies(const struct steno_fbank_tables *f, const v8 *power, size_t n, float *out)
{
    for (size_t b = 0; b < f->bins; b += 8) {
        size_t here = f->bins - b < 8 ? f->bins - b : 8;
        v8 e[8] = {set1(0)};
        for (size_t i = 0; i < here; i++)
            e[i] =
                compress(f, b + i, filter(&f->quad[(b + i) / 4], f->weights, power, (b + i) % 4));
        transpose(e);
        for (size_t k = 0; k < n; k++)
            memcpy(out + k * f->bins + b, &e[k], here * sizeof *out);
    }
}

/* n (1 to LANES) frames. */
static void at_once(const struct steno_fbank_tables *f, const float *x, size_t n, float *out)
{
    v8 a[STENO_FBANK_FFT], b[STENO_FBANK_FFT];
    v8 power[STENO_FBANK_FFT / 2 + 1 + STENO_FBANK_PAD];
    gather(f, x, n, a);
    prepare(f, a);
    take_apart(&f->fft, transform(&f->fft, a, b), power);
    for (size_t i = 0; i < STENO_FBANK_PAD; i++)
        power[f->fft.m + 1 + i] = set1(0);
    energies(f, power, n, out);
}

static void fbank_f32__avx2(const struct steno_fbank_tables *t, const float *x, size_t n,
                            float *out)
{
    for (; n >= LANES_MIN; x += LANES * t->shift, out += LANES * t->bins) {
        const size_t some = n < LANES ? n : LANES;
        at_once(t, x, some, out);
        n -= some;
    }
    steno_kernels_fbank_f32__scalar(t, x, n, out);
}

void steno_kernels_fbank__avx2(steno_kernels *k)
{
    k->fbank_f32 = fbank_f32__avx2;
}
