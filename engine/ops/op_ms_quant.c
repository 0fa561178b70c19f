/* Products with quantized weights that ONNX Runtime's quantizer writes (domain com.microsoft):
 * MatMulIntegerToFloat, DynamicQuantizeMatMul, MatMulNBits. Definitions: ONNX Runtime,
 * docs/ContribOperators.md.
 *
 * Constant weights are widened to f32 and packed at load; activations are rounded to 8 bits exactly
 * as the operator says, so that only the order of the sums differs. */
#include "ops/matmul.h"
#include "ops/ms.h"

#include <stdlib.h>

struct weights { /* frozen: packed f32 of constant weights [k, n] */
    size_t k, n;
    void *packed;
};

static void release_weights(void *priv)
{
    struct weights *w = priv;
    if (w)
        steno_aligned_free(w->packed);
    free(w);
}

/* f [k, n], or [n, k] when trans. */
static steno_status pack(struct steno_prep *pc, const float *f, bool trans, size_t k, size_t n,
                         void **priv, steno_err *err)
{
    const steno_kernels *kern = steno_prep_kernels(pc);
    struct weights *w = calloc(1, sizeof *w);
    size_t bytes = kern->gemm_f32_packed_bytes(k, n);
    if (w)
        w->packed = steno_aligned_alloc(bytes);
    if (!w || !w->packed) {
        release_weights(w);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    w->k = k;
    w->n = n;
    kern->gemm_f32_pack(w->packed, f, trans ? k : n, trans, k, n);
    steno_prep_packed(pc, bytes);
    steno_prep_consumed(pc, 1);
    *priv = w;
    return STENO_OK;
}

/* ---- MatMulIntegerToFloat, DynamicQuantizeMatMul ---- */
struct slots { /* input numbers */
    int a_scale, b_scale, a_zero, b_zero, bias;
};

static struct slots slots_of(const struct steno_node *n)
{
    return n->op_type[0] == 'M' ? (struct slots){2, 3, 4, 5, 6} : (struct slots){-1, 2, -1, 3, 4};
}

static steno_status infer_int8(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape a = steno_infer_shape(ic, 0), b = steno_infer_shape(ic, 1);
    return steno_matmul_infer(ic, &a, &b, STENO_F32, err);
}

static const struct steno_tensor *const_in(struct steno_prep *pc, int i)
{
    return i < steno_prep_node(pc)->n_in ? steno_prep_const(pc, i) : NULL;
}

static bool given(const struct steno_prep *pc, int i)
{
    const struct steno_node *n = steno_prep_node(pc);
    return i < n->n_in && n->in[i] >= 0;
}

static steno_status prepare_int8(struct steno_prep *pc, void **priv, steno_err *err)
{
    struct slots s = slots_of(steno_prep_node(pc));
    struct steno_int8 w = {const_in(pc, 1), const_in(pc, s.b_scale), const_in(pc, s.b_zero)};
    float *f;
    steno_status st;
    if (!w.q || !w.scale || (given(pc, s.b_zero) && !w.zero) || w.q->shape.rank != 2 ||
        !steno_numel(w.q) || steno_int8_check(&w))
        return STENO_OK; /* run sees to it */
    f = malloc(steno_numel(w.q) * sizeof *f);
    if (!f)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    steno_int8_widen(&w, f);
    st = pack(pc, f, false, (size_t)w.q->shape.dim[0], (size_t)w.q->shape.dim[1], priv, err);
    free(f);
    return st;
}

/* The activation as f32 and what its product is still to be scaled by. */
static steno_status activation(struct steno_op_ctx *ctx, const struct slots *s, const float **a,
                               float *alpha, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    float *f;
    *alpha = 1;
    if (s->a_scale >= 0)
        return steno_ms_activation(ctx, x, steno_op_in(ctx, s->a_scale),
                                   steno_ms_in(ctx, s->a_zero), a, err);
    if (x->dtype != STENO_F32)
        return steno_ops_bad_type(ctx, err, x->dtype);
    f = steno_op_scratch(ctx, (steno_numel(x) + 1) * sizeof *f);
    if (!f)
        return steno_ops_nomem(ctx, err);
    *alpha = steno_ms_dynamic(steno_op_kernels(ctx), x->data, steno_numel(x), f);
    *a = f;
    return STENO_OK;
}

static steno_status read_bias(struct steno_op_ctx *ctx, int in, size_t n, const float **out,
                              steno_err *err)
{
    const struct steno_tensor *t = steno_ms_in(ctx, in);
    *out = NULL;
    if (!t)
        return STENO_OK;
    if (t->shape.rank != 1 || steno_numel(t) != n || !steno_ops_is_float(t->dtype))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "bias does not fit %zu columns", n);
    *out = steno_ops_as_f32(ctx, t);
    return *out ? STENO_OK : steno_ops_nomem(ctx, err);
}

static steno_status run_int8(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    const struct weights *w = steno_op_priv(ctx);
    struct slots s = slots_of(node);
    struct steno_gemm_epilogue ep = {.alpha = 1};
    struct steno_shape bs;
    struct steno_matmul p;
    struct steno_tensor *y;
    const float *a = NULL, *b = NULL;
    const char *wrong;
    steno_status st = STENO_OK;
    for (int i = 0; i <= s.b_scale && !st; i++)
        if (!steno_ms_in(ctx, i) && !(i == 1 && w))
            st = steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d is missing", i);
    if (st)
        return st;
    bs = w ? steno_ops_shape(2, (const int64_t[]){(int64_t)w->k, (int64_t)w->n})
           : steno_op_in(ctx, 1)->shape;
    wrong = steno_matmul_plan(&steno_op_in(ctx, 0)->shape, &bs, &p);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    st = activation(ctx, &s, &a, &ep.alpha, err);
    if (!st)
        st = read_bias(ctx, s.bias, p.n, &ep.bias, err);
    if (!st && !w)
        st = steno_int8_scratch(ctx,
                                &(struct steno_int8){steno_op_in(ctx, 1),
                                                     steno_op_in(ctx, s.b_scale),
                                                     steno_ms_in(ctx, s.b_zero)},
                                &b, err);
    if (!st)
        st = steno_op_out(ctx, 0, STENO_F32, &p.out, &y, err);
    if (st || !steno_numel(y))
        return st;
    if (!w)
        return steno_ops_matmul_f32(ctx, &p, a, b, y->data, &ep, err);
    steno_ops_gemm_packed(ctx, p.m, p.n, p.k, a, p.k, w->packed, y->data, p.n, &ep);
    return STENO_OK;
}

/* ---- MatMulNBits ---- A [..., K], B [N, blocks, block * bits / 8], scales [N * blocks], zero
 * points packed like B with rows rounded up to bytes, or floats [N * blocks]; 2^(bits - 1) when
 * absent. The lowest bits of a byte come first. */
struct nbits {
    size_t k, n, bits, block, blocks;
};

static const char *read_nbits(const struct steno_node *node, struct nbits *b)
{
    int64_t k = steno_node_int(node, "K", 0), n = steno_node_int(node, "N", 0);
    int64_t bits = steno_node_int(node, "bits", 4), block = steno_node_int(node, "block_size", 0);
    if (k < 1 || n < 1 || k > INT32_MAX || n > INT32_MAX)
        return "K and N are out of range";
    if (bits != 2 && bits != 4 && bits != 8)
        return "bits are 2, 4 or 8";
    if (block < 16 || block > 1 << 20 || (block & (block - 1)))
        return "block_size is a power of two from 16 on";
    *b = (struct nbits){(size_t)k, (size_t)n, (size_t)bits, (size_t)block,
                        (size_t)((k + block - 1) / block)};
    return NULL;
}

static const char *check_nbits(const struct nbits *b, const struct steno_tensor *q,
                               const struct steno_tensor *scale, const struct steno_tensor *zero)
{
    size_t blocks = b->n * b->blocks; /* each below 2^31 */
    if (q->dtype != STENO_U8 || steno_numel(q) / (b->block * b->bits / 8) != blocks ||
        steno_numel(q) % (b->block * b->bits / 8))
        return "B does not fit K, N, bits and block_size";
    if (!steno_ops_is_float(scale->dtype) || steno_numel(scale) != blocks)
        return "scales do not fit the blocks";
    if (zero && (zero->dtype == STENO_U8
                     ? steno_numel(zero) != b->n * ((b->blocks * b->bits + 7) / 8)
                     : !steno_ops_is_float(zero->dtype) || steno_numel(zero) != blocks))
        return "zero points do not fit the blocks";
    return NULL;
}

static unsigned field(const uint8_t *row, size_t i, size_t bits)
{
    return (unsigned)(row[i * bits / 8] >> (i * bits % 8)) & ((1u << bits) - 1);
}

/* out [n, k] */
static void widen_nbits(const struct nbits *b, const struct steno_tensor *q,
                        const struct steno_tensor *scale, const struct steno_tensor *zero,
                        float *out)
{
    size_t zero_row = (b->blocks * b->bits + 7) / 8;
    for (size_t n = 0; n < b->n; n++) {
        const uint8_t *row = (const uint8_t *)q->data + n * b->blocks * b->block * b->bits / 8;
        for (size_t j = 0; j < b->blocks; j++) {
            size_t at = n * b->blocks + j, end = (j + 1) * b->block;
            float s = (float)steno_ops_get_f64(scale, at), z = (float)(1u << (b->bits - 1));
            if (zero && zero->dtype == STENO_U8)
                z = (float)field((const uint8_t *)zero->data + n * zero_row, j, b->bits);
            else if (zero)
                z = (float)steno_ops_get_f64(zero, at);
            for (size_t i = j * b->block; i < end && i < b->k; i++)
                out[n * b->k + i] = ((float)field(row, i, b->bits) - z) * s;
        }
    }
}

static steno_status prepare_nbits(struct steno_prep *pc, void **priv, steno_err *err)
{
    const struct steno_tensor *q = const_in(pc, 1), *s = const_in(pc, 2), *z = const_in(pc, 3);
    struct nbits b;
    const char *wrong = read_nbits(steno_prep_node(pc), &b);
    size_t size;
    float *f;
    steno_status st;
    if (wrong)
        return steno_fail(err, STENO_ERR_FORMAT, "%s", wrong);
    if (!q || !s || (given(pc, 3) && !z) || check_nbits(&b, q, s, z))
        return STENO_OK; /* run sees to it */
    if (!steno_mul_size(b.k * sizeof *f, b.n, &size) || !(f = malloc(size)))
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    widen_nbits(&b, q, s, z, f);
    st = pack(pc, f, true, b.k, b.n, priv, err);
    free(f);
    return st;
}

static steno_status infer_nbits(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    struct nbits b;
    const char *wrong = read_nbits(steno_infer_node(ic), &b);
    if (!wrong && s.rank > 0 && s.dim[s.rank - 1] >= 0 && (size_t)s.dim[s.rank - 1] != b.k)
        wrong = "the last axis of A is not K";
    if (wrong || !s.rank)
        return steno_fail(err, STENO_ERR_INVAL, "%s", wrong ? wrong : "A is a scalar");
    if (s.rank > 0)
        s.dim[s.rank - 1] = (int64_t)b.n;
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* B widened into scratch and packed there. */
static steno_status pack_nbits(struct steno_op_ctx *ctx, const struct nbits *b, const void **out,
                               steno_err *err)
{
    const steno_kernels *k = steno_op_kernels(ctx);
    const struct steno_tensor *q = steno_op_in(ctx, 1), *s = steno_op_in(ctx, 2);
    const char *wrong = check_nbits(b, q, s, steno_ms_in(ctx, 3));
    size_t size;
    float *f;
    void *to;
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    if (!steno_mul_size(b->k * sizeof *f, b->n, &size))
        return steno_ops_nomem(ctx, err);
    f = steno_op_scratch(ctx, size);
    to = steno_op_scratch(ctx, k->gemm_f32_packed_bytes(b->k, b->n));
    if (!f || !to)
        return steno_ops_nomem(ctx, err);
    widen_nbits(b, q, s, steno_ms_in(ctx, 3), f);
    k->gemm_f32_pack(to, f, b->k, true, b->k, b->n);
    *out = to;
    return STENO_OK;
}

static steno_status run_nbits(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct weights *w = steno_op_priv(ctx);
    struct steno_gemm_epilogue ep = {.alpha = 1};
    const struct steno_tensor *a;
    const void *packed = w ? w->packed : NULL;
    struct steno_tensor *y;
    struct steno_shape s;
    struct nbits b;
    const char *wrong = read_nbits(steno_op_node(ctx), &b);
    const float *fa;
    float *fy;
    steno_status st = steno_ops_need(ctx, w ? 1 : 3, err);
    if (st)
        return st;
    a = steno_op_in(ctx, 0);
    s = a->shape;
    if (!wrong && steno_ms_in(ctx, 4))
        return steno_op_fail(ctx, err, STENO_ERR_UNSUPPORTED, "g_idx is not supported");
    if (!wrong && (!s.rank || (size_t)s.dim[s.rank - 1] != b.k || !steno_ops_is_float(a->dtype)))
        wrong = "A is floats [..., K]";
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    s.dim[s.rank - 1] = (int64_t)b.n;
    st = steno_op_out(ctx, 0, a->dtype, &s, &y, err);
    if (!st)
        st = read_bias(ctx, 5, b.n, &ep.bias, err);
    if (!st && !packed)
        st = pack_nbits(ctx, &b, &packed, err);
    if (st || !steno_numel(y))
        return st;
    fa = steno_ops_as_f32(ctx, a);
    fy = steno_ops_out_f32(ctx, y);
    if (!fa || !fy)
        return steno_ops_nomem(ctx, err);
    steno_ops_gemm_packed(ctx, steno_numel(y) / b.n, b.n, b.k, fa, b.k, packed, fy, b.n, &ep);
    steno_ops_put_f32(y, fy);
    return STENO_OK;
}

const struct steno_op steno_ops_ms_quant[] = {
    {"com.microsoft", "MatMulIntegerToFloat", 1, 0, 0, infer_int8, prepare_int8, release_weights,
     run_int8},
    {"com.microsoft", "DynamicQuantizeMatMul", 1, 0, 0, infer_int8, prepare_int8, release_weights,
     run_int8},
    {"com.microsoft", "MatMulNBits", 1, 0, 0, infer_nbits, prepare_nbits, release_weights,
     run_nbits},
    {0},
};
