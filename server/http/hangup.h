/* Watches connections whose requests wait for an answer. While a connection is suspended,
 * libmicrohttpd notices neither that the client left nor that time has passed (microhttpd.h, on
 * MHD_suspend_connection). One thread. Locked.
 *
 * A client that only closes its sending side (shutdown(SHUT_WR)) looks like one that closed the
 * connection, until the server writes to it: then the kernel of a client that left answers with a
 * reset. The callback is told about such a client, and may write. */
#ifndef STENO_SERVER_HTTP_HANGUP_H
#define STENO_SERVER_HTTP_HANGUP_H

#include "base/status.h"

typedef struct steno_hangup steno_hangup;
typedef uint64_t steno_hangup_id; /* 0: none */

enum steno_hangup_why {
    STENO_HANGUP_HALF, /* the peer sends nothing more; watching goes on */
    STENO_HANGUP_GONE,
    STENO_HANGUP_LATE /* the deadline has passed */
};

/* Runs on the watcher's thread and without a lock of this module: once per watch for GONE or LATE,
 * and at most once before that for HALF. */
typedef void (*steno_hangup_fn)(void *user, enum steno_hangup_why why);

STENO_MUST steno_status steno_hangup_open(steno_hangup **out, int max, steno_err *err);
void steno_hangup_close(steno_hangup *h); /* accepts NULL */
/* Call fn when the peer of fd goes away or CLOCK_MONOTONIC passes deadline_ns (0: never). fd
 * belongs to the caller and must stay open until forget. Returns 0, and does not watch, when all
 * places are taken or epoll fails. */
steno_hangup_id steno_hangup_watch(steno_hangup *h, int fd, int64_t deadline_ns, steno_hangup_fn fn,
                                   void *user);
/* Set another deadline. Unknown ids are ignored. Any thread. */
void steno_hangup_extend(steno_hangup *h, steno_hangup_id id, int64_t deadline_ns);
/* Stop watching. When it returns, fn does not run and will not run. Not to be called from fn. Id 0
 * is ignored. */
void steno_hangup_forget(steno_hangup *h, steno_hangup_id id);

#endif
