/* Before: MatMul(x, W constant) or Gemm, [+ bias] [Relu|Sigmoid|Tanh|Swish|Gelu|Clip] or [* scale]
 *         [+ residual]
 * After:  ai.steno:Linear(x, W, bias, residual; act, alpha, act_min, act_max) (nn/ops/op_fused.c)
 * Before: Transpose(MatMul(E constant, Transpose(x)))   (Whisper's logits: E the embeddings)
 * After:  ai.steno:Linear(x, E')
 * One change per call and node, and the pass repeats: MatMul becomes Linear, then takes in the next
 * node while that is its only reader. */
#include "nn/passes/passes.h"

#include <math.h>

static int64_t columns(const struct steno_graph *g, const struct steno_node *linear)
{
    return g->values[linear->in[1]].shape.dim[1];
}

/* Attributes have this order. */
static enum steno_activation act_of(const struct steno_node *l)
{
    return (enum steno_activation)l->attr[0].i;
}

static steno_status put_linear(struct steno_graph *g, const char *name, steno_value_id x,
                               steno_value_id w, steno_value_id bias, float alpha,
                               steno_value_id out, steno_err *err)
{
    return steno_pass_put(g, name,
                          STENO_NODE("ai.steno", "Linear", 1,
                                     .in = STENO_VALUES(x, w, bias, STENO_NONE),
                                     .out = STENO_VALUES(out), .attr = STENO_LINEAR_ATTRS(alpha)),
                          err);
}

/* Is MatMul m a constant times the rows of a transposed x, and is the product transposed back? */
static bool from_left(struct steno_graph *g, const struct steno_node *m, steno_value_id *x,
                      struct steno_node **after)
{
    const struct steno_tensor *e = g->values[m->in[0]].constant;
    const struct steno_node *t = steno_pass_swapped(g, m->in[1]);
    struct steno_node *r = steno_pass_only_reader(g, m->out[0]);
    if (!e || e->dtype != STENO_F32 || e->shape.rank != 2 || !steno_numel(e) || !t || !r ||
        steno_pass_swapped(g, r->out[0]) != r || g->values[t->in[0]].dtype != STENO_F32)
        return false;
    *x = t->in[0];
    *after = r;
    return true;
}

static steno_status from_matmul(struct steno_graph *g, const struct steno_pass_env *env,
                                struct steno_node *m, int *changed, steno_err *err)
{
    const struct steno_tensor *w = steno_pass_const(g, m, 1);
    steno_value_id x = m->in[0], wv = m->in[1], out = m->out[0];
    struct steno_node *after;
    if (from_left(g, m, &x, &after)) {
        steno_status st = steno_graph_transpose_const(g, m->in[0], &wv, err);
        if (st)
            return st;
        after->dead = true;
        out = after->out[0];
    } else if (!w || !w->data || w->dtype != STENO_F32 || w->shape.rank != 2 || !steno_numel(w) ||
               g->values[x].dtype != STENO_F32 || g->values[x].shape.rank < 2) {
        if (w)
            steno_pass_refuse(env, "linear", m,
                              "weights are %s of rank %d, activations %s of rank %d; f32 of rank 2 "
                              "and more are needed",
                              steno_dtype_name(w->dtype), w->shape.rank,
                              steno_dtype_name(g->values[x].dtype), g->values[x].shape.rank);
        return STENO_OK;
    }
    m->dead = true;
    ++*changed;
    return put_linear(g, m->name, x, wv, STENO_NONE, 1, out, err);
}

/* Gemm(x, W constant, C a constant vector or absent; beta 1, x as it is). */
static steno_status from_gemm(struct steno_graph *g, struct steno_node *m, int *changed,
                              steno_err *err)
{
    const struct steno_tensor *w = steno_pass_const(g, m, 1);
    steno_value_id x = m->in[0], wv = m->in[1], c = steno_node_in(m, 2);
    const bool transposed = steno_node_int(m, "transB", 0) != 0; /* the file has [N, K] */
    if (!w || !w->data || w->dtype != STENO_F32 || w->shape.rank != 2 || !steno_numel(w) ||
        g->values[x].dtype != STENO_F32 || g->values[x].shape.rank != 2 ||
        steno_node_int(m, "transA", 0))
        return STENO_OK;
    if (c != STENO_NONE && (!steno_pass_vector(g, c, w->shape.dim[!transposed]) ||
                            steno_node_float(m, "beta", 1) != 1))
        return STENO_OK;
    if (transposed && steno_graph_transpose_const(g, m->in[1], &wv, err))
        return STENO_ERR_NOMEM;
    m->dead = true;
    ++*changed;
    return put_linear(g, m->name, x, wv, c, steno_node_float(m, "alpha", 1), m->out[0], err);
}

/* Make the Linear write the output of `after`. */
static void absorb(struct steno_node *l, struct steno_node *after, int *changed)
{
    l->out[0] = after->out[0];
    after->dead = true;
    ++*changed;
}

static bool take_bias(struct steno_graph *g, struct steno_node *l, const struct steno_node *add)
{
    int side = add->in[0] == l->out[0];
    if (l->in[2] != STENO_NONE || l->in[3] != STENO_NONE || act_of(l) != STENO_ACT_NONE ||
        !steno_pass_vector(g, add->in[side], columns(g, l)))
        return false;
    l->in[2] = add->in[side];
    return true;
}

static bool take_residual(struct steno_graph *g, struct steno_node *l, const struct steno_node *add)
{
    steno_value_id r = add->in[add->in[0] == l->out[0]];
    if (l->in[3] != STENO_NONE || g->values[r].dtype != STENO_F32 ||
        !steno_pass_same_shape(g, r, l->out[0]))
        return false;
    l->in[3] = r;
    return true;
}

/* (alpha X W + bias) * c: both parts are scaled. */
static steno_status take_scale(struct steno_graph *g, struct steno_node *l,
                               const struct steno_node *mul, bool *took, steno_err *err)
{
    const struct steno_shape s = {.rank = 1, .dim = {columns(g, l)}};
    double c;
    *took = false;
    if (l->in[3] != STENO_NONE || act_of(l) != STENO_ACT_NONE ||
        !steno_pass_scalar(g, mul->in[mul->in[0] == l->out[0]], &c) ||
        !isnormal(l->attr[1].f * (float)c) || !steno_pass_same_shape(g, mul->out[0], l->out[0]))
        return STENO_OK;
    if (l->in[2] != STENO_NONE) {
        const float *old = g->values[l->in[2]].constant->data;
        float *scaled = steno_graph_new_const(g, "scaled_bias", STENO_F32, &s, &l->in[2], err);
        if (!scaled)
            return STENO_ERR_NOMEM;
        for (int64_t i = 0; i < s.dim[0]; i++)
            scaled[i] = old[i] * (float)c;
    }
    l->attr[1].f *= (float)c;
    *took = true;
    return STENO_OK;
}

static bool take_act(const struct steno_graph *g, struct steno_node *l, const struct steno_node *n)
{
    float p[2];
    enum steno_activation act = steno_pass_act(g, n, p);
    bool numbers = steno_pass_act_has_parameters(act);
    if (act == STENO_ACT_NONE || act_of(l) != STENO_ACT_NONE || l->in[3] != STENO_NONE ||
        (numbers && l->n_attr < 4))
        return false;
    l->attr[0].i = act;
    if (numbers) {
        l->attr[2].f = p[0];
        l->attr[3].f = p[1];
    }
    return true;
}

static steno_status grow_linear(struct steno_graph *g, struct steno_node *l, int *changed,
                                steno_err *err)
{
    struct steno_node *r = steno_pass_only_reader(g, l->out[0]);
    bool took = false;
    steno_status st = STENO_OK;
    if (!r || r->n_out != 1)
        return STENO_OK;
    if (steno_pass_is(r, "Add"))
        took = take_bias(g, l, r) || take_residual(g, l, r);
    else if (steno_pass_is(r, "Mul"))
        st = take_scale(g, l, r, &took, err);
    else
        took = take_act(g, l, r);
    if (took)
        absorb(l, r, changed);
    return st;
}

steno_status steno_pass_linear(struct steno_graph *g, const struct steno_pass_env *env,
                               struct steno_node *n, int *changed, steno_err *err)
{
    if (steno_pass_is(n, "MatMul"))
        return from_matmul(g, env, n, changed, err);
    if (steno_pass_is(n, "Gemm"))
        return from_gemm(g, n, changed, err);
    return steno_pass_is_ours(n, "Linear") ? grow_linear(g, n, changed, err) : STENO_OK;
}
