/* Before: Slice(x; starts, ends, axes as attributes), before opset 10
 * After:  Slice(x, starts, ends, axes) with constants (opset 13), which other passes know. */
#include "passes/passes.h"

#include <string.h>

static steno_status vector(struct steno_graph *g, const int64_t *v, size_t n, steno_vid *out,
                           steno_err *err)
{
    struct steno_tensor t = {
        .dtype = STENO_I64, .shape = {.rank = 1, .dim = {(int64_t)n}}, .data = (void *)(uintptr_t)v};
    return steno_graph_add_const(g, "slice", &t, false, out, err);
}

/* Attributes of an old Slice; false when they do not fit together (the run says so). */
static bool read_attrs(const struct steno_node *n, const int64_t *v[3], size_t *count)
{
    size_t ends = 0, axes = 0;
    v[0] = steno_node_ints(n, "starts", count);
    v[1] = steno_node_ints(n, "ends", &ends);
    v[2] = steno_node_ints(n, "axes", &axes);
    return v[0] && v[1] && *count == ends && (!v[2] || axes == ends) && ends > 0;
}

steno_status steno_pass_modern(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                               steno_err *err)
{
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct steno_node *n = &g->nodes[i], *y;
        const int64_t *v[3];
        const char *name = n->name;
        steno_vid in[3] = {STENO_NONE, STENO_NONE, STENO_NONE}, x, out;
        size_t axes;
        if (n->dead || !steno_pass_is(n, "Slice") || n->opset >= 10 || !read_attrs(n, v, &axes))
            continue;
        x = n->in[0];
        out = n->out[0];
        for (int k = 0; k < 3; k++)
            if (v[k] && vector(g, v[k], axes, &in[k], err))
                return STENO_ERR_NOMEM;
        g->nodes[i].dead = true;
        y = steno_pass_add_node(g, "", "Slice", 13, name, 4, 1, 0, err);
        if (!y)
            return STENO_ERR_NOMEM;
        y->in[0] = x;
        memcpy(y->in + 1, in, sizeof in);
        y->out[0] = out;
        ++*changed;
    }
    return STENO_OK;
}
