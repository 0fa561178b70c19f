/* The parts of Zipformer's layers besides products (Yao et al. 2024); domain ai.steno, made by
 * passes:
 *
 * Swoosh     y = log(1 + e^(x - shift)) - 0.08 x - offset; attributes shift, offset
 * BiasNorm   X [..., C], bias [C]; y = X * scale / sqrt(mean((X - bias)^2)) by row; attribute scale
 * RelativeWindow   x [..., T, W], T <= W; y [..., T, S] = x[..., t, T - 1 - t + j], S = W - T + 1
 * Bypass     A, B [..., C], scale [C] or [1]; y = A + (B - A) * scale */
#include "nn/ops/internal.h"
#include "nn/ops/families.h"

#include <math.h>

static bool is_f32(const struct steno_tensor *t)
{
    return t && t->dtype == STENO_F32;
}

/* ---- Swoosh ---- */
struct swoosh_job {
    const steno_kernels *k;
    const float *x;
    float *y;
    float shift, offset;
};

static void swoosh_range(void *arg, size_t begin, size_t end)
{
    const struct swoosh_job *j = arg;
    j->k->swoosh_f32(j->y + begin, j->x + begin, end - begin, j->shift, j->offset);
}

static steno_status run_swoosh(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct swoosh_job j = {.k = steno_op_kernels(ctx),
                           .shift = steno_node_float(steno_op_node(ctx), "shift", 0),
                           .offset = steno_node_float(steno_op_node(ctx), "offset", 0)};
    struct steno_tensor *y;
    steno_status st;
    if (!is_f32(x))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "X is not f32");
    st = steno_op_out(ctx, 0, STENO_F32, &x->shape, &y, err);
    if (st)
        return st;
    j.x = x->data;
    j.y = y->data;
    steno_ops_ranges(ctx, steno_numel(y), 4096, swoosh_range, &j);
    return STENO_OK;
}

/* ---- BiasNorm, Bypass ---- */
struct rows_job {
    const steno_kernels *k;
    const float *a, *b, *by; /* by: bias or scale */
    float *y, *scratch;      /* scratch: [n] for each part */
    size_t n, by_step, parts, rows;
    float scale;
};

static void norm_rows(void *arg, int part)
{
    const struct rows_job *j = arg;
    float *t = j->scratch + (size_t)part * j->n;
    size_t end = j->rows * ((size_t)part + 1) / j->parts;
    for (size_t r = j->rows * (size_t)part / j->parts; r < end; r++) {
        const float *x = j->a + r * j->n;
        j->k->sub_f32(t, x, 1, j->by, 1, j->n);
        j->k->affine_f32(j->y + r * j->n, x, j->n,
                         j->scale / sqrtf(j->k->dot_f32(t, t, j->n) / (float)j->n), 0);
    }
}

static void bypass_rows(void *arg, int part)
{
    const struct rows_job *j = arg;
    float *t = j->scratch + (size_t)part * j->n;
    size_t end = j->rows * ((size_t)part + 1) / j->parts;
    for (size_t r = j->rows * (size_t)part / j->parts; r < end; r++) {
        const float *a = j->a + r * j->n;
        j->k->sub_f32(t, j->b + r * j->n, 1, a, 1, j->n);
        j->k->mul_f32(t, t, 1, j->by, j->by_step, j->n);
        j->k->add_f32(j->y + r * j->n, a, 1, t, 1, j->n);
    }
}

static steno_status run_rows(struct steno_op_ctx *ctx, struct rows_job *j, void (*fn)(void *, int),
                             const struct steno_shape *s, steno_err *err)
{
    struct steno_tensor *y;
    size_t count, most = (size_t)steno_op_threads(ctx);
    steno_status st = steno_op_out(ctx, 0, STENO_F32, s, &y, err);
    if (st || !steno_numel(y))
        return st;
    count = steno_numel(y);
    j->k = steno_op_kernels(ctx);
    j->y = y->data;
    j->n = (size_t)s->dim[s->rank - 1];
    j->rows = count / j->n;
    j->parts = 1 + count / 32768;
    j->parts = j->parts < most ? j->parts : most;
    j->parts = j->parts < j->rows ? j->parts : j->rows;
    j->scratch = steno_op_scratch(ctx, j->parts * j->n * sizeof *j->scratch);
    if (!j->scratch)
        return steno_ops_nomem(ctx, err);
    steno_op_parallel(ctx, (int)j->parts, fn, j);
    return STENO_OK;
}

static steno_status run_bias_norm(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0), *bias = steno_op_in(ctx, 1);
    struct rows_job j = {.scale = steno_node_float(steno_op_node(ctx), "scale", 1)};
    if (!is_f32(x) || !is_f32(bias) || x->shape.rank < 1 ||
        (int64_t)steno_numel(bias) != x->shape.dim[x->shape.rank - 1])
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "X and bias must be f32 with the same last extent");
    j.a = x->data;
    j.by = bias->data;
    return run_rows(ctx, &j, norm_rows, &x->shape, err);
}

static steno_status run_bypass(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *a = steno_op_in(ctx, 0), *b = steno_op_in(ctx, 1);
    const struct steno_tensor *scale = steno_op_in(ctx, 2);
    struct rows_job j = {0};
    size_t n;
    if (!is_f32(a) || !is_f32(b) || !is_f32(scale) || a->shape.rank < 1 ||
        !steno_shape_equal(&a->shape, &b->shape))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "A and B must be f32 of the same shape");
    n = steno_numel(scale);
    if (n != 1 && (int64_t)n != a->shape.dim[a->shape.rank - 1])
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "a scale of %zu elements does not fit", n);
    j.a = a->data;
    j.b = b->data;
    j.by = scale->data;
    j.by_step = n > 1;
    return run_rows(ctx, &j, bypass_rows, &a->shape, err);
}

/* ---- RelativeWindow ---- */
static steno_status window_shape(struct steno_shape *s, steno_err *err)
{
    int64_t *t, *w;
    if (s->rank < 2)
        return s->rank < 0 ? STENO_OK : steno_fail(err, STENO_ERR_INVAL, "x has rank %d", s->rank);
    t = &s->dim[s->rank - 2];
    w = &s->dim[s->rank - 1];
    if (*t >= 0 && *w >= 0) {
        if (*w < *t || !*t)
            return steno_fail(err, STENO_ERR_INVAL, "%lld columns do not fit %lld rows",
                              (long long)*w, (long long)*t);
        *w -= *t - 1;
    } else {
        *w = STENO_DIM_ANY;
    }
    return STENO_OK;
}

static steno_status infer_window(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    steno_status st = window_shape(&s, err);
    if (st)
        return st;
    if (s.rank > 0 && s.dim[s.rank - 1] == STENO_DIM_ANY)
        s.dim[s.rank - 1] = steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, STENO_F32, &s);
    return STENO_OK;
}

static steno_status run_window(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    struct steno_shape s;
    size_t rows, t, w, n;
    const float *from;
    float *to;
    steno_status st;
    if (!is_f32(x))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "x is not f32");
    s = x->shape;
    st = window_shape(&s, err);
    if (!st)
        st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    t = (size_t)s.dim[s.rank - 2];
    n = (size_t)s.dim[s.rank - 1];
    w = n + t - 1;
    rows = steno_numel(y) / n;
    from = x->data;
    to = y->data;
    for (size_t r = 0; r < rows; r++, from += w, to += n)
        memcpy(to, from + t - 1 - r % t, n * sizeof *to);
    return STENO_OK;
}

const struct steno_op steno_ops_fused_zipformer[] = {
    {"ai.steno", "Swoosh", 1, 0, STENO_OP_INPLACE0, steno_ops_infer_same, NULL, NULL, run_swoosh},
    {"ai.steno", "BiasNorm", 1, 0, STENO_OP_INPLACE0, steno_ops_infer_same, NULL, NULL,
     run_bias_norm},
    {"ai.steno", "Bypass", 1, 0, STENO_OP_INPLACE0 | STENO_OP_INPLACE1, steno_ops_infer_same, NULL,
     NULL, run_bypass},
    {"ai.steno", "RelativeWindow", 1, 0, 0, infer_window, NULL, NULL, run_window},
    {0},
};
