/* Operators of domain ai.steno, made by passes (engine/nn/passes). Each is a chain of ONNX
 * operators in one loop. Files contain them only as functions.
 *
 * Linear            X [..., K], W [K, N] constant, bias [N]?, residual [..., N]?, scale [1 or N]?,
 *                   zero [1 or N]?
 *                   y = act(alpha * X W + bias) + residual; attributes act (enum steno_activation),
 *                   alpha, act_min and act_max (Clip). W is f32, or bytes with the values
 *                   (W - zero) * scale, which are multiplied with rows of X quantized to 8 bits
 * Glu               X [..., 2 N] = [a, b]; y [..., N] = a * act(b), or act(a) * b with first = 1;
 *                   attributes first, act (enum steno_activation: Sigmoid, Relu, SiLU, Gelu; 2 by
 *                   default)
 * DepthwiseConv1d   X [B, S, C], W [C, 1, K] constant, bias [C]?; y [B, S + pads - K + 1, C]
 *                   y[b, t, c] = act(sum_k X[b, t + k - pads[0], c] W[c, 0, k] + bias[c]), zeros
 *                   around X; attributes pads [2], below K, and act; time is the slow axis */
#include "nn/ops/internal.h"
#include "nn/ops/families.h"
#include "nn/ops/weights.h"

#include <stdlib.h>
#include <string.h>

/* ---- Linear ---- */
struct linear {
    struct steno_weights *w;
    float alpha, act_min, act_max;
    enum steno_activation act;
};

static void release_linear(void *priv)
{
    struct linear *l = priv;
    if (!l)
        return;
    steno_weights_free(l->w);
    free(l);
}

static steno_status prepare_linear(struct steno_prepare *pc, void **priv, steno_err *err)
{
    const struct steno_node *node = steno_prepare_node_of(pc);
    struct linear *l = calloc(1, sizeof *l);
    steno_status st;
    if (!l)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    l->alpha = steno_node_float(node, "alpha", 1);
    l->act = (enum steno_activation)steno_node_int(node, "act", STENO_ACT_NONE);
    l->act_min = steno_node_float(node, "act_min", 0);
    l->act_max = steno_node_float(node, "act_max", 0);
    st = steno_prepare_weights(pc, 1, false, &l->w, err);
    if (!st && !l->w)
        st = steno_prepare_weights_bytes(pc, 1, 4, &l->w, err);
    if (!st && !l->w)
        st = steno_fail(err, STENO_ERR_FORMAT,
                        "weights must be constant, of rank 2, f32 or bytes with a scale");
    if (st) {
        release_linear(l);
        return st;
    }
    *priv = l;
    return STENO_OK;
}

static steno_status run_linear(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct linear *l = steno_op_priv(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    const struct steno_tensor *bias = steno_op_in(ctx, 2), *residual = steno_op_in(ctx, 3);
    struct steno_gemm_epilogue ep = {.act = l->act,
                                     .act_min = l->act_min,
                                     .act_max = l->act_max,
                                     .alpha = l->alpha,
                                     .ldr = l->w->n};
    struct steno_shape s;
    struct steno_tensor *y;
    steno_status st;
    if (!x || x->dtype != STENO_F32 || x->shape.rank < 1 ||
        x->shape.dim[x->shape.rank - 1] != (int64_t)l->w->k)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "X does not fit weights of %zu rows",
                             l->w->k);
    s = x->shape;
    s.dim[s.rank - 1] = (int64_t)l->w->n;
    if (bias && (bias->dtype != STENO_F32 || steno_numel(bias) != l->w->n))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the bias must have %zu elements", l->w->n);
    if (residual && (residual->dtype != STENO_F32 || !steno_shape_equal(&residual->shape, &s)))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "the residual and the result differ in shape");
    ep.bias = bias ? bias->data : NULL;
    ep.residual = residual ? residual->data : NULL;
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (!st && steno_numel(y))
        st = steno_ops_linear(ctx, l->w, steno_numel(y) / l->w->n, x->data, l->w->k, y->data,
                              l->w->n, &ep, err);
    return st;
}

/* ---- Glu ---- */
static steno_status infer_glu(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0);
    if (x.rank > 0 && x.dim[x.rank - 1] >= 0) {
        if (x.dim[x.rank - 1] % 2)
            return steno_fail(err, STENO_ERR_INVAL, "the last dimension is odd");
        x.dim[x.rank - 1] /= 2;
    } else if (x.rank > 0) {
        x.dim[x.rank - 1] = steno_infer_new_dim(ic);
    }
    steno_infer_set(ic, 0, STENO_F32, &x);
    return STENO_OK;
}

struct glu_job {
    const steno_kernels *k;
    const float *x;
    float *y;
    size_t n;
    enum steno_activation act;
    bool first;
};

static steno_status prepare_glu(struct steno_prepare *pc, void **priv, steno_err *err)
{
    int64_t act = steno_node_int(steno_prepare_node_of(pc), "act", STENO_ACT_SIGMOID);
    (void)priv;
    return act == STENO_ACT_SIGMOID || act == STENO_ACT_RELU || act == STENO_ACT_SILU ||
                   act == STENO_ACT_GELU
               ? STENO_OK
               : steno_fail(err, STENO_ERR_FORMAT, "act %lld is not supported", (long long)act);
}

static steno_unary_f32 *gate_of(const steno_kernels *k, enum steno_activation act)
{
    return act == STENO_ACT_RELU   ? k->relu_f32
           : act == STENO_ACT_SILU ? k->silu_f32
           : act == STENO_ACT_GELU ? k->gelu_f32
                                   : k->sigmoid_f32;
}

static void glu_rows(void *arg, size_t begin, size_t end)
{
    const struct glu_job *j = arg;
    for (size_t r = begin; r < end; r++) {
        const float *x = j->x + r * 2 * j->n;
        float *y = j->y + r * j->n;
        gate_of(j->k, j->act)(y, j->first ? x : x + j->n, j->n);
        j->k->mul_f32(y, j->first ? x + j->n : x, 1, y, 1, j->n);
    }
}

static steno_status run_glu(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct glu_job j = {.k = steno_op_kernels(ctx)};
    struct steno_shape s;
    struct steno_tensor *y;
    steno_status st;
    if (!x || x->dtype != STENO_F32 || x->shape.rank < 1 || x->shape.dim[x->shape.rank - 1] % 2)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "X must be f32 with an even last dimension");
    s = x->shape;
    s.dim[s.rank - 1] /= 2;
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    j.x = x->data;
    j.y = y->data;
    j.n = (size_t)s.dim[s.rank - 1];
    j.act = (enum steno_activation)steno_node_int(steno_op_node(ctx), "act", STENO_ACT_SIGMOID);
    j.first = steno_node_int(steno_op_node(ctx), "first", 0) != 0;
    steno_ops_ranges(ctx, steno_numel(y) / j.n, 1 + 16384 / j.n, glu_rows, &j);
    return STENO_OK;
}

/* ---- DepthwiseConv1d ---- */
struct depthwise {
    size_t c, k;
    float *w; /* [K, C] */
};

static void release_depthwise(void *priv)
{
    struct depthwise *d = priv;
    if (!d)
        return;
    steno_aligned_free(d->w);
    free(d);
}

static steno_status prepare_depthwise(struct steno_prepare *pc, void **priv, steno_err *err)
{
    const struct steno_tensor *w = steno_prepare_const(pc, 1);
    struct depthwise *d;
    if (!w || w->dtype != STENO_F32 || w->shape.rank != 3 || w->shape.dim[1] != 1 ||
        !w->shape.dim[2])
        return steno_fail(err, STENO_ERR_FORMAT, "weights must be constant, f32, [C,1,K]");
    d = calloc(1, sizeof *d);
    if (!d)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    d->c = (size_t)w->shape.dim[0];
    d->k = (size_t)w->shape.dim[2];
    d->w = steno_aligned_alloc(steno_numel(w) * sizeof *d->w);
    if (!d->w) {
        release_depthwise(d);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    for (size_t c = 0; c < d->c; c++)
        for (size_t k = 0; k < d->k; k++)
            d->w[k * d->c + c] = ((const float *)w->data)[c * d->k + k];
    steno_prepare_consumed(pc, 1);
    steno_prepare_packed(pc, steno_numel(w) * sizeof *d->w);
    *priv = d;
    return STENO_OK;
}

static bool depthwise_pads(const struct steno_node *n, int64_t taps, int64_t *pads)
{
    size_t count;
    const int64_t *p = steno_node_ints(n, "pads", &count);
    pads[0] = p && count == 2 ? p[0] : 0;
    pads[1] = p && count == 2 ? p[1] : 0;
    return (!p || count == 2) && pads[0] >= 0 && pads[1] >= 0 && pads[0] < taps && pads[1] < taps;
}

static steno_status infer_depthwise(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, 1);
    int64_t pads[2];
    if (x.rank == 3 && w.rank == 3 && w.dim[2] > 0) {
        if (x.dim[2] >= 0 && w.dim[0] >= 0 && x.dim[2] != w.dim[0])
            return steno_fail(err, STENO_ERR_INVAL, "channels differ");
        if (!depthwise_pads(steno_infer_node(ic), w.dim[2], pads))
            return steno_fail(err, STENO_ERR_INVAL, "pads must be two numbers below the taps");
        if (x.dim[1] < 0)
            x.dim[1] = pads[0] + pads[1] == w.dim[2] - 1 ? x.dim[1] : steno_infer_new_dim(ic);
        else if (x.dim[1] + pads[0] + pads[1] >= w.dim[2])
            x.dim[1] += pads[0] + pads[1] - w.dim[2] + 1;
        else
            return steno_fail(err, STENO_ERR_INVAL, "X is shorter than the kernel");
    }
    steno_infer_set(ic, 0, STENO_F32, &x);
    return STENO_OK;
}

struct depthwise_job {
    const steno_kernels *k;
    const struct depthwise *d;
    const float *x, *bias;
    float *y;
    size_t in, out, before; /* rows of x and y, zeros before x */
    /* Outputs [0, head) and [tail, out) of an image reach beyond x. `edges` has copies of the rows
     * that they read, zeros included: for each image head + k - 1 rows, then out - tail + k - 1. */
    size_t head, tail;
    float *edges;
    enum steno_activation act;
};

static size_t edge_rows(const struct depthwise_job *j)
{
    return (j->head ? j->head + j->d->k - 1 : 0) +
           (j->tail < j->out ? j->out - j->tail + j->d->k - 1 : 0);
}

/* Set head and tail. If there are few outputs between the edges, a call for them does not pay, and
 * all outputs belong to head. */
static void find_edges(struct depthwise_job *j)
{
    const size_t reach = j->in + j->before;
    j->head = j->before < j->out ? j->before : j->out;
    j->tail = reach >= j->d->k ? reach - j->d->k + 1 : 0;
    j->tail = j->tail < j->head ? j->head : j->tail < j->out ? j->tail : j->out;
    if (j->tail - j->head < j->out / 2)
        j->head = j->tail = j->out;
}

/* Copy n rows of x from row `from` - before on; rows that x does not have are zero. */
static float *padded(const struct depthwise_job *j, const float *x, size_t from, size_t n,
                     float *to)
{
    const size_t c = j->d->c;
    for (size_t i = from; i < from + n; i++, to += c)
        if (i >= j->before && i - j->before < j->in)
            memcpy(to, x + (i - j->before) * c, c * sizeof *to);
        else
            memset(to, 0, c * sizeof *to);
    return to;
}

static void fill_edges(const struct depthwise_job *j, size_t images)
{
    float *to = j->edges;
    for (size_t b = 0; b < images; b++) {
        const float *x = j->x + b * j->in * j->d->c;
        if (j->head)
            to = padded(j, x, 0, j->head + j->d->k - 1, to);
        if (j->tail < j->out)
            to = padded(j, x, j->tail, j->out - j->tail + j->d->k - 1, to);
    }
}

/* Compute outputs [t, end) of image b. */
static void depthwise_rows(const struct depthwise_job *j, size_t b, size_t t, size_t end)
{
    const size_t c = j->d->c;
    const float *x = j->x + b * j->in * c, *edges = j->edges + b * edge_rows(j) * c;
    while (t < end) {
        size_t stop = t < j->head ? j->head : t < j->tail ? j->tail : j->out;
        const float *from = t < j->head   ? edges + t * c
                            : t < j->tail ? x + (t - j->before) * c
                                          : edges + (edge_rows(j) - (j->out - t) - j->d->k + 1) * c;
        stop = stop < end ? stop : end;
        j->k->dwconv_f32(j->y + (b * j->out + t) * c, from, j->d->w, j->bias, stop - t, c, j->d->k);
        t = stop;
    }
}

/* Compute rows [begin, end) of all images in sequence, a few at a time, so that the activation
 * finds them in the caches. */
static void depthwise_part(void *arg, size_t begin, size_t end)
{
    const struct depthwise_job *j = arg;
    size_t step = 12 * (1 + 1536 / j->d->c);
    while (begin < end) {
        size_t b = begin / j->out, t = begin % j->out, n = j->out - t;
        n = n < step ? n : step;
        n = n < end - begin ? n : end - begin;
        depthwise_rows(j, b, t, t + n);
        steno_ops_activate(j->k, j->act, 0, 0, j->y + begin * j->d->c, n * j->d->c);
        begin += n;
    }
}

static steno_status run_depthwise(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct depthwise *d = steno_op_priv(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0), *bias = steno_op_in(ctx, 2);
    struct depthwise_job j = {.k = steno_op_kernels(ctx), .d = d};
    struct steno_shape s;
    struct steno_tensor *y;
    int64_t pads[2];
    steno_status st;
    if (!depthwise_pads(steno_op_node(ctx), (int64_t)d->k, pads))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "pads must be two numbers below the taps");
    /* no rows that are padded to one less than the taps give no rows: a text without tokens */
    if (!x || x->dtype != STENO_F32 || x->shape.rank != 3 || x->shape.dim[2] != (int64_t)d->c ||
        x->shape.dim[1] + pads[0] + pads[1] + 1 < (int64_t)d->k ||
        (bias && (bias->dtype != STENO_F32 || steno_numel(bias) != d->c)))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "X or bias do not fit weights of %zu channels, %zu taps", d->c, d->k);
    s = x->shape;
    s.dim[1] += pads[0] + pads[1] - (int64_t)d->k + 1;
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    j.x = x->data;
    j.y = y->data;
    j.bias = bias ? bias->data : NULL;
    j.in = (size_t)x->shape.dim[1];
    j.out = (size_t)s.dim[1];
    j.before = (size_t)pads[0];
    j.act = (enum steno_activation)steno_node_int(steno_op_node(ctx), "act", STENO_ACT_NONE);
    find_edges(&j);
    j.edges = steno_op_scratch(ctx, (size_t)s.dim[0] * edge_rows(&j) * d->c * sizeof *j.edges + 1);
    if (!j.edges)
        return steno_ops_nomem(ctx, err);
    fill_edges(&j, (size_t)s.dim[0]);
    steno_ops_ranges(ctx, (size_t)s.dim[0] * j.out, 1 + (1u << 17) / (d->c * d->k), depthwise_part,
                     &j);
    return STENO_OK;
}

const struct steno_op steno_ops_fused[] = {
    {"ai.steno", "Linear", 1, 0, 0, steno_infer_linear, prepare_linear, release_linear, run_linear},
    {"ai.steno", "Glu", 1, 0, 0, infer_glu, prepare_glu, NULL, run_glu},
    {"ai.steno", "DepthwiseConv1d", 1, 0, 0, infer_depthwise, prepare_depthwise, release_depthwise,
     run_depthwise},
    {0},
};
