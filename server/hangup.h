/* Watches connections whose requests wait for an answer: libmicrohttpd looks neither for a client
 * that went away nor at the clock while a connection is suspended (microhttpd.h, on
 * MHD_suspend_connection). One thread. Locked.
 *
 * A client that only closes its sending side (shutdown(SHUT_WR)) counts as gone: it cannot be told
 * apart from one that closed the connection. */
#ifndef STENO_SERVER_HANGUP_H
#define STENO_SERVER_HANGUP_H

#include "base/status.h"

typedef struct steno_hangup steno_hangup;
typedef uint64_t steno_hangup_id; /* 0: none */

/* Runs on the watcher's thread, at most once per watch, without a lock of this module. */
typedef void (*steno_hangup_fn)(void *user, bool timed_out);

STENO_MUST steno_status steno_hangup_open(steno_hangup **out, int max, steno_err *err);
void steno_hangup_close(steno_hangup *h); /* accepts NULL */
/* Call fn when the peer of fd goes away or CLOCK_MONOTONIC passes deadline_ns (0: never). fd stays
 * the caller's and must be open until forget. 0 when all places are taken or epoll fails: then
 * there is no watching. */
steno_hangup_id steno_hangup_watch(steno_hangup *h, int fd, int64_t deadline_ns, steno_hangup_fn fn,
                                   void *user);
/* After it fn does not run and will not. Not from fn. Id 0: nothing. */
void steno_hangup_forget(steno_hangup *h, steno_hangup_id id);

#endif
