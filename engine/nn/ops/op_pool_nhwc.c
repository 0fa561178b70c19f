/* Operator of domain ai.steno, made by pass nhwc: MaxPool and AveragePool of ONNX on channels-last
 * images. Files contain it only as a function.
 *
 * PoolNhwc   X [N, H, W, C] f32; Y [N, H', W', C]. Attributes of the ONNX operator, and max: 1 for
 *            MaxPool, 0 for AveragePool. */
#include "nn/ops/window.h"

#include <math.h>

enum { ROOM = 2048 }; /* outputs of a block, in floats */

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

/* The window at an output along an axis: the input position of its first tap, the number of taps
 * inside the input, and inside the padded input. */
struct taps {
    int64_t first, n, padded;
};

static struct taps taps_of_pool_nhwc(const struct pool_nhwc *p, int a, int64_t o)
{
    const int64_t step = p->win.dilation[a], from = o * p->win.stride[a] - p->win.before[a];
    int64_t k = 0, end;
    struct taps t;
    while (k < p->win.kernel[a] && from + k * step < 0)
        k++;
    t.first = from + k * step;
    for (end = k; end < p->win.kernel[a] && from + end * step < p->in[a]; end++)
        ;
    t.n = end - k;
    while (end < p->win.kernel[a] && from + end * step < p->in[a] + p->win.after[a])
        end++;
    t.padded = end;
    return t;
}

/* y [m, n]: n channels of m outputs of a row, the first of which has `columns` and all of which
 * have as many taps. More than one output only with all channels. image: its first channel. */
static void pool_some(const struct pool_nhwc *p, const float *image, struct taps rows,
                      struct taps columns, size_t m, size_t n, float *y)
{
    const int64_t taps = p->include_pad ? rows.padded * columns.padded : rows.n * columns.n;
    float more[ROOM];
    for (int64_t r = 0; r < rows.n && columns.n; r++) {
        const int64_t row = rows.first + r * p->win.dilation[0];
        struct steno_pool k = {.m = m,
                               .n = n,
                               .rows = (size_t)columns.n,
                               .cols = 1,
                               .stride = 1,
                               .x = image + (size_t)(row * p->in[1] + columns.first) * p->channels,
                               .step = (size_t)p->win.stride[1] * p->channels,
                               .ldx = (size_t)p->win.dilation[1] * p->channels,
                               .y = r ? more : y,
                               .ldy = n,
                               .max = p->max};
        p->k->pool_f32(&k);
        if (r && p->max)
            p->k->max_f32(y, y, 1, more, 1, m * n);
        else if (r)
            p->k->add_f32(y, y, 1, more, 1, m * n);
    }
    if (!rows.n || !columns.n) /* only padding: the largest of no numbers, or a mean of zeros */
        for (size_t i = 0; i < m * n; i++)
            y[i] = p->max ? -INFINITY : 0;
    else if (!p->max)
        p->k->affine_f32(y, y, m * n, 1 / (float)taps, 0);
}

/* One row of pixels: those with all taps inside the image several at a time. */
static void pool_row(const struct pool_nhwc *p, const float *image, int64_t i, float *y)
{
    const struct taps rows = taps_of_pool_nhwc(p, 0, i);
    const size_t n = p->channels < ROOM ? p->channels : ROOM;
    const int64_t reach = (p->win.kernel[1] - 1) * p->win.dilation[1] + 1;
    for (int64_t j = 0, m; j < p->out[1]; j += m) {
        const struct taps columns = taps_of_pool_nhwc(p, 1, j);
        m = 1;
        if (columns.n == p->win.kernel[1] && n == p->channels) {
            const int64_t more = (p->in[1] - reach - columns.first) / p->win.stride[1];
            m = (int64_t)(ROOM / n);
            m = more + 1 < m ? more + 1 : m;
            m = p->out[1] - j < m ? p->out[1] - j : m;
        }
        for (size_t c = 0; c < p->channels; c += n)
            pool_some(p, image + c, rows, columns, (size_t)m,
                      p->channels - c < n ? p->channels - c : n, y + (size_t)j * p->channels + c);
    }
}

/* Rows of pixels [begin, end) of all images. */
static void pool_rows(void *arg, size_t begin, size_t end)
{
    const struct pool_nhwc *p = arg;
    const size_t height = (size_t)p->out[0], width = (size_t)p->out[1];
    const size_t image = (size_t)(p->in[0] * p->in[1]) * p->channels;
    for (size_t r = begin; r < end; r++)
        pool_row(p, p->x + r / height * image, (int64_t)(r % height),
                 p->y + r * width * p->channels);
}

static steno_status run_pool_nhwc(struct steno_op_ctx *ctx, steno_err *err)
{
    struct pool_nhwc p = {.k = steno_op_kernels(ctx)};
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    struct steno_shape s;
    steno_status st;
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
