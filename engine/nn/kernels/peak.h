/* What this machine can do at best on one core: the denominators of every speed we report. */
#ifndef STENO_NN_KERNELS_PEAK_H
#define STENO_NN_KERNELS_PEAK_H

#include "nn/kernels/kernels.h"

/* Floating point operations per second of the level's own multiply-add in registers (a fused
 * multiply-add counts as two). Takes some 20 ms; the best of several short runs, so that another
 * process on the core does not lower it. */
double steno_peak_flops(const steno_kernels *k);
/* The same for f32 products with many rows, which level amx makes of six products of bf16 each. */
double steno_peak_many(const steno_kernels *k);
/* The same for what the product with weights in bf16 multiplies with. */
double steno_peak_bf16(const steno_kernels *k);
/* The same for the instruction of the 8-bit product, in integer operations. */
double steno_peak_ops_i8(const steno_kernels *k);
/* Bytes per second of reading memory in order, far beyond the caches. Allocates 288 MiB for the
 * time of the call; 0 when it cannot. */
double steno_peak_bandwidth(void);

#endif
