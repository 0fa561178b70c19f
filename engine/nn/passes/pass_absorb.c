/* Before: Attention(q, Linear(x, Wk, bk), Linear(x, Wv, bv), mask), q of at most MOST_ROWS rows
 * After:  ai.steno:AbsorbedAttention(q, x, Wk, mask, Wv, bv) (nn/ops/op_absorbed_attention.c)
 * Weight absorption. A step of an exported decoder needs its last row only (Slice from -1 on), but
 * projects its whole prefix and all encoder frames again. That costs much more than the step
 * itself. So the pass also finds the few rows where shape inference cannot: by the Slice, which
 * gives one row, or none if the prefix is empty. */
#include "nn/passes/passes.h"

#include <string.h>

enum { MOST_ROWS = 4, BUDGET = 64 };
enum { Q, K, V, MASK, FIRST_OTHER };        /* inputs of Attention */
enum { X, W, BIAS, RESIDUAL, SCALE, ZERO }; /* of Linear */

static bool has(const struct steno_node *n, int in)
{
    return in < n->n_in && n->in[in] != STENO_NONE;
}

static steno_value_id absorb_input(const struct steno_node *n, int in)
{
    return has(n, in) ? n->in[in] : STENO_NONE;
}

static bool constant_int(const struct steno_graph *g, const struct steno_node *n, int in,
                         int64_t *v)
{
    const struct steno_tensor *t = has(n, in) ? g->values[n->in[in]].constant : NULL;
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
           (!has(n, 4) || constant_int(g, n, 4, &step)) && (axis == 1 || axis == -2) && step == 1 &&
           from < 0 && from >= -MOST_ROWS;
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
    if (steno_pass_is(n, "Add") || steno_pass_is(n, "Mul"))
        return (g->values[n->in[0]].constant || few_rows(g, n->in[0], left)) &&
               (g->values[n->in[1]].constant || few_rows(g, n->in[1], left));
    if (steno_pass_is_ours(n, "Linear") || steno_pass_is_ours(n, "Attention") ||
        steno_pass_is_ours(n, "AbsorbedAttention") || steno_pass_is(n, "LayerNormalization") ||
        steno_pass_is(n, "Relu") || steno_pass_is(n, "MatMul") || steno_pass_is(n, "Swish"))
        return few_rows(g, n->in[0], left);
    return false;
}

/* Return the product with a bias and nothing else that only the attention reads, or NULL. */
static struct steno_node *projection(struct steno_graph *g, const struct steno_node *attention,
                                     int in, int64_t cols)
{
    struct steno_node *p = steno_pass_producer(g, attention->in[in]);
    const struct steno_value *w, *y = &g->values[attention->in[in]];
    if (!steno_pass_is_ours(p, "Linear") || has(p, RESIDUAL) ||
        steno_node_int(p, "act", STENO_ACT_NONE) || steno_node_float(p, "alpha", 1) != 1 ||
        y->uses != 1 || y->is_output || y->shape.rank != 3)
        return NULL;
    w = &g->values[p->in[1]];
    if (!w->constant || !w->constant->data || (w->dtype != STENO_F32 && !has(p, SCALE)) ||
        w->shape.rank != 2 || w->shape.dim[1] != cols ||
        (has(p, BIAS) && !steno_pass_vector(g, p->in[BIAS], cols)))
        return NULL;
    return p;
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
        if (has(n, i))
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

static steno_status build_absorb(struct steno_graph *g, int32_t at, const struct found *f,
                                 steno_err *err)
{
    static const char *const attrs[] = {"heads", "size", "v_size", "hides"};
    const int64_t values[] = {f->heads, f->size, f->v_size,
                              steno_node_int(&g->nodes[at], "hides", 0)};
    const steno_value_id in[] = {g->nodes[at].in[Q],
                                 f->k->in[X],
                                 f->k->in[W],
                                 absorb_input(&g->nodes[at], MASK),
                                 f->v->in[W],
                                 absorb_input(f->v, BIAS),
                                 absorb_input(f->k, SCALE),
                                 absorb_input(f->k, ZERO),
                                 absorb_input(f->v, SCALE),
                                 absorb_input(f->v, ZERO)};
    struct steno_node *y;
    f->k->dead = f->v->dead = g->nodes[at].dead = true; /* adding a node may move them */
    y = steno_pass_add_node(g, "ai.steno", "AbsorbedAttention", 1, g->nodes[at].name,
                            has(f->k, SCALE) || has(f->v, SCALE) ? 10 : 6, 1, 5, err);
    if (!y)
        return STENO_ERR_NOMEM;
    for (int i = 0; i < 4; i++)
        steno_pass_set_int(g, y, i, attrs[i], values[i]);
    steno_pass_set_float(g, y, 4, "scale", steno_node_float(&g->nodes[at], "scale", 1));
    memcpy(y->in, in, (size_t)y->n_in * sizeof *in);
    y->out[0] = g->nodes[at].out[0];
    g->values[y->out[0]].producer = g->n_nodes - 1; /* later matches look for its rows */
    return STENO_OK;
}

steno_status steno_pass_absorb(struct steno_graph *g, const struct steno_pass_env *env,
                               int *changed, steno_err *err)
{
    if (env->cut_after)
        return STENO_OK;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct found f;
        steno_status st;
        if (g->nodes[i].dead || !steno_pass_is_ours(&g->nodes[i], "Attention") ||
            steno_node_int(&g->nodes[i], "no_nan", 0) || !match_absorb(g, &g->nodes[i], &f))
            continue;
        st = build_absorb(g, i, &f, err);
        if (st)
            return st;
        ++*changed;
    }
    return STENO_OK;
}
