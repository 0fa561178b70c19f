/* Mono sample rate conversion as a stream, by libsoxr. Output sample k is at input time k /
 * out_rate: the filter's delay is already compensated, and after flush the output has round(inputs
 * * out_rate / in_rate) samples. The output is the same bit for bit, however the input is cut. With
 * equal rates samples pass unchanged. */
#ifndef STENO_AUDIO_RESAMPLE_H
#define STENO_AUDIO_RESAMPLE_H

#include "base/status.h"

typedef struct steno_resampler steno_resampler;

/* Open a resampler. STENO_ERR_INVAL: a rate outside STENO_RATE_MIN..STENO_RATE_MAX Hz
 * (audio/pcm.h). Confined. */
STENO_MUST steno_status steno_resampler_open(steno_resampler **out, int in_rate, int out_rate,
                                             steno_err *err);
void steno_resampler_close(steno_resampler *r);

/* Resample in [n] f32 (finite), *used of them taken, to out [max] f32, *made written. *used < n
 * only when out is full: call again with the rest. STENO_NEED_MORE: all samples were taken, and no
 * output is ready yet. */
STENO_MUST steno_status steno_resampler_push(steno_resampler *r, const float *in, size_t n,
                                             size_t *used, float *out, size_t max, size_t *made,
                                             steno_err *err);
/* End the input: call until *made is 0. After that only reset or close is allowed. */
STENO_MUST steno_status steno_resampler_flush(steno_resampler *r, float *out, size_t max,
                                              size_t *made, steno_err *err);
#define STENO_RESAMPLER_PART 4096
typedef steno_status steno_resampler_take(void *ctx, const float *x, size_t n, steno_err *err);
/* Push all of in [n], or with in NULL end the input, and give what comes out to `take`, in parts of
 * 1 to STENO_RESAMPLER_PART samples. Errors of take. */
STENO_MUST steno_status steno_resampler_pass(steno_resampler *r, const float *in, size_t n,
                                             steno_resampler_take *take, void *ctx, steno_err *err);
/* Reset for a new signal with the same rates. */
STENO_MUST steno_status steno_resampler_reset(steno_resampler *r, steno_err *err);

/* Maximum of output samples of one push of n samples. */
size_t steno_resampler_max_out(const steno_resampler *r, size_t n);
/* Input that was taken but is not in the output yet, in samples at the output rate (0 with equal
 * rates). */
double steno_resampler_delay(const steno_resampler *r);

#endif
