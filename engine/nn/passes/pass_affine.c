/* Before: y = Conv|ConvTranspose|Gemm(x, W, b), z = BatchNormalization(y), or y * s, y / s, y + t,
 *         y - t with constants of one element or one per output channel; MatMul by a constant with
 *         y * s of the last axis
 * After:  z = Conv|...(x, W s, b s + t)
 * The affine step costs nothing at run time. Only z may read y, and only the operator may read W.
 * Computed in f64. */
#include "nn/passes/passes.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

struct affine {
    struct steno_node *op, *after;
    steno_value_id w, b;
    int axis;      /* of the channels in y */
    int64_t n;     /* channels */
    double *s, *t; /* [n]: z = y * s + t */
};

static const float *affine_constant(const struct steno_graph *g, steno_value_id v)
{
    const struct steno_tensor *t = v == STENO_NONE ? NULL : g->values[v].constant;
    return t && t->dtype == STENO_F32 ? t->data : NULL;
}

/* ---- the operator ---- */

static int64_t channels(const struct steno_graph *g, const struct steno_node *op)
{
    const struct steno_shape *w = &g->values[op->in[1]].shape;
    if (steno_pass_is(op, "Conv"))
        return w->rank >= 3 ? w->dim[0] : 0;
    if (steno_pass_is(op, "ConvTranspose"))
        return w->rank >= 3 ? w->dim[1] * steno_node_int(op, "group", 1) : 0;
    if (steno_pass_is(op, "Gemm") && steno_node_int(op, "transB", 0))
        return w->rank == 2 ? w->dim[0] : 0;
    return w->rank == 2 ? w->dim[1] : 0;
}

static bool find_op(struct steno_graph *g, struct affine *a, steno_value_id y)
{
    a->op = steno_pass_producer(g, y);
    if (!steno_pass_is_any(a->op, "Conv ConvTranspose Gemm MatMul") ||
        !steno_pass_read_once(g, y) || g->values[y].shape.rank < 2 ||
        g->values[y].dtype != STENO_F32)
        return false;
    a->w = a->op->in[1];
    a->b = steno_node_in(a->op, 2);
    a->n = channels(g, a->op);
    a->axis = *a->op->op_type == 'C' ? 1 : g->values[y].shape.rank - 1;
    if (!affine_constant(g, a->w) || g->values[a->w].uses != 1 || a->n < 1 ||
        (a->b != STENO_NONE && !steno_pass_vector(g, a->b, a->n)))
        return false;
    /* beta would scale a bias that is added as well */
    return !steno_pass_is(a->op, "Gemm") || steno_node_float(a->op, "beta", 1) == 1;
}

/* ---- the node after it ---- */

static bool batchnorm(const struct steno_graph *g, struct affine *a)
{
    const struct steno_node *n = a->after;
    const float *p[4];
    double eps = (double)steno_node_float(n, "epsilon", 1e-5f);
    if (a->axis != 1 || n->n_in != 5 || steno_pass_is(a->op, "MatMul") ||
        /* it has no bias */ steno_node_int(n, "training_mode", 0) ||
        steno_node_int(n, "spatial", 1) != 1 || !steno_pass_one_output(g, n))
        return false;
    for (int i = 0; i < 4; i++)
        if (!(p[i] = steno_pass_vector(g, n->in[i + 1], a->n)))
            return false;
    for (int64_t c = 0; c < a->n; c++) {
        a->s[c] = (double)p[0][c] / sqrt((double)p[3][c] + eps);
        a->t[c] = (double)p[1][c] - (double)p[2][c] * a->s[c];
        if (!isfinite(a->s[c]) || !isfinite(a->t[c]))
            return false;
    }
    return true;
}

/* Constant v for a channel: one element for all (*step 0), or one per channel along a->axis of
 * y. */
static const float *per_channel(const struct steno_graph *g, const struct affine *a,
                                steno_value_id v, size_t *step)
{
    const struct steno_shape *y = &g->values[a->op->out[0]].shape, *s = &g->values[v].shape;
    const float *p = affine_constant(g, v);
    int64_t count = 1;
    if (!p || s->rank > y->rank)
        return NULL;
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] != 1 && (i + y->rank - s->rank != a->axis || s->dim[i] != a->n))
            return NULL;
        count *= s->dim[i];
    }
    *step = count != 1;
    return p;
}

static bool arithmetic(const struct steno_graph *g, struct affine *a)
{
    const struct steno_node *n = a->after;
    int side = n->in[0] == a->op->out[0];
    char op = *n->op_type;
    size_t step = 0;
    const float *p = n->n_in == 2 ? per_channel(g, a, n->in[side], &step) : NULL;
    if (!p || (op == 'D' && side != 1))
        return false;
    if (steno_pass_is(a->op, "MatMul") && (op == 'A' || op == 'S' || !step))
        return false; /* pass linear takes a bias and a factor and leaves the weights as they are */
    for (int64_t c = 0; c < a->n; c++) {
        double v = (double)p[step * (size_t)c];
        a->s[c] = op == 'M' ? v : op == 'D' ? 1 / v : op == 'S' && !side ? -1 : 1;
        a->t[c] = op == 'A' || (op == 'S' && !side) ? v : op == 'S' ? -v : 0;
        if (!isfinite(a->s[c]) || !isfinite(a->t[c]))
            return false;
    }
    return true;
}

/* ---- new constants ---- */

/* Channel of element i of W. */
static int64_t channel(const struct steno_graph *g, const struct affine *a, int64_t i)
{
    const struct steno_shape *w = &g->values[a->w].shape;
    int64_t inner = 1, group;
    for (int k = steno_pass_is(a->op, "ConvTranspose") ? 2 : 1; k < w->rank; k++)
        inner *= w->dim[k];
    if (steno_pass_is(a->op, "ConvTranspose")) {
        group = i / (inner * w->dim[1]) / (w->dim[0] / steno_node_int(a->op, "group", 1));
        return group * w->dim[1] + i / inner % w->dim[1];
    }
    if (*a->op->op_type == 'C' || steno_node_int(a->op, "transB", 0))
        return i / inner;
    return i % a->n;
}

/* True if no weight and no bias overflows with its new factor. */
static bool stays_finite(const struct steno_graph *g, const struct affine *a)
{
    const struct steno_tensor *t = g->values[a->w].constant;
    const float *w = t->data, *b = a->b == STENO_NONE ? NULL : affine_constant(g, a->b);
    for (int64_t i = 0, n = (int64_t)steno_numel(t); i < n; i++)
        if (!(fabs((double)w[i] * a->s[channel(g, a, i)]) <= (double)FLT_MAX) && isfinite(w[i]))
            return false;
    for (int64_t c = 0; c < a->n; c++)
        if (!(fabs((b ? (double)b[c] * a->s[c] : 0) + a->t[c]) <= (double)FLT_MAX))
            return false;
    return true;
}

static steno_status new_weights(struct steno_graph *g, const struct affine *a, steno_value_id *out,
                                steno_err *err)
{
    const struct steno_tensor *t = g->values[a->w].constant;
    const float *w = t->data;
    float *p = steno_graph_new_const(g, g->values[a->w].name, STENO_F32, &t->shape, out, err);
    for (int64_t i = 0, n = (int64_t)steno_numel(t); p && i < n; i++)
        p[i] = (float)((double)w[i] * a->s[channel(g, a, i)]);
    return p ? STENO_OK : STENO_ERR_NOMEM;
}

static steno_status new_bias(struct steno_graph *g, const struct affine *a, steno_value_id *out,
                             steno_err *err)
{
    const struct steno_shape s = {.rank = 1, .dim = {a->n}};
    const float *b = a->b == STENO_NONE ? NULL : affine_constant(g, a->b);
    float *p = steno_graph_new_const(g, "bias", STENO_F32, &s, out, err);
    for (int64_t c = 0; p && c < a->n; c++)
        p[c] = (float)((b ? (double)b[c] * a->s[c] : 0) + a->t[c]);
    return p ? STENO_OK : STENO_ERR_NOMEM;
}

static steno_status rewrite(struct steno_graph *g, struct affine *a, steno_err *err)
{
    bool plain = steno_pass_is(a->op, "MatMul");
    steno_value_id w, b = STENO_NONE, *in;
    steno_status st = new_weights(g, a, &w, err);
    if (!st && !plain)
        st = new_bias(g, a, &b, err);
    in = st ? NULL : steno_graph_alloc(g, 3, sizeof *in, err);
    if (!in)
        return st ? st : STENO_ERR_NOMEM;
    in[0] = a->op->in[0];
    in[1] = w;
    in[2] = b;
    a->op->in = in;
    a->op->n_in = plain ? 2 : 3;
    a->op->out[0] = a->after->out[0];
    a->after->dead = true;
    return STENO_OK;
}

steno_status steno_pass_affine(struct steno_graph *g, const struct steno_pass_env *env,
                               struct steno_node *n, int *changed, steno_err *err)
{
    struct affine a = {.after = n};
    const bool bn = steno_pass_is(n, "BatchNormalization");
    bool found = false;
    steno_status st = STENO_OK;
    (void)env;
    if (!bn && !steno_pass_is_any(n, "Add Sub Mul Div"))
        return STENO_OK;
    for (int k = 0; k < (bn ? 1 : n->n_in) && !found; k++)
        found = find_op(g, &a, n->in[k]);
    if (!found || !steno_pass_same_shape(g, a.op->out[0], n->out[0]))
        return STENO_OK;
    a.s = calloc((size_t)a.n, 2 * sizeof *a.s);
    if (!a.s)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for factors");
    a.t = a.s + a.n;
    if (bn ? batchnorm(g, &a) : arithmetic(g, &a)) {
        st = steno_graph_fetch(g, a.w, err);
        if (!st && stays_finite(g, &a)) {
            ++*changed;
            st = rewrite(g, &a, err);
        }
    }
    free(a.s);
    return st;
}
