/* Admission of WebSocket handshakes: every check that can refuse one before a session exists. For
 * the first request of a connection it runs on the acceptor's thread, so under load a refused
 * client costs neither a libwebsockets connection nor time of its thread. Any thread; nothing
 * waits. */
#ifndef STENO_SERVER_LIVE_WS_ADMISSION_H
#define STENO_SERVER_LIVE_WS_ADMISSION_H

#include "protocol/dialect.h"
#include "server/base/log.h"
#include "server/live/handshake.h"
#include "server/live/ws.h"
#include "server/watch/trace.h"

#include <pthread.h>

#define STENO_REQUEST_ID 72 /* bytes with the NUL */

/* A handshake. The caller owns hs; admission fills the rest. */
struct steno_ws_handshake {
    struct steno_handshake hs;
    const struct steno_dialect *dialect;
    enum steno_session_api api;
    steno_key *key;         /* NULL: no key */
    char *session;          /* settings that came with an ephemeral key; NULL = none */
    bool late_key;          /* it is due with the first message: there are keys */
    bool resumes;           /* names a session, which has its places; then entered is false */
    bool entered;           /* holds a place of the limits and of the key */
    char id[STENO_ID_SIZE]; /* of the session to be */
    char request_id[STENO_REQUEST_ID];
    struct steno_trace trace;
};

/* An answer other than 101. */
struct steno_ws_refusal {
    int status;
    const char *code;
    double retry_after;                       /* s, for 429 and 503 */
    bool deepgram;                            /* answered in Deepgram's form */
    char traceparent[STENO_TRACEPARENT_SIZE]; /* of the answer; "": none */
    char tracestate[STENO_TRACESTATE_SIZE];   /* likewise */
    char request_id[STENO_REQUEST_ID];
    char message[sizeof((steno_err *)0)->msg];
};

/* Fill *no, but for what the connection knows. Returns false. */
bool steno_ws_refuse(struct steno_ws_refusal *no, int status, const char *code, const char *message,
                     double retry_after);

/* Whether a request head [len] asks for WebSocket on a path that has it. Pure. */
bool steno_ws_asked(const struct steno_server *srv, const struct steno_peer *peer, const char *head,
                    size_t len);

/* Locked. */
struct steno_ws_admission {
    const struct steno_server *srv;
    const struct steno_ws_owner *owner;
    void *user;
    pthread_mutex_t lock;          /* guards lines */
    struct steno_log_ration lines; /* about the refused */
};

/* Admit or refuse a socket fd whose request head, [len] bytes, is still unread. True: admitted; the
 * head is read and *g filled. False: answered (404, 426 or 400, 401, 503, 429, checked in this
 * order; counted in steno_sessions_rejected_total), or the client is gone. Then fd no longer
 * belongs to the caller, and the owner was told that it is closed. */
STENO_MUST bool steno_ws_admit(struct steno_ws_admission *d, int fd, struct steno_peer *peer,
                               const char *head, size_t len, struct steno_ws_handshake *g);
/* The same for a Wyoming client, which sends no head. A refused one gets an error event. */
STENO_MUST bool steno_ws_admit_wyoming(struct steno_ws_admission *d, int fd,
                                       const struct steno_peer *peer, struct steno_ws_handshake *g);
/* Decide about a request head whose answer the caller writes: what steno_ws_admit decides, without
 * a socket. True: admitted, *g is filled. False: *no says why; it is counted and has its log line.
 */
STENO_MUST bool steno_ws_decide(struct steno_ws_admission *d, struct steno_peer *peer,
                                const char *head, size_t len, struct steno_ws_handshake *g,
                                struct steno_ws_refusal *no);
/* Release an admitted handshake that ends before it has a session: its places and its memory. */
void steno_ws_handshake_release(const struct steno_server *srv, struct steno_ws_handshake *g);
/* The client's X-Request-Id when it is short and harmless in a log line, else `own`. */
void steno_ws_request_id(char out[STENO_REQUEST_ID], const struct steno_handshake *hs,
                         const char *own);
/* Report the trace of a handshake that was refused, or is to be, and put it into *no. started: of
 * steno_now_ns; client NULL: not known. */
void steno_ws_trace_refusal(const struct steno_server *srv, const struct steno_ws_handshake *g,
                            int64_t started, const struct sockaddr_storage *client,
                            struct steno_ws_refusal *no);
/* The path of a dialect for metrics and traces. One at "/" counts as its own path. */
const char *steno_ws_route(const struct steno_dialect *d);
/* The subprotocol for the answer; "" for none. */
const char *steno_ws_subprotocol(const struct steno_dialect *d, const struct steno_handshake *hs);
/* Append the complete 101 answer. id, request_id, trace: of the session;
 * trace may be NULL. */
STENO_MUST steno_status steno_ws_write_accept(struct steno_buf *out,
                                              const struct steno_handshake *hs,
                                              const struct steno_dialect *d, const char *id,
                                              const char *request_id,
                                              const struct steno_trace *trace);
/* Append a refusal as a complete HTTP answer. origin: of the handshake, NULL or "" for none; when
 * server.cors_origins has it, its scripts may read the answer. */
STENO_MUST steno_status steno_ws_write_refusal(struct steno_buf *out,
                                               const struct steno_server *srv, const char *origin,
                                               const struct steno_ws_refusal *no);

#endif
