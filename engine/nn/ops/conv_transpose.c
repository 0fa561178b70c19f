/* With constant weights: one product of pixels and packed weights gives what each pixel adds to
 * each tap of each output channel. Otherwise, for some rows of the image, one product gives what
 * each pixel adds to each tap: [c_out * taps, pixels]. The sums along the taps then go to their
 * places in y. A part has some of the output channels of one group, so that parts share no output.
 */
#include "nn/ops/conv_transpose.h"

#define BLOCK 65536 /* products of a block, in floats: they stay in the second-level cache */

struct job {
    const steno_kernels *k;
    const struct steno_conv_transpose *t;
    size_t parts;
    char *scratch;
    size_t bytes; /* of scratch for one part: products, then work of the product */
    size_t rows;  /* of the image in a block */
};

static size_t taps_of_conv_transpose(const struct steno_conv_transpose *t)
{
    return (size_t)(t->kernel[0] * t->kernel[1]);
}

/* y[from * stride + at] += x[from], for those that lie inside [0, out). */
static void add_row_conv_transpose(const steno_kernels *k, float *y, int64_t out, const float *x,
                                   int64_t in, int64_t stride, int64_t at)
{
    int64_t from = at < 0 ? (-at + stride - 1) / stride : 0;
    int64_t to = at >= out ? 0 : (out - at + stride - 1) / stride;
    to = to < in ? to : in;
    if (from >= to)
        return;
    if (stride == 1) {
        k->add_f32(y + from + at, y + from + at, 1, x + from, 1, (size_t)(to - from));
        return;
    }
    for (int64_t j = from; j < to; j++)
        y[j * stride + at] += x[j];
}

/* Add the products p [taps, rows, in1] of rows [i0, i0 + rows) to one channel of y. */
static void scatter(const struct job *j, float *y, const float *p, int64_t i0, int64_t rows)
{
    const struct steno_conv_transpose *t = j->t;
    for (int64_t a = 0; a < t->kernel[0]; a++)
        for (int64_t b = 0; b < t->kernel[1]; b++, p += rows * t->in[1])
            for (int64_t i = 0; i < rows; i++) {
                const int64_t to = (i0 + i) * t->stride[0] + a * t->dilation[0] - t->before[0];
                if (to >= 0 && to < t->out[0])
                    add_row_conv_transpose(j->k, y + to * t->out[1], t->out[1], p + i * t->in[1],
                                           t->in[1], t->stride[1],
                                           b * t->dilation[1] - t->before[1]);
            }
}

/* Output channels [o, o + n) of group g of image `image`. */
static void some_channels(const struct job *j, size_t image, size_t g, size_t o, size_t n,
                          char *scratch)
{
    const struct steno_conv_transpose *t = j->t;
    const size_t in = t->c_in / t->group, out = t->c_out / t->group,
                 taps = taps_of_conv_transpose(t);
    const size_t pixels = (size_t)(t->in[0] * t->in[1]), size = (size_t)(t->out[0] * t->out[1]);
    const float *x = t->x + (image * t->c_in + g * in) * pixels;
    const float *w = t->w + (g * in * out + o) * taps;
    const size_t first = g * out + o;
    float *y = t->y + (image * t->c_out + first) * size, *p = (float *)scratch;
    void *work = scratch + steno_aligned(n * taps * j->rows * (size_t)t->in[1] * sizeof *p);
    for (size_t c = 0; c < n; c++) {
        const float b = t->bias ? t->bias[first + c] : 0;
        steno_ops_fill(y + c * size, size, sizeof b, &b);
    }
    for (size_t i = 0; i < (size_t)t->in[0]; i += j->rows) {
        const size_t rows = (size_t)t->in[0] - i < j->rows ? (size_t)t->in[0] - i : j->rows;
        const size_t m = rows * (size_t)t->in[1];
        j->k->gemm_f32(n * taps, m, in, w, out * taps, true, x + i * (size_t)t->in[1], pixels,
                       false, p, m, NULL, work);
        for (size_t c = 0; c < n; c++)
            scatter(j, y + c * size, p + c * taps * m, (int64_t)i, (int64_t)rows);
    }
}

/* Channels are divided within each group. */
static void part_conv_transpose(void *arg, int number)
{
    const struct job *j = arg;
    const struct steno_conv_transpose *t = j->t;
    const size_t out = t->c_out / t->group, at = (size_t)number;
    const size_t from = out * at / j->parts, to = out * (at + 1) / j->parts;
    for (size_t image = 0; image < t->batch; image++)
        for (size_t g = 0; g < t->group && from < to; g++)
            some_channels(j, image, g, from, to - from, j->scratch + at * j->bytes);
}

/* ---- packed weights: the product is [pixels, c_out * taps] ---- */

#define PRODUCTS ((size_t)1 << 20) /* of a block, in floats: each block reads all weights */
#define CHANNELS 32                /* of a part of the sums: their rows of y stay in L1 and L2 */

struct packed_job {
    const steno_kernels *k;
    const struct steno_conv_transpose *t;
    size_t parts, m, n; /* pixels of the block, columns of a group */
    const float *x;     /* [m, c_in / group] */
    const void *w;
    float *p, *y; /* [m, n]; y of the group */
    int64_t row;  /* first row of the block */
};

static void product_part(void *arg, int number)
{
    const struct packed_job *j = arg;
    const size_t in = j->t->c_in / j->t->group;
    j->k->gemm_f32_packed_part(j->m, j->n, in, j->x, in, j->w, j->p, j->n, NULL, (size_t)number,
                               j->parts);
}

/* y += p, few elements: in fours, since a loop over so few does not pay a call. */
static inline void add_few(float *y, const float *p, int64_t n)
{
    for (; n >= 4; n -= 4, y += 4, p += 4)
        for (int i = 0; i < 4; i++)
            y[i] += p[i];
    for (int64_t i = 0; i < n; i++)
        y[i] += p[i];
}

/* Add the products of row a of the kernel, `apart` from channel to channel, to row `to` of y. at:
 * place of the first tap. */
static void add_taps(const struct steno_conv_transpose *t, float *y, const float *p, size_t apart,
                     size_t channels, int64_t at)
{
    const size_t size = (size_t)(t->out[0] * t->out[1]);
    const int64_t step = t->dilation[1], n = t->kernel[1];
    if (step == 1 && at >= 0 && at + n <= t->out[1]) {
        for (size_t c = 0; c < channels; c++, y += size, p += apart)
            add_few(y + at, p, n);
        return;
    }
    for (size_t c = 0; c < channels; c++, y += size, p += apart)
        for (int64_t b = 0; b < n; b++)
            if (at + b * step >= 0 && at + b * step < t->out[1])
                y[at + b * step] += p[b];
}

static void sum_part(void *arg, int number)
{
    const struct packed_job *j = arg;
    const struct steno_conv_transpose *t = j->t;
    const size_t taps = taps_of_conv_transpose(t), size = (size_t)(t->out[0] * t->out[1]),
                 out = j->n / taps;
    const size_t c = (size_t)number * CHANNELS, n = out - c < CHANNELS ? out - c : CHANNELS;
    const float *p = j->p + c * taps;
    for (size_t m = 0; m < j->m; m++, p += j->n) {
        const int64_t i = j->row + (int64_t)m / t->in[1], at = (int64_t)m % t->in[1];
        for (int64_t a = 0; a < t->kernel[0]; a++) {
            const int64_t to = i * t->stride[0] + a * t->dilation[0] - t->before[0];
            if (to >= 0 && to < t->out[0])
                add_taps(t, j->y + c * size + (size_t)(to * t->out[1]), p + a * t->kernel[1], taps,
                         n, at * t->stride[1] - t->before[1]);
        }
    }
}

static void packed_group(struct steno_op_ctx *ctx, struct packed_job *j, size_t image, size_t g,
                         float *x, size_t rows)
{
    const struct steno_conv_transpose *t = j->t;
    const size_t in = t->c_in / t->group, out = t->c_out / t->group, width = (size_t)t->in[1];
    const size_t pixels = (size_t)t->in[0] * width, size = (size_t)(t->out[0] * t->out[1]);
    j->y = t->y + (image * t->c_out + g * out) * size;
    j->w = t->packed + g * t->each;
    j->k->transpose_f32(x, in, t->x + (image * t->c_in + g * in) * pixels, pixels, in, pixels);
    for (size_t c = 0; c < out; c++) {
        const float b = t->bias ? t->bias[g * out + c] : 0;
        steno_ops_fill(j->y + c * size, size, sizeof b, &b);
    }
    for (size_t i = 0; i < (size_t)t->in[0]; i += rows) {
        j->m = ((size_t)t->in[0] - i < rows ? (size_t)t->in[0] - i : rows) * width;
        j->x = x + i * width * in;
        j->row = (int64_t)i;
        steno_op_parallel(ctx, (int)j->parts, product_part, j);
        steno_op_parallel(ctx, (int)((out + CHANNELS - 1) / CHANNELS), sum_part, j);
    }
}

static steno_status with_packed(struct steno_op_ctx *ctx, const struct steno_conv_transpose *t,
                                steno_err *err)
{
    struct packed_job j = {.k = steno_op_kernels(ctx), .t = t};
    const size_t in = t->c_in / t->group, width = (size_t)t->in[1];
    const size_t pixels = (size_t)t->in[0] * width;
    size_t rows, count;
    float *x;
    j.n = t->c_out / t->group * taps_of_conv_transpose(t);
    j.parts =
        (double)pixels * (double)j.n * (double)in > 1 << 18 ? (size_t)steno_op_threads(ctx) : 1;
    rows = PRODUCTS / (j.n * width + 1);
    rows = rows < 1 ? 1 : rows < (size_t)t->in[0] ? rows : (size_t)t->in[0];
    if (!steno_mul_size(rows * width, j.n * sizeof *j.p, &count))
        return steno_ops_nomem(ctx, err);
    j.p = steno_op_scratch(ctx, count + 1);
    x = steno_op_scratch(ctx, pixels * in * sizeof *x + 1);
    if (!j.p || !x)
        return steno_ops_nomem(ctx, err);
    for (size_t image = 0; image < t->batch; image++)
        for (size_t g = 0; g < t->group; g++)
            packed_group(ctx, &j, image, g, x, rows);
    return STENO_OK;
}

steno_status steno_ops_conv_transpose(struct steno_op_ctx *ctx,
                                      const struct steno_conv_transpose *t, steno_err *err)
{
    struct job j = {.k = steno_op_kernels(ctx), .t = t, .parts = 1};
    const size_t in = t->c_in / t->group, out = t->c_out / t->group,
                 taps = taps_of_conv_transpose(t);
    const size_t width = (size_t)t->in[1];
    size_t n, m;
    if (t->packed)
        return with_packed(ctx, t, err);
    if ((double)(t->batch * t->c_out * in) * (double)(taps * width) * (double)t->in[0] > 1 << 18)
        j.parts = (size_t)steno_op_threads(ctx);
    n = (out + j.parts - 1) / j.parts * taps;
    j.rows = BLOCK / (n * width + 1);
    j.rows = j.rows < 1 ? 1 : j.rows < (size_t)t->in[0] ? j.rows : (size_t)t->in[0];
    m = j.rows * width;
    j.bytes = steno_aligned(n * m * sizeof(float)) + steno_aligned(j.k->gemm_f32_work(n, m, in));
    j.scratch = steno_op_scratch(ctx, j.bytes * j.parts + 1);
    if (!j.scratch)
        return steno_ops_nomem(ctx, err);
    steno_op_parallel(ctx, (int)j.parts, part_conv_transpose, &j);
    return STENO_OK;
}
