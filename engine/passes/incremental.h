/* Transformer decoders and language models as espnet_onnx exports them, made incremental. */
#ifndef STENO_PASSES_INCREMENTAL_H
#define STENO_PASSES_INCREMENTAL_H

#include "passes/part.h"
#include "passes/passes.h"

/* Cut g down to the part, after all passes. STENO_ERR_UNSUPPORTED says what about the graph is not as expected: it is then
 * to be run whole. What is proven: attention is fused and reads keys and values that come from one
 * position each; every other node works on positions apart; masks and positions, computed for
 * several lengths, are those of causal attention, and a masked token is so for all readers. */
STENO_MUST steno_status steno_part_cut(struct steno_graph *g, enum steno_part part,
                                       const struct steno_pass_env *env, steno_err *err);

#endif
