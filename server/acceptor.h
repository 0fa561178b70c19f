/* The one port: accepts connections, waits for each request head without taking it from the socket
 * (MSG_PEEK, edge-triggered, with a deadline), and hands the socket to whoever serves the request.
 *
 * One thread, one epoll instance. What it does itself: 408 for a head that does not come in time,
 * 431 for one that is too long, 503 over the limits of connections, and lingering: reading what a
 * client still sends after its request was refused, so that closing does not reset the connection
 * before the client has read the answer. Locked: stop and linger from any thread. */
#ifndef STENO_SERVER_ACCEPTOR_H
#define STENO_SERVER_ACCEPTOR_H

#include "base/status.h"
#include "server/config.h"
#include "server/stats.h"

#include <sys/socket.h>

typedef struct steno_acceptor steno_acceptor;

struct steno_peer {
    struct sockaddr_storage addr;
    socklen_t len;
};

/* head: [len] the request head up to and including its empty line, not NUL-terminated. Takes fd
 * over, non-blocking, with every byte still unread. Runs on the acceptor's thread. */
typedef void (*steno_acceptor_fn)(void *user, int fd, const struct steno_peer *peer,
                                  const char *head, size_t len);

/* Bind every address of conf->listen (or take over the sockets systemd passed: sd_listen_fds(3)).
 * STENO_ERR_IO names the address ("127.0.0.1:8080: Address already in use"). */
STENO_MUST steno_status steno_acceptor_open(steno_acceptor **out, const struct steno_config *conf,
                                            struct steno_stats *stats, steno_acceptor_fn fn,
                                            void *user, steno_err *err);
/* Accept from now on. STENO_ERR_INTERNAL when no thread can be made. */
STENO_MUST steno_status steno_acceptor_start(steno_acceptor *a, steno_err *err);
/* Close the listening sockets, see lingering clients off (at most 2 s) and join the thread. After
 * it no connection is handed over any more; those that were are not touched, and closed and linger
 * may still be called. */
void steno_acceptor_stop(steno_acceptor *a);
/* Stop, if not done, and release. Accepts NULL. */
void steno_acceptor_close(steno_acceptor *a);
/* "http://127.0.0.1:8080": address i as bound (real port); NULL past the last. */
const char *steno_acceptor_url(const steno_acceptor *a, size_t i);
/* A connection handed over has ended (frees its share of the limits). */
void steno_acceptor_closed(steno_acceptor *a, const struct steno_peer *peer);
/* Take over fd (already shut down for writing): discard what comes until the end, at most 2 s. */
void steno_acceptor_linger(steno_acceptor *a, int fd);

#endif
