/* The WebSocket side: one libwebsockets context with its own thread and no listening socket. The
 * acceptor hands it sockets whose request head (still unread) asks for an upgrade on one of its
 * paths. Everything but open and close may be called from any thread. */
#ifndef STENO_SERVER_WS_H
#define STENO_SERVER_WS_H

#include "server/acceptor.h"
#include "server/server.h"

typedef struct steno_ws steno_ws;

/* closed(user, peer) is called once for every adopted socket when it is gone (any thread); srv,
 * user outlive it. */
STENO_MUST steno_status steno_ws_open(steno_ws **out, struct steno_server *srv,
                                      void (*closed)(void *user, const struct steno_peer *peer),
                                      void *user, steno_err *err);
/* Whether a dialect is served at this path. Pure. */
bool steno_ws_serves(const char *path, size_t len);
/* Take over fd: queue it and wake the service thread, which adopts it. */
void steno_ws_adopt(steno_ws *ws, int fd, const struct steno_peer *peer);
/* Begin to drain: no new sessions; each running one gets its last final and close code 1012.
 * Returns at once; steno_limits_wait_idle tells when all are over. */
void steno_ws_drain(steno_ws *ws);
/* Close what is left, join the thread. Accepts NULL. */
void steno_ws_close(steno_ws *ws);

#endif
