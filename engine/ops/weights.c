#include "ops/weights.h"

#include "ops/int8.h"

#include <math.h>
#include <stdlib.h>

enum { MIN_INT8_K = 16 }; /* shorter sums gain nothing */

const char *steno_precision_name(enum steno_precision p)
{
    static const char *const names[] = {[STENO_FP32] = "fp32",
                                        [STENO_BF16_WEIGHTS] = "bf16",
                                        [STENO_INT8_WEIGHTS] = "int8",
                                        [STENO_FP16_WEIGHTS] = "fp16"};
    return names[p];
}

void steno_weights_free(void *priv)
{
    struct steno_weights *w = priv;
    if (!w)
        return;
    steno_aligned_free(w->own);
    free(w);
}

/* ---- rounding ---- */

static float element(const float *w, size_t ldw, bool trans, size_t k, size_t n)
{
    return trans ? w[n * ldw + k] : w[k * ldw + n];
}

/* i8 of each column over its own range, symmetric; q has the layout of w, dense. */
static double round_i8(struct steno_weights *p, const float *w, size_t ldw, bool trans, int8_t *q)
{
    double lost = 0;
    for (size_t n = 0; n < p->n; n++)
        p->scale[n] = 0;
    for (size_t k = 0; k < p->k; k++)
        for (size_t n = 0; n < p->n; n++)
            p->scale[n] = fmaxf(p->scale[n], fabsf(element(w, ldw, trans, k, n)));
    for (size_t n = 0; n < p->n; n++)
        p->scale[n] = p->scale[n] > 0 && p->scale[n] < INFINITY ? p->scale[n] / 127 : 1;
    for (size_t k = 0; k < p->k; k++)
        for (size_t n = 0; n < p->n; n++) {
            float x = element(w, ldw, trans, k, n), r = rintf(x / p->scale[n]);
            r = fminf(fmaxf(r, -127), 127); /* NaN becomes -127: such a model is broken anyway */
            q[trans ? n * p->k + k : k * p->n + n] = (int8_t)r;
            lost += (double)(x - r * p->scale[n]) * (double)(x - r * p->scale[n]);
        }
    return lost;
}

static double lost_16(const struct steno_weights *p, const float *w, size_t ldw, bool trans)
{
    double lost = 0;
    for (size_t k = 0; k < p->k; k++)
        for (size_t n = 0; n < p->n; n++) {
            float x = element(w, ldw, trans, k, n);
            float r = p->precision == STENO_BF16_WEIGHTS
                          ? steno_ops_bf16_to_f32(steno_ops_f32_to_bf16(x))
                          : steno_ops_f16_to_f32(steno_ops_f32_to_f16(x));
            lost += (double)(x - r) * (double)(x - r);
        }
    return lost;
}

static const struct steno_gemm_w16 *w16(const steno_kernels *k, enum steno_precision precision)
{
    return precision == STENO_BF16_WEIGHTS ? &k->gemm_bf16 : &k->gemm_f16;
}

/* ---- packing: one block, the packed weights and for i8 the scales behind them ---- */

static size_t data_bytes(const struct steno_weights *p, const steno_kernels *k)
{
    size_t n = p->precision == STENO_FP32 ? k->gemm_f32_packed_bytes(p->k, p->n)
               : p->precision == STENO_INT8_WEIGHTS
                   ? k->gemm_i8_packed_bytes(p->k, p->n)
                   : w16(k, p->precision)->packed_bytes(p->k, p->n);
    return (n + 63) / 64 * 64;
}

static struct steno_weights *describe(const steno_kernels *k, enum steno_precision precision,
                                      size_t rows, size_t cols)
{
    struct steno_weights *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->k = rows;
    p->n = cols;
    p->precision = precision == STENO_INT8_WEIGHTS && rows < MIN_INT8_K ? STENO_FP32 : precision;
    p->bytes = data_bytes(p, k);
    if (p->precision == STENO_INT8_WEIGHTS)
        p->bytes += cols * sizeof *p->scale;
    return p;
}

static void place(struct steno_weights *p, const steno_kernels *k, void *block)
{
    p->data = block;
    if (p->precision == STENO_INT8_WEIGHTS)
        p->scale = (float *)((char *)block + data_bytes(p, k));
}

static bool fill(struct steno_weights *p, const steno_kernels *k, const float *w, size_t ldw,
                 bool trans, double *lost)
{
    int8_t *q;
    *lost = 0;
    if (p->precision == STENO_FP32) {
        k->gemm_f32_pack(p->data, w, ldw, trans, p->k, p->n);
        return true;
    }
    if (p->precision != STENO_INT8_WEIGHTS) {
        w16(k, p->precision)->pack(p->data, w, ldw, trans, p->k, p->n);
        *lost = lost_16(p, w, ldw, trans);
        return true;
    }
    q = malloc(p->k * p->n + 1);
    if (!q)
        return false;
    *lost = round_i8(p, w, ldw, trans, q);
    k->gemm_i8_pack(p->data, &(struct steno_weights_i8){.k = p->k,
                                                        .n = p->n,
                                                        .b = q,
                                                        .ldb = trans ? p->k : p->n,
                                                        .trans = trans,
                                                        .is_signed = true});
    free(q);
    return true;
}

const struct steno_gemm_w16 *steno_weights_w16(const steno_kernels *k,
                                               const struct steno_weights *w)
{
    return w16(k, w->precision);
}

steno_status steno_weights_new(const steno_kernels *k, enum steno_precision precision,
                               const float *w, size_t ldw, bool trans, size_t rows, size_t cols,
                               struct steno_weights **out, double *lost, steno_err *err)
{
    struct steno_weights *p = describe(k, precision, rows, cols);
    if (p && (p->own = steno_aligned_alloc(p->bytes)))
        place(p, k, p->own);
    if (!p || !p->own || !fill(p, k, w, ldw, trans, lost)) {
        steno_weights_free(p);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    *out = p;
    return STENO_OK;
}

steno_status steno_prep_weights(struct steno_prep *pc, int in, bool trans,
                                struct steno_weights **out, steno_err *err)
{
    const struct steno_node *n = steno_prep_node(pc);
    const struct steno_tensor *w = in < n->n_in ? steno_prep_const(pc, in) : NULL;
    const steno_kernels *k = steno_prep_kernels(pc);
    struct steno_weights *p;
    size_t rows, cols;
    void *block;
    bool filled;
    double lost;
    *out = NULL;
    if (!w || w->dtype != STENO_F32 || w->shape.rank != 2 || !steno_numel(w))
        return STENO_OK;
    rows = (size_t)w->shape.dim[0];
    cols = (size_t)w->shape.dim[1];
    p = describe(k, steno_prep_precision(pc), trans ? cols : rows, trans ? rows : cols);
    block = p ? steno_prep_memory(pc, in, p->bytes, &filled) : NULL;
    if (block)
        place(p, k, block);
    if (!block || (!filled && !fill(p, k, w->data, cols, trans, &lost))) {
        steno_weights_free(p);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    if (!filled)
        steno_prep_rounded(pc, w->data, rows * cols, p->precision != STENO_FP32, lost);
    *out = p;
    return STENO_OK;
}

/* ---- weights that are in 8 bits already ---- */

/* W [K, N] bytes, real value (q - zero) * scale; zero may be NULL. */
struct bytes {
    const struct steno_tensor *w, *scale, *zero;
};

static bool find_bytes(const struct steno_prep *pc, int in, int scale_in, struct bytes *b)
{
    const struct steno_node *n = steno_prep_node(pc);
    size_t cols;
    b->w = steno_prep_const(pc, in);
    b->scale = scale_in < n->n_in ? steno_prep_const(pc, scale_in) : NULL;
    b->zero = scale_in + 1 < n->n_in ? steno_prep_const(pc, scale_in + 1) : NULL;
    if (!b->w || !b->w->data || !steno_ops_is_byte(b->w->dtype) || b->w->shape.rank != 2 ||
        !steno_numel(b->w) || !b->scale || !b->scale->data || b->scale->dtype != STENO_F32)
        return false;
    cols = (size_t)b->w->shape.dim[1];
    return (steno_numel(b->scale) == 1 || steno_numel(b->scale) == cols) &&
           (!b->zero || (b->zero->data && b->zero->dtype == b->w->dtype &&
                         (steno_numel(b->zero) == 1 || steno_numel(b->zero) == cols)));
}

steno_status steno_prep_weights_bytes(struct steno_prep *pc, int in, int scale_in,
                                      struct steno_weights **out, steno_err *err)
{
    const steno_kernels *k = steno_prep_kernels(pc);
    struct steno_weights *p;
    struct bytes b;
    void *block;
    bool filled;
    *out = NULL;
    if (!find_bytes(pc, in, scale_in, &b) || b.w->shape.dim[0] < MIN_INT8_K)
        return STENO_OK;
    p = describe(k, STENO_INT8_WEIGHTS, (size_t)b.w->shape.dim[0], (size_t)b.w->shape.dim[1]);
    block = p ? steno_prep_memory(pc, in, p->bytes, &filled) : NULL;
    if (block)
        place(p, k, block);
    if (!block ||
        (!filled && !steno_ops_pack_i8(k, p->data,
                                       &(struct steno_weights_i8){.k = p->k,
                                                                  .n = p->n,
                                                                  .b = b.w->data,
                                                                  .ldb = p->n,
                                                                  .is_signed =
                                                                      b.w->dtype == STENO_I8},
                                       b.zero))) {
        steno_weights_free(p);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    for (size_t i = 0; !filled && i < p->n; i++)
        p->scale[i] = ((const float *)b.scale->data)[steno_numel(b.scale) > 1 ? i : 0];
    *out = p;
    return STENO_OK;
}

/* Columns [from, from + cols) as f32 [K, cols]. */
static void widen(const struct bytes *b, size_t from, size_t cols, float *to)
{
    const size_t rows = (size_t)b->w->shape.dim[0], all = (size_t)b->w->shape.dim[1];
    for (size_t c = 0; c < cols; c++) {
        float scale = ((const float *)b->scale->data)[steno_numel(b->scale) > 1 ? from + c : 0];
        int32_t zero =
            b->zero ? steno_ops_zero_at(b->zero, steno_numel(b->zero) > 1 ? from + c : 0) : 0;
        for (size_t r = 0; r < rows; r++)
            to[r * cols + c] =
                (float)(steno_ops_zero_at(b->w, r * all + from + c) - zero) * scale;
    }
}

/* ---- several blocks of columns ---- */

struct parts {
    const struct steno_tensor *w; /* f32, or what bytes says when `wide` is there */
    struct bytes bytes;
    float *wide; /* of one part */
    size_t all;  /* columns */
    bool turned;
};

static bool fill_part(const struct parts *s, struct steno_weights *p, const steno_kernels *k,
                      size_t from, double *lost)
{
    const size_t cols = s->turned ? p->k : p->n;
    if (!s->wide)
        return fill(p, k, (const float *)s->w->data + from, s->all, s->turned, lost);
    widen(&s->bytes, from, cols, s->wide);
    return fill(p, k, s->wide, cols, s->turned, lost);
}

steno_status steno_prep_weights_parts(struct steno_prep *pc, int in, int scale_in, size_t parts,
                                      bool turned, struct steno_weights **out, steno_err *err)
{
    struct parts src = {.w = steno_prep_const(pc, in), .turned = turned};
    const steno_kernels *k = steno_prep_kernels(pc);
    const struct steno_tensor *w = src.w;
    const size_t rows = (size_t)w->shape.dim[0], all = (size_t)w->shape.dim[1], cols = all / parts;
    struct steno_weights *p = calloc(parts, sizeof *p), *one = NULL;
    char *block = NULL;
    bool filled = false, ok;
    double lost = 0, part;
    src.all = all;
    if (w->dtype != STENO_F32 && (!find_bytes(pc, in, scale_in, &src.bytes) ||
                                  !(src.wide = malloc(rows * cols * sizeof *src.wide + 1)))) {
        free(p);
        return steno_fail(err, STENO_ERR_FORMAT, "8-bit weights without scales, or out of memory");
    }
    if (all % parts) {
        free(src.wide);
        free(p);
        return steno_fail(err, STENO_ERR_FORMAT, "%zu columns do not divide into %zu", all, parts);
    }
    one = describe(k, steno_prep_precision(pc), turned ? cols : rows, turned ? rows : cols);
    if (p && one)
        block = steno_prep_memory(pc, in, parts * ((one->bytes + 63) / 64 * 64), &filled);
    ok = block != NULL;
    for (size_t i = 0; ok && i < parts; i++) {
        p[i] = *one;
        place(&p[i], k, block + i * ((one->bytes + 63) / 64 * 64));
        ok = filled || fill_part(&src, &p[i], k, i * cols, &part);
        lost += filled || !ok ? 0 : part;
    }
    free(src.wide);
    if (ok && !filled && w->dtype == STENO_F32)
        steno_prep_rounded(pc, w->data, rows * all, one->precision != STENO_FP32, lost);
    free(one);
    if (!ok) {
        free(p);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    *out = p;
    return STENO_OK;
}

/* ---- products ---- */

#define PART_MACS ((size_t)1 << 17) /* multiply-adds worth waking another thread for: ~5 us */
#define MAX_PARTS 64

struct job {
    const steno_kernels *k;
    const struct steno_weights *w;
    size_t m, lda, ldc, parts;
    const float *a;
    float *c;
    const struct steno_gemm_epilogue *ep;
};

static void run_part(void *arg, int part)
{
    const struct job *j = arg;
    const struct steno_weights *w = j->w;
    if (w->precision == STENO_FP32)
        j->k->gemm_f32_packed_part(j->m, w->n, w->k, j->a, j->lda, w->data, j->c, j->ldc, j->ep,
                                   (size_t)part, j->parts);
    else
        w16(j->k, w->precision)
            ->part(j->m, w->n, w->k, j->a, j->lda, w->data, j->c, j->ldc, j->ep, (size_t)part,
                   j->parts);
}

/* Rows of A rounded to u8, each over its own range. */
struct rows {
    const steno_kernels *k;
    const float *a;
    size_t lda, n;
    uint8_t *q;
    float *scale, alpha;
    int32_t *zero;
};

static void round_rows(void *arg, size_t begin, size_t end)
{
    const struct rows *r = arg;
    for (size_t i = begin; i < end; i++) {
        const float *a = r->a + i * r->lda;
        r->scale[i] = r->alpha * r->k->quantize_row_f32(r->q + i * r->n, a, r->n, &r->zero[i]);
    }
}

static steno_status linear_i8(struct steno_op_ctx *ctx, const struct steno_weights *w, size_t m,
                              const float *a, size_t lda, float *c, size_t ldc,
                              const struct steno_gemm_epilogue *ep, steno_err *err)
{
    struct rows r = {steno_op_kernels(ctx), a, lda, w->k, NULL, NULL, ep ? ep->alpha : 1, NULL};
    r.q = steno_op_scratch(ctx, m * w->k + 1);
    r.scale = steno_op_scratch(ctx, m * sizeof *r.scale);
    r.zero = steno_op_scratch(ctx, m * sizeof *r.zero);
    if (!r.q || !r.scale || !r.zero)
        return steno_ops_nomem(ctx, err);
    steno_ops_ranges(ctx, m, 1 + ((size_t)1 << 14) / w->k, round_rows, &r);
    steno_ops_gemm_i8(ctx, &(struct steno_gemm_i8){.m = m,
                                                   .n = w->n,
                                                   .k = w->k,
                                                   .a = r.q,
                                                   .lda = w->k,
                                                   .a_zero = r.zero,
                                                   .a_zero_step = 1,
                                                   .packed = w->data,
                                                   .scale = w->scale,
                                                   .row_scale = r.scale,
                                                   .ep = ep,
                                                   .c = c,
                                                   .ldc = ldc});
    return STENO_OK;
}

steno_status steno_ops_linear(struct steno_op_ctx *ctx, const struct steno_weights *w, size_t m,
                              const float *a, size_t lda, float *c, size_t ldc,
                              const struct steno_gemm_epilogue *ep, steno_err *err)
{
    struct job j = {steno_op_kernels(ctx), w, m, lda, ldc, (size_t)steno_op_threads(ctx), a, c, ep};
    double most = (double)m * (double)w->n * (double)w->k / (double)PART_MACS;
    if (w->precision == STENO_INT8_WEIGHTS)
        return linear_i8(ctx, w, m, a, lda, c, ldc, ep, err);
    if (j.parts > MAX_PARTS)
        j.parts = MAX_PARTS;
    if (most < (double)j.parts)
        j.parts = most < 2 ? 1 : (size_t)most;
    if (j.parts == 1)
        run_part(&j, 0);
    else
        steno_op_parallel(ctx, (int)j.parts, run_part, &j);
    return STENO_OK;
}
