/* Operators that move elements without looking at them: Transpose, Concat, Split, Slice, Tile, Pad,
 * DepthToSpace, SpaceToDepth. Each is one or a few strided copies. */
#include "nn/ops/internal.h"
#include "nn/ops/families.h"

static void name_new_dims(struct steno_infer *ic, struct steno_shape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] == STENO_DIM_ANY)
            s->dim[i] = steno_infer_new_dim(ic);
}

/* ---- Transpose ---- */
/* perm from the attribute, or reversed order without it. False: it is not a permutation. */
static bool permutation(const struct steno_node *n, int rank, int *perm)
{
    bool seen[STENO_MAX_RANK] = {false};
    size_t count;
    const int64_t *p = steno_node_ints(n, "perm", &count);
    if (p && count != (size_t)rank)
        return false;
    for (int i = 0; i < rank; i++) {
        if (!steno_ops_axis(p ? p[i] : rank - 1 - i, rank, &perm[i]) || seen[perm[i]])
            return false;
        seen[perm[i]] = true;
    }
    return true;
}

struct transpose_job {
    const struct steno_tensor *x;
    const struct steno_tensor *y;
    const int *perm;
    int64_t ss[STENO_MAX_RANK], ds[STENO_MAX_RANK];
    int axis; /* the axis of y that is split between threads */
};

static void transpose_range(void *arg, size_t begin, size_t end)
{
    const struct transpose_job *j = arg;
    struct steno_shape part = j->y->shape;
    size_t e = steno_dtype_size(j->x->dtype);
    part.dim[j->axis] = (int64_t)(end - begin);
    steno_ops_copy(part.rank, part.dim, e, (char *)j->y->data + (size_t)j->ds[j->axis] * begin * e,
                   j->ds, (const char *)j->x->data + (size_t)j->ss[j->axis] * begin * e, j->ss);
}

static steno_status run_transpose(struct steno_op_ctx *ctx, steno_err *err)
{
    struct transpose_job j = {0};
    struct steno_shape s;
    struct steno_tensor *y;
    int perm[STENO_MAX_RANK];
    int64_t in[STENO_MAX_RANK];
    steno_status st;
    j.x = steno_op_in(ctx, 0);
    s.rank = j.x->shape.rank;
    if (!permutation(steno_op_node(ctx), s.rank, perm))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "perm is not a permutation of %d axes",
                             s.rank);
    steno_ops_strides(&j.x->shape, in);
    for (int i = 0; i < s.rank; i++) {
        s.dim[i] = j.x->shape.dim[perm[i]];
        j.ss[i] = in[perm[i]];
    }
    st = steno_op_out(ctx, 0, j.x->dtype, &s, &y, err);
    if (st)
        return st;
    j.y = y;
    steno_ops_strides(&s, j.ds);
    while (j.axis < s.rank - 1 && s.dim[j.axis] == 1)
        j.axis++;
    if (!s.rank) {
        memcpy(y->data, j.x->data, steno_dtype_size(y->dtype));
        return STENO_OK;
    }
    steno_ops_ranges(ctx, (size_t)s.dim[j.axis],
                     1 + 16384 * (size_t)s.dim[j.axis] / (steno_numel(y) + 1), transpose_range, &j);
    return STENO_OK;
}

static steno_status infer_transpose(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape in = steno_infer_shape(ic, 0), s = {.rank = in.rank};
    int perm[STENO_MAX_RANK];
    if (in.rank >= 0 && !permutation(steno_infer_node(ic), in.rank, perm))
        return steno_fail(err, STENO_ERR_INVAL, "perm is not a permutation of %d axes", in.rank);
    for (int i = 0; i < in.rank; i++)
        s.dim[i] = in.dim[perm[i]];
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* ---- Concat ---- */
static steno_status run_concat(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    int n_in = steno_op_n_in(ctx), axis;
    const struct steno_tensor *x = NULL;
    struct steno_shape s;
    struct steno_tensor *y;
    size_t e, outer, row, at = 0;
    steno_status st;
    if (!n_in)
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "there are no inputs");
    s = steno_op_in(ctx, 0)->shape;
    if (!steno_ops_axis(steno_node_int(node, "axis", 1), s.rank, &axis))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    s.dim[axis] = 0;
    for (int i = 0; i < n_in; i++) {
        struct steno_shape t;
        x = steno_op_in(ctx, i);
        t = x->shape;
        if (t.rank == s.rank) {
            if (__builtin_add_overflow(s.dim[axis], t.dim[axis], &s.dim[axis]))
                return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "size overflows");
            t.dim[axis] = s.dim[axis];
        }
        if (!steno_shape_equal(&t, &s) || x->dtype != steno_op_in(ctx, 0)->dtype)
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d does not fit the first", i);
    }
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st)
        return st;
    e = steno_dtype_size(x->dtype);
    outer = steno_ops_prod(&s, 0, axis);
    row = steno_ops_prod(&s, axis, s.rank) * e;
    for (int i = 0; i < n_in; i++) {
        size_t part;
        x = steno_op_in(ctx, i);
        part = steno_ops_prod(&x->shape, axis, s.rank) * e;
        for (size_t r = 0; r < outer && part; r++)
            memcpy((char *)y->data + r * row + at, (const char *)x->data + r * part, part);
        at += part;
    }
    return STENO_OK;
}

static steno_status infer_concat(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *node = steno_infer_node(ic);
    struct steno_shape s = {.rank = STENO_RANK_ANY};
    int64_t sum = 0;
    int axis = 0, known = 0;
    for (int i = 0; i < node->n_in; i++) {
        struct steno_shape t = steno_infer_shape(ic, i);
        if (t.rank < 0) {
            sum = -1;
            continue;
        }
        if (!known++) {
            s = t;
            if (!steno_ops_axis(steno_node_int(node, "axis", 1), s.rank, &axis))
                return steno_fail(err, STENO_ERR_INVAL, "axis out of range");
        }
        if (t.rank != s.rank)
            return steno_fail(err, STENO_ERR_INVAL, "inputs differ in rank, %d and %d", s.rank,
                              t.rank);
        for (int d = 0; d < s.rank; d++) {
            if (d == axis || t.dim[d] < 0)
                continue;
            if (s.dim[d] >= 0 && s.dim[d] != t.dim[d])
                return steno_fail(err, STENO_ERR_INVAL, "inputs differ in dimension %d", d);
            s.dim[d] = t.dim[d];
        }
        if (t.dim[axis] < 0 || sum < 0 || __builtin_add_overflow(sum, t.dim[axis], &sum))
            sum = -1;
    }
    if (s.rank >= 0 && (node->n_in > 1 || sum >= 0))
        s.dim[axis] = sum >= 0 && known == node->n_in ? sum : steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* ---- Split ---- */
/* Lengths of the n_out parts of `dim`. given: the lengths, or NULL for (nearly) equal parts (opset
 * 18: the last is smaller). Returns NULL, or a message that says what is wrong. */
static const char *split_lengths(int64_t dim, const int64_t *given, size_t n_given, int n_out,
                                 bool uneven, int64_t *len)
{
    int64_t sum = 0, part;
    if (given) {
        if (n_given != (size_t)n_out)
            return "the number of lengths differs from the number of outputs";
        for (int i = 0; i < n_out; i++) {
            if (given[i] < 0 || given[i] > dim - sum)
                return "the lengths do not add up to the dimension";
            sum += len[i] = given[i];
        }
        return sum == dim ? NULL : "the lengths do not add up to the dimension";
    }
    part = (dim + n_out - 1) / n_out;
    if (!uneven && dim % n_out)
        return "the dimension is not a multiple of the number of outputs";
    for (int i = 0; i < n_out; i++) {
        len[i] = part < dim - sum ? part : dim - sum;
        sum += len[i];
    }
    return NULL;
}

#define MAX_PARTS 1024

static steno_status run_split(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    int64_t given[MAX_PARTS], len[MAX_PARTS];
    int axis, n_out = steno_op_n_out(ctx);
    size_t n_given, e, outer, row, at = 0;
    const char *wrong;
    bool found;
    steno_status st = steno_ops_axes(ctx, "split", 1, given, MAX_PARTS, &n_given, &found, err);
    if (st)
        return st;
    if (!steno_ops_axis(steno_node_int(node, "axis", 0), x->shape.rank, &axis))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    if (n_out < 1 || n_out > MAX_PARTS)
        return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "%d outputs are not supported", n_out);
    wrong = split_lengths(x->shape.dim[axis], found ? given : NULL, n_given, n_out,
                          node->opset >= 18, len);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    e = steno_dtype_size(x->dtype);
    outer = steno_ops_prod(&x->shape, 0, axis);
    row = steno_ops_prod(&x->shape, axis, x->shape.rank) * e;
    for (int i = 0; i < n_out; i++) {
        struct steno_shape s = x->shape;
        struct steno_tensor *y;
        size_t part;
        s.dim[axis] = len[i];
        part = steno_ops_prod(&s, axis, s.rank) * e;
        if (steno_op_wants(ctx, i)) {
            st = steno_op_out(ctx, i, x->dtype, &s, &y, err);
            if (st)
                return st;
            for (size_t r = 0; r < outer && part; r++)
                memcpy((char *)y->data + r * part, (const char *)x->data + r * row + at, part);
        }
        at += part;
    }
    return STENO_OK;
}

static steno_status infer_split(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *node = steno_infer_node(ic);
    struct steno_shape s = steno_infer_shape(ic, 0);
    int64_t given[MAX_PARTS], len[MAX_PARTS];
    int axis = 0;
    size_t n = 0;
    bool found = false, known;
    if (node->n_out < 1 || node->n_out > MAX_PARTS)
        return steno_fail(err, STENO_ERR_LIMIT, "%d outputs are not supported", node->n_out);
    known = steno_ops_infer_axes(ic, "split", 1, given, MAX_PARTS, &n, &found) && s.rank >= 0;
    if (s.rank >= 0 && !steno_ops_axis(steno_node_int(node, "axis", 0), s.rank, &axis))
        return steno_fail(err, STENO_ERR_INVAL, "axis out of range");
    if (known && s.dim[axis] >= 0) {
        const char *wrong = split_lengths(s.dim[axis], found ? given : NULL, n, node->n_out,
                                          node->opset >= 18, len);
        if (wrong)
            return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    } else if (known && found && n == (size_t)node->n_out) {
        memcpy(len, given, n * sizeof *len);
    } else {
        known = false;
    }
    for (int i = 0; i < node->n_out; i++) {
        if (s.rank >= 0)
            s.dim[axis] = known ? len[i] : steno_infer_new_dim(ic);
        steno_infer_set(ic, i, steno_infer_dtype(ic, 0), &s);
    }
    return STENO_OK;
}

/* ---- Slice ---- */
struct slice {
    int64_t start[STENO_MAX_RANK], step[STENO_MAX_RANK], len[STENO_MAX_RANK];
};

/* First index and count for start, end and step on an axis of length dim (ONNX Slice-10
 * clamping). */
static const char *slice_axis(int64_t dim, int64_t start, int64_t end, int64_t step, int64_t *first,
                              int64_t *len)
{
    int64_t lo, hi;
    if (!step)
        return "a step is 0";
    if (step == INT64_MIN)
        return "a step is too large";
    start = start < 0 ? (start < -dim ? -1 : start + dim) : start;
    end = end < 0 ? (end < -dim ? -1 : end + dim) : end;
    if (step > 0) {
        lo = start < 0 ? 0 : start > dim ? dim : start;
        hi = end < 0 ? 0 : end > dim ? dim : end;
        *len = hi > lo ? (hi - lo - 1) / step + 1 : 0;
    } else {
        lo = start < 0 ? 0 : start > dim - 1 ? dim - 1 : start;
        hi = end < -1 ? -1 : end > dim - 1 ? dim - 1 : end;
        *len = dim && lo > hi ? (lo - hi - 1) / -step + 1 : 0;
    }
    *first = *len ? lo : 0;
    return NULL;
}

struct slice_args {
    int64_t start[STENO_MAX_RANK], end[STENO_MAX_RANK], axes[STENO_MAX_RANK], step[STENO_MAX_RANK];
    size_t n;
};

static const char *slice_plan(const struct steno_shape *s, const struct slice_args *a,
                              struct slice *out)
{
    bool seen[STENO_MAX_RANK] = {false};
    for (int i = 0; i < s->rank; i++) {
        out->start[i] = 0;
        out->step[i] = 1;
        out->len[i] = s->dim[i];
    }
    for (size_t i = 0; i < a->n; i++) {
        int axis;
        const char *wrong;
        if (!steno_ops_axis(a->axes[i], s->rank, &axis) || seen[axis])
            return "an axis is out of range or repeated";
        seen[axis] = true;
        if (s->dim[axis] < 0) { /* during inference */
            bool whole = a->start[i] == 0 && a->step[i] == 1 && a->end[i] >= INT32_MAX;
            out->len[axis] = whole ? s->dim[axis] : STENO_DIM_ANY;
            continue;
        }
        wrong = slice_axis(s->dim[axis], a->start[i], a->end[i], a->step[i], &out->start[axis],
                           &out->len[axis]);
        if (wrong)
            return wrong;
        out->step[axis] = a->step[i];
    }
    return NULL;
}

static steno_status slice_args_run(struct steno_op_ctx *ctx, struct slice_args *a, steno_err *err)
{
    size_t n_end, n_axes, n_step;
    bool found;
    steno_status st =
        steno_ops_axes(ctx, "starts", 1, a->start, STENO_MAX_RANK, &a->n, &found, err);
    if (!st)
        st = steno_ops_axes(ctx, "ends", 2, a->end, STENO_MAX_RANK, &n_end, &found, err);
    if (st)
        return st;
    st = steno_ops_axes(ctx, "axes", 3, a->axes, STENO_MAX_RANK, &n_axes, &found, err);
    if (st)
        return st;
    for (size_t i = 0; !found && i < STENO_MAX_RANK; i++)
        a->axes[i] = (int64_t)i;
    n_axes = found ? n_axes : a->n;
    st = steno_ops_axes(ctx, "steps", 4, a->step, STENO_MAX_RANK, &n_step, &found, err);
    if (st)
        return st;
    for (size_t i = 0; !found && i < STENO_MAX_RANK; i++)
        a->step[i] = 1;
    n_step = found ? n_step : a->n;
    if (n_end != a->n || n_axes != a->n || n_step != a->n)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%zu starts, %zu ends, %zu axes, %zu steps",
                             a->n, n_end, n_axes, n_step);
    return STENO_OK;
}

static steno_status run_slice(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct slice_args a;
    struct slice p;
    struct steno_shape s;
    struct steno_tensor *y;
    int64_t in[STENO_MAX_RANK], ss[STENO_MAX_RANK], ds[STENO_MAX_RANK], offset = 0;
    const char *wrong;
    steno_status st = slice_args_run(ctx, &a, err);
    if (st)
        return st;
    wrong = slice_plan(&x->shape, &a, &p);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    s = steno_ops_shape(x->shape.rank, p.len);
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    steno_ops_strides(&x->shape, in);
    steno_ops_strides(&s, ds);
    for (int i = 0; i < s.rank; i++) {
        offset += p.start[i] * in[i];
        ss[i] = p.len[i] > 1 ? p.step[i] * in[i] : 0; /* a step beyond the data is not used */
    }
    steno_ops_copy(s.rank, s.dim, steno_dtype_size(x->dtype), y->data, ds,
                   (const char *)x->data + offset * (int64_t)steno_dtype_size(x->dtype), ss);
    return STENO_OK;
}

static steno_status infer_slice(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape in = steno_infer_shape(ic, 0), s;
    struct slice_args a;
    struct slice p;
    size_t n_end, n_axes, n_step;
    bool found, has_axes, has_step, known_ends, known;
    const char *wrong;
    steno_dtype t = steno_infer_dtype(ic, 0);
    if (in.rank < 0) {
        steno_infer_set(ic, 0, t, NULL);
        return STENO_OK;
    }
    s = in;
    known = steno_ops_infer_axes(ic, "axes", 3, a.axes, STENO_MAX_RANK, &n_axes, &has_axes);
    known_ends = steno_ops_infer_axes(ic, "starts", 1, a.start, STENO_MAX_RANK, &a.n, &found) &&
                 steno_ops_infer_axes(ic, "ends", 2, a.end, STENO_MAX_RANK, &n_end, &found) &&
                 steno_ops_infer_axes(ic, "steps", 4, a.step, STENO_MAX_RANK, &n_step, &has_step);
    if (!known || (!known_ends && !has_axes)) {
        for (int i = 0; i < s.rank; i++)
            s.dim[i] = steno_infer_new_dim(ic);
        steno_infer_set(ic, 0, t, &s);
        return STENO_OK;
    }
    if (!known_ends) { /* other axes keep their length */
        for (size_t i = 0; i < n_axes; i++) {
            int axis;
            if (!steno_ops_axis(a.axes[i], s.rank, &axis))
                return steno_fail(err, STENO_ERR_INVAL, "axis out of range");
            s.dim[axis] = steno_infer_new_dim(ic);
        }
        steno_infer_set(ic, 0, t, &s);
        return STENO_OK;
    }
    for (size_t i = 0; i < STENO_MAX_RANK; i++) {
        if (!has_axes)
            a.axes[i] = (int64_t)i;
        if (!has_step)
            a.step[i] = 1;
    }
    if (n_end != a.n || (has_axes && n_axes != a.n) || (has_step && n_step != a.n))
        return steno_fail(err, STENO_ERR_INVAL, "starts, ends, axes, steps differ in number");
    wrong = slice_plan(&in, &a, &p);
    if (wrong)
        return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    s = steno_ops_shape(in.rank, p.len);
    name_new_dims(ic, &s);
    steno_infer_set(ic, 0, t, &s);
    return STENO_OK;
}

/* ---- Tile ---- */
static steno_status run_tile(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_shape s;
    struct steno_tensor *y;
    int64_t rep[STENO_MAX_RANK], filled[STENO_MAX_RANK], ds[STENO_MAX_RANK], ss[STENO_MAX_RANK];
    size_t n, e;
    steno_status st = steno_ops_ints(ctx, 1, rep, STENO_MAX_RANK, &n, err);
    if (st)
        return st;
    s = x->shape;
    if (n != (size_t)s.rank)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%zu repeats do not fit rank %d", n,
                             s.rank);
    for (int i = 0; i < s.rank; i++)
        if (rep[i] < 0 || __builtin_mul_overflow(s.dim[i], rep[i], &s.dim[i]))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "repeats[%d] is out of range", i);
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    e = steno_dtype_size(x->dtype);
    steno_ops_strides(&s, ds);
    steno_ops_strides(&x->shape, ss);
    steno_ops_copy(s.rank, x->shape.dim, e, y->data, ds, x->data, ss);
    memcpy(filled, x->shape.dim, (size_t)s.rank * sizeof *filled);
    for (int i = s.rank - 1; i >= 0; i--) { /* repeat the filled part along each axis in turn */
        char *d = y->data;
        for (int64_t k = 1; k < rep[i]; k++)
            steno_ops_copy(s.rank, filled, e, d + (size_t)(k * filled[i] * ds[i]) * e, ds, d, ds);
        filled[i] = s.dim[i];
    }
    return STENO_OK;
}

static steno_status infer_tile(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    int64_t rep[STENO_MAX_RANK];
    size_t n;
    bool known = steno_infer_ints(ic, 1, rep, STENO_MAX_RANK, &n);
    if (known && s.rank >= 0 && n != (size_t)s.rank)
        return steno_fail(err, STENO_ERR_INVAL, "%zu repeats do not fit rank %d", n, s.rank);
    for (int i = 0; i < s.rank; i++) {
        if (known && rep[i] == 1)
            continue;
        if (!known || s.dim[i] < 0)
            s.dim[i] = known && rep[i] == 0 ? 0 : steno_infer_new_dim(ic);
        else if (rep[i] < 0 || __builtin_mul_overflow(s.dim[i], rep[i], &s.dim[i]))
            return steno_fail(err, STENO_ERR_INVAL, "repeats[%d] is out of range", i);
    }
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* ---- Pad ---- */
enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

/* Source index for position i (may be negative or past the end) of an axis of length n >= 1. */
static int64_t pad_index(enum pad_mode mode, int64_t i, int64_t n)
{
    int64_t period;
    if (mode == PAD_EDGE)
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    period = mode == PAD_WRAP ? n : n > 1 ? 2 * n - 2 : 1;
    i %= period;
    i = i < 0 ? i + period : i;
    return i < n ? i : 2 * n - 2 - i;
}

/* Set before[] and after[] of every axis. Returns NULL, or a message that says what is wrong. */
static const char *pad_amounts(const int64_t *pads, size_t n, const int64_t *axes, size_t n_axes,
                               bool has_axes, int rank, int64_t *before, int64_t *after)
{
    memset(before, 0, STENO_MAX_RANK * sizeof *before);
    memset(after, 0, STENO_MAX_RANK * sizeof *after);
    if (!has_axes)
        n_axes = (size_t)rank;
    if (n != 2 * n_axes)
        return "pads must hold two numbers for each axis";
    for (size_t i = 0; i < n_axes; i++) {
        int a;
        if (!steno_ops_axis(has_axes ? axes[i] : (int64_t)i, rank, &a))
            return "axis out of range";
        before[a] = pads[i];
        after[a] = pads[n_axes + i];
    }
    return NULL;
}

static bool pad_dim(int64_t dim, int64_t before, int64_t after, int64_t *out)
{
    return !__builtin_add_overflow(dim, before, out) && !__builtin_add_overflow(*out, after, out) &&
           *out >= 0;
}

/* Copy elements of row x [have] to places [from, to) of a padded row, one by one. */
static void pad_repeat(char *d, int64_t from, int64_t to, const char *x, int64_t have, size_t e,
                       enum pad_mode mode, int64_t before)
{
    if (mode == PAD_REFLECT && e == sizeof(float) && from < to && from - before > -have &&
        to - before < 2 * have) { /* one reflection, as for most audio */
        int64_t i = from;
        for (; i < to && i < before; i++)
            memcpy(d + (size_t)i * 4, x + (size_t)(before - i) * 4, 4);
        for (; i < to; i++)
            memcpy(d + (size_t)i * 4, x + (size_t)(2 * have - 2 - i + before) * 4, 4);
        return;
    }
    for (int64_t i = from; i < to; i++)
        memcpy(d + (size_t)i * e, x + (size_t)pad_index(mode, i - before, have) * e, e);
}

/* Write a row of n elements: one copy for the elements of x [have], the rest repeated. */
static void pad_row(char *d, int64_t n, const char *x, int64_t have, size_t e, enum pad_mode mode,
                    int64_t before)
{
    int64_t first = before > 0 ? before : 0, end = before + have;
    first = first < n ? first : n;
    end = end < n ? end : n;
    end = end > first ? end : first;
    pad_repeat(d, 0, first, x, have, e, mode, before);
    if (end > first)
        memcpy(d + (size_t)first * e, x + (size_t)(first - before) * e, (size_t)(end - first) * e);
    pad_repeat(d, end, n, x, have, e, mode, before);
}

/* Pad in the modes that repeat data. */
static void pad_gather(const struct steno_tensor *x, const struct steno_tensor *y,
                       enum pad_mode mode, const int64_t *before)
{
    const int last = y->shape.rank - 1;
    size_t e = steno_dtype_size(x->dtype), n = steno_numel(y);
    int64_t in[STENO_MAX_RANK], idx[STENO_MAX_RANK] = {0};
    char *d = y->data;
    steno_ops_strides(&x->shape, in);
    if (last < 0) {
        memcpy(d, x->data, e);
        return;
    }
    for (size_t row = (size_t)y->shape.dim[last], i = 0; i < n; i += row, d += row * e) {
        const char *from = x->data;
        for (int k = 0; k < last; k++)
            from += (size_t)(pad_index(mode, idx[k] - before[k], x->shape.dim[k]) * in[k]) * e;
        pad_row(d, (int64_t)row, from, x->shape.dim[last], e, mode, before[last]);
        for (int k = last - 1; k >= 0 && ++idx[k] == y->shape.dim[k]; k--)
            idx[k] = 0;
    }
}

/* Copy the part of x that remains (negative pads remove some) into y. */
static void pad_copy(const struct steno_tensor *x, const struct steno_tensor *y,
                     const int64_t *before, const int64_t *after)
{
    size_t e = steno_dtype_size(x->dtype);
    int64_t ss[STENO_MAX_RANK], ds[STENO_MAX_RANK], len[STENO_MAX_RANK];
    const char *s = x->data;
    char *d = y->data;
    steno_ops_strides(&x->shape, ss);
    steno_ops_strides(&y->shape, ds);
    for (int i = 0; i < x->shape.rank; i++) {
        int64_t cut = before[i] < 0 ? -before[i] : 0, tail = after[i] < 0 ? -after[i] : 0;
        len[i] = x->shape.dim[i] - cut - tail;
        if (len[i] <= 0)
            return;
        s += (size_t)(cut * ss[i]) * e;
        d += (size_t)((before[i] > 0 ? before[i] : 0) * ds[i]) * e;
    }
    steno_ops_copy(x->shape.rank, len, e, d, ds, s, ss);
}

static steno_status run_pad(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    const char *name = steno_node_str(node, "mode", "constant"), *wrong;
    enum pad_mode mode = !strcmp(name, "reflect") ? PAD_REFLECT
                         : !strcmp(name, "edge")  ? PAD_EDGE
                         : !strcmp(name, "wrap")  ? PAD_WRAP
                                                  : PAD_CONSTANT;
    int64_t pads[2 * STENO_MAX_RANK], axes[STENO_MAX_RANK], before[STENO_MAX_RANK],
        after[STENO_MAX_RANK];
    const struct steno_tensor *x = steno_op_in(ctx, 0), *value = steno_op_in(ctx, 2);
    struct steno_tensor *y;
    struct steno_shape s;
    size_t n, n_axes;
    bool found, has_axes;
    uint64_t fill = 0;
    steno_status st = steno_ops_axes(ctx, "pads", 1, pads, 2 * STENO_MAX_RANK, &n, &found, err);
    if (!st)
        st = steno_ops_axes(ctx, "axes", 3, axes, STENO_MAX_RANK, &n_axes, &has_axes, err);
    if (st)
        return st;
    s = x->shape;
    wrong = pad_amounts(pads, n, axes, n_axes, has_axes, s.rank, before, after);
    for (int i = 0; i < s.rank && !wrong; i++) {
        if (!pad_dim(s.dim[i], before[i], after[i], &s.dim[i]))
            wrong = "a dimension becomes negative or overflows";
        else if (mode != PAD_CONSTANT && s.dim[i] && !x->shape.dim[i])
            wrong = "an empty input has nothing to repeat";
    }
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st)
        return st;
    if (value && steno_numel(value) >= 1 && value->dtype == x->dtype) {
        memcpy(&fill, value->data, steno_dtype_size(x->dtype));
    } else if (!value) {
        double v = (double)steno_node_float(node, "value", 0);
        steno_ops_store_f64(&fill, x->dtype, &v, 1);
    } else {
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "constant_value must be one number of type %s",
                             steno_dtype_name(x->dtype));
    }
    if (mode == PAD_CONSTANT) {
        steno_ops_fill(y->data, steno_numel(y), steno_dtype_size(x->dtype), &fill);
        pad_copy(x, y, before, after);
    } else {
        pad_gather(x, y, mode, before);
    }
    return STENO_OK;
}

static steno_status infer_pad(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    int64_t pads[2 * STENO_MAX_RANK], axes[STENO_MAX_RANK], before[STENO_MAX_RANK],
        after[STENO_MAX_RANK];
    size_t n, n_axes;
    bool found, has_axes, known;
    const char *wrong = NULL;
    known = steno_ops_infer_axes(ic, "pads", 1, pads, 2 * STENO_MAX_RANK, &n, &found) && found &&
            steno_ops_infer_axes(ic, "axes", 3, axes, STENO_MAX_RANK, &n_axes, &has_axes);
    if (known && s.rank >= 0)
        wrong = pad_amounts(pads, n, axes, n_axes, has_axes, s.rank, before, after);
    for (int i = 0; i < s.rank && !wrong; i++) {
        if (known && !before[i] && !after[i])
            continue;
        if (!known || s.dim[i] < 0)
            s.dim[i] = steno_infer_new_dim(ic);
        else if (!pad_dim(s.dim[i], before[i], after[i], &s.dim[i]))
            wrong = "a dimension becomes negative or overflows";
    }
    if (wrong)
        return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

const struct steno_op steno_ops_move[] = {
    {"", "Transpose", 1, 0, 0, infer_transpose, NULL, NULL, run_transpose},
    {"", "Concat", 4, 0, 0, infer_concat, NULL, NULL, run_concat},
    {"", "Split", 2, 0, 0, infer_split, NULL, NULL, run_split},
    {"", "Slice", 1, 0, 0, infer_slice, NULL, NULL, run_slice},
    {"", "Tile", 6, 0, 0, infer_tile, NULL, NULL, run_tile},
    {"", "Pad", 2, 0, 0, infer_pad, NULL, NULL, run_pad},
    {0},
};
