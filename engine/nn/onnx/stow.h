/* A private copy of a graph, which steno_onnx_options.stowed reads back. Nodes are written as they
 * are, each with its own opset and region, and large constants are stored separately. */
#ifndef STENO_NN_ONNX_STOW_H
#define STENO_NN_ONNX_STOW_H

#include "base/buf.h"
#include "nn/graph/graph.h"

/* Store the elements of v. *offset: their place, or -1 if they are not needed. */
typedef steno_status steno_stow_fn(void *arg, const struct steno_value *v, int64_t *offset,
                                   steno_err *err);

/* Append g, after passes, as a message to out. STENO_ERR_LIMIT if out is full, STENO_ERR_NOMEM,
 * errors of put. */
STENO_MUST steno_status steno_onnx_stow(const struct steno_graph *g, steno_stow_fn *put, void *arg,
                                        struct steno_buf *out, steno_err *err);

#endif
