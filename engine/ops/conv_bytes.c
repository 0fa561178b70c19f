#include "ops/conv_bytes.h"

enum {
    PIXELS = 224
}; /* of a block: 16 tiles of 14 rows; its patches fit L2 with a slice of the
      weights even at 4608 bytes each, and the weights are read this often less */

struct job {
    const steno_kernels *k;
    const struct steno_conv_bytes *c;
    size_t pixels, depth, parts; /* depth: bytes of a patch */
    uint8_t *patches;            /* [parts][PIXELS][depth] */
    float *rows;                 /* [parts][PIXELS][c_out], i32 or f32 */
};

/* Patches of pixels [from, from + n). */
static void gather(const struct steno_conv_bytes *c, size_t from, size_t n, uint8_t *to)
{
    const struct steno_conv *s = c->s;
    for (size_t p = from; p < from + n; p++) {
        size_t o0 = p / s->out[1], o1 = p % s->out[1];
        for (size_t a = 0; a < s->kernel[0]; a++) {
            size_t i0 = o0 * s->stride[0] + a * s->dilation[0] - s->pad[0]; /* may wrap below 0 */
            for (size_t b = 0; b < s->kernel[1]; b++, to += s->c_in) {
                size_t i1 = o1 * s->stride[1] + b * s->dilation[1] - s->pad[1];
                if (i0 < s->in[0] && i1 < s->in[1])
                    memcpy(to, c->x + (i0 * s->in[1] + i1) * s->c_in, s->c_in);
                else
                    memset(to, c->pad, s->c_in);
            }
        }
    }
}

static void run_block(const struct job *j, size_t from, size_t n, uint8_t *patches, float *rows)
{
    const struct steno_conv_bytes *c = j->c;
    struct steno_gemm_i8 g = c->like;
    g.m = n;
    g.n = g.ldc = c->s->c_out;
    g.k = g.lda = j->depth;
    g.c = rows;
    if (steno_conv_is_pointwise(c->s)) {
        g.a = c->x + from * j->depth;
    } else {
        gather(c, from, n, patches);
        g.a = patches;
    }
    j->k->gemm_i8_part(&g, 0, 1);
    j->k->transpose_f32((float *)c->y + from, j->pixels, rows, g.n, n, g.n);
}

static void run_part(void *arg, int part)
{
    const struct job *j = arg;
    size_t blocks = (j->pixels + PIXELS - 1) / PIXELS, at = (size_t)part;
    uint8_t *patches = j->patches + at * PIXELS * j->depth;
    float *rows = j->rows + at * PIXELS * j->c->s->c_out;
    for (size_t b = blocks * at / j->parts; b < blocks * (at + 1) / j->parts; b++) {
        size_t from = j->pixels * b / blocks;
        run_block(j, from, j->pixels * (b + 1) / blocks - from, patches, rows);
    }
}

steno_status steno_ops_conv_bytes(struct steno_op_ctx *ctx, const struct steno_conv_bytes *c,
                                  steno_err *err)
{
    const struct steno_conv *s = c->s;
    struct job j = {.k = steno_op_kernels(ctx),
                    .c = c,
                    .pixels = s->out[0] * s->out[1],
                    .depth = s->c_in * s->kernel[0] * s->kernel[1],
                    .parts = (size_t)steno_op_threads(ctx)};
    if (j.parts > (j.pixels + PIXELS - 1) / PIXELS)
        j.parts = (j.pixels + PIXELS - 1) / PIXELS;
    if (!j.parts)
        return STENO_OK;
    j.patches = steno_op_scratch(ctx, j.parts * PIXELS * j.depth + 1);
    j.rows = steno_op_scratch(ctx, j.parts * PIXELS * s->c_out * sizeof *j.rows);
    if (!j.patches || !j.rows)
        return steno_ops_nomem(ctx, err);
    steno_op_parallel(ctx, (int)j.parts, run_part, &j);
    return STENO_OK;
}

/* ---- f32 images ---- */

struct rounded_job {
    const steno_kernels *k;
    const struct steno_conv_rounded *c;
    size_t pixels, depth, parts;
    uint8_t *patches; /* [parts][PIXELS][depth] */
    float *patch;     /* [parts][depth] */
    float *scale;     /* [parts][PIXELS] */
    int32_t *zero;    /* [parts][PIXELS] */
};

/* The patch of pixel p, zeros where it leaves the image. */
static void gather_floats(const struct steno_conv_rounded *c, size_t p, float *to)
{
    const struct steno_conv *s = c->s;
    size_t o0 = p / s->out[1], o1 = p % s->out[1];
    for (size_t a = 0; a < s->kernel[0]; a++) {
        size_t i0 = o0 * s->stride[0] + a * s->dilation[0] - s->pad[0]; /* may wrap below 0 */
        for (size_t b = 0; b < s->kernel[1]; b++, to += s->c_in) {
            size_t i1 = o1 * s->stride[1] + b * s->dilation[1] - s->pad[1];
            if (i0 < s->in[0] && i1 < s->in[1])
                memcpy(to, c->x + (i0 * s->in[1] + i1) * s->c_in, s->c_in * sizeof *to);
            else
                memset(to, 0, s->c_in * sizeof *to);
        }
    }
}

static void rounded_block(const struct rounded_job *j, size_t from, size_t n, size_t part)
{
    const struct steno_conv_rounded *c = j->c;
    struct steno_gemm_epilogue ep = *c->ep;
    uint8_t *patches = j->patches + part * PIXELS * j->depth;
    float *patch = j->patch + part * j->depth, *scale = j->scale + part * PIXELS;
    int32_t *zero = j->zero + part * PIXELS;
    for (size_t i = 0; i < n; i++) {
        gather_floats(c, from + i, patch);
        scale[i] = j->k->quantize_row_f32(patches + i * j->depth, patch, j->depth, &zero[i]);
    }
    if (ep.residual)
        ep.residual += from * ep.ldr;
    j->k->gemm_i8_part(&(struct steno_gemm_i8){.m = n,
                                               .n = c->w->n,
                                               .k = j->depth,
                                               .a = patches,
                                               .lda = j->depth,
                                               .a_zero = zero,
                                               .a_zero_step = 1,
                                               .packed = c->w->data,
                                               .scale = c->w->scale,
                                               .row_scale = scale,
                                               .ep = &ep,
                                               .c = c->y + from * c->w->n,
                                               .ldc = c->w->n},
                       0, 1);
}

static void rounded_part(void *arg, int part)
{
    const struct rounded_job *j = arg;
    size_t blocks = (j->pixels + PIXELS - 1) / PIXELS, at = (size_t)part;
    for (size_t b = blocks * at / j->parts; b < blocks * (at + 1) / j->parts; b++) {
        size_t from = j->pixels * b / blocks;
        rounded_block(j, from, j->pixels * (b + 1) / blocks - from, at);
    }
}

steno_status steno_ops_conv_rounded(struct steno_op_ctx *ctx, const struct steno_conv_rounded *c,
                                    steno_err *err)
{
    const struct steno_conv *s = c->s;
    struct rounded_job j = {.k = steno_op_kernels(ctx),
                            .c = c,
                            .pixels = s->out[0] * s->out[1],
                            .depth = c->w->k,
                            .parts = (size_t)steno_op_threads(ctx)};
    if (j.parts > (j.pixels + PIXELS - 1) / PIXELS)
        j.parts = (j.pixels + PIXELS - 1) / PIXELS;
    if (!j.parts)
        return STENO_OK;
    j.patches = steno_op_scratch(ctx, j.parts * PIXELS * j.depth + 1);
    j.patch = steno_op_scratch(ctx, j.parts * j.depth * sizeof *j.patch + STENO_OVERREAD);
    j.scale = steno_op_scratch(ctx, j.parts * PIXELS * sizeof *j.scale);
    j.zero = steno_op_scratch(ctx, j.parts * PIXELS * sizeof *j.zero);
    if (!j.patches || !j.patch || !j.scale || !j.zero)
        return steno_ops_nomem(ctx, err);
    steno_op_parallel(ctx, (int)j.parts, rounded_part, &j);
    return STENO_OK;
}

void steno_ops_conv_rows(void *to, const void *w, size_t esize, size_t c_out, size_t c_in,
                         size_t taps)
{
    char *d = to;
    for (size_t o = 0; o < c_out; o++)
        for (size_t t = 0; t < taps; t++)
            for (size_t c = 0; c < c_in; c++, d += esize)
                memcpy(d, (const char *)w + ((o * c_in + c) * taps + t) * esize, esize);
}
