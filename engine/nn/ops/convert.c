/* Element types: half precision, conversion of arrays, tensors read as f32 or f64. */
#include "nn/kernels/half.h"
#include "nn/ops/internal.h"

#include <math.h>

bool steno_ops_is_int(steno_dtype t)
{
    switch (t) {
    case STENO_U8:
    case STENO_I8:
    case STENO_U16:
    case STENO_I16:
    case STENO_I32:
    case STENO_I64:
    case STENO_U32:
    case STENO_U64:
        return true;
    default:
        return false;
    }
}

float steno_ops_f16_to_f32(uint16_t h)
{
    return half_from_f16(h);
}

uint16_t steno_ops_f64_to_f16(double d)
{
    uint64_t u;
    uint16_t sign;
    double a = fabs(d), scaled;
    int e;
    memcpy(&u, &d, sizeof u);
    sign = (uint16_t)(u >> 48 & 0x8000u);
    if (isnan(d))
        return sign | 0x7e00;
    if (a >= 65520.0) /* halfway to 2^16 and above: infinity */
        return sign | 0x7c00;
    if (a < 0x1p-14) /* subnormal: a multiple of 2^-24; 1024 of them are the smallest normal */
        return sign | (uint16_t)nearbyint(a * 0x1p24);
    (void)frexp(a, &e);
    scaled = nearbyint(ldexp(a, 11 - e)); /* 1024..2048: the carry goes into the exponent */
    return sign | (uint16_t)(((unsigned)(e + 14) << 10) + (unsigned)scaled - 1024u);
}

uint16_t steno_ops_f32_to_f16(float f)
{
    return half_to_f16(f);
}

/* One loop for each pair of types. F is the floating type on one side. */
#define LOAD(T)                                                                                    \
    for (size_t i = 0; i < n; i++)                                                                 \
        dst[i] = TO(((const T *)src)[i]);                                                          \
    break
#define LOAD_ANY                                                                                   \
    switch (t) {                                                                                   \
    case STENO_F32:                                                                                \
        LOAD(float);                                                                               \
    case STENO_F64:                                                                                \
        LOAD(double);                                                                              \
    case STENO_U8:                                                                                 \
        LOAD(uint8_t);                                                                             \
    case STENO_I8:                                                                                 \
        LOAD(int8_t);                                                                              \
    case STENO_U16:                                                                                \
        LOAD(uint16_t);                                                                            \
    case STENO_I16:                                                                                \
        LOAD(int16_t);                                                                             \
    case STENO_I32:                                                                                \
        LOAD(int32_t);                                                                             \
    case STENO_I64:                                                                                \
        LOAD(int64_t);                                                                             \
    case STENO_U32:                                                                                \
        LOAD(uint32_t);                                                                            \
    case STENO_U64:                                                                                \
        LOAD(uint64_t);                                                                            \
    case STENO_BOOL:                                                                               \
        for (size_t i = 0; i < n; i++)                                                             \
            dst[i] = ((const uint8_t *)src)[i] != 0;                                               \
        break;                                                                                     \
    case STENO_F16:                                                                                \
        for (size_t i = 0; i < n; i++)                                                             \
            dst[i] = TO(steno_ops_f16_to_f32(((const uint16_t *)src)[i]));                         \
        break;                                                                                     \
    case STENO_BF16:                                                                               \
        for (size_t i = 0; i < n; i++)                                                             \
            dst[i] = TO(steno_ops_bf16_to_f32(((const uint16_t *)src)[i]));                        \
        break;                                                                                     \
    default:                                                                                       \
        break;                                                                                     \
    }

void steno_ops_load_f32(float *dst, const void *src, steno_dtype t, size_t n)
{
#define TO(x) ((float)(x))
    if (t == STENO_F32) {
        memcpy(dst, src, n * sizeof *dst);
        return;
    }
    LOAD_ANY
#undef TO
}

void steno_ops_load_f64(double *dst, const void *src, steno_dtype t, size_t n)
{
#define TO(x) ((double)(x))
    LOAD_ANY
#undef TO
}

static int64_t to_i64(double d)
{
    if (isnan(d))
        return 0;
    return d >= 0x1p63 ? INT64_MAX : d < -0x1p63 ? INT64_MIN : (int64_t)d;
}

void steno_ops_load_i64(int64_t *dst, const void *src, steno_dtype t, size_t n)
{
    if (steno_ops_is_float(t)) {
        double d;
        size_t size = steno_dtype_size(t);
        for (size_t i = 0; i < n; i++) {
            steno_ops_load_f64(&d, (const char *)src + i * size, t, 1);
            dst[i] = to_i64(d);
        }
        return;
    }
#define TO(x) ((int64_t)(x))
    LOAD_ANY
#undef TO
}

static uint64_t to_u64(double d)
{
    return !(d > 0) ? 0 : d >= 0x1p64 ? UINT64_MAX : (uint64_t)d;
}

#define SAT(T, LO, HI)                                                                             \
    for (size_t i = 0; i < n; i++) {                                                               \
        double d = (double)src[i];                                                                 \
        ((T *)dst)[i] = isnan(d) ? 0 : d <= (LO) ? (T)(LO) : d >= (HI) ? (T)(HI) : (T)d;           \
    }                                                                                              \
    break
#define STORE_ANY(HALF)                                                                            \
    switch (t) {                                                                                   \
    case STENO_F32:                                                                                \
        for (size_t i = 0; i < n; i++)                                                             \
            ((float *)dst)[i] = (float)src[i];                                                     \
        break;                                                                                     \
    case STENO_F64:                                                                                \
        for (size_t i = 0; i < n; i++)                                                             \
            ((double *)dst)[i] = (double)src[i];                                                   \
        break;                                                                                     \
    case STENO_F16:                                                                                \
        for (size_t i = 0; i < n; i++)                                                             \
            ((uint16_t *)dst)[i] = HALF(src[i]);                                                   \
        break;                                                                                     \
    case STENO_BF16:                                                                               \
        for (size_t i = 0; i < n; i++)                                                             \
            ((uint16_t *)dst)[i] = steno_ops_f32_to_bf16((float)src[i]);                           \
        break;                                                                                     \
    case STENO_U8:                                                                                 \
        SAT(uint8_t, 0, UINT8_MAX);                                                                \
    case STENO_I8:                                                                                 \
        SAT(int8_t, INT8_MIN, INT8_MAX);                                                           \
    case STENO_U16:                                                                                \
        SAT(uint16_t, 0, UINT16_MAX);                                                              \
    case STENO_I16:                                                                                \
        SAT(int16_t, INT16_MIN, INT16_MAX);                                                        \
    case STENO_I32:                                                                                \
        SAT(int32_t, INT32_MIN, INT32_MAX);                                                        \
    case STENO_U32:                                                                                \
        SAT(uint32_t, 0, UINT32_MAX);                                                              \
    case STENO_I64:                                                                                \
        for (size_t i = 0; i < n; i++)                                                             \
            ((int64_t *)dst)[i] = to_i64((double)src[i]);                                          \
        break;                                                                                     \
    case STENO_U64:                                                                                \
        for (size_t i = 0; i < n; i++)                                                             \
            ((uint64_t *)dst)[i] = to_u64((double)src[i]);                                         \
        break;                                                                                     \
    case STENO_BOOL:                                                                               \
        for (size_t i = 0; i < n; i++)                                                             \
            ((uint8_t *)dst)[i] = src[i] != 0;                                                     \
        break;                                                                                     \
    default:                                                                                       \
        break;                                                                                     \
    }

void steno_ops_store_f32(void *dst, steno_dtype t, const float *src, size_t n)
{
    STORE_ANY(steno_ops_f32_to_f16)
}

void steno_ops_store_f64(void *dst, steno_dtype t, const double *src, size_t n)
{
    STORE_ANY(steno_ops_f64_to_f16)
}

double steno_ops_get_f64(const struct steno_tensor *t, size_t i)
{
    double d = 0;
    steno_ops_load_f64(&d, (const char *)t->data + i * steno_dtype_size(t->dtype), t->dtype, 1);
    return d;
}

void steno_ops_set_f64(struct steno_tensor *t, size_t i, double v)
{
    steno_ops_store_f64((char *)t->data + i * steno_dtype_size(t->dtype), t->dtype, &v, 1);
}

int64_t steno_ops_get_i64(const struct steno_tensor *t, size_t i)
{
    int64_t v = 0;
    steno_ops_load_i64(&v, (const char *)t->data + i * steno_dtype_size(t->dtype), t->dtype, 1);
    return v;
}

const float *steno_ops_as_f32(struct steno_op_ctx *ctx, const struct steno_tensor *t)
{
    size_t n = steno_numel(t);
    float *buf;
    if (t->dtype == STENO_F32)
        return t->data;
    buf = n > SIZE_MAX / sizeof *buf ? NULL : steno_op_scratch(ctx, n * sizeof *buf);
    if (buf)
        steno_ops_load_f32(buf, t->data, t->dtype, n);
    return buf;
}

const double *steno_ops_as_f64(struct steno_op_ctx *ctx, const struct steno_tensor *t)
{
    size_t n = steno_numel(t);
    double *buf;
    if (t->dtype == STENO_F64)
        return t->data;
    buf = n > SIZE_MAX / sizeof *buf ? NULL : steno_op_scratch(ctx, n * sizeof *buf);
    if (buf)
        steno_ops_load_f64(buf, t->data, t->dtype, n);
    return buf;
}

float *steno_ops_out_f32(struct steno_op_ctx *ctx, const struct steno_tensor *t)
{
    size_t n = steno_numel(t);
    if (t->dtype == STENO_F32)
        return t->data;
    return n > SIZE_MAX / sizeof(float) ? NULL : steno_op_scratch(ctx, n * sizeof(float));
}

double *steno_ops_out_f64(struct steno_op_ctx *ctx, const struct steno_tensor *t)
{
    size_t n = steno_numel(t);
    if (t->dtype == STENO_F64)
        return t->data;
    return n > SIZE_MAX / sizeof(double) ? NULL : steno_op_scratch(ctx, n * sizeof(double));
}

void steno_ops_put_f32(struct steno_tensor *t, const float *buf)
{
    if ((const void *)buf != t->data)
        steno_ops_store_f32(t->data, t->dtype, buf, steno_numel(t));
}

void steno_ops_put_f64(struct steno_tensor *t, const double *buf)
{
    if ((const void *)buf != t->data)
        steno_ops_store_f64(t->data, t->dtype, buf, steno_numel(t));
}

steno_status steno_ops_float_input(struct steno_op_ctx *ctx, const struct steno_tensor **x,
                                   const double **px, steno_err *err)
{
    *x = steno_op_in(ctx, 0);
    if (!steno_ops_is_float((*x)->dtype))
        return steno_ops_bad_type(ctx, err, (*x)->dtype);
    *px = steno_ops_as_f64(ctx, *x);
    return *px ? STENO_OK : steno_ops_nomem(ctx, err);
}

steno_status steno_ops_float_output(struct steno_op_ctx *ctx, steno_dtype t,
                                    const struct steno_shape *s, struct steno_tensor **y,
                                    double **py, steno_err *err)
{
    steno_status st = steno_op_out(ctx, 0, t, s, y, err);
    if (st)
        return st;
    *py = steno_ops_out_f64(ctx, *y);
    return *py ? STENO_OK : steno_ops_nomem(ctx, err);
}

steno_status steno_ops_nomem(const struct steno_op_ctx *ctx, steno_err *err)
{
    return steno_op_fail(ctx, err, STENO_ERR_NOMEM, "out of memory for scratch");
}

steno_status steno_ops_bad_type(const struct steno_op_ctx *ctx, steno_err *err, steno_dtype t)
{
    return steno_op_fail(ctx, err, STENO_ERR_UNSUPPORTED, "element type %s is not supported here",
                         steno_dtype_name(t));
}
