/* Before: t = Transpose(x; the last two axes [a, b] swapped), r = Reshape(t, [..., b a]),
 *         y = Linear(r, W)
 * After:  r = Reshape(x, [..., a b]), y = Linear(r, W'), W' the same rows in the order of x
 * Found after channels-last convolutions. A row of the product holds all channels and frequencies
 * of a frame; the rows of the weights can take their order. */
#include "nn/passes/passes.h"

#include <string.h>

enum { X, W };

struct found {
    struct steno_node *transpose, *reshape;
    size_t a, b; /* the last two extents of x */
};

static bool match_foldtranspose(struct steno_graph *g, const struct steno_node *n, struct found *f)
{
    const struct steno_tensor *w = g->values[n->in[W]].constant;
    const struct steno_shape *x;
    int64_t k;
    f->reshape = steno_pass_only_use(g, n->in[X], "Reshape");
    f->transpose = f->reshape ? steno_pass_only_use(g, f->reshape->in[0], "Transpose") : NULL;
    if (!f->transpose || !w || !w->data || w->shape.rank != 2)
        return false;
    x = &g->values[f->transpose->in[0]].shape;
    /* the target must not copy one of the two axes */
    if (!steno_pass_swaps_last_two(f->transpose, x->rank) ||
        g->values[f->reshape->out[0]].shape.rank > x->rank - 1 || x->dim[x->rank - 1] <= 1 ||
        x->dim[x->rank - 2] <= 1 || g->values[n->in[W]].uses != 1)
        return false;
    f->a = (size_t)x->dim[x->rank - 2];
    f->b = (size_t)x->dim[x->rank - 1];
    return !__builtin_mul_overflow(x->dim[x->rank - 2], x->dim[x->rank - 1], &k) &&
           w->shape.dim[0] == k;
}

/* Row (j, i) of W [b a, N] to row (i, j). */
static steno_status transpose_weights(struct steno_graph *g, steno_value_id w,
                                      const struct found *f, steno_value_id *out, steno_err *err)
{
    const struct steno_tensor *t = g->values[w].constant;
    const size_t row = (size_t)t->shape.dim[1] * steno_dtype_size(t->dtype);
    const char *from = steno_constant_bytes(t);
    steno_status st = from ? STENO_OK : steno_graph_fetch(g, w, err); /* made on demand */
    char *to =
        st ? NULL : steno_graph_new_const(g, g->values[w].name, t->dtype, &t->shape, out, err);
    from = steno_constant_bytes(t);
    for (size_t i = 0; to && from && i < f->a; i++)
        for (size_t j = 0; j < f->b; j++)
            memcpy(to + (i * f->b + j) * row, from + (j * f->a + i) * row, row);
    steno_graph_unfetch(g, w);
    return to && from ? STENO_OK : STENO_ERR_NOMEM;
}

steno_status steno_pass_foldtranspose(struct steno_graph *g, const struct steno_pass_env *env,
                                      struct steno_node *n, int *changed, steno_err *err)
{
    struct found f;
    steno_value_id w;
    steno_status st;
    (void)env;
    if (!steno_pass_is_ours(n, "Linear") || !match_foldtranspose(g, n, &f))
        return STENO_OK;
    st = transpose_weights(g, n->in[W], &f, &w, err);
    if (st)
        return st;
    n->in[W] = w;
    f.reshape->in[0] = f.transpose->in[0];
    f.transpose->dead = true;
    ++*changed;
    return STENO_OK;
}
