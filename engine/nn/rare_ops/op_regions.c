/* Regions of an image: MaxRoiPool (opset 1), RoiAlign (opset 10+). Plain loops in f64. */
#include "nn/ops/internal.h"
#include "nn/rare_ops/families.h"

#include <math.h>

struct regions {
    int64_t out[2];  /* rows and columns of a result */
    double scale;    /* of the regions' coordinates */
    double shift;    /* RoiAlign: taken off them */
    int64_t samples; /* RoiAlign: points of a bin along an axis, 0: as many as it has pixels */
    bool align, max;
    size_t extent[2]; /* rows and columns of the input */
};

static bool read_regions(const struct steno_node *n, struct regions *r)
{
    bool half = !strcmp(steno_node_str(n, "coordinate_transformation_mode",
                                       n->opset >= 16 ? "half_pixel" : "output_half_pixel"),
                        "half_pixel");
    const int64_t *pooled;
    size_t count;
    r->align = !strcmp(n->op_type, "RoiAlign");
    r->scale = (double)steno_node_float(n, "spatial_scale", 1);
    r->shift = r->align && half ? 0.5 : 0;
    r->max = !r->align || !strcmp(steno_node_str(n, "mode", "avg"), "max");
    r->samples = steno_node_int(n, "sampling_ratio", 0);
    r->out[0] = steno_node_int(n, "output_height", 1);
    r->out[1] = steno_node_int(n, "output_width", 1);
    pooled = r->align ? NULL : steno_node_ints(n, "pooled_shape", &count);
    if (pooled && count == 2)
        memcpy(r->out, pooled, sizeof r->out);
    return (r->align ||
            (pooled && count == 2 && pooled[0] <= INT32_MAX && pooled[1] <= INT32_MAX)) &&
           r->out[0] > 0 && r->out[1] > 0 && r->samples >= 0;
}

static steno_status infer_regions(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), at = steno_infer_shape(ic, 1);
    struct steno_shape s = {.rank = 4};
    struct regions r;
    if (!read_regions(steno_infer_node(ic), &r))
        return steno_fail(err, STENO_ERR_INVAL, "an attribute is out of range");
    s.dim[0] = at.rank == 2 ? at.dim[0] : steno_infer_new_dim(ic);
    s.dim[1] = x.rank == 4 ? x.dim[1] : steno_infer_new_dim(ic);
    s.dim[2] = r.out[0];
    s.dim[3] = r.out[1];
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* The two pixels beside `at` along an axis and the weight of the second. False: it is outside. */
static bool beside(double at, size_t extent, size_t pixel[2], double *weight)
{
    if (!(at >= -1 && at <= (double)extent))
        return false;
    at = at < 0 ? 0 : at;
    pixel[0] = (size_t)at;
    if (pixel[0] >= extent - 1) {
        pixel[0] = pixel[1] = extent - 1;
        *weight = 0;
        return true;
    }
    pixel[1] = pixel[0] + 1;
    *weight = at - (double)pixel[0];
    return true;
}

/* One bin of RoiAlign: the mean of samples between pixels. The maximum is that of the weighted
 * pixels, as ONNX Runtime and the reference have it. */
static double align_bin(const struct regions *r, const double start[2], const double step[2],
                        const int64_t samples[2], const double *plane)
{
    double sum = 0, best = 0;
    bool any = false;
    for (int64_t i = 0; i < samples[0]; i++)
        for (int64_t j = 0; j < samples[1]; j++) {
            size_t py[2], px[2];
            double fy, fx, v[4] = {0};
            if (beside(start[0] + ((double)i + 0.5) * step[0] / (double)samples[0], r->extent[0],
                       py, &fy) &&
                beside(start[1] + ((double)j + 0.5) * step[1] / (double)samples[1], r->extent[1],
                       px, &fx)) {
                v[0] = (1 - fy) * (1 - fx) * plane[py[0] * r->extent[1] + px[0]];
                v[1] = (1 - fy) * fx * plane[py[0] * r->extent[1] + px[1]];
                v[2] = fy * (1 - fx) * plane[py[1] * r->extent[1] + px[0]];
                v[3] = fy * fx * plane[py[1] * r->extent[1] + px[1]];
            }
            for (int k = 0; k < 4; k++) {
                sum += v[k];
                best = any && best > v[k] ? best : v[k];
                any = true;
            }
        }
    return r->max ? best : samples[0] && samples[1] ? sum / (double)(samples[0] * samples[1]) : 0;
}

static double pool_bin(const struct regions *r, const double start[2], const double step[2],
                       const int64_t bin[2], const double *plane)
{
    int64_t from[2], to[2];
    double best = 0;
    bool any = false;
    for (int a = 0; a < 2; a++) {
        double last = (double)r->extent[a];
        from[a] = (int64_t)fmin(fmax(floor((double)bin[a] * step[a]) + start[a], 0), last);
        to[a] = (int64_t)fmin(fmax(ceil((double)(bin[a] + 1) * step[a]) + start[a], 0), last);
    }
    for (int64_t i = from[0]; i < to[0]; i++)
        for (int64_t j = from[1]; j < to[1]; j++) {
            double v = plane[(size_t)i * r->extent[1] + (size_t)j];
            best = any && best > v ? best : v;
            any = true;
        }
    return best;
}

/* All bins of one region, in one plane: box is x1, y1, x2, y2. */
static bool region(const struct regions *r, const double *box, const double *plane, double *y)
{
    double start[2], step[2];
    int64_t samples[2];
    for (int a = 0; a < 2; a++) {
        double lo = box[1 - a] * r->scale - r->shift, hi = box[3 - a] * r->scale - r->shift, size;
        if (!r->align) {
            lo = round(lo);
            hi = round(hi) + 1;
        }
        size = r->align && r->shift > 0 ? hi - lo : fmax(hi - lo, 1);
        start[a] = lo;
        step[a] = size / (double)r->out[a];
        samples[a] = r->samples ? r->samples : (int64_t)fmin(fmax(ceil(step[a]), 0), 1e6);
        if (!isfinite(lo) || !isfinite(hi) || samples[a] > 4096)
            return false;
    }
    for (int64_t i = 0; i < r->out[0]; i++)
        for (int64_t j = 0; j < r->out[1]; j++) {
            double at[2] = {start[0] + (double)i * step[0], start[1] + (double)j * step[1]};
            *y++ = r->align ? align_bin(r, at, step, samples, plane)
                            : pool_bin(r, start, step, (const int64_t[]){i, j}, plane);
        }
    return true;
}

static steno_status run_regions(struct steno_op_ctx *ctx, steno_err *err)
{
    bool align = !strcmp(steno_op_node(ctx)->op_type, "RoiAlign");
    const struct steno_tensor *x, *rois = steno_op_in(ctx, 1), *of;
    struct steno_shape s = {.rank = 4};
    struct steno_tensor *y;
    struct regions r;
    const double *px, *box;
    double *py;
    size_t columns = align ? 4 : 5, plane, channels;
    steno_status st = steno_ops_float_input(ctx, &x, &px, err);
    if (st)
        return st;
    of = align ? steno_op_in(ctx, 2) : NULL;
    if (!read_regions(steno_op_node(ctx), &r) || x->shape.rank != 4 || rois->shape.rank != 2 ||
        rois->shape.dim[1] != (int64_t)columns || !steno_ops_is_float(rois->dtype) ||
        (of && (of->shape.rank != 1 || of->shape.dim[0] != rois->shape.dim[0])) ||
        (of && of->dtype != STENO_I64) || !x->shape.dim[2] || !x->shape.dim[3])
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the input and the regions do not fit");
    box = steno_ops_as_f64(ctx, rois);
    if (!box)
        return steno_ops_nomem(ctx, err);
    s.dim[0] = rois->shape.dim[0];
    s.dim[1] = x->shape.dim[1];
    s.dim[2] = r.out[0];
    s.dim[3] = r.out[1];
    st = steno_ops_float_output(ctx, x->dtype, &s, &y, &py, err);
    if (st)
        return st;
    r.extent[0] = (size_t)x->shape.dim[2];
    r.extent[1] = (size_t)x->shape.dim[3];
    plane = r.extent[0] * r.extent[1];
    channels = (size_t)s.dim[1];
    for (size_t k = 0; k < (size_t)s.dim[0]; k++, box += columns) {
        double b = of ? (double)((const int64_t *)of->data)[k] : box[0];
        if (!(b >= 0 && b < (double)x->shape.dim[0]))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "region %zu is of image %g", k, b);
        for (size_t c = 0; c < channels; c++)
            if (!region(&r, box + (columns - 4), px + ((size_t)b * channels + c) * plane,
                        py + (k * channels + c) * (size_t)(r.out[0] * r.out[1])))
                return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "region %zu is too large", k);
    }
    steno_ops_put_f64(y, py);
    return STENO_OK;
}

const struct steno_op steno_ops_regions[] = {
    {"", "MaxRoiPool", 1, 0, 0, infer_regions, NULL, NULL, run_regions},
    {"", "RoiAlign", 10, 0, 0, infer_regions, NULL, NULL, run_regions},
    {0},
};
