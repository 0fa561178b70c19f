/* Frames of samples to log-mel energies: what the slot fbank_f32 is given, and the steps of one
 * frame for those whose transform is another. */
#ifndef STENO_NN_KERNELS_FBANK_H
#define STENO_NN_KERNELS_FBANK_H

#include "nn/kernels/fft.h"

#include <stdbool.h>

/* Four mel filters: they read equally many vectors of four bins, with zero weights where a filter
 * is over. */
struct steno_mel_quad {
    unsigned first[4]; /* FFT bin of the first weight of each filter */
    unsigned vectors;  /* of four weights in each filter */
    size_t at;         /* in weights[] */
};

#define STENO_FBANK_FFT 512 /* longest transform of the slot: beyond it eight do not fit into L1   \
                             */
#define STENO_FBANK_PAD 3   /* floats behind a spectrum that filters read, finite, without effect */

struct steno_fbank_tables {
    size_t length, shift; /* samples of a frame, and from one to the next */
    bool remove_dc;
    float preemph;
    const float *window; /* [length] */
    struct steno_fft_tables fft;
    size_t bins;
    const struct steno_mel_quad *quad; /* [(bins + 3) / 4] */
    const float *weights;              /* [quad][vector][filter of the quad][lane] */
    float floor;                       /* of an energy */
    bool log;
    float log_scale; /* of the natural logarithm */
};

/* x [length] -> frame [length]: y[i] = (x[i] - dc) - preemph (x[i-1] - dc), x[-1] being x[0], times
 * window[i]; dc: the mean, where it is removed. */
void steno_fbank_window(const struct steno_fbank_tables *t, const float *x, float *frame);
/* power [bins of the FFT + STENO_FBANK_PAD] -> out [bins] sums by filter. */
void steno_fbank_filter(const struct steno_fbank_tables *t, const float *power, float *out);
/* Floor and logarithm of x [bins]. */
void steno_fbank_compress(const struct steno_fbank_tables *t, float *x);

#endif
