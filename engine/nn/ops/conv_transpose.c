/* For some rows of the image, one product gives what each pixel adds to each tap: [c_out * taps,
 * pixels]. The sums along the taps then go to their places in y. A part has some of the output
 * channels of one group, so that parts share no output. */
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

static size_t taps_of(const struct steno_conv_transpose *t)
{
    return (size_t)(t->kernel[0] * t->kernel[1]);
}

/* y[from * stride + at] += x[from], for those that lie inside [0, out). */
static void add_row(const steno_kernels *k, float *y, int64_t out, const float *x, int64_t in,
                    int64_t stride, int64_t at)
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
                    add_row(j->k, y + to * t->out[1], t->out[1], p + i * t->in[1], t->in[1],
                            t->stride[1], b * t->dilation[1] - t->before[1]);
            }
}

/* Output channels [o, o + n) of group g of image `image`. */
static void some_channels(const struct job *j, size_t image, size_t g, size_t o, size_t n,
                          char *scratch)
{
    const struct steno_conv_transpose *t = j->t;
    const size_t in = t->c_in / t->group, out = t->c_out / t->group, taps = taps_of(t);
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
static void part(void *arg, int number)
{
    const struct job *j = arg;
    const struct steno_conv_transpose *t = j->t;
    const size_t out = t->c_out / t->group, at = (size_t)number;
    const size_t from = out * at / j->parts, to = out * (at + 1) / j->parts;
    for (size_t image = 0; image < t->batch; image++)
        for (size_t g = 0; g < t->group && from < to; g++)
            some_channels(j, image, g, from, to - from, j->scratch + at * j->bytes);
}

steno_status steno_ops_conv_transpose(struct steno_op_ctx *ctx,
                                      const struct steno_conv_transpose *t, steno_err *err)
{
    struct job j = {.k = steno_op_kernels(ctx), .t = t, .parts = 1};
    const size_t in = t->c_in / t->group, out = t->c_out / t->group, taps = taps_of(t);
    const size_t width = (size_t)t->in[1];
    size_t n, m;
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
    steno_op_parallel(ctx, (int)j.parts, part, &j);
    return STENO_OK;
}
