/* Masks that are written as a table of all pairs of rows, of which few rows are read, as in
 * ESPnet's exports (the last row of a triangle of T x T: quadratic in the length of the recording).
 * Comparisons and logical operators only, but for the second.
 *
 * Before: Compare(Expand(x), w), where x and w alone have the result's shape
 * After:  Compare(x, w)
 * Before: Add(Expand(x, Shape(w)), w); Sub, Mul, Div, Where, too (NeMo's masks)
 * After:  Add(x, w)
 * Before: And(ones, y), Or(zeros, y)
 * After:  y
 * Before: y = Compare(u, w) larger than u and than w, read only by a Slice or Gather of one axis
 * After:  Compare(u, w) of the Slice or Gather of those inputs that have the axis
 * Before: Shape(ConstantOfShape(s))
 * After:  s */
#include "nn/passes/passes.h"

#include <string.h>

static bool compares(const struct steno_node *n)
{
    return steno_pass_is_any(n, "And Or Xor Equal Less LessOrEqual Greater GreaterOrEqual") &&
           n->n_in == 2 && n->in[0] != STENO_NONE && n->in[1] != STENO_NONE;
}

static int rank_of(const struct steno_graph *g, steno_value_id v)
{
    return g->values[v].shape.rank;
}

/* Extent of axis r from the end, as in broadcasting; ranks are known. */
static int64_t back(const struct steno_graph *g, steno_value_id v, int r)
{
    return r < rank_of(g, v) ? g->values[v].shape.dim[rank_of(g, v) - 1 - r] : 1;
}

static bool ranks_known(const struct steno_graph *g, const struct steno_node *n)
{
    return rank_of(g, n->in[0]) >= 0 && rank_of(g, n->in[1]) >= 0 && rank_of(g, n->out[0]) >= 0;
}

/* True if each extent of y is that of x or of w. */
static bool broadcast_to(const struct steno_graph *g, steno_value_id x, steno_value_id w,
                         steno_value_id y)
{
    const int rank = rank_of(g, x) > rank_of(g, w) ? rank_of(g, x) : rank_of(g, w);
    if (rank_of(g, x) < 0 || rank != rank_of(g, y))
        return false;
    for (int r = 0; r < rank; r++)
        if (!steno_same_dim(back(g, x, r), back(g, y, r)) &&
            !steno_same_dim(back(g, w, r), back(g, y, r)))
            return false;
    return true;
}

static bool computes(const struct steno_node *n)
{
    return steno_pass_is_any(n, "Add Sub Mul Div Where");
}

/* True if s is the shape of w, whatever that is. */
static bool shape_of(struct steno_graph *g, steno_value_id s, steno_value_id w)
{
    const struct steno_node *p = steno_pass_producer(g, s);
    return steno_pass_is(p, "Shape") && !steno_node_attr(p, "start") &&
           !steno_node_attr(p, "end") && (p->in[0] == w || steno_pass_same_shape(g, p->in[0], w));
}

static bool without_expand(struct steno_graph *g, struct steno_node *n)
{
    const bool any_shape = computes(n);
    for (int k = 0; k < n->n_in; k++) {
        const struct steno_node *p =
            n->in[k] == STENO_NONE ? NULL : steno_pass_producer(g, n->in[k]);
        for (int j = 0; j < n->n_in && steno_pass_is(p, "Expand"); j++)
            if (j != k && n->in[j] != STENO_NONE &&
                (any_shape ? shape_of(g, p->in[1], n->in[j])
                           : broadcast_to(g, p->in[0], n->in[j], n->out[0]))) {
                steno_pass_reroute(g, n, k, p->in[0]);
                return true;
            }
    }
    return false;
}

static bool changes_nothing(struct steno_graph *g, struct steno_node *n)
{
    const bool all = steno_pass_is(n, "And");
    for (int k = 0; k < 2 && (all || steno_pass_is(n, "Or")); k++)
        if (steno_pass_fills(steno_pass_producer(g, n->in[k]), STENO_BOOL, all) &&
            steno_pass_same_shape(g, n->in[1 - k], n->out[0]) &&
            steno_pass_replace(g, n->out[0], n->in[1 - k])) {
            n->dead = true;
            return true;
        }
    return false;
}

static bool shape_of_constant(struct steno_graph *g, struct steno_node *n)
{
    const struct steno_node *p = steno_pass_producer(g, n->in[0]);
    if (!steno_pass_is(p, "ConstantOfShape") || steno_node_attr(n, "start") ||
        steno_node_attr(n, "end") || !steno_pass_replace(g, n->out[0], p->in[0]))
        return false;
    n->dead = true;
    return true;
}

/* Return the comparison whose result is larger than either side and read by n alone, or NULL. */
static struct steno_node *table_of(struct steno_graph *g, const struct steno_node *n)
{
    struct steno_node *p = steno_pass_producer(g, n->in[0]);
    if (!p || !compares(p) || !ranks_known(g, p) || !steno_pass_read_once(g, n->in[0]))
        return NULL;
    for (int k = 0; k < 2; k++) {
        bool smaller = false;
        for (int r = 0; r < rank_of(g, n->in[0]); r++)
            smaller = smaller || (back(g, p->in[k], r) == 1 && back(g, n->in[0], r) != 1);
        if (!smaller)
            return NULL;
    }
    return p;
}

/* True for a Slice or Gather of one axis; *axis counts from the end. */
static bool picks(const struct steno_graph *g, const struct steno_node *n, int *axis)
{
    const int rank = rank_of(g, n->in[0]);
    struct steno_pass_cut c;
    double a;
    if (steno_pass_is(n, "Gather") && rank_of(g, n->in[1]) == 1)
        a = (double)steno_node_int(n, "axis", 0);
    else if (steno_pass_is(n, "Slice") && steno_pass_cut_of(g, n, &c))
        a = c.axis;
    else
        return false;
    *axis = rank - 1 - (int)(a < 0 ? a + rank : a);
    return *axis >= 0 && *axis < rank && back(g, n->in[0], *axis) != 1;
}

/* Apply n, a Slice or Gather, to v along the axis. */
static steno_value_id pick(struct steno_pass_writer *w, const struct steno_node *n,
                           steno_value_id v, int axis)
{
    const int64_t a = rank_of(w->g, v) - 1 - axis;
    const steno_dtype t = w->g->values[v].dtype;
    steno_value_id y, axes;
    if (steno_pass_is(n, "Slice")) {
        axes = steno_pass_new_ints(w, "axis", 1, &a);
        y = steno_pass_write_new(
            w, STENO_NODE("", "Slice", 13, .in = STENO_VALUES(v, n->in[1], n->in[2], axes)));
    } else {
        y = steno_pass_write_new(w, STENO_NODE("", "Gather", 13, .in = STENO_VALUES(v, n->in[1]),
                                               .attr = STENO_ATTRS(STENO_INT_ATTR("axis", a))));
    }
    if (y != STENO_NONE)
        w->g->values[y].dtype = t;
    return y;
}

/* n picks rows of a table: pick them from the table's inputs instead. */
static steno_status pick_first(struct steno_graph *g, struct steno_node *n, int *changed,
                               steno_err *err)
{
    struct steno_node *table = table_of(g, n);
    const struct steno_node old = *n; /* the array may move */
    struct steno_pass_writer w = {g, n->name, err, STENO_OK};
    struct steno_node made;
    steno_value_id in[2];
    int axis;
    if (!table || !picks(g, n, &axis))
        return STENO_OK;
    for (int k = 0; k < 2; k++)
        if (back(g, table->in[k], axis) != 1 &&
            !steno_same_dim(back(g, table->in[k], axis), back(g, n->in[0], axis)))
            return STENO_OK;
    made = *table;
    memcpy(in, made.in, sizeof in);
    table->dead = n->dead = true;
    ++*changed;
    for (int k = 0; k < 2; k++)
        if (back(g, in[k], axis) != 1)
            in[k] = pick(&w, &old, in[k], axis);
    w.name = made.name;
    steno_pass_write(&w,
                     STENO_NODE("", made.op_type, made.opset, .in = {in, 2}, .out = {old.out, 1}));
    return w.st;
}

steno_status steno_pass_outer(struct steno_graph *g, const struct steno_pass_env *env,
                              struct steno_node *n, int *changed, steno_err *err)
{
    (void)env;
    if (compares(n) && ranks_known(g, n))
        *changed += without_expand(g, n) || changes_nothing(g, n);
    else if (computes(n))
        *changed += without_expand(g, n);
    else if (steno_pass_is(n, "Shape"))
        *changed += shape_of_constant(g, n);
    else if (steno_pass_is_any(n, "Slice Gather"))
        return pick_first(g, n, changed, err);
    return STENO_OK;
}
