/* As much of an HTTP request head as the acceptor needs to know who serves it. Pure. */
#ifndef STENO_SERVER_HEAD_H
#define STENO_SERVER_HEAD_H

#include "base/status.h"

/* Length of the head at p [n] with its empty line (RFC 9112, 2.2: a bare LF also ends a line), 0
 * while it is incomplete. */
size_t steno_request_head_length(const char *p, size_t n);

/* Request target's path and whether the head asks for WebSocket (RFC 6455, 4.2.1). */
struct steno_request_head {
    const char *path; /* in head */
    size_t path_len;  /* without the query */
    bool upgrade;     /* GET with "Upgrade: websocket" and "Connection: ... upgrade" */
};
/* What is wrong with how the head says where the body ends, NULL when nothing is: a Content-Length
 * that is no number below 2^63, one given twice, one beside Transfer-Encoding (RFC 9112, 6.3; two
 * readers could differ about where the next request begins). */
const char *steno_request_head_framing(const char *head, size_t len);
/* False when the first line is no HTTP request. */
bool steno_request_head_parse(const char *head, size_t len, struct steno_request_head *out);

#endif
