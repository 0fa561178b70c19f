/* Sequences of tensors: SequenceEmpty, SequenceConstruct, SequenceInsert, SequenceErase,
 * SequenceAt, SequenceLength (opset 11+), ConcatFromSequence, SplitToSequence (11+).
 *
 * A sequence is one block of bytes, a tensor of rank 1: the number of its tensors, an entry for
 * each, then their elements, each from a multiple of STENO_ALIGN on. So a loop carries it as any
 * other value, and a change makes a new block. The tensors have one element type, which is part of
 * the sequence's type. Shapes may differ. */
#include "nn/ops/internal.h"
#include "nn/ops/families.h"

struct entry {
    struct steno_shape shape;
    uint64_t offset; /* of its elements, from the start of the block */
};

struct sequence {
    const char *bytes;
    const struct entry *entry;
    size_t n, size; /* tensors, bytes */
    steno_dtype dtype;
};

#define HEAD STENO_ALIGN         /* holds MARK and the number of tensors */
#define MARK 0x65636e6575716573u /* "sequence" */

static bool sequence_fits(const struct sequence *s, const struct entry *e)
{
    size_t bytes;
    return e->shape.rank >= 0 && e->shape.rank <= STENO_MAX_RANK &&
           !steno_shape_bytes(&e->shape, s->dtype, &bytes) && e->offset % STENO_ALIGN == 0 &&
           e->offset <= s->size && bytes <= s->size - e->offset;
}

/* Input i as a sequence. Operators that move bytes accept sequences too and may have torn this one,
 * so nothing in it is taken on trust. */
static steno_status read_sequence(const struct steno_op_ctx *ctx, int i, struct sequence *s,
                                  steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, i);
    uint64_t head[2];
    bool good;
    if (!t || !steno_dtype_is_sequence(t->dtype))
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "input %d is not a sequence", i);
    *s = (struct sequence){.bytes = t->data, .dtype = steno_dtype_element_of(t->dtype)};
    s->size = steno_numel(t);
    good = t->shape.rank == 1 && s->size >= HEAD;
    if (good) {
        memcpy(head, s->bytes, sizeof head);
        good = head[0] == MARK && head[1] <= (s->size - HEAD) / sizeof *s->entry;
    }
    if (good) {
        s->n = (size_t)head[1];
        s->entry = (const struct entry *)(const void *)(s->bytes + HEAD);
    }
    for (size_t k = 0; good && k < s->n; k++)
        good = sequence_fits(s, &s->entry[k]);
    return good ? STENO_OK
                : steno_op_fail(ctx, err, STENO_ERR_FORMAT, "input %d is a damaged sequence", i);
}

static struct steno_tensor tensor_of(const struct sequence *s, size_t k)
{
    return (struct steno_tensor){s->dtype, s->entry[k].shape,
                                 (void *)(uintptr_t)(s->bytes + s->entry[k].offset)};
}

/* Write output 0: a sequence of n tensors of one type. The data of a tensor may be NULL; its
 * elements are then written later to the data that t gets. */
static steno_status write_sequence(struct steno_op_ctx *ctx, steno_dtype dtype,
                                   struct steno_tensor *t, size_t n, steno_err *err)
{
    struct steno_shape shape = {.rank = 1};
    struct steno_tensor *y;
    struct entry *entry;
    size_t size, bytes, at;
    steno_status st;
    if (!steno_mul_size(n, sizeof *entry, &size) || size > SIZE_MAX / 2)
        return steno_ops_nomem(ctx, err);
    at = size = steno_aligned(HEAD + size);
    for (size_t k = 0; k < n; k++)
        if (steno_shape_bytes(&t[k].shape, dtype, &bytes) || bytes > SIZE_MAX / 2 ||
            !steno_add_size(size, steno_aligned(bytes), &size))
            return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "the sequence is too large");
    if (size > INT64_MAX)
        return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "the sequence is too large");
    shape.dim[0] = (int64_t)size;
    st = steno_op_out(ctx, 0, steno_dtype_sequence_of(dtype), &shape, &y, err);
    if (st)
        return st;
    memset(y->data, 0, at);
    memcpy(y->data, (const uint64_t[]){MARK, n}, 2 * sizeof(uint64_t));
    entry = (struct entry *)(void *)((char *)y->data + HEAD);
    for (size_t k = 0; k < n; k++) {
        char *to = (char *)y->data + at;
        bytes = steno_numel(&t[k]) * steno_dtype_size(dtype);
        entry[k].shape = t[k].shape;
        entry[k].offset = at;
        if (bytes && t[k].data)
            memcpy(to, t[k].data, bytes);
        t[k].data = to;
        at += steno_aligned(bytes);
    }
    return STENO_OK;
}

static steno_dtype element_of(const struct steno_infer *ic, int in)
{
    steno_dtype t = steno_infer_dtype(ic, in);
    return steno_dtype_is_sequence(t) ? steno_dtype_element_of(t) : STENO_DT_NONE;
}

static steno_dtype sequence_of(steno_dtype t)
{
    return t && !steno_dtype_is_block(t) ? steno_dtype_sequence_of(t) : STENO_DT_NONE;
}

/* Position from input `in`, which may be absent (then `fallback`); at most `last`. */
static steno_status position(const struct steno_op_ctx *ctx, int in, size_t n, size_t last,
                             size_t fallback, size_t *out, steno_err *err)
{
    int64_t at = 0;
    size_t count;
    steno_status st;
    if (!steno_op_in(ctx, in)) {
        *out = fallback;
        return STENO_OK;
    }
    st = steno_ops_ints(ctx, in, &at, 1, &count, err);
    if (st)
        return st;
    if (count == 1 && at < 0 && at >= -(int64_t)n)
        at += (int64_t)n;
    if (count != 1 || at < 0 || (uint64_t)at > last)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "position %lld is outside a sequence of %zu tensors", (long long)at,
                             n);
    *out = (size_t)at;
    return STENO_OK;
}

/* ---- SequenceEmpty, SequenceConstruct ---- */
static steno_dtype empty_dtype(const struct steno_node *n)
{
    return (steno_dtype)steno_node_int(n, "dtype", STENO_F32);
}

static steno_status infer_empty(struct steno_infer *ic, steno_err *err)
{
    steno_dtype t = empty_dtype(steno_infer_node(ic));
    if (!steno_dtype_is_element(t))
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "sequences of %s are not supported",
                          steno_dtype_name(t));
    steno_infer_set(ic, 0, sequence_of(t), NULL);
    return STENO_OK;
}

static steno_status run_empty(struct steno_op_ctx *ctx, steno_err *err)
{
    return write_sequence(ctx, empty_dtype(steno_op_node(ctx)), NULL, 0, err);
}

static steno_status infer_construct(struct steno_infer *ic, steno_err *err)
{
    (void)err;
    steno_infer_set(ic, 0, sequence_of(steno_infer_dtype(ic, 0)), NULL);
    return STENO_OK;
}

static steno_status run_construct(struct steno_op_ctx *ctx, steno_err *err)
{
    int n = steno_op_n_in(ctx);
    struct steno_tensor *t = steno_op_scratch(ctx, ((size_t)n + 1) * sizeof *t);
    if (!t)
        return steno_ops_nomem(ctx, err);
    for (int i = 0; i < n; i++) {
        t[i] = *steno_op_in(ctx, i);
        if (t[i].dtype != t[0].dtype || steno_dtype_is_block(t[i].dtype))
            return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "input %d is %s, the first is %s", i,
                                 steno_dtype_name(t[i].dtype), steno_dtype_name(t[0].dtype));
    }
    return write_sequence(ctx, t[0].dtype, t, (size_t)n, err);
}

/* ---- SequenceInsert, SequenceErase ---- */
static steno_status infer_change(struct steno_infer *ic, steno_err *err)
{
    (void)err;
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), NULL);
    return STENO_OK;
}

static steno_status run_insert(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 1);
    struct steno_tensor *t;
    struct sequence s;
    size_t at;
    steno_status st = read_sequence(ctx, 0, &s, err);
    if (!st)
        st = position(ctx, 2, s.n, s.n, s.n, &at, err);
    if (st)
        return st;
    if (x->dtype != s.dtype)
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "a tensor of %s for a sequence of %s",
                             steno_dtype_name(x->dtype), steno_dtype_name(s.dtype));
    t = steno_op_scratch(ctx, (s.n + 1) * sizeof *t);
    if (!t)
        return steno_ops_nomem(ctx, err);
    for (size_t k = 0; k <= s.n; k++)
        t[k] = k == at ? *x : tensor_of(&s, k - (k > at));
    return write_sequence(ctx, s.dtype, t, s.n + 1, err);
}

/* The place of an existing tensor; without input 1 the last one. */
static steno_status present(const struct steno_op_ctx *ctx, const struct sequence *s, size_t *at,
                            steno_err *err)
{
    if (!s->n)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the sequence is empty");
    return position(ctx, 1, s->n, s->n - 1, s->n - 1, at, err);
}

static steno_status run_erase(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_tensor *t;
    struct sequence s;
    size_t at;
    steno_status st = read_sequence(ctx, 0, &s, err);
    if (!st)
        st = present(ctx, &s, &at, err);
    if (st)
        return st;
    t = steno_op_scratch(ctx, s.n * sizeof *t);
    if (!t)
        return steno_ops_nomem(ctx, err);
    for (size_t k = 0; k + 1 < s.n; k++)
        t[k] = tensor_of(&s, k + (k >= at));
    return write_sequence(ctx, s.dtype, t, s.n - 1, err);
}

/* ---- SequenceAt, SequenceLength ---- */
static steno_status infer_at(struct steno_infer *ic, steno_err *err)
{
    (void)err;
    steno_infer_set(ic, 0, element_of(ic, 0), NULL);
    return STENO_OK;
}

static steno_status run_at(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_tensor t, *y;
    struct sequence s;
    size_t at;
    steno_status st = read_sequence(ctx, 0, &s, err);
    if (!st)
        st = present(ctx, &s, &at, err);
    if (st)
        return st;
    t = tensor_of(&s, at);
    st = steno_op_out(ctx, 0, t.dtype, &t.shape, &y, err);
    if (!st && steno_numel(&t))
        memcpy(y->data, t.data, steno_numel(&t) * steno_dtype_size(t.dtype));
    return st;
}

static steno_status infer_length(struct steno_infer *ic, steno_err *err)
{
    (void)err;
    steno_infer_set(ic, 0, STENO_I64, &(struct steno_shape){.rank = 0});
    return STENO_OK;
}

static steno_status run_length(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_tensor *y;
    struct sequence s;
    steno_status st = read_sequence(ctx, 0, &s, err);
    if (!st)
        st = steno_op_out(ctx, 0, STENO_I64, &(struct steno_shape){.rank = 0}, &y, err);
    if (!st)
        *(int64_t *)y->data = (int64_t)s.n;
    return st;
}

/* ---- ConcatFromSequence ---- */
/* The shape of the result. With a new axis all tensors have one shape. */
static steno_status concat_shape(const struct steno_op_ctx *ctx, const struct sequence *s,
                                 struct steno_shape *out, int *axis, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    bool fresh = steno_node_int(n, "new_axis", 0) != 0;
    struct steno_shape first;
    int64_t total = 0;
    if (!s->n)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the sequence is empty");
    first = s->entry[0].shape;
    if (first.rank + fresh > STENO_MAX_RANK ||
        !steno_ops_axis(steno_node_int(n, "axis", 0), first.rank + fresh, axis))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    for (size_t k = 0; k < s->n; k++) {
        struct steno_shape e = s->entry[k].shape;
        if (e.rank == first.rank && !fresh) {
            if (__builtin_add_overflow(total, e.dim[*axis], &total))
                return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "size overflows");
            e.dim[*axis] = first.dim[*axis];
        }
        if (!steno_shape_equal(&e, &first))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "tensor %zu does not fit the first", k);
    }
    *out = first;
    if (fresh)
        steno_ops_insert_axis(out, *axis, (int64_t)s->n);
    else
        out->dim[*axis] = total;
    return STENO_OK;
}

static steno_status run_concat(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_shape shape;
    struct steno_tensor *y;
    struct sequence s;
    size_t outer, row, at = 0;
    int axis = 0;
    steno_status st = read_sequence(ctx, 0, &s, err);
    if (!st)
        st = concat_shape(ctx, &s, &shape, &axis, err);
    if (!st)
        st = steno_op_out(ctx, 0, s.dtype, &shape, &y, err);
    if (st)
        return st;
    outer = steno_ops_prod(&shape, 0, axis);
    row = steno_ops_prod(&shape, axis, shape.rank) * steno_dtype_size(s.dtype);
    for (size_t k = 0; k < s.n && outer; k++) {
        const struct steno_tensor x = tensor_of(&s, k);
        size_t part = steno_numel(&x) * steno_dtype_size(s.dtype) / outer;
        for (size_t r = 0; r < outer && part; r++)
            memcpy((char *)y->data + r * row + at, (const char *)x.data + r * part, part);
        at += part;
    }
    return STENO_OK;
}

/* ---- SplitToSequence ---- */
struct parts {
    size_t n;
    int64_t every; /* the extent of each part, the last may be smaller; 0: list */
    const int64_t *list;
};

static steno_status read_parts(struct steno_op_ctx *ctx, int64_t extent, struct parts *p,
                               steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, 1);
    int64_t sum = 0, *list;
    *p = (struct parts){.n = (size_t)extent, .every = 1};
    if (!t)
        return STENO_OK;
    if ((t->dtype != STENO_I32 && t->dtype != STENO_I64) || t->shape.rank > 1)
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "split is not a number or a list of them");
    if (!t->shape.rank) {
        p->every = steno_ops_get_i64(t, 0);
        if (p->every < 1)
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "split is %lld", (long long)p->every);
        p->n = (size_t)(extent / p->every + (extent % p->every != 0));
        return STENO_OK;
    }
    p->n = steno_numel(t);
    p->every = 0;
    p->list = list = steno_op_scratch(ctx, (p->n + 1) * sizeof *list);
    if (!list)
        return steno_ops_nomem(ctx, err);
    for (size_t k = 0; k < p->n; k++) {
        list[k] = steno_ops_get_i64(t, k);
        if (list[k] < 0 || list[k] > extent - sum)
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "split does not fit extent %lld",
                                 (long long)extent);
        sum += list[k];
    }
    return sum == extent ? STENO_OK
                         : steno_op_fail(ctx, err, STENO_ERR_INVAL,
                                         "split adds up to %lld, the extent is %lld",
                                         (long long)sum, (long long)extent);
}

static steno_status run_split(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *t;
    struct parts p;
    size_t outer, inner, row, at = 0;
    bool squeeze;
    int axis;
    steno_status st;
    if (steno_dtype_is_block(x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    if (!steno_ops_axis(steno_node_int(node, "axis", 0), x->shape.rank, &axis))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    squeeze = !steno_op_in(ctx, 1) && !steno_node_int(node, "keepdims", 1);
    st = read_parts(ctx, x->shape.dim[axis], &p, err);
    if (st)
        return st;
    t = steno_op_scratch(ctx, (p.n + 1) * sizeof *t);
    if (!t)
        return steno_ops_nomem(ctx, err);
    for (size_t k = 0; k < p.n; k++) {
        int64_t left = x->shape.dim[axis] - (int64_t)k * p.every;
        t[k] = (struct steno_tensor){.dtype = x->dtype, .shape = x->shape};
        t[k].shape.dim[axis] = p.list ? p.list[k] : left < p.every ? left : p.every;
        if (squeeze)
            steno_ops_remove_axis(&t[k].shape, axis);
    }
    st = write_sequence(ctx, x->dtype, t, p.n, err);
    outer = steno_ops_prod(&x->shape, 0, axis);
    inner = steno_ops_prod(&x->shape, axis + 1, x->shape.rank) * steno_dtype_size(x->dtype);
    row = (size_t)x->shape.dim[axis] * inner;
    for (size_t k = 0; k < p.n && !st && outer; k++) {
        size_t part = steno_numel(&t[k]) * steno_dtype_size(x->dtype) / outer;
        for (size_t r = 0; r < outer && part; r++)
            memcpy((char *)t[k].data + r * part, (const char *)x->data + r * row + at, part);
        at += part;
    }
    return st;
}

/* A plan does not hold sequences: those without an input that is a sequence are not folded. */
const struct steno_op steno_ops_sequence[] = {
    {"", "SequenceEmpty", 11, 0, STENO_OP_IMPURE, infer_empty, NULL, NULL, run_empty},
    {"", "SequenceConstruct", 11, 0, STENO_OP_IMPURE, infer_construct, NULL, NULL, run_construct},
    {"", "SequenceInsert", 11, 0, 0, infer_change, NULL, NULL, run_insert},
    {"", "SequenceErase", 11, 0, 0, infer_change, NULL, NULL, run_erase},
    {"", "SequenceAt", 11, 0, STENO_OP_DYNAMIC, infer_at, NULL, NULL, run_at},
    {"", "SequenceLength", 11, 0, 0, infer_length, NULL, NULL, run_length},
    {"", "ConcatFromSequence", 11, 0, STENO_OP_DYNAMIC, infer_at, NULL, NULL, run_concat},
    {"", "SplitToSequence", 11, 0, STENO_OP_IMPURE, infer_construct, NULL, NULL, run_split},
    {0},
};
