/* Elementwise functions of one input. f32 uses the kernel table, or libm in f64 for functions that
 * take no time in any model; f16 and bf16 are computed in f32 and rounded once; f64 uses libm. */
#include "nn/ops/internal.h"
#include "nn/ops/families.h"

#include <math.h>

#define GRAIN 16384 /* below this many elements a second thread costs more than it saves */
#define HALF_CHUNK 512

/* Attributes alpha, beta (gamma) of the function, defaults applied. */
struct unary_args {
    float a, b;
};

struct unary_row {
    const char *type;
    size_t kernel; /* offset of a steno_unary_f32 * in steno_kernels; 0: there is none */
    size_t curve;  /* or, if not 0, of a steno_curve_f32 * that takes a and b */
    double (*f64)(double x, const struct unary_args *u);
    float a, b; /* defaults of alpha and beta */
};

#define A64 ((double)u->a)
#define B64 ((double)u->b)

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static double gelu64(double x, bool tanh_form)
{
    if (tanh_form)
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    return 0.5 * x * (1 + erf(x * 0.7071067811865476));
}
static double clamp01(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}
static double sign64(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : x; /* NaN stays NaN */
}

#define SELU_ALPHA 1.67326319217681884765625f
#define SELU_GAMMA 1.05070102214813232421875f
#define SLOT(NAME) offsetof(steno_kernels, NAME)

/* X(operator, kernel, curve, alpha, beta, formula of x) */
/* clang-format off */
#define UNARY_OPERATORS(X) \
    X(Abs, SLOT(abs_f32), 0, 0, 0, fabs(x)) \
    X(Acos, 0, 0, 0, 0, acos(x)) \
    X(Acosh, 0, 0, 0, 0, acosh(x)) \
    X(Asin, 0, 0, 0, 0, asin(x)) \
    X(Asinh, 0, 0, 0, 0, asinh(x)) \
    X(Atan, 0, 0, 0, 0, atan(x)) \
    X(Atanh, 0, 0, 0, 0, atanh(x)) \
    X(Ceil, 0, 0, 0, 0, ceil(x)) \
    X(Celu, 0, SLOT(elu_f32), 1.0f, 0, x > 0 ? x : A64 * expm1(x / A64)) \
    X(Cos, 0, 0, 0, 0, cos(x)) \
    X(Cosh, 0, 0, 0, 0, cosh(x)) \
    X(Elu, 0, SLOT(elu_f32), 1.0f, 0, x > 0 ? x : A64 * expm1(x)) \
    X(Erf, SLOT(erf_f32), 0, 0, 0, erf(x)) \
    X(Exp, SLOT(exp_f32), 0, 0, 0, exp(x)) \
    X(Floor, 0, 0, 0, 0, floor(x)) \
    X(Gelu, SLOT(gelu_f32), 0, 0, 0, gelu64(x, u->a != 0)) \
    X(HardSigmoid, 0, SLOT(hard_sigmoid_f32), 0.2f, 0.5f, clamp01(A64 * x + B64)) \
    X(HardSwish, SLOT(hard_swish_f32), 0, 0, 0, x * clamp01(x / 6 + 0.5)) \
    X(LeakyRelu, 0, SLOT(leaky_relu_f32), 0.01f, 0, x < 0 ? A64 * x : x) \
    X(Log, SLOT(log_f32), 0, 0, 0, log(x)) \
    X(Mish, SLOT(mish_f32), 0, 0, 0, x * tanh(softplus(x))) \
    X(Neg, SLOT(neg_f32), 0, 0, 0, -x) \
    X(Reciprocal, SLOT(recip_f32), 0, 0, 0, 1 / x) \
    X(Relu, SLOT(relu_f32), 0, 0, 0, x > 0 || isnan(x) ? x : 0) \
    X(Round, 0, 0, 0, 0, nearbyint(x)) \
    X(Selu, 0, SLOT(elu_f32), SELU_ALPHA, SELU_GAMMA, B64 * (x > 0 ? x : A64 * expm1(x))) \
    X(Shrink, 0, 0, 0, 0.5f, x < -B64 ? x + A64 : x > B64 ? x - A64 : 0) \
    X(Sigmoid, SLOT(sigmoid_f32), 0, 0, 0, 1 / (1 + exp(-x))) \
    X(Sign, 0, 0, 0, 0, sign64(x)) \
    X(Sin, 0, 0, 0, 0, sin(x)) \
    X(Sinh, 0, 0, 0, 0, sinh(x)) \
    X(Softplus, SLOT(softplus_f32), 0, 0, 0, softplus(x)) \
    X(Softsign, SLOT(softsign_f32), 0, 0, 0, x / (1 + fabs(x))) \
    X(Sqrt, SLOT(sqrt_f32), 0, 0, 0, sqrt(x)) \
    X(Swish, SLOT(silu_f32), 0, 1.0f, 0, x / (1 + exp(-A64 * x))) \
    X(Tan, 0, 0, 0, 0, tan(x)) \
    X(Tanh, SLOT(tanh_f32), 0, 0, 0, tanh(x)) \
    X(ThresholdedRelu, 0, SLOT(thresholded_relu_f32), 1.0f, 0, x > A64 ? x : 0)
/* clang-format on */

#define FORMULA(TYPE, KERNEL, CURVE, A, B, EXPR)                                                   \
    static double TYPE##_f64(double x, const struct unary_args *u)                                 \
    {                                                                                              \
        (void)u;                                                                                   \
        return EXPR;                                                                               \
    }
UNARY_OPERATORS(FORMULA)

#define ROW(TYPE, KERNEL, CURVE, A, B, EXPR) {#TYPE, KERNEL, CURVE, TYPE##_f64, A, B},
static const struct unary_row rows[] = {UNARY_OPERATORS(ROW)};

static const struct unary_row *find_unary(const char *type)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(rows[i].type, type))
            return &rows[i];
    return NULL;
}

struct unary_job {
    const struct unary_row *row;
    struct unary_args args;
    const steno_kernels *k;
    bool gate; /* use steno_ops_gate_f32 */
    const void *x;
    void *y;
    steno_dtype dtype;
};

void steno_ops_gate_f32(const steno_kernels *k, float *y, const float *x, size_t n, float alpha,
                        float cubic)
{
    float t[HALF_CHUNK];
    for (size_t i = 0; i < n; i += HALF_CHUNK) {
        size_t m = n - i < HALF_CHUNK ? n - i : HALF_CHUNK;
        if (cubic != 0) {
            k->mul_f32(t, x + i, 1, x + i, 1, m);
            k->affine_f32(t, t, m, alpha * cubic, alpha);
            k->mul_f32(t, t, 1, x + i, 1, m);
        } else {
            k->affine_f32(t, x + i, m, alpha, 0);
        }
        k->sigmoid_f32(t, t, m);
        k->mul_f32(y + i, x + i, 1, t, 1, m);
    }
}

static steno_unary_f32 *slot_of(const steno_kernels *k, size_t offset)
{
    steno_unary_f32 *fn;
    memcpy(&fn, (const char *)k + offset, sizeof fn);
    return fn;
}

static steno_curve_f32 *curve_of(const steno_kernels *k, size_t offset)
{
    steno_curve_f32 *fn;
    memcpy(&fn, (const char *)k + offset, sizeof fn);
    return fn;
}

static void apply_exact(const struct unary_job *j, float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (float)j->row->f64((double)x[i], &j->args);
}

/* Elu, Celu, Selu in the parameters of elu_f32. */
static void apply_elu(const struct unary_job *j, float *y, const float *x, size_t n)
{
    const bool celu = j->row->type[0] == 'C', selu = j->row->type[0] == 'S';
    const float rate = celu ? 1 / j->args.a : 1;
    if (!(rate > 0)) { /* the kernel does not take it */
        apply_exact(j, y, x, n);
        return;
    }
    j->k->elu_f32(y, x, n, j->args.a, rate);
    if (selu)
        j->k->affine_f32(y, y, n, j->args.b, 0);
}

static void apply_f32(const struct unary_job *j, float *y, const float *x, size_t n)
{
    const bool gelu = j->row->type[0] == 'G';
    if (j->gate)
        steno_ops_gate_f32(j->k, y, x, n, gelu ? STENO_OPS_GELU_ALPHA : j->args.a,
                           gelu ? STENO_OPS_GELU_CUBIC : 0);
    else if (j->row->curve == SLOT(elu_f32))
        apply_elu(j, y, x, n);
    else if (j->row->curve)
        curve_of(j->k, j->row->curve)(y, x, n, j->args.a, j->args.b);
    else if (j->row->kernel)
        slot_of(j->k, j->row->kernel)(y, x, n);
    else
        apply_exact(j, y, x, n);
}

static void apply_f64(const struct unary_job *j, double *y, const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = j->row->f64(x[i], &j->args);
}

static void apply_half(const struct unary_job *j, uint16_t *y, const uint16_t *x, size_t n)
{
    float buf[HALF_CHUNK];
    for (size_t i = 0; i < n; i += HALF_CHUNK) {
        size_t k = n - i < HALF_CHUNK ? n - i : HALF_CHUNK;
        steno_ops_load_f32(buf, x + i, j->dtype, k);
        apply_f32(j, buf, buf, k);
        steno_ops_store_f32(y + i, j->dtype, buf, k);
    }
}

/* Abs, Neg, Sign, Relu of signed integers; the smallest number wraps around. Unsigned integers are
 * handled elsewhere. */
#define INT_APPLY(T, U)                                                                            \
    static void apply_##T(const struct unary_job *j, size_t begin, size_t n)                       \
    {                                                                                              \
        T *y = (T *)j->y + begin;                                                                  \
        const T *x = (const T *)j->x + begin;                                                      \
        switch (j->row->type[0]) {                                                                 \
        case 'A':                                                                                  \
            for (size_t i = 0; i < n; i++)                                                         \
                y[i] = x[i] < 0 ? (T)(U)(0 - (U)x[i]) : x[i];                                      \
            break;                                                                                 \
        case 'N':                                                                                  \
            for (size_t i = 0; i < n; i++)                                                         \
                y[i] = (T)(U)(0 - (U)x[i]);                                                        \
            break;                                                                                 \
        case 'R':                                                                                  \
            for (size_t i = 0; i < n; i++)                                                         \
                y[i] = x[i] > 0 ? x[i] : 0;                                                        \
            break;                                                                                 \
        default:                                                                                   \
            for (size_t i = 0; i < n; i++)                                                         \
                y[i] = (T)((x[i] > 0) - (x[i] < 0));                                               \
            break;                                                                                 \
        }                                                                                          \
    }
INT_APPLY(int8_t, uint8_t)
INT_APPLY(int16_t, uint16_t)
INT_APPLY(int32_t, uint32_t)
INT_APPLY(int64_t, uint64_t)

static void apply_unsigned(const struct unary_job *j, size_t begin, size_t n)
{
    size_t e = steno_dtype_size(j->dtype);
    char *y = (char *)j->y + begin * e;
    const char *x = (const char *)j->x + begin * e;
    if (strcmp(j->row->type, "Sign")) { /* Abs, Relu */
        memmove(y, x, n * e);
        return;
    }
    for (size_t i = 0; i < n; i++, y += e, x += e) {
        uint64_t v = 0;
        memcpy(&v, x, e); /* hosts are little-endian */
        v = v != 0;
        memcpy(y, &v, e);
    }
}

static void range(void *arg, size_t begin, size_t end)
{
    static void (*const ints[])(const struct unary_job *j, size_t begin, size_t n) = {
        [STENO_I8] = apply_int8_t,    [STENO_I16] = apply_int16_t, [STENO_I32] = apply_int32_t,
        [STENO_I64] = apply_int64_t,  [STENO_U8] = apply_unsigned, [STENO_U16] = apply_unsigned,
        [STENO_U32] = apply_unsigned, [STENO_U64] = apply_unsigned};
    const struct unary_job *j = arg;
    size_t n = end - begin;
    if (j->dtype == STENO_F32)
        apply_f32(j, (float *)j->y + begin, (const float *)j->x + begin, n);
    else if (j->dtype == STENO_F64)
        apply_f64(j, (double *)j->y + begin, (const double *)j->x + begin, n);
    else if (steno_ops_is_half(j->dtype))
        apply_half(j, (uint16_t *)j->y + begin, (const uint16_t *)j->x + begin, n);
    else
        ints[j->dtype](j, begin, n);
}

static bool unary_takes(const struct unary_row *row, steno_dtype t)
{
    return steno_ops_is_float(t) ||
           (steno_ops_is_int(t) && steno_op_type_in(row->type, "Abs Neg Sign Relu"));
}

/* alpha and beta, under the names that the operator uses. */
static struct unary_args arguments(const struct steno_node *n, const struct unary_row *row)
{
    struct unary_args u;
    bool shrink = !strcmp(row->type, "Shrink");
    u.a = steno_node_float(n, shrink ? "bias" : "alpha", row->a);
    u.b = steno_node_float(n,
                           shrink                       ? "lambd"
                           : !strcmp(row->type, "Selu") ? "gamma"
                                                        : "beta",
                           row->b);
    if (!strcmp(row->type, "Gelu"))
        u.a = !strcmp(steno_node_str(n, "approximate", "none"), "tanh");
    return u;
}

static steno_status run_unary(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    struct unary_job j = {.row = find_unary(node->op_type)};
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    steno_status st;
    if (!unary_takes(j.row, x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    if (st)
        return st;
    j.args = arguments(node, j.row);
    j.k = steno_op_kernels(ctx);
    /* forms that the kernel slot does not have */
    j.gate = (!strcmp(node->op_type, "Gelu") && j.args.a != 0) ||
             (!strcmp(node->op_type, "Swish") && j.args.a != 1);
    j.x = x->data;
    j.y = y->data;
    j.dtype = x->dtype;
    steno_ops_ranges(ctx, steno_numel(x), GRAIN, range, &j);
    return STENO_OK;
}

/* ---- Not, BitwiseNot, IsNaN, IsInf ---- */
static steno_status run_not(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    bool bits = !strcmp(steno_op_node(ctx)->op_type, "BitwiseNot");
    size_t n;
    steno_status st;
    if (bits ? !steno_ops_is_int(x->dtype) : x->dtype != STENO_BOOL)
        return steno_ops_bad_type(ctx, err, x->dtype);
    st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    if (st)
        return st;
    n = steno_numel(x) * steno_dtype_size(x->dtype);
    for (size_t i = 0; i < n; i++) {
        uint8_t v = ((const uint8_t *)x->data)[i];
        ((uint8_t *)y->data)[i] = bits ? (uint8_t)~v : !v;
    }
    return STENO_OK;
}

static steno_status infer_bool(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    (void)err;
    steno_infer_set(ic, 0, STENO_BOOL, &s);
    return STENO_OK;
}

static steno_status run_is(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    bool nan = !strcmp(node->op_type, "IsNaN");
    bool pos = steno_node_int(node, "detect_positive", 1) != 0;
    bool neg = steno_node_int(node, "detect_negative", 1) != 0;
    size_t n;
    steno_status st;
    if (!steno_ops_is_float(x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    st = steno_op_out(ctx, 0, STENO_BOOL, &x->shape, &y, err);
    if (st)
        return st;
    n = steno_numel(x);
    for (size_t i = 0; i < n; i++) {
        double v = steno_ops_get_f64(x, i);
        ((uint8_t *)y->data)[i] = nan ? isnan(v) : isinf(v) && (v > 0 ? pos : neg);
    }
    return STENO_OK;
}

#define UNARY(TYPE, KERNEL, CURVE, A, B, EXPR)                                                     \
    {"", #TYPE, 1, 0, STENO_OP_INPLACE0, steno_ops_infer_same, NULL, NULL, run_unary},

/* clang-format off */
const struct steno_op steno_ops_unary[] = {
    UNARY_OPERATORS(UNARY)
    {"", "Not", 1, 0, STENO_OP_INPLACE0, steno_ops_infer_same, NULL, NULL, run_not},
    {"", "BitwiseNot", 18, 0, STENO_OP_INPLACE0, steno_ops_infer_same, NULL, NULL, run_not},
    {"", "IsNaN", 9, 0, 0, infer_bool, NULL, NULL, run_is},
    {"", "IsInf", 10, 0, 0, infer_bool, NULL, NULL, run_is},
    {0},
};
/* clang-format on */
