/* One channels-last convolution with constant weights: the core of ConvNhwc and ConvRowTiles. */
#ifndef STENO_NN_OPS_NHWC_H
#define STENO_NN_OPS_NHWC_H

#include "nn/ops/conv.h"

/* Frozen. */
struct steno_nhwc {
    struct steno_conv s;           /* all but the extents of images */
    void *packed;                  /* weights in the kernel's layout; the network's memory */
    struct steno_weights *lowered; /* ... or in less than f32, for patches */
    bool few;                      /* lowered holds the Winograd slots, in any precision but int8 */
    struct steno_weights *slots;   /* the Winograd slots in int8, packed one by one */
};

/* While preparing: pack constant input `in`, f32 of rank 3 or 4, as weights of the convolution s
 * with window win, in the network's precision; report it, and release the original.
 * STENO_ERR_FORMAT, STENO_ERR_NOMEM; c must be released in either case. */
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
/* Bytes of work, possibly 0, for images with the same columns as s and no more rows. */
size_t steno_nhwc_work(const struct steno_nhwc *c, const struct steno_conv *s, size_t n_parts);
/* Compute part `part` of n_parts, on any thread. The bits of the result do not depend on
 * n_parts. */
void steno_nhwc_part(const steno_kernels *k, const struct steno_nhwc_image *m, size_t part,
                     size_t n_parts);

/* Set s and the output's shape for an image of shape x [N, extents..., C], automatic padding
 * resolved. STENO_ERR_INVAL. */
STENO_MUST steno_status steno_nhwc_extents(const struct steno_shape *x, struct steno_window *win,
                                           struct steno_conv *s, struct steno_shape *y,
                                           steno_err *err);
/* The same during inference, for shapes that are not all known; y has x's rank. */
STENO_MUST steno_status steno_infer_nhwc(struct steno_infer *ic, const struct steno_shape *x,
                                         const struct steno_conv *s, struct steno_window *win,
                                         struct steno_shape *y, steno_err *err);

#endif
