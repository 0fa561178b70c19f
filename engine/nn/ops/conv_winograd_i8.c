/* Works on blocks of three or more output rows. For each of the 25 matrices, up to ROWS rows of its
 * left factor are built and quantized, and the rows of the product are added to Y, each to up to
 * nine pixels. */
#include "nn/ops/conv_winograd_i8.h"

#include "nn/kernels/winograd.h"
#include "nn/ops/internal.h"

#include <string.h>

enum {
    ROWS = 112, /* of a product, at most */
    /* about how many units of 3 x 3 outputs a block has: their part of Y stays in L2 while all
     * matrices are multiplied */
    UNITS = 112
};

struct few {
    const steno_kernels *k;
    const struct steno_conv_winograd_i8 *c;
    int kind[2];
    size_t n; /* rows that are pending */
    struct steno_winograd_unit unit[ROWS][2];
    uint8_t *a;
    float *sum, *zeros, *product; /* [c_in], [c_in], [ROWS][c_out] */
    float *scale;
    int32_t *zero;
};

static size_t part_bytes(const struct steno_conv *s)
{
    return steno_aligned(steno_gemm_i8_rows(ROWS) * steno_gemm_i8_lda(s->c_in)) +
           steno_aligned(2 * s->c_in * sizeof(float)) +
           steno_aligned(ROWS * s->c_out * sizeof(float)) + 2 * steno_aligned(ROWS * sizeof(float));
}

size_t steno_conv_few_work(const struct steno_conv *s, size_t n_parts)
{
    const size_t units = (s->out[0] + 2) / 3;
    return (n_parts < units ? n_parts : units) * part_bytes(s);
}

/* Pixel (i0, i1), or zeros outside the image. */
static const float *pixel(const struct few *f, size_t i0, size_t i1)
{
    const struct steno_conv *s = f->c->s;
    return i0 < s->in[0] && i1 < s->in[1] ? f->c->x + (i0 * s->in[1] + i1) * s->c_in : f->zeros;
}

/* Build row i of the product's left factor, in bytes. */
static void make_row(struct few *f, size_t i)
{
    const struct steno_conv *s = f->c->s;
    const struct steno_winograd_unit *u = f->unit[i];
    const bool minus[2] = {f->kind[0] != STENO_WINOGRAD_PLUS, f->kind[1] != STENO_WINOGRAD_PLUS};
    const size_t n[2] = {1 + (f->kind[0] != STENO_WINOGRAD_ODD),
                         1 + (f->kind[1] != STENO_WINOGRAD_ODD)};
    float range[2] = {0, 0};
    const float *from[4], *x;
    for (size_t t = 0; t < n[0] * n[1]; t++)
        from[t] = pixel(f, u[0].from[t / n[1]], u[1].from[t % n[1]]);
    x = f->k->sum_rows_f32(f->sum, from, n[0] * n[1],
                           n[1] > 1 ? minus : (const bool[]){false, minus[0]}, s->c_in, range);
    f->scale[i] = f->k->quantize_in_f32(f->a + i * steno_gemm_i8_lda(s->c_in), x, s->c_in, range,
                                        &f->zero[i]);
}

static void add_row_conv_winograd_i8(const struct few *f, size_t i)
{
    const struct steno_conv *s = f->c->s;
    const struct steno_winograd_unit *u = f->unit[i];
    f->k->spread_row_f32(
        f->c->y + (u[0].to * s->out[1] + u[1].to) * s->c_out, s->out[1] * s->c_out,
        (const size_t[]){u[0].n, u[1].n},
        (const bool[]){f->kind[0] == STENO_WINOGRAD_MINUS, f->kind[1] == STENO_WINOGRAD_MINUS},
        f->product + i * s->c_out, s->c_out);
}

/* Multiply the pending rows and add the products to Y. */
static void flush_conv_winograd_i8(struct few *f)
{
    const struct steno_conv *s = f->c->s;
    const struct steno_weights *w = &f->c->slots[steno_winograd_slot(f->kind[0], f->kind[1])];
    for (size_t i = 0; i < f->n; i++)
        make_row(f, i);
    f->k->gemm_i8_part(&(struct steno_gemm_i8){.m = f->n,
                                               .n = s->c_out,
                                               .k = s->c_in,
                                               .a = f->a,
                                               .lda = steno_gemm_i8_lda(s->c_in),
                                               .a_rows = steno_gemm_i8_rows(f->n),
                                               .a_zero = f->zero,
                                               .a_zero_step = 1,
                                               .packed = w->data,
                                               .scale = w->scale,
                                               .row_scale = f->scale,
                                               .c = f->product,
                                               .ldc = s->c_out},
                       0, 1);
    for (size_t i = 0; i < f->n; i++)
        add_row_conv_winograd_i8(f, i);
    f->n = 0;
}

/* Multiply units [u0, u1) of axis 0; a unit has three outputs. */
static void multiply_conv_winograd_i8(struct few *f, size_t u0, size_t u1)
{
    const struct steno_conv *s = f->c->s;
    const bool odd = f->kind[0] == STENO_WINOGRAD_ODD;
    const size_t all = steno_winograd_units(f->kind[0], s->out[0]),
                 across = steno_winograd_units(f->kind[1], s->out[1]);
    const size_t begin = odd ? 3 * u0 : u0, end = odd && 3 * u1 < all ? 3 * u1
                                                  : !odd && u1 < all  ? u1
                                                                      : all;
    const size_t rows = end > begin ? (end - begin) * across : 0,
                 products = (rows + ROWS - 1) / ROWS;
    const size_t most = products ? (rows + products - 1) / products : 0; /* nearly equal sizes */
    for (size_t i = begin; i < end; i++) {
        const struct steno_winograd_unit u = steno_winograd_unit(s, 0, f->kind[0], i);
        for (size_t j = 0; j < across; j++) {
            f->unit[f->n][0] = u;
            f->unit[f->n][1] = steno_winograd_unit(s, 1, f->kind[1], j);
            if (++f->n == most)
                flush_conv_winograd_i8(f);
        }
    }
    if (f->n)
        flush_conv_winograd_i8(f);
}

static void block_conv_winograd_i8(struct few *f, size_t u0, size_t u1)
{
    const struct steno_conv *s = f->c->s;
    const struct steno_gemm_epilogue *ep = f->c->ep;
    const size_t end = 3 * u1 < s->out[0] ? 3 * u1 : s->out[0], from = 3 * u0 * s->out[1];
    memset(f->c->y + from * s->c_out, 0, (end - 3 * u0) * s->out[1] * s->c_out * sizeof *f->c->y);
    for (int slot = 0; slot < STENO_WINOGRAD_SLOTS; slot++) {
        f->kind[0] = slot / STENO_WINOGRAD_KINDS;
        f->kind[1] = slot % STENO_WINOGRAD_KINDS;
        multiply_conv_winograd_i8(f, u0, u1);
    }
    for (size_t p = from; ep && p < end * s->out[1]; p++) {
        float *y = f->c->y + p * s->c_out;
        if (ep->bias)
            f->k->add_f32(y, y, 1, ep->bias, 1, s->c_out);
        steno_ops_activate(f->k, ep->act, ep->act_min, ep->act_max, y, s->c_out);
        if (ep->residual)
            f->k->add_f32(y, y, 1, ep->residual + p * ep->ldr, 1, s->c_out);
    }
}

void steno_conv_few_part(const steno_kernels *k, const struct steno_conv_winograd_i8 *c, void *work,
                         size_t part, size_t n_parts)
{
    const struct steno_conv *s = c->s;
    const size_t units = (s->out[0] + 2) / 3, u0 = units * part / n_parts,
                 n = units * (part + 1) / n_parts - u0;
    const size_t across = (s->out[1] + 2) / 3, blocks = (n * across + UNITS - 1) / UNITS;
    char *own = (char *)work + (n_parts < units ? part : u0) * part_bytes(s);
    struct few f = {.k = k, .c = c};
    if (!n)
        return;
    f.a = (uint8_t *)own;
    own += steno_aligned(steno_gemm_i8_rows(ROWS) * steno_gemm_i8_lda(s->c_in));
    f.sum = (float *)(void *)own;
    f.zeros = f.sum + s->c_in;
    memset(f.zeros, 0, s->c_in * sizeof *f.zeros);
    own += steno_aligned(2 * s->c_in * sizeof(float));
    f.product = (float *)(void *)own;
    own += steno_aligned(ROWS * s->c_out * sizeof(float));
    f.scale = (float *)(void *)own;
    f.zero = (int32_t *)(void *)(own + steno_aligned(ROWS * sizeof(float)));
    for (size_t b = 0; b < blocks; b++)
        block_conv_winograd_i8(&f, u0 + n * b / blocks, u0 + n * (b + 1) / blocks);
}
