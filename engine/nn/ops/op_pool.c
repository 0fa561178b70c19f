/* Pooling: MaxPool (opset 1 and later, with Indices), AveragePool, LpPool, and the Global forms.
 * Windows have up to three axes. Those of types other than f64 are reduced by rows (pool_rows.c);
 * f64, Indices and other norms than the first two go one window at a time, in f64. */
#include "nn/ops/pool.h"

#include <math.h>

static enum steno_pool_kind pool_kind_of(const struct steno_node *n)
{
    return strstr(n->op_type, "Max")  ? STENO_POOL_MAX
           : strstr(n->op_type, "Lp") ? STENO_POOL_LP
                                      : STENO_POOL_MEAN;
}

/* ---- windows ---- */

static steno_status read_pool(const struct steno_node *n, const struct steno_shape *x,
                              struct steno_pooling *p, steno_err *err)
{
    steno_status st;
    memset(p, 0, sizeof *p);
    if (x->rank < 3)
        return steno_fail(err, STENO_ERR_INVAL, "input has rank %d, expected 3 or more", x->rank);
    st = steno_window_read(n, x->rank - 2, STENO_WINDOW_MAX, NULL, &p->win, err);
    p->kind = pool_kind_of(n);
    p->include_pad = steno_node_int(n, "count_include_pad", 0) != 0;
    p->column_major = steno_node_int(n, "storage_order", 0) != 0;
    p->p = (double)steno_node_int(n, "p", 2);
    p->out = *x;
    for (int i = 0; i < p->win.n && !st; i++)
        st = steno_window_out(&p->win, i, x->dim[i + 2], &p->out.dim[i + 2], err);
    for (int i = 0; i < 3 && !st; i++) {
        int a = i - (3 - p->win.n);
        p->in[i] = a < 0 ? 1 : x->dim[a + 2];
        p->n_out[i] = a < 0 ? 1 : p->out.dim[a + 2];
        p->kernel[i] = a < 0 ? 1 : p->win.kernel[a];
        p->stride[i] = a < 0 ? 1 : p->win.stride[a];
        p->dilation[i] = a < 0 ? 1 : p->win.dilation[a];
        p->before[i] = a < 0 ? 0 : p->win.before[a];
        p->after[i] = a < 0 ? 0 : p->win.after[a];
    }
    return st;
}

static steno_status infer_pool(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0);
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_pooling p;
    p.out.rank = STENO_RANK_ANY;
    if (x.rank >= 0) {
        steno_status st = read_pool(n, &x, &p, err);
        if (st)
            return st;
        for (int i = 0; i < p.out.rank; i++)
            if (p.out.dim[i] == STENO_DIM_ANY)
                p.out.dim[i] = steno_infer_new_dim(ic);
    }
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &p.out);
    steno_infer_set(ic, 1, STENO_I64, &p.out);
    return STENO_OK;
}

struct tally { /* of one window */
    double value, sum;
    int64_t taps, at; /* taps inside the input; position of the largest */
};

static int64_t taps_with_padding(const struct steno_pooling *p, const int64_t *o)
{
    int64_t n = 1, first, taps;
    for (int i = 0; i < 3; i++) {
        steno_pool_taps(p, i, o[i], &first, &taps);
        n *= taps;
    }
    return n;
}

static void visit_pool(const struct steno_pooling *p, const double *x, int64_t i, int64_t j,
                       int64_t k, struct tally *t)
{
    int64_t at = (i * p->in[1] + j) * p->in[2] + k;
    double v = x[at];
    t->taps++;
    if (p->kind == STENO_POOL_LP) {
        t->sum += p->p == 1 ? fabs(v) : p->p == 2 ? v * v : pow(fabs(v), p->p);
    } else if (p->kind == STENO_POOL_MEAN) {
        t->sum += v;
    } else if (t->taps == 1 || v > t->value || isnan(v)) {
        t->value = v;
        /* extra leading axes of extent 1 do not change the column-major order */
        t->at = p->column_major ? i + p->in[0] * (j + p->in[1] * k) : at;
    }
}

static double pool_window(const struct steno_pooling *p, const double *x, const int64_t *o,
                          int64_t *at)
{
    struct tally t = {.value = -(double)INFINITY};
    for (int64_t a = 0; a < p->kernel[0]; a++) {
        int64_t i = o[0] * p->stride[0] - p->before[0] + a * p->dilation[0];
        if (i < 0 || i >= p->in[0])
            continue;
        for (int64_t b = 0; b < p->kernel[1]; b++) {
            int64_t j = o[1] * p->stride[1] - p->before[1] + b * p->dilation[1];
            if (j < 0 || j >= p->in[1])
                continue;
            for (int64_t c = 0; c < p->kernel[2]; c++) {
                int64_t k = o[2] * p->stride[2] - p->before[2] + c * p->dilation[2];
                if (k >= 0 && k < p->in[2])
                    visit_pool(p, x, i, j, k, &t);
            }
        }
    }
    *at = t.at;
    if (p->kind == STENO_POOL_MAX)
        return t.value;
    if (p->kind == STENO_POOL_LP)
        return p->p == 1 ? t.sum : p->p == 2 ? sqrt(t.sum) : pow(t.sum, 1 / p->p);
    if (p->include_pad)
        t.taps = taps_with_padding(p, o);
    return t.taps ? t.sum / (double)t.taps : 0;
}

static bool pool_takes(enum steno_pool_kind kind, steno_dtype t)
{
    return steno_ops_is_float(t) || (kind == STENO_POOL_MAX && steno_dtype_is_byte(t));
}

static steno_status run_pool(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y, *idx = NULL;
    struct steno_pooling p;
    const double *xd;
    double *yd;
    int64_t *where = NULL;
    size_t image, images;
    steno_status st = read_pool(steno_op_node(ctx), &x->shape, &p, err);
    if (st)
        return st;
    if (!pool_takes(p.kind, x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    st = steno_op_out(ctx, 0, x->dtype, &p.out, &y, err);
    if (!st && steno_op_wants(ctx, 1))
        st = steno_op_out(ctx, 1, STENO_I64, &p.out, &idx, err);
    if (st)
        return st;
    image = (size_t)(p.in[0] * p.in[1] * p.in[2]);
    images = (size_t)x->shape.dim[0] * (size_t)x->shape.dim[1];
    if (x->dtype != STENO_F64 && !idx && steno_pool_by_rows(&p))
        return steno_pool_rows(ctx, &p, images, x, y, err);
    xd = steno_ops_as_f64(ctx, x);
    yd = steno_ops_out_f64(ctx, y);
    if (!xd || !yd)
        return steno_ops_nomem(ctx, err);
    where = idx ? idx->data : NULL;
    for (size_t m = 0, n = 0; m < images; m++) {
        int64_t o[3], at;
        for (o[0] = 0; o[0] < p.n_out[0]; o[0]++)
            for (o[1] = 0; o[1] < p.n_out[1]; o[1]++)
                for (o[2] = 0; o[2] < p.n_out[2]; o[2]++, n++) {
                    yd[n] = pool_window(&p, xd + m * image, o, &at);
                    if (where)
                        where[n] = at + (int64_t)(m * image);
                }
    }
    steno_ops_put_f64(y, yd);
    return STENO_OK;
}

/* ---- whole images ---- */

static steno_status infer_global(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    if (s.rank >= 0 && s.rank < 2)
        return steno_fail(err, STENO_ERR_INVAL, "input has rank %d", s.rank);
    for (int i = 2; i < s.rank; i++)
        s.dim[i] = 1;
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

static double pool_whole(enum steno_pool_kind kind, double p, const double *x, size_t n)
{
    double r = kind == STENO_POOL_MAX ? -(double)INFINITY : 0;
    for (size_t i = 0; i < n; i++)
        if (kind == STENO_POOL_MAX)
            r = x[i] > r || isnan(x[i]) ? x[i] : r;
        else
            r += kind == STENO_POOL_MEAN ? x[i] : p == 1 ? fabs(x[i]) : pow(fabs(x[i]), p);
    return kind == STENO_POOL_MAX ? r : kind == STENO_POOL_MEAN ? r / (double)n : pow(r, 1 / p);
}

static steno_status run_global(struct steno_op_ctx *ctx, steno_err *err)
{
    const steno_kernels *k = steno_op_kernels(ctx);
    enum steno_pool_kind kind = pool_kind_of(steno_op_node(ctx));
    double p = (double)steno_node_int(steno_op_node(ctx), "p", 2);
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    struct steno_shape s;
    const double *xd;
    double *yd;
    size_t rows, n;
    steno_status st;
    s = x->shape;
    if (!steno_ops_is_float(x->dtype) || s.rank < 2)
        return steno_ops_bad_type(ctx, err, x->dtype);
    rows = steno_ops_prod(&s, 0, 2);
    n = steno_ops_prod(&s, 2, s.rank);
    for (int i = 2; i < s.rank; i++)
        s.dim[i] = 1;
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st)
        return st;
    if (x->dtype == STENO_F32 && (kind != STENO_POOL_LP || p == 2)) {
        const float *xf = x->data;
        float *yf = y->data;
        for (size_t r = 0; r < rows; r++, xf += n)
            yf[r] = kind == STENO_POOL_MAX  ? k->max_reduce_f32(xf, n)
                    : kind == STENO_POOL_LP ? sqrtf(k->dot_f32(xf, xf, n))
                                            : k->sum_f32(xf, n) / (float)n;
        return STENO_OK;
    }
    xd = steno_ops_as_f64(ctx, x);
    yd = steno_ops_out_f64(ctx, y);
    if (!xd || !yd)
        return steno_ops_nomem(ctx, err);
    for (size_t r = 0; r < rows; r++)
        yd[r] = pool_whole(kind, p, xd + r * n, n);
    steno_ops_put_f64(y, yd);
    return STENO_OK;
}

const struct steno_op steno_ops_pool[] = {
    {"", "MaxPool", 1, 0, 0, infer_pool, NULL, NULL, run_pool},
    {"", "AveragePool", 1, 0, 0, infer_pool, NULL, NULL, run_pool},
    {"", "LpPool", 2, 0, 0, infer_pool, NULL, NULL, run_pool},
    {"", "GlobalMaxPool", 1, 0, 0, infer_global, NULL, NULL, run_global},
    {"", "GlobalAveragePool", 1, 0, 0, infer_global, NULL, NULL, run_global},
    {"", "GlobalLpPool", 2, 0, 0, infer_global, NULL, NULL, run_global},
    {0},
};
