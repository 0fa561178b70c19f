/* A stream taken apart: what the pool needs to run the networks of many streams together.
 * steno_stream_push is feed + step in a loop. Confined, as the stream. */
#ifndef STENO_MODELS_STREAM_H
#define STENO_MODELS_STREAM_H

#include "steno.h"

/* Take samples until a network window is full or all are taken. *used <= n. */
STENO_MUST steno_status steno_stream_feed(steno_stream *s, const float *pcm, size_t n, size_t *used,
                                          steno_err *err);
/* A window is full: step must come before more feed. */
bool steno_stream_ready(const steno_stream *s);
/* Input samples that are missing until a window is full, about: with fewer of them no step will
 * come. At least 1 while not ready, 0 when ready. */
size_t steno_stream_missing(const steno_stream *s);
/* Run the network once for each of n ready streams of one model; st[i] and err[i] (err may be NULL)
 * tell how it went. Today one after the other; a batch here is what docs/pool.md plans. */
void steno_streams_step(steno_stream *const *s, size_t n, steno_status *st, steno_err *err);

#endif
