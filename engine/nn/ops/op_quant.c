/* Quantization: QuantizeLinear, DequantizeLinear (opset 10; per axis 13; blocked 21),
 * DynamicQuantizeLinear (11), MatMulInteger, QLinearMatMul (10). 8-bit products are summed in i32.
 */
#include "nn/ops/int8.h"

#include <math.h>

#define CHUNK 256 /* elements per conversion */

/* ---- scales ---- */

struct scaling { /* how scales and zero points map to x */
    size_t outer, axis, inner;
    /* blocked: number of scales along the axis, and elements per scale; else 0 */
    size_t blocks, block;
    size_t n; /* number of scales: 1, axis, or outer * blocks * inner */
};

static steno_status read_scaling(const struct steno_op_ctx *ctx, struct scaling *q, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0), *s = steno_op_in(ctx, 1);
    const struct steno_tensor *z = steno_op_in(ctx, 2);
    int64_t block = steno_node_int(node, "block_size", 0);
    int axis = 0;
    q->n = steno_numel(s);
    q->blocks = q->block = 0;
    if (!steno_ops_is_float(s->dtype))
        return steno_ops_bad_type(ctx, err, s->dtype);
    if (z && steno_numel(z) != q->n)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%zu zero points do not fit %zu scales",
                             steno_numel(z), q->n);
    if (q->n == 1 && s->shape.rank <= 1) {
        q->outer = q->axis = 1;
        q->inner = steno_numel(x);
        return STENO_OK;
    }
    if (!steno_ops_axis(steno_node_int(node, "axis", 1), x->shape.rank, &axis))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis %lld is outside rank %d",
                             (long long)steno_node_int(node, "axis", 1), x->shape.rank);
    q->outer = steno_ops_prod(&x->shape, 0, axis);
    q->axis = (size_t)x->shape.dim[axis];
    q->inner = steno_ops_prod(&x->shape, axis + 1, x->shape.rank);
    if (s->shape.rank == 1 && q->n == q->axis)
        return STENO_OK;
    q->block = block > 0 ? (size_t)block : 0;
    q->blocks = q->block ? (q->axis + q->block - 1) / q->block : 0;
    for (int i = 0; q->block && i < x->shape.rank; i++)
        if (s->shape.rank != x->shape.rank ||
            (size_t)s->shape.dim[i] != (i == axis ? q->blocks : (size_t)x->shape.dim[i]))
            q->blocks = 0;
    if (!q->blocks)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%zu scales do not fit axis %d of %zu",
                             q->n, axis, q->axis);
    return STENO_OK;
}

/* First scale of row (o, a), and the step from one element's scale to the next. */
static size_t scale_at(const struct scaling *q, size_t o, size_t a, size_t *step)
{
    *step = q->blocks ? 1 : 0;
    if (q->blocks)
        return (o * q->blocks + a / q->block) * q->inner;
    return q->n == 1 ? 0 : a;
}

struct rows { /* scales and zero points, widened once */
    struct scaling q;
    const float *scale;
    const double *zero; /* NULL = 0 */
    const float *zero_f32;
};

static steno_status read_rows(struct steno_op_ctx *ctx, struct rows *r, steno_err *err)
{
    const struct steno_tensor *z = steno_op_in(ctx, 2);
    steno_status st = read_scaling(ctx, &r->q, err);
    if (st)
        return st;
    r->scale = steno_ops_as_f32(ctx, steno_op_in(ctx, 1));
    r->zero = z ? steno_ops_as_f64(ctx, z) : NULL;
    r->zero_f32 = z ? steno_ops_as_f32(ctx, z) : NULL;
    return r->scale && (!z || (r->zero && r->zero_f32)) ? STENO_OK : steno_ops_nomem(ctx, err);
}

/* ---- QuantizeLinear ---- y = saturate(round_half_even(x / scale) + zero) */

static steno_dtype quantized_type(const struct steno_node *n, steno_dtype zero)
{
    return zero ? zero : (steno_dtype)steno_node_int(n, "output_dtype", STENO_U8);
}

static steno_status infer_quantize(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_shape s = steno_infer_shape(ic, 0);
    steno_dtype t;
    if (steno_infer_has(ic, 2)) {
        t = steno_infer_dtype(ic, 2);
    } else {
        t = quantized_type(n, STENO_DT_NONE);
        if (!t)
            t = STENO_U8;
    }
    if (t && !steno_ops_is_int(t))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "quantization to element type %d is not supported", (int)t);
    steno_infer_set(ic, 0, t, &s);
    return STENO_OK;
}

/* Quantize f32 to 8 bits with one scale and zero point for the row. False: other types or
 * scales. */
static bool quantize_bytes(struct steno_op_ctx *ctx, const struct rows *r, const void *x,
                           steno_dtype from, void *y, steno_dtype to, size_t at, size_t step,
                           size_t n)
{
    if (from != STENO_F32 || !steno_dtype_is_byte(to) || (step && n > 1))
        return false;
    steno_ops_quantize(ctx, y, x, n, r->scale[at], r->zero ? (int32_t)r->zero[at] : 0,
                       to == STENO_I8);
    return true;
}

static void quantize_row(const struct rows *r, const void *x, steno_dtype from, void *y,
                         steno_dtype to, size_t at, size_t step, size_t n)
{
    double d[CHUNK];
    float f[CHUNK];
    for (size_t i = 0; i < n; i += CHUNK) {
        size_t m = n - i < CHUNK ? n - i : CHUNK;
        steno_ops_load_f32(f, (const char *)x + i * steno_dtype_size(from), from, m);
        for (size_t j = 0; j < m; j++) {
            size_t k = at + (i + j) * step;
            d[j] = (double)rintf(f[j] / r->scale[k]) + (r->zero ? r->zero[k] : 0);
        }
        steno_ops_store_f64((char *)y + i * steno_dtype_size(to), to, d, m); /* saturates */
    }
}

static steno_status run_quantize(struct steno_op_ctx *ctx, steno_err *err)
{
    struct rows r;
    const struct steno_tensor *x = steno_op_in(ctx, 0), *z = steno_op_in(ctx, 2);
    struct steno_tensor *y;
    steno_dtype t;
    steno_status st = read_rows(ctx, &r, err);
    if (st)
        return st;
    t = quantized_type(steno_op_node(ctx), z ? z->dtype : STENO_DT_NONE);
    if (!t)
        t = STENO_U8;
    if (!steno_ops_is_int(t) || (!steno_ops_is_float(x->dtype) && x->dtype != STENO_I32))
        return steno_ops_bad_type(ctx, err, steno_ops_is_int(t) ? x->dtype : t);
    st = steno_op_out(ctx, 0, t, &x->shape, &y, err);
    for (size_t o = 0, i = 0; !st && o < r.q.outer; o++)
        for (size_t a = 0; a < r.q.axis; a++, i += r.q.inner) {
            size_t step, at = scale_at(&r.q, o, a, &step);
            const char *from = (const char *)x->data + i * steno_dtype_size(x->dtype);
            char *to = (char *)y->data + i * steno_dtype_size(t);
            if (!quantize_bytes(ctx, &r, from, x->dtype, to, t, at, step, r.q.inner))
                quantize_row(&r, from, x->dtype, to, t, at, step, r.q.inner);
        }
    return st;
}

/* ---- DequantizeLinear ---- y = (x - zero) * scale, in the type of the scale */

static steno_status infer_dequantize(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    steno_dtype t = (steno_dtype)steno_node_int(steno_infer_node(ic), "output_dtype", 0);
    (void)err;
    steno_infer_set(ic, 0, t ? t : steno_infer_dtype(ic, 1), &s);
    return STENO_OK;
}

static void dequantize_row(const struct rows *r, const void *x, steno_dtype from, void *y,
                           steno_dtype to, size_t at, size_t step, size_t n)
{
    double d[CHUNK];
    float f[CHUNK];
    for (size_t i = 0; i < n; i += CHUNK) {
        size_t m = n - i < CHUNK ? n - i : CHUNK;
        steno_ops_load_f64(d, (const char *)x + i * steno_dtype_size(from), from, m);
        for (size_t j = 0; j < m; j++) {
            size_t k = at + (i + j) * step;
            f[j] = (float)(d[j] - (r->zero ? r->zero[k] : 0)) * r->scale[k];
        }
        steno_ops_store_f32((char *)y + i * steno_dtype_size(to), to, f, m);
    }
}

/* 8 bits to f32, one row of `inner` elements with one scale each, or a row of scales. False: other
 * types or scales. */
static bool dequantize_bytes(const struct steno_op_ctx *ctx, const struct rows *r,
                             const struct steno_tensor *x, struct steno_tensor *y)
{
    const steno_kernels *k = steno_op_kernels(ctx);
    const struct scaling *q = &r->q;
    const bool by_column = q->inner == 1 && q->axis > 1, is_signed = x->dtype == STENO_I8;
    const size_t rows = by_column ? q->outer : q->outer * q->axis,
                 n = by_column ? q->axis : q->inner;
    const uint8_t *from = x->data;
    float *to = y->data;
    if (!steno_dtype_is_byte(x->dtype) || y->dtype != STENO_F32 || q->blocks)
        return false;
    for (size_t i = 0; i < rows; i++, from += n, to += n) {
        const size_t at = q->n == 1 || by_column ? 0 : i % q->axis;
        if (q->n == 1 || !by_column) {
            k->dequantize_f32(to, from, n, r->scale[at], r->zero ? (int32_t)r->zero[at] : 0,
                              is_signed);
            continue;
        }
        k->dequantize_f32(to, from, n, 1, 0, is_signed);
        if (r->zero_f32)
            k->sub_f32(to, to, 1, r->zero_f32, 1, n);
        k->mul_f32(to, to, 1, r->scale, 1, n);
    }
    return true;
}

static steno_status run_dequantize(struct steno_op_ctx *ctx, steno_err *err)
{
    struct rows r;
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    steno_dtype t = (steno_dtype)steno_node_int(steno_op_node(ctx), "output_dtype", 0);
    steno_status st = read_rows(ctx, &r, err);
    if (st)
        return st;
    if (!t)
        t = steno_op_in(ctx, 1)->dtype;
    if (!steno_ops_is_int(x->dtype) || !steno_ops_is_float(t))
        return steno_ops_bad_type(ctx, err, steno_ops_is_float(t) ? x->dtype : t);
    st = steno_op_out(ctx, 0, t, &x->shape, &y, err);
    if (!st && dequantize_bytes(ctx, &r, x, y))
        return STENO_OK;
    for (size_t o = 0, i = 0; !st && o < r.q.outer; o++)
        for (size_t a = 0; a < r.q.axis; a++, i += r.q.inner) {
            size_t step, at = scale_at(&r.q, o, a, &step);
            dequantize_row(&r, (const char *)x->data + i * steno_dtype_size(x->dtype), x->dtype,
                           (char *)y->data + i * steno_dtype_size(t), t, at, step, r.q.inner);
        }
    return st;
}

/* ---- DynamicQuantizeLinear ---- to u8 over the range of x and 0 */

static steno_status infer_dynamic(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0), scalar = {0};
    (void)err;
    steno_infer_set(ic, 0, STENO_U8, &s);
    steno_infer_set(ic, 1, STENO_F32, &scalar);
    steno_infer_set(ic, 2, STENO_U8, &scalar);
    return STENO_OK;
}

static steno_status run_dynamic(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y, *ys, *yz;
    struct steno_shape scalar = {0};
    int32_t zero;
    steno_status st;
    if (x->dtype != STENO_F32)
        return steno_ops_bad_type(ctx, err, x->dtype);
    st = steno_op_out(ctx, 0, STENO_U8, &x->shape, &y, err);
    if (!st)
        st = steno_op_out(ctx, 1, STENO_F32, &scalar, &ys, err);
    if (!st)
        st = steno_op_out(ctx, 2, STENO_U8, &scalar, &yz, err);
    if (st)
        return st;
    steno_ops_range(steno_op_kernels(ctx), x->data, steno_numel(x), ys->data, &zero);
    *(uint8_t *)yz->data = (uint8_t)zero;
    steno_ops_quantize(ctx, y->data, x->data, steno_numel(x), *(const float *)ys->data, zero,
                       false);
    return STENO_OK;
}

/* ---- products of 8-bit integers ---- (nn/ops/int8.h) sums wrap in i32, as in ONNX Runtime */

static steno_status infer_product(struct steno_infer *ic, int b_in, steno_dtype t, steno_err *err)
{
    struct steno_shape a = steno_infer_shape(ic, 0), b = steno_infer_shape(ic, b_in);
    return steno_matmul_infer(ic, &a, &b, t, err);
}

static steno_status infer_matmul_integer(struct steno_infer *ic, steno_err *err)
{
    return infer_product(ic, 1, STENO_I32, err);
}

static steno_status infer_qlinear_matmul(struct steno_infer *ic, steno_err *err)
{
    return infer_product(ic, 3, steno_infer_dtype(ic, 7), err);
}

static steno_status prepare_matmul_integer(struct steno_prepare *pc, void **priv, steno_err *err)
{
    struct steno_packed_i8 *w;
    steno_status st = steno_prepare_pack_i8(pc, 1, 3, &w, err);
    *priv = w;
    return st;
}

static steno_status prepare_qlinear_matmul(struct steno_prepare *pc, void **priv, steno_err *err)
{
    struct steno_packed_i8 *w;
    steno_status st = steno_prepare_pack_i8(pc, 3, 5, &w, err);
    *priv = w;
    return st;
}

static steno_status run_matmul_integer(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_product_i8 x = {.w = steno_op_priv(ctx)};
    struct steno_gemm_i8 plain = {0};
    struct steno_matmul p;
    struct steno_tensor *y;
    steno_status st;
    x.a = steno_op_in(ctx, 0);
    x.b = x.w ? NULL : steno_op_in(ctx, 1);
    x.a_zero = steno_op_in(ctx, 2);
    x.b_zero = steno_op_in(ctx, 3);
    st = steno_ops_product_i8_plan(ctx, &x, &p, err);
    if (!st)
        st = steno_op_out(ctx, 0, STENO_I32, &p.out, &y, err);
    if (st || !steno_numel(y))
        return st;
    return steno_ops_product_i8(ctx, &x, &p, &plain, y->data, err);
}

/* The scale at index `at` of n scales; a single scale serves all indices. */
static double scale_of(const double *s, size_t n, size_t at)
{
    return s[n > 1 ? at % n : 0];
}

/* Check and read the scales of a QLinearMatMul: a, b, y. */
static steno_status qlinear_scales(struct steno_op_ctx *ctx, const struct steno_matmul *p,
                                   const double *s[3], size_t n[3], steno_err *err)
{
    for (int i = 0; i < 3; i++) {
        const struct steno_tensor *t = steno_op_in(ctx, i == 2 ? 6 : i * 3 + 1);
        s[i] = steno_ops_as_f64(ctx, t);
        n[i] = steno_numel(t);
        if (!s[i])
            return steno_ops_nomem(ctx, err);
        if (n[i] != 1 && (!n[i] || n[i] != (i == 1 ? p->n : p->m)))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%zu scales do not fit %zu x %zu", n[i],
                                 p->m, p->n);
    }
    return STENO_OK;
}

/* Inputs: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero. */
static steno_status run_qlinear_matmul(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_product_i8 x = {.w = steno_op_priv(ctx)};
    struct steno_gemm_i8 plain = {0};
    struct steno_matmul p;
    struct steno_tensor *y;
    const struct steno_tensor *yz = steno_op_in(ctx, 7);
    const double *s[3];
    double *d, zero;
    int32_t *c;
    size_t n, n_scales[3];
    steno_status st = STENO_OK;
    for (int i = 0; i < 8 && !st; i++)
        if (!steno_op_in(ctx, i) && !(i == 3 && x.w))
            st = steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d is missing", i);
    if (st)
        return st;
    x.a = steno_op_in(ctx, 0);
    x.b = x.w ? NULL : steno_op_in(ctx, 3);
    x.a_zero = steno_op_in(ctx, 2);
    x.b_zero = steno_op_in(ctx, 5);
    st = steno_ops_product_i8_plan(ctx, &x, &p, err);
    if (!st)
        st = qlinear_scales(ctx, &p, s, n_scales, err);
    if (st)
        return st;
    if (!steno_dtype_is_byte(yz->dtype) || steno_numel(yz) != 1)
        return steno_ops_bad_type(ctx, err, yz->dtype);
    st = steno_op_out(ctx, 0, yz->dtype, &p.out, &y, err);
    if (st || !steno_numel(y))
        return st;
    n = steno_numel(y);
    c = steno_op_scratch(ctx, n * sizeof *c);
    d = steno_ops_out_f64(ctx, y);
    if (!c || !d)
        return steno_ops_nomem(ctx, err);
    st = steno_ops_product_i8(ctx, &x, &p, &plain, c, err);
    if (st)
        return st;
    zero = steno_ops_get_f64(yz, 0);
    for (size_t i = 0; i < n; i++) {
        size_t row = i / p.n, col = i % p.n;
        d[i] = rint((double)c[i] * scale_of(s[0], n_scales[0], row) *
                    scale_of(s[1], n_scales[1], col) / scale_of(s[2], n_scales[2], row)) +
               zero;
    }
    steno_ops_put_f64(y, d); /* saturates */
    return STENO_OK;
}

const struct steno_op steno_ops_quant[] = {
    {"", "QuantizeLinear", 10, 0, 0, infer_quantize, NULL, NULL, run_quantize},
    {"", "DequantizeLinear", 10, 0, 0, infer_dequantize, NULL, NULL, run_dequantize},
    {"", "DynamicQuantizeLinear", 11, 0, 0, infer_dynamic, NULL, NULL, run_dynamic},
    {"", "MatMulInteger", 10, 0, 0, infer_matmul_integer, prepare_matmul_integer,
     steno_packed_i8_free, run_matmul_integer},
    {"", "QLinearMatMul", 10, 0, 0, infer_qlinear_matmul, prepare_qlinear_matmul,
     steno_packed_i8_free, run_qlinear_matmul},
    {0},
};
