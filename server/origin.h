/* Origins of web pages (server.cors_origins) whose scripts may read answers. Pure. cors.h has the
 * answers of libmicrohttpd. */
#ifndef STENO_SERVER_ORIGIN_H
#define STENO_SERVER_ORIGIN_H

#include "base/status.h"

/* Headers that scripts may read. */
#define STENO_ORIGIN_EXPOSED                                                                       \
    "X-Request-Id, X-Steno-Model, X-Steno-Warning, Retry-After, Retry-After-Ms, dg-request-id, "   \
    "dg-error"

/* Whether server.cors_origins has an origin. allowed: "*", or origins, comma separated. */
bool steno_origin_allowed(const char *allowed, const char *origin);
/* Write what lets an origin [n] read an answer as header lines, each ended by CR LF: for answers
 * that are written to the socket. allowed: server.cors_origins; n 0: the request has no origin. */
#define STENO_ORIGIN_LINES 512
void steno_origin_lines(const char *allowed, const char *origin, size_t n,
                        char out[STENO_ORIGIN_LINES]);

#endif
