/* ai.steno IntLinear, made by pass int8: a product by constant 8-bit weights and what exporters
 * write around it.
 *
 * q [..., K] u8 or i8, W [K, N] constant u8 or i8, q_zero scalar, W_zero [1 or N]? constant,
 * q_scale scalar, W_scale [1 or N] constant, bias [N]?
 *     y = f32(sum_k (q - q_zero)(W - W_zero)) * (q_scale * W_scale) + bias
 * The sum is exact in i32 (it wraps beyond K = 2^15, as MatMulInteger does); the rest is computed
 * in f32 in this order, so the bits are those of the separate operators. */
#include "ops/families.h"
#include "ops/internal.h"

#include <stdlib.h>

struct int_linear {
    size_t k, n;
    int16_t *w; /* W - W_zero as [K / 2 rounded up][N][2]; the odd row's partner is 0 */
};

static void release_int_linear(void *priv)
{
    struct int_linear *l = priv;
    if (l)
        steno_aligned_free(l->w);
    free(l);
}

static int16_t weight(const struct steno_tensor *t, size_t i)
{
    return t->dtype == STENO_U8 ? ((const uint8_t *)t->data)[i] : ((const int8_t *)t->data)[i];
}

static steno_status prepare_int_linear(struct steno_prep *pc, void **priv, steno_err *err)
{
    const struct steno_tensor *w = steno_prep_const(pc, 1), *z = steno_prep_const(pc, 3);
    struct int_linear *l;
    size_t bytes, zeros = z ? steno_numel(z) : 0;
    if (!w || (w->dtype != STENO_U8 && w->dtype != STENO_I8) || w->shape.rank != 2 ||
        (z && (z->dtype != w->dtype || (zeros != 1 && zeros != (size_t)w->shape.dim[1]))))
        return steno_fail(err, STENO_ERR_FORMAT, "weights must be constant, 8 bits, of rank 2");
    l = calloc(1, sizeof *l);
    if (!l)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    l->k = (size_t)w->shape.dim[0];
    l->n = (size_t)w->shape.dim[1];
    bytes = (l->k + 1) / 2 * 2 * l->n * sizeof *l->w;
    l->w = steno_aligned_alloc(bytes);
    if (!l->w) {
        release_int_linear(l);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    memset(l->w, 0, bytes);
    for (size_t k = 0; k < l->k; k++)
        for (size_t n = 0; n < l->n; n++)
            l->w[(k / 2 * l->n + n) * 2 + k % 2] =
                (int16_t)(weight(w, k * l->n + n) - (z ? weight(z, zeros > 1 ? n : 0) : 0));
    steno_prep_consumed(pc, 1);
    steno_prep_packed(pc, bytes);
    *priv = l;
    return STENO_OK;
}

static steno_status infer_int_linear(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, 1);
    if (x.rank > 0 && w.rank == 2) {
        if (x.dim[x.rank - 1] >= 0 && x.dim[x.rank - 1] != w.dim[0])
            return steno_fail(err, STENO_ERR_INVAL, "inner dimensions differ");
        x.dim[x.rank - 1] = w.dim[1];
    }
    steno_infer_set(ic, 0, STENO_F32, &x);
    return STENO_OK;
}

struct int_job {
    const struct int_linear *l;
    const uint8_t *q;
    bool is_signed;
    int zero;
    const float *scale, *bias; /* [N] */
    float *y;
};

/* One row: sums of pairs, 256 columns at a time so that they stay in the first cache. */
static void int_columns(const struct int_job *j, const uint8_t *q, float *y, size_t from, size_t n)
{
    const struct int_linear *l = j->l;
    int32_t sum[256] = {0};
    for (size_t k = 0; k < l->k; k += 2) {
        const int16_t *w = l->w + (k / 2 * l->n + from) * 2;
        size_t k1 = k + 1 < l->k ? k + 1 : k; /* the packed partner of an odd last row is 0 */
        int a = (j->is_signed ? (int8_t)q[k] : q[k]) - j->zero;
        int b = (j->is_signed ? (int8_t)q[k1] : q[k1]) - j->zero;
        if (!a && !b)
            continue;
        for (size_t i = 0; i < n; i++)
            sum[i] = (int32_t)((uint32_t)sum[i] + (uint32_t)((int16_t)a * w[2 * i]) +
                               (uint32_t)((int16_t)b * w[2 * i + 1]));
    }
    for (size_t i = 0; i < n; i++)
        y[from + i] = (float)sum[i] * j->scale[from + i];
    for (size_t i = 0; j->bias && i < n; i++)
        y[from + i] += j->bias[from + i];
}

static void int_rows(void *arg, size_t begin, size_t end)
{
    const struct int_job *j = arg;
    for (size_t r = begin; r < end; r++)
        for (size_t c = 0; c < j->l->n; c += 256)
            int_columns(j, j->q + r * j->l->k, j->y + r * j->l->n, c,
                        j->l->n - c < 256 ? j->l->n - c : 256);
}

static bool check_int(struct steno_op_ctx *ctx, const struct int_linear *l)
{
    const struct steno_tensor *q = steno_op_in(ctx, 0), *z = steno_op_in(ctx, 2);
    const struct steno_tensor *qs = steno_op_in(ctx, 4), *ws = steno_op_in(ctx, 5);
    const struct steno_tensor *bias = steno_op_in(ctx, 6);
    return q && (q->dtype == STENO_U8 || q->dtype == STENO_I8) && q->shape.rank >= 1 &&
           q->shape.dim[q->shape.rank - 1] == (int64_t)l->k && z && z->dtype == q->dtype &&
           steno_numel(z) == 1 && qs && qs->dtype == STENO_F32 && steno_numel(qs) == 1 && ws &&
           ws->dtype == STENO_F32 && (steno_numel(ws) == 1 || steno_numel(ws) == l->n) &&
           (!bias || (bias->dtype == STENO_F32 && steno_numel(bias) == l->n));
}

static steno_status run_int_linear(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct int_linear *l = steno_op_priv(ctx);
    const struct steno_tensor *q = steno_op_in(ctx, 0), *ws, *bias = steno_op_in(ctx, 6);
    struct int_job j = {.l = l};
    struct steno_shape s;
    struct steno_tensor *y;
    float *scale, qs;
    steno_status st;
    if (!check_int(ctx, l))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "inputs do not fit weights of %zu x %zu",
                             l->k, l->n);
    s = q->shape;
    s.dim[s.rank - 1] = (int64_t)l->n;
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    scale = steno_op_scratch(ctx, l->n * sizeof *scale);
    if (!scale)
        return steno_ops_nomem(ctx, err);
    ws = steno_op_in(ctx, 5);
    qs = *(const float *)steno_op_in(ctx, 4)->data;
    for (size_t i = 0; i < l->n; i++)
        scale[i] = qs * ((const float *)ws->data)[steno_numel(ws) > 1 ? i : 0];
    j.q = q->data;
    j.is_signed = q->dtype == STENO_I8;
    j.zero = (int)steno_ops_get_i64(steno_op_in(ctx, 2), 0);
    j.scale = scale;
    j.bias = bias ? bias->data : NULL;
    j.y = y->data;
    steno_ops_ranges(ctx, steno_numel(y) / l->n, 1 + (1u << 17) / (l->n * l->k + 1), int_rows, &j);
    return STENO_OK;
}

const struct steno_op steno_ops_fused_int8[] = {
    {"ai.steno", "IntLinear", 1, 0, 0, infer_int_linear, prepare_int_linear, release_int_linear,
     run_int_linear},
    {0},
};
