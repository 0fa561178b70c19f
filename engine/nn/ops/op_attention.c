/* Attention (ONNX opset 23 to 25) and RotaryEmbedding (23). f16 and bf16 are computed in f32. So is
 * f64, which the standard allows here through softmax_precision and which few models use. */
#include "nn/ops/attention.h"
#include "nn/ops/internal.h"

#include <math.h>

struct shapes {
    bool flat; /* [batch, rows, heads * size] */
    int64_t batch, q_heads, kv_heads, rows, new_keys, past, keys, size, v_size;
};

/* During inference any dim may be unknown (< 0); results that depend on it are then unknown too. */
static const char *attention_shapes(const struct steno_node *n, const struct steno_shape *q,
                                    const struct steno_shape *k, const struct steno_shape *v,
                                    const struct steno_shape *past, struct shapes *s)
{
    memset(s, 0, sizeof *s);
    if (q->rank != k->rank || q->rank != v->rank || (q->rank != 3 && q->rank != 4))
        return "Q, K and V must all have rank 3, or all 4";
    s->flat = q->rank == 3;
    s->batch = q->dim[0];
    if (s->flat) {
        s->q_heads = steno_node_int(n, "q_num_heads", 0);
        s->kv_heads = steno_node_int(n, "kv_num_heads", 0);
        if (s->q_heads < 1 || s->kv_heads < 1)
            return "q_num_heads and kv_num_heads are needed for inputs of rank 3";
        if ((q->dim[2] >= 0 && q->dim[2] % s->q_heads) ||
            (k->dim[2] >= 0 && k->dim[2] % s->kv_heads) ||
            (v->dim[2] >= 0 && v->dim[2] % s->kv_heads))
            return "a hidden size is not a multiple of the number of heads";
        s->rows = q->dim[1];
        s->new_keys = k->dim[1];
        s->size = q->dim[2] < 0 ? STENO_DIM_ANY : q->dim[2] / s->q_heads;
        s->v_size = v->dim[2] < 0 ? STENO_DIM_ANY : v->dim[2] / s->kv_heads;
        if (s->size >= 0 && k->dim[2] >= 0 && k->dim[2] / s->kv_heads != s->size)
            return "Q and K differ in head size";
    } else {
        s->q_heads = q->dim[1];
        s->kv_heads = k->dim[1];
        s->rows = q->dim[2];
        s->new_keys = k->dim[2];
        s->size = q->dim[3];
        s->v_size = v->dim[3];
        if (s->size >= 0 && k->dim[3] >= 0 && k->dim[3] != s->size)
            return "Q and K differ in head size";
        if (k->dim[1] >= 0 && v->dim[1] >= 0 && k->dim[1] != v->dim[1])
            return "K and V differ in heads";
    }
    if (s->q_heads >= 0 && s->kv_heads >= 0 && s->q_heads &&
        (!s->kv_heads || s->q_heads % s->kv_heads))
        return "the heads of Q are not a multiple of those of K";
    if ((k->dim[0] >= 0 && q->dim[0] >= 0 && k->dim[0] != q->dim[0]) ||
        (v->dim[0] >= 0 && q->dim[0] >= 0 && v->dim[0] != q->dim[0]))
        return "Q, K and V differ in batch";
    if (s->new_keys >= 0 && v->dim[s->flat ? 1 : 2] >= 0 && v->dim[s->flat ? 1 : 2] != s->new_keys)
        return "K and V differ in length";
    s->past = 0;
    if (past) {
        if (past->rank != 4)
            return "past_key must have rank 4";
        s->past = past->dim[2];
    }
    s->keys = s->past < 0 || s->new_keys < 0 ? STENO_DIM_ANY : s->past + s->new_keys;
    return NULL;
}

static steno_status infer_attention(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape q = steno_infer_shape(ic, 0), k = steno_infer_shape(ic, 1),
                       v = steno_infer_shape(ic, 2), past = steno_infer_shape(ic, 4), y = q, s4;
    bool has_past = steno_infer_has(ic, 4);
    steno_dtype t = steno_infer_dtype(ic, 0);
    struct shapes s;
    const char *wrong;
    if (q.rank < 0 || k.rank < 0 || v.rank < 0 || (has_past && past.rank < 0))
        return STENO_OK;
    wrong = attention_shapes(steno_infer_node(ic), &q, &k, &v, has_past ? &past : NULL, &s);
    if (wrong)
        return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    if (s.keys == STENO_DIM_ANY)
        s.keys = steno_infer_new_dim(ic);
    if (s.v_size == STENO_DIM_ANY)
        s.v_size = steno_infer_new_dim(ic);
    if (s.flat)
        y.dim[2] = s.v_size < 0 ? steno_infer_new_dim(ic) : s.v_size * s.q_heads;
    else
        y.dim[3] = s.v_size;
    steno_infer_set(ic, 0, t, &y);
    s4 = steno_ops_shape(4, (const int64_t[]){s.batch, s.kv_heads, s.keys, s.size});
    steno_infer_set(ic, 1, steno_infer_dtype(ic, 1), &s4);
    s4.dim[3] = s.v_size;
    steno_infer_set(ic, 2, steno_infer_dtype(ic, 2), &s4);
    s4 = steno_ops_shape(4, (const int64_t[]){s.batch, s.q_heads, s.rows, s.keys});
    steno_infer_set(ic, 3, t, &s4);
    return STENO_OK;
}

static struct steno_attention_view view_of(const float *x, bool flat, size_t heads, size_t rows,
                                           size_t size)
{
    struct steno_attention_view v = {.data = x, .batch = heads * rows * size};
    v.head = flat ? size : rows * size;
    v.row = flat ? heads * size : size;
    return v;
}

/* Concatenate the cache and K or V to [batch, heads, past + new, size], in the output `out` or,
 * when nobody reads that, in scratch. *view is what attention should read. */
static steno_status extend_attention(struct steno_op_ctx *ctx, int in, int past_in, int out,
                                     const struct shapes *s, int64_t size,
                                     struct steno_attention_view *view, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, in), *past = steno_op_in(ctx, past_in);
    struct steno_shape shape =
        steno_ops_shape(4, (const int64_t[]){s->batch, s->kv_heads, s->keys, size});
    size_t heads = (size_t)(s->batch * s->kv_heads), old = (size_t)(s->past * size);
    size_t add = (size_t)s->new_keys, e = (size_t)size;
    bool wanted = steno_op_wants(ctx, out);
    struct steno_attention_view src;
    struct steno_tensor *t = NULL;
    const float *fx = steno_ops_as_f32(ctx, x), *fp = past ? steno_ops_as_f32(ctx, past) : NULL;
    float *to;
    steno_status st = STENO_OK;
    if (!fx || (past && !fp))
        return steno_ops_nomem(ctx, err);
    src = view_of(fx, s->flat, (size_t)s->kv_heads, add, e);
    *view = src;
    if (!past && !wanted)
        return STENO_OK;
    if (past && (past->shape.rank != 4 || past->shape.dim[0] != s->batch ||
                 past->shape.dim[1] != s->kv_heads || past->shape.dim[2] != s->past ||
                 past->shape.dim[3] != size || past->dtype != x->dtype))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d does not fit the others",
                             past_in);
    if (wanted)
        st = steno_op_out(ctx, out, x->dtype, &shape, &t, err);
    if (st)
        return st;
    to = t ? steno_ops_out_f32(ctx, t)
           : steno_op_scratch(ctx, (steno_ops_prod(&shape, 0, 4) + 1) * sizeof *to);
    if (!to)
        return steno_ops_nomem(ctx, err);
    for (size_t h = 0; h < heads; h++) {
        float *d = to + h * (old + add * e);
        const float *from =
            src.data + h / (size_t)s->kv_heads * src.batch + h % (size_t)s->kv_heads * src.head;
        if (past)
            memcpy(d, fp + h * old, old * sizeof *d);
        for (size_t r = 0; r < add; r++)
            memcpy(d + old + r * e, from + r * src.row, e * sizeof *d);
    }
    if (t)
        steno_ops_put_f32(t, to);
    *view = view_of(to, false, (size_t)s->kv_heads, (size_t)s->keys, e);
    return STENO_OK;
}

/* Read attn_mask, bool or float, broadcast to [batch, heads, rows, <= keys]. */
static steno_status read_mask(struct steno_op_ctx *ctx, const struct steno_tensor *m,
                              const struct shapes *s, struct steno_attention *a, steno_err *err)
{
    const int64_t want[3] = {s->batch, s->q_heads, s->rows};
    struct steno_shape x = {.rank = 4, .dim = {1, 1, 1, 1}};
    size_t step[3], n = steno_numel(m), at;
    float *f;
    if (m->shape.rank < 1 || m->shape.rank > 4 ||
        (m->dtype != STENO_BOOL && !steno_ops_is_float(m->dtype)))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "attn_mask has rank %d and type %s",
                             m->shape.rank, steno_dtype_name(m->dtype));
    for (int i = 0; i < m->shape.rank; i++)
        x.dim[4 - m->shape.rank + i] = m->shape.dim[i];
    at = (size_t)x.dim[3];
    for (int i = 2; i >= 0; i--) {
        if (x.dim[i] != 1 && x.dim[i] != want[i])
            return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                                 "attn_mask does not broadcast in axis %d", i);
        step[i] = x.dim[i] == 1 ? 0 : at;
        at *= (size_t)x.dim[i];
    }
    if (x.dim[3] > s->keys)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "attn_mask has %lld keys, more than the %lld of K",
                             (long long)x.dim[3], (long long)s->keys);
    f = steno_op_scratch(ctx, (n + 1) * sizeof *f);
    if (!f)
        return steno_ops_nomem(ctx, err);
    steno_ops_load_f32(f, m->data, m->dtype, n);
    for (size_t i = 0; i < n && m->dtype == STENO_BOOL; i++)
        f[i] = f[i] != 0 ? 0 : -INFINITY;
    a->mask =
        (struct steno_attention_view){.data = f, .batch = step[0], .head = step[1], .row = step[2]};
    a->mask_keys = (size_t)x.dim[3];
    return STENO_OK;
}

/* Read causal and sliding windows. The offset of the first row is the length of the cache, or the
 * number of valid keys minus the number of rows. */
static steno_status read_window(struct steno_op_ctx *ctx, const struct shapes *s,
                                struct steno_attention *a, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    const struct steno_tensor *valid = steno_op_in(ctx, 6);
    int64_t *v = steno_op_scratch(ctx, (2 * (size_t)s->batch + 1) * sizeof *v);
    a->left = steno_node_int(n, "left_window_size", -1);
    a->right = steno_node_int(n, "right_window_size", -1);
    if (a->left < -1 || a->right < -1 || a->left > INT32_MAX || a->right > INT32_MAX)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "window sizes %lld, %lld",
                             (long long)a->left, (long long)a->right);
    if (steno_node_int(n, "is_causal", 0))
        a->right = 0; /* no key after the query's own */
    if (!v)
        return steno_ops_nomem(ctx, err);
    if (valid && (steno_numel(valid) != (size_t)s->batch || steno_op_in(ctx, 4)))
        return steno_op_fail(
            ctx, err, STENO_ERR_INVAL,
            "nonpad_kv_seqlen needs one number for each batch entry, and no past_key");
    for (int64_t b = 0; b < s->batch; b++) {
        int64_t count = valid ? steno_ops_get_i64(valid, (size_t)b) : s->keys;
        count = count < 0 ? 0 : count > s->keys ? s->keys : count;
        v[b] = valid ? steno_ops_get_i64(valid, (size_t)b) - s->rows : s->past;
        if (v[b] < -INT32_MAX || v[b] > INT32_MAX)
            v[b] = v[b] < 0 ? -INT32_MAX : INT32_MAX;
        v[s->batch + b] = count;
    }
    a->offset = v;
    a->valid = valid ? v + s->batch : NULL;
    return STENO_OK;
}

static steno_status run_attention(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    const struct steno_tensor *q = steno_op_in(ctx, 0), *past = steno_op_in(ctx, 4),
                              *mask = steno_op_in(ctx, 3);
    struct steno_attention a = {0};
    struct shapes s;
    struct steno_shape ys, qk;
    struct steno_tensor *y, *scores = NULL;
    const char *wrong;
    const float *fq;
    int64_t mode = steno_node_int(n, "qk_matmul_output_mode", 0);
    steno_status st;
    wrong = attention_shapes(n, &q->shape, &steno_op_in(ctx, 1)->shape, &steno_op_in(ctx, 2)->shape,
                             past ? &past->shape : NULL, &s);
    if (!wrong && (past != NULL) != (steno_op_in(ctx, 5) != NULL))
        wrong = "past_key and past_value must be given together";
    if (!wrong && (mode < 0 || mode > 3))
        wrong = "qk_matmul_output_mode is out of range";
    for (int i = 0; i < 3 && !wrong; i++)
        if (!steno_ops_is_float(steno_op_in(ctx, i)->dtype))
            wrong = "Q, K and V must be floats";
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    st = extend_attention(ctx, 1, 4, 1, &s, s.size, &a.k, err);
    if (!st)
        st = extend_attention(ctx, 2, 5, 2, &s, s.v_size, &a.v, err);
    if (!st)
        st = read_window(ctx, &s, &a, err);
    if (!st && mask)
        st = read_mask(ctx, mask, &s, &a, err);
    ys = q->shape;
    ys.dim[s.flat ? 2 : 3] = s.flat ? s.q_heads * s.v_size : s.v_size;
    if (!st)
        st = steno_op_out(ctx, 0, q->dtype, &ys, &y, err);
    qk = steno_ops_shape(4, (const int64_t[]){s.batch, s.q_heads, s.rows, s.keys});
    if (!st && steno_op_wants(ctx, 3))
        st = steno_op_out(ctx, 3, q->dtype, &qk, &scores, err);
    if (st)
        return st;
    fq = steno_ops_as_f32(ctx, q);
    a.y = steno_ops_out_f32(ctx, y);
    a.captured = scores ? steno_ops_out_f32(ctx, scores) : NULL;
    if (!fq || !a.y || (scores && !a.captured))
        return steno_ops_nomem(ctx, err);
    a.batch = (size_t)s.batch;
    a.q_heads = (size_t)s.q_heads;
    a.kv_heads = (size_t)s.kv_heads;
    a.rows = (size_t)s.rows;
    a.keys = (size_t)s.keys;
    a.size = (size_t)s.size;
    a.v_size = (size_t)s.v_size;
    a.q = view_of(fq, s.flat, a.q_heads, a.rows, a.size);
    a.y_view = view_of(NULL, s.flat, a.q_heads, a.rows, a.v_size);
    a.scale = steno_node_float(n, "scale", 0);
    if (!steno_node_attr(n, "scale"))
        a.scale = s.size ? 1 / sqrtf((float)s.size) : 1;
    a.softcap = steno_node_float(n, "softcap", 0);
    a.capture = (enum steno_attention_capture)mode;
    st = steno_ops_attention(ctx, &a, err);
    if (st)
        return st;
    steno_ops_put_f32(y, a.y);
    if (scores)
        steno_ops_put_f32(scores, a.captured);
    return STENO_OK;
}

/* ---- RotaryEmbedding ---- */
static steno_status run_rotary(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    bool interleaved = steno_node_int(n, "interleaved", 0) != 0, flat;
    int64_t heads = steno_node_int(n, "num_heads", 0),
            dim = steno_node_int(n, "rotary_embedding_dim", 0);
    const struct steno_tensor *x = steno_op_in(ctx, 0), *ct = steno_op_in(ctx, 1),
                              *st_ = steno_op_in(ctx, 2), *ids = steno_op_in(ctx, 3);
    struct steno_tensor *y;
    const float *fx, *cs, *sn;
    float *fy;
    size_t batch, rows, size, half, entries, total;
    steno_status st;
    flat = x->shape.rank == 3;
    if ((x->shape.rank != 3 && x->shape.rank != 4) || !steno_ops_is_float(x->dtype) ||
        !steno_shape_equal(&ct->shape, &st_->shape) || ct->shape.rank != (ids ? 2 : 3))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input or caches do not fit each other");
    if (!flat)
        heads = x->shape.dim[1];
    batch = (size_t)x->shape.dim[0];
    rows = (size_t)x->shape.dim[flat ? 1 : 2];
    if (heads < 1 || (flat && x->shape.dim[2] % heads))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "num_heads does not fit the input");
    size = (size_t)(flat ? x->shape.dim[2] / heads : x->shape.dim[3]);
    half = (dim ? (size_t)dim : size) / 2;
    if (dim < 0 || 2 * half > size || (dim ? (size_t)dim : size) % 2 ||
        ct->shape.dim[ct->shape.rank - 1] != (int64_t)half ||
        (ids && steno_numel(ids) != batch * rows) ||
        (!ids && (ct->shape.dim[0] != (int64_t)batch || ct->shape.dim[1] != (int64_t)rows)))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "caches do not fit the input");
    st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    if (st)
        return st;
    fx = steno_ops_as_f32(ctx, x);
    cs = steno_ops_as_f32(ctx, ct);
    sn = steno_ops_as_f32(ctx, st_);
    fy = steno_ops_out_f32(ctx, y);
    if (!fx || !cs || !sn || !fy)
        return steno_ops_nomem(ctx, err);
    entries = ids ? (size_t)ct->shape.dim[0] : 0;
    total = batch * rows * (size_t)heads;
    for (size_t i = 0; i < total; i++) { /* i counts vectors in memory order */
        size_t b = i / (rows * (size_t)heads), rest = i % (rows * (size_t)heads);
        size_t r = flat ? rest / (size_t)heads : rest % rows, at = b * rows + r;
        const float *v = fx + i * size;
        float *o = fy + i * size;
        if (ids) {
            int64_t id = steno_ops_get_i64(ids, at);
            if (id < 0 || (size_t)id >= entries)
                return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                                     "position %lld is outside caches of %zu", (long long)id,
                                     entries);
            at = (size_t)id;
        }
        for (size_t k = 0; k < half; k++) {
            size_t p = interleaved ? 2 * k : k, q = interleaved ? 2 * k + 1 : half + k;
            float c = cs[at * half + k], s = sn[at * half + k], a = v[p], d = v[q];
            o[p] = c * a - s * d;
            o[q] = s * a + c * d;
        }
        for (size_t k = 2 * half; k < size; k++)
            o[k] = v[k];
    }
    steno_ops_put_f32(y, fy);
    return STENO_OK;
}

const struct steno_op steno_ops_attention_family[] = {
    {"", "Attention", 23, 0, 0, infer_attention, NULL, NULL, run_attention},
    {"", "RotaryEmbedding", 23, 0, STENO_OP_INPLACE0, steno_ops_infer_same, NULL, NULL, run_rotary},
    {0},
};
