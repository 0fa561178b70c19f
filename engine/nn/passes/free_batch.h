/* A network exported for one stream at a time, made to take any number. */
#ifndef STENO_NN_PASSES_FREE_BATCH_H
#define STENO_NN_PASSES_FREE_BATCH_H

#include "nn/passes/passes.h"

/* After all passes: the inputs named (comma-separated, each [1, ...]) become [N, ...], entries
 * apart from each other all the way; other inputs are the same for all entries.
 * STENO_ERR_UNSUPPORTED names the node that mixes them or that nothing is known of, STENO_ERR_INVAL
 * a name that is no such input; g is good for nothing then. */
STENO_MUST steno_status steno_free_batch(struct steno_graph *g, const char *inputs,
                                         const struct steno_pass_env *env, steno_err *err);

#endif
