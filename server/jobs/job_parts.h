/* What the runner and the callbacks share with the service that opens them. Frozen; it outlives
 * both. */
#ifndef STENO_SERVER_JOBS_JOB_PARTS_H
#define STENO_SERVER_JOBS_JOB_PARTS_H

#include "server/base/metrics.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/job_spool.h"

struct steno_job_metrics {
    steno_metric *submitted, *retried;
    steno_metric *ended[STENO_JOB_STATES]; /* of states that are an end */
    steno_metric *wait;                    /* s from submission to the first run */
    steno_metric *callbacks_delivered, *callbacks_failed, *callbacks_dead;
};

struct steno_job_parts {
    const struct steno_services *sv;
    steno_job_queue *queue;
    steno_spool *spool;
    struct steno_job_metrics metrics;
};

#endif
