/* WebSocket handshakes on connections that libmicrohttpd serves: an upgrade may be any request of a
 * connection. The first request of a connection does not come here, because the acceptor sees it
 * before libmicrohttpd. Confined like its request. */
#ifndef STENO_SERVER_UPGRADE_H
#define STENO_SERVER_UPGRADE_H

#include "server/request.h"

/* Whether the request, which has no body, asks for WebSocket on a path that has it. */
bool steno_upgrade_asked(struct steno_request *rq);
/* Answer it: 101, after which the socket goes to the WebSocket side with every byte that came
 * behind the head, or the refusal that a first request gets, after which the connection goes on. */
enum MHD_Result steno_upgrade_answer(struct steno_request *rq);
/* The request is over. Releases an admitted handshake whose 101 could not be sent. */
void steno_upgrade_end(struct steno_request *rq);

#endif
