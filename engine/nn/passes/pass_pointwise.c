/* Before: Conv of kernel 1 on Transpose(x; 0,2,1)
 * After:  Transpose(MatMul(x, W') [+ bias]; 0,2,1)
 * Before: f(Transpose(x; 0,2,1)), f elementwise of one input, the only reader of the Transpose
 * After:  Transpose(f(x); 0,2,1)
 * Before: Where(m, c, Transpose(x; 0,2,1)), which alone reads the Transpose, in any order, c one
 *         number, m [N, 1, T] (a mask of lengths); Mul likewise
 * After:  Transpose(Where(Transpose(m; 0,2,1), c, x); 0,2,1)
 *
 * Exported convolution modules have channels before time. Transposes move down until they meet the
 * inverse Transpose, and pass transpose removes both. */
#include "nn/passes/passes.h"

static bool is_pointwise(const struct steno_graph *g, const struct steno_node *c)
{
    const struct steno_tensor *w = steno_pass_is(c, "Conv") ? g->values[c->in[1]].constant : NULL;
    return w && w->data && w->dtype == STENO_F32 && w->shape.rank == 3 && steno_numel(w) &&
           w->shape.dim[2] == 1 && steno_node_int(c, "group", 1) == 1 &&
           steno_pass_vector_or_none(g, c, 2, w->shape.dim[0]) &&
           steno_pass_ints_are(c, "strides", 1, 1) && steno_pass_ints_are(c, "pads", 0, 0);
}

static steno_status convolution(struct steno_graph *g, struct steno_node *c, steno_value_id x,
                                steno_err *err)
{
    struct steno_pass_writer w = {g, c->name, err, STENO_OK};
    const steno_value_id bias = steno_node_in(c, 2), out = c->out[0], y = steno_pass_new_value(&w);
    steno_value_id weights;
    if (!w.st)
        w.st = steno_graph_transpose_const(g, c->in[1], &weights, err);
    if (w.st)
        return w.st;
    c->dead = true;
    steno_pass_write_product(&w, x, weights, bias, y);
    steno_pass_write_swapped(&w, y, out);
    return w.st;
}

static bool is_curve(const struct steno_node *n)
{
    return steno_pass_is_any(n, "Swish Sigmoid Relu Tanh Gelu Neg Exp") && n->n_in == 1;
}

/* A tensor [N, 1, T], one number for all channels. */
static bool is_mask(const struct steno_graph *g, steno_value_id v)
{
    const struct steno_value *m = &g->values[v];
    return !m->constant && m->shape.rank == 3 && m->shape.dim[1] == 1;
}

/* Return the number of the input that is a Transpose for this node alone; -1: there is none, or n
 * is neither a curve nor a mask. */
static int transposed_input(struct steno_graph *g, const struct steno_node *n)
{
    const bool mask = steno_pass_is(n, "Where") || (steno_pass_is(n, "Mul") && n->n_in == 2);
    int at = -1;
    for (int i = 0; i < n->n_in && (mask || is_curve(n)); i++) {
        const steno_value_id v = n->in[i];
        double number;
        if (v == STENO_NONE)
            return -1;
        if (mask && is_mask(g, v))
            continue;
        if (at < 0 && steno_pass_swapped(g, v) && steno_pass_read_once(g, v))
            at = i;
        else if (!steno_pass_scalar(g, v, &number) || g->values[v].shape.rank > 3 ||
                 steno_numel(g->values[v].constant) != 1)
            return -1;
    }
    return at;
}

/* Make the node read what its input k is the Transpose of, and masks turned likewise, and write a
 * new value; a Transpose of it writes the old output. */
static steno_status sink(struct steno_graph *g, struct steno_node *n, int k, steno_err *err)
{
    struct steno_pass_writer w = {g, n->name, err, STENO_OK};
    const steno_value_id out = n->out[0];
    steno_value_id *in = n->in, y = steno_pass_new_value(&w); /* the lists do not move */
    const int n_in = n->n_in;
    n->out[0] = y;
    in[k] = steno_pass_swapped(g, in[k])->in[0];
    for (int i = 0; i < n_in; i++) {
        const steno_value_id m = in[i];
        if (i == k || !is_mask(g, m))
            continue;
        in[i] = steno_pass_new_value(&w);
        steno_pass_write_swapped(&w, m, in[i]);
    }
    steno_pass_write_swapped(&w, y, out);
    return w.st;
}

steno_status steno_pass_pointwise(struct steno_graph *g, const struct steno_pass_env *env,
                                  struct steno_node *n, int *changed, steno_err *err)
{
    const struct steno_node *before;
    int k;
    (void)env;
    if (n->n_in < 1)
        return STENO_OK;
    if (is_pointwise(g, n) && (before = steno_pass_swapped(g, n->in[0]))) {
        ++*changed;
        return convolution(g, n, before->in[0], err);
    }
    k = transposed_input(g, n);
    *changed += k >= 0;
    return k >= 0 ? sink(g, n, k, err) : STENO_OK;
}
