/* Before: a, b = Split(x) in two equal parts of the last axis, y = Mul(a, Sigmoid(b))
 * After:  y = ai.steno:Glu(x)      (ops/op_fused.c) */
#include "passes/passes.h"

#include <string.h>

/* Two outputs of the same known last dimension, split along the last axis. */
static bool halves(const struct steno_graph *g, const struct steno_node *s)
{
    const struct steno_shape *x = &g->values[s->in[0]].shape, *a, *b;
    int64_t axis = steno_node_int(s, "axis", 0);
    if (s->n_out != 2 || s->out[0] == STENO_NONE || s->out[1] == STENO_NONE || x->rank < 1 ||
        (axis != -1 && axis != x->rank - 1) || g->values[s->in[0]].dtype != STENO_F32)
        return false;
    a = &g->values[s->out[0]].shape;
    b = &g->values[s->out[1]].shape;
    return a->rank == x->rank && b->rank == x->rank && a->dim[a->rank - 1] > 0 &&
           a->dim[a->rank - 1] == b->dim[b->rank - 1] &&
           x->dim[x->rank - 1] == 2 * a->dim[a->rank - 1];
}

static struct steno_node *match(struct steno_graph *g, const struct steno_node *mul)
{
    for (int k = 0; k < 2; k++) {
        struct steno_node *sig = steno_pass_only_use(g, mul->in[k], "Sigmoid");
        struct steno_node *split = sig ? steno_pass_only_use(g, sig->in[0], "Split") : NULL;
        if (!split || split != steno_pass_only_use(g, mul->in[1 - k], "Split") ||
            !halves(g, split) || sig->in[0] != split->out[1] || mul->in[1 - k] != split->out[0])
            continue;
        sig->dead = true;
        return split;
    }
    return NULL;
}

steno_status steno_pass_glu(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                            steno_err *err)
{
    (void)env;
    for (int32_t i = 0, n = g->n_nodes; i < n; i++) {
        struct steno_node *mul = &g->nodes[i], *split, *y;
        steno_vid x, out;
        if (mul->dead || *mul->domain || strcmp(mul->op_type, "Mul") || mul->n_in != 2 ||
            !(split = match(g, mul)))
            continue;
        x = split->in[0];
        out = mul->out[0];
        mul->dead = split->dead = true;
        y = steno_pass_add_node(g, "ai.steno", "Glu", 1, mul->name, 1, 1, 0, err);
        if (!y)
            return STENO_ERR_NOMEM;
        y->in[0] = x;
        y->out[0] = out;
        ++*changed;
    }
    return STENO_OK;
}
