/* The administrator's socket: a stream socket in the file system that only the daemon's own user
 * (and root) can open. A client sends lines and gets one JSON object per line:
 *
 *     status     what runs: models, their pools, every metric as "name{labels}": value
 *     reload     what SIGHUP does; answered at once, before it is done
 *
 * Anything else is answered {"error": "..."}. One thread with poll(2), a few clients at once; the
 * one that has been silent longest gives way to a new one. Used by `steno top`. */
#ifndef STENO_SERVER_ADMIN_H
#define STENO_SERVER_ADMIN_H

#include "base/buf.h"
#include "server/server.h"

typedef struct steno_admin steno_admin;

/* conf->admin names the socket; "" = there is none, *out is NULL. A socket that nobody listens on
 * any more is replaced. STENO_ERR_IO names the path. */
STENO_MUST steno_status steno_admin_open(steno_admin **out, struct steno_server *srv,
                                         steno_err *err);
/* Join the thread, remove the socket. Accepts NULL. */
void steno_admin_close(steno_admin *a);

/* The answer to `status`, without a line end. */
STENO_MUST steno_status steno_admin_status(struct steno_server *srv, struct steno_buf *out);

#endif
