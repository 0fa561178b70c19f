/* Before: x -> A -> (no reader)      After: nothing
 * Works backwards, so that whole chains go. */
#include "nn/passes/passes.h"

static int uncount(struct steno_graph *body, void *arg)
{
    struct steno_graph *g = arg;
    for (int32_t i = 0; i < body->n_values; i++)
        if (body->values[i].captured_from != STENO_NONE && body->values[i].uses)
            g->values[body->values[i].captured_from].uses--;
    return 0;
}

static bool unread(const struct steno_graph *g, const struct steno_node *n)
{
    if (!n->n_out)
        return false; /* an unknown operator that works by side effects */
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] != STENO_NONE && g->values[n->out[k]].uses)
            return false;
    return true;
}

steno_status steno_pass_dead(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                             steno_err *err)
{
    (void)env;
    (void)err;
    for (int32_t i = g->n_nodes - 1; i >= 0; i--) { /* sorted: readers come later */
        struct steno_node *n = &g->nodes[i];
        if (n->dead || !unread(g, n))
            continue;
        n->dead = true;
        ++*changed;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] != STENO_NONE)
                g->values[n->in[k]].uses--;
        steno_node_each_graph(n, uncount, g);
        steno_graph_drop_bodies(n);
    }
    /* free the memory of constants without readers */
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->values[v].constant && !g->values[v].uses && *g->values[v].name)
            steno_graph_drop_const(g, v);
    return STENO_OK;
}
