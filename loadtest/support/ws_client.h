/* A WebSocket client connection on a plain non-blocking socket (RFC 6455), small enough for
 * thousands in one thread. Sends text and binary messages, receives text messages, answers pings.
 * For measuring our own server: it does not check Sec-WebSocket-Accept (tests/integration does,
 * with a client written by others). Confined. */
#ifndef STENO_LOADTEST_WS_CLIENT_H
#define STENO_LOADTEST_WS_CLIENT_H

#include "base/buf.h"
#include "loadtest/support/url.h"

enum load_ws_phase { LOAD_WS_HANDSHAKE, LOAD_WS_OPEN, LOAD_WS_CLOSED };

struct load_ws {
    int fd;
    enum load_ws_phase phase;
    int http_status; /* of a refused handshake */
    int retry_after; /* s, of a refused handshake; 0: absent */
    /* As received; 1006 if the connection just ended, 0 before. */
    int close_code;
    char close_reason[124];
    struct steno_buf in, out, message; /* unparsed bytes; unsent bytes; fragments of a message */
    size_t head; /* bytes of `out` that are the upgrade request; the rest waits for its answer */
};

/* Called for each text message; text is NUL-terminated, borrowed. */
typedef void (*load_ws_fn)(void *user, const char *text, size_t n);

/* Begin to connect and queue the upgrade request. head: more header lines, each with its CRLF. */
STENO_MUST steno_status load_ws_open(struct load_ws *w, const struct load_url *u, const char *head,
                                     steno_err *err);
void load_ws_close(struct load_ws *w);
/* Queue one message (masked); pump sends it once the connection is open (RFC 6455, 4.1). */
STENO_MUST steno_status load_ws_send_text(struct load_ws *w, const char *text);
STENO_MUST steno_status load_ws_send_binary(struct load_ws *w, const void *p, size_t n);
/* Write and read without blocking. phase tells when the connection is over. */
void load_ws_pump(struct load_ws *w, load_ws_fn fn, void *user);
/* True if there is something to write now. */
bool load_ws_wants_out(const struct load_ws *w);
/* poll(2) events to wait for. */
short load_ws_events(const struct load_ws *w);

#endif
