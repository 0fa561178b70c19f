/* Before: Conv of kernel 1 on Transpose(x; 0,2,1)
 * After:  Transpose(MatMul(x, W') [+ bias]; 0,2,1)
 * Before: f(Transpose(x; 0,2,1)), f elementwise of one input, the only reader of the Transpose
 * After:  Transpose(f(x); 0,2,1)
 * Before: Where(m, c, Transpose(x; 0,2,1)), which alone reads the Transpose, in any order, c one
 *         number, m [N, 1, T] (a mask of lengths); Mul likewise
 * After:  Transpose(Where(Transpose(m; 0,2,1), c, x); 0,2,1)
 *
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

/* A tensor [N, 1, T], one number for all channels. */
static bool is_mask(const struct steno_graph *g, steno_value_id v)
{
    const struct steno_value *m = &g->values[v];
    return !m->constant && m->shape.rank == 3 && m->shape.dim[1] == 1;
}

/* Return the number of the input that is a Transpose for this node alone; -1: there is none, or n
 * is neither a curve nor a mask. */
static int transposed_input(struct steno_graph *g, const struct steno_node *n)
{
    const bool mask = steno_pass_is(n, "Where") || (steno_pass_is(n, "Mul") && n->n_in == 2);
    int at = -1;
    for (int i = 0; i < n->n_in && (mask || is_curve(n)); i++) {
        const steno_value_id v = n->in[i];
        double number;
        if (v == STENO_NONE)
            return -1;
        if (mask && is_mask(g, v))
            continue;
        if (at < 0 && steno_pass_swapped(g, v) && g->values[v].uses == 1 && !g->values[v].is_output)
            at = i;
        else if (!steno_pass_scalar(g, v, &number) || g->values[v].shape.rank > 3 ||
                 steno_numel(g->values[v].constant) != 1)
            return -1;
    }
    return at;
}

/* Make the node read what its input k is the Transpose of, and masks turned likewise, and write a
 * new value; a Transpose of it writes the old output. */
static steno_status sink(struct steno_graph *g, int32_t at, int k, steno_err *err)
{
    struct steno_node *n = &g->nodes[at];
    const steno_value_id out = n->out[0];
    steno_value_id v;
    steno_status st = STENO_OK;
    n->in[k] = steno_pass_swapped(g, n->in[k])->in[0];
    for (int i = 0; i < g->nodes[at].n_in && !st; i++) {
        const steno_value_id m = g->nodes[at].in[i];
        if (i == k || !is_mask(g, m))
            continue;
        st = steno_graph_add_value(g, g->values[m].name, &v, err);
        if (!st)
            st = steno_pass_swap_after(g, m, v, g->nodes[at].name, err);
        g->nodes[at].in[i] = v;
    }
    if (!st)
        st = steno_graph_add_value(g, g->nodes[at].name, &v, err);
    if (st)
        return st;
    n = &g->nodes[at];
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
        int k;
        if (n->dead || n->n_in < 1)
            continue;
        if (is_pointwise(g, n) && (before = steno_pass_swapped(g, n->in[0])))
            st = convolution(g, i, before->in[0], err);
        else if ((k = transposed_input(g, n)) >= 0)
            st = sink(g, i, k, err);
        else
            continue;
        if (st)
            return st;
        ++*changed;
    }
    return STENO_OK;
}
