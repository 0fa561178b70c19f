/* Operators of domain ai.steno, made by passes (engine/passes), never read from files as such: each
 * is a chain of ONNX operators in one loop.
 *
 * Linear            X [..., K], W [K, N] constant, bias [N]?, residual [..., N]?
 *                   y = act(alpha * X W + bias) + residual; attributes act (enum steno_act), alpha
 * Glu               X [..., 2 N] = [a, b]; y [..., N] = a * sigmoid(b)
 * DepthwiseConv1d   X [B, T + K - 1, C], W [C, 1, K] constant, bias [C]?; y [B, T, C]
 *                   y[b, t, c] = sum_k X[b, t + k, c] W[c, 0, k] + bias[c]: time stays the slow
 * axis */
#include "ops/internal.h"
#include "ops/families.h"

#include <stdlib.h>

/* ---- Linear ---- */
struct linear {
    size_t k, n;
    void *packed;
    float alpha;
    enum steno_act act;
};

static void release_linear(void *priv)
{
    struct linear *l = priv;
    if (!l)
        return;
    steno_aligned_free(l->packed);
    free(l);
}

static steno_status prepare_linear(struct steno_prep *pc, void **priv, steno_err *err)
{
    const struct steno_node *node = steno_prep_node(pc);
    const steno_kernels *kernels = steno_prep_kernels(pc);
    const struct steno_tensor *w = steno_prep_const(pc, 1);
    struct linear *l;
    size_t bytes;
    if (!w || w->dtype != STENO_F32 || w->shape.rank != 2)
        return steno_fail(err, STENO_ERR_FORMAT, "weights must be constant, f32, of rank 2");
    l = calloc(1, sizeof *l);
    if (!l)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    l->k = (size_t)w->shape.dim[0];
    l->n = (size_t)w->shape.dim[1];
    l->alpha = steno_node_float(node, "alpha", 1);
    l->act = (enum steno_act)steno_node_int(node, "act", STENO_ACT_NONE);
    bytes = kernels->gemm_f32_packed_bytes(l->k, l->n);
    l->packed = steno_aligned_alloc(bytes);
    if (!l->packed) {
        release_linear(l);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    kernels->gemm_f32_pack(l->packed, w->data, l->n, false, l->k, l->n);
    steno_prep_consumed(pc, 1);
    steno_prep_packed(pc, bytes);
    *priv = l;
    return STENO_OK;
}

static steno_status infer_linear(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, 1);
    if (x.rank > 0 && w.rank == 2) {
        if (x.dim[x.rank - 1] >= 0 && x.dim[x.rank - 1] != w.dim[0])
            return steno_fail(err, STENO_ERR_INVAL, "inner dimensions differ");
        x.dim[x.rank - 1] = w.dim[1];
    }
    steno_infer_set(ic, 0, STENO_F32, &x);
    return STENO_OK;
}

static steno_status run_linear(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct linear *l = steno_op_priv(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    const struct steno_tensor *bias = steno_op_in(ctx, 2), *residual = steno_op_in(ctx, 3);
    struct steno_gemm_epilogue ep = {.act = l->act, .alpha = l->alpha, .ldr = l->n};
    struct steno_shape s;
    struct steno_tensor *y;
    steno_status st;
    if (!x || x->dtype != STENO_F32 || x->shape.rank < 1 ||
        x->shape.dim[x->shape.rank - 1] != (int64_t)l->k)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "X does not fit weights of %zu rows", l->k);
    s = x->shape;
    s.dim[s.rank - 1] = (int64_t)l->n;
    if (bias && (bias->dtype != STENO_F32 || steno_numel(bias) != l->n))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the bias is not of %zu elements", l->n);
    if (residual && (residual->dtype != STENO_F32 || !steno_shape_equal(&residual->shape, &s)))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the residual has another shape");
    ep.bias = bias ? bias->data : NULL;
    ep.residual = residual ? residual->data : NULL;
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (!st && steno_numel(y))
        steno_ops_gemm_packed(ctx, steno_numel(y) / l->n, l->n, l->k, x->data, l->k, l->packed,
                              y->data, l->n, &ep);
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
};

static void glu_rows(void *arg, size_t begin, size_t end)
{
    const struct glu_job *j = arg;
    for (size_t r = begin; r < end; r++) {
        const float *x = j->x + r * 2 * j->n;
        float *y = j->y + r * j->n;
        j->k->sigmoid_f32(y, x + j->n, j->n);
        j->k->mul_f32(y, x, 1, y, 1, j->n);
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

static steno_status prepare_depthwise(struct steno_prep *pc, void **priv, steno_err *err)
{
    const struct steno_tensor *w = steno_prep_const(pc, 1);
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
    steno_prep_consumed(pc, 1);
    steno_prep_packed(pc, steno_numel(w) * sizeof *d->w);
    *priv = d;
    return STENO_OK;
}

static steno_status infer_depthwise(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, 1);
    if (x.rank == 3 && w.rank == 3) {
        if (x.dim[2] >= 0 && w.dim[0] >= 0 && x.dim[2] != w.dim[0])
            return steno_fail(err, STENO_ERR_INVAL, "channels differ");
        x.dim[1] = x.dim[1] >= 0 && w.dim[2] >= 0 && x.dim[1] >= w.dim[2] - 1
                       ? x.dim[1] - w.dim[2] + 1
                       : steno_infer_new_dim(ic);
    }
    steno_infer_set(ic, 0, STENO_F32, &x);
    return STENO_OK;
}

static steno_status run_depthwise(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct depthwise *d = steno_op_priv(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0), *bias = steno_op_in(ctx, 2);
    struct steno_shape s;
    struct steno_tensor *y;
    size_t t, in;
    steno_status st;
    if (!x || x->dtype != STENO_F32 || x->shape.rank != 3 || x->shape.dim[2] != (int64_t)d->c ||
        x->shape.dim[1] < (int64_t)d->k ||
        (bias && (bias->dtype != STENO_F32 || steno_numel(bias) != d->c)))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "X or bias do not fit weights of %zu channels, %zu taps", d->c, d->k);
    s = x->shape;
    s.dim[1] -= (int64_t)d->k - 1;
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st)
        return st;
    in = (size_t)x->shape.dim[1] * d->c;
    t = (size_t)s.dim[1];
    for (size_t b = 0; b < (size_t)s.dim[0]; b++)
        steno_op_kernels(ctx)->dwconv_f32((float *)y->data + b * t * d->c,
                                          (const float *)x->data + b * in, d->w,
                                          bias ? bias->data : NULL, t, d->c, d->k);
    return STENO_OK;
}

const struct steno_op steno_ops_fused[] = {
    {"ai.steno", "Linear", 1, 0, 0, infer_linear, prepare_linear, release_linear, run_linear},
    {"ai.steno", "Glu", 1, 0, 0, infer_glu, NULL, NULL, run_glu},
    {"ai.steno", "DepthwiseConv1d", 1, 0, 0, infer_depthwise, prepare_depthwise, release_depthwise,
     run_depthwise},
    {0},
};
