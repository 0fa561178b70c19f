/* The WebSocket side: one libwebsockets context with its own thread and no listening socket. The
 * acceptor hands it sockets whose first request asks for an upgrade on one of its paths, upgrade.c
 * those whose later request does. Any thread may call everything except open and close. */
#ifndef STENO_SERVER_LIVE_WS_H
#define STENO_SERVER_LIVE_WS_H

#include "server/core/server.h"
#include "server/port/acceptor.h"

typedef struct steno_ws steno_ws;
struct steno_redis;
struct steno_ws_admission;
struct steno_ws_handshake;
struct steno_ws_refusal;

struct steno_ws_owner {
    /* Called once for every adopted socket when it is gone. Any thread. */
    void (*closed)(void *user, const struct steno_peer *peer);
    /* The connection of peer is client's; see steno_acceptor_recount. Any thread. */
    bool (*recount)(void *user, struct steno_peer *peer, const struct sockaddr_storage *client);
    /* Takes ownership of fd, to which the last byte was written. Reads on until the client is done,
     * so that the client sees what was written. Any thread. */
    void (*linger)(void *user, int fd);
};

/* Start the thread. srv, owner and user outlive it. redis: where live sessions are stored for other
 * machines (session_store.h), outlives it; NULL: nowhere. */
STENO_MUST steno_status steno_ws_open(steno_ws **out, struct steno_server *srv,
                                      const struct steno_ws_owner *owner, void *user,
                                      struct steno_redis *redis, steno_err *err);
/* Take ownership of fd and check its admission (ws_admission.h). An admitted socket is queued for
 * the service thread, which adopts it. head: [len] its request head, which is still unread in the
 * socket and is read here; NULL: a client of Wyoming. */
void steno_ws_adopt(steno_ws *ws, int fd, const struct steno_peer *peer, const char *head,
                    size_t len);
/* Who decides about handshakes; see ws_admission.h. */
struct steno_ws_admission *steno_ws_admission(steno_ws *ws);
/* A question of upgrade.c: can the session that a handshake names be resumed? */
struct steno_ws_question {
    struct steno_ws_question *next;
    const struct steno_ws_handshake *handshake;
    /* Called once, by the service thread or steno_ws_close: no NULL: it can, if it is asked for
     * soon; otherwise the refusal, borrowed for the call. */
    void (*answer)(struct steno_ws_question *q, const struct steno_ws_refusal *no);
};
/* Ask. *q and its handshake must live until the answer. */
void steno_ws_ask(steno_ws *ws, struct steno_ws_question *q);
/* Take ownership of fd, whose handshake was admitted and answered with 101. *g is taken too. early:
 * [n] bytes that the client sent behind its handshake; borrowed for the call. */
void steno_ws_adopt_answered(steno_ws *ws, int fd, const struct steno_peer *peer,
                             struct steno_ws_handshake *g, const char *early, size_t n);
/* Begin to drain: no new sessions start, and each running one gets its last final and close code
 * 1012. Returns at once; steno_limits_wait_idle tells when all are over. */
void steno_ws_drain(steno_ws *ws);
/* Close the remaining connections and join the thread. Accepts NULL. */
void steno_ws_close(steno_ws *ws);

#endif
