/* FlexAttention (ai.onnx.preview 1): attention whose scores and probabilities may be changed by a
 * body graph each. The bodies see whole tensors, so the scores are written to memory; there is no
 * fused form. f16 and bf16 are computed in f32. The bodies get the type of softmax_precision. */
#include "nn/ops/internal.h"
#include "nn/rare_ops/families.h"

#include <math.h>

static steno_dtype precision_of(const struct steno_node *n, steno_dtype t)
{
    return (steno_dtype)steno_node_int(n, "softmax_precision",
                                       t == STENO_F64 ? STENO_F64 : STENO_F32);
}

static steno_status prepare_flex(struct steno_prepare *pc, void **priv, steno_err *err)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const char *const names[] = {"score_mod", "prob_mod"};
    (void)priv;
    for (int i = 0; i < 2; i++) {
        const struct steno_graph *g = steno_node_graph(n, names[i]);
        if (g && (g->n_inputs != 1 || g->n_outputs != 1))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "node '%s': %s has %d inputs and %d outputs, expected one of each",
                              n->name, names[i], g->n_inputs, g->n_outputs);
    }
    return STENO_OK;
}

/* NULL: the shapes fit; dims may be unknown. */
static const char *misfit(const struct steno_shape *q, const struct steno_shape *k,
                          const struct steno_shape *v)
{
    if (q->rank != 4 || k->rank != 4 || v->rank != 4)
        return "Q, K and V must have rank 4";
    for (int i = 0; i < 3; i++)
        if (k->dim[i] >= 0 && v->dim[i] >= 0 && k->dim[i] != v->dim[i])
            return "K and V differ in batch, heads or length";
    if (q->dim[0] >= 0 && k->dim[0] >= 0 && q->dim[0] != k->dim[0])
        return "Q and K differ in batch";
    if (q->dim[3] >= 0 && k->dim[3] >= 0 && q->dim[3] != k->dim[3])
        return "Q and K differ in head size";
    if (q->dim[1] >= 0 && k->dim[1] >= 0 && q->dim[1] && (!k->dim[1] || q->dim[1] % k->dim[1]))
        return "the heads of Q are not a multiple of those of K";
    return NULL;
}

static steno_status infer_flex(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    const struct steno_shape q = steno_infer_shape(ic, 0), k = steno_infer_shape(ic, 1),
                             v = steno_infer_shape(ic, 2);
    const steno_dtype t = steno_infer_dtype(ic, 0), p = precision_of(n, t);
    struct steno_shape y = q, s = q;
    const char *wrong;
    steno_status st = STENO_OK;
    if (q.rank < 0 || k.rank < 0 || v.rank < 0) {
        y.rank = s.rank = STENO_RANK_ANY;
    } else {
        wrong = misfit(&q, &k, &v);
        if (wrong)
            return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
        y.dim[3] = v.dim[3];
        s.dim[3] = k.dim[2];
    }
    if (steno_node_graph(n, "score_mod"))
        st = steno_infer_subgraph(ic, steno_node_graph(n, "score_mod"), &p, &s, 1, err);
    if (!st && steno_node_graph(n, "prob_mod"))
        st = steno_infer_subgraph(ic, steno_node_graph(n, "prob_mod"), &p, &s, 1, err);
    if (!st)
        steno_infer_set(ic, 0, t, &y);
    return st;
}

struct flex {
    size_t batch, heads, group, rows, keys, size, v_size;
    double scale;
};

/* Scores [batch, heads, rows, keys] of f64 or f32 elements Q and K, and Y of probabilities and V,
 * in the same type. */
#define PRODUCTS(T, NAME)                                                                          \
    static void scores_##NAME(const struct flex *f, const T *q, const T *k, T *s)                  \
    {                                                                                              \
        for (size_t h = 0; h < f->batch * f->heads; h++)                                           \
            for (size_t i = 0; i < f->rows; i++)                                                   \
                for (size_t j = 0; j < f->keys; j++) {                                             \
                    const T *a = q + (h * f->rows + i) * f->size;                                  \
                    const T *b = k + (h / f->group * f->keys + j) * f->size;                       \
                    T sum = 0;                                                                     \
                    for (size_t d = 0; d < f->size; d++)                                           \
                        sum += a[d] * b[d];                                                        \
                    s[(h * f->rows + i) * f->keys + j] = sum * (T)f->scale;                        \
                }                                                                                  \
    }                                                                                              \
    static void values_##NAME(const struct flex *f, const T *p, const T *v, T *y)                  \
    {                                                                                              \
        for (size_t h = 0; h < f->batch * f->heads; h++)                                           \
            for (size_t i = 0; i < f->rows; i++) {                                                 \
                T *row = y + (h * f->rows + i) * f->v_size;                                        \
                for (size_t d = 0; d < f->v_size; d++)                                             \
                    row[d] = 0;                                                                    \
                for (size_t j = 0; j < f->keys; j++) {                                             \
                    const T w = p[(h * f->rows + i) * f->keys + j];                                \
                    const T *b = v + (h / f->group * f->keys + j) * f->v_size;                     \
                    for (size_t d = 0; d < f->v_size; d++)                                         \
                        row[d] += w * b[d];                                                        \
                }                                                                                  \
            }                                                                                      \
    }                                                                                              \
    static void softmax_##NAME(T *s, size_t rows, size_t cols)                                     \
    {                                                                                              \
        for (T *end = s + rows * cols; s < end; s += cols) {                                       \
            T most = s[0], sum = 0;                                                                \
            for (size_t j = 1; j < cols; j++)                                                      \
                most = s[j] > most ? s[j] : most;                                                  \
            for (size_t j = 0; j < cols; j++)                                                      \
                sum += s[j] = (T)exp((double)(s[j] - most));                                       \
            for (size_t j = 0; j < cols; j++)                                                      \
                s[j] /= sum;                                                                       \
        }                                                                                          \
    }
PRODUCTS(float, f32)
PRODUCTS(double, f64)

/* The elements of t in f64 (wide) or f32. Not t's own memory where softmax writes over them. */
static void *elements(struct steno_op_ctx *ctx, const struct steno_tensor *t, bool wide)
{
    const size_t n = steno_numel(t);
    void *to = steno_op_scratch(ctx, (n + 1) * (wide ? sizeof(double) : sizeof(float)));
    if (to && wide)
        steno_ops_load_f64(to, t->data, t->dtype, n);
    else if (to)
        steno_ops_load_f32(to, t->data, t->dtype, n);
    return to;
}

/* Store n elements at `from` as *t, in scratch. */
static bool as_tensor(struct steno_op_ctx *ctx, const void *from, bool wide, struct steno_tensor *t)
{
    const size_t n = steno_numel(t);
    t->data = steno_op_scratch(ctx, (n + 1) * steno_dtype_size(t->dtype));
    if (t->data && wide)
        steno_ops_store_f64(t->data, t->dtype, from, n);
    else if (t->data)
        steno_ops_store_f32(t->data, t->dtype, from, n);
    return t->data != NULL;
}

/* Run body `attr`, if there is one, on t's shape and type with the numbers *x, which become those
 * of its result. */
static steno_status modify(struct steno_op_ctx *ctx, const char *attr, struct steno_tensor t,
                           bool wide, void **x, steno_err *err)
{
    const struct steno_tensor *in = &t, *out = in;
    steno_status st = STENO_OK;
    if (!as_tensor(ctx, *x, wide, &t))
        return steno_ops_nomem(ctx, err);
    if (steno_node_graph(steno_op_node(ctx), attr))
        st = steno_op_subgraph(ctx, attr, &in, 1, &out, 1, err);
    if (st)
        return st;
    if (out->dtype != t.dtype || !steno_shape_equal(&out->shape, &t.shape))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s changes type or shape", attr);
    *x = elements(ctx, out, wide);
    return *x ? STENO_OK : steno_ops_nomem(ctx, err);
}

static steno_status flex_attend(struct steno_op_ctx *ctx, const struct flex *f,
                                steno_dtype precision, struct steno_tensor *y, steno_err *err)
{
    const bool wide = y->dtype == STENO_F64 || precision == STENO_F64;
    const size_t rows = f->batch * f->heads * f->rows, all = rows * f->keys;
    void *q = elements(ctx, steno_op_in(ctx, 0), wide),
         *k = elements(ctx, steno_op_in(ctx, 1), wide),
         *v = elements(ctx, steno_op_in(ctx, 2), wide), *s, *out;
    struct steno_tensor scores = {.dtype = precision, .shape = y->shape};
    steno_status st;
    scores.shape.dim[3] = (int64_t)f->keys;
    s = steno_op_scratch(ctx, (all + 1) * (wide ? sizeof(double) : sizeof(float)));
    out = steno_op_scratch(ctx, (rows * f->v_size + 1) * (wide ? sizeof(double) : sizeof(float)));
    if (!q || !k || !v || !s || !out)
        return steno_ops_nomem(ctx, err);
    if (wide)
        scores_f64(f, q, k, s);
    else
        scores_f32(f, q, k, s);
    st = modify(ctx, "score_mod", scores, wide, &s, err);
    if (st)
        return st;
    if (wide)
        softmax_f64(s, f->keys ? rows : 0, f->keys);
    else
        softmax_f32(s, f->keys ? rows : 0, f->keys);
    st = modify(ctx, "prob_mod", scores, wide, &s, err);
    if (st)
        return st;
    if (wide)
        values_f64(f, s, v, out);
    else
        values_f32(f, s, v, out);
    if (wide)
        steno_ops_store_f64(y->data, y->dtype, out, steno_numel(y));
    else
        steno_ops_store_f32(y->data, y->dtype, out, steno_numel(y));
    return STENO_OK;
}

static steno_status run_flex(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    const struct steno_tensor *q = steno_op_in(ctx, 0), *k = steno_op_in(ctx, 1),
                              *v = steno_op_in(ctx, 2);
    struct steno_tensor *y;
    struct steno_shape s;
    struct flex f;
    const char *wrong;
    steno_dtype precision;
    steno_status st;
    precision = precision_of(n, q->dtype);
    wrong = misfit(&q->shape, &k->shape, &v->shape);
    if (!wrong && (!steno_ops_is_float(q->dtype) || k->dtype != q->dtype || v->dtype != q->dtype ||
                   !steno_ops_is_float(precision)))
        wrong = "Q, K and V must be floats of one type, softmax_precision another type of floats";
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    s = q->shape;
    s.dim[3] = v->shape.dim[3];
    st = steno_op_out(ctx, 0, q->dtype, &s, &y, err);
    if (st)
        return st;
    f = (struct flex){.batch = (size_t)s.dim[0],
                      .heads = (size_t)s.dim[1],
                      .group = k->shape.dim[1] ? (size_t)(s.dim[1] / k->shape.dim[1]) : 1,
                      .rows = (size_t)s.dim[2],
                      .keys = (size_t)k->shape.dim[2],
                      .size = (size_t)q->shape.dim[3],
                      .v_size = (size_t)s.dim[3]};
    f.scale = steno_node_attr(n, "scale") ? (double)steno_node_float(n, "scale", 1)
              : f.size                    ? 1 / sqrt((double)f.size)
                                          : 1;
    return flex_attend(ctx, &f, precision, y, err);
}

const struct steno_op steno_ops_flex_attention[] = {
    {"ai.onnx.preview", "FlexAttention", 1, 0, 0, infer_flex, prepare_flex, NULL, run_flex},
    {0},
};
