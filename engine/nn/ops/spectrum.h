/* Short-time Fourier transforms that exporters write as a convolution. */
#ifndef STENO_NN_OPS_SPECTRUM_H
#define STENO_NN_OPS_SPECTRUM_H

#include "nn/graph/tensor.h"

/* True when w [2 (n/2 + 1), 1, n] f32 holds v[i] cos(2 pi k i / n) for k = 0 .. n/2, followed by
 * plus or minus v[i] sin(2 pi k i / n): a DFT of frames of n samples under the window v. n: a power
 * of two from 64 to 8192. */
bool steno_ops_is_dft(const struct steno_tensor *w);

#endif
