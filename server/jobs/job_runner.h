/* Runs the jobs of the store, jobs.workers at once: one thread claims them, has recordings fetched,
 * starts them on the pool (transcriber.h) in the background, stores their progress, and their
 * results. It waits for the disk, and never computes. */
#ifndef STENO_SERVER_JOBS_JOB_RUNNER_H
#define STENO_SERVER_JOBS_JOB_RUNNER_H

#include "server/jobs/job_parts.h"

typedef struct steno_job_runner steno_job_runner;

STENO_MUST steno_status steno_job_runner_open(steno_job_runner **out,
                                              const struct steno_job_parts *parts, int workers,
                                              steno_err *err);
/* Give every run up, which is no try, and end the thread. */
void steno_job_runner_stop(steno_job_runner *r);
void steno_job_runner_close(steno_job_runner *r); /* stops first; accepts NULL */
/* Look for work now. */
void steno_job_runner_wake(steno_job_runner *r);
/* A job was removed: end its run. */
void steno_job_runner_end(steno_job_runner *r, const char *id);

#endif
