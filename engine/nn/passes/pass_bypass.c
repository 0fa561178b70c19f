/* Before: y = Add(a, Mul(Sub(b, a), scale [C] or a number))
 * After:  y = ai.steno:Bypass(a, b, scale)      (nn/ops/op_fused_zipformer.c)
 * The bypass of a Zipformer layer (Yao et al. 2024, section 3.2). */
#include "nn/passes/passes.h"

/* True for a constant of one element or of the last extent, of rank 1 at most. */
static bool is_scale(const struct steno_graph *g, steno_value_id v, const struct steno_shape *s)
{
    const struct steno_tensor *t = g->values[v].constant;
    double c;
    if (!t || !t->data || t->dtype != STENO_F32 || s->rank < 1 || t->shape.rank > 1)
        return false;
    return (steno_pass_scalar(g, v, &c) && steno_numel(t) == 1) ||
           steno_pass_vector(g, v, s->dim[s->rank - 1]);
}

/* Return Sub(b, a) if `way` is its product with a scale; a: the other summand. */
static struct steno_node *match_bypass(struct steno_graph *g, steno_value_id a, steno_value_id way,
                                       struct steno_node **mul, steno_value_id *scale)
{
    struct steno_node *sub = NULL;
    *mul = steno_pass_only_use(g, way, "Mul");
    for (int side = 0; *mul && (*mul)->n_in == 2 && side < 2; side++) {
        sub = steno_pass_only_use(g, (*mul)->in[side], "Sub");
        *scale = (*mul)->in[1 - side];
        if (sub && sub->in[1] == a && is_scale(g, *scale, &g->values[a].shape))
            break;
        sub = NULL;
    }
    return sub && g->values[a].dtype == STENO_F32 && steno_pass_same_shape(g, a, sub->in[0]) ? sub
                                                                                             : NULL;
}

steno_status steno_pass_bypass(struct steno_graph *g, const struct steno_pass_env *env,
                               struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_node *mul = NULL, *sub = NULL;
    steno_value_id a = STENO_NONE, scale = STENO_NONE;
    (void)env;
    if (!steno_pass_is(n, "Add") || n->n_in != 2)
        return STENO_OK;
    for (int side = 0; side < 2 && !sub; side++) {
        a = n->in[side];
        sub = match_bypass(g, a, n->in[1 - side], &mul, &scale);
    }
    if (!sub)
        return STENO_OK;
    n->dead = mul->dead = sub->dead = true;
    ++*changed;
    return steno_pass_put(g, n->name,
                          STENO_NODE("ai.steno", "Bypass", 1,
                                     .in = STENO_VALUES(a, sub->in[0], scale),
                                     .out = STENO_VALUES(n->out[0])),
                          err);
}
