/* Before: a = Where(mask, fill, x), b = Softmax(a, last axis), y = Where(mask, 0, b)
 * After:  y = ai.steno:MaskedSoftmax(x, mask; fill)      (nn/ops/op_fused_attention.c)
 * Attention of ESPnet and WeNet exports: three passes over the scores become one. */
#include "nn/passes/passes.h"

#include <string.h>

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
                                int *changed, steno_err *err)
{
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct steno_node *last = &g->nodes[i], *first, *soft, *y;
        const char *name = last->name;
        steno_value_id x, mask, out;
        double zero, fill;
        if (last->dead || *last->domain || strcmp(last->op_type, "Where") ||
            !(soft = steno_pass_only_use(g, last->in[2], "Softmax")) || !last_axis(g, soft) ||
            !(first = steno_pass_only_use(g, soft->in[0], "Where")))
            continue;
        if (first->in[0] != last->in[0] || !steno_pass_scalar(g, last->in[1], &zero) || zero != 0 ||
            !steno_pass_scalar(g, first->in[1], &fill)) {
            near_miss(g, env, last, first);
            continue;
        }
        x = first->in[2];
        mask = first->in[0];
        out = last->out[0];
        if (g->values[x].dtype != STENO_F32 || g->values[x].shape.rank < 1 ||
            g->values[first->in[1]].shape.rank > 0 || g->values[last->in[1]].shape.rank > 0) {
            near_miss(g, env, last, first);
            continue;
        }
        last->dead = soft->dead = first->dead = true;
        y = steno_pass_add_node(g, "ai.steno", "MaskedSoftmax", 1, name, 2, 1, 1, err);
        if (!y)
            return STENO_ERR_NOMEM;
        steno_pass_set_float(g, y, 0, "fill", (float)fill);
        y->in[0] = x;
        y->in[1] = mask;
        y->out[0] = out;
        ++*changed;
    }
    return STENO_OK;
}
