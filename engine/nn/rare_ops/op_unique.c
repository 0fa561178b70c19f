/* Unique (opset 11+): the different elements of a tensor, or the different slices along an axis. */
#include "nn/ops/internal.h"
#include "nn/rare_ops/families.h"

struct lanes {
    const struct steno_tensor *x;
    size_t outer, n, inner; /* x is [outer, n, inner]; a lane is [outer, inner] */
};

static int order_numbers(double a, double b)
{
    if (a != a || b != b) /* NaN is above all numbers and equal to itself */
        return (a != a) - (b != b);
    return (a > b) - (a < b);
}

static int order_elements(const struct steno_tensor *x, size_t a, size_t b)
{
    uint64_t flip = x->dtype == STENO_U64 ? (uint64_t)1 << 63 : 0;
    int64_t i, k;
    if (steno_ops_is_float(x->dtype))
        return order_numbers(steno_ops_get_f64(x, a), steno_ops_get_f64(x, b));
    i = (int64_t)((uint64_t)steno_ops_get_i64(x, a) ^ flip);
    k = (int64_t)((uint64_t)steno_ops_get_i64(x, b) ^ flip);
    return (i > k) - (i < k);
}

static int order_lanes(const struct lanes *l, int64_t a, int64_t b)
{
    int r = 0;
    for (size_t o = 0; !r && o < l->outer; o++)
        for (size_t i = 0; !r && i < l->inner; i++)
            r = order_elements(l->x, (o * l->n + (size_t)a) * l->inner + i,
                               (o * l->n + (size_t)b) * l->inner + i);
    return r;
}

/* Sort list [n] by the lanes it names; equal lanes keep their order. tmp: [n]. */
static void merge_sort(const struct lanes *l, int64_t *list, int64_t *tmp, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t at = 0; at < n; at += 2 * width) {
            size_t mid = at + width < n ? at + width : n, end = mid + width < n ? mid + width : n;
            size_t a = at, b = mid;
            for (size_t k = at; k < end; k++)
                tmp[k] = b == end || (a < mid && order_lanes(l, list[a], list[b]) <= 0) ? list[a++]
                                                                                        : list[b++];
        }
        memcpy(list, tmp, n * sizeof *list);
    }
}

static bool unique_lanes(const struct steno_node *n, const struct steno_tensor *x, struct lanes *l,
                         int *axis)
{
    *axis = -1;
    *l = (struct lanes){.x = x, .outer = 1, .n = steno_numel(x), .inner = 1};
    if (!steno_node_attr(n, "axis"))
        return true;
    if (!steno_ops_axis(steno_node_int(n, "axis", 0), x->shape.rank, axis))
        return false;
    l->outer = steno_ops_prod(&x->shape, 0, *axis);
    l->n = (size_t)x->shape.dim[*axis];
    l->inner = steno_ops_prod(&x->shape, *axis + 1, x->shape.rank);
    return true;
}

/* Number the n different lanes in the order of their first occurrence. number: scratch [n]. */
static void by_first_occurrence(int64_t *number, int64_t *first, int64_t *place, int64_t *count,
                                size_t lanes, size_t n)
{
    int64_t next = 0;
    for (size_t k = 0; k < lanes; k++)
        if (first[place[k]] == (int64_t)k)
            number[place[k]] = next++;
    for (size_t k = 0; k < n; k++)
        count[k] = 0;
    next = 0;
    for (size_t k = 0; k < lanes; k++) {
        place[k] = number[place[k]];
        count[place[k]]++;
        if (place[k] == next)
            first[next++] = (int64_t)k;
    }
}

static steno_status infer_unique(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_shape x = steno_infer_shape(ic, 0), list = {.rank = 1};
    int axis = 0;
    bool flat = !steno_node_attr(n, "axis");
    if (!flat && x.rank >= 0 && !steno_ops_axis(steno_node_int(n, "axis", 0), x.rank, &axis))
        return steno_fail(err, STENO_ERR_INVAL, "axis out of range");
    list.dim[0] = steno_infer_new_dim(ic);
    if (flat)
        x = list;
    else if (x.rank >= 0)
        x.dim[axis] = list.dim[0];
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &x);
    steno_infer_set(ic, 1, STENO_I64, &list);
    list.dim[0] = steno_infer_new_dim(ic);
    steno_infer_set(ic, 2, STENO_I64, &list);
    list.dim[0] = x.rank > axis ? x.dim[axis] : steno_infer_new_dim(ic);
    steno_infer_set(ic, 3, STENO_I64, &list);
    return STENO_OK;
}

static steno_status put_list(struct steno_op_ctx *ctx, int i, const int64_t *v, size_t n,
                             steno_err *err)
{
    struct steno_shape s = {.rank = 1, .dim = {(int64_t)n}};
    struct steno_tensor *y;
    steno_status st;
    if (!steno_op_wants(ctx, i))
        return STENO_OK;
    st = steno_op_out(ctx, i, STENO_I64, &s, &y, err);
    if (!st && n)
        memcpy(y->data, v, n * sizeof *v);
    return st;
}

static steno_status put_lanes(struct steno_op_ctx *ctx, const struct lanes *l, int axis,
                              const int64_t *first, size_t n, steno_err *err)
{
    struct steno_shape s = {.rank = 1};
    struct steno_tensor *y;
    size_t bytes = l->inner * steno_dtype_size(l->x->dtype);
    steno_status st;
    if (axis >= 0)
        s = l->x->shape;
    s.dim[axis < 0 ? 0 : axis] = (int64_t)n;
    st = steno_op_out(ctx, 0, l->x->dtype, &s, &y, err);
    for (size_t o = 0; !st && bytes && o < l->outer; o++)
        for (size_t k = 0; k < n; k++)
            memcpy((char *)y->data + (o * n + k) * bytes,
                   (const char *)l->x->data + (o * l->n + (size_t)first[k]) * bytes, bytes);
    return st;
}

static steno_status run_unique(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    bool sorted = steno_node_int(node, "sorted", 1) != 0;
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct lanes l;
    int64_t *list, *first, *place, *count;
    size_t n = 0, bytes;
    int axis;
    steno_status st;
    if (!steno_ops_is_float(x->dtype) && !steno_ops_is_int(x->dtype) && x->dtype != STENO_BOOL)
        return steno_ops_bad_type(ctx, err, x->dtype);
    if (!unique_lanes(node, x, &l, &axis))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    if (!steno_mul_size(l.n + 1, 4 * sizeof *list, &bytes) ||
        !(list = steno_op_scratch(ctx, bytes)))
        return steno_ops_nomem(ctx, err);
    first = list + l.n;
    place = first + l.n;
    count = place + l.n;
    for (size_t k = 0; k < l.n; k++)
        list[k] = (int64_t)k;
    merge_sort(&l, list, first, l.n);
    /* equal lanes are neighbours, the first occurrence in front */
    for (size_t k = 0; k < l.n; k++) {
        if (!k || order_lanes(&l, list[k - 1], list[k])) {
            first[n] = list[k];
            count[n++] = 0;
        }
        count[n - 1]++;
        place[list[k]] = (int64_t)n - 1;
    }
    if (!sorted)
        by_first_occurrence(list, first, place, count, l.n, n);
    st = put_lanes(ctx, &l, axis, first, n, err);
    if (!st)
        st = put_list(ctx, 1, first, n, err);
    if (!st)
        st = put_list(ctx, 2, place, l.n, err);
    return st ? st : put_list(ctx, 3, count, n, err);
}

const struct steno_op steno_ops_unique[] = {
    {"", "Unique", 11, 0, STENO_OP_DYNAMIC, infer_unique, NULL, NULL, run_unique},
    {0},
};
