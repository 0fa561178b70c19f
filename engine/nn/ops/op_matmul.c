/* MatMul, Gemm. Constant f32 weights are packed once (kernels.h); products of two activations run
 * unpacked, one matrix of the batch after the other. f16 and bf16 are widened to f32; f64 and
 * integers use plain loops. */
#include "nn/ops/matmul.h"
#include "nn/ops/contrib.h"
#include "nn/ops/families.h"
#include "nn/ops/weights.h"

#include <stdlib.h>

#define PART_MACS ((size_t)1 << 17) /* multiply-adds worth waking another thread for: ~5 us */
#define MAX_PARTS 64

/* ---- weights packed at load ---- */
/* The shape that the weights have in the graph. */
static struct steno_shape shape_of(const struct steno_weights *w, bool trans)
{
    int64_t k = (int64_t)w->k, n = (int64_t)w->n;
    return steno_ops_shape(2, (const int64_t[]){trans ? n : k, trans ? k : n});
}

static steno_status pack_matmul(struct steno_prepare *pc, bool trans, void **priv, steno_err *err)
{
    struct steno_weights *w;
    steno_status st = steno_prepare_weights(pc, 1, trans, &w, err);
    *priv = w;
    return st;
}

/* ---- C = A * packed, in parallel ---- */
struct packed_job {
    const steno_kernels *k;
    size_t m, n, kk, lda, ldc, parts;
    const float *a;
    const void *packed;
    float *c;
    const struct steno_gemm_epilogue *ep;
};

static void packed_part(void *arg, int part)
{
    const struct packed_job *j = arg;
    j->k->gemm_f32_packed_part(j->m, j->n, j->kk, j->a, j->lda, j->packed, j->c, j->ldc, j->ep,
                               (size_t)part, j->parts);
}

size_t steno_ops_parts(const struct steno_op_ctx *ctx, double macs)
{
    size_t threads = (size_t)steno_op_threads(ctx);
    double most = macs / (double)PART_MACS;
    if (threads > MAX_PARTS)
        threads = MAX_PARTS;
    return most < 2 ? 1 : most < (double)threads ? (size_t)most : threads;
}

void steno_ops_gemm_packed(struct steno_op_ctx *ctx, size_t m, size_t n, size_t k, const float *a,
                           size_t lda, const void *packed, float *c, size_t ldc,
                           const struct steno_gemm_epilogue *ep)
{
    struct packed_job j = {steno_op_kernels(ctx), m, n, k, lda, ldc, 1, a, packed, c, ep};
    j.parts = steno_ops_parts(ctx, (double)m * (double)n * (double)k);
    if (j.parts <= 1)
        j.k->gemm_f32_packed(m, n, k, a, lda, packed, c, ldc, ep);
    else
        steno_op_parallel(ctx, (int)j.parts, packed_part, &j);
}

/* ---- f32, both factors are activations ---- */
struct batch_job {
    const steno_kernels *k;
    const struct steno_matmul *p;
    const float *a, *b;
    float *c;
    char *work;
    size_t work_bytes, parts;
    const struct steno_gemm_epilogue *ep;
};

static void batch_part(void *arg, int part)
{
    const struct batch_job *j = arg;
    const struct steno_matmul *p = j->p;
    size_t begin = p->batch * (size_t)part / j->parts,
           end = p->batch * ((size_t)part + 1) / j->parts;
    for (size_t i = begin; i < end; i++) {
        size_t oa, ob;
        steno_matmul_offsets(p, i, &oa, &ob);
        j->k->gemm_f32(p->m, p->n, p->k, j->a + oa * p->m * p->k, p->k, false,
                       j->b + ob * p->k * p->n, p->b_transposed ? p->k : p->n, p->b_transposed,
                       j->c + i * p->m * p->n, p->n, j->ep, j->work + (size_t)part * j->work_bytes);
    }
}

steno_status steno_ops_matmul_f32(struct steno_op_ctx *ctx, const struct steno_matmul *p,
                                  const float *a, const float *b, float *c,
                                  const struct steno_gemm_epilogue *ep, steno_err *err)
{
    struct batch_job j = {.k = steno_op_kernels(ctx), .p = p, .a = a, .b = b, .c = c, .ep = ep};
    double macs = (double)p->m * (double)p->n * (double)p->k;
    if (p->batch == 1 && steno_ops_parts(ctx, macs) > 1 && p->m > 8) {
        void *packed = steno_op_scratch(ctx, j.k->gemm_f32_packed_bytes(p->k, p->n));
        if (!packed)
            return steno_ops_nomem(ctx, err);
        j.k->gemm_f32_pack(packed, b, p->b_transposed ? p->k : p->n, p->b_transposed, p->k, p->n);
        steno_ops_gemm_packed(ctx, p->m, p->n, p->k, a, p->k, packed, c, p->n, ep);
        return STENO_OK;
    }
    j.parts = steno_ops_parts(ctx, macs * (double)p->batch);
    if (j.parts > p->batch)
        j.parts = p->batch;
    j.work_bytes = steno_aligned(j.k->gemm_f32_work(p->m, p->n, p->k));
    j.work = steno_op_scratch(ctx, j.work_bytes * j.parts + 1);
    if (!j.work)
        return steno_ops_nomem(ctx, err);
    if (j.parts <= 1) {
        j.parts = 1;
        batch_part(&j, 0);
    } else {
        steno_op_parallel(ctx, (int)j.parts, batch_part, &j);
    }
    return STENO_OK;
}

/* ---- other types ---- integers are unsigned here: wrap-around is defined, and signs do not
 * matter */
#define PRODUCT(NAME, T)                                                                           \
    static void NAME(size_t m, size_t n, size_t k, const T *a, size_t ai, size_t ak, const T *b,   \
                     size_t bk, size_t bj, T *c)                                                   \
    {                                                                                              \
        for (size_t i = 0; i < m; i++)                                                             \
            for (size_t j = 0; j < n; j++) {                                                       \
                T sum = 0;                                                                         \
                for (size_t l = 0; l < k; l++)                                                     \
                    sum += a[i * ai + l * ak] * b[l * bk + j * bj];                                \
                c[i * n + j] = sum;                                                                \
            }                                                                                      \
    }
PRODUCT(product_f64, double)
PRODUCT(product_u32, uint32_t)
PRODUCT(product_u64, uint64_t)

/* Product of a [m,k] and b [k,n] with the given element strides. False: no product for this
 * type. */
static bool product(steno_dtype t, size_t m, size_t n, size_t k, const void *a, size_t ai,
                    size_t ak, const void *b, size_t bk, size_t bj, void *c)
{
    switch (t) {
    case STENO_F64:
        product_f64(m, n, k, a, ai, ak, b, bk, bj, c);
        return true;
    case STENO_I32:
    case STENO_U32:
        product_u32(m, n, k, a, ai, ak, b, bk, bj, c);
        return true;
    case STENO_I64:
    case STENO_U64:
        product_u64(m, n, k, a, ai, ak, b, bk, bj, c);
        return true;
    default:
        return false;
    }
}

/* ---- MatMul ---- */
static steno_status infer_matmul(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape a = steno_infer_shape(ic, 0), b = steno_infer_shape(ic, 1);
    return steno_matmul_infer(ic, &a, &b, steno_infer_dtype(ic, 0), err);
}

static steno_status prepare_matmul(struct steno_prepare *pc, void **priv, steno_err *err)
{
    return pack_matmul(pc, false, priv, err);
}

static steno_status matmul_mismatch(struct steno_op_ctx *ctx, const struct steno_shape *a,
                                    const struct steno_shape *b, const char *wrong, steno_err *err)
{
    char s[64], t[64];
    return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s times %s: %s",
                         steno_shape_str(a, s, sizeof s), steno_shape_str(b, t, sizeof t), wrong);
}

static steno_status run_matmul(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_weights *w = steno_op_priv(ctx);
    const struct steno_tensor *a = steno_op_in(ctx, 0), *b;
    struct steno_shape bs;
    struct steno_matmul p;
    struct steno_tensor *y;
    const char *wrong;
    const float *fa, *fb;
    float *fy;
    steno_status st;
    b = w ? NULL : steno_op_in(ctx, 1);
    bs = w ? shape_of(w, false) : b->shape;
    wrong = steno_matmul_plan(&a->shape, &bs, &p);
    if (!wrong && a->dtype != (w ? STENO_F32 : b->dtype))
        wrong = "element types differ";
    if (wrong)
        return matmul_mismatch(ctx, &a->shape, &bs, wrong, err);
    st = steno_op_out(ctx, 0, a->dtype, &p.out, &y, err);
    if (st || !steno_numel(y))
        return st;
    if (w) {
        return steno_ops_linear(ctx, w, p.m, a->data, p.k, y->data, p.n, NULL, err);
    }
    if (a->dtype == STENO_F32 || steno_ops_is_half(a->dtype)) {
        fa = steno_ops_as_f32(ctx, a);
        fb = steno_ops_as_f32(ctx, b);
        fy = steno_ops_out_f32(ctx, y);
        if (!fa || !fb || !fy)
            return steno_ops_nomem(ctx, err);
        st = steno_ops_matmul_f32(ctx, &p, fa, fb, fy, NULL, err);
        if (!st)
            steno_ops_put_f32(y, fy);
        return st;
    }
    for (size_t i = 0; i < p.batch; i++) {
        size_t oa, ob, e = steno_dtype_size(a->dtype);
        steno_matmul_offsets(&p, i, &oa, &ob);
        if (!product(a->dtype, p.m, p.n, p.k, (const char *)a->data + oa * p.m * p.k * e, p.k, 1,
                     (const char *)b->data + ob * p.k * p.n * e, p.n, 1,
                     (char *)y->data + i * p.m * p.n * e))
            return steno_ops_bad_type(ctx, err, a->dtype);
    }
    return STENO_OK;
}

/* ---- Gemm ---- Y = alpha * A' * B' + beta * C */
static const char *gemm_plan(const struct steno_node *n, const struct steno_shape *a,
                             const struct steno_shape *b, struct steno_shape *out, int64_t *k)
{
    bool ta = steno_node_int(n, "transA", 0) != 0, tb = steno_node_int(n, "transB", 0) != 0;
    int64_t ka, kb;
    if (a->rank != 2 || b->rank != 2)
        return "factors must have rank 2";
    ka = a->dim[ta ? 0 : 1];
    kb = b->dim[tb ? 1 : 0];
    if (ka >= 0 && kb >= 0 && ka != kb)
        return "inner dimensions differ";
    out->rank = 2;
    out->dim[0] = a->dim[ta ? 1 : 0];
    out->dim[1] = b->dim[tb ? 0 : 1];
    *k = ka >= 0 ? ka : kb;
    return NULL;
}

static steno_status infer_gemm(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape a = steno_infer_shape(ic, 0), b = steno_infer_shape(ic, 1),
                       s = {.rank = STENO_RANK_ANY};
    int64_t k;
    if (a.rank >= 0 && b.rank >= 0) {
        const char *wrong = gemm_plan(steno_infer_node(ic), &a, &b, &s, &k);
        if (wrong)
            return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    }
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

static steno_status prepare_gemm(struct steno_prepare *pc, void **priv, steno_err *err)
{
    return pack_matmul(pc, steno_node_int(steno_prepare_node_of(pc), "transB", 0) != 0, priv, err);
}

/* y += beta * c, c broadcast to y. */
static void add_c(struct steno_tensor *y, const struct steno_tensor *c, float beta)
{
    const struct steno_shape *in[1] = {&c->shape};
    struct steno_broadcast b;
    struct steno_broadcast_pos at;
    size_t e = steno_dtype_size(y->dtype);
    bool ints = !steno_ops_is_float(y->dtype);
    int64_t ibeta;
    steno_ops_store_f32(&ibeta, STENO_I64, &beta, 1);
    steno_broadcast_init(&b, &y->shape, in, 1);
    steno_broadcast_start(&b, &at, 0);
    for (size_t r = 0; r < b.rows; r++, steno_broadcast_next(&b, &at))
        for (size_t i = 0; i < b.row; i++) {
            size_t ic = at.at[0] + i * b.row_step[0], iy = r * b.row + i;
            char *to = (char *)y->data + iy * e;
            if (ints) {
                uint64_t v = (uint64_t)steno_ops_get_i64(y, iy) +
                             (uint64_t)ibeta * (uint64_t)steno_ops_get_i64(c, ic);
                memcpy(to, &v, e);
            } else {
                double v = steno_ops_get_f64(y, iy) + (double)beta * steno_ops_get_f64(c, ic);
                steno_ops_store_f64(to, y->dtype, &v, 1);
            }
        }
}

static void scale(struct steno_tensor *y, float alpha)
{
    size_t n = steno_numel(y), e = steno_dtype_size(y->dtype);
    for (size_t i = 0; i < n && alpha != 1; i++) {
        char *to = (char *)y->data + i * e;
        if (steno_ops_is_float(y->dtype)) {
            double v = steno_ops_get_f64(y, i) * (double)alpha;
            steno_ops_store_f64(to, y->dtype, &v, 1);
        } else {
            double d = (double)steno_ops_get_i64(y, i) * (double)alpha;
            int64_t v;
            steno_ops_store_f64(&v, STENO_I64, &d, 1);
            memcpy(to, &v, e);
        }
    }
}

/* The f32 form. C goes into the epilogue as a bias if it is one row and beta is 1. */
static steno_status gemm_f32(struct steno_op_ctx *ctx, const struct steno_weights *w, size_t m,
                             size_t n, size_t k, const float *a, const float *b, float *y,
                             const struct steno_gemm_epilogue *ep, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    bool ta = steno_node_int(node, "transA", 0) != 0, tb = steno_node_int(node, "transB", 0) != 0;
    const steno_kernels *kern = steno_op_kernels(ctx);
    void *work;
    if (w) {
        if (ta) {
            float *t = steno_op_scratch(ctx, m * k * sizeof *t + 1);
            if (!t)
                return steno_ops_nomem(ctx, err);
            kern->transpose_f32(t, k, a, m, k, m);
            a = t;
        }
        return steno_ops_linear(ctx, w, m, a, k, y, n, ep, err);
    }
    work = steno_op_scratch(ctx, kern->gemm_f32_work(m, n, k) + 1);
    if (!work)
        return steno_ops_nomem(ctx, err);
    kern->gemm_f32(m, n, k, a, ta ? m : k, ta, b, tb ? k : n, tb, y, n, ep, work);
    return STENO_OK;
}

static steno_status run_plain_gemm(struct steno_op_ctx *ctx, struct steno_tensor **out,
                                   steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    const struct steno_weights *w = steno_op_priv(ctx);
    const struct steno_tensor *a = steno_op_in(ctx, 0), *b, *c = steno_op_in(ctx, 2);
    float alpha = steno_node_float(node, "alpha", 1), beta = steno_node_float(node, "beta", 1);
    struct steno_gemm_epilogue ep = {.alpha = alpha};
    struct steno_shape s, r, bs;
    struct steno_tensor *y;
    const char *wrong;
    int64_t k;
    bool row;
    steno_status st;
    b = w ? NULL : steno_op_in(ctx, 1);
    bs = w ? shape_of(w, steno_node_int(node, "transB", 0) != 0) : b->shape;
    wrong = gemm_plan(node, &a->shape, &bs, &s, &k);
    if (!wrong && (a->dtype != (w ? STENO_F32 : b->dtype) || (c && c->dtype != a->dtype)))
        wrong = "element types differ";
    if (!wrong && c && (steno_shape_broadcast(&s, &c->shape, &r) || !steno_shape_equal(&r, &s)))
        wrong = "C does not broadcast to the result";
    if (wrong)
        return matmul_mismatch(ctx, &a->shape, &bs, wrong, err);
    st = steno_op_out(ctx, 0, a->dtype, &s, &y, err);
    *out = y;
    if (st || !steno_numel(y))
        return st;
    row = c && c->dtype == STENO_F32 && beta == 1 && (int64_t)steno_numel(c) == s.dim[1] &&
          c->shape.rank > 0 && c->shape.dim[c->shape.rank - 1] == s.dim[1];
    if (a->dtype == STENO_F32 || steno_ops_is_half(a->dtype)) {
        const float *fa = steno_ops_as_f32(ctx, a), *fb = w ? NULL : steno_ops_as_f32(ctx, b);
        float *fy = steno_ops_out_f32(ctx, y);
        if (!fa || (!w && !fb) || !fy)
            return steno_ops_nomem(ctx, err);
        ep.bias = row ? c->data : NULL;
        st = gemm_f32(ctx, w, (size_t)s.dim[0], (size_t)s.dim[1], (size_t)k, fa, fb, fy, &ep, err);
        if (st)
            return st;
        steno_ops_put_f32(y, fy);
    } else {
        bool ta = steno_node_int(node, "transA", 0) != 0,
             tb = steno_node_int(node, "transB", 0) != 0;
        size_t m = (size_t)s.dim[0], n = (size_t)s.dim[1], kk = (size_t)k;
        if (!product(a->dtype, m, n, kk, a->data, ta ? 1 : kk, ta ? m : 1, b->data, tb ? 1 : n,
                     tb ? kk : 1, y->data))
            return steno_ops_bad_type(ctx, err, a->dtype);
        scale(y, alpha);
    }
    if (c && !row && beta != 0)
        add_c(y, c, beta);
    return STENO_OK;
}

static steno_status run_gemm(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_tensor *y;
    return run_plain_gemm(ctx, &y, err);
}

/* ---- FusedGemm (com.microsoft) ---- Y = activation(alpha * A' * B' + beta * C) */
static steno_status run_fused_gemm(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_tensor *y;
    float *f;
    steno_status st = run_plain_gemm(ctx, &y, err);
    if (st || !steno_numel(y))
        return st;
    if (!steno_ops_is_float(y->dtype) || y->dtype == STENO_F64)
        return steno_ops_bad_type(ctx, err, y->dtype);
    f = steno_ops_out_f32(ctx, y);
    if (!f)
        return steno_ops_nomem(ctx, err);
    if (f != y->data)
        steno_ops_load_f32(f, y->data, y->dtype, steno_numel(y));
    st = steno_ops_fused_act(ctx, f, steno_numel(y), err);
    if (!st)
        steno_ops_put_f32(y, f);
    return st;
}

const struct steno_op steno_ops_matmul[] = {
    {"", "MatMul", 1, 0, 0, infer_matmul, prepare_matmul, steno_weights_free, run_matmul},
    {"", "Gemm", 7, 0, 0, infer_gemm, prepare_gemm, steno_weights_free, run_gemm},
    {"com.microsoft", "FusedGemm", 1, 0, 0, infer_gemm, prepare_gemm, steno_weights_free,
     run_fused_gemm},
    {0},
};
