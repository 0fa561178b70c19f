/* Saves a network's graph, after the passes, to a file that any ONNX runtime reads. */
#ifndef STENO_OPTIMIZE_SAVE_H
#define STENO_OPTIMIZE_SAVE_H

#include "nn/network/network.h"
#include "tools/optimize/write.h"

struct steno_save_options {
    int opset;    /* of ai.onnx; 0 = as in the input file */
    bool contrib; /* use a com.microsoft operator where it is exactly the fused operator */
    /* keep the com.microsoft operators of the graph, even if the input file had none */
    bool microsoft;
    enum steno_onnx_external external;
};

/* Opset of ai.onnx that the input file imports; 0 if none. */
int steno_network_opset(const steno_network *n);
/* Change 64-bit integer inputs to 32-bit ones, which a Cast widens. For networks opened with
 * rewrite_only, before they are saved. */
STENO_MUST steno_status steno_network_int32_inputs(steno_network *n, steno_err *err);
/* Quantize products (optimize/quantize.h) of a network opened with rewrite_only; *changed gets
 * their number. */
struct steno_quantize_options;
STENO_MUST steno_status steno_network_quantize(steno_network *n,
                                               const struct steno_quantize_options *opt,
                                               int *changed, steno_err *err);
/* For a network whose file computes in 16 bits (nn/passes/pass_widen.c): write constants that such
 * numbers hold exactly in 16 bits again, with a Cast. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_network_narrow(steno_network *n, steno_err *err);
/* steno_quantize_split, then sort the graph and infer it again. */
STENO_MUST steno_status steno_network_split(steno_network *n,
                                            const struct steno_quantize_options *opt,
                                            steno_err *err);
/* steno_quantize_list on the network's graph. */
struct steno_quantize_product;
STENO_MUST steno_status steno_network_products(steno_network *n,
                                               const struct steno_quantize_options *opt,
                                               struct steno_quantize_product **out, int *count,
                                               steno_err *err);
/* Run the passes of opt on the present graph of a network opened with rewrite_only. */
STENO_MUST steno_status steno_network_passes_again(steno_network *n,
                                                   const struct steno_network_options *opt,
                                                   steno_err *err);
/* Make a network *out that can be run and has values of n (opened with rewrite_only) as outputs:
 * values[i] is its output place[i], after the outputs of n unless it is one of them. opt: options
 * of the new network. STENO_ERR_LIMIT: the graph is larger than a message (2 GiB). */
STENO_MUST steno_status steno_network_expose(steno_network *n, const steno_value_id *values,
                                             int count, const struct steno_network_options *opt,
                                             int *place, steno_network **out, steno_err *err);
/* Write the graph of a network opened with rewrite_only to path (and path.data):
 * optimize/write.h. */
STENO_MUST steno_status steno_network_save(const steno_network *n, const char *path,
                                           const struct steno_save_options *opt,
                                           struct steno_onnx_written *written, steno_err *err);
/* The same into memory; weights are never external. */
STENO_MUST steno_status steno_network_serialize(const steno_network *n,
                                                const struct steno_save_options *opt,
                                                struct steno_buf *out, steno_err *err);
/* Write a graph that was built (nn/build/make.h). Its nodes of ai.steno become functions. */
STENO_MUST steno_status steno_graph_save(struct steno_graph *g, const char *path, int opset,
                                         struct steno_onnx_written *written, steno_err *err);

#endif
