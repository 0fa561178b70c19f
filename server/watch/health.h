/* Whether the process is alive and can recognise speech now. One thread checks each worker's
 * heartbeat and feeds systemd's watchdog only while all of them beat. Every few seconds it sends a
 * short signal through the pool like any stream (the canary), because a server whose inference
 * hangs must not look healthy. Locked. */
#ifndef STENO_SERVER_WATCH_HEALTH_H
#define STENO_SERVER_WATCH_HEALTH_H

#include "base/buf.h"
#include "server/core/server.h"

typedef struct steno_health steno_health;

STENO_MUST steno_status steno_health_open(steno_health **out, const struct steno_server *srv,
                                          steno_err *err);
void steno_health_close(steno_health *h); /* accepts NULL */
bool steno_health_stuck(steno_health *h); /* whether a worker hangs */
/* Append a JSON object with the reasons. True when healthy. */
bool steno_health_live(steno_health *h, struct steno_buf *out);
/* The same for readiness: the model is loaded, the server does not drain, and the canary answered
 * recently. */
bool steno_health_ready(steno_health *h, struct steno_buf *out);

#endif
