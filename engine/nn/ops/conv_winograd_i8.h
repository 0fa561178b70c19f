/* Convolution of an f32 image by weights of 8 bits with fewer multiplications
 * (nn/kernels/winograd.h). */
#ifndef STENO_NN_OPS_CONV_WINOGRAD_I8_H
#define STENO_NN_OPS_CONV_WINOGRAD_I8_H

#include "nn/ops/weights.h"

/* One image x [in0 * in1, c_in]: y [out0 * out1, c_out] = ep(conv). slots: STENO_WINOGRAD_SLOTS of
 * them, [c_in, c_out] each. Sums and differences of pixels are rounded over a range of their own,
 * and so is each matrix of weights: the error is that of patches rounded as they are, or a tenth
 * more. A pixel of y depends on the patches of the three by three that it is made with. */
struct steno_conv_winograd_i8 {
    const struct steno_conv *s;
    const float *x;
    const struct steno_weights *slots;
    const struct steno_gemm_epilogue *ep;
    float *y;
};
/* Shared out as kernels are: once for every part, all with one 64-byte aligned block of work bytes.
 */
size_t steno_conv_few_work(const struct steno_conv *s, size_t n_parts);
void steno_conv_few_part(const steno_kernels *k, const struct steno_conv_winograd_i8 *c, void *work,
                         size_t part, size_t n_parts);

#endif
