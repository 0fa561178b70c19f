/* The routes of jobs that answer at once: GET /v1/jobs, GET and DELETE /v1/jobs/ID, GET
 * /v1/jobs/ID/result, POST /v1/jobs/ID/callback. DELETE and POST wait for the disk. */
#ifndef STENO_SERVER_JOBS_JOB_ROUTES_H
#define STENO_SERVER_JOBS_JOB_ROUTES_H

#include "server/http/request.h"

extern const struct steno_job_calls steno_job_calls; /* post: sends a callback once more */

/* Requests that become jobs, in upload_stored.c. */
extern const struct steno_upload_storing steno_upload_storing;

#endif
