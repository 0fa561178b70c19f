/* Optional, OptionalGetElement, OptionalHasElement (opset 15+).
 *
 * An optional is a block of bytes, a tensor of rank 1: no bytes at all (none), a shape and the
 * elements of a tensor, or a sequence as nn/ops/op_sequence.c has it. The value's type is part of
 * the optional's. OptionalGetElement and OptionalHasElement take tensors and sequences too; an
 * optional input of a model is a tensor that the caller gives. */
#include "nn/ops/internal.h"
#include "nn/rare_ops/families.h"

#define MARK 0x6c616e6f6974706fu /* "optional" */

struct head {
    uint64_t mark;
    struct steno_shape shape;
};
#define HEAD ((sizeof(struct head) + STENO_ALIGN - 1) / STENO_ALIGN * STENO_ALIGN)

/* ---- Optional ---- */

/* The type of the value. Without an input it is the attribute (nn/onnx/attribute.c). */
static steno_dtype value_type(const struct steno_node *n, steno_dtype in)
{
    const steno_dtype t = in ? in : (steno_dtype)steno_node_int(n, "type", STENO_DT_NONE);
    return steno_dtype_is_optional(t) ? STENO_DT_NONE : t;
}

static steno_status infer_optional(struct steno_infer *ic, steno_err *err)
{
    const steno_dtype t = value_type(steno_infer_node(ic), steno_infer_dtype(ic, 0));
    (void)err;
    steno_infer_set(ic, 0, t ? steno_dtype_optional_of(t) : STENO_DT_NONE, NULL);
    return STENO_OK;
}

static steno_status run_optional(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    const steno_dtype t = value_type(steno_op_node(ctx), x ? x->dtype : STENO_DT_NONE);
    const size_t head = x && !steno_dtype_is_sequence(t) ? HEAD : 0;
    struct steno_shape s = {.rank = 1};
    struct steno_tensor *y;
    size_t bytes = 0;
    steno_status st;
    if (!t)
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "it has neither a value nor a type");
    if (x && (steno_shape_bytes(&x->shape, t, &bytes) || bytes > (size_t)INT64_MAX - head))
        return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "the value is too large");
    s.dim[0] = (int64_t)(head + bytes);
    st = steno_op_out(ctx, 0, steno_dtype_optional_of(t), &s, &y, err);
    if (st)
        return st;
    if (head) {
        const struct head h = {.mark = MARK, .shape = x->shape};
        memset(y->data, 0, head);
        memcpy(y->data, &h, sizeof h);
    }
    if (bytes)
        memcpy((char *)y->data + head, x->data, bytes);
    return STENO_OK;
}

/* ---- OptionalGetElement ---- */

static steno_status infer_get(struct steno_infer *ic, steno_err *err)
{
    const steno_dtype t = steno_infer_dtype(ic, 0);
    const struct steno_shape s = steno_infer_shape(ic, 0);
    (void)err;
    if (steno_dtype_is_optional(t))
        steno_infer_set(ic, 0, steno_dtype_value_of(t), NULL);
    else
        steno_infer_set(ic, 0, t, steno_dtype_is_sequence(t) ? NULL : &s);
    return STENO_OK;
}

/* The value in block x. Operators that move bytes accept optionals too and may have torn this one,
 * so nothing in it is taken on trust. */
static steno_status value_in_optional(const struct steno_op_ctx *ctx, const struct steno_tensor *x,
                                      struct steno_tensor *v, steno_err *err)
{
    const size_t size = steno_numel(x);
    struct head h;
    size_t bytes;
    *v = *x;
    v->dtype = steno_dtype_value_of(x->dtype);
    if (!size)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the optional has no value");
    if (steno_dtype_is_sequence(v->dtype))
        return STENO_OK;
    if (x->shape.rank == 1 && size >= HEAD) {
        memcpy(&h, x->data, sizeof h);
        if (h.mark == MARK && h.shape.rank >= 0 && h.shape.rank <= STENO_MAX_RANK &&
            !steno_shape_bytes(&h.shape, v->dtype, &bytes) && bytes == size - HEAD) {
            v->shape = h.shape;
            v->data = (char *)x->data + HEAD;
            return STENO_OK;
        }
    }
    return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "input 0 is a damaged optional");
}

static steno_status run_get(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor v = *x, *y;
    size_t bytes;
    steno_status st = STENO_OK;
    if (steno_dtype_is_optional(x->dtype))
        st = value_in_optional(ctx, x, &v, err);
    if (!st)
        st = steno_op_out(ctx, 0, v.dtype, &v.shape, &y, err);
    if (st)
        return st;
    bytes = steno_numel(&v) * steno_dtype_size(v.dtype);
    if (bytes)
        memcpy(y->data, v.data, bytes);
    return STENO_OK;
}

/* ---- OptionalHasElement ---- */

static steno_status infer_has(struct steno_infer *ic, steno_err *err)
{
    (void)err;
    steno_infer_set(ic, 0, STENO_BOOL, &(struct steno_shape){.rank = 0});
    return STENO_OK;
}

static steno_status run_has(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    steno_status st = steno_op_out(ctx, 0, STENO_BOOL, &(struct steno_shape){.rank = 0}, &y, err);
    if (!st)
        *(uint8_t *)y->data = x && (!steno_dtype_is_optional(x->dtype) || steno_numel(x));
    return st;
}

/* A plan does not hold optionals: Optional is not folded. */
const struct steno_op steno_ops_optional[] = {
    {"", "Optional", 15, 0, STENO_OP_IMPURE, infer_optional, NULL, NULL, run_optional},
    {"", "OptionalGetElement", 15, 0, STENO_OP_DYNAMIC, infer_get, NULL, NULL, run_get},
    {"", "OptionalHasElement", 15, 0, 0, infer_has, NULL, NULL, run_has},
    {0},
};
