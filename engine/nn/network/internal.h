/* A network for the files that open, cache or rewrite it. The part that a run needs is struct
 * steno_network of nn/exec/internal.h. */
#ifndef STENO_NN_NETWORK_INTERNAL_H
#define STENO_NN_NETWORK_INTERNAL_H

#include "nn/exec/internal.h"
#include "nn/network/network.h"
#include "nn/onnx/load.h"
#include "nn/passes/passes.h"

struct steno_network_facts {
    struct steno_onnx_info info;
    struct steno_pass_counts counts;
    size_t nodes_in_file;
    bool rare; /* the file has operators of nn/rare_ops */
};

/* Look up the operators, and infer types and shapes, of a graph after the passes. */
STENO_MUST steno_status steno_network_resolve(struct steno_graph *g, steno_err *err);
/* Run the passes of opt on the present graph, from which nothing has been packed yet. */
STENO_MUST steno_status steno_network_rewrite(steno_network *n,
                                              const struct steno_network_options *opt,
                                              steno_err *err);

#endif
