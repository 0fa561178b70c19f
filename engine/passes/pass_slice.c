/* Before: a = Slice(x; axis), y = Slice(a; another axis), a read once
 * After:  y = Slice(x; both axes): one copy instead of two
 * Starts, ends, axes and steps are constant inputs (opset 10 and later). */
#include "passes/passes.h"

#include <string.h>

struct cut {
    int64_t start[STENO_MAX_RANK], end[STENO_MAX_RANK], axis[STENO_MAX_RANK], step[STENO_MAX_RANK];
    int n;
};

static const int64_t *vector(const struct steno_graph *g, const struct steno_node *n, int in,
                             size_t *count)
{
    const struct steno_tensor *t;
    *count = 0;
    if (in >= n->n_in || n->in[in] == STENO_NONE)
        return NULL;
    t = g->values[n->in[in]].constant;
    if (!t || !t->data || t->dtype != STENO_I64 || t->shape.rank != 1)
        return NULL;
    *count = steno_numel(t);
    return t->data;
}

static bool read_cut(const struct steno_graph *g, const struct steno_node *n, struct cut *c)
{
    int rank = g->values[n->in[0]].shape.rank;
    size_t count, k;
    const int64_t *start = vector(g, n, 1, &count), *end = vector(g, n, 2, &k), *axis, *step;
    if (n->opset < 10 || rank < 1 || !start || !end || k != count ||
        c->n + (int)count > STENO_MAX_RANK || count > STENO_MAX_RANK)
        return false;
    axis = vector(g, n, 3, &k);
    if (n->n_in > 3 && n->in[3] != STENO_NONE && (!axis || k != count))
        return false;
    step = vector(g, n, 4, &k);
    if (n->n_in > 4 && n->in[4] != STENO_NONE && (!step || k != count))
        return false;
    for (size_t i = 0; i < count; i++) {
        int64_t a = axis ? axis[i] : (int64_t)i;
        a = a < 0 ? a + rank : a;
        for (int j = 0; j < c->n; j++)
            if (c->axis[j] == a)
                return false;
        c->start[c->n] = start[i];
        c->end[c->n] = end[i];
        c->axis[c->n] = a;
        c->step[c->n++] = step ? step[i] : 1;
    }
    return true;
}

static steno_status constant(struct steno_graph *g, const int64_t *v, int n, steno_vid *out,
                             steno_err *err)
{
    int64_t copy[STENO_MAX_RANK];
    struct steno_tensor t = {.dtype = STENO_I64, .shape = {.rank = 1, .dim = {n}}, .data = copy};
    memcpy(copy, v, (size_t)n * sizeof *v);
    return steno_graph_add_const(g, "slice", &t, false, out, err);
}

steno_status steno_pass_slice(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                              steno_err *err)
{
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct steno_node *n = &g->nodes[i], *before, *y;
        const char *name = n->name;
        struct cut c = {.n = 0};
        steno_vid x, out, in[4];
        if (n->dead || !steno_pass_is(n, "Slice") ||
            !(before = steno_pass_only_use(g, n->in[0], "Slice")) || !read_cut(g, before, &c) ||
            !read_cut(g, n, &c))
            continue;
        x = before->in[0];
        out = n->out[0];
        if (constant(g, c.start, c.n, &in[0], err) || constant(g, c.end, c.n, &in[1], err) ||
            constant(g, c.axis, c.n, &in[2], err) || constant(g, c.step, c.n, &in[3], err))
            return STENO_ERR_NOMEM;
        before->dead = n->dead = true;
        y = steno_pass_add_node(g, "", "Slice", 13, name, 5, 1, 0, err);
        if (!y)
            return STENO_ERR_NOMEM;
        y->in[0] = x;
        memcpy(y->in + 1, in, sizeof in);
        y->out[0] = out;
        ++*changed;
    }
    return STENO_OK;
}
