/* Before: f = Reshape(x, [-1, K]), p = Gemm(f, W [, b]), y = Reshape(p, [d0, d1, ..., N])
 *         or p = MatMul(f, W)
 * After:  y = Add(MatMul(x, W), b)
 * GPT-2's Conv1D and Keras' Dense join the rows in one axis for Gemm and split them afterwards. W
 * and b are constant, alpha and beta 1; x and y have the same leading axes. If x has K spread over
 * several axes ([b, t, heads, size]), Reshape(x, [0, 0, K]) remains. */
#include "nn/passes/passes.h"

struct flat {
    struct steno_node *gemm, *after;
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
        if (!steno_same_dim(x->dim[i], y->dim[i]) || x->dim[i] == 0)
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
    return steno_pass_vector_or_none(g, n, 2, cols);
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
    *f = (struct flat){n, after, before->in[0], y->rank - 1, x->rank == y->rank};
    return true;
}

static steno_status build_flat(struct steno_graph *g, const struct flat *f, steno_err *err)
{
    struct steno_pass_writer p = {g, f->gemm->name, err, STENO_OK};
    const steno_value_id bias = steno_node_in(f->gemm, 2), out = f->after->out[0];
    steno_value_id w = f->gemm->in[1], x = f->x, to;
    int64_t target[STENO_MAX_RANK] = {0};     /* copied dimensions, then K */
    if (steno_node_int(f->gemm, "transB", 0)) /* the file has [N, K] */
        p.st = steno_graph_transpose_const(g, f->gemm->in[1], &w, err);
    f->gemm->dead = f->after->dead = true;
    if (!f->joined && !p.st) {
        target[f->lead] = g->values[w].shape.dim[0];
        to = steno_pass_new_ints(&p, "target", f->lead + 1, target);
        x = steno_pass_write_new(&p, STENO_NODE("", "Reshape", 13, .in = STENO_VALUES(x, to)));
    }
    steno_pass_write_product(&p, x, w, bias, out);
    return p.st;
}

steno_status steno_pass_flat(struct steno_graph *g, const struct steno_pass_env *env,
                             struct steno_node *n, int *changed, steno_err *err)
{
    struct flat f;
    if (!match_flat(g, env, n, &f))
        return STENO_OK;
    ++*changed;
    return build_flat(g, &f, err);
}
