/* Operator of domain ai.steno, made by pass nhwc: ONNX Conv on channels-last tensors. Files contain
 * it only as a function.
 *
 * ConvNhwc   X [N, extents..., C], W [O, C / group, kernel...] constant as in Conv, bias [O]?,
 *            residual like Y?; Y [N, out..., O] = act(conv(X, W) + bias) + residual. Attributes of
 *            Conv, and act (enum steno_activation), act_min, act_max. One or two extents; group is
 *            1, or C with O = C. */
#include "nn/ops/nhwc.h"

#include <stdlib.h>

struct conv_nhwc {
    struct steno_nhwc conv;
    struct steno_gemm_epilogue ep; /* the part that the attributes give */
};

static void release_nhwc(void *priv)
{
    struct conv_nhwc *c = priv;
    if (c)
        steno_nhwc_release(&c->conv);
    free(c);
}

static steno_status infer_nhwc(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, 1), y;
    struct steno_window win;
    struct steno_conv s;
    steno_status st = steno_ops_conv_geometry(steno_infer_node(ic), &w, &s, &win, err);
    if (!st)
        st = steno_infer_nhwc(ic, &x, &s, &win, &y, err);
    if (!st)
        steno_infer_set(ic, 0, STENO_F32, &y);
    return st;
}

static steno_status prepare_nhwc(struct steno_prepare *pc, void **priv, steno_err *err)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const struct steno_shape w = steno_prepare_shape(pc, 1);
    struct conv_nhwc *c;
    struct steno_window win;
    struct steno_conv s;
    steno_status st = steno_ops_conv_geometry(n, &w, &s, &win, err);
    if (st)
        return st;
    c = calloc(1, sizeof *c);
    if (!c)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    c->ep = (struct steno_gemm_epilogue){.alpha = 1,
                                         .ldr = s.c_out,
                                         .act = (enum steno_activation)steno_node_int(n, "act", 0),
                                         .act_min = steno_node_float(n, "act_min", 0),
                                         .act_max = steno_node_float(n, "act_max", 0)};
    st = steno_prepare_nhwc(pc, 1, &s, &win, &c->conv, err);
    if (st) {
        release_nhwc(c);
        return st;
    }
    *priv = c;
    return STENO_OK;
}

struct job {
    const steno_kernels *k;
    struct steno_nhwc_image m;
    size_t parts;
};

static void image_part(void *arg, int part)
{
    const struct job *j = arg;
    steno_nhwc_part(j->k, &j->m, (size_t)part, j->parts);
}

static bool conv_nhwc_fits(const struct steno_tensor *t, const struct steno_shape *s)
{
    return !t || (t->dtype == STENO_F32 && steno_shape_equal(&t->shape, s));
}

/* Compute every image of x with m. */
static steno_status images(struct steno_op_ctx *ctx, struct steno_nhwc_image m,
                           struct steno_gemm_epilogue ep, size_t count, steno_err *err)
{
    const struct steno_conv *s = m.s;
    const size_t out = s->out[0] * s->out[1] * s->c_out;
    struct job j = {steno_op_kernels(ctx), m, (size_t)steno_ops_conv_parts(ctx, s)};
    j.m.ep = &ep;
    j.m.work = steno_op_scratch(ctx, steno_nhwc_work(m.c, s, j.parts) + 1);
    if (!j.m.work)
        return steno_ops_nomem(ctx, err);
    for (size_t i = 0; i < count; i++) {
        steno_op_parallel(ctx, (int)j.parts, image_part, &j);
        j.m.x += s->in[0] * s->in[1] * s->c_in;
        j.m.y += out;
        if (ep.residual)
            ep.residual += out;
    }
    return STENO_OK;
}

static steno_status run_nhwc(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct conv_nhwc *c = steno_op_priv(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0), *w = steno_op_in(ctx, 1);
    const struct steno_tensor *bias = steno_op_in(ctx, 2), *residual = steno_op_in(ctx, 3);
    struct steno_gemm_epilogue ep = c->ep;
    struct steno_conv s;
    struct steno_window win;
    struct steno_shape ys;
    struct steno_tensor *y;
    steno_status st = steno_ops_conv_geometry(steno_op_node(ctx), &w->shape, &s, &win, err);
    if (st)
        return st;
    if (!x || x->dtype != STENO_F32 || x->shape.rank != w->shape.rank ||
        (size_t)x->shape.dim[x->shape.rank - 1] != s.c_in)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "X does not fit weights of %zu channels",
                             s.c_in);
    st = steno_nhwc_extents(&x->shape, &win, &s, &ys, err);
    if (st)
        return st;
    if ((bias && (bias->dtype != STENO_F32 || steno_numel(bias) != s.c_out)) ||
        !conv_nhwc_fits(residual, &ys))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "bias or residual do not fit the result");
    st = steno_op_out(ctx, 0, STENO_F32, &ys, &y, err);
    if (st || !steno_numel(y))
        return st;
    ep.bias = bias ? bias->data : NULL;
    ep.residual = residual ? residual->data : NULL;
    return images(ctx,
                  (struct steno_nhwc_image){.c = &c->conv, .s = &s, .x = x->data, .y = y->data}, ep,
                  (size_t)ys.dim[0], err);
}

const struct steno_op steno_ops_conv_nhwc[] = {
    {"ai.steno", "ConvNhwc", 1, 0, 0, infer_nhwc, prepare_nhwc, release_nhwc, run_nhwc},
    {0},
};
