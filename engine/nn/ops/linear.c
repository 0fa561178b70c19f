#include "nn/ops/weights.h"

#include "nn/ops/int8.h"

steno_status steno_infer_linear(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, 1);
    if (!x.rank || (w.rank >= 0 && w.rank != 2))
        return steno_fail(err, STENO_ERR_INVAL, "X has rank %d, but W has rank %d", x.rank, w.rank);
    if (x.rank > 0 && w.rank == 2) {
        if (x.dim[x.rank - 1] >= 0 && x.dim[x.rank - 1] != w.dim[0])
            return steno_fail(err, STENO_ERR_INVAL, "inner dimensions differ");
        x.dim[x.rank - 1] = w.dim[1];
    }
    steno_infer_set(ic, 0, STENO_F32, &x);
    return STENO_OK;
}

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

static void run_part_linear(void *arg, int part)
{
    const struct job *j = arg;
    const struct steno_weights *w = j->w;
    steno_weights_as(j->k, w->precision)
        .part(j->m, w->n, w->k, j->a, j->lda, w->data, j->c, j->ldc, j->ep, (size_t)part, j->parts);
}

/* Rows of A quantized to u8, each over its own range, and their product. */
struct rows {
    const steno_kernels *k;
    const float *a;
    size_t lda, parts;
    uint8_t *q;
    float *scale, alpha;
    int32_t *zero;
    struct steno_gemm_i8 g;
};

static void round_rows(void *arg, size_t begin, size_t end)
{
    const struct rows *r = arg;
    for (size_t i = begin; i < end; i++)
        r->scale[i] = r->alpha * r->k->quantize_row_f32(r->q + i * r->g.lda, r->a + i * r->lda,
                                                        r->g.k, &r->zero[i]);
}

/* Quantize and multiply the rows of one part, on one thread. */
static void linear_rows(void *arg, int part)
{
    const struct rows *r = arg;
    const size_t begin = steno_ops_row_of(r->g.m, (size_t)part, r->parts);
    const size_t end = steno_ops_row_of(r->g.m, (size_t)part + 1, r->parts);
    struct steno_gemm_epilogue ep = r->g.ep ? *r->g.ep : (struct steno_gemm_epilogue){.alpha = 1};
    struct steno_gemm_i8 g = r->g;
    round_rows(arg, begin, end);
    if (ep.residual)
        ep.residual += begin * ep.ldr;
    g.m = end - begin;
    g.a = r->q + begin * g.lda;
    g.a_rows = r->g.a_rows - begin;
    g.a_zero += begin;
    g.row_scale += begin;
    g.ep = &ep;
    g.c = (float *)g.c + begin * g.ldc;
    r->k->gemm_i8_part(&g, 0, 1);
}

static steno_status linear_i8(struct steno_op_ctx *ctx, const struct steno_weights *w, size_t m,
                              const float *a, size_t lda, float *c, size_t ldc,
                              const struct steno_gemm_epilogue *ep, steno_err *err)
{
    const steno_kernels *k = steno_op_kernels(ctx);
    const size_t threads = (size_t)steno_op_threads(ctx), tiled = steno_gemm_i8_rows(m);
    struct rows r = {.k = k, .a = a, .lda = lda, .parts = threads, .alpha = ep ? ep->alpha : 1};
    r.g = (struct steno_gemm_i8){.m = m,
                                 .n = w->n,
                                 .k = w->k,
                                 .lda = steno_gemm_i8_lda(w->k),
                                 .a_rows = tiled,
                                 .a_zero_step = 1,
                                 .packed = w->data,
                                 .scale = w->scale,
                                 .ep = ep,
                                 .c = c,
                                 .ldc = ldc};
    r.q = steno_op_scratch(ctx, tiled * r.g.lda);
    r.scale = steno_op_scratch(ctx, m * sizeof *r.scale);
    r.zero = steno_op_scratch(ctx, m * sizeof *r.zero);
    if (!r.q || !r.scale || !r.zero)
        return steno_ops_nomem(ctx, err);
    r.g.a = r.q;
    r.g.a_zero = r.zero;
    r.g.row_scale = r.scale;
    if (threads > 1 && k->gemm_i8_rows && m >= threads * k->gemm_i8_rows) {
        steno_op_parallel(ctx, (int)threads, linear_rows, &r);
        return STENO_OK;
    }
    steno_ops_ranges(ctx, m, 1 + ((size_t)1 << 14) / w->k, round_rows, &r);
    steno_ops_gemm_i8(ctx, &r.g);
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
    steno_op_parallel(ctx, (int)j.parts, run_part_linear, &j);
    return STENO_OK;
}
