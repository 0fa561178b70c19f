/* Operator of domain ai.steno.run, which no file contains: it can update a state in place.
 *
 * WindowAttention  Q [B, T, .], new [B, T, .], cache [B, L, W], mask?
 *                  y [B, T, heads * v_size], cache' [B, L, W]
 *                  Attention of a stream's chunk to itself and to the L rows before it:
 *                      z = Concat(cache, columns new_at .. new_at + W of new; axis 1)
 *                      y = ai.steno:Attention(Q, z, z, mask), columns from q_at, k_at, v_at on
 *                      cache' = the last L rows of z
 *                  Attributes: heads, size, v_size, q_at, k_at, v_at, new_at, scale,
 *                  fill?.
 *
 * z exists for one entry of the batch at a time, in L1. If the caller passes the entries of cache
 * one by one (steno_op_rows: states of streams, each in its own memory), they are updated in place
 * to those of cache', and output 1 is not written. */
#include "nn/ops/attention.h"
#include "nn/ops/families.h"
#include "nn/ops/internal.h"

#include <math.h>

enum { IN_Q, IN_NEW, IN_CACHE, IN_MASK };

struct windowed {
    const steno_kernels *k;
    struct steno_attention a; /* its k and v are those of z */
    const float *new_kv;      /* column new_at of the first row */
    size_t new_kv_row, new_kv_batch;
    const float *cache;
    float *new_cache;
    void *const *rows;  /* [B], or NULL; if set, cache and new_cache are not used */
    size_t held, width; /* L, W */
    size_t k_at, v_at;
    char *scratch;
    size_t z_bytes, part_bytes, parts;
};

static steno_status infer_window(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_shape q = steno_infer_shape(ic, IN_Q), cache = steno_infer_shape(ic, IN_CACHE);
    (void)err;
    if (q.rank == 3)
        q.dim[2] = steno_node_int(n, "heads", 1) * steno_node_int(n, "v_size", 1);
    steno_infer_set(ic, 0, STENO_F32, q.rank == 3 ? &q : NULL);
    steno_infer_set(ic, 1, STENO_F32, cache.rank == 3 ? &cache : NULL);
    return STENO_OK;
}

static steno_status prepare_window(struct steno_prepare *pc, void **priv, steno_err *err)
{
    (void)priv;
    return steno_attention_check_columns(steno_prepare_node_of(pc), "new_at", err);
}

static size_t attr(const struct steno_op_ctx *ctx, const char *name)
{
    return (size_t)steno_node_int(steno_op_node(ctx), name, 0);
}

static bool is_rows(const struct steno_tensor *t)
{
    return t && t->dtype == STENO_F32 && t->shape.rank == 3;
}

/* Returns NULL, or a message that says what is wrong. */
static const char *read_inputs_window_attention(struct steno_op_ctx *ctx, struct windowed *w)
{
    const struct steno_tensor *q = steno_op_in(ctx, IN_Q), *new_kv = steno_op_in(ctx, IN_NEW);
    const struct steno_tensor *cache = steno_op_in(ctx, IN_CACHE);
    struct steno_attention *a = &w->a;
    size_t q_at = attr(ctx, "q_at"), new_at = attr(ctx, "new_at"), q_row;
    if (!is_rows(q) || !is_rows(new_kv) || !is_rows(cache))
        return "Q, new and cache must be f32 [B, T, columns]";
    if (q->shape.dim[0] != cache->shape.dim[0] || new_kv->shape.dim[0] != cache->shape.dim[0] ||
        q->shape.dim[1] != new_kv->shape.dim[1])
        return "Q, new and cache differ in batch, or Q and new in length";
    a->q_heads = a->kv_heads = attr(ctx, "heads");
    a->size = attr(ctx, "size");
    a->v_size = attr(ctx, "v_size");
    a->batch = (size_t)q->shape.dim[0];
    a->rows = (size_t)q->shape.dim[1];
    w->held = (size_t)cache->shape.dim[1];
    w->width = (size_t)cache->shape.dim[2];
    w->k_at = attr(ctx, "k_at");
    w->v_at = attr(ctx, "v_at");
    q_row = (size_t)q->shape.dim[2];
    w->new_kv_row = (size_t)new_kv->shape.dim[2];
    w->new_kv_batch = a->rows * w->new_kv_row;
    if (q_at + a->q_heads * a->size > q_row || new_at + w->width > w->new_kv_row ||
        w->k_at + a->q_heads * a->size > w->width || w->v_at + a->q_heads * a->v_size > w->width)
        return "Q, new or cache has too few columns for its heads";
    a->keys = w->held + a->rows;
    a->q = (struct steno_attention_view){(const float *)q->data + q_at, a->rows * q_row, a->size,
                                         q_row};
    a->k = (struct steno_attention_view){NULL, 0, a->size, w->width};
    a->v = (struct steno_attention_view){NULL, 0, a->v_size, w->width};
    a->scale = steno_node_float(steno_op_node(ctx), "scale", 1);
    a->left = a->right = -1;
    w->new_kv = (const float *)new_kv->data + new_at;
    w->cache = cache->data;
    w->rows = steno_op_rows(ctx, IN_CACHE);
    return steno_attention_read_mask(ctx, IN_MASK, a);
}

/* ---- run ---- */

/* True when rows and keys are few enough for attend_few_f32. */
static bool is_small_window_attention(const struct steno_attention *a)
{
    return a->rows <= STENO_ATTEND_FEW_ROWS && a->keys <= STENO_ATTEND_FEW_KEYS &&
           a->size <= STENO_ATTEND_FEW_SIZE && !a->hidden.data && a->rows;
}

static void attend_window_attention(const struct windowed *w, const struct steno_attention *a,
                                    size_t b)
{
    struct steno_attend_few s = {.ldq = a->q.row,
                                 .ldk = a->k.row,
                                 .ldv = a->v.row,
                                 .ldm = a->mask.row,
                                 .ldy = a->y_view.row,
                                 .size = a->size,
                                 .v_size = a->v_size,
                                 .scale = a->scale};
    for (size_t h = 0; h < a->q_heads; h++) {
        s.q = a->q.data + b * a->q.batch + h * a->q.head;
        s.k = a->k.data + h * a->k.head;
        s.v = a->v.data + h * a->v.head;
        s.mask = a->mask.data ? a->mask.data + b * a->mask.batch + h * a->mask.head : NULL;
        s.y = a->y + b * a->y_view.batch + h * a->y_view.head;
        w->k->attend_few_f32(a->rows, a->keys, &s);
    }
}

static void fill_window_attention(const struct windowed *w, size_t b, float *z)
{
    size_t held = w->held * w->width;
    const float *from = w->rows ? w->rows[b] : w->cache + b * held, *new_kv;
    if (held)
        memcpy(z, from, held * sizeof *z);
    new_kv = w->new_kv + b * w->new_kv_batch;
    for (size_t t = 0; t < w->a.rows; t++, new_kv += w->new_kv_row)
        memcpy(z + held + t * w->width, new_kv, w->width * sizeof *z);
}

static void keep_window_attention(const struct windowed *w, size_t b, const float *z)
{
    size_t held = w->held * w->width;
    float *to = w->rows ? w->rows[b] : w->new_cache ? w->new_cache + b * held : NULL;
    if (to && held)
        memcpy(to, z + w->a.rows * w->width, held * sizeof *z);
}

static void part_window_attention(void *arg, int p)
{
    const struct windowed *w = arg;
    size_t n = w->a.batch, from = n * (size_t)p / w->parts, to = n * ((size_t)p + 1) / w->parts;
    char *mem = w->scratch + (size_t)p * w->part_bytes;
    float *z = (float *)(void *)mem;
    struct steno_attention a = w->a;
    struct steno_attention_tiles tiles;
    a.k.data = z + w->k_at;
    a.v.data = z + w->v_at;
    if (!steno_attention_tiles_init(&tiles, &a, w->k))
        return; /* cannot fail: allocate() did the same */
    for (size_t b = from; b < to; b++) {
        fill_window_attention(w, b, z);
        if (is_small_window_attention(&a))
            attend_window_attention(w, &a, b);
        else
            for (size_t h = 0; h < a.q_heads && a.rows; h++)
                steno_attention_tiles_head(&tiles, b, h, mem + w->z_bytes);
        keep_window_attention(w, b, z);
    }
}

static bool allocate(struct steno_op_ctx *ctx, struct windowed *w)
{
    struct steno_attention_tiles tiles;
    size_t threads = (size_t)steno_op_threads(ctx), cells, bytes;
    if (!steno_mul_size(w->a.keys + 7, w->width * sizeof(float), &cells) ||
        !steno_add_size(cells, STENO_ALIGN + STENO_OVERREAD, &bytes) ||
        !steno_attention_tiles_init(&tiles, &w->a, w->k))
        return false;
    w->z_bytes = bytes & ~(size_t)(STENO_ALIGN - 1);
    w->parts = threads < w->a.batch ? threads : w->a.batch;
    if (!steno_add_size(w->z_bytes, tiles.bytes, &w->part_bytes) ||
        !steno_mul_size(w->parts, w->part_bytes, &bytes))
        return false;
    w->scratch = steno_op_scratch(ctx, bytes);
    return w->scratch != NULL;
}

static steno_status outputs(struct steno_op_ctx *ctx, struct windowed *w, steno_err *err)
{
    struct steno_attention *a = &w->a;
    size_t row = a->q_heads * a->v_size;
    struct steno_shape s =
        steno_ops_shape(3, (const int64_t[]){(int64_t)a->batch, (int64_t)a->rows, (int64_t)row});
    struct steno_tensor *y, *new_cache = NULL;
    steno_status st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (!st && steno_op_wants(ctx, 1))
        st = steno_op_out(ctx, 1, STENO_F32, &steno_op_in(ctx, IN_CACHE)->shape, &new_cache, err);
    if (st)
        return st;
    a->y = y->data;
    a->y_view = (struct steno_attention_view){NULL, a->rows * row, a->v_size, row};
    w->new_cache = new_cache ? new_cache->data : NULL;
    return STENO_OK;
}

static steno_status run_window(struct steno_op_ctx *ctx, steno_err *err)
{
    struct windowed w = {.k = steno_op_kernels(ctx)};
    const char *wrong;
    steno_status st;
    wrong = read_inputs_window_attention(ctx, &w);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    if (w.a.mask.data)
        w.a.empty = NAN; /* Softmax of -inf alone gives NaN */
    st = outputs(ctx, &w, err);
    if (st || !w.a.batch)
        return st;
    if (!allocate(ctx, &w))
        return steno_ops_nomem(ctx, err);
    steno_op_parallel(ctx, (int)w.parts, part_window_attention, &w);
    return STENO_OK;
}

const struct steno_op steno_ops_window_attention[] = {
    {"ai.steno.run", "WindowAttention", 1, 0, STENO_OP_ROWS2, infer_window, prepare_window, NULL,
     run_window},
    {0},
};
