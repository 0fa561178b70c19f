/* Before: a = Slice(x; axis), y = Slice(a; another axis), a read once
 * After:  y = Slice(x; both axes): one copy instead of two
 * Starts, ends, axes and steps are constant inputs (opset 10 and later). */
#include "nn/passes/passes.h"

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

steno_status steno_pass_add_slice(struct steno_graph *g, const char *name, steno_value_id x,
                                  const int64_t *const v[4], size_t n, steno_value_id out,
                                  steno_err *err)
{
    steno_value_id in[4] = {STENO_NONE, STENO_NONE, STENO_NONE, STENO_NONE};
    struct steno_node *y;
    for (int k = 0; k < 4; k++) {
        struct steno_tensor t = {.dtype = STENO_I64,
                                 .shape = {.rank = 1, .dim = {(int64_t)n}},
                                 .data = (void *)(uintptr_t)v[k]};
        if (v[k] && steno_graph_add_const(g, "slice", &t, false, &in[k], err))
            return STENO_ERR_NOMEM;
    }
    y = steno_pass_add_node(g, "", "Slice", 13, name, v[3] ? 5 : 4, 1, 0, err);
    if (!y)
        return STENO_ERR_NOMEM;
    y->in[0] = x;
    memcpy(y->in + 1, in, (size_t)(y->n_in - 1) * sizeof *in);
    y->out[0] = out;
    return STENO_OK;
}

steno_status steno_pass_slice(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                              steno_err *err)
{
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct steno_node *n = &g->nodes[i], *before;
        const char *name = n->name;
        struct cut c = {.n = 0};
        const int64_t *v[4] = {c.start, c.end, c.axis, c.step};
        if (n->dead || !steno_pass_is(n, "Slice") ||
            !(before = steno_pass_only_use(g, n->in[0], "Slice")) || !read_cut(g, before, &c) ||
            !read_cut(g, n, &c))
            continue;
        before->dead = n->dead = true;
        if (steno_pass_add_slice(g, name, before->in[0], v, (size_t)c.n, n->out[0], err))
            return STENO_ERR_NOMEM;
        ++*changed;
    }
    return STENO_OK;
}
