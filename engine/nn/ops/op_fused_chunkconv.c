/* ai.steno ChunkConv, made by passes: the streaming convolution of Zipformer (Yao et al. 2024,
 * section 3.1; icefall's ChunkCausalDepthwiseConv1d), one chunk of T frames.
 *
 * x [T, N, C], or [T, N, 2 C] with attribute glu = 1, which means a * sigmoid(b) of its halves;
 * mask [N, 1, T] bool?, cache [N, C, L], w1 [C, 1, L + 1] constant, b1 [C]?, w2 [C, 1, K] constant
 * with K odd, b2 [C]?, scale [C, T] constant
 *     z [N, C, L + T] = cache, then x with masked frames zero
 *     y [T, N, C] = Conv(z; w1, b1)
 *                   + scale * Conv(z without its first L; w2, b2, K / 2 zeros around)
 *     cache' [N, C, L] = the last L of z
 * Attribute act: 0, or STENO_ACT_SWOOSH with act_min and act_max, applied to y. Both convolutions
 * are depthwise and channels last inside: z is built once for a stream, and both read it. */
#include "nn/ops/internal.h"
#include "nn/ops/families.h"

#include <stdlib.h>

enum { X, MASK, CACHE, W1, B1, W2, B2, SCALE, INPUTS };

struct chunk_conv {
    size_t c, k1, k2, t;
    bool glu, swoosh;
    float shift, offset;
    float *w1, *w2, *scale; /* [K1, C], [K2, C], [T, C] */
};

static void release_chunk_conv(void *priv)
{
    struct chunk_conv *p = priv;
    if (p) {
        steno_aligned_free(p->w1);
        steno_aligned_free(p->w2);
        steno_aligned_free(p->scale);
    }
    free(p);
}

/* Constant f32 input `in`, channels first, transposed to [rest, C]. */
static float *transposed(struct steno_prepare *pc, int in, size_t c, size_t rest)
{
    const struct steno_tensor *t = steno_prepare_const(pc, in);
    float *p = steno_aligned_alloc(c * rest * sizeof *p);
    if (p) {
        steno_prepare_kernels(pc)->transpose_f32(p, c, t->data, rest, c, rest);
        steno_prepare_consumed(pc, in);
        steno_prepare_packed(pc, c * rest * sizeof *p);
    }
    return p;
}

static bool is_weight(const struct steno_tensor *w)
{
    return w && w->dtype == STENO_F32 && w->shape.rank == 3 && w->shape.dim[1] == 1 &&
           w->shape.dim[0] > 0 && w->shape.dim[2] > 0;
}

static steno_status prepare_chunk_conv(struct steno_prepare *pc, void **priv, steno_err *err)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const struct steno_tensor *w1, *w2, *scale;
    struct chunk_conv *p;
    int64_t act;
    if (n->n_in != INPUTS)
        return steno_fail(err, STENO_ERR_FORMAT, "%d inputs, expected %d", n->n_in, INPUTS);
    w1 = steno_prepare_const(pc, W1);
    w2 = steno_prepare_const(pc, W2);
    scale = steno_prepare_const(pc, SCALE);
    if (!is_weight(w1) || !is_weight(w2) || !scale || scale->dtype != STENO_F32 ||
        scale->shape.rank != 2 || w2->shape.dim[2] % 2 == 0 ||
        w1->shape.dim[0] != w2->shape.dim[0] || w1->shape.dim[0] != scale->shape.dim[0] ||
        scale->shape.dim[1] < 1)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "weights must be constant, f32, [C,1,L+1], [C,1,odd], [C,T]");
    act = steno_node_int(n, "act", STENO_ACT_NONE);
    if (act != STENO_ACT_NONE && act != STENO_ACT_SWOOSH)
        return steno_fail(err, STENO_ERR_FORMAT, "act %lld is not supported", (long long)act);
    p = calloc(1, sizeof *p);
    if (p) {
        *p = (struct chunk_conv){.c = (size_t)w1->shape.dim[0],
                                 .k1 = (size_t)w1->shape.dim[2],
                                 .k2 = (size_t)w2->shape.dim[2],
                                 .t = (size_t)scale->shape.dim[1],
                                 .glu = steno_node_int(n, "glu", 0) != 0,
                                 .swoosh = act == STENO_ACT_SWOOSH,
                                 .shift = steno_node_float(n, "act_min", 0),
                                 .offset = steno_node_float(n, "act_max", 0)};
        p->w1 = transposed(pc, W1, p->c, p->k1);
        p->w2 = transposed(pc, W2, p->c, p->k2);
        p->scale = transposed(pc, SCALE, p->c, p->t);
    }
    if (!p || !p->w1 || !p->w2 || !p->scale) {
        release_chunk_conv(p);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    *priv = p;
    return STENO_OK;
}

static steno_status infer_chunk_conv(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, X), cache = steno_infer_shape(ic, CACHE);
    (void)err;
    if (x.rank == 3 && steno_node_int(steno_infer_node(ic), "glu", 0))
        x.dim[2] = cache.rank == 3 ? cache.dim[1] : STENO_DIM_ANY;
    steno_infer_set(ic, 0, STENO_F32, &x);
    if (cache.rank == 3 && x.rank == 3 && x.dim[1] >= 0)
        cache.dim[0] = x.dim[1];
    steno_infer_set(ic, 1, STENO_F32, &cache);
    return STENO_OK;
}

struct job {
    const steno_kernels *k;
    const struct chunk_conv *p;
    const float *x, *cache, *b1, *b2;
    const uint8_t *mask;
    float *y, *new_cache;  /* the updated cache, or NULL */
    float *work;           /* for each part: z [L + T, C], v and u [T, C] */
    size_t n, parts, each; /* each: floats of one part's work */
};

/* z: the rows of the cache, then those of x. */
static void gather_chunkconv(const struct job *j, size_t n, float *z)
{
    const struct chunk_conv *p = j->p;
    size_t left_context = p->k1 - 1;
    if (left_context)
        j->k->transpose_f32(z, p->c, j->cache + n * p->c * left_context, left_context, p->c,
                            left_context);
    for (size_t t = 0; t < p->t; t++) {
        float *to = z + (left_context + t) * p->c;
        const float *x = j->x + (t * j->n + n) * p->c * (p->glu ? 2 : 1);
        if (j->mask && j->mask[n * p->t + t])
            memset(to, 0, p->c * sizeof *to);
        else if (p->glu)
            j->k->glu_f32(to, x, x + p->c, p->c);
        else
            memcpy(to, x, p->c * sizeof *to);
    }
}

/* v [T, C] = the convolution of z's last T rows with w2, zeros around them. Taps on zeros are
 * skipped. */
static void within_chunk(const struct job *j, const float *z, float *v)
{
    const struct chunk_conv *p = j->p;
    const float *x = z + (p->k1 - 1) * p->c;
    size_t pad = p->k2 / 2;
    for (size_t t = 0; t < p->t; t++) {
        size_t first = t < pad ? pad - t : 0, end = p->t + pad - t;
        end = end < p->k2 ? end : p->k2;
        j->k->dwconv_f32(v + t * p->c, x + (t + first - pad) * p->c, p->w2 + first * p->c, j->b2, 1,
                         p->c, end - first);
    }
}

static void one_stream(const struct job *j, size_t n, float *work)
{
    const struct chunk_conv *p = j->p;
    size_t left_context = p->k1 - 1;
    float *z = work, *v = z + (left_context + p->t) * p->c, *u = v + p->t * p->c;
    steno_ops_prefetch(j->cache + n * p->c * left_context, p->c * left_context);
    steno_ops_prefetch(p->w1, p->k1 * p->c);
    if (j->new_cache)
        steno_ops_prefetch_for_write(j->new_cache + n * p->c * left_context, p->c * left_context);
    gather_chunkconv(j, n, z);
    within_chunk(j, z, v);
    j->k->mul_f32(v, v, 1, p->scale, 1, p->t * p->c);
    j->k->dwconv_f32(u, z, p->w1, j->b1, p->t, p->c, p->k1);
    for (size_t t = 0; t < p->t; t++) {
        float *y = j->y + (t * j->n + n) * p->c;
        j->k->add_f32(y, u + t * p->c, 1, v + t * p->c, 1, p->c);
        if (p->swoosh)
            j->k->swoosh_f32(y, y, p->c, p->shift, p->offset);
    }
    if (j->new_cache && left_context)
        j->k->transpose_f32(j->new_cache + n * p->c * left_context, left_context, z + p->t * p->c,
                            p->c, left_context, p->c);
}

static void streams(void *arg, int part)
{
    const struct job *j = arg;
    for (size_t n = j->n * (size_t)part / j->parts; n < j->n * ((size_t)part + 1) / j->parts; n++)
        one_stream(j, n, j->work + (size_t)part * j->each);
}

static bool has_shape(const struct steno_tensor *t, steno_dtype type, size_t a, size_t b, size_t c)
{
    return t && t->dtype == type && t->shape.rank == 3 && (size_t)t->shape.dim[0] == a &&
           (size_t)t->shape.dim[1] == b && (size_t)t->shape.dim[2] == c;
}

static bool is_bias(const struct steno_tensor *t, size_t c)
{
    return !t || (t->dtype == STENO_F32 && steno_numel(t) == c);
}

static steno_status run_chunk_conv(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct chunk_conv *p = steno_op_priv(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, X), *mask = steno_op_in(ctx, MASK);
    const struct steno_tensor *cache = steno_op_in(ctx, CACHE), *b1 = steno_op_in(ctx, B1);
    const struct steno_tensor *b2 = steno_op_in(ctx, B2);
    struct job j = {.k = steno_op_kernels(ctx), .p = p};
    struct steno_tensor *y, *new_cache = NULL;
    struct steno_shape s;
    steno_status st;
    j.n = x && x->shape.rank == 3 ? (size_t)x->shape.dim[1] : 0;
    if (!has_shape(x, STENO_F32, p->t, j.n, p->c * (p->glu ? 2 : 1)) ||
        !has_shape(cache, STENO_F32, j.n, p->c, p->k1 - 1) || !is_bias(b1, p->c) ||
        !is_bias(b2, p->c) || (mask && !has_shape(mask, STENO_BOOL, j.n, 1, p->t)))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "inputs do not fit %zu frames of %zu channels with %zu cached frames",
                             p->t, p->c, p->k1 - 1);
    s = x->shape;
    s.dim[2] = (int64_t)p->c;
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (!st && steno_op_wants(ctx, 1))
        st = steno_op_out(ctx, 1, STENO_F32, &cache->shape, &new_cache, err);
    if (st || !j.n)
        return st;
    j.parts = (size_t)steno_op_threads(ctx) < j.n ? (size_t)steno_op_threads(ctx) : j.n;
    j.each = (p->k1 - 1 + 3 * p->t) * p->c;
    j.work = steno_op_scratch(ctx, j.parts * j.each * sizeof *j.work);
    if (!j.work)
        return steno_ops_nomem(ctx, err);
    j.x = x->data;
    j.cache = cache->data;
    j.mask = mask ? mask->data : NULL;
    j.b1 = b1 ? b1->data : NULL;
    j.b2 = b2 ? b2->data : NULL;
    j.y = y->data;
    j.new_cache = new_cache ? new_cache->data : NULL;
    steno_op_parallel(ctx, (int)j.parts, streams, &j);
    return STENO_OK;
}

const struct steno_op steno_ops_fused_chunkconv[] = {
    {"ai.steno", "ChunkConv", 1, 0, 0, infer_chunk_conv, prepare_chunk_conv, release_chunk_conv,
     run_chunk_conv},
    {0},
};
