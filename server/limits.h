/* Admission: how many sessions run at once, and whether new ones may start at all. A session is one
 * live stream or one upload; what is refused is refused at once (503 with Retry-After, WebSocket
 * close 1013), nothing waits for a place. Locked: one mutex, all fields. */
#ifndef STENO_SERVER_LIMITS_H
#define STENO_SERVER_LIMITS_H

#include "base/status.h"
#include "server/config.h"
#include "server/stats.h"

typedef struct steno_limits steno_limits;

/* conf and stats outlive it. NULL when out of memory. */
steno_limits *steno_limits_new(const struct steno_config *conf, struct steno_stats *stats);
void steno_limits_free(steno_limits *l);

/* Take a place. STENO_ERR_BUSY with the reason in err; counted in steno_sessions_rejected_total. */
STENO_MUST steno_status steno_limits_enter(steno_limits *l, enum steno_session_api api,
                                           steno_err *err);
/* Whoever else has a say has let it in: counted in steno_sessions_started_total. leave follows. */
void steno_limits_started(steno_limits *l, enum steno_session_api api);
/* Give the place of one that has started back; counted in steno_sessions_total. */
void steno_limits_leave(steno_limits *l, enum steno_session_api api,
                        enum steno_session_result result);
/* Give it back because something else refused the session before it started; counted in
 * steno_sessions_rejected_total. */
void steno_limits_refund(steno_limits *l, enum steno_session_api api, enum steno_rejection why);

/* Seconds after which somebody who is refused now should come back (Retry-After):
 * limits.retry_after, or later, up to a minute, where so many were told to come then that serving
 * their requests would take the processor from those inside. */
double steno_limits_come_back(steno_limits *l, int64_t now_ns);

/* Memory of upload bodies: reserve `bytes` more, STENO_ERR_BUSY when all uploads together would
 * pass the limit. */
STENO_MUST steno_status steno_limits_reserve(steno_limits *l, size_t bytes, steno_err *err);
void steno_limits_release(steno_limits *l, size_t bytes);

/* From now on enter refuses. */
void steno_limits_drain(steno_limits *l);
bool steno_limits_draining(steno_limits *l);
int steno_limits_active(steno_limits *l); /* sessions of all kinds */
/* Wait until no session runs or CLOCK_MONOTONIC passes deadline_ns; true when none runs. */
bool steno_limits_wait_idle(steno_limits *l, int64_t deadline_ns);

#endif
