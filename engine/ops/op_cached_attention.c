/* Operator of domain ai.steno.run, which no file holds: it reads memory that outlives a run.
 *
 * CachedAttention  Q [B, 1, .], rows [N, .], counts i64 [n], index i32 [B, S]?, new [B, 1, .]?,
 *                  bias [N]?, new_bias (B numbers, or one)?
 *                  Attention of one query for each hypothesis of a beam. Its keys and values are
 *                  rows index[b][0 .. counts[count]), then new[b]; new[b] has the keys of all heads
 *                  from column k_at on and the values from v_at on, rows lie by heads: [heads, N,
 *                  size + v_size], a key and its value. bias is added to the scaled score of a key,
 *                  new_bias to that of new[b]. Hypotheses share rows, so a beam is reordered by
 *                  writing other numbers into index (passes/incremental.c).
 *                  Without index rows 0 .. counts[count] are everybody's, and new and biases are
 *                  absent. They lie as the products of a whole beam read them: keys [heads, size,
 *                  N], then values [heads, N, v_size].
 *                  y [B, 1, heads * v_size]. Attributes: heads, size, v_size, q_at, k_at, v_at,
 *                  count, scale. */
#include "ops/families.h"
#include "ops/internal.h"

#include <math.h>

#define PANEL 32                    /* keys: a whole panel of any kernel, read where it lies */
#define PART_MACS ((size_t)1 << 18) /* multiply-adds worth waking another thread for */

enum { IN_Q, IN_ROWS, IN_COUNTS, IN_INDEX, IN_NEW, IN_BIAS, IN_NEW_BIAS };

struct cached {
    const steno_kernels *k;
    size_t batch, heads, size, v_size, k_at, v_at, n, count;
    const float *q, *rows, *fresh, *bias, *new_bias;
    size_t q_row, row, index_row, new_bias_step;
    const int32_t *index;
    float scale;
    float *y, *scratch; /* [heads][batch][count + 1] */
    /* shared rows: keys to multiply, scores of a head [batch][n] and the product's memory for each part */
    size_t shared, score_bytes, part_bytes, parts;
    float *sum; /* [heads][batch] of the weights */
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

/* Weights of head h's keys for query b, oldest first, then the newest: s [keys]. */
static void weigh_one(const struct cached *c, size_t h, size_t b, float *s, size_t keys)
{
    const size_t pair = c->size + c->v_size;
    const float *q = c->q + b * c->q_row + h * c->size;
    const int32_t *at = c->index + b * c->index_row;
    c->k->dot_rows_f32(s, c->count, q, c->size, c->scale, c->rows + h * c->n * pair, pair, at);
    for (size_t t = 0; c->bias && t < c->count; t++)
        s[t] += c->bias[at[t]];
    if (c->fresh)
        s[c->count] =
            c->scale * c->k->dot_f32(q, c->fresh + b * c->row + c->k_at + h * c->size, c->size) +
            (c->new_bias ? c->new_bias[b * c->new_bias_step] : 0);
    c->k->softmax_f32(s, s, 1, keys);
}

/* All queries of a head: they have most rows in common, which stay in the first cache. */
static void one_head(const struct cached *c, size_t h)
{
    const size_t keys = c->count + (c->fresh != NULL), pair = c->size + c->v_size;
    float *s = c->scratch + h * c->batch * keys, *y = c->y + h * c->v_size;
    for (size_t b = 0; b < c->batch; b++, s += keys, y += c->heads * c->v_size) {
        if (keys)
            weigh_one(c, h, b, s, keys);
        c->k->mix_rows_f32(y, c->v_size, s, c->count, c->rows + h * c->n * pair + c->size, pair,
                           c->index + b * c->index_row);
        if (c->fresh)
            c->k->axpy_f32(y, c->fresh + b * c->row + c->v_at + h * c->v_size, c->v_size,
                           s[c->count]);
    }
}

static void some_heads(void *arg, size_t begin, size_t end)
{
    for (size_t h = begin; h < end; h++)
        one_head(arg, h);
}

/* ---- rows that all share ---- */

static size_t whole_lines(size_t n)
{
    return (n + STENO_ALIGN - 1) & ~(size_t)(STENO_ALIGN - 1);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Two products for each head: scores of all queries and keys, weighted sums of the values. */
static void shared_head(const struct cached *c, size_t h, char *mem)
{
    const float *keys = c->rows + h * c->size * c->n;
    const float *values = c->rows + c->heads * c->size * c->n + h * c->n * c->v_size;
    float *s = (float *)(void *)mem, *y = c->y + h * c->v_size;
    void *work = mem + c->score_bytes;
    c->k->gemm_f32(c->batch, c->shared, c->size, c->q + h * c->size, c->q_row, false, keys, c->n,
                   false, s, c->n, NULL, work);
    for (size_t b = 0; b < c->batch; b++) {
        float max = -INFINITY, sum = 0;
        (void)c->k->softmax_step_f32(s + b * c->n, c->count, c->scale, NULL, NULL, &max, &sum);
        c->sum[h * c->batch + b] = sum;
    }
    c->k->gemm_f32(c->batch, c->v_size, c->count, s, c->n, false, values, c->v_size, false, y,
                   c->heads * c->v_size, NULL, work);
    for (size_t b = 0; b < c->batch; b++, y += c->heads * c->v_size)
        c->k->affine_f32(y, y, c->v_size, 1 / c->sum[h * c->batch + b], 0);
}

static void shared_part(void *arg, int part)
{
    const struct cached *c = arg;
    size_t p = (size_t)part;
    for (size_t h = c->heads * p / c->parts; h < c->heads * (p + 1) / c->parts; h++)
        shared_head(c, h, (char *)c->scratch + p * c->part_bytes);
}

static steno_status run_shared(struct steno_op_ctx *ctx, struct cached *c, steno_err *err)
{
    const size_t macs = c->batch * c->count * c->heads * (c->size + c->v_size);
    size_t scores;
    if (!c->count) {
        memset(c->y, 0, c->batch * c->heads * c->v_size * sizeof *c->y);
        return STENO_OK;
    }
    c->parts = macs < PART_MACS ? 1 : (size_t)steno_op_threads(ctx);
    c->parts = c->parts < c->heads ? c->parts : c->heads;
    c->shared = (c->count + PANEL - 1) / PANEL * PANEL;
    c->shared = c->shared < c->n ? c->shared : c->n;
    /* for as many keys as there is room for, so that it grows when that does and not with keys */
    if (!steno_mul_size(c->batch * sizeof(float), c->n, &scores) || scores > SIZE_MAX / 1024)
        return steno_ops_nomem(ctx, err);
    c->score_bytes = whole_lines(scores + STENO_OVERREAD);
    c->part_bytes =
        c->score_bytes + whole_lines(larger(c->k->gemm_f32_work(c->batch, c->n, c->size),
                                            c->k->gemm_f32_work(c->batch, c->v_size, c->n)));
    c->scratch = steno_op_scratch(ctx, c->parts * c->part_bytes);
    c->sum = steno_op_scratch(ctx, c->heads * c->batch * sizeof *c->sum);
    if (!c->scratch || !c->sum)
        return steno_ops_nomem(ctx, err);
    if (c->parts == 1)
        shared_part(c, 0);
    else
        steno_op_parallel(ctx, (int)c->parts, shared_part, c);
    return STENO_OK;
}

/* ---- the operator ---- */

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
    if (c->heads * (c->size + c->v_size) > c->row)
        return "the rows have too few columns for keys and values";
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
    steno_ops_ranges(ctx, c.heads, 1 + 16384 / (c.batch * c.size * (c.count + 1)), some_heads, &c);
    return STENO_OK;
}

const struct steno_op steno_ops_cached_attention[] = {
    {"ai.steno.run", "CachedAttention", 1, 0, 0, infer_cached, NULL, NULL, run_cached},
    {0},
};
