/* What `steno top` shows of a server, as text, from what its administrator's socket answers to
 * `status` (server/admin.h). Pure. */
#ifndef STENO_CLI_TOP_VIEW_H
#define STENO_CLI_TOP_VIEW_H

#include "base/buf.h"

struct json_t;

/* now, before: two answers; rates, latencies and batch sizes are those of the time between. before
 * NULL: of all the time since the server's start. seconds: between the two. Appends lines to out.
 * STENO_ERR_FORMAT: this is no such answer. */
STENO_MUST steno_status top_view(struct steno_buf *out, const struct json_t *now,
                                 const struct json_t *before, double seconds, steno_err *err);
/* Copy lines of text, each cut to `width` columns (bytes of ASCII), at most `rows` of them, with
 * `end` behind each. */
STENO_MUST steno_status top_fit(struct steno_buf *out, const char *text, int width, int rows,
                                const char *end);

#endif
