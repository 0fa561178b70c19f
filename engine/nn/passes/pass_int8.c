/* Before: a = MatMulInteger(q, W constant, q_zero, W_zero), c = Cast(a, f32),
 *         y = Mul(c, Mul(q_scale, W_scale)) [+ bias of the last axis]; or one constant for both
 *         scales
 * After:  y = ai.steno:IntLinear(q, W, q_zero, W_zero, q_scale, W_scale, bias)
 * The weights are packed once (nn/ops/op_fused_int8.c). The same operations run in the same order,
 * so the results have the same bits.
 *
 * Before: the same, q, q_scale, q_zero = DynamicQuantizeLinear(x), in a network opened in any
 *         precision but f32
 * After:  y = ai.steno:Linear(x, W, bias, -, W_scale, W_zero)
 * Each row of x is quantized over a range of its own, which is more accurate than one range for all
 * (nn/ops/op_fused.c). Passes linear, qkv and absorb treat the node as in f32 graphs. An IntLinear
 * from the file (`steno optimize`) becomes the same. */
#include "nn/passes/passes.h"

enum { MIN_K = 16 }; /* as in nn/ops/weights.c */

struct found {
    struct steno_node *product, *cast, *mul, *add;
    steno_value_id q_scale, w_scale, bias, out;
    steno_value_id x; /* the value that was quantized */
};

static bool one_element(const struct steno_graph *g, steno_value_id v)
{
    return g->values[v].dtype == STENO_F32 && steno_pass_one_element(g, v);
}

static bool weight_scale(const struct steno_graph *g, steno_value_id v, int64_t n)
{
    return g->values[v].constant && (one_element(g, v) || steno_pass_vector(g, v, n));
}

static bool match_scales(struct steno_graph *g, struct found *f, steno_value_id v, int64_t n)
{
    /* Read twice if the scales are equal. */
    const struct steno_node *scales = steno_pass_producer(g, v);
    if (weight_scale(g, v, n)) { /* a range known at load: one constant holds both scales */
        f->q_scale = STENO_NONE;
        f->w_scale = v;
        return true;
    }
    for (int k = 0; steno_pass_is(scales, "Mul") && k < 2; k++)
        if (one_element(g, scales->in[k]) && weight_scale(g, scales->in[1 - k], n)) {
            f->q_scale = scales->in[k];
            f->w_scale = scales->in[1 - k];
            return true;
        }
    return false;
}

static bool int8_weights(const struct steno_graph *g, const struct steno_node *n)
{
    const struct steno_tensor *w = steno_pass_const(g, n, 1), *z = steno_pass_const(g, n, 3);
    if (!w || !w->data || w->shape.rank != 2 || !steno_numel(w) || n->n_in < 3 ||
        g->values[n->in[0]].shape.rank < 2 || !steno_dtype_is_byte(w->dtype) ||
        n->in[2] == STENO_NONE || g->values[n->in[2]].shape.rank != 0)
        return false;
    if (steno_node_in(n, 3) == STENO_NONE)
        return true;
    return z && z->data && z->dtype == w->dtype && z->shape.rank <= 1 &&
           (steno_numel(z) == 1 || (int64_t)steno_numel(z) == w->shape.dim[1]);
}

static bool match_int8(struct steno_graph *g, struct steno_node *n, struct found *f)
{
    int64_t cols;
    if (!steno_pass_is(n, "MatMulInteger") || !int8_weights(g, n))
        return false;
    cols = g->values[n->in[1]].shape.dim[1];
    f->product = n;
    f->cast = steno_pass_only_reader(g, n->out[0]);
    if (!steno_pass_is(f->cast, "Cast") || steno_node_int(f->cast, "to", 0) != STENO_F32)
        return false;
    f->mul = steno_pass_only_reader(g, f->cast->out[0]);
    if (!steno_pass_is(f->mul, "Mul") ||
        !match_scales(g, f, f->mul->in[f->mul->in[0] == f->cast->out[0]], cols))
        return false;
    f->out = f->mul->out[0];
    f->bias = STENO_NONE;
    f->add = steno_pass_only_reader(g, f->out);
    if (steno_pass_is(f->add, "Add") &&
        steno_pass_vector(g, f->add->in[f->add->in[0] == f->out], cols)) {
        f->bias = f->add->in[f->add->in[0] == f->out];
        f->out = f->add->out[0];
    } else {
        f->add = NULL;
    }
    return true;
}

/* True if only such products read the quantized activation, and sums are long enough for a range
 * per row. */
static bool int8_rows_of(struct steno_graph *g, struct found *f)
{
    const struct steno_node *n = f->product, *q = steno_pass_producer(g, n->in[0]);
    if (!steno_pass_is(q, "DynamicQuantizeLinear") || n->in[0] != q->out[0] ||
        f->q_scale != q->out[1] || n->in[2] != q->out[2] ||
        g->values[n->in[1]].shape.dim[0] < MIN_K)
        return false;
    f->x = q->in[0];
    return g->values[f->x].dtype == STENO_F32;
}

static steno_status rows(struct steno_graph *g, const struct found *f, steno_err *err)
{
    return steno_pass_put(
        g, f->product->name,
        STENO_NODE("ai.steno", "Linear", 1,
                   .in = STENO_VALUES(f->x, f->product->in[1], f->bias, STENO_NONE, f->w_scale,
                                      steno_node_in(f->product, 3)),
                   .out = STENO_VALUES(f->out), .attr = STENO_LINEAR_ATTRS(1)),
        err);
}

static steno_status exact(struct steno_graph *g, const struct found *f, steno_err *err)
{
    const struct steno_node *n = f->product;
    return steno_pass_put(
        g, n->name,
        STENO_NODE("ai.steno", "IntLinear", 1,
                   .in = STENO_VALUES(n->in[0], n->in[1], n->in[2], steno_node_in(n, 3), f->q_scale,
                                      f->w_scale, f->bias),
                   .out = STENO_VALUES(f->out)),
        err);
}

/* Match an IntLinear from the file. */
static bool match_ours(const struct steno_graph *g, struct steno_node *n, struct found *f)
{
    if (!steno_pass_is_ours(n, "IntLinear") || n->n_in < 6 || !int8_weights(g, n) ||
        !weight_scale(g, n->in[5], g->values[n->in[1]].shape.dim[1]))
        return false;
    f->product = n;
    f->q_scale = n->in[4];
    f->w_scale = n->in[5];
    f->bias = steno_node_in(n, 6);
    f->out = n->out[0];
    return f->bias == STENO_NONE || steno_pass_vector(g, f->bias, g->values[n->in[1]].shape.dim[1]);
}

static steno_status ours_by_rows(struct steno_graph *g, int *changed, steno_err *err)
{
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct found f = {0};
        if (g->nodes[i].dead || !match_ours(g, &g->nodes[i], &f) || !int8_rows_of(g, &f))
            continue;
        f.product->dead = true;
        if (rows(g, &f, err))
            return STENO_ERR_NOMEM;
        ++*changed;
    }
    return STENO_OK;
}

steno_status steno_pass_int8(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                             steno_err *err)
{
    float unit = 1;
    const struct steno_tensor one = {.dtype = STENO_F32, .shape = {.rank = 0}, .data = &unit};
    steno_value_id shared = STENO_NONE;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct found f = {0};
        steno_status st;
        if (g->nodes[i].dead || !steno_pass_is(&g->nodes[i], "MatMulInteger"))
            continue;
        if (!match_int8(g, &g->nodes[i], &f)) {
            steno_pass_refuse(env, "int8", &g->nodes[i], "%s",
                              !int8_weights(g, &g->nodes[i])
                                  ? "weights or zero points are not constant, of rank 2, or the "
                                    "activation's zero point is not one number"
                              : !steno_pass_is(f.cast, "Cast")
                                  ? "the sums are not cast to f32 at once"
                                  : "no product of two scales follows");
            continue;
        }
        if (f.q_scale == STENO_NONE && shared == STENO_NONE &&
            steno_graph_add_const(g, "one", &one, false, &shared, err))
            return STENO_ERR_NOMEM;
        f.q_scale = f.q_scale == STENO_NONE ? shared : f.q_scale; /* the same, for pass qkv */
        f.product->dead = f.cast->dead = f.mul->dead = true;
        if (f.add)
            f.add->dead = true;
        st = env->rows_in_8_bits && int8_rows_of(g, &f) ? rows(g, &f, err) : exact(g, &f, err);
        if (st)
            return st;
        ++*changed;
    }
    return env->rows_in_8_bits ? ours_by_rows(g, changed, err) : STENO_OK;
}
