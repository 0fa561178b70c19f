/* Before: If(constant cond){then, else}      After: the nodes of the chosen branch */
#include "nn/passes/passes.h"

#include <string.h>

steno_status steno_pass_if(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                           steno_err *err)
{
    int32_t n_nodes = g->n_nodes;
    (void)env;
    for (int32_t i = 0; i < n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        const struct steno_attr *a;
        double cond;
        steno_status st;
        if (n->dead || strcmp(n->op_type, "If") || *n->domain || n->n_in != 1 ||
            !steno_pass_scalar(g, n->in[0], &cond))
            continue;
        a = steno_node_attr(n, cond != 0 ? "then_branch" : "else_branch");
        if (!a || a->kind != STENO_ATTR_GRAPH || a->g->n_inputs || a->g->n_outputs < n->n_out)
            continue;
        st = steno_pass_inline(g, i, a->g, NULL, err);
        if (st)
            return st;
        steno_graph_drop_bodies(&g->nodes[i]);
        ++*changed;
    }
    return STENO_OK;
}
