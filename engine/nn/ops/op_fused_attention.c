/* Operators of domain ai.steno for attention, made by passes:
 *
 * MaskedSoftmax   x [..., n], mask bool, broadcast to each other; attribute fill
 *                 y = Softmax(mask ? fill : x) along the last axis, 0 where mask
 * RelativeShift   x [..., T, L]; y [..., T, L], or its first L / 2 + 1 columns with half = 1:
 *                 x with a column of zeros before it, as [L + 1, T] without the first row, as
 *                 [T, L] again. With L = 2 T - 1 and half: y[i, j] = x[i, T - 1 - i + j]
 *                 (Transformer-XL, appendix B; ESPnet's rel_shift, both forms)
 * Attention       Q [B, T, .], K, V [B, S, .], mask?, P [B, L, .]?, q_bias [h d]?, p_bias [h d]?
 *                 With heads split ([B, T, h d] to [B, h, T, d]; axes of 1 repeat):
 *                     s = (Q + q_bias) K' + first S columns of RelativeShift((Q + p_bias) P')
 *                     y = Softmax(scale * s + mask) V, heads joined again: [B, T, h v]
 *                 mask f32 is added; mask bool (broadcast to [B, h, T, S]) hides keys: their weight
 *                 is 0, and a row that sees no key gives 0.
 *                 Attributes:
 *                 heads, size (d), v_size (v), scale
 *                 kv_heads: heads of K and V, each for heads / kv_heads of Q; not with P
 *                 q_at, k_at, v_at, p_at: first column, for inputs that hold several things side by
 *                 side
 *                 apart: bits of the inputs (Q 1, K 2, V 4, P 8) and of y (16) with heads split,
 *                 [B, h, T, d], rank 4. Without the bit, rank 4 [B, T, h, d] is the same as rank 3.
 *                 parts: bits of Q, K, V (1, 2, 4) that are some columns of a wider input (for the
 *                 body in a written file)
 *                 shift: 0 when P has a row for each key and its product is not shifted
 *                 no_nan: 1 when a row of weights that is NaN, as without a visible key, gives 0
 *                 fill: the score of hidden keys in the softmax, before their weight becomes 0;
 *                 without it they take no part
 *                 replaces: the score of hidden keys where the mask, of 0 and -1e30 or below,
 *                 stands for a Where in front of the softmax; without it the mask is added
 *                 hides: 1 when the mask is bool (for the body in a written file,
 *                 nn/ops/body_fused.c; the kernel looks at the type) */
#include "nn/ops/attention.h"
#include "nn/ops/families.h"
#include "nn/ops/internal.h"
#include "nn/exec/precision.h"

#include <math.h>
#include <stdlib.h>

/* ---- MaskedSoftmax ---- */
struct masked_job {
    const steno_kernels *k;
    const struct steno_broadcast *b;
    const float *x;
    const uint8_t *mask;
    float *y;
    size_t n; /* elements of a softmax row */
    float fill;
};

/* Rows [begin, end) of the broadcast; each holds one or more softmax rows. */
static void masked_rows(void *arg, size_t begin, size_t end)
{
    const struct masked_job *j = arg;
    size_t per = j->b->row / j->n; /* softmax rows in one row of the broadcast */
    for (size_t r = begin; r < end; r++) {
        struct steno_broadcast_pos p;
        const uint8_t *m;
        float *y;
        steno_broadcast_start(j->b, &p, r);
        m = j->mask + p.at[1];
        y = j->y + r * j->b->row;
        for (size_t i = 0; i < j->b->row; i++)
            y[i] = m[i * j->b->row_step[1]] ? j->fill : j->x[p.at[0] + i * j->b->row_step[0]];
        j->k->softmax_f32(y, y, per, j->n);
        for (size_t i = 0; i < j->b->row; i++)
            y[i] = m[i * j->b->row_step[1]] ? 0 : y[i];
    }
}

static steno_status run_masked_softmax(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x, *mask;
    const struct steno_shape *shapes[2];
    struct steno_broadcast b;
    struct steno_shape s;
    struct steno_tensor *y;
    struct masked_job j = {.k = steno_op_kernels(ctx), .b = &b};
    steno_status st = steno_ops_bshape(ctx, 2, &s, err);
    if (st)
        return st;
    x = steno_op_in(ctx, 0);
    mask = steno_op_in(ctx, 1);
    if (x->dtype != STENO_F32 || mask->dtype != STENO_BOOL || s.rank < 1)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "x must be f32, mask bool");
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    shapes[0] = &x->shape;
    shapes[1] = &mask->shape;
    steno_broadcast_init(&b, &s, shapes, 2);
    j.x = x->data;
    j.mask = mask->data;
    j.y = y->data;
    j.n = (size_t)s.dim[s.rank - 1];
    j.fill = steno_node_float(steno_op_node(ctx), "fill", 0);
    steno_ops_ranges(ctx, b.rows, 1 + 8192 / b.row, masked_rows, &j);
    return STENO_OK;
}

static steno_status infer_masked(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s;
    steno_status st = steno_ops_infer_bshape(ic, 0, 1, &s, err);
    if (!st)
        steno_infer_set(ic, 0, STENO_F32, &s);
    return st;
}

/* ---- RelativeShift ---- */
struct shift_job {
    const float *x;
    float *y;
    size_t t, l, out;
};

static void shift_rows(void *arg, size_t begin, size_t end)
{
    const struct shift_job *j = arg;
    for (size_t r = begin; r < end; r++)
        steno_ops_shift_row(j->y + r * j->out, j->x + r / j->t * j->t * j->l, 0, j->t, j->l,
                            r % j->t, 0, j->out);
}

static void shifted(const struct steno_node *n, struct steno_shape *s)
{
    int64_t *l = &s->dim[s->rank - 1];
    if (steno_node_int(n, "half", 0) && *l >= 0)
        *l = *l / 2 + 1 < *l ? *l / 2 + 1 : *l;
}

static steno_status infer_shift(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    (void)err;
    if (s.rank >= 2 && s.dim[s.rank - 1] < 0 && steno_node_int(steno_infer_node(ic), "half", 0))
        s.dim[s.rank - 1] = steno_infer_new_dim(ic);
    else if (s.rank >= 2)
        shifted(steno_infer_node(ic), &s);
    steno_infer_set(ic, 0, STENO_F32, &s);
    return STENO_OK;
}

static steno_status run_shift(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct shift_job j;
    struct steno_shape s;
    struct steno_tensor *y;
    steno_status st;
    if (!x || x->dtype != STENO_F32 || x->shape.rank < 2)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "x must be f32 of rank 2 or more");
    s = x->shape;
    j.t = (size_t)s.dim[s.rank - 2];
    j.l = (size_t)s.dim[s.rank - 1];
    shifted(steno_op_node(ctx), &s);
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    j.out = (size_t)s.dim[s.rank - 1];
    j.x = x->data;
    j.y = y->data;
    steno_ops_ranges(ctx, steno_numel(y) / j.out, 1 + 16384 / j.out, shift_rows, &j);
    return STENO_OK;
}

/* ---- Attention ---- */
enum { IN_Q, IN_K, IN_V, IN_MASK, IN_P, IN_Q_BIAS, IN_P_BIAS, APART_Y = 16 };

struct extent {
    int64_t batch, rows, heads, width; /* width: columns of a row, or the size of a head */
};

/* Batch and rows of Q, K, V or P. False: the shape is not valid for it. */
static bool extent_of(const struct steno_shape *s, bool apart, int64_t heads, struct extent *e)
{
    if (s->rank != 4 && (s->rank != 3 || apart))
        return false;
    e->batch = s->dim[0];
    e->rows = s->dim[apart ? 2 : 1];
    e->heads = s->rank == 4 ? s->dim[apart ? 1 : 2] : heads;
    e->width = s->dim[s->rank - 1];
    return e->heads < 0 || e->heads == heads;
}

/* Heads of Q, K, V or P. */
static int64_t heads_in(const struct steno_node *n, int in)
{
    const int64_t heads = steno_node_int(n, "heads", 1);
    return in == IN_K || in == IN_V ? steno_node_int(n, "kv_heads", heads) : heads;
}

static bool apart_in(const struct steno_node *n, int in)
{
    return steno_node_int(n, "apart", 0) >> (in == IN_P ? 3 : in) & 1;
}

static struct steno_shape result_shape(const struct steno_node *n, int64_t batch, int64_t rows)
{
    int64_t heads = steno_node_int(n, "heads", 1), v = steno_node_int(n, "v_size", 1);
    if (steno_node_int(n, "apart", 0) & APART_Y)
        return steno_ops_shape(4, (const int64_t[]){batch, heads, rows, v});
    return steno_ops_shape(3, (const int64_t[]){batch, rows, heads * v});
}

/* The batch of the result, known or symbolic. Of two different symbols it is the first. */
static int64_t common_batch(int64_t a, int64_t b)
{
    return a == 1 || (a < 0 && b > 1) ? b : a;
}

steno_status steno_attention_infer(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_shape q = steno_infer_shape(ic, IN_Q), k = steno_infer_shape(ic, IN_K),
                       v = steno_infer_shape(ic, IN_V), y;
    struct extent e, f, g;
    (void)err;
    if (!extent_of(&q, apart_in(n, IN_Q), heads_in(n, IN_Q), &e) ||
        !extent_of(&k, apart_in(n, IN_K), heads_in(n, IN_K), &f) ||
        !extent_of(&v, apart_in(n, IN_V), heads_in(n, IN_V), &g)) {
        steno_infer_set(ic, 0, STENO_F32, NULL);
        return STENO_OK;
    }
    y = result_shape(n, common_batch(common_batch(e.batch, f.batch), g.batch), e.rows);
    for (int i = 0; i < y.rank; i++)
        if (y.dim[i] == STENO_DIM_ANY)
            y.dim[i] = steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, STENO_F32, &y);
    return STENO_OK;
}

steno_status steno_attention_prepare(struct steno_prepare *pc, void **priv, steno_err *err)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    steno_status st = steno_attention_check_columns(n, "p_at", err);
    bool *use_bf16;
    if (!st && (heads_in(n, IN_K) < 1 || heads_in(n, IN_Q) % heads_in(n, IN_K)))
        st = steno_fail(err, STENO_ERR_FORMAT, "kv_heads must divide heads");
    if (st)
        return st;
    use_bf16 = calloc(1, sizeof *use_bf16);
    if (!use_bf16)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    *use_bf16 = steno_precision_rounds_attention(steno_prepare_precision(pc));
    *priv = use_bf16;
    return STENO_OK;
}

/* Input `in` as a view with heads of `size`; *e gets its extent. Returns NULL, or a message that
 * says what is wrong. */
static const char *view_of(const struct steno_op_ctx *ctx, int in, size_t size,
                           struct steno_attention_view *v, struct extent *e)
{
    static const char *const at[] = {"q_at", "k_at", "v_at", NULL, "p_at"};
    const struct steno_node *n = steno_op_node(ctx);
    const struct steno_tensor *t = steno_op_in(ctx, in);
    size_t heads = (size_t)heads_in(n, in), from;
    bool apart = apart_in(n, in);
    from = apart ? 0 : (size_t)steno_node_int(n, at[in], 0);
    if (!t || t->dtype != STENO_F32)
        return "Q, K, V and P must be f32";
    if (!extent_of(&t->shape, apart, (int64_t)heads, e))
        return "Q, K, V and P must be [B, T, columns], or of rank 4 with the right number of heads";
    v->head = apart ? (size_t)e->rows * size : size;
    v->row = apart ? size : (size_t)e->width * (t->shape.rank == 4 ? heads : 1);
    v->batch = e->batch == 1 ? 0 : (size_t)e->rows * (apart ? heads * size : v->row);
    v->data = (const float *)t->data + from;
    if (t->shape.rank == 4 ? (size_t)e->width != size || from : from + heads * size > v->row)
        return "Q, K, V or P has too few columns for its heads";
    return NULL;
}

const char *steno_attention_read_mask(struct steno_op_ctx *ctx, int in, struct steno_attention *a)
{
    const struct steno_tensor *m = steno_op_in(ctx, in);
    const size_t want[4] = {a->batch, a->q_heads, a->rows, a->keys};
    size_t step[4], n = 1;
    if (!m)
        return NULL;
    if (m->shape.rank > 4 || (m->dtype != STENO_F32 && m->dtype != STENO_BOOL))
        return "mask must be f32 or bool, of rank 4 at most";
    for (int i = 3, k = m->shape.rank - 1; i >= 0; i--, k--) {
        size_t d = k >= 0 ? (size_t)m->shape.dim[k] : 1;
        if (d != want[i] && d != 1)
            return "mask does not fit the scores";
        step[i] = d == 1 ? 0 : n;
        n *= d;
    }
    if (m->dtype == STENO_BOOL) {
        a->hidden = (struct steno_attention_hidden){m->data, step[0], step[1], step[2], step[3]};
        a->fills = steno_node_attr(steno_op_node(ctx), "fill") != NULL;
        a->fill = steno_node_float(steno_op_node(ctx), "fill", 0);
        return NULL;
    }
    a->mask = (struct steno_attention_view){m->data, step[0], step[1], step[2]};
    a->mask_keys = a->keys;
    if (!step[3] && a->keys != 1) { /* one number for all keys of a row */
        size_t rows = n;
        float *wide = steno_op_scratch(ctx, (rows * a->keys + 1) * sizeof *wide);
        if (!wide)
            return "out of memory";
        for (size_t i = 0; i < rows * a->keys; i++)
            wide[i] = ((const float *)m->data)[i / a->keys];
        a->mask = (struct steno_attention_view){wide, step[0] * a->keys, step[1] * a->keys,
                                                step[2] * a->keys};
    }
    return NULL;
}

static const char *read_positions(struct steno_op_ctx *ctx, struct steno_attention *a)
{
    const struct steno_tensor *qb = steno_op_in(ctx, IN_Q_BIAS), *pb = steno_op_in(ctx, IN_P_BIAS);
    struct extent e;
    const char *wrong;
    for (int i = 0; i < 2; i++) {
        const struct steno_tensor *b = i ? pb : qb;
        if (b && (b->dtype != STENO_F32 || steno_numel(b) != a->q_heads * a->size))
            return "q_bias and p_bias must have one number for each column of Q";
    }
    a->q_bias = qb ? qb->data : NULL;
    a->p_bias = pb ? pb->data : NULL;
    if (!steno_op_in(ctx, IN_P))
        return NULL;
    if (a->kv_heads != a->q_heads)
        return "kv_heads with positions";
    wrong = view_of(ctx, IN_P, a->size, &a->p, &e);
    if (wrong)
        return wrong;
    a->p_len = (size_t)e.rows;
    a->p_by_key = !steno_node_int(steno_op_node(ctx), "shift", 1);
    if ((size_t)e.batch != a->batch && e.batch != 1)
        return "P has another batch size";
    return a->p_len < a->keys || (a->p_by_key && a->p_len > a->keys)
               ? "P must have one position for each key"
               : NULL;
}

const char *steno_attention_read_factors(struct steno_op_ctx *ctx, struct steno_attention *a)
{
    const struct steno_node *n = steno_op_node(ctx);
    struct extent q, k, v;
    const char *wrong;
    a->q_heads = (size_t)heads_in(n, IN_Q);
    a->kv_heads = (size_t)heads_in(n, IN_K);
    a->size = (size_t)steno_node_int(n, "size", 1);
    a->v_size = (size_t)steno_node_int(n, "v_size", 1);
    wrong = view_of(ctx, IN_Q, a->size, &a->q, &q);
    if (!wrong)
        wrong = view_of(ctx, IN_K, a->size, &a->k, &k);
    if (!wrong)
        wrong = view_of(ctx, IN_V, a->v_size, &a->v, &v);
    if (wrong)
        return wrong;
    a->batch = (size_t)common_batch(common_batch(q.batch, k.batch), v.batch);
    a->rows = (size_t)q.rows;
    a->keys = (size_t)k.rows;
    if (v.rows != k.rows || ((size_t)q.batch != a->batch && q.batch != 1) ||
        ((size_t)k.batch != a->batch && k.batch != 1) ||
        ((size_t)v.batch != a->batch && v.batch != 1))
        return "Q, K and V differ in batch, or K and V in length";
    a->scale = steno_node_float(n, "scale", 1);
    a->left = a->right = -1;
    return NULL;
}

static const char *read_inputs_attention(struct steno_op_ctx *ctx, struct steno_attention *a)
{
    const struct steno_node *n = steno_op_node(ctx);
    const char *wrong = steno_attention_read_factors(ctx, a);
    if (wrong)
        return wrong;
    wrong = steno_attention_read_mask(ctx, IN_MASK, a);
    if (!wrong)
        wrong = read_positions(ctx, a);
    a->no_nan = steno_node_int(n, "no_nan", 0) != 0;
    a->replaces = a->mask.data && !a->p.data && steno_node_attr(n, "replaces");
    a->fill = a->replaces ? steno_node_float(n, "replaces", 0) : a->fill;
    if (!a->hidden.data && !a->no_nan)
        a->empty = NAN; /* Softmax of -inf alone gives NaN */
    return wrong;
}

steno_status steno_attention_output(struct steno_op_ctx *ctx, struct steno_attention *a,
                                    steno_err *err)
{
    const struct steno_shape s =
        result_shape(steno_op_node(ctx), (int64_t)a->batch, (int64_t)a->rows);
    struct steno_tensor *y;
    const steno_status st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    a->use_bf16 = *(const bool *)steno_op_priv(ctx);
    a->y = y->data;
    a->y_view =
        (struct steno_attention_view){.batch = a->rows * a->q_heads * a->v_size,
                                      .head = s.rank == 4 ? a->rows * a->v_size : a->v_size,
                                      .row = s.rank == 4 ? a->v_size : a->q_heads * a->v_size};
    return STENO_OK;
}

static steno_status run_attention(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_attention a = {0};
    const char *wrong;
    steno_status st;
    wrong = read_inputs_attention(ctx, &a);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    st = steno_attention_output(ctx, &a, err);
    if (st || !a.y)
        return st;
    return steno_ops_attention(ctx, &a, err);
}

const struct steno_op steno_ops_fused_attention[] = {
    {"ai.steno", "MaskedSoftmax", 1, 0, 0, infer_masked, NULL, NULL, run_masked_softmax},
    {"ai.steno", "RelativeShift", 1, 0, 0, infer_shift, NULL, NULL, run_shift},
    {"ai.steno", "Attention", 1, 0, 0, steno_attention_infer, steno_attention_prepare, free,
     run_attention},
    {0},
};
