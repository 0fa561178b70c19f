/* A private copy of a graph, which steno_onnx_options.stowed reads back: nodes as they are, each
 * with its own opset and region, and large constants apart. */
#ifndef STENO_NN_ONNX_STOW_H
#define STENO_NN_ONNX_STOW_H

#include "base/buf.h"
#include "nn/graph/graph.h"

/* Keeps the elements of v: *offset, where they lie, or -1 when nobody needs them. */
typedef steno_status steno_stow_fn(void *arg, const struct steno_value *v, int64_t *offset,
                                   steno_err *err);

/* g after passes, as a message appended to out. STENO_ERR_LIMIT when out is full, STENO_ERR_NOMEM,
 * what put says. */
STENO_MUST steno_status steno_onnx_stow(const struct steno_graph *g, steno_stow_fn *put, void *arg,
                                        struct steno_buf *out, steno_err *err);

#endif
