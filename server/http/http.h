/* HTTP: a libmicrohttpd daemon without a listening socket. Its few threads own the connections that
 * the acceptor hands over; routes.c routes their requests. These threads neither wait nor compute:
 * a request whose answer takes time is suspended, and its work goes to jobs. */
#ifndef STENO_SERVER_HTTP_HTTP_H
#define STENO_SERVER_HTTP_HTTP_H

#include "server/http/request.h"
#include "server/port/acceptor.h"

typedef struct steno_http steno_http;

/* Start the daemon. services and acceptor outlive it. */
STENO_MUST steno_status steno_http_open(steno_http **out, const struct steno_services *services,
                                        steno_acceptor *acceptor, steno_err *err);
/* Take ownership of fd. Any thread. */
void steno_http_add(steno_http *http, int fd, const struct steno_peer *peer);
/* Close every connection and join the threads. No request may be suspended by then. Accepts NULL.
 */
void steno_http_close(steno_http *http);

#endif
