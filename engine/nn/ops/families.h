/* Tables of the operator families. A row without a type ends each table. */
#ifndef STENO_NN_OPS_FAMILIES_H
#define STENO_NN_OPS_FAMILIES_H

#include "nn/exec/op.h"

#define STENO_OPS_FAMILIES(X)                                                                      \
    X(unary)                                                                                       \
    X(binary)                                                                                      \
    X(where)                                                                                       \
    X(cast)                                                                                        \
    X(shape_family)                                                                                \
    X(move)                                                                                        \
    X(gather)                                                                                      \
    X(reduce)                                                                                      \
    X(norm)                                                                                        \
    X(matmul)                                                                                      \
    X(conv)                                                                                        \
    X(conv_nhwc)                                                                                   \
    X(pool_nhwc)                                                                                   \
    X(conv_row_tiles)                                                                              \
    X(rnn)                                                                                         \
    X(control)                                                                                     \
    X(search)                                                                                      \
    X(conv_int)                                                                                    \
    X(attention_family)                                                                            \
    X(einsum)                                                                                      \
    X(signal)                                                                                      \
    X(fused)                                                                                       \
    X(fused_zipformer)                                                                             \
    X(fused_chunkconv)                                                                             \
    X(fused_weights)                                                                               \
    X(fused_spectrum)                                                                              \
    X(pool)                                                                                        \
    X(quant)                                                                                       \
    X(ms)                                                                                          \
    X(ms_attention)                                                                                \
    X(ms_gather_blocks)                                                                            \
    X(ms_group_query)                                                                              \
    X(ms_quant)                                                                                    \
    X(ms_embed)                                                                                    \
    X(fused_attention)                                                                             \
    X(absorbed_attention)                                                                          \
    X(local_attention)                                                                             \
    X(fused_int8)                                                                                  \
    X(cached_attention)                                                                            \
    X(past_attention)                                                                              \
    X(window_attention)                                                                            \
    X(resize)                                                                                      \
    X(sequence)                                                                                    \
    X(state)                                                                                       \
    X(positions)

#define STENO_OPS_DECLARE(NAME) extern const struct steno_op steno_ops_##NAME[];
STENO_OPS_FAMILIES(STENO_OPS_DECLARE)
#undef STENO_OPS_DECLARE

#endif
