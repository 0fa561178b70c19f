/* Before: s = Sigmoid(x), y = Mul(x, s)      After: y = Swish(x) (opset 24, alpha 1). */
#include "passes/passes.h"

#include <string.h>

steno_status steno_pass_swish(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                              steno_err *err)
{
    (void)env;
    if (!steno_op_find("", "Swish", 24))
        return STENO_OK;
    for (int32_t i = 0, n = g->n_nodes; i < n; i++) {
        struct steno_node *mul = &g->nodes[i], *sig = NULL, *y;
        steno_vid x, out;
        if (mul->dead || *mul->domain || strcmp(mul->op_type, "Mul") || mul->n_in != 2)
            continue;
        for (int k = 0; k < 2 && !sig; k++) {
            sig = steno_pass_only_use(g, mul->in[k], "Sigmoid");
            if (sig && sig->in[0] != mul->in[1 - k])
                sig = NULL;
        }
        if (!sig || g->values[sig->in[0]].dtype != STENO_F32)
            continue;
        x = sig->in[0];
        out = mul->out[0];
        mul->dead = sig->dead = true;
        y = steno_pass_add_node(g, "", "Swish", 24, mul->name, 1, 1, 0, err);
        if (!y)
            return STENO_ERR_NOMEM;
        y->in[0] = x;
        y->out[0] = out;
        ++*changed;
    }
    return STENO_OK;
}
