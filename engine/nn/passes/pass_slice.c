/* Before: a = Slice(x; axis), y = Slice(a; another axis), a read once
 * After:  y = Slice(x; both axes): one copy instead of two
 * Starts, ends, axes and steps are constant inputs (opset 10 and later). */
#include "nn/passes/passes.h"

struct cut {
    int64_t start[STENO_MAX_RANK], end[STENO_MAX_RANK], axis[STENO_MAX_RANK], step[STENO_MAX_RANK];
    int n;
};

static const int64_t *vector(const struct steno_graph *g, const struct steno_node *n, int in,
                             size_t *count)
{
    const struct steno_tensor *t = steno_pass_const(g, n, in);
    *count = 0;
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
    if (steno_node_in(n, 3) != STENO_NONE && (!axis || k != count))
        return false;
    step = vector(g, n, 4, &k);
    if (steno_node_in(n, 4) != STENO_NONE && (!step || k != count))
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

steno_status steno_pass_slice(struct steno_graph *g, const struct steno_pass_env *env,
                              struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_pass_writer w = {g, n->name, err, STENO_OK};
    struct steno_node *before;
    struct cut c = {.n = 0};
    const int64_t *v[4] = {c.start, c.end, c.axis, c.step};
    (void)env;
    if (!steno_pass_is(n, "Slice") || !(before = steno_pass_only_use(g, n->in[0], "Slice")) ||
        !read_cut(g, before, &c) || !read_cut(g, n, &c))
        return STENO_OK;
    before->dead = n->dead = true;
    ++*changed;
    steno_pass_write_slice(&w, before->in[0], v, c.n, n->out[0]);
    return w.st;
}
