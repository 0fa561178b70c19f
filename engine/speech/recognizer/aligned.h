/* A stream that looks for the words of a text (steno_stream_open_lines): its final. */
#ifndef STENO_RECOGNIZER_ALIGNED_H
#define STENO_RECOGNIZER_ALIGNED_H

#include "speech/recognizer/stream_internal.h"

/* Open the alignment of lines [n], copied. STENO_ERR_INVAL, STENO_ERR_LIMIT, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_aligned_open(steno_stream *s, const struct steno_line *lines,
                                           size_t n, steno_err *err);
/* The family has its state: tell when frames are. STENO_ERR_UNSUPPORTED: it has no CTC. */
STENO_MUST steno_status steno_aligned_begin(steno_stream *s, steno_err *err);
/* All frames are there: queue the final. STENO_ERR_NOMEM, STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_aligned_final(steno_stream *s, enum steno_final_reason reason);

#endif
