/* Operator of domain ai.steno.run, which no file contains. It reads a key/value cache that outlives
 * a run and that the session's caller binds (nn/exec/kv_cache.h).
 *
 * CachedAttention  Q [B, 1, .], new [B, 1, .]?, new_bias (B numbers, or one)?
 *                  Attention of one query for each hypothesis of the beams of some searches.
 *                  With `new`, the keys and values of entry b are rows index[b][0 .. own.n) of its
 *                  search, then new[b], which has the keys of all heads from column k_at on and the
 *                  values from v_at on. The scaled score of a cached key gets bias, that of new[b]
 *                  gets new_bias. Hypotheses share rows, so a beam is reordered by writing other
 *                  numbers into index (nn/passes/incremental.c).
 *                  Where the entries of a search are one text (is_text), index has one list for all
 *                  of them, followed by new[0 .. b] of the search for entry b: a prompt in one run.
 *                  Without `new`, the keys and values are rows 0 .. memory.n of the search.
 *                  y [B, 1, heads * v_size], zeros for entries that belong to no search.
 *                  Attributes: heads, size, v_size, q_at, k_at, v_at, layer, scale. */
#include "nn/ops/families.h"
#include "nn/ops/internal.h"
#include "nn/exec/kv_cache.h"

#include <math.h>

#define PANEL 32                    /* keys: a whole panel of any kernel, read in place */
#define PART_MACS ((size_t)1 << 18) /* multiply-adds worth waking another thread for */

enum { IN_Q, IN_NEW, IN_NEW_BIAS };

/* The entries of one search in the batch. */
struct cached {
    const steno_kernels *k;
    size_t batch, heads, size, v_size, k_at, v_at;
    struct steno_kv_rows rows;
    const float *q, *new_kv, *bias, *new_bias;
    size_t q_row, row, index_row, new_bias_step;
    const int32_t *index;
    bool is_text; /* the entries are tokens of one text; each sees those before it */
    float scale;
    float *y;
    char *scratch; /* with own rows: scores [heads][batch][rows.n + 1] */
    /* with shared rows: number of keys to multiply; for each part the bytes of a head's scores
     * [batch][cap] and of the product's memory */
    size_t shared, score_bytes, part_bytes, parts;
    float *sum; /* [heads][batch] sums of the weights */
    const char *pages;
    bool is_i8; /* the pages are of kv_pack_i8 */
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

/* Number of new rows that query b sees. */
static size_t own_new(const struct cached *c, size_t b)
{
    return c->is_text ? b + 1 : 1;
}

static const float *new_row(const struct cached *c, size_t b, size_t i)
{
    return c->new_kv + (c->is_text ? i : b) * c->row;
}

/* Weights of head h's keys for query b: s [rows.n + own_new], first the cached keys from the oldest
 * on, then the new ones. */
static void weigh_one(const struct cached *c, size_t h, size_t b, float *s)
{
    const size_t pair = c->size + c->v_size;
    const float *q = c->q + b * c->q_row + h * c->size;
    const int32_t *at = c->index + (c->is_text ? 0 : b) * c->index_row;
    c->k->dot_rows_f32(s, c->rows.n, q, c->size, c->scale, c->rows.p + h * c->rows.cap * pair, pair,
                       at);
    for (size_t t = 0; c->bias && t < c->rows.n; t++)
        s[t] += c->bias[at[t]];
    for (size_t i = 0; i < own_new(c, b); i++)
        s[c->rows.n + i] =
            c->scale * c->k->dot_f32(q, new_row(c, b, i) + c->k_at + h * c->size, c->size) +
            (c->new_bias ? c->new_bias[b * c->new_bias_step] : 0);
    c->k->softmax_f32(s, s, 1, c->rows.n + own_new(c, b));
}

/* Compute all queries of a head together: they share most rows, which then stay in L1. */
static void one_head(const struct cached *c, size_t h)
{
    const size_t keys = c->rows.n + own_new(c, c->batch - 1), pair = c->size + c->v_size;
    float *s = (float *)(void *)c->scratch + h * c->batch * keys, *y = c->y + h * c->v_size;
    for (size_t b = 0; b < c->batch; b++, s += keys, y += c->heads * c->v_size) {
        weigh_one(c, h, b, s);
        c->k->mix_rows_f32(y, c->v_size, s, c->rows.n, c->rows.p + h * c->rows.cap * pair + c->size,
                           pair, c->index + (c->is_text ? 0 : b) * c->index_row);
        for (size_t i = 0; i < own_new(c, b); i++)
            c->k->axpy_f32(y, new_row(c, b, i) + c->v_at + h * c->v_size, c->v_size,
                           s[c->rows.n + i]);
    }
}

static void some_heads(void *arg, size_t begin, size_t end)
{
    for (size_t h = begin; h < end; h++)
        one_head(arg, h);
}

static void run_own(struct steno_op_ctx *ctx, struct cached *c)
{
    steno_ops_ranges(ctx, c->heads, 1 + 16384 / (c->batch * c->size * (c->rows.n + 1)), some_heads,
                     c);
}

/* ---- rows that all hypotheses share, in f32 ---- */

/* Two products for each head: scores of all queries and keys, and weighted sums of the values. */
static void f32_head(const struct cached *c, size_t h, char *mem)
{
    const float *keys = c->rows.p + h * c->size * c->rows.cap;
    const float *values =
        c->rows.p + c->heads * c->size * c->rows.cap + h * c->rows.cap * c->v_size;
    float *s = (float *)(void *)mem, *y = c->y + h * c->v_size;
    void *work = mem + c->score_bytes;
    c->k->gemm_f32(c->batch, c->shared, c->size, c->q + h * c->size, c->q_row, false, keys,
                   c->rows.cap, false, s, c->rows.cap, NULL, work);
    for (size_t b = 0; b < c->batch; b++) {
        float max = -INFINITY, sum = 0;
        (void)c->k->softmax_step_f32(s + b * c->rows.cap, c->rows.n, c->scale, NULL, NULL, &max,
                                     &sum);
        c->sum[h * c->batch + b] = sum;
    }
    c->k->gemm_f32(c->batch, c->v_size, c->rows.n, s, c->rows.cap, false, values, c->v_size, false,
                   y, c->heads * c->v_size, NULL, work);
    for (size_t b = 0; b < c->batch; b++, y += c->heads * c->v_size)
        c->k->affine_f32(y, y, c->v_size, 1 / c->sum[h * c->batch + b], 0);
}

/* ---- shared rows in KV pages ---- */

/* Queries [b, b + m) of head h, whose keys and values are the pages from `page` on. */
static void bf16_tile(const struct cached *c, size_t h, size_t b, size_t m, const char *page,
                      char *mem)
{
    const size_t ldo = steno_attend_ldo(c->v_size), y_row = c->heads * c->v_size;
    const size_t bytes = steno_kv_page_bytes(c->k, c->size, c->v_size);
    float max[STENO_ATTEND_ROWS], sum[STENO_ATTEND_ROWS], *y = c->y + b * y_row + h * c->v_size;
    struct steno_attend a = {.m = m,
                             .keys = STENO_KV_PAGE_KEYS,
                             .size = c->size,
                             .v_size = c->v_size,
                             .q = c->q + b * c->q_row + h * c->size,
                             .ldq = c->q_row,
                             .scale = c->scale,
                             .first = true,
                             .cold = true,
                             .max = max,
                             .sum = sum,
                             .o = (float *)(void *)mem};
    for (size_t i = 0; i < m; i++) {
        max[i] = -INFINITY;
        sum[i] = 0;
    }
    for (size_t at = 0; at < c->rows.n; at += STENO_KV_PAGE_KEYS, page += bytes, a.first = false) {
        a.k = page;
        a.v = page + steno_kv_page_key_bytes(c->k, c->size);
        a.to = c->rows.n - at < STENO_KV_PAGE_KEYS ? c->rows.n - at : STENO_KV_PAGE_KEYS;
        c->k->attend_bf16.attend(&a);
    }
    for (size_t i = 0; i < m; i++, y += y_row)
        c->k->affine_f32(y, a.o + i * ldo, c->v_size, 1 / sum[i], 0);
}

static void i8_tile(const struct cached *c, size_t h, size_t b, size_t m, const char *page)
{
    const size_t y_row = c->heads * c->v_size;
    c->k->attend_i8(&(struct steno_attend_i8){.m = m,
                                              .n = c->rows.n,
                                              .size = c->size,
                                              .v_size = c->v_size,
                                              .q = c->q + b * c->q_row + h * c->size,
                                              .ldq = c->q_row,
                                              .pages = page,
                                              .scale = c->scale,
                                              .y = c->y + b * y_row + h * c->v_size,
                                              .ldy = y_row});
}

static void pages_head(const struct cached *c, size_t h, char *mem)
{
    const size_t bytes = c->is_i8 ? steno_kv_i8_page_bytes(c->size, c->v_size)
                                  : steno_kv_page_bytes(c->k, c->size, c->v_size);
    const char *page = c->pages + h * (c->rows.cap / STENO_KV_PAGE_KEYS) * bytes;
    for (size_t b = 0; b < c->batch; b += STENO_ATTEND_ROWS) {
        const size_t m = c->batch - b < STENO_ATTEND_ROWS ? c->batch - b : STENO_ATTEND_ROWS;
        if (c->is_i8)
            i8_tile(c, h, b, m, page);
        else
            bf16_tile(c, h, b, m, page, mem);
    }
}

/* ---- all shared rows ---- */

static void shared_part(void *arg, int part)
{
    const struct cached *c = arg;
    const size_t p = (size_t)part;
    for (size_t h = c->heads * p / c->parts; h < c->heads * (p + 1) / c->parts; h++)
        (c->pages ? pages_head : f32_head)(c, h, c->scratch + p * c->part_bytes);
}

static void run_shared(struct steno_op_ctx *ctx, struct cached *c)
{
    if (!c->rows.n)
        memset(c->y, 0, c->batch * c->heads * c->v_size * sizeof *c->y);
    else
        steno_op_parallel(ctx, (int)c->parts, shared_part, c);
}

/* ---- memory ---- */

/* Bytes of scratch for own rows. The size is for as many keys as index has room for, so that it
 * grows with index and not with every key. */
static bool own_bytes(const struct cached *c, size_t *bytes)
{
    return steno_mul_size(c->batch * c->heads * sizeof(float),
                          c->index_row + (c->is_text ? c->batch : 1), bytes);
}

/* The same for shared rows. Also sets the layout of the parts: first the sums, then the parts. */
static bool shared_bytes(struct steno_op_ctx *ctx, struct cached *c, size_t *bytes)
{
    const size_t macs = c->batch * c->rows.n * c->heads * (c->size + c->v_size);
    size_t scores;
    c->parts = macs < PART_MACS ? 1 : (size_t)steno_op_threads(ctx);
    c->parts = c->parts < c->heads ? c->parts : c->heads;
    c->shared = (c->rows.n + PANEL - 1) / PANEL * PANEL;
    c->shared = c->shared < c->rows.cap ? c->shared : c->rows.cap;
    if (!steno_mul_size(c->batch * sizeof(float), c->rows.cap, &scores) || scores > SIZE_MAX / 1024)
        return false;
    c->score_bytes = steno_aligned(scores + STENO_OVERREAD);
    if (c->pages)
        c->part_bytes = STENO_ATTEND_ROWS * steno_attend_ldo(c->v_size) * sizeof(float);
    else
        c->part_bytes =
            c->score_bytes +
            steno_aligned(steno_ops_larger(c->k->gemm_f32_work(c->batch, c->rows.cap, c->size),
                                           c->k->gemm_f32_work(c->batch, c->v_size, c->rows.cap)));
    *bytes = steno_aligned(c->heads * c->batch * sizeof *c->sum) + c->parts * c->part_bytes;
    return true;
}

/* ---- the operator ---- */

static size_t attribute(const struct steno_op_ctx *ctx, const char *name)
{
    int64_t v = steno_node_int(steno_op_node(ctx), name, 0);
    return v > 0 && v < INT32_MAX ? (size_t)v : 0;
}

static const char *read_sizes(struct steno_op_ctx *ctx, struct cached *c)
{
    const struct steno_tensor *q = steno_op_in(ctx, IN_Q);
    size_t q_at = attribute(ctx, "q_at");
    c->heads = attribute(ctx, "heads");
    c->size = attribute(ctx, "size");
    c->v_size = attribute(ctx, "v_size");
    c->k_at = attribute(ctx, "k_at");
    c->v_at = attribute(ctx, "v_at");
    c->scale = steno_node_float(steno_op_node(ctx), "scale", 1);
    if (q->dtype != STENO_F32 || q->shape.rank != 3 || q->shape.dim[1] != 1)
        return "Q is not f32 [B, 1, columns]";
    c->batch = (size_t)q->shape.dim[0];
    c->q_row = (size_t)q->shape.dim[2];
    if (!c->heads || q_at + c->heads * c->size > c->q_row)
        return "Q has too few columns for the heads";
    c->q = (const float *)q->data + q_at;
    return NULL;
}

static const char *read_new(struct steno_op_ctx *ctx, struct cached *c)
{
    const struct steno_tensor *t = steno_op_in(ctx, IN_NEW);
    if (!t)
        return NULL;
    if (t->dtype != STENO_F32 || t->shape.rank != 3 ||
        steno_numel(t) != c->batch * (size_t)t->shape.dim[2])
        return "new is not one row for each query";
    c->row = (size_t)t->shape.dim[2];
    if (c->k_at + c->heads * c->size > c->row || c->v_at + c->heads * c->v_size > c->row)
        return "new has too few columns for the heads";
    c->new_kv = t->data;
    t = steno_op_in(ctx, IN_NEW_BIAS);
    if (t && (t->dtype != STENO_F32 || (steno_numel(t) != c->batch && steno_numel(t) != 1)))
        return "new_bias is not one number for each query";
    c->new_bias = t ? t->data : NULL;
    c->new_bias_step = t && steno_numel(t) > 1;
    return NULL;
}

static const char *check_index(const struct cached *c)
{
    if (c->index_row < c->rows.n)
        return "more keys than index has room for";
    for (size_t b = 0; b < (c->is_text ? 1 : c->batch); b++)
        for (size_t i = 0; i < c->rows.n; i++)
            if (c->index[b * c->index_row + i] < 0 ||
                (size_t)c->index[b * c->index_row + i] >= c->rows.cap)
                return "index names a row that does not exist";
    return NULL;
}

/* Set *c to the hypotheses of view v: entries from `at` on of the batch `all`. Returns NULL, or a
 * message that says what is wrong. */
static const char *share_of(const struct cached *all, const struct steno_kv_view *v, size_t at,
                            size_t layer, struct cached *c)
{
    const struct steno_kv_layer *l = &v->layer[layer];
    *c = *all;
    if (layer >= v->n_layers || v->hyps > all->batch - at)
        return "it has too few layers, or more hypotheses than the batch";
    c->batch = v->hyps;
    c->q += at * all->q_row;
    c->y += at * all->heads * all->v_size;
    c->rows = all->new_kv ? l->own : l->memory;
    if (!all->new_kv) {
        c->pages = l->pages;
        c->is_i8 = l->is_i8;
        if (c->is_i8 && (c->size > STENO_ATTEND_SIZE || c->v_size > STENO_ATTEND_SIZE))
            return "keys or values with too many numbers for 8 bits";
        return c->rows.n > c->rows.cap ? "more keys than rows" : NULL;
    }
    c->new_kv += at * all->row;
    c->new_bias = all->new_bias ? all->new_bias + at * all->new_bias_step : NULL;
    c->index = v->index;
    c->index_row = v->index_row;
    c->bias = v->bias;
    c->is_text = v->is_text;
    return check_index(c);
}

/* Compute all views. With scratch NULL, only set *most to the largest scratch that a view needs. */
static steno_status each_view(struct steno_op_ctx *ctx, const struct cached *all, char *scratch,
                              size_t *most, steno_err *err)
{
    const struct steno_kv_binding *s = steno_op_bound_kv(ctx);
    const size_t layer = attribute(ctx, "layer"), y_row = all->heads * all->v_size;
    size_t at = 0;
    for (size_t i = 0; i < s->n; i++) {
        struct cached c;
        size_t bytes = 0;
        const char *wrong = share_of(all, &s->view[i], at, layer, &c);
        if (wrong)
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "search %zu: %s", i, wrong);
        if (!(c.new_kv ? own_bytes(&c, &bytes) : shared_bytes(ctx, &c, &bytes)))
            return steno_ops_nomem(ctx, err);
        *most = steno_ops_larger(*most, bytes);
        at += c.batch;
        if (!scratch || !c.batch)
            continue;
        c.sum = (float *)(void *)scratch;
        c.scratch = c.new_kv ? scratch : scratch + steno_aligned(c.heads * c.batch * sizeof *c.sum);
        if (c.new_kv)
            run_own(ctx, &c);
        else
            run_shared(ctx, &c);
    }
    if (scratch)
        memset(all->y + at * y_row, 0, (all->batch - at) * y_row * sizeof *all->y);
    return STENO_OK;
}

static steno_status run_bound(struct steno_op_ctx *ctx, const struct cached *all, steno_err *err)
{
    size_t most = STENO_ALIGN;
    char *scratch;
    steno_status st;
    if (!steno_op_bound_kv(ctx))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "no key/value cache is bound to the session");
    st = each_view(ctx, all, NULL, &most, err);
    if (st)
        return st;
    scratch = steno_op_scratch(ctx, most);
    return scratch ? each_view(ctx, all, scratch, &most, err) : steno_ops_nomem(ctx, err);
}

static steno_status run_cached(struct steno_op_ctx *ctx, steno_err *err)
{
    struct cached c = {.k = steno_op_kernels(ctx)};
    struct steno_tensor *y;
    struct steno_shape s;
    const char *wrong;
    steno_status st;
    wrong = read_sizes(ctx, &c);
    if (!wrong)
        wrong = read_new(ctx, &c);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    s = steno_ops_shape(3, (const int64_t[]){(int64_t)c.batch, 1, (int64_t)(c.heads * c.v_size)});
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !c.batch)
        return st;
    c.y = y->data;
    return run_bound(ctx, &c, err);
}

const struct steno_op steno_ops_cached_attention[] = {
    {"ai.steno.run", "CachedAttention", 1, 0, STENO_OP_IMPURE, infer_cached, NULL, NULL,
     run_cached},
    {0},
};
