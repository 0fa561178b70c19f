#include "server/http/cors.h"

#include "server/port/origin.h"

#define MAX_AGE "7200" /* s; browsers allow no more */

/* The origin, if it may use the server. */
static const char *allowed_origin(struct steno_request *rq)
{
    const char *origin = steno_request_header(rq, "Origin");
    return origin && steno_origin_allowed(rq->sv->srv->conf->cors_origins, origin) ? origin : NULL;
}

void steno_cors_headers(struct steno_request *rq, struct MHD_Response *rs)
{
    const char *origin = allowed_origin(rq);
    if (*rq->sv->srv->conf->cors_origins)
        (void)MHD_add_response_header(rs, "Vary", "Origin");
    if (!origin)
        return;
    (void)MHD_add_response_header(rs, "Access-Control-Allow-Origin", origin);
    (void)MHD_add_response_header(rs, "Access-Control-Expose-Headers", STENO_ORIGIN_EXPOSED);
}

void steno_cors_preflight(struct steno_request *rq, struct MHD_Response *rs)
{
    const char *headers = steno_request_header(rq, "Access-Control-Request-Headers");
    if (!allowed_origin(rq) || !steno_request_header(rq, "Access-Control-Request-Method"))
        return;
    (void)MHD_add_response_header(rs, "Access-Control-Allow-Methods",
                                  "GET, HEAD, POST, DELETE, OPTIONS");
    if (headers && *headers)
        (void)MHD_add_response_header(rs, "Access-Control-Allow-Headers", headers);
    (void)MHD_add_response_header(rs, "Access-Control-Max-Age", MAX_AGE);
}
