/* What the convolution operators of both layouts share: attributes, extents, number of threads. */
#ifndef STENO_NN_OPS_CONV_H
#define STENO_NN_OPS_CONV_H

#include "nn/ops/weights.h"
#include "nn/ops/window.h"

/* Read everything of a convolution but the image's extents, from the node and W's shape [c_out,
 * c_in / group, kernel...]. There are 1 to 3 kernel axes; the last two are s's. */
STENO_MUST steno_status steno_ops_conv_geometry(const struct steno_node *n,
                                                const struct steno_shape *w, struct steno_conv *s,
                                                struct steno_window *win, steno_err *err);

/* Whether the network's precision applies to this convolution. int8 applies where there are enough
 * input channels to be worth making patches; this excludes the convolution of the features
 * themselves. 16 bits apply where no patches are needed. With channels last, patches cost nothing,
 * so that 16 bits apply wherever int8 does. */
bool steno_ops_conv_lowers(enum steno_precision p, const struct steno_conv *s,
                           const struct steno_window *win);
/* While preparing: pack constant input `in` as the weights of a product of patches [taps * c_in,
 * c_out], report it, and release the original. *out is NULL if the precision does not hold the
 * weights: then the caller packs them in f32. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ops_conv_lower(struct steno_prepare *pc, int in,
                                             const struct steno_conv *s, struct steno_weights **out,
                                             steno_err *err);

/* Threads for the multiply-adds of s. Below 2^18 one thread is faster than waking another. */
static inline int steno_ops_conv_parts(const struct steno_op_ctx *ctx, const struct steno_conv *s)
{
    const size_t per = s->c_in / s->group * s->kernel[0] * s->kernel[1];
    return s->c_out * s->out[0] * s->out[1] * per > 1u << 18 ? steno_op_threads(ctx) : 1;
}

#endif
