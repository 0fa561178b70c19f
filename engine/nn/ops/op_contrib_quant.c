/* Products with quantized weights that ONNX Runtime's quantizer writes (domain com.microsoft):
 * MatMulIntegerToFloat, DynamicQuantizeMatMul, QGemm, MatMulNBits. Definitions: ONNX Runtime,
 * docs/ContribOperators.md.
 *
 * Products of bytes are summed in integers, exactly (nn/ops/int8.h); weights are packed at load. */
#include "nn/ops/int8.h"
#include "nn/ops/contrib.h"

#include <math.h>
#include <stdlib.h>

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

static const struct steno_tensor *const_in(struct steno_prepare *pc, int i)
{
    return i < steno_prepare_node_of(pc)->n_in ? steno_prepare_const(pc, i) : NULL;
}

static bool given(const struct steno_prepare *pc, int i)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    return i < n->n_in && n->in[i] >= 0;
}

static steno_status prepare_int8(struct steno_prepare *pc, void **priv, steno_err *err)
{
    struct slots s = slots_of(steno_prepare_node_of(pc));
    struct steno_packed_i8 *w;
    steno_status st = steno_prepare_pack_i8(pc, 1, s.b_zero, &w, err);
    *priv = w;
    return st;
}

/* The activation as bytes: given, or quantized into scratch. */
struct bytes {
    struct steno_tensor a, zero; /* zero.data NULL: none */
    float scale;
};

static steno_status activation(struct steno_op_ctx *ctx, const struct slots *s, struct bytes *b,
                               steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0), *scale, *zero = steno_op_in(ctx, s->a_zero);
    uint8_t *q;
    int32_t z;
    if (s->a_scale >= 0) {
        scale = steno_op_in(ctx, s->a_scale);
        if (!steno_dtype_is_byte(x->dtype) || scale->dtype != STENO_F32)
            return steno_ops_bad_type(ctx, err, x->dtype);
        if (steno_numel(scale) != 1 || (zero && steno_numel(zero) != 1))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                                 "the activation must have one scale and one zero point");
        *b = (struct bytes){.a = *x, .scale = *(const float *)scale->data};
        if (zero)
            b->zero = *zero;
        return STENO_OK;
    }
    if (x->dtype != STENO_F32)
        return steno_ops_bad_type(ctx, err, x->dtype);
    q = steno_op_scratch(ctx, steno_numel(x) + 1);
    if (!q)
        return steno_ops_nomem(ctx, err);
    steno_ops_range(steno_op_kernels(ctx), x->data, steno_numel(x), &b->scale, &z);
    steno_ops_quantize(ctx, q + 1, x->data, steno_numel(x), b->scale, z, false);
    q[0] = (uint8_t)z;
    b->a = (struct steno_tensor){STENO_U8, x->shape, q + 1};
    b->zero = (struct steno_tensor){STENO_U8, {.rank = 0}, q};
    return STENO_OK;
}

static steno_status read_bias(struct steno_op_ctx *ctx, int in, size_t n, const float **out,
                              steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, in);
    *out = NULL;
    if (!t)
        return STENO_OK;
    if (t->shape.rank != 1 || steno_numel(t) != n || !steno_ops_is_float(t->dtype))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "bias does not fit %zu columns", n);
    *out = steno_ops_as_f32(ctx, t);
    return *out ? STENO_OK : steno_ops_nomem(ctx, err);
}

/* Scales and zero points of the weights as the product takes them, checked. */
static steno_status weights_of(struct steno_op_ctx *ctx, const struct slots *s, float with,
                               struct steno_product_i8 *x, const float **scale,
                               struct steno_tensor *zero, steno_err *err)
{
    const struct steno_packed_i8 *w = x->w;
    struct steno_int8 given = {w ? NULL : steno_op_in(ctx, 1), steno_op_in(ctx, s->b_scale),
                               steno_op_in(ctx, s->b_zero)};
    struct steno_shape shape =
        w ? steno_ops_shape(2, (const int64_t[]){(int64_t)w->k, (int64_t)w->n}) : given.q->shape;
    struct steno_tensor stand_in = {given.zero ? given.zero->dtype : STENO_I8, shape, NULL};
    const char *wrong;
    if (w)
        given.q = &stand_in; /* the bytes are packed together with their zero points */
    wrong = steno_int8_check(&given);
    if (!wrong && shape.rank < 2)
        wrong = "weights have rank 1";
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    x->b = w ? NULL : given.q;
    x->b_zero = !w && given.zero ? zero : NULL;
    return steno_int8_spread(ctx, &given, &shape, with, scale, &x->scale_step, zero, err);
}

static steno_status run_int8(struct steno_op_ctx *ctx, steno_err *err)
{
    struct slots s = slots_of(steno_op_node(ctx));
    struct steno_product_i8 x = {.w = steno_op_priv(ctx)};
    struct steno_gemm_epilogue ep = {.alpha = 1};
    struct steno_gemm_i8 like = {.ep = &ep};
    struct bytes a = {.scale = 1};
    struct steno_tensor zero, *y;
    struct steno_matmul p;
    steno_status st = STENO_OK;
    for (int i = 0; i <= s.b_scale && !st; i++)
        if (!steno_op_in(ctx, i) && !(i == 1 && x.w))
            st = steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d is missing", i);
    if (!st)
        st = activation(ctx, &s, &a, err);
    if (!st)
        st = weights_of(ctx, &s, a.scale, &x, &like.scale, &zero, err);
    if (st)
        return st;
    x.a = &a.a;
    x.a_zero = a.zero.data ? &a.zero : NULL;
    st = steno_ops_product_i8_plan(ctx, &x, &p, err);
    if (!st)
        st = read_bias(ctx, s.bias, p.n, &ep.bias, err);
    if (!st)
        st = steno_op_out(ctx, 0, STENO_F32, &p.out, &y, err);
    if (st || !steno_numel(y))
        return st;
    return steno_ops_product_i8(ctx, &x, &p, &like, y->data, err);
}

/* ---- QGemm ---- A, a_scale, a_zero, B, b_scale, b_zero, C (i32)?, y_scale?, y_zero?
 * Y = alpha * a_scale * b_scale * (A' B' + C), quantized to 8 bits where y_zero is present */
static const char *qgemm_plan(const struct steno_node *n, const struct steno_shape *a,
                              const struct steno_shape *b, int64_t *m, int64_t *k, int64_t *cols)
{
    bool ta = steno_node_int(n, "transA", 0) != 0, tb = steno_node_int(n, "transB", 0) != 0;
    if (a->rank != 2 || b->rank != 2)
        return "factors must have rank 2";
    *m = a->dim[ta];
    *k = a->dim[!ta];
    *cols = b->dim[!tb];
    return *k >= 0 && b->dim[tb] >= 0 && *k != b->dim[tb] ? "inner dimensions differ" : NULL;
}

static steno_status infer_qgemm(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape a = steno_infer_shape(ic, 0), b = steno_infer_shape(ic, 3), y;
    int64_t m = 0, n = 0, k;
    const char *wrong = NULL;
    y.rank = STENO_RANK_ANY;
    if (a.rank >= 0 && b.rank >= 0) {
        wrong = qgemm_plan(steno_infer_node(ic), &a, &b, &m, &k, &n);
        y = steno_ops_shape(2, (const int64_t[]){m, n});
    }
    if (wrong)
        return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    steno_infer_set(ic, 0, steno_infer_has(ic, 8) ? steno_infer_dtype(ic, 8) : STENO_F32, &y);
    return STENO_OK;
}

static steno_status prepare_qgemm(struct steno_prepare *pc, void **priv, steno_err *err)
{
    struct steno_packed_i8 *w = NULL;
    steno_status st = STENO_OK;
    if (!steno_node_int(steno_prepare_node_of(pc), "transB", 0))
        st = steno_prepare_pack_i8(pc, 3, 5, &w, err);
    *priv = w;
    return st;
}

/* Bytes [rows, cols] in place, or transposed into scratch. */
static const struct steno_tensor *upright(struct steno_op_ctx *ctx, const struct steno_tensor *t,
                                          bool trans, struct steno_tensor *transposed)
{
    static const int swap[2] = {1, 0};
    if (!trans)
        return t;
    *transposed = (struct steno_tensor){
        t->dtype, steno_ops_shape(2, (const int64_t[]){t->shape.dim[1], t->shape.dim[0]}),
        steno_op_scratch(ctx, steno_numel(t) + 1)};
    if (!transposed->data)
        return NULL;
    steno_ops_transpose(&t->shape, swap, 1, transposed->data, t->data);
    return transposed;
}

/* Add C to sum [m, n] and scale: to f32, or to bytes of y's type by y_scale and y_zero. */
static steno_status finish_qgemm(struct steno_op_ctx *ctx, const int32_t *sum, const float *scale,
                                 size_t m, size_t n, struct steno_tensor *y, steno_err *err)
{
    const struct steno_tensor *c = steno_op_in(ctx, 6), *ys = steno_op_in(ctx, 7);
    size_t cn = c ? steno_numel(c) : 0;
    bool column = c && c->shape.rank == 2 && c->shape.dim[1] == 1 && cn == m;
    size_t down = column ? 1 : cn == m * n ? n : 0, along = !column && cn > 1;
    double inverse = 1, zero = 0;
    double *d = y->dtype == STENO_F32 ? NULL : steno_ops_out_f64(ctx, y);
    if (c && (c->dtype != STENO_I32 || (cn != 1 && cn != n && cn != m * n && !column)))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "C does not fit %zu x %zu", m, n);
    if (y->dtype != STENO_F32) {
        if (!ys || ys->dtype != STENO_F32 || steno_numel(ys) != 1)
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "y_scale must be one f32 number");
        if (!d)
            return steno_ops_nomem(ctx, err);
        inverse = 1 / steno_ops_get_f64(ys, 0);
        zero = steno_ops_get_f64(steno_op_in(ctx, 8), 0);
    }
    for (size_t i = 0; i < m * n; i++) {
        size_t row = i / n, col = i % n;
        int32_t add = c ? ((const int32_t *)c->data)[row * down + col * along] : 0;
        double v = ((double)sum[i] + add) * (double)scale[col];
        if (d)
            d[i] = rint(v * inverse) + zero;
        else
            ((float *)y->data)[i] = (float)v;
    }
    if (d)
        steno_ops_put_f64(y, d); /* saturates */
    return STENO_OK;
}

static steno_status run_qgemm(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    const struct steno_tensor *yz = steno_op_in(ctx, 8);
    struct steno_product_i8 x = {.w = steno_op_priv(ctx)};
    struct steno_int8 w = {.zero = steno_op_in(ctx, 5)};
    struct steno_gemm_i8 plain = {0};
    struct steno_tensor ta, tb, *y;
    struct steno_matmul p;
    const float *scale;
    struct steno_tensor zero;
    int32_t *sum;
    const char *wrong;
    steno_status st = STENO_OK;
    for (int i = 0; i < 5 && !st; i++)
        if (i != 2 && !steno_op_in(ctx, i) && !(i == 3 && x.w))
            st = steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d is missing", i);
    if (st)
        return st;
    if (yz && (!steno_dtype_is_byte(yz->dtype) || steno_numel(yz) != 1))
        return steno_ops_bad_type(ctx, err, yz->dtype);
    w.q = steno_op_in(ctx, 3);
    w.scale = steno_op_in(ctx, 4);
    x.a = upright(ctx, steno_op_in(ctx, 0), steno_node_int(node, "transA", 0) != 0, &ta);
    if (!x.w)
        w.q = upright(ctx, w.q, steno_node_int(node, "transB", 0) != 0, &tb);
    if (!x.a || !w.q)
        return steno_ops_nomem(ctx, err);
    wrong = steno_int8_check(&w);
    if (!wrong && (x.a->shape.rank != 2 || w.q->shape.rank != 2))
        wrong = "factors must have rank 2";
    if (!wrong && (steno_numel(steno_op_in(ctx, 1)) != 1))
        wrong = "a_scale must be one number";
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    x.a_zero = steno_op_in(ctx, 2);
    st = steno_int8_spread(ctx, &w, &w.q->shape,
                           steno_node_float(node, "alpha", 1) *
                               (float)steno_ops_get_f64(steno_op_in(ctx, 1), 0),
                           &scale, &x.scale_step, &zero, err);
    x.b = x.w ? NULL : w.q;
    x.b_zero = !x.w && w.zero ? &zero : NULL;
    if (!st)
        st = steno_ops_product_i8_plan(ctx, &x, &p, err);
    if (!st)
        st = steno_op_out(ctx, 0, yz ? yz->dtype : STENO_F32, &p.out, &y, err);
    if (st || !steno_numel(y))
        return st;
    sum = steno_op_scratch(ctx, steno_numel(y) * sizeof *sum);
    if (!sum)
        return steno_ops_nomem(ctx, err);
    st = steno_ops_product_i8(ctx, &x, &p, &plain, sum, err);
    return st ? st : finish_qgemm(ctx, sum, scale, p.m, p.n, y, err);
}

/* ---- MatMulNBits ---- A [..., K], B [N, blocks, block * bits / 8], scales [N * blocks], zero
 * points packed like B with rows rounded up to bytes, or floats [N * blocks]; 2^(bits - 1) when
 * absent. The lowest bits of a byte come first. */
struct nbits { /* from the attributes; frozen with the packed weights if those are constant */
    struct steno_nbits b;
    size_t blocks;
    void *packed;
};

static void release_nbits(void *priv)
{
    struct nbits *b = priv;
    if (b)
        steno_aligned_free(b->packed);
    free(b);
}

static const char *read_nbits(const struct steno_node *node, struct nbits *b)
{
    int64_t k = steno_node_int(node, "K", 0), n = steno_node_int(node, "N", 0);
    int64_t bits = steno_node_int(node, "bits", 4), block = steno_node_int(node, "block_size", 0);
    if (k < 1 || n < 1 || k > INT32_MAX || n > INT32_MAX)
        return "K and N are out of range";
    if (bits != 2 && bits != 4 && bits != 8)
        return "bits must be 2, 4 or 8";
    if (block < 16 || block > 1 << 20 || (block & (block - 1)))
        return "block_size must be a power of two of at least 16";
    *b = (struct nbits){
        .b = {.k = (size_t)k, .n = (size_t)n, .bits = (size_t)bits, .block = (size_t)block},
        .blocks = (size_t)((k + block - 1) / block)};
    return NULL;
}

static const char *check_nbits(const struct nbits *b, const struct steno_tensor *q,
                               const struct steno_tensor *scale, const struct steno_tensor *zero)
{
    size_t blocks = b->b.n * b->blocks; /* each factor is below 2^31 */
    if (q->dtype != STENO_U8 || steno_numel(q) / (b->b.block * b->b.bits / 8) != blocks ||
        steno_numel(q) % (b->b.block * b->b.bits / 8))
        return "B does not fit K, N, bits and block_size";
    if (!steno_ops_is_float(scale->dtype) || steno_numel(scale) != blocks)
        return "scales do not fit the blocks";
    if (zero &&
        (zero->dtype == STENO_U8 ? steno_numel(zero) != b->b.n * ((b->blocks * b->b.bits + 7) / 8)
                                 : !steno_ops_is_float(zero->dtype) || steno_numel(zero) != blocks))
        return "zero points do not fit the blocks";
    return NULL;
}

static unsigned field(const uint8_t *row, size_t i, size_t bits)
{
    return (unsigned)(row[i * bits / 8] >> (i * bits % 8)) & ((1u << bits) - 1);
}

/* Convert scales and zero points to f32, [2][n * blocks] at `to`. b gets pointers to them and to
 * q. */
static void spread_nbits(struct nbits *b, const struct steno_tensor *q,
                         const struct steno_tensor *scale, const struct steno_tensor *zero,
                         float *to)
{
    size_t n = b->b.n * b->blocks, zero_row = (b->blocks * b->b.bits + 7) / 8;
    b->b.q = q->data;
    b->b.scale = to;
    b->b.zero = to + n;
    for (size_t i = 0; i < n; i++) {
        to[i] = (float)steno_ops_get_f64(scale, i);
        if (zero && zero->dtype == STENO_U8)
            to[n + i] = (float)field((const uint8_t *)zero->data + i / b->blocks * zero_row,
                                     i % b->blocks, b->b.bits);
        else if (zero)
            to[n + i] = (float)steno_ops_get_f64(zero, i);
    }
}

static steno_status prepare_nbits(struct steno_prepare *pc, void **priv, steno_err *err)
{
    const steno_kernels *k = steno_prepare_kernels(pc);
    const struct steno_tensor *q = const_in(pc, 1), *s = const_in(pc, 2), *z = const_in(pc, 3);
    struct nbits b, *to;
    const char *wrong = read_nbits(steno_prepare_node_of(pc), &b);
    size_t bytes;
    float *f;
    if (wrong)
        return steno_fail(err, STENO_ERR_FORMAT, "%s", wrong);
    if (!q || !s || (given(pc, 3) && !z) || check_nbits(&b, q, s, z))
        return STENO_OK; /* run packs them */
    b.b.has_zero = z != NULL;
    bytes = k->gemm_nbits.packed_bytes(&b.b);
    f = malloc(2 * steno_numel(s) * sizeof *f);
    to = calloc(1, sizeof *to);
    b.packed = steno_aligned_alloc(bytes);
    if (!f || !to || !b.packed) {
        steno_aligned_free(b.packed);
        free(to);
        free(f);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    spread_nbits(&b, q, s, z, f);
    k->gemm_nbits.pack(b.packed, &b.b);
    free(f);
    b.b.q = NULL;
    b.b.scale = b.b.zero = NULL;
    steno_prepare_packed(pc, bytes);
    for (int i = 1; i < 4; i++) /* values, scales, zero points */
        steno_prepare_consumed(pc, i);
    *to = b;
    *priv = to;
    return STENO_OK;
}

static steno_status infer_nbits(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    struct nbits b;
    const char *wrong = read_nbits(steno_infer_node(ic), &b);
    if (!wrong && s.rank > 0 && s.dim[s.rank - 1] >= 0 && (size_t)s.dim[s.rank - 1] != b.b.k)
        wrong = "the last axis of A is not K";
    if (wrong || !s.rank)
        return steno_fail(err, STENO_ERR_INVAL, "%s", wrong ? wrong : "A is a scalar");
    if (s.rank > 0)
        s.dim[s.rank - 1] = (int64_t)b.b.n;
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* Pack a B that is a run-time input, in scratch. */
static steno_status pack_nbits(struct steno_op_ctx *ctx, struct nbits *b, steno_err *err)
{
    const steno_kernels *k = steno_op_kernels(ctx);
    const struct steno_tensor *q = steno_op_in(ctx, 1), *s = steno_op_in(ctx, 2);
    const char *wrong = check_nbits(b, q, s, steno_op_in(ctx, 3));
    float *f;
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    b->b.has_zero = steno_op_in(ctx, 3) != NULL;
    f = steno_op_scratch(ctx, 2 * steno_numel(s) * sizeof *f);
    b->packed = steno_op_scratch(ctx, k->gemm_nbits.packed_bytes(&b->b));
    if (!f || !b->packed)
        return steno_ops_nomem(ctx, err);
    spread_nbits(b, q, s, steno_op_in(ctx, 3), f);
    k->gemm_nbits.pack(b->packed, &b->b);
    return STENO_OK;
}

struct nbits_job {
    const steno_kernels *k;
    const struct nbits *b;
    size_t m, parts;
    const float *a;
    float *y;
    const struct steno_gemm_epilogue *ep;
    void *work;
};

static void nbits_part(void *arg, int part)
{
    const struct nbits_job *j = arg;
    j->k->gemm_nbits.part(&j->b->b, j->m, j->a, j->b->b.k, j->b->packed, j->y, j->b->b.n, j->ep,
                          j->work, (size_t)part, j->parts);
}

static steno_status run_nbits(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct nbits *w = steno_op_priv(ctx);
    struct steno_gemm_epilogue ep = {.alpha = 1};
    const struct steno_tensor *a = steno_op_in(ctx, 0);
    struct nbits_job j = {.k = steno_op_kernels(ctx), .ep = &ep};
    struct steno_tensor *y;
    struct steno_shape s;
    struct nbits b;
    const char *wrong = read_nbits(steno_op_node(ctx), &b);
    steno_status st;
    s = a->shape;
    if (!wrong && steno_op_in(ctx, 4))
        return steno_op_fail(ctx, err, STENO_ERR_UNSUPPORTED, "g_idx is not supported");
    if (!wrong && (!s.rank || (size_t)s.dim[s.rank - 1] != b.b.k || !steno_ops_is_float(a->dtype)))
        wrong = "A must be floats [..., K]";
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    s.dim[s.rank - 1] = (int64_t)b.b.n;
    st = steno_op_out(ctx, 0, a->dtype, &s, &y, err);
    if (!st)
        st = read_bias(ctx, 5, b.b.n, &ep.bias, err);
    if (!st && !w)
        st = pack_nbits(ctx, &b, err);
    if (st || !steno_numel(y))
        return st;
    j.b = w ? w : &b;
    j.m = steno_numel(y) / b.b.n;
    j.parts = j.m * b.b.n * b.b.k > 1u << 18 ? (size_t)steno_op_threads(ctx) : 1;
    j.a = steno_ops_as_f32(ctx, a);
    j.y = steno_ops_out_f32(ctx, y);
    j.work = steno_op_scratch(ctx, j.k->gemm_nbits.work_bytes(&b.b, j.parts) + 1);
    if (!j.a || !j.y || !j.work)
        return steno_ops_nomem(ctx, err);
    steno_op_parallel(ctx, (int)j.parts, nbits_part, &j);
    steno_ops_put_f32(y, j.y);
    return STENO_OK;
}

const struct steno_op steno_ops_ms_quant[] = {
    {"com.microsoft", "MatMulIntegerToFloat", 1, 0, 0, infer_int8, prepare_int8,
     steno_packed_i8_free, run_int8},
    {"com.microsoft", "DynamicQuantizeMatMul", 1, 0, 0, infer_int8, prepare_int8,
     steno_packed_i8_free, run_int8},
    {"com.microsoft", "QGemm", 1, 0, 0, infer_qgemm, prepare_qgemm, steno_packed_i8_free,
     run_qgemm},
    {"com.microsoft", "MatMulNBits", 1, 0, 0, infer_nbits, prepare_nbits, release_nbits, run_nbits},
    {0},
};
