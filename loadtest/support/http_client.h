/* Requests over one persistent HTTP/1.1 connection on a plain non-blocking socket, one at a time.
 * For our own server: answers must have a Content-Length. Confined. */
#ifndef STENO_LOADTEST_HTTP_CLIENT_H
#define STENO_LOADTEST_HTTP_CLIENT_H

#include "base/buf.h"
#include "loadtest/support/url.h"

struct load_http {
    int fd; /* -1: not connected */
    struct steno_buf head, answer;
    const char *body;      /* borrowed */
    size_t body_len, sent; /* of head and body together */
    int status;            /* of the answer, once it is complete; -1: the connection failed */
    int retry_after;       /* s, from the answer; 0: absent */
    size_t at;             /* offset of the answer's body */
    bool want_out;         /* bytes are left to send */
};

void load_http_init(struct load_http *h);
/* Drop the connection; the next request opens a new one. */
void load_http_disconnect(struct load_http *h);
void load_http_close(struct load_http *h);
/* Begin a POST of body [n], borrowed until the answer (n = 0: a GET). Connects if needed. head:
 * more header lines, each with its CRLF. */
STENO_MUST steno_status load_http_begin(struct load_http *h, const struct load_url *u,
                                        const char *head, const char *body, size_t n,
                                        steno_err *err);
/* Write and read without blocking; true when the request is over (see status). */
bool load_http_pump(struct load_http *h);

#endif
