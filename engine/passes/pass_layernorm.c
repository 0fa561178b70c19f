/* Before: m = ReduceMean(x), d = Sub(x, m), v = ReduceMean(Pow(d, 2) or Mul(d, d)),
 *         y = d / Sqrt(v + eps) [* gamma] [+ beta]          all along the last axis
 * After:  y = LayerNormalization(x, gamma, beta) (opset 17)
 * PyTorch's exporter writes the long form below opset 17. */
#include "passes/passes.h"

#include <string.h>

struct layernorm {
    struct steno_node *mean, *sub, *square, *var, *add_eps, *root, *div, *mul, *add;
    steno_vid x, d, gamma, beta, out;
    double eps;
};

static bool is(const struct steno_node *n, const char *type)
{
    return n && !*n->domain && !strcmp(n->op_type, type);
}

static bool last_axis(const struct steno_graph *g, const struct steno_node *n)
{
    int rank = g->values[n->in[0]].shape.rank;
    size_t count;
    const int64_t *axes = steno_node_ints(n, "axes", &count);
    double v;
    if (rank < 1 || steno_node_int(n, "keepdims", 1) != 1)
        return false;
    if (axes)
        return count == 1 && (axes[0] == -1 || axes[0] == rank - 1);
    return n->n_in > 1 && steno_pass_scalar(g, n->in[1], &v) && (v == -1 || v == rank - 1) &&
           steno_numel(g->values[n->in[1]].constant) == 1;
}

static bool match_square(struct steno_graph *g, struct layernorm *l, steno_vid v)
{
    double two;
    l->square = steno_pass_producer(g, v);
    if (g->values[v].uses != 1 || !l->square || l->square->n_in != 2 || l->square->in[0] != l->d)
        return false;
    return (is(l->square, "Pow") && steno_pass_scalar(g, l->square->in[1], &two) && two == 2) ||
           (is(l->square, "Mul") && l->square->in[1] == l->d);
}

/* The denominator, from Div's second input upwards. */
static bool match_root(struct steno_graph *g, struct layernorm *l)
{
    bool swapped;
    l->root = steno_pass_only_use(g, l->div->in[1], "Sqrt");
    l->add_eps = l->root ? steno_pass_only_use(g, l->root->in[0], "Add") : NULL;
    if (!l->add_eps)
        return false;
    swapped = steno_pass_scalar(g, l->add_eps->in[0], &l->eps);
    if (!swapped && !steno_pass_scalar(g, l->add_eps->in[1], &l->eps))
        return false;
    l->var = steno_pass_only_use(g, l->add_eps->in[swapped], "ReduceMean");
    return l->var && last_axis(g, l->var) && match_square(g, l, l->var->in[0]);
}

static bool match_mean(struct steno_graph *g, struct layernorm *l)
{
    uint32_t uses = l->square->in[0] == l->square->in[l->square->n_in - 1] ? 3 : 2;
    l->sub = steno_pass_producer(g, l->d);
    if (!is(l->sub, "Sub") || g->values[l->d].uses != uses || g->values[l->d].is_output)
        return false;
    l->x = l->sub->in[0];
    l->mean = steno_pass_only_use(g, l->sub->in[1], "ReduceMean");
    return l->mean && l->mean->in[0] == l->x && last_axis(g, l->mean) &&
           g->values[l->x].dtype == STENO_F32;
}

/* y * gamma + beta with constants of the last dimension. */
static void match_affine(struct steno_graph *g, struct layernorm *l)
{
    const struct steno_shape *s = &g->values[l->x].shape;
    int64_t n = s->dim[s->rank - 1];
    struct steno_node *m = steno_pass_only_reader(g, l->out), *a;
    int side;
    l->gamma = l->beta = STENO_NONE;
    if (!is(m, "Mul"))
        return;
    side = m->in[0] == l->out;
    if (!steno_pass_vector(g, m->in[side], n))
        return;
    l->mul = m;
    l->gamma = m->in[side];
    l->out = m->out[0];
    a = steno_pass_only_reader(g, l->out);
    if (!is(a, "Add"))
        return;
    side = a->in[0] == l->out;
    if (!steno_pass_vector(g, a->in[side], n))
        return;
    l->add = a;
    l->beta = a->in[side];
    l->out = a->out[0];
}

static bool match(struct steno_graph *g, struct steno_node *div, struct layernorm *l)
{
    memset(l, 0, sizeof *l);
    l->div = div;
    l->d = div->in[0];
    l->out = div->out[0];
    if (l->d == STENO_NONE || !match_root(g, l) || !match_mean(g, l))
        return false;
    match_affine(g, l);
    return l->gamma != STENO_NONE; /* the operator needs a scale */
}

steno_status steno_pass_layernorm(struct steno_graph *g, const struct steno_pass_env *env,
                                  int *changed, steno_err *err)
{
    (void)env;
    if (!steno_op_find("", "LayerNormalization", 17))
        return STENO_OK;
    for (int32_t i = 0, n = g->n_nodes; i < n; i++) {
        struct layernorm l;
        struct steno_node *y;
        if (g->nodes[i].dead || !is(&g->nodes[i], "Div") || !match(g, &g->nodes[i], &l))
            continue;
        l.mean->dead = l.sub->dead = l.square->dead = l.var->dead = l.add_eps->dead = true;
        l.root->dead = l.div->dead = l.mul->dead = true;
        if (l.add)
            l.add->dead = true;
        y = steno_pass_add_node(g, "", "LayerNormalization", 17, g->nodes[i].name, 3, 1, 2, err);
        if (!y)
            return STENO_ERR_NOMEM;
        steno_pass_set_int(g, y, 0, "axis", -1);
        steno_pass_set_float(g, y, 1, "epsilon", (float)l.eps);
        y->in[0] = l.x;
        y->in[1] = l.gamma;
        y->in[2] = l.beta;
        y->out[0] = l.out;
        ++*changed;
    }
    return STENO_OK;
}
