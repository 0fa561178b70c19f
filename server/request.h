/* One HTTP request as routes see it, and the ways to answer it. Confined to the libmicrohttpd
 * thread that owns the connection. */
#ifndef STENO_SERVER_REQUEST_H
#define STENO_SERVER_REQUEST_H

#include "base/buf.h"
#include "server/hangup.h"
#include "server/health.h"
#include "server/jobs.h"
#include "server/server.h"

#include <microhttpd.h>

struct steno_request;
struct steno_upload;

enum { STENO_ROUTE_GET = 1, STENO_ROUTE_UPLOAD = 2 };

struct steno_route {
    const char *path;  /* the whole path, or its beginning when it ends in '/' and is longer */
    const char *label; /* of metrics and logs */
    int methods;
    /* GET and HEAD: answer now. */
    enum MHD_Result (*get)(struct steno_request *rq);
    enum steno_session_api api; /* of an upload */
};

/* The table, ended by a row with path NULL that stands for every unknown path. */
extern const struct steno_route steno_routes[];
/* Row for a path; the last row when there is none. */
const struct steno_route *steno_route_find(const char *path, size_t len);

struct steno_services { /* what routes use; frozen */
    const struct steno_server *srv;
    steno_jobs *jobs;
    steno_hangup *hangup;
    steno_health *health;
};

struct steno_request {
    const struct steno_services *sv;
    struct MHD_Connection *conn;
    const struct steno_route *route;
    const char *method;
    char *target; /* as it came, undecoded */
    char id[72];  /* the client's X-Request-Id, or one of ours */
    int64_t started;
    double retry_after; /* s, of a 429 */
    int code;           /* answered with; 0 = not yet */
    bool http11;        /* not 1.0 */
    bool unread;        /* the client did not take the answer in time */
    bool *linger;       /* the connection's: read on after the answer was sent */
    struct steno_upload *upload;
    char note[160]; /* for the log line: what was special; the rest is of an upload, when over */
    const steno_key *key;
    const char *model; /* NULL: none was settled */
    double audio_seconds, inference_seconds;
};

/* Value of a request header, NULL when absent. */
const char *steno_request_header(struct steno_request *rq, const char *name);

/* Extra response header; both borrowed for the call. name NULL ends an array. */
struct steno_header {
    const char *name, *value;
};

/* Answer; takes body's memory. headers may be NULL. */
enum MHD_Result steno_respond(struct steno_request *rq, int code, const char *media,
                              struct steno_buf *body, const struct steno_header *headers);
/* Text that outlives the process. */
enum MHD_Result steno_respond_static(struct steno_request *rq, int code, const char *media,
                                     const char *text);
/* Answer with a body that comes piece by piece; closed runs when it is over. */
enum MHD_Result steno_respond_stream(struct steno_request *rq, int code, const char *media,
                                     MHD_ContentReaderCallback read, void *ctx,
                                     MHD_ContentReaderFreeCallback closed);
/* The error form {"error": {message, type, param, code}}; 503 carries Retry-After. param and code
 * may be NULL. In the first call of an upload, which refuses its body, the connection is closed. */
enum MHD_Result steno_respond_error(struct steno_request *rq, int http, const char *code,
                                    const char *param, const char *fmt, ...) STENO_PRINTF(5, 6);
/* The same from a status: code and HTTP status by the one table (base/status.h). */
enum MHD_Result steno_respond_status(struct steno_request *rq, const steno_err *err,
                                     const char *param);

#endif
