/* Before: s = Softmax(x; axis), y = Log(s)      After: y = LogSoftmax(x; axis)
 * s is read once. It is also more exact: no logarithm of a probability that was rounded to 0. */
#include "nn/passes/passes.h"

steno_status steno_pass_logsoftmax(struct steno_graph *g, const struct steno_pass_env *env,
                                   struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_node *soft;
    const struct steno_attr *axis;
    (void)env;
    if (!steno_pass_is(n, "Log") || !(soft = steno_pass_only_use(g, n->in[0], "Softmax")))
        return STENO_OK;
    axis = steno_node_attr(soft, "axis");
    n->dead = soft->dead = true;
    ++*changed;
    return steno_pass_put(g, n->name,
                          STENO_NODE("", "LogSoftmax", soft->opset, .in = STENO_VALUES(soft->in[0]),
                                     .out = STENO_VALUES(n->out[0]), .attr = {axis, axis != NULL}),
                          err);
}
