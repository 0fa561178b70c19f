/* Embeddings and positions that ONNX Runtime's optimizer writes (domain com.microsoft):
 * EmbedLayerNormalization, RotaryEmbedding, RelativePositionBias, GatedRelativePositionBias.
 * Definitions: ONNX Runtime, docs/ContribOperators.md. f16 and bf16 are computed in f32. */
#include "nn/ops/contrib.h"

#include <math.h>

static bool is_index(const struct steno_tensor *t)
{
    return t->dtype == STENO_I32 || t->dtype == STENO_I64;
}

/* ---- EmbedLayerNormalization ---- input_ids, segment_ids, word, position and segment tables,
 * gamma, beta, mask, position_ids; outputs: normalized, mask_index, sum */
struct table { /* [rows, hidden]; ids select the row, and repeat after n_ids */
    const struct steno_tensor *t, *ids;
    const float *f;
    size_t rows, n_ids; /* n_ids 0: the position in the sequence selects the row */
};

static steno_status read_table(struct steno_op_ctx *ctx, int in, int ids_in, size_t batch,
                               size_t rows, size_t hidden, struct table *out, steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, in), *ids = steno_op_in(ctx, ids_in);
    *out = (struct table){.t = t, .ids = ids};
    if (!t)
        return STENO_OK;
    if (t->shape.rank != 2 || (size_t)t->shape.dim[1] != hidden || !steno_ops_f32_or_half(t->dtype))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "table %d is not [rows, %zu]", in, hidden);
    out->rows = (size_t)t->shape.dim[0];
    out->n_ids = ids ? steno_numel(ids) : 0;
    if (ids && (!is_index(ids) || (out->n_ids != batch * rows && out->n_ids != rows)))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d does not fit [%zu, %zu]", ids_in,
                             batch, rows);
    out->f = steno_ops_as_f32(ctx, t);
    return out->f ? STENO_OK : steno_ops_nomem(ctx, err);
}

/* sum = the table's row for token i, or sum += that row when add. */
static steno_status look_up(const struct steno_op_ctx *ctx, const struct table *t, size_t i,
                            size_t seq, size_t hidden, bool add, float *sum, steno_err *err)
{
    int64_t id = t->ids ? steno_ops_get_i64(t->ids, i % t->n_ids) : (int64_t)(i % seq);
    if (!t->t)
        return STENO_OK;
    if (id < 0 || (uint64_t)id >= t->rows)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "row %lld is outside an embedding of %zu rows", (long long)id,
                             t->rows);
    if (add)
        steno_op_kernels(ctx)->add_f32(sum, sum, 1, t->f + (size_t)id * hidden, 1, hidden);
    else
        memcpy(sum, t->f + (size_t)id * hidden, hidden * sizeof *sum);
    return STENO_OK;
}

static steno_status embed_mask(struct steno_op_ctx *ctx, size_t batch, size_t seq, steno_err *err)
{
    const struct steno_tensor *m = steno_op_in(ctx, 7);
    struct steno_shape s = steno_ops_shape(1, (const int64_t[]){(int64_t)batch});
    struct steno_tensor *y;
    int32_t *out;
    steno_status st;
    if (steno_op_n_out(ctx) < 2 || !steno_op_wants(ctx, 1))
        return STENO_OK;
    if (m && (!is_index(m) || steno_numel(m) != batch * seq))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "mask does not fit [%zu, %zu]", batch, seq);
    st = steno_op_out(ctx, 1, STENO_I32, &s, &y, err);
    if (st)
        return st;
    out = y->data;
    for (size_t b = 0; b < batch; b++) {
        out[b] = 0;
        for (size_t i = 0; m && i < seq; i++)
            out[b] += steno_ops_get_i64(m, b * seq + i) == 1;
    }
    return STENO_OK;
}

static steno_status embed_param(struct steno_op_ctx *ctx, int in, size_t hidden, const float **out,
                                steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, in);
    if (!t || steno_numel(t) != hidden || !steno_ops_f32_or_half(t->dtype))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d must have %zu elements", in,
                             hidden);
    *out = steno_ops_as_f32(ctx, t);
    return *out ? STENO_OK : steno_ops_nomem(ctx, err);
}

static steno_status run_embed(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *ids = steno_op_in(ctx, 0), *word = steno_op_in(ctx, 2);
    struct steno_tensor *y, *sum_out = NULL;
    struct steno_shape s;
    struct table t[3];
    const float *gamma = NULL, *beta = NULL;
    float *fy, *sum;
    size_t batch, seq, hidden;
    steno_status st = STENO_OK;
    if (!steno_op_in(ctx, 0) || !steno_op_in(ctx, 2) || !steno_op_in(ctx, 3) ||
        !steno_op_in(ctx, 5) || !steno_op_in(ctx, 6))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "an input is missing");
    if (ids->shape.rank != 2 || word->shape.rank != 2 || word->shape.dim[1] < 1 || !is_index(ids) ||
        (steno_op_in(ctx, 1) != NULL) != (steno_op_in(ctx, 4) != NULL))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "ids and tables must have rank 2");
    batch = (size_t)ids->shape.dim[0];
    seq = (size_t)ids->shape.dim[1];
    hidden = (size_t)word->shape.dim[1];
    s = steno_ops_shape(3, (const int64_t[]){(int64_t)batch, (int64_t)seq, (int64_t)hidden});
    for (int i = 0; i < 3 && !st; i++)
        st = read_table(ctx, 2 + i, (const int[]){0, 8, 1}[i], batch, seq, hidden, &t[i], err);
    if (!st)
        st = embed_param(ctx, 5, hidden, &gamma, err);
    if (!st)
        st = embed_param(ctx, 6, hidden, &beta, err);
    if (!st)
        st = steno_op_out(ctx, 0, word->dtype, &s, &y, err);
    if (!st)
        st = embed_mask(ctx, batch, seq, err);
    if (!st && steno_op_wants(ctx, 2))
        st = steno_op_out(ctx, 2, word->dtype, &s, &sum_out, err);
    if (st)
        return st;
    fy = steno_ops_out_f32(ctx, y);
    sum = sum_out ? steno_ops_out_f32(ctx, sum_out) : fy;
    if (!fy || !sum)
        return steno_ops_nomem(ctx, err);
    for (size_t i = 0; i < batch * seq && !st; i++)
        for (int k = 0; k < 3 && !st; k++)
            st = look_up(ctx, &t[k], i, seq, hidden, k > 0, sum + i * hidden, err);
    if (st)
        return st;
    steno_op_kernels(ctx)->layernorm_f32(fy, sum, batch * seq, hidden, gamma, beta,
                                         steno_node_float(steno_op_node(ctx), "epsilon", 1e-12f));
    steno_ops_put_f32(y, fy);
    if (sum_out)
        steno_ops_put_f32(sum_out, sum);
    return STENO_OK;
}

static steno_status infer_embed(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape ids = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, 2), s = ids;
    (void)err;
    s.rank = ids.rank == 2 ? 3 : STENO_RANK_ANY;
    if (s.rank == 3)
        s.dim[2] = w.rank == 2 && w.dim[1] != STENO_DIM_ANY ? w.dim[1] : steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 2), &s);
    steno_infer_set(ic, 2, steno_infer_dtype(ic, 2), &s);
    s.rank = ids.rank == 2 ? 1 : STENO_RANK_ANY;
    steno_infer_set(ic, 1, STENO_I32, &s);
    return STENO_OK;
}

/* ---- RotaryEmbedding ---- input [B,S,N*H] or [B,N,S,H], position_ids [1] (of the first row) or
 * [B,S], cos and sin caches [positions, rotary / 2] */
struct rotary {
    size_t batch, rows, heads, size, half, positions;
    bool flat, interleaved;
};

static const char *rotary_dims(const struct steno_op_ctx *ctx, struct rotary *r)
{
    const struct steno_node *n = steno_op_node(ctx);
    const struct steno_shape *x = &steno_op_in(ctx, 0)->shape, *c = &steno_op_in(ctx, 2)->shape;
    const struct steno_tensor *ids = steno_op_in(ctx, 1);
    int64_t heads = steno_node_int(n, "num_heads", 0), size;
    int64_t dim = steno_node_int(n, "rotary_embedding_dim", 0);
    if ((x->rank != 3 && x->rank != 4) || c->rank != 2 ||
        !steno_shape_equal(c, &steno_op_in(ctx, 3)->shape) ||
        !steno_ops_f32_or_half(steno_op_in(ctx, 0)->dtype))
        return "the input must have rank 3 or 4, both caches the same shape of rank 2";
    if (heads < 0 || dim < 0 || (x->rank == 3 && dim > 0 && !heads) || c->dim[1] < 1 ||
        c->dim[1] > INT32_MAX)
        return "num_heads or rotary_embedding_dim is out of range";
    r->flat = x->rank == 3;
    size = !r->flat ? x->dim[3] : dim > 0 ? x->dim[2] / heads : 2 * c->dim[1];
    if (size < 1 || (r->flat && x->dim[2] % size) || 2 * c->dim[1] != (dim ? dim : size) ||
        2 * c->dim[1] > size)
        return "caches do not fit the heads";
    r->heads = (size_t)(r->flat ? x->dim[2] / size : x->dim[1]);
    r->batch = (size_t)x->dim[0];
    r->rows = (size_t)x->dim[r->flat ? 1 : 2];
    r->size = (size_t)size;
    r->half = (size_t)c->dim[1];
    r->positions = (size_t)c->dim[0];
    r->interleaved = steno_node_int(n, "interleaved", 0) != 0;
    if (!is_index(ids) || (steno_numel(ids) != 1 && steno_numel(ids) != r->batch * r->rows))
        return "position_ids do not fit the input";
    return NULL;
}

void steno_contrib_rotate(size_t half, size_t size, bool interleaved, const float *x,
                          const float *c, const float *s, float *y)
{
    for (size_t k = 0; k < half; k++) {
        size_t p = interleaved ? 2 * k : k, q = interleaved ? 2 * k + 1 : half + k;
        float a = x[p], b = x[q];
        y[p] = c[k] * a - s[k] * b;
        y[q] = s[k] * a + c[k] * b;
    }
    for (size_t k = 2 * half; k < size; k++)
        y[k] = x[k];
}

static steno_status run_rotary(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0), *ids = steno_op_in(ctx, 1);
    struct rotary r = {0};
    struct steno_tensor *y;
    const float *fx, *c, *s;
    const char *wrong;
    float *fy;
    steno_status st;
    wrong = rotary_dims(ctx, &r);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    if (steno_node_int(steno_op_node(ctx), "is_packed_batching", 0))
        return steno_op_fail(ctx, err, STENO_ERR_UNSUPPORTED, "packed batches are not supported");
    st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    if (st || !steno_numel(x))
        return st;
    fx = steno_ops_as_f32(ctx, x);
    c = steno_ops_as_f32(ctx, steno_op_in(ctx, 2));
    s = steno_ops_as_f32(ctx, steno_op_in(ctx, 3));
    fy = steno_ops_out_f32(ctx, y);
    if (!fx || !c || !s || !fy)
        return steno_ops_nomem(ctx, err);
    for (size_t i = 0; i < r.batch * r.rows * r.heads; i++) { /* vectors in memory order */
        size_t b = i / (r.rows * r.heads), rest = i % (r.rows * r.heads);
        size_t row = r.flat ? rest / r.heads : rest % r.rows;
        bool whole = steno_numel(ids) == 1;
        int64_t at = steno_ops_get_i64(ids, whole ? 0 : b * r.rows + row);
        if (at < 0 || (uint64_t)at >= r.positions || (whole && row >= r.positions - (size_t)at))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                                 "position %lld is outside caches of %zu", (long long)at,
                                 r.positions);
        at += whole ? (int64_t)row : 0;
        steno_contrib_rotate(r.half, r.size, r.interleaved, fx + i * r.size,
                             c + (size_t)at * r.half, s + (size_t)at * r.half, fy + i * r.size);
    }
    steno_ops_put_f32(y, fy);
    return STENO_OK;
}

/* ---- RelativePositionBias ---- T5: table of buckets by head ([heads, buckets] in memory, although
 * its shape says [buckets, heads]), query and key length; y [1, heads, queries, keys] */
static size_t bucket_of(int64_t distance, int64_t buckets, bool both, int64_t max_distance)
{
    int64_t first = 0, exact, large;
    if (both) {
        buckets /= 2;
        first = distance > 0 ? buckets : 0;
        distance = distance > 0 ? distance : -distance;
    } else {
        distance = distance > 0 ? 0 : -distance;
    }
    exact = buckets / 2;
    if (distance < exact)
        return (size_t)(first + distance);
    large = exact + (int64_t)(logf((float)distance / (float)exact) /
                              logf((float)max_distance / (float)exact) * (float)(buckets - exact));
    return (size_t)(first + (large < buckets - 1 ? large : buckets - 1));
}

static steno_status run_position_bias(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    bool both = steno_node_int(n, "is_bidirectional", 0) != 0;
    int64_t far = steno_node_int(n, "max_distance", 128), buckets, heads, len[2];
    const struct steno_tensor *t = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    struct steno_shape s;
    const float *f;
    float *fy;
    size_t i = 0;
    steno_status st = STENO_OK;
    for (int k = 0; k < 2 && !st; k++) {
        size_t count;
        st = steno_ops_ints(ctx, 1 + k, &len[k], 1, &count, err);
        if (!st && (count != 1 || len[k] < 0 || len[k] > 1 << 20))
            st = steno_op_fail(ctx, err, STENO_ERR_INVAL,
                               "a length must be one number of at most 2^20");
    }
    if (st)
        return st;
    buckets = t->shape.rank == 2 ? t->shape.dim[0] : 0;
    heads = t->shape.rank == 2 ? t->shape.dim[1] : 0;
    if (buckets < (both ? 4 : 2) || buckets > 1 << 24 || far <= buckets / (both ? 4 : 2) ||
        far > INT32_MAX || !steno_ops_f32_or_half(t->dtype))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "%lld buckets do not fit a distance of %lld", (long long)buckets,
                             (long long)far);
    s = steno_ops_shape(4, (const int64_t[]){1, heads, len[0], len[1]});
    st = steno_op_out(ctx, 0, t->dtype, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    f = steno_ops_as_f32(ctx, t);
    fy = steno_ops_out_f32(ctx, y);
    if (!f || !fy)
        return steno_ops_nomem(ctx, err);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t q = 0; q < len[0]; q++)
            for (int64_t k = 0; k < len[1]; k++)
                fy[i++] = f[(size_t)(h * buckets) + bucket_of(k - q, buckets, both, far)];
    steno_ops_put_f32(y, fy);
    return STENO_OK;
}

static steno_status infer_position_bias(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape t = steno_infer_shape(ic, 0), s = {4, {1}};
    (void)err;
    s.dim[1] = t.rank == 2 && t.dim[1] != STENO_DIM_ANY ? t.dim[1] : steno_infer_new_dim(ic);
    for (int k = 0; k < 2; k++) {
        int64_t len;
        size_t count;
        bool known = steno_infer_ints(ic, 1 + k, &len, 1, &count) && count == 1 && len >= 0 &&
                     len <= 1 << 20;
        s.dim[2 + k] = known ? len : steno_infer_new_dim(ic);
    }
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* ---- GatedRelativePositionBias ---- (WavLM) query [B,S,N*H], its bias [N*H], rel_pos [1,N,S,S],
 * weight [H,D], bias [D], eco_a [1,N,1,1]:
 * u, r = sigmoid of the sums of the halves of q W + b; y = (u (r eco_a - 1) + 2) rel_pos */
struct gated {
    const float *q, *q_bias, *rel, *w, *b, *eco;
    size_t batch, rows, heads, size, d;
};

static float gate_of(const struct gated *g, size_t batch, size_t row, size_t head)
{
    const float *q = g->q + ((batch * g->rows + row) * g->heads + head) * g->size;
    const float *qb = g->q_bias + head * g->size;
    float sum[2] = {0, 0};
    for (size_t j = 0; j < g->d; j++) {
        float v = g->b[j];
        for (size_t i = 0; i < g->size; i++)
            v += (q[i] + qb[i]) * g->w[i * g->d + j];
        sum[j >= g->d / 2] += v;
    }
    for (int i = 0; i < 2; i++)
        sum[i] = 1 / (1 + expf(-sum[i]));
    return sum[0] * (sum[1] * g->eco[head] - 1) + 2;
}

static const char *gated_dims(const struct steno_op_ctx *ctx, struct gated *g)
{
    const struct steno_shape *q = &steno_op_in(ctx, 0)->shape, *r = &steno_op_in(ctx, 2)->shape,
                             *w = &steno_op_in(ctx, 3)->shape;
    int64_t heads = steno_node_int(steno_op_node(ctx), "num_heads", 0);
    if (heads < 1 || q->rank != 3 || r->rank != 4 || w->rank != 2 || q->dim[2] % heads)
        return "query must have rank 3, rel_pos 4, weight 2; num_heads must divide the width";
    g->batch = (size_t)q->dim[0];
    g->rows = (size_t)q->dim[1];
    g->heads = (size_t)heads;
    g->size = (size_t)(q->dim[2] / heads);
    g->d = (size_t)w->dim[1];
    if (r->dim[0] != 1 || r->dim[1] != heads || r->dim[2] != q->dim[1] || r->dim[3] != q->dim[1])
        return "rel_pos is not [1, heads, rows, rows]";
    if ((size_t)w->dim[0] != g->size || !g->d || g->d % 2 ||
        steno_numel(steno_op_in(ctx, 1)) != (size_t)q->dim[2] ||
        steno_numel(steno_op_in(ctx, 4)) != g->d || steno_numel(steno_op_in(ctx, 5)) != g->heads)
        return "weight, biases or eco_a do not fit the heads";
    return NULL;
}

static steno_status run_gated(struct steno_op_ctx *ctx, steno_err *err)
{
    struct gated g = {0};
    const float **const to[] = {&g.q, &g.q_bias, &g.rel, &g.w, &g.b, &g.eco};
    struct steno_tensor *y;
    struct steno_shape s;
    const char *wrong;
    float *fy;
    steno_status st;
    if (steno_op_in(ctx, 6))
        return steno_op_fail(ctx, err, STENO_ERR_UNSUPPORTED, "token_offset is not supported");
    wrong = gated_dims(ctx, &g);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    for (int i = 0; i < 6; i++) {
        if (!steno_ops_f32_or_half(steno_op_in(ctx, i)->dtype))
            return steno_ops_bad_type(ctx, err, steno_op_in(ctx, i)->dtype);
        *to[i] = steno_ops_as_f32(ctx, steno_op_in(ctx, i));
        if (!*to[i])
            return steno_ops_nomem(ctx, err);
    }
    s = steno_op_in(ctx, 2)->shape;
    s.dim[0] = (int64_t)g.batch;
    st = steno_op_out(ctx, 0, steno_op_in(ctx, 0)->dtype, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    fy = steno_ops_out_f32(ctx, y);
    if (!fy)
        return steno_ops_nomem(ctx, err);
    for (size_t i = 0; i < g.batch * g.heads * g.rows; i++) {
        size_t b = i / (g.heads * g.rows), hr = i % (g.heads * g.rows);
        float u = gate_of(&g, b, hr % g.rows, hr / g.rows);
        steno_op_kernels(ctx)->mul_f32(fy + i * g.rows, g.rel + hr * g.rows, 1, &u, 0, g.rows);
    }
    steno_ops_put_f32(y, fy);
    return STENO_OK;
}

static steno_status infer_gated(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape q = steno_infer_shape(ic, 0), s = steno_infer_shape(ic, 2);
    (void)err;
    if (s.rank == 4)
        s.dim[0] = q.rank == 3 ? q.dim[0] : steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

#define MS(TYPE, FLAGS, INFER, RUN)                                                                \
    {                                                                                              \
        "com.microsoft", TYPE, 1, 0, FLAGS, INFER, NULL, NULL, RUN                                 \
    }

const struct steno_op steno_ops_ms_embed[] = {
    MS("EmbedLayerNormalization", 0, infer_embed, run_embed),
    MS("RotaryEmbedding", 0, steno_ops_infer_same, run_rotary),
    MS("RelativePositionBias", 0, infer_position_bias, run_position_bias),
    MS("GatedRelativePositionBias", 0, infer_gated, run_gated),
    {0},
};
