/* Cross-origin requests (Fetch standard, 3.2): which scripts of other origins may read answers. */
#ifndef STENO_SERVER_HTTP_CORS_H
#define STENO_SERVER_HTTP_CORS_H

#include "server/http/request.h"

/* Add what lets the origin of the request read the answer, if it may. */
void steno_cors_headers(struct steno_request *rq, struct MHD_Response *rs);
/* Add what a preflight asks for, if the origin may do it. */
void steno_cors_preflight(struct steno_request *rq, struct MHD_Response *rs);

#endif
