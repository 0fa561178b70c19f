/* The WebSocket side: one libwebsockets context with its own thread and no listening socket. The
 * acceptor hands it sockets whose request head asks for an upgrade on one of its paths. Everything
 * but open and close may be called from any thread. */
#ifndef STENO_SERVER_WS_H
#define STENO_SERVER_WS_H

#include "server/acceptor.h"
#include "server/server.h"

typedef struct steno_ws steno_ws;

struct steno_ws_owner {
    /* Once for every adopted socket when it is gone. Any thread. */
    void (*closed)(void *user, const struct steno_peer *peer);
    /* Take over fd, to which the last byte was written: read on until the client is done, so that
     * it sees what was written. Any thread. */
    void (*linger)(void *user, int fd);
};

/* srv, owner, user outlive it. */
STENO_MUST steno_status steno_ws_open(steno_ws **out, struct steno_server *srv,
                                      const struct steno_ws_owner *owner, void *user,
                                      steno_err *err);
/* Take over fd: ask at the door (ws_admission.h), and whom it lets in is queued for the service
 * thread, which adopts it. head: [len] its request head, which is still unread and is read here. */
void steno_ws_adopt(steno_ws *ws, int fd, const struct steno_peer *peer, const char *head,
                    size_t len);
/* Begin to drain: no new sessions; each running one gets its last final and close code 1012.
 * Returns at once; steno_limits_wait_idle tells when all are over. */
void steno_ws_drain(steno_ws *ws);
/* Close what is left, join the thread. Accepts NULL. */
void steno_ws_close(steno_ws *ws);

#endif
