/* The request of a WebSocket handshake (RFC 6455, 4.2) and the server's answer. Pure, except that
 * it allocates: the head is copied. Confined. */
#ifndef STENO_SERVER_LIVE_HANDSHAKE_H
#define STENO_SERVER_LIVE_HANDSHAKE_H

#include "base/buf.h"

struct steno_handshake {
    char *memory;                           /* the other fields but model point into it */
    char *model;                            /* that serves it, if its URL names one; else NULL */
    bool answered;                          /* its 101 is sent already */
    const char *target;                     /* path and query, undecoded */
    const char *key, *version;              /* Sec-WebSocket-*; "" = absent, also below */
    const char *protocols;                  /* Sec-WebSocket-Protocol */
    const char *authorization, *api_key;    /* Authorization, X-API-Key */
    const char *request_id;                 /* X-Request-Id */
    const char *beta;                       /* OpenAI-Beta */
    const char *origin, *host, *fetch_site; /* Origin, Host, Sec-Fetch-Site */
    const char *traceparent;
    const char *tracestate[4]; /* the values of so many headers, in order */
    /* X-Forwarded-For, -Prefix and -Host: the last of equal headers, the nearest proxy's */
    const char *forwarded_for, *forwarded_prefix, *forwarded_host;
};

/* Parse head [len], a request head that asks for an upgrade. The first of two equal headers counts.
 * STENO_ERR_NOMEM, STENO_ERR_FORMAT. */
STENO_MUST steno_status steno_handshake_parse(struct steno_handshake *h, const char *head,
                                              size_t len, steno_err *err);
void steno_handshake_free(struct steno_handshake *h);

/* Say what is wrong with version and key; NULL when both are right. *status: 426 or 400. */
const char *steno_handshake_check(const struct steno_handshake *h, int *status);
/* Append the 101 answer. protocol: the chosen subprotocol, "" = none. extra: further header lines,
 * each ended by CR LF. */
STENO_MUST steno_status steno_handshake_accept(const struct steno_handshake *h,
                                               const char *protocol, const char *extra,
                                               struct steno_buf *out);
#endif
