/* Where, Clip. */
#include "nn/ops/internal.h"
#include "nn/ops/families.h"

#include <math.h>

/* ---- Where ---- */
#define WHERE(NAME, T)                                                                             \
    static void NAME(const struct steno_broadcast *b, void *yv, const uint8_t *c, const void *xv,  \
                     const void *zv)                                                               \
    {                                                                                              \
        struct steno_broadcast_pos p;                                                              \
        T *y = yv;                                                                                 \
        steno_broadcast_start(b, &p, 0);                                                           \
        for (size_t r = 0; r < b->rows; r++, y += b->row) {                                        \
            const uint8_t *pc = c + p.at[0];                                                       \
            const T *px = (const T *)xv + p.at[1], *pz = (const T *)zv + p.at[2];                  \
            size_t sc = b->row_step[0], sx = b->row_step[1], sz = b->row_step[2];                  \
            /* one condition for the row, which is copied: a mask of lengths */                    \
            const bool copy = !sc && b->row && (*pc ? sx : sz);                                    \
            if (copy)                                                                              \
                memcpy(y, *pc ? px : pz, b->row * sizeof(T));                                      \
            for (size_t i = 0; !copy && i < b->row; i++)                                           \
                y[i] = pc[i * sc] ? px[i * sx] : pz[i * sz];                                       \
            steno_broadcast_next(b, &p);                                                           \
        }                                                                                          \
    }
WHERE(where1, uint8_t)
WHERE(where2, uint16_t)
WHERE(where4, uint32_t)
WHERE(where8, uint64_t)

/* By the size of an element. */
static void (*const where[])(const struct steno_broadcast *b, void *y, const uint8_t *c,
                             const void *x, const void *z) = {
    [1] = where1, [2] = where2, [4] = where4, [8] = where8};

static steno_status run_where(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *c = steno_op_in(ctx, 0), *x = steno_op_in(ctx, 1),
                              *z = steno_op_in(ctx, 2);
    const struct steno_shape *in[3];
    struct steno_shape s;
    struct steno_tensor *y;
    struct steno_broadcast b;
    steno_status st = steno_ops_bshape(ctx, 3, &s, err);
    if (st)
        return st;
    if (c->dtype != STENO_BOOL || x->dtype != z->dtype || !steno_dtype_is_element(x->dtype))
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT,
                             "the inputs must be bool and two of one type, not %s, %s, %s",
                             steno_dtype_name(c->dtype), steno_dtype_name(x->dtype),
                             steno_dtype_name(z->dtype));
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st)
        return st;
    in[0] = &c->shape;
    in[1] = &x->shape;
    in[2] = &z->shape;
    steno_broadcast_init(&b, &s, in, 3);
    where[steno_dtype_size(x->dtype)](&b, y->data, c->data, x->data, z->data);
    return STENO_OK;
}

static steno_status infer_where(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s;
    steno_dtype t = steno_infer_dtype(ic, 1);
    steno_status st = steno_ops_infer_bshape(ic, 0, 2, &s, err);
    if (!st)
        steno_infer_set(ic, 0, t ? t : steno_infer_dtype(ic, 2), &s);
    return st;
}

/* ---- Clip ---- if min is above max, the result is max (ONNX: min(max(x, lo), hi)). */
struct bounds {
    bool has_lo, has_hi;
    double lo, hi;    /* float types */
    int64_t ilo, ihi; /* integer types; u64 as its bits */
};

#define CLIP(TAG, T, FIELD_LO, FIELD_HI)                                                           \
    static void clip_##TAG(void *yv, const void *xv, size_t n, const struct bounds *k)             \
    {                                                                                              \
        T *y = yv, lo = (T)k->FIELD_LO, hi = (T)k->FIELD_HI;                                       \
        const T *x = xv;                                                                           \
        for (size_t i = 0; i < n; i++) {                                                           \
            T v = x[i];                                                                            \
            v = k->has_lo && v < lo ? lo : v;                                                      \
            y[i] = k->has_hi && v > hi ? hi : v;                                                   \
        }                                                                                          \
    }
CLIP(f32, float, lo, hi)
CLIP(f64, double, lo, hi)
CLIP(i8, int8_t, ilo, ihi)
CLIP(i16, int16_t, ilo, ihi)
CLIP(i32, int32_t, ilo, ihi)
CLIP(i64, int64_t, ilo, ihi)
CLIP(u8, uint8_t, ilo, ihi)
CLIP(u16, uint16_t, ilo, ihi)
CLIP(u32, uint32_t, ilo, ihi)
CLIP(u64, uint64_t, ilo, ihi)

static void (*const clips[])(void *y, const void *x, size_t n, const struct bounds *k) = {
    [STENO_F32] = clip_f32, [STENO_F64] = clip_f64, [STENO_I8] = clip_i8, [STENO_I16] = clip_i16,
    [STENO_I32] = clip_i32, [STENO_I64] = clip_i64, [STENO_U8] = clip_u8, [STENO_U16] = clip_u16,
    [STENO_U32] = clip_u32, [STENO_U64] = clip_u64};

static void clip_half(uint16_t *y, const uint16_t *x, steno_dtype t, size_t n,
                      const struct bounds *k)
{
    float v;
    for (size_t i = 0; i < n; i++) {
        steno_ops_load_f32(&v, x + i, t, 1);
        clip_f32(&v, &v, 1, k);
        steno_ops_store_f32(y + i, t, &v, 1);
    }
}

static steno_status bound(struct steno_op_ctx *ctx, int in, const char *attr, steno_dtype dtype,
                          bool *has, double *f, int64_t *i, steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, in);
    const struct steno_attr *a = steno_node_attr(steno_op_node(ctx), attr);
    if (t) {
        if (steno_numel(t) != 1 || t->dtype != dtype)
            return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "%s must be one %s number", attr,
                                 steno_dtype_name(dtype));
        *f = steno_ops_get_f64(t, 0);
        *i = steno_ops_get_i64(t, 0);
    } else if (a && a->kind == STENO_ATTR_FLOAT) {
        *f = (double)a->f;
        *i = a->f >= 0x1p63f ? INT64_MAX : a->f < -0x1p63f ? INT64_MIN : (int64_t)a->f;
    }
    *has = t || a;
    return STENO_OK;
}

static steno_status run_clip(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    struct bounds k = {0};
    size_t n;
    steno_status st;
    if (!steno_ops_is_float(x->dtype) && !steno_ops_is_int(x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    st = bound(ctx, 1, "min", x->dtype, &k.has_lo, &k.lo, &k.ilo, err);
    if (!st)
        st = bound(ctx, 2, "max", x->dtype, &k.has_hi, &k.hi, &k.ihi, err);
    if (!st)
        st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    if (st)
        return st;
    n = steno_numel(x);
    if (x->dtype == STENO_F32 && k.has_lo && k.has_hi)
        steno_op_kernels(ctx)->clip_f32(y->data, x->data, n, (float)k.lo, (float)k.hi);
    else if (steno_ops_is_half(x->dtype))
        clip_half(y->data, x->data, x->dtype, n, &k);
    else
        clips[x->dtype](y->data, x->data, n, &k);
    return STENO_OK;
}

const struct steno_op steno_ops_where[] = {
    {"", "Where", 9, 0, 0, infer_where, NULL, NULL, run_where},
    {"", "Clip", 6, 0, STENO_OP_INPLACE0, steno_ops_infer_same, NULL, NULL, run_clip},
    {0},
};
