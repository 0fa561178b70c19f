/* Transformer decoders and language models as espnet_onnx exports them, made incremental. */
#ifndef STENO_NN_PASSES_INCREMENTAL_H
#define STENO_NN_PASSES_INCREMENTAL_H

#include "nn/passes/part.h"
#include "nn/passes/passes.h"

/* Cut g down to the part, after all passes. STENO_ERR_UNSUPPORTED says what about the graph is not
 * as expected: it is then to be run whole. What is proven: attention is fused and reads keys and
 * values that come from one position each; every other node works on positions apart; masks and
 * positions, computed for several lengths, are those of causal attention, and a masked token is so
 * for all readers. */
STENO_MUST steno_status steno_part_cut(struct steno_graph *g, enum steno_part part,
                                       const struct steno_pass_env *env, steno_err *err);

/* Tables that end at the length a model was exported for become operators without an end, after all
 * passes: positions (sines, absolute or relative to the middle row) that are cut at a length, and
 * masks of length that rows are taken from. Others stay. *changed += how many. */
STENO_MUST steno_status steno_any_length(struct steno_graph *g, const struct steno_pass_env *env,
                                         int *changed, steno_err *err);

#endif
