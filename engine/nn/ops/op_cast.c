/* Cast, CastLike, BitCast.
 *
 * To a float type: round to nearest even. Float to integer: truncate towards zero; numbers out of
 * range saturate and NaN gives 0 (ONNX leaves both undefined). Integer to integer: modulo 2^bits.
 * To bool: everything but zero is true, NaN too. */
#include "nn/ops/internal.h"
#include "nn/ops/families.h"

#define CHUNK 512

/* dst and src must not overlap. */
static void convert(void *dst, steno_dtype to, const void *src, steno_dtype from, size_t n)
{
    double f[CHUNK];
    int64_t v[CHUNK];
    size_t ds = steno_dtype_size(to), ss = steno_dtype_size(from);
    bool ints = !steno_ops_is_float(from) && !steno_ops_is_float(to);
    if (from == to) {
        memcpy(dst, src, n * ds);
    } else if (to == STENO_F32) {
        steno_ops_load_f32(dst, src, from, n);
    } else if (to == STENO_F64) {
        steno_ops_load_f64(dst, src, from, n);
    } else {
        for (size_t i = 0; i < n; i += CHUNK) {
            size_t k = n - i < CHUNK ? n - i : CHUNK;
            const char *s = (const char *)src + i * ss;
            char *d = (char *)dst + i * ds;
            if (!ints) {
                steno_ops_load_f64(f, s, from, k);
                steno_ops_store_f64(d, to, f, k);
                continue;
            }
            steno_ops_load_i64(v, s, from, k);
            for (size_t j = 0; j < k; j++) {
                if (to == STENO_BOOL)
                    v[j] = v[j] != 0;
                memcpy(d + j * ds, &v[j], ds); /* the low bytes; hosts are little-endian */
            }
        }
    }
}

static steno_dtype target(const struct steno_node *n, steno_dtype like)
{
    return !strcmp(n->op_type, "CastLike") ? like
                                           : (steno_dtype)steno_node_int(n, "to", STENO_DT_NONE);
}

static steno_status run_cast(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    bool like = !strcmp(node->op_type, "CastLike");
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    steno_dtype to;
    steno_status st;
    to = target(node, like ? steno_op_in(ctx, 1)->dtype : STENO_DT_NONE);
    if (!steno_dtype_is_element(to))
        return steno_ops_bad_type(ctx, err, to);
    if (!steno_dtype_is_element(x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    st = steno_op_out(ctx, 0, to, &x->shape, &y, err);
    if (!st)
        convert(y->data, to, x->data, x->dtype, steno_numel(x));
    return st;
}

static steno_status infer_cast(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    (void)err;
    steno_infer_set(ic, 0, target(steno_infer_node(ic), steno_infer_dtype(ic, 1)), &s);
    return STENO_OK;
}

static steno_status run_bitcast(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    steno_dtype to = target(steno_op_node(ctx), STENO_DT_NONE);
    steno_status st;
    if (!steno_dtype_is_element(to) || steno_dtype_size(to) != steno_dtype_size(x->dtype))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s and %s differ in size",
                             steno_dtype_name(x->dtype), steno_dtype_name(to));
    st = steno_op_out(ctx, 0, to, &x->shape, &y, err);
    if (!st)
        memcpy(y->data, x->data, steno_numel(x) * steno_dtype_size(to));
    return st;
}

const struct steno_op steno_ops_cast[] = {
    {"", "Cast", 6, 0, 0, infer_cast, NULL, NULL, run_cast},
    {"", "CastLike", 15, 0, 0, infer_cast, NULL, NULL, run_cast},
    {"", "BitCast", 26, 0, 0, infer_cast, NULL, NULL, run_bitcast},
    {0},
};
