/* Before: If(constant cond){then, else}      After: the nodes of the chosen branch */
#include "nn/passes/passes.h"

steno_status steno_pass_if(struct steno_graph *g, const struct steno_pass_env *env,
                           struct steno_node *n, int *changed, steno_err *err)
{
    const int32_t at = (int32_t)(n - g->nodes);
    const struct steno_attr *a;
    double cond;
    steno_status st;
    (void)env;
    if (!steno_pass_is(n, "If") || n->n_in != 1 || !steno_pass_scalar(g, n->in[0], &cond))
        return STENO_OK;
    a = steno_node_attr(n, cond != 0 ? "then_branch" : "else_branch");
    if (!a || a->kind != STENO_ATTR_GRAPH || a->g->n_inputs || a->g->n_outputs < n->n_out)
        return STENO_OK;
    st = steno_pass_inline(g, at, a->g, NULL, err);
    if (st)
        return st;
    steno_graph_drop_bodies(&g->nodes[at]);
    ++*changed;
    return STENO_OK;
}
