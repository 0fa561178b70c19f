/* Before: Slice(x; starts, ends, axes as attributes), before opset 10
 * After:  Slice(x, starts, ends, axes) with constants (opset 13), which other passes know. */
#include "nn/passes/passes.h"

/* Read the attributes of an old Slice; false if they do not match (execution reports the error). */
static bool read_attrs(const struct steno_node *n, const int64_t *v[4], size_t *count)
{
    size_t ends = 0, axes = 0;
    v[0] = steno_node_ints(n, "starts", count);
    v[1] = steno_node_ints(n, "ends", &ends);
    v[2] = steno_node_ints(n, "axes", &axes);
    v[3] = NULL;
    return v[0] && v[1] && *count == ends && (!v[2] || axes == ends) && ends > 0;
}

steno_status steno_pass_modern(struct steno_graph *g, const struct steno_pass_env *env,
                               struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_pass_writer w = {g, n->name, err, STENO_OK};
    const int64_t *v[4];
    size_t axes;
    (void)env;
    if (!steno_pass_is(n, "Slice") || n->opset >= 10 || !read_attrs(n, v, &axes))
        return STENO_OK;
    n->dead = true;
    ++*changed;
    steno_pass_write_slice(&w, n->in[0], v, (int)axes, n->out[0]);
    return w.st;
}
