/* What the parts of the front end share. */
#ifndef STENO_FEATURES_INTERNAL_H
#define STENO_FEATURES_INTERNAL_H

#include <kiss_fftr.h>
#include <stdbool.h>

#include "features/fbank.h"
#include "features/fft.h"
#include "features/mel.h"
#include "nn/kernels/fbank.h"
#include "nn/kernels/kernels.h"
#include "nn/kernels/vec4.h"

struct steno_fft {
    size_t n;
    /* kissfft */
    kiss_fftr_cfg plan;
    kiss_fft_cpx *spec; /* [n/2 + 1] */
    /* sizes of nn/kernels/fft.h: one block of memory, with scratch [2 n] behind the tables */
    float *block, *scratch;
    struct steno_fft_tables own;
};

struct steno_mel {
    size_t bins, quads;
    struct steno_mel_quad *quad;
    float *weights; /* [quad][vector][filter of the quad][lane] */
};

struct steno_fbank {
    struct steno_fbank_options opt;
    bool shares; /* window, filters and, where it is ours, the transform are another's */
    size_t length, shift, fft_size;
    int64_t offset;  /* start of frame 0 */
    int64_t base;    /* index of buf[0] in the signal */
    int64_t next;    /* frame to compute */
    size_t len, cap; /* of buf */
    float *buf;
    float *window; /* [length], scale folded in */
    float *edge;   /* [length] a frame that reaches over an edge */
    float *frame;  /* [fft_size] windowed, zeros behind */
    float *power;  /* [fft_size/2 + 1 + STENO_MEL_PAD] */
    float
        *scratch; /* [2 fft_size] for a transform of ours, whose plan then is only read; or NULL */
    steno_fft *fft;
    steno_mel *mel;
    struct steno_fbank_tables tables; /* all of the above, as kernels take it */
    /* The CPU's slot; NULL: this front end's transform, or what it makes of it, is another. */
    void (*frames)(const struct steno_fbank_tables *t, const float *x, size_t n, float *out);
};

/* mel.c: the filters in t. */
void steno_mel_tables(const steno_mel *m, struct steno_fbank_tables *t);

#endif
