/* ESPnet2's checkpoints -> a directory as espnet_onnx writes it (docs/espnet.md). */
#ifndef STENO_CONVERT_ESPNET_H
#define STENO_CONVERT_ESPNET_H

#include "tools/convert/bundle.h"
#include "tools/convert/convert.h"

/* Is it such a checkpoint: meta.yaml, or config.yaml and a *.pth? */
bool steno_convert_espnet_probe(const struct steno_bundle *b);
/* Write directory `out`, which is made if need be. STENO_ERR_UNSUPPORTED names a key and value of
 * the configuration, and what is known. STENO_ERR_FORMAT names the weight or key that is missing or
 * contradicts. STENO_ERR_IO. On failure, files that were written stay; config.yaml, which makes the
 * directory a model, comes last. */
STENO_MUST steno_status steno_convert_espnet(const struct steno_bundle *b, const char *out,
                                             const struct steno_convert_options *o, steno_err *err);

#endif
