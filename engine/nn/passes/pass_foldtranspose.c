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

static bool swaps_last(const struct steno_node *n, int rank)
{
    size_t count;
    const int64_t *perm = steno_node_ints(n, "perm", &count);
    if (!perm || (int)count != rank || rank < 2)
        return false;
    for (int i = 0; i < rank - 2; i++)
        if (perm[i] != i)
            return false;
    return perm[rank - 2] == rank - 1 && perm[rank - 1] == rank - 2;
}

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
    if (!swaps_last(f->transpose, x->rank) ||
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
    struct steno_tensor t = *g->values[w].constant;
    size_t row = (size_t)t.shape.dim[1] * steno_dtype_size(t.dtype);
    char *to = steno_aligned_alloc(f->a * f->b * row + 1);
    const char *from = steno_constant_bytes(g->values[w].constant);
    steno_status st = from ? STENO_OK : steno_graph_fetch(g, w, err); /* made on demand */
    if (!from && !st)
        from = steno_constant_bytes(g->values[w].constant);
    if (!from || !to) {
        steno_aligned_free(to);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for weights");
    }
    for (size_t i = 0; i < f->a; i++)
        for (size_t j = 0; j < f->b; j++)
            memcpy(to + (i * f->b + j) * row, from + (j * f->a + i) * row, row);
    steno_graph_unfetch(g, w);
    t.data = to;
    st = steno_graph_take_const(g, g->values[w].name, &t, out, err);
    if (st)
        steno_aligned_free(to);
    return st;
}

steno_status steno_pass_foldtranspose(struct steno_graph *g, const struct steno_pass_env *env,
                                      int *changed, steno_err *err)
{
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct steno_node *n = &g->nodes[i];
        struct found f;
        steno_status st;
        steno_value_id w;
        if (n->dead || strcmp(n->domain, "ai.steno") || strcmp(n->op_type, "Linear") ||
            !match_foldtranspose(g, n, &f))
            continue;
        st = transpose_weights(g, n->in[W], &f, &w, err);
        if (st)
            return st;
        n->in[W] = w;
        f.reshape->in[0] = f.transpose->in[0];
        f.transpose->dead = true;
        ++*changed;
    }
    return STENO_OK;
}
