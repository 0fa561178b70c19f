#include "speech/features/internal.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Filters are computed four at a time, and their sums are combined without an operation across one
 * vector. The four filters of a quad read the same number of vectors (neighbours have about the
 * same width), with zero weights beyond a filter's end. A filter that would read past the spectrum
 * starts earlier. Weights are in the order of reading: [quad][vector][filter of the quad][lane]. */
#define LANES STENO_V4

struct layout {
    enum steno_mel_kind kind;
    size_t fft_size, spectrum, bins;
    float bin_hz;
    double low, high, step; /* on the mel axis */
};

/* Kaldi computes all of this in float (mel-computations.h). This code does the same, so that the
 * filters are equal to the last bits. */
static float kaldi_mel(float hz)
{
    return 1127.0f * logf(1.0f + hz / 700.0f);
}

static double slaney_mel(double hz)
{
    const double step = 200.0 / 3;
    return hz < 1000 ? hz / step : 15 + log(hz / 1000) * 27 / log(6.4);
}

static double slaney_hz(double mel)
{
    const double step = 200.0 / 3;
    return mel < 15 ? mel * step : 1000 * exp((mel - 15) * log(6.4) / 27);
}

static double htk_mel(double hz)
{
    return 2595 * log10(1 + hz / 700);
}

static double htk_hz(double mel)
{
    return 700 * (pow(10, mel / 2595) - 1);
}

static bool is_kaldi(enum steno_mel_kind kind)
{
    return kind == STENO_MEL_KALDI || kind == STENO_MEL_KALDI_SPARSE;
}

static float kaldi_weight(const struct layout *g, size_t bin, size_t k)
{
    float low = (float)g->low, step = (float)g->step;
    float left = low + (float)bin * step, centre = low + (float)(bin + 1) * step;
    float right = low + (float)(bin + 2) * step, mel = kaldi_mel(g->bin_hz * (float)k);
    if (k >= g->fft_size / 2 || mel <= left || mel >= right)
        return 0; /* Kaldi's filters do not use the Nyquist bin */
    return mel <= centre ? (mel - left) / (centre - left) : (right - mel) / (right - centre);
}

static float hz_weight(const struct layout *g, size_t bin, size_t k)
{
    const bool slaney = g->kind == STENO_MEL_SLANEY;
    double (*const to_hz)(double) = slaney ? slaney_hz : htk_hz;
    double left = to_hz(g->low + (double)bin * g->step);
    double centre = to_hz(g->low + (double)(bin + 1) * g->step);
    double right = to_hz(g->low + (double)(bin + 2) * g->step);
    double hz = (double)g->bin_hz * (double)k, w;
    if (hz <= left || hz >= right)
        return 0;
    w = hz <= centre ? (hz - left) / (centre - left) : (right - hz) / (right - centre);
    return (float)(slaney ? w * 2 / (right - left) : w);
}

static float weight(const struct layout *g, size_t bin, size_t k)
{
    return is_kaldi(g->kind) ? kaldi_weight(g, bin, k) : hz_weight(g, bin, k);
}

/* The FFT bins [*first, *last] to which a filter gives weight. */
static steno_status support(const struct layout *g, size_t bin, size_t *first, size_t *last,
                            steno_err *err)
{
    *first = *last = g->spectrum;
    for (size_t k = 0; k < g->spectrum; k++) {
        if (weight(g, bin, k) > 0) {
            *first = k < *first ? k : *first;
            *last = k;
        }
    }
    if (*first < g->spectrum)
        return STENO_OK;
    *first = *last = 0;
    if (g->kind != STENO_MEL_KALDI)
        return STENO_OK; /* librosa and torchaudio warn and leave the filter empty */
    return steno_fail(err, STENO_ERR_INVAL,
                      "mel filter %zu of %zu is narrower than an FFT bin (%.1f Hz): fewer filters "
                      "or a longer FFT are needed",
                      bin, g->bins, (double)g->bin_hz);
}

static steno_status lay_out(const struct layout *g, size_t index, struct steno_mel_quad *q,
                            steno_err *err)
{
    size_t first, last, room;
    for (size_t i = 0; i < 4 && 4 * index + i < g->bins; i++) {
        steno_status st = support(g, 4 * index + i, &first, &last, err);
        unsigned vectors = (unsigned)((last - first + LANES) / LANES);
        if (st)
            return st;
        q->first[i] = (unsigned)first;
        q->vectors = vectors > q->vectors ? vectors : q->vectors;
    }
    room = q->vectors * LANES < g->spectrum ? g->spectrum - q->vectors * LANES : 0;
    for (size_t i = 0; i < 4; i++)
        if (q->first[i] > room)
            q->first[i] = (unsigned)room;
    return STENO_OK;
}

static steno_status check_mel(const struct layout *g, double low, double high, double nyquist,
                              steno_err *err)
{
    if (g->bins < 1 || g->bins > 512)
        return steno_fail(err, STENO_ERR_INVAL, "%zu mel filters: 1 to 512 expected", g->bins);
    if (g->fft_size < 2 * LANES || g->fft_size % 2)
        return steno_fail(err, STENO_ERR_INVAL, "mel filters over an FFT of %zu points",
                          g->fft_size);
    if (!(low >= 0) || !(high > low) || !(high <= nyquist))
        return steno_fail(err, STENO_ERR_INVAL,
                          "mel filters from %g to %g Hz: 0 <= low < high <= %g expected", low, high,
                          nyquist);
    return STENO_OK;
}

static steno_status fill_filters(steno_mel *m, const struct layout *g, steno_err *err)
{
    size_t total = 0;
    for (size_t i = 0; i < m->quads; i++) {
        steno_status st = lay_out(g, i, &m->quad[i], err);
        if (st)
            return st;
        m->quad[i].at = total;
        total += m->quad[i].vectors * 4 * LANES;
    }
    m->n_weights = total;
    m->weights = calloc(total, sizeof *m->weights);
    if (!m->weights)
        return steno_fail(err, STENO_ERR_NOMEM, "mel filters: out of memory");
    for (size_t b = 0; b < g->bins; b++) {
        const struct steno_mel_quad *q = &m->quad[b / 4];
        for (size_t i = 0; i < q->vectors * LANES && q->first[b % 4] + i < g->spectrum; i++)
            m->weights[q->at + (i / LANES * 4 + b % 4) * LANES + i % LANES] =
                weight(g, b, q->first[b % 4] + i);
    }
    return STENO_OK;
}

steno_status steno_mel_open(steno_mel **out, enum steno_mel_kind kind, int sample_rate,
                            size_t fft_size, size_t bins, double low, double high, steno_err *err)
{
    double nyquist = 0.5 * sample_rate;
    struct layout g = {.kind = kind,
                       .fft_size = fft_size,
                       .spectrum = fft_size / 2 + 1,
                       .bins = bins,
                       .bin_hz = (float)sample_rate / (float)fft_size};
    steno_mel *m;
    steno_status st;
    if (high <= 0)
        high += nyquist;
    st = check_mel(&g, low, high, nyquist, err);
    if (st)
        return st;
    if (is_kaldi(kind)) {
        g.low = (double)kaldi_mel((float)low);
        g.high = (double)kaldi_mel((float)high);
        g.step = (double)(((float)g.high - (float)g.low) / (float)(bins + 1));
    } else {
        g.low = kind == STENO_MEL_SLANEY ? slaney_mel(low) : htk_mel(low);
        g.high = kind == STENO_MEL_SLANEY ? slaney_mel(high) : htk_mel(high);
        g.step = (g.high - g.low) / (double)(bins + 1);
    }
    m = calloc(1, sizeof *m);
    if (m) {
        m->bins = bins;
        m->quads = (bins + 3) / 4;
        m->quad = calloc(m->quads, sizeof *m->quad);
    }
    st = m && m->quad ? fill_filters(m, &g, err)
                      : steno_fail(err, STENO_ERR_NOMEM, "mel filters: out of memory");
    if (st)
        steno_mel_close(m);
    else
        *out = m;
    return st;
}

void steno_mel_close(steno_mel *m)
{
    if (!m)
        return;
    free(m->quad);
    free(m->weights);
    free(m);
}

void steno_features_round(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

void steno_mel_round(steno_mel *m)
{
    steno_features_round(m->weights, m->n_weights);
}

void steno_mel_tables(const steno_mel *m, struct steno_fbank_tables *t)
{
    t->bins = m->bins;
    t->quad = m->quad;
    t->weights = m->weights;
}
