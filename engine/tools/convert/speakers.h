/* Checkpoints of the networks that tell speakers apart -> ONNX with the metadata of sherpa-onnx
 * (docs/speakers.md): pyannote's segmentation (PyanNet) and 3D-Speaker's CAM++. */
#ifndef STENO_CONVERT_SPEAKERS_H
#define STENO_CONVERT_SPEAKERS_H

#include "tools/convert/bundle.h"
#include "tools/convert/convert.h"

/* Is it such a checkpoint, or a directory with one (*.bin, *.pt, *.ckpt)? Its weights say so. */
bool steno_convert_speakers_probe(const struct steno_bundle *b);
/* Write segmentation.onnx or embedding.onnx, or both if a directory has both checkpoints, to
 * directory `out`, which is made if need be; other files in it stay. STENO_ERR_INVAL: two
 * checkpoints of one kind. STENO_ERR_UNSUPPORTED: another architecture. STENO_ERR_FORMAT names the
 * weight or number that is missing or contradicts. */
STENO_MUST steno_status steno_convert_speakers(const struct steno_bundle *b, const char *out,
                                               const struct steno_convert_options *o,
                                               steno_err *err);

#endif
