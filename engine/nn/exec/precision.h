/* What the precision of constant weights, chosen when a network is opened, means for operators. */
#ifndef STENO_NN_EXEC_PRECISION_H
#define STENO_NN_EXEC_PRECISION_H

#include "base/precision.h"

#include <stddef.h>

/* True when attention may round its factors to bf16. */
static inline bool steno_precision_rounds_attention(enum steno_precision p)
{
    return p == STENO_BF16_WEIGHTS || p == STENO_INT8_WEIGHTS;
}

/* Products that a graph has in 8 bits: with STENO_FP32, activations are quantized as the graph
 * says, over the range of a tensor. With other precisions they are quantized over the range of each
 * row, which is more accurate and takes one node (nn/passes/pass_int8.c). */

/* The effect of the weights' precision on a network. */
struct steno_precision_report {
    /* precision of weights that are f32 in the file; never STENO_AUTO_WEIGHTS */
    enum steno_precision kept;
    bool bytes;   /* the file has 8-bit products */
    int products; /* with constant weights, including convolutions */
    int lowered;  /* products with weights in less than f32 */
    double error; /* sqrt(sum (w - rounded)^2 / sum w^2) over all of them */
    double worst; /* the same for the worst product */
    char worst_node[64];
    double square, square_error; /* the sums so far */
    /* products whose weights overflow in the precision (infinite in 16 bits, infinite or NaN in 8);
     * they stay in f32 */
    int overflowed;
    char overflowed_node[64]; /* the first one */
};

/* Sum of x^2. Inline, so that it vectorizes for a length that the caller knows. */
static inline double steno_square_sum(const float *x, size_t n)
{
    enum { SUMS = 8 }; /* independent sums: a single one would wait for each addition */
    double sum[SUMS] = {0}, all = 0;
    size_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (size_t k = 0; k < SUMS; k++)
            sum[k] += (double)x[i + k] * (double)x[i + k];
    for (size_t k = 0; k < n % SUMS; k++)
        all += (double)x[i + k] * (double)x[i + k];
    for (size_t k = 0; k < SUMS; k++)
        all += sum[k];
    return all;
}

#endif
