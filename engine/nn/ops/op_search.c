/* Operators that search, count or mark elements: CumSum, CumProd, TopK, NonZero, OneHot, Trilu,
 * ReverseSequence, Compress, EyeLike. */
#include "nn/ops/internal.h"

#include <stdlib.h>

/* ---- CumSum, CumProd ---- */
static steno_status run_cum(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    bool product = !strcmp(node->op_type, "CumProd"), ints;
    bool exclusive = steno_node_int(node, "exclusive", 0) != 0;
    bool reverse = steno_node_int(node, "reverse", 0) != 0;
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    int64_t a[1];
    size_t n_axis, outer, n, inner, e;
    int axis;
    steno_status st = steno_ops_ints(ctx, 1, a, 1, &n_axis, err);
    if (st)
        return st;
    if (n_axis != 1 || !steno_ops_axis(a[0], x->shape.rank, &axis))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    ints = steno_ops_is_int(x->dtype);
    if (!ints && !steno_ops_is_float(x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    if (st)
        return st;
    e = steno_dtype_size(x->dtype);
    outer = steno_ops_prod(&x->shape, 0, axis);
    n = (size_t)x->shape.dim[axis];
    inner = steno_ops_prod(&x->shape, axis + 1, x->shape.rank);
    for (size_t lane = 0; lane < outer * inner; lane++) {
        size_t base = lane / inner * n * inner + lane % inner;
        double f = product;
        uint64_t u = product;
        for (size_t i = 0; i < n; i++) {
            size_t at = base + (reverse ? n - 1 - i : i) * inner;
            char *to = (char *)y->data + at * e;
            if (ints) {
                uint64_t v = (uint64_t)steno_ops_get_i64(x, at), next = product ? u * v : u + v;
                memcpy(to, exclusive ? &u : &next, e);
                u = next;
            } else {
                double v = steno_ops_get_f64(x, at), next = product ? f * v : f + v;
                steno_ops_store_f64(to, x->dtype, exclusive ? &f : &next, 1);
                f = next;
            }
        }
    }
    return STENO_OK;
}

/* ---- TopK ---- */
struct candidate {
    double f;  /* float types */
    int64_t i; /* integer types, order-preserving */
    int64_t at;
};

/* Best first; of equal values the lower index first. */
static int order_float_largest(const void *pa, const void *pb)
{
    const struct candidate *a = pa, *b = pb;
    bool na = a->f != a->f, nb = b->f != b->f; /* NaN is above all numbers, as in NumPy */
    if (na != nb)
        return na ? -1 : 1;
    if (!na && a->f != b->f)
        return a->f > b->f ? -1 : 1;
    return a->at < b->at ? -1 : 1;
}
static int order_float_smallest(const void *pa, const void *pb)
{
    const struct candidate *a = pa, *b = pb;
    bool na = a->f != a->f, nb = b->f != b->f;
    if (na != nb)
        return na ? 1 : -1;
    if (!na && a->f != b->f)
        return a->f < b->f ? -1 : 1;
    return a->at < b->at ? -1 : 1;
}
static int order_int_largest(const void *pa, const void *pb)
{
    const struct candidate *a = pa, *b = pb;
    if (a->i != b->i)
        return a->i > b->i ? -1 : 1;
    return a->at < b->at ? -1 : 1;
}
static int order_int_smallest(const void *pa, const void *pb)
{
    const struct candidate *a = pa, *b = pb;
    if (a->i != b->i)
        return a->i < b->i ? -1 : 1;
    return a->at < b->at ? -1 : 1;
}

static void load_candidate(const struct steno_tensor *x, size_t at, size_t i, struct candidate *c)
{
    c->at = (int64_t)i;
    c->f = 0;
    c->i = 0;
    if (steno_ops_is_float(x->dtype))
        c->f = steno_ops_get_f64(x, at);
    else
        c->i = (int64_t)((uint64_t)steno_ops_get_i64(x, at) ^
                         (x->dtype == STENO_U64 ? (uint64_t)1 << 63 : 0));
}

static steno_status topk_k(struct steno_op_ctx *ctx, int64_t *k, steno_err *err)
{
    size_t n;
    if (steno_op_in(ctx, 1)) {
        steno_status st = steno_ops_ints(ctx, 1, k, 1, &n, err);
        if (st)
            return st;
        return n == 1 ? STENO_OK : steno_op_fail(ctx, err, STENO_ERR_INVAL, "K must be one number");
    }
    *k = steno_node_int(steno_op_node(ctx), "k", -1);
    return STENO_OK;
}

static steno_status run_topk(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    bool largest = steno_node_int(node, "largest", 1) != 0, is_float;
    int (*order)(const void *, const void *);
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *values, *where;
    struct candidate *c;
    struct steno_shape s;
    int64_t k;
    int axis;
    size_t outer, n, inner, e;
    steno_status st = topk_k(ctx, &k, err);
    if (st)
        return st;
    is_float = steno_ops_is_float(x->dtype);
    if (!is_float && !steno_ops_is_int(x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    if (!steno_ops_axis(steno_node_int(node, "axis", -1), x->shape.rank, &axis))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    if (k < 0 || k > x->shape.dim[axis])
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "K is %lld, but the axis has %lld elements",
                             (long long)k, (long long)x->shape.dim[axis]);
    s = x->shape;
    s.dim[axis] = k;
    n = (size_t)x->shape.dim[axis];
    c = n > SIZE_MAX / sizeof *c ? NULL : steno_op_scratch(ctx, n * sizeof *c + 1);
    if (!c)
        return steno_ops_nomem(ctx, err);
    st = steno_op_out(ctx, 0, x->dtype, &s, &values, err);
    if (!st)
        st = steno_op_out(ctx, 1, STENO_I64, &s, &where, err);
    if (st)
        return st;
    order = is_float ? (largest ? order_float_largest : order_float_smallest)
                     : (largest ? order_int_largest : order_int_smallest);
    e = steno_dtype_size(x->dtype);
    outer = steno_ops_prod(&x->shape, 0, axis);
    inner = steno_ops_prod(&x->shape, axis + 1, x->shape.rank);
    for (size_t lane = 0; lane < outer * inner; lane++) {
        size_t from = lane / inner * n * inner + lane % inner;
        size_t to = lane / inner * (size_t)k * inner + lane % inner;
        for (size_t i = 0; i < n; i++)
            load_candidate(x, from + i * inner, i, &c[i]);
        qsort(c, n, sizeof *c, order);
        for (size_t i = 0; i < (size_t)k; i++) {
            memcpy((char *)values->data + (to + i * inner) * e,
                   (const char *)x->data + (from + (size_t)c[i].at * inner) * e, e);
            ((int64_t *)where->data)[to + i * inner] = c[i].at;
        }
    }
    return STENO_OK;
}

static steno_status infer_topk(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *node = steno_infer_node(ic);
    struct steno_shape s = steno_infer_shape(ic, 0);
    int64_t k = steno_node_int(node, "k", -1);
    size_t n;
    int axis;
    if (steno_infer_has(ic, 1) && (!steno_infer_ints(ic, 1, &k, 1, &n) || n != 1))
        k = -1;
    if (s.rank >= 0) {
        if (!steno_ops_axis(steno_node_int(node, "axis", -1), s.rank, &axis))
            return steno_fail(err, STENO_ERR_INVAL, "axis out of range");
        s.dim[axis] = k >= 0 ? k : steno_infer_new_dim(ic);
    }
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    steno_infer_set(ic, 1, STENO_I64, &s);
    return STENO_OK;
}

/* ---- NonZero ---- */
static bool is_zero(const struct steno_tensor *x, size_t i)
{
    return steno_ops_is_float(x->dtype) ? steno_ops_get_f64(x, i) == 0 : !steno_ops_get_i64(x, i);
}

static steno_status run_nonzero(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    struct steno_shape s = {.rank = 2};
    int64_t at[STENO_MAX_RANK] = {0}, count = 0, col = 0;
    size_t n;
    steno_status st;
    if (!steno_dtype_is_element(x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    n = steno_numel(x);
    for (size_t i = 0; i < n; i++)
        count += !is_zero(x, i);
    s.dim[0] = x->shape.rank;
    s.dim[1] = count;
    st = steno_op_out(ctx, 0, STENO_I64, &s, &y, err);
    if (st)
        return st;
    for (size_t i = 0; i < n; i++) {
        if (!is_zero(x, i)) {
            for (int k = 0; k < x->shape.rank; k++)
                ((int64_t *)y->data)[(int64_t)k * count + col] = at[k];
            col++;
        }
        for (int k = x->shape.rank - 1; k >= 0 && ++at[k] == x->shape.dim[k]; k--)
            at[k] = 0;
    }
    return STENO_OK;
}

static steno_status infer_nonzero(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), s = {.rank = 2};
    (void)err;
    s.dim[0] = x.rank >= 0 ? x.rank : steno_infer_new_dim(ic);
    s.dim[1] = steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, STENO_I64, &s);
    return STENO_OK;
}

/* ---- OneHot ----
 * Negative indices count from the end in every opset, as in ONNX Runtime. The text of opsets 9 and
 * 10 lets them mark nothing. */
static const char *onehot_shape(const struct steno_node *n, const struct steno_shape *x,
                                int64_t depth, struct steno_shape *s, int *axis)
{
    if (x->rank >= STENO_MAX_RANK)
        return "rank of the result is too high";
    if (!steno_ops_axis(steno_node_int(n, "axis", -1), x->rank + 1, axis))
        return "axis out of range";
    s->rank = x->rank + 1;
    for (int i = 0, j = 0; i < s->rank; i++)
        s->dim[i] = i == *axis ? depth : x->dim[j++];
    return NULL;
}

static steno_status run_onehot(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0), *v = steno_op_in(ctx, 2),
                              *d = steno_op_in(ctx, 1);
    struct steno_tensor *y;
    struct steno_shape s;
    const char *wrong;
    int64_t depth;
    size_t outer, inner, e;
    int axis;
    steno_status st;
    if (steno_numel(d) != 1 || steno_numel(v) != 2)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "depth must be one number, values must be two");
    depth = steno_ops_get_i64(d, 0);
    if (depth < 0 || !steno_dtype_is_element(v->dtype))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "depth %lld is out of range",
                             (long long)depth);
    wrong = onehot_shape(steno_op_node(ctx), &x->shape, depth, &s, &axis);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    st = steno_op_out(ctx, 0, v->dtype, &s, &y, err);
    if (st)
        return st;
    e = steno_dtype_size(v->dtype);
    steno_ops_fill(y->data, steno_numel(y), e, v->data);
    outer = steno_ops_prod(&x->shape, 0, axis);
    inner = steno_ops_prod(&x->shape, axis, x->shape.rank);
    for (size_t i = 0; i < outer * inner; i++) { /* an index out of range marks no element */
        int64_t hot = steno_ops_get_i64(x, i);
        if (hot < -depth || hot >= depth)
            continue;
        hot += hot < 0 ? depth : 0;
        memcpy((char *)y->data +
                   ((i / inner * (size_t)depth + (size_t)hot) * inner + i % inner) * e,
               (const char *)v->data + e, e);
    }
    return STENO_OK;
}

static steno_status infer_onehot(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), s = {.rank = STENO_RANK_ANY};
    const struct steno_tensor *d = steno_infer_value(ic, 1);
    int axis;
    if (x.rank >= 0) {
        int64_t depth =
            d && steno_numel(d) == 1 ? steno_ops_get_i64(d, 0) : steno_infer_new_dim(ic);
        const char *wrong = onehot_shape(steno_infer_node(ic), &x, depth, &s, &axis);
        if (wrong)
            return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    }
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 2), &s);
    return STENO_OK;
}

/* ---- Trilu ---- keep the upper (or lower) triangle of the last two axes */
static steno_status run_trilu(struct steno_op_ctx *ctx, steno_err *err)
{
    bool upper = steno_node_int(steno_op_node(ctx), "upper", 1) != 0;
    const struct steno_tensor *x = steno_op_in(ctx, 0), *kt = steno_op_in(ctx, 1);
    struct steno_tensor *y;
    int64_t k = 0, rows, cols;
    size_t e, batch;
    steno_status st;
    if (kt && steno_numel(kt) == 1)
        k = steno_ops_get_i64(kt, 0);
    if (x->shape.rank < 2)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input has rank %d", x->shape.rank);
    st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    if (st || !steno_numel(x))
        return st;
    rows = x->shape.dim[x->shape.rank - 2];
    cols = x->shape.dim[x->shape.rank - 1];
    k = k > cols ? cols : k < -rows ? -rows : k;
    e = steno_dtype_size(x->dtype);
    batch = steno_numel(x) / (size_t)(rows * cols);
    memmove(y->data, x->data, steno_numel(x) * e);
    for (size_t b = 0; b < batch; b++)
        for (int64_t r = 0; r < rows; r++) {
            char *row = (char *)y->data + (b * (size_t)rows + (size_t)r) * (size_t)cols * e;
            /* the upper part starts here, the lower part ends before */
            int64_t edge = r + k + !upper;
            edge = edge < 0 ? 0 : edge > cols ? cols : edge;
            if (upper)
                memset(row, 0, (size_t)edge * e);
            else
                memset(row + (size_t)edge * e, 0, (size_t)(cols - edge) * e);
        }
    return STENO_OK;
}

/* ---- ReverseSequence ---- */
static steno_status run_reverse_sequence(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    int64_t batch_axis = steno_node_int(node, "batch_axis", 1);
    int64_t time_axis = steno_node_int(node, "time_axis", 0);
    const struct steno_tensor *x = steno_op_in(ctx, 0), *len = steno_op_in(ctx, 1);
    struct steno_tensor *y;
    size_t e, block, n0, n1;
    steno_status st;
    if (x->shape.rank < 2 || batch_axis < 0 || batch_axis > 1 || time_axis != 1 - batch_axis)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "batch and time must be the first two axes");
    if (steno_numel(len) != (size_t)x->shape.dim[batch_axis])
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "sequence_lens needs one length for each batch entry");
    st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    if (st)
        return st;
    e = steno_dtype_size(x->dtype);
    n0 = (size_t)x->shape.dim[0];
    n1 = (size_t)x->shape.dim[1];
    block = steno_ops_prod(&x->shape, 2, x->shape.rank) * e;
    for (size_t i = 0; i < n0 * n1; i++) {
        size_t b = batch_axis ? i % n1 : i / n1, t = batch_axis ? i / n1 : i % n1;
        int64_t l = steno_ops_get_i64(len, b);
        size_t from = t;
        if (l < 0 || l > x->shape.dim[time_axis])
            return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                                 "length %lld of sequence %zu is out of range", (long long)l, b);
        if (t < (size_t)l)
            from = (size_t)l - 1 - t;
        from = batch_axis ? from * n1 + b : b * n1 + from;
        if (block)
            memcpy((char *)y->data + i * block, (const char *)x->data + from * block, block);
    }
    return STENO_OK;
}

/* ---- Compress ---- */
static steno_status run_compress(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_attr *a = steno_node_attr(steno_op_node(ctx), "axis");
    const struct steno_tensor *x = steno_op_in(ctx, 0), *c = steno_op_in(ctx, 1);
    struct steno_tensor *y;
    struct steno_shape s;
    const uint8_t *keep;
    size_t outer, n, block, count = 0, length, e;
    int axis = 0;
    char *d;
    steno_status st;
    if (c->dtype != STENO_BOOL || c->shape.rank != 1)
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "the condition must be a list of bool");
    if (a && !steno_ops_axis(steno_node_int(steno_op_node(ctx), "axis", 0), x->shape.rank, &axis))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    e = steno_dtype_size(x->dtype);
    outer = a ? steno_ops_prod(&x->shape, 0, axis) : 1;
    n = a ? (size_t)x->shape.dim[axis] : steno_numel(x);
    block = a ? steno_ops_prod(&x->shape, axis + 1, x->shape.rank) * e : e;
    keep = c->data;
    length = steno_numel(c) < n ? steno_numel(c) : n;
    for (size_t i = 0; i < length; i++)
        count += keep[i] != 0;
    s = x->shape;
    if (a)
        s.dim[axis] = (int64_t)count;
    else
        s = steno_ops_shape(1, (const int64_t[]){(int64_t)count});
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st)
        return st;
    d = y->data;
    for (size_t o = 0; o < outer && block; o++)
        for (size_t i = 0; i < length; i++)
            if (keep[i]) {
                memcpy(d, (const char *)x->data + (o * n + i) * block, block);
                d += block;
            }
    return STENO_OK;
}

static steno_status infer_compress(struct steno_infer *ic, steno_err *err)
{
    const struct steno_attr *a = steno_node_attr(steno_infer_node(ic), "axis");
    struct steno_shape s = steno_infer_shape(ic, 0);
    int axis = 0;
    if (!a)
        s.rank = 1;
    else if (s.rank >= 0 &&
             !steno_ops_axis(steno_node_int(steno_infer_node(ic), "axis", 0), s.rank, &axis))
        return steno_fail(err, STENO_ERR_INVAL, "axis out of range");
    if (s.rank > 0)
        s.dim[axis] = steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* ---- EyeLike ---- */
static steno_status run_eye(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    int64_t k = steno_node_int(node, "k", 0);
    steno_dtype t = (steno_dtype)steno_node_int(node, "dtype", x->dtype);
    steno_status st;
    if (x->shape.rank != 2 || !steno_dtype_is_element(t))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the input must have rank 2");
    st = steno_op_out(ctx, 0, t, &x->shape, &y, err);
    if (st)
        return st;
    memset(y->data, 0, steno_numel(y) * steno_dtype_size(t));
    if (k > x->shape.dim[1] || k < -x->shape.dim[0])
        return STENO_OK;
    for (int64_t r = 0; r < x->shape.dim[0]; r++)
        if (r + k >= 0 && r + k < x->shape.dim[1])
            steno_ops_set_f64(y, (size_t)(r * x->shape.dim[1] + r + k), 1);
    return STENO_OK;
}

static steno_status infer_eye(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    (void)err;
    steno_infer_set(
        ic, 0, (steno_dtype)steno_node_int(steno_infer_node(ic), "dtype", steno_infer_dtype(ic, 0)),
        &s);
    return STENO_OK;
}

const struct steno_op steno_ops_search[] = {
    {"", "CumSum", 11, 0, 0, steno_ops_infer_same, NULL, NULL, run_cum},
    {"", "CumProd", 26, 0, 0, steno_ops_infer_same, NULL, NULL, run_cum},
    {"", "TopK", 1, 0, 0, infer_topk, NULL, NULL, run_topk},
    {"", "NonZero", 9, 0, STENO_OP_DYNAMIC, infer_nonzero, NULL, NULL, run_nonzero},
    {"", "OneHot", 9, 0, 0, infer_onehot, NULL, NULL, run_onehot},
    {"", "Trilu", 14, 0, STENO_OP_INPLACE0, steno_ops_infer_same, NULL, NULL, run_trilu},
    {"", "ReverseSequence", 10, 0, 0, steno_ops_infer_same, NULL, NULL, run_reverse_sequence},
    {"", "Compress", 9, 0, STENO_OP_DYNAMIC, infer_compress, NULL, NULL, run_compress},
    {"", "EyeLike", 9, 0, 0, infer_eye, NULL, NULL, run_eye},
    {0},
};
