#include "nn/ops/conv_i8.h"

/* Pixels per block: 16 tiles of 14 rows. The patches of a block fit L2 with a slice of the weights
 * even at 4608 bytes per patch, and a larger block reads the weights less often. */
enum { PIXELS = 224 };

struct job {
    const steno_kernels *k;
    const struct steno_conv_i8 *c;
    size_t pixels, depth, parts; /* depth: bytes of a patch */
    uint8_t *patches;            /* [parts][PIXELS][depth] */
    float *rows;                 /* [parts][PIXELS][c_out], i32 or f32 */
};

/* Copy the patches of pixels [from, from + n). */
static void gather_conv_i8(const struct steno_conv_i8 *c, size_t from, size_t n, uint8_t *to)
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
    const struct steno_conv_i8 *c = j->c;
    struct steno_gemm_i8 g = c->like;
    g.m = n;
    g.n = g.ldc = c->s->c_out;
    g.k = g.lda = j->depth;
    g.c = rows;
    if (steno_conv_is_pointwise(c->s)) {
        g.a = c->x + from * j->depth;
    } else {
        gather_conv_i8(c, from, n, patches);
        g.a = patches;
    }
    j->k->gemm_i8_part(&g, 0, 1);
    j->k->transpose_f32((float *)c->y + from, j->pixels, rows, g.n, n, g.n);
}

static void run_part_conv_i8(void *arg, int part)
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

steno_status steno_ops_conv_bytes(struct steno_op_ctx *ctx, const struct steno_conv_i8 *c,
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
    steno_op_parallel(ctx, (int)j.parts, run_part_conv_i8, &j);
    return STENO_OK;
}

/* ---- f32 images ---- */

struct rounded_part {
    const steno_kernels *k;
    const struct steno_conv_rounded *c;
    uint8_t *patches; /* [block_pixels][depth] */
    float *range;     /* [rows][in1][2]: range of each pixel's channels */
    float *scale;     /* [PIXELS] */
    int32_t *zero;    /* [PIXELS] */
};

/* Number of image rows between the first and the last tap of output rows [o, end), cut to the
 * image. */
static size_t rows_seen(const struct steno_conv *s, size_t o, size_t end, size_t *first)
{
    const size_t from = o * s->stride[0];
    size_t to = (end - 1) * s->stride[0] + (s->kernel[0] - 1) * s->dilation[0] + 1;
    *first = from < s->pad[0] ? 0 : from - s->pad[0];
    to = to < s->pad[0] ? 0 : to - s->pad[0];
    to = to < s->in[0] ? to : s->in[0];
    return to > *first ? to - *first : 0;
}

/* A patch. Taps of one of its rows that are adjacent in the image are quantized together. */
struct patch {
    const struct rounded_part *j;
    const float *range; /* of the image rows from `first` on */
    size_t first;
};

/* The range of the pixels under the patch of output pixel (o0, o1), extended to 0. */
static void patch_range(const struct patch *p, size_t o0, size_t o1, float *range)
{
    const struct steno_conv *s = p->j->c->s;
    range[0] = range[1] = 0;
    for (size_t a = 0; a < s->kernel[0]; a++) {
        const size_t i0 = o0 * s->stride[0] + a * s->dilation[0] - s->pad[0]; /* may wrap below 0 */
        for (size_t b = 0; i0 < s->in[0] && b < s->kernel[1]; b++) {
            const size_t i1 = o1 * s->stride[1] + b * s->dilation[1] - s->pad[1];
            const float *r = p->range + ((i0 - p->first) * s->in[1] + i1) * 2;
            if (i1 >= s->in[1])
                continue;
            range[0] = r[0] < range[0] ? r[0] : range[0];
            range[1] = r[1] > range[1] ? r[1] : range[1];
        }
    }
}

/* Quantize the patch of output pixel (o0, o1); taps outside the image get the zero point. */
static float round_patch(const struct patch *p, size_t o0, size_t o1, uint8_t *to, int32_t *zero)
{
    const struct steno_conv *s = p->j->c->s;
    const steno_kernels *k = p->j->k;
    float range[2], scale;
    patch_range(p, o0, o1, range);
    scale = k->quantize_in_f32(to, NULL, 0, range, zero);
    for (size_t a = 0; a < s->kernel[0]; a++) {
        const size_t i0 = o0 * s->stride[0] + a * s->dilation[0] - s->pad[0];
        for (size_t b = 0, taps; b < s->kernel[1]; b += taps, to += taps * s->c_in) {
            const size_t i1 = o1 * s->stride[1] + b * s->dilation[1] - s->pad[1];
            const bool inside = i0 < s->in[0] && i1 < s->in[1];
            taps = 1;
            while (inside && s->dilation[1] == 1 && b + taps < s->kernel[1] && i1 + taps < s->in[1])
                taps++;
            if (inside)
                k->quantize_in_f32(to, p->j->c->x + (i0 * s->in[1] + i1) * s->c_in, taps * s->c_in,
                                   range, zero);
            else
                memset(to, *zero, s->c_in);
        }
    }
    return scale;
}

static void rounded_block(const struct rounded_part *j, size_t from, size_t n)
{
    const struct steno_conv_rounded *c = j->c;
    const struct steno_conv *s = c->s;
    const size_t depth = steno_gemm_i8_lda(c->w->k);
    struct steno_gemm_epilogue ep = *c->ep;
    struct patch p = {j, j->range, 0};
    const size_t seen = rows_seen(s, from / s->out[1], (from + n - 1) / s->out[1] + 1, &p.first);
    for (size_t i = 0; i < seen * s->in[1]; i++) {
        j->range[2 * i] = j->range[2 * i + 1] = 0;
        j->k->range_f32(c->x + (p.first * s->in[1] + i) * s->c_in, s->c_in, j->range + 2 * i);
    }
    for (size_t i = 0; i < n; i++)
        j->scale[i] = round_patch(&p, (from + i) / s->out[1], (from + i) % s->out[1],
                                  j->patches + i * depth, &j->zero[i]);
    if (ep.residual)
        ep.residual += from * ep.ldr;
    j->k->gemm_i8_part(&(struct steno_gemm_i8){.m = n,
                                               .n = c->w->n,
                                               .k = c->w->k,
                                               .a = j->patches,
                                               .lda = depth,
                                               .a_rows = steno_gemm_i8_rows(n),
                                               .a_zero = j->zero,
                                               .a_zero_step = 1,
                                               .packed = c->w->data,
                                               .scale = c->w->scale,
                                               .row_scale = j->scale,
                                               .ep = &ep,
                                               .c = c->y + from * c->w->n,
                                               .ldc = c->w->n},
                       0, 1);
}

/* Largest number of pixels of a block, in whole tiles. */
static size_t block_pixels(const struct steno_conv *s)
{
    const size_t all = s->out[0] * s->out[1];
    return steno_gemm_i8_rows(all < PIXELS ? all : PIXELS);
}

/* Bytes of the ranges of each part. */
static size_t range_bytes(const struct steno_conv *s)
{
    size_t rows = (PIXELS + s->out[1] - 2) / s->out[1] + 1; /* output rows, partial ones included */
    rows = (rows - 1) * s->stride[0] + (s->kernel[0] - 1) * s->dilation[0] + 1;
    return steno_aligned((rows < s->in[0] ? rows : s->in[0]) * s->in[1] * 2 * sizeof(float));
}

static size_t part_bytes(const struct steno_conv *s, size_t depth)
{
    return steno_aligned(block_pixels(s) * depth) + range_bytes(s) + 2 * PIXELS * sizeof(float);
}

static size_t blocks_of(const struct steno_conv *s)
{
    return (s->out[0] * s->out[1] + PIXELS - 1) / PIXELS;
}

size_t steno_ops_conv_rounded_work(const struct steno_conv *s, const struct steno_weights *w,
                                   size_t n_parts)
{
    const size_t blocks = blocks_of(s);
    return blocks ? (n_parts < blocks ? n_parts : blocks) * part_bytes(s, steno_gemm_i8_lda(w->k))
                  : 0;
}

void steno_ops_conv_rounded_part(const steno_kernels *k, const struct steno_conv_rounded *c,
                                 void *work, size_t part, size_t n_parts)
{
    const size_t pixels = c->s->out[0] * c->s->out[1], blocks = blocks_of(c->s);
    const size_t depth = steno_gemm_i8_lda(c->w->k);
    const size_t first = blocks * part / n_parts, end = blocks * (part + 1) / n_parts;
    const size_t patches = steno_aligned(block_pixels(c->s) * depth);
    char *own;
    struct rounded_part j;
    if (first == end)
        return;
    own = (char *)work + (n_parts < blocks ? part : first) * part_bytes(c->s, depth);
    j = (struct rounded_part){.k = k,
                              .c = c,
                              .patches = (uint8_t *)own,
                              .range = (float *)(own + patches),
                              .scale = (float *)(own + patches + range_bytes(c->s)),
                              .zero = (int32_t *)(own + patches + range_bytes(c->s)) + PIXELS};
    for (size_t b = first; b < end; b++) {
        const size_t from = pixels * b / blocks;
        rounded_block(&j, from, pixels * (b + 1) / blocks - from);
    }
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
