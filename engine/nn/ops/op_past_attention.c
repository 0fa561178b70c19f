/* Operator of domain ai.steno.run, made by pass past, which no file contains: attention of new rows
 * to those of a cache that the caller keeps, and to each other.
 *
 * PastAttention  Q, K, V as ai.steno:Attention has them (nn/ops/op_fused_attention.c: heads, size,
 *                v_size, kv_heads, apart, scale), T rows; past_k [B, C, kv_heads, size], past_v
 *                [B, C, kv_heads, v_size], both f32 or f16; positions i64 [T]
 *                Row i sees the first positions[0] rows of the cache, C at most, and those new rows
 *                j whose positions[j] is not above positions[i].
 *
 * One new row, the step of a decoder, reads the rows of the cache where they are, all heads of some
 * rows at a time, in the order in which they lie in memory. */
#include "nn/ops/attention.h"
#include "nn/ops/families.h"
#include "nn/ops/internal.h"

#include <math.h>
#include <stdlib.h>

enum { IN_PAST_K = 3, IN_PAST_V, IN_POSITIONS };
enum { BLOCK = 4 };        /* rows of a cache that are read together: what follows is asked for */
enum { PART_KEYS = 4096 }; /* of all heads: fewer are not worth a second thread */

struct past {
    const steno_kernels *k;
    struct steno_attention a;
    const struct steno_tensor *past[2]; /* keys, values */
    size_t row[2];                      /* elements of a row of each, all heads */
    const int64_t *positions;
    size_t n;      /* rows of the cache that are seen */
    float *scores; /* [q_heads, n + 1] */
    float *sum;    /* [v_size] for each part */
    float *wide;   /* [BLOCK, row] of a cache in f16, in f32 */
    size_t b, parts;
};

/* Returns NULL, or a message that says what is wrong. */
static const char *read_past(const struct steno_op_ctx *ctx, struct past *p)
{
    const struct steno_attention *a = &p->a;
    for (int i = 0; i < 2; i++) {
        const struct steno_tensor *t = p->past[i] = steno_op_in(ctx, IN_PAST_K + i);
        const size_t size = i ? a->v_size : a->size;
        if ((t->dtype != STENO_F32 && t->dtype != STENO_F16) || t->shape.rank != 4 ||
            (size_t)t->shape.dim[0] != a->batch || t->shape.dim[1] != p->past[0]->shape.dim[1] ||
            (size_t)t->shape.dim[2] != a->kv_heads || (size_t)t->shape.dim[3] != size ||
            t->dtype != p->past[0]->dtype)
            return "the cache is not [B, C, heads, size] of f32 or f16";
        p->row[i] = a->kv_heads * size;
    }
    return NULL;
}

static const char *read_inputs_past(struct steno_op_ctx *ctx, struct past *p)
{
    const struct steno_tensor *t = steno_op_in(ctx, IN_POSITIONS);
    const char *wrong = steno_attention_read_factors(ctx, &p->a);
    if (!wrong && p->a.keys != p->a.rows)
        wrong = "Q and K differ in length";
    if (!wrong && (t->dtype != STENO_I64 || steno_numel(t) != p->a.rows))
        wrong = "positions are not one i64 for each row";
    if (!wrong)
        wrong = read_past(ctx, p);
    if (wrong || !p->a.rows)
        return wrong;
    p->positions = t->data;
    if (p->positions[0] > 0)
        p->n = p->positions[0] < p->past[0]->shape.dim[1] ? (size_t)p->positions[0]
                                                          : (size_t)p->past[0]->shape.dim[1];
    return NULL;
}

/* Rows [at, at + n) of the keys or values of entry b: those of the cache, or `to` in f32. */
static const float *cache_rows(const struct past *p, int which, size_t b, size_t at, size_t n,
                               float *to)
{
    const struct steno_tensor *t = p->past[which];
    const size_t from = (b * (size_t)t->shape.dim[1] + at) * p->row[which];
    if (t->dtype == STENO_F32)
        return (const float *)t->data + from;
    steno_ops_load_f32(to, (const uint16_t *)t->data + from, t->dtype, n * p->row[which]);
    return to;
}

/* ---- one new row ---- */

/* Some heads of keys and values: [begin, end) of kv_heads. */
struct heads {
    const struct past *p;
    size_t begin, end, group; /* group: heads of Q for each of those */
    float *sum;
};

static const float *block_of(const struct heads *h, int which, size_t at, size_t *n)
{
    const struct past *p = h->p;
    *n = p->n - at < BLOCK ? p->n - at : BLOCK;
    return cache_rows(p, which, p->b, at, *n, p->wide);
}

/* Ask for a share of the block behind the one at x, which begins at row `at`, before head i reads
 * that: its lines come while others are multiplied. The rows of one head are far apart, which the
 * processor does not foresee: without this they take three times as long. */
static void ask_ahead(const struct heads *h, int which, size_t at, const float *x, size_t i)
{
    const struct past *p = h->p;
    const size_t size = p->row[which] / p->a.kv_heads, width = (h->end - h->begin) * size;
    const size_t all = (h->end - h->begin) * h->group, nth = i - h->begin * h->group;
    if (p->past[which]->dtype != STENO_F32 || at + 2 * BLOCK > p->n)
        return;
    x += BLOCK * p->row[which] + h->begin * size;
    for (size_t c = BLOCK * width * nth / all, to = BLOCK * width * (nth + 1) / all, n; c < to;
         c += n) {
        const size_t r = c / width, rest = (r + 1) * width - c;
        n = rest < to - c ? rest : to - c;
        steno_ops_prefetch(x + r * p->row[which] + c - r * width, n);
    }
}

static void score_past(const struct heads *h, const int32_t *each)
{
    const struct past *p = h->p;
    const struct steno_attention *a = &p->a;
    const float *q = a->q.data + p->b * a->q.batch, *x;
    for (size_t at = 0, n; at < p->n; at += n) {
        x = block_of(h, 0, at, &n);
        for (size_t i = h->begin * h->group; i < h->end * h->group; i++) {
            ask_ahead(h, 0, at, x, i);
            p->k->dot_rows_f32(p->scores + i * (p->n + 1) + at, n, q + i * a->q.head, a->size, 1,
                               x + i / h->group * a->size, p->row[0], each);
        }
    }
}

/* Scores become weights that sum up to one. */
static void weigh_past(const struct heads *h)
{
    const struct past *p = h->p;
    const struct steno_attention *a = &p->a;
    for (size_t i = h->begin * h->group; i < h->end * h->group; i++) {
        float *s = p->scores + i * (p->n + 1);
        s[p->n] = p->k->dot_f32(a->q.data + p->b * a->q.batch + i * a->q.head,
                                a->k.data + p->b * a->k.batch + i / h->group * a->k.head, a->size);
        p->k->affine_f32(s, s, p->n + 1, a->scale, 0);
        p->k->softmax_f32(s, s, 1, p->n + 1);
    }
}

static void mix_past(const struct heads *h, const int32_t *each)
{
    const struct past *p = h->p;
    const struct steno_attention *a = &p->a;
    float *y = a->y + p->b * a->y_view.batch;
    const float *v = a->v.data + p->b * a->v.batch, *x;
    for (size_t i = h->begin * h->group; i < h->end * h->group; i++)
        p->k->affine_f32(y + i * a->y_view.head, v + i / h->group * a->v.head, a->v_size,
                         p->scores[i * (p->n + 1) + p->n], 0);
    for (size_t at = 0, n; at < p->n; at += n) {
        x = block_of(h, 1, at, &n);
        for (size_t i = h->begin * h->group; i < h->end * h->group; i++) {
            ask_ahead(h, 1, at, x, i);
            p->k->mix_rows_f32(h->sum, a->v_size, p->scores + i * (p->n + 1) + at, n,
                               x + i / h->group * a->v_size, p->row[1], each);
            p->k->axpy_f32(y + i * a->y_view.head, h->sum, a->v_size, 1);
        }
    }
}

static void heads_part(void *arg, int part)
{
    const struct past *p = arg;
    const size_t i = (size_t)part;
    const struct heads h = {.p = p,
                            .begin = p->a.kv_heads * i / p->parts,
                            .end = p->a.kv_heads * (i + 1) / p->parts,
                            .group = p->a.q_heads / p->a.kv_heads,
                            .sum = p->sum + i * p->a.v_size};
    int32_t each[BLOCK];
    for (int32_t k = 0; k < BLOCK; k++)
        each[k] = k;
    score_past(&h, each);
    weigh_past(&h);
    mix_past(&h, each);
}

static steno_status run_step(struct steno_op_ctx *ctx, struct past *p, steno_err *err)
{
    const size_t threads = (size_t)steno_op_threads(ctx);
    const size_t row = p->row[0] > p->row[1] ? p->row[0] : p->row[1];
    const bool wide = p->past[0]->dtype != STENO_F32;
    p->parts = wide || p->n * p->a.q_heads < PART_KEYS ? 1
               : threads < p->a.kv_heads               ? threads
                                                       : p->a.kv_heads;
    p->scores = steno_op_scratch(ctx, p->a.q_heads * (p->n + 1) * sizeof *p->scores);
    p->sum = steno_op_scratch(ctx, p->parts * p->a.v_size * sizeof *p->sum);
    p->wide = wide ? steno_op_scratch(ctx, BLOCK * row * sizeof *p->wide) : NULL;
    if (!p->scores || !p->sum || (wide && !p->wide))
        return steno_ops_nomem(ctx, err);
    for (p->b = 0; p->b < p->a.batch; p->b++)
        steno_op_parallel(ctx, (int)p->parts, heads_part, p);
    return STENO_OK;
}

/* ---- several new rows ---- */

/* Keys or values of the cache and behind them those of the new rows: to [B, n + T, kv_heads,
 * size]. */
static void join_past(const struct past *p, int which, const struct steno_attention_view *x,
                      float *to)
{
    const size_t size = p->row[which] / p->a.kv_heads;
    for (size_t b = 0; b < p->a.batch; b++) {
        const float *from = cache_rows(p, which, b, 0, p->n, to);
        if (from != to && p->n)
            memcpy(to, from, p->n * p->row[which] * sizeof *to);
        to += p->n * p->row[which];
        for (size_t i = 0; i < p->a.rows; i++)
            for (size_t h = 0; h < p->a.kv_heads; h++, to += size)
                memcpy(to, x->data + b * x->batch + h * x->head + i * x->row, size * sizeof *to);
    }
}

static steno_status join_both(struct steno_op_ctx *ctx, struct past *p, steno_err *err)
{
    struct steno_attention *a = &p->a;
    struct steno_attention_view *view[] = {&a->k, &a->v};
    const size_t keys = p->n + a->rows;
    for (int i = 0; i < 2; i++) {
        float *to = NULL;
        size_t n;
        if (steno_mul_size(a->batch * keys, p->row[i] * sizeof *to, &n))
            to = steno_op_scratch(ctx, n);
        if (!to)
            return steno_ops_nomem(ctx, err);
        join_past(p, i, view[i], to);
        *view[i] =
            (struct steno_attention_view){to, keys * p->row[i], p->row[i] / a->kv_heads, p->row[i]};
    }
    a->keys = keys;
    return STENO_OK;
}

/* True if positions rise, so that each row sees those before it and itself. */
static bool in_order(const struct past *p)
{
    for (size_t i = 1; i < p->a.rows; i++)
        if (p->positions[i] <= p->positions[i - 1])
            return false;
    return true;
}

/* Hide what a row does not see. */
static steno_status hide_rows(struct steno_op_ctx *ctx, struct past *p, steno_err *err)
{
    struct steno_attention *a = &p->a;
    uint8_t *hide = NULL;
    size_t n;
    if (in_order(p)) {
        int64_t *offset = steno_op_scratch(ctx, a->batch * sizeof *offset);
        for (size_t b = 0; offset && b < a->batch; b++)
            offset[b] = (int64_t)p->n;
        a->offset = offset;
        a->right = 0;
        return offset ? STENO_OK : steno_ops_nomem(ctx, err);
    }
    if (steno_mul_size(a->rows, a->keys, &n))
        hide = steno_op_scratch(ctx, n);
    if (!hide)
        return steno_ops_nomem(ctx, err);
    for (size_t i = 0; i < a->rows; i++)
        for (size_t j = 0; j < a->keys; j++)
            hide[i * a->keys + j] = j >= p->n && p->positions[j - p->n] > p->positions[i];
    a->hidden = (struct steno_attention_hidden){.data = hide, .row = a->keys, .key = 1};
    return STENO_OK;
}

static steno_status run_past(struct steno_op_ctx *ctx, steno_err *err)
{
    struct past p = {.k = steno_op_kernels(ctx)};
    const char *wrong = read_inputs_past(ctx, &p);
    steno_status st = wrong ? steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong)
                            : steno_attention_output(ctx, &p.a, err);
    if (st || !p.a.y)
        return st;
    if (p.a.rows == 1)
        return run_step(ctx, &p, err);
    if (p.n)
        st = join_both(ctx, &p, err);
    if (!st)
        st = hide_rows(ctx, &p, err);
    return st ? st : steno_ops_attention(ctx, &p.a, err);
}

const struct steno_op steno_ops_past_attention[] = {
    {"ai.steno.run", "PastAttention", 1, 0, 0, steno_attention_infer, steno_attention_prepare, free,
     run_past},
    {0},
};
