/* Before: r = Reshape(x [H, N, T, W]; -1, W)
 *         i = Add(Unsqueeze(Tile(T - 1, ..., 0; H N); -1), [0, ..., S - 1]), W = S + T - 1
 *         y = Reshape(GatherElements(r, i; axis 1); H, -1, T, S)
 * After:  y = ai.steno:RelativeWindow(x)      (nn/ops/op_fused_zipformer.c)
 * icefall's exports of Zipformer shift relative positions this way. */
#include "nn/passes/passes.h"

/* Constant i64 of n elements first, first + step, ... along one axis. */
static bool is_range(const struct steno_graph *g, steno_value_id v, int64_t first, int64_t step,
                     int64_t n)
{
    const struct steno_tensor *t = g->values[v].constant;
    if (!t || !t->data || t->dtype != STENO_I64 || (int64_t)steno_numel(t) != n ||
        t->shape.rank < 1 || t->shape.dim[t->shape.rank - 1] != n)
        return false;
    for (int64_t i = 0; i < n; i++)
        if (((const int64_t *)t->data)[i] != first + i * step)
            return false;
    return true;
}

/* True if v is dimension `sym` of some value: Gather of its Shape. */
static bool is_dim(struct steno_graph *g, steno_value_id v, int64_t sym)
{
    struct steno_node *gather = steno_pass_producer(g, v), *shape;
    const struct steno_shape *s;
    double at;
    if (!steno_pass_is(gather, "Gather") || !steno_pass_scalar(g, gather->in[1], &at))
        return false;
    shape = steno_pass_producer(g, gather->in[0]);
    if (!steno_pass_is(shape, "Shape") || shape->n_attr)
        return false;
    s = &g->values[shape->in[0]].shape;
    at = at < 0 ? at + s->rank : at;
    return at >= 0 && at < s->rank && s->dim[(int)at] == sym;
}

/* True if v is heads * dimension `sym`. */
static bool counts(struct steno_graph *g, steno_value_id v, int64_t heads, int64_t sym)
{
    struct steno_node *n = steno_pass_producer(g, v);
    double c;
    while (steno_pass_is_any(n, "Unsqueeze Reshape"))
        n = steno_pass_producer(g, n->in[0]);
    if (!steno_pass_is(n, "Mul"))
        return false;
    for (int side = 0; side < 2; side++)
        if (steno_pass_scalar(g, n->in[side], &c) && c == (double)heads &&
            is_dim(g, n->in[1 - side], sym))
            return true;
    return false;
}

static bool is_index(struct steno_graph *g, steno_value_id v, const struct steno_shape *x,
                     int64_t s)
{
    struct steno_node *add = steno_pass_producer(g, v), *unsqueeze, *tile;
    if (!steno_pass_is(add, "Add"))
        return false;
    for (int side = 0; side < 2; side++) {
        unsqueeze = steno_pass_producer(g, add->in[side]);
        tile =
            steno_pass_is(unsqueeze, "Unsqueeze") ? steno_pass_producer(g, unsqueeze->in[0]) : NULL;
        if (steno_pass_is(tile, "Tile") && g->values[unsqueeze->out[0]].shape.rank == 2 &&
            g->values[unsqueeze->out[0]].shape.dim[1] == 1 &&
            g->values[tile->in[0]].shape.rank == 1 &&
            is_range(g, tile->in[0], x->dim[2] - 1, -1, x->dim[2]) &&
            is_range(g, add->in[1 - side], 0, 1, s) && counts(g, tile->in[1], x->dim[0], x->dim[1]))
            return true;
    }
    return false;
}

/* Return x if `last` is the end of the chain. */
static steno_value_id source(struct steno_graph *g, const struct steno_node *last,
                             struct steno_node **gather)
{
    const struct steno_shape *y = &g->values[last->out[0]].shape, *x, *flat;
    struct steno_node *rows;
    *gather = steno_pass_only_use(g, last->in[0], "GatherElements");
    rows = *gather ? steno_pass_only_use(g, (*gather)->in[0], "Reshape") : NULL;
    if (!rows || g->values[rows->in[0]].dtype != STENO_F32 ||
        (steno_node_int(*gather, "axis", 0) != 1 && steno_node_int(*gather, "axis", 0) != -1))
        return STENO_NONE;
    x = &g->values[rows->in[0]].shape;
    flat = &g->values[rows->out[0]].shape;
    if (x->rank != 4 || flat->rank != 2 || y->rank != 4 || x->dim[0] < 1 || x->dim[2] < 1 ||
        flat->dim[1] != x->dim[3] || y->dim[0] != x->dim[0] || y->dim[2] != x->dim[2] ||
        y->dim[3] < 1 || y->dim[3] + y->dim[2] - 1 != x->dim[3] ||
        !is_index(g, (*gather)->in[1], x, y->dim[3]))
        return STENO_NONE;
    return rows->in[0];
}

steno_status steno_pass_relwindow(struct steno_graph *g, const struct steno_pass_env *env,
                                  struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_node *gather;
    steno_value_id x;
    (void)env;
    if (!steno_pass_is(n, "Reshape") || (x = source(g, n, &gather)) == STENO_NONE)
        return STENO_OK;
    n->dead = gather->dead = true;
    steno_pass_producer(g, gather->in[0])->dead = true;
    ++*changed;
    return steno_pass_put(g, n->name,
                          STENO_NODE("ai.steno", "RelativeWindow", 1, .in = STENO_VALUES(x),
                                     .out = STENO_VALUES(n->out[0])),
                          err);
}
