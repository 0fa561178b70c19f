/* Pooling by rows of the last axis. Windows of neighbouring taps and a stride of 1 or 2 have a
 * kernel. Where windows overlap, or have padding along the rows, it first reduces the other axes,
 * to rows with their padding, of which a block stays in L1.
 *
 * Others use the elementwise kernels: the taps of the other axes reduce several rows to one. Then
 * the windows of that row: where they overlap little, each is a reduction of its own; else the row
 * is reduced with copies of itself that are shifted by one tap each, and every stride-th element of
 * the result is taken. Rows go in blocks that stay in L1. */
#include "nn/ops/pool.h"

#include <math.h>

enum {
    SPAN = 2048,         /* elements of a row that a block of outputs reads */
    ROOM = 4096,         /* elements of a block of reduced rows */
    REDUCTION_COSTS = 96 /* elements that a shifted copy reduces in the time of one call */
};

struct pool_job {
    const struct steno_pooling *p;
    const steno_kernels *k;
    const float *x;
    float *y;
    const float *taps;  /* mean: the taps of each output along the last axis */
    const float *share; /* 1 / taps / all taps of the other axes */
    bool some_empty;    /* an output has none */
    bool by_window;
    /* with the kernel */
    size_t images, parts;
    int64_t full[2]; /* rows along the second axis with all taps inside the image; or none */
};

/* Number of the taps at from, from + step, ... that lie before `end`; at most n. */
static int64_t taps_before(int64_t end, int64_t from, int64_t step, int64_t n)
{
    int64_t k = end <= from ? 0 : step == 1 ? end - from : (end - from + step - 1) / step;
    return k < n ? k : n;
}

int64_t steno_pool_taps(const struct steno_pooling *p, int axis, int64_t o, int64_t *first,
                        int64_t *padded)
{
    const int64_t step = p->dilation[axis], n = p->kernel[axis], in = p->in[axis],
                  from = o * p->stride[axis] - p->before[axis];
    *first = taps_before(0, from, step, n);
    /* a last window from ceil_mode may reach past the padding */
    *padded = taps_before(in + p->after[axis], from, step, n);
    return taps_before(in, from, step, n) - *first;
}

static int64_t reach(const struct steno_pooling *p)
{
    return (p->kernel[2] - 1) * p->dilation[2] + 1;
}

bool steno_pool_by_rows(const struct steno_pooling *p)
{
    return reach(p) <= SPAN && (p->kind != STENO_POOL_LP || p->p == 1 || p->p == 2);
}

/* to = to and x, reduced */
static void reduce(const struct pool_job *j, float *to, const float *x, size_t n)
{
    if (j->p->kind == STENO_POOL_MAX)
        j->k->max_f32(to, to, 1, x, 1, n);
    else
        j->k->add_f32(to, to, 1, x, 1, n);
}

/* The numbers that are reduced: x itself, or the terms of a norm. */
static const float *terms(const struct pool_job *j, float *to, const float *x, size_t n)
{
    if (j->p->kind != STENO_POOL_LP)
        return x;
    if (j->p->p == 1)
        j->k->abs_f32(to, x, n);
    else
        j->k->mul_f32(to, x, 1, x, 1, n);
    return to;
}

/* to [n] = elements `from` and on of the reduced rows of the window (a, b); outside of the input
 * what changes no result. */
static void reduce_rows(const struct pool_job *j, const float *image, int64_t a, int64_t b,
                        int64_t from, int64_t n, float *to)
{
    const struct steno_pooling *p = j->p;
    const float outside = p->kind == STENO_POOL_MAX ? -INFINITY : 0;
    int64_t first[2], padded, rows[2], lo = from < 0 ? -from : 0, hi = p->in[2] - from;
    bool any = false;
    float term[SPAN];
    rows[0] = steno_pool_taps(p, 0, a, &first[0], &padded);
    rows[1] = steno_pool_taps(p, 1, b, &first[1], &padded);
    lo = lo < n ? lo : n;
    hi = hi < lo ? lo : hi < n ? hi : n;
    for (int64_t i = 0; i < lo; i++)
        to[i] = outside;
    for (int64_t i = hi; i < n; i++)
        to[i] = outside;
    for (int64_t r = 0; r < rows[0]; r++)
        for (int64_t s = 0; s < rows[1]; s++) {
            int64_t at[2] = {a * p->stride[0] - p->before[0] + (first[0] + r) * p->dilation[0],
                             b * p->stride[1] - p->before[1] + (first[1] + s) * p->dilation[1]};
            const float *x = image + (at[0] * p->in[1] + at[1]) * p->in[2] + from + lo;
            x = terms(j, term, x, (size_t)(hi - lo));
            if (any)
                reduce(j, to + lo, x, (size_t)(hi - lo));
            else
                memcpy(to + lo, x, (size_t)(hi - lo) * sizeof *to);
            any = true;
        }
    for (int64_t i = lo; i < hi && !any; i++)
        to[i] = outside;
}

/* y [n] = the windows of x */
static void reduce_windows(const struct pool_job *j, float *x, int64_t n, float *y)
{
    const struct steno_pooling *p = j->p;
    const int64_t stride = p->stride[2], dilation = p->dilation[2];
    float shifted[SPAN], *to = stride == 1 ? y : shifted;
    const size_t wide = (size_t)((n - 1) * stride + 1);
    if (j->by_window) {
        for (int64_t o = 0; o < n; o++)
            y[o] = p->kind == STENO_POOL_MAX
                       ? j->k->max_reduce_f32(x + o * stride, (size_t)p->kernel[2])
                       : j->k->sum_f32(x + o * stride, (size_t)p->kernel[2]);
        return;
    }
    memcpy(to, x, wide * sizeof *to);
    for (int64_t c = 1; c < p->kernel[2]; c++)
        reduce(j, to, x + c * dilation, wide);
    for (int64_t o = 0; stride != 1 && o < n; o++)
        y[o] = to[o * stride];
}

static void finish_pool_rows(const struct pool_job *j, int64_t a, int64_t b, int64_t from, size_t n,
                             float *y)
{
    const struct steno_pooling *p = j->p;
    int64_t first, padded[2], rows;
    if (p->kind == STENO_POOL_LP && p->p == 2)
        j->k->sqrt_f32(y, y, n);
    if (p->kind != STENO_POOL_MEAN)
        return;
    if (b >= j->full[0] && b < j->full[1] && !j->some_empty) {
        j->k->mul_f32(y, y, 1, j->share + from, 1, n);
        return;
    }
    rows = steno_pool_taps(p, 0, a, &first, &padded[0]);
    rows *= steno_pool_taps(p, 1, b, &first, &padded[1]);
    if (p->include_pad)
        rows = padded[0] * padded[1];
    if (rows && !j->some_empty) {
        j->k->mul_f32(y, y, 1, j->share + from, 1, n);
        if (rows != p->kernel[0] * p->kernel[1])
            j->k->affine_f32(y, y, n, (float)(p->kernel[0] * p->kernel[1]) / (float)rows, 0);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        float taps = (float)rows * j->taps[(size_t)from + i];
        y[i] = taps != 0 ? y[i] / taps : 0;
    }
}

/* ---- with the kernel ---- */

/* The rows of a window (a, b): taps of the first axis, and of the second one. */
struct window_rows {
    int64_t n[2], at[2]; /* numbers; where the first one is */
};

static struct window_rows rows_of_pool(const struct steno_pooling *p, int64_t a, int64_t b)
{
    const int64_t o[2] = {a, b};
    struct window_rows w;
    for (int i = 0; i < 2; i++) {
        int64_t first, padded;
        w.n[i] = steno_pool_taps(p, i, o[i], &first, &padded);
        w.at[i] = o[i] * p->stride[i] - p->before[i] + first * p->dilation[i];
    }
    return w;
}

/* Outputs of one image: `rows` rows of the second axis from b on, at a along the first; along the
 * last axis n from o on. */
struct block {
    const float *image;
    int64_t a, b, rows, o, n;
};

/* Sets j->full; not where windows along the first axis may differ. */
static void find_full_rows(struct pool_job *j)
{
    const struct steno_pooling *p = j->p;
    const int64_t reaches = (p->kernel[1] - 1) * p->dilation[1] + 1, stride = p->stride[1];
    const int64_t last = p->in[1] + p->before[1] - reaches; /* where such a window may begin */
    const int64_t end = last < 0 ? 0 : last / stride + 1;
    if (p->kernel[0] != 1 || p->before[0] || p->after[0])
        return;
    j->full[0] = (p->before[1] + stride - 1) / stride;
    j->full[1] = end < p->n_out[1] ? end : p->n_out[1];
}

/* Rows from b on, as many as have the same number of rows in their windows; at most `most`. */
static int64_t alike(const struct pool_job *j, int64_t b, int64_t most)
{
    const int64_t n = b >= j->full[0] ? j->full[1] - b : 1;
    return n < 1 ? 1 : n < most ? n : most;
}

/* to [rows, n] (row stride ldto): the rows of the windows, reduced. n outputs of `cols` columns,
 * the first one at column `from` of the image. */
static void pool_block(const struct pool_job *j, const struct block *at, int64_t from, int64_t n,
                       int64_t cols, int64_t stride, float *to, int64_t ldto)
{
    const struct steno_pooling *p = j->p;
    float more[ROOM];
    for (int64_t i = 0, some; i < at->rows; i += some, to += some * ldto) {
        const struct window_rows w = rows_of_pool(p, at->a, at->b + i);
        struct steno_pool k = {.n = (size_t)n,
                               .rows = (size_t)w.n[1],
                               .cols = (size_t)cols,
                               .stride = (size_t)stride,
                               .step = (size_t)(p->stride[1] * p->in[2]),
                               .ldx = (size_t)(p->dilation[1] * p->in[2]),
                               .max = p->kind == STENO_POOL_MAX};
        some = w.n[0] > 1 ? 1 : alike(j, at->b + i, at->rows - i);
        k.m = (size_t)some;
        for (int64_t o = 0; o < n && (!w.n[0] || !w.n[1]); o++)
            for (int64_t r = 0; r < some; r++)
                to[r * ldto + o] = p->kind == STENO_POOL_MAX ? -INFINITY : 0;
        for (int64_t r = 0; r < w.n[0] && w.n[1]; r++) {
            const int64_t row = (w.at[0] + r * p->dilation[0]) * p->in[1] + w.at[1];
            k.x = at->image + row * p->in[2] + from;
            k.y = r ? more : to;
            k.ldy = (size_t)ldto;
            j->k->pool_f32(&k);
            if (r)
                reduce(j, to, more, (size_t)n);
        }
    }
}

/* The block by rows with their padding, reduced before their columns are. */
static void pool_padded(const struct pool_job *j, const struct block *at, float *y)
{
    const struct steno_pooling *p = j->p;
    const float outside = p->kind == STENO_POOL_MAX ? -INFINITY : 0;
    const int64_t wide = (at->n - 1) * p->stride[2] + p->kernel[2],
                  from = at->o * p->stride[2] - p->before[2];
    const int64_t before = from < 0 ? (-from < wide ? -from : wide) : 0;
    const int64_t last = p->in[2] - from < wide ? p->in[2] - from : wide;
    const int64_t end = last < before ? before : last;
    float rows[ROOM];
    for (int64_t r = 0; r < at->rows; r++) {
        for (int64_t i = 0; i < before; i++)
            rows[r * wide + i] = outside;
        for (int64_t i = end; i < wide; i++)
            rows[r * wide + i] = outside;
    }
    if (end > before)
        pool_block(j, at, from + before, end - before, 1, 1, rows + before, wide);
    j->k->pool_f32(&(struct steno_pool){.m = (size_t)at->rows,
                                        .n = (size_t)at->n,
                                        .rows = 1,
                                        .cols = (size_t)p->kernel[2],
                                        .stride = (size_t)p->stride[2],
                                        .x = rows,
                                        .step = (size_t)wide,
                                        .y = y,
                                        .ldy = (size_t)p->n_out[2],
                                        .max = p->kind == STENO_POOL_MAX});
}

/* True if the kernel reads windows where they are: none leaves its rows, and no column would be
 * reduced twice. */
static bool in_place(const struct steno_pooling *p)
{
    const bool inside =
        !p->before[2] && (p->n_out[2] - 1) * p->stride[2] + p->kernel[2] <= p->in[2];
    return inside && (p->kernel[2] <= p->stride[2] || p->kernel[0] * p->kernel[1] == 1);
}

/* Rows of outputs [b, n_out[1]) at a along the first axis, in blocks. */
static void pool_plane(const struct pool_job *j, const float *image, int64_t a, float *y)
{
    const struct steno_pooling *p = j->p;
    const bool whole = in_place(p);
    const int64_t fits = (ROOM - p->kernel[2]) / p->stride[2] + 1;
    struct block at = {.image = image, .a = a};
    for (at.b = 0; at.b < p->n_out[1]; at.b += at.rows) {
        at.n = p->n_out[2] < fits ? p->n_out[2] : fits;
        at.rows = ROOM / ((at.n - 1) * p->stride[2] + p->kernel[2]);
        at.rows = p->n_out[1] - at.b < at.rows ? p->n_out[1] - at.b : at.rows;
        for (at.o = 0; at.o < p->n_out[2]; at.o += at.n) {
            float *to = y + at.b * p->n_out[2] + at.o;
            at.n = p->n_out[2] - at.o < fits ? p->n_out[2] - at.o : fits;
            if (whole)
                pool_block(j, &at, at.o * p->stride[2], at.n, p->kernel[2], p->stride[2], to,
                           p->n_out[2]);
            else
                pool_padded(j, &at, to);
        }
        for (int64_t r = 0; r < at.rows; r++)
            finish_pool_rows(j, a, at.b + r, 0, (size_t)p->n_out[2], y + (at.b + r) * p->n_out[2]);
    }
}

static void pool_images(void *arg, int part)
{
    const struct pool_job *j = arg;
    const struct steno_pooling *p = j->p;
    const size_t image = (size_t)(p->in[0] * p->in[1] * p->in[2]);
    const size_t plane = (size_t)(p->n_out[1] * p->n_out[2]);
    for (size_t i = j->images * (size_t)part / j->parts;
         i < j->images * ((size_t)part + 1) / j->parts; i++)
        for (int64_t a = 0; a < p->n_out[0]; a++)
            pool_plane(j, j->x + i * image, a,
                       j->y + (i * (size_t)p->n_out[0] + (size_t)a) * plane);
}

static void run_with_kernel(struct steno_op_ctx *ctx, struct pool_job *j)
{
    j->parts = (size_t)steno_op_threads(ctx);
    j->parts = j->parts < j->images ? j->parts : j->images;
    find_full_rows(j);
    steno_op_parallel(ctx, (int)j->parts, pool_images, j);
}

/* ---- without it ---- */

/* Rows [begin, end) of the outputs of all images. */
static void pool_some(void *arg, size_t begin, size_t end)
{
    const struct pool_job *j = arg;
    const struct steno_pooling *p = j->p;
    const int64_t fits = (SPAN - reach(p)) / p->stride[2] + 1;
    const size_t image = (size_t)(p->in[0] * p->in[1] * p->in[2]);
    for (size_t r = begin; r < end; r++) {
        const int64_t b = (int64_t)(r % (size_t)p->n_out[1]);
        const int64_t a = (int64_t)(r / (size_t)p->n_out[1] % (size_t)p->n_out[0]);
        const float *x = j->x + r / (size_t)(p->n_out[0] * p->n_out[1]) * image;
        float row[SPAN], *y = j->y + r * (size_t)p->n_out[2];
        for (int64_t o = 0, n; o < p->n_out[2]; o += n) {
            n = p->n_out[2] - o < fits ? p->n_out[2] - o : fits;
            reduce_rows(j, x, a, b, o * p->stride[2] - p->before[2],
                        (n - 1) * p->stride[2] + reach(p), row);
            reduce_windows(j, row, n, y + o);
            finish_pool_rows(j, a, b, o, (size_t)n, y + o);
        }
    }
}

steno_status steno_pool_rows(struct steno_op_ctx *ctx, const struct steno_pooling *p, size_t images,
                             const struct steno_tensor *x, struct steno_tensor *y, steno_err *err)
{
    struct pool_job j = {.p = p, .k = steno_op_kernels(ctx), .images = images};
    float *taps = steno_op_scratch(ctx, 2 * (size_t)p->n_out[2] * sizeof *taps + 1);
    j.x = steno_ops_as_f32(ctx, x);
    j.y = steno_ops_out_f32(ctx, y);
    if (!j.x || !j.y || !taps)
        return steno_ops_nomem(ctx, err);
    for (int64_t o = 0; p->kind == STENO_POOL_MEAN && o < p->n_out[2]; o++) {
        int64_t first, padded, n = steno_pool_taps(p, 2, o, &first, &padded);
        taps[o] = (float)(p->include_pad ? padded : n);
        taps[p->n_out[2] + o] = 1 / (taps[o] * (float)(p->kernel[0] * p->kernel[1]));
        j.some_empty = j.some_empty || taps[o] == 0;
    }
    j.taps = taps;
    j.share = taps + p->n_out[2];
    j.by_window =
        p->dilation[2] == 1 && p->stride[2] * (p->kernel[2] - 1) > p->kernel[2] + REDUCTION_COSTS;
    if (!j.by_window && p->dilation[2] == 1 && p->stride[2] <= 2 && p->kind != STENO_POOL_LP) {
        run_with_kernel(ctx, &j);
    } else {
        steno_ops_ranges(ctx, images * (size_t)(p->n_out[0] * p->n_out[1]),
                         1 + 16384 / (1 + (size_t)p->in[2]), pool_some, &j);
    }
    steno_ops_put_f32(y, j.y);
    return STENO_OK;
}
