/* ONNX Runtime's own file format (".ort"): a FlatBuffer with the model after that runtime's
 * optimizer. It has the content of an ONNX model, so it is rewritten as one. Source:
 * onnxruntime/core/flatbuffers/schema/ort.fbs. */
#ifndef STENO_NN_ONNX_ORT_FORMAT_H
#define STENO_NN_ONNX_ORT_FORMAT_H

#include "base/buf.h"

/* Whether the bytes begin like such a file. */
bool steno_ort_format_is(const void *data, size_t n);
/* Append the ONNX model (protobuf) of the bytes to out, which the caller has initialised and frees.
 * STENO_ERR_FORMAT: broken; STENO_ERR_UNSUPPORTED: nodes that the runtime has compiled, sparse
 * tensors, values that are not tensors; STENO_ERR_LIMIT: nesting, size; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ort_format_to_onnx(const void *data, size_t n, struct steno_buf *out,
                                                 steno_err *err);

#endif
