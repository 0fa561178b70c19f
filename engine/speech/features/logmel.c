#include "speech/features/logmel.h"

struct steno_fbank_options steno_logmel_espnet(int sample_rate, size_t n_fft, size_t win_length,
                                               size_t hop, size_t bins, double fmin, double fmax)
{
    struct steno_fbank_options o = {
        .sample_rate = sample_rate,
        .length_ms = 1000.0 * (double)win_length / sample_rate,
        .shift_ms = 1000.0 * (double)hop / sample_rate,
        .fft_size = n_fft,
        .edges = STENO_EDGES_CENTER,
        .window = STENO_WINDOW_HANN_PERIODIC,
        .mel = STENO_MEL_SLANEY,
        .bins = bins,
        .low = fmin,
        .high = fmax,
        .log = STENO_LOG_NATURAL,
        .floor = 1e-10f,
        .scale = 1,
    };
    return o;
}

struct steno_fbank_options steno_logmel_whisper(size_t bins)
{
    struct steno_fbank_options o = steno_logmel_espnet(16000, 400, 400, 160, bins, 0, 0);
    o.log = STENO_LOG_10;
    return o;
}

struct steno_fbank_options steno_logmel_nemo(int sample_rate, size_t bins)
{
    struct steno_fbank_options o = steno_fbank_nemo(sample_rate, bins);
    o.fft_size = 512;
    o.edges = STENO_EDGES_ZERO;
    o.window = STENO_WINDOW_HANN;
    o.floor = 0;
    o.offset = 0x1p-24F;
    return o;
}

struct steno_fbank_options steno_logmel_gigaam(int sample_rate, size_t bins, bool version_3)
{
    const size_t hop = (size_t)sample_rate / 100, length = version_3 ? 2 * hop : 5 * hop / 2;
    struct steno_fbank_options o =
        steno_logmel_espnet(sample_rate, length, length, hop, bins, 0, 0);
    o.edges = version_3 ? STENO_EDGES_SNIP : STENO_EDGES_CENTER;
    o.mel = STENO_MEL_HTK;
    o.floor = 1e-9f;
    o.bf16 = version_3;
    return o;
}

struct steno_fbank_options steno_logmel_granite(void)
{
    struct steno_fbank_options o = steno_logmel_espnet(16000, 512, 400, 160, 80, 0, 0);
    o.mel = STENO_MEL_HTK;
    o.log = STENO_LOG_10;
    return o;
}

struct steno_fbank_options steno_logmel_lasr(void)
{
    struct steno_fbank_options o = steno_fbank_kaldi(16000, 128);
    o.window = STENO_WINDOW_HANN;
    o.preemph = 0;
    o.remove_dc = false;
    o.mel = STENO_MEL_KALDI_SPARSE;
    o.low = 125;
    o.high = 7500;
    o.floor = 1e-5F;
    return o;
}

void steno_logmel_whisper_scale(float *x, size_t frames, size_t bins)
{
    size_t n = frames * bins, i;
    float max;
    if (!n)
        return;
    max = x[0];
    for (i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (i = 0; i < n; i++)
        x[i] = ((x[i] > max - 8 ? x[i] : max - 8) + 4) / 4;
}
