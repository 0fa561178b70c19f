/* Before: c = Conv(x, W, b), y = Relu|Sigmoid|Tanh(c)
 * After:  y = com.microsoft:FusedConv(x, W, b; activation) */
#include "passes/passes.h"

#include <string.h>

steno_status steno_pass_convact(struct steno_graph *g, const struct steno_pass_env *env,
                                int *changed, steno_err *err)
{
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct steno_node *act = &g->nodes[i], *conv, *y;
        const char *name = act->name, *type = act->op_type;
        steno_vid out;
        int32_t at;
        if (act->dead || *act->domain ||
            (strcmp(type, "Relu") && strcmp(type, "Sigmoid") && strcmp(type, "Tanh")) ||
            !(conv = steno_pass_only_use(g, act->in[0], "Conv")) ||
            g->values[conv->in[0]].dtype != STENO_F32)
            continue;
        at = (int32_t)(conv - g->nodes);
        out = act->out[0];
        act->dead = conv->dead = true;
        y = steno_pass_add_node(g, "com.microsoft", "FusedConv", 1, name, conv->n_in, 1,
                                conv->n_attr + 1, err);
        if (!y)
            return STENO_ERR_NOMEM;
        conv = &g->nodes[at]; /* the array may have moved */
        for (int k = 0; k < conv->n_in; k++)
            y->in[k] = conv->in[k];
        for (int k = 0; k < conv->n_attr; k++)
            y->attr[k] = conv->attr[k];
        y->attr[conv->n_attr] =
            (struct steno_attr){.name = "activation", .kind = STENO_ATTR_STRING, .s = type};
        y->out[0] = out;
        ++*changed;
    }
    return STENO_OK;
}
