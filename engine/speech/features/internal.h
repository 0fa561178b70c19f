/* Types that the parts of the front end share. */
#ifndef STENO_FEATURES_INTERNAL_H
#define STENO_FEATURES_INTERNAL_H

#include <kiss_fftr.h>
#include <stdbool.h>

#include "base/array.h"
#include "speech/features/fbank.h"
#include "speech/features/fft.h"
#include "speech/features/mel.h"
#include "nn/kernels/fbank.h"
#include "nn/kernels/kernels.h"
#include "nn/kernels/vec4.h"

struct steno_fft {
    size_t n;
    /* kissfft */
    kiss_fftr_cfg plan;
    kiss_fft_cpx *spec; /* [n/2 + 1] */
    /* sizes of nn/kernels/fft.h: one block of memory, the tables and after them scratch [2 n] */
    float *block, *scratch;
    struct steno_fft_tables own;
};

struct steno_mel {
    size_t bins, quads, n_weights;
    struct steno_mel_quad *quad;
    float *weights; /* [quad][vector][filter of the quad][lane] */
};

struct steno_fbank {
    struct steno_fbank_options opt;
    bool shares; /* window, filters and (if it is ours) the transform belong to another front end */
    size_t length, shift, fft_size;
    int64_t offset;  /* start of frame 0 */
    int64_t base;    /* index of buf[0] in the signal */
    int64_t next;    /* the next frame to compute */
    size_t len, cap; /* of buf */
    float *buf;
    float *window;  /* [length], scale folded in */
    float *edge;    /* [length] a frame that reaches over an edge */
    float *frame;   /* [fft_size] windowed, followed by zeros */
    float *power;   /* [fft_size/2 + 1 + STENO_MEL_PAD] */
    float *scratch; /* [2 fft_size] for our own transform, whose plan is then only read; or NULL */
    struct steno_blocks memory; /* of the above, as far as they are this front end's own */
    steno_fft *fft;
    steno_mel *mel;
    struct steno_fbank_tables tables; /* all of the above, in the form of the kernel */
    /* The CPU's slot. NULL: the slot does not compute this front end's transform or what follows
     * it. */
    void (*frames)(const struct steno_fbank_tables *t, const float *x, size_t n, float *out);
};

/* mel.c: rounds numbers, or the filters' weights, to bfloat16, to the nearest, ties to even. */
void steno_features_round(float *x, size_t n);
void steno_mel_round(steno_mel *m);
/* mel.c: sets the filters in t. */
void steno_mel_tables(const steno_mel *m, struct steno_fbank_tables *t);

#endif
