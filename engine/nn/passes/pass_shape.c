/* Before: Shape(x) -> Gather/Slice/Unsqueeze/Concat/Add/Mul... -> s      After: constant s
 * For s whose elements shape inference (nn/exec/partial.c) knows as numbers, although x has other
 * symbolic dimensions. Not in the bodies of loops, which may run with other shapes each time. */
#include "nn/passes/passes.h"

steno_status steno_pass_shape(struct steno_graph *g, const struct steno_pass_env *env,
                              struct steno_node *n, int *changed, steno_err *err)
{
    const steno_value_id out = n->n_out == 1 ? n->out[0] : STENO_NONE;
    const struct steno_value *v = out == STENO_NONE ? NULL : &g->values[out];
    (void)env;
    if (!v || !v->inferred || v->constant || v->is_output)
        return STENO_OK;
    g->values[out].producer = STENO_NONE;
    n->dead = true;
    ++*changed;
    return steno_graph_set_const(g, out, v->inferred, false, err);
}
