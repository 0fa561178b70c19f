/* Operators that the node before them makes unnecessary:
 * Before: a = Relu(x), y = Relu(a); also Abs, Ceil, Floor, Round, Sign; Relu of Sigmoid, Softmax,
 *         Exp, Abs and other values that are never negative; Abs of those
 * After:  y = a
 * Before: a = Neg(x), y = Neg(a); also Not
 * After:  y = x
 * Before: n = Not(c), y = Where(n, a, b)
 * After:  y = Where(c, b, a)
 * Before: s = Softmax|LogSoftmax(x), y = ArgMax(s) along the same axis
 * After:  y = ArgMax(x)
 * Before: p = Mul(x, m), y = Mul(p, m), m a Cast from bool (a mask of lengths)
 * After:  y = p
 * Before: p = Mul(x, m), y = Relu(p), m a Cast from bool, no other reader of p
 * After:  y = Mul(Relu(x), m), so that what makes x computes the Relu
 * Softmax and LogSoftmax only: other increasing functions (Sigmoid, Tanh) map different large
 * values to one. */
#include "nn/passes/passes.h"

/* True if n gives what `before` gave. */
static bool idempotent(const struct steno_node *n, const struct steno_node *before)
{
    static const char whole[] = "Ceil Floor Round";
    if (steno_pass_is_any(n, "Relu Abs Ceil Floor Round Sign") && steno_pass_is(before, n->op_type))
        return true;
    if (steno_pass_is_any(n, whole) && steno_pass_is_any(before, whole))
        return true;
    return steno_pass_is_any(n, "Relu Abs") &&
           steno_pass_is_any(before, "Relu Abs Sigmoid Softmax Exp Softplus HardSigmoid");
}

static bool involution(const struct steno_node *n, const struct steno_node *before)
{
    return steno_pass_is_any(n, "Neg Not") && steno_pass_is(before, n->op_type);
}

/* True if v is 0 and 1 only: truth values as numbers. */
static bool is_mask(struct steno_graph *g, steno_value_id v)
{
    const struct steno_node *n = steno_pass_producer(g, v);
    for (int i = 0; i < 8 && steno_pass_is_any(n, "Unsqueeze Squeeze Reshape Expand"); i++)
        n = steno_pass_producer(g, n->in[0]);
    return steno_pass_is(n, "Cast") && g->values[n->in[0]].dtype == STENO_BOOL &&
           g->values[v].dtype == STENO_F32;
}

/* Return the number of the input of Mul n that is a mask, or -1. */
static int mask_of(struct steno_graph *g, const struct steno_node *n)
{
    if (!steno_pass_is(n, "Mul") || n->n_in != 2)
        return -1;
    return is_mask(g, n->in[1]) ? 1 : is_mask(g, n->in[0]) ? 0 : -1;
}

/* True if Mul n hides what the Mul before it has hidden: n's other input is it then. */
static bool hides_again(struct steno_graph *g, const struct steno_node *n, steno_value_id *hidden)
{
    const int k = mask_of(g, n);
    const struct steno_node *p = k < 0 ? NULL : steno_pass_producer(g, n->in[!k]);
    if (!steno_pass_is(p, "Mul") || p->n_in != 2 || (p->in[0] != n->in[k] && p->in[1] != n->in[k]))
        return false;
    *hidden = n->in[!k];
    return true;
}

/* Relu(Mul(x, m)): exchange both. */
static bool relu_first(struct steno_graph *g, struct steno_node *relu)
{
    struct steno_node *p = steno_pass_is(relu, "Relu") ? steno_pass_producer(g, relu->in[0]) : NULL;
    const int k = p ? mask_of(g, p) : -1;
    const steno_value_id between = relu->in[0];
    if (k < 0 || !steno_pass_read_once(g, between))
        return false;
    relu->in[0] = p->in[!k];
    p->in[!k] = between;
    p->out[0] = relu->out[0];
    relu->out[0] = between;
    g->values[p->out[0]].producer = (int32_t)(p - g->nodes);
    g->values[between].producer = (int32_t)(relu - g->nodes);
    return true;
}

static bool swap_where(struct steno_graph *g, struct steno_node *n)
{
    struct steno_node *not = steno_pass_is(n, "Where") ? steno_pass_producer(g, n->in[0]) : NULL;
    steno_value_id a;
    if (!steno_pass_is(not, "Not"))
        return false;
    steno_pass_reroute(g, n, 0, not ->in[0]);
    a = n->in[1];
    n->in[1] = n->in[2];
    n->in[2] = a;
    return true;
}

static bool again_largest(struct steno_graph *g, struct steno_node *n)
{
    struct steno_node *s = steno_pass_is(n, "ArgMax") ? steno_pass_producer(g, n->in[0]) : NULL;
    int64_t axis, along;
    int rank;
    if (!steno_pass_is_any(s, "Softmax LogSoftmax") || s->opset < 13)
        return false;
    rank = g->values[n->in[0]].shape.rank;
    axis = steno_node_int(n, "axis", 0);
    along = steno_node_int(s, "axis", -1);
    if (rank < 1 || (axis < 0 ? axis + rank : axis) != (along < 0 ? along + rank : along) ||
        steno_node_int(n, "select_last_index", 0))
        return false;
    steno_pass_reroute(g, n, 0, s->in[0]);
    return true;
}

steno_status steno_pass_again(struct steno_graph *g, const struct steno_pass_env *env,
                              struct steno_node *n, int *changed, steno_err *err)
{
    const struct steno_node *before;
    steno_value_id same = STENO_NONE;
    (void)env;
    (void)err;
    if (*n->domain || n->n_in < 1 || n->in[0] == STENO_NONE || n->n_out < 1 ||
        n->out[0] == STENO_NONE || !g->values[n->out[0]].uses)
        return STENO_OK;
    if (swap_where(g, n) || again_largest(g, n) || relu_first(g, n)) {
        ++*changed;
        return STENO_OK;
    }
    before = steno_pass_producer(g, n->in[0]);
    if (!hides_again(g, n, &same) && before && before->n_in > 0)
        same = idempotent(n, before)   ? n->in[0]
               : involution(n, before) ? before->in[0]
                                       : STENO_NONE;
    if (same != STENO_NONE && steno_pass_replace(g, n->out[0], same)) {
        n->dead = true;
        ++*changed;
    }
    return STENO_OK;
}
