/* What follows for operators from how the constant weights of products are kept, which is chosen
 * when a network is opened. */
#ifndef STENO_NN_EXEC_PRECISION_H
#define STENO_NN_EXEC_PRECISION_H

#include "base/precision.h"

#include <stddef.h>

/* Attention may round its factors to bf16. */
static inline bool steno_precision_rounds_attention(enum steno_precision p)
{
    return p == STENO_BF16_WEIGHTS || p == STENO_INT8_WEIGHTS;
}

/* Products that a graph has in 8 bits round activations as it says, over the range of a tensor, in
 * STENO_FP32, and else over the range of each row: nearer, and one node (nn/passes/pass_int8.c). */

/* What rounding the weights did to a network. */
struct steno_precision_report {
    enum steno_precision kept; /* what f32 weights are kept in; never STENO_AUTO_WEIGHTS */
    bool bytes;                /* the file has products in 8 bits */
    int products;              /* with constant weights, convolutions included */
    int lowered;               /* kept in less than f32 */
    double error;              /* sqrt(sum (w - rounded)^2 / sum w^2) over all of them */
    double worst;              /* the same of the worst one */
    char worst_node[64];
    double square, square_error; /* the sums so far */
};

/* Sum of x^2. Inline: for a length that the caller knows it becomes vectors. */
static inline double steno_square_sum(const float *x, size_t n)
{
    enum { SUMS = 8 }; /* side by side: one waits for the last addition each time */
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
