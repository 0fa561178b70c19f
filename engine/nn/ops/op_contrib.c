/* Operators that ONNX Runtime's optimizer writes (domain com.microsoft): FusedMatMul, variants of
 * Gelu, skip connections with normalization. Definitions: ONNX Runtime, docs/ContribOperators.md.
 * f16 and bf16 are computed in f32. */
#include "nn/ops/matmul.h"

#include <math.h>

/* ---- Gelu, BiasGelu, FastGelu, QuickGelu ---- y = f(x + bias), bias along the last axis */
struct gelu_job {
    const steno_kernels *k;
    const float *x, *bias;
    float *y;
    size_t n;  /* elements of a row */
    char form; /* 'e'rf, 't'anh, 'q'uick */
    float alpha;
};

static void gelu_rows(void *arg, size_t begin, size_t end)
{
    const struct gelu_job *j = arg;
    for (size_t r = begin; r < end; r++) {
        const float *x = j->x + r * j->n;
        float *y = j->y + r * j->n;
        if (j->bias) {
            j->k->add_f32(y, x, 1, j->bias, 1, j->n);
            x = y;
        }
        if (j->form == 'e') {
            j->k->gelu_f32(y, x, j->n);
            continue;
        }
        steno_ops_gate_f32(j->k, y, x, j->n, j->form == 'q' ? j->alpha : STENO_OPS_GELU_ALPHA,
                           j->form == 'q' ? 0 : STENO_OPS_GELU_CUBIC);
    }
}

static steno_status run_gelu(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    struct gelu_job j = {.k = steno_op_kernels(ctx), .form = 'e'};
    const struct steno_tensor *x = steno_op_in(ctx, 0), *b = steno_op_in(ctx, 1);
    struct steno_tensor *y;
    steno_status st;
    if (!steno_ops_f32_or_half(x->dtype) || (b && b->dtype != x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    j.n = x->shape.rank ? (size_t)x->shape.dim[x->shape.rank - 1] : 1;
    if (b && (steno_numel(b) != j.n || b->shape.rank != 1))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "bias does not fit the last axis of %zu",
                             j.n);
    st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    if (st || !steno_numel(x))
        return st;
    j.form = n->op_type[0] == 'F' ? 't' : n->op_type[0] == 'Q' ? 'q' : 'e';
    j.alpha = steno_node_float(n, "alpha", 1.702f);
    j.x = steno_ops_as_f32(ctx, x);
    j.bias = b ? steno_ops_as_f32(ctx, b) : NULL;
    j.y = steno_ops_out_f32(ctx, y);
    if (!j.x || !j.y || (b && !j.bias))
        return steno_ops_nomem(ctx, err);
    steno_ops_ranges(ctx, steno_numel(x) / j.n, 8192 / j.n + 1, gelu_rows, &j);
    steno_ops_put_f32(y, j.y);
    return STENO_OK;
}

/* ---- SkipLayerNormalization, SkipSimplifiedLayerNormalization ---- */
static steno_status row_param(struct steno_op_ctx *ctx, int in, size_t n, const float **out,
                              steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, in);
    *out = NULL;
    if (!t)
        return STENO_OK;
    if (steno_numel(t) != n || !steno_ops_f32_or_half(t->dtype))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d does not fit rows of %zu", in, n);
    *out = steno_ops_as_f32(ctx, t);
    return *out ? STENO_OK : steno_ops_nomem(ctx, err);
}

/* sum = x + skip + bias; skip may be one matrix for the whole batch. */
static void add_skip(const steno_kernels *k, float *sum, const float *x, const float *skip,
                     size_t skip_rows, const float *bias, size_t rows, size_t n)
{
    for (size_t r = 0; r < rows; r++) {
        k->add_f32(sum + r * n, x + r * n, 1, skip + r % skip_rows * n, 1, n);
        if (bias)
            k->add_f32(sum + r * n, sum + r * n, 1, bias, 1, n);
    }
}

/* Outputs 1 and 2, f32 [..., 1]: mean of each row, and 1 / sqrt(variance + eps). With rms the mean
 * is not subtracted. */
static steno_status statistics(struct steno_op_ctx *ctx, const float *sum, size_t rows, size_t n,
                               bool rms, float eps, steno_err *err)
{
    struct steno_shape s = steno_op_in(ctx, 0)->shape;
    s.dim[s.rank - 1] = 1;
    for (int out = 1; out < 3 && out < steno_op_n_out(ctx); out++) {
        struct steno_tensor *y;
        steno_status st;
        if (!steno_op_wants(ctx, out))
            continue;
        st = steno_op_out(ctx, out, STENO_F32, &s, &y, err);
        if (st)
            return st;
        for (size_t r = 0; r < rows; r++) {
            const float *x = sum + r * n;
            double mean = 0, var = 0;
            for (size_t i = 0; i < n; i++)
                mean += (double)x[i] / (double)n;
            for (size_t i = 0; i < n; i++) {
                double d = (double)x[i] - (rms ? 0 : mean);
                var += d * d / (double)n;
            }
            ((float *)y->data)[r] = (float)(out == 1 ? mean : 1 / sqrt(var + (double)eps));
        }
    }
    return STENO_OK;
}

static steno_status run_skip(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    bool rms = strstr(node->op_type, "Simplified") != NULL;
    float eps = steno_node_float(node, "epsilon", 1e-12f), *sum, *fy;
    const steno_kernels *k = steno_op_kernels(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0), *skip = steno_op_in(ctx, 1);
    struct steno_tensor *y, *sum_out = NULL;
    const float *fx, *fs, *gamma, *beta = NULL, *bias;
    size_t n, rows;
    steno_status st;
    if (!steno_ops_f32_or_half(x->dtype) || skip->dtype != x->dtype || x->shape.rank < 2)
        return steno_ops_bad_type(ctx, err, x->dtype);
    n = (size_t)x->shape.dim[x->shape.rank - 1];
    st = row_param(ctx, 2, n, &gamma, err);
    if (!st && !rms)
        st = row_param(ctx, 3, n, &beta, err);
    if (!st)
        st = row_param(ctx, rms ? 3 : 4, n, &bias, err);
    if (!st)
        st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    if (!st && steno_op_wants(ctx, 3))
        st = steno_op_out(ctx, 3, x->dtype, &x->shape, &sum_out, err);
    if (!st && !steno_numel(x))
        return statistics(ctx, NULL, 0, n, rms, eps, err);
    if (st)
        return st;
    rows = steno_numel(x) / n;
    if (!steno_numel(skip) || skip->shape.dim[skip->shape.rank - 1] != (int64_t)n ||
        rows % (steno_numel(skip) / n))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "skip does not fit the input");
    fx = steno_ops_as_f32(ctx, x);
    fs = steno_ops_as_f32(ctx, skip);
    fy = steno_ops_out_f32(ctx, y);
    sum = sum_out ? steno_ops_out_f32(ctx, sum_out) : fy;
    if (!fx || !fs || !fy || !sum)
        return steno_ops_nomem(ctx, err);
    add_skip(k, sum, fx, fs, steno_numel(skip) / n, bias, rows, n);
    st = statistics(ctx, sum, rows, n, rms, eps, err);
    if (st)
        return st;
    if (rms)
        k->rmsnorm_f32(fy, sum, rows, n, gamma, eps);
    else
        k->layernorm_f32(fy, sum, rows, n, gamma, beta, eps);
    steno_ops_put_f32(y, fy);
    if (sum_out)
        steno_ops_put_f32(sum_out, sum);
    return STENO_OK;
}

static steno_status infer_skip(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    steno_dtype t = steno_infer_dtype(ic, 0);
    (void)err;
    steno_infer_set(ic, 0, t, &s);
    steno_infer_set(ic, 3, t, &s);
    if (s.rank > 0)
        s.dim[s.rank - 1] = 1;
    steno_infer_set(ic, 1, STENO_F32, &s);
    steno_infer_set(ic, 2, STENO_F32, &s);
    return STENO_OK;
}

/* ---- FusedMatMul ---- alpha * A' * B'. First transBatch moves axis 0 behind axis rank - 2, then
 * trans swaps the last two axes. */
static bool permutation(const struct steno_node *n, bool b, int rank, int *perm)
{
    bool batch = steno_node_int(n, b ? "transBatchB" : "transBatchA", 0) != 0;
    bool swap = steno_node_int(n, b ? "transB" : "transA", 0) != 0;
    bool moved = false;
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    if (batch && rank > 2) {
        for (int i = 0; i < rank - 2; i++)
            perm[i] = i + 1;
        perm[rank - 2] = 0;
        moved = true;
    }
    if (swap && rank > 1) {
        int last = perm[rank - 1];
        perm[rank - 1] = perm[rank - 2];
        perm[rank - 2] = last;
        moved = true;
    }
    return moved;
}

static struct steno_shape permuted(const struct steno_node *n, bool b, const struct steno_shape *s,
                                   int *perm)
{
    struct steno_shape r = *s;
    (void)permutation(n, b, s->rank, perm);
    for (int i = 0; i < s->rank; i++)
        r.dim[i] = s->dim[perm[i]];
    return r;
}

static steno_status infer_fused_matmul(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_shape a = steno_infer_shape(ic, 0), b = steno_infer_shape(ic, 1);
    int perm[STENO_MAX_RANK];
    if (a.rank >= 0 && b.rank >= 0) {
        a = permuted(n, false, &a, perm);
        b = permuted(n, true, &b, perm);
    }
    return steno_matmul_infer(ic, &a, &b, steno_infer_dtype(ic, 0), err);
}

/* *swapped: the last two axes of B are left as they are. */
static const float *factor(struct steno_op_ctx *ctx, bool b, struct steno_shape *s, bool *swapped)
{
    const struct steno_tensor *t = steno_op_in(ctx, b);
    int perm[STENO_MAX_RANK];
    const float *f = steno_ops_as_f32(ctx, t);
    float *to;
    *s = permuted(steno_op_node(ctx), b, &t->shape, perm);
    if (!f || !permutation(steno_op_node(ctx), b, t->shape.rank, perm))
        return f;
    if (b && t->shape.rank > 1 && !steno_node_int(steno_op_node(ctx), "transBatchB", 0)) {
        *swapped = true;
        return f;
    }
    to = steno_op_scratch(ctx, steno_numel(t) * sizeof *to + 1);
    if (to)
        steno_ops_transpose(&t->shape, perm, sizeof *to, to, f);
    return to;
}

static steno_status run_fused_matmul(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_gemm_epilogue ep = {.alpha = steno_node_float(steno_op_node(ctx), "alpha", 1)};
    struct steno_shape sa, sb;
    struct steno_matmul p;
    struct steno_tensor *y;
    const float *a, *b;
    const char *wrong;
    float *fy;
    bool swapped = false;
    steno_status st;
    if (!steno_ops_f32_or_half(steno_op_in(ctx, 0)->dtype) ||
        steno_op_in(ctx, 1)->dtype != steno_op_in(ctx, 0)->dtype)
        return steno_ops_bad_type(ctx, err, steno_op_in(ctx, 0)->dtype);
    a = factor(ctx, false, &sa, NULL);
    b = factor(ctx, true, &sb, &swapped);
    if (!a || !b)
        return steno_ops_nomem(ctx, err);
    wrong = steno_matmul_plan(&sa, &sb, &p);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    p.b_transposed = swapped;
    st = steno_op_out(ctx, 0, steno_op_in(ctx, 0)->dtype, &p.out, &y, err);
    if (st || !steno_numel(y))
        return st;
    fy = steno_ops_out_f32(ctx, y);
    if (!fy)
        return steno_ops_nomem(ctx, err);
    st = steno_ops_matmul_f32(ctx, &p, a, b, fy, &ep, err);
    if (!st)
        steno_ops_put_f32(y, fy);
    return st;
}

#define MS(TYPE, FLAGS, INFER, RUN)                                                                \
    {                                                                                              \
        "com.microsoft", TYPE, 1, 0, FLAGS, INFER, NULL, NULL, RUN                                 \
    }

const struct steno_op steno_ops_ms[] = {
    MS("Gelu", STENO_OP_INPLACE0, steno_ops_infer_same, run_gelu),
    MS("BiasGelu", STENO_OP_INPLACE0, steno_ops_infer_same, run_gelu),
    MS("FastGelu", STENO_OP_INPLACE0, steno_ops_infer_same, run_gelu),
    MS("QuickGelu", STENO_OP_INPLACE0, steno_ops_infer_same, run_gelu),
    MS("SkipLayerNormalization", 0, infer_skip, run_skip),
    MS("SkipSimplifiedLayerNormalization", 0, infer_skip, run_skip),
    MS("FusedMatMul", 0, infer_fused_matmul, run_fused_matmul),
    {0},
};
