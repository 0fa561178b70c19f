/* Before: y = Einsum(a, b; "bij,bjk->bik") and the other forms of a matrix product
 * After:  y = MatMul(a, b), with a Transpose of the last two axes where the letters need one
 * Letters before the last two are batch axes, in the same order in all three. The inner letter must
 * have one extent: Einsum broadcasts an extent of 1, MatMul does not. */
#include "nn/passes/passes.h"

#include <string.h>

struct form {
    char a[STENO_MAX_RANK + 1], b[STENO_MAX_RANK + 1], y[STENO_MAX_RANK + 1];
    int rank;
    bool transpose_a, transpose_b;
};

/* Read letters up to `end`; false for too many letters, ellipses and repetitions. */
static bool letters(const char **p, const char *end, char *out)
{
    int n = 0;
    for (; *p < end; ++*p) {
        if (**p == ' ')
            continue;
        if (n == STENO_MAX_RANK || **p < 'A' || memchr(out, **p, (size_t)n))
            return false;
        out[n++] = **p;
    }
    out[n] = '\0';
    return true;
}

static bool parse(const char *equation, struct form *f)
{
    const char *p = equation, *comma = strchr(p, ','), *arrow = strstr(p, "->");
    if (!comma || !arrow || comma > arrow || !letters(&p, comma, f->a))
        return false;
    p = comma + 1;
    if (!letters(&p, arrow, f->b))
        return false;
    p = arrow + 2;
    if (!letters(&p, p + strlen(p), f->y))
        return false;
    f->rank = (int)strlen(f->y);
    return f->rank >= 2 && (int)strlen(f->a) == f->rank && (int)strlen(f->b) == f->rank &&
           !memcmp(f->a, f->y, (size_t)f->rank - 2) && !memcmp(f->b, f->y, (size_t)f->rank - 2);
}

/* True if a has rows i, b has columns j, and both have the inner letter k. */
static bool product(struct form *f)
{
    const char *a = f->a + f->rank - 2, *b = f->b + f->rank - 2, *y = f->y + f->rank - 2;
    for (int ta = 0; ta < 2; ta++)
        for (int tb = 0; tb < 2; tb++)
            if (a[ta] == y[0] && b[!tb] == y[1] && a[!ta] == b[tb] && y[0] != y[1] &&
                a[!ta] != y[0] && a[!ta] != y[1]) {
                f->transpose_a = ta;
                f->transpose_b = tb;
                return true;
            }
    return false;
}

static bool same_inner(const struct steno_graph *g, const struct steno_node *n,
                       const struct form *f)
{
    const struct steno_shape *a = &g->values[n->in[0]].shape, *b = &g->values[n->in[1]].shape;
    int64_t x = a->dim[f->rank - 1 - f->transpose_a], y = b->dim[f->rank - 2 + f->transpose_b];
    return x == y && x != STENO_DIM_ANY;
}

static steno_status transposed(struct steno_graph *g, steno_value_id v, int rank,
                               steno_value_id *out, steno_err *err)
{
    int64_t *perm = steno_graph_alloc(g, (size_t)rank, sizeof *perm, err);
    struct steno_node *t;
    if (!perm || steno_graph_add_value(g, "", out, err))
        return STENO_ERR_NOMEM;
    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    t = steno_pass_add_node(g, "", "Transpose", 13, "einsum", 1, 1, 1, err);
    if (!t)
        return STENO_ERR_NOMEM;
    t->attr[0] = (struct steno_attr){
        .name = "perm", .kind = STENO_ATTR_INTS, .n = (size_t)rank, .ints = perm};
    t->in[0] = v;
    t->out[0] = *out;
    return STENO_OK;
}

steno_status steno_pass_einsum(struct steno_graph *g, const struct steno_pass_env *env,
                               int *changed, steno_err *err)
{
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct steno_node *n = &g->nodes[i], *y;
        const char *name = n->name;
        struct form f = {.rank = 0};
        steno_value_id a, b, out;
        if (n->dead || !steno_pass_is(n, "Einsum") || n->n_in != 2 ||
            !parse(steno_node_str(n, "equation", ""), &f) || !product(&f) ||
            g->values[n->in[0]].shape.rank != f.rank || g->values[n->in[1]].shape.rank != f.rank ||
            g->values[n->in[0]].dtype != STENO_F32 || !same_inner(g, n, &f))
            continue;
        a = n->in[0];
        b = n->in[1];
        out = n->out[0];
        n->dead = true;
        if ((f.transpose_a && transposed(g, a, f.rank, &a, err)) ||
            (f.transpose_b && transposed(g, b, f.rank, &b, err)))
            return STENO_ERR_NOMEM;
        y = steno_pass_add_node(g, "", "MatMul", 13, name, 2, 1, 0, err);
        if (!y)
            return STENO_ERR_NOMEM;
        y->in[0] = a;
        y->in[1] = b;
        y->out[0] = out;
        ++*changed;
    }
    return STENO_OK;
}
