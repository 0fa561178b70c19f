/* Tables of the rare operators' families, as in nn/ops/families.h. */
#ifndef STENO_NN_RARE_OPS_FAMILIES_H
#define STENO_NN_RARE_OPS_FAMILIES_H

#include "nn/exec/op.h"

#define STENO_RARE_OPS_FAMILIES(X)                                                                 \
    X(image)                                                                                       \
    X(vision)                                                                                      \
    X(regions)                                                                                     \
    X(loss)                                                                                        \
    X(flex_attention)                                                                              \
    X(random)                                                                                      \
    X(unique)                                                                                      \
    X(optional)

#define STENO_OPS_DECLARE(NAME) extern const struct steno_op steno_ops_##NAME[];
STENO_RARE_OPS_FAMILIES(STENO_OPS_DECLARE)
#undef STENO_OPS_DECLARE

#endif
