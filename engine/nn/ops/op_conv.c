/* Conv (opset 1 and later; 1-D, 2-D, 3-D, groups), com.microsoft FusedConv, ConvTranspose.
 *
 * One and two axes in f32 use the kernel table; f16 and bf16 are widened for it (the transposed
 * form is conv_transpose.c). f64 and three axes are plain loops in f64. */
#include "nn/ops/conv.h"
#include "nn/ops/conv_i8.h"
#include "nn/ops/conv_transpose.h"
#include "nn/ops/contrib.h"

#include <math.h>
#include <stdlib.h>

struct conv {                      /* the node's frozen state */
    void *packed;                  /* in the kernel's layout, when W is constant f32 */
    struct steno_weights *lowered; /* ... or as a product of patches, in less than f32 */
    enum steno_activation act;
    float act_min, act_max;
    bool act_apart; /* an activation that the kernel does not have; it is applied afterwards */
    /* W is constant, and s and win below were read from its shape and the attributes at load */
    bool known;
    struct steno_conv s;
    struct steno_window win;
};

/* ---- attributes ---- */

static steno_status read_activation(const struct steno_node *n, struct conv *c, steno_err *err)
{
    const char *want = steno_node_str(n, "activation", "");
    const struct steno_attr *params = steno_node_attr(n, "activation_params");
    float p[2];
    if (!steno_ops_fused_act_of(n, &c->act, p))
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "node '%s': activation '%s' is not supported",
                          n->name, want);
    if (c->act == STENO_ACT_CLIP &&
        (!params || params->kind != STENO_ATTR_FLOATS || params->n != 2))
        return steno_fail(err, STENO_ERR_FORMAT, "node '%s': Clip needs two activation_params",
                          n->name);
    c->act_apart = *want && c->act == STENO_ACT_NONE;
    c->act_min = p[0];
    c->act_max = p[1];
    return STENO_OK;
}

steno_status steno_ops_conv_geometry(const struct steno_node *n, const struct steno_shape *w,
                                     struct steno_conv *s, struct steno_window *win, steno_err *err)
{
    int64_t group = steno_node_int(n, "group", 1);
    size_t count;
    const int64_t *given = steno_node_ints(n, "kernel_shape", &count);
    steno_status st;
    if (w->rank < 3)
        return steno_fail(err, STENO_ERR_INVAL, "W has rank %d", w->rank);
    if (group < 1 || w->dim[0] % group || w->dim[1] > INT32_MAX || group > INT32_MAX)
        return steno_fail(err, STENO_ERR_INVAL, "group %lld does not fit %lld output channels",
                          (long long)group, (long long)w->dim[0]);
    for (size_t i = 0; i < count && given; i++)
        if ((int)count != w->rank - 2 || given[i] != w->dim[i + 2])
            return steno_fail(err, STENO_ERR_INVAL, "kernel_shape is not that of W");
    st = steno_window_read(n, w->rank - 2, STENO_WINDOW_MAX, w->dim + 2, win, err);
    if (st)
        return st;
    memset(s, 0, sizeof *s);
    s->group = (size_t)group;
    s->c_out = (size_t)w->dim[0];
    s->c_in = (size_t)(w->dim[1] * group);
    for (int i = 0; i < 2; i++) {
        int a = win->n - 2 + i; /* the kernel's two axes are the last two */
        s->kernel[i] = a >= 0 ? (size_t)win->kernel[a] : 1;
        s->stride[i] = a >= 0 ? (size_t)win->stride[a] : 1;
        s->dilation[i] = a >= 0 ? (size_t)win->dilation[a] : 1;
    }
    return STENO_OK;
}

static steno_status infer_conv(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_shape x = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, 1), y = x;
    steno_dtype t = steno_infer_dtype(ic, 0);
    struct steno_window win;
    struct steno_conv s;
    steno_status st;
    if (t && !steno_ops_is_float(t))
        return steno_fail(err, STENO_ERR_FORMAT, "X has type %s, expected a float type",
                          steno_dtype_name(t));
    if (w.rank < 0 || !steno_shape_known(&w)) {
        y.rank = w.rank >= 0 ? w.rank : x.rank;
        for (int i = 0; i < y.rank; i++)
            y.dim[i] = steno_infer_new_dim(ic);
        if (x.rank > 0 && y.rank > 0)
            y.dim[0] = x.dim[0];
        steno_infer_set(ic, 0, t, &y);
        return STENO_OK;
    }
    st = steno_ops_conv_geometry(n, &w, &s, &win, err);
    if (st)
        return st;
    if (x.rank >= 0 && x.rank != w.rank)
        return steno_fail(err, STENO_ERR_INVAL, "X has rank %d, but W has rank %d", x.rank, w.rank);
    if (x.rank >= 0 && x.dim[1] >= 0 && (size_t)x.dim[1] != s.c_in)
        return steno_fail(err, STENO_ERR_INVAL, "X has %lld channels, but W and group require %zu",
                          (long long)x.dim[1], s.c_in);
    y.rank = w.rank;
    y.dim[0] = x.rank >= 0 ? x.dim[0] : steno_infer_new_dim(ic);
    y.dim[1] = w.dim[0];
    for (int i = 0; i < win.n && !st; i++) {
        st = steno_window_out(&win, i, x.rank >= 0 ? x.dim[i + 2] : STENO_DIM_ANY, &y.dim[i + 2],
                              err);
        if (y.dim[i + 2] == STENO_DIM_ANY)
            y.dim[i + 2] = steno_infer_new_dim(ic);
    }
    if (!st)
        steno_infer_set(ic, 0, t, &y);
    return st;
}

/* ---- load ---- */

static void release_conv(void *priv)
{
    struct conv *c = priv;
    if (c)
        steno_weights_free(c->lowered);
    free(c);
}

bool steno_ops_conv_lowers(enum steno_precision p, const struct steno_conv *s,
                           const struct steno_window *win)
{
    bool pointwise = s->kernel[0] * s->kernel[1] == 1 && s->stride[0] * s->stride[1] == 1;
    for (int i = 0; i < win->n; i++)
        pointwise = pointwise && !win->before[i] && !win->after[i];
    if (p == STENO_FP32 || s->group != 1 || s->c_in < 16 || s->c_out < 8)
        return false;
    return p == STENO_INT8_WEIGHTS || pointwise;
}

static void make_rows(float *to, const float *w, const void *arg)
{
    const struct steno_conv *s = arg;
    steno_ops_conv_rows(to, w, sizeof *to, s->c_out, s->c_in, s->kernel[0] * s->kernel[1]);
}

steno_status steno_ops_conv_lower(struct steno_prepare *pc, int in, const struct steno_conv *s,
                                  struct steno_weights **out, steno_err *err)
{
    const struct steno_weight_transform m = {
        s->kernel[0] * s->kernel[1] * s->c_in, s->c_out, make_rows, s, sizeof *s, true};
    return steno_prepare_weights_transformed(pc, in, &m, out, err);
}

/* Pack constant f32 weights of rank 3 or 4, in the network's precision where it gains. */
static steno_status pack_conv(struct steno_prepare *pc, struct conv *c, steno_err *err)
{
    const struct steno_tensor *w = steno_prepare_const(pc, 1);
    const steno_kernels *k = steno_prepare_kernels(pc);
    struct steno_packing how = {.n = 0};
    bool filled;
    if (steno_ops_conv_lowers(steno_prepare_precision(pc), &c->s, &c->win)) {
        const steno_status st = steno_ops_conv_lower(pc, 1, &c->s, &c->lowered, err);
        if (st || c->lowered)
            return st;
    }
    steno_packing_put(&how, "conv", 4);
    steno_packing_put(&how, &c->s, sizeof c->s);
    c->packed = steno_prepare_memory(pc, 1, k->conv_f32_packed_bytes(&c->s), &how, &filled);
    if (!c->packed)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    if (!filled) {
        k->conv_f32_pack(c->packed, w->data, &c->s);
        steno_prepare_rounded(pc, w->data, steno_numel(w), false, 0);
    }
    return STENO_OK;
}

static steno_status prepare_conv(struct steno_prepare *pc, void **priv, steno_err *err)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const struct steno_tensor *w = steno_prepare_const(pc, 1);
    struct conv *c = calloc(1, sizeof *c);
    steno_status st;
    if (!c)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    st = read_activation(n, c, err);
    if (!st && w)
        st = steno_ops_conv_geometry(n, &w->shape, &c->s, &c->win, err);
    c->known = w != NULL;
    if (!st && w && w->dtype == STENO_F32 && w->shape.rank <= 4 && steno_numel(w))
        st = pack_conv(pc, c, err);
    if (st) {
        release_conv(c);
        return st;
    }
    *priv = c;
    return STENO_OK;
}

/* ---- run ---- */

struct image { /* one image for the kernel, in parts */
    const steno_kernels *k;
    const struct steno_conv *s;
    const struct steno_gemm_epilogue *ep;
    const float *x;
    const void *packed;
    float *y;
    void *work;
    int parts;
};

static void image_part(void *arg, int part)
{
    const struct image *m = arg;
    m->k->conv_f32(m->s, m->x, m->packed, m->y, m->ep, m->work, (size_t)part, (size_t)m->parts);
}

/* y = activation(y + z), the part of the epilogue that the kernel could not compute. */
static steno_status finish_conv(struct steno_op_ctx *ctx, const struct conv *c, const float *z,
                                float *y, size_t n, steno_err *err)
{
    if (!z && !c->act_apart)
        return STENO_OK;
    if (z)
        steno_op_kernels(ctx)->add_f32(y, y, 1, z, 1, n);
    return steno_ops_fused_act(ctx, y, n, err);
}

struct rounded { /* one image as 8-bit patches, in parts */
    const steno_kernels *k;
    struct steno_conv_rounded c;
    void *work;
    size_t parts;
};

static void rounded_part(void *arg, int part)
{
    const struct rounded *r = arg;
    steno_ops_conv_rounded_part(r->k, &r->c, r->work, (size_t)part, r->parts);
}

/* Multiply `count` images x [c_in, in], as rows of pixels, by the lowered weights: y [c_out,
 * out]. */
static steno_status images_lowered(struct steno_op_ctx *ctx, const struct steno_weights *w,
                                   const struct steno_conv *s, size_t count, const float *x,
                                   float *y, const struct steno_gemm_epilogue *ep, steno_err *err)
{
    const steno_kernels *k = steno_op_kernels(ctx);
    size_t in = s->in[0] * s->in[1], out = s->out[0] * s->out[1];
    float *pixels = steno_op_scratch(ctx, in * s->c_in * sizeof *pixels);
    float *rows = steno_op_scratch(ctx, out * w->n * sizeof *rows);
    struct rounded r = {
        .k = k, .c = {s, pixels, w, ep, rows}, .parts = (size_t)steno_ops_conv_parts(ctx, s)};
    steno_status st = STENO_OK;
    if (!steno_conv_is_pointwise(s))
        r.work = steno_op_scratch(ctx, steno_ops_conv_rounded_work(s, w, r.parts) + 1);
    if (!pixels || !rows || (!r.work && !steno_conv_is_pointwise(s)))
        return steno_ops_nomem(ctx, err);
    for (size_t i = 0; i < count && !st; i++, x += in * s->c_in, y += out * w->n) {
        k->transpose_f32(pixels, s->c_in, x, in, s->c_in, in);
        if (steno_conv_is_pointwise(s))
            st = steno_ops_linear(ctx, w, out, pixels, w->k, rows, w->n, ep, err);
        else
            steno_op_parallel(ctx, (int)r.parts, rounded_part, &r);
        if (!st)
            k->transpose_f32(y, out, rows, w->n, out, w->n);
    }
    return st;
}

static steno_status run_fast(struct steno_op_ctx *ctx, const struct conv *c, struct steno_conv *s,
                             struct steno_tensor *y, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    const struct steno_tensor *b = steno_op_in(ctx, 2);
    const struct steno_tensor *z = steno_op_in(ctx, 3);
    const float *xf = steno_ops_as_f32(ctx, x), *zf = z ? steno_ops_as_f32(ctx, z) : NULL, *w;
    float *yf = steno_ops_out_f32(ctx, y);
    size_t in = s->c_in * s->in[0] * s->in[1], out = s->c_out * s->out[0] * s->out[1];
    struct steno_gemm_epilogue ep = {.alpha = 1, .bias_rows = true};
    struct image m = {steno_op_kernels(ctx), s, &ep, NULL, c->packed, NULL, NULL, 1};
    steno_status st;
    void *packed;
    if (!z) { /* z must be added before the activation; the kernel would add it after */
        ep.act = c->act;
        ep.act_min = c->act_min;
        ep.act_max = c->act_max;
    }
    ep.bias = b ? steno_ops_as_f32(ctx, b) : NULL;
    if (!xf || !yf || (b && !ep.bias) || (z && !zf))
        return steno_ops_nomem(ctx, err);
    if (c->lowered) {
        ep.bias_rows = false; /* the product's columns are the output channels */
        st = images_lowered(ctx, c->lowered, s, (size_t)x->shape.dim[0], xf, yf, &ep, err);
        if (st)
            return st;
        st = finish_conv(ctx, c, zf, yf, steno_numel(y), err);
        if (!st)
            steno_ops_put_f32(y, yf);
        return st;
    }
    if (!c->packed) {
        w = steno_ops_as_f32(ctx, steno_op_in(ctx, 1));
        packed = steno_op_scratch(ctx, m.k->conv_f32_packed_bytes(s));
        if (!w || !packed)
            return steno_ops_nomem(ctx, err);
        m.k->conv_f32_pack(packed, w, s);
        m.packed = packed;
    }
    m.parts = steno_ops_conv_parts(ctx, s);
    m.work = steno_op_scratch(ctx, m.k->conv_f32_work(s, (size_t)m.parts) + 1);
    if (!m.work)
        return steno_ops_nomem(ctx, err);
    for (size_t i = 0; i < (size_t)x->shape.dim[0]; i++) {
        m.x = xf + i * in;
        m.y = yf + i * out;
        steno_op_parallel(ctx, m.parts, image_part, &m);
    }
    st = finish_conv(ctx, c, zf, yf, steno_numel(y), err);
    if (!st)
        steno_ops_put_f32(y, yf);
    return st;
}

/* Plain loops over three axes in f64; leading axes that do not exist are 1. */
struct loops {
    size_t batch, c_in, c_out, group;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], before[3];
};

static void widen(struct loops *l, const struct steno_window *w, const struct steno_shape *x,
                  const struct steno_shape *y)
{
    for (int i = 0; i < 3; i++) {
        int a = i - (3 - w->n);
        l->in[i] = a < 0 ? 1 : x->dim[a + 2];
        l->out[i] = a < 0 ? 1 : y->dim[a + 2];
        l->kernel[i] = a < 0 ? 1 : w->kernel[a];
        l->stride[i] = a < 0 ? 1 : w->stride[a];
        l->dilation[i] = a < 0 ? 1 : w->dilation[a];
        l->before[i] = a < 0 ? 0 : w->before[a];
    }
}

/* Sum over one channel's window at output position o. */
static double window_sum(const struct loops *l, const double *x, const double *w, const int64_t *o)
{
    double sum = 0;
    for (int64_t a = 0; a < l->kernel[0]; a++) {
        int64_t i = o[0] * l->stride[0] - l->before[0] + a * l->dilation[0];
        if (i < 0 || i >= l->in[0])
            continue;
        for (int64_t b = 0; b < l->kernel[1]; b++) {
            int64_t j = o[1] * l->stride[1] - l->before[1] + b * l->dilation[1];
            const double *row = x + (i * l->in[1] + j) * l->in[2];
            const double *wr = w + (a * l->kernel[1] + b) * l->kernel[2];
            if (j < 0 || j >= l->in[1])
                continue;
            for (int64_t c = 0; c < l->kernel[2]; c++) {
                int64_t k = o[2] * l->stride[2] - l->before[2] + c * l->dilation[2];
                if (k >= 0 && k < l->in[2])
                    sum += row[k] * wr[c];
            }
        }
    }
    return sum;
}

static void conv_loops(const struct loops *l, const double *x, const double *w, const double *bias,
                       double *y)
{
    size_t in = (size_t)(l->in[0] * l->in[1] * l->in[2]);
    size_t taps = (size_t)(l->kernel[0] * l->kernel[1] * l->kernel[2]);
    size_t cg = l->c_in / l->group, og = l->c_out / l->group;
    for (size_t n = 0; n < l->batch; n++)
        for (size_t oc = 0; oc < l->c_out; oc++) {
            const double *xg = x + (n * l->c_in + oc / og * cg) * in;
            int64_t o[3];
            for (o[0] = 0; o[0] < l->out[0]; o[0]++)
                for (o[1] = 0; o[1] < l->out[1]; o[1]++)
                    for (o[2] = 0; o[2] < l->out[2]; o[2]++) {
                        double sum = bias ? bias[oc] : 0;
                        for (size_t c = 0; c < cg; c++)
                            sum += window_sum(l, xg + c * in, w + (oc * cg + c) * taps, o);
                        *y++ = sum;
                    }
        }
}

static void scatter_window(const struct loops *l, double v, const double *w, double *y,
                           const int64_t *i)
{
    for (int64_t a = 0; a < l->kernel[0]; a++) {
        int64_t o0 = i[0] * l->stride[0] - l->before[0] + a * l->dilation[0];
        if (o0 < 0 || o0 >= l->out[0])
            continue;
        for (int64_t b = 0; b < l->kernel[1]; b++) {
            int64_t o1 = i[1] * l->stride[1] - l->before[1] + b * l->dilation[1];
            if (o1 < 0 || o1 >= l->out[1])
                continue;
            for (int64_t c = 0; c < l->kernel[2]; c++) {
                int64_t o2 = i[2] * l->stride[2] - l->before[2] + c * l->dilation[2];
                if (o2 >= 0 && o2 < l->out[2])
                    y[(o0 * l->out[1] + o1) * l->out[2] + o2] +=
                        v * w[(a * l->kernel[1] + b) * l->kernel[2] + c];
            }
        }
    }
}

static void transposed_loops(const struct loops *l, const double *x, const double *w,
                             const double *bias, double *y)
{
    size_t out = (size_t)(l->out[0] * l->out[1] * l->out[2]);
    size_t taps = (size_t)(l->kernel[0] * l->kernel[1] * l->kernel[2]);
    size_t cg = l->c_in / l->group, og = l->c_out / l->group;
    for (size_t n = 0; n < l->batch; n++) {
        double *yn = y + n * l->c_out * out;
        for (size_t oc = 0; oc < l->c_out; oc++)
            for (size_t i = 0; i < out; i++)
                yn[oc * out + i] = bias ? bias[oc] : 0;
        for (size_t c = 0; c < l->c_in; c++) {
            int64_t i[3];
            for (i[0] = 0; i[0] < l->in[0]; i[0]++)
                for (i[1] = 0; i[1] < l->in[1]; i[1]++)
                    for (i[2] = 0; i[2] < l->in[2]; i[2]++, x++)
                        for (size_t o = 0; o < og; o++)
                            scatter_window(l, *x, w + (c * og + o) * taps,
                                           yn + (c / cg * og + o) * out, i);
        }
    }
}

static steno_status run_loops(struct steno_op_ctx *ctx, const struct loops *l, bool transposed,
                              struct steno_tensor *y, steno_err *err)
{
    const struct steno_tensor *b = steno_op_in(ctx, 2);
    const double *x = steno_ops_as_f64(ctx, steno_op_in(ctx, 0));
    const double *w = steno_ops_as_f64(ctx, steno_op_in(ctx, 1));
    const double *bias = b ? steno_ops_as_f64(ctx, b) : NULL;
    double *out = steno_ops_out_f64(ctx, y);
    if (!x || !w || !out || (b && !bias))
        return steno_ops_nomem(ctx, err);
    (transposed ? transposed_loops : conv_loops)(l, x, w, bias, out);
    steno_ops_put_f64(y, out);
    return STENO_OK;
}

/* Check the types and ranks of X, W and B. */
static steno_status check_inputs(const struct steno_op_ctx *ctx, size_t c_out, size_t c_in,
                                 steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0), *w = steno_op_in(ctx, 1);
    const struct steno_tensor *b = steno_op_in(ctx, 2);
    if (!steno_ops_is_float(x->dtype) || w->dtype != x->dtype)
        return steno_ops_bad_type(ctx, err, steno_ops_is_float(x->dtype) ? w->dtype : x->dtype);
    if (x->shape.rank != w->shape.rank || (size_t)x->shape.dim[1] != c_in)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "X has rank %d and %lld channels, expected %d and %zu", x->shape.rank,
                             x->shape.rank > 1 ? (long long)x->shape.dim[1] : 0LL, w->shape.rank,
                             c_in);
    if (b && (b->dtype != x->dtype || steno_numel(b) != c_out))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "bias has %zu elements, expected %zu",
                             steno_numel(b), c_out);
    return STENO_OK;
}

static steno_status run_conv(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct conv *c = steno_op_priv(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0), *w = steno_op_in(ctx, 1);
    const struct steno_tensor *z = steno_op_in(ctx, 3);
    struct steno_tensor *y;
    struct steno_shape ys;
    struct steno_window win = c->win;
    struct steno_conv s = c->s;
    steno_status st = STENO_OK;
    if (!c->known)
        st = steno_ops_conv_geometry(steno_op_node(ctx), &w->shape, &s, &win, err);
    if (!st)
        st = check_inputs(ctx, s.c_out, s.c_in, err);
    ys = w->shape;
    ys.dim[1] = w->shape.dim[0];
    ys.dim[0] = x->shape.dim[0];
    for (int i = 0; i < win.n && !st; i++)
        st = steno_window_out(&win, i, x->shape.dim[i + 2], &ys.dim[i + 2], err);
    if (!st && z && (z->dtype != x->dtype || !steno_shape_equal(&z->shape, &ys)))
        st = steno_op_fail(ctx, err, STENO_ERR_INVAL, "the summand and the result differ in shape");
    if (!st)
        st = steno_op_out(ctx, 0, x->dtype, &ys, &y, err);
    if (st || !steno_numel(y))
        return st;
    if (win.n <= 2 && x->dtype != STENO_F64) {
        for (int i = 0; i < 2; i++) {
            int a = win.n - 2 + i;
            s.in[i] = a >= 0 ? (size_t)x->shape.dim[a + 2] : 1;
            s.out[i] = a >= 0 ? (size_t)ys.dim[a + 2] : 1;
            s.pad[i] = a >= 0 ? (size_t)win.before[a] : 0;
        }
        return run_fast(ctx, c, &s, y, err);
    }
    if ((z || c->act || c->act_apart) && x->dtype != STENO_F32)
        return steno_op_fail(ctx, err, STENO_ERR_UNSUPPORTED,
                             "the fused form does not support %s with %d axes",
                             steno_dtype_name(x->dtype), win.n);
    struct loops l = {
        .batch = (size_t)x->shape.dim[0], .c_in = s.c_in, .c_out = s.c_out, .group = s.group};
    widen(&l, &win, &x->shape, &ys);
    st = run_loops(ctx, &l, false, y, err);
    if (!st && z)
        return finish_conv(ctx, c, z->data, y->data, steno_numel(y), err);
    return st || !(c->act || c->act_apart) ? st
                                           : steno_ops_fused_act(ctx, y->data, steno_numel(y), err);
}

/* ---- ConvTranspose (opset 1 and later) ---- W [c_in, c_out / group, kernel...] */

static steno_status transposed_shape(const struct steno_node *n, const struct steno_shape *x,
                                     const struct steno_shape *w, struct steno_window *win,
                                     struct steno_shape *y, steno_err *err)
{
    int64_t group = steno_node_int(n, "group", 1);
    size_t n_pad, n_want;
    const int64_t *pad = steno_node_ints(n, "output_padding", &n_pad);
    const int64_t *want = steno_node_ints(n, "output_shape", &n_want);
    steno_status st;
    if (w->rank < 3 || x->rank != w->rank || x->dim[1] != w->dim[0])
        return steno_fail(err, STENO_ERR_INVAL, "X of rank %d does not fit W of rank %d", x->rank,
                          w->rank);
    if (group < 1 || group > INT32_MAX || w->dim[0] % group || w->dim[1] > INT32_MAX)
        return steno_fail(err, STENO_ERR_INVAL, "group %lld does not fit %lld channels",
                          (long long)group, (long long)w->dim[0]);
    st = steno_window_read(n, w->rank - 2, STENO_WINDOW_MAX, w->dim + 2, win, err);
    if (st)
        return st;
    if ((pad && n_pad != (size_t)win->n) || (want && n_want != (size_t)win->n))
        return steno_fail(err, STENO_ERR_INVAL, "output_padding or output_shape has another rank");
    *y = *x;
    y->dim[1] = w->dim[1] * group;
    for (int i = 0; i < win->n && !st; i++) {
        int64_t extra = pad ? pad[i] : 0, size = want ? want[i] : -1;
        if (extra < 0 || extra > INT32_MAX || (want && (size < 0 || size > INT32_MAX)))
            return steno_fail(err, STENO_ERR_INVAL,
                              "output_padding %lld or output_shape %lld is out of range",
                              (long long)extra, (long long)size);
        st = steno_window_out_transposed(win, i, x->dim[i + 2], extra, size, &y->dim[i + 2], err);
    }
    return st;
}

static steno_status infer_transposed(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, 1), y;
    steno_dtype t = steno_infer_dtype(ic, 0);
    struct steno_window win;
    if (t && !steno_ops_is_float(t))
        return steno_fail(err, STENO_ERR_FORMAT, "X has type %s, expected a float type",
                          steno_dtype_name(t));
    if (steno_shape_known(&x) && steno_shape_known(&w)) {
        steno_status st = transposed_shape(steno_infer_node(ic), &x, &w, &win, &y, err);
        if (st)
            return st;
    } else {
        y = x;
        for (int i = 1; i < y.rank; i++)
            y.dim[i] = steno_infer_new_dim(ic);
    }
    steno_infer_set(ic, 0, t, &y);
    return STENO_OK;
}

/* Weights of a group from which on packing them in every run costs more than it gains: 256 KiB.
 * With 128 KiB, 4 taps and 1,600 pixels the form without packed weights takes 16 % less time. */
#define PACKED_TRANSPOSED 65536

struct transposed { /* packed weights of each group */
    const char *packed;
    size_t each;
};

static steno_status prepare_transposed(struct steno_prepare *pc, void **priv, steno_err *err)
{
    const struct steno_tensor *w = steno_prepare_const(pc, 1);
    const steno_kernels *k = steno_prepare_kernels(pc);
    int64_t group = steno_node_int(steno_prepare_node_of(pc), "group", 1);
    struct steno_packing how = {.n = 0};
    struct transposed *p;
    size_t in, cols;
    char *block;
    bool filled;
    if (!w || w->dtype != STENO_F32 || steno_prepare_dtype(pc, 0) != STENO_F32 ||
        w->shape.rank < 3 || w->shape.rank > 4 || group < 1 || w->shape.dim[0] % group)
        return STENO_OK;
    in = (size_t)(w->shape.dim[0] / group);
    cols = steno_ops_prod(&w->shape, 1, w->shape.rank);
    if (in < 8 || cols < 8 || in * cols < PACKED_TRANSPOSED)
        return STENO_OK;
    p = calloc(1, sizeof *p);
    if (!p)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    p->each = steno_aligned(k->gemm_f32_packed_bytes(in, cols));
    steno_packing_put(&how, "transposed", 10);
    steno_packing_put(&how, &group, sizeof group);
    block = steno_prepare_memory(pc, 1, p->each * (size_t)group, &how, &filled);
    if (!block) {
        free(p);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    for (size_t g = 0; !filled && g < (size_t)group; g++)
        k->gemm_f32_pack(block + g * p->each, (const float *)w->data + g * in * cols, cols, false,
                         in, cols);
    if (!filled)
        steno_prepare_rounded(pc, w->data, steno_numel(w), false, 0);
    p->packed = block;
    *priv = p;
    return STENO_OK;
}

/* One and two axes, in f32. */
static steno_status transposed_fast(struct steno_op_ctx *ctx, const struct loops *l,
                                    struct steno_tensor *y, steno_err *err)
{
    const struct steno_tensor *b = steno_op_in(ctx, 2);
    const struct transposed *p = steno_op_priv(ctx);
    struct steno_conv_transpose t = {.batch = l->batch,
                                     .c_in = l->c_in,
                                     .c_out = l->c_out,
                                     .group = l->group,
                                     .x = steno_ops_as_f32(ctx, steno_op_in(ctx, 0)),
                                     .packed = p ? p->packed : NULL,
                                     .each = p ? p->each : 0,
                                     .bias = b ? steno_ops_as_f32(ctx, b) : NULL,
                                     .y = steno_ops_out_f32(ctx, y)};
    steno_status st;
    t.w = p ? NULL : steno_ops_as_f32(ctx, steno_op_in(ctx, 1));
    if (!t.x || (!p && !t.w) || !t.y || (b && !t.bias))
        return steno_ops_nomem(ctx, err);
    for (int i = 0; i < 2; i++) {
        t.in[i] = l->in[i + 1];
        t.out[i] = l->out[i + 1];
        t.kernel[i] = l->kernel[i + 1];
        t.stride[i] = l->stride[i + 1];
        t.dilation[i] = l->dilation[i + 1];
        t.before[i] = l->before[i + 1];
    }
    st = steno_ops_conv_transpose(ctx, &t, err);
    if (!st)
        steno_ops_put_f32(y, t.y);
    return st;
}

static steno_status run_transposed(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0), *w = steno_op_in(ctx, 1);
    struct steno_tensor *y;
    struct steno_shape ys;
    struct steno_window win;
    steno_status st = transposed_shape(steno_op_node(ctx), &x->shape, &w->shape, &win, &ys, err);
    if (!st)
        st = check_inputs(ctx, (size_t)ys.dim[1], (size_t)w->shape.dim[0], err);
    if (!st)
        st = steno_op_out(ctx, 0, x->dtype, &ys, &y, err);
    if (st || !steno_numel(y))
        return st;
    struct loops l = {.batch = (size_t)x->shape.dim[0],
                      .c_in = (size_t)x->shape.dim[1],
                      .c_out = (size_t)ys.dim[1],
                      .group = (size_t)steno_node_int(steno_op_node(ctx), "group", 1)};
    widen(&l, &win, &x->shape, &ys);
    if (win.n <= 2 && x->dtype != STENO_F64)
        return transposed_fast(ctx, &l, y, err);
    return run_loops(ctx, &l, true, y, err);
}

const struct steno_op steno_ops_conv[] = {
    {"", "Conv", 1, 0, 0, infer_conv, prepare_conv, release_conv, run_conv},
    {"com.microsoft", "FusedConv", 1, 0, 0, infer_conv, prepare_conv, release_conv, run_conv},
    {"", "ConvTranspose", 1, 0, 0, infer_transposed, prepare_transposed, free, run_transposed},
    {0},
};
