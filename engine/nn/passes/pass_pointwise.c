/* Before: Conv of kernel 1 on Transpose(x; 0,2,1)
 * After:  Transpose(MatMul(x, W') [+ bias]; 0,2,1)
 * Before: f(Transpose(x; 0,2,1)), f elementwise of one input, the only reader of the Transpose
 * After:  Transpose(f(x); 0,2,1)
 * Exported convolution modules have channels before time. Transposes move down until they meet the
 * inverse Transpose, and pass transpose removes both. */
#include "nn/passes/passes.h"

static bool is_pointwise(const struct steno_graph *g, const struct steno_node *c)
{
    const struct steno_tensor *w = steno_pass_is(c, "Conv") ? g->values[c->in[1]].constant : NULL;
    return w && w->data && w->dtype == STENO_F32 && w->shape.rank == 3 && steno_numel(w) &&
           w->shape.dim[2] == 1 && steno_node_int(c, "group", 1) == 1 &&
           (c->n_in < 3 || c->in[2] == STENO_NONE ||
            steno_pass_vector(g, c->in[2], w->shape.dim[0])) &&
           steno_pass_ints_are(c, "strides", 1, 1) && steno_pass_ints_are(c, "pads", 0, 0);
}

static steno_status convolution(struct steno_graph *g, int32_t at, steno_value_id x, steno_err *err)
{
    steno_value_id weights, bias = g->nodes[at].n_in > 2 ? g->nodes[at].in[2] : STENO_NONE, v[2];
    const char *name = g->nodes[at].name;
    struct steno_node *n;
    steno_status st = steno_graph_transpose_const(g, g->nodes[at].in[1], &weights, err);
    for (int i = 0; !st && i < 2; i++)
        st = steno_graph_add_value(g, name, &v[i], err);
    if (st)
        return st;
    n = steno_pass_add_node(g, "", "MatMul", 13, name, 2, 1, 0, err);
    if (!n)
        return STENO_ERR_NOMEM;
    n->in[0] = x;
    n->in[1] = weights;
    n->out[0] = v[0];
    if (bias != STENO_NONE) {
        n = steno_pass_add_node(g, "", "Add", 14, name, 2, 1, 0, err);
        if (!n)
            return STENO_ERR_NOMEM;
        n->in[0] = v[0];
        n->in[1] = bias;
        n->out[0] = v[1];
    }
    g->nodes[at].dead = true;
    return steno_pass_swap_after(g, v[bias != STENO_NONE], g->nodes[at].out[0], name, err);
}

static bool is_curve(const struct steno_node *n)
{
    static const char *const types[] = {"Swish", "Sigmoid", "Relu", "Tanh", "Gelu", "Neg", "Exp"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (steno_pass_is(n, types[i]) && n->n_in == 1)
            return true;
    return false;
}

/* Make the node read x and write a new value; a Transpose of it writes the old output. */
static steno_status sink(struct steno_graph *g, int32_t at, steno_value_id x, steno_err *err)
{
    struct steno_node *n = &g->nodes[at];
    steno_value_id out = n->out[0], v;
    steno_status st = steno_graph_add_value(g, n->name, &v, err);
    if (st)
        return st;
    n = &g->nodes[at];
    n->in[0] = x;
    n->out[0] = v;
    return steno_pass_swap_after(g, v, out, n->name, err);
}

steno_status steno_pass_pointwise(struct steno_graph *g, const struct steno_pass_env *env,
                                  int *changed, steno_err *err)
{
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct steno_node *n = &g->nodes[i], *before;
        steno_status st;
        if (n->dead || n->n_in < 1 || !(before = steno_pass_swapped(g, n->in[0])))
            continue;
        if (is_pointwise(g, n))
            st = convolution(g, i, before->in[0], err);
        else if (is_curve(n) && g->values[n->in[0]].uses == 1 && !g->values[n->in[0]].is_output)
            st = sink(g, i, before->in[0], err);
        else
            continue;
        if (st)
            return st;
        ++*changed;
    }
    return STENO_OK;
}
