/* Watches connections whose requests wait for an answer: libmicrohttpd looks neither for a client
 * that went away nor at the clock while a connection is suspended (microhttpd.h, on
 * MHD_suspend_connection). One thread. Locked.
 *
 * A client that only closes its sending side (shutdown(SHUT_WR)) looks like one that closed the
 * connection, until something is written to it: then the kernel of one that left answers with a
 * reset. Who watches is told, and may write. */
#ifndef STENO_SERVER_HANGUP_H
#define STENO_SERVER_HANGUP_H

#include "base/status.h"

typedef struct steno_hangup steno_hangup;
typedef uint64_t steno_hangup_id; /* 0: none */

enum steno_hangup_why {
    STENO_HANGUP_HALF, /* nothing more comes from the peer; watching goes on */
    STENO_HANGUP_GONE,
    STENO_HANGUP_LATE /* the deadline has passed */
};

/* Runs on the watcher's thread, for GONE or LATE once per watch and for HALF at most once before
 * it, without a lock of this module. */
typedef void (*steno_hangup_fn)(void *user, enum steno_hangup_why why);

STENO_MUST steno_status steno_hangup_open(steno_hangup **out, int max, steno_err *err);
void steno_hangup_close(steno_hangup *h); /* accepts NULL */
/* Call fn when the peer of fd goes away or CLOCK_MONOTONIC passes deadline_ns (0: never). fd stays
 * the caller's and must be open until forget. 0 when all places are taken or epoll fails: then
 * there is no watching. */
steno_hangup_id steno_hangup_watch(steno_hangup *h, int fd, int64_t deadline_ns, steno_hangup_fn fn,
                                   void *user);
/* Another deadline; wrong ids mean nothing. Any thread. */
void steno_hangup_extend(steno_hangup *h, steno_hangup_id id, int64_t deadline_ns);
/* After it fn does not run and will not. Not from fn. Id 0: nothing. */
void steno_hangup_forget(steno_hangup *h, steno_hangup_id id);

#endif
