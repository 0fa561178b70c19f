/* Before: Attention(q, Linear(x, Wk, bk), Linear(x, Wv, bv), mask), q of at most MOST_ROWS rows
 * After:  ai.steno:AbsorbedAttention(q, x, Wk, mask, Wv, bv) (nn/ops/op_absorbed_attention.c)
 * Weight absorption. A step of an exported decoder needs its last row only (Slice from -1 on), but
 * projects its whole prefix and all encoder frames again. That costs much more than the step
 * itself. So the pass also finds the few rows where shape inference cannot: by the Slice, which
 * gives one row, or none if the prefix is empty. */
#include "nn/passes/passes.h"

enum { MOST_ROWS = 4, BUDGET = 64 };
enum { Q, K, V, MASK, FIRST_OTHER };        /* inputs of Attention */
enum { X, W, BIAS, RESIDUAL, SCALE, ZERO }; /* of Linear */

static bool constant_int(const struct steno_graph *g, const struct steno_node *n, int in,
                         int64_t *v)
{
    const struct steno_tensor *t = steno_pass_const(g, n, in);
    if (!t || !t->data || t->dtype != STENO_I64 || steno_numel(t) != 1)
        return false;
    *v = *(const int64_t *)t->data;
    return true;
}

/* True for a Slice that takes at most the last MOST_ROWS rows of [B, T, .]. */
static bool last_rows(const struct steno_graph *g, const struct steno_node *n)
{
    int64_t from, axis, step = 1;
    return constant_int(g, n, 1, &from) && constant_int(g, n, 3, &axis) &&
           (steno_node_in(n, 4) == STENO_NONE || constant_int(g, n, 4, &step)) &&
           (axis == 1 || axis == -2) && step == 1 && from < 0 && from >= -MOST_ROWS;
}

/* True if v [B, T, .] has at most MOST_ROWS rows: by its shape, or because all values that it is
 * computed from have. */
static bool few_rows(struct steno_graph *g, steno_value_id v, int *left)
{
    const struct steno_shape *s = &g->values[v].shape;
    const struct steno_node *n = steno_pass_producer(g, v);
    if (s->rank != 3 || --*left < 0)
        return false;
    if (s->dim[1] >= 0)
        return s->dim[1] > 0 && s->dim[1] <= MOST_ROWS;
    if (steno_pass_is(n, "Slice"))
        return last_rows(g, n) || few_rows(g, n->in[0], left);
    if (steno_pass_is_any(n, "Add Mul"))
        return (g->values[n->in[0]].constant || few_rows(g, n->in[0], left)) &&
               (g->values[n->in[1]].constant || few_rows(g, n->in[1], left));
    if (steno_pass_is_ours(n, "Linear") || steno_pass_is_ours(n, "Attention") ||
        steno_pass_is_ours(n, "AbsorbedAttention") ||
        steno_pass_is_any(n, "LayerNormalization Relu MatMul Swish"))
        return few_rows(g, n->in[0], left);
    return false;
}

/* Return the product with a bias and nothing else that only the attention reads, or NULL. */
static struct steno_node *projection(struct steno_graph *g, const struct steno_node *attention,
                                     int in, int64_t cols)
{
    struct steno_node *p = steno_pass_producer(g, attention->in[in]);
    const struct steno_tensor *w;
    if (!steno_pass_is_ours(p, "Linear") || steno_node_in(p, RESIDUAL) != STENO_NONE ||
        steno_node_int(p, "act", STENO_ACT_NONE) || steno_node_float(p, "alpha", 1) != 1 ||
        !steno_pass_read_once(g, attention->in[in]) || g->values[attention->in[in]].shape.rank != 3)
        return NULL;
    w = steno_pass_const(g, p, W);
    return w && w->data && (w->dtype == STENO_F32 || steno_node_in(p, SCALE) != STENO_NONE) &&
                   w->shape.rank == 2 && w->shape.dim[1] == cols &&
                   steno_pass_vector_or_none(g, p, BIAS, cols)
               ? p
               : NULL;
}

struct found {
    struct steno_node *k, *v;
    int64_t heads, size, v_size;
};

static bool match_absorb(struct steno_graph *g, const struct steno_node *n, struct found *f)
{
    static const char *const at[] = {"q_at", "k_at", "v_at"};
    int left = BUDGET;
    for (int i = FIRST_OTHER; i < n->n_in; i++)
        if (n->in[i] != STENO_NONE)
            return false;
    for (int i = 0; i < 3; i++)
        if (steno_node_int(n, at[i], 0))
            return false;
    if (steno_node_attr(n, "fill"))
        return false; /* the kernel knows only keys that take no part */
    f->heads = steno_node_int(n, "heads", 0);
    f->size = steno_node_int(n, "size", 0);
    f->v_size = steno_node_int(n, "v_size", 0);
    if (steno_node_int(n, "apart", 0) || g->values[n->in[Q]].shape.rank != 3 ||
        g->values[n->in[Q]].shape.dim[2] != f->heads * f->size)
        return false;
    f->k = projection(g, n, K, f->heads * f->size);
    f->v = projection(g, n, V, f->heads * f->v_size);
    return f->k && f->v && f->k->in[0] == f->v->in[0] && few_rows(g, n->in[Q], &left);
}

static steno_status build_absorb(struct steno_graph *g, struct steno_node *a, const struct found *f,
                                 steno_err *err)
{
    const steno_value_id out = a->out[0];
    const steno_value_id in[] = {a->in[Q],
                                 f->k->in[X],
                                 f->k->in[W],
                                 steno_node_in(a, MASK),
                                 f->v->in[W],
                                 steno_node_in(f->v, BIAS),
                                 steno_node_in(f->k, SCALE),
                                 steno_node_in(f->k, ZERO),
                                 steno_node_in(f->v, SCALE),
                                 steno_node_in(f->v, ZERO)};
    const bool bytes = in[6] != STENO_NONE || in[8] != STENO_NONE;
    steno_status st;
    f->k->dead = f->v->dead = a->dead = true;
    st = steno_pass_put(
        g, a->name,
        STENO_NODE("ai.steno", "AbsorbedAttention", 1, .in = {in, bytes ? 10 : 6},
                   .out = STENO_VALUES(out),
                   .attr = STENO_ATTRS(STENO_INT_ATTR("heads", f->heads),
                                       STENO_INT_ATTR("size", f->size),
                                       STENO_INT_ATTR("v_size", f->v_size),
                                       STENO_INT_ATTR("hides", steno_node_int(a, "hides", 0)),
                                       STENO_FLOAT_ATTR("scale", steno_node_float(a, "scale", 1)))),
        err);
    g->values[out].producer = g->n_nodes - 1; /* later matches look for its rows */
    return st;
}

steno_status steno_pass_absorb(struct steno_graph *g, const struct steno_pass_env *env,
                               struct steno_node *n, int *changed, steno_err *err)
{
    struct found f;
    if (env->cut_after || !steno_pass_is_ours(n, "Attention") || steno_node_int(n, "no_nan", 0) ||
        !match_absorb(g, n, &f))
        return STENO_OK;
    ++*changed;
    return build_absorb(g, n, &f, err);
}
