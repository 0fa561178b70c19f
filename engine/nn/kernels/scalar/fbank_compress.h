/* How an energy is floored and taken the logarithm of: the same at every level. */
#ifndef STENO_NN_KERNELS_SCALAR_FBANK_COMPRESS_H
#define STENO_NN_KERNELS_SCALAR_FBANK_COMPRESS_H

#include "nn/kernels/fbank.h"

#include <float.h>
#include <math.h>

static inline float fbank_compress(const struct steno_fbank_tables *t, float x)
{
    x = x > t->floor ? x : t->floor;
    return t->log ? logf(x) * t->log_scale : x;
}

/* Where the floor keeps them normal, bins go four at a time through tmpl/log_tmpl.h; what is left
 * over goes through the library's logarithm. */
static inline bool fbank_by_four(const struct steno_fbank_tables *t, size_t bin)
{
    return t->floor >= FLT_MIN && bin < t->bins / 4 * 4;
}

#endif
