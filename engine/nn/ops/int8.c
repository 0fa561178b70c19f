#include "nn/ops/int8.h"

#include <math.h>
#include <stdlib.h>

#define PART_MACS ((size_t)1 << 18) /* multiply-adds worth waking another thread for */
#define QUANTIZE_GRAIN ((size_t)1 << 14)
#define MAX_PARTS 64

/* ---- packed weights ---- */

int32_t steno_ops_zero_at(const struct steno_tensor *z, size_t i)
{
    return z->dtype == STENO_U8 ? ((const uint8_t *)z->data)[i] : ((const int8_t *)z->data)[i];
}

static void widen_zeros(int32_t *to, const struct steno_tensor *z, size_t from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = steno_ops_zero_at(z, from + i);
}

void steno_packed_i8_free(void *priv)
{
    struct steno_packed_i8 *w = priv;
    if (w)
        steno_aligned_free(w->own);
    free(w);
}

bool steno_ops_pack_i8(const steno_kernels *k, void *packed, const struct steno_weights_i8 *w,
                       const struct steno_tensor *zero)
{
    struct steno_weights_i8 all = *w;
    size_t zeros = zero ? steno_numel(zero) : 0;
    int32_t *z = zeros ? malloc(zeros * sizeof *z) : NULL;
    if (zeros && !z)
        return false;
    if (z)
        widen_zeros(z, zero, 0, zeros);
    all.zero = z;
    all.zero_step = zeros > 1;
    k->gemm_i8_pack(packed, &all);
    free(z);
    return true;
}

static bool fill_int8(const steno_kernels *k, struct steno_packed_i8 *w, const void *q,
                      steno_dtype t, bool trans, const struct steno_tensor *zero)
{
    return steno_ops_pack_i8(k, w->data,
                             &(struct steno_weights_i8){.k = w->k,
                                                        .n = w->n,
                                                        .b = q,
                                                        .ldb = trans ? w->k : w->n,
                                                        .trans = trans,
                                                        .is_signed = t == STENO_I8},
                             zero);
}

steno_status steno_packed_i8_new(const steno_kernels *k, const void *q, steno_dtype t, bool trans,
                                 size_t rows, size_t cols, const struct steno_tensor *zero,
                                 struct steno_packed_i8 **out, steno_err *err)
{
    struct steno_packed_i8 *w = calloc(1, sizeof *w);
    if (w) {
        *w = (struct steno_packed_i8){
            .k = rows, .n = cols, .bytes = k->gemm_i8_packed_bytes(rows, cols)};
        w->data = w->own = steno_aligned_alloc(w->bytes);
    }
    if (!w || !w->data || !fill_int8(k, w, q, t, trans, zero)) {
        steno_packed_i8_free(w);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    *out = w;
    return STENO_OK;
}

steno_status steno_prepare_pack_i8(struct steno_prepare *pc, int w_in, int zero_in,
                                   struct steno_packed_i8 **out, steno_err *err)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const struct steno_tensor *w = w_in < n->n_in ? steno_prepare_const(pc, w_in) : NULL, *z = NULL;
    bool has_zero = zero_in < n->n_in && n->in[zero_in] != STENO_NONE, filled;
    struct steno_packing how = {.n = 0};
    struct steno_packed_i8 *p;
    size_t zeros;
    *out = NULL;
    if (has_zero)
        z = steno_prepare_const(pc, zero_in);
    zeros = z ? steno_numel(z) : 0;
    if (!w || !steno_dtype_is_byte(w->dtype) || w->shape.rank != 2 || !steno_numel(w) ||
        (has_zero && (!z || !z->data || z->dtype != w->dtype ||
                      (zeros != 1 && zeros != (size_t)w->shape.dim[1]))))
        return STENO_OK;
    p = calloc(1, sizeof *p);
    if (p) {
        p->k = (size_t)w->shape.dim[0];
        p->n = (size_t)w->shape.dim[1];
        p->bytes = steno_prepare_kernels(pc)->gemm_i8_packed_bytes(p->k, p->n);
        steno_packing_put(&how, "i8", 2);
        how.also[0] = has_zero ? zero_in : 0;
        p->data = steno_prepare_memory(pc, w_in, p->bytes, &how, &filled);
    }
    if (!p || !p->data ||
        (!filled && !fill_int8(steno_prepare_kernels(pc), p, w->data, w->dtype, false, z))) {
        steno_packed_i8_free(p);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    *out = p;
    return STENO_OK;
}

/* ---- one product ---- */

struct job {
    const steno_kernels *k;
    const struct steno_gemm_i8 *g;
    size_t parts;
};

static void run_part_int8(void *arg, int part)
{
    const struct job *j = arg;
    j->k->gemm_i8_part(j->g, (size_t)part, j->parts);
}

void steno_ops_gemm_i8(struct steno_op_ctx *ctx, const struct steno_gemm_i8 *g)
{
    struct job j = {steno_op_kernels(ctx), g, (size_t)steno_op_threads(ctx)};
    double most = (double)g->m * (double)g->n * (double)g->k / (double)PART_MACS;
    if (j.parts > MAX_PARTS)
        j.parts = MAX_PARTS;
    if (most < (double)j.parts)
        j.parts = most < 2 ? 1 : (size_t)most;
    steno_op_parallel(ctx, (int)j.parts, run_part_int8, &j);
}

/* ---- products as operators have them ---- */

/* Number of matrices of B. */
static size_t matrices(const struct steno_tensor *b)
{
    return b->shape.rank > 2 ? steno_ops_prod(&b->shape, 0, b->shape.rank - 2) : 1;
}

static size_t int8_rows_of(const struct steno_tensor *a)
{
    return a->shape.rank > 1 ? (size_t)a->shape.dim[a->shape.rank - 2] : 1;
}

static bool zero_fits(const struct steno_tensor *t, const struct steno_tensor *z, size_t some,
                      size_t all)
{
    size_t n = z ? steno_numel(z) : 1;
    return !z || (z->dtype == t->dtype && (n == 1 || n == some || n == all));
}

steno_status steno_ops_product_i8_plan(struct steno_op_ctx *ctx, const struct steno_product_i8 *x,
                                       struct steno_matmul *p, steno_err *err)
{
    struct steno_shape bs;
    const char *wrong;
    if (x->w)
        bs = steno_ops_shape(2, (const int64_t[]){(int64_t)x->w->k, (int64_t)x->w->n});
    else
        bs = x->b->shape;
    wrong = steno_matmul_plan(&x->a->shape, &bs, p);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    if (!steno_dtype_is_byte(x->a->dtype))
        return steno_ops_bad_type(ctx, err, x->a->dtype);
    if (!x->w && !steno_dtype_is_byte(x->b->dtype))
        return steno_ops_bad_type(ctx, err, x->b->dtype);
    if (!zero_fits(x->a, x->a_zero, int8_rows_of(x->a), p->k ? steno_numel(x->a) / p->k : 0) ||
        (!x->w && !zero_fits(x->b, x->b_zero, p->n, p->n * matrices(x->b))))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "zero points do not fit the factors");
    return STENO_OK;
}

/* Zero points of A: one for every row of all matrices (*step 1), or one for all (*step 0). */
static steno_status a_zeros(struct steno_op_ctx *ctx, const struct steno_product_i8 *x, size_t rows,
                            const int32_t **out, size_t *step, steno_err *err)
{
    size_t n = x->a_zero ? steno_numel(x->a_zero) : 0;
    int32_t *z;
    *out = NULL;
    *step = n > 1;
    if (!n)
        return STENO_OK;
    z = steno_op_scratch(ctx, (n > 1 ? rows : 1) * sizeof *z);
    if (!z)
        return steno_ops_nomem(ctx, err);
    for (size_t i = 0; i < (n > 1 ? rows : 1); i++)
        z[i] = steno_ops_zero_at(x->a_zero, i % n);
    *out = z;
    return STENO_OK;
}

/* Pack matrix `at` of B into `packed`; z: scratch for its zero points. */
static void pack_matrix(const steno_kernels *k, const struct steno_product_i8 *x,
                        const struct steno_matmul *p, size_t at, int32_t *z, void *packed)
{
    size_t n = x->b_zero ? steno_numel(x->b_zero) : 0;
    if (n)
        widen_zeros(z, x->b_zero, n > p->n ? at * p->n : 0, n > 1 ? p->n : 1);
    k->gemm_i8_pack(packed,
                    &(struct steno_weights_i8){.k = p->k,
                                               .n = p->n,
                                               .b = (const uint8_t *)x->b->data + at * p->k * p->n,
                                               .ldb = p->n,
                                               .is_signed = x->b->dtype == STENO_I8,
                                               .zero = n ? z : NULL,
                                               .zero_step = n > 1});
}

steno_status steno_ops_product_i8(struct steno_op_ctx *ctx, const struct steno_product_i8 *x,
                                  const struct steno_matmul *p, const struct steno_gemm_i8 *like,
                                  void *c, steno_err *err)
{
    const steno_kernels *k = steno_op_kernels(ctx);
    struct steno_gemm_i8 g = *like;
    size_t in_a = p->k ? steno_numel(x->a) / p->k : 0;
    const int32_t *zeros;
    int32_t *bz = NULL;
    void *packed = x->w ? x->w->data : NULL;
    steno_status st = a_zeros(ctx, x, in_a, &zeros, &g.a_zero_step, err);
    if (st)
        return st;
    if (!packed) {
        bz = steno_op_scratch(ctx, (p->n + 1) * sizeof *bz);
        packed = steno_op_scratch(ctx, k->gemm_i8_packed_bytes(p->k, p->n));
    }
    if (!packed || (!x->w && !bz))
        return steno_ops_nomem(ctx, err);
    g.m = p->m;
    g.n = g.ldc = p->n;
    g.k = g.lda = p->k;
    g.a_signed = x->a->dtype == STENO_I8;
    g.packed = packed;
    for (size_t i = 0, last = SIZE_MAX; i < p->batch; i++) {
        size_t oa, ob, row;
        steno_matmul_offsets(p, i, &oa, &ob);
        row = oa * p->m;
        if (!x->w && ob != last)
            pack_matrix(k, x, p, ob, bz, packed);
        last = ob;
        g.a = (const uint8_t *)x->a->data + row * p->k;
        g.a_zero = zeros && g.a_zero_step ? zeros + row : zeros;
        g.scale = like->scale ? like->scale + ob * x->scale_step : NULL;
        g.row_scale = like->row_scale ? like->row_scale + row : NULL;
        g.c = (int32_t *)c + i * p->m * p->n;
        steno_ops_gemm_i8(ctx, &g);
    }
    return STENO_OK;
}

/* ---- quantization ---- */

void steno_ops_range(const steno_kernels *k, const float *x, size_t n, float *scale, int32_t *zero)
{
    float lo = n ? fminf(0, k->min_reduce_f32(x, n)) : 0;
    float hi = n ? fmaxf(0, k->max_reduce_f32(x, n)) : 0;
    *scale = (hi - lo) / 255;
    if (!(*scale > 0)) /* all zeros: any scale gives the same result */
        *scale = 1;
    *zero = (int32_t)rintf(fminf(255, fmaxf(0, -lo / *scale)));
}

float *steno_ops_scales(struct steno_op_ctx *ctx, float scale, const float *with, size_t step,
                        size_t n)
{
    float *s = steno_op_scratch(ctx, (n + 1) * sizeof *s);
    if (s)
        steno_op_kernels(ctx)->mul_f32(s, with, step, &scale, 0, n);
    return s;
}

struct rounding {
    const steno_kernels *k;
    uint8_t *q;
    const float *x;
    float scale;
    int32_t zero;
    bool to_signed;
};

static void round_range(void *arg, size_t begin, size_t end)
{
    const struct rounding *r = arg;
    r->k->quantize_f32(r->q + begin, r->x + begin, end - begin, r->scale, r->zero, r->to_signed);
}

void steno_ops_quantize(struct steno_op_ctx *ctx, void *q, const float *x, size_t n, float scale,
                        int32_t zero, bool to_signed)
{
    struct rounding r = {steno_op_kernels(ctx), q, x, scale, zero, to_signed};
    steno_ops_ranges(ctx, n, QUANTIZE_GRAIN, round_range, &r);
}
