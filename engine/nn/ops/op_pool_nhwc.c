/* Operator of domain ai.steno, made by pass nhwc: MaxPool and AveragePool of ONNX on channels-last
 * images. Files contain it only as a function.
 *
 * PoolNhwc   X [N, H, W, C] f32; Y [N, H', W', C]. Attributes of the ONNX operator, and max: 1 for
 *            MaxPool, 0 for AveragePool. */
#include "nn/ops/window.h"

#include <math.h>

struct pool_nhwc {
    const steno_kernels *k;
    struct steno_window win;
    bool max, include_pad;
    const float *x;
    float *y;
    int64_t in[2], out[2];
    size_t channels;
};

static steno_status read_pool(const struct steno_node *n, const struct steno_shape *x,
                              struct pool_nhwc *p, struct steno_shape *y, steno_err *err)
{
    steno_status st;
    if (x->rank != 4)
        return steno_fail(err, STENO_ERR_INVAL, "input has rank %d, expected 4", x->rank);
    st = steno_window_read(n, 2, STENO_WINDOW_MAX, NULL, &p->win, err);
    p->max = steno_node_int(n, "max", 1) != 0;
    p->include_pad = steno_node_int(n, "count_include_pad", 0) != 0;
    *y = *x;
    for (int i = 0; i < 2 && !st; i++) {
        if (x->dim[i + 1] < 0)
            y->dim[i + 1] = STENO_DIM_ANY;
        else
            st = steno_window_out(&p->win, i, x->dim[i + 1], &y->dim[i + 1], err);
        p->in[i] = x->dim[i + 1];
        p->out[i] = y->dim[i + 1];
    }
    return st;
}

static steno_status infer_pool_nhwc(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), y = {.rank = STENO_RANK_ANY};
    struct pool_nhwc p;
    if (x.rank >= 0) {
        steno_status st = read_pool(steno_infer_node(ic), &x, &p, &y, err);
        if (st)
            return st;
        for (int i = 1; i < 3; i++)
            if (y.dim[i] == STENO_DIM_ANY)
                y.dim[i] = steno_infer_new_dim(ic);
    }
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &y);
    return STENO_OK;
}

/* Taps of the window at o along axis a: *first is the input position of the first, *n the number
 * inside the input, *padded the number inside the padded input. */
static void taps_of(const struct pool_nhwc *p, int a, int64_t o, int64_t *first, int64_t *n,
                    int64_t *padded)
{
    const int64_t step = p->win.dilation[a], from = o * p->win.stride[a] - p->win.before[a];
    int64_t k = 0, end;
    while (k < p->win.kernel[a] && from + k * step < 0)
        k++;
    *first = from + k * step;
    for (end = k; end < p->win.kernel[a] && from + end * step < p->in[a]; end++)
        ;
    *n = end - k;
    while (end < p->win.kernel[a] && from + end * step < p->in[a] + p->win.after[a])
        end++;
    *padded = end;
}

static void pool_pixel(const struct pool_nhwc *p, const float *image, int64_t i, int64_t j,
                       float *y)
{
    int64_t first[2], n[2], padded[2], taps = 0;
    taps_of(p, 0, i, &first[0], &n[0], &padded[0]);
    taps_of(p, 1, j, &first[1], &n[1], &padded[1]);
    for (int64_t a = 0; a < n[0]; a++)
        for (int64_t b = 0; b < n[1]; b++) {
            const int64_t row = first[0] + a * p->win.dilation[0];
            const int64_t column = first[1] + b * p->win.dilation[1];
            const float *x = image + (size_t)(row * p->in[1] + column) * p->channels;
            if (!taps++)
                memcpy(y, x, p->channels * sizeof *y);
            else if (p->max)
                p->k->max_f32(y, y, 1, x, 1, p->channels);
            else
                p->k->add_f32(y, y, 1, x, 1, p->channels);
        }
    if (!taps) /* only padding: the largest of no numbers, or a mean of zeros */
        for (size_t c = 0; c < p->channels; c++)
            y[c] = p->max ? -INFINITY : 0;
    if (p->include_pad)
        taps = padded[0] * padded[1];
    if (!p->max && taps)
        p->k->affine_f32(y, y, p->channels, 1 / (float)taps, 0);
}

/* Rows of pixels [begin, end) of all images. */
static void pool_rows(void *arg, size_t begin, size_t end)
{
    const struct pool_nhwc *p = arg;
    const size_t height = (size_t)p->out[0], width = (size_t)p->out[1];
    const size_t image = (size_t)(p->in[0] * p->in[1]) * p->channels;
    for (size_t r = begin; r < end; r++)
        for (size_t j = 0; j < width; j++)
            pool_pixel(p, p->x + r / height * image, (int64_t)(r % height), (int64_t)j,
                       p->y + (r * width + j) * p->channels);
}

static steno_status run_pool_nhwc(struct steno_op_ctx *ctx, steno_err *err)
{
    struct pool_nhwc p = {.k = steno_op_kernels(ctx)};
    const struct steno_tensor *x;
    struct steno_tensor *y;
    struct steno_shape s;
    steno_status st = steno_ops_need(ctx, 1, err);
    if (st)
        return st;
    x = steno_op_in(ctx, 0);
    if (x->dtype != STENO_F32)
        return steno_ops_bad_type(ctx, err, x->dtype);
    st = read_pool(steno_op_node(ctx), &x->shape, &p, &s, err);
    if (!st)
        st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    p.channels = (size_t)s.dim[3];
    p.x = x->data;
    p.y = y->data;
    steno_ops_ranges(ctx, (size_t)(s.dim[0] * s.dim[1]),
                     1 + 16384 / (p.channels * (size_t)s.dim[2]), pool_rows, &p);
    return STENO_OK;
}

const struct steno_op steno_ops_pool_nhwc[] = {
    {"ai.steno", "PoolNhwc", 1, 0, 0, infer_pool_nhwc, NULL, NULL, run_pool_nhwc},
    {0},
};
