/* Requests over one kept HTTP/1.1 connection on a plain non-blocking socket, one at a time. For our
 * own server: answers have a Content-Length. Confined. */
#ifndef STENO_LOADTEST_HTTP_CLIENT_H
#define STENO_LOADTEST_HTTP_CLIENT_H

#include "base/buf.h"
#include "loadtest/support/url.h"

struct load_http {
    int fd; /* -1: not connected */
    struct steno_buf head, answer;
    const char *body;      /* borrowed */
    size_t body_len, sent; /* of head and body together */
    int status;            /* of the answer, once it is whole; -1: the connection failed */
    int retry_after;       /* s, what the answer says; 0 = nothing */
    size_t at;             /* where its body begins */
    bool want_out;         /* something is left to send */
};

void load_http_init(struct load_http *h);
/* Give up the connection; the next request makes one. */
void load_http_disconnect(struct load_http *h);
void load_http_close(struct load_http *h);
/* Begin a POST of body [n], borrowed until the answer (n = 0: a GET), connecting if need be. head:
 * more header lines, each with its CRLF. */
STENO_MUST steno_status load_http_begin(struct load_http *h, const struct load_url *u,
                                        const char *head, const char *body, size_t n,
                                        steno_err *err);
/* Write and read what the socket takes and has; true when the request is over (status). */
bool load_http_pump(struct load_http *h);

#endif
