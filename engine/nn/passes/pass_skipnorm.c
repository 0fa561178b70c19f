/* Before: s = Add(x, skip) of one shape, y = LayerNormalization(s, gamma, beta), or
 *         RMSNormalization
 * After:  y = com.microsoft:SkipLayerNormalization(x, skip, gamma, beta), or its Simplified form;
 *         s is its fourth output if others read it
 * For additions that pass linear, which runs before, did not put into a product. */
#include "nn/passes/passes.h"

static bool normalises(const struct steno_graph *g, const struct steno_node *n, bool *rms)
{
    int rank = n->n_in ? g->values[n->in[0]].shape.rank : -1;
    int64_t axis = steno_node_int(n, "axis", -1);
    *rms = steno_pass_is(n, "RMSNormalization");
    if ((!*rms && !steno_pass_is(n, "LayerNormalization")) || rank < 2 ||
        (axis != -1 && axis != rank - 1) ||
        !steno_pass_vector(g, n->in[1], g->values[n->in[0]].shape.dim[rank - 1]) ||
        (n->n_in > 2 && n->in[2] != STENO_NONE &&
         !steno_pass_vector(g, n->in[2], g->values[n->in[0]].shape.dim[rank - 1])))
        return false;
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] != STENO_NONE && g->values[n->out[i]].uses)
            return false;
    return true;
}

static bool sums(const struct steno_graph *g, const struct steno_node *add)
{
    return steno_pass_is(add, "Add") && g->values[add->out[0]].dtype == STENO_F32 &&
           !g->values[add->in[0]].constant && !g->values[add->in[1]].constant &&
           steno_pass_same_shape(g, add->in[0], add->out[0]) &&
           steno_pass_same_shape(g, add->in[1], add->out[0]);
}

steno_status steno_pass_skipnorm(struct steno_graph *g, const struct steno_pass_env *env,
                                 int *changed, steno_err *err)
{
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct steno_node *norm = &g->nodes[i], *add, *y;
        const char *name = norm->name;
        steno_value_id in[4], out = norm->n_out ? norm->out[0] : STENO_NONE, sum;
        int32_t region;
        bool rms, wanted;
        float eps;
        if (norm->dead || !normalises(g, norm, &rms) ||
            !(add = steno_pass_producer(g, norm->in[0])) || add->region != norm->region ||
            !sums(g, add))
            continue;
        sum = norm->in[0];
        wanted = g->values[sum].uses > 1 || g->values[sum].is_output;
        in[0] = add->in[0];
        in[1] = add->in[1];
        in[2] = norm->in[1];
        in[3] = !rms && norm->n_in > 2 ? norm->in[2] : STENO_NONE;
        region = norm->region;
        eps = steno_node_float(norm, "epsilon", 1e-5f);
        norm->dead = add->dead = true;
        y = steno_pass_add_node(g, "com.microsoft",
                                rms ? "SkipSimplifiedLayerNormalization" : "SkipLayerNormalization",
                                1, name, rms ? 3 : 4, wanted ? 4 : 1, 1, err);
        if (!y)
            return STENO_ERR_NOMEM;
        y->region = region;
        steno_pass_set_float(g, y, 0, "epsilon", eps);
        for (int k = 0; k < y->n_in; k++)
            y->in[k] = in[k];
        y->out[0] = out;
        if (wanted)
            y->out[3] = sum;
        ++*changed;
    }
    return STENO_OK;
}
