/* Before: a = Where(mask, fill, x), b = Softmax(a, last axis), y = Where(mask, 0, b)
 * After:  y = ai.steno:MaskedSoftmax(x, mask; fill)      (nn/ops/op_fused_attention.c)
 * Attention of ESPnet and WeNet exports: three passes over the scores become one. */
#include "nn/passes/passes.h"

static bool last_axis(const struct steno_graph *g, const struct steno_node *n)
{
    int rank = g->values[n->in[0]].shape.rank;
    int64_t axis = steno_node_int(n, "axis", n->opset >= 13 ? -1 : 1);
    return rank > 0 && (axis == -1 || axis == rank - 1);
}

static void near_miss(const struct steno_graph *g, const struct steno_pass_env *env,
                      const struct steno_node *last, const struct steno_node *first)
{
    double zero, fill;
    if (first->in[0] != last->in[0])
        steno_pass_refuse(env, "softmax", last, "the two masks are different values");
    else if (!steno_pass_scalar(g, last->in[1], &zero) ||
             !steno_pass_scalar(g, first->in[1], &fill))
        steno_pass_refuse(env, "softmax", last, "the fill for hidden keys is not constant");
    else if (zero != 0)
        steno_pass_refuse(env, "softmax", last, "hidden keys get the weight %g, not 0", zero);
    else
        steno_pass_refuse(env, "softmax", last, "types or ranks are not those of f32 scores");
}

steno_status steno_pass_softmax(struct steno_graph *g, const struct steno_pass_env *env,
                                struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_node *first, *soft;
    double zero, fill;
    if (!steno_pass_is(n, "Where") || !(soft = steno_pass_only_use(g, n->in[2], "Softmax")) ||
        !last_axis(g, soft) || !(first = steno_pass_only_use(g, soft->in[0], "Where")))
        return STENO_OK;
    if (first->in[0] != n->in[0] || !steno_pass_scalar(g, n->in[1], &zero) || zero != 0 ||
        !steno_pass_scalar(g, first->in[1], &fill) || g->values[first->in[2]].dtype != STENO_F32 ||
        g->values[first->in[2]].shape.rank < 1 || g->values[first->in[1]].shape.rank > 0 ||
        g->values[n->in[1]].shape.rank > 0) {
        near_miss(g, env, n, first);
        return STENO_OK;
    }
    n->dead = soft->dead = first->dead = true;
    ++*changed;
    return steno_pass_put(g, n->name,
                          STENO_NODE("ai.steno", "MaskedSoftmax", 1,
                                     .in = STENO_VALUES(first->in[2], first->in[0]),
                                     .out = STENO_VALUES(n->out[0]),
                                     .attr = STENO_ATTRS(STENO_FLOAT_ATTR("fill", (float)fill))),
                          err);
}
