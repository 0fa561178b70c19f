/* Before: a = Add(x, bias of the last axis, constant), y = Gelu(a), a read once
 * After:  y = com.microsoft:BiasGelu(x, bias), for the tanh form com.microsoft:FastGelu(x, bias)
 * For additions that pass linear, which runs before, did not put into a product. */
#include "nn/passes/passes.h"

#include <string.h>

steno_status steno_pass_biasgelu(struct steno_graph *g, const struct steno_pass_env *env,
                                 struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_node *add;
    const struct steno_shape *s;
    int side;
    bool tanh_form;
    (void)env;
    if (!steno_pass_is(n, "Gelu") || !(add = steno_pass_only_use(g, n->in[0], "Add")))
        return STENO_OK;
    s = &g->values[n->out[0]].shape;
    if (s->rank < 1 || g->values[n->out[0]].dtype != STENO_F32)
        return STENO_OK;
    side = steno_pass_vector(g, add->in[1], s->dim[s->rank - 1]) != NULL;
    if (add->region != n->region || !steno_pass_vector(g, add->in[side], s->dim[s->rank - 1]) ||
        !steno_pass_same_shape(g, add->in[!side], n->out[0]))
        return STENO_OK;
    tanh_form = !strcmp(steno_node_str(n, "approximate", "none"), "tanh");
    n->dead = add->dead = true;
    ++*changed;
    return steno_pass_put(g, n->name,
                          STENO_NODE("com.microsoft", tanh_form ? "FastGelu" : "BiasGelu", 1,
                                     .in = STENO_VALUES(add->in[!side], add->in[side]),
                                     .out = STENO_VALUES(n->out[0]), .region_of = n),
                          err);
}
