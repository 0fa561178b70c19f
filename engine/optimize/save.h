/* Writing a network's graph after the passes to a file that any ONNX runtime reads. */
#ifndef STENO_OPTIMIZE_SAVE_H
#define STENO_OPTIMIZE_SAVE_H

#include "nn/network/network.h"
#include "optimize/write.h"

struct steno_save_options {
    int opset;      /* of ai.onnx; 0 = that of the file read */
    bool contrib;   /* com.microsoft operators where one is exactly the fused operator */
    bool microsoft; /* those of com.microsoft that the graph has stay, whether the file had any or
                       not */
    enum steno_onnx_external external;
};

/* Opset of ai.onnx that the file read imports; 0 when none. */
int steno_network_opset(const steno_network *n);
/* Inputs of 64-bit integers become 32-bit ones, widened by a Cast. For networks opened with
 * rewrite_only, before they are saved. */
STENO_MUST steno_status steno_network_int32_inputs(steno_network *n, steno_err *err);
/* Products in fewer bits (optimize/quantize.h), of a network opened with rewrite_only; *changed
 * gets their number. */
struct steno_quantize_options;
STENO_MUST steno_status steno_network_quantize(steno_network *n,
                                               const struct steno_quantize_options *opt,
                                               int *changed, steno_err *err);
/* steno_quantize_split, and the graph sorted and inferred anew. */
STENO_MUST steno_status steno_network_split(steno_network *n,
                                            const struct steno_quantize_options *opt,
                                            steno_err *err);
/* steno_quantize_list. */
struct steno_quantize_product;
STENO_MUST steno_status steno_network_products(steno_network *n,
                                               const struct steno_quantize_options *opt,
                                               struct steno_quantize_product **out, int *count,
                                               steno_err *err);
/* The passes of opt on the graph as it is now; opened with rewrite_only. */
STENO_MUST steno_status steno_network_passes_again(steno_network *n,
                                                   const struct steno_network_options *opt,
                                                   steno_err *err);
/* A network to be run, in *out, that shows values of n (opened with rewrite_only) as outputs:
 * values[i] is output place[i] of it, behind the outputs of n unless it is one of those. opt: of
 * the new one. STENO_ERR_LIMIT when the graph is larger than a message (2 GiB). */
STENO_MUST steno_status steno_network_expose(steno_network *n, const steno_value_id *values,
                                             int count, const struct steno_network_options *opt,
                                             int *place, steno_network **out, steno_err *err);
/* The graph of a network opened with rewrite_only, to path (and path.data): optimize/write.h. */
STENO_MUST steno_status steno_network_save(const steno_network *n, const char *path,
                                           const struct steno_save_options *opt,
                                           struct steno_onnx_written *written, steno_err *err);
/* The same as bytes; weights are never external. */
STENO_MUST steno_status steno_network_serialize(const steno_network *n,
                                                const struct steno_save_options *opt,
                                                struct steno_buf *out, steno_err *err);

#endif
