/* NeMo's checkpoints (.nemo) -> a directory as sherpa-onnx's scripts write it (docs/nemo.md). */
#ifndef STENO_CONVERT_NEMO_H
#define STENO_CONVERT_NEMO_H

#include "tools/convert/bundle.h"
#include "tools/convert/convert.h"

/* Is it such a checkpoint: is model_config.yaml there? */
bool steno_convert_nemo_probe(const struct steno_bundle *b);
/* Does it take this flag? */
bool steno_convert_nemo_takes(const char *flag);
/* Write directory `out`, which is made if need be. Flags: decoder, streaming, lookahead
 * (docs/convert.md). STENO_ERR_UNSUPPORTED names a key and value of the configuration, and what is
 * known. STENO_ERR_FORMAT names the weight or key that is missing or contradicts. STENO_ERR_INVAL:
 * a flag does not fit the model. STENO_ERR_IO. On failure, files that were written stay;
 * tokens.txt, which makes the directory a model, comes last. */
STENO_MUST steno_status steno_convert_nemo(const struct steno_bundle *b, const char *out,
                                           const struct steno_convert_options *o, steno_err *err);

#endif
