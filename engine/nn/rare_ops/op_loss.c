/* NegativeLogLikelihoodLoss (opset 12+), SoftmaxCrossEntropyLoss (12+). */
#include "nn/ops/internal.h"
#include "nn/rare_ops/families.h"

#include <math.h>

struct loss {
    const double *x;                   /* scores, then their logarithms: [n, c, inner] */
    const double *weight;              /* [c] or NULL */
    const struct steno_tensor *target; /* [n, inner] */
    size_t n, c, inner;
    bool ignores;
    int64_t ignored; /* class without loss */
};

static bool none(const struct steno_node *n)
{
    return !strcmp(steno_node_str(n, "reduction", "mean"), "none");
}

static steno_status infer_loss(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_shape s = steno_infer_shape(ic, 1);
    (void)err;
    if (!none(n))
        s.rank = 0;
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    s = steno_infer_shape(ic, 0);
    steno_infer_set(ic, 1, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* y = LogSoftmax(x) along the classes. */
static void log_softmax(const struct loss *l, const double *x, double *y)
{
    for (size_t b = 0; b < l->n; b++)
        for (size_t i = 0; i < l->inner; i++) {
            const double *p = x + b * l->c * l->inner + i;
            double most = -(double)INFINITY, sum = 0;
            for (size_t k = 0; k < l->c; k++)
                most = p[k * l->inner] > most ? p[k * l->inner] : most;
            for (size_t k = 0; k < l->c; k++)
                sum += exp(p[k * l->inner] - most);
            for (size_t k = 0; k < l->c; k++)
                y[b * l->c * l->inner + k * l->inner + i] = p[k * l->inner] - most - log(sum);
        }
}

static bool loss_fits(const struct steno_tensor *x, const struct steno_tensor *t,
                      const struct steno_tensor *w)
{
    if (x->shape.rank < 2 || t->shape.rank != x->shape.rank - 1 ||
        (t->dtype != STENO_I32 && t->dtype != STENO_I64) || t->shape.dim[0] != x->shape.dim[0] ||
        (w && (w->shape.rank != 1 || w->shape.dim[0] != x->shape.dim[1])))
        return false;
    for (int i = 1; i < t->shape.rank; i++)
        if (t->shape.dim[i] != x->shape.dim[i + 1])
            return false;
    return true;
}

/* The losses of all targets into y [n, inner], the sum of their weights. False: a class that does
 * not exist. */
static bool losses(const struct loss *l, double *y, double *weights)
{
    *weights = 0;
    for (size_t b = 0; b < l->n; b++)
        for (size_t i = 0; i < l->inner; i++) {
            int64_t k = steno_ops_get_i64(l->target, b * l->inner + i);
            bool skip = l->ignores && k == l->ignored;
            double w = 1;
            if (!skip && (k < 0 || k >= (int64_t)l->c))
                return false;
            if (!skip && l->weight)
                w = l->weight[k];
            y[b * l->inner + i] = skip ? 0 : -l->x[(b * l->c + (size_t)k) * l->inner + i] * w;
            *weights += skip ? 0 : w;
        }
    return true;
}

static steno_status run_loss(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    bool soft = !strcmp(node->op_type, "SoftmaxCrossEntropyLoss");
    const struct steno_attr *ignored = steno_node_attr(node, "ignore_index");
    const struct steno_tensor *x = steno_op_in(ctx, 0), *w = steno_op_in(ctx, 2);
    struct steno_shape s = {.rank = 0};
    struct steno_tensor *y, *logs;
    struct loss l = {.ignores = ignored != NULL};
    double *each, *py, *pl, weights, sum = 0;
    size_t n;
    steno_status st;
    l.target = steno_op_in(ctx, 1);
    l.ignored = steno_node_int(node, "ignore_index", 0);
    if (!steno_ops_is_float(x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    if (!loss_fits(x, l.target, w))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "scores, targets and weights do not fit");
    l.n = (size_t)x->shape.dim[0];
    l.c = (size_t)x->shape.dim[1];
    l.inner = steno_ops_prod(&x->shape, 2, x->shape.rank);
    l.x = steno_ops_as_f64(ctx, x);
    l.weight = w ? steno_ops_as_f64(ctx, w) : NULL;
    n = l.n * l.inner;
    each = steno_op_scratch(ctx, (n + 1) * sizeof *each);
    pl = soft ? steno_op_scratch(ctx, (n * l.c + 1) * sizeof *pl) : NULL;
    if (!l.x || (w && !l.weight) || !each || (soft && !pl))
        return steno_ops_nomem(ctx, err);
    if (soft) {
        log_softmax(&l, l.x, pl);
        l.x = pl;
    }
    if (!losses(&l, each, &weights))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "a target is not a class");
    st = steno_ops_float_output(ctx, x->dtype, none(node) ? &l.target->shape : &s, &y, &py, err);
    if (st)
        return st;
    for (size_t i = 0; i < n; i++)
        sum += each[i];
    if (none(node))
        memcpy(py, each, n * sizeof *each);
    else
        *py = strcmp(steno_node_str(node, "reduction", "mean"), "sum") ? sum / weights : sum;
    steno_ops_put_f64(y, py);
    if (!soft || !steno_op_wants(ctx, 1))
        return STENO_OK;
    st = steno_op_out(ctx, 1, x->dtype, &x->shape, &logs, err);
    if (!st)
        steno_ops_store_f64(logs->data, logs->dtype, pl, n * l.c);
    return st;
}

const struct steno_op steno_ops_loss[] = {
    {"", "NegativeLogLikelihoodLoss", 12, 0, 0, infer_loss, NULL, NULL, run_loss},
    {"", "SoftmaxCrossEntropyLoss", 12, 0, 0, infer_loss, NULL, NULL, run_loss},
    {0},
};
