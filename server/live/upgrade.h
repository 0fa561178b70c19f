/* WebSocket handshakes on connections that libmicrohttpd serves: an upgrade may be any request of a
 * connection. The first request of a connection does not come here, because the acceptor sees it
 * before libmicrohttpd. Confined like its request. */
#ifndef STENO_SERVER_LIVE_UPGRADE_H
#define STENO_SERVER_LIVE_UPGRADE_H

#include "server/http/request.h"

/* take: answer the request, which has no body, if it asks for WebSocket on a path that has it: with
 * 101, after which the socket goes to the WebSocket side with every byte that came behind the head,
 * or with the refusal that a first request gets, after which the connection goes on. False: it does
 * not ask.
 * end: the request is over. Releases an admitted handshake whose 101 could not be sent. */
extern const struct steno_live_calls steno_upgrade_calls;

#endif
