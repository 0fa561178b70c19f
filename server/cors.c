#include "server/cors.h"

#include <string.h>
#include <strings.h>

#include "base/list.h"

#define EXPOSED                                                                                    \
    "X-Request-Id, X-Steno-Model, X-Steno-Warning, Retry-After, Retry-After-Ms, dg-request-id, "   \
    "dg-error"
#define MAX_AGE "7200" /* s; browsers allow no more */

bool steno_cors_allows(const char *allowed, const char *origin)
{
    const size_t n = strlen(origin);
    struct steno_list_item it = steno_list_next(allowed);
    for (; it.n; it = steno_list_next(it.p + it.n))
        if (steno_list_is(it, "*") || (it.n == n && !strncasecmp(it.p, origin, n)))
            return true;
    return false;
}

/* The origin, if it may use the server. */
static const char *allowed_origin(struct steno_request *rq)
{
    const char *origin = steno_request_header(rq, "Origin");
    return origin && steno_cors_allows(rq->sv->srv->conf->cors_origins, origin) ? origin : NULL;
}

void steno_cors_headers(struct steno_request *rq, struct MHD_Response *rs)
{
    const char *origin = allowed_origin(rq);
    if (*rq->sv->srv->conf->cors_origins)
        (void)MHD_add_response_header(rs, "Vary", "Origin");
    if (!origin)
        return;
    (void)MHD_add_response_header(rs, "Access-Control-Allow-Origin", origin);
    (void)MHD_add_response_header(rs, "Access-Control-Expose-Headers", EXPOSED);
}

void steno_cors_preflight(struct steno_request *rq, struct MHD_Response *rs)
{
    const char *headers = steno_request_header(rq, "Access-Control-Request-Headers");
    if (!allowed_origin(rq) || !steno_request_header(rq, "Access-Control-Request-Method"))
        return;
    (void)MHD_add_response_header(rs, "Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
    if (headers && *headers)
        (void)MHD_add_response_header(rs, "Access-Control-Allow-Headers", headers);
    (void)MHD_add_response_header(rs, "Access-Control-Max-Age", MAX_AGE);
}
