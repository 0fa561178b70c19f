/* Operator of domain ai.steno for attention within a window, made by pass `local`.
 *
 * LocalAttention  Q, K [B, T, h d], V [B, T, h v], mask?, off?; y [B, T, h v]
 *                 Row t sees the keys from t - window to t + window that exist:
 *                     s[t, j] = scale * Q_t . K_j + mask_j,  |t - j| <= window
 *                     y_t = sum over j of Softmax(s[t])_j V_j, or 0 where off_t
 *                 mask f32, off bool: B T numbers in order, of any shape.
 *                 Attributes: heads, size (d), v_size (v), scale, window.
 *                 (Beltagy et al., Longformer, 2020, section 3.1: "sliding window", without
 *                 dilation and without global tokens.)
 *
 * A tile of TILE rows multiplies the TILE + 2 window keys around it: time is O(T window). Scratch
 * is one tile of scores per thread, so it does not depend on T. With window 100 a tile of 64
 * computes 264 scores for each row and uses 201. */
#include "nn/ops/families.h"
#include "nn/ops/internal.h"

#include <math.h>

#define TILE 64

enum { IN_Q, IN_K, IN_V, IN_MASK, IN_OFF };

struct local {
    const steno_kernels *k;
    const float *q, *key, *v, *mask;
    const uint8_t *off;
    float *y;
    size_t batch, rows, heads, size, v_size, window;
    size_t ldq, ldk, ldv; /* columns of a row */
    float scale;
    size_t tiles;      /* of all heads and entries */
    size_t score_ld;   /* keys that a tile may see */
    size_t work_at;    /* bytes of scores in a part's scratch */
    size_t part_bytes; /* scratch of a part */
    char *scratch;
    size_t parts;
};

static steno_status infer_local(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_shape q = steno_infer_shape(ic, IN_Q), k = steno_infer_shape(ic, IN_K);
    (void)err;
    if (q.rank == 3 && k.rank == 3)
        for (int i = 0; i < 2; i++)
            q.dim[i] = q.dim[i] < 0 && k.dim[i] >= 0 ? k.dim[i] : q.dim[i];
    if (q.rank == 3)
        q.dim[2] = steno_node_int(n, "heads", 1) * steno_node_int(n, "v_size", 1);
    steno_infer_set(ic, 0, STENO_F32, q.rank == 3 ? &q : NULL);
    return STENO_OK;
}

static steno_status prepare_local(struct steno_prepare *pc, void **priv, steno_err *err)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const char *const names[] = {"heads", "size", "v_size"};
    int64_t window = steno_node_int(n, "window", -1);
    (void)priv;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int64_t v = steno_node_int(n, names[i], 0);
        if (v < 1 || v > 65535)
            return steno_fail(err, STENO_ERR_FORMAT, "%s is %lld, expected 1 to 65535", names[i],
                              (long long)v);
    }
    if (window < 0 || window > INT32_MAX)
        return steno_fail(err, STENO_ERR_FORMAT, "window is %lld, expected 0 to 2147483647",
                          (long long)window);
    return STENO_OK;
}

static bool is_rows(const struct steno_tensor *t, size_t columns)
{
    return t && t->dtype == STENO_F32 && t->shape.rank == 3 && (size_t)t->shape.dim[2] >= columns;
}

/* Returns NULL, or a message that says what is wrong. */
static const char *read_inputs_local_attention(struct steno_op_ctx *ctx, struct local *l)
{
    const struct steno_tensor *q = steno_op_in(ctx, IN_Q), *k = steno_op_in(ctx, IN_K);
    const struct steno_tensor *v = steno_op_in(ctx, IN_V), *mask = steno_op_in(ctx, IN_MASK);
    const struct steno_tensor *off = steno_op_in(ctx, IN_OFF);
    const struct steno_node *n = steno_op_node(ctx);
    l->heads = (size_t)steno_node_int(n, "heads", 1);
    l->size = (size_t)steno_node_int(n, "size", 1);
    l->v_size = (size_t)steno_node_int(n, "v_size", 1);
    l->window = (size_t)steno_node_int(n, "window", 0);
    l->scale = steno_node_float(n, "scale", 1);
    if (!is_rows(q, l->heads * l->size) || !is_rows(k, l->heads * l->size) ||
        !is_rows(v, l->heads * l->v_size))
        return "Q, K and V must be f32 [B, T, columns], with enough columns for the heads";
    for (int i = 0; i < 2; i++)
        if (k->shape.dim[i] != q->shape.dim[i] || v->shape.dim[i] != q->shape.dim[i])
            return "Q, K and V differ in batch or length";
    l->batch = (size_t)q->shape.dim[0];
    l->rows = (size_t)q->shape.dim[1];
    l->ldq = (size_t)q->shape.dim[2];
    l->ldk = (size_t)k->shape.dim[2];
    l->ldv = (size_t)v->shape.dim[2];
    if (mask && (mask->dtype != STENO_F32 || steno_numel(mask) != l->batch * l->rows))
        return "mask must be f32 with one number for each key";
    if (off && (off->dtype != STENO_BOOL || steno_numel(off) != l->batch * l->rows))
        return "off must be bool with one element for each row";
    l->q = q->data;
    l->key = k->data;
    l->v = v->data;
    l->mask = mask ? mask->data : NULL;
    l->off = off ? off->data : NULL;
    return NULL;
}

/* ---- run ---- */

/* Weights of the m rows from i0 on, whose scores s [m, score_ld] begin with key j0. */
static void weigh_local_attention(const struct local *l, size_t b, size_t i0, size_t m, size_t j0,
                                  size_t n, float *s, float *sum)
{
    const float *mask = l->mask ? l->mask + b * l->rows + j0 : NULL;
    for (size_t i = 0; i < m; i++, s += l->score_ld) {
        size_t at = i0 + i, from = at > l->window ? at - l->window : 0;
        size_t to = l->window < l->rows - at ? at + l->window + 1 : l->rows;
        float max = -INFINITY;
        from -= j0;
        to -= j0;
        sum[i] = 0;
        l->k->softmax_step_f32(s + from, to - from, l->scale, NULL, mask ? mask + from : NULL, &max,
                               &sum[i]);
        memset(s, 0, from * sizeof *s);
        memset(s + to, 0, (n - to) * sizeof *s);
    }
}

/* Tile number `t` of all entries, heads and rows. */
static void one_tile_local_attention(const struct local *l, size_t t, char *mem)
{
    const size_t per_head = (l->rows + TILE - 1) / TILE, head = t / per_head;
    const size_t h = head % l->heads, b = head / l->heads, i0 = t % per_head * TILE;
    const size_t m = l->rows - i0 < TILE ? l->rows - i0 : TILE;
    const size_t j0 = i0 > l->window ? i0 - l->window : 0;
    const size_t end = l->window < l->rows - i0 - m ? i0 + m + l->window : l->rows, n = end - j0;
    const size_t ldy = l->heads * l->v_size;
    const float *k = l->key + (b * l->rows + j0) * l->ldk + h * l->size;
    const float *v = l->v + (b * l->rows + j0) * l->ldv + h * l->v_size;
    float *s = (float *)(void *)mem, *y = l->y + (b * l->rows + i0) * ldy + h * l->v_size;
    void *work = mem + l->work_at;
    float sum[TILE];
    l->k->gemm_f32(m, n, l->size, l->q + (b * l->rows + i0) * l->ldq + h * l->size, l->ldq, false,
                   k, l->ldk, true, s, l->score_ld, NULL, work);
    weigh_local_attention(l, b, i0, m, j0, n, s, sum);
    l->k->gemm_f32(m, l->v_size, n, s, l->score_ld, false, v, l->ldv, false, y, ldy, NULL, work);
    for (size_t i = 0; i < m; i++, y += ldy)
        if (l->off && l->off[b * l->rows + i0 + i])
            memset(y, 0, l->v_size * sizeof *y);
        else /* all scores -inf: 0 * (1 / 0) is NaN, as the softmax has it */
            l->k->affine_f32(y, y, l->v_size, 1 / sum[i], 0);
}

static void part_local_attention(void *arg, int p)
{
    const struct local *l = arg;
    size_t from = l->tiles * (size_t)p / l->parts, to = l->tiles * ((size_t)p + 1) / l->parts;
    for (size_t t = from; t < to; t++)
        one_tile_local_attention(l, t, l->scratch + (size_t)p * l->part_bytes);
}

static bool allocate(struct steno_op_ctx *ctx, struct local *l)
{
    const size_t threads = (size_t)steno_op_threads(ctx), m = l->rows < TILE ? l->rows : TILE;
    const size_t most = l->window < l->rows / 2 ? m + 2 * l->window : l->rows;
    const size_t keys = most < l->rows ? most : l->rows;
    size_t cells, work, other, bytes;
    if (!steno_mul_size(l->batch * l->heads, (l->rows + TILE - 1) / TILE, &l->tiles) ||
        !steno_mul_size(m, keys * sizeof(float), &cells))
        return false;
    work = l->k->gemm_f32_work(m, keys, l->size);
    other = l->k->gemm_f32_work(m, l->v_size, keys);
    work = work > other ? work : other;
    l->score_ld = keys;
    l->work_at = steno_aligned(cells);
    l->parts = l->tiles < threads ? l->tiles : threads;
    if (!steno_add_size(l->work_at, steno_aligned(work) + STENO_ALIGN, &l->part_bytes) ||
        !steno_mul_size(l->parts, l->part_bytes, &bytes))
        return false;
    l->scratch = steno_op_scratch(ctx, bytes);
    return l->scratch != NULL;
}

static steno_status run_local(struct steno_op_ctx *ctx, steno_err *err)
{
    struct local l = {.k = steno_op_kernels(ctx)};
    struct steno_shape s;
    struct steno_tensor *y;
    const char *wrong;
    steno_status st;
    wrong = read_inputs_local_attention(ctx, &l);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    s = steno_ops_shape(
        3, (const int64_t[]){(int64_t)l.batch, (int64_t)l.rows, (int64_t)(l.heads * l.v_size)});
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    l.y = y->data;
    if (!allocate(ctx, &l))
        return steno_ops_nomem(ctx, err);
    steno_op_parallel(ctx, (int)l.parts, part_local_attention, &l);
    return STENO_OK;
}

const struct steno_op steno_ops_local_attention[] = {
    {"ai.steno", "LocalAttention", 1, 0, 0, infer_local, prepare_local, NULL, run_local},
    {0},
};
