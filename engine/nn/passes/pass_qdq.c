/* Before: xd = DequantizeLinear(q, sx, zx) of 8 bits, one scale;
 *         wd = DequantizeLinear(W constant of 8 bits, sw by column or one, zw) [Transpose], or
 *         one sw and the Transpose before;
 *         y = MatMul|Gemm|Conv(xd, wd [, b])
 * After:  p = MatMulInteger|ConvInteger(q, W, zx, zw), y = Cast(p, f32) * (sx * sw) [+ b]
 * Before: y = MatMul(x of f32, wd), if activations may be quantized by rows
 * After:  q, sx, zx = DynamicQuantizeLinear(x), then the same. Embeddings of 8 bits that give the
 *         logits, too, are written so.
 *         (pass int8 makes IntLinear of the products.)
 * Before: x' = DequantizeLinear(QuantizeLinear(x)) by one scale, elsewhere; the same condition
 * After:  x. It stays where its range begins or ends at 0, as it may stand for a Relu there.
 * A product of 8-bit numbers is exact in 32 bits, so this rounds less than f32 does. The nodes
 * after it (a QuantizeLinear, say) stay. Runs before fold, which leaves such weights alone. */
#include "nn/passes/passes.h"

struct side {
    steno_value_id q, scale, zero; /* zero STENO_NONE: 0 */
};

struct found {
    struct side x, w;
    bool transposed; /* the weights are [N, K] */
    bool dynamic;    /* x is still to be quantized */
    int64_t n;       /* columns, or channels */
};

static const struct steno_node *dequantized(struct steno_graph *g, steno_value_id v, struct side *s)
{
    const struct steno_node *n = steno_pass_producer(g, v);
    if (!steno_pass_is(n, "DequantizeLinear") || n->n_in < 2 || g->values[v].dtype != STENO_F32 ||
        steno_node_int(n, "block_size", 0))
        return NULL;
    *s = (struct side){n->in[0], n->in[1], steno_node_in(n, 2)};
    return steno_dtype_is_byte(g->values[s->q].dtype) && g->values[s->scale].dtype == STENO_F32 &&
                   steno_pass_is_finite(g, s->scale)
               ? n
               : NULL;
}

static bool activations(struct steno_graph *g, steno_value_id v, struct side *s)
{
    return dequantized(g, v, s) && !g->values[s->q].constant &&
           steno_pass_one_element(g, s->scale) &&
           (s->zero == STENO_NONE || steno_pass_one_element(g, s->zero));
}

/* True if no sum of products leaves 32 bits; a difference to a zero point has 9 bits. */
static bool fits_32_bits(const struct steno_tensor *w, int along)
{
    int64_t rows = 1;
    for (int i = 0; i < w->shape.rank; i++)
        if (i != along && __builtin_mul_overflow(rows, w->shape.dim[i], &rows))
            return false;
    return rows <= INT32_MAX / (255 * 255);
}

/* Match the weights that v dequantizes: one scale, or one per entry of axis `along` of the
 * constant. */
static bool qdq_weights(struct steno_graph *g, steno_value_id v, int rank, int along,
                        struct found *f)
{
    const struct steno_node *n = steno_pass_producer(g, v);
    const struct steno_tensor *w, *z;
    int64_t axis, n_scales, n_zeros;
    f->transposed = false;
    if (rank == 2 && steno_pass_is(n, "Transpose") && g->values[n->in[0]].shape.rank == 2) {
        size_t count = 0;
        const int64_t *p = steno_node_ints(n, "perm", &count);
        f->transposed = !p || (count == 2 && p[0] == 1 && p[1] == 0);
        if (f->transposed)
            v = n->in[0];
    }
    n = dequantized(g, v, &f->w);
    if (n && rank == 2 && steno_pass_one_element(g, f->w.scale) && !g->values[f->w.q].constant) {
        const struct steno_node *t = steno_pass_producer(g, f->w.q); /* of the bytes */
        if (steno_pass_swaps_last_two(t, 2)) {
            f->transposed = !f->transposed;
            f->w.q = t->in[0];
        }
    }
    w = n ? g->values[f->w.q].constant : NULL;
    if (!w || !w->data || w->shape.rank < rank || (rank == 2 && w->shape.rank != 2))
        return false;
    along = f->transposed ? 1 - along : along;
    axis = steno_node_int(n, "axis", 1);
    axis += axis < 0 ? w->shape.rank : 0;
    f->n = w->shape.dim[along];
    z = f->w.zero == STENO_NONE ? NULL : g->values[f->w.zero].constant;
    n_scales =
        g->values[f->w.scale].constant ? (int64_t)steno_numel(g->values[f->w.scale].constant) : 0;
    n_zeros = z && z->data ? (int64_t)steno_numel(z) : 0;
    if ((f->w.zero != STENO_NONE && n_zeros != n_scales) || !fits_32_bits(w, along))
        return false;
    return n_scales == 1 ||
           (n_scales == f->n && axis == along && g->values[f->w.scale].shape.rank == 1);
}

/* ---- new nodes ---- */

static steno_value_id reshaped(struct steno_pass_writer *w, steno_value_id v, int rank,
                               const int64_t *dim)
{
    const steno_value_id target = steno_pass_new_ints(w, "target", rank, dim);
    return steno_pass_write_new(w, STENO_NODE("", "Reshape", 13, .in = STENO_VALUES(v, target)));
}

/* Return the zero point as a scalar; make one if there is none. */
static steno_value_id scalar_zero(struct steno_pass_writer *w, const struct side *s)
{
    static const uint8_t nothing = 0;
    if (w->st)
        return STENO_NONE;
    if (s->zero == STENO_NONE)
        return steno_pass_new_const(w, "zero", w->g->values[s->q].dtype, 0, NULL, &nothing);
    return w->g->values[s->zero].shape.rank == 0 ? s->zero : reshaped(w, s->zero, 0, NULL);
}

/* Return v of n numbers, if there is one, as [n, 1, ..., 1] with `ones` ones: axes after the
 * channels. A single number stays. */
static steno_value_id as_column(struct steno_pass_writer *w, steno_value_id v, int64_t n, int ones)
{
    int64_t dims[STENO_MAX_RANK] = {n};
    for (int i = 1; i <= ones; i++)
        dims[i] = 1;
    return v == STENO_NONE || !ones || steno_pass_one_element(w->g, v)
               ? v
               : reshaped(w, v, ones + 1, dims);
}

/* The one zero point of all channels, or NULL: ONNX Runtime's ConvInteger takes no others. */
static const uint8_t *one_zero(const struct steno_graph *g, const struct side *s)
{
    const struct steno_tensor *z = g->values[s->zero].constant;
    const uint8_t *b = z ? z->data : NULL;
    for (size_t i = 1; b && i < steno_numel(z); i++)
        if (b[i] != b[0])
            return NULL;
    return b;
}

/* Quantize x by rows. */
static void quantize(struct steno_pass_writer *w, steno_value_id x, struct side *s)
{
    s->q = steno_pass_new_value(w);
    s->scale = steno_pass_new_value(w);
    s->zero = steno_pass_new_value(w);
    steno_pass_write(w, STENO_NODE("", "DynamicQuantizeLinear", 11, .in = STENO_VALUES(x),
                                   .out = STENO_VALUES(s->q, s->scale, s->zero)));
}

static steno_status build_qdq(struct steno_graph *g, struct steno_node *n, struct found *f,
                              steno_err *err)
{
    const struct steno_node old = *n; /* the array may move */
    const bool conv = steno_pass_is(n, "Conv");
    struct steno_pass_writer w = {g, n->name, err, STENO_OK};
    const int ones = conv ? g->values[f->w.q].shape.rank - 2 : 0;
    steno_value_id weights = f->w.q, w_zero = f->w.zero, zero, scale, bias, p;
    n->dead = true;
    if (f->dynamic)
        quantize(&w, old.in[0], &f->x);
    if (conv && w_zero != STENO_NONE)
        w_zero =
            steno_pass_new_const(&w, "zero", g->values[w_zero].dtype, 0, NULL, one_zero(g, &f->w));
    if (f->transposed && !w.st) /* [N, K] as [K, N] */
        w.st = steno_graph_transpose_const(g, f->w.q, &weights, err);
    zero = scalar_zero(&w, &f->x);
    p = steno_pass_write_new(&w, STENO_NODE("", conv ? "ConvInteger" : "MatMulInteger", 10,
                                            .in = STENO_VALUES(f->x.q, weights, zero, w_zero),
                                            .attrs_of = conv ? &old : NULL));
    scale = as_column(&w, f->w.scale, f->n, ones);
    bias = as_column(&w, steno_node_in(&old, 2), f->n, ones);
    steno_pass_write_scaled(&w, p, f->x.scale, scale, bias, old.out[0]);
    return w.st;
}

static bool match_qdq(struct steno_graph *g, const struct steno_pass_env *env,
                      const struct steno_node *n, struct found *f)
{
    bool gemm = steno_pass_is(n, "Gemm"), conv = steno_pass_is(n, "Conv");
    int rank = n->n_in > 1 && n->in[0] != STENO_NONE ? g->values[n->in[0]].shape.rank : -1;
    if (n->dead || (!gemm && !conv && !steno_pass_is(n, "MatMul")) || rank < (conv ? 3 : 2) ||
        n->in[1] == STENO_NONE)
        return false;
    f->dynamic = false;
    if (!activations(g, n->in[0], &f->x)) {
        f->dynamic = true;
        return env->rows_in_8_bits && !gemm && !conv && g->values[n->in[0]].dtype == STENO_F32 &&
               !g->values[n->in[0]].constant && qdq_weights(g, n->in[1], 2, 1, f);
    }
    if (!qdq_weights(g, n->in[1], conv ? 3 : 2, conv || steno_node_int(n, "transB", 0) ? 0 : 1,
                     f)) {
        steno_pass_refuse(env, "qdq", n,
                          "its weights are not 8-bit constants with one scale, or one per "
                          "column");
        return false;
    }
    if (conv)
        return (f->w.zero == STENO_NONE || one_zero(g, &f->w)) &&
               steno_node_int(n, "group", 1) == 1 && rank <= 4;
    if (gemm) {
        if (steno_node_int(n, "transA", 0) || steno_node_float(n, "alpha", 1) != 1 ||
            (steno_node_in(n, 2) != STENO_NONE && steno_node_float(n, "beta", 1) != 1)) {
            steno_pass_refuse(env, "qdq", n, "the Gemm scales, or transposes its activations");
            return false;
        }
        f->transposed = f->transposed != (steno_node_int(n, "transB", 0) != 0);
    }
    return true;
}

/* ---- activations that are rounded between products ---- */

static bool same_number(const struct steno_graph *g, steno_value_id a, steno_value_id b)
{
    double x, y;
    return a == b || (a != STENO_NONE && b != STENO_NONE && steno_pass_scalar(g, a, &x) &&
                      steno_pass_scalar(g, b, &y) && x == y);
}

/* True if rounding to bytes with this zero point also cuts off what is below (or above) 0: it may
 * stand for a Relu that the quantizer left out. */
static bool cuts_at_zero(const struct steno_graph *g, const struct side *s)
{
    const steno_dtype t = g->values[s->q].dtype;
    double zero = 0;
    if (s->zero != STENO_NONE && !steno_pass_scalar(g, s->zero, &zero))
        return true;
    return zero == (t == STENO_I8 ? -128 : 0) || zero == (t == STENO_I8 ? 127 : 255);
}

/* The value that d's bytes were made of, rounded by the same scale and zero point; STENO_NONE:
 * there is none. */
static steno_value_id before_rounding(struct steno_graph *g, const struct steno_node *d)
{
    const struct steno_node *q;
    struct side s;
    if (d->dead || !steno_pass_is(d, "DequantizeLinear") || !activations(g, d->out[0], &s))
        return STENO_NONE;
    q = steno_pass_producer(g, s.q);
    if (!steno_pass_is(q, "QuantizeLinear") || g->values[q->in[0]].dtype != STENO_F32 ||
        !same_number(g, q->in[1], s.scale) ||
        (steno_node_in(q, 2) != s.zero && !same_number(g, steno_node_in(q, 2), s.zero)) ||
        (cuts_at_zero(g, &s) && !steno_pass_is(steno_pass_producer(g, q->in[0]), "Softmax")))
        return STENO_NONE;
    return q->in[0];
}

static void leave_unrounded(struct steno_graph *g, int *changed)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const steno_value_id x = before_rounding(g, &g->nodes[i]);
        if (x != STENO_NONE && steno_pass_replace(g, g->nodes[i].out[0], x))
            ++*changed;
    }
}

bool steno_pass_qdq_weights(struct steno_graph *g, const struct steno_node *n)
{
    const struct steno_node *r;
    struct found f;
    if (!steno_pass_is(n, "DequantizeLinear"))
        return false;
    r = steno_pass_only_reader(g, n->out[0]);
    if (steno_pass_is(r, "Transpose"))
        r = steno_pass_only_reader(g, r->out[0]);
    return r && match_qdq(g, &(struct steno_pass_env){.arg = NULL}, r, &f);
}

steno_status steno_pass_qdq(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                            steno_err *err)
{
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct found f;
        if (!match_qdq(g, env, &g->nodes[i], &f))
            continue;
        if (build_qdq(g, &g->nodes[i], &f, err))
            return STENO_ERR_NOMEM;
        ++*changed;
    }
    if (env->rows_in_8_bits)
        leave_unrounded(g, changed);
    return STENO_OK;
}
