/* Normalizations along an axis: Softmax, LogSoftmax, Hardmax, LayerNormalization, RMSNormalization,
 * LpNormalization, MeanVarianceNormalization; per channel: BatchNormalization,
 * InstanceNormalization, GroupNormalization. f32 uses the kernel table where the axis is last;
 * other types are widened to f32 or f64 (nn/ops/internal.h). */
#include "nn/ops/internal.h"
#include "nn/ops/families.h"

#include <math.h>

#define GRAIN 8192

/* ---- Softmax, LogSoftmax, Hardmax ---- */
enum soft_kind { SOFTMAX, LOG_SOFTMAX, HARDMAX };

struct soft_job {
    enum soft_kind kind;
    const steno_kernels *k;
    const float *x;
    float *y;
    size_t n;
};

static void soft_rows(void *arg, size_t begin, size_t end)
{
    const struct soft_job *j = arg;
    const float *x = j->x + begin * j->n;
    float *y = j->y + begin * j->n;
    if (j->kind == LOG_SOFTMAX)
        j->k->log_softmax_f32(y, x, end - begin, j->n);
    else
        j->k->softmax_f32(y, x, end - begin, j->n);
}

/* One vector of n elements that are `step` apart. */
static void soft_lane(enum soft_kind kind, double *y, const double *x, size_t n, size_t step)
{
    double top = -(double)INFINITY, sum = 0;
    size_t best = 0;
    for (size_t i = 0; i < n; i++)
        if (x[i * step] > top || isnan(x[i * step])) {
            top = x[i * step];
            best = i;
        }
    if (kind == HARDMAX) {
        for (size_t i = 0; i < n; i++)
            y[i * step] = i == best;
        return;
    }
    for (size_t i = 0; i < n; i++)
        sum += exp(x[i * step] - top);
    for (size_t i = 0; i < n; i++)
        y[i * step] =
            kind == LOG_SOFTMAX ? x[i * step] - top - log(sum) : exp(x[i * step] - top) / sum;
}

static steno_status run_soft(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    struct soft_job j = {.k = steno_op_kernels(ctx)};
    bool flat = node->opset < 13; /* the input is read as [outer, everything from axis on] */
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    const double *xd;
    double *yd;
    size_t outer, inner;
    int axis;
    steno_status st;
    j.kind = node->op_type[0] == 'S' ? SOFTMAX : node->op_type[0] == 'L' ? LOG_SOFTMAX : HARDMAX;
    if (!steno_ops_is_float(x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    if (!steno_ops_axis(steno_node_int(node, "axis", flat ? 1 : -1), x->shape.rank, &axis))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    if (st || !steno_numel(x))
        return st;
    outer = steno_ops_prod(&x->shape, 0, axis);
    j.n = flat ? steno_ops_prod(&x->shape, axis, x->shape.rank) : (size_t)x->shape.dim[axis];
    inner = steno_numel(x) / outer / j.n;
    if (inner == 1 && x->dtype != STENO_F64 && j.kind != HARDMAX) {
        j.x = steno_ops_as_f32(ctx, x);
        j.y = steno_ops_out_f32(ctx, y);
        if (!j.x || !j.y)
            return steno_ops_nomem(ctx, err);
        steno_ops_ranges(ctx, outer, GRAIN / j.n + 1, soft_rows, &j);
        steno_ops_put_f32(y, j.y);
        return STENO_OK;
    }
    xd = steno_ops_as_f64(ctx, x);
    yd = steno_ops_out_f64(ctx, y);
    if (!xd || !yd)
        return steno_ops_nomem(ctx, err);
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++)
            soft_lane(j.kind, yd + o * j.n * inner + i, xd + o * j.n * inner + i, j.n, inner);
    steno_ops_put_f64(y, yd);
    return STENO_OK;
}

/* ---- LayerNormalization, RMSNormalization ---- */
struct layer_job {
    const steno_kernels *k;
    const float *x, *gamma, *beta;
    float *y;
    size_t n;
    float eps;
    bool rms;
};

static void layer_rows(void *arg, size_t begin, size_t end)
{
    const struct layer_job *j = arg;
    const float *x = j->x + begin * j->n;
    float *y = j->y + begin * j->n;
    if (j->rms)
        j->k->rmsnorm_f32(y, x, end - begin, j->n, j->gamma, j->eps);
    else
        j->k->layernorm_f32(y, x, end - begin, j->n, j->gamma, j->beta, j->eps);
}

/* Mean and 1 / sqrt(var + eps) of n elements; with rms the mean counts as 0. */
static void moments(const double *x, size_t n, double eps, bool rms, double *mean, double *inv)
{
    double m = 0, v = 0;
    for (size_t i = 0; i < n && !rms; i++)
        m += x[i];
    m = n ? m / (double)n : 0;
    for (size_t i = 0; i < n; i++)
        v += (x[i] - m) * (x[i] - m);
    *mean = m;
    *inv = 1 / sqrt((n ? v / (double)n : 0) + eps);
}

/* Scale or bias, broadcast to dims [axis, rank), as [n] f64 in scratch; NULL: *st is set. */
static const double *layer_param(struct steno_op_ctx *ctx, const struct steno_tensor *t,
                                 const struct steno_shape *norm, steno_status *st, steno_err *err)
{
    const struct steno_shape *in[1] = {&t->shape};
    struct steno_shape both;
    struct steno_broadcast b;
    struct steno_broadcast_pos p;
    double *d;
    *st = STENO_OK;
    if (steno_shape_broadcast(norm, &t->shape, &both) || !steno_shape_equal(&both, norm) ||
        !steno_ops_is_float(t->dtype)) {
        *st = steno_op_fail(ctx, err, STENO_ERR_INVAL, "scale or bias does not fit the input");
        return NULL;
    }
    d = steno_op_scratch(ctx, steno_ops_prod(norm, 0, norm->rank) * sizeof *d);
    if (!d) {
        *st = steno_ops_nomem(ctx, err);
        return NULL;
    }
    steno_broadcast_init(&b, norm, in, 1);
    steno_broadcast_start(&b, &p, 0);
    for (size_t r = 0; r < b.rows; r++, steno_broadcast_next(&b, &p))
        for (size_t i = 0; i < b.row; i++)
            d[r * b.row + i] = steno_ops_get_f64(t, p.at[0] + i * b.row_step[0]);
    return d;
}

static steno_status stat_out(struct steno_op_ctx *ctx, int i, const struct steno_shape *x, int axis,
                             steno_dtype t, struct steno_tensor **out, steno_err *err)
{
    struct steno_shape s = *x;
    *out = NULL;
    if (!steno_op_wants(ctx, i))
        return STENO_OK;
    for (int d = axis; d < s.rank; d++)
        s.dim[d] = 1;
    return steno_op_out(ctx, i, t, &s, out, err);
}

/* The slow, general form: any type, statistics as outputs, parameters that broadcast. */
static steno_status layer_general(struct steno_op_ctx *ctx, const struct steno_tensor *x,
                                  struct steno_tensor *y, int axis, bool rms, double eps,
                                  steno_err *err)
{
    struct steno_tensor *mean_out = NULL, *inv_out = NULL;
    const struct steno_tensor *b = !rms ? steno_op_in(ctx, 2) : NULL;
    const double *xd = steno_ops_as_f64(ctx, x), *gamma, *beta = NULL;
    double *yd = steno_ops_out_f64(ctx, y);
    steno_dtype stash = (steno_dtype)steno_node_int(steno_op_node(ctx), "stash_type", STENO_F32);
    size_t n, rows;
    steno_status st = STENO_OK;
    if (!xd || !yd)
        return steno_ops_nomem(ctx, err);
    if (!steno_ops_is_float(stash))
        return steno_ops_bad_type(ctx, err, stash);
    gamma = layer_param(ctx, steno_op_in(ctx, 1), &x->shape, &st, err);
    if (!st && b)
        beta = layer_param(ctx, b, &x->shape, &st, err);
    if (!st && !rms)
        st = stat_out(ctx, 1, &x->shape, axis, stash, &mean_out, err);
    if (!st && !rms)
        st = stat_out(ctx, 2, &x->shape, axis, stash, &inv_out, err);
    if (st)
        return st;
    rows = steno_ops_prod(&x->shape, 0, axis);
    n = steno_ops_prod(&x->shape, axis, x->shape.rank);
    for (size_t r = 0; r < rows; r++) {
        double mean, inv;
        moments(xd + r * n, n, eps, rms, &mean, &inv);
        for (size_t i = r * n; i < (r + 1) * n; i++)
            yd[i] = (xd[i] - mean) * inv * gamma[i] + (beta ? beta[i] : 0);
        if (mean_out)
            steno_ops_set_f64(mean_out, r, mean);
        if (inv_out)
            steno_ops_set_f64(inv_out, r, inv);
    }
    steno_ops_put_f64(y, yd);
    return STENO_OK;
}

/* True if parameter t has one number for each element of a normalized row, in its order. */
static bool is_row(const struct steno_tensor *t, const struct steno_shape *x, int axis)
{
    for (int i = 1; i <= t->shape.rank || i <= x->rank - axis; i++) {
        int64_t d = i <= t->shape.rank ? t->shape.dim[t->shape.rank - i] : 1;
        if (d != (i <= x->rank - axis ? x->dim[x->rank - i] : 1))
            return false;
    }
    return true;
}

static bool wants_stats(const struct steno_op_ctx *ctx)
{
    return steno_op_wants(ctx, 1) || steno_op_wants(ctx, 2);
}

/* ONNX Runtime's optimizer has its own name for it, in the domain of ONNX. */
static bool is_rms(const struct steno_node *node)
{
    return !strcmp(node->op_type, "RMSNormalization") ||
           !strcmp(node->op_type, "SimplifiedLayerNormalization");
}

static steno_status run_layer(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    bool rms = is_rms(node);
    const struct steno_tensor *x = steno_op_in(ctx, 0), *g = steno_op_in(ctx, 1), *b;
    struct layer_job j = {.k = steno_op_kernels(ctx), .rms = rms};
    struct steno_tensor *y;
    size_t rows;
    int axis;
    steno_status st;
    b = !rms ? steno_op_in(ctx, 2) : NULL;
    j.eps = steno_node_float(node, "epsilon", 1e-5f);
    if (!steno_ops_is_float(x->dtype) || !steno_ops_is_float(g->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    if (!steno_ops_axis(steno_node_int(node, "axis", -1), x->shape.rank, &axis))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    st = steno_op_out(ctx, 0, rms ? g->dtype : x->dtype, &x->shape, &y, err);
    if (st)
        return st;
    rows = steno_ops_prod(&x->shape, 0, axis);
    j.n = steno_ops_prod(&x->shape, axis, x->shape.rank);
    if (x->dtype != STENO_F32 || g->dtype != STENO_F32 || (b && b->dtype != STENO_F32) ||
        !is_row(g, &x->shape, axis) || (b && !is_row(b, &x->shape, axis)) || !j.n ||
        wants_stats(ctx))
        return layer_general(ctx, x, y, axis, rms, (double)j.eps, err);
    j.x = x->data;
    j.y = y->data;
    j.gamma = g->data;
    j.beta = b ? b->data : NULL;
    steno_ops_ranges(ctx, rows, GRAIN / j.n + 1, layer_rows, &j);
    return STENO_OK;
}

static steno_status infer_layer(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *node = steno_infer_node(ic);
    struct steno_shape s = steno_infer_shape(ic, 0);
    bool rms = is_rms(node);
    steno_dtype stash = (steno_dtype)steno_node_int(node, "stash_type", STENO_F32);
    int axis = 0;
    steno_infer_set(ic, 0, steno_infer_dtype(ic, rms && steno_infer_dtype(ic, 1) ? 1 : 0), &s);
    if (s.rank >= 0 && !steno_ops_axis(steno_node_int(node, "axis", -1), s.rank, &axis))
        return steno_fail(err, STENO_ERR_INVAL, "axis out of range");
    for (int i = axis; i < s.rank; i++)
        s.dim[i] = 1;
    steno_infer_set(ic, 1, stash, &s);
    steno_infer_set(ic, 2, stash, &s);
    return STENO_OK;
}

/* ---- LpNormalization, MeanVarianceNormalization ---- */
static steno_status run_lp(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    int64_t p = steno_node_int(node, "p", 2);
    const struct steno_tensor *x;
    struct steno_tensor *y;
    const double *xd;
    double *yd;
    size_t outer, n, inner;
    int axis;
    steno_status st = steno_ops_float_input(ctx, &x, &xd, err);
    if (st)
        return st;
    if (!steno_ops_axis(steno_node_int(node, "axis", -1), x->shape.rank, &axis))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    if (p != 1 && p != 2)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "p is %lld, expected 1 or 2", (long long)p);
    st = steno_ops_float_output(ctx, x->dtype, &x->shape, &y, &yd, err);
    if (st)
        return st;
    outer = steno_ops_prod(&x->shape, 0, axis);
    n = (size_t)x->shape.dim[axis];
    inner = steno_ops_prod(&x->shape, axis + 1, x->shape.rank);
    for (size_t i = 0; i < outer * inner; i++) {
        size_t at = i / inner * n * inner + i % inner;
        double norm = 0;
        for (size_t k = 0; k < n; k++)
            norm += p == 1 ? fabs(xd[at + k * inner]) : xd[at + k * inner] * xd[at + k * inner];
        norm = p == 1 ? norm : sqrt(norm);
        for (size_t k = 0; k < n; k++) /* all zeros stay zero */
            yd[at + k * inner] = norm != 0 ? xd[at + k * inner] / norm : 0;
    }
    steno_ops_put_f64(y, yd);
    return STENO_OK;
}

/* (x - mean) / (std + 1e-9) over the given axes, [0,2,3] by default. */
static steno_status run_mvn(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    int64_t axes[STENO_MAX_RANK], stride[STENO_MAX_RANK];
    struct steno_shape groups;
    size_t n_axes, total, n_groups;
    bool found, set[STENO_MAX_RANK] = {false};
    const double *xd;
    double *yd, *mean, *sq;
    steno_status st = steno_ops_axes(ctx, "axes", -1, axes, STENO_MAX_RANK, &n_axes, &found, err);
    if (st)
        return st;
    if (!steno_ops_is_float(x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    if (!found) {
        static const int64_t usual[] = {0, 2, 3};
        memcpy(axes, usual, sizeof usual);
        n_axes = 3;
    }
    groups = x->shape;
    for (size_t i = 0; i < n_axes; i++) {
        int a;
        if (!steno_ops_axis(axes[i], x->shape.rank, &a))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
        set[a] = true;
        groups.dim[a] = 1;
    }
    st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    total = steno_numel(x);
    if (st || !total)
        return st;
    n_groups = steno_ops_prod(&groups, 0, groups.rank);
    xd = steno_ops_as_f64(ctx, x);
    yd = steno_ops_out_f64(ctx, y);
    mean = steno_op_scratch(ctx, 2 * n_groups * sizeof *mean);
    if (!xd || !yd || !mean)
        return steno_ops_nomem(ctx, err);
    sq = mean + n_groups;
    memset(mean, 0, 2 * n_groups * sizeof *mean);
    steno_ops_strides(&groups, stride);
    for (int pass = 0; pass < 3; pass++) { /* mean, variance, result */
        int64_t at[STENO_MAX_RANK] = {0};
        for (size_t i = 0; i < total; i++) {
            size_t g = 0;
            for (int k = 0; k < x->shape.rank; k++)
                g += set[k] ? 0 : (size_t)(at[k] * stride[k]);
            if (pass == 0)
                mean[g] += xd[i] * (double)n_groups / (double)total;
            else if (pass == 1)
                sq[g] += (xd[i] - mean[g]) * (xd[i] - mean[g]) * (double)n_groups / (double)total;
            else
                yd[i] = (xd[i] - mean[g]) / (sqrt(sq[g]) + 1e-9);
            for (int k = x->shape.rank - 1; k >= 0 && ++at[k] == x->shape.dim[k]; k--)
                at[k] = 0;
        }
    }
    steno_ops_put_f64(y, yd);
    return STENO_OK;
}

/* ---- InstanceNormalization, GroupNormalization ---- x [N, C, ...] */
struct group_job {
    const steno_kernels *k;
    const float *x;
    float *y;
    const double *gamma, *beta;
    size_t groups, channels, plane; /* groups of an image, channels of a group */
    bool per_group;                 /* gamma and beta are */
    double eps;
};

/* Sums are f32 within blocks of L1, f64 over blocks. */
enum { BLOCK = 1024 };

/* Mean and 1 / sqrt(var + eps). */
static void moments_f32(const steno_kernels *k, const float *x, size_t n, double eps, float *mean,
                        double *inv)
{
    float d[BLOCK];
    double m = 0, v = 0;
    for (size_t i = 0; i < n; i += BLOCK)
        m += (double)k->sum_f32(x + i, n - i < BLOCK ? n - i : BLOCK);
    m /= (double)n;
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t len = n - i < BLOCK ? n - i : BLOCK;
        k->affine_f32(d, x + i, len, 1, -(float)m);
        v += (double)k->dot_f32(d, d, len);
    }
    *mean = (float)m;
    *inv = 1 / sqrt(v / (double)n + eps);
}

/* y = (x - mean) * scale + shift. inv: 1 / the deviation; one product and sum would cancel where
 * the mean is many deviations. */
static void normalize_norm(const steno_kernels *k, const float *x, size_t n, float mean, double inv,
                           float scale, float shift, float *y)
{
    float d[BLOCK];
    if (fabs((double)mean) * inv < 8) {
        k->affine_f32(y, x, n, scale, shift - mean * scale);
        return;
    }
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t len = n - i < BLOCK ? n - i : BLOCK;
        k->affine_f32(d, x + i, len, 1, -mean);
        k->affine_f32(y + i, d, len, scale, shift);
    }
}

static void group_rows(void *arg, size_t begin, size_t end)
{
    const struct group_job *j = arg;
    for (size_t r = begin; r < end; r++) {
        size_t at = r * j->channels * j->plane, group = r % j->groups;
        float mean;
        double inv;
        moments_f32(j->k, j->x + at, j->channels * j->plane, j->eps, &mean, &inv);
        for (size_t c = 0; c < j->channels; c++, at += j->plane) {
            size_t p = j->per_group ? group : group * j->channels + c;
            normalize_norm(j->k, j->x + at, j->plane, mean, inv, (float)(inv * j->gamma[p]),
                           (float)j->beta[p], j->y + at);
        }
    }
}

static void group_f64(const struct group_job *j, const double *x, double *y, size_t rows)
{
    const size_t n = j->channels * j->plane;
    for (size_t r = 0; r < rows; r++) {
        double mean, inv;
        moments(x + r * n, n, j->eps, false, &mean, &inv);
        for (size_t i = 0; i < n; i++) {
            size_t group = r % j->groups;
            size_t p = j->per_group ? group : group * j->channels + i / j->plane;
            y[r * n + i] = (x[r * n + i] - mean) * inv * j->gamma[p] + j->beta[p];
        }
    }
}

static steno_status run_group(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    bool instance = !strcmp(node->op_type, "InstanceNormalization");
    struct group_job j = {.k = steno_op_kernels(ctx),
                          .eps = (double)steno_node_float(node, "epsilon", 1e-5f)};
    const struct steno_tensor *x = steno_op_in(ctx, 0), *g = steno_op_in(ctx, 1),
                              *b = steno_op_in(ctx, 2);
    struct steno_tensor *y;
    size_t c, rows;
    steno_status st;
    if (!steno_ops_is_float(x->dtype) || !steno_ops_is_float(g->dtype) ||
        !steno_ops_is_float(b->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    if (x->shape.rank < 2)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input has rank %d", x->shape.rank);
    c = (size_t)x->shape.dim[1];
    j.groups = instance ? c : (size_t)steno_node_int(node, "num_groups", 0);
    j.per_group = !instance && node->opset < 21; /* opset 18: scale and bias by group */
    if (c && (!j.groups || j.groups > c || c % j.groups))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "%zu channels do not divide into %zu groups", c, j.groups);
    if (steno_numel(g) != (j.per_group ? j.groups : c) || steno_numel(b) != steno_numel(g))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "scale and bias do not fit %zu channels",
                             c);
    st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    if (st || !steno_numel(x))
        return st;
    j.gamma = steno_ops_as_f64(ctx, g);
    j.beta = steno_ops_as_f64(ctx, b);
    j.plane = steno_ops_prod(&x->shape, 2, x->shape.rank);
    j.channels = c / j.groups;
    rows = (size_t)x->shape.dim[0] * j.groups;
    if (!j.gamma || !j.beta)
        return steno_ops_nomem(ctx, err);
    if (x->dtype == STENO_F64) {
        group_f64(&j, x->data, y->data, rows);
        return STENO_OK;
    }
    j.x = steno_ops_as_f32(ctx, x);
    j.y = steno_ops_out_f32(ctx, y);
    if (!j.x || !j.y)
        return steno_ops_nomem(ctx, err);
    steno_ops_ranges(ctx, rows, GRAIN / (j.channels * j.plane) + 1, group_rows, &j);
    steno_ops_put_f32(y, j.y);
    return STENO_OK;
}

/* ---- BatchNormalization ---- x [N, C, ...]; with training_mode the running statistics are
 * updated. */
static steno_status run_batch(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    double eps = (double)steno_node_float(node, "epsilon", 1e-5f);
    double momentum = (double)steno_node_float(node, "momentum", 0.9f);
    bool training = node->opset >= 14 && steno_node_int(node, "training_mode", 0);
    const struct steno_tensor *x = steno_op_in(ctx, 0), *p[5];
    struct steno_tensor *y;
    const double *pd[5] = {NULL}; /* 1 scale, 2 bias, 3 mean, 4 var */
    double *scale, *shift;
    size_t c, plane, batch;
    steno_status st;
    if (!steno_ops_is_float(x->dtype) || x->shape.rank < 1)
        return steno_ops_bad_type(ctx, err, x->dtype);
    c = x->shape.rank > 1 ? (size_t)x->shape.dim[1] : 1;
    batch = (size_t)x->shape.dim[0];
    plane = steno_ops_prod(&x->shape, 2, x->shape.rank);
    for (int i = 1; i < 5; i++) {
        p[i] = steno_op_in(ctx, i);
        if (steno_numel(p[i]) != c || !steno_ops_is_float(p[i]->dtype))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d does not fit %zu channels", i,
                                 c);
        pd[i] = steno_ops_as_f64(ctx, p[i]);
        if (!pd[i])
            return steno_ops_nomem(ctx, err);
    }
    st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    scale = steno_op_scratch(ctx, 2 * c * sizeof *scale);
    if (st)
        return st;
    if (!scale)
        return steno_ops_nomem(ctx, err);
    shift = scale + c;
    if (training) {
        const double *xd = steno_ops_as_f64(ctx, x);
        double *stat = steno_op_scratch(ctx, 2 * c * sizeof *stat);
        if (!xd || !stat)
            return steno_ops_nomem(ctx, err);
        for (size_t k = 0; k < c; k++) {
            double n = (double)batch * (double)plane, m = 0, v = 0;
            for (size_t i = 0; i < batch * plane; i++)
                m += xd[(i / plane * c + k) * plane + i % plane] / n;
            for (size_t i = 0; i < batch * plane; i++) {
                double d = xd[(i / plane * c + k) * plane + i % plane] - m;
                v += d * d / n;
            }
            stat[k] = m;
            stat[c + k] = v;
        }
        for (int o = 1; o < 3 && !st; o++) {
            struct steno_tensor *run;
            if (!steno_op_wants(ctx, o))
                continue;
            st = steno_op_out(ctx, o, p[2 + o]->dtype, &p[2 + o]->shape, &run, err);
            for (size_t k = 0; !st && k < c; k++)
                steno_ops_set_f64(run, k,
                                  pd[2 + o][k] * momentum +
                                      stat[(size_t)(o - 1) * c + k] * (1 - momentum));
        }
        if (st)
            return st;
        pd[3] = stat;
        pd[4] = stat + c;
    }
    for (size_t k = 0; k < c; k++) {
        scale[k] = pd[1][k] / sqrt(pd[4][k] + eps);
        shift[k] = pd[2][k] - pd[3][k] * scale[k];
    }
    if (x->dtype == STENO_F32) {
        for (size_t i = 0; i < batch * c; i++)
            steno_op_kernels(ctx)->affine_f32((float *)y->data + i * plane,
                                              (const float *)x->data + i * plane, plane,
                                              (float)scale[i % c], (float)shift[i % c]);
        return STENO_OK;
    }
    {
        const double *xd = steno_ops_as_f64(ctx, x);
        double *yd = steno_ops_out_f64(ctx, y);
        if (!xd || !yd)
            return steno_ops_nomem(ctx, err);
        for (size_t i = 0; i < batch * c * plane; i++)
            yd[i] = xd[i] * scale[i / plane % c] + shift[i / plane % c];
        steno_ops_put_f64(y, yd);
    }
    return STENO_OK;
}

static steno_status infer_batch(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s;
    steno_status st = steno_ops_infer_same(ic, err);
    for (int o = 1; o < 3 && !st; o++) {
        s = steno_infer_shape(ic, 2 + o);
        steno_infer_set(ic, o, steno_infer_dtype(ic, 2 + o), &s);
    }
    return st;
}

const struct steno_op steno_ops_norm[] = {
    {"", "Softmax", 1, 0, STENO_OP_INPLACE0, steno_ops_infer_same, NULL, NULL, run_soft},
    {"", "LogSoftmax", 1, 0, STENO_OP_INPLACE0, steno_ops_infer_same, NULL, NULL, run_soft},
    {"", "Hardmax", 1, 0, 0, steno_ops_infer_same, NULL, NULL, run_soft},
    {"", "LayerNormalization", 17, 0, STENO_OP_INPLACE0, infer_layer, NULL, NULL, run_layer},
    {"", "RMSNormalization", 23, 0, STENO_OP_INPLACE0, infer_layer, NULL, NULL, run_layer},
    {"", "SimplifiedLayerNormalization", 1, 0, STENO_OP_INPLACE0, infer_layer, NULL, NULL,
     run_layer},
    {"", "LpNormalization", 1, 0, 0, steno_ops_infer_same, NULL, NULL, run_lp},
    {"", "MeanVarianceNormalization", 9, 0, 0, steno_ops_infer_same, NULL, NULL, run_mvn},
    {"", "InstanceNormalization", 6, 0, 0, steno_ops_infer_same, NULL, NULL, run_group},
    {"", "GroupNormalization", 18, 0, 0, steno_ops_infer_same, NULL, NULL, run_group},
    {"", "BatchNormalization", 7, 0, 0, infer_batch, NULL, NULL, run_batch},
    {0},
};
