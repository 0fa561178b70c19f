/* Callbacks: when a job is over, its result is sent to the URL that its request named, by
 * http/webhook.h. A callback that fails is tried again, later each time, until
 * jobs.callback_give_up; every try has the same event id. Tries are counted in the store before
 * they are sent, so one that a killed process may have sent is known to be a repetition.
 *
 * Locked: any thread. A few threads of its own send. */
#ifndef STENO_SERVER_JOBS_JOB_HOOKS_H
#define STENO_SERVER_JOBS_JOB_HOOKS_H

#include "server/jobs/job_parts.h"

typedef struct steno_job_hooks steno_job_hooks;

/* STENO_ERR_IO, STENO_ERR_INVAL: the secret cannot be used; STENO_ERR_UNSUPPORTED: hosts are listed
 * and libcurl is absent. */
STENO_MUST steno_status steno_job_hooks_open(steno_job_hooks **out,
                                             const struct steno_job_parts *parts, steno_err *err);
/* Begin to send. */
STENO_MUST steno_status steno_job_hooks_start(steno_job_hooks *h, steno_err *err);
/* End the tries that run; the next start sends them again. Accepts NULL, like close. */
void steno_job_hooks_stop(steno_job_hooks *h);
void steno_job_hooks_close(steno_job_hooks *h);
/* Check that something may be sent to a URL. STENO_ERR_INVAL names what is wrong. */
STENO_MUST steno_status steno_job_hooks_check(steno_job_hooks *h, const char *url, steno_err *err);

#endif
