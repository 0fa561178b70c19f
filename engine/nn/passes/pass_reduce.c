/* Before: r = Reduce...(x; axes, keepdims 0), y = Unsqueeze(r; the same axes)
 * After:  y = Reduce...(x; axes, keepdims 1)
 * The axes come as attributes or as constant inputs, and r is read once. */
#include "nn/passes/passes.h"

#include <string.h>

/* Bit set of the axes of a tensor of `rank`, from input 1 or attribute "axes"; 0: not known. */
static unsigned axes_of(const struct steno_graph *g, const struct steno_node *n, int rank)
{
    const struct steno_tensor *t = steno_pass_const(g, n, 1);
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

steno_status steno_pass_reduce(struct steno_graph *g, const struct steno_pass_env *env,
                               struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_node *r;
    unsigned set;
    int rank;
    (void)env;
    if (!steno_pass_is(n, "Unsqueeze") || n->in[0] == STENO_NONE ||
        !steno_pass_read_once(g, n->in[0]) || !is_reduce(r = steno_pass_producer(g, n->in[0])) ||
        r->in[0] == STENO_NONE)
        return STENO_OK;
    rank = g->values[r->in[0]].shape.rank;
    set = rank < 1 ? 0 : axes_of(g, r, rank);
    if (!set || set != axes_of(g, n, rank))
        return STENO_OK;
    r->out[0] = n->out[0];
    n->dead = true;
    ++*changed;
    return steno_pass_set_attr(g, r, &(struct steno_attr)STENO_INT_ATTR("keepdims", 1), err);
}
