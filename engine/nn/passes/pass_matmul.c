/* Before: t = Transpose(b; the last two axes), p = MatMul(a, t), y = p * c or p / c with a number
 *         c; t and p read once; each part alone as well; a transposed in the same way
 * After:  y = com.microsoft:FusedMatMul(a, b; transA, transB, alpha)
 * A graph that is written in an opset before 12 stays as it is: its operators cannot express the
 * transposition of the last two axes for any rank.
 * Runs after the passes for attention and for products by constants, on what they left. */
#include "nn/passes/passes.h"

#include <math.h>

static bool swaps_last_two(const struct steno_node *t)
{
    size_t n;
    const int64_t *p = steno_node_ints(t, "perm", &n);
    if (!p || n < 2 || p[n - 1] != (int64_t)n - 2 || p[n - 2] != (int64_t)n - 1)
        return false;
    for (size_t i = 0; i + 2 < n; i++)
        if (p[i] != (int64_t)i)
            return false;
    return true;
}

struct found {
    struct steno_node *product, *transposed[2], *scale;
    steno_value_id in[2], out;
    float alpha;
};

static bool match_matmul(struct steno_graph *g, struct steno_node *n, struct found *f)
{
    struct steno_node *r;
    double c;
    if (!steno_pass_is(n, "MatMul") || g->values[n->out[0]].dtype != STENO_F32)
        return false;
    f->product = n;
    f->out = n->out[0];
    f->alpha = 1;
    for (int k = 0; k < 2; k++) {
        struct steno_node *t = steno_pass_only_use(g, n->in[k], "Transpose");
        f->transposed[k] = t && t->region == n->region && swaps_last_two(t) ? t : NULL;
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
                               int *changed, steno_err *err)
{
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct found f = {0};
        struct steno_node *y;
        const char *name = g->nodes[i].name;
        int32_t region = g->nodes[i].region;
        int opset = env->opset ? env->opset : g->nodes[i].opset;
        if (g->nodes[i].dead || !match_matmul(g, &g->nodes[i], &f) || (!env->to_run && opset < 12))
            continue;
        f.product->dead = true;
        for (int k = 0; k < 2; k++)
            if (f.transposed[k])
                f.transposed[k]->dead = true;
        if (f.scale)
            f.scale->dead = true;
        y = steno_pass_add_node(g, "com.microsoft", "FusedMatMul", 1, name, 2, 1, 3, err);
        if (!y)
            return STENO_ERR_NOMEM;
        y->region = region;
        steno_pass_set_int(g, y, 0, "transA", f.transposed[0] != NULL);
        steno_pass_set_int(g, y, 1, "transB", f.transposed[1] != NULL);
        steno_pass_set_float(g, y, 2, "alpha", f.alpha);
        y->in[0] = f.in[0];
        y->in[1] = f.in[1];
        y->out[0] = f.out;
        ++*changed;
    }
    return STENO_OK;
}
