/* Before: c = Concat(a, b), y = Concat(c, d) along the same axis, c read once
 * After:  y = Concat(a, b, d) */
#include "nn/passes/passes.h"

static int64_t axis_of(const struct steno_graph *g, const struct steno_node *n)
{
    int rank = g->values[n->out[0]].shape.rank;
    int64_t axis = steno_node_int(n, "axis", 0);
    return rank > 0 && axis < 0 ? axis + rank : axis;
}

steno_status steno_pass_concat(struct steno_graph *g, const struct steno_pass_env *env,
                               struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_node *inner = NULL;
    steno_value_id *in;
    int at = 0, count = 0;
    (void)env;
    if (!steno_pass_is(n, "Concat") || g->values[n->out[0]].shape.rank < 1)
        return STENO_OK;
    for (int k = 0; k < n->n_in && !inner; k++) {
        inner = steno_pass_only_use(g, n->in[k], "Concat");
        if (inner && (g->values[n->in[k]].shape.rank != g->values[n->out[0]].shape.rank ||
                      axis_of(g, inner) != axis_of(g, n)))
            inner = NULL;
        at = k;
    }
    if (!inner)
        return STENO_OK;
    in = steno_graph_alloc(g, (size_t)n->n_in + (size_t)inner->n_in, sizeof *in, err);
    if (!in)
        return STENO_ERR_NOMEM;
    for (int k = 0; k < n->n_in; k++) {
        if (k != at) {
            in[count++] = n->in[k];
            continue;
        }
        for (int j = 0; j < inner->n_in; j++)
            in[count++] = inner->in[j];
    }
    inner->dead = true;
    n->in = in;
    n->n_in = count;
    ++*changed;
    return STENO_OK;
}
