/* com.microsoft Attention, QAttention and MultiHeadAttention on the attention core. Definitions:
 * ONNX Runtime, docs/ContribOperators.md. Padding masks are lengths [batch], ends and starts [2 *
 * batch], or ones and zeros [batch, keys] or [batch, rows, keys]; packed forms are rejected. */
#include "nn/ops/attention.h"
#include "nn/ops/int8.h"
#include "nn/ops/contrib.h"

#include <math.h>

struct dims {
    size_t batch, rows, new_kv, past, keys, heads, size, v_size;
};

static steno_status no_fit(const struct steno_op_ctx *ctx, const char *what, steno_err *err)
{
    return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s does not fit the other inputs", what);
}

/* Copy `past` keys, then `fresh` ones, to `to` as [batch, heads, keys, size]. */
static void join_contrib_attention(const struct dims *d, size_t size, const float *past,
                                   const struct steno_attention_view *x, float *to)
{
    for (size_t i = 0; i < d->batch * d->heads; i++) {
        const float *from = x->data + i / d->heads * x->batch + i % d->heads * x->head;
        if (d->past)
            memcpy(to, past + i * d->past * size, d->past * size * sizeof *to);
        to += d->past * size;
        for (size_t r = 0; r < d->new_kv; r++, to += size)
            memcpy(to, from + r * x->row, size * sizeof *to);
    }
}

static struct steno_attention_view joined(const struct dims *d, const float *x, size_t size)
{
    return (struct steno_attention_view){
        .data = x, .batch = d->heads * d->keys * size, .head = d->keys * size, .row = size};
}

/* Form of the padding mask, by its shape and type; -1: not a known form. */
static int mask_form(const struct dims *d, const struct steno_tensor *m)
{
    const struct steno_shape *s = &m->shape;
    if (m->dtype != STENO_I32 && m->dtype != STENO_I64)
        return -1;
    if (s->rank == 1 && (size_t)s->dim[0] == d->batch)
        return 1;
    if (s->rank == 1 && (size_t)s->dim[0] == 2 * d->batch)
        return 4;
    if (s->rank == 2 && (size_t)s->dim[0] == d->batch && (size_t)s->dim[1] == d->keys)
        return 2;
    if (s->rank == 3 && (size_t)s->dim[0] == d->batch && (size_t)s->dim[1] == d->rows &&
        (size_t)s->dim[2] == d->keys)
        return 3;
    return -1;
}

/* Set a->mask to the sum of padding mask and attention bias. */
static steno_status read_masks(struct steno_op_ctx *ctx, const struct dims *d, int pad_in,
                               int bias_in, struct steno_attention *a, steno_err *err)
{
    const struct steno_tensor *pad = steno_op_in(ctx, pad_in), *bias = steno_op_in(ctx, bias_in);
    float filter = steno_node_float(steno_op_node(ctx), "mask_filter_value", -10000.0f), *m;
    int form = pad ? mask_form(d, pad) : 0;
    size_t nb = d->batch, nh = 1, total;
    const float *fb = NULL;
    if (!pad && !bias)
        return STENO_OK;
    if (form < 0)
        return steno_op_fail(ctx, err, STENO_ERR_UNSUPPORTED, "this form of mask is not supported");
    if (bias) {
        const struct steno_shape *s = &bias->shape;
        if (s->rank != 4 || !steno_ops_f32_or_half(bias->dtype) ||
            (s->dim[0] != 1 && (size_t)s->dim[0] != nb) ||
            (s->dim[1] != 1 && (size_t)s->dim[1] != d->heads) || (size_t)s->dim[2] != d->rows ||
            (size_t)s->dim[3] != d->keys)
            return no_fit(ctx, "attention_bias", err);
        nh = (size_t)s->dim[1];
        fb = steno_ops_as_f32(ctx, bias);
        if (!fb)
            return steno_ops_nomem(ctx, err);
    }
    if (!steno_mul_size(nb * nh, d->rows * d->keys, &total) || total > SIZE_MAX / sizeof *m)
        return steno_ops_nomem(ctx, err);
    m = steno_op_scratch(ctx, (total + 1) * sizeof *m);
    if (!m)
        return steno_ops_nomem(ctx, err);
    a->mask = (struct steno_attention_view){.data = m,
                                            .batch = nh * d->rows * d->keys,
                                            .head = nh == 1 ? 0 : d->rows * d->keys,
                                            .row = d->keys};
    a->mask_keys = d->keys;
    for (size_t i = 0; i < total; i++) {
        size_t j = i % d->keys, r = i / d->keys % d->rows, h = i / d->keys / d->rows % nh;
        size_t b = i / d->keys / d->rows / nh;
        bool seen = true;
        float add = 0;
        if (form == 1 || form == 4)
            seen = (int64_t)j < steno_ops_get_i64(pad, b) &&
                   (form == 1 || (int64_t)j >= steno_ops_get_i64(pad, d->batch + b));
        else if (form)
            seen = steno_ops_get_i64(pad, form == 2 ? b * d->keys + j
                                                    : (b * d->rows + r) * d->keys + j) > 0;
        if (fb)
            add = fb[(((bias->shape.dim[0] == 1 ? 0 : b) * nh + h) * d->rows + r) * d->keys + j];
        m[i] = add + (seen ? 0 : filter);
    }
    return STENO_OK;
}

/* All steps after the projections: concatenate the caches, read the masks, write the output [batch,
 * rows, heads * v_size]. past, present: pointers to the f32 data or NULL. */
static steno_status attend_contrib_attention(struct steno_op_ctx *ctx, const struct dims *d,
                                             struct steno_attention *a, float *y, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    int64_t *offset = steno_op_scratch(ctx, (d->batch + 1) * sizeof *offset);
    float scale = steno_node_float(n, "scale", 0);
    if (!offset)
        return steno_ops_nomem(ctx, err);
    for (size_t b = 0; b < d->batch; b++)
        offset[b] = (int64_t)d->past;
    a->batch = d->batch;
    a->q_heads = a->kv_heads = d->heads;
    a->rows = d->rows;
    a->keys = d->keys;
    a->size = d->size;
    a->v_size = d->v_size;
    a->scale = scale != 0 ? scale : 1 / sqrtf((float)d->size);
    a->left = -1;
    a->right = steno_node_int(n, "unidirectional", 0) ? 0 : -1;
    a->offset = offset;
    a->y = y;
    a->y_view = (struct steno_attention_view){
        .batch = d->rows * d->heads * d->v_size, .head = d->v_size, .row = d->heads * d->v_size};
    return steno_ops_attention(ctx, a, err);
}

/* The same to output 0, of input 0's shape with the values' size and of type t. */
static steno_status attend_to_output(struct steno_op_ctx *ctx, const struct dims *d,
                                     struct steno_attention *a, steno_dtype t, steno_err *err)
{
    struct steno_shape s = steno_op_in(ctx, 0)->shape;
    struct steno_tensor *y;
    float *fy;
    steno_status st;
    s.dim[2] = (int64_t)(d->heads * d->v_size);
    st = steno_op_out(ctx, 0, t, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    fy = steno_ops_out_f32(ctx, y);
    if (!fy)
        return steno_ops_nomem(ctx, err);
    st = attend_contrib_attention(ctx, d, a, fy, err);
    if (!st)
        steno_ops_put_f32(y, fy);
    return st;
}

/* ---- MultiHeadAttention ---- query, key, value, bias, key_padding_mask, attention_bias, past_key,
 * past_value */
static steno_status mha_view(struct steno_op_ctx *ctx, int in, const struct dims *d, size_t rows,
                             size_t size, size_t bias_at, struct steno_attention_view *v,
                             steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, in), *bias = steno_op_in(ctx, 3);
    const float *f = steno_ops_as_f32(ctx, t), *fb;
    size_t width = d->heads * size;
    float *sum;
    if (!f)
        return steno_ops_nomem(ctx, err);
    *v =
        (struct steno_attention_view){.data = f, .batch = rows * width, .head = size, .row = width};
    if (t->shape.rank == 4) {
        v->head = rows * size;
        v->row = size;
        return STENO_OK;
    }
    if (!bias)
        return STENO_OK;
    fb = steno_ops_as_f32(ctx, bias);
    sum = steno_op_scratch(ctx, (steno_numel(t) + 1) * sizeof *sum);
    if (!fb || !sum)
        return steno_ops_nomem(ctx, err);
    for (size_t r = 0; r < d->batch * rows; r++)
        steno_op_kernels(ctx)->add_f32(sum + r * width, f + r * width, 1, fb + bias_at, 1, width);
    v->data = sum;
    return STENO_OK;
}

static const char *mha_dims(const struct steno_op_ctx *ctx, struct dims *d)
{
    const struct steno_tensor *q = steno_op_in(ctx, 0), *k = steno_op_in(ctx, 1),
                              *v = steno_op_in(ctx, 2);
    const struct steno_tensor *past = steno_op_in(ctx, 6), *bias = steno_op_in(ctx, 3);
    int64_t heads = steno_node_int(steno_op_node(ctx), "num_heads", 0),
            kv = k->shape.rank == 4 ? 2 : 1;
    if (heads < 1 || q->shape.rank != 3 || k->shape.rank != v->shape.rank ||
        (k->shape.rank != 3 && k->shape.rank != 4) || q->shape.dim[2] % heads)
        return "query must be [batch, rows, hidden], key and value must have rank 3 or 4";
    d->heads = (size_t)heads;
    d->batch = (size_t)q->shape.dim[0];
    d->rows = (size_t)q->shape.dim[1];
    d->size = (size_t)(q->shape.dim[2] / heads);
    d->new_kv = (size_t)k->shape.dim[kv];
    if (kv == 1 && v->shape.dim[2] % heads)
        return "the value's width is not a multiple of the heads";
    d->v_size = (size_t)(kv == 2 ? v->shape.dim[3] : v->shape.dim[2] / heads);
    if (k->shape.dim[0] != q->shape.dim[0] || v->shape.dim[0] != q->shape.dim[0] ||
        v->shape.dim[kv] != k->shape.dim[kv] || !d->size ||
        (kv == 1 ? k->shape.dim[2] != q->shape.dim[2]
                 : k->shape.dim[1] != heads || v->shape.dim[1] != heads ||
                       (size_t)k->shape.dim[3] != d->size))
        return "query, key and value do not fit each other";
    if (bias && (steno_numel(bias) != d->heads * (2 * d->size + d->v_size) ||
                 !steno_ops_f32_or_half(bias->dtype)))
        return "bias does not fit";
    d->past = 0;
    if ((past != NULL) != (steno_op_in(ctx, 7) != NULL))
        return "past_key and past_value must be given together";
    if (past) {
        const struct steno_shape *s = &past->shape, *t = &steno_op_in(ctx, 7)->shape;
        if (s->rank != 4 || t->rank != 4 || (size_t)s->dim[0] != d->batch || s->dim[1] != heads ||
            (size_t)s->dim[3] != d->size || t->dim[0] != s->dim[0] || t->dim[1] != heads ||
            t->dim[2] != s->dim[2] || (size_t)t->dim[3] != d->v_size)
            return "the cache does not fit";
        d->past = (size_t)s->dim[2];
    }
    d->keys = d->past + d->new_kv;
    return NULL;
}

/* Concatenate the cache and K or V; the result goes to output `out` when somebody reads it. */
static steno_status extend_contrib_attention(struct steno_op_ctx *ctx, const struct dims *d,
                                             int past_in, int out, size_t size,
                                             struct steno_attention_view *v, steno_err *err)
{
    const struct steno_tensor *past = steno_op_in(ctx, past_in);
    bool wanted = steno_op_wants(ctx, out);
    struct steno_shape s =
        steno_ops_shape(4, (const int64_t[]){(int64_t)d->batch, (int64_t)d->heads, (int64_t)d->keys,
                                             (int64_t)size});
    struct steno_tensor *t = NULL;
    const float *fp = past ? steno_ops_as_f32(ctx, past) : NULL;
    float *to;
    steno_status st = STENO_OK;
    if (!past && !wanted)
        return STENO_OK;
    if (wanted)
        st = steno_op_out(ctx, out, steno_op_in(ctx, 0)->dtype, &s, &t, err);
    if (st)
        return st;
    to = t ? steno_ops_out_f32(ctx, t)
           : steno_op_scratch(ctx, (steno_ops_prod(&s, 0, 4) + 1) * sizeof *to);
    if (!to || (past && !fp))
        return steno_ops_nomem(ctx, err);
    join_contrib_attention(d, size, fp, v, to);
    if (t)
        steno_ops_put_f32(t, to);
    *v = joined(d, to, size);
    return STENO_OK;
}

static steno_status run_mha(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_attention a = {0};
    struct dims d = {0};
    const char *wrong;
    size_t hidden;
    steno_status st = steno_ops_need(ctx, 3, err);
    if (st)
        return st;
    for (int i = 0; i < 3; i++)
        if (!steno_ops_f32_or_half(steno_op_in(ctx, i)->dtype))
            return steno_ops_bad_type(ctx, err, steno_op_in(ctx, i)->dtype);
    wrong = mha_dims(ctx, &d);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    hidden = d.heads * d.size;
    st = mha_view(ctx, 0, &d, d.rows, d.size, 0, &a.q, err);
    if (!st)
        st = mha_view(ctx, 1, &d, d.new_kv, d.size, hidden, &a.k, err);
    if (!st)
        st = mha_view(ctx, 2, &d, d.new_kv, d.v_size, 2 * hidden, &a.v, err);
    if (!st)
        st = extend_contrib_attention(ctx, &d, 6, 1, d.size, &a.k, err);
    if (!st)
        st = extend_contrib_attention(ctx, &d, 7, 2, d.v_size, &a.v, err);
    if (!st)
        st = read_masks(ctx, &d, 4, 5, &a, err);
    return st ? st : attend_to_output(ctx, &d, &a, steno_op_in(ctx, 0)->dtype, err);
}

static steno_status infer_mha(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0), v = steno_infer_shape(ic, 2);
    (void)err;
    if (s.rank == 3 && v.rank == 3)
        s.dim[2] = v.dim[2];
    else if (s.rank == 3)
        s.dim[2] = v.rank == 4 && v.dim[1] >= 0 && v.dim[3] >= 0 && v.dim[3] < INT32_MAX &&
                           v.dim[1] < INT32_MAX
                       ? v.dim[1] * v.dim[3]
                       : steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    steno_infer_set(ic, 1, steno_infer_dtype(ic, 0), NULL);
    steno_infer_set(ic, 2, steno_infer_dtype(ic, 0), NULL);
    return STENO_OK;
}

/* ---- Attention ---- input [B,S,C], weights [C, 3H], bias [3H], mask_index, past [2,B,N,P,H/N],
 * attention_bias
 * ---- QAttention ---- input, 8-bit weights, bias, input_scale, weight_scale, mask_index,
 * input_zero, weight_zero, past */
static bool is_quantized(const struct steno_node *n)
{
    return n->op_type[0] == 'Q';
}

static int mask_input(const struct steno_node *n)
{
    return is_quantized(n) ? 5 : 3;
}

static int past_input(const struct steno_node *n)
{
    return is_quantized(n) ? 8 : 4;
}

static steno_status attention_dims(struct steno_op_ctx *ctx, struct dims *d, size_t *width,
                                   steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0), *w = steno_op_in(ctx, 1),
                              *past = steno_op_in(ctx, past_input(n));
    const struct steno_tensor *bias = steno_op_in(ctx, 2);
    int64_t heads = steno_node_int(n, "num_heads", 0), qk, v;
    size_t n_sizes;
    const int64_t *sizes = steno_node_ints(n, "qkv_hidden_sizes", &n_sizes);
    if (heads < 1 || x->shape.rank != 3 || w->shape.rank != 2 ||
        w->shape.dim[0] != x->shape.dim[2] ||
        (sizes && (n_sizes != 3 || sizes[0] != sizes[1] || sizes[0] < 1 || sizes[2] < 1 ||
                   sizes[0] > INT32_MAX || sizes[2] > INT32_MAX)))
        return no_fit(ctx, "the weight", err);
    qk = sizes ? sizes[0] : w->shape.dim[1] / 3;
    v = sizes ? sizes[2] : w->shape.dim[1] / 3;
    if (qk % heads || v % heads || qk < 1 || v < 1 || 2 * qk + v != w->shape.dim[1] ||
        (bias &&
         ((int64_t)steno_numel(bias) != w->shape.dim[1] || !steno_ops_f32_or_half(bias->dtype))) ||
        (past && !steno_ops_f32_or_half(past->dtype)))
        return no_fit(ctx, "the weight", err);
    d->batch = (size_t)x->shape.dim[0];
    d->rows = d->new_kv = (size_t)x->shape.dim[1];
    d->heads = (size_t)heads;
    d->size = (size_t)(qk / heads);
    d->v_size = (size_t)(v / heads);
    d->past = 0;
    if (past) {
        const struct steno_shape *s = &past->shape;
        if (s->rank != 5 || s->dim[0] != 2 || (size_t)s->dim[1] != d->batch || s->dim[2] != heads ||
            (size_t)s->dim[4] != d->size || d->size != d->v_size)
            return no_fit(ctx, "past", err);
        d->past = (size_t)s->dim[3];
    }
    d->keys = d->past + d->new_kv;
    *width = (size_t)w->shape.dim[1];
    return STENO_OK;
}

static steno_status project_floats(struct steno_op_ctx *ctx, size_t m, size_t width, size_t c,
                                   const struct steno_gemm_epilogue *ep, float *qkv, steno_err *err)
{
    const steno_kernels *k = steno_op_kernels(ctx);
    const float *x = steno_ops_as_f32(ctx, steno_op_in(ctx, 0));
    const float *w = steno_ops_as_f32(ctx, steno_op_in(ctx, 1));
    void *work = steno_op_scratch(ctx, k->gemm_f32_work(m, width, c) + 1);
    if (!x || !w || !work)
        return steno_ops_nomem(ctx, err);
    k->gemm_f32(m, width, c, x, c, false, w, width, false, qkv, width, ep, work);
    return STENO_OK;
}

/* Sum in integers (nn/ops/int8.h), then multiply by both scales and add the bias. */
static steno_status project_bytes(struct steno_op_ctx *ctx, const struct steno_gemm_epilogue *ep,
                                  float *qkv, steno_err *err)
{
    struct steno_int8 w = {steno_op_in(ctx, 1), steno_op_in(ctx, 4), steno_op_in(ctx, 7)};
    const struct steno_tensor *scale = steno_op_in(ctx, 3);
    struct steno_product_i8 x = {
        .a = steno_op_in(ctx, 0), .a_zero = steno_op_in(ctx, 6), .w = steno_op_priv(ctx)};
    struct steno_gemm_i8 like = {.ep = ep};
    struct steno_tensor zero;
    struct steno_matmul p;
    const char *wrong = steno_int8_check(&w);
    steno_status st;
    if (!wrong && (scale->dtype != STENO_F32 || steno_numel(scale) != 1 ||
                   (x.a_zero && steno_numel(x.a_zero) != 1)))
        wrong = "the activation must have one scale and one zero point";
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    st = steno_int8_spread(ctx, &w, &w.q->shape, *(const float *)scale->data, &like.scale,
                           &x.scale_step, &zero, err);
    if (st)
        return st;
    x.b = x.w ? NULL : w.q;
    x.b_zero = !x.w && w.zero ? &zero : NULL;
    st = steno_ops_product_i8_plan(ctx, &x, &p, err);
    return st ? st : steno_ops_product_i8(ctx, &x, &p, &like, qkv, err);
}

static steno_status project(struct steno_op_ctx *ctx, const struct dims *d, size_t width,
                            const float **out, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0), *bias = steno_op_in(ctx, 2);
    size_t c = (size_t)x->shape.dim[2], m = d->batch * d->rows;
    struct steno_gemm_epilogue ep = {.alpha = 1};
    float *qkv = steno_op_scratch(ctx, (m * width + 1) * sizeof *qkv);
    ep.bias = bias ? steno_ops_as_f32(ctx, bias) : NULL;
    if (!qkv || (bias && !ep.bias))
        return steno_ops_nomem(ctx, err);
    *out = qkv;
    if (is_quantized(steno_op_node(ctx)))
        return project_bytes(ctx, &ep, qkv, err);
    return project_floats(ctx, m, width, c, &ep, qkv, err);
}

static steno_status prepare_qattention(struct steno_prepare *pc, void **priv, steno_err *err)
{
    struct steno_packed_i8 *w;
    steno_status st = steno_prepare_pack_i8(pc, 1, 7, &w, err);
    *priv = w;
    return st;
}

static steno_status run_attention(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_attention a = {0};
    struct dims d = {0};
    struct steno_shape s;
    struct steno_tensor *present = NULL;
    const struct steno_node *n = steno_op_node(ctx);
    const struct steno_tensor *past = steno_op_in(ctx, past_input(n));
    const float *qkv = NULL, *fp = NULL;
    float *cache = NULL;
    size_t width = 0, half;
    bool wanted = steno_op_wants(ctx, 1);
    steno_dtype t;
    steno_status st;
    t = is_quantized(n) ? STENO_F32 : steno_op_in(ctx, 0)->dtype;
    if (!steno_ops_f32_or_half(t) || (!is_quantized(n) && steno_op_in(ctx, 1)->dtype != t))
        return steno_ops_bad_type(ctx, err, t);
    if (steno_node_int(n, "do_rotary", 0) || steno_node_int(n, "past_present_share_buffer", 0))
        return steno_op_fail(ctx, err, STENO_ERR_UNSUPPORTED,
                             "do_rotary and past_present_share_buffer are not supported");
    st = attention_dims(ctx, &d, &width, err);
    if (!st)
        st = project(ctx, &d, width, &qkv, err);
    if (st)
        return st;
    a.q = (struct steno_attention_view){
        .data = qkv, .batch = d.rows * width, .head = d.size, .row = width};
    a.k = a.q;
    a.k.data = qkv + d.heads * d.size;
    a.v = a.q;
    a.v.head = d.v_size;
    a.v.data = qkv + 2 * d.heads * d.size;
    if ((past || wanted) && d.size == d.v_size) {
        half = d.batch * d.heads * d.keys * d.size;
        s = steno_ops_shape(5, (const int64_t[]){2, (int64_t)d.batch, (int64_t)d.heads,
                                                 (int64_t)d.keys, (int64_t)d.size});
        if (wanted)
            st = steno_op_out(ctx, 1, t, &s, &present, err);
        if (st)
            return st;
        cache = present ? steno_ops_out_f32(ctx, present)
                        : steno_op_scratch(ctx, (2 * half + 1) * sizeof *cache);
        fp = past ? steno_ops_as_f32(ctx, past) : NULL;
        if (!cache || (past && !fp))
            return steno_ops_nomem(ctx, err);
        join_contrib_attention(&d, d.size, fp, &a.k, cache);
        join_contrib_attention(&d, d.size, fp ? fp + steno_numel(past) / 2 : NULL, &a.v,
                               cache + half);
        a.k = joined(&d, cache, d.size);
        a.v = joined(&d, cache + half, d.size);
        if (present)
            steno_ops_put_f32(present, cache);
    }
    st = read_masks(ctx, &d, mask_input(n), is_quantized(n) ? INT16_MAX : 5, &a, err);
    return st ? st : attend_to_output(ctx, &d, &a, t, err);
}

static steno_status infer_attention(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, 1);
    const struct steno_node *node = steno_infer_node(ic);
    size_t n;
    const int64_t *sizes = steno_node_ints(node, "qkv_hidden_sizes", &n);
    steno_dtype t = is_quantized(node) ? STENO_F32 : steno_infer_dtype(ic, 0);
    (void)err;
    if (s.rank == 3)
        s.dim[2] = sizes && n == 3 && sizes[2] > 0          ? sizes[2]
                   : !sizes && w.rank == 2 && w.dim[1] >= 0 ? w.dim[1] / 3
                                                            : steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, t, &s);
    steno_infer_set(ic, 1, t, NULL);
    return STENO_OK;
}

const struct steno_op steno_ops_ms_attention[] = {
    {"com.microsoft", "MultiHeadAttention", 1, 0, 0, infer_mha, NULL, NULL, run_mha},
    {"com.microsoft", "Attention", 1, 0, 0, infer_attention, NULL, NULL, run_attention},
    {"com.microsoft", "QAttention", 1, 0, 0, infer_attention, prepare_qattention,
     steno_packed_i8_free, run_attention},
    {0},
};
