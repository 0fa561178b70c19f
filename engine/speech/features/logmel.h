/* Front ends with a centred STFT as options of fbank.h, and Whisper's range compression. */
#ifndef STENO_FEATURES_LOGMEL_H
#define STENO_FEATURES_LOGMEL_H

#include <stdbool.h>

#include "speech/features/fbank.h"

/* ESPnet's DefaultFrontend (espnet2/asr/frontend/default.py, layers/log_mel.py): STFT centred with
 * reflected edges, periodic Hann of win_length centred in n_fft, |X|^2, Slaney mel with area
 * normalisation, clip at 1e-10, natural logarithm. win_length <= n_fft; fmax <= 0 = Nyquist. */
struct steno_fbank_options steno_logmel_espnet(int sample_rate, size_t n_fft, size_t win_length,
                                               size_t hop, size_t bins, double fmin, double fmax);
/* Whisper (openai/whisper audio.py): n_fft 400, hop 160 at 16 kHz, 80 or 128 Slaney mels, log10
 * with clip 1e-10. Whisper drops the last frame (n / hop frames remain): the caller must do so too.
 * Then steno_logmel_whisper_scale compresses the window's range. */
struct steno_fbank_options steno_logmel_whisper(size_t bins);
/* NeMo's FilterbankFeatures (nemo/collections/asr/parts/preprocessing/features.py) at its defaults:
 * pre-emphasis 0.97 over the signal, 512 points centred with zeros at the edges, symmetric Hann of
 * 25 ms, hop 10 ms, |X|^2, Slaney mel from 0 Hz to Nyquist, ln(x + 2^-24). The normalisation of its
 * frames is the caller's. */
struct steno_fbank_options steno_logmel_nemo(int sample_rate, size_t bins);
/* GigaAM (gigaam/preprocess.py): periodic Hann, hop 10 ms, |X|^2, 64 HTK mels from 0 Hz to Nyquist,
 * ln(max(x, 1e-9)). Versions 1 and 2 have 25 ms and centred frames, with reflected edges; from
 * version 3 on frames have 20 ms, only whole ones count, and window and filters are bfloat16. */
struct steno_fbank_options steno_logmel_gigaam(int sample_rate, size_t bins, bool version_3);
/* LASR, of MedASR (transformers, LasrFeatureExtractor), at 16 kHz: whole frames of 25 ms, symmetric
 * Hann, 512 points, |X|^2, 128 Kaldi filters 125 to 7500 Hz of which the lowest are empty,
 * ln(max(x, 1e-5)). */
struct steno_fbank_options steno_logmel_lasr(void);
/* Granite Speech (transformers, GraniteSpeechFeatureExtractor), at 16 kHz: centred frames of 25 ms
 * in 512 points with reflected edges, periodic Hann, |X|^2, 80 HTK mels, log10 with clip 1e-10;
 * n / hop + 1 frames, all of which steno_logmel_whisper_scale sees. */
struct steno_fbank_options steno_logmel_granite(void);
/* In place over one whole window [frames, bins]: x = (max(x, max - 8) + 4) / 4. */
void steno_logmel_whisper_scale(float *x, size_t frames, size_t bins);

#endif
