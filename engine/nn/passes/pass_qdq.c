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

#include <string.h>

struct side {
    steno_value_id q, scale, zero; /* zero STENO_NONE: 0 */
};

struct found {
    struct side x, w;
    bool transposed; /* the weights are [N, K] */
    bool dynamic;    /* x is still to be quantized */
    int64_t n;       /* columns, or channels */
};

static steno_value_id qdq_input(const struct steno_node *n, int i)
{
    return i < n->n_in ? n->in[i] : STENO_NONE;
}

static bool is_byte(steno_dtype t)
{
    return t == STENO_U8 || t == STENO_I8;
}

static bool single(const struct steno_graph *g, steno_value_id v)
{
    const struct steno_shape *s = &g->values[v].shape;
    return s->rank == 0 || (s->rank == 1 && s->dim[0] == 1);
}

static const struct steno_node *dequantized(struct steno_graph *g, steno_value_id v, struct side *s)
{
    const struct steno_node *n = steno_pass_producer(g, v);
    if (!steno_pass_is(n, "DequantizeLinear") || n->n_in < 2 || g->values[v].dtype != STENO_F32 ||
        steno_node_int(n, "block_size", 0))
        return NULL;
    *s = (struct side){n->in[0], n->in[1], qdq_input(n, 2)};
    return is_byte(g->values[s->q].dtype) && g->values[s->scale].dtype == STENO_F32 &&
                   steno_pass_is_finite(g, s->scale)
               ? n
               : NULL;
}

static bool activations(struct steno_graph *g, steno_value_id v, struct side *s)
{
    return dequantized(g, v, s) && !g->values[s->q].constant && single(g, s->scale) &&
           (s->zero == STENO_NONE || single(g, s->zero));
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
    if (n && rank == 2 && single(g, f->w.scale) && !g->values[f->w.q].constant) {
        const struct steno_node *t = steno_pass_producer(g, f->w.q); /* of the bytes */
        size_t count = 0;
        const int64_t *p =
            steno_pass_is(t, "Transpose") ? steno_node_ints(t, "perm", &count) : NULL;
        if (count == 2 && p[0] == 1 && p[1] == 0) {
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

struct made {
    struct steno_graph *g;
    const char *name;
    steno_err *err;
};

/* STENO_NONE: err is set. */
static steno_value_id add_qdq(struct made *m, const char *type, int opset, const steno_value_id *in,
                              int n_in, int n_attr, steno_value_id out)
{
    struct steno_node *n =
        steno_pass_add_node(m->g, "", type, opset, m->name, n_in, 1, n_attr, m->err);
    if (!n || (out == STENO_NONE && steno_graph_add_value(m->g, m->name, &out, m->err)))
        return STENO_NONE;
    n = &m->g->nodes[m->g->n_nodes - 1];
    memcpy(n->in, in, (size_t)n_in * sizeof *in);
    n->out[0] = out;
    return out;
}

static steno_value_id qdq_constant(struct made *m, steno_dtype t, int rank, const int64_t *dims,
                                   const void *data)
{
    struct steno_tensor c = {.dtype = t, .shape = {.rank = rank}};
    steno_value_id v;
    for (int i = 0; i < rank; i++)
        c.shape.dim[i] = dims[i];
    c.data = (void *)(uintptr_t)data; /* copied */
    return steno_graph_add_const(m->g, m->name, &c, false, &v, m->err) ? STENO_NONE : v;
}

/* W [N, K] as [K, N]. */
static steno_value_id transposed(struct made *m, steno_value_id w)
{
    steno_value_id v;
    return steno_graph_transpose_const(m->g, w, &v, m->err) ? STENO_NONE : v;
}

/* Return the zero point as a scalar; make one if there is none. */
static steno_value_id scalar_zero(struct made *m, const struct side *s)
{
    static const uint8_t nothing = 0;
    steno_value_id in[2] = {s->zero, STENO_NONE};
    int64_t none = 0;
    if (s->zero == STENO_NONE)
        return qdq_constant(m, m->g->values[s->q].dtype, 0, NULL, &nothing);
    if (m->g->values[s->zero].shape.rank == 0)
        return s->zero;
    in[1] = qdq_constant(m, STENO_I64, 1, &(int64_t){0}, &none);
    return in[1] == STENO_NONE ? in[1] : add_qdq(m, "Reshape", 13, in, 2, 0, STENO_NONE);
}

/* Return v of n numbers as [n, 1, ..., 1] with `ones` ones; a single number stays. */
static steno_value_id as_column(struct made *m, steno_value_id v, int64_t n, int ones)
{
    int64_t dims[STENO_MAX_RANK] = {n}, count = ones + 1;
    steno_value_id in[2] = {v, STENO_NONE};
    if (!ones || single(m->g, v))
        return v;
    for (int i = 1; i <= ones; i++)
        dims[i] = 1;
    in[1] = qdq_constant(m, STENO_I64, 1, &count, dims);
    return in[1] == STENO_NONE ? in[1] : add_qdq(m, "Reshape", 13, in, 2, 0, STENO_NONE);
}

/* Append y = f32(p) * (sx * sw) [+ b] after the product; ones: axes after the channels. */
static steno_status scaled(struct made *m, const struct found *f, steno_value_id p,
                           steno_value_id b, int ones, steno_value_id y)
{
    steno_value_id s[2], c, v = add_qdq(m, "Cast", 13, &p, 1, 1, STENO_NONE);
    if (v == STENO_NONE)
        return STENO_ERR_NOMEM;
    steno_pass_set_int(m->g, &m->g->nodes[m->g->n_nodes - 1], 0, "to", STENO_F32);
    s[0] = f->x.scale;
    s[1] = as_column(m, f->w.scale, f->n, ones);
    c = s[1] == STENO_NONE ? s[1] : add_qdq(m, "Mul", 13, s, 2, 0, STENO_NONE);
    if (c == STENO_NONE)
        return STENO_ERR_NOMEM;
    s[0] = v;
    s[1] = c;
    v = add_qdq(m, "Mul", 13, s, 2, 0, b == STENO_NONE ? y : STENO_NONE);
    if (v == STENO_NONE || b == STENO_NONE)
        return v == STENO_NONE ? STENO_ERR_NOMEM : STENO_OK;
    s[0] = v;
    s[1] = as_column(m, b, f->n, ones);
    return s[1] == STENO_NONE || add_qdq(m, "Add", 13, s, 2, 0, y) == STENO_NONE ? STENO_ERR_NOMEM
                                                                                 : STENO_OK;
}

/* Return the one zero point of all channels: ONNX Runtime's ConvInteger takes no others.
 * STENO_NONE: no zero point, or different ones (*differ). */
static steno_value_id one_zero(struct made *m, const struct side *s, bool *differ, bool make)
{
    const struct steno_tensor *z = s->zero == STENO_NONE ? NULL : m->g->values[s->zero].constant;
    const uint8_t *b = z ? z->data : NULL;
    *differ = false;
    for (size_t i = 1; b && i < steno_numel(z); i++)
        *differ = *differ || b[i] != b[0];
    return b && !*differ && make ? qdq_constant(m, z->dtype, 0, NULL, b) : STENO_NONE;
}

static steno_status quantize(struct steno_graph *g, const char *name, steno_value_id x,
                             struct side *s, steno_err *err)
{
    struct steno_node *n =
        steno_pass_add_node(g, "", "DynamicQuantizeLinear", 11, name, 1, 3, 0, err);
    steno_status st = n ? STENO_OK : STENO_ERR_NOMEM;
    for (int i = 0; i < 3 && !st; i++)
        st = steno_graph_add_value(g, name, &g->nodes[g->n_nodes - 1].out[i], err);
    if (st)
        return st;
    n = &g->nodes[g->n_nodes - 1];
    n->in[0] = x;
    *s = (struct side){n->out[0], n->out[1], n->out[2]};
    return STENO_OK;
}

static steno_status build_qdq(struct steno_graph *g, int32_t at, struct found *f, steno_err *err)
{
    const struct steno_node n = g->nodes[at];
    bool conv = !strcmp(n.op_type, "Conv");
    struct made m = {g, n.name, err};
    steno_value_id in[4] = {f->x.q, f->w.q, STENO_NONE, f->w.zero}, p;
    int ones = conv ? g->values[f->w.q].shape.rank - 2 : 0;
    bool differ;
    if (f->dynamic) {
        if (quantize(g, n.name, n.in[0], &f->x, err))
            return STENO_ERR_NOMEM;
        in[0] = f->x.q;
    }
    if (conv && f->w.zero != STENO_NONE &&
        (in[3] = one_zero(&m, &f->w, &differ, true)) == STENO_NONE)
        return STENO_ERR_NOMEM;
    if (f->transposed && (in[1] = transposed(&m, f->w.q)) == STENO_NONE)
        return STENO_ERR_NOMEM;
    in[2] = scalar_zero(&m, &f->x);
    p = in[2] == STENO_NONE ? STENO_NONE
                            : add_qdq(&m, conv ? "ConvInteger" : "MatMulInteger", 10, in, 4,
                                      conv ? n.n_attr : 0, STENO_NONE);
    if (p == STENO_NONE)
        return STENO_ERR_NOMEM;
    if (conv && n.n_attr)
        memcpy(g->nodes[g->n_nodes - 1].attr, n.attr, (size_t)n.n_attr * sizeof *n.attr);
    g->nodes[at].dead = true;
    return scaled(&m, f, p, qdq_input(&n, 2), ones, n.out[0]);
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
    if (conv) {
        struct made m = {g, n->name, NULL};
        bool differ;
        (void)one_zero(&m, &f->w, &differ, false);
        return !differ && steno_node_int(n, "group", 1) == 1 && rank <= 4;
    }
    if (gemm) {
        if (steno_node_int(n, "transA", 0) || steno_node_float(n, "alpha", 1) != 1 ||
            (qdq_input(n, 2) != STENO_NONE && steno_node_float(n, "beta", 1) != 1)) {
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
        (qdq_input(q, 2) != s.zero && !same_number(g, qdq_input(q, 2), s.zero)) ||
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
        steno_status st;
        if (!match_qdq(g, env, &g->nodes[i], &f))
            continue;
        st = build_qdq(g, i, &f, err);
        if (st)
            return st;
        ++*changed;
    }
    if (env->rows_in_8_bits)
        leave_unrounded(g, changed);
    return STENO_OK;
}
