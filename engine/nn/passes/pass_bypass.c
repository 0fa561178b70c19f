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
                               int *changed, steno_err *err)
{
    (void)env;
    for (int32_t i = 0, n = g->n_nodes; i < n; i++) {
        struct steno_node *add = &g->nodes[i], *mul = NULL, *sub = NULL, *y;
        const char *name = add->name;
        steno_value_id a = STENO_NONE, b, scale = STENO_NONE, out;
        if (add->dead || !steno_pass_is(add, "Add") || add->n_in != 2)
            continue;
        for (int side = 0; side < 2 && !sub; side++) {
            a = add->in[side];
            sub = match_bypass(g, a, add->in[1 - side], &mul, &scale);
        }
        if (!sub)
            continue;
        b = sub->in[0];
        out = add->out[0];
        add->dead = mul->dead = sub->dead = true;
        y = steno_pass_add_node(g, "ai.steno", "Bypass", 1, name, 3, 1, 0, err);
        if (!y)
            return STENO_ERR_NOMEM;
        y->in[0] = a;
        y->in[1] = b;
        y->in[2] = scale;
        y->out[0] = out;
        ++*changed;
    }
    return STENO_OK;
}
