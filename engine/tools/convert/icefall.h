/* icefall's checkpoints of Zipformer, Conformer and LSTM recipes -> a directory that sherpa-onnx
 * loads too (docs/icefall.md). */
#ifndef STENO_CONVERT_ICEFALL_H
#define STENO_CONVERT_ICEFALL_H

#include "tools/convert/bundle.h"
#include "tools/convert/convert.h"

/* Options of icefall's train.py and export scripts that are understood, besides --chunk-size. */
struct steno_icefall_option {
    const char *name, *arg, *about; /* "--chunk-size" */
};
#define STENO_ICEFALL_OPTIONS 26
extern const struct steno_icefall_option steno_icefall_options[STENO_ICEFALL_OPTIONS];

/* Is it such a checkpoint: a file of torch.save, or a directory with one (itself or in exp/)? */
bool steno_convert_icefall_probe(const struct steno_bundle *b);
/* Does it take this flag? */
bool steno_convert_icefall_takes(const char *flag);
/* Write directory `out`, which is made if need be. STENO_ERR_INVAL: an option that contradicts the
 * weights or itself, or that is needed and not given. STENO_ERR_UNSUPPORTED: another architecture.
 * STENO_ERR_FORMAT names the weight that is missing or contradicts. STENO_ERR_IO: no tokens.txt.
 * On failure, files that were written stay; tokens.txt, which makes the directory a model, comes
 * last. */
STENO_MUST steno_status steno_convert_icefall(const struct steno_bundle *b, const char *out,
                                              const struct steno_convert_options *o,
                                              steno_err *err);

#endif
