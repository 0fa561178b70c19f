/* Writing a network's graph after the passes to a file that any ONNX runtime reads. */
#ifndef STENO_EXEC_SAVE_H
#define STENO_EXEC_SAVE_H

#include "exec/session.h"
#include "onnx/write.h"

struct steno_save_options {
    int opset;    /* of ai.onnx; 0 = that of the file read */
    bool contrib; /* com.microsoft operators where one is exactly the fused operator */
    enum steno_onnx_external external;
};

/* Opset of ai.onnx that the file read imports; 0 when none. */
int steno_network_opset(const steno_network *n);
/* Inputs of 64-bit integers become 32-bit ones, widened by a Cast. For networks opened with
 * rewrite_only, before they are saved. */
STENO_MUST steno_status steno_network_narrow_inputs(steno_network *n, steno_err *err);
/* Products in fewer bits (passes/quantize.h), of a network opened with rewrite_only; *changed gets
 * their number. */
struct steno_quantize_options;
STENO_MUST steno_status steno_network_quantize(steno_network *n,
                                               const struct steno_quantize_options *opt,
                                               int *changed, steno_err *err);
/* The graph of a network opened with rewrite_only, to path (and path.data): onnx/write.h. */
STENO_MUST steno_status steno_network_save(const steno_network *n, const char *path,
                                           const struct steno_save_options *opt,
                                           struct steno_onnx_written *written, steno_err *err);
/* The same as bytes; weights are never external. */
STENO_MUST steno_status steno_network_serialize(const steno_network *n,
                                                const struct steno_save_options *opt,
                                                struct steno_buf *out, steno_err *err);

#endif
