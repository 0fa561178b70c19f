/* Before: t = Transpose(x, p), y = Transpose(t, q)      After: y = Transpose(x, p[q[i]])
 * Before: Gemm(Transpose(a), Transpose(b), c)           After: Gemm(a, b, c; transA, transB)
 * Before: t = Transpose(x, p), s = Shape(t)             After: s = Gather(Shape(x), p)
 * Before: f = Reshape(x [d.., a, b], [-1, a, b]), t = Transpose(f, 0 2 1),
 *         y = Reshape(t, [d.., b, a])                   After: y = Transpose(x, last two axes)
 *         (torch.onnx writes so the keys of scaled_dot_product_attention)
 * t stays if others read it. Pass identity removes a Transpose in order. */
#include "nn/passes/passes.h"

#include <string.h>

static bool is_transpose(const struct steno_node *n)
{
    return steno_pass_is(n, "Transpose") && n->in[0] != STENO_NONE;
}

static int64_t axis_of(const struct steno_node *n, int i, int rank)
{
    size_t count;
    const int64_t *perm = steno_node_ints(n, "perm", &count);
    return !perm ? rank - 1 - i : (int)count == rank ? perm[i] : -1;
}

/* A Gemm whose factors are transposed matrices. */
static steno_status into_gemm(struct steno_graph *g, struct steno_node *n, int *changed,
                              steno_err *err)
{
    bool trans[2] = {steno_node_int(n, "transA", 0) != 0, steno_node_int(n, "transB", 0) != 0};
    steno_value_id in[3] = {n->in[0], n->in[1], steno_node_in(n, 2)};
    bool any = false;
    for (int k = 0; k < 2; k++) {
        const struct steno_node *t = steno_pass_producer(g, in[k]);
        if (!is_transpose(t) || g->values[t->in[0]].shape.rank != 2 || axis_of(t, 0, 2) != 1)
            continue;
        in[k] = t->in[0];
        trans[k] = !trans[k];
        any = true;
    }
    if (!any || n->opset < 7)
        return STENO_OK;
    n->dead = true;
    ++*changed;
    return steno_pass_put(
        g, n->name,
        STENO_NODE("", "Gemm", n->opset, .in = {in, 3}, .out = STENO_VALUES(n->out[0]),
                   .attr = STENO_ATTRS(STENO_INT_ATTR("transA", trans[0]),
                                       STENO_INT_ATTR("transB", trans[1]),
                                       STENO_FLOAT_ATTR("alpha", steno_node_float(n, "alpha", 1)),
                                       STENO_FLOAT_ATTR("beta", steno_node_float(n, "beta", 1)))),
        err);
}

static bool whole_shape(const struct steno_node *n)
{
    return steno_pass_is(n, "Shape") && !steno_node_int(n, "start", 0) &&
           steno_node_int(n, "end", INT64_MAX) == INT64_MAX;
}

static steno_status shape_of(struct steno_graph *g, struct steno_node *n,
                             const struct steno_node *t, int *changed, steno_err *err)
{
    struct steno_pass_writer w = {g, n->name, err, STENO_OK};
    const steno_value_id x = t->in[0], out = n->out[0];
    const int rank = g->values[x].shape.rank;
    int64_t perm[STENO_MAX_RANK];
    steno_value_id shape, order;
    if (rank < 1)
        return STENO_OK;
    for (int k = 0; k < rank; k++) {
        perm[k] = axis_of(t, k, rank);
        if (perm[k] < 0 || perm[k] >= rank)
            return STENO_OK;
    }
    n->dead = true;
    ++*changed;
    order = steno_pass_new_ints(&w, "order", rank, perm);
    shape = steno_pass_write_new(&w, STENO_NODE("", "Shape", 13, .in = STENO_VALUES(x)));
    steno_pass_write(&w, STENO_NODE("", "Gather", 13, .in = STENO_VALUES(shape, order),
                                    .out = STENO_VALUES(out)));
    return w.st;
}

static bool same_dim(const struct steno_shape *a, int i, const struct steno_shape *b, int j)
{
    return steno_same_dim(a->dim[i], b->dim[j]);
}

/* The x whose last two axes y exchanges while the axes before them are joined; STENO_NONE: y is
 * something else. */
static steno_value_id exchanged(struct steno_graph *g, const struct steno_node *y)
{
    const struct steno_node *t = steno_pass_producer(g, y->in[0]), *f;
    const struct steno_shape *from, *joined, *to = &g->values[y->out[0]].shape;
    int r;
    if (!is_transpose(t) || axis_of(t, 0, 3) != 0 || axis_of(t, 1, 3) != 2)
        return STENO_NONE;
    f = steno_pass_producer(g, t->in[0]);
    if (!steno_pass_is(f, "Reshape"))
        return STENO_NONE;
    from = &g->values[f->in[0]].shape;
    joined = &g->values[t->in[0]].shape;
    r = from->rank;
    if (r < 3 || to->rank != r || joined->rank != 3 || !same_dim(from, r - 2, joined, 1) ||
        !same_dim(from, r - 1, joined, 2) || !same_dim(from, r - 2, to, r - 1) ||
        !same_dim(from, r - 1, to, r - 2))
        return STENO_NONE;
    for (int i = 0; i < r - 2; i++)
        if (!same_dim(from, i, to, i))
            return STENO_NONE;
    return f->in[0];
}

/* Put Transpose(x; perm), of `rank` axes, in the place of n. */
static steno_status put_transpose(struct steno_graph *g, struct steno_node *n, steno_value_id x,
                                  const int64_t *perm, int rank, int *changed, steno_err *err)
{
    int64_t *kept = steno_graph_alloc(g, (size_t)rank, sizeof *kept, err);
    if (!kept)
        return STENO_ERR_NOMEM;
    memcpy(kept, perm, (size_t)rank * sizeof *kept);
    n->dead = true;
    ++*changed;
    return steno_pass_put(g, n->name,
                          STENO_NODE("", "Transpose", 13, .in = STENO_VALUES(x),
                                     .out = STENO_VALUES(n->out[0]),
                                     .attr = STENO_ATTRS(STENO_INTS_ATTR("perm", rank, kept))),
                          err);
}

static steno_status exchange(struct steno_graph *g, struct steno_node *n, steno_value_id x,
                             int *changed, steno_err *err)
{
    const int rank = g->values[x].shape.rank;
    int64_t perm[STENO_MAX_RANK];
    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return put_transpose(g, n, x, perm, rank, changed, err);
}

/* One Transpose for n and the one before it. */
static steno_status join_two(struct steno_graph *g, struct steno_node *n,
                             const struct steno_node *before, int *changed, steno_err *err)
{
    const steno_value_id x = before->in[0];
    const int rank = g->values[x].shape.rank;
    int64_t perm[STENO_MAX_RANK];
    if (rank < 1)
        return STENO_OK;
    for (int k = 0; k < rank; k++) {
        const int64_t a = axis_of(n, k, rank);
        perm[k] = a >= 0 && a < rank ? axis_of(before, (int)a, rank) : -1;
        if (perm[k] < 0 || perm[k] >= rank)
            return STENO_OK;
    }
    return put_transpose(g, n, x, perm, rank, changed, err);
}

steno_status steno_pass_transpose(struct steno_graph *g, const struct steno_pass_env *env,
                                  struct steno_node *n, int *changed, steno_err *err)
{
    const struct steno_node *before;
    steno_value_id x;
    (void)env;
    if (steno_pass_is(n, "Gemm"))
        return into_gemm(g, n, changed, err);
    if (whole_shape(n) && is_transpose(before = steno_pass_producer(g, n->in[0])))
        return shape_of(g, n, before, changed, err);
    if (steno_pass_is(n, "Reshape") && (x = exchanged(g, n)) != STENO_NONE)
        return exchange(g, n, x, changed, err);
    if (is_transpose(n) && is_transpose(before = steno_pass_producer(g, n->in[0])))
        return join_two(g, n, before, changed, err);
    return STENO_OK;
}
