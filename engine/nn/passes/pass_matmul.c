/* Before: t = Transpose(b; the last two axes), p = MatMul(a, t), y = p * c or p / c with a number
 *         c; t and p read once; each part alone as well; a transposed in the same way
 * After:  y = com.microsoft:FusedMatMul(a, b; transA, transB, alpha)
 * A graph that is written in an opset before 12 stays as it is: its operators cannot express the
 * transposition of the last two axes for any rank.
 * Runs after the passes for attention and for products by constants, on what they left. */
#include "nn/passes/passes.h"

#include <math.h>

struct found {
    struct steno_node *transposed[2], *scale;
    steno_value_id in[2], out;
    float alpha;
};

static bool match_matmul(struct steno_graph *g, struct steno_node *n, struct found *f)
{
    struct steno_node *r;
    double c;
    if (!steno_pass_is(n, "MatMul") || g->values[n->out[0]].dtype != STENO_F32)
        return false;
    f->out = n->out[0];
    f->alpha = 1;
    for (int k = 0; k < 2; k++) {
        struct steno_node *t = steno_pass_only_use(g, n->in[k], "Transpose");
        f->transposed[k] = t && t->region == n->region &&
                                   steno_pass_swaps_last_two(t, g->values[n->in[k]].shape.rank)
                               ? t
                               : NULL;
        f->in[k] = f->transposed[k] ? t->in[0] : n->in[k];
        if (g->values[f->in[k]].shape.rank < 2)
            return false;
    }
    r = steno_pass_only_reader(g, f->out);
    if ((steno_pass_is(r, "Mul") && steno_pass_scalar(g, r->in[r->in[0] == f->out], &c)) ||
        (steno_pass_is(r, "Div") && r->in[0] == f->out && steno_pass_scalar(g, r->in[1], &c) &&
         c != 0)) {
        float alpha = (float)(*r->op_type == 'M' ? c : 1 / c);
        if (r->region == n->region && steno_pass_same_shape(g, f->out, r->out[0]) &&
            isnormal(alpha)) { /* by 0, NaN and infinity of the product would be lost */
            f->scale = r;
            f->alpha = alpha;
            f->out = r->out[0];
        }
    }
    return f->scale || f->transposed[0] || f->transposed[1];
}

steno_status steno_pass_matmul(struct steno_graph *g, const struct steno_pass_env *env,
                               struct steno_node *n, int *changed, steno_err *err)
{
    struct found f = {0};
    const int opset = env->opset ? env->opset : n->opset;
    if (!match_matmul(g, n, &f) || (!env->to_run && opset < 12))
        return STENO_OK;
    n->dead = true;
    for (int k = 0; k < 2; k++)
        if (f.transposed[k])
            f.transposed[k]->dead = true;
    if (f.scale)
        f.scale->dead = true;
    ++*changed;
    return steno_pass_put(
        g, n->name,
        STENO_NODE("com.microsoft", "FusedMatMul", 1, .in = STENO_VALUES(f.in[0], f.in[1]),
                   .out = STENO_VALUES(f.out),
                   .attr = STENO_ATTRS(STENO_INT_ATTR("transA", f.transposed[0] != NULL),
                                       STENO_INT_ATTR("transB", f.transposed[1] != NULL),
                                       STENO_FLOAT_ATTR("alpha", f.alpha)),
                   .region_of = n),
        err);
}
