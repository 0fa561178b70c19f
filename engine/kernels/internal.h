/* Who fills which slots: each file of a level sets those of its family. */
#ifndef STENO_KERNELS_INTERNAL_H
#define STENO_KERNELS_INTERNAL_H

#include "kernels/kernels.h"

void steno_kernels_scalar_elementwise(steno_kernels *k);
void steno_kernels_scalar_rows(steno_kernels *k); /* reductions, norms, transpose */
void steno_kernels_scalar_gemm(steno_kernels *k);
void steno_kernels_scalar_conv(steno_kernels *k);

#endif
