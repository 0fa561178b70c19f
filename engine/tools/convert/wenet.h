/* WeNet's checkpoints -> a directory of sherpa-onnx's or of WeNet's own runtime (docs/wenet.md). */
#ifndef STENO_CONVERT_WENET_H
#define STENO_CONVERT_WENET_H

#include "tools/convert/bundle.h"
#include "tools/convert/convert.h"

/* Is it such a checkpoint: train.yaml and a *.pt? */
bool steno_convert_wenet_probe(const struct steno_bundle *b);
/* Does it take this flag? */
bool steno_convert_wenet_takes(const char *flag);
/* Write directory `out`, which is made if need be. Flags: layout ("wenet", the default: encoder,
 * CTC and decoder; "sherpa": a network with CTC), chunk-size (frames; -1: whole utterances),
 * left-chunks.
 * STENO_ERR_INVAL: a value that does not fit. STENO_ERR_UNSUPPORTED names a key
 * and value of the configuration, and what is known. STENO_ERR_FORMAT names the weight, key or file
 * that is missing or contradicts. STENO_ERR_IO. On failure, files that were written stay; the
 * tokens, which make the directory a model, come last. */
STENO_MUST steno_status steno_convert_wenet(const struct steno_bundle *b, const char *out,
                                            const struct steno_convert_options *o, steno_err *err);

#endif
