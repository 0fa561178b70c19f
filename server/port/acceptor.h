/* The one port. It accepts connections, waits for each request head without removing it from the
 * socket (MSG_PEEK, edge-triggered, with a deadline), and hands the socket to the part that serves
 * the request.
 *
 * One thread, one epoll instance. The acceptor itself answers 408 to a head that does not come in
 * time, 431 to one that is too long, and 503 over the limits of connections. It also lingers: it
 * reads what a client still sends after its request was refused, so that closing does not reset the
 * connection before the client has read the answer. Locked: stop and linger from any thread. */
#ifndef STENO_SERVER_PORT_ACCEPTOR_H
#define STENO_SERVER_PORT_ACCEPTOR_H

#include "base/status.h"
#include "server/base/stats.h"
#include "server/port/address.h"
#include "server/port/proxy.h"
#include "server/port/settings.h"
#include "server/port/tls.h"

#include <sys/socket.h>

typedef struct steno_acceptor steno_acceptor;

struct steno_peer {
    struct sockaddr_storage addr;
    socklen_t len;
};

/* head: [len] the request head up to and including its empty line, not NUL-terminated. NULL: the
 * connection came to an address of set->wyoming_listen, whose clients send none. The callback
 * takes ownership of fd, which is non-blocking and has every byte still unread. Runs on the
 * acceptor's thread. */
typedef void (*steno_acceptor_fn)(void *user, int fd, const struct steno_peer *peer,
                                  const char *head, size_t len);

/* Open the listening sockets (steno_listeners_open) and what serves them. set is copied. */
STENO_MUST steno_status steno_acceptor_open(steno_acceptor **out,
                                            const struct steno_port_settings *set,
                                            struct steno_stats *stats, steno_acceptor_fn fn,
                                            void *user, steno_err *err);
/* Connections that begin with a TLS hello go through tls, which outlives the acceptor's thread.
 * Before start; without it they are closed. */
void steno_acceptor_use_tls(steno_acceptor *a, steno_tls *tls);
/* Accept from now on. STENO_ERR_INTERNAL when no thread can be made. */
STENO_MUST steno_status steno_acceptor_start(steno_acceptor *a, steno_err *err);
/* Close the listening sockets, wait for lingering clients (at most 2 s) and join the thread. No
 * connection is handed over after it. Those handed over before are not touched, and closed and
 * linger may still be called. */
void steno_acceptor_stop(steno_acceptor *a);
/* Stop, if not done, and release. Accepts NULL. */
void steno_acceptor_close(steno_acceptor *a);
/* "http://127.0.0.1:8080", "wyoming://127.0.0.1:10300": the bound address i with its real port;
 * NULL past the last one. */
const char *steno_acceptor_url(const steno_acceptor *a, size_t i);
/* As steno_listeners_wyoming_port. */
uint16_t steno_acceptor_wyoming_port(const steno_acceptor *a);
/* Tell that a connection which was handed over has ended; it no longer counts in the limits. */
void steno_acceptor_closed(steno_acceptor *a, const struct steno_peer *peer);
/* The connection of peer, which is a proxy's, is client's: count it there, and write client to
 * peer. False: client has limits.connections_per_address already; nothing changed. */
STENO_MUST bool steno_acceptor_recount(steno_acceptor *a, struct steno_peer *peer,
                                       const struct sockaddr_storage *client);
/* Count a request of client, whose connection is a proxy's, as a connection of client's, and end
 * that. False, as above: nothing changed. */
STENO_MUST bool steno_acceptor_enter(steno_acceptor *a, const struct sockaddr_storage *client);
void steno_acceptor_leave(steno_acceptor *a, const struct sockaddr_storage *client);
/* Take ownership of fd, which is already shut down for writing. Discard what comes until its end,
 * at most 2 s. */
void steno_acceptor_linger(steno_acceptor *a, int fd);

#endif
