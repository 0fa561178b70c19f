/* HTTP: a libmicrohttpd daemon without a listening socket. Its few threads own the connections that
 * the acceptor hands over; requests are routed by routes.c. Nothing in these threads waits or
 * computes: a request whose answer takes time is suspended and its work goes to jobs. */
#ifndef STENO_SERVER_HTTP_H
#define STENO_SERVER_HTTP_H

#include "server/acceptor.h"
#include "server/request.h"

typedef struct steno_http steno_http;

/* services and acceptor outlive it. */
STENO_MUST steno_status steno_http_open(steno_http **out, const struct steno_services *services,
                                        steno_acceptor *acceptor, steno_err *err);
/* Take over fd. Any thread. */
void steno_http_add(steno_http *http, int fd, const struct steno_peer *peer);
/* Close every connection, join the threads. No request may be suspended any more. Accepts NULL. */
void steno_http_close(steno_http *http);

#endif
