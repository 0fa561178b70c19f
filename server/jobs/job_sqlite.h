/* The store of jobs in one SQLite database, for one process: WAL, and a commit that has returned is
 * on the disk. The design is in docs/jobs.md. */
#ifndef STENO_SERVER_JOBS_JOB_SQLITE_H
#define STENO_SERVER_JOBS_JOB_SQLITE_H

#include "server/jobs/job_queue.h"

/* Open the database, make or migrate its tables, and put back what a process before this one was
 * running. path: in a directory that no other process uses meanwhile. now: ms since 1970.
 * STENO_ERR_IO names the path and the reason; STENO_ERR_UNSUPPORTED: a later version has written
 * it. */
STENO_MUST steno_status steno_job_sqlite_open(steno_job_queue **out, const char *path, int64_t now,
                                              steno_err *err);

#endif
