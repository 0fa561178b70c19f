/* The part of an HTTP request head that the acceptor must know to choose who serves it. Pure. */
#ifndef STENO_SERVER_PORT_HEAD_H
#define STENO_SERVER_PORT_HEAD_H

#include "base/status.h"

/* Length of the head at p [n] with its empty line; 0 while it is incomplete. A bare LF also ends a
 * line (RFC 9112, 2.2). */
size_t steno_request_head_length(const char *p, size_t n);

/* The path of the request target, and whether the head asks for WebSocket (RFC 6455, 4.2.1). */
struct steno_request_head {
    const char *path;   /* in head */
    size_t path_len;    /* without the query */
    const char *prefix; /* X-Forwarded-Prefix, in head; NULL: none */
    size_t prefix_len;
    bool upgrade; /* GET with "Upgrade: websocket" and "Connection: ... upgrade" */
};
/* Say what is wrong with the headers of a head; NULL when nothing is. Wrong is what two readers
 * could understand differently, so that a request hides in another one's body or goes to another
 * host (RFC 9112, 3.2, 5.1 and 6): a Content-Length that is not a number below 2^63, two of them,
 * one beside Transfer-Encoding, a Transfer-Encoding other than one "chunked" of HTTP/1.1, no Host
 * in HTTP/1.1 or two of them, a name with a blank before its colon, folded lines. */
const char *steno_request_head_framing(const char *head, size_t len);
/* The value of the first header `name` in p [n], a head or the part of it that has come, without
 * blanks around; NULL: there is none. *len: its bytes. */
const char *steno_request_head_value(const char *p, size_t n, const char *name, size_t *len);
/* Parse a head. False when its first line is not an HTTP request. */
bool steno_request_head_parse(const char *head, size_t len, struct steno_request_head *out);

#endif
