/* Before: s = Softmax(x; axis), y = Log(s)      After: y = LogSoftmax(x; axis)
 * s is read once. It is also more exact: no logarithm of a probability that was rounded to 0. */
#include "nn/passes/passes.h"

steno_status steno_pass_logsoftmax(struct steno_graph *g, const struct steno_pass_env *env,
                                   int *changed, steno_err *err)
{
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct steno_node *log = &g->nodes[i], *soft, *y;
        const char *name = log->name;
        const struct steno_attr *axis;
        steno_value_id x, out;
        int opset;
        if (log->dead || !steno_pass_is(log, "Log") ||
            !(soft = steno_pass_only_use(g, log->in[0], "Softmax")))
            continue;
        x = soft->in[0];
        out = log->out[0];
        opset = soft->opset;
        axis = steno_node_attr(soft, "axis");
        log->dead = soft->dead = true;
        y = steno_pass_add_node(g, "", "LogSoftmax", opset, name, 1, 1, axis != NULL, err);
        if (!y)
            return STENO_ERR_NOMEM;
        if (axis)
            y->attr[0] = *axis;
        y->in[0] = x;
        y->out[0] = out;
        ++*changed;
    }
    return STENO_OK;
}
