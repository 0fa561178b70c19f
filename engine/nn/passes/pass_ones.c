/* Lengths that are counted instead of read from a shape, as in ESPnet's exports for a single
 * recording:
 * Before: y = Cast(ReduceSum(ConstantOfShape(s; 1.0), axis); i64), one element
 * After:  y = Gather(s, axis)
 * Before: ReduceMax or ReduceMin of the one element of a vector, keepdims 0
 * After:  Squeeze of it
 * So values that depend on them are known as soon as the shapes are. A count of ones in f32 stops
 * at 2^24; the dimension does not. */
#include "nn/passes/passes.h"

#include <string.h>

static bool one_element(const struct steno_graph *g, steno_value_id v)
{
    const struct steno_shape *s = &g->values[v].shape;
    return s->rank == 0 || (s->rank == 1 && s->dim[0] == 1);
}

/* Return the shape that v fills with 1.0, or NONE. */
static steno_value_id filled_shape(struct steno_graph *g, steno_value_id v)
{
    const struct steno_node *n = steno_pass_producer(g, v);
    return steno_pass_fills(n, STENO_F32, 1) ? n->in[0] : STENO_NONE;
}

/* The only axis of a reduction, counted from 0. */
static bool one_axis(const struct steno_graph *g, const struct steno_node *n, int64_t *axis)
{
    const int rank = g->values[n->in[0]].shape.rank;
    size_t count;
    const int64_t *v = steno_node_ints(n, "axes", &count);
    double from_input;
    if (n->n_in > 1 && n->in[1] != STENO_NONE) {
        const struct steno_tensor *t = g->values[n->in[1]].constant;
        if (!t || steno_numel(t) != 1 || !steno_pass_scalar(g, n->in[1], &from_input))
            return false;
        *axis = (int64_t)from_input;
    } else {
        if (!v || count != 1)
            return false;
        *axis = *v;
    }
    *axis += *axis < 0 ? rank : 0;
    return *axis >= 0 && *axis < rank;
}

/* Node `at`, a Cast. */
static steno_status counted(struct steno_graph *g, int32_t at, int *changed, steno_err *err)
{
    const struct steno_node n = g->nodes[at]; /* the array may move */
    const struct steno_node *sum = steno_pass_producer(g, n.in[0]);
    struct steno_tensor t = {.dtype = STENO_I64};
    struct steno_node *y;
    steno_value_id shape, where;
    int64_t axis;
    if (!sum || !steno_pass_is(sum, "ReduceSum") || !one_element(g, n.out[0]) ||
        (shape = filled_shape(g, sum->in[0])) == STENO_NONE || !one_axis(g, sum, &axis))
        return STENO_OK;
    t.shape = g->values[n.out[0]].shape;
    t.data = &axis;
    if (steno_graph_add_const(g, "axis", &t, false, &where, err) ||
        !(y = steno_pass_add_node(g, "", "Gather", 13, n.name, 2, 1, 1, err)))
        return STENO_ERR_NOMEM;
    steno_pass_set_int(g, y, 0, "axis", 0);
    y->in[0] = shape;
    y->in[1] = where;
    y->out[0] = n.out[0];
    g->nodes[at].dead = true;
    ++*changed;
    return STENO_OK;
}

/* Node `at`, a ReduceMax or ReduceMin. */
static steno_status of_one(struct steno_graph *g, int32_t at, int *changed, steno_err *err)
{
    const struct steno_node n = g->nodes[at];
    const struct steno_shape *x = &g->values[n.in[0]].shape;
    struct steno_node *y;
    if (x->rank != 1 || x->dim[0] != 1 || g->values[n.out[0]].shape.rank != 0)
        return STENO_OK;
    y = steno_pass_add_node(g, "", "Squeeze", 13, n.name, 1, 1, 0, err);
    if (!y)
        return STENO_ERR_NOMEM;
    y->in[0] = n.in[0];
    y->out[0] = n.out[0];
    g->nodes[at].dead = true;
    ++*changed;
    return STENO_OK;
}

steno_status steno_pass_ones(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                             steno_err *err)
{
    steno_status st = STENO_OK;
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count && !st; i++) {
        const struct steno_node *n = &g->nodes[i];
        if (n->dead || n->n_in < 1 || n->in[0] == STENO_NONE)
            continue;
        if (steno_pass_is(n, "Cast") && steno_node_int(n, "to", 0) == STENO_I64)
            st = counted(g, i, changed, err);
        else if (steno_pass_is(n, "ReduceMax") || steno_pass_is(n, "ReduceMin"))
            st = of_one(g, i, changed, err);
    }
    return st;
}
