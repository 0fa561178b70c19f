/* Whisper's input: log-mel frames of a recording as it comes, and windows of it as the encoder
 * takes them (faster-whisper, feature_extractor.py). */
#ifndef STENO_FAMILIES_WHISPER_MEL_H
#define STENO_FAMILIES_WHISPER_MEL_H

#include "base/status.h"

typedef struct steno_whisper_mel steno_whisper_mel; /* confined */

STENO_MUST steno_status steno_whisper_mel_open(steno_whisper_mel **out, size_t mels,
                                               steno_err *err);
void steno_whisper_mel_close(steno_whisper_mel *f);
/* Begin another recording; memory is kept. */
void steno_whisper_mel_restart(steno_whisper_mel *f);
/* Append samples at 16 kHz. STENO_ERR_NOMEM, STENO_ERR_INVAL after the end. */
STENO_MUST steno_status steno_whisper_mel_push(steno_whisper_mel *f, const float *pcm, size_t n,
                                               steno_err *err);
/* No more samples: 160 zeros are appended, and all frames are there. */
STENO_MUST steno_status steno_whisper_mel_end(steno_whisper_mel *f, steno_err *err);
/* The same, but steno_whisper_mel_resume takes it back: then samples follow again, as if there had
 * been no end. No frames may be dropped in between. */
STENO_MUST steno_status steno_whisper_mel_end_early(steno_whisper_mel *f, steno_err *err);
void steno_whisper_mel_resume(steno_whisper_mel *f);
/* Frames of the recording so far, 10 ms each: after the end, samples / 160. One more lies behind
 * them then, made of the zeros, which the detection of languages sees. */
size_t steno_whisper_mel_frames(const steno_whisper_mel *f);
/* Frames from number `from` on, logarithms to base 10; *n: how many lie there. */
const float *steno_whisper_mel_at(const steno_whisper_mel *f, size_t from, size_t *n);
/* Frames before number `from` are not needed any more. */
void steno_whisper_mel_drop(steno_whisper_mel *f, size_t from);
/* What quieter bands are raised to: 8 decades below the loudest so far. */
float steno_whisper_mel_floor(const steno_whisper_mel *f);

/* n frames mel [n, mels], raised to the floor and scaled, (x + 4) / 4, and frames of 0 behind them,
 * as rows for the encoder: out [rows, 3 mels], row t is frames t - 1, t, t + 1; zeros beyond both
 * ends.
 */
void steno_whisper_frames(const float *mel, size_t n, float floor, size_t mels, size_t rows,
                          float *out);

#endif
