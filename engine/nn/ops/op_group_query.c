/* com.microsoft GroupQueryAttention, the attention of language models as their exporters write it:
 * heads that queries share, rotary positions, and caches that grow. Definition: ONNX Runtime,
 * docs/ContribOperators.md. f16 and bf16 are computed in f32. */
#include "nn/ops/attention.h"
#include "nn/ops/contrib.h"

#include <math.h>
#include <string.h>

enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, LENGTHS, TOTAL, COS, SIN, PLACES, BIAS, SINK };

static const char no_memory[] = "out of memory";

struct group_query {
    size_t batch, rows, heads, kv_heads, size;
    size_t past, keys; /* rows of the caches that come, and that go */
    size_t width;      /* of a row of the query: all three if they come together */
    size_t half, positions;
    bool together, turns, interleaved;
    int64_t *seen, *before; /* [batch] keys in all, and those that were there before */
    float *angles;          /* [2, half] scratch for cosines and sines of a position */
};

static bool float_like(const struct steno_tensor *t)
{
    return t->dtype == STENO_F32 || steno_ops_is_half(t->dtype);
}

static bool is_cache(const struct group_query *g, const struct steno_tensor *t, size_t rows)
{
    const struct steno_shape *s = &t->shape;
    return float_like(t) && s->rank == 4 && (size_t)s->dim[0] == g->batch &&
           (size_t)s->dim[1] == g->kv_heads && (size_t)s->dim[2] == rows &&
           (size_t)s->dim[3] == g->size;
}

static bool is_key(const struct group_query *g, const struct steno_tensor *t)
{
    const struct steno_shape *s = &t->shape;
    return float_like(t) && s->rank == 3 && (size_t)s->dim[0] == g->batch &&
           (size_t)s->dim[1] == g->rows && (size_t)s->dim[2] == g->kv_heads * g->size;
}

/* Sizes of query, keys and values, and of what comes in the caches. */
static const char *read_factors(const struct steno_op_ctx *ctx, struct group_query *g)
{
    const struct steno_node *n = steno_op_node(ctx);
    const struct steno_tensor *q = steno_op_in(ctx, QUERY), *k = steno_op_in(ctx, KEY),
                              *v = steno_op_in(ctx, VALUE);
    const struct steno_tensor *pk = steno_op_in(ctx, PAST_KEY), *pv = steno_op_in(ctx, PAST_VALUE);
    const int64_t heads = steno_node_int(n, "num_heads", 0);
    const int64_t kv = steno_node_int(n, "kv_num_heads", 0);
    g->together = !k;
    if (heads < 1 || kv < 1 || heads > INT16_MAX || heads % kv || !float_like(q) ||
        q->shape.rank != 3 || !k != !v || q->shape.dim[2] % (g->together ? heads + 2 * kv : heads))
        return "expected a query [batch, rows, hidden] for its heads, with both key and value, or "
               "with none";
    g->heads = (size_t)heads;
    g->kv_heads = (size_t)kv;
    g->batch = (size_t)q->shape.dim[0];
    g->rows = (size_t)q->shape.dim[1];
    g->width = (size_t)q->shape.dim[2];
    g->size = g->width / (size_t)(g->together ? heads + 2 * kv : heads);
    g->past = pk && pk->shape.rank == 4 && pk->shape.dim[2] > 0 ? (size_t)pk->shape.dim[2] : 0;
    if (!g->size || (k && (!is_key(g, k) || !is_key(g, v))))
        return "key and value do not fit the query";
    if (!pk != !pv || (pk && (!is_cache(g, pk, g->past) || !is_cache(g, pv, g->past))))
        return "the caches do not fit the query";
    return NULL;
}

/* How many keys each entry sees. */
static const char *read_lengths(struct steno_op_ctx *ctx, struct group_query *g)
{
    const struct steno_tensor *lengths = steno_op_in(ctx, LENGTHS), *all = steno_op_in(ctx, TOTAL);
    int64_t total;
    if (lengths->dtype != STENO_I32 || steno_numel(lengths) != g->batch ||
        all->dtype != STENO_I32 || steno_numel(all) != 1)
        return "expected seqlens_k i32 [batch] and total_sequence_length i32";
    total = steno_ops_get_i64(all, 0);
    if (total < (int64_t)g->rows || total > (int64_t)(g->past + g->rows))
        return "total_sequence_length does not fit rows and caches";
    g->keys = (size_t)total > g->past ? (size_t)total : g->past;
    g->seen = steno_op_scratch(ctx, (2 * g->batch + 1) * sizeof *g->seen);
    if (!g->seen)
        return no_memory;
    g->before = g->seen + g->batch;
    for (size_t b = 0; b < g->batch; b++) {
        g->seen[b] = steno_ops_get_i64(lengths, b) + 1;
        g->before[b] = (int64_t)g->rows == total ? 0 : g->seen[b] - (int64_t)g->rows;
        if (g->seen[b] < 1 || g->seen[b] > total || g->before[b] < 0 ||
            (size_t)g->before[b] > g->past)
            return "seqlens_k does not fit rows and caches";
    }
    return NULL;
}

static const char *read_rotary(struct steno_op_ctx *ctx, struct group_query *g)
{
    const struct steno_node *n = steno_op_node(ctx);
    const struct steno_tensor *c = steno_op_in(ctx, COS), *s = steno_op_in(ctx, SIN),
                              *places = steno_op_in(ctx, PLACES);
    g->turns = steno_node_int(n, "do_rotary", 0) != 0;
    g->interleaved = steno_node_int(n, "rotary_interleaved", 0) != 0;
    if (!g->turns)
        return NULL;
    if (!c || !s || !float_like(c) || !float_like(s) || c->shape.rank != 2 ||
        !steno_shape_equal(&c->shape, &s->shape) || c->shape.dim[1] < 1 ||
        (size_t)c->shape.dim[1] > g->size / 2)
        return "cos_cache and sin_cache do not fit the heads";
    if (places && (places->dtype != STENO_I64 || steno_numel(places) != g->batch * g->rows))
        return "position_ids do not fit the query";
    g->half = (size_t)c->shape.dim[1];
    g->positions = (size_t)c->shape.dim[0];
    g->angles = steno_op_scratch(ctx, 2 * g->half * sizeof *g->angles);
    return g->angles ? NULL : no_memory;
}

/* Row `at` of a cache of cosines or sines [positions, half]; buf [half]: for one that is not f32.
 */
static const float *angles_at(const struct steno_tensor *cache, size_t half, size_t at, float *buf)
{
    const char *row = (const char *)cache->data + at * half * steno_dtype_size(cache->dtype);
    if (cache->dtype == STENO_F32)
        return (const float *)(const void *)row;
    steno_ops_load_f32(buf, row, cache->dtype, half);
    return buf;
}

/* Copy `heads` heads of the rows of entry b, turned by their positions, to `to` with strides.
 * False: a position is outside the caches of cosines. */
static bool turn_rows(struct steno_op_ctx *ctx, const struct group_query *g, size_t b,
                      const float *x, size_t width, size_t heads, float *to, size_t head,
                      size_t row)
{
    const struct steno_tensor *places = steno_op_in(ctx, PLACES);
    for (size_t i = 0; i < g->rows; i++) {
        const int64_t at =
            places ? steno_ops_get_i64(places, b * g->rows + i) : g->before[b] + (int64_t)i;
        const float *c, *s;
        if (at < 0 || (uint64_t)at >= g->positions)
            return false;
        c = angles_at(steno_op_in(ctx, COS), g->half, (size_t)at, g->angles);
        s = angles_at(steno_op_in(ctx, SIN), g->half, (size_t)at, g->angles + g->half);
        for (size_t h = 0; h < heads; h++)
            steno_contrib_rotate(g->half, g->size, g->interleaved, x + i * width + h * g->size, c,
                                 s, to + h * head + i * row);
    }
    return true;
}

/* The same without turning. */
static void copy_rows(const struct group_query *g, const float *x, size_t width, float *to)
{
    for (size_t h = 0; h < g->kv_heads; h++)
        for (size_t i = 0; i < g->rows; i++)
            memcpy(to + h * g->keys * g->size + i * g->size, x + i * width + h * g->size,
                   g->size * sizeof *to);
}

/* Output `out`: the cache of input `in`, and behind what is valid of it the new rows of x. */
static steno_status extend_cache(struct steno_op_ctx *ctx, const struct group_query *g, int in,
                                 int out, const float *x, size_t width, bool turns,
                                 const float **cache, steno_err *err)
{
    const struct steno_tensor *past = steno_op_in(ctx, in);
    const struct steno_shape s =
        steno_ops_shape(4, (const int64_t[]){(int64_t)g->batch, (int64_t)g->kv_heads,
                                             (int64_t)g->keys, (int64_t)g->size});
    const float *from = past ? steno_ops_as_f32(ctx, past) : NULL;
    const bool wanted = steno_op_wants(ctx, out);
    const size_t head = g->keys * g->size;
    struct steno_tensor *t = NULL;
    float *to;
    steno_status st =
        wanted ? steno_op_out(ctx, out, steno_op_in(ctx, QUERY)->dtype, &s, &t, err) : STENO_OK;
    if (st)
        return st;
    to = t ? steno_ops_out_f32(ctx, t)
           : steno_op_scratch(ctx, (steno_ops_prod(&s, 0, 4) + 1) * sizeof *to);
    if (!to || (past && !from))
        return steno_ops_nomem(ctx, err);
    for (size_t b = 0; b < g->batch; b++) {
        float *of = to + b * g->kv_heads * head;
        const size_t before = (size_t)g->before[b], end = before + g->rows;
        for (size_t h = 0; h < g->kv_heads; h++) {
            if (before)
                memcpy(of + h * head, from + (b * g->kv_heads + h) * g->past * g->size,
                       before * g->size * sizeof *to);
            memset(of + h * head + end * g->size, 0, (g->keys - end) * g->size * sizeof *to);
        }
        of += before * g->size;
        if (!turns)
            copy_rows(g, x + b * g->rows * width, width, of);
        else if (!turn_rows(ctx, g, b, x + b * g->rows * width, width, g->kv_heads, of, head,
                            g->size))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                                 "a position is outside cos_cache, which has %zu", g->positions);
    }
    if (t)
        steno_ops_put_f32(t, to);
    *cache = to;
    return STENO_OK;
}

/* The queries as [batch, rows, heads, size]. */
static steno_status read_queries(struct steno_op_ctx *ctx, const struct group_query *g,
                                 const float *x, struct steno_attention_view *q, steno_err *err)
{
    const size_t width = g->heads * g->size;
    float *to;
    *q = (struct steno_attention_view){
        .data = x, .batch = g->rows * g->width, .head = g->size, .row = g->width};
    if (!g->turns)
        return STENO_OK;
    to = steno_op_scratch(ctx, (g->batch * g->rows * width + 1) * sizeof *to);
    if (!to)
        return steno_ops_nomem(ctx, err);
    for (size_t b = 0; b < g->batch; b++)
        if (!turn_rows(ctx, g, b, x + b * g->rows * g->width, g->width, g->heads,
                       to + b * g->rows * width, g->size, width))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                                 "a position is outside cos_cache, which has %zu", g->positions);
    *q = (struct steno_attention_view){
        .data = to, .batch = g->rows * width, .head = g->size, .row = width};
    return STENO_OK;
}

static steno_status attend(struct steno_op_ctx *ctx, const struct group_query *g,
                           struct steno_attention *a, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    const int64_t window = steno_node_int(n, "local_window_size", -1);
    const float scale = steno_node_float(n, "scale", 0);
    const size_t width = g->heads * g->size;
    const struct steno_shape s =
        steno_ops_shape(3, (const int64_t[]){(int64_t)g->batch, (int64_t)g->rows, (int64_t)width});
    struct steno_tensor *y;
    const char *wrong;
    steno_status st = steno_op_out(ctx, 0, steno_op_in(ctx, QUERY)->dtype, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    a->batch = g->batch;
    a->q_heads = g->heads;
    a->kv_heads = g->kv_heads;
    a->rows = g->rows;
    a->keys = g->keys;
    a->size = a->v_size = g->size;
    a->scale = scale != 0 ? scale : 1 / sqrtf((float)g->size);
    a->softcap = steno_node_float(n, "softcap", 0);
    a->left = window < 1 ? -1 : window - 1;
    a->offset = g->before;
    a->valid = g->seen;
    a->y_view =
        (struct steno_attention_view){.batch = g->rows * width, .head = g->size, .row = width};
    a->y = steno_ops_out_f32(ctx, y);
    if (!a->y)
        return steno_ops_nomem(ctx, err);
    wrong = steno_attention_read_mask(ctx, BIAS, a);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "attention_bias: %s", wrong);
    st = steno_ops_attention(ctx, a, err);
    if (!st)
        steno_ops_put_f32(y, a->y);
    return st;
}

static steno_status run_group_query(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    struct steno_attention a = {0};
    struct group_query g = {0};
    const float *q, *k, *v;
    size_t width;
    const char *wrong;
    steno_status st;
    if (steno_op_in(ctx, SINK) || steno_node_int(n, "smooth_softmax", 0) > 0 ||
        steno_node_int(n, "qk_output", 0) || steno_node_int(n, "kv_cache_bit_width", 0))
        return steno_op_fail(ctx, err, STENO_ERR_UNSUPPORTED,
                             "head_sink, smooth_softmax, qk_output and quantized caches are not "
                             "supported");
    wrong = read_factors(ctx, &g);
    if (!wrong)
        wrong = read_lengths(ctx, &g);
    if (!wrong)
        wrong = read_rotary(ctx, &g);
    if (wrong)
        return wrong == no_memory ? steno_ops_nomem(ctx, err)
                                  : steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    q = steno_ops_as_f32(ctx, steno_op_in(ctx, QUERY));
    if (!q)
        return steno_ops_nomem(ctx, err);
    k = g.together ? q + g.heads * g.size : steno_ops_as_f32(ctx, steno_op_in(ctx, KEY));
    v = g.together ? k + g.kv_heads * g.size : steno_ops_as_f32(ctx, steno_op_in(ctx, VALUE));
    width = g.together ? g.width : g.kv_heads * g.size;
    if (!k || !v)
        return steno_ops_nomem(ctx, err);
    st = read_queries(ctx, &g, q, &a.q, err);
    if (!st)
        st = extend_cache(ctx, &g, PAST_KEY, 1, k, width, g.turns, &k, err);
    if (!st)
        st = extend_cache(ctx, &g, PAST_VALUE, 2, v, width, false, &v, err);
    a.k = (struct steno_attention_view){
        .data = k, .batch = g.kv_heads * g.keys * g.size, .head = g.keys * g.size, .row = g.size};
    a.v = a.k;
    a.v.data = v;
    return st ? st : attend(ctx, &g, &a, err);
}

static steno_status infer_group_query(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    const int64_t heads = steno_node_int(n, "num_heads", 0),
                  kv = steno_node_int(n, "kv_num_heads", 0);
    const bool together = n->n_in <= KEY || n->in[KEY] == STENO_NONE;
    struct steno_shape q = steno_infer_shape(ic, QUERY), cache;
    (void)err;
    if (heads < 1 || kv < 1 || heads > INT16_MAX || kv > heads)
        q.rank = -1;
    if (q.rank == 3 && together)
        q.dim[2] = q.dim[2] >= 0 ? q.dim[2] / (heads + 2 * kv) * heads : steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, QUERY), &q);
    cache = steno_ops_shape(4, (const int64_t[]){0, kv, 0, 0});
    if (q.rank == 3 && q.dim[2] >= 0) {
        cache.dim[0] = q.dim[0];
        cache.dim[2] = steno_infer_new_dim(ic);
        cache.dim[3] = q.dim[2] / heads;
    } else {
        cache.rank = -1;
    }
    steno_infer_set(ic, 1, steno_infer_dtype(ic, QUERY), &cache);
    steno_infer_set(ic, 2, steno_infer_dtype(ic, QUERY), &cache);
    return STENO_OK;
}

const struct steno_op steno_ops_ms_group_query[] = {
    {"com.microsoft", "GroupQueryAttention", 1, 0, 0, infer_group_query, NULL, NULL,
     run_group_query},
    {0},
};
