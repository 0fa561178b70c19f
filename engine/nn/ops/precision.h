/* How the constant weights of products are kept, chosen when a network is opened. */
#ifndef STENO_NN_OPS_PRECISION_H
#define STENO_NN_OPS_PRECISION_H

#include <stdbool.h>

enum steno_precision {
    STENO_FP32,
    STENO_BF16_WEIGHTS, /* 16 bits, widened in the kernel; sums in f32 */
    STENO_INT8_WEIGHTS, /* i8 with a scale per output channel; activations rounded to u8 as they
                           come, with a range per row (products) or patch (convolutions). In a graph
                           that has products in 8 bits already: as STENO_AUTO_WEIGHTS */
    STENO_FP16_WEIGHTS, /* as bf16, with the other 16-bit format */
    STENO_AUTO_WEIGHTS  /* asked for, never had: bf16 where the graph has products in 8 bits and the
                           CPU multiplies bf16, else f32 */
};
/* Attention may round its factors to bf16. */
static inline bool steno_precision_rounds_attention(enum steno_precision p)
{
    return p == STENO_BF16_WEIGHTS || p == STENO_INT8_WEIGHTS;
}

/* Products that a graph has in 8 bits round activations as it says, over the range of a tensor, in
 * STENO_FP32, and else over the range of each row: nearer, and one node (nn/passes/pass_int8.c). */

#endif
