/* A stream taken apart: what the pool needs to run the networks of many streams together.
 * steno_stream_push is feed and step in a loop; finalize and end are flush and step in a loop. */
#ifndef STENO_RECOGNIZER_STREAM_H
#define STENO_RECOGNIZER_STREAM_H

#include "recognizer/batcher.h"

/* Take samples until a step is due or all are taken. *used <= n. Confined. */
STENO_MUST steno_status steno_stream_feed(steno_stream *s, const float *pcm, size_t n, size_t *used,
                                          steno_err *err);
/* A step is due: it must come before more feed. */
bool steno_stream_ready(const steno_stream *s);
/* Input samples that are missing until a step is due, about: with fewer of them none will come. At
 * least 1 while not ready, 0 when ready. */
size_t steno_stream_missing(const steno_stream *s);
/* steno_stream_finalize (or, with `end`, steno_stream_end) in pieces: go on until a step is due,
 * *done = false: step, then call again with the same `end`; or until it is over, *done = true. No
 * feed in between. */
STENO_MUST steno_status steno_stream_flush(steno_stream *s, bool end, bool *done, steno_err *err);

#endif
