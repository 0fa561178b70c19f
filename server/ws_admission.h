/* Who comes in: all that a WebSocket handshake may be refused for before there is a session, asked
 * for on the acceptor's thread, so that who is turned away under load costs neither a connection of
 * libwebsockets nor a turn of its thread. Any thread; nothing waits. */
#ifndef STENO_SERVER_WS_ADMISSION_H
#define STENO_SERVER_WS_ADMISSION_H

#include "protocol/dialect.h"
#include "server/handshake.h"
#include "server/log.h"
#include "server/ws.h"

#define STENO_REQUEST_ID 72 /* bytes with the NUL */

/* Somebody at the door. hs is the caller's, the rest is found out here. */
struct steno_ws_handshake {
    struct steno_handshake hs;
    const struct steno_dialect *dialect;
    enum steno_session_api api;
    steno_key *key; /* NULL: nobody's */
    bool resumes;   /* names a session, which has its places; entered is false then */
    bool entered;   /* holds a place of the limits and of the key */
};

/* An answer other than 101. */
struct steno_ws_refusal {
    int status;
    const char *code;
    double retry_after; /* s, of 429 and 503 */
    bool deepgram;      /* said in Deepgram's form */
    char request_id[STENO_REQUEST_ID];
    char message[sizeof((steno_err *)0)->msg];
};

/* Whether a dialect is served at this path. Pure. */
bool steno_ws_serves(const struct steno_config *conf, const char *path, size_t len);

/* Confined to the acceptor's thread. */
struct steno_ws_admission {
    const struct steno_server *srv;
    const struct steno_ws_owner *owner;
    void *user;
    struct steno_log_ration lines; /* about the refused */
};

/* fd: a socket whose request head, [len] bytes, is still unread. True: let in, the head is read and
 * *g filled. False: answered (404, 426 or 400, 401, 503, 429, asked in this order; counted in
 * steno_sessions_rejected_total), or gone already; fd is no longer the caller's, and the owner has
 * heard that it is closed. */
STENO_MUST bool steno_ws_admit(struct steno_ws_admission *d, int fd, const struct steno_peer *peer,
                               const char *head, size_t len, struct steno_ws_handshake *g);
/* Who was let in goes before there was a session: its places are free, its handshake is freed. */
void steno_ws_handshake_release(const struct steno_server *srv, struct steno_ws_handshake *g);
/* The client's own X-Request-Id when it is short and harmless in a log line, else `own`. */
void steno_ws_request_id(char out[STENO_REQUEST_ID], const struct steno_handshake *hs,
                         const char *own);
/* The subprotocol to answer with; "" for none. */
const char *steno_ws_subprotocol(const struct steno_dialect *d, const struct steno_handshake *hs);
/* Append a refusal as a whole HTTP answer. */
STENO_MUST steno_status steno_ws_write_refusal(struct steno_buf *out,
                                               const struct steno_ws_refusal *no);

#endif
