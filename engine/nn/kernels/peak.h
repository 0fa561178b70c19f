/* The best speed of one core of this machine: the denominators of every speed that we report. */
#ifndef STENO_NN_KERNELS_PEAK_H
#define STENO_NN_KERNELS_PEAK_H

#include "nn/kernels/kernels.h"

/* Floating point operations per second of the level's multiply-add in registers (a fused
 * multiply-add counts as two). Takes some 20 ms: the best of several short runs, so that another
 * process on the core does not lower the result. */
double steno_peak_flops(const steno_kernels *k);
/* The same for the instruction of the product with bf16 weights. */
double steno_peak_bf16(const steno_kernels *k);
/* The same for the instruction of the 8-bit product, in integer operations. */
double steno_peak_ops_i8(const steno_kernels *k);
/* Bytes per second of sequential reads from memory, far beyond the caches. Allocates 288 MiB during
 * the call; returns 0 if it cannot. */
double steno_peak_bandwidth(void);

#endif
