/* Floor, offset and logarithm of an energy: the same at every level. */
#ifndef STENO_NN_KERNELS_SCALAR_FBANK_COMPRESS_H
#define STENO_NN_KERNELS_SCALAR_FBANK_COMPRESS_H

#include "nn/kernels/fbank.h"

#include <float.h>
#include <math.h>

static inline float fbank_compress(const struct steno_fbank_tables *t, float x)
{
    x = (x > t->floor ? x : t->floor) + t->offset;
    return t->log ? logf(x) * t->log_scale : x;
}

/* True where floor and offset keep the energies of a bin's group of four normal: those go through
 * tmpl/log_tmpl.h. The remaining bins use the C library's logarithm. */
static inline bool fbank_by_four(const struct steno_fbank_tables *t, size_t bin)
{
    return t->floor + t->offset >= FLT_MIN && bin < t->bins / 4 * 4;
}

#endif
