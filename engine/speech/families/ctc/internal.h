/* What the files of family ctc_streaming share: model.c (a directory), stream.c (the search of a
 * stream). */
#ifndef STENO_FAMILIES_CTC_INTERNAL_H
#define STENO_FAMILIES_CTC_INTERNAL_H

#include "speech/families/common/shell.h"
#include "speech/families/ctc/conf.h"

/* Frozen after open. */
struct steno_ctc_model {
    struct steno_shell_model base;
    struct steno_model_conf conf;
};

/* stream.c: of struct steno_shell. */
STENO_MUST steno_status steno_ctc_stream_open(void *stream, const void *model,
                                              struct steno_family_stream *o, steno_err *err);

#endif
