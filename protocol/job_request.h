/* The JSON body of POST /v1/jobs: {"url": "..."} or {"urls": ["...", ...]}, and parameters as of a
 * query: strings, numbers, true and false. Also the target that a job's parameters are kept as.
 * Pure. */
#ifndef STENO_PROTOCOL_JOB_REQUEST_H
#define STENO_PROTOCOL_JOB_REQUEST_H

#include "base/buf.h"
#include "protocol/query.h"

#define STENO_JOB_URLS 100 /* of one request */

/* Pass on the parameters as pairs with the text of their values, null as nothing; then append the
 * URLs to urls, each with its NUL. *n_urls: at least one. STENO_ERR_FORMAT: no JSON object;
 * STENO_ERR_INVAL names the member; the callback's own. */
STENO_MUST steno_status steno_job_request_read(const char *p, size_t n, steno_query_fn pair,
                                               void *user, struct steno_buf *urls, size_t *n_urls,
                                               steno_err *err);
/* Append a pair to a target, percent-encoded. STENO_ERR_LIMIT, STENO_ERR_NOMEM of the buffer. */
STENO_MUST steno_status steno_target_add(struct steno_buf *target, const char *name,
                                         const char *value);

#endif
