/* The networks that tell speakers apart as graphs, in the layout that sherpa-onnx reads. */
#ifndef STENO_CONVERT_SPEAKERS_GRAPHS_H
#define STENO_CONVERT_SPEAKERS_GRAPHS_H

#include "tools/convert/make.h"

/* Extent `axis` of a weight below the prefix; m->st is set if it is not there or over 16384. */
int64_t steno_speaker_extent(struct steno_make *m, const char *name, int axis);

/* Rows of NAME.weight below the prefix: what a layer gives. */
int64_t steno_speaker_outputs(struct steno_make *m, const char *name);

/* Write a network. The errors are those of steno_convert_speakers. */
STENO_MUST steno_status steno_speaker_write_pyannote(const struct steno_make_weights *w,
                                                     const char *path, steno_err *err);
STENO_MUST steno_status steno_speaker_write_campplus(const struct steno_make_weights *w,
                                                     const char *path, steno_err *err);

#endif
