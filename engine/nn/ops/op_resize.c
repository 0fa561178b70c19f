/* Resize (opset 10 and later), Upsample.
 *
 * Every mode is separable: each axis has a table with the inputs and weights of every output index.
 * Coordinates and weights are those of the ONNX reference implementation. */
#include "nn/ops/internal.h"
#include "nn/ops/families.h"

#include <math.h>

enum resize_mode { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC };

struct resize {
    int rank, from; /* from: index of the scales input, or -1 for an attribute */
    enum resize_mode mode;
    bool antialias, outside, old; /* outside: exclude_outside; old: before opset 11 */
    const char *coordinate, *nearest, *policy;
    double cubic, extrapolation;
    int n_axes, axis[STENO_MAX_RANK];
    double scale[STENO_MAX_RANK], start[STENO_MAX_RANK], end[STENO_MAX_RANK]; /* by axis of x */
    int64_t out[STENO_MAX_RANK];
    bool has_roi;
};

static bool resize_is(const char *a, const char *b)
{
    return !strcmp(a, b);
}

/* Read the attributes. Returns NULL, or what is wrong. */
static const char *resize_attributes(const struct steno_node *n, int rank, struct resize *r)
{
    const char *mode = steno_node_str(n, "mode", "nearest");
    size_t n_axes;
    const int64_t *axes = steno_node_ints(n, "axes", &n_axes);
    memset(r, 0, sizeof *r);
    r->rank = rank;
    r->old = resize_is(n->op_type, "Upsample") || n->opset < 11;
    r->from = resize_is(n->op_type, "Upsample") && n->opset < 9 ? -1 : r->old ? 1 : 2;
    r->mode = resize_is(mode, "nearest")                                 ? RESIZE_NEAREST
              : resize_is(mode, "linear") || resize_is(mode, "bilinear") ? RESIZE_LINEAR
                                                                         : RESIZE_CUBIC;
    if (r->mode == RESIZE_CUBIC && !resize_is(mode, "cubic"))
        return "the mode is none of nearest, linear, cubic";
    r->coordinate =
        r->old ? "asymmetric" : steno_node_str(n, "coordinate_transformation_mode", "half_pixel");
    r->nearest = r->old ? "floor" : steno_node_str(n, "nearest_mode", "round_prefer_floor");
    r->policy = steno_node_str(n, "keep_aspect_ratio_policy", "stretch");
    r->antialias = steno_node_int(n, "antialias", 0) != 0;
    r->outside = steno_node_int(n, "exclude_outside", 0) != 0;
    r->cubic = (double)steno_node_float(n, "cubic_coeff_a", -0.75f);
    r->extrapolation = (double)steno_node_float(n, "extrapolation_value", 0);
    r->n_axes = rank;
    for (int i = 0; i < rank; i++)
        r->axis[i] = i;
    if (!axes || r->old)
        return NULL;
    if (n_axes > (size_t)rank)
        return "more axes than dimensions";
    r->n_axes = (int)n_axes;
    for (size_t i = 0; i < n_axes; i++)
        if (!steno_ops_axis(axes[i], rank, &r->axis[i]))
            return "axis out of range";
    return NULL;
}

/* Set r->scale and r->out from scales or sizes, one of each axis of r. Returns NULL, or what is
 * wrong. A dim that is unknown stays STENO_DIM_ANY, unless its scale is 1. */
static const char *resize_shape(struct resize *r, const struct steno_shape *x,
                                const struct steno_tensor *scales, const struct steno_tensor *sizes,
                                const float *fixed)
{
    double common = 0;
    bool keep = sizes && !resize_is(r->policy, "stretch");
    for (int i = 0; i < r->rank; i++) {
        r->scale[i] = 1;
        r->out[i] = x->dim[i] < 0 ? STENO_DIM_ANY : x->dim[i];
    }
    for (int i = 0; i < r->n_axes; i++) {
        int a = r->axis[i];
        int64_t dim = x->dim[a];
        if (sizes) {
            int64_t size = steno_ops_get_i64(sizes, (size_t)i);
            if (size < 0)
                return "a size is negative";
            r->out[a] = size;
            r->scale[a] = dim > 0 ? (double)size / (double)dim : 1;
            common = !i || (resize_is(r->policy, "not_larger") ? r->scale[a] < common
                                                               : r->scale[a] > common)
                         ? r->scale[a]
                         : common;
            if (keep && dim < 0)
                return "the shape is not known";
            continue;
        }
        r->scale[a] = fixed ? (double)fixed[i] : steno_ops_get_f64(scales, (size_t)i);
        if (!(r->scale[a] > 0) || r->scale[a] > 1e9)
            return "a scale is not positive";
        if (dim >= 0 && (double)dim * r->scale[a] > 1e15)
            return "the output is too large";
        if (dim >= 0)
            r->out[a] = (int64_t)((double)dim * r->scale[a]);
        else if (r->scale[a] == 1)
            r->out[a] = dim; /* the symbol */
    }
    for (int i = 0; keep && i < r->n_axes; i++) {
        int a = r->axis[i];
        if (common * (double)x->dim[a] > 1e15)
            return "the output is too large";
        r->scale[a] = common;
        r->out[a] = (int64_t)(common * (double)x->dim[a] + 0.5);
    }
    return NULL;
}

static const float *fixed_scales(const struct steno_node *n, const struct resize *r, int rank)
{
    const struct steno_attr *a = r->from < 0 ? steno_node_attr(n, "scales") : NULL;
    return a && a->kind == STENO_ATTR_FLOATS && a->n == (size_t)rank ? a->floats : NULL;
}

static steno_status infer_resize(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_shape x = steno_infer_shape(ic, 0), y = {.rank = STENO_RANK_ANY};
    const struct steno_tensor *scales, *sizes;
    const float *fixed;
    const char *wrong;
    struct resize r;
    if (x.rank < 0) {
        steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), NULL);
        return STENO_OK;
    }
    wrong = resize_attributes(n, x.rank, &r);
    if (wrong)
        return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    fixed = fixed_scales(n, &r, x.rank);
    scales = r.from > 0 && steno_infer_has(ic, r.from) ? steno_infer_value(ic, r.from) : NULL;
    sizes = !r.old && steno_infer_has(ic, 3) ? steno_infer_value(ic, 3) : NULL;
    if (scales && steno_numel(scales) != (size_t)r.n_axes)
        scales = NULL; /* empty, or run refuses it */
    if (sizes && steno_numel(sizes) != (size_t)r.n_axes)
        sizes = NULL;
    y.rank = x.rank;
    if ((!scales && !sizes && !fixed) || resize_shape(&r, &x, sizes ? NULL : scales, sizes, fixed))
        for (int i = 0; i < x.rank; i++)
            r.out[i] = STENO_DIM_ANY;
    for (int i = 0; i < x.rank; i++)
        y.dim[i] = r.out[i] == STENO_DIM_ANY ? steno_infer_new_dim(ic) : r.out[i];
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &y);
    return STENO_OK;
}

/* x coordinate of output index i. */
static double source(const struct resize *r, int a, int64_t dim, int64_t i)
{
    double scale = r->scale[a], width = scale * (double)dim, at = (double)i;
    const char *c = r->coordinate;
    if (resize_is(c, "align_corners"))
        return width == 1 ? 0 : at * (double)(dim - 1) / (width - 1);
    if (resize_is(c, "asymmetric"))
        return at / scale;
    if (resize_is(c, "tf_crop_and_resize"))
        return (width == 1 ? (r->end[a] - r->start[a]) * (double)(dim - 1) / 2
                           : at * (r->end[a] - r->start[a]) * (double)(dim - 1) / (width - 1)) +
               r->start[a] * (double)(dim - 1);
    if (resize_is(c, "pytorch_half_pixel") && width == 1)
        return -0.5;
    if (resize_is(c, "tf_half_pixel_for_nn")) /* opset 11 and 12 */
        return (at + 0.5) / scale;
    if (resize_is(c, "half_pixel_symmetric"))
        return (double)dim / 2 * (1 - (double)r->out[a] / width) + (at + 0.5) / scale - 0.5;
    return (at + 0.5) / scale - 0.5;
}

double steno_ops_cubic_weight(double x, double a)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Number of inputs of one output index on axis a. */
static size_t taps_of_resize(const struct resize *r, int a)
{
    double scale = r->antialias && r->scale[a] < 1 ? r->scale[a] : 1;
    int reach = r->mode == RESIZE_CUBIC ? 2 : 1;
    if (r->mode == RESIZE_NEAREST)
        return 1;
    return (size_t)(2 - 2 * (int64_t)(floor(-reach / scale) + 1));
}

/* Inputs and weights of output index i. index[0] < 0: the extrapolation value. */
static void taps_at(const struct resize *r, int a, int64_t dim, int64_t i, size_t n, int64_t *index,
                    float *weight)
{
    double x = source(r, a, dim, i), scale = r->antialias && r->scale[a] < 1 ? r->scale[a] : 1;
    double below, ratio, sum = 0;
    int64_t low;
    if (resize_is(r->coordinate, "tf_crop_and_resize") && !(x >= 0 && x <= (double)(dim - 1))) {
        index[0] = -1;
        return;
    }
    x = x < -1e15 ? -1e15 : x > 1e15 ? 1e15 : x == x ? x : 0;
    below = ceil(x) - 1; /* the ratio is in (0, 1] */
    ratio = x - below;
    low = (int64_t)below;
    if (n == 1) {
        const char *m = r->nearest;
        bool up = ratio == 1 || resize_is(m, "ceil") ||
                  (resize_is(m, "round_prefer_floor") && ratio > 0.5) ||
                  (resize_is(m, "round_prefer_ceil") && ratio >= 0.5);
        low += up;
        index[0] = low < 0 ? 0 : low >= dim ? dim - 1 : low;
        weight[0] = 1;
        return;
    }
    for (size_t k = 0; k < n; k++) {
        int64_t at = low - (int64_t)(n / 2) + 1 + (int64_t)k;
        double d = scale * ((double)(at - low) - ratio);
        double w = r->mode == RESIZE_CUBIC ? steno_ops_cubic_weight(d, r->cubic) : 1 - fabs(d);
        w = r->mode == RESIZE_LINEAR && w < 0 ? 0 : w;
        w = r->outside && (at < 0 || at >= dim) ? 0 : w;
        index[k] = at < 0 ? 0 : at >= dim ? dim - 1 : at;
        weight[k] = (float)w;
        sum += w;
    }
    for (size_t k = 0; (r->antialias || r->outside) && k < n; k++)
        weight[k] = (float)((double)weight[k] / sum);
}

struct resize_axis {
    size_t n; /* taps */
    int64_t *index;
    float *weight;
};

static bool unchanged(const struct resize *r, int a, int64_t dim)
{
    return fabs(r->scale[a] - 1) <= 1e-9 && r->out[a] == dim &&
           (!r->has_roi || !resize_is(r->coordinate, "tf_crop_and_resize") ||
            (r->start[a] == 0 && r->end[a] == 1));
}

static steno_status make_axis(struct steno_op_ctx *ctx, const struct resize *r, int a, int64_t dim,
                              struct resize_axis *t, steno_err *err)
{
    size_t count;
    t->n = taps_of_resize(r, a);
    if (!steno_mul_size((size_t)r->out[a] + 1, t->n * sizeof *t->index, &count))
        return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "the output is too large");
    t->index = steno_op_scratch(ctx, count);
    t->weight = steno_op_scratch(ctx, count / sizeof *t->index * sizeof *t->weight);
    if (!t->index || !t->weight)
        return steno_ops_nomem(ctx, err);
    for (int64_t i = 0; i < r->out[a]; i++)
        taps_at(r, a, dim, i, t->n, t->index + (size_t)i * t->n, t->weight + (size_t)i * t->n);
    return STENO_OK;
}

/* y [outer, out, inner] of x [outer, dim, inner]. */
static void resize_rows(const struct resize *r, const struct resize_axis *t, size_t outer,
                        size_t dim, size_t out, size_t inner, const float *x, float *y)
{
    for (size_t o = 0; o < outer; o++, x += dim * inner)
        for (size_t i = 0; i < out; i++, y += inner) {
            const int64_t *index = t->index + i * t->n;
            const float *weight = t->weight + i * t->n;
            const bool gone = index[0] < 0;
            for (size_t k = 0; k < inner; k++)
                y[k] = gone ? (float)r->extrapolation : weight[0] * x[(size_t)index[0] * inner + k];
            for (size_t j = 1; !gone && j < t->n; j++) {
                const float *row = x + (size_t)index[j] * inner;
                const float w = weight[j];
                for (size_t k = 0; w != 0 && k < inner; k++)
                    y[k] += w * row[k];
            }
        }
}

/* Elements of any type, moved. */
static void move_rows(const struct resize_axis *t, size_t outer, size_t dim, size_t out,
                      size_t bytes, const char *x, char *y)
{
    for (size_t o = 0; o < outer; o++, x += dim * bytes)
        for (size_t i = 0; i < out; i++, y += bytes)
            if (bytes == 4)
                memcpy(y, x + (size_t)t->index[i] * 4, 4);
            else
                memcpy(y, x + (size_t)t->index[i] * bytes, bytes);
}

static steno_status resize_axes(struct steno_op_ctx *ctx, const struct resize *r,
                                const struct steno_tensor *x, struct steno_tensor *y,
                                steno_err *err)
{
    bool moves = r->mode == RESIZE_NEAREST && !resize_is(r->coordinate, "tf_crop_and_resize");
    struct steno_shape s = x->shape;
    size_t size = moves ? steno_dtype_size(x->dtype) : sizeof(float);
    const void *from = moves ? x->data : steno_ops_as_f32(ctx, x);
    void *last = moves ? y->data : steno_ops_out_f32(ctx, y);
    int left = 0;
    if (!from || !last)
        return steno_ops_nomem(ctx, err);
    for (int a = 0; a < r->rank; a++)
        left += !unchanged(r, a, s.dim[a]);
    if (!left)
        memcpy(last, from, steno_numel(x) * size);
    for (int a = 0; left && a < r->rank; a++) {
        struct resize_axis t = {0};
        size_t outer, inner, bytes;
        int64_t dim = s.dim[a];
        void *to = last;
        steno_status st;
        if (unchanged(r, a, dim))
            continue;
        st = make_axis(ctx, r, a, dim, &t, err);
        if (st)
            return st;
        s.dim[a] = r->out[a];
        if (steno_shape_bytes(&s, STENO_F64, &bytes))
            return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "the output is too large");
        if (--left && !(to = steno_op_scratch(ctx, bytes / sizeof(double) * size + 1)))
            return steno_ops_nomem(ctx, err);
        outer = steno_ops_prod(&s, 0, a);
        inner = steno_ops_prod(&s, a + 1, s.rank);
        if (moves)
            move_rows(&t, outer, (size_t)dim, (size_t)r->out[a], inner * size, from, to);
        else
            resize_rows(r, &t, outer, (size_t)dim, (size_t)r->out[a], inner, from, to);
        from = to;
    }
    if (!moves)
        steno_ops_put_f32(y, last);
    return STENO_OK;
}

static steno_status read_roi(struct steno_op_ctx *ctx, struct resize *r, steno_err *err)
{
    const struct steno_tensor *roi = !r->old ? steno_op_in(ctx, 1) : NULL;
    for (int i = 0; i < r->rank; i++)
        r->end[i] = 1;
    if (!resize_is(r->coordinate, "tf_crop_and_resize"))
        return STENO_OK;
    if (!roi || steno_numel(roi) != 2 * (size_t)r->n_axes || !steno_ops_is_float(roi->dtype))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "roi does not fit the axes");
    r->has_roi = true;
    for (int i = 0; i < r->n_axes; i++) {
        r->start[r->axis[i]] = steno_ops_get_f64(roi, (size_t)i);
        r->end[r->axis[i]] = steno_ops_get_f64(roi, (size_t)(r->n_axes + i));
    }
    return STENO_OK;
}

static steno_status run_resize(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    const struct steno_tensor *x = steno_op_in(ctx, 0), *scales, *sizes;
    struct steno_shape s = {0};
    struct steno_tensor *y;
    const float *fixed;
    const char *wrong;
    struct resize r;
    steno_status st;
    wrong = resize_attributes(n, x->shape.rank, &r);
    fixed = wrong ? NULL : fixed_scales(n, &r, x->shape.rank);
    scales = !wrong && r.from > 0 ? steno_op_in(ctx, r.from) : NULL;
    sizes = !wrong && !r.old ? steno_op_in(ctx, 3) : NULL;
    scales = scales && !steno_numel(scales) && r.n_axes ? NULL : scales;
    if (sizes && !steno_numel(sizes) && r.n_axes)
        sizes = NULL;
    if (!wrong && !scales && !sizes && !fixed)
        wrong = "it has neither scales nor sizes";
    if (!wrong && ((scales && steno_numel(scales) != (size_t)r.n_axes) ||
                   (sizes && steno_numel(sizes) != (size_t)r.n_axes)))
        wrong = "scales or sizes do not fit the axes";
    if (!wrong && scales && !sizes && !steno_ops_is_float(scales->dtype))
        wrong = "scales are not floats";
    if (!wrong && sizes && sizes->dtype != STENO_I64)
        wrong = "sizes are not i64";
    if (!wrong)
        wrong = resize_shape(&r, &x->shape, scales, sizes, fixed);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    st = read_roi(ctx, &r, err);
    if (st)
        return st;
    s.rank = r.rank;
    memcpy(s.dim, r.out, sizeof r.out);
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    if (!steno_numel(x))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "an empty input has no elements to repeat");
    return resize_axes(ctx, &r, x, y, err);
}

const struct steno_op steno_ops_resize[] = {
    {"", "Resize", 10, 0, 0, infer_resize, NULL, NULL, run_resize},
    {"", "Upsample", 7, 9, 0, infer_resize, NULL, NULL, run_resize},
    {0},
};
