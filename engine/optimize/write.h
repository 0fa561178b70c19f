/* Graph IR -> ONNX file that any runtime reads.
 *
 * A node of ai.onnx is written in the wanted opset, converted where its form differs. A fused node
 * (made by passes/) is written as a call of a model-local function of domain ai.steno whose body is
 * standard operators (nn/ops/body.h): TYPE, or TYPE__1, TYPE__2, ... when several bodies are
 * needed. Our loader takes such a call as the one node it was, when the body is the one it would
 * write itself; any other tool inlines it. Operators of other domains that the model brought along
 * stay. Needs the graph after passes and before preparation, which drops constants. */
#ifndef STENO_OPTIMIZE_WRITE_H
#define STENO_OPTIMIZE_WRITE_H

#include "base/buf.h"
#include "nn/graph/graph.h"

enum steno_onnx_external {
    STENO_EXTERNAL_AUTO, /* when constants take more than 1 GiB: a message ends at 2 GiB */
    STENO_EXTERNAL_NEVER,
    STENO_EXTERNAL_ALWAYS
};

struct steno_onnx_write_options {
    int opset;          /* of ai.onnx */
    int64_t ir_version; /* of the file read; raised to what is needed */
    /* Text of a fused node's body (nn/ops/body.h); STENO_ERR_UNSUPPORTED when it has none. */
    steno_status (*body)(const struct steno_graph *g, const struct steno_node *n, int opset,
                         struct steno_buf *text);
    /* True when the domain's operators are written as they are; NULL: of every domain but ai.steno.
     */
    bool (*keep)(void *arg, const char *domain);
    void *arg;
    bool contrib; /* com.microsoft operators where one is exactly the fused operator */
    enum steno_onnx_external external;
    const char *producer_version;
};

struct steno_onnx_written {
    size_t bytes, data_bytes; /* of the model file, of the file beside it */
    size_t nodes, functions;
};

/* Write path, and path.data beside it when weights are external: complete files, renamed into
 * place. written may be NULL. STENO_ERR_IO; STENO_ERR_UNSUPPORTED names what cannot be said in
 * that opset; STENO_ERR_LIMIT over 2 GiB with STENO_EXTERNAL_NEVER. */
STENO_MUST steno_status steno_onnx_write(const struct steno_graph *g, const char *path,
                                         const struct steno_onnx_write_options *opt,
                                         struct steno_onnx_written *written, steno_err *err);
/* The same into memory, never external. */
STENO_MUST steno_status steno_onnx_serialize(const struct steno_graph *g, struct steno_buf *out,
                                             const struct steno_onnx_write_options *opt,
                                             steno_err *err);

#endif
