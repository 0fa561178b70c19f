/* The store of jobs in Redis or Valkey, for several machines: every stenod that names the same
 * store answers for every job, and any of them runs it. Recordings and results are in the store
 * too. How much a commit is worth is a setting of Redis: appendonly yes, appendfsync always.
 * docs/jobs.md has the design. */
#ifndef STENO_SERVER_JOBS_JOB_REDIS_H
#define STENO_SERVER_JOBS_JOB_REDIS_H

#include "server/jobs/job_queue.h"

/* Connect to url (redis_url.h). password: instead of the URL's; NULL = the URL's. lease: ms
 * without a heartbeat after which a run counts as dead. STENO_ERR_INVAL, STENO_ERR_UNSUPPORTED:
 * the URL, or the store is older than Redis 7; STENO_ERR_IO: it cannot be reached. */
STENO_MUST steno_status steno_job_redis_open(steno_job_queue **out, const char *url,
                                             const char *password, int64_t lease, steno_err *err);

/* The connections of such a store, which live sessions use too; they live as long as the store.
 * NULL: the store is another one. */
struct steno_redis *steno_job_redis_links(steno_job_queue *q);

#endif
