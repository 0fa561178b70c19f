/* Is the process alive, and can it recognise speech right now? One thread looks after each worker's
 * heartbeat, feeds systemd's watchdog only while all of them beat, and every few seconds sends a
 * short signal through the pool like any stream (the canary), because a server whose inference
 * hangs must not look healthy. Locked. */
#ifndef STENO_SERVER_HEALTH_H
#define STENO_SERVER_HEALTH_H

#include "base/buf.h"
#include "server/server.h"

typedef struct steno_health steno_health;

STENO_MUST steno_status steno_health_open(steno_health **out, const struct steno_server *srv,
                                          steno_err *err);
void steno_health_close(steno_health *h); /* accepts NULL */
bool steno_health_stuck(steno_health *h); /* a worker hangs */
/* Append a JSON object with the reasons; true = healthy. */
bool steno_health_live(steno_health *h, struct steno_buf *out);
/* Model loaded, not draining, canary answered not long ago. */
bool steno_health_ready(steno_health *h, struct steno_buf *out);

#endif
