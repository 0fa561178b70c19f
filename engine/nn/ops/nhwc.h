/* One channels-last convolution with constant weights: what ConvNhwc and ConvRowTiles are made of.
 */
#ifndef STENO_NN_OPS_NHWC_H
#define STENO_NN_OPS_NHWC_H

#include "nn/ops/conv.h"

/* Frozen. */
struct steno_nhwc {
    struct steno_conv s;           /* but for the extents of images */
    void *packed;                  /* for the kernel; the network's */
    struct steno_weights *lowered; /* ... or in less than f32, as a product of patches */
    bool few;                    /* lowered is for the winograd slots, in any precision but int8 */
    struct steno_weights *slots; /* these in int8, each for itself */
};

/* While preparing: constant input `in`, f32 of rank 3 or 4, as weights of the convolution s with
 * window win, packed in the network's precision, reported, and the original given up.
 * STENO_ERR_FORMAT, STENO_ERR_NOMEM; c is to be released either way. */
STENO_MUST steno_status steno_prepare_nhwc(struct steno_prepare *pc, int in,
                                           const struct steno_conv *s,
                                           const struct steno_window *win, struct steno_nhwc *c,
                                           steno_err *err);
void steno_nhwc_release(struct steno_nhwc *c);

/* One image x [in0, in1, c_in] to y [out0, out1, c_out]; s: c->s with extents and padding. */
struct steno_nhwc_image {
    const struct steno_nhwc *c;
    const struct steno_conv *s;
    const float *x;
    float *y;
    const struct steno_gemm_epilogue *ep;
    void *work; /* of all parts: steno_nhwc_work bytes */
};
/* Scratch, perhaps none; of images of no more rows and as many columns as that of s. */
size_t steno_nhwc_work(const struct steno_nhwc *c, const struct steno_conv *s, size_t n_parts);
/* Part of n_parts of it, on any thread; the bits do not depend on how many there are. */
void steno_nhwc_part(const steno_kernels *k, const struct steno_nhwc_image *m, size_t part,
                     size_t n_parts);

/* s and the output's shape for an image of shape x [N, extents..., C], padding settled.
 * STENO_ERR_INVAL. */
STENO_MUST steno_status steno_nhwc_extents(const struct steno_shape *x, struct steno_window *win,
                                           struct steno_conv *s, struct steno_shape *y,
                                           steno_err *err);
/* The same for shapes that are not all known, while inferring; y has x's rank. */
STENO_MUST steno_status steno_infer_nhwc(struct steno_infer *ic, const struct steno_shape *x,
                                         const struct steno_conv *s, struct steno_window *win,
                                         struct steno_shape *y, steno_err *err);

#endif
