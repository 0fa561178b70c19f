/* Jobs in the daemon: their store, the spool, the thread that stores, the runner (job_runner.h) and
 * the callbacks. Locked: any thread. */
#ifndef STENO_SERVER_JOBS_JOB_SERVICE_H
#define STENO_SERVER_JOBS_JOB_SERVICE_H

#include "server/jobs/job_queue.h"
#include "server/jobs/job_spool.h"

struct steno_services;
typedef struct steno_job_service steno_job_service;

/* Work for the thread that may wait for the disk. Part of a larger struct of the caller's. */
struct steno_job_task {
    void (*run)(struct steno_job_task *t);
    struct steno_job_task *next; /* the service's */
};

/* Open jobs.dir. *out is NULL when it is empty. services outlives it. STENO_ERR_BUSY, STENO_ERR_IO,
 * STENO_ERR_UNSUPPORTED: jobs.dir cannot be used. */
STENO_MUST steno_status steno_job_service_open(steno_job_service **out,
                                               const struct steno_services *services,
                                               steno_err *err);
/* Open jobs.queue, the store that other machines share. Errors begin with the setting. */
struct steno_config;
STENO_MUST steno_status steno_job_service_open_shared(steno_job_queue **out,
                                                      const struct steno_config *conf,
                                                      steno_err *err);
/* Begin to run jobs. */
STENO_MUST steno_status steno_job_service_start(steno_job_service *s, steno_err *err);
/* End: jobs that run are queued again, tasks are done to the last, none is taken. Accepts NULL. */
void steno_job_service_stop(steno_job_service *s);
void steno_job_service_close(steno_job_service *s); /* accepts NULL */

/* Have a task done. STENO_ERR_CANCELLED after stop: it is not done. */
STENO_MUST steno_status steno_job_service_post(steno_job_service *s, struct steno_job_task *t,
                                               steno_err *err);
/* Jobs were submitted, or one was removed: its run ends. */
void steno_job_service_submitted(steno_job_service *s, size_t n);
void steno_job_service_removed(steno_job_service *s, const char *id);

/* Check that a callback may be sent to a URL. STENO_ERR_INVAL names what is wrong. */
STENO_MUST steno_status steno_job_service_check_callback(steno_job_service *s, const char *url,
                                                         steno_err *err);

steno_job_queue *steno_job_service_queue(steno_job_service *s);
/* The connections of a store in Redis; NULL: the store is another one, or s is NULL. */
struct steno_redis *steno_job_service_links(steno_job_service *s);
steno_spool *steno_job_service_spool(steno_job_service *s);

#endif
