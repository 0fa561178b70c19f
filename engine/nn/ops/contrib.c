#include "nn/ops/contrib.h"

#include <math.h>

static bool is_byte(steno_dtype t)
{
    return t == STENO_U8 || t == STENO_I8;
}

static float byte_at(const struct steno_tensor *t, size_t i)
{
    const uint8_t *u = t->data;
    return t->dtype == STENO_U8 ? (float)u[i] : (float)(int8_t)u[i];
}

/* The steps by which a parameter of n entries goes over `matrices` matrices of `cols` columns. */
static bool steps(size_t n, size_t matrices, size_t cols, size_t *per_matrix, size_t *per_col)
{
    *per_matrix = *per_col = 0;
    if (n == 1)
        return true;
    if (n == cols || n == matrices * cols)
        *per_col = 1;
    if (n == matrices * cols)
        *per_matrix = cols;
    else if (n == matrices && !*per_col)
        *per_matrix = 1;
    return *per_col || *per_matrix;
}

const char *steno_int8_check(const struct steno_int8 *w)
{
    size_t cols, matrices, m, c;
    int rank = w->q->shape.rank;
    if (!is_byte(w->q->dtype) || w->scale->dtype != STENO_F32 ||
        (w->zero && w->zero->dtype != w->q->dtype))
        return "weights must be u8 or i8, their scale f32, their zero point of the weights' type";
    if (rank < 1)
        return "weights are a scalar";
    cols = (size_t)w->q->shape.dim[rank - 1];
    matrices = rank > 2 ? steno_ops_prod(&w->q->shape, 0, rank - 2) : 1;
    if (!steps(steno_numel(w->scale), matrices, cols, &m, &c) ||
        (w->zero && !steps(steno_numel(w->zero), matrices, cols, &m, &c)))
        return "scale or zero point do not fit the weights";
    return NULL;
}

void steno_int8_widen(const struct steno_int8 *w, float *out)
{
    const struct steno_shape *s = &w->q->shape;
    size_t cols = (size_t)s->dim[s->rank - 1], i = 0, sm, sc, zm = 0, zc = 0;
    size_t rows = s->rank > 1 ? (size_t)s->dim[s->rank - 2] : 1;
    size_t matrices = s->rank > 2 ? steno_ops_prod(s, 0, s->rank - 2) : 1;
    const float *scale = w->scale->data;
    if (!steno_numel(w->q))
        return;
    (void)steps(steno_numel(w->scale), matrices, cols, &sm, &sc);
    if (w->zero)
        (void)steps(steno_numel(w->zero), matrices, cols, &zm, &zc);
    for (size_t m = 0; m < matrices; m++)
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < cols; c++, i++)
                out[i] = (byte_at(w->q, i) - (w->zero ? byte_at(w->zero, m * zm + c * zc) : 0)) *
                         scale[m * sm + c * sc];
}

steno_status steno_int8_spread(struct steno_op_ctx *ctx, const struct steno_int8 *w,
                               const struct steno_shape *shape, float with, const float **scale,
                               size_t *step, struct steno_tensor *zero, steno_err *err)
{
    size_t cols = (size_t)shape->dim[shape->rank - 1], sm, sc, zm = 0, zc = 0;
    size_t matrices = shape->rank > 2 ? steno_ops_prod(shape, 0, shape->rank - 2) : 1, n;
    float *s;
    uint8_t *z;
    (void)steps(steno_numel(w->scale), matrices, cols, &sm, &sc);
    if (w->zero)
        (void)steps(steno_numel(w->zero), matrices, cols, &zm, &zc);
    n = (sm || zm ? matrices : 1) * cols;
    s = steno_op_scratch(ctx, (n + 1) * sizeof *s);
    z = steno_op_scratch(ctx, n + 1);
    if (!s || !z)
        return steno_ops_nomem(ctx, err);
    for (size_t i = 0; i < n; i++) {
        s[i] = with * ((const float *)w->scale->data)[i / cols * sm + i % cols * sc];
        z[i] = w->zero ? ((const uint8_t *)w->zero->data)[i / cols * zm + i % cols * zc] : 0;
    }
    *scale = s;
    *step = n > cols ? cols : 0;
    if (w->zero)
        *zero = (struct steno_tensor){w->zero->dtype, {.rank = 1, .dim = {(int64_t)n}}, z};
    return STENO_OK;
}

steno_status steno_int8_scratch(struct steno_op_ctx *ctx, const struct steno_int8 *w,
                                const float **out, steno_err *err)
{
    const char *wrong = steno_int8_check(w);
    float *f;
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    f = steno_op_scratch(ctx, (steno_numel(w->q) + 1) * sizeof *f);
    if (!f)
        return steno_ops_nomem(ctx, err);
    steno_int8_widen(w, f);
    *out = f;
    return STENO_OK;
}

float steno_contrib_dynamic(const steno_kernels *k, const float *x, size_t n, float *y)
{
    float lo, hi, scale, zero;
    if (!n)
        return 1;
    lo = fminf(0, k->min_reduce_f32(x, n));
    hi = fmaxf(0, k->max_reduce_f32(x, n));
    scale = (hi - lo) / 255;
    if (!(scale > 0)) /* all zeros: any scale gives the same result */
        scale = 1;
    zero = rintf(fminf(255, fmaxf(0, -lo / scale)));
    for (size_t i = 0; i < n; i++) {
        float v = rintf(x[i] / scale) + zero;
        y[i] = (v > 0 ? (v < 255 ? v : 255) : 0) - zero; /* NaN gives 0 - zero */
    }
    return scale;
}

/* Parameter i of the activation: from the list, or by its own name, or the operator's default. */
static float act_param(const struct steno_node *n, int i, float otherwise)
{
    static const char *const names[] = {"activation_alpha", "activation_beta"};
    const struct steno_attr *list = steno_node_attr(n, "activation_params");
    if (list && list->kind == STENO_ATTR_FLOATS && (size_t)i < list->n)
        return list->floats[i];
    return steno_node_float(n, names[i], otherwise);
}

bool steno_ops_fused_act_known(const char *name)
{
    static const char *const names[] = {"",          "Relu",        "Sigmoid",         "Tanh",
                                        "Clip",      "HardSigmoid", "LeakyRelu",       "Elu",
                                        "Softplus",  "Softsign",    "ThresholdedRelu", "Swish",
                                        "HardSwish", "Gelu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

static bool simple_act(const steno_kernels *k, const char *name, float *x, size_t n)
{
    if (!strcmp(name, "Relu"))
        k->relu_f32(x, x, n);
    else if (!strcmp(name, "Sigmoid"))
        k->sigmoid_f32(x, x, n);
    else if (!strcmp(name, "Tanh"))
        k->tanh_f32(x, x, n);
    else if (!strcmp(name, "Swish"))
        k->silu_f32(x, x, n);
    else if (!strcmp(name, "Gelu"))
        k->gelu_f32(x, x, n);
    else
        return !*name;
    return true;
}

steno_status steno_ops_fused_act(const struct steno_op_ctx *ctx, float *x, size_t n, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    const steno_kernels *k = steno_op_kernels(ctx);
    const char *name = steno_node_str(node, "activation", "");
    float a;
    if (simple_act(k, name, x, n))
        return STENO_OK;
    if (!strcmp(name, "HardSigmoid")) {
        k->affine_f32(x, x, n, act_param(node, 0, 0.2f), act_param(node, 1, 0.5f));
        k->clip_f32(x, x, n, 0, 1);
    } else if (!strcmp(name, "Clip")) {
        k->clip_f32(x, x, n, act_param(node, 0, -INFINITY), act_param(node, 1, INFINITY));
    } else if (!strcmp(name, "LeakyRelu")) {
        a = act_param(node, 0, 0.01f);
        for (size_t i = 0; i < n; i++)
            x[i] = x[i] < 0 ? a * x[i] : x[i];
    } else if (!strcmp(name, "Elu")) {
        a = act_param(node, 0, 1);
        for (size_t i = 0; i < n; i++)
            x[i] = x[i] < 0 ? a * expm1f(x[i]) : x[i];
    } else if (!strcmp(name, "ThresholdedRelu")) {
        a = act_param(node, 0, 1);
        for (size_t i = 0; i < n; i++)
            x[i] = x[i] > a ? x[i] : 0;
    } else if (!strcmp(name, "HardSwish")) {
        for (size_t i = 0; i < n; i++)
            x[i] *= fmaxf(0, fminf(1, x[i] / 6 + 0.5f));
    } else if (!strcmp(name, "Softplus")) {
        for (size_t i = 0; i < n; i++)
            x[i] = fmaxf(x[i], 0) + log1pf(expf(-fabsf(x[i])));
    } else if (!strcmp(name, "Softsign")) {
        for (size_t i = 0; i < n; i++)
            x[i] = x[i] / (1 + fabsf(x[i]));
    } else {
        return steno_op_fail(ctx, err, STENO_ERR_UNSUPPORTED, "activation '%s' is not supported",
                             name);
    }
    return STENO_OK;
}
