/* Frames of samples to log-mel energies: the tables of the slot fbank_f32, and the steps of one
 * frame for front ends with another transform. */
#ifndef STENO_NN_KERNELS_FBANK_H
#define STENO_NN_KERNELS_FBANK_H

#include "nn/kernels/fft.h"

#include <stdbool.h>

/* Four mel filters. All read the same number of vectors of four bins, with zero weights beyond a
 * filter's end. */
struct steno_mel_quad {
    unsigned first[4]; /* FFT bin of the first weight of each filter */
    unsigned vectors;  /* vectors of four weights in each filter */
    size_t at;         /* index in weights[] */
};

#define STENO_FBANK_FFT 512 /* longest transform of the slot: eight of 512 fit into L1 */
#define STENO_FBANK_PAD                                                                            \
    3 /* finite floats after a spectrum; filters read them, but they have no effect */

struct steno_fbank_tables {
    size_t length, shift; /* samples of a frame; samples from one frame to the next */
    bool remove_dc;
    float preemph;
    const float *window; /* [length] */
    struct steno_fft_tables fft;
    size_t bins;
    const struct steno_mel_quad *quad; /* [(bins + 3) / 4] */
    const float *weights;              /* [quad][vector][filter of the quad][lane] */
    float floor;                       /* of the energies */
    float offset;                      /* added to them after the floor */
    bool log;
    float log_scale; /* factor of the natural logarithm */
};

/* x [length] -> frame [length]: y[i] = (x[i] - dc) - preemph (x[i-1] - dc), times window[i]. x[-1]
 * is x[0]. dc: the mean if remove_dc, else 0. */
void steno_fbank_window(const struct steno_fbank_tables *t, const float *x, float *frame);
/* power [bins of the FFT + STENO_FBANK_PAD] -> out [bins] sums by filter. */
void steno_fbank_filter(const struct steno_fbank_tables *t, const float *power, float *out);
/* Floor, offset and logarithm of x [bins]. */
void steno_fbank_compress(const struct steno_fbank_tables *t, float *x);

#endif
