/* The messages of telephone calls on their way to the URL that takes them: one POST for each, by
 * http/webhook.h. A call's messages arrive in order: the next one is sent when the one before was
 * taken or given up. A failed one is tried again after jobs.callback_retry, then later each time,
 * and is given up after STENO_CALL_GIVE_UP seconds or jobs.callback_give_up. They are kept in
 * memory alone.
 *
 * Locked: any thread. A few threads of its own send. */
#ifndef STENO_SERVER_LIVE_CALL_HOOKS_H
#define STENO_SERVER_LIVE_CALL_HOOKS_H

#include "server/core/server.h"

#define STENO_CALL_GIVE_UP 300 /* s */

typedef struct steno_call_hooks steno_call_hooks;
typedef struct steno_call_hook steno_call_hook; /* of one call */

/* srv outlives it. Errors of steno_webhooks_open; STENO_ERR_INTERNAL: no thread. */
STENO_MUST steno_status steno_call_hooks_open(steno_call_hooks **out,
                                              const struct steno_server *srv, steno_err *err);
/* Send what waits, for a few seconds at most. All calls have left. Accepts NULL. */
void steno_call_hooks_close(steno_call_hooks *h);

/* Begin a call. id: its session's; url: the one that its client named, "" = calls.callback.
 * STENO_ERR_INVAL: there is none, or it is not allowed; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_call_hook_begin(steno_call_hook **out, steno_call_hooks *h,
                                              const char *id, const char *url, steno_err *err);
/* Add a message [n]. One that has no room any more is dropped and counted. */
void steno_call_hook_post(steno_call_hook *c, const char *body, size_t n);
/* No message follows: the call is forgotten once all are sent. Accepts NULL. */
void steno_call_hook_leave(steno_call_hook *c);

#endif
