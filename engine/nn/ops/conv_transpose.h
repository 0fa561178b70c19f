/* Transposed convolution of f32 images as a product and a scattered sum. */
#ifndef STENO_NN_OPS_CONV_TRANSPOSE_H
#define STENO_NN_OPS_CONV_TRANSPOSE_H

#include "nn/ops/internal.h"

/* x [batch, c_in, in0, in1], w [c_in, c_out / group, kernel0, kernel1], y [batch, c_out, out0,
 * out1]: y[o, i s0 + a d0 - before0, j s1 + b d1 - before1] += x[c, i, j] w[c, o, a, b], of all
 * that lies inside y. ONNX ConvTranspose, opset 1 and later. */
struct steno_conv_transpose {
    size_t batch, c_in, c_out, group;
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], before[2];
    const float *x, *w, *bias; /* bias [c_out] or NULL */
    float *y;
    /* w of each group from gemm_f32_pack, [c_in / group, c_out / group * taps], `each` bytes apart;
     * NULL: w is not packed */
    const char *packed;
    size_t each;
};
/* Compute y. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ops_conv_transpose(struct steno_op_ctx *ctx,
                                                 const struct steno_conv_transpose *t,
                                                 steno_err *err);

#endif
