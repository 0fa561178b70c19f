/* Before: a, b = Split(x) in two equal parts of the last axis, y = Mul(a, Sigmoid(b))
 * After:  y = ai.steno:Glu(x)      (nn/ops/op_fused.c)
 * Before: a = Slice(x, first half), b = Slice(x, second half) of the last axis,
 *         y = Mul(a, Sigmoid(b))
 * After:  y = ai.steno:Glu(x)
 * Before: Swish (SwiGLU), Gelu (GeGLU) or Relu in place of Sigmoid, of either half
 * After:  y = ai.steno:Glu(x; act, first)
 * Before: the same along axis 1 of Transpose(x; 0,2,1)
 * After:  y = Transpose(ai.steno:Glu(x); 0,2,1) */
#include "nn/passes/passes.h"

#include "nn/kernels/kernels.h"

/* True if s splits axis `at` into two equal parts of known extent. */
static bool halves(const struct steno_graph *g, const struct steno_node *s, int at)
{
    const struct steno_shape *x = &g->values[s->in[0]].shape, *a, *b;
    int64_t axis = steno_node_int(s, "axis", 0);
    at = at < 0 ? at + x->rank : at;
    if (s->n_out != 2 || s->out[0] == STENO_NONE || s->out[1] == STENO_NONE || at < 0 ||
        x->rank <= at || (axis != at - x->rank && axis != at) ||
        g->values[s->in[0]].dtype != STENO_F32)
        return false;
    a = &g->values[s->out[0]].shape;
    b = &g->values[s->out[1]].shape;
    return a->rank == x->rank && b->rank == x->rank && a->dim[at] > 0 && a->dim[at] == b->dim[at] &&
           x->dim[at] == 2 * a->dim[at];
}

struct gate {
    struct steno_node *source; /* Split, or the Slice of the first half */
    struct steno_node *other;  /* the other Slice, or NULL */
    struct steno_node *act;
    enum steno_activation kind;
    bool first; /* the first half goes through the activation */
};

/* Return the activation that writes v for this product alone; STENO_ACT_NONE for others. *n: its
 * node. */
static enum steno_activation gates(struct steno_graph *g, steno_value_id v, struct steno_node **n)
{
    enum steno_activation act;
    float p[2];
    *n = steno_pass_producer(g, v);
    if (!*n || !steno_pass_read_once(g, v))
        return STENO_ACT_NONE;
    act = steno_pass_act(g, *n, p);
    return act == STENO_ACT_SIGMOID || act == STENO_ACT_RELU || act == STENO_ACT_SILU ||
                   act == STENO_ACT_GELU
               ? act
               : STENO_ACT_NONE;
}

static bool match_glu(struct steno_graph *g, const struct steno_node *mul, struct gate *m)
{
    for (int k = 0; k < 2; k++) {
        struct steno_node *split;
        m->kind = gates(g, mul->in[k], &m->act);
        split = m->kind ? steno_pass_only_use(g, m->act->in[0], "Split") : NULL;
        if (!split || split != steno_pass_only_use(g, mul->in[1 - k], "Split") ||
            m->act->in[0] == mul->in[1 - k] ||
            !(halves(g, split, -1) || (steno_pass_swapped(g, split->in[0]) && halves(g, split, 1))))
            continue;
        m->first = m->act->in[0] == split->out[0];
        m->source = split;
        m->other = NULL;
        return true;
    }
    return false;
}

/* True for Slice [from, from + n) of the last axis of x, which has 2 n elements, read only once. */
static bool is_half(const struct steno_graph *g, const struct steno_node *n, bool second)
{
    const struct steno_shape *x = &g->values[n->in[0]].shape;
    struct steno_pass_cut c;
    double half;
    if (x->rank < 1 || x->dim[x->rank - 1] < 2 || x->dim[x->rank - 1] % 2 ||
        g->values[n->in[0]].dtype != STENO_F32 || !steno_pass_cut_of(g, n, &c))
        return false;
    half = (double)(x->dim[x->rank - 1] / 2);
    return (c.axis == -1 || c.axis == x->rank - 1) &&
           (second ? c.start == half && c.end >= 2 * half : c.start == 0 && c.end == half);
}

/* Match a product of two slices, one of them through an activation. */
static bool match_slices(struct steno_graph *g, const struct steno_node *mul, struct gate *m)
{
    for (int k = 0; k < 2; k++) {
        struct steno_node *gated, *plain;
        m->kind = gates(g, mul->in[k], &m->act);
        gated = m->kind ? steno_pass_only_use(g, m->act->in[0], "Slice") : NULL;
        plain = gated ? steno_pass_only_use(g, mul->in[1 - k], "Slice") : NULL;
        if (!plain || plain->in[0] != gated->in[0])
            continue;
        m->first = is_half(g, gated, false) && is_half(g, plain, true);
        if (!m->first && !(is_half(g, plain, false) && is_half(g, gated, true)))
            continue;
        m->source = gated;
        m->other = plain;
        return true;
    }
    return false;
}

steno_status steno_pass_glu(struct steno_graph *g, const struct steno_pass_env *env,
                            struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_pass_writer w = {g, n->name, err, STENO_OK};
    const struct steno_node *swap = NULL;
    const steno_value_id out = n->out[0];
    steno_value_id x, y = out;
    struct gate m;
    (void)env;
    if (!steno_pass_is(n, "Mul") || n->n_in != 2 ||
        (!match_glu(g, n, &m) && !match_slices(g, n, &m)))
        return STENO_OK;
    x = m.source->in[0];
    if (steno_pass_is(m.source, "Split") && !halves(g, m.source, -1))
        swap = steno_pass_swapped(g, x);
    n->dead = m.source->dead = m.act->dead = true;
    if (m.other)
        m.other->dead = true;
    if (swap) {
        x = swap->in[0];
        y = steno_pass_new_value(&w);
        steno_pass_write_swapped(&w, y, out);
    }
    steno_pass_write(
        &w, STENO_NODE("ai.steno", "Glu", 1, .in = STENO_VALUES(x), .out = STENO_VALUES(y),
                       .attr = {(const struct steno_attr[]){STENO_INT_ATTR("act", m.kind),
                                                            STENO_INT_ATTR("first", m.first)},
                                m.kind == STENO_ACT_SIGMOID && !m.first ? 0 : 2}));
    ++*changed;
    return w.st;
}
