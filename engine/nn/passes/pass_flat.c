/* Before: f = Reshape(x, [-1, K]), p = Gemm(f, W [, b]), y = Reshape(p, [d0, d1, ..., N])
 *         or p = MatMul(f, W)
 * After:  y = Add(MatMul(x, W), b)
 * GPT-2's Conv1D and Keras' Dense join the rows in one axis for Gemm and split them afterwards. W
 * and b are constant, alpha and beta 1; x and y have the same leading axes. If x has K spread over
 * several axes ([b, t, heads, size]), Reshape(x, [0, 0, K]) remains. */
#include "nn/passes/passes.h"

struct flat {
    struct steno_node *gemm;
    int32_t after;
    steno_value_id x;
    int lead;    /* axes before K and N */
    bool joined; /* x is [lead..., K] */
};

/* True if x [lead..., rest] has rows of K as y [lead..., N] has, for all values of the symbols. */
static bool same_rows(const struct steno_shape *x, const struct steno_shape *y, int64_t k)
{
    int64_t cols = 1;
    if (y->rank < 2 || x->rank < y->rank)
        return false;
    for (int i = 0; i < y->rank - 1; i++)
        if (x->dim[i] != y->dim[i] || x->dim[i] == STENO_DIM_ANY || x->dim[i] == 0)
            return false;
    for (int i = y->rank - 1; i < x->rank; i++)
        if (x->dim[i] < 0 || __builtin_mul_overflow(cols, x->dim[i], &cols))
            return false;
    return cols == k;
}

static bool flat_plain(const struct steno_graph *g, const struct steno_node *n, int64_t *k)
{
    const struct steno_tensor *w = g->values[n->in[1]].constant;
    int64_t cols;
    if (!w || !w->data || w->shape.rank != 2 || w->dtype != STENO_F32 ||
        g->values[n->in[0]].dtype != STENO_F32 || steno_node_int(n, "transA", 0) ||
        steno_node_float(n, "alpha", 1) != 1 || steno_node_float(n, "beta", 1) != 1)
        return false;
    *k = w->shape.dim[steno_node_int(n, "transB", 0) != 0];
    cols = w->shape.dim[!steno_node_int(n, "transB", 0)];
    return n->n_in < 3 || n->in[2] == STENO_NONE || steno_pass_vector(g, n->in[2], cols);
}

static bool match_flat(struct steno_graph *g, const struct steno_pass_env *env,
                       struct steno_node *n, struct flat *f)
{
    struct steno_node *before, *after;
    const struct steno_shape *x, *y;
    int64_t k;
    if ((!steno_pass_is(n, "Gemm") && !steno_pass_is(n, "MatMul")) || !flat_plain(g, n, &k))
        return false;
    before = steno_pass_producer(g, n->in[0]);
    after = steno_pass_only_reader(g, n->out[0]);
    if (!steno_pass_is(before, "Reshape") || !steno_pass_is(after, "Reshape") ||
        after->in[0] != n->out[0])
        return false;
    x = &g->values[before->in[0]].shape;
    y = &g->values[after->out[0]].shape;
    if (!same_rows(x, y, k)) {
        char a[64], b[64];
        steno_pass_refuse(env, "flat", n, "the axes of %s and %s before %lld columns differ",
                          steno_shape_str(x, a, sizeof a), steno_shape_str(y, b, sizeof b),
                          (long long)k);
        return false;
    }
    *f = (struct flat){n, (int32_t)(after - g->nodes), before->in[0], y->rank - 1,
                       x->rank == y->rank};
    return true;
}

/* Make x [lead..., K] by copied dimensions and K. */
static steno_status join_flat(struct steno_graph *g, struct flat *f, const char *name, int64_t k,
                              steno_err *err)
{
    int64_t v[STENO_MAX_RANK] = {0};
    struct steno_tensor t = {.dtype = STENO_I64, .shape = {.rank = 1}, .data = v};
    struct steno_node *r;
    steno_value_id target, out;
    steno_status st;
    v[f->lead] = k;
    t.shape.dim[0] = f->lead + 1;
    st = steno_graph_add_const(g, "target", &t, false, &target, err);
    if (!st)
        st = steno_graph_add_value(g, name, &out, err);
    if (st)
        return st;
    r = steno_pass_add_node(g, "", "Reshape", 13, name, 2, 1, 0, err);
    if (!r)
        return STENO_ERR_NOMEM;
    r->in[0] = f->x;
    r->in[1] = target;
    r->out[0] = f->x = out;
    return STENO_OK;
}

static steno_status build_flat(struct steno_graph *g, struct flat *f, steno_err *err)
{
    const struct steno_node gemm = *f->gemm;
    steno_value_id bias = gemm.n_in > 2 ? gemm.in[2] : STENO_NONE, out = g->nodes[f->after].out[0],
                   w, sum;
    struct steno_node *y;
    steno_status st = STENO_OK;
    w = gemm.in[1];
    if (steno_node_int(&gemm, "transB", 0)) /* the file has [N, K] */
        st = steno_graph_transpose_const(g, gemm.in[1], &w, err);
    f->gemm->dead = g->nodes[f->after].dead = true;
    if (!st && !f->joined)
        st = join_flat(g, f, gemm.name, g->values[w].shape.dim[0], err);
    sum = out;
    if (!st && bias != STENO_NONE)
        st = steno_graph_add_value(g, gemm.name, &sum, err);
    if (st)
        return st;
    y = steno_pass_add_node(g, "", "MatMul", 13, gemm.name, 2, 1, 0, err);
    if (!y)
        return STENO_ERR_NOMEM;
    y->in[0] = f->x;
    y->in[1] = w;
    y->out[0] = sum;
    if (bias == STENO_NONE)
        return STENO_OK;
    y = steno_pass_add_node(g, "", "Add", 14, gemm.name, 2, 1, 0, err);
    if (!y)
        return STENO_ERR_NOMEM;
    y->in[0] = sum;
    y->in[1] = bias;
    y->out[0] = out;
    return STENO_OK;
}

steno_status steno_pass_flat(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                             steno_err *err)
{
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct flat f;
        steno_status st;
        if (g->nodes[i].dead || !match_flat(g, env, &g->nodes[i], &f))
            continue;
        st = build_flat(g, &f, err);
        if (st)
            return st;
        ++*changed;
    }
    return STENO_OK;
}
