/* Structs and functions that the files of family ctc_streaming share: model.c (a directory),
 * stream.c (the search of a stream, steps of several streams at once). */
#ifndef STENO_FAMILIES_CTC_INTERNAL_H
#define STENO_FAMILIES_CTC_INTERNAL_H

#include "speech/families/common/cached_stream.h"
#include "speech/families/ctc/conf.h"

/* Frozen after open. */
struct steno_ctc_model {
    struct steno_shell_model base;
    struct steno_model_conf conf;
    int32_t blank;
    steno_network *network;
    struct steno_cached_encoder encoder; /* how its inputs and outputs are used */
    float *quiet;                        /* [frames, vocab] scores of a window without speech */
};

/* stream.c: of struct steno_shell, and of struct steno_family. */
STENO_MUST steno_status steno_ctc_stream_open(void *stream, const void *model,
                                              struct steno_family_stream *o, steno_err *err);
STENO_MUST steno_status steno_ctc_worker_open(void *worker, const void *model, int max,
                                              steno_err *err);
STENO_MUST steno_status steno_ctc_reset(void *state, enum steno_reset what, steno_err *err);
STENO_MUST steno_status steno_ctc_skip(void *state);
void steno_ctc_step(void *worker, struct steno_step_item *items, size_t n, int size,
                    struct steno_network_time *spent);

#endif
