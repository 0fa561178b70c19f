/* What an ONNX file says of itself: names of the graph's inputs and outputs, the metadata of the
 * model, and whether a quantizer wrote it. Reads no weights, and of the nodes only the operators'
 * names: fast enough to recognize a directory by its files. Field numbers: github.com/onnx/onnx,
 * onnx.proto3. Frozen. */
#ifndef STENO_FORMATS_ONNX_HEAD_H
#define STENO_FORMATS_ONNX_HEAD_H

#include "base/status.h"

typedef struct steno_onnx_head steno_onnx_head;

#define STENO_ONNX_HEAD_NAMES 4096 /* inputs, outputs and metadata entries together */

/* Read a file, or its bytes [n] (borrowed for the call; name is used in messages). STENO_ERR_IO;
 * STENO_ERR_FORMAT: not an ONNX model; STENO_ERR_LIMIT: more than STENO_ONNX_HEAD_NAMES names;
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_onnx_head_open(steno_onnx_head **out, const char *path,
                                             steno_err *err);
STENO_MUST steno_status steno_onnx_head_parse(steno_onnx_head **out, const void *bytes, size_t n,
                                              const char *name, steno_err *err);
void steno_onnx_head_close(steno_onnx_head *h);

size_t steno_onnx_head_n_inputs(const steno_onnx_head *h);
size_t steno_onnx_head_n_outputs(const steno_onnx_head *h);
bool steno_onnx_head_has_input(const steno_onnx_head *h, const char *name);
bool steno_onnx_head_has_output(const steno_onnx_head *h, const char *name);
/* Value of a metadata entry; NULL: there is none. */
const char *steno_onnx_head_meta(const steno_onnx_head *h, const char *key);
/* The nodes include an operator that only quantizers write (MatMulInteger, ConvInteger,
 * DynamicQuantizeLinear, DynamicQuantizeLSTM, DequantizeLinear). */
bool steno_onnx_head_quantized(const steno_onnx_head *h);

#endif
