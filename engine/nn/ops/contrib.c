#include "nn/ops/contrib.h"

#include <math.h>

static float byte_at(const struct steno_tensor *t, size_t i)
{
    const uint8_t *u = t->data;
    return t->dtype == STENO_U8 ? (float)u[i] : (float)(int8_t)u[i];
}

bool steno_int8_steps(size_t n, size_t matrices, size_t cols, size_t *per_matrix, size_t *per_col)
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
    if (!steno_dtype_is_byte(w->q->dtype) || w->scale->dtype != STENO_F32 ||
        (w->zero && w->zero->dtype != w->q->dtype))
        return "weights must be u8 or i8, their scale f32, their zero point of the weights' type";
    if (rank < 1)
        return "weights are a scalar";
    cols = (size_t)w->q->shape.dim[rank - 1];
    matrices = rank > 2 ? steno_ops_prod(&w->q->shape, 0, rank - 2) : 1;
    if (!steno_int8_steps(steno_numel(w->scale), matrices, cols, &m, &c) ||
        (w->zero && !steno_int8_steps(steno_numel(w->zero), matrices, cols, &m, &c)))
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
    (void)steno_int8_steps(steno_numel(w->scale), matrices, cols, &sm, &sc);
    if (w->zero)
        (void)steno_int8_steps(steno_numel(w->zero), matrices, cols, &zm, &zc);
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
    (void)steno_int8_steps(steno_numel(w->scale), matrices, cols, &sm, &sc);
    if (w->zero)
        (void)steno_int8_steps(steno_numel(w->zero), matrices, cols, &zm, &zc);
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

static const struct {
    const char *name;
    enum steno_activation act; /* NONE: no epilogue has it */
    float a, b;                /* defaults of the parameters */
} fused_acts[] = {
    {"", STENO_ACT_NONE, 0, 0},
    {"Relu", STENO_ACT_RELU, 0, 0},
    {"Sigmoid", STENO_ACT_SIGMOID, 0, 0},
    {"Tanh", STENO_ACT_TANH, 0, 0},
    {"Swish", STENO_ACT_SILU, 0, 0},
    {"Gelu", STENO_ACT_GELU, 0, 0},
    {"Clip", STENO_ACT_CLIP, -INFINITY, INFINITY},
    {"HardSigmoid", STENO_ACT_HARD_SIGMOID, 0.2f, 0.5f},
    {"HardSwish", STENO_ACT_HARD_SWISH, 0, 0},
    {"LeakyRelu", STENO_ACT_LEAKY_RELU, 0.01f, 0},
    {"Elu", STENO_ACT_ELU, 1, 1},
    {"Softplus", STENO_ACT_SOFTPLUS, 0, 0},
    {"Softsign", STENO_ACT_SOFTSIGN, 0, 0},
    {"ThresholdedRelu", STENO_ACT_NONE, 1, 0},
};

bool steno_ops_fused_act_of(const struct steno_node *n, enum steno_activation *act, float p[2])
{
    const char *name = steno_node_str(n, "activation", "");
    for (size_t i = 0; i < sizeof fused_acts / sizeof *fused_acts; i++)
        if (!strcmp(name, fused_acts[i].name)) {
            *act = fused_acts[i].act;
            p[0] = act_param(n, 0, fused_acts[i].a);
            p[1] = *act == STENO_ACT_ELU ? 1 : act_param(n, 1, fused_acts[i].b);
            return true;
        }
    return false;
}

steno_status steno_ops_fused_act(const struct steno_op_ctx *ctx, float *x, size_t n, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    const steno_kernels *k = steno_op_kernels(ctx);
    const char *name = steno_node_str(node, "activation", "");
    enum steno_activation act;
    float p[2];
    if (!steno_ops_fused_act_of(node, &act, p))
        return steno_op_fail(ctx, err, STENO_ERR_UNSUPPORTED, "activation '%s' is not supported",
                             name);
    if (!strcmp(name, "ThresholdedRelu"))
        k->thresholded_relu_f32(x, x, n, p[0], 0);
    else
        steno_ops_activate(k, act, p[0], p[1], x, n);
    return STENO_OK;
}
