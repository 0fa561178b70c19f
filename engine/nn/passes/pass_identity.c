/* Before: x -> Op -> y, where y equals x      After: readers of y read x
 * Identity, Dropout (inference), Cast to the type it has, Transpose in order, Split into one,
 * Concat/Sum/Max/Min/Mean of one, Reshape/Expand/Tile/Flatten that keep the shape, Slice and Pad
 * that take everything, and x+0, x-0, x*1, x/1, x^1; 0*x of integers is the 0.
 * Inferred shapes, symbols included, tell whether a shape is kept: dimensions of the same symbol
 * are the same. */
#include "nn/passes/passes.h"

#include <string.h>

static bool uniform(const struct steno_graph *g, const struct steno_node *n, int in, double want)
{
    double v;
    if (in >= n->n_in || n->in[in] == STENO_NONE)
        return false;
    return steno_pass_scalar(g, n->in[in], &v) && v == want; /* exact on purpose */
}

static bool absent_or(const struct steno_graph *g, const struct steno_node *n, int in, double want)
{
    const struct steno_tensor *t;
    if (in >= n->n_in || n->in[in] == STENO_NONE)
        return true;
    t = g->values[n->in[in]].constant;
    return (t && t->data && !steno_numel(t)) || uniform(g, n, in, want);
}

static bool in_order(const struct steno_node *n)
{
    size_t rank;
    const int64_t *perm = steno_node_ints(n, "perm", &rank);
    for (size_t i = 0; perm && i < rank; i++)
        if (perm[i] != (int64_t)i)
            return false;
    return perm != NULL;
}

static bool all_zero_pads(const struct steno_graph *g, const struct steno_node *n)
{
    size_t count;
    const int64_t *pads = steno_node_ints(n, "pads", &count);
    for (size_t i = 0; pads && i < count; i++)
        if (pads[i])
            return false;
    return pads || uniform(g, n, 1, 0);
}

/* True if input `in` of two is `want` everywhere and the other input has the result's shape. */
static bool neutral(const struct steno_graph *g, const struct steno_node *n, int in, double want)
{
    return n->n_in == 2 && n->in[!in] != STENO_NONE && uniform(g, n, in, want) &&
           (!g->values[n->in[in]].constant->shape.rank ||
            steno_pass_same_shape(g, n->in[!in], n->out[0]));
}

/* True if input `in` is 0 everywhere, so that the product is that input. Integers are never
 * infinite. */
static bool zero_of_integers(const struct steno_graph *g, const struct steno_node *n, int in)
{
    steno_dtype t = g->values[n->out[0]].dtype;
    return n->n_in == 2 && (t == STENO_I64 || t == STENO_I32) && uniform(g, n, in, 0) &&
           steno_pass_same_shape(g, n->in[in], n->out[0]);
}

static bool gives_first(const struct steno_graph *g, const struct steno_node *n)
{
    const bool shape = steno_pass_same_shape(g, n->in[0], n->out[0]);
    if (steno_pass_is(n, "Dropout"))
        return n->opset < 7 ? steno_node_int(n, "is_test", 0) != 0 : absent_or(g, n, 2, 0);
    if (steno_pass_is(n, "Cast"))
        return g->values[n->in[0]].dtype &&
               g->values[n->in[0]].dtype == (steno_dtype)steno_node_int(n, "to", 0);
    if (steno_pass_is(n, "Transpose"))
        return in_order(n);
    if (steno_pass_is_any(n, "Concat Sum Max Min Mean"))
        return n->n_in == 1;
    if (steno_pass_is(n, "Split"))
        return n->n_out == 1 && shape;
    if (steno_pass_is(n, "Slice"))
        return shape && n->opset >= 10 && absent_or(g, n, 4, 1);
    if (steno_pass_is(n, "Pad"))
        return shape && all_zero_pads(g, n);
    if (steno_pass_is(n, "Mul") && zero_of_integers(g, n, 0))
        return true;
    return steno_pass_is(n, "Identity") ||
           (shape && steno_pass_is_any(n, "Reshape Expand Tile Flatten")) ||
           (steno_pass_is_any(n, "Add Sub") && neutral(g, n, 1, 0)) ||
           (steno_pass_is_any(n, "Mul Div Pow") && neutral(g, n, 1, 1));
}

static bool gives_second(const struct steno_graph *g, const struct steno_node *n)
{
    return (steno_pass_is(n, "Add") && neutral(g, n, 0, 0)) ||
           (steno_pass_is(n, "Mul") && (zero_of_integers(g, n, 1) || neutral(g, n, 0, 1)));
}

steno_status steno_pass_identity(struct steno_graph *g, const struct steno_pass_env *env,
                                 struct steno_node *n, int *changed, steno_err *err)
{
    int in;
    (void)env;
    (void)err;
    if (*n->domain || !n->n_in || n->in[0] == STENO_NONE || !n->n_out || n->out[0] == STENO_NONE ||
        !g->values[n->out[0]].uses)
        return STENO_OK;
    for (int k = 0; k < n->n_in; k++) /* sorted: earlier nodes are done */
        n->in[k] = steno_graph_replacement_of(g, n->in[k]);
    in = !steno_pass_one_output(g, n) ? -1 : gives_first(g, n) ? 0 : gives_second(g, n) ? 1 : -1;
    if (in >= 0 && steno_pass_replace(g, n->out[0], n->in[in])) {
        n->dead = true;
        ++*changed;
    }
    return STENO_OK;
}
