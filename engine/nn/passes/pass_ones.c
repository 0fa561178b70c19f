/* Lengths that are counted instead of read from a shape, as in ESPnet's exports for a single
 * recording:
 * Before: y = Cast(ReduceSum(ConstantOfShape(s; 1.0), axis); i64), one element
 * After:  y = Gather(s, axis)
 * Before: ReduceMax or ReduceMin of the one element of a vector, keepdims 0
 * After:  Squeeze of it
 * So values that depend on them are known as soon as the shapes are. A count of ones in f32 stops
 * at 2^24; the dimension does not. */
#include "nn/passes/passes.h"

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
    if (steno_node_in(n, 1) != STENO_NONE) {
        const struct steno_tensor *t = steno_pass_const(g, n, 1);
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

/* n: a Cast. */
static steno_status counted(struct steno_graph *g, struct steno_node *n, int *changed,
                            steno_err *err)
{
    struct steno_pass_writer w = {g, n->name, err, STENO_OK};
    const struct steno_node *sum = steno_pass_producer(g, n->in[0]);
    const struct steno_shape *s = &g->values[n->out[0]].shape;
    steno_value_id shape, where;
    int64_t axis;
    if (!steno_pass_is(sum, "ReduceSum") || !steno_pass_one_element(g, n->out[0]) ||
        (shape = filled_shape(g, sum->in[0])) == STENO_NONE || !one_axis(g, sum, &axis))
        return STENO_OK;
    n->dead = true;
    ++*changed;
    where = steno_pass_new_const(&w, "axis", STENO_I64, s->rank, (const int64_t[]){1}, &axis);
    steno_pass_write(&w, STENO_NODE("", "Gather", 13, .in = STENO_VALUES(shape, where),
                                    .out = STENO_VALUES(n->out[0]),
                                    .attr = STENO_ATTRS(STENO_INT_ATTR("axis", 0))));
    return w.st;
}

/* n: a ReduceMax or ReduceMin. */
static steno_status of_one(struct steno_graph *g, struct steno_node *n, int *changed,
                           steno_err *err)
{
    const struct steno_shape *x = &g->values[n->in[0]].shape;
    if (x->rank != 1 || x->dim[0] != 1 || g->values[n->out[0]].shape.rank != 0)
        return STENO_OK;
    n->dead = true;
    ++*changed;
    return steno_pass_put(
        g, n->name,
        STENO_NODE("", "Squeeze", 13, .in = STENO_VALUES(n->in[0]), .out = STENO_VALUES(n->out[0])),
        err);
}

steno_status steno_pass_ones(struct steno_graph *g, const struct steno_pass_env *env,
                             struct steno_node *n, int *changed, steno_err *err)
{
    (void)env;
    if (steno_node_in(n, 0) == STENO_NONE)
        return STENO_OK;
    if (steno_pass_is(n, "Cast") && steno_node_int(n, "to", 0) == STENO_I64)
        return counted(g, n, changed, err);
    return steno_pass_is_any(n, "ReduceMax ReduceMin") ? of_one(g, n, changed, err) : STENO_OK;
}
