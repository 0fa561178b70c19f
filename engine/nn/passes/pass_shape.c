/* Before: Shape(x) -> Gather/Slice/Unsqueeze/Concat/Add/Mul... -> s      After: constant s
 * For s whose elements shape inference (nn/exec/partial.c) knows as numbers, although x has other
 * symbolic dimensions. Not in the bodies of loops, which may run with other shapes each time. */
#include "nn/passes/passes.h"

steno_status steno_pass_shape(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                              steno_err *err)
{
    (void)env;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        struct steno_node *n = &g->nodes[i];
        struct steno_value *v;
        steno_status st;
        if (n->dead || n->n_out != 1 || n->out[0] == STENO_NONE)
            continue;
        v = &g->values[n->out[0]];
        if (!v->inferred || v->constant || v->is_output)
            continue;
        st = steno_graph_set_const(g, n->out[0], v->inferred, false, err);
        if (st)
            return st;
        g->values[n->out[0]].producer = STENO_NONE;
        n->dead = true;
        ++*changed;
    }
    return STENO_OK;
}
