/* The routes of jobs that answer at once: GET /v1/jobs, GET and DELETE /v1/jobs/ID, GET
 * /v1/jobs/ID/result, POST /v1/jobs/ID/callback. DELETE and POST wait for the disk. */
#ifndef STENO_SERVER_JOB_ROUTES_H
#define STENO_SERVER_JOB_ROUTES_H

#include "server/http/request.h"

enum MHD_Result steno_jobs_get_list(struct steno_request *rq);
enum MHD_Result steno_jobs_get(struct steno_request *rq);
enum MHD_Result steno_jobs_post(struct steno_request *rq); /* sends a callback once more */
enum MHD_Result steno_jobs_delete(struct steno_request *rq);

#endif
