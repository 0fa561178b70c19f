/* Whisper's input: log-mel of a whole recording, and windows of it as the encoder takes them. */
#ifndef STENO_FAMILIES_WHISPER_MEL_H
#define STENO_FAMILIES_WHISPER_MEL_H

#include "base/status.h"

/* Log-mel of pcm [n] at 16 kHz as faster-whisper computes it: 160 zeros are appended, the range
 * below the recording's maximum is cut to 8 decades, (x + 4) / 4. *out: [*frames, mels], malloc'd,
 * the caller's to free; *frames = n / 160 (what the appended zeros add is left out, but counts for
 * the maximum). STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_whisper_logmel(const float *pcm, size_t n, size_t mels, float **out,
                                             size_t *frames, steno_err *err);
/* Frames `from` to from + n of mel [.., mels], followed by frames of 0, as rows for the encoder:
 * out [rows, 3 mels], row t is frames t - 1, t, t + 1; zeros beyond both ends. */
void steno_whisper_frames(const float *mel, size_t from, size_t n, size_t mels, size_t rows,
                          float *out);

#endif
