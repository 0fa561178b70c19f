/* Reductions over axes: ReduceSum and related operators, ArgMax, ArgMin.
 *
 * If the reduced axes are adjacent, the input is [outer, n, inner]; otherwise it is first
 * transposed into scratch so that they come last. f32 sum, mean, max and min use the kernel table;
 * all others are computed in f64, integers in i64 (wrapping). */
#include "nn/ops/internal.h"
#include "nn/ops/families.h"

#include <math.h>

#define GRAIN 16384

enum reduce_kind {
    R_SUM,
    R_MEAN,
    R_MAX,
    R_MIN,
    R_PROD,
    R_L1,
    R_L2,
    R_LOGSUM,
    R_LOGSUMEXP,
    R_SUMSQ
};

static enum reduce_kind reduce_kind_of(const char *type)
{
    static const char *const names[] = {"Sum", "Mean", "Max",    "Min",       "Prod",
                                        "L1",  "L2",   "LogSum", "LogSumExp", "SumSquare"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(type + strlen("Reduce"), names[i]))
            return (enum reduce_kind)i;
    return R_SUM;
}

/* Mark the reduced axes. No axes means all, unless noop_with_empty_axes. False: one is out of
 * range. */
static bool reduced_axes(const struct steno_node *n, const int64_t *axes, size_t n_axes, int rank,
                         bool *set)
{
    bool all = !n_axes && !steno_node_int(n, "noop_with_empty_axes", 0);
    for (int i = 0; i < rank; i++)
        set[i] = all;
    for (size_t i = 0; i < n_axes; i++) {
        int a;
        if (!steno_ops_axis(axes[i], rank, &a))
            return false;
        set[a] = true;
    }
    return true;
}

static struct steno_shape reduced_shape(const struct steno_shape *x, const bool *set, bool keep)
{
    struct steno_shape s = {.rank = 0};
    for (int i = 0; i < x->rank; i++)
        if (!set[i])
            s.dim[s.rank++] = x->dim[i];
        else if (keep)
            s.dim[s.rank++] = 1;
    return s;
}

static steno_status infer_reduce(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *node = steno_infer_node(ic);
    struct steno_shape x = steno_infer_shape(ic, 0), s = {.rank = STENO_RANK_ANY};
    bool keep = steno_node_int(node, "keepdims", 1) != 0, set[STENO_MAX_RANK], found;
    int64_t axes[STENO_MAX_RANK];
    size_t n;
    if (x.rank >= 0 && steno_ops_infer_axes(ic, "axes", 1, axes, STENO_MAX_RANK, &n, &found)) {
        if (!reduced_axes(node, axes, n, x.rank, set))
            return steno_fail(err, STENO_ERR_INVAL, "axis out of range");
        s = reduced_shape(&x, set, keep);
    } else if (x.rank >= 0 && keep) {
        s.rank = x.rank;
        for (int i = 0; i < s.rank; i++)
            s.dim[i] = steno_infer_new_dim(ic);
    }
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* ---- reductions ---- */
struct reduce_job {
    enum reduce_kind kind;
    size_t n, inner;
    const void *x; /* [outer, n, inner] f32, f64 or i64 */
    void *y;       /* [outer, inner] */
    const steno_kernels *k;
    bool u64;
};

static void f32_outer(void *arg, size_t begin, size_t end)
{
    const struct reduce_job *j = arg;
    size_t n = j->n, m = j->inner;
    for (size_t o = begin; o < end; o++) {
        const float *x = (const float *)j->x + o * n * m;
        float *y = (float *)j->y + o * m;
        if (m == 1) {
            y[0] = j->kind == R_MAX   ? j->k->max_reduce_f32(x, n)
                   : j->kind == R_MIN ? j->k->min_reduce_f32(x, n)
                                      : j->k->sum_f32(x, n);
        } else {
            float empty = j->kind == R_MAX ? -INFINITY : j->kind == R_MIN ? INFINITY : 0;
            steno_binary_f32 *f = j->kind == R_MAX   ? j->k->max_f32
                                  : j->kind == R_MIN ? j->k->min_f32
                                                     : j->k->add_f32;
            if (n)
                memcpy(y, x, m * sizeof *y);
            for (size_t i = 0; !n && i < m; i++)
                y[i] = empty;
            for (size_t r = 1; r < n; r++)
                f(y, y, 1, x + r * m, 1, m);
        }
        if (j->kind == R_MEAN)
            j->k->affine_f32(y, y, m, 1.0f / (float)n, 0);
    }
}

static double reduce_f64(enum reduce_kind kind, const double *x, size_t n, size_t step)
{
    double acc = kind == R_MAX || kind == R_LOGSUMEXP ? -(double)INFINITY
                 : kind == R_MIN                      ? (double)INFINITY
                 : kind == R_PROD                     ? 1
                                                      : 0;
    for (size_t i = 0; i < n; i++) {
        double v = x[i * step];
        switch (kind) {
        case R_MAX:
        case R_LOGSUMEXP:
            acc = v > acc || isnan(v) ? v : acc;
            break;
        case R_MIN:
            acc = v < acc || isnan(v) ? v : acc;
            break;
        case R_PROD:
            acc *= v;
            break;
        case R_L1:
            acc += fabs(v);
            break;
        case R_L2:
        case R_SUMSQ:
            acc += v * v;
            break;
        default:
            acc += v;
            break;
        }
    }
    if (kind == R_MEAN)
        return acc / (double)n;
    if (kind == R_L2)
        return sqrt(acc);
    if (kind == R_LOGSUM)
        return log(acc);
    if (kind == R_LOGSUMEXP && isfinite(acc)) {
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += exp(x[i * step] - acc);
        return acc + log(sum);
    }
    return acc;
}

/* Sum, Mean, Max, Min, Prod, L1, SumSquare of integers. */
static int64_t reduce_i64(const struct reduce_job *j, const int64_t *x, size_t n, size_t step,
                          int64_t lowest, int64_t highest)
{
    enum reduce_kind kind = j->kind;
    uint64_t acc = kind == R_MAX   ? (uint64_t)lowest
                   : kind == R_MIN ? (uint64_t)highest
                                   : kind == R_PROD;
    for (size_t i = 0; i < n; i++) {
        uint64_t v = (uint64_t)x[i * step];
        bool less = j->u64 ? v < acc : (int64_t)v < (int64_t)acc;
        switch (kind) {
        case R_MAX:
            acc = less ? acc : v;
            break;
        case R_MIN:
            acc = less ? v : acc;
            break;
        case R_PROD:
            acc *= v;
            break;
        case R_L1:
            acc += (int64_t)v < 0 && !j->u64 ? 0 - v : v;
            break;
        case R_SUMSQ:
            acc += v * v;
            break;
        default:
            acc += v;
            break;
        }
    }
    if (kind == R_MEAN && n)
        return j->u64 ? (int64_t)(acc / n) : (int64_t)acc / (int64_t)n;
    return (int64_t)acc;
}

static int64_t lowest(steno_dtype t)
{
    switch (t) {
    case STENO_I8:
        return INT8_MIN;
    case STENO_I16:
        return INT16_MIN;
    case STENO_I32:
        return INT32_MIN;
    case STENO_I64:
        return INT64_MIN;
    default:
        return 0;
    }
}

static int64_t highest(steno_dtype t)
{
    size_t bits = 8 * steno_dtype_size(t);
    if (t == STENO_BOOL)
        return 1;
    if (t == STENO_U64)
        return -1;
    return (int64_t)(UINT64_MAX >> (64 - bits + (lowest(t) < 0)));
}

/* Copy the input to scratch with the reduced axes last; NULL: out of memory. */
static void *reduced_last(struct steno_op_ctx *ctx, const struct steno_tensor *x, const bool *set)
{
    int perm[STENO_MAX_RANK], r = 0;
    size_t e = steno_dtype_size(x->dtype);
    void *copy = steno_op_scratch(ctx, steno_numel(x) * e);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < x->shape.rank; i++)
            if (set[i] == (pass == 1))
                perm[r++] = i;
    if (copy)
        steno_ops_transpose(&x->shape, perm, e, copy, x->data);
    return copy;
}

/* Read the input as [outer, n, inner] with its reduced axes as n. False: they are not adjacent. */
static bool as_block(const struct steno_shape *s, const bool *set, size_t *outer, size_t *n,
                     size_t *inner)
{
    int first = -1, last = -1;
    for (int i = 0; i < s->rank; i++) {
        if (!set[i])
            continue;
        first = first < 0 ? i : first;
        last = i;
    }
    if (first < 0) { /* no axes: every element is its own reduction */
        *outer = steno_ops_prod(s, 0, s->rank);
        *n = *inner = 1;
        return true;
    }
    for (int i = first; i <= last; i++)
        if (!set[i] && s->dim[i] != 1)
            return false;
    *outer = steno_ops_prod(s, 0, first);
    *n = steno_ops_prod(s, first, last + 1);
    *inner = steno_ops_prod(s, last + 1, s->rank);
    return true;
}

static steno_status reduce_general(struct steno_op_ctx *ctx, struct reduce_job *j,
                                   const struct steno_tensor *x, struct steno_tensor *y,
                                   size_t outer, steno_err *err)
{
    size_t total = outer * j->inner, e = steno_dtype_size(y->dtype);
    bool ints = !steno_ops_is_float(x->dtype) && j->kind != R_L2 && j->kind != R_LOGSUM &&
                j->kind != R_LOGSUMEXP;
    const double *f = NULL;
    int64_t *v = NULL;
    j->u64 = x->dtype == STENO_U64;
    if (ints) {
        v = steno_op_scratch(ctx, steno_numel(x) * sizeof *v);
        if (v)
            steno_ops_load_i64(v, j->x, x->dtype, steno_numel(x));
    } else {
        double *d = steno_op_scratch(ctx, steno_numel(x) * sizeof *d);
        if (d)
            steno_ops_load_f64(d, j->x, x->dtype, steno_numel(x));
        f = d;
    }
    if (!v && !f)
        return steno_ops_nomem(ctx, err);
    for (size_t i = 0; i < total; i++) {
        size_t at = i / j->inner * j->n * j->inner + i % j->inner;
        char *to = (char *)y->data + i * e;
        if (ints) {
            int64_t r = reduce_i64(j, v + at, j->n, j->inner, lowest(x->dtype), highest(x->dtype));
            memcpy(to, &r, e);
        } else {
            double r = reduce_f64(j->kind, f + at, j->n, j->inner);
            steno_ops_store_f64(to, y->dtype, &r, 1);
        }
    }
    return STENO_OK;
}

static steno_status run_reduce(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    struct reduce_job j = {.kind = reduce_kind_of(node->op_type), .k = steno_op_kernels(ctx)};
    const struct steno_tensor *x;
    struct steno_shape s;
    struct steno_tensor *y;
    int64_t axes[STENO_MAX_RANK];
    bool set[STENO_MAX_RANK], found;
    size_t n_axes, outer;
    steno_status st = steno_ops_axes(ctx, "axes", 1, axes, STENO_MAX_RANK, &n_axes, &found, err);
    if (st)
        return st;
    x = steno_op_in(ctx, 0);
    if (!steno_dtype_is_element(x->dtype) ||
        (x->dtype == STENO_BOOL && j.kind != R_MAX && j.kind != R_MIN))
        return steno_ops_bad_type(ctx, err, x->dtype);
    if (!reduced_axes(node, axes, n_axes, x->shape.rank, set))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    s = reduced_shape(&x->shape, set, steno_node_int(node, "keepdims", 1) != 0);
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    j.x = x->data;
    if (!as_block(&x->shape, set, &outer, &j.n, &j.inner)) {
        j.x = reduced_last(ctx, x, set);
        if (!j.x)
            return steno_ops_nomem(ctx, err);
        outer = steno_numel(y);
        j.inner = 1;
        j.n = steno_numel(x) / outer;
    }
    j.y = y->data;
    if (x->dtype == STENO_F32 && j.kind <= R_MIN) {
        steno_ops_ranges(ctx, outer, GRAIN / (j.n * j.inner + 1) + 1, f32_outer, &j);
        return STENO_OK;
    }
    return reduce_general(ctx, &j, x, y, outer, err);
}

/* ---- ArgMax, ArgMin ---- */
static steno_status run_arg(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    bool want_max = !strcmp(node->op_type, "ArgMax"), last, set[STENO_MAX_RANK] = {false};
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_shape s;
    struct steno_tensor *y;
    int axis;
    size_t outer, n, inner;
    steno_status st;
    last = steno_node_int(node, "select_last_index", 0) != 0;
    if (!steno_ops_is_float(x->dtype) && !steno_ops_is_int(x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    if (!steno_ops_axis(steno_node_int(node, "axis", 0), x->shape.rank, &axis))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    set[axis] = true;
    s = reduced_shape(&x->shape, set, steno_node_int(node, "keepdims", 1) != 0);
    st = steno_op_out(ctx, 0, STENO_I64, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    (void)as_block(&x->shape, set, &outer, &n, &inner);
    if (!n)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the axis is empty");
    for (size_t i = 0; i < outer * inner; i++) {
        size_t at = i / inner * n * inner + i % inner, best = 0;
        for (size_t k = 1; k < n; k++) {
            bool greater, equal;
            if (steno_ops_is_float(x->dtype)) {
                double a = steno_ops_get_f64(x, at + k * inner);
                double b = steno_ops_get_f64(x, at + best * inner);
                greater = want_max ? a > b : a < b;
                equal = a == b;
            } else { /* u64 values compare as i64 with their top bit flipped */
                uint64_t flip = x->dtype == STENO_U64 ? (uint64_t)1 << 63 : 0;
                int64_t a = (int64_t)((uint64_t)steno_ops_get_i64(x, at + k * inner) ^ flip);
                int64_t b = (int64_t)((uint64_t)steno_ops_get_i64(x, at + best * inner) ^ flip);
                greater = want_max ? a > b : a < b;
                equal = a == b;
            }
            if (greater || (equal && last))
                best = k;
        }
        ((int64_t *)y->data)[i] = (int64_t)best;
    }
    return STENO_OK;
}

static steno_status infer_arg(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *node = steno_infer_node(ic);
    struct steno_shape x = steno_infer_shape(ic, 0), s = {.rank = STENO_RANK_ANY};
    bool set[STENO_MAX_RANK] = {false};
    int axis;
    if (x.rank >= 0) {
        if (!steno_ops_axis(steno_node_int(node, "axis", 0), x.rank, &axis))
            return steno_fail(err, STENO_ERR_INVAL, "axis out of range");
        set[axis] = true;
        s = reduced_shape(&x, set, steno_node_int(node, "keepdims", 1) != 0);
    }
    steno_infer_set(ic, 0, STENO_I64, &s);
    return STENO_OK;
}

#define REDUCE(TYPE)                                                                               \
    {                                                                                              \
        "", "Reduce" TYPE, 1, 0, 0, infer_reduce, NULL, NULL, run_reduce                           \
    }

const struct steno_op steno_ops_reduce[] = {
    REDUCE("Sum"),
    REDUCE("Mean"),
    REDUCE("Max"),
    REDUCE("Min"),
    REDUCE("Prod"),
    REDUCE("L1"),
    REDUCE("L2"),
    REDUCE("LogSum"),
    REDUCE("LogSumExp"),
    REDUCE("SumSquare"),
    {"", "ArgMax", 1, 0, 0, infer_arg, NULL, NULL, run_arg},
    {"", "ArgMin", 1, 0, 0, infer_arg, NULL, NULL, run_arg},
    {0},
};
