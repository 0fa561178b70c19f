/* Computes one row of a result, where its caller reads no other. */
#ifndef STENO_NN_PASSES_LAST_ROW_H
#define STENO_NN_PASSES_LAST_ROW_H

#include "nn/passes/passes.h"

/* After all passes: make output 0, [B, T, N], its last row alone, [B, 1, N], and select that row
 * before the product that computes it, if one does. STENO_ERR_UNSUPPORTED: the output is an input,
 * or is not known to have three dimensions. */
STENO_MUST steno_status steno_last_row(struct steno_graph *g, const struct steno_pass_env *env,
                                       steno_err *err);

#endif
