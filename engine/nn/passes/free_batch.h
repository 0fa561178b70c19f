/* Frees the batch dimension of a network that was exported for one stream. */
#ifndef STENO_NN_PASSES_FREE_BATCH_H
#define STENO_NN_PASSES_FREE_BATCH_H

#include "nn/passes/passes.h"

/* Make the named inputs [N, ...], after all passes. inputs: comma-separated names, each [1, ...].
 * Entries of the batch stay independent of each other on the whole way; other inputs are the same
 * for all entries.
 * STENO_ERR_UNSUPPORTED names the node that mixes entries or has an unknown operator.
 * STENO_ERR_INVAL names an input that is not such an input. After an error g is not usable. */
STENO_MUST steno_status steno_free_batch(struct steno_graph *g, const char *inputs,
                                         const struct steno_pass_env *env, steno_err *err);

#endif
