/* Before: n = LayerNormalization(x) over the last axis, AbsorbedAttention(q, n, ..)
 *         [, Slice(n) of rows]
 * After:  ai.steno.run:AbsorbedNormAttention(q, x, .., gamma, beta)
 *         [, LayerNormalization(Slice(x))]
 * A step of an exported decoder normalizes its whole prefix again, and only the attention reads
 * rows other than the last one. Only for networks that are run: files keep the standard
 * operators. */
#include "nn/passes/passes.h"

#include <string.h>

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
    const struct steno_shape *s;
    if (!steno_pass_is(n, "LayerNormalization") || n->n_in < 2)
        return false;
    s = &g->values[n->in[0]].shape;
    if (s->rank != 3 || g->values[n->in[0]].dtype != STENO_F32 ||
        (steno_node_int(n, "axis", -1) != -1 && steno_node_int(n, "axis", -1) != 2) ||
        !steno_pass_vector(g, n->in[1], s->dim[2]) ||
        (n->n_in > 2 && n->in[2] != STENO_NONE && !steno_pass_vector(g, n->in[2], s->dim[2])))
        return false;
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] != STENO_NONE && g->values[n->out[i]].uses)
            return false;
    return true;
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

/* Move the Slice before node `norm`, so that only the rows left are normalized. */
static steno_status cut_before(struct steno_graph *g, int32_t norm, int32_t slice, steno_err *err)
{
    const steno_value_id out = g->nodes[slice].out[0];
    steno_value_id cut;
    struct steno_node *y;
    steno_status st = steno_graph_add_value(g, g->values[out].name, &cut, err);
    if (st)
        return st;
    g->values[cut].dtype = g->values[out].dtype;
    g->values[cut].shape = g->values[out].shape;
    g->values[cut].producer = slice;
    y = steno_pass_add_node(g, "", "LayerNormalization", g->nodes[norm].opset, g->nodes[slice].name,
                            g->nodes[norm].n_in, 1, 2, err);
    if (!y)
        return STENO_ERR_NOMEM;
    memcpy(y->in, g->nodes[norm].in, (size_t)y->n_in * sizeof *y->in);
    y->in[0] = cut;
    y->out[0] = out;
    y->region = g->nodes[slice].region;
    steno_pass_set_int(g, y, 0, "axis", -1);
    steno_pass_set_float(g, y, 1, "epsilon", steno_node_float(&g->nodes[norm], "epsilon", 1e-5f));
    g->values[out].producer = g->n_nodes - 1;
    g->nodes[slice].in[0] = g->nodes[norm].in[0];
    g->nodes[slice].out[0] = cut;
    return STENO_OK;
}

static steno_status build_absorbnorm(struct steno_graph *g, int32_t at, int32_t norm,
                                     steno_err *err)
{
    struct steno_node *a = &g->nodes[at];
    const struct steno_node *n = &g->nodes[norm];
    steno_value_id *in = steno_graph_alloc(g, N_IN, sizeof *in, err);
    struct steno_attr *attr = steno_graph_alloc(g, (size_t)a->n_attr + 1, sizeof *attr, err);
    if (!in || !attr)
        return STENO_ERR_NOMEM;
    for (int i = 0; i < N_IN; i++)
        in[i] = i < a->n_in ? a->in[i] : STENO_NONE;
    in[X] = n->in[0];
    in[GAMMA] = n->in[1];
    in[BETA] = n->n_in > 2 ? n->in[2] : STENO_NONE;
    memcpy(attr, a->attr, (size_t)a->n_attr * sizeof *attr);
    attr[a->n_attr] = (struct steno_attr){
        .name = "epsilon", .kind = STENO_ATTR_FLOAT, .f = steno_node_float(n, "epsilon", 1e-5f)};
    a->domain = "ai.steno.run";
    a->op_type = "AbsorbedNormAttention";
    a->op = steno_op_find(a->domain, a->op_type, 1);
    a->in = in;
    a->n_in = N_IN;
    a->attr = attr;
    a->n_attr++;
    return a->op ? STENO_OK : steno_fail(err, STENO_ERR_INTERNAL, "no AbsorbedNormAttention");
}

static steno_status take_in(struct steno_graph *g, int32_t at, int32_t norm, steno_err *err)
{
    const steno_value_id v = g->nodes[norm].out[0];
    steno_status st = STENO_OK;
    for (int32_t i = 0, count = g->n_nodes; !st && i < count; i++)
        if (!g->nodes[i].dead && i != at && g->nodes[i].n_in && g->nodes[i].in[0] == v)
            st = cut_before(g, norm, i, err);
    if (!st)
        st = build_absorbnorm(g, at, norm, err);
    g->nodes[norm].dead = !st;
    return st;
}

steno_status steno_pass_absorbnorm(struct steno_graph *g, const struct steno_pass_env *env,
                                   int *changed, steno_err *err)
{
    if (!env->to_run)
        return STENO_OK;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        const struct steno_node *a = &g->nodes[i], *norm;
        steno_status st;
        if (a->dead || !steno_pass_is_ours(a, "AbsorbedAttention") ||
            !(norm = steno_pass_producer(g, a->in[X])) || !normalizes_rows(g, norm) ||
            !read_by_us(g, a, a->in[X]))
            continue;
        st = take_in(g, i, (int32_t)(norm - g->nodes), err);
        if (st)
            return st;
        ++*changed;
    }
    return STENO_OK;
}
