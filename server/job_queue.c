#include "server/job_queue.h"

#include <stdlib.h>
#include <string.h>

const char *steno_job_state_name(enum steno_job_state s)
{
    static const char *const names[STENO_JOB_STATES] = {"queued", "running", "done",
                                                        "failed", "expired", "cancelled"};
    return names[s];
}

const char *steno_callback_state_name(enum steno_callback_state s)
{
    static const char *const names[STENO_CALLBACK_STATES] = {"none", "pending", "delivered",
                                                             "dead"};
    return names[s];
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
    memset(r, 0, sizeof *r);
}
