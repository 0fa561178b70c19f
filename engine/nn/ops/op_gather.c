/* Operators that select elements by index: Gather, GatherElements, GatherND and their Scatter
 * forms. Every index is checked, because it may come from a model's input. */
#include "nn/ops/internal.h"
#include "nn/ops/families.h"

/* The indices as i64, negative ones counted from the end of `dim`. NULL: an index is out of range
 * or memory is out; *st and err are set. */
static const int64_t *indices(struct steno_op_ctx *ctx, const struct steno_tensor *t, int64_t dim,
                              steno_err *err, steno_status *st)
{
    size_t n = steno_numel(t);
    int64_t *v;
    *st = STENO_OK;
    if (t->dtype != STENO_I64 && t->dtype != STENO_I32) {
        *st = steno_op_fail(ctx, err, STENO_ERR_FORMAT, "indices have type %s",
                            steno_dtype_name(t->dtype));
        return NULL;
    }
    v = n > SIZE_MAX / sizeof *v ? NULL : steno_op_scratch(ctx, n * sizeof *v);
    if (!v) {
        *st = steno_ops_nomem(ctx, err);
        return NULL;
    }
    steno_ops_load_i64(v, t->data, t->dtype, n);
    for (size_t i = 0; i < n; i++) {
        if (v[i] < -dim || v[i] >= dim) {
            *st = steno_op_fail(ctx, err, STENO_ERR_INVAL, "index %lld is outside [%lld,%lld)",
                                (long long)v[i], (long long)-dim, (long long)dim);
            return NULL;
        }
        v[i] += v[i] < 0 ? dim : 0;
    }
    return v;
}

/* ---- Gather ---- */
static bool gather_shape(const struct steno_shape *x, const struct steno_shape *idx, int axis,
                         struct steno_shape *out)
{
    int r = 0;
    if (x->rank + idx->rank - 1 > STENO_MAX_RANK)
        return false;
    out->rank = x->rank + idx->rank - 1;
    for (int i = 0; i < axis; i++)
        out->dim[r++] = x->dim[i];
    for (int i = 0; i < idx->rank; i++)
        out->dim[r++] = idx->dim[i];
    for (int i = axis + 1; i < x->rank; i++)
        out->dim[r++] = x->dim[i];
    return true;
}

static steno_status run_gather(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0), *t = steno_op_in(ctx, 1);
    struct steno_shape s;
    struct steno_tensor *y;
    const int64_t *idx;
    int axis;
    size_t outer, block, n, e;
    char *d;
    steno_status st;
    if (!steno_ops_axis(steno_node_int(steno_op_node(ctx), "axis", 0), x->shape.rank, &axis))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    if (!gather_shape(&x->shape, &t->shape, axis, &s))
        return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "rank of the result is too high");
    idx = indices(ctx, t, x->shape.dim[axis], err, &st);
    if (!idx)
        return st;
    e = steno_dtype_size(x->dtype);
    outer = steno_ops_prod(&x->shape, 0, axis);
    block = steno_ops_prod(&x->shape, axis + 1, x->shape.rank) * e;
    n = steno_numel(t);
    if (outer == 1 && n == 1 && steno_op_part(ctx, &s, (size_t)idx[0] * block))
        return STENO_OK;
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st)
        return st;
    d = y->data;
    for (size_t o = 0; o < outer && block; o++)
        for (size_t i = 0; i < n; i++, d += block)
            memcpy(d,
                   (const char *)x->data +
                       (o * (size_t)x->shape.dim[axis] + (size_t)idx[i]) * block,
                   block);
    return STENO_OK;
}

static steno_status infer_gather(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), t = steno_infer_shape(ic, 1), s;
    int axis;
    if (x.rank < 0 || t.rank < 0) {
        steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), NULL);
        return STENO_OK;
    }
    if (!steno_ops_axis(steno_node_int(steno_infer_node(ic), "axis", 0), x.rank, &axis))
        return steno_fail(err, STENO_ERR_INVAL, "axis out of range");
    if (!gather_shape(&x, &t, axis, &s))
        return steno_fail(err, STENO_ERR_LIMIT, "rank of the result is too high");
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* ---- reductions of Scatter ---- */
enum scatter_mode { SCATTER_SET, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN, SCATTER_BAD };

static enum scatter_mode scatter_mode(const struct steno_node *n)
{
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    const char *s = steno_node_str(n, "reduction", "none");
    for (int i = 0; i < SCATTER_BAD; i++)
        if (!strcmp(s, names[i]))
            return (enum scatter_mode)i;
    return SCATTER_BAD;
}

static double merge_f64(enum scatter_mode m, double a, double b)
{
    switch (m) {
    case SCATTER_ADD:
        return a + b;
    case SCATTER_MUL:
        return a * b;
    case SCATTER_MAX:
        return a > b || a != a ? a : b;
    case SCATTER_MIN:
        return a < b || a != a ? a : b;
    default:
        return b;
    }
}

static uint64_t merge_int(enum scatter_mode m, int64_t a, int64_t b, bool u64)
{
    bool less = u64 ? (uint64_t)a < (uint64_t)b : a < b;
    switch (m) {
    case SCATTER_ADD:
        return (uint64_t)a + (uint64_t)b;
    case SCATTER_MUL:
        return (uint64_t)a * (uint64_t)b;
    case SCATTER_MAX:
        return (uint64_t)(less ? b : a);
    case SCATTER_MIN:
        return (uint64_t)(less ? a : b);
    default:
        return (uint64_t)b;
    }
}

/* dst[0] = merge(dst[0], src[0]). */
static void scatter_one(enum scatter_mode m, steno_dtype t, char *dst, const char *src)
{
    size_t e = steno_dtype_size(t);
    if (m == SCATTER_SET) {
        memcpy(dst, src, e);
    } else if (steno_ops_is_float(t)) {
        double a, b;
        steno_ops_load_f64(&a, dst, t, 1);
        steno_ops_load_f64(&b, src, t, 1);
        a = merge_f64(m, a, b);
        steno_ops_store_f64(dst, t, &a, 1);
    } else {
        int64_t a, b;
        uint64_t r;
        steno_ops_load_i64(&a, dst, t, 1);
        steno_ops_load_i64(&b, src, t, 1);
        r = merge_int(m, a, b, t == STENO_U64);
        if (t == STENO_BOOL)
            r = r != 0;
        memcpy(dst, &r, e);
    }
}

/* ---- GatherElements, ScatterElements ---- */
static steno_status elements_args(struct steno_op_ctx *ctx, const struct steno_tensor **x,
                                  const struct steno_tensor **t, const int64_t **idx, int *axis,
                                  steno_err *err)
{
    steno_status st;
    *x = steno_op_in(ctx, 0);
    *t = steno_op_in(ctx, 1);
    if (!steno_ops_axis(steno_node_int(steno_op_node(ctx), "axis", 0), (*x)->shape.rank, axis))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    if ((*t)->shape.rank != (*x)->shape.rank)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "indices have rank %d, but data has rank %d", (*t)->shape.rank,
                             (*x)->shape.rank);
    for (int i = 0; i < (*x)->shape.rank; i++)
        if (i != *axis && (*t)->shape.dim[i] > (*x)->shape.dim[i])
            return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                                 "indices are longer than data in axis %d", i);
    *idx = indices(ctx, *t, (*x)->shape.dim[*axis], err, &st);
    return st;
}

/* Element offset in x for position `at` of the index tensor. */
static size_t element_offset(const int64_t *at, const int64_t *stride, int rank, int axis,
                             int64_t index)
{
    int64_t o = 0;
    for (int k = 0; k < rank; k++)
        o += (k == axis ? index : at[k]) * stride[k];
    return (size_t)o;
}

static void advance(int64_t *at, const struct steno_shape *s)
{
    for (int k = s->rank - 1; k >= 0 && ++at[k] == s->dim[k]; k--)
        at[k] = 0;
}

static steno_status run_gather_elements(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x, *t;
    const int64_t *idx;
    struct steno_tensor *y;
    int64_t at[STENO_MAX_RANK] = {0}, stride[STENO_MAX_RANK];
    int axis;
    size_t n, e;
    steno_status st = elements_args(ctx, &x, &t, &idx, &axis, err);
    if (st)
        return st;
    st = steno_op_out(ctx, 0, x->dtype, &t->shape, &y, err);
    if (st)
        return st;
    steno_ops_strides(&x->shape, stride);
    e = steno_dtype_size(x->dtype);
    n = steno_numel(t);
    /* common: the relative shift of attention scores */
    if (axis == x->shape.rank - 1 && e == 4 && n) {
        size_t len = (size_t)t->shape.dim[axis];
        for (size_t r = 0; r < n / len; r++) {
            const uint32_t *src =
                (const uint32_t *)x->data + element_offset(at, stride, axis, -1, 0);
            uint32_t *d = (uint32_t *)y->data + r * len;
            for (size_t i = 0; i < len; i++)
                d[i] = src[idx[r * len + i]];
            for (int k = axis - 1; k >= 0 && ++at[k] == t->shape.dim[k]; k--)
                at[k] = 0;
        }
        return STENO_OK;
    }
    for (size_t i = 0; i < n; i++, advance(at, &t->shape))
        memcpy((char *)y->data + i * e,
               (const char *)x->data + element_offset(at, stride, x->shape.rank, axis, idx[i]) * e,
               e);
    return STENO_OK;
}

static steno_status infer_gather_elements(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 1);
    (void)err;
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

static steno_status run_scatter_elements(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x, *t, *u = steno_op_in(ctx, 2);
    enum scatter_mode mode = scatter_mode(steno_op_node(ctx));
    const int64_t *idx;
    struct steno_tensor *y;
    int64_t at[STENO_MAX_RANK] = {0}, stride[STENO_MAX_RANK];
    int axis;
    size_t n, e;
    steno_status st = elements_args(ctx, &x, &t, &idx, &axis, err);
    if (st)
        return st;
    if (!steno_shape_equal(&u->shape, &t->shape) || u->dtype != x->dtype || mode == SCATTER_BAD)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "updates or reduction do not fit");
    st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    if (st)
        return st;
    e = steno_dtype_size(x->dtype);
    if (y->data != x->data)
        memcpy(y->data, x->data, steno_numel(x) * e);
    steno_ops_strides(&x->shape, stride);
    n = steno_numel(t);
    for (size_t i = 0; i < n; i++, advance(at, &t->shape))
        scatter_one(mode, x->dtype,
                    (char *)y->data + element_offset(at, stride, x->shape.rank, axis, idx[i]) * e,
                    (const char *)u->data + i * e);
    return STENO_OK;
}

/* ---- GatherND, ScatterND ---- */
/* Offset of one index tuple within the sub-tensor that starts at dim `first`. False: out of
 * range. */
static bool tuple_offset(const struct steno_shape *x, const int64_t *stride, int first,
                         const int64_t *tuple, int k, size_t *out)
{
    size_t o = 0;
    for (int i = 0; i < k; i++) {
        int64_t d = x->dim[first + i], v = tuple[i];
        if (v < -d || v >= d)
            return false;
        o += (size_t)(v < 0 ? v + d : v) * (size_t)stride[first + i];
    }
    *out = o;
    return true;
}

static const char *gather_nd_shape(const struct steno_shape *x, const struct steno_shape *t,
                                   int batch, struct steno_shape *out)
{
    int64_t k = t->rank > 0 ? t->dim[t->rank - 1] : -1;
    if (batch < 0 || batch >= x->rank || batch >= t->rank)
        return "batch_dims out of range";
    if (k < 0) {
        out->rank = STENO_RANK_ANY;
        return t->rank > 0 ? NULL : "indices have rank 0";
    }
    if (k < 1 || k > x->rank - batch)
        return "last dimension of the indices is out of range";
    for (int i = 0; i < batch; i++)
        if (x->dim[i] >= 0 && t->dim[i] >= 0 && x->dim[i] != t->dim[i])
            return "batch dimensions differ";
    out->rank = t->rank - 1 + x->rank - batch - (int)k;
    if (out->rank > STENO_MAX_RANK)
        return "rank of the result is too high";
    for (int i = 0; i < t->rank - 1; i++)
        out->dim[i] = t->dim[i];
    for (int i = batch + (int)k, r = t->rank - 1; i < x->rank; i++)
        out->dim[r++] = x->dim[i];
    return NULL;
}

static steno_status nd_indices(struct steno_op_ctx *ctx, const struct steno_tensor *t,
                               const int64_t **out, steno_err *err)
{
    size_t n = steno_numel(t);
    int64_t *v;
    if (t->dtype != STENO_I64 && t->dtype != STENO_I32)
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "indices have type %s",
                             steno_dtype_name(t->dtype));
    v = n > SIZE_MAX / sizeof *v ? NULL : steno_op_scratch(ctx, n * sizeof *v);
    if (!v)
        return steno_ops_nomem(ctx, err);
    steno_ops_load_i64(v, t->data, t->dtype, n);
    *out = v;
    return STENO_OK;
}

static steno_status run_gather_nd(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0), *t = steno_op_in(ctx, 1);
    struct steno_shape s;
    struct steno_tensor *y;
    const int64_t *idx;
    int64_t stride[STENO_MAX_RANK];
    int batch = (int)steno_node_int(steno_op_node(ctx), "batch_dims", 0), k;
    size_t block, per_batch, batches, sub, e;
    const char *wrong;
    char *d;
    steno_status st;
    wrong = gather_nd_shape(&x->shape, &t->shape, batch, &s);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    st = nd_indices(ctx, t, &idx, err);
    if (!st)
        st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st)
        return st;
    k = (int)t->shape.dim[t->shape.rank - 1];
    steno_ops_strides(&x->shape, stride);
    e = steno_dtype_size(x->dtype);
    block = steno_ops_prod(&x->shape, batch + k, x->shape.rank) * e;
    batches = steno_ops_prod(&x->shape, 0, batch);
    sub = steno_ops_prod(&x->shape, batch, x->shape.rank);
    per_batch = steno_ops_prod(&t->shape, batch, t->shape.rank - 1);
    d = y->data;
    for (size_t b = 0; b < batches; b++)
        for (size_t i = 0; i < per_batch; i++, d += block, idx += k) {
            size_t o;
            if (!tuple_offset(&x->shape, stride, batch, idx, k, &o))
                return steno_op_fail(ctx, err, STENO_ERR_INVAL, "index tuple %zu is out of range",
                                     b * per_batch + i);
            if (block)
                memcpy(d, (const char *)x->data + (b * sub + o) * e, block);
        }
    return STENO_OK;
}

static steno_status infer_gather_nd(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), t = steno_infer_shape(ic, 1), s;
    const char *wrong = NULL;
    s.rank = STENO_RANK_ANY;
    if (x.rank >= 0 && t.rank >= 0)
        wrong =
            gather_nd_shape(&x, &t, (int)steno_node_int(steno_infer_node(ic), "batch_dims", 0), &s);
    if (wrong)
        return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* Index tuples [n, k] into an array of shape x, and a block of elements for each. */
struct scatter_nd {
    enum scatter_mode mode;
    steno_dtype type;
    struct steno_shape x;
    int64_t stride[STENO_MAX_RANK];
    const int64_t *places;
    size_t n, block;
    int k;
};

/* Check and read a Scatter; x, u: shapes of the data and of the updates. */
static steno_status read_scatter_nd(struct steno_op_ctx *ctx, const struct steno_shape *x,
                                    const struct steno_shape *u, struct scatter_nd *s,
                                    steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, 1);
    struct steno_shape fits;
    /* the updates must have this shape */
    const char *wrong = gather_nd_shape(x, &t->shape, 0, &fits);
    *s = (struct scatter_nd){
        .mode = scatter_mode(steno_op_node(ctx)), .type = steno_op_in(ctx, 0)->dtype, .x = *x};
    if (!wrong && (!steno_shape_equal(&fits, u) || steno_op_in(ctx, 2)->dtype != s->type ||
                   s->mode == SCATTER_BAD))
        wrong = "updates or reduction do not fit";
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    s->k = (int)t->shape.dim[t->shape.rank - 1];
    s->n = steno_ops_prod(&t->shape, 0, t->shape.rank - 1);
    s->block = steno_ops_prod(x, s->k, x->rank);
    steno_ops_strides(x, s->stride);
    return nd_indices(ctx, t, &s->places, err);
}

static steno_status scatter_nd(struct steno_op_ctx *ctx, const struct scatter_nd *s, char *y,
                               const char *u, steno_err *err)
{
    size_t e = steno_dtype_size(s->type);
    for (size_t i = 0; i < s->n; i++, u += s->block * e) {
        char *d;
        size_t o;
        if (!tuple_offset(&s->x, s->stride, 0, s->places + i * (size_t)s->k, s->k, &o))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "index tuple %zu is out of range", i);
        d = y + o * e;
        if (s->mode == SCATTER_SET && s->block)
            memcpy(d, u, s->block * e);
        for (size_t j = 0; s->mode != SCATTER_SET && j < s->block; j++)
            scatter_one(s->mode, s->type, d + j * e, u + j * e);
    }
    return STENO_OK;
}

/* Apply the tuples to each entry of a batch separately. Data and updates of one entry have shapes
 * `one` and `one_u`; a single entry of either serves the whole batch. The result has shape
 * `all`. */
static steno_status scatter_entries(struct steno_op_ctx *ctx, const struct steno_shape *one,
                                    const struct steno_shape *one_u, const struct steno_shape *all,
                                    size_t entries, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0), *u = steno_op_in(ctx, 2);
    const size_t n = steno_ops_prod(one, 0, one->rank), e = steno_dtype_size(x->dtype);
    const size_t n_u = steno_ops_prod(one_u, 0, one_u->rank);
    const size_t step = steno_numel(x) == n ? 0 : n * e,
                 step_u = steno_numel(u) == n_u ? 0 : n_u * e;
    const char *from = x->data, *with = u->data;
    struct scatter_nd s;
    struct steno_tensor *y;
    steno_status st = read_scatter_nd(ctx, one, one_u, &s, err);
    if (!st)
        st = steno_op_out(ctx, 0, x->dtype, all, &y, err);
    for (size_t b = 0; !st && b < entries; b++, from += step, with += step_u) {
        char *to = (char *)y->data + b * n * e;
        if (to != from)
            memcpy(to, from, n * e);
        st = scatter_nd(ctx, &s, to, with, err);
    }
    return st;
}

static steno_status run_scatter_nd(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_shape *x;
    x = &steno_op_in(ctx, 0)->shape;
    return scatter_entries(ctx, x, &steno_op_in(ctx, 2)->shape, x, 1, err);
}

/* ---- ai.steno.run ScatterEach, of nn/passes/free_batch.c ---- ScatterND of data [1, ...] and
 * updates [1, ...], applied to each entry of a batch: data and updates [B or 1, ...], the indices
 * unchanged, [1, ..., k], with first number 0. */
static int64_t entries_of_both(int64_t x, int64_t u)
{
    return x == 1 ? u : x;
}

static steno_status infer_scatter_each(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), u = steno_infer_shape(ic, 2);
    (void)err;
    if (x.rank < 1 || u.rank < 1)
        x.rank = STENO_RANK_ANY;
    else
        x.dim[0] = entries_of_both(x.dim[0], u.dim[0]);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &x);
    return STENO_OK;
}

static steno_status run_scatter_each(struct steno_op_ctx *ctx, steno_err *err)
{
    struct steno_shape x, u, all;
    all = x = steno_op_in(ctx, 0)->shape;
    u = steno_op_in(ctx, 2)->shape;
    if (x.rank < 1 || u.rank < 1 || (x.dim[0] != u.dim[0] && x.dim[0] != 1 && u.dim[0] != 1))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "data and updates differ in batch");
    all.dim[0] = entries_of_both(x.dim[0], u.dim[0]);
    x.dim[0] = u.dim[0] = 1;
    return scatter_entries(ctx, &x, &u, &all, (size_t)all.dim[0], err);
}

const struct steno_op steno_ops_gather[] = {
    {"", "Gather", 1, 0, STENO_OP_PART, infer_gather, NULL, NULL, run_gather},
    {"", "GatherElements", 11, 0, 0, infer_gather_elements, NULL, NULL, run_gather_elements},
    {"", "GatherND", 11, 0, 0, infer_gather_nd, NULL, NULL, run_gather_nd},
    {"", "Scatter", 9, 10, STENO_OP_INPLACE0, steno_ops_infer_same, NULL, NULL,
     run_scatter_elements},
    {"", "ScatterElements", 11, 0, STENO_OP_INPLACE0, steno_ops_infer_same, NULL, NULL,
     run_scatter_elements},
    {"", "ScatterND", 11, 0, STENO_OP_INPLACE0, steno_ops_infer_same, NULL, NULL, run_scatter_nd},
    {"ai.steno.run", "ScatterEach", 1, 0, STENO_OP_INPLACE0, infer_scatter_each, NULL, NULL,
     run_scatter_each},
    {0},
};
