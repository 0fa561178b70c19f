/* The administrator's socket: a stream socket in the file system that only the daemon's own user
 * (and root) can open. A client sends lines and gets one JSON object per line:
 *
 *     status     what runs: models, their pools, every metric as "name{labels}": value
 *     drain      /readyz answers 503 and agent checks "drain", so that balancers send nobody new;
 *                who comes is served. maint: the same with "maint". ready: takes both back
 *     reload     the same as SIGHUP; the answer comes at once, before the reload is done
 *
 * The answer to any other line is {"error": "..."}. One thread serves a few clients with poll(2). A
 * new client replaces the one that has been silent longest. Used by `steno top`. */
#ifndef STENO_SERVER_WATCH_ADMIN_H
#define STENO_SERVER_WATCH_ADMIN_H

#include "base/buf.h"
#include "server/core/server.h"

typedef struct steno_admin steno_admin;

/* Open the socket that conf->admin names; "" means no socket and sets *out to NULL. A socket file
 * that nobody listens on is replaced. STENO_ERR_IO names the path. */
STENO_MUST steno_status steno_admin_open(steno_admin **out, struct steno_server *srv,
                                         steno_err *err);
/* Join the thread and remove the socket. Accepts NULL. */
void steno_admin_close(steno_admin *a);

/* Append the answer to `status`, without a line end. */
STENO_MUST steno_status steno_admin_status(struct steno_server *srv, struct steno_buf *out);

#endif
