/* What follows for operators from how the constant weights of products are kept, which is chosen
 * when a network is opened. */
#ifndef STENO_NN_OPS_PRECISION_H
#define STENO_NN_OPS_PRECISION_H

#include "base/precision.h"

/* Attention may round its factors to bf16. */
static inline bool steno_precision_rounds_attention(enum steno_precision p)
{
    return p == STENO_BF16_WEIGHTS || p == STENO_INT8_WEIGHTS;
}

/* Products that a graph has in 8 bits round activations as it says, over the range of a tensor, in
 * STENO_FP32, and else over the range of each row: nearer, and one node (nn/passes/pass_int8.c). */

#endif
