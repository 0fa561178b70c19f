/* Winograd convolution of an f32 image with 8-bit weights (nn/kernels/winograd.h). */
#ifndef STENO_NN_OPS_CONV_WINOGRAD_I8_H
#define STENO_NN_OPS_CONV_WINOGRAD_I8_H

#include "nn/ops/weights.h"

/* One image x [in0 * in1, c_in]: y [out0 * out1, c_out] = ep(conv). slots: STENO_WINOGRAD_SLOTS
 * matrices of weights, [c_in, c_out] each. Each sum or difference of pixels is quantized over its
 * own range, and so is each matrix of weights. The error is that of quantized patches, or a tenth
 * more. A pixel of y depends on the patches of its 3 x 3 outputs, which are computed together. */
struct steno_conv_winograd_i8 {
    const struct steno_conv *s;
    const float *x;
    const struct steno_weights *slots;
    const struct steno_gemm_epilogue *ep;
    float *y;
};
/* Compute part `part` of n_parts. Call it once for every part; all parts share one 64-byte aligned
 * block of work bytes. */
size_t steno_conv_few_work(const struct steno_conv *s, size_t n_parts);
void steno_conv_few_part(const steno_kernels *k, const struct steno_conv_winograd_i8 *c, void *work,
                         size_t part, size_t n_parts);

#endif
