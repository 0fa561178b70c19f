/* Before: a = Add(x, bias of the last axis, constant), y = Gelu(a), a read once
 * After:  y = com.microsoft:BiasGelu(x, bias), for the tanh form com.microsoft:FastGelu(x, bias)
 * For additions that pass linear, which runs before, did not put into a product. */
#include "nn/passes/passes.h"

#include <string.h>

steno_status steno_pass_biasgelu(struct steno_graph *g, const struct steno_pass_env *env,
                                 int *changed, steno_err *err)
{
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct steno_node *gelu = &g->nodes[i], *add, *y;
        const char *name = gelu->name;
        const struct steno_shape *s;
        steno_value_id x, bias, out;
        int32_t region;
        int side;
        bool tanh_form;
        if (gelu->dead || !steno_pass_is(gelu, "Gelu") ||
            !(add = steno_pass_only_use(g, gelu->in[0], "Add")))
            continue;
        out = gelu->out[0];
        s = &g->values[out].shape;
        if (s->rank < 1 || g->values[out].dtype != STENO_F32)
            continue;
        side = steno_pass_vector(g, add->in[1], s->dim[s->rank - 1]) != NULL;
        x = add->in[!side];
        bias = add->in[side];
        if (add->region != gelu->region || !steno_pass_vector(g, bias, s->dim[s->rank - 1]) ||
            !steno_pass_same_shape(g, x, out))
            continue;
        region = gelu->region;
        tanh_form = !strcmp(steno_node_str(gelu, "approximate", "none"), "tanh");
        gelu->dead = add->dead = true;
        y = steno_pass_add_node(g, "com.microsoft", tanh_form ? "FastGelu" : "BiasGelu", 1, name, 2,
                                1, 0, err);
        if (!y)
            return STENO_ERR_NOMEM;
        y->region = region;
        y->in[0] = x;
        y->in[1] = bias;
        y->out[0] = out;
        ++*changed;
    }
    return STENO_OK;
}
