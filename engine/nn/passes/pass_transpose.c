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
    return n && !*n->domain && !strcmp(n->op_type, "Transpose") && n->in[0] != STENO_NONE;
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
    static const char *const names[2] = {"transA", "transB"};
    int64_t trans[2] = {steno_node_int(n, "transA", 0) != 0, steno_node_int(n, "transB", 0) != 0};
    float alpha = steno_node_float(n, "alpha", 1), beta = steno_node_float(n, "beta", 1);
    steno_value_id in[3] = {n->in[0], n->in[1], n->n_in > 2 ? n->in[2] : STENO_NONE},
                   out = n->out[0];
    const char *name = n->name;
    int opset = n->opset;
    bool any = false;
    struct steno_node *y;
    for (int k = 0; k < 2; k++) {
        const struct steno_node *t = steno_pass_producer(g, in[k]);
        if (!is_transpose(t) || g->values[t->in[0]].shape.rank != 2 || axis_of(t, 0, 2) != 1)
            continue;
        in[k] = t->in[0];
        trans[k] = !trans[k];
        any = true;
    }
    if (!any || opset < 7)
        return STENO_OK;
    n->dead = true;
    y = steno_pass_add_node(g, "", "Gemm", opset, name, 3, 1, 4, err);
    if (!y)
        return STENO_ERR_NOMEM;
    memcpy(y->in, in, sizeof in);
    y->out[0] = out;
    for (int k = 0; k < 2; k++)
        steno_pass_set_int(g, y, k, names[k], trans[k]);
    steno_pass_set_float(g, y, 2, "alpha", alpha);
    steno_pass_set_float(g, y, 3, "beta", beta);
    ++*changed;
    return STENO_OK;
}

static bool whole_shape(const struct steno_node *n)
{
    return steno_pass_is(n, "Shape") && !steno_node_int(n, "start", 0) &&
           steno_node_int(n, "end", INT64_MAX) == INT64_MAX;
}

static steno_status shape_of(struct steno_graph *g, int32_t at, const struct steno_node *t,
                             int *changed, steno_err *err)
{
    const char *name = g->nodes[at].name;
    const steno_value_id x = t->in[0], out = g->nodes[at].out[0];
    const int rank = g->values[x].shape.rank;
    int64_t perm[STENO_MAX_RANK];
    struct steno_tensor order = {STENO_I64, {.rank = 1, .dim = {rank}}, perm};
    struct steno_node *y;
    steno_value_id shape, index;
    steno_status st;
    if (rank < 1)
        return STENO_OK;
    for (int k = 0; k < rank; k++) {
        perm[k] = axis_of(t, k, rank);
        if (perm[k] < 0 || perm[k] >= rank)
            return STENO_OK;
    }
    st = steno_graph_add_const(g, "order", &order, false, &index, err);
    if (!st)
        st = steno_graph_add_value(g, "", &shape, err);
    if (st)
        return st;
    g->nodes[at].dead = true;
    y = steno_pass_add_node(g, "", "Shape", 13, name, 1, 1, 0, err);
    if (!y)
        return STENO_ERR_NOMEM;
    y->in[0] = x;
    y->out[0] = shape;
    y = steno_pass_add_node(g, "", "Gather", 13, name, 2, 1, 0, err);
    if (!y)
        return STENO_ERR_NOMEM;
    y->in[0] = shape;
    y->in[1] = index;
    y->out[0] = out;
    ++*changed;
    return STENO_OK;
}

static bool same_dim(const struct steno_shape *a, int i, const struct steno_shape *b, int j)
{
    return a->dim[i] == b->dim[j] && a->dim[i] != STENO_DIM_ANY;
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

/* Put Transpose(x; perm [rank], of the graph's arena) in the place of node `at`. */
static steno_status put_transpose(struct steno_graph *g, int32_t at, steno_value_id x,
                                  int64_t *perm, int rank, int *changed, steno_err *err)
{
    const char *name = g->nodes[at].name;
    const steno_value_id out = g->nodes[at].out[0];
    struct steno_node *y;
    g->nodes[at].dead = true;
    y = steno_pass_add_node(g, "", "Transpose", 13, name, 1, 1, 1, err);
    if (!y)
        return STENO_ERR_NOMEM;
    y->attr[0] = (struct steno_attr){
        .name = "perm", .kind = STENO_ATTR_INTS, .n = (size_t)rank, .ints = perm};
    y->in[0] = x;
    y->out[0] = out;
    ++*changed;
    return STENO_OK;
}

static steno_status exchange(struct steno_graph *g, int32_t at, steno_value_id x, int *changed,
                             steno_err *err)
{
    const int rank = g->values[x].shape.rank;
    int64_t *perm = steno_graph_alloc(g, (size_t)rank, sizeof *perm, err);
    if (!perm)
        return STENO_ERR_NOMEM;
    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return put_transpose(g, at, x, perm, rank, changed, err);
}

/* One Transpose for node `at` and the one before it. */
static steno_status join_two(struct steno_graph *g, int32_t at, const struct steno_node *before,
                             int *changed, steno_err *err)
{
    const steno_value_id x = before->in[0];
    const int rank = g->values[x].shape.rank;
    int64_t *perm;
    if (rank < 1)
        return STENO_OK;
    perm = steno_graph_alloc(g, (size_t)rank, sizeof *perm, err);
    if (!perm)
        return STENO_ERR_NOMEM;
    for (int k = 0; k < rank; k++) {
        const int64_t a = axis_of(&g->nodes[at], k, rank);
        perm[k] = a >= 0 && a < rank ? axis_of(before, (int)a, rank) : -1;
        if (perm[k] < 0 || perm[k] >= rank)
            return STENO_OK;
    }
    return put_transpose(g, at, x, perm, rank, changed, err);
}

steno_status steno_pass_transpose(struct steno_graph *g, const struct steno_pass_env *env,
                                  int *changed, steno_err *err)
{
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct steno_node *n = &g->nodes[i], *before;
        steno_status st = STENO_OK;
        steno_value_id x;
        if (n->dead)
            continue;
        if (steno_pass_is(n, "Gemm"))
            st = into_gemm(g, n, changed, err);
        else if (whole_shape(n) && is_transpose(before = steno_pass_producer(g, n->in[0])))
            st = shape_of(g, i, before, changed, err);
        else if (steno_pass_is(n, "Reshape") && (x = exchanged(g, n)) != STENO_NONE)
            st = exchange(g, i, x, changed, err);
        else if (is_transpose(n) && is_transpose(before = steno_pass_producer(g, n->in[0])))
            st = join_two(g, i, before, changed, err);
        if (st)
            return st;
    }
    return STENO_OK;
}
