/* Operators about shapes: Shape, Size, Reshape and related operators, Expand, ConstantOfShape,
 * Range. */
#include "nn/ops/internal.h"
#include "nn/ops/families.h"

#include <math.h>

/* ---- Shape, Size ---- */
static void shape_range(const struct steno_node *n, int rank, int64_t *start, int64_t *end)
{
    *start = steno_node_int(n, "start", 0);
    *end = steno_node_int(n, "end", rank);
    if (*start < 0)
        *start += rank;
    if (*end < 0)
        *end += rank;
    *start = *start < 0 ? 0 : *start > rank ? rank : *start;
    *end = *end < 0 ? 0 : *end > rank ? rank : *end;
    if (*end < *start)
        *end = *start;
}

static steno_status run_shape(struct steno_op_ctx *ctx, steno_err *err)
{
    int64_t start, end, len;
    struct steno_shape s;
    struct steno_tensor *y;
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    steno_status st;
    shape_range(steno_op_node(ctx), x->shape.rank, &start, &end);
    len = end - start;
    s = steno_ops_shape(1, &len);
    st = steno_op_out(ctx, 0, STENO_I64, &s, &y, err);
    if (!st && len)
        memcpy(y->data, x->shape.dim + start, (size_t)len * sizeof(int64_t));
    return st;
}

static steno_status infer_shape(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape in = steno_infer_shape(ic, 0), s = {.rank = 1, .dim = {STENO_DIM_ANY}};
    int64_t start, end;
    (void)err;
    if (in.rank >= 0) {
        shape_range(steno_infer_node(ic), in.rank, &start, &end);
        s.dim[0] = end - start;
    }
    steno_infer_set(ic, 0, STENO_I64, &s);
    return STENO_OK;
}

static steno_status run_size(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_shape s = {.rank = 0};
    struct steno_tensor *y;
    steno_status st = steno_op_out(ctx, 0, STENO_I64, &s, &y, err);
    if (!st)
        *(int64_t *)y->data = (int64_t)steno_numel(steno_op_in(ctx, 0));
    return st;
}

static steno_status infer_size(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = {.rank = 0};
    (void)err;
    steno_infer_set(ic, 0, STENO_I64, &s);
    return STENO_OK;
}

/* ---- Reshape ---- */
/* Compute the result's shape from the requested one. Dims < 0 of `in` are unknown; a dim of the
 * result may be unknown too where -1 cannot be solved. Returns NULL, or a message that says what is
 * wrong. */
static const char *reshape_dims(const struct steno_shape *in, const int64_t *want, size_t n,
                                bool allow_zero, struct steno_shape *out)
{
    int hole = -1;
    size_t rest = 1, total = 1;
    bool known = in->rank >= 0, out_known = true;
    if (n > STENO_MAX_RANK)
        return "the rank is too high";
    out->rank = (int)n;
    for (size_t i = 0; i < n; i++) {
        int64_t d = want[i];
        if (d == -1) {
            if (hole >= 0)
                return "more than one dimension is -1";
            hole = (int)i;
            out->dim[i] = STENO_DIM_ANY;
            continue;
        }
        if (d < -1)
            return "a dimension is below -1";
        if (d == 0 && !allow_zero) {
            if (in->rank < 0)
                d = STENO_DIM_ANY;
            else if ((int)i >= in->rank)
                return "0 refers to an input dimension that does not exist";
            else
                d = in->dim[i];
        }
        out->dim[i] = d;
        if (d < 0)
            out_known = false;
        else if (!steno_mul_size(rest, (size_t)d, &rest))
            return "size overflows";
    }
    known = known && steno_shape_known(in);
    if (known && steno_shape_count(in, &total))
        return "size overflows";
    if (hole < 0)
        return known && out_known && total != rest ? "the number of elements differs" : NULL;
    if (known && out_known) {
        if (rest == 0 ? total != 0 : total % rest != 0)
            return "-1 has no solution";
        out->dim[hole] = rest ? (int64_t)(total / rest) : 0;
        return NULL;
    }
    /* Symbolic dims that appear on both sides cancel: [N,T,256] to [0,0,4,-1] gives 64. */
    if (in->rank >= 0) {
        bool used[STENO_MAX_RANK] = {false};
        size_t num = 1, den = 1;
        int left = -1, n_left = 0;
        for (int i = 0; i < (int)n; i++) {
            int j = 0;
            if (i == hole)
                continue;
            if (out->dim[i] >= 0) {
                den *= (size_t)out->dim[i];
                continue;
            }
            while (j < in->rank && (used[j] || !steno_same_dim(in->dim[j], out->dim[i])))
                j++;
            if (j == in->rank)
                return NULL;
            used[j] = true;
        }
        for (int j = 0; j < in->rank; j++) {
            if (in->dim[j] >= 0) {
                if (!steno_mul_size(num, (size_t)in->dim[j], &num))
                    return "size overflows";
            } else if (!used[j]) {
                left = j;
                n_left++;
            }
        }
        if (n_left == 0 && den && num % den == 0)
            out->dim[hole] = (int64_t)(num / den);
        else if (n_left == 1 && num == den)
            out->dim[hole] = in->dim[left];
    }
    return NULL;
}

static steno_status run_reshape(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    int64_t want[STENO_MAX_RANK];
    char a[64];
    size_t n;
    bool found;
    struct steno_shape s = {0};
    const char *wrong;
    steno_status st = steno_ops_axes(ctx, "shape", 1, want, STENO_MAX_RANK, &n, &found, err);
    if (st)
        return st;
    if (!found)
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "no shape was given");
    wrong = reshape_dims(&steno_op_in(ctx, 0)->shape, want, n,
                         steno_node_int(node, "allowzero", 0) != 0, &s);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "cannot reshape %s: %s",
                             steno_shape_str(&steno_op_in(ctx, 0)->shape, a, sizeof a), wrong);
    return steno_op_view(ctx, 0, 0, &s, err);
}

static steno_status infer_reshape(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape in = steno_infer_shape(ic, 0), len = steno_infer_shape(ic, 1), s = {0};
    int64_t want[STENO_MAX_RANK];
    size_t n;
    bool found;
    const char *wrong;
    if (!steno_ops_infer_axes(ic, "shape", 1, want, STENO_MAX_RANK, &n, &found) || !found) {
        s.rank = len.rank == 1 && len.dim[0] >= 0 && len.dim[0] <= STENO_MAX_RANK ? (int)len.dim[0]
                                                                                  : STENO_RANK_ANY;
        for (int i = 0; i < s.rank; i++)
            s.dim[i] = steno_infer_new_dim(ic);
        steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
        return STENO_OK;
    }
    wrong =
        reshape_dims(&in, want, n, steno_node_int(steno_infer_node(ic), "allowzero", 0) != 0, &s);
    if (wrong)
        return steno_fail(err, STENO_ERR_INVAL, "reshape: %s", wrong);
    for (int i = 0; i < s.rank; i++)
        if (s.dim[i] == STENO_DIM_ANY)
            s.dim[i] = steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* ---- Squeeze, Unsqueeze, Flatten ---- */
/* Mark the axes. False: one is out of range or, if `once` is set, repeated. */
static bool mark_shape(const int64_t *axes, size_t n, int rank, bool once, bool *set)
{
    memset(set, 0, STENO_MAX_RANK * sizeof *set);
    for (size_t i = 0; i < n; i++) {
        int a;
        if (!steno_ops_axis(axes[i], rank, &a) || (once && set[a]))
            return false;
        set[a] = true;
    }
    return true;
}

static const char *squeeze_dims(const struct steno_shape *in, const int64_t *axes, size_t n,
                                bool all, struct steno_shape *out)
{
    bool set[STENO_MAX_RANK];
    if (!mark_shape(axes, n, in->rank, false, set))
        return "axis out of range";
    out->rank = 0;
    for (int i = 0; i < in->rank; i++) {
        if (all ? in->dim[i] == 1 : set[i]) {
            if (in->dim[i] >= 0 && in->dim[i] != 1)
                return "the axis does not have length 1";
            continue;
        }
        out->dim[out->rank++] = in->dim[i];
    }
    return NULL;
}

static const char *unsqueeze_dims(const struct steno_shape *in, const int64_t *axes, size_t n,
                                  struct steno_shape *out)
{
    bool set[STENO_MAX_RANK];
    int rank = in->rank + (int)n;
    if (n > STENO_MAX_RANK || rank > STENO_MAX_RANK)
        return "the rank is too high";
    if (!mark_shape(axes, n, rank, true, set))
        return "an axis is out of range or repeated";
    out->rank = rank;
    for (int i = 0, j = 0; i < rank; i++)
        out->dim[i] = set[i] ? 1 : in->dim[j++];
    return NULL;
}

static const char *flatten_dims(const struct steno_shape *in, int64_t axis, struct steno_shape *out)
{
    int a = (int)axis;
    if (axis != in->rank && !steno_ops_axis(axis, in->rank, &a))
        return "axis out of range";
    out->rank = 2;
    for (int side = 0; side < 2; side++) {
        int from = side ? a : 0, to = side ? in->rank : a, unknown = 0;
        size_t n = 1;
        int64_t sym = STENO_DIM_ANY;
        for (int i = from; i < to; i++) {
            if (in->dim[i] < 0) {
                unknown++;
                sym = in->dim[i];
            } else if (!steno_mul_size(n, (size_t)in->dim[i], &n)) {
                return "size overflows";
            }
        }
        out->dim[side] = !unknown ? (int64_t)n : unknown == 1 && n == 1 ? sym : STENO_DIM_ANY;
    }
    return NULL;
}

static const char *view_dims(const struct steno_node *node, const struct steno_shape *in,
                             const int64_t *axes, size_t n, bool found, struct steno_shape *out)
{
    switch (node->op_type[0]) {
    case 'S':
        return squeeze_dims(in, axes, n, !found, out);
    case 'U':
        return unsqueeze_dims(in, axes, n, out);
    default:
        return flatten_dims(in, steno_node_int(node, "axis", 1), out);
    }
}

static steno_status run_view(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    int64_t axes[STENO_MAX_RANK];
    size_t n;
    bool found;
    struct steno_shape s = {0};
    const char *wrong;
    char a[64];
    steno_status st = steno_ops_axes(ctx, "axes", 1, axes, STENO_MAX_RANK, &n, &found, err);
    if (st)
        return st;
    wrong = view_dims(node, &steno_op_in(ctx, 0)->shape, axes, n, found, &s);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %s: %s",
                             steno_shape_str(&steno_op_in(ctx, 0)->shape, a, sizeof a), wrong);
    return steno_op_view(ctx, 0, 0, &s, err);
}

static steno_status infer_view(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *node = steno_infer_node(ic);
    struct steno_shape in = steno_infer_shape(ic, 0), s = {.rank = STENO_RANK_ANY};
    int64_t axes[STENO_MAX_RANK];
    size_t n;
    bool found, known = steno_ops_infer_axes(ic, "axes", 1, axes, STENO_MAX_RANK, &n, &found);
    if (in.rank >= 0 && known) {
        const char *wrong;
        if (!found && node->op_type[0] == 'S' && !steno_shape_known(&in)) {
            /* it is not known which dims are 1 */
            steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), NULL);
            return STENO_OK;
        }
        wrong = view_dims(node, &in, axes, n, found, &s);
        if (wrong)
            return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
        for (int i = 0; i < s.rank; i++)
            if (s.dim[i] == STENO_DIM_ANY)
                s.dim[i] = steno_infer_new_dim(ic);
    } else if (node->op_type[0] == 'F') {
        s = (struct steno_shape){.rank = 2};
        s.dim[0] = steno_infer_new_dim(ic);
        s.dim[1] = steno_infer_new_dim(ic);
    }
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* ---- Identity, Dropout ---- */
static steno_status run_identity(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_shape s;
    s = steno_op_in(ctx, 0)->shape;
    return steno_op_view(ctx, 0, 0, &s, err);
}

static uint64_t next_random(uint64_t *state) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* By default, inference: output x and, if requested, a mask of ones. With training_mode elements
 * are dropped by a generator with a fixed seed: the same input gives the same output. */
static steno_status run_dropout(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0), *ratio_in = steno_op_in(ctx, 1),
                              *mode = steno_op_in(ctx, 2);
    struct steno_tensor *y, *mask = NULL;
    uint64_t state = (uint64_t)steno_node_int(steno_op_node(ctx), "seed", 0);
    double ratio = 0.5;
    size_t n;
    steno_status st;
    if (!steno_ops_is_float(x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    if (ratio_in && steno_numel(ratio_in) == 1)
        ratio = steno_ops_get_f64(ratio_in, 0);
    if (!mode || steno_numel(mode) != 1 || !steno_ops_get_i64(mode, 0))
        ratio = 0;
    if (!(ratio >= 0 && ratio < 1))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "ratio is outside [0,1)");
    if (steno_op_node(ctx)->opset < 7 && !steno_node_int(steno_op_node(ctx), "is_test", 0) &&
        steno_node_float(steno_op_node(ctx), "ratio", 0.5f) != 0)
        return steno_op_fail(ctx, err, STENO_ERR_UNSUPPORTED,
                             "is for training (is_test is 0): export the model for inference");
    st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    if (!st && steno_op_wants(ctx, 1))
        st = steno_op_out(ctx, 1, steno_op_node(ctx)->opset < 10 ? x->dtype : STENO_BOOL, &x->shape,
                          &mask, err);
    if (st)
        return st;
    n = steno_numel(x);
    if (ratio == 0) {
        memmove(y->data, x->data, n * steno_dtype_size(x->dtype));
        for (size_t i = 0; mask && i < n; i++)
            steno_ops_set_f64(mask, i, 1);
        return STENO_OK;
    }
    for (size_t i = 0; i < n; i++) {
        bool keep = (double)(next_random(&state) >> 11) * 0x1p-53 >= ratio;
        steno_ops_set_f64(y, i, keep ? steno_ops_get_f64(x, i) / (1 - ratio) : 0);
        if (mask)
            steno_ops_set_f64(mask, i, keep);
    }
    return STENO_OK;
}

static steno_status infer_dropout(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    steno_dtype t = steno_infer_dtype(ic, 0);
    (void)err;
    steno_infer_set(ic, 0, t, &s);
    steno_infer_set(ic, 1, steno_infer_node(ic)->opset < 10 ? t : STENO_BOOL, &s);
    return STENO_OK;
}

/* ---- Expand ---- */
static steno_status run_expand(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_shape want = {0}, s;
    struct steno_tensor *y;
    int64_t in[STENO_MAX_RANK], ss[STENO_MAX_RANK], ds[STENO_MAX_RANK];
    char a[64], b[64];
    size_t n;
    steno_status st = steno_ops_ints(ctx, 1, want.dim, STENO_MAX_RANK, &n, err);
    if (st)
        return st;
    want.rank = (int)n;
    if (!steno_shape_known(&want) || steno_shape_broadcast(&x->shape, &want, &s))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "cannot expand %s to %s",
                             steno_shape_str(&x->shape, a, sizeof a),
                             steno_shape_str(&want, b, sizeof b));
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st)
        return st;
    steno_ops_strides(&x->shape, in);
    steno_ops_strides(&s, ds);
    for (int i = s.rank - 1, j = x->shape.rank - 1; i >= 0; i--, j--)
        ss[i] = j < 0 || x->shape.dim[j] == 1 ? 0 : in[j];
    steno_ops_copy(s.rank, s.dim, steno_dtype_size(x->dtype), y->data, ds, x->data, ss);
    return STENO_OK;
}

static steno_status infer_expand(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape in = steno_infer_shape(ic, 0), len = steno_infer_shape(ic, 1), want = {0}, s;
    size_t n;
    if (steno_infer_ints(ic, 1, want.dim, STENO_MAX_RANK, &n)) {
        want.rank = (int)n;
        if (!steno_shape_known(&want) || steno_shape_broadcast(&in, &want, &s))
            return steno_fail(err, STENO_ERR_INVAL, "shapes do not broadcast");
    } else {
        s.rank = STENO_RANK_ANY;
        if (len.rank == 1 && len.dim[0] >= 0 && len.dim[0] <= STENO_MAX_RANK && in.rank >= 0) {
            s.rank = in.rank > (int)len.dim[0] ? in.rank : (int)len.dim[0];
            for (int i = 1; i <= s.rank; i++) { /* a dim above 1 is kept */
                int64_t d = i <= in.rank ? in.dim[in.rank - i] : 1;
                s.dim[s.rank - i] = d > 1 || i > (int)len.dim[0] ? d : steno_infer_new_dim(ic);
            }
        }
    }
    for (int i = 0; i < s.rank; i++)
        if (s.dim[i] == STENO_DIM_ANY)
            s.dim[i] = steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* ---- ConstantOfShape ---- */
static steno_status run_constant_of_shape(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_attr *a = steno_node_attr(steno_op_node(ctx), "value");
    const struct steno_tensor *v = a && a->kind == STENO_ATTR_TENSOR ? a->t : NULL;
    static const float zero = 0;
    steno_dtype t = v ? v->dtype : STENO_F32;
    struct steno_shape s = {0};
    struct steno_tensor *y;
    size_t n;
    steno_status st = steno_ops_ints(ctx, 0, s.dim, STENO_MAX_RANK, &n, err);
    if (st)
        return st;
    s.rank = (int)n;
    if (!steno_shape_known(&s))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "a dimension is negative");
    if (v && steno_numel(v) != 1)
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "value must be one element");
    if (!steno_dtype_is_element(t))
        return steno_ops_bad_type(ctx, err, t);
    st = steno_op_out(ctx, 0, t, &s, &y, err);
    if (!st)
        steno_ops_fill(y->data, steno_numel(y), steno_dtype_size(t), v ? v->data : &zero);
    return st;
}

static steno_status infer_constant_of_shape(struct steno_infer *ic, steno_err *err)
{
    const struct steno_attr *a = steno_node_attr(steno_infer_node(ic), "value");
    steno_dtype t = a && a->kind == STENO_ATTR_TENSOR ? a->t->dtype : STENO_F32;
    struct steno_shape len = steno_infer_shape(ic, 0), s = {.rank = STENO_RANK_ANY};
    size_t n;
    if (steno_infer_ints(ic, 0, s.dim, STENO_MAX_RANK, &n)) {
        s.rank = (int)n;
        if (!steno_shape_known(&s))
            return steno_fail(err, STENO_ERR_INVAL, "a dimension is negative");
    } else if (len.rank == 1 && len.dim[0] >= 0 && len.dim[0] <= STENO_MAX_RANK) {
        s.rank = (int)len.dim[0];
        for (int i = 0; i < s.rank; i++)
            s.dim[i] = steno_infer_new_dim(ic);
    }
    steno_infer_set(ic, 0, t, &s);
    return STENO_OK;
}

/* ---- Range ---- */
/* Number of elements; -1: the step is 0, a bound is NaN, or the count is beyond 2^53. */
static int64_t range_count(const struct steno_tensor *const *v)
{
    double n;
    if (!steno_ops_is_float(v[0]->dtype)) {
        int64_t a = steno_ops_get_i64(v[0], 0), b = steno_ops_get_i64(v[1], 0),
                d = steno_ops_get_i64(v[2], 0);
        uint64_t span, step;
        if (!d)
            return -1;
        if (d > 0 ? b <= a : b >= a)
            return 0;
        span = d > 0 ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b;
        step = d > 0 ? (uint64_t)d : 0 - (uint64_t)d;
        span = (span - 1) / step + 1;
        return span > INT64_MAX ? -1 : (int64_t)span;
    }
    n = ceil((steno_ops_get_f64(v[1], 0) - steno_ops_get_f64(v[0], 0)) /
             steno_ops_get_f64(v[2], 0));
    if (isnan(n) || n > 0x1p53)
        return -1;
    return n > 0 ? (int64_t)n : 0;
}

static steno_status run_range(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *v[3];
    struct steno_shape s = {.rank = 1};
    struct steno_tensor *y;
    size_t e;
    steno_status st;
    for (int i = 0; i < 3; i++) {
        v[i] = steno_op_in(ctx, i);
        if (steno_numel(v[i]) != 1 || v[i]->dtype != v[0]->dtype ||
            !steno_dtype_is_element(v[i]->dtype))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                                 "start, limit and delta must be three numbers of one type");
    }
    s.dim[0] = range_count(v);
    if (s.dim[0] < 0)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the step is 0, or the range has no end");
    st = steno_op_out(ctx, 0, v[0]->dtype, &s, &y, err);
    if (st)
        return st;
    e = steno_dtype_size(y->dtype);
    for (int64_t i = 0; i < s.dim[0]; i++) {
        char *to = (char *)y->data + (size_t)i * e;
        if (steno_ops_is_float(y->dtype)) {
            double x = steno_ops_get_f64(v[0], 0) + (double)i * steno_ops_get_f64(v[2], 0);
            steno_ops_store_f64(to, y->dtype, &x, 1);
        } else {
            uint64_t x = (uint64_t)steno_ops_get_i64(v[0], 0) +
                         (uint64_t)i * (uint64_t)steno_ops_get_i64(v[2], 0);
            memcpy(to, &x, e);
        }
    }
    return STENO_OK;
}

static steno_status infer_range(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = {.rank = 1};
    const struct steno_tensor *v[3];
    bool known = true;
    for (int i = 0; i < 3; i++) {
        v[i] = steno_infer_value(ic, i);
        known = known && v[i] && steno_numel(v[i]) == 1 && v[i]->dtype == v[0]->dtype;
    }
    s.dim[0] = known ? range_count(v) : steno_infer_new_dim(ic);
    if (known && s.dim[0] < 0)
        return steno_fail(err, STENO_ERR_INVAL, "the step is 0, or the range has no end");
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

const struct steno_op steno_ops_shape_family[] = {
    {"", "Shape", 1, 0, STENO_OP_SHAPE_ONLY, infer_shape, NULL, NULL, run_shape},
    {"", "Size", 1, 0, STENO_OP_SHAPE_ONLY, infer_size, NULL, NULL, run_size},
    {"", "Reshape", 5, 0, STENO_OP_VIEW, infer_reshape, NULL, NULL, run_reshape},
    {"", "Squeeze", 1, 0, STENO_OP_VIEW, infer_view, NULL, NULL, run_view},
    {"", "Unsqueeze", 1, 0, STENO_OP_VIEW, infer_view, NULL, NULL, run_view},
    {"", "Flatten", 1, 0, STENO_OP_VIEW, infer_view, NULL, NULL, run_view},
    {"", "Identity", 1, 0, STENO_OP_VIEW, steno_ops_infer_same, NULL, NULL, run_identity},
    {"", "Dropout", 1, 0, STENO_OP_INPLACE0, infer_dropout, NULL, NULL, run_dropout},
    {"", "Expand", 8, 0, 0, infer_expand, NULL, NULL, run_expand},
    {"", "ConstantOfShape", 9, 0, 0, infer_constant_of_shape, NULL, NULL, run_constant_of_shape},
    {"", "Range", 11, 0, 0, infer_range, NULL, NULL, run_range},
    {0},
};
