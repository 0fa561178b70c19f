/* Before: s = Concat(Shape(x)...), y = Reshape(x, s)
 * After:  y = Reshape(x, constant)
 * The inferred shape of y says what s is: numbers, one unknown (-1), or dimensions that keep their
 * place in x (0). The arithmetic that computed s is dead then.
 * Before: t = Reshape|Squeeze|Unsqueeze|Flatten(x), y = one of them(t)
 * After:  y = Reshape(x, constant) */
#include "nn/passes/passes.h"

static bool is_view(const struct steno_node *n)
{
    return steno_pass_is_any(n, "Reshape Squeeze Unsqueeze Flatten");
}

/* Compute the constant target that reshapes `in` to `out` for all sizes: at most one -1, and no -1
 * beside a copied dimension, because that may be 0 and leave the -1 undefined. */
static bool target(const struct steno_shape *in, const struct steno_shape *out, int64_t *v)
{
    int symbols = 0;
    for (int i = 0; i < out->rank; i++) {
        if (out->dim[i] == 0)
            return false;
        symbols += out->dim[i] < 0;
    }
    for (int i = 0; i < out->rank; i++) {
        bool kept = in->rank > i && steno_same_dim(in->dim[i], out->dim[i]);
        if (out->dim[i] < 0 && symbols > 1 && !kept)
            return false;
        v[i] = out->dim[i] > 0 ? out->dim[i] : symbols > 1 ? 0 : -1;
    }
    return out->rank > 0;
}

/* True if a computed 0 in the target (a Concat with -1) would take an extent of `in` that is not 0:
 * then another element is 0, and the result has another shape than its dimensions say. */
static bool zero_copies(struct steno_graph *g, steno_value_id v, const struct steno_shape *in,
                        const struct steno_shape *out)
{
    const struct steno_node *n = steno_pass_producer(g, v);
    bool rest = false, copies = false;
    int64_t at = 0;
    for (int i = 0; steno_pass_is(n, "Concat") && i < n->n_in; i++) {
        const struct steno_value *x = &g->values[n->in[i]];
        const int64_t *c =
            x->constant && x->dtype == STENO_I64 ? (const int64_t *)x->constant->data : NULL;
        if (x->shape.rank != 1 || x->shape.dim[0] < 0)
            return false;
        for (int64_t k = 0; k < x->shape.dim[0]; k++, at++) {
            rest = rest || (c && c[k] == -1);
            copies = copies ||
                     (!c && at < in->rank && in->dim[at] > 0 && at < out->rank && out->dim[at] < 0);
        }
    }
    return rest && copies;
}

static steno_status rewrite(struct steno_graph *g, struct steno_node *n, steno_value_id from,
                            int *changed, steno_err *err)
{
    struct steno_pass_writer w = {g, n->name, err, STENO_OK};
    int64_t v[STENO_MAX_RANK] = {0};
    const struct steno_shape *in = &g->values[from].shape, *out = &g->values[n->out[0]].shape;
    steno_value_id to;
    if (in->rank < 0 || out->rank < 0 || !target(in, out, v))
        return STENO_OK;
    n->dead = true;
    ++*changed;
    to = steno_pass_new_ints(&w, "target", out->rank, v);
    steno_pass_write(&w, STENO_NODE("", "Reshape", 13, .in = STENO_VALUES(from, to),
                                    .out = STENO_VALUES(n->out[0])));
    return w.st;
}

steno_status steno_pass_reshape(struct steno_graph *g, const struct steno_pass_env *env,
                                struct steno_node *n, int *changed, steno_err *err)
{
    const struct steno_node *before;
    (void)env;
    if (!is_view(n) || n->n_in < 1 || n->in[0] == STENO_NONE || n->n_out != 1 ||
        n->out[0] == STENO_NONE)
        return STENO_OK;
    before = steno_pass_producer(g, n->in[0]);
    if (is_view(before))
        return rewrite(g, n, before->in[0], changed, err);
    if (steno_pass_is(n, "Reshape") && n->n_in == 2 && !g->values[n->in[1]].constant &&
        !zero_copies(g, n->in[1], &g->values[n->in[0]].shape, &g->values[n->out[0]].shape))
        return rewrite(g, n, n->in[0], changed, err);
    return STENO_OK;
}
