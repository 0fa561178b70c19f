/* Power spectrum of real signals of one fixed size. The plan is made once and reused. Confined: a
 * transform uses scratch memory inside the plan. */
#ifndef STENO_FEATURES_FFT_H
#define STENO_FEATURES_FFT_H

#include "base/status.h"

typedef struct steno_fft steno_fft;

/* n: even, 2..65536. Powers of two from 64 to 8192 use our own transform, all others kissfft (fast
 * with factors 2, 3, 5 only: 400, 480, 640, ...). */
STENO_MUST steno_status steno_fft_open(steno_fft **out, size_t n, steno_err *err);
void steno_fft_close(steno_fft *f);
/* x [n] -> power [n/2 + 1] = |X[k]|^2, k from DC to Nyquist, no scaling. */
void steno_fft_power(steno_fft *f, const float *x, float *power);
/* The same with the caller's scratch [2 n], so that any number of threads may use one plan. n: a
 * power of two from 64 to 8192. */
void steno_fft_power_in(const steno_fft *f, const float *x, float *power, float *scratch);

#endif
