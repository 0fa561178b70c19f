/* Operator of domain ai.steno, made by pass nhwc, never read from files as such: ONNX Conv on
 * channels-last tensors.
 *
 * ConvNhwc   X [N, extents..., C], W [O, C / group, kernel...] constant as Conv has it, bias [O]?,
 *            residual like Y?; Y [N, out..., O] = act(conv(X, W) + bias) + residual. Attributes of
 *            Conv, and act (enum steno_act), act_min, act_max. One or two extents; group is 1, or
 *            C with O = C. */
#include "ops/conv.h"
#include "ops/conv_bytes.h"

#include "kernels/winograd.h"

#include <stdlib.h>

struct conv_nhwc {
    void *packed;                  /* for the kernel */
    struct steno_weights *lowered; /* ... or in less than f32, as a product of patches */
    bool few;                      /* lowered is for the winograd slots, in any precision but int8 */
    struct steno_gemm_epilogue ep; /* what the attributes say of it */
};

static void release_nhwc(void *priv)
{
    struct conv_nhwc *c = priv;
    if (c)
        steno_aligned_free(c->packed);
    if (c)
        steno_weights_free(c->lowered);
    free(c);
}

/* As many outputs as inputs along axis i, whatever their number: a symbol stays. */
static bool same_extent(const struct steno_window *w, int i)
{
    if (w->auto_pad == STENO_PAD_SAME_UPPER || w->auto_pad == STENO_PAD_SAME_LOWER)
        return w->stride[i] == 1;
    return w->auto_pad == STENO_PAD_NOTSET && w->stride[i] == 1 &&
           w->before[i] + w->after[i] == (w->kernel[i] - 1) * w->dilation[i];
}

static steno_status infer_nhwc(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, 1), y = x;
    struct steno_window win;
    struct steno_conv s;
    steno_status st = steno_ops_conv_geometry(steno_infer_node(ic), &w, &s, &win, err);
    if (!st && x.rank >= 0 && x.rank != w.rank)
        st = steno_fail(err, STENO_ERR_INVAL, "X has rank %d, W %d", x.rank, w.rank);
    if (!st && x.rank >= 0 && x.dim[x.rank - 1] >= 0 && (size_t)x.dim[x.rank - 1] != s.c_in)
        st = steno_fail(err, STENO_ERR_INVAL, "X has %lld channels, W and group take %zu",
                        (long long)x.dim[x.rank - 1], s.c_in);
    for (int i = 0; i < win.n && !st && x.rank >= 0; i++)
        if (x.dim[i + 1] >= 0)
            st = steno_window_out(&win, i, x.dim[i + 1], &y.dim[i + 1], err);
        else if (!same_extent(&win, i))
            y.dim[i + 1] = steno_infer_new_dim(ic);
    if (st)
        return st;
    if (y.rank > 0)
        y.dim[y.rank - 1] = w.dim[0];
    steno_infer_set(ic, 0, STENO_F32, &y);
    return STENO_OK;
}

static void make_few(float *to, const float *w, const void *arg)
{
    const struct steno_conv *s = arg;
    steno_winograd_weights(to, w, s->c_out, s->c_in);
}

static steno_status prepare_nhwc(struct steno_prep *pc, void **priv, steno_err *err)
{
    const struct steno_node *n = steno_prep_node(pc);
    const struct steno_tensor *w = steno_prep_const(pc, 1);
    const steno_kernels *k = steno_prep_kernels(pc);
    struct conv_nhwc *c;
    struct steno_window win;
    struct steno_conv s;
    size_t bytes = 0;
    steno_status st;
    if (!w || w->dtype != STENO_F32 || w->shape.rank < 3 || w->shape.rank > 4 || !steno_numel(w))
        return steno_fail(err, STENO_ERR_FORMAT, "weights must be constant, f32, of rank 3 or 4");
    st = steno_ops_conv_geometry(n, &w->shape, &s, &win, err);
    if (!st && s.group != 1 && (s.group != s.c_in || s.c_out != s.c_in))
        st = steno_fail(err, STENO_ERR_FORMAT, "group %zu of %zu channels", s.group, s.c_in);
    if (st)
        return st;
    c = calloc(1, sizeof *c);
    if (!c)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    c->ep = (struct steno_gemm_epilogue){.alpha = 1,
                                         .ldr = s.c_out,
                                         .act = (enum steno_act)steno_node_int(n, "act", 0),
                                         .act_min = steno_node_float(n, "act_min", 0),
                                         .act_max = steno_node_float(n, "act_max", 0)};
    c->few = steno_prep_precision(pc) != STENO_INT8_WEIGHTS && steno_winograd_fits(&s);
    if (c->few) {
        const struct steno_made m = {STENO_WINOGRAD_SLOTS * s.c_in, s.c_out, make_few, &s};
        st = steno_prep_weights_made(pc, 1, &m, &c->lowered, err);
    } else if (steno_prep_precision(pc) != STENO_FP32 &&
               steno_ops_conv_lowers(STENO_INT8_WEIGHTS, &s, &win)) {
        st = steno_ops_conv_lower(pc, &s, &c->lowered, err);
    } else {
        bytes = k->conv_nhwc_f32_packed_bytes(&s);
        c->packed = steno_aligned_alloc(bytes);
        st = c->packed ? STENO_OK
                       : steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    if (c->packed) {
        k->conv_nhwc_f32_pack(c->packed, w->data, &s);
        steno_prep_packed(pc, bytes);
        steno_prep_consumed(pc, 1);
        steno_prep_rounded(pc, w->data, steno_numel(w), false, 0);
    }
    if (st) {
        release_nhwc(c);
        return st;
    }
    *priv = c;
    return STENO_OK;
}

struct image { /* one image through the kernel, in parts */
    void (*conv)(const struct steno_conv *s, const float *x, const void *packed, float *y,
                 const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts);
    const struct steno_conv *s;
    const struct steno_gemm_epilogue *ep;
    const float *x;
    const void *packed;
    float *y;
    int parts;
};

static void image_part(void *arg, int part)
{
    const struct image *m = arg;
    m->conv(m->s, m->x, m->packed, m->y, m->ep, (size_t)part, (size_t)m->parts);
}

/* The kernel for these weights, NULL for bytes. */
static void choose(struct image *m, const struct conv_nhwc *c, const steno_kernels *k)
{
    const struct steno_weights *w = c->lowered;
    m->packed = w ? w->data : c->packed;
    if (!w)
        m->conv = k->conv_nhwc_f32;
    else if (w->precision == STENO_FP32)
        m->conv = k->conv_winograd_f32;
    else if (w->precision != STENO_INT8_WEIGHTS)
        m->conv = c->few ? steno_weights_w16(k, w)->conv_winograd : steno_weights_w16(k, w)->conv;
}

/* Extents of the image and of the output. */
static steno_status extents(const struct steno_shape *x, struct steno_window *win,
                            struct steno_conv *s, struct steno_shape *y, steno_err *err)
{
    steno_status st = STENO_OK;
    *y = *x;
    y->dim[y->rank - 1] = (int64_t)s->c_out;
    s->in[0] = s->out[0] = 1;
    for (int i = 0; i < win->n && !st; i++) {
        const int d = i + 2 - win->n;
        st = steno_window_out(win, i, x->dim[i + 1], &y->dim[i + 1], err);
        if (st)
            break;
        s->in[d] = (size_t)x->dim[i + 1];
        s->out[d] = (size_t)y->dim[i + 1];
        s->pad[d] = (size_t)win->before[i];
    }
    return st;
}

static bool fits(const struct steno_tensor *t, const struct steno_shape *s)
{
    return !t || (t->dtype == STENO_F32 && steno_shape_equal(&t->shape, s));
}

static steno_status run_nhwc(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct conv_nhwc *c = steno_op_priv(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0), *w = steno_op_in(ctx, 1);
    const struct steno_tensor *bias = steno_op_in(ctx, 2), *residual = steno_op_in(ctx, 3);
    struct steno_gemm_epilogue ep = c->ep;
    struct steno_conv s;
    struct image m = {.s = &s, .ep = &ep};
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
    st = extents(&x->shape, &win, &s, &ys, err);
    if (st)
        return st;
    if ((bias && (bias->dtype != STENO_F32 || steno_numel(bias) != s.c_out)) ||
        !fits(residual, &ys))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "bias or residual do not fit the result");
    st = steno_op_out(ctx, 0, STENO_F32, &ys, &y, err);
    if (st || !steno_numel(y))
        return st;
    m.parts = steno_ops_conv_parts(ctx, &s);
    choose(&m, c, steno_op_kernels(ctx));
    ep.bias = bias ? bias->data : NULL;
    for (size_t i = 0; i < (size_t)ys.dim[0] && !st; i++) {
        m.x = (const float *)x->data + i * s.in[0] * s.in[1] * s.c_in;
        m.y = (float *)y->data + i * s.out[0] * s.out[1] * s.c_out;
        ep.residual = residual ? (const float *)residual->data + (m.y - (float *)y->data) : NULL;
        if (!m.conv)
            st = steno_ops_conv_rounded(
                ctx, &(struct steno_conv_rounded){&s, m.x, c->lowered, &ep, m.y}, err);
        else
            steno_op_parallel(ctx, m.parts, image_part, &m);
    }
    return st;
}

const struct steno_op steno_ops_conv_nhwc[] = {
    {"ai.steno", "ConvNhwc", 1, 0, 0, infer_nhwc, prepare_nhwc, release_nhwc, run_nhwc},
    {0},
};
