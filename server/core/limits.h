/* Admission: how many sessions run at once, and whether new ones may start at all. A session is one
 * live stream or one upload. A refusal comes at once (503 with Retry-After, WebSocket close 1013);
 * nothing waits for a place. Locked: one mutex, all fields. */
#ifndef STENO_SERVER_CORE_LIMITS_H
#define STENO_SERVER_CORE_LIMITS_H

#include "base/status.h"
#include "server/base/stats.h"
#include "server/core/config.h"

typedef struct steno_limits steno_limits;

/* conf and stats outlive it. NULL when out of memory. */
steno_limits *steno_limits_new(const struct steno_config *conf, struct steno_stats *stats);
void steno_limits_free(steno_limits *l);

/* Take a place. STENO_ERR_BUSY with the reason in err, counted in steno_sessions_rejected_total. */
STENO_MUST steno_status steno_limits_enter(steno_limits *l, enum steno_session_api api,
                                           steno_err *err);
/* Tell that the session has passed all other checks and starts; counted in
 * steno_sessions_started_total. leave must follow. */
void steno_limits_started(steno_limits *l, enum steno_session_api api);
/* Give the place of a started session back; counted in steno_sessions_total. */
void steno_limits_leave(steno_limits *l, enum steno_session_api api,
                        enum steno_session_result result);
/* Give back the place of a session that something else refused before it started; counted in
 * steno_sessions_rejected_total. */
void steno_limits_refund(steno_limits *l, enum steno_session_api api, enum steno_rejection why);

/* Seconds for the Retry-After of a client that is refused now. This is limits.retry_after or more,
 * up to a minute, when many clients were told to come back at that time: serving all their requests
 * at once would take the processor from running sessions. */
double steno_limits_come_back(steno_limits *l, int64_t now_ns);

/* Reserve `bytes` more for upload bodies. STENO_ERR_BUSY when all uploads together would pass the
 * limit. */
STENO_MUST steno_status steno_limits_reserve(steno_limits *l, size_t bytes, steno_err *err);
void steno_limits_release(steno_limits *l, size_t bytes);

/* Make enter refuse from now on. */
void steno_limits_drain(steno_limits *l);
bool steno_limits_draining(steno_limits *l);
int steno_limits_active(steno_limits *l); /* sessions of all kinds */
/* Wait until no session runs or CLOCK_MONOTONIC passes deadline_ns; true when none runs. */
bool steno_limits_wait_idle(steno_limits *l, int64_t deadline_ns);

#endif
