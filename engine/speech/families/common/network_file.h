/* Which ONNX file of a model directory plays which part: exporters decorate the names, as in
 * "encoder-epoch-99-avg-1-chunk-16-left-128.int8.onnx". */
#ifndef STENO_FAMILIES_COMMON_NETWORK_FILE_H
#define STENO_FAMILIES_COMMON_NETWORK_FILE_H

#include "formats/onnx_head.h"

/* Find the file whose name begins with `stem` and ends with ".onnx", or with ".int8.onnx" if int8
 * is wanted. After the stem comes none of a-z, so "encoder" does not find "encoders.onnx", and
 * "decoder" does not find "decoder_joint-model.onnx"; but the endings of transformers.js count:
 * "_int8", "_quantized", "_uint8", "_q4", "_q4f16", "_fp16". If the directory has only the other
 * kind, that one counts, then 4 bits. A name with "fp16" counts if it is the only one. The shortest
 * name wins, then the first in alphabetical order.
 * *out: name without the directory, to be freed by the caller; NULL: there is none, which is no
 * error. STENO_ERR_IO: the directory cannot be read. */
STENO_MUST steno_status steno_network_file_find(char **out, const char *dir, const char *stem,
                                                bool int8, steno_err *err);
/* Read what dir/file says of its network (formats/onnx_head.h). Errors of steno_onnx_head_open;
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_network_file_head(steno_onnx_head **out, const char *dir,
                                                const char *file, steno_err *err);
/* The same of the file that steno_network_file_find finds without int8; NULL: none can be read. The
 * caller closes it. */
steno_onnx_head *steno_network_file_peek(const char *dir, const char *stem);
/* Whether that file is one of those that `is` tells. */
bool steno_network_file_is(const char *dir, const char *stem, bool (*is)(const steno_onnx_head *h));
/* Whether a name says that the network in it is quantized to 8 bits. */
bool steno_network_file_is_int8(const char *name);

#endif
