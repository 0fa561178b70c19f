/* Power spectra of real signals whose length n is a power of two, 64 to 8192. Tables are filled
 * once; any number of threads may use them. */
#ifndef STENO_NN_KERNELS_FFT_H
#define STENO_NN_KERNELS_FFT_H

#include <stddef.h>

struct steno_fft_tables {
    size_t n, m;                /* m = n/2 */
    const float *tw;            /* twiddles of all radix-4 stages, in the order they are read */
    const float *cosine, *sine; /* [m/2 + 1] of pi k/m */
};

/* Number of floats of the tables; 0: n is no such length. */
size_t steno_fft_room(size_t n);
/* Fill t. room [steno_fft_room(n)]: the tables point into it. */
void steno_fft_fill(struct steno_fft_tables *t, size_t n, float *room);
/* x [n] -> power [n/2 + 1] = |X[k]|^2, k from DC to Nyquist, no scaling. scratch [2 n]. */
void steno_fft_spectrum(const struct steno_fft_tables *t, const float *x, float *power,
                        float *scratch);

#endif
