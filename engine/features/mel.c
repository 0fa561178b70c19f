#include "features/mel.h"

#include <math.h>
#include <stdlib.h>

/* Filters are stored with their weights padded by zeros to whole groups of LANES, which the loop of
 * steno_mel_apply keeps in separate sums: the compiler turns those into vectors without being
 * allowed to reorder a sum. A group never starts so late that it would read past the spectrum. */
#define LANES 4

struct filter {
    unsigned first;  /* FFT bin of the first weight */
    unsigned groups; /* of LANES weights */
    unsigned tail;   /* weights behind them: only in a filter that spans the whole spectrum */
    size_t at;       /* in weights[] */
};

struct steno_mel {
    size_t bins, spectrum;
    struct filter *filter;
    float *weights;
    size_t n_weights;
};

struct layout {
    enum steno_mel_kind kind;
    size_t fft_size, spectrum, bins;
    float bin_hz;
    double low, high, step; /* on the mel axis */
};

/* Kaldi computes all of this in float (mel-computations.h); the same here, so that the filters are
 * its filters to the last bits. */
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

static float kaldi_weight(const struct layout *g, size_t bin, size_t k)
{
    float low = (float)g->low, step = (float)g->step;
    float left = low + (float)bin * step, centre = low + (float)(bin + 1) * step;
    float right = low + (float)(bin + 2) * step, mel = kaldi_mel(g->bin_hz * (float)k);
    if (k >= g->fft_size / 2 || mel <= left || mel >= right)
        return 0; /* the Nyquist bin has no part in Kaldi's filters */
    return mel <= centre ? (mel - left) / (centre - left) : (right - mel) / (right - centre);
}

static float slaney_weight(const struct layout *g, size_t bin, size_t k)
{
    double left = slaney_hz(g->low + (double)bin * g->step);
    double centre = slaney_hz(g->low + (double)(bin + 1) * g->step);
    double right = slaney_hz(g->low + (double)(bin + 2) * g->step);
    double hz = (double)g->bin_hz * (double)k, w;
    if (hz <= left || hz >= right)
        return 0;
    w = hz <= centre ? (hz - left) / (centre - left) : (right - hz) / (right - centre);
    return (float)(w * 2 / (right - left));
}

static float weight(const struct layout *g, size_t bin, size_t k)
{
    return g->kind == STENO_MEL_KALDI ? kaldi_weight(g, bin, k) : slaney_weight(g, bin, k);
}

/* Support of one filter: whole groups, moved down where they would leave the spectrum. */
static steno_status support(const struct layout *g, size_t bin, struct filter *f, steno_err *err)
{
    size_t first = g->spectrum, last = 0, n;
    for (size_t k = 0; k < g->spectrum; k++) {
        if (weight(g, bin, k) > 0) {
            first = k < first ? k : first;
            last = k;
        }
    }
    if (first == g->spectrum) {
        if (g->kind == STENO_MEL_KALDI)
            return steno_fail(err, STENO_ERR_INVAL,
                              "mel filter %zu of %zu is narrower than an FFT bin (%.1f Hz): fewer "
                              "filters or a longer FFT are needed",
                              bin, g->bins, (double)g->bin_hz);
        first = last = 0; /* librosa warns and leaves the filter empty */
    }
    n = (last - first + LANES) / LANES;
    if (n * LANES > g->spectrum) {
        n = g->spectrum / LANES;
        f->tail = (unsigned)(g->spectrum % LANES);
        first = 0;
    } else if (first + n * LANES > g->spectrum) {
        first = g->spectrum - n * LANES;
    }
    f->first = (unsigned)first;
    f->groups = (unsigned)n;
    return STENO_OK;
}

static steno_status check(const struct layout *g, double low, double high, double nyquist,
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

static steno_status fill(steno_mel *m, const struct layout *g, steno_err *err)
{
    size_t total = 0;
    for (size_t b = 0; b < g->bins; b++) {
        steno_status st = support(g, b, &m->filter[b], err);
        if (st)
            return st;
        m->filter[b].at = total;
        total += m->filter[b].groups * LANES + m->filter[b].tail;
    }
    m->weights = calloc(total, sizeof *m->weights);
    if (!m->weights)
        return steno_fail(err, STENO_ERR_NOMEM, "mel filters: out of memory");
    for (size_t b = 0; b < g->bins; b++) {
        const struct filter *f = &m->filter[b];
        for (size_t i = 0; i < f->groups * LANES + f->tail; i++)
            m->weights[f->at + i] = weight(g, b, f->first + i);
    }
    return STENO_OK;
}

steno_status steno_mel_open(steno_mel **out, enum steno_mel_kind kind, int sample_rate,
                            size_t fft_size, size_t bins, double low, double high, steno_err *err)
{
    double nyquist = 0.5 * sample_rate;
    struct layout g = {.kind = kind, .fft_size = fft_size, .spectrum = fft_size / 2 + 1,
                       .bins = bins, .bin_hz = (float)sample_rate / (float)fft_size};
    steno_mel *m;
    steno_status st;
    if (high <= 0)
        high += nyquist;
    st = check(&g, low, high, nyquist, err);
    if (st)
        return st;
    if (kind == STENO_MEL_KALDI) {
        g.low = (double)kaldi_mel((float)low);
        g.high = (double)kaldi_mel((float)high);
        g.step = (double)(((float)g.high - (float)g.low) / (float)(bins + 1));
    } else {
        g.low = slaney_mel(low);
        g.high = slaney_mel(high);
        g.step = (g.high - g.low) / (double)(bins + 1);
    }
    m = calloc(1, sizeof *m);
    if (m) {
        m->bins = bins;
        m->spectrum = g.spectrum;
        m->filter = calloc(bins, sizeof *m->filter);
    }
    st = m && m->filter ? fill(m, &g, err)
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
    free(m->filter);
    free(m->weights);
    free(m);
}

void steno_mel_apply(const steno_mel *m, const float *power, float *out)
{
    for (size_t b = 0; b < m->bins; b++) {
        const struct filter *f = &m->filter[b];
        const float *w = m->weights + f->at, *p = power + f->first;
        float s[LANES] = {0};
        for (unsigned g = 0; g < f->groups; g++, w += LANES, p += LANES)
            for (unsigned l = 0; l < LANES; l++)
                s[l] += w[l] * p[l];
        for (unsigned i = 0; i < f->tail; i++)
            s[0] += w[i] * p[i];
        out[b] = (s[0] + s[1]) + (s[2] + s[3]);
    }
}

size_t steno_mel_bins(const steno_mel *m)
{
    return m->bins;
}
