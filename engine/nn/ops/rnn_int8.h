/* The 8-bit products of DynamicQuantizeLSTM (com.microsoft, opset 1): constant weights packed at
 * load, activations quantized to u8 over their own range. */
#ifndef STENO_NN_OPS_RNN_INT8_H
#define STENO_NN_OPS_RNN_INT8_H

#include "nn/ops/contrib.h"
#include "nn/ops/int8.h"

/* W or R of one direction, [k, n]. Frozen. */
struct steno_rnn_int8 {
    struct steno_packed_i8 *w;
    float *scale; /* [n] */
};

/* Pack matrix number `dir` of w, which has been checked (steno_int8_check). STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_rnn_int8_new(const steno_kernels *k, const struct steno_int8 *w,
                                           size_t dir, struct steno_rnn_int8 *out, steno_err *err);
void steno_rnn_int8_free(struct steno_rnn_int8 *w);

/* Activations [rows, k] as u8. */
struct steno_rnn_rounded {
    uint8_t *q;
    /* [rows], all the same: the product finishes fastest with a scale and a zero point per row */
    float *scale;
    int32_t *zero;
};
/* Quantize x over the range of all its numbers and 0, as ONNX DynamicQuantizeLinear. The
 * arrays are memory of the caller. */
void steno_rnn_int8_round(const steno_kernels *k, const float *x, size_t rows, size_t width,
                          struct steno_rnn_rounded *out);
/* Part `part` of n_parts of c [rows, n] = x w + bias; bias [n] or NULL. */
void steno_rnn_int8_product(const steno_kernels *k, const struct steno_rnn_int8 *w,
                            const struct steno_rnn_rounded *x, size_t rows, const float *bias,
                            float *c, size_t part, size_t n_parts);

#endif
