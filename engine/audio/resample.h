/* Mono sample rate conversion as a stream, by libsoxr. Output sample k lies at input time
 * k / out_rate: the filter's delay is already taken out, and after flush the output holds
 * round(inputs * out_rate / in_rate) samples. The same samples come out, bit for bit, however the
 * input is cut. Equal rates pass through untouched. */
#ifndef STENO_AUDIO_RESAMPLE_H
#define STENO_AUDIO_RESAMPLE_H

#include "base/status.h"

typedef struct steno_resampler steno_resampler;

/* Rates STENO_RATE_MIN..STENO_RATE_MAX Hz (audio/pcm.h), else STENO_ERR_INVAL. Confined. */
STENO_MUST steno_status steno_resampler_open(steno_resampler **out, int in_rate, int out_rate,
                                             steno_err *err);
void steno_resampler_close(steno_resampler *r);

/* in [n] f32 (finite), *used of them taken; out [max] f32, *made written. *used < n only when out
 * is full: call again with the rest. STENO_NEED_MORE: all taken, nothing came out yet. */
STENO_MUST steno_status steno_resampler_push(steno_resampler *r, const float *in, size_t n,
                                             size_t *used, float *out, size_t max, size_t *made,
                                             steno_err *err);
/* No more input: call until *made is 0. After that only reset or close. */
STENO_MUST steno_status steno_resampler_flush(steno_resampler *r, float *out, size_t max,
                                              size_t *made, steno_err *err);
/* Ready for a new signal, same rates. */
STENO_MUST steno_status steno_resampler_reset(steno_resampler *r, steno_err *err);

/* Room that one push of n samples can need at most. */
size_t steno_resampler_max_out(const steno_resampler *r, size_t n);
/* Input taken in but not yet come out, in samples at the output rate (0 when passing through). */
double steno_resampler_delay(const steno_resampler *r);

#endif
