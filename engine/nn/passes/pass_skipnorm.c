/* Before: s = Add(x, skip) of one shape, y = LayerNormalization(s, gamma, beta), or
 *         RMSNormalization
 * After:  y = com.microsoft:SkipLayerNormalization(x, skip, gamma, beta), or its Simplified form;
 *         s is its fourth output if others read it
 * For additions that pass linear, which runs before, did not put into a product. */
#include "nn/passes/passes.h"

static bool sums(const struct steno_graph *g, const struct steno_node *add)
{
    return steno_pass_is(add, "Add") && g->values[add->out[0]].dtype == STENO_F32 &&
           !g->values[add->in[0]].constant && !g->values[add->in[1]].constant &&
           steno_pass_same_shape(g, add->in[0], add->out[0]) &&
           steno_pass_same_shape(g, add->in[1], add->out[0]);
}

steno_status steno_pass_skipnorm(struct steno_graph *g, const struct steno_pass_env *env,
                                 struct steno_node *n, int *changed, steno_err *err)
{
    const bool rms = steno_pass_is(n, "RMSNormalization");
    struct steno_node *add;
    steno_value_id sum;
    bool wanted;
    (void)env;
    if (!steno_pass_norm_of_rows(g, n, rms) || g->values[n->in[0]].shape.rank < 2 ||
        !(add = steno_pass_producer(g, n->in[0])) || add->region != n->region || !sums(g, add))
        return STENO_OK;
    sum = n->in[0];
    wanted = !steno_pass_read_once(g, sum);
    n->dead = add->dead = true;
    ++*changed;
    return steno_pass_put(
        g, n->name,
        STENO_NODE(
            "com.microsoft", rms ? "SkipSimplifiedLayerNormalization" : "SkipLayerNormalization", 1,
            .in = {(const steno_value_id[]){add->in[0], add->in[1], n->in[1], steno_node_in(n, 2)},
                   rms ? 3 : 4},
            .out = {(const steno_value_id[]){n->out[0], STENO_NONE, STENO_NONE, sum},
                    wanted ? 4 : 1},
            .attr = STENO_ATTRS(STENO_FLOAT_ATTR("epsilon", steno_node_float(n, "epsilon", 1e-5f))),
            .region_of = n),
        err);
}
