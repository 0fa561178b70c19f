/* Before: a, b = Split(x) in two equal parts of the last axis, y = Mul(a, Sigmoid(b))
 * After:  y = ai.steno:Glu(x)      (ops/op_fused.c)
 * Before: the same along axis 1 of Transpose(x; 0,2,1)
 * After:  y = Transpose(ai.steno:Glu(x); 0,2,1) */
#include "passes/passes.h"

#include <string.h>

/* Two outputs of the same known dimension `at`, split along that axis. */
static bool halves(const struct steno_graph *g, const struct steno_node *s, int at)
{
    const struct steno_shape *x = &g->values[s->in[0]].shape, *a, *b;
    int64_t axis = steno_node_int(s, "axis", 0);
    at = at < 0 ? at + x->rank : at;
    if (s->n_out != 2 || s->out[0] == STENO_NONE || s->out[1] == STENO_NONE ||
        at < 0 || x->rank <= at || (axis != at - x->rank && axis != at) || g->values[s->in[0]].dtype != STENO_F32)
        return false;
    a = &g->values[s->out[0]].shape;
    b = &g->values[s->out[1]].shape;
    return a->rank == x->rank && b->rank == x->rank && a->dim[at] > 0 &&
           a->dim[at] == b->dim[at] && x->dim[at] == 2 * a->dim[at];
}

static struct steno_node *match(struct steno_graph *g, const struct steno_node *mul)
{
    for (int k = 0; k < 2; k++) {
        struct steno_node *sig = steno_pass_only_use(g, mul->in[k], "Sigmoid");
        struct steno_node *split = sig ? steno_pass_only_use(g, sig->in[0], "Split") : NULL;
        if (!split || split != steno_pass_only_use(g, mul->in[1 - k], "Split") ||
            !(halves(g, split, -1) ||
              (steno_pass_swapped(g, split->in[0]) && halves(g, split, 1))) ||
            sig->in[0] != split->out[1] || mul->in[1 - k] != split->out[0])
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
        struct steno_node *mul = &g->nodes[i], *split, *y, *swap = NULL;
        steno_status st = STENO_OK;
        steno_vid x, out;
        if (mul->dead || *mul->domain || strcmp(mul->op_type, "Mul") || mul->n_in != 2 ||
            !(split = match(g, mul)))
            continue;
        x = split->in[0];
        out = mul->out[0];
        if (!halves(g, split, -1))
            swap = steno_pass_swapped(g, x);
        mul->dead = split->dead = true;
        if (swap) {
            x = swap->in[0];
            st = steno_graph_add_value(g, mul->name, &out, err);
            if (!st)
                st = steno_pass_swap_after(g, out, g->nodes[i].out[0], g->nodes[i].name, err);
        }
        if (st)
            return st;
        y = steno_pass_add_node(g, "ai.steno", "Glu", 1, g->nodes[i].name, 1, 1, 0, err);
        if (!y)
            return STENO_ERR_NOMEM;
        y->in[0] = x;
        y->out[0] = out;
        ++*changed;
    }
    return STENO_OK;
}
