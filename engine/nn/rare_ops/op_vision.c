/* Operators of image models: LRN, Det, AffineGrid, CenterCropPad, Col2Im, MaxUnpool, DeformConv
 * (op_regions.c has RoiAlign and MaxRoiPool). They take little time beside a network's
 * convolutions, so they are plain loops in f64. */
#include "nn/ops/window.h"
#include "nn/rare_ops/families.h"

#include <math.h>

/* ---- LRN ---- */
static steno_status run_lrn(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    int64_t size = steno_node_int(n, "size", 0), channels;
    double alpha = (double)steno_node_float(n, "alpha", 1e-4f);
    double beta = (double)steno_node_float(n, "beta", 0.75f);
    double bias = (double)steno_node_float(n, "bias", 1);
    const struct steno_tensor *x;
    struct steno_tensor *y;
    const double *px;
    double *py;
    size_t inner, batch;
    steno_status st = steno_ops_float_input(ctx, &x, &px, err);
    if (st)
        return st;
    if (x->shape.rank < 2 || size < 1 || size > INT32_MAX)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "rank %d and size %lld", x->shape.rank,
                             (long long)size);
    st = steno_ops_float_output(ctx, x->dtype, &x->shape, &y, &py, err);
    if (st)
        return st;
    channels = x->shape.dim[1];
    inner = steno_ops_prod(&x->shape, 2, x->shape.rank);
    batch = (size_t)x->shape.dim[0];
    for (size_t b = 0; b < batch; b++)
        for (int64_t c = 0; c < channels; c++) {
            int64_t from = c - (size - 1) / 2, to = c + size / 2;
            from = from < 0 ? 0 : from;
            to = to >= channels ? channels - 1 : to;
            for (size_t i = 0; i < inner; i++) {
                const double *p = px + b * (size_t)channels * inner + i;
                double sum = 0;
                for (int64_t k = from; k <= to; k++)
                    sum += p[(size_t)k * inner] * p[(size_t)k * inner];
                py[(b * (size_t)channels + (size_t)c) * inner + i] =
                    p[(size_t)c * inner] / pow(bias + alpha / (double)size * sum, beta);
            }
        }
    steno_ops_put_f64(y, py);
    return STENO_OK;
}

/* ---- Det ---- */
static steno_status infer_det(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    if (s.rank >= 0 && s.rank < 2)
        return steno_fail(err, STENO_ERR_INVAL, "the input is no matrix");
    s.rank = s.rank < 0 ? s.rank : s.rank - 2;
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* Gaussian elimination with the largest pivot of each column. */
static double determinant(double *a, size_t n)
{
    double det = 1;
    for (size_t k = 0; k < n; k++) {
        size_t p = k;
        for (size_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[p * n + k]))
                p = i;
        if (a[p * n + k] == 0)
            return 0;
        for (size_t j = k; p != k && j < n; j++) {
            double v = a[k * n + j];
            a[k * n + j] = a[p * n + j];
            a[p * n + j] = v;
        }
        det *= p != k ? -a[k * n + k] : a[k * n + k];
        for (size_t i = k + 1; i < n; i++) {
            double f = a[i * n + k] / a[k * n + k];
            for (size_t j = k; j < n; j++)
                a[i * n + j] -= f * a[k * n + j];
        }
    }
    return det;
}

static steno_status run_det(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x;
    struct steno_shape s;
    struct steno_tensor *y;
    const double *px;
    double *py, *a;
    size_t n, count;
    steno_status st = steno_ops_float_input(ctx, &x, &px, err);
    if (st)
        return st;
    s = x->shape;
    if (s.rank < 2 || s.dim[s.rank - 1] != s.dim[s.rank - 2])
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the matrices are not square");
    n = (size_t)s.dim[s.rank - 1];
    s.rank -= 2;
    st = steno_ops_float_output(ctx, x->dtype, &s, &y, &py, err);
    if (st)
        return st;
    a = steno_op_scratch(ctx, (n * n + 1) * sizeof *a);
    if (!a)
        return steno_ops_nomem(ctx, err);
    count = steno_numel(y);
    for (size_t i = 0; i < count; i++) {
        memcpy(a, px + i * n * n, n * n * sizeof *a);
        py[i] = determinant(a, n);
    }
    steno_ops_put_f64(y, py);
    return STENO_OK;
}

/* ---- AffineGrid ---- */
/* The shape of the grid for `size` [N, C, (D,) H, W]. False: it is none. */
static bool grid_shape(const int64_t *size, size_t n, struct steno_shape *s)
{
    if (n != 4 && n != 5)
        return false;
    s->rank = (int)n;
    s->dim[0] = size[0];
    for (size_t i = 2; i < n; i++)
        s->dim[i - 1] = size[i];
    s->dim[n - 1] = (int64_t)n - 2;
    for (size_t i = 0; i < n; i++)
        if (size[i] < 0)
            return false;
    return true;
}

static steno_status infer_affine(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s;
    int64_t size[5];
    size_t n;
    bool known = steno_infer_ints(ic, 1, size, 5, &n);
    if (known && !grid_shape(size, n, &s))
        return steno_fail(err, STENO_ERR_INVAL, "size is not that of an image");
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), known ? &s : NULL);
    return STENO_OK;
}

/* Coordinate of pixel i of n, from -1 to 1. */
static double coordinate(int64_t i, int64_t n, bool corners)
{
    if (corners)
        return n > 1 ? -1 + 2 * (double)i / (double)(n - 1) : 0;
    return -1 + (2 * (double)i + 1) / (double)n;
}

static steno_status run_affine(struct steno_op_ctx *ctx, steno_err *err)
{
    bool corners = steno_node_int(steno_op_node(ctx), "align_corners", 0) != 0;
    const struct steno_tensor *x;
    struct steno_shape s;
    struct steno_tensor *y;
    const double *px;
    double *py;
    int64_t size[5];
    size_t n, d, points;
    steno_status st = steno_ops_float_input(ctx, &x, &px, err);
    if (!st)
        st = steno_ops_ints(ctx, 1, size, 5, &n, err);
    if (st)
        return st;
    d = n - 2;
    if (!grid_shape(size, n, &s) || x->shape.rank != 3 || x->shape.dim[0] != size[0] ||
        x->shape.dim[1] != (int64_t)d || x->shape.dim[2] != (int64_t)d + 1)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "theta and size do not fit");
    st = steno_ops_float_output(ctx, x->dtype, &s, &y, &py, err);
    if (st)
        return st;
    points = steno_ops_prod(&s, 1, s.rank - 1);
    for (size_t b = 0; b < (size_t)s.dim[0]; b++)
        for (size_t p = 0; p < points; p++, py += d) {
            double at[3]; /* x, y[, z]: the last axis first */
            size_t left = p;
            for (size_t a = 0; a < d; a++) {
                size_t extent = (size_t)size[n - 1 - a];
                at[a] = coordinate((int64_t)(left % extent), (int64_t)extent, corners);
                left /= extent;
            }
            for (size_t i = 0; i < d; i++) {
                const double *row = px + (b * d + i) * (d + 1);
                py[i] = row[d];
                for (size_t a = 0; a < d; a++)
                    py[i] += row[a] * at[a];
            }
        }
    steno_ops_put_f64(y, py - steno_numel(y));
    return STENO_OK;
}

/* ---- CenterCropPad ---- */
static const char *crop_shape(const struct steno_node *node, const int64_t *want, size_t n,
                              struct steno_shape *s)
{
    size_t n_axes;
    const int64_t *axes = steno_node_ints(node, "axes", &n_axes);
    if (n != (axes ? n_axes : (size_t)s->rank))
        return "shape has another number of axes";
    for (size_t i = 0; i < n; i++) {
        int a = (int)i;
        if ((axes && !steno_ops_axis(axes[i], s->rank, &a)) || want[i] < 0)
            return "an axis or an extent is out of range";
        s->dim[a] = want[i];
    }
    return NULL;
}

static steno_status infer_crop(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    int64_t want[STENO_MAX_RANK];
    const char *wrong = NULL;
    size_t n;
    bool known = s.rank >= 0 && steno_infer_ints(ic, 1, want, STENO_MAX_RANK, &n);
    if (known)
        wrong = crop_shape(steno_infer_node(ic), want, n, &s);
    if (wrong)
        return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), known ? &s : NULL);
    return STENO_OK;
}

static steno_status run_crop(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_shape s, both;
    struct steno_tensor *y;
    int64_t want[STENO_MAX_RANK], ss[STENO_MAX_RANK], ds[STENO_MAX_RANK];
    const char *wrong;
    size_t n, e, from = 0, to = 0;
    steno_status st = steno_ops_ints(ctx, 1, want, STENO_MAX_RANK, &n, err);
    if (st)
        return st;
    s = both = x->shape;
    wrong = crop_shape(steno_op_node(ctx), want, n, &s);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st)
        return st;
    e = steno_dtype_size(x->dtype);
    memset(y->data, 0, steno_numel(y) * e);
    steno_ops_strides(&x->shape, ss);
    steno_ops_strides(&s, ds);
    for (int a = 0; a < s.rank; a++) {
        int64_t have = x->shape.dim[a], out = s.dim[a];
        if (have > out)
            from += (size_t)((have - out) / 2 * ss[a]);
        else
            to += (size_t)((out - have) / 2 * ds[a]);
        both.dim[a] = have < out ? have : out;
    }
    if (steno_ops_prod(&both, 0, both.rank))
        steno_ops_copy(both.rank, both.dim, e, (char *)y->data + to * e, ds,
                       (const char *)x->data + from * e, ss);
    return STENO_OK;
}

/* ---- windows: Col2Im, MaxUnpool ---- */
static steno_status infer_col2im(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), s;
    int64_t image[STENO_WINDOW_AXES], block[STENO_WINDOW_AXES], all = 1;
    size_t n, m;
    if (!steno_infer_ints(ic, 1, image, STENO_WINDOW_AXES, &n)) {
        steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), NULL);
        return STENO_OK;
    }
    s.rank = (int)n + 2;
    s.dim[0] = x.rank == 3 ? x.dim[0] : steno_infer_new_dim(ic);
    s.dim[1] = STENO_DIM_ANY;
    for (size_t i = 0; i < n; i++) {
        if (image[i] < 0)
            return steno_fail(err, STENO_ERR_INVAL, "image_shape is negative");
        s.dim[i + 2] = image[i];
    }
    if (x.rank == 3 && x.dim[1] >= 0 && steno_infer_ints(ic, 2, block, STENO_WINDOW_AXES, &m)) {
        for (size_t i = 0; i < m; i++)
            if (block[i] < 1 || __builtin_mul_overflow(all, block[i], &all))
                return steno_fail(err, STENO_ERR_INVAL, "block_shape is out of range");
        s.dim[1] = x.dim[1] / all;
    }
    if (s.dim[1] == STENO_DIM_ANY)
        s.dim[1] = steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* Number of windows along each axis of the image and in all, and the elements of one. */
static steno_status count_windows(struct steno_window *w, const int64_t *image, int64_t *count,
                                  int64_t *all, int64_t *block, steno_err *err)
{
    *all = *block = 1;
    for (int i = 0; i < w->n; i++) {
        steno_status st = image[i] < 0 ? steno_fail(err, STENO_ERR_INVAL, "image_shape is negative")
                                       : steno_window_out(w, i, image[i], &count[i], err);
        if (st)
            return st;
        if (__builtin_mul_overflow(*all, count[i], all) ||
            __builtin_mul_overflow(*block, w->kernel[i], block))
            return steno_fail(err, STENO_ERR_INVAL, "the image is too large");
    }
    return STENO_OK;
}

/* Add the columns of element k of a window's kernel, [windows], to a plane of the image. */
static void add_columns(const struct steno_window *w, const int64_t *image, const int64_t *count,
                        size_t all, size_t k, const double *x, double *plane)
{
    int64_t inside[STENO_WINDOW_AXES];
    for (int i = w->n; i-- > 0; k /= (size_t)w->kernel[i])
        inside[i] = (int64_t)(k % (size_t)w->kernel[i]) * w->dilation[i] - w->before[i];
    for (size_t p = 0; p < all; p++) {
        size_t left = p, at = 0, step = 1;
        bool in = true;
        for (int i = w->n; i-- > 0; left /= (size_t)count[i]) {
            int64_t v = (int64_t)(left % (size_t)count[i]) * w->stride[i] + inside[i];
            in = in && v >= 0 && v < image[i];
            at += in ? (size_t)v * step : 0;
            step *= (size_t)image[i];
        }
        if (in)
            plane[at] += x[p];
    }
}

static steno_status run_col2im(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x;
    struct steno_shape s;
    struct steno_tensor *y;
    struct steno_window w;
    const double *px;
    double *py;
    int64_t image[STENO_WINDOW_AXES], kernel[STENO_WINDOW_AXES], count[STENO_WINDOW_AXES];
    int64_t all, block;
    size_t n, m, planes, plane;
    steno_status st = steno_ops_float_input(ctx, &x, &px, err);
    if (!st)
        st = steno_ops_ints(ctx, 1, image, STENO_WINDOW_AXES, &n, err);
    if (!st)
        st = steno_ops_ints(ctx, 2, kernel, STENO_WINDOW_AXES, &m, err);
    if (!st && m != n)
        st = steno_op_fail(ctx, err, STENO_ERR_INVAL, "%zu axes of blocks for %zu of the image", m,
                           n);
    if (!st)
        st = steno_window_read(steno_op_node(ctx), (int)n, STENO_WINDOW_AXES, kernel, &w, err);
    if (!st)
        st = count_windows(&w, image, count, &all, &block, err);
    if (st)
        return st;
    if (x->shape.rank != 3 || x->shape.dim[1] % block || x->shape.dim[2] != all)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the columns do not fit the image");
    s.rank = w.n + 2;
    s.dim[0] = x->shape.dim[0];
    s.dim[1] = x->shape.dim[1] / block;
    memcpy(s.dim + 2, image, n * sizeof *image);
    st = steno_ops_float_output(ctx, x->dtype, &s, &y, &py, err);
    if (st)
        return st;
    memset(py, 0, steno_numel(y) * sizeof *py);
    planes = steno_ops_prod(&s, 0, 2);
    plane = steno_ops_prod(&s, 2, s.rank);
    for (size_t c = 0; c < planes; c++)
        for (size_t k = 0; k < (size_t)block; k++)
            add_columns(&w, image, count, (size_t)all, k,
                        px + (c * (size_t)block + k) * (size_t)all, py + c * plane);
    steno_ops_put_f64(y, py);
    return STENO_OK;
}

/* s: the input's shape, then that of the image without output_shape. */
static steno_status unpooled_shape(const struct steno_node *node, struct steno_shape *s,
                                   steno_err *err)
{
    struct steno_window w;
    steno_status st = steno_window_read(node, s->rank - 2, STENO_WINDOW_AXES, NULL, &w, err);
    for (int i = 0; !st && i < w.n; i++) {
        int64_t *d = &s->dim[i + 2];
        if (*d < 0)
            continue;
        *d = *d > INT32_MAX ? -1 : (*d - 1) * w.stride[i] - w.before[i] - w.after[i] + w.kernel[i];
        if (*d < 0)
            st = steno_fail(err, STENO_ERR_INVAL, "the windows do not fit the input");
    }
    return st;
}

static steno_status infer_unpool(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    int64_t want[STENO_MAX_RANK];
    size_t n = 0;
    bool given = steno_infer_has(ic, 2);
    bool known = given ? steno_infer_ints(ic, 2, want, STENO_MAX_RANK, &n) : s.rank >= 0;
    if (given && known) {
        s.rank = (int)n;
        memcpy(s.dim, want, n * sizeof *want);
    } else if (known) {
        steno_status st = unpooled_shape(steno_infer_node(ic), &s, err);
        if (st)
            return st;
    }
    for (int i = 0; known && i < s.rank; i++)
        if (s.dim[i] < 0)
            s.dim[i] = steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), known ? &s : NULL);
    return STENO_OK;
}

static steno_status run_unpool(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0), *at = steno_op_in(ctx, 1);
    struct steno_shape inner, s;
    struct steno_tensor *y;
    int64_t want[STENO_MAX_RANK], ds[STENO_MAX_RANK];
    size_t n, e, count, total;
    steno_status st;
    inner = x->shape;
    st = unpooled_shape(steno_op_node(ctx), &inner, err);
    if (st)
        return st;
    if (at->dtype != STENO_I64 || !steno_shape_equal(&at->shape, &x->shape) ||
        steno_shape_count(&inner, &total))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the indices do not fit the input");
    s = inner;
    if (steno_op_in(ctx, 2)) {
        st = steno_ops_ints(ctx, 2, want, STENO_MAX_RANK, &n, err);
        for (size_t i = 0; !st && i < (size_t)s.rank; i++) {
            if (n != (size_t)s.rank || want[i] < inner.dim[i])
                return steno_op_fail(ctx, err, STENO_ERR_INVAL, "output_shape is too small");
            s.dim[i] = want[i];
        }
    }
    if (!st)
        st = steno_op_out(ctx, 0, x->dtype, &s, &y, err);
    if (st)
        return st;
    e = steno_dtype_size(x->dtype);
    memset(y->data, 0, steno_numel(y) * e);
    steno_ops_strides(&s, ds);
    count = steno_numel(x);
    for (size_t i = 0; i < count; i++) {
        int64_t p = ((const int64_t *)at->data)[i];
        size_t to = 0;
        if (p < 0 || (size_t)p >= total)
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "index %lld is outside the output",
                                 (long long)p);
        for (int a = s.rank; a-- > 0; p /= inner.dim[a])
            to += (size_t)(p % inner.dim[a] * ds[a]);
        memcpy((char *)y->data + to * e, (const char *)x->data + i * e, e);
    }
    return STENO_OK;
}

/* ---- DeformConv (two axes) ---- */
struct deform {
    struct steno_window w;
    size_t in[2], out[2], c_in, c_out, group, offset_group, taps;
    const double *x, *weight, *offset, *mask, *bias; /* of one image; mask, bias: may be NULL */
};

/* Check shapes and attributes; *y gets the result's shape. */
static steno_status deform_layout(const struct steno_node *n, const struct steno_shape *x,
                                  const struct steno_shape *w, const struct steno_shape *offset,
                                  struct deform *d, struct steno_shape *y, steno_err *err)
{
    int64_t count[2], group = steno_node_int(n, "group", 1);
    int64_t by = steno_node_int(n, "offset_group", 1);
    steno_status st;
    if (x->rank != 4 || w->rank != 4 || offset->rank != 4)
        return steno_fail(err, STENO_ERR_INVAL, "only two spatial axes are supported");
    st = steno_window_read(n, 2, 2, w->dim + 2, &d->w, err);
    for (int a = 0; a < 2 && !st; a++)
        st = steno_window_out(&d->w, a, x->dim[a + 2], &count[a], err);
    if (st)
        return st;
    if (group < 1 || by < 1 || x->dim[1] % by || w->dim[0] % group || x->dim[1] % group ||
        w->dim[1] != x->dim[1] / group)
        return steno_fail(err, STENO_ERR_INVAL, "the channels do not divide into the groups");
    *y = steno_ops_shape(4, (const int64_t[]){x->dim[0], w->dim[0], count[0], count[1]});
    d->taps = (size_t)(w->dim[2] * w->dim[3]);
    d->group = (size_t)group;
    d->offset_group = (size_t)by;
    d->c_in = (size_t)x->dim[1];
    d->c_out = (size_t)w->dim[0];
    for (int a = 0; a < 2; a++) {
        d->in[a] = (size_t)x->dim[a + 2];
        d->out[a] = (size_t)count[a];
    }
    if (offset->dim[0] != x->dim[0] || offset->dim[1] != by * 2 * (int64_t)d->taps ||
        offset->dim[2] != count[0] || offset->dim[3] != count[1])
        return steno_fail(err, STENO_ERR_INVAL, "the offsets have another shape");
    return STENO_OK;
}

static steno_status infer_deform(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s[3], y;
    struct deform d;
    steno_status st;
    for (int i = 0; i < 3; i++) {
        s[i] = steno_infer_shape(ic, i);
        if (!steno_shape_known(&s[i])) {
            steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), NULL);
            return STENO_OK;
        }
    }
    st = deform_layout(steno_infer_node(ic), &s[0], &s[1], &s[2], &d, &y, err);
    if (!st)
        steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &y);
    return st;
}

/* Between the four pixels around (at[0], at[1]); those outside are 0. */
static double between(const double *plane, const size_t in[2], const double at[2])
{
    double low[2] = {floor(at[0]), floor(at[1])}, sum = 0;
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            double y = low[0] + a, x = low[1] + b;
            if (y >= 0 && y < (double)in[0] && x >= 0 && x < (double)in[1])
                sum += plane[(size_t)y * in[1] + (size_t)x] * (1 - fabs(at[0] - y)) *
                       (1 - fabs(at[1] - x));
        }
    return sum;
}

/* The samples of one place of the result, [c_in, taps]. */
static void deform_samples(const struct deform *d, size_t place, double *to)
{
    const size_t pixels = d->out[0] * d->out[1], per = d->c_in / d->offset_group;
    const size_t where[2] = {place / d->out[1], place % d->out[1]};
    for (size_t c = 0; c < d->c_in; c++)
        for (size_t k = 0; k < d->taps; k++) {
            const size_t tap[2] = {k / (size_t)d->w.kernel[1], k % (size_t)d->w.kernel[1]};
            const size_t o = c / per * d->taps + k;
            double at[2];
            for (int a = 0; a < 2; a++)
                at[a] = (double)((int64_t)where[a] * d->w.stride[a] - d->w.before[a] +
                                 (int64_t)tap[a] * d->w.dilation[a]) +
                        d->offset[(2 * o + (size_t)a) * pixels + place];
            to[c * d->taps + k] = between(d->x + c * d->in[0] * d->in[1], d->in, at) *
                                  (d->mask ? d->mask[o * pixels + place] : 1);
        }
}

static void deform_image(const struct deform *d, double *samples, double *y)
{
    const size_t pixels = d->out[0] * d->out[1], in = d->c_in / d->group * d->taps;
    const size_t out = d->c_out / d->group;
    for (size_t p = 0; p < pixels; p++) {
        deform_samples(d, p, samples);
        for (size_t o = 0; o < d->c_out; o++) {
            const double *s = samples + o / out * in, *w = d->weight + o * in;
            double sum = d->bias ? d->bias[o] : 0;
            for (size_t i = 0; i < in; i++)
                sum += w[i] * s[i];
            y[o * pixels + p] = sum;
        }
    }
}

static steno_status run_deform(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x, *w = steno_op_in(ctx, 1), *offset, *bias, *mask;
    const double *px, *po, *pm = NULL;
    struct steno_tensor *y;
    struct steno_shape s;
    struct deform d;
    double *py, *samples;
    size_t pixels;
    steno_status st = steno_ops_float_input(ctx, &x, &px, err);
    if (st)
        return st;
    offset = steno_op_in(ctx, 2);
    bias = steno_op_in(ctx, 3);
    mask = steno_op_in(ctx, 4);
    st = deform_layout(steno_op_node(ctx), &x->shape, &w->shape, &offset->shape, &d, &s, err);
    if (st)
        return st;
    pixels = d.out[0] * d.out[1];
    if ((bias && steno_numel(bias) != d.c_out) ||
        (mask && steno_numel(mask) != steno_numel(offset) / 2))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the bias or the mask has another shape");
    st = steno_ops_float_output(ctx, x->dtype, &s, &y, &py, err);
    if (st)
        return st;
    d.weight = steno_ops_as_f64(ctx, w);
    po = steno_ops_as_f64(ctx, offset);
    d.bias = bias ? steno_ops_as_f64(ctx, bias) : NULL;
    pm = mask ? steno_ops_as_f64(ctx, mask) : NULL;
    samples = steno_op_scratch(ctx, (d.c_in * d.taps + 1) * sizeof *samples);
    if (!d.weight || !po || (bias && !d.bias) || (mask && !pm) || !samples)
        return steno_ops_nomem(ctx, err);
    for (size_t b = 0; b < (size_t)s.dim[0]; b++) {
        d.x = px + b * d.c_in * d.in[0] * d.in[1];
        d.offset = po + b * d.offset_group * 2 * d.taps * pixels;
        d.mask = pm ? pm + b * d.offset_group * d.taps * pixels : NULL;
        deform_image(&d, samples, py + b * d.c_out * pixels);
    }
    steno_ops_put_f64(y, py);
    return STENO_OK;
}

const struct steno_op steno_ops_vision[] = {
    {"", "DeformConv", 19, 0, 0, infer_deform, NULL, NULL, run_deform},
    {"", "LRN", 1, 0, 0, steno_ops_infer_same, NULL, NULL, run_lrn},
    {"", "Det", 11, 0, 0, infer_det, NULL, NULL, run_det},
    {"", "AffineGrid", 20, 0, 0, infer_affine, NULL, NULL, run_affine},
    {"", "CenterCropPad", 18, 0, 0, infer_crop, NULL, NULL, run_crop},
    {"", "Col2Im", 18, 0, 0, infer_col2im, NULL, NULL, run_col2im},
    {"", "MaxUnpool", 9, 0, 0, infer_unpool, NULL, NULL, run_unpool},
    {0},
};
