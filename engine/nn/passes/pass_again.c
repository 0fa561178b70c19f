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
 * Softmax and LogSoftmax only: other increasing functions (Sigmoid, Tanh) map different large
 * values to one. */
#include "nn/passes/passes.h"

#include <string.h>

static bool among(const struct steno_node *n, const char *const *types)
{
    for (; n && !*n->domain && *types; types++)
        if (!strcmp(n->op_type, *types))
            return true;
    return false;
}

/* True if n gives what `before` gave. */
static bool idempotent(const struct steno_node *n, const struct steno_node *before)
{
    static const char *const same[] = {"Relu", "Abs", "Ceil", "Floor", "Round", "Sign", NULL};
    static const char *const whole[] = {"Ceil", "Floor", "Round", NULL};
    static const char *const positive[] = {"Relu", "Abs",      "Sigmoid",     "Softmax",
                                           "Exp",  "Softplus", "HardSigmoid", NULL};
    if (among(n, same) && steno_pass_is(before, n->op_type))
        return true;
    if (among(n, whole) && among(before, whole))
        return true;
    return (steno_pass_is(n, "Relu") || steno_pass_is(n, "Abs")) && among(before, positive);
}

static bool involution(const struct steno_node *n, const struct steno_node *before)
{
    static const char *const types[] = {"Neg", "Not", NULL};
    return among(n, types) && steno_pass_is(before, n->op_type);
}

static bool swap_where(struct steno_graph *g, struct steno_node *n)
{
    struct steno_node *not = steno_pass_is(n, "Where") ? steno_pass_producer(g, n->in[0]) : NULL;
    steno_value_id a;
    if (!steno_pass_is(not, "Not"))
        return false;
    g->values[n->in[0]].uses--;
    n->in[0] = not ->in[0];
    g->values[n->in[0]].uses++;
    a = n->in[1];
    n->in[1] = n->in[2];
    n->in[2] = a;
    return true;
}

static bool again_largest(struct steno_graph *g, struct steno_node *n)
{
    static const char *const soft[] = {"Softmax", "LogSoftmax", NULL};
    struct steno_node *s = steno_pass_is(n, "ArgMax") ? steno_pass_producer(g, n->in[0]) : NULL;
    int64_t axis, along;
    int rank;
    if (!among(s, soft) || s->opset < 13)
        return false;
    rank = g->values[n->in[0]].shape.rank;
    axis = steno_node_int(n, "axis", 0);
    along = steno_node_int(s, "axis", -1);
    if (rank < 1 || (axis < 0 ? axis + rank : axis) != (along < 0 ? along + rank : along) ||
        steno_node_int(n, "select_last_index", 0))
        return false;
    g->values[n->in[0]].uses--;
    n->in[0] = s->in[0];
    g->values[n->in[0]].uses++;
    return true;
}

steno_status steno_pass_again(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                              steno_err *err)
{
    (void)env;
    (void)err;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        struct steno_node *n = &g->nodes[i], *before;
        bool gone = false;
        if (n->dead || *n->domain || n->n_in < 1 || n->in[0] == STENO_NONE || n->n_out < 1 ||
            n->out[0] == STENO_NONE || !g->values[n->out[0]].uses)
            continue;
        if (swap_where(g, n) || again_largest(g, n)) {
            ++*changed;
            continue;
        }
        before = steno_pass_producer(g, n->in[0]);
        if (!before || before->n_in < 1)
            continue;
        if (idempotent(n, before))
            gone = steno_pass_replace(g, n->out[0], n->in[0]);
        else if (involution(n, before))
            gone = steno_pass_replace(g, n->out[0], before->in[0]);
        if (gone) {
            n->dead = true;
            ++*changed;
        }
    }
    return STENO_OK;
}
