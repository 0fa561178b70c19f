/* ConvInteger, QLinearConv: 8-bit integers through the sum in f64, which is exact: a product has 17
 * bits and f64 holds 2^36 of them. */
#include "ops/window.h"

#include <math.h>

struct geometry {
    struct steno_window win;
    size_t batch, c_in, c_out, group;
    int64_t in[STENO_WINDOW_MAX], at_out[STENO_WINDOW_MAX];
    struct steno_shape out;
};

/* Unknown dims of x or w (inference) give STENO_DIM_ANY in out. */
static steno_status geometry(const struct steno_node *n, const struct steno_shape *x,
                             const struct steno_shape *w, struct geometry *g, steno_err *err)
{
    int64_t group = steno_node_int(n, "group", 1);
    bool kernel_known = true;
    steno_status st;
    memset(g, 0, sizeof *g);
    if (x->rank < 3 || x->rank > STENO_WINDOW_MAX + 2 || w->rank != x->rank)
        return steno_fail(err, STENO_ERR_INVAL, "input has rank %d, weight %d", x->rank, w->rank);
    if (group < 1 || (w->dim[0] >= 0 && w->dim[0] % group) ||
        (x->dim[1] >= 0 && w->dim[1] >= 0 && (x->dim[1] % group || x->dim[1] / group != w->dim[1])))
        return steno_fail(err, STENO_ERR_INVAL, "channels do not fit the weight");
    g->out = *x;
    g->out.dim[1] = w->dim[0];
    for (int i = 2; i < w->rank; i++)
        kernel_known = kernel_known && w->dim[i] >= 0;
    for (int i = 2; i < w->rank && !kernel_known; i++)
        g->out.dim[i] = STENO_DIM_ANY;
    if (!kernel_known)
        return STENO_OK;
    st = steno_window_read(n, x->rank - 2, w->dim + 2, &g->win, err);
    for (int i = 0; i < x->rank - 2 && !st; i++) {
        g->in[i] = x->dim[2 + i];
        if (g->in[i] < 0)
            g->out.dim[2 + i] = STENO_DIM_ANY;
        else
            st = steno_window_out(&g->win, i, g->in[i], &g->out.dim[2 + i], err);
        g->at_out[i] = g->out.dim[2 + i];
    }
    g->group = (size_t)group;
    g->batch = (size_t)x->dim[0];
    g->c_in = (size_t)x->dim[1];
    g->c_out = (size_t)w->dim[0];
    return st;
}

static steno_status infer_with(struct steno_infer *ic, int w_in, steno_dtype t, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, w_in);
    struct geometry g = {.out = {.rank = STENO_RANK_ANY}};
    if (x.rank >= 0 && w.rank >= 0) {
        steno_status st = geometry(steno_infer_node(ic), &x, &w, &g, err);
        if (st)
            return st;
        for (int i = 0; i < g.out.rank; i++)
            if (g.out.dim[i] == STENO_DIM_ANY)
                g.out.dim[i] = steno_infer_new_dim(ic);
    }
    steno_infer_set(ic, 0, t, &g.out);
    return STENO_OK;
}

static steno_status infer_conv_integer(struct steno_infer *ic, steno_err *err)
{
    return infer_with(ic, 1, STENO_I32, err);
}

static steno_status infer_qlinear_conv(struct steno_infer *ic, steno_err *err)
{
    return infer_with(ic, 3, steno_infer_dtype(ic, 7), err);
}

static void step(int64_t *at, const int64_t *dim, int n)
{
    for (int i = n - 1; i >= 0 && ++at[i] == dim[i]; i--)
        at[i] = 0;
}

/* Sum over one window of one input channel, positions outside the input being zero. */
static double tap_sum(const struct geometry *g, const int64_t *at, const double *x, const double *w,
                      size_t taps)
{
    const struct steno_window *win = &g->win;
    int64_t k[STENO_WINDOW_MAX] = {0};
    double sum = 0;
    for (size_t t = 0; t < taps; t++, step(k, win->kernel, win->n)) {
        int64_t offset = 0;
        bool inside = true;
        for (int i = 0; i < win->n; i++) {
            int64_t p = at[i] * win->stride[i] + k[i] * win->dilation[i] - win->before[i];
            inside = inside && p >= 0 && p < g->in[i];
            offset = offset * g->in[i] + p;
        }
        if (inside)
            sum += x[offset] * w[t];
    }
    return sum;
}

static void convolve(const struct geometry *g, const double *x, const double *w, const double *bias,
                     double *y)
{
    size_t pixels = 1, taps = 1, image = 1;
    size_t per = g->c_in / g->group, mult = g->c_out / g->group;
    for (int i = 0; i < g->win.n; i++) {
        image *= (size_t)g->in[i];
        taps *= (size_t)g->win.kernel[i];
        pixels *= (size_t)g->at_out[i];
    }
    for (size_t bo = 0; bo < g->batch * g->c_out; bo++) {
        size_t o = bo % g->c_out;
        const double *xg = x + (bo / g->c_out * g->c_in + o / mult * per) * image;
        const double *wo = w + o * per * taps;
        int64_t at[STENO_WINDOW_MAX] = {0};
        for (size_t p = 0; p < pixels; p++, step(at, g->at_out, g->win.n)) {
            double sum = bias ? bias[o] : 0;
            for (size_t i = 0; i < per; i++)
                sum += tap_sum(g, at, xg + i * image, wo + i * taps, taps);
            *y++ = sum;
        }
    }
}

/* f64 copy of an 8-bit tensor less its zero point (absent, one, or one for each entry of dim 0). */
static steno_status less_zero(struct steno_op_ctx *ctx, int in, int zero_in, const double **out,
                              steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, in);
    const struct steno_tensor *z = zero_in < steno_op_n_in(ctx) ? steno_op_in(ctx, zero_in) : NULL;
    size_t n = steno_numel(t), zeros = z ? steno_numel(z) : 0, per;
    double *d;
    if (t->dtype != STENO_U8 && t->dtype != STENO_I8)
        return steno_ops_bad_type(ctx, err, t->dtype);
    if (z && (z->dtype != t->dtype || (zeros != 1 && zeros != (size_t)t->shape.dim[0])))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "zero point does not fit input %d", in);
    d = steno_op_scratch(ctx, n * sizeof *d + 1);
    if (!d)
        return steno_ops_nomem(ctx, err);
    steno_ops_load_f64(d, t->data, t->dtype, n);
    per = zeros > 1 ? n / zeros : n;
    for (size_t i = 0; i < n && z; i++)
        d[i] -= steno_ops_get_f64(z, per < n ? i / per : 0);
    *out = d;
    return STENO_OK;
}

static steno_status run_conv_integer(struct steno_op_ctx *ctx, steno_err *err)
{
    struct geometry g;
    struct steno_tensor *y;
    const double *x, *w;
    double *d;
    steno_status st = steno_ops_need(ctx, 2, err);
    if (!st)
        st = geometry(steno_op_node(ctx), &steno_op_in(ctx, 0)->shape, &steno_op_in(ctx, 1)->shape,
                      &g, err);
    if (!st)
        st = less_zero(ctx, 0, 2, &x, err);
    if (!st)
        st = less_zero(ctx, 1, 3, &w, err);
    if (!st)
        st = steno_op_out(ctx, 0, STENO_I32, &g.out, &y, err);
    if (st || !steno_numel(y))
        return st;
    d = steno_ops_out_f64(ctx, y);
    if (!d)
        return steno_ops_nomem(ctx, err);
    convolve(&g, x, w, NULL, d);
    steno_ops_put_f64(y, d);
    return STENO_OK;
}

static bool one(const struct steno_op_ctx *ctx, int in)
{
    return steno_numel(steno_op_in(ctx, in)) == 1;
}

/* Inputs: x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias (i32, optional). */
static steno_status run_qlinear_conv(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *ws, *bias, *yz;
    struct geometry g;
    struct steno_tensor *y;
    const double *x, *w, *b = NULL;
    double *d, ratio, zero;
    size_t pixels;
    steno_status st = steno_ops_need(ctx, 8, err);
    if (!st)
        st = geometry(steno_op_node(ctx), &steno_op_in(ctx, 0)->shape, &steno_op_in(ctx, 3)->shape,
                      &g, err);
    if (st)
        return st;
    ws = steno_op_in(ctx, 4);
    yz = steno_op_in(ctx, 7);
    bias = steno_op_n_in(ctx) > 8 ? steno_op_in(ctx, 8) : NULL;
    if (!one(ctx, 1) || !one(ctx, 6) || !one(ctx, 7) ||
        (steno_numel(ws) != 1 && steno_numel(ws) != g.c_out) ||
        (bias && steno_numel(bias) != g.c_out))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "scales, zero points or bias do not fit");
    if (yz->dtype != STENO_U8 && yz->dtype != STENO_I8)
        return steno_ops_bad_type(ctx, err, yz->dtype);
    st = less_zero(ctx, 0, 2, &x, err);
    if (!st)
        st = less_zero(ctx, 3, 5, &w, err);
    if (!st)
        st = steno_op_out(ctx, 0, yz->dtype, &g.out, &y, err);
    if (st || !steno_numel(y))
        return st;
    b = bias ? steno_ops_as_f64(ctx, bias) : NULL;
    d = steno_ops_out_f64(ctx, y);
    if (!d || (bias && !b))
        return steno_ops_nomem(ctx, err);
    convolve(&g, x, w, b, d);
    ratio = steno_ops_get_f64(steno_op_in(ctx, 1), 0) / steno_ops_get_f64(steno_op_in(ctx, 6), 0);
    zero = steno_ops_get_f64(yz, 0);
    pixels = steno_ops_prod(&g.out, 2, g.out.rank);
    for (size_t i = 0; i < steno_numel(y); i++) {
        size_t o = i / pixels % g.c_out;
        d[i] = nearbyint(d[i] * ratio * steno_ops_get_f64(ws, steno_numel(ws) > 1 ? o : 0)) + zero;
    }
    steno_ops_put_f64(y, d); /* saturates */
    return STENO_OK;
}

const struct steno_op steno_ops_conv_int[] = {
    {"", "ConvInteger", 10, 0, 0, infer_conv_integer, NULL, NULL, run_conv_integer},
    {"", "QLinearConv", 10, 0, 0, infer_qlinear_conv, NULL, NULL, run_qlinear_conv},
    {0},
};
