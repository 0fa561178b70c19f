/* WebSocket handshakes on connections that libmicrohttpd serves: an upgrade may be any request of a
 * connection. The first request of a connection does not come here, because the acceptor sees it
 * before libmicrohttpd. Confined like its request. */
#ifndef STENO_SERVER_UPGRADE_H
#define STENO_SERVER_UPGRADE_H

#include "server/http/request.h"

/* Append the head of a request as libmicrohttpd has read it: the request line and its headers.
 * STENO_ERR_LIMIT, STENO_ERR_NOMEM. */
#define STENO_UPGRADE_HEAD 32768 /* bytes; more than libmicrohttpd's memory for a head */
STENO_MUST steno_status steno_upgrade_write_head(struct steno_request *rq, struct steno_buf *out);
/* Answer the request, which has no body, if it asks for WebSocket on a path that has it: with 101,
 * after which the socket goes to the WebSocket side with every byte that came behind the head, or
 * with the refusal that a first request gets, after which the connection goes on. False: it does
 * not ask. */
bool steno_upgrade_take(struct steno_request *rq, enum MHD_Result *result);
/* The request is over. Releases an admitted handshake whose 101 could not be sent. */
void steno_upgrade_end(struct steno_request *rq);

#endif
