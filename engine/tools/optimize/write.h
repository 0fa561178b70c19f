/* Writes a graph to an ONNX file that any runtime reads.
 *
 * A node of ai.onnx is written in the requested opset, and converted where its form differs. A
 * fused node (made by passes/) is written as a call of a model-local function of domain ai.steno.
 * The body of the function has standard operators (nn/ops/body.h). Its name is TYPE, or TYPE__1,
 * TYPE__2, ... if there are several bodies. Our loader reads such a call as the fused node if the
 * body is the one that it would write itself; any other tool inlines the function. Operators of
 * other domains in the model are kept. The graph must be written after the passes and before
 * preparation, which drops constants. */
#ifndef STENO_OPTIMIZE_WRITE_H
#define STENO_OPTIMIZE_WRITE_H

#include "base/buf.h"
#include "nn/graph/graph.h"

enum { STENO_OLDEST_WRITTEN = 11 }; /* opset */

enum steno_onnx_external {
    STENO_EXTERNAL_AUTO, /* if constants take more than 1 GiB: a message is limited to 2 GiB */
    STENO_EXTERNAL_NEVER,
    STENO_EXTERNAL_ALWAYS
};

struct steno_onnx_write_options {
    int opset;          /* of ai.onnx */
    int64_t ir_version; /* of the input file; raised as needed */
    /* Text of a fused node's body (nn/ops/body.h); STENO_ERR_UNSUPPORTED: it has none. */
    steno_status (*body)(const struct steno_graph *g, const struct steno_node *n, int opset,
                         struct steno_buf *text);
    /* True when operators of the domain are written unchanged. NULL: for all domains but
     * ai.steno. */
    bool (*keep)(void *arg, const char *domain);
    void *arg;
    bool contrib; /* use a com.microsoft operator where it is exactly the fused operator */
    enum steno_onnx_external external;
    const char *producer_version;
};

struct steno_onnx_written {
    size_t bytes, data_bytes; /* of the model file, of the file beside it */
    size_t nodes, functions;
};

/* Write path, and path.data beside it if weights are external. Both are renamed into place when
 * they are complete; a device or a pipe is written to as it is, with all weights. written may be
 * NULL. Errors begin with path. STENO_ERR_IO; STENO_ERR_UNSUPPORTED names what that opset
 * cannot express; STENO_ERR_LIMIT: over 2 GiB with STENO_EXTERNAL_NEVER. */
STENO_MUST steno_status steno_onnx_write(const struct steno_graph *g, const char *path,
                                         const struct steno_onnx_write_options *opt,
                                         struct steno_onnx_written *written, steno_err *err);
/* The same into memory, never with external data. */
STENO_MUST steno_status steno_onnx_serialize(const struct steno_graph *g, struct steno_buf *out,
                                             const struct steno_onnx_write_options *opt,
                                             steno_err *err);

#endif
