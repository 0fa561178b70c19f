/* Operator of domain ai.steno.run, which no file holds: it reads memory that outlives a run.
 *
 * CachedAttention  Q [B, 1, .], rows [N, .], counts i64 [n], index i32 [B, S]?, new [B, 1, .]?,
 *                  bias [N]?, new_bias (B numbers, or one)?
 *                  Attention of one query for each hypothesis of a beam. Its keys and values are
 *                  rows index[b][0 .. counts[count]), then new[b]; a row has the keys of all heads
 *                  from column k_at on and the values from v_at on. bias is added to the scaled
 *                  score of a key, new_bias to that of new[b]. Hypotheses share rows, so a beam is
 *                  reordered by writing other numbers into index (passes/incremental.c).
 *                  Without index rows 0 .. counts[count] are everybody's (new and biases are absent
 *                  then): one product for the whole beam.
 *                  y [B, 1, heads * v_size]. Attributes: heads, size, v_size, q_at, k_at, v_at,
 *                  count, scale. */
#include "ops/attention.h"
#include "ops/families.h"
#include "ops/internal.h"

enum { IN_Q, IN_ROWS, IN_COUNTS, IN_INDEX, IN_NEW, IN_BIAS, IN_NEW_BIAS };

struct cached {
    const steno_kernels *k;
    size_t batch, heads, size, v_size, k_at, v_at, n, count;
    const float *q, *rows, *fresh, *bias, *new_bias;
    size_t q_row, row, index_row, new_bias_step;
    const int32_t *index;
    float scale;
    float *y, *scratch; /* [batch][heads][count + 1] */
};

static steno_status infer_cached(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_shape q = steno_infer_shape(ic, IN_Q);
    (void)err;
    if (q.rank != 3) {
        steno_infer_set(ic, 0, STENO_F32, NULL);
        return STENO_OK;
    }
    q.dim[2] = steno_node_int(n, "heads", 1) * steno_node_int(n, "v_size", 1);
    steno_infer_set(ic, 0, STENO_F32, &q);
    return STENO_OK;
}

/* Scores of one key for all heads: s[head * ld]. */
static void score_key(const struct cached *c, const float *q, const float *key, float bias,
                      float *s, size_t ld)
{
    for (size_t h = 0; h < c->heads; h++)
        s[h * ld] = c->scale * c->k->dot_f32(q + h * c->size, key + h * c->size, c->size) + bias;
}

static void add_value(const struct cached *c, const float *value, const float *w, size_t ld,
                      float *y)
{
    for (size_t h = 0; h < c->heads; h++)
        c->k->axpy_f32(y + h * c->v_size, value + h * c->v_size, c->v_size, w[h * ld]);
}

static void one_query(const struct cached *c, size_t b)
{
    size_t keys = c->count + (c->fresh != NULL);
    const float *q = c->q + b * c->q_row, *fresh = c->fresh ? c->fresh + b * c->row : NULL;
    const int32_t *at = c->index + b * c->index_row;
    float *s = c->scratch + b * c->heads * keys, *y = c->y + b * c->heads * c->v_size;
    memset(y, 0, c->heads * c->v_size * sizeof *y);
    if (!keys)
        return;
    for (size_t t = 0; t < c->count; t++)
        score_key(c, q, c->rows + (size_t)at[t] * c->row + c->k_at, c->bias ? c->bias[at[t]] : 0,
                  s + t, keys);
    if (fresh)
        score_key(c, q, fresh + c->k_at,
                  c->new_bias ? c->new_bias[b * c->new_bias_step] : 0, s + c->count, keys);
    c->k->softmax_f32(s, s, c->heads, keys);
    for (size_t t = 0; t < c->count; t++)
        add_value(c, c->rows + (size_t)at[t] * c->row + c->v_at, s + t, keys, y);
    if (fresh)
        add_value(c, fresh + c->v_at, s + c->count, keys, y);
}

static void queries(void *arg, size_t begin, size_t end)
{
    for (size_t b = begin; b < end; b++)
        one_query(arg, b);
}

/* One product: the hypotheses are the rows of one attention. */
static steno_status run_shared(struct steno_op_ctx *ctx, const struct cached *c, steno_err *err)
{
    struct steno_attention a = {.batch = 1,
                                .q_heads = c->heads,
                                .kv_heads = c->heads,
                                .rows = c->batch,
                                .keys = c->count,
                                .size = c->size,
                                .v_size = c->v_size,
                                .scale = c->scale,
                                .left = -1,
                                .right = -1};
    a.q = (struct steno_attn_view){c->q, 0, c->size, c->q_row};
    a.k = (struct steno_attn_view){c->rows + c->k_at, 0, c->size, c->row};
    a.v = (struct steno_attn_view){c->rows + c->v_at, 0, c->v_size, c->row};
    a.y = c->y;
    a.y_view = (struct steno_attn_view){NULL, 0, c->v_size, c->heads * c->v_size};
    return steno_ops_attention(ctx, &a, err);
}

static size_t attribute(const struct steno_op_ctx *ctx, const char *name)
{
    int64_t v = steno_node_int(steno_op_node(ctx), name, 0);
    return v > 0 && v < INT32_MAX ? (size_t)v : 0;
}

static const char *read_sizes(struct steno_op_ctx *ctx, struct cached *c)
{
    const struct steno_tensor *q = steno_op_in(ctx, IN_Q), *rows = steno_op_in(ctx, IN_ROWS);
    const struct steno_tensor *counts = steno_op_in(ctx, IN_COUNTS);
    size_t at = attribute(ctx, "count"), q_at = attribute(ctx, "q_at");
    c->heads = attribute(ctx, "heads");
    c->size = attribute(ctx, "size");
    c->v_size = attribute(ctx, "v_size");
    c->k_at = attribute(ctx, "k_at");
    c->v_at = attribute(ctx, "v_at");
    c->scale = steno_node_float(steno_op_node(ctx), "scale", 1);
    if (q->dtype != STENO_F32 || q->shape.rank != 3 || q->shape.dim[1] != 1)
        return "Q is not f32 [B, 1, columns]";
    if (rows->dtype != STENO_F32 || rows->shape.rank != 2)
        return "rows are not f32 [N, columns]";
    c->batch = (size_t)q->shape.dim[0];
    c->q_row = (size_t)q->shape.dim[2];
    c->n = (size_t)rows->shape.dim[0];
    c->row = (size_t)rows->shape.dim[1];
    if (!c->heads || q_at + c->heads * c->size > c->q_row ||
        c->k_at + c->heads * c->size > c->row || c->v_at + c->heads * c->v_size > c->row)
        return "Q or the rows have too few columns for the heads";
    if (counts->dtype != STENO_I64 || at >= steno_numel(counts) ||
        ((const int64_t *)counts->data)[at] < 0)
        return "counts have no such number";
    c->count = (size_t)((const int64_t *)counts->data)[at];
    c->q = (const float *)q->data + q_at;
    c->rows = rows->data;
    return NULL;
}

static const char *read_index(struct steno_op_ctx *ctx, struct cached *c)
{
    const struct steno_tensor *index = steno_op_in(ctx, IN_INDEX), *t;
    if (!index)
        return c->count > c->n ? "more keys than rows" : NULL;
    if (index->dtype != STENO_I32 || index->shape.rank != 2 ||
        (size_t)index->shape.dim[0] != c->batch || (size_t)index->shape.dim[1] < c->count)
        return "index is not i32 [B, S], S no less than the count";
    c->index = index->data;
    c->index_row = (size_t)index->shape.dim[1];
    for (size_t b = 0; b < c->batch; b++)
        for (size_t i = 0; i < c->count; i++)
            if (c->index[b * c->index_row + i] < 0 ||
                (size_t)c->index[b * c->index_row + i] >= c->n)
                return "index names a row that does not exist";
    t = steno_op_in(ctx, IN_NEW);
    if (t && (t->dtype != STENO_F32 || steno_numel(t) != c->batch * c->row))
        return "new is not one row for each query";
    c->fresh = t ? t->data : NULL;
    t = steno_op_in(ctx, IN_BIAS);
    if (t && (t->dtype != STENO_F32 || steno_numel(t) != c->n))
        return "bias is not one number for each row";
    c->bias = t ? t->data : NULL;
    t = steno_op_in(ctx, IN_NEW_BIAS);
    if (t && (t->dtype != STENO_F32 || (steno_numel(t) != c->batch && steno_numel(t) != 1)))
        return "new_bias is not one number for each query";
    c->new_bias = t ? t->data : NULL;
    c->new_bias_step = t && steno_numel(t) > 1;
    return NULL;
}

static steno_status run_cached(struct steno_op_ctx *ctx, steno_err *err)
{
    struct cached c = {.k = steno_op_kernels(ctx)};
    struct steno_tensor *y;
    struct steno_shape s;
    const char *wrong;
    steno_status st = steno_ops_need(ctx, 3, err);
    if (st)
        return st;
    wrong = read_sizes(ctx, &c);
    if (!wrong)
        wrong = read_index(ctx, &c);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    s = steno_ops_shape(3, (const int64_t[]){(int64_t)c.batch, 1, (int64_t)(c.heads * c.v_size)});
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !c.batch)
        return st;
    c.y = y->data;
    if (!c.index)
        return run_shared(ctx, &c, err);
    /* for as many keys as index has room for, so that it grows when that does and not with keys */
    c.scratch = steno_op_scratch(ctx, c.batch * c.heads * (c.index_row + 1) * sizeof(float));
    if (!c.scratch)
        return steno_ops_nomem(ctx, err);
    steno_ops_ranges(ctx, c.batch, 1 + 16384 / (c.row * (c.count + 1)), queries, &c);
    return STENO_OK;
}

const struct steno_op steno_ops_cached_attention[] = {
    {"ai.steno.run", "CachedAttention", 1, 0, 0, infer_cached, NULL, NULL, run_cached},
    {0},
};
