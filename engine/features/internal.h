/* What the parts of the front end share: fbank.c and fft.c, which compute one frame at a time over
 * four-lane vectors, and lanes_avx2.c, which computes eight frames side by side with the same
 * operations in the same order, hence the same bits. */
#ifndef STENO_FEATURES_INTERNAL_H
#define STENO_FEATURES_INTERNAL_H

#include <float.h>
#include <kiss_fftr.h>
#include <math.h>
#include <stdbool.h>

#include "features/fbank.h"
#include "features/fft.h"
#include "features/mel.h"
#include "features/vec.h"

struct steno_fft {
    size_t n, m;
    /* kissfft */
    kiss_fftr_cfg plan;
    kiss_fft_cpx *spec; /* [n/2 + 1] */
    /* ours: one block of memory, parts of it below */
    float *block;
    float *re, *im, *re2, *im2; /* [m] each, the stages go from one pair to the other */
    float *tw;                  /* twiddles of all radix-4 stages, in the order they are read */
    float *cosine, *sine;       /* [m/2 + 1] of pi k/m */
};

/* Four filters. */
struct steno_mel_quad {
    unsigned first[4]; /* FFT bin of the first weight of each filter */
    unsigned vectors;  /* of STENO_V4 weights in each filter */
    size_t at;         /* in weights[] */
};

struct steno_mel {
    size_t bins, quads;
    struct steno_mel_quad *quad;
    float *weights; /* [quad][vector][filter of the quad][lane] */
};

#define STENO_LANES 8       /* frames side by side */
#define STENO_LANES_MIN 3   /* from so many on they cost less than one by one */
#define STENO_LANES_FFT 512 /* longest transform: beyond it eight do not fit into L1 */
/* The n (1..STENO_LANES) frames that begin at x, x + shift, ...; all samples are there.
 * out: [n, bins]. */
typedef void steno_lanes_fn(const steno_fbank *f, const float *x, size_t n, float *out);

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
    steno_lanes_fn *lanes; /* NULL: this CPU, or this front end, has one frame at a time only */
};

steno_lanes_fn steno_fbank_lanes__avx2;

/* Floor and logarithm of one energy. Where the floor keeps them normal, bins go four at a time
 * through v4_log, what is left over through the library's logarithm. */
static inline float steno_compress_scale(const struct steno_fbank_options *o)
{
    return o->log == STENO_LOG_10 ? 0.434294482f : 1;
}

static inline float steno_compress(const struct steno_fbank_options *o, float x)
{
    x = x > o->floor ? x : o->floor;
    return o->log == STENO_LOG_NONE ? x : logf(x) * steno_compress_scale(o);
}

static inline bool steno_compress_by_four(const struct steno_fbank_options *o, size_t bin)
{
    return o->floor >= FLT_MIN && bin < o->bins / STENO_V4 * STENO_V4;
}

#endif
