/* Before: d = Sub(x, bias [C]), m = ReduceMean(Pow(d, 2) or Mul(d, d); last axis, kept),
 *         y = Mul(x, Pow(m, -0.5) [* scale])
 * After:  y = ai.steno:BiasNorm(x, bias; scale)      (nn/ops/op_fused_zipformer.c)
 * Zipformer's normalization (Yao et al. 2024, section 3.3). */
#include "nn/passes/passes.h"

static bool is_scalar(const struct steno_graph *g, steno_value_id v, double want)
{
    double c;
    return steno_pass_scalar(g, v, &c) && c == want;
}

static bool reduces_last(const struct steno_graph *g, const struct steno_node *n)
{
    int rank = g->values[n->in[0]].shape.rank;
    size_t count;
    const int64_t *axes = steno_node_ints(n, "axes", &count);
    double v;
    if (rank < 1 || steno_node_int(n, "keepdims", 1) != 1)
        return false;
    if (axes)
        return count == 1 && (axes[0] == -1 || axes[0] == rank - 1);
    return n->n_in > 1 && n->in[1] != STENO_NONE && steno_pass_scalar(g, n->in[1], &v) &&
           steno_numel(g->values[n->in[1]].constant) == 1 && (v == -1 || v == rank - 1);
}

/* v is a mean of squares of d, each read only once: return the node that computes d. gone: nodes in
 * between. */
static struct steno_node *difference(struct steno_graph *g, steno_value_id v,
                                     struct steno_node **gone)
{
    struct steno_node *mean = steno_pass_only_use(g, v, "ReduceMean"), *square;
    steno_value_id d;
    if (!mean || !reduces_last(g, mean))
        return NULL;
    square = steno_pass_only_use(g, mean->in[0], "Pow");
    if (square && !is_scalar(g, square->in[1], 2))
        return NULL;
    if (!square) {
        square = steno_pass_only_use(g, mean->in[0], "Mul");
        if (!square || square->in[0] != square->in[1])
            return NULL;
    }
    d = square->in[0];
    gone[0] = mean;
    gone[1] = square;
    if (g->values[d].is_output || (int)g->values[d].uses != (steno_pass_is(square, "Mul") ? 2 : 1))
        return NULL;
    return steno_pass_is(steno_pass_producer(g, d), "Sub") ? steno_pass_producer(g, d) : NULL;
}

struct match {
    steno_value_id x, bias;
    double scale;
    struct steno_node *gone[5];
};

/* True if `by` is [scale *] mean^-0.5; x is the other factor. */
static bool biasnorm_matches(struct steno_graph *g, steno_value_id x, steno_value_id by,
                             struct match *m)
{
    struct steno_node *scaled = steno_pass_only_use(g, by, "Mul"), *root, *sub;
    const struct steno_shape *s = &g->values[x].shape;
    *m = (struct match){.x = x, .scale = 1};
    if (scaled) {
        int side = steno_pass_scalar(g, scaled->in[0], &m->scale) ? 0 : 1;
        if (!steno_pass_scalar(g, scaled->in[side], &m->scale))
            return false;
        by = scaled->in[1 - side];
        m->gone[0] = scaled;
    }
    root = steno_pass_only_use(g, by, "Pow");
    if (!root || !is_scalar(g, root->in[1], -0.5) || g->values[x].dtype != STENO_F32 ||
        s->rank < 1 || s->dim[s->rank - 1] < 1)
        return false;
    sub = difference(g, root->in[0], m->gone + 3);
    m->gone[1] = root;
    m->gone[2] = sub;
    if (!sub || sub->in[0] != x || !steno_pass_vector(g, sub->in[1], s->dim[s->rank - 1]))
        return false;
    m->bias = sub->in[1];
    return true;
}

steno_status steno_pass_biasnorm(struct steno_graph *g, const struct steno_pass_env *env,
                                 struct steno_node *n, int *changed, steno_err *err)
{
    struct match m;
    (void)env;
    if (!steno_pass_is(n, "Mul") || n->n_in != 2 ||
        (!biasnorm_matches(g, n->in[0], n->in[1], &m) &&
         !biasnorm_matches(g, n->in[1], n->in[0], &m)) ||
        !steno_pass_same_shape(g, m.x, n->out[0]))
        return STENO_OK;
    n->dead = true;
    for (size_t k = 0; k < sizeof m.gone / sizeof *m.gone; k++)
        if (m.gone[k])
            m.gone[k]->dead = true;
    ++*changed;
    return steno_pass_put(
        g, n->name,
        STENO_NODE("ai.steno", "BiasNorm", 1, .in = STENO_VALUES(m.x, m.bias),
                   .out = STENO_VALUES(n->out[0]),
                   .attr = STENO_ATTRS(STENO_FLOAT_ATTR("scale", (float)m.scale))),
        err);
}
