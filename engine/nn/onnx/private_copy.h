/* A private copy of a graph, which steno_onnx_options.stored reads back. Nodes are written as they
 * are, each with its own opset and region, and large constants are stored separately. */
#ifndef STENO_NN_ONNX_PRIVATE_COPY_H
#define STENO_NN_ONNX_PRIVATE_COPY_H

#include "base/buf.h"
#include "nn/graph/graph.h"

/* Store the elements of v. *offset: their place, or -1 if they are not needed. */
typedef steno_status steno_onnx_store_fn(void *arg, const struct steno_value *v, int64_t *offset,
                                         steno_err *err);

/* Append g, after passes, as a message to out. STENO_ERR_LIMIT if out is full, STENO_ERR_NOMEM,
 * errors of put. */
STENO_MUST steno_status steno_onnx_write_private(const struct steno_graph *g,
                                                 steno_onnx_store_fn *put, void *arg,
                                                 struct steno_buf *out, steno_err *err);

#endif
