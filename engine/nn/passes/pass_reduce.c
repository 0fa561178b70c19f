/* Before: r = Reduce...(x; axes, keepdims 0), y = Unsqueeze(r; the same axes)
 * After:  y = Reduce...(x; axes, keepdims 1)
 * The axes come as attributes or as constant inputs, and r is read once. */
#include "nn/passes/passes.h"

#include <string.h>

/* Bit set of the axes of a tensor of `rank`, from input 1 or attribute "axes"; 0: not known. */
static unsigned axes_of(const struct steno_graph *g, const struct steno_node *n, int rank)
{
    const struct steno_tensor *t =
        n->n_in > 1 && n->in[1] != STENO_NONE ? g->values[n->in[1]].constant : NULL;
    size_t count;
    const int64_t *v = steno_node_ints(n, "axes", &count);
    unsigned set = 0;
    if (t && t->data && t->dtype == STENO_I64) {
        v = t->data;
        count = steno_numel(t);
    }
    for (size_t i = 0; v && i < count; i++) {
        int64_t a = v[i] < 0 ? v[i] + rank : v[i];
        if (a < 0 || a >= rank || set & 1u << a)
            return 0;
        set |= 1u << a;
    }
    return set;
}

static bool is_reduce(const struct steno_node *n)
{
    return n && !*n->domain && !strncmp(n->op_type, "Reduce", 6) &&
           steno_node_int(n, "keepdims", 1) == 0 && !steno_node_int(n, "noop_with_empty_axes", 0);
}

/* Copy the attributes, which other nodes may share, with keepdims 1. */
static steno_status keep_dims(struct steno_graph *g, struct steno_node *n, steno_err *err)
{
    struct steno_attr *a = steno_graph_alloc(g, (size_t)n->n_attr, sizeof *a, err);
    if (!a)
        return STENO_ERR_NOMEM;
    for (int i = 0; i < n->n_attr; i++) {
        a[i] = n->attr[i];
        if (!strcmp(a[i].name, "keepdims"))
            a[i].i = 1;
    }
    n->attr = a;
    return STENO_OK;
}

steno_status steno_pass_reduce(struct steno_graph *g, const struct steno_pass_env *env,
                               int *changed, steno_err *err)
{
    (void)env;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        struct steno_node *n = &g->nodes[i], *r;
        unsigned set;
        int rank;
        if (n->dead || !steno_pass_is(n, "Unsqueeze") || n->in[0] == STENO_NONE ||
            g->values[n->in[0]].uses != 1 || g->values[n->in[0]].is_output ||
            !is_reduce(r = steno_pass_producer(g, n->in[0])) || r->in[0] == STENO_NONE)
            continue;
        rank = g->values[r->in[0]].shape.rank;
        set = rank < 1 ? 0 : axes_of(g, r, rank);
        if (!set || set != axes_of(g, n, rank))
            continue;
        if (keep_dims(g, r, err))
            return STENO_ERR_NOMEM;
        r->out[0] = n->out[0];
        n->dead = true;
        ++*changed;
    }
    return STENO_OK;
}
