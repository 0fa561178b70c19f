/* ai.steno IntLinear, made by pass int8: a product with constant 8-bit weights, together with the
 * operators that exporters write around it.
 *
 * q [..., K] u8 or i8, W [K, N] constant u8 or i8, q_zero scalar, W_zero [1 or N]? constant,
 * q_scale scalar, W_scale [1 or N] constant, bias [N]?
 *     y = f32(sum_k (q - q_zero)(W - W_zero)) * (q_scale * W_scale) + bias
 * The sum is exact in i32 (it wraps beyond K = 2^15, as MatMulInteger does). The rest is computed
 * in f32 in this order, so that the bits are those of the separate operators. */
#include "nn/ops/families.h"
#include "nn/ops/int8.h"
#include "nn/ops/weights.h"

static steno_status prepare_int_linear(struct steno_prepare *pc, void **priv, steno_err *err)
{
    struct steno_packed_i8 *w;
    steno_status st = steno_prepare_pack_i8(pc, 1, 3, &w, err);
    if (!st && !w)
        st = steno_fail(err, STENO_ERR_FORMAT, "weights must be constant, 8 bits, of rank 2");
    *priv = w;
    return st;
}

static bool check_int(struct steno_op_ctx *ctx, const struct steno_packed_i8 *l)
{
    const struct steno_tensor *q = steno_op_in(ctx, 0), *z = steno_op_in(ctx, 2);
    const struct steno_tensor *qs = steno_op_in(ctx, 4), *ws = steno_op_in(ctx, 5);
    const struct steno_tensor *bias = steno_op_in(ctx, 6);
    return q && steno_dtype_is_byte(q->dtype) && q->shape.rank >= 1 &&
           q->shape.dim[q->shape.rank - 1] == (int64_t)l->k && z && z->dtype == q->dtype &&
           steno_numel(z) == 1 && qs && qs->dtype == STENO_F32 && steno_numel(qs) == 1 && ws &&
           ws->dtype == STENO_F32 && (steno_numel(ws) == 1 || steno_numel(ws) == l->n) &&
           (!bias || (bias->dtype == STENO_F32 && steno_numel(bias) == l->n));
}

/* Give every row its own copy of the zero point, and a scale of 1, which changes no bit: the kernel
 * stores such sums without decisions per vector. False: out of memory. */
static bool spread_over_rows(struct steno_op_ctx *ctx, struct steno_gemm_i8 *g)
{
    float *scale = steno_op_scratch(ctx, g->m * sizeof *scale);
    int32_t *zero = steno_op_scratch(ctx, g->m * sizeof *zero);
    if (!scale || !zero)
        return false;
    for (size_t i = 0; i < g->m; i++) {
        scale[i] = 1;
        zero[i] = g->a_zero[0];
    }
    g->row_scale = scale;
    g->a_zero = zero;
    g->a_zero_step = 1;
    return true;
}

static steno_status run_int_linear(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_packed_i8 *l = steno_op_priv(ctx);
    const struct steno_tensor *q = steno_op_in(ctx, 0), *ws = steno_op_in(ctx, 5),
                              *bias = steno_op_in(ctx, 6);
    struct steno_gemm_epilogue ep = {.alpha = 1};
    struct steno_gemm_i8 g = {.ep = &ep};
    int32_t zero;
    struct steno_shape s;
    struct steno_tensor *y;
    steno_status st;
    if (!check_int(ctx, l))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "inputs do not fit weights of %zu x %zu",
                             l->k, l->n);
    s = q->shape;
    s.dim[s.rank - 1] = (int64_t)l->n;
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    g.scale = steno_ops_scales(ctx, *(const float *)steno_op_in(ctx, 4)->data, ws->data,
                               steno_numel(ws) > 1, l->n);
    if (!g.scale)
        return steno_ops_nomem(ctx, err);
    zero = (int32_t)steno_ops_get_i64(steno_op_in(ctx, 2), 0);
    ep.bias = bias ? bias->data : NULL;
    g.m = steno_numel(y) / l->n;
    g.n = g.ldc = l->n;
    g.k = g.lda = l->k;
    g.a = q->data;
    g.a_signed = q->dtype == STENO_I8;
    g.a_zero = &zero;
    g.packed = l->data;
    g.c = y->data;
    if (!spread_over_rows(ctx, &g))
        return steno_ops_nomem(ctx, err);
    steno_ops_gemm_i8(ctx, &g);
    return STENO_OK;
}

const struct steno_op steno_ops_fused_int8[] = {
    {"ai.steno", "IntLinear", 1, 0, 0, steno_infer_linear, prepare_int_linear, steno_packed_i8_free,
     run_int_linear},
    {0},
};
