/* Elementwise functions of two inputs (and Max, Min, Sum, Mean of many) with broadcasting.
 *
 * A row function computes n results; each operand advances by 0 or 1 element. The broadcast
 * iterator calls it. Integer arithmetic wraps around. Division by zero gives 0, and the smallest
 * number divided by -1 gives itself: ONNX leaves both open, and a CPU trap must not end the
 * process. */
#include "nn/ops/internal.h"
#include "nn/ops/families.h"

#include <math.h>

#define GRAIN 16384
#define HALF_CHUNK 256

typedef void (*row_fn)(void *y, const void *a, size_t sa, const void *b, size_t sb, size_t n);

enum { N_TYPES = STENO_BF16 + 1 };

struct binary_row {
    const char *type;
    size_t kernel; /* offset of the steno_binary_f32 slot, 0 = none */
    bool compare;  /* the result is bool */
    row_fn fn[N_TYPES];
};

/* ---- row functions ---- */
#define DEF(NAME, TAG, T, R, EXPR)                                                                 \
    static void NAME##_##TAG(void *yv, const void *av, size_t sa, const void *bv, size_t sb,       \
                             size_t n)                                                             \
    {                                                                                              \
        R *y = yv;                                                                                 \
        const T *pa = av, *pb = bv;                                                                \
        for (size_t i = 0; i < n; i++) {                                                           \
            T a = pa[i * sa], b = pb[i * sb];                                                      \
            y[i] = (R)(EXPR);                                                                      \
        }                                                                                          \
    }
#define DEF_INTS(NAME, SIGNED, UNSIGNED)                                                           \
    DEF(NAME, i8, int8_t, int8_t, SIGNED)                                                          \
    DEF(NAME, i16, int16_t, int16_t, SIGNED)                                                       \
    DEF(NAME, i32, int32_t, int32_t, SIGNED)                                                       \
    DEF(NAME, i64, int64_t, int64_t, SIGNED)                                                       \
    DEF(NAME, u8, uint8_t, uint8_t, UNSIGNED)                                                      \
    DEF(NAME, u16, uint16_t, uint16_t, UNSIGNED)                                                   \
    DEF(NAME, u32, uint32_t, uint32_t, UNSIGNED)                                                   \
    DEF(NAME, u64, uint64_t, uint64_t, UNSIGNED)
#define DEF_ALL(NAME, FLOAT, DOUBLE, SIGNED, UNSIGNED)                                             \
    DEF(NAME, f32, float, float, FLOAT)                                                            \
    DEF(NAME, f64, double, double, DOUBLE)                                                         \
    DEF_INTS(NAME, SIGNED, UNSIGNED)
#define DEF_CMP(NAME, OP)                                                                          \
    DEF(NAME, f32, float, uint8_t, a OP b)                                                         \
    DEF(NAME, f64, double, uint8_t, a OP b)                                                        \
    DEF(NAME, i8, int8_t, uint8_t, a OP b)                                                         \
    DEF(NAME, i16, int16_t, uint8_t, a OP b)                                                       \
    DEF(NAME, i32, int32_t, uint8_t, a OP b)                                                       \
    DEF(NAME, i64, int64_t, uint8_t, a OP b)                                                       \
    DEF(NAME, u8, uint8_t, uint8_t, a OP b)                                                        \
    DEF(NAME, u16, uint16_t, uint8_t, a OP b)                                                      \
    DEF(NAME, u32, uint32_t, uint8_t, a OP b)                                                      \
    DEF(NAME, u64, uint64_t, uint8_t, a OP b)

#define U(x) ((uint64_t)(x))
#define SDIV(a, b) ((b) == 0 ? 0 : (b) == -1 ? (int64_t)(0 - U(a)) : (int64_t)(a) / (int64_t)(b))
#define UDIV(a, b) ((b) == 0 ? 0 : (a) / (b))
#define UMOD(a, b) ((b) == 0 ? 0 : (a) % (b))

/* The result has the sign of the divisor (Python) or, for fmod, of the dividend (C). */
static int64_t smod(int64_t a, int64_t b)
{
    int64_t r;
    if (b == 0 || b == -1)
        return 0;
    r = a % b;
    return r && (r < 0) != (b < 0) ? r + b : r;
}
static int64_t scmod(int64_t a, int64_t b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}
static double fmod_py(double a, double b)
{
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static uint64_t ushift(uint64_t a, uint64_t b, bool left)
{
    return b > 63 ? 0 : left ? a << b : a >> b;
}

#define NANMAX(a, b) ((a) > (b) || isnan(a) ? (a) : (b))
#define NANMIN(a, b) ((a) < (b) || isnan(a) ? (a) : (b))

DEF_ALL(add, a + b, a + b, U(a) + U(b), U(a) + U(b))
DEF_ALL(sub, a - b, a - b, U(a) - U(b), U(a) - U(b))
DEF_ALL(mul, a *b, a *b, U(a) * U(b), U(a) * U(b))
DEF_ALL(div, a / b, a / b, SDIV(a, b), UDIV(a, b))
DEF_ALL(max, NANMAX(a, b), NANMAX(a, b), a > b ? a : b, a > b ? a : b)
DEF_ALL(min, NANMIN(a, b), NANMIN(a, b), a < b ? a : b, a < b ? a : b)
DEF_ALL(mod, fmod_py((double)a, (double)b), fmod_py(a, b), smod(a, b), UMOD(a, b))
DEF_ALL(fmod, fmodf(a, b), fmod(a, b), scmod(a, b), UMOD(a, b))
DEF(prelu, f32, float, float, a < 0 ? a * b : a)
DEF(prelu, f64, double, double, a < 0 ? a * b : a)
DEF_INTS(prelu, a < 0 ? U(a) * U(b) : U(a), ((void)b, a))
DEF_INTS(and, a &b, a &b)
DEF_INTS(or, a | b, a | b)
DEF_INTS(xor, a ^ b, a ^ b)
DEF_INTS(shl, ushift(U(a), U(b), true), ushift(a, b, true))
/* Arithmetic shift for signed numbers: a shift past the width gives the sign. */
#define SSHR(a, b) ((a) >> ((b) < 0 || (b) > 62 ? 63 : (b)))
DEF_INTS(shr, SSHR((int64_t)a, b), ushift(a, b, false))
DEF_CMP(eq, ==)
DEF_CMP(lt, <)
DEF_CMP(le, <=)
DEF_CMP(gt, >)
DEF_CMP(ge, >=)
DEF(land, bool, uint8_t, uint8_t, a &&b)
DEF(lor, bool, uint8_t, uint8_t, a || b)
DEF(lxor, bool, uint8_t, uint8_t, !a != !b)
DEF(leq, bool, uint8_t, uint8_t, !a == !b)

#define INTS(N)                                                                                    \
    [STENO_I8] = N##_i8, [STENO_I16] = N##_i16, [STENO_I32] = N##_i32, [STENO_I64] = N##_i64,      \
    [STENO_U8] = N##_u8, [STENO_U16] = N##_u16, [STENO_U32] = N##_u32, [STENO_U64] = N##_u64
#define FLOATS(N) [STENO_F32] = N##_f32, [STENO_F64] = N##_f64
#define SLOT(NAME) offsetof(steno_kernels, NAME)

static const struct binary_row rows[] = {
    {"Add", SLOT(add_f32), false, {FLOATS(add), INTS(add)}},
    {"Sub", SLOT(sub_f32), false, {FLOATS(sub), INTS(sub)}},
    {"Mul", SLOT(mul_f32), false, {FLOATS(mul), INTS(mul)}},
    {"Div", SLOT(div_f32), false, {FLOATS(div), INTS(div)}},
    {"Max", SLOT(max_f32), false, {FLOATS(max), INTS(max)}},
    {"Min", SLOT(min_f32), false, {FLOATS(min), INTS(min)}},
    {"Sum", SLOT(add_f32), false, {FLOATS(add)}},
    {"Mean", SLOT(add_f32), false, {FLOATS(add)}},
    {"PRelu", 0, false, {FLOATS(prelu), INTS(prelu)}},
    {"BitwiseAnd", 0, false, {INTS(and)}},
    {"BitwiseOr", 0, false, {INTS(or)}},
    {"BitwiseXor", 0, false, {INTS(xor)}},
    {"Equal", 0, true, {FLOATS(eq), INTS(eq), [STENO_BOOL] = leq_bool}},
    {"Less", 0, true, {FLOATS(lt), INTS(lt)}},
    {"LessOrEqual", 0, true, {FLOATS(le), INTS(le)}},
    {"Greater", 0, true, {FLOATS(gt), INTS(gt)}},
    {"GreaterOrEqual", 0, true, {FLOATS(ge), INTS(ge)}},
    {"And", 0, true, {[STENO_BOOL] = land_bool}},
    {"Or", 0, true, {[STENO_BOOL] = lor_bool}},
    {"Xor", 0, true, {[STENO_BOOL] = lxor_bool}},
};
/* Chosen by an attribute. */
static const struct binary_row row_mod = {"Mod", 0, false, {FLOATS(mod), INTS(mod)}};
static const struct binary_row row_fmod = {"Mod", 0, false, {FLOATS(fmod), INTS(fmod)}};
static const struct binary_row row_shl = {"BitShift", 0, false, {INTS(shl)}};
static const struct binary_row row_shr = {"BitShift", 0, false, {INTS(shr)}};

static const struct binary_row *find_binary(const struct steno_node *n)
{
    if (!strcmp(n->op_type, "Mod"))
        return steno_node_int(n, "fmod", 0) ? &row_fmod : &row_mod;
    if (!strcmp(n->op_type, "BitShift"))
        return !strcmp(steno_node_str(n, "direction", "LEFT"), "LEFT") ? &row_shl : &row_shr;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(rows[i].type, n->op_type))
            return &rows[i];
    return NULL;
}

/* ---- one pair ---- */
struct pair {
    struct steno_broadcast b;
    row_fn fn;
    steno_binary_f32 *kernel; /* used instead of fn for f32 */
    bool half, compare;
    steno_dtype dtype;
    const char *x[2];
    char *y;
    size_t esize, out_size, chunk; /* chunk: longer rows are split between threads */
};

static void half_row(const struct pair *p, void *y, const uint16_t *a, size_t sa, const uint16_t *b,
                     size_t sb, size_t n)
{
    float fa[HALF_CHUNK], fb[HALF_CHUNK], *fy = fa;
    for (size_t i = 0; i < n; i += HALF_CHUNK) {
        size_t k = n - i < HALF_CHUNK ? n - i : HALF_CHUNK;
        steno_ops_load_f32(fa, a + i * sa, p->dtype, sa ? k : 1);
        steno_ops_load_f32(fb, b + i * sb, p->dtype, sb ? k : 1);
        if (p->compare) {
            p->fn((uint8_t *)y + i, fa, sa, fb, sb, k);
            continue;
        }
        float out[HALF_CHUNK];
        fy = out;
        p->fn(fy, fa, sa, fb, sb, k);
        steno_ops_store_f32((uint16_t *)y + i, p->dtype, fy, k);
    }
}

static void pair_row(const struct pair *p, char *y, const char *a, size_t sa, const char *b,
                     size_t sb, size_t n)
{
    if (p->half)
        half_row(p, y, (const void *)a, sa, (const void *)b, sb, n);
    else if (p->kernel)
        p->kernel((void *)y, (const void *)a, sa, (const void *)b, sb, n);
    else
        p->fn(y, a, sa, b, sb, n);
}

static void pair_rows(void *arg, size_t begin, size_t end)
{
    const struct pair *p = arg;
    const struct steno_broadcast *b = &p->b;
    struct steno_broadcast_pos at;
    if (b->rows == 1) { /* a single long row is split */
        size_t sa = b->row_step[0], sb = b->row_step[1];
        pair_row(p, p->y + begin * p->out_size, p->x[0] + begin * sa * p->esize, sa,
                 p->x[1] + begin * sb * p->esize, sb, end - begin);
        return;
    }
    steno_broadcast_start(b, &at, begin);
    for (size_t r = begin; r < end; r++) {
        pair_row(p, p->y + r * b->row * p->out_size, p->x[0] + at.at[0] * p->esize, b->row_step[0],
                 p->x[1] + at.at[1] * p->esize, b->row_step[1], b->row);
        steno_broadcast_next(b, &at);
    }
}

/* y = fn(a, b), where y has the broadcast shape of both. y may use the memory of a or b if that
 * operand has y's shape. */
static steno_status run_pair(struct steno_op_ctx *ctx, const struct binary_row *row,
                             const struct steno_tensor *a, const struct steno_tensor *b,
                             struct steno_tensor *y, steno_err *err)
{
    struct pair p = {.compare = row->compare, .dtype = a->dtype};
    const struct steno_shape *in[2] = {&a->shape, &b->shape};
    size_t n;
    p.half = steno_ops_is_half(a->dtype);
    if (a->dtype != b->dtype)
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "operands have different types, %s and %s",
                             steno_dtype_name(a->dtype), steno_dtype_name(b->dtype));
    p.fn = (unsigned)a->dtype < N_TYPES ? row->fn[p.half ? STENO_F32 : a->dtype] : NULL;
    if (!p.fn)
        return steno_ops_bad_type(ctx, err, a->dtype);
    if (row->kernel && a->dtype == STENO_F32)
        memcpy(&p.kernel, (const char *)steno_op_kernels(ctx) + row->kernel, sizeof p.kernel);
    p.x[0] = a->data;
    p.x[1] = b->data;
    p.y = y->data;
    p.esize = steno_dtype_size(a->dtype);
    p.out_size = steno_dtype_size(y->dtype);
    steno_broadcast_init(&p.b, &y->shape, in, 2);
    n = p.b.rows == 1 ? p.b.row : p.b.rows;
    steno_ops_ranges(ctx, n, p.b.rows == 1 ? GRAIN : GRAIN / (p.b.row ? p.b.row : 1) + 1, pair_rows,
                     &p);
    return STENO_OK;
}

static steno_status run_binary(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct binary_row *row = find_binary(steno_op_node(ctx));
    struct steno_shape s;
    struct steno_tensor *y;
    const struct steno_tensor *a = steno_op_in(ctx, 0), *b = steno_op_in(ctx, 1);
    steno_status st = steno_ops_bshape(ctx, 2, &s, err);
    if (st)
        return st;
    st = steno_op_out(ctx, 0, row->compare ? STENO_BOOL : a->dtype, &s, &y, err);
    return st ? st : run_pair(ctx, row, a, b, y, err);
}

/* PRelu: the slope broadcasts to the shape of x, but not the other way. */
static steno_status run_prelu(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_shape s;
    steno_status st = steno_ops_bshape(ctx, 2, &s, err);
    if (st)
        return st;
    if (!steno_shape_equal(&s, &steno_op_in(ctx, 0)->shape))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "the slope does not broadcast to the input");
    return run_binary(ctx, err);
}

/* Pow keeps the type of the base; the exponent may be of another type. */
static steno_status run_pow(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0), *e = steno_op_in(ctx, 1);
    const struct steno_shape *in[2];
    struct steno_shape s;
    struct steno_tensor *y;
    struct steno_broadcast b;
    struct steno_broadcast_pos at;
    steno_status st = steno_ops_bshape(ctx, 2, &s, err);
    if (st)
        return st;
    if ((!steno_ops_is_float(x->dtype) && !steno_ops_is_int(x->dtype)) ||
        (!steno_ops_is_float(e->dtype) && !steno_ops_is_int(e->dtype)))
        return steno_ops_bad_type(ctx, err, steno_ops_is_float(x->dtype) ? e->dtype : x->dtype);
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st)
        return st;
    if (x->dtype == STENO_F32 && steno_numel(e) == 1) { /* squares and roots, the common case */
        double k = steno_ops_get_f64(e, 0);
        const steno_kernels *kern = steno_op_kernels(ctx);
        if (k == 2.0) {
            kern->mul_f32(y->data, x->data, 1, x->data, 1, steno_numel(y));
            return STENO_OK;
        }
        if (k == 0.5) {
            kern->sqrt_f32(y->data, x->data, steno_numel(y));
            return STENO_OK;
        }
    }
    in[0] = &x->shape;
    in[1] = &e->shape;
    steno_broadcast_init(&b, &s, in, 2);
    steno_broadcast_start(&b, &at, 0);
    for (size_t r = 0; r < b.rows; r++) {
        for (size_t i = 0; i < b.row; i++) {
            size_t ix = at.at[0] + i * b.row_step[0], ie = at.at[1] + i * b.row_step[1];
            size_t size = steno_dtype_size(y->dtype);
            char *to = (char *)y->data + (r * b.row + i) * size;
            if (steno_ops_is_int(x->dtype) && steno_ops_is_int(e->dtype)) {
                int64_t n = steno_ops_get_i64(e, ie);
                uint64_t base = (uint64_t)steno_ops_get_i64(x, ix), v = 1;
                bool one = base == 1 || base == UINT64_MAX;
                if (n < 0)
                    v = one ? (n & 1 ? base : 1) : 0;
                else
                    for (; n; n >>= 1, base *= base)
                        v *= n & 1 ? base : 1;
                memcpy(to, &v, size);
            } else {
                double v = pow(steno_ops_get_f64(x, ix), steno_ops_get_f64(e, ie));
                steno_ops_store_f64(to, y->dtype, &v, 1);
            }
        }
        steno_broadcast_next(&b, &at);
    }
    return STENO_OK;
}

static steno_status infer_pow(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s;
    steno_status st = steno_ops_infer_bshape(ic, 0, 1, &s, err);
    if (!st)
        steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return st;
}

/* Max, Min, Sum, Mean of one or more inputs, in pairs from the left. A partial result goes into the
 * output where it already has the output's shape. */
static steno_status run_many(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct binary_row *row = find_binary(steno_op_node(ctx));
    int n_in = steno_op_n_in(ctx);
    struct steno_shape s;
    struct steno_tensor *y, acc;
    steno_status st;
    if (n_in < 1)
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "needs at least one input");
    st = steno_ops_bshape(ctx, n_in, &s, err);
    if (st)
        return st;
    acc = *steno_op_in(ctx, 0);
    st = steno_op_out(ctx, 0, acc.dtype, &s, &y, err);
    if (st)
        return st;
    if (n_in == 1) {
        memmove(y->data, acc.data, steno_numel(y) * steno_dtype_size(y->dtype));
        return STENO_OK;
    }
    for (int i = 1; i < n_in && !st; i++) {
        const struct steno_tensor *b = steno_op_in(ctx, i);
        struct steno_tensor next = *y;
        if (steno_shape_broadcast(&acc.shape, &b->shape, &next.shape))
            return STENO_ERR_INTERNAL;
        if (i < n_in - 1) /* a partial result may be read again at another shape: not in place */
            next.data = steno_op_scratch(ctx, steno_numel(&next) * steno_dtype_size(y->dtype));
        if (!next.data)
            return steno_ops_nomem(ctx, err);
        st = run_pair(ctx, row, &acc, b, &next, err);
        acc = next;
    }
    if (!st && !strcmp(row->type, "Mean")) {
        size_t n = steno_numel(y);
        double scale = 1.0 / n_in;
        if (y->dtype == STENO_F32)
            steno_op_kernels(ctx)->affine_f32(y->data, y->data, n, (float)scale, 0);
        else
            for (size_t i = 0; i < n; i++)
                steno_ops_set_f64(y, i, steno_ops_get_f64(y, i) * scale);
    }
    return st;
}

#define BOTH (STENO_OP_INPLACE0 | STENO_OP_INPLACE1)
#define ARITH(TYPE, SINCE)                                                                         \
    {                                                                                              \
        "", TYPE, SINCE, 0, BOTH, steno_ops_infer_broadcast, NULL, NULL, run_binary                \
    }
#define COMPARE(TYPE, SINCE)                                                                       \
    {                                                                                              \
        "", TYPE, SINCE, 0, 0, steno_ops_infer_compare, NULL, NULL, run_binary                     \
    }
#define VARIADIC(TYPE)                                                                             \
    {                                                                                              \
        "", TYPE, 6, 0, 0, steno_ops_infer_broadcast, NULL, NULL, run_many                         \
    }

const struct steno_op steno_ops_binary[] = {
    ARITH("Add", 7),
    ARITH("Sub", 7),
    ARITH("Mul", 7),
    ARITH("Div", 7),
    ARITH("Mod", 10),
    ARITH("BitShift", 11),
    ARITH("BitwiseAnd", 18),
    ARITH("BitwiseOr", 18),
    ARITH("BitwiseXor", 18),
    COMPARE("Equal", 7),
    COMPARE("Less", 7),
    COMPARE("LessOrEqual", 12),
    COMPARE("Greater", 7),
    COMPARE("GreaterOrEqual", 12),
    COMPARE("And", 7),
    COMPARE("Or", 7),
    COMPARE("Xor", 7),
    VARIADIC("Max"),
    VARIADIC("Min"),
    VARIADIC("Sum"),
    VARIADIC("Mean"),
    {"", "PRelu", 7, 0, STENO_OP_INPLACE0, steno_ops_infer_same, NULL, NULL, run_prelu},
    {"", "Pow", 7, 0, STENO_OP_INPLACE0, infer_pow, NULL, NULL, run_pow},
    {0},
};
