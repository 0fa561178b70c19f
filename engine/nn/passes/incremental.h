/* Makes Transformer decoders and language models of espnet_onnx incremental. */
#ifndef STENO_NN_PASSES_INCREMENTAL_H
#define STENO_NN_PASSES_INCREMENTAL_H

#include "nn/passes/part.h"
#include "nn/passes/passes.h"

/* Cut g down to the part, after all passes. STENO_ERR_UNSUPPORTED says what in the graph is not as
 * expected; the caller then runs the whole graph.
 * The cut is proven first. Attention is fused, and each of its keys and values comes from one
 * position. Every other node works on each position by itself. Masks and positions, computed for
 * several lengths, are those of causal attention. A masked token is masked for all readers. */
STENO_MUST steno_status steno_part_cut(struct steno_graph *g, enum steno_part part,
                                       const struct steno_pass_env *env, steno_err *err);

/* Replace tables that end at the exported length with operators that have no end, after all passes:
 * positions (sines, absolute or relative to the middle row) that are cut at a length, and length
 * masks that rows are picked from. Other tables stay. *changed += number of replaced tables. */
STENO_MUST steno_status steno_any_length(struct steno_graph *g, const struct steno_pass_env *env,
                                         int *changed, steno_err *err);

#endif
