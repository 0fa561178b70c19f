/* Convolution of a byte image as products of 8-bit patches (nn/ops/int8.h). */
#ifndef STENO_NN_OPS_CONV_I8_H
#define STENO_NN_OPS_CONV_I8_H

#include "nn/ops/int8.h"
#include "nn/ops/weights.h"

/* One image, one group. The packed weights are [taps * c_in, c_out]: tap by tap, all channels of
 * each tap (steno_ops_conv_rows converts ONNX's layout into that order). */
struct steno_conv_i8 {
    const struct steno_conv *s;
    const uint8_t *x;          /* [in0 * in1, c_in]: channels last */
    uint8_t pad;               /* padding value: the zero point of x */
    struct steno_gemm_i8 like; /* a_signed, a_zero (one), packed, scale, ep (bias, act) */
    void *y;                   /* [c_out, out0 * out1] i32 or f32, as the product has it */
};

STENO_MUST steno_status steno_ops_conv_bytes(struct steno_op_ctx *ctx,
                                             const struct steno_conv_i8 *c, steno_err *err);

/* One f32 image x [in0 * in1, c_in] and 8-bit weights [taps * c_in, c_out]: y [out0 * out1, c_out]
 * = ep(conv), ep as steno_ops_linear takes it. Every patch is quantized over its own range, so that
 * a pixel of y depends on its own patch alone, and its error on the range of that patch. */
struct steno_conv_rounded {
    const struct steno_conv *s;
    const float *x;
    const struct steno_weights *w;
    const struct steno_gemm_epilogue *ep;
    float *y;
};
/* Compute part `part` of n_parts. Call it once for every part; all parts share one 64-byte aligned
 * block of work bytes. An image with the same columns as s and no more rows needs no more. */
size_t steno_ops_conv_rounded_work(const struct steno_conv *s, const struct steno_weights *w,
                                   size_t n_parts);
void steno_ops_conv_rounded_part(const steno_kernels *k, const struct steno_conv_rounded *c,
                                 void *work, size_t part, size_t n_parts);

/* Reorder weights [c_out, c_in, taps] of esize (1 or 4) bytes to [c_out, taps, c_in]. */
void steno_ops_conv_rows(void *to, const void *w, size_t esize, size_t c_out, size_t c_in,
                         size_t taps);

/* True for a convolution that multiplies every pixel by the same matrix; its patches are the
 * pixels. */
static inline bool steno_conv_is_pointwise(const struct steno_conv *s)
{
    return s->kernel[0] * s->kernel[1] == 1 && s->stride[0] * s->stride[1] == 1 &&
           s->in[0] == s->out[0] && s->in[1] == s->out[1] && !s->pad[0] && !s->pad[1];
}

#endif
