/* Sliding windows of convolution and pooling: attributes, padding, output extents. */
#ifndef STENO_NN_OPS_WINDOW_H
#define STENO_NN_OPS_WINDOW_H

#include "nn/ops/internal.h"

#define STENO_WINDOW_MAX 3                     /* spatial axes of convolution and pooling */
#define STENO_WINDOW_AXES (STENO_MAX_RANK - 2) /* of any operator */

enum steno_auto_pad {
    STENO_PAD_NOTSET,
    STENO_PAD_SAME_UPPER,
    STENO_PAD_SAME_LOWER,
    STENO_PAD_VALID
};

struct steno_window {
    int n; /* spatial axes */
    int64_t kernel[STENO_WINDOW_AXES], stride[STENO_WINDOW_AXES], dilation[STENO_WINDOW_AXES];
    int64_t before[STENO_WINDOW_AXES], after[STENO_WINDOW_AXES]; /* padding */
    enum steno_auto_pad auto_pad;
    bool ceil_mode;
};

/* Read the attributes strides, dilations, pads, auto_pad and ceil_mode for n axes, of which the
 * operator supports 1 to `most` (at most STENO_WINDOW_AXES). kernel: [n], or NULL to read
 * kernel_shape. Every entry is checked: kernel, stride and dilation 1..2^31-1, pads 0..2^31-1.
 * STENO_ERR_UNSUPPORTED: another number of axes; STENO_ERR_INVAL, STENO_ERR_FORMAT: an attribute.
 */
STENO_MUST steno_status steno_window_read(const struct steno_node *node, int n, int most,
                                          const int64_t *kernel, struct steno_window *w,
                                          steno_err *err);
/* Extent of output axis `a` for input extent `in`; resolves automatic padding in w. An unknown `in`
 * (< 0, during inference) is the result where the window keeps every extent, else STENO_DIM_ANY is.
 * STENO_ERR_INVAL: the window does not fit. ONNX Conv and pooling, "Shape inference". */
STENO_MUST steno_status steno_window_out(struct steno_window *w, int a, int64_t in, int64_t *out,
                                         steno_err *err);
/* The same for a transposed convolution. out_pad: output_padding of the axis; want: output_shape of
 * the axis, or -1. */
STENO_MUST steno_status steno_window_out_transposed(struct steno_window *w, int a, int64_t in,
                                                    int64_t out_pad, int64_t want, int64_t *out,
                                                    steno_err *err);

#endif
