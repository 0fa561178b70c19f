#include "nn/ops/rnn_int8.h"

#include <stdlib.h>

static const void *bytes_at(const struct steno_tensor *t, size_t i)
{
    return (const uint8_t *)t->data + i;
}

steno_status steno_rnn_int8_new(const steno_kernels *k, const struct steno_int8 *w, size_t dir,
                                struct steno_rnn_int8 *out, steno_err *err)
{
    const size_t rows = (size_t)w->q->shape.dim[1], cols = (size_t)w->q->shape.dim[2];
    const size_t dirs = (size_t)w->q->shape.dim[0];
    const float *scale = w->scale->data;
    struct steno_tensor zero = {0};
    size_t matrix, col;
    if (w->zero) {
        (void)steno_int8_steps(steno_numel(w->zero), dirs, cols, &matrix, &col);
        zero = *w->zero;
        zero.shape = (struct steno_shape){.rank = 1, .dim = {col ? (int64_t)cols : 1}};
        zero.data = (void *)(uintptr_t)bytes_at(w->zero, dir * matrix);
    }
    (void)steno_int8_steps(steno_numel(w->scale), dirs, cols, &matrix, &col);
    out->scale = malloc((cols + 1) * sizeof *out->scale);
    if (!out->scale)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    for (size_t j = 0; j < cols; j++)
        out->scale[j] = scale[dir * matrix + j * col];
    return steno_packed_i8_new(k, bytes_at(w->q, dir * rows * cols), w->q->dtype, false, rows, cols,
                               w->zero ? &zero : NULL, &out->w, err);
}

void steno_rnn_int8_free(struct steno_rnn_int8 *w)
{
    steno_packed_i8_free(w->w);
    free(w->scale);
    *w = (struct steno_rnn_int8){0};
}

void steno_rnn_int8_round(const steno_kernels *k, const float *x, size_t rows, size_t width,
                          struct steno_rnn_rounded *out)
{
    float scale;
    int32_t zero;
    steno_ops_range(k, x, rows * width, &scale, &zero);
    k->quantize_f32(out->q, x, rows * width, scale, zero, false);
    for (size_t i = 0; i < rows; i++) {
        out->scale[i] = scale;
        out->zero[i] = zero;
    }
}

void steno_rnn_int8_product(const steno_kernels *k, const struct steno_rnn_int8 *w,
                            const struct steno_rnn_rounded *x, size_t rows, const float *bias,
                            float *c, size_t part, size_t n_parts)
{
    const struct steno_gemm_epilogue ep = {.alpha = 1, .bias = bias};
    const struct steno_gemm_i8 g = {.m = rows,
                                    .n = w->w->n,
                                    .k = w->w->k,
                                    .a = x->q,
                                    .lda = w->w->k,
                                    .a_zero = x->zero,
                                    .a_zero_step = 1,
                                    .packed = w->w->data,
                                    .scale = w->scale,
                                    .row_scale = x->scale,
                                    .ep = bias ? &ep : NULL,
                                    .c = c,
                                    .ldc = w->w->n};
    k->gemm_i8_part(&g, part, n_parts);
}
