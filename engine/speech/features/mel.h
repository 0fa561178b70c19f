/* Triangular mel filters over a power spectrum, stored sparse. Frozen after open. */
#ifndef STENO_FEATURES_MEL_H
#define STENO_FEATURES_MEL_H

#include "base/status.h"

typedef struct steno_mel steno_mel;

enum steno_mel_kind {
    /* HTK scale 1127 ln(1 + f/700) (The HTK Book, section 5.4); triangles linear on the mel axis,
     * no normalisation, Nyquist bin unused: Kaldi's mel-computations.cc. */
    STENO_MEL_KALDI,
    STENO_MEL_KALDI_SPARSE, /* the same, but a filter too narrow to contain an FFT bin is empty */
    /* HTK's scale too, 2595 log10(1 + f/700); triangles linear on the Hz axis, no normalisation:
     * torchaudio's melscale_fbanks defaults, as used by GigaAM. */
    STENO_MEL_HTK,
    /* Slaney scale (Auditory Toolbox: linear to 1 kHz, logarithmic above); triangles linear on the
     * Hz axis, area-normalised by 2 / (f[m+2] - f[m]): librosa.filters.mel defaults, as used by
     * ESPnet, Whisper and NeMo. */
    STENO_MEL_SLANEY,
    /* Of front ends alone (fbank.h): no transform. A frame is its samples, times the scale; bins is
     * their number, and edges are STENO_EDGES_SNIP. */
    STENO_MEL_NONE
};

/* Open filters. fft_size: points of the transform. low, high: edge frequencies in Hz; high <= 0
 * counts down from Nyquist (Kaldi's convention: 0 = Nyquist, -400 = 7600 at 16 kHz).
 * STENO_ERR_INVAL: edges out of order, bins outside 1..512, or (Kaldi kind) a filter too narrow to
 * contain an FFT bin; the message names it. */
STENO_MUST steno_status steno_mel_open(steno_mel **out, enum steno_mel_kind kind, int sample_rate,
                                       size_t fft_size, size_t bins, double low, double high,
                                       steno_err *err);
void steno_mel_close(steno_mel *m);
/* Filters read so many floats behind a power spectrum, which must be finite and have no effect. */
#define STENO_MEL_PAD 3

#endif
