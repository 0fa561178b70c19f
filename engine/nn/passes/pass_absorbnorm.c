/* Before: n = LayerNormalization(x) over the last axis, AbsorbedAttention(q, n, ..)
 *         [, Slice(n) of rows]
 * After:  ai.steno.run:AbsorbedNormAttention(q, x, .., gamma, beta)
 *         [, LayerNormalization(Slice(x))]
 * A step of an exported decoder normalizes its whole prefix again, and only the attention reads
 * rows other than the last one. Only for networks that are run: files keep the standard
 * operators. */
#include "nn/passes/passes.h"

enum { X = 1, N_IN = 12, GAMMA = 10, BETA };

/* True for a Slice of rows of a value of three axes that keeps the last axis whole. */
static bool cuts_rows(const struct steno_graph *g, const struct steno_node *n)
{
    struct steno_pass_cut c;
    return steno_pass_is(n, "Slice") && steno_pass_cut_of(g, n, &c) &&
           (c.axis == 1 || c.axis == -2);
}

static bool normalizes_rows(const struct steno_graph *g, const struct steno_node *n)
{
    return steno_pass_norm_of_rows(g, n, false) && g->values[n->in[0]].shape.rank == 3 &&
           g->values[n->in[0]].dtype == STENO_F32;
}

/* True if the only readers of v are `attention`, once, and Slices of rows. */
static bool read_by_us(const struct steno_graph *g, const struct steno_node *attention,
                       steno_value_id v)
{
    uint32_t ours = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        for (int k = 0; !n->dead && k < n->n_in; k++)
            ours += n->in[k] == v && ((n == attention && k == X) || (k == 0 && cuts_rows(g, n)));
    }
    return !g->values[v].is_output && g->values[v].uses == ours;
}

/* Move the Slice before `norm`, so that only the rows left are normalized. */
static steno_status cut_before(struct steno_graph *g, const struct steno_node *norm, int32_t slice,
                               steno_err *err)
{
    struct steno_node *s = &g->nodes[slice];
    const steno_value_id out = s->out[0];
    steno_value_id in[3] = {STENO_NONE, steno_node_in(norm, 1), steno_node_in(norm, 2)};
    steno_status st = steno_graph_add_value(g, g->values[out].name, &in[0], err);
    if (st)
        return st;
    g->values[in[0]].dtype = g->values[out].dtype;
    g->values[in[0]].shape = g->values[out].shape;
    g->values[in[0]].producer = slice;
    g->values[out].producer = g->n_nodes;
    s->in[0] = norm->in[0];
    s->out[0] = in[0];
    return steno_pass_put(
        g, s->name,
        STENO_NODE(
            "", "LayerNormalization", norm->opset, .in = {in, norm->n_in}, .out = STENO_VALUES(out),
            .attr =
                STENO_ATTRS(STENO_INT_ATTR("axis", -1),
                            STENO_FLOAT_ATTR("epsilon", steno_node_float(norm, "epsilon", 1e-5f))),
            .region_of = s),
        err);
}

static steno_status build_absorbnorm(struct steno_graph *g, struct steno_node *a,
                                     const struct steno_node *norm, steno_err *err)
{
    const struct steno_node was = *a;
    steno_value_id in[N_IN];
    for (int i = 0; i < N_IN; i++)
        in[i] = steno_node_in(a, i);
    in[X] = norm->in[0];
    in[GAMMA] = norm->in[1];
    in[BETA] = steno_node_in(norm, 2);
    return steno_pass_become(g, a,
                             STENO_NODE("ai.steno.run", "AbsorbedNormAttention", 1,
                                        .in = {in, N_IN}, .out = {was.out, was.n_out},
                                        .attr = STENO_ATTRS(STENO_FLOAT_ATTR(
                                            "epsilon", steno_node_float(norm, "epsilon", 1e-5f))),
                                        .attrs_of = &was),
                             err);
}

steno_status steno_pass_absorbnorm(struct steno_graph *g, const struct steno_pass_env *env,
                                   struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_node *p, norm;
    const int32_t at = (int32_t)(n - g->nodes);
    steno_status st = STENO_OK;
    if (!env->to_run || !steno_pass_is_ours(n, "AbsorbedAttention") ||
        !normalizes_rows(g, p = steno_pass_producer(g, n->in[X])) || !read_by_us(g, n, n->in[X]))
        return STENO_OK;
    p->dead = true;
    norm = *p; /* the array may move */
    for (int32_t i = 0, count = g->n_nodes; !st && i < count; i++)
        if (!g->nodes[i].dead && i != at && steno_node_in(&g->nodes[i], 0) == norm.out[0])
            st = cut_before(g, &norm, i, err);
    ++*changed;
    return st ? st : build_absorbnorm(g, &g->nodes[at], &norm, err);
}
