/* ai.steno AbsorbedAttention, made by pass absorb: attention of a few queries to rows that are not
 * projected to keys and values.
 *
 * Q [B, T, h d], X [B or 1, S, C], Wk [C, h d] and Wv [C, h v] constant, mask?, bias [h v]?, and,
 * where Wk and Wv are bytes, the scale and zero point of each, as in Linear
 *     K = X Wk, V = X Wv + bias;  y = Softmax(scale * Q K' + mask) V by heads: [B, T, h v]
 * mask as in Attention (op_fused_attention.c). A bias of K would add the same number to all scores
 * of a row, which Softmax cancels; there is no input for it. Attributes: heads, size (d), v_size
 * (v), scale, hides (1 when mask is bool).
 *
 * The order of the products is free, so for each head
 *     Q K' = (Q Wk') X'   and   w V = (w X) Wv + bias
 * and the weights are multiplied with T rows instead of S: in a decoder step, one row instead of,
 * say, sixty. For each row of X two products with h vectors of C remain. (DeepSeek-V2, section
 * 2.1.2, computes attention to a latent cache in the same way.)
 *
 * ai.steno.run AbsorbedNormAttention, made by pass absorbnorm: the same with LayerNormalization(X)
 * over the last axis in place of X; further inputs gamma [C], beta [C]?, attribute epsilon. Rows
 * are normalized one batch entry at a time, so that they are still in the cache for their second
 * use. */
#include "nn/ops/attention.h"
#include "nn/ops/families.h"
#include "nn/ops/internal.h"
#include "nn/ops/weights.h"

#include <math.h>
#include <stdlib.h>

enum {
    IN_Q,
    IN_X,
    IN_WK,
    IN_MASK,
    IN_WV,
    IN_BIAS,
    IN_WK_SCALE,
    IN_WV_SCALE = 8,
    IN_GAMMA = 10,
    IN_BETA
};
enum { STEP = 2 }; /* rows of X per step; the rows of the next step are prefetched */

struct absorbed {
    size_t heads, size, v_size, c;
    float scale, eps;
    struct steno_weights *wk, *wv; /* [heads]: [d, C] and [C, v] each */
};

static void release_absorbed(void *priv)
{
    struct absorbed *l = priv;
    if (!l)
        return;
    free(l->wk);
    free(l->wv);
    free(l);
}

static bool absorbed_attention_fits(const struct steno_tensor *w, size_t rows, size_t cols)
{
    return w && (w->dtype == STENO_F32 || w->dtype == STENO_I8 || w->dtype == STENO_U8) &&
           w->shape.rank == 2 && w->shape.dim[0] == (int64_t)rows &&
           w->shape.dim[1] == (int64_t)cols;
}

static bool read_attributes(struct steno_prepare *pc, struct absorbed *l)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const struct steno_tensor *wk = steno_prepare_const(pc, IN_WK),
                              *wv = steno_prepare_const(pc, IN_WV);
    int64_t heads = steno_node_int(n, "heads", 0), size = steno_node_int(n, "size", 0);
    int64_t v = steno_node_int(n, "v_size", 0);
    if (heads <= 0 || size <= 0 || v <= 0 || heads >= 65536 || size >= 65536 || v >= 65536 || !wk ||
        wk->shape.rank != 2 || wk->shape.dim[0] <= 0)
        return false;
    l->heads = (size_t)heads;
    l->size = (size_t)size;
    l->v_size = (size_t)v;
    l->scale = steno_node_float(n, "scale", 1);
    l->eps = steno_node_float(n, "epsilon", 1e-5f);
    l->c = (size_t)wk->shape.dim[0];
    return absorbed_attention_fits(wk, l->c, l->heads * l->size) &&
           absorbed_attention_fits(wv, l->c, l->heads * l->v_size);
}

static steno_status prepare_absorbed(struct steno_prepare *pc, void **priv, steno_err *err)
{
    struct absorbed *l = calloc(1, sizeof *l);
    steno_status st;
    if (!l)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    if (!read_attributes(pc, l)) {
        free(l);
        return steno_fail(
            err, STENO_ERR_FORMAT,
            "weights must be constant, f32 or bytes, [C, heads * size] and [C, heads * v_size]");
    }
    st = steno_prepare_weights_parts(pc, IN_WK, IN_WK_SCALE, l->heads, true, &l->wk, err);
    if (!st)
        st = steno_prepare_weights_parts(pc, IN_WV, IN_WV_SCALE, l->heads, false, &l->wv, err);
    if (st)
        release_absorbed(l);
    else
        *priv = l;
    return st;
}

static steno_status infer_absorbed(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_shape q = steno_infer_shape(ic, IN_Q), x = steno_infer_shape(ic, IN_X);
    (void)err;
    if (q.rank != 3 || x.rank != 3) {
        steno_infer_set(ic, 0, STENO_F32, NULL);
        return STENO_OK;
    }
    if (q.dim[0] == 1)
        q.dim[0] = x.dim[0];
    q.dim[2] = steno_node_int(n, "heads", 1) * steno_node_int(n, "v_size", 1);
    for (int i = 0; i < 2; i++)
        if (q.dim[i] == STENO_DIM_ANY)
            q.dim[i] = steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, STENO_F32, &q);
    return STENO_OK;
}

struct job {
    const struct absorbed *l;
    const steno_kernels *k;
    struct steno_attention a; /* extents and mask */
    const float *x;
    size_t x_len;
    size_t x_batch;            /* step from one batch entry to the next, 0 where X repeats */
    const float *gamma, *beta; /* of X's normalization; gamma NULL: no normalization */
    float eps;
    float *t;    /* [rows, heads, C]: scale * Q Wk', then w X */
    bool *blind; /* [rows, heads]: the row sees no key */
    /* for each part: weights [heads, S], mask [S], normalized X [S, C], memory of the product */
    char *scratch;
    size_t part_bytes, at_mask, at_norm, at_work, parts, rows;
};

/* The scratch of one part, and the X of which it holds the normalized rows. */
struct part {
    char *mem;
    const float *normalized;
};

/* The mask to add to the scores of row i, head h, batch entry b; NULL = none. */
static const float *mask_row(const struct job *j, size_t b, size_t h, size_t i, float *made)
{
    const struct steno_attention *a = &j->a;
    const uint8_t *hide;
    if (a->mask.data)
        return a->mask.data + b * a->mask.batch + h * a->mask.head + i * a->mask.row;
    if (!a->hidden.data)
        return NULL;
    hide = a->hidden.data + b * a->hidden.batch + h * a->hidden.head + i * a->hidden.row;
    for (size_t s = 0; s < a->keys; s++)
        made[s] = hide[s * a->hidden.key] ? -INFINITY : 0;
    return made;
}

/* Turn the scores of row r into softmax weights, head by head. */
static void weigh_absorbed_attention(const struct job *j, size_t r, float *w, float *made)
{
    const struct steno_attention *a = &j->a;
    for (size_t h = 0; h < j->l->heads; h++) {
        float *s = w + h * a->keys, max = -INFINITY, sum = 0;
        bool *blind = &j->blind[r * j->l->heads + h];
        j->k->softmax_step_f32(s, a->keys, 1, NULL, mask_row(j, r / a->rows, h, r % a->rows, made),
                               &max, &sum);
        *blind = max == -INFINITY && !isnan(sum);
        if (!*blind)
            j->k->affine_f32(s, s, a->keys, 1 / sum, 0);
    }
}

/* Replace t of row r, scale * Q Wk', by the weighted sums of the rows of X. */
static void attend_absorbed_attention(const struct job *j, size_t r, struct part *p)
{
    const struct absorbed *l = j->l;
    const size_t keys = j->a.keys, c = l->c;
    const float *given = j->x + r / j->a.rows * j->x_batch;
    float *norm = (float *)(void *)(p->mem + j->at_norm);
    const float *x = j->gamma ? norm : given;
    float *t = j->t + r * l->heads * c, *w = (float *)(void *)p->mem;
    const bool normalize = j->gamma && p->normalized != given;
    for (size_t s = 0, n; s < keys; s += n) {
        const size_t later = (size_t)(given - j->x) + (s + STEP) * c;
        n = keys - s < STEP ? keys - s : STEP;
        for (size_t i = later; i < later + n * c && i < j->x_len; i += STENO_ALIGN / sizeof *x)
            __builtin_prefetch(j->x + i);
        if (normalize)
            j->k->layernorm_f32(norm + s * c, given + s * c, n, c, j->gamma, j->beta, j->eps);
        j->k->dots_f32(w + s, keys, t, c, l->heads, x + s * c, c, n, c);
    }
    p->normalized = given;
    weigh_absorbed_attention(j, r, w, (float *)(void *)(p->mem + j->at_mask));
    j->k->gemm_f32(l->heads, c, keys, w, keys, false, x, c, false, t, c, NULL, p->mem + j->at_work);
}

static void attend_part(void *arg, int part)
{
    const struct job *j = arg;
    struct part p = {j->scratch + (size_t)part * j->part_bytes, NULL};
    size_t end = j->rows * ((size_t)part + 1) / j->parts;
    for (size_t r = j->rows * (size_t)part / j->parts; r < end; r++)
        attend_absorbed_attention(j, r, &p);
}

/* Allocate memory for all rows. False: out of memory. */
static bool lay_out(struct steno_op_ctx *ctx, struct job *j)
{
    const size_t heads = j->l->heads, c = j->l->c, keys = j->a.keys;
    size_t n, weights, all, norm = 0;
    double macs = (double)j->rows * (double)heads * (double)keys * 2 * (double)c;
    j->parts = macs < 262144 ? 1 : (size_t)steno_op_threads(ctx);
    j->parts = j->parts < j->rows ? j->parts : j->rows;
    if (!steno_mul_size(j->rows, heads, &n) || !steno_mul_size(n, c, &all) ||
        !steno_mul_size(all, sizeof(float), &all) || !steno_mul_size(heads + 1, keys, &weights) ||
        weights > SIZE_MAX / 64 ||
        (j->gamma && (!steno_mul_size(keys, c * sizeof(float), &norm) || norm > SIZE_MAX / 64)))
        return false;
    j->at_mask = steno_aligned(heads * keys * sizeof(float));
    j->at_norm = j->at_mask + steno_aligned(keys * sizeof(float));
    j->at_work = j->at_norm + steno_aligned(norm + STENO_OVERREAD);
    j->part_bytes =
        steno_aligned(j->at_work + j->k->gemm_f32_work(heads, c, keys) + STENO_OVERREAD);
    if (!steno_mul_size(j->parts, j->part_bytes, &weights))
        return false;
    j->t = steno_op_scratch(ctx, all + STENO_OVERREAD);
    j->blind = steno_op_scratch(ctx, n);
    j->scratch = steno_op_scratch(ctx, weights);
    return j->t && j->blind && j->scratch;
}

static const char *read_inputs_absorbed_attention(struct steno_op_ctx *ctx, struct job *j)
{
    const struct absorbed *l = j->l;
    const struct steno_tensor *q = steno_op_in(ctx, IN_Q), *x = steno_op_in(ctx, IN_X);
    const struct steno_tensor *bias = steno_op_in(ctx, IN_BIAS),
                              *gamma = steno_op_in(ctx, IN_GAMMA);
    const struct steno_tensor *beta = steno_op_in(ctx, IN_BETA);
    const char *wrong;
    if (!q || !x || q->dtype != STENO_F32 || x->dtype != STENO_F32 || q->shape.rank != 3 ||
        x->shape.rank != 3 || q->shape.dim[2] != (int64_t)(l->heads * l->size) ||
        x->shape.dim[2] != (int64_t)l->c)
        return "Q and X must be f32, [B, T, heads * size] and [B, S, C]";
    if (q->shape.dim[0] != x->shape.dim[0] && q->shape.dim[0] != 1 && x->shape.dim[0] != 1)
        return "Q and X differ in batch";
    if (bias && (bias->dtype != STENO_F32 || steno_numel(bias) != l->heads * l->v_size))
        return "the bias must have one number for each column of V";
    if ((gamma && (gamma->dtype != STENO_F32 || steno_numel(gamma) != l->c)) ||
        (beta && (!gamma || beta->dtype != STENO_F32 || steno_numel(beta) != l->c)))
        return "gamma and beta must have one number for each column of X";
    j->gamma = gamma ? gamma->data : NULL;
    j->beta = beta ? beta->data : NULL;
    j->eps = l->eps;
    j->a.batch = (size_t)(q->shape.dim[0] == 1 ? x->shape.dim[0] : q->shape.dim[0]);
    j->a.q_heads = l->heads;
    j->a.rows = (size_t)q->shape.dim[1];
    j->a.keys = (size_t)x->shape.dim[1];
    j->x = x->data;
    j->x_len = steno_numel(x);
    j->x_batch = x->shape.dim[0] == 1 ? 0 : j->a.keys * l->c;
    wrong = steno_attention_read_mask(ctx, IN_MASK, &j->a);
    if (j->a.mask.data)
        j->a.empty = NAN; /* Softmax of -inf alone gives NaN */
    return wrong;
}

/* Queries of all rows. Where Q has one batch entry for several of X, it is copied. */
static const float *queries(struct steno_op_ctx *ctx, const struct job *j)
{
    const struct steno_tensor *q = steno_op_in(ctx, IN_Q);
    size_t n = steno_numel(q);
    float *all;
    if (q->shape.dim[0] == (int64_t)j->a.batch)
        return q->data;
    all = steno_op_scratch(ctx, n * j->a.batch * sizeof *all + 1);
    for (size_t b = 0; all && b < j->a.batch; b++)
        memcpy(all + b * n, q->data, n * sizeof *all);
    return all;
}

static void fill_blind(const struct job *j, float *y)
{
    const size_t v = j->l->v_size;
    for (size_t i = 0; i < j->rows * j->l->heads; i++)
        for (size_t c = 0; j->blind[i] && c < v; c++)
            y[i * v + c] = j->a.keys ? j->a.empty : 0;
}

static steno_status run_absorbed(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct absorbed *l = steno_op_priv(ctx);
    struct job j = {.l = l, .k = steno_op_kernels(ctx)};
    struct steno_gemm_epilogue ep = {.alpha = l->scale};
    const size_t hc = l->heads * l->c, hd = l->heads * l->size, hv = l->heads * l->v_size;
    const struct steno_tensor *bias = steno_op_in(ctx, IN_BIAS);
    const char *wrong = read_inputs_absorbed_attention(ctx, &j);
    const float *q;
    struct steno_shape s;
    struct steno_tensor *y;
    steno_status st;
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    s = steno_ops_shape(3, (const int64_t[]){(int64_t)j.a.batch, (int64_t)j.a.rows, (int64_t)hv});
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    j.rows = j.a.batch * j.a.rows;
    q = queries(ctx, &j);
    if (!q || !lay_out(ctx, &j))
        return steno_ops_nomem(ctx, err);
    for (size_t h = 0; !st && h < l->heads; h++)
        st = steno_ops_linear(ctx, &l->wk[h], j.rows, q + h * l->size, hd, j.t + h * l->c, hc, &ep,
                              err);
    if (st)
        return st;
    steno_op_parallel(ctx, (int)j.parts, attend_part, &j);
    ep.alpha = 1;
    for (size_t h = 0; !st && h < l->heads; h++) {
        ep.bias = bias ? (const float *)bias->data + h * l->v_size : NULL;
        st = steno_ops_linear(ctx, &l->wv[h], j.rows, j.t + h * l->c, hc,
                              (float *)y->data + h * l->v_size, hv, &ep, err);
    }
    if (!st)
        fill_blind(&j, y->data);
    return st;
}

const struct steno_op steno_ops_absorbed_attention[] = {
    {"ai.steno", "AbsorbedAttention", 1, 0, 0, infer_absorbed, prepare_absorbed, release_absorbed,
     run_absorbed},
    {"ai.steno.run", "AbsorbedNormAttention", 1, 0, 0, infer_absorbed, prepare_absorbed,
     release_absorbed, run_absorbed},
    {0},
};
