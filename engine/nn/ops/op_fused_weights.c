/* Domain ai.steno, made by passes: attention whose weights serve several products, as in Zipformer
 * (Yao et al. 2024, section 3.3; icefall's RelPositionMultiheadAttentionWeights, SelfAttention and
 * NonlinAttention). There are T rows and S = L + T keys, L of which come from the chunk before.
 *
 * AttentionWeights  x [T, N, C], cache [L, N, h d]?, P [h, 1, p, W] with W = S + T - 1,
 *                   mask bool [N or 1, 1, S]?. Q, K [T, N, h d] and R [T, N, h p] are columns of x
 *                       s[h, n, t, j] = Q[t] (cache, K)[j]' + sum_c R[t, c] P[c, T - 1 - t + j]
 *                       A [h, N, T, S] = Softmax(mask ? fill : s) along the last axis
 *                       cache' [L, N, h d] = the last L of cache, K
 *                   Attributes: heads, size (d), p_size (p), q_at, k_at, p_at: first columns; fill
 * WeightedValues    A [h, N, T, S], v [T, N, C], cache [L, N, h v]?
 *                       y [T, N, h v] = A (cache, v), heads side by side; cache' likewise
 *                   Attributes: heads, size (v), v_at
 * NonlinAttention   A [., N, T, S], x [T, N, 3 w] = s | u | g, cache [1, N, L, w]?
 *                       y [T, N, w] = g * A[0] (cache, u * tanh(s)); cache' [1, N, L, w] likewise
 *                   Attribute: size (w) */
#include "nn/ops/families.h"
#include "nn/ops/internal.h"

struct weights_job {
    const steno_kernels *k;
    const float *x, *cache, *p, *a; /* a: the weights, as input */
    const uint8_t *mask;
    float *y, *new_cache; /* the updated cache, or NULL */
    char *scratch;
    size_t heads, size, p_size, q_at, k_at, p_at;
    size_t n, t, left_context, keys, row;  /* row: columns of x */
    size_t mask_step, parts, each, floats; /* one part's scratch: bytes, floats before `work` */
    float fill;
    /* gated: NonlinAttention; stream_first: the cache is [1, N, L, w] */
    bool gated, stream_first;
};

static size_t attr_of(const struct steno_op_ctx *ctx, const char *name, int64_t otherwise)
{
    return (size_t)steno_node_int(steno_op_node(ctx), name, otherwise);
}

static steno_status prepare_weights(struct steno_prepare *pc, void **priv, steno_err *err)
{
    static const char *const extents[] = {"heads", "size", "p_size"};
    static const char *const firsts[] = {"q_at", "k_at", "p_at", "v_at"};
    const struct steno_node *n = steno_prepare_node_of(pc);
    (void)priv;
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
        int64_t v = steno_node_int(n, extents[i], 1);
        if (v < 1 || v > 65535)
            return steno_fail(err, STENO_ERR_FORMAT, "%s is out of range: %lld", extents[i],
                              (long long)v);
    }
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        int64_t v = steno_node_int(n, firsts[i], 0);
        if (v < 0 || v > INT32_MAX)
            return steno_fail(err, STENO_ERR_FORMAT, "%s is out of range: %lld", firsts[i],
                              (long long)v);
    }
    return STENO_OK;
}

static bool is_f32(const struct steno_tensor *t, int rank)
{
    return t && t->dtype == STENO_F32 && t->shape.rank == rank;
}

static bool has_dims(const struct steno_tensor *t, size_t a, size_t b, size_t c)
{
    return is_f32(t, 3) && (size_t)t->shape.dim[0] == a && (size_t)t->shape.dim[1] == b &&
           (size_t)t->shape.dim[2] == c;
}

/* Read x [T, N, C]. */
static bool read_rows(struct weights_job *j, const struct steno_tensor *x)
{
    if (!is_f32(x, 3))
        return false;
    j->t = (size_t)x->shape.dim[0];
    j->n = (size_t)x->shape.dim[1];
    j->row = (size_t)x->shape.dim[2];
    j->x = x->data;
    return true;
}

/* Row `key` of stream n in the cache, whose width is w. */
static const float *cached(const struct weights_job *j, size_t n, size_t key, size_t w)
{
    return j->cache + (j->stream_first ? n * j->left_context + key : key * j->n + n) * w;
}

/* Choose the number of parts, and allocate for each `floats` and the memory of its products. */
static steno_status share_out(struct steno_op_ctx *ctx, struct weights_job *j, size_t units,
                              size_t floats, size_t work, double macs, steno_err *err)
{
    size_t threads = (size_t)steno_op_threads(ctx), bytes;
    j->parts = macs < 262144 ? 1 : threads < units ? threads : units;
    j->floats = (floats + 15) / 16 * 16;
    if (!steno_mul_size(j->floats, sizeof(float), &j->each) ||
        !steno_add_size(j->each, steno_aligned(work), &j->each) ||
        !steno_mul_size(j->each, j->parts, &bytes))
        return steno_ops_nomem(ctx, err);
    j->scratch = steno_op_scratch(ctx, bytes);
    return j->scratch ? STENO_OK : steno_ops_nomem(ctx, err);
}

/* ---- AttentionWeights ---- */
enum { AW_X, AW_CACHE, AW_P, AW_MASK };

static steno_status infer_weights(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_shape x = steno_infer_shape(ic, AW_X), cache = steno_infer_shape(ic, AW_CACHE);
    int64_t keys = x.rank == 3 ? x.dim[0] : STENO_DIM_ANY;
    (void)err;
    if (steno_infer_has(ic, AW_CACHE))
        keys = cache.rank == 3 && cache.dim[0] >= 0 && keys >= 0 ? cache.dim[0] + keys
                                                                 : steno_infer_new_dim(ic);
    if (x.rank == 3) {
        struct steno_shape y = steno_ops_shape(
            4, (const int64_t[]){steno_node_int(n, "heads", 1), x.dim[1], x.dim[0], keys});
        steno_infer_set(ic, 0, STENO_F32, &y);
    } else {
        steno_infer_set(ic, 0, STENO_F32, NULL);
    }
    steno_infer_set(ic, 1, STENO_F32, cache.rank == 3 ? &cache : NULL);
    return STENO_OK;
}

static const char *read_weights(struct steno_op_ctx *ctx, struct weights_job *j)
{
    const struct steno_tensor *cache = steno_op_in(ctx, AW_CACHE), *p = steno_op_in(ctx, AW_P);
    const struct steno_tensor *mask = steno_op_in(ctx, AW_MASK);
    size_t w = j->heads * j->size;
    if (!read_rows(j, steno_op_in(ctx, AW_X)) || j->q_at + w > j->row || j->k_at + w > j->row ||
        j->p_at + j->heads * j->p_size > j->row)
        return "x must be [T, N, columns of Q, K and positions], f32";
    j->left_context = cache && cache->shape.rank == 3 ? (size_t)cache->shape.dim[0] : 0;
    if (cache && !has_dims(cache, j->left_context, j->n, w))
        return "the cache does not fit x";
    j->keys = j->left_context + j->t;
    if (!is_f32(p, 4) || (size_t)p->shape.dim[0] != j->heads || p->shape.dim[1] != 1 ||
        (size_t)p->shape.dim[2] != j->p_size || (size_t)p->shape.dim[3] + 1 != j->keys + j->t)
        return "P must be [heads, 1, p_size, keys + T - 1], f32";
    if (mask && (mask->dtype != STENO_BOOL || mask->shape.rank != 3 || mask->shape.dim[1] != 1 ||
                 (size_t)mask->shape.dim[2] != j->keys ||
                 (mask->shape.dim[0] != 1 && (size_t)mask->shape.dim[0] != j->n)))
        return "mask must be [N or 1, 1, keys], bool";
    j->cache = cache ? cache->data : NULL;
    j->p = p->data;
    j->mask = mask ? mask->data : NULL;
    j->mask_step = mask && mask->shape.dim[0] != 1 ? j->keys : 0;
    return NULL;
}

/* Compute the weights of head h and stream n. */
static void weigh_weights(const struct weights_job *j, size_t h, size_t n, char *mem)
{
    size_t w = j->heads * j->size, step = j->n * j->row, span = j->keys + j->t - 1;
    const float *x = j->x + n * j->row, *q = x + j->q_at + h * j->size;
    const uint8_t *m = j->mask ? j->mask + n * j->mask_step : NULL;
    float *s = j->y + (h * j->n + n) * j->t * j->keys, *r = (float *)(void *)mem;
    void *work = mem + j->floats * sizeof *r;
    if (j->left_context)
        j->k->gemm_f32(j->t, j->left_context, j->size, q, step, false,
                       j->cache + n * w + h * j->size, j->n * w, true, s, j->keys, NULL, work);
    j->k->gemm_f32(j->t, j->t, j->size, q, step, false, x + j->k_at + h * j->size, step, true,
                   s + j->left_context, j->keys, NULL, work);
    j->k->gemm_f32(j->t, span, j->p_size, x + j->p_at + h * j->p_size, step, false,
                   j->p + h * j->p_size * span, span, false, r, span, NULL, work);
    m = m && memchr(m, 1, j->keys) ? m : NULL;
    for (size_t t = 0; t < j->t; t++) {
        float *y = s + t * j->keys;
        j->k->add_f32(y, y, 1, r + t * span + j->t - 1 - t, 1, j->keys);
        for (size_t i = 0; m && i < j->keys; i++)
            y[i] = m[i] ? j->fill : y[i];
    }
    j->k->softmax_f32(s, s, j->t, j->keys);
}

static void weigh_part(void *arg, int part)
{
    const struct weights_job *j = arg;
    size_t units = j->heads * j->n, end = units * ((size_t)part + 1) / j->parts;
    for (size_t i = units * (size_t)part / j->parts; i < end; i++)
        weigh_weights(j, i / j->n, i % j->n, j->scratch + (size_t)part * j->each);
}

/* Write the new cache [L, N, w]: the last L rows of the old cache followed by columns [at, at + w)
 * of x. */
static void keep_rows(const struct weights_job *j, size_t at, size_t w)
{
    size_t old = j->left_context > j->t ? j->left_context - j->t : 0, line = j->n * w;
    memcpy(j->new_cache, j->cache + (j->left_context - old) * line, old * line * sizeof(float));
    for (size_t i = 0; i < (j->left_context - old) * j->n; i++)
        memcpy(j->new_cache + old * line + i * w,
               j->x + ((j->t - (j->left_context - old)) * j->n + i) * j->row + at,
               w * sizeof(float));
}

static steno_status run_weights(struct steno_op_ctx *ctx, steno_err *err)
{
    struct weights_job j = {.k = steno_op_kernels(ctx), .heads = attr_of(ctx, "heads", 1)};
    struct steno_shape s;
    struct steno_tensor *y, *new_cache = NULL;
    const char *wrong;
    size_t span, work[3];
    steno_status st;
    j.size = attr_of(ctx, "size", 1);
    j.p_size = attr_of(ctx, "p_size", 1);
    j.q_at = attr_of(ctx, "q_at", 0);
    j.k_at = attr_of(ctx, "k_at", 0);
    j.p_at = attr_of(ctx, "p_at", 0);
    j.fill = steno_node_float(steno_op_node(ctx), "fill", 0);
    wrong = read_weights(ctx, &j);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    s = steno_ops_shape(
        4, (const int64_t[]){(int64_t)j.heads, (int64_t)j.n, (int64_t)j.t, (int64_t)j.keys});
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (!st && j.cache && steno_op_wants(ctx, 1))
        st = steno_op_out(ctx, 1, STENO_F32, &steno_op_in(ctx, AW_CACHE)->shape, &new_cache, err);
    if (st || !steno_numel(y))
        return st;
    span = j.keys + j.t - 1;
    work[0] = j.k->gemm_f32_work(j.t, j.left_context, j.size);
    work[1] = j.k->gemm_f32_work(j.t, j.t, j.size);
    work[2] = j.k->gemm_f32_work(j.t, span, j.p_size);
    for (int i = 1; i < 3; i++)
        work[0] = work[i] > work[0] ? work[i] : work[0];
    st = share_out(ctx, &j, j.heads * j.n, j.t * span, work[0],
                   (double)steno_numel(y) * (double)j.size, err);
    if (st)
        return st;
    j.y = y->data;
    j.new_cache = new_cache ? new_cache->data : NULL;
    if (j.new_cache)
        keep_rows(&j, j.k_at, j.heads * j.size);
    steno_op_parallel(ctx, (int)j.parts, weigh_part, &j);
    return STENO_OK;
}

/* ---- WeightedValues, NonlinAttention ---- */
enum { WV_A, WV_X, WV_CACHE };

static bool is_gated(const struct steno_node *n)
{
    return !strcmp(n->op_type, "NonlinAttention");
}

static steno_status infer_values(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_shape x = steno_infer_shape(ic, WV_X), cache = steno_infer_shape(ic, WV_CACHE);
    (void)err;
    if (x.rank == 3)
        x.dim[2] = (is_gated(n) ? 1 : steno_node_int(n, "heads", 1)) * steno_node_int(n, "size", 1);
    steno_infer_set(ic, 0, STENO_F32, x.rank == 3 ? &x : NULL);
    steno_infer_set(ic, 1, STENO_F32, cache.rank > 0 ? &cache : NULL);
    return STENO_OK;
}

static const char *read_values(struct steno_op_ctx *ctx, struct weights_job *j)
{
    const struct steno_tensor *a = steno_op_in(ctx, WV_A), *cache = steno_op_in(ctx, WV_CACHE);
    size_t w = j->heads * j->size;
    if (!read_rows(j, steno_op_in(ctx, WV_X)))
        return "x must be [T, N, columns], f32";
    if (j->gated ? j->row != 3 * w : j->q_at + w > j->row)
        return "x has the wrong number of columns";
    if (!is_f32(a, 4) || (!j->gated && (size_t)a->shape.dim[0] != j->heads) ||
        a->shape.dim[0] < 1 || (size_t)a->shape.dim[1] != j->n || (size_t)a->shape.dim[2] != j->t ||
        (size_t)a->shape.dim[3] < j->t)
        return "weights must be [heads, N, T, keys], f32";
    j->keys = (size_t)a->shape.dim[3];
    j->left_context = j->keys - j->t;
    if (cache && j->gated &&
        (!is_f32(cache, 4) || cache->shape.dim[0] != 1 || (size_t)cache->shape.dim[1] != j->n ||
         (size_t)cache->shape.dim[2] != j->left_context || (size_t)cache->shape.dim[3] != w))
        return "the cache does not fit x and the weights";
    if (cache ? !j->gated && !has_dims(cache, j->left_context, j->n, w) : j->left_context > 0)
        return "the cache does not fit x and the weights";
    j->stream_first = j->gated;
    j->cache = cache ? cache->data : NULL;
    j->a = a->data;
    return NULL;
}

/* Values of stream n, [S, w]; the last L rows are its new cache. */
static void gather_weights(const struct weights_job *j, size_t n, size_t w, float *v)
{
    for (size_t i = 0; i < j->left_context; i++)
        memcpy(v + i * w, cached(j, n, i, w), w * sizeof *v);
    v += j->left_context * w;
    for (size_t t = 0; t < j->t; t++, v += w) {
        const float *x = j->x + (t * j->n + n) * j->row;
        if (j->gated) {
            j->k->tanh_f32(v, x, w);
            j->k->mul_f32(v, v, 1, x + w, 1, w);
        } else {
            memcpy(v, x + j->q_at, w * sizeof *v);
        }
    }
}

static void values_of(const struct weights_job *j, size_t n, char *mem)
{
    size_t w = j->heads * j->size, plane = j->t * j->keys;
    float *v = (float *)(void *)mem, *y = j->y + n * w;
    void *work = mem + j->floats * sizeof *v;
    if (j->left_context && (j->stream_first || j->n == 1)) { /* rows are contiguous */
        steno_ops_prefetch(cached(j, n, 0, w), j->left_context * w);
        if (j->new_cache)
            steno_ops_prefetch_for_write(j->new_cache + n * j->left_context * w,
                                         j->left_context * w);
    }
    gather_weights(j, n, w, v);
    for (size_t h = 0; h < j->heads; h++)
        j->k->gemm_f32(j->t, j->size, j->keys, j->a + (h * j->n + n) * plane, j->keys, false,
                       v + h * j->size, w, false, y + h * j->size, j->n * w, NULL, work);
    for (size_t t = 0; j->gated && t < j->t; t++)
        j->k->mul_f32(y + t * j->n * w, y + t * j->n * w, 1, j->x + (t * j->n + n) * j->row + 2 * w,
                      1, w);
    for (size_t i = 0; j->new_cache && i < j->left_context; i++)
        memcpy(j->new_cache + (j->stream_first ? n * j->left_context + i : i * j->n + n) * w,
               v + (j->t + i) * w, w * sizeof *v);
}

static void values_part(void *arg, int part)
{
    const struct weights_job *j = arg;
    size_t end = j->n * ((size_t)part + 1) / j->parts;
    for (size_t n = j->n * (size_t)part / j->parts; n < end; n++)
        values_of(j, n, j->scratch + (size_t)part * j->each);
}

static steno_status run_values(struct steno_op_ctx *ctx, steno_err *err)
{
    struct weights_job j = {.k = steno_op_kernels(ctx), .gated = is_gated(steno_op_node(ctx))};
    struct steno_shape s;
    struct steno_tensor *y, *new_cache = NULL;
    const char *wrong;
    steno_status st;
    j.heads = j.gated ? 1 : attr_of(ctx, "heads", 1);
    j.size = attr_of(ctx, "size", 1);
    j.q_at = attr_of(ctx, "v_at", 0);
    wrong = read_values(ctx, &j);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    s = steno_ops_shape(3,
                        (const int64_t[]){(int64_t)j.t, (int64_t)j.n, (int64_t)(j.heads * j.size)});
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (!st && j.cache && steno_op_wants(ctx, 1))
        st = steno_op_out(ctx, 1, STENO_F32, &steno_op_in(ctx, WV_CACHE)->shape, &new_cache, err);
    if (st || !steno_numel(y))
        return st;
    st = share_out(ctx, &j, j.n, j.keys * j.heads * j.size, j.k->gemm_f32_work(j.t, j.size, j.keys),
                   (double)steno_numel(y) * (double)j.keys, err);
    if (st)
        return st;
    j.y = y->data;
    j.new_cache = new_cache ? new_cache->data : NULL;
    steno_op_parallel(ctx, (int)j.parts, values_part, &j);
    return STENO_OK;
}

const struct steno_op steno_ops_fused_weights[] = {
    {"ai.steno", "AttentionWeights", 1, 0, 0, infer_weights, prepare_weights, NULL, run_weights},
    {"ai.steno", "WeightedValues", 1, 0, 0, infer_values, prepare_weights, NULL, run_values},
    {"ai.steno", "NonlinAttention", 1, 0, 0, infer_values, prepare_weights, NULL, run_values},
    {0},
};
