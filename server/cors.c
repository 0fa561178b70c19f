#include "server/cors.h"

#include <string.h>
#include <strings.h>

#define EXPOSED                                                                                    \
    "X-Request-Id, X-Steno-Model, X-Steno-Warning, Retry-After, Retry-After-Ms, dg-request-id"
#define MAX_AGE "7200" /* s; browsers allow no more */

bool steno_cors_allows(const char *allowed, const char *origin)
{
    size_t n = strlen(origin);
    for (const char *p = allowed + strspn(allowed, " ,"); *p; p += strspn(p, " ,")) {
        size_t k = strcspn(p, " ,");
        if ((k == 1 && *p == '*') || (k == n && !strncasecmp(p, origin, n)))
            return true;
        p += k;
    }
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
