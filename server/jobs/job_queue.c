#include "server/jobs/job_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t steno_job_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

const char *steno_job_state_name(enum steno_job_state s)
{
    static const char *const names[STENO_JOB_STATES] = {
        [STENO_JOB_QUEUED] = "queued",   [STENO_JOB_RUNNING] = "running",
        [STENO_JOB_DONE] = "done",       [STENO_JOB_FAILED] = "failed",
        [STENO_JOB_EXPIRED] = "expired", [STENO_JOB_CANCELLED] = "cancelled"};
    return names[s];
}

const char *steno_callback_state_name(enum steno_callback_state s)
{
    static const char *const names[STENO_CALLBACK_STATES] = {[STENO_CALLBACK_NONE] = "none",
                                                             [STENO_CALLBACK_PENDING] = "pending",
                                                             [STENO_CALLBACK_DELIVERED] =
                                                                 "delivered",
                                                             [STENO_CALLBACK_DEAD] = "dead"};
    return names[s];
}

steno_status steno_job_once_add(struct steno_job_once *once, const char *id, steno_err *err)
{
    if (once->n == once->room)
        return steno_fail(err, STENO_ERR_INTERNAL, "a request with more jobs than one may have");
    snprintf(once->ids[once->n++], STENO_JOB_ID, "%s", id);
    once->repeated = true;
    return STENO_OK;
}

steno_status steno_job_once_check(const struct steno_job_once *once, const char *digest,
                                  steno_err *err)
{
    return strcmp(once->digest, digest)
               ? steno_fail(err, STENO_ERR_INVAL,
                            "Idempotency-Key '%.60s' came with another request before", once->key)
               : STENO_OK;
}

void steno_job_record_free(struct steno_job_record *r)
{
    free(r->target);
    free(r->url);
    free(r->model);
    free(r->reason);
    free(r->code);
    free(r->callback);
    free(r->method);
    free(r->callback_error);
    free(r->traceparent);
    free(r->tracestate);
    memset(r, 0, sizeof *r);
}
