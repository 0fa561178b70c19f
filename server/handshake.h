/* The request of a WebSocket handshake (RFC 6455, 4.2) and our answer to it. Pure, but for memory:
 * the head is copied. Confined. */
#ifndef STENO_SERVER_HANDSHAKE_H
#define STENO_SERVER_HANDSHAKE_H

#include "base/buf.h"

struct steno_handshake {
    char *memory;                        /* what the others point into */
    const char *target;                  /* path and query as they came */
    const char *key, *version;           /* Sec-WebSocket-*; "" = absent, as below */
    const char *protocols;               /* Sec-WebSocket-Protocol */
    const char *authorization, *api_key; /* Authorization, X-API-Key */
    const char *request_id;              /* X-Request-Id */
    const char *beta;                    /* OpenAI-Beta */
};

/* head: [len] a request head that asks for an upgrade. STENO_ERR_NOMEM, STENO_ERR_FORMAT. Of a
 * header that comes twice the first counts. */
STENO_MUST steno_status steno_handshake_parse(struct steno_handshake *h, const char *head,
                                              size_t len, steno_err *err);
void steno_handshake_free(struct steno_handshake *h);

/* Whether one of the comma-separated names in a header is this one. */
bool steno_handshake_offers(const char *list, const char *name);
/* "token, KEY": how browsers, which cannot send headers with a WebSocket, bring an API key. True
 * with the key in out [size]. */
bool steno_handshake_token(const char *list, char *out, size_t size);
/* What is wrong with version and key; NULL when nothing is. *status: 426 or 400. */
const char *steno_handshake_check(const struct steno_handshake *h, int *status);
/* Append the 101 answer. protocol: the chosen subprotocol, "" = none; extra: further header lines,
 * each ended by CR LF. */
STENO_MUST steno_status steno_handshake_accept(const struct steno_handshake *h,
                                               const char *protocol, const char *extra,
                                               struct steno_buf *out);
#endif
