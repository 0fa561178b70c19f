/* Jobs as JSON: what the routes answer and what callbacks are sent. Pure. */
#ifndef STENO_SERVER_JOBS_JOB_JSON_H
#define STENO_SERVER_JOBS_JOB_JSON_H

#include "server/jobs/job_queue.h"

/* Append {"id", "state", "created", ...} (docs/jobs.md); open: without the closing brace, for more
 * members. STENO_ERR_LIMIT, STENO_ERR_NOMEM of the buffer, as for all functions here. */
STENO_MUST steno_status steno_job_json_write(struct steno_buf *out,
                                             const struct steno_job_record *r, bool open);
/* Append {"start", "end", "text"}. */
STENO_MUST steno_status steno_job_json_segment(struct steno_buf *out,
                                               const struct steno_job_segment *s);

#endif
