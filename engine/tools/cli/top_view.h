/* The text that `steno top` shows of a server, made from the answer of the administrator's socket
 * to `status` (server/watch/admin.h). Pure. */
#ifndef STENO_CLI_TOP_VIEW_H
#define STENO_CLI_TOP_VIEW_H

#include "base/buf.h"

struct json_t;

/* Append lines about a server to out. now, before: two answers; rates, latencies and batch sizes
 * are those of the time between them. before NULL: of the time since the server's start. seconds:
 * time between the two. STENO_ERR_FORMAT: not such an answer. */
STENO_MUST steno_status top_view(struct steno_buf *out, const struct json_t *now,
                                 const struct json_t *before, double seconds, steno_err *err);
/* Copy at most `rows` lines of text, each cut to `width` columns (bytes of ASCII) and followed by
 * `end`. */
STENO_MUST steno_status top_fit(struct steno_buf *out, const char *text, int width, int rows,
                                const char *end);

#endif
