/* Shapes: axis lists, inference shared by families, broadcasting. */
#include "nn/ops/internal.h"

struct steno_shape steno_ops_shape(int rank, const int64_t *dim)
{
    struct steno_shape s = {.rank = rank};
    if (dim && rank > 0)
        memcpy(s.dim, dim, (size_t)rank * sizeof *dim);
    return s;
}

void steno_ops_strides(const struct steno_shape *s, int64_t *stride)
{
    int64_t at = 1;
    for (int i = s->rank - 1; i >= 0; i--) {
        stride[i] = at;
        at *= s->dim[i];
    }
}

steno_status steno_ops_need(const struct steno_op_ctx *ctx, int n_in, steno_err *err)
{
    for (int i = 0; i < n_in; i++)
        if (!steno_op_in(ctx, i))
            return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "input %d is missing", i);
    return STENO_OK;
}

steno_status steno_ops_ints(const struct steno_op_ctx *ctx, int in, int64_t *out, size_t max,
                            size_t *n, steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, in);
    size_t count;
    if (!t)
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "input %d is missing", in);
    if (t->dtype != STENO_I64 && t->dtype != STENO_I32)
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "input %d is %s, expected integers", in,
                             steno_dtype_name(t->dtype));
    count = steno_numel(t);
    if (count > max)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d has %zu numbers, at most %zu fit",
                             in, count, max);
    steno_ops_load_i64(out, t->data, t->dtype, count);
    *n = count;
    return STENO_OK;
}

steno_status steno_ops_axes(const struct steno_op_ctx *ctx, const char *name, int in, int64_t *out,
                            size_t max, size_t *n, bool *found, steno_err *err)
{
    size_t count;
    const int64_t *v = steno_node_ints(steno_op_node(ctx), name, &count);
    *n = 0;
    *found = v != NULL;
    if (v) {
        if (count > max)
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s has %zu entries, at most %zu fit",
                                 name, count, max);
        memcpy(out, v, count * sizeof *v);
        *n = count;
        return STENO_OK;
    }
    if (!steno_op_in(ctx, in))
        return STENO_OK;
    *found = true;
    return steno_ops_ints(ctx, in, out, max, n, err);
}

bool steno_ops_infer_axes(const struct steno_infer *ic, const char *name, int in, int64_t *out,
                          size_t max, size_t *n, bool *found)
{
    size_t count;
    const int64_t *v = steno_node_ints(steno_infer_node(ic), name, &count);
    *n = 0;
    *found = true;
    if (v) {
        if (count > max)
            return false;
        memcpy(out, v, count * sizeof *v);
        *n = count;
        return true;
    }
    if (in >= 0 && steno_infer_has(ic, in))
        return steno_infer_ints(ic, in, out, max, n);
    *found = false;
    return true;
}

steno_status steno_ops_infer_same(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    (void)err;
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

steno_status steno_ops_infer_bshape(struct steno_infer *ic, int first, int last,
                                    struct steno_shape *out, steno_err *err)
{
    char a[64], b[64];
    *out = steno_infer_shape(ic, first);
    for (int i = first + 1; i <= last; i++) {
        struct steno_shape next = steno_infer_shape(ic, i), r;
        steno_status st;
        if (!steno_infer_has(ic, i))
            continue;
        st = steno_shape_broadcast(out, &next, &r);
        if (st)
            return steno_fail(err, STENO_ERR_INVAL, "shapes %s and %s do not broadcast",
                              steno_shape_str(out, a, sizeof a),
                              steno_shape_str(&next, b, sizeof b));
        for (int k = 1; k <= out->rank && k <= next.rank; k++) /* neither is a number then */
            if (r.dim[r.rank - k] == STENO_DIM_ANY)
                r.dim[r.rank - k] =
                    steno_infer_meet(ic, out->dim[out->rank - k], next.dim[next.rank - k]);
        *out = r;
    }
    for (int i = 0; i < out->rank; i++)
        if (out->dim[i] == STENO_DIM_ANY)
            out->dim[i] = steno_infer_new_dim(ic);
    return STENO_OK;
}

steno_status steno_ops_infer_broadcast(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s;
    steno_dtype t = STENO_DT_NONE;
    int n = steno_infer_node(ic)->n_in;
    steno_status st = steno_ops_infer_bshape(ic, 0, n - 1, &s, err);
    if (st)
        return st;
    for (int i = 0; i < n && t == STENO_DT_NONE; i++)
        t = steno_infer_dtype(ic, i);
    steno_infer_set(ic, 0, t, &s);
    return STENO_OK;
}

steno_status steno_ops_infer_compare(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s;
    steno_status st = steno_ops_infer_bshape(ic, 0, steno_infer_node(ic)->n_in - 1, &s, err);
    if (!st)
        steno_infer_set(ic, 0, STENO_BOOL, &s);
    return st;
}

steno_status steno_ops_bshape(const struct steno_op_ctx *ctx, int n_in, struct steno_shape *out,
                              steno_err *err)
{
    char a[64], b[64];
    *out = steno_op_in(ctx, 0)->shape;
    for (int i = 1; i < n_in; i++) {
        const struct steno_shape *next = &steno_op_in(ctx, i)->shape;
        struct steno_shape r;
        if (steno_shape_broadcast(out, next, &r))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "shapes %s and %s do not broadcast",
                                 steno_shape_str(out, a, sizeof a),
                                 steno_shape_str(next, b, sizeof b));
        *out = r;
    }
    return STENO_OK;
}

/* Steps of one operand along the dims of out, in elements; 0 on an axis that repeats. */
static void operand_steps(const struct steno_shape *out, const struct steno_shape *in, size_t *step)
{
    size_t at = 1;
    for (int i = out->rank - 1, j = in->rank - 1; i >= 0; i--, j--) {
        int64_t d = j >= 0 ? in->dim[j] : 1;
        step[i] = d == 1 ? 0 : at;
        at *= (size_t)d;
    }
}

void steno_broadcast_init(struct steno_broadcast *b, const struct steno_shape *out,
                          const struct steno_shape *const *in, int n_in)
{
    size_t step[STENO_OPS_MAX_IN][STENO_MAX_RANK];
    int top = 0; /* dims so far, innermost first, in b->dim */
    memset(b, 0, sizeof *b);
    b->n_in = n_in;
    b->row = b->rows = 1;
    for (int k = 0; k < n_in; k++)
        operand_steps(out, in[k], step[k]);
    for (int i = out->rank - 1; i >= 0; i--) {
        size_t d = (size_t)out->dim[i];
        bool merge = top > 0;
        if (d == 1)
            continue;
        for (int k = 0; k < n_in && merge; k++)
            merge = step[k][i] == b->step[k][top - 1] * b->dim[top - 1];
        if (merge) {
            b->dim[top - 1] *= d;
            continue;
        }
        b->dim[top] = d;
        for (int k = 0; k < n_in; k++)
            b->step[k][top] = step[k][i];
        top++;
    }
    if (!top)
        return;
    b->row = b->dim[0];
    for (int k = 0; k < n_in; k++)
        b->row_step[k] = b->step[k][0];
    b->rank = top - 1;
    for (int i = 0; i < b->rank; i++) {
        b->dim[i] = b->dim[i + 1];
        b->rows *= b->dim[i];
        for (int k = 0; k < n_in; k++)
            b->step[k][i] = b->step[k][i + 1];
    }
    if (!b->row)
        b->rows = 0;
}

void steno_broadcast_start(const struct steno_broadcast *b, struct steno_broadcast_pos *p,
                           size_t row)
{
    memset(p, 0, sizeof *p);
    for (int i = 0; i < b->rank; i++) { /* dims are innermost first */
        p->idx[i] = b->dim[i] ? row % b->dim[i] : 0;
        row = b->dim[i] ? row / b->dim[i] : 0;
        for (int k = 0; k < b->n_in; k++)
            p->at[k] += p->idx[i] * b->step[k][i];
    }
}

void steno_broadcast_next(const struct steno_broadcast *b, struct steno_broadcast_pos *p)
{
    for (int i = 0; i < b->rank; i++) {
        if (++p->idx[i] < b->dim[i]) {
            for (int k = 0; k < b->n_in; k++)
                p->at[k] += b->step[k][i];
            return;
        }
        p->idx[i] = 0;
        for (int k = 0; k < b->n_in; k++)
            p->at[k] -= (b->dim[i] - 1) * b->step[k][i];
    }
}

struct ranges {
    size_t n, parts;
    void (*fn)(void *arg, size_t begin, size_t end);
    void *arg;
};

size_t steno_ops_row_of(size_t n, size_t part, size_t parts)
{
    const size_t together = n >= 3 * STENO_ROWS_TOGETHER * parts ? STENO_ROWS_TOGETHER : 1;
    const size_t at = (n + together - 1) / together * part / parts * together;
    return at < n ? at : n;
}

static void ranges_part(void *arg, int part)
{
    const struct ranges *r = arg;
    const size_t begin = steno_ops_row_of(r->n, (size_t)part, r->parts);
    const size_t end = steno_ops_row_of(r->n, (size_t)part + 1, r->parts);
    if (begin < end)
        r->fn(r->arg, begin, end);
}

void steno_ops_ranges(struct steno_op_ctx *ctx, size_t n, size_t grain,
                      void (*fn)(void *arg, size_t begin, size_t end), void *arg)
{
    struct ranges r = {.n = n, .fn = fn, .arg = arg};
    size_t threads = (size_t)steno_op_threads(ctx), most = grain ? n / grain : n;
    r.parts = most < threads ? most : threads;
    if (!n)
        return;
    if (r.parts <= 1)
        fn(arg, 0, n);
    else
        steno_op_parallel(ctx, (int)r.parts, ranges_part, &r);
}
