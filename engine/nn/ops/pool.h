/* Geometry of pooling, and pooling by rows. */
#ifndef STENO_NN_OPS_POOL_H
#define STENO_NN_OPS_POOL_H

#include "nn/ops/window.h"

enum steno_pool_kind { STENO_POOL_MAX, STENO_POOL_MEAN, STENO_POOL_LP };

/* Images of up to three axes; missing ones are first and have extent 1. */
struct steno_pooling {
    enum steno_pool_kind kind;
    struct steno_window win;
    struct steno_shape out;
    bool include_pad;  /* the mean counts padding as zeros */
    bool column_major; /* MaxPool: order of Indices within an image */
    double p;          /* LpPool */
    int64_t in[3], n_out[3], kernel[3], stride[3], dilation[3], before[3], after[3];
};

/* The window of output o along an axis: *first gets the number of its first tap inside the input,
 * *padded the number of taps inside the padded input. Returns the number inside the input. */
int64_t steno_pool_taps(const struct steno_pooling *p, int axis, int64_t o, int64_t *first,
                        int64_t *padded);
/* True if steno_pool_rows computes it: any maximum and mean, the norms 1 and 2. */
bool steno_pool_by_rows(const struct steno_pooling *p);
/* y = pooled x in f32, for `images` images. x, y: of any type but f64. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_pool_rows(struct steno_op_ctx *ctx, const struct steno_pooling *p,
                                        size_t images, const struct steno_tensor *x,
                                        struct steno_tensor *y, steno_err *err);

#endif
