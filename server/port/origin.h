/* Web pages of others: whose scripts may read answers (server.cors_origins), and which requests
 * come from them. A browser lets every page connect to every server that it can reach, those of
 * its own machine too. Pure. cors.h has the answers of libmicrohttpd. */
#ifndef STENO_SERVER_PORT_ORIGIN_H
#define STENO_SERVER_PORT_ORIGIN_H

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

/* Whether a Host header names this server, so that it is not a name of a page of others that was
 * made to resolve to this machine (DNS rebinding). Good are addresses, localhost, names below it,
 * names without a dot, which no domain of others has, and those of names (server.hosts), "*" for
 * all. */
bool steno_origin_good_host(const char *host, const char *names);

/* Headers of a request; NULL or "": absent. */
struct steno_origin_headers {
    const char *origin, *host;
    const char *fetch_site;     /* Sec-Fetch-Site, which scripts cannot set */
    const char *forwarded_host; /* of a trusted proxy */
};
/* Whether a request came from a page of another origin, as far as its browser tells (as
 * CrossOriginProtection of Go's net/http, 1.25). names: as above, without "*"'s meaning. */
bool steno_origin_is_foreign(const struct steno_origin_headers *h, const char *names);

#endif
