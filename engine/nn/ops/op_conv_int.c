/* ConvInteger, QLinearConv: sums of 8-bit products, exact in i32 (they wrap beyond it, as in ONNX
 * Runtime). One group over one or two axes runs as products of patches (nn/ops/conv_i8.h), packed
 * at load if the weights are constant. Groups and three axes run as plain loops along the last
 * axis. */
#include "nn/ops/conv_i8.h"
#include "nn/ops/window.h"

#include <math.h>
#include <stdlib.h>

struct geometry {
    struct steno_window win;
    size_t batch, c_in, c_out, group;
    int64_t in[STENO_WINDOW_MAX], at_out[STENO_WINDOW_MAX];
    struct steno_shape out;
};

/* Unknown dims of x or w (during inference) give STENO_DIM_ANY in out. */
static steno_status geometry(const struct steno_node *n, const struct steno_shape *x,
                             const struct steno_shape *w, struct geometry *g, steno_err *err)
{
    int64_t group = steno_node_int(n, "group", 1);
    bool kernel_known = true;
    steno_status st;
    memset(g, 0, sizeof *g);
    if (x->rank < 3 || x->rank > STENO_WINDOW_MAX + 2 || w->rank != x->rank)
        return steno_fail(err, STENO_ERR_INVAL, "the input has rank %d, but the weight has rank %d",
                          x->rank, w->rank);
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
    st = steno_window_read(n, x->rank - 2, STENO_WINDOW_MAX, w->dim + 2, &g->win, err);
    for (int i = 0; i < x->rank - 2 && !st; i++) {
        g->in[i] = x->dim[2 + i];
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

/* ---- the two factors ---- */

struct factors {
    const struct steno_tensor *x, *x_zero, *w, *w_zero; /* zero NULL = 0 */
    /* w, when constant; then w has no bytes */
    const struct steno_packed_i8 *packed;
};

static int32_t zero_of(const struct steno_tensor *z, size_t i)
{
    return z ? (int32_t)steno_ops_get_i64(z, steno_numel(z) > 1 ? i : 0) : 0;
}

/* Read x and w, inputs 0 and w_in, and their zero points, inputs x_zero and w_zero. */
static steno_status read_factors(struct steno_op_ctx *ctx, int w_in, int x_zero, int w_zero,
                                 struct factors *f, steno_err *err)
{
    bool ok;
    f->x = steno_op_in(ctx, 0);
    f->w = steno_op_in(ctx, w_in);
    f->x_zero = steno_op_in(ctx, x_zero);
    f->w_zero = steno_op_in(ctx, w_zero);
    f->packed = steno_op_priv(ctx);
    if (!steno_dtype_is_byte(f->x->dtype) || !steno_dtype_is_byte(f->w->dtype))
        return steno_ops_bad_type(ctx, err,
                                  steno_dtype_is_byte(f->x->dtype) ? f->w->dtype : f->x->dtype);
    ok = !f->x_zero || (f->x_zero->dtype == f->x->dtype && steno_numel(f->x_zero) == 1);
    ok = ok && (!f->w_zero || (f->w_zero->dtype == f->w->dtype &&
                               (steno_numel(f->w_zero) == 1 ||
                                steno_numel(f->w_zero) == (size_t)f->w->shape.dim[0])));
    return ok ? STENO_OK : steno_op_fail(ctx, err, STENO_ERR_INVAL, "a zero point does not fit");
}

/* ---- products of patches ---- */

/* One group, at most two axes: fill s for the kernel. False otherwise. */
static bool as_patches(const struct geometry *g, struct steno_conv *s)
{
    *s = (struct steno_conv){.c_in = g->c_in, .c_out = g->c_out, .group = 1};
    for (int i = 0; i < 2; i++) {
        int a = g->win.n - 2 + i;
        s->in[i] = a >= 0 ? (size_t)g->in[a] : 1;
        s->out[i] = a >= 0 ? (size_t)g->at_out[a] : 1;
        s->kernel[i] = a >= 0 ? (size_t)g->win.kernel[a] : 1;
        s->stride[i] = a >= 0 ? (size_t)g->win.stride[a] : 1;
        s->dilation[i] = a >= 0 ? (size_t)g->win.dilation[a] : 1;
        s->pad[i] = a >= 0 ? (size_t)g->win.before[a] : 0;
    }
    return g->group == 1 && g->win.n <= 2;
}

static size_t taps_of_conv_int(const struct steno_tensor *w)
{
    return steno_ops_prod(&w->shape, 2, w->shape.rank);
}

static steno_status prepare_with(struct steno_prepare *pc, int w_in, int zero_in, void **priv,
                                 steno_err *err)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const struct steno_tensor *w = w_in < n->n_in ? steno_prepare_const(pc, w_in) : NULL, *z = NULL;
    bool has_zero = zero_in < n->n_in && n->in[zero_in] != STENO_NONE;
    struct steno_packed_i8 *p = NULL;
    size_t c_out, depth;
    uint8_t *rows;
    steno_status st;
    if (has_zero)
        z = steno_prepare_const(pc, zero_in);
    if (!w || !w->data || !steno_dtype_is_byte(w->dtype) || w->shape.rank < 3 ||
        w->shape.rank > 4 || !steno_numel(w) || steno_node_int(n, "group", 1) != 1 ||
        (has_zero && (!z || z->dtype != w->dtype ||
                      (steno_numel(z) != 1 && steno_numel(z) != (size_t)w->shape.dim[0]))))
        return STENO_OK;
    c_out = (size_t)w->shape.dim[0];
    depth = steno_numel(w) / c_out;
    rows = malloc(steno_numel(w));
    if (!rows)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    steno_ops_conv_rows(rows, w->data, 1, c_out, (size_t)w->shape.dim[1], taps_of_conv_int(w));
    st = steno_packed_i8_new(steno_prepare_kernels(pc), rows, w->dtype, true, depth, c_out, z, &p,
                             err);
    free(rows);
    if (!st) {
        steno_prepare_consumed(pc, w_in);
        steno_prepare_packed(pc, p->bytes);
        *priv = p;
    }
    return st;
}

static steno_status prepare_conv_integer(struct steno_prepare *pc, void **priv, steno_err *err)
{
    return prepare_with(pc, 1, 3, priv, err);
}

static steno_status prepare_qlinear_conv(struct steno_prepare *pc, void **priv, steno_err *err)
{
    return prepare_with(pc, 3, 5, priv, err);
}

/* Pack weights that are a run-time input, in scratch. */
static steno_status pack_now(struct steno_op_ctx *ctx, const struct factors *f, const void **out,
                             steno_err *err)
{
    const steno_kernels *k = steno_op_kernels(ctx);
    size_t c_out = (size_t)f->w->shape.dim[0], c_in = (size_t)f->w->shape.dim[1];
    size_t depth = c_in * taps_of_conv_int(f->w);
    uint8_t *rows = steno_op_scratch(ctx, steno_numel(f->w) + 1);
    int32_t *zero = steno_op_scratch(ctx, (c_out + 1) * sizeof *zero);
    void *packed = steno_op_scratch(ctx, k->gemm_i8_packed_bytes(depth, c_out));
    if (!rows || !zero || !packed)
        return steno_ops_nomem(ctx, err);
    steno_ops_conv_rows(rows, f->w->data, 1, c_out, c_in, taps_of_conv_int(f->w));
    for (size_t i = 0; i < c_out; i++)
        zero[i] = zero_of(f->w_zero, i);
    k->gemm_i8_pack(packed, &(struct steno_weights_i8){.k = depth,
                                                       .n = c_out,
                                                       .b = rows,
                                                       .ldb = depth,
                                                       .trans = true,
                                                       .is_signed = f->w->dtype == STENO_I8,
                                                       .zero = zero,
                                                       .zero_step = 1});
    *out = packed;
    return STENO_OK;
}

/* Transpose [c, n] to [n, c]. */
static void channels_last(uint8_t *to, const uint8_t *x, size_t c, size_t n)
{
    enum { BLOCK = 64 };
    for (size_t n0 = 0; n0 < n; n0 += BLOCK)
        for (size_t i = 0; i < c; i++)
            for (size_t j = n0; j < n && j < n0 + BLOCK; j++)
                to[j * c + i] = x[i * n + j];
}

static steno_status by_patches(struct steno_op_ctx *ctx, const struct factors *f,
                               const struct geometry *g, const struct steno_conv *s, int32_t *y,
                               steno_err *err)
{
    size_t in = s->in[0] * s->in[1], out = s->out[0] * s->out[1];
    int32_t zero = zero_of(f->x_zero, 0);
    uint8_t *x = steno_op_scratch(ctx, in * s->c_in + 1);
    struct steno_conv_i8 c = {.s = s, .x = x, .pad = (uint8_t)zero};
    steno_status st = STENO_OK;
    if (!x)
        return steno_ops_nomem(ctx, err);
    c.like = (struct steno_gemm_i8){.a_signed = f->x->dtype == STENO_I8, .a_zero = &zero};
    if (f->packed)
        c.like.packed = f->packed->data;
    else
        st = pack_now(ctx, f, &c.like.packed, err);
    for (size_t b = 0; b < g->batch && !st; b++) {
        channels_last(x, (const uint8_t *)f->x->data + b * in * s->c_in, s->c_in, in);
        c.y = y + b * s->c_out * out;
        st = steno_ops_conv_bytes(ctx, &c, err);
    }
    return st;
}

/* ---- plain loops ---- over three axes; leading axes that do not exist are 1 */

struct loops {
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], before[3];
    size_t image, plane, taps;
};

static struct loops three_axes(const struct geometry *g)
{
    struct loops l = {.image = 1, .plane = 1, .taps = 1};
    for (int i = 0; i < 3; i++) {
        int a = i - (3 - g->win.n);
        l.in[i] = a < 0 ? 1 : g->in[a];
        l.out[i] = a < 0 ? 1 : g->at_out[a];
        l.kernel[i] = a < 0 ? 1 : g->win.kernel[a];
        l.stride[i] = a < 0 ? 1 : g->win.stride[a];
        l.dilation[i] = a < 0 ? 1 : g->win.dilation[a];
        l.before[i] = a < 0 ? 0 : g->win.before[a];
        l.image *= (size_t)l.in[i];
        l.plane *= (size_t)l.out[i];
        l.taps *= (size_t)l.kernel[i];
    }
    return l;
}

/* y [out2] += v * x along the last axis, for tap c; x: the input row. */
static void add_row_conv_int(const struct loops *l, int32_t *y, const int16_t *x, int32_t v,
                             int64_t c)
{
    int64_t shift = c * l->dilation[2] - l->before[2], step = l->stride[2];
    int64_t from = shift < 0 ? (-shift + step - 1) / step : 0;
    int64_t to = l->in[2] > shift ? (l->in[2] - shift + step - 1) / step : 0;
    if (to > l->out[2])
        to = l->out[2];
    for (int64_t o = from; o < to; o++)
        y[o] = (int32_t)((uint32_t)y[o] + (uint32_t)(v * x[o * step + shift]));
}

/* y [plane] += x [image] convolved with w [taps] minus its zero point. */
static void add_channel(const struct loops *l, int32_t *y, const int16_t *x, const uint8_t *w,
                        bool w_signed, int32_t w_zero)
{
    for (size_t t = 0; t < l->taps; t++) {
        int64_t c = (int64_t)t % l->kernel[2], b = (int64_t)t / l->kernel[2] % l->kernel[1];
        int64_t a = (int64_t)t / l->kernel[2] / l->kernel[1];
        int32_t v = (w_signed ? (int8_t)w[t] : w[t]) - w_zero;
        for (int64_t r = 0; v && r < l->out[0] * l->out[1]; r++) {
            int64_t i = r / l->out[1] * l->stride[0] + a * l->dilation[0] - l->before[0];
            int64_t j = r % l->out[1] * l->stride[1] + b * l->dilation[1] - l->before[1];
            if (i >= 0 && i < l->in[0] && j >= 0 && j < l->in[1])
                add_row_conv_int(l, y + r * l->out[2], x + (i * l->in[1] + j) * l->in[2], v, c);
        }
    }
}

struct loop_job {
    const struct factors *f;
    const struct geometry *g;
    struct loops l;
    const int16_t *x;
    int32_t *y;
};

/* Compute output channels [begin, end), counted over all images. */
static void loop_range(void *arg, size_t begin, size_t end)
{
    const struct loop_job *j = arg;
    const struct geometry *g = j->g;
    size_t per = g->c_in / g->group, mult = g->c_out / g->group;
    for (size_t bo = begin; bo < end; bo++) {
        size_t o = bo % g->c_out;
        const int16_t *x = j->x + (bo / g->c_out * g->c_in + o / mult * per) * j->l.image;
        const uint8_t *w = (const uint8_t *)j->f->w->data + o * per * j->l.taps;
        int32_t *y = j->y + bo * j->l.plane;
        memset(y, 0, j->l.plane * sizeof *y);
        for (size_t i = 0; i < per; i++)
            add_channel(&j->l, y, x + i * j->l.image, w + i * j->l.taps, j->f->w->dtype == STENO_I8,
                        zero_of(j->f->w_zero, o));
    }
}

static steno_status by_loops(struct steno_op_ctx *ctx, const struct factors *f,
                             const struct geometry *g, int32_t *y, steno_err *err)
{
    struct loop_job j = {f, g, three_axes(g), NULL, y};
    size_t n = steno_numel(f->x), work;
    const uint8_t *u = f->x->data;
    int16_t zero = (int16_t)zero_of(f->x_zero, 0);
    int16_t *x = steno_op_scratch(ctx, n * sizeof *x + 1);
    if (!x)
        return steno_ops_nomem(ctx, err);
    for (size_t i = 0; i < n; i++)
        x[i] = (int16_t)((f->x->dtype == STENO_I8 ? (int8_t)u[i] : u[i]) - zero);
    j.x = x;
    work = j.l.plane * j.l.taps * (g->c_in / g->group);
    steno_ops_ranges(ctx, g->batch * g->c_out, 1 + ((size_t)1 << 17) / (work + 1), loop_range, &j);
    return STENO_OK;
}

static steno_status convolve(struct steno_op_ctx *ctx, const struct factors *f,
                             const struct geometry *g, int32_t *y, steno_err *err)
{
    struct steno_conv s;
    return as_patches(g, &s) ? by_patches(ctx, f, g, &s, y, err) : by_loops(ctx, f, g, y, err);
}

static steno_status run_conv_integer(struct steno_op_ctx *ctx, steno_err *err)
{
    struct geometry g;
    struct factors f;
    struct steno_tensor *y;
    steno_status st = geometry(steno_op_node(ctx), &steno_op_in(ctx, 0)->shape,
                               &steno_op_in(ctx, 1)->shape, &g, err);
    if (!st)
        st = read_factors(ctx, 1, 2, 3, &f, err);
    if (!st)
        st = steno_op_out(ctx, 0, STENO_I32, &g.out, &y, err);
    return st || !steno_numel(y) ? st : convolve(ctx, &f, &g, y->data, err);
}

static bool one(const struct steno_op_ctx *ctx, int in)
{
    return steno_numel(steno_op_in(ctx, in)) == 1;
}

/* y = saturate(round((sum + bias) * x_scale / y_scale * w_scale) + y_zero), by channel. */
static void requantize(struct steno_op_ctx *ctx, const struct geometry *g, const int32_t *sum,
                       struct steno_tensor *y)
{
    const struct steno_tensor *ws = steno_op_in(ctx, 4), *yz = steno_op_in(ctx, 7);
    const struct steno_tensor *bias = steno_op_in(ctx, 8);
    const bool to_signed = yz->dtype == STENO_I8;
    const double lo = to_signed ? -128 : 0, hi = to_signed ? 127 : 255;
    const double ratio =
        steno_ops_get_f64(steno_op_in(ctx, 1), 0) / steno_ops_get_f64(steno_op_in(ctx, 6), 0);
    const double zero = steno_ops_get_f64(yz, 0);
    const size_t plane = steno_ops_prod(&g->out, 2, g->out.rank);
    uint8_t *to = y->data;
    for (size_t bo = 0; bo < g->batch * g->c_out; bo++) {
        size_t o = bo % g->c_out;
        double scale = steno_ops_get_f64(ws, steno_numel(ws) > 1 ? o : 0);
        double add = bias ? steno_ops_get_f64(bias, o) : 0;
        for (size_t p = 0; p < plane; p++) {
            double v = nearbyint(((double)*sum++ + add) * ratio * scale) + zero;
            v = v < lo ? lo : v > hi ? hi : v;
            *to++ = (uint8_t)(int)(v == v ? v : 0);
        }
    }
}

/* Inputs: x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias (i32, optional). */
static steno_status run_qlinear_conv(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *ws = steno_op_in(ctx, 4), *bias = steno_op_in(ctx, 8),
                              *yz = steno_op_in(ctx, 7);
    struct geometry g;
    struct factors f;
    struct steno_tensor *y;
    int32_t *sum;
    steno_status st = geometry(steno_op_node(ctx), &steno_op_in(ctx, 0)->shape,
                               &steno_op_in(ctx, 3)->shape, &g, err);
    if (st)
        return st;
    if (!one(ctx, 1) || !one(ctx, 6) || !one(ctx, 7) ||
        (steno_numel(ws) != 1 && steno_numel(ws) != g.c_out) ||
        (bias && steno_numel(bias) != g.c_out))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "scales, zero points or bias do not fit");
    if (!steno_dtype_is_byte(yz->dtype))
        return steno_ops_bad_type(ctx, err, yz->dtype);
    st = read_factors(ctx, 3, 2, 5, &f, err);
    if (!st)
        st = steno_op_out(ctx, 0, yz->dtype, &g.out, &y, err);
    if (st || !steno_numel(y))
        return st;
    sum = steno_op_scratch(ctx, steno_numel(y) * sizeof *sum);
    if (!sum)
        return steno_ops_nomem(ctx, err);
    st = convolve(ctx, &f, &g, sum, err);
    if (!st)
        requantize(ctx, &g, sum, y);
    return st;
}

const struct steno_op steno_ops_conv_int[] = {
    {"", "ConvInteger", 10, 0, 0, infer_conv_integer, prepare_conv_integer, steno_packed_i8_free,
     run_conv_integer},
    {"", "QLinearConv", 10, 0, 0, infer_qlinear_conv, prepare_qlinear_conv, steno_packed_i8_free,
     run_qlinear_conv},
    {0},
};
