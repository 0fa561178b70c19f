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

/* Return the number of the input that output 0 equals, or -1. */
static int passes_on(const struct steno_graph *g, const struct steno_node *n)
{
    const char *t = n->op_type;
    bool shape = n->n_in && n->in[0] != STENO_NONE && steno_pass_same_shape(g, n->in[0], n->out[0]);
    if (!strcmp(t, "Identity"))
        return 0;
    if (!strcmp(t, "Dropout"))
        return n->opset < 7            ? steno_node_int(n, "is_test", 0) != 0 ? 0 : -1
               : absent_or(g, n, 2, 0) ? 0
                                       : -1;
    if (!strcmp(t, "Cast"))
        return g->values[n->in[0]].dtype &&
                       g->values[n->in[0]].dtype == (steno_dtype)steno_node_int(n, "to", 0)
                   ? 0
                   : -1;
    if (!strcmp(t, "Transpose"))
        return in_order(n) ? 0 : -1;
    if (!strcmp(t, "Concat") || !strcmp(t, "Sum") || !strcmp(t, "Max") || !strcmp(t, "Min") ||
        !strcmp(t, "Mean"))
        return n->n_in == 1 ? 0 : -1;
    if (!strcmp(t, "Split"))
        return n->n_out == 1 && shape ? 0 : -1;
    if (!strcmp(t, "Reshape") || !strcmp(t, "Expand") || !strcmp(t, "Tile") ||
        !strcmp(t, "Flatten"))
        return shape ? 0 : -1;
    if (!strcmp(t, "Slice"))
        return shape && n->opset >= 10 && absent_or(g, n, 4, 1) ? 0 : -1;
    if (!strcmp(t, "Pad"))
        return shape && all_zero_pads(g, n) ? 0 : -1;
    if (!strcmp(t, "Add") || !strcmp(t, "Sub"))
        return neutral(g, n, 1, 0) ? 0 : *t == 'A' && neutral(g, n, 0, 0) ? 1 : -1;
    if (!strcmp(t, "Mul") && (zero_of_integers(g, n, 0) || zero_of_integers(g, n, 1)))
        return zero_of_integers(g, n, 0) ? 0 : 1;
    if (!strcmp(t, "Mul") || !strcmp(t, "Div") || !strcmp(t, "Pow"))
        return neutral(g, n, 1, 1) ? 0 : *t == 'M' && neutral(g, n, 0, 1) ? 1 : -1;
    return -1;
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
    in = steno_pass_one_output(g, n) ? passes_on(g, n) : -1;
    if (in >= 0 && steno_pass_replace(g, n->out[0], n->in[in])) {
        n->dead = true;
        ++*changed;
    }
    return STENO_OK;
}
