/* One HTTP request as routes see it, and the functions that answer it. Confined to the
 * libmicrohttpd thread that owns the connection. */
#ifndef STENO_SERVER_HTTP_REQUEST_H
#define STENO_SERVER_HTTP_REQUEST_H

#include "base/buf.h"
#include "server/core/server.h"
#include "server/http/fetch.h"
#include "server/http/hangup.h"
#include "server/http/transcriber.h"
#include "server/port/acceptor.h"
#include "server/watch/health.h"
#include "server/watch/trace.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>

struct steno_request;
struct steno_upload;
struct steno_resumption;

/* POST: a short body, which is whole when the route's post runs. */
enum { STENO_ROUTE_GET = 1, STENO_ROUTE_UPLOAD = 2, STENO_ROUTE_POST = 4, STENO_ROUTE_DELETE = 8 };

#define STENO_POST_BYTES 65536

/* The form of a route's errors: OpenAI's {"error": {message, type, param, code}}, Deepgram's,
 * {"error": message} or {"detail": message}. */
enum steno_error_form {
    STENO_ERRORS_OPENAI,
    STENO_ERRORS_DEEPGRAM,
    STENO_ERRORS_WHISPER_CPP,
    STENO_ERRORS_WHISPER_ASR
};

/* Append an error in a form. id: the request's. code and param may be NULL. STENO_ERR_LIMIT,
 * STENO_ERR_NOMEM of the buffer. */
STENO_MUST steno_status steno_error_write(struct steno_buf *out, enum steno_error_form form,
                                          const char *id, int http, const char *code,
                                          const char *param, const char *message);

/* Append a whole answer with an error, for a socket that libmicrohttpd does not answer. cors: lines
 * of steno_origin_lines. */
STENO_MUST steno_status steno_error_write_answer(struct steno_buf *out, enum steno_error_form form,
                                                 const char *id, const char *cors, int http,
                                                 const char *code, const char *message);

struct steno_route {
    const char *path;  /* the whole path, or a prefix that ends in '/' */
    const char *label; /* in metrics and logs */
    int methods;
    /* Answers GET and HEAD at once. */
    enum MHD_Result (*get)(struct steno_request *rq);
    enum steno_session_api api; /* of an upload */
    bool translate;             /* its text is to be in English */
    bool private_path;          /* its paths, which name people, are in no log */
    /* Answers a POST whose body, at most STENO_POST_BYTES, is in rq->body. It has a valid key. */
    enum MHD_Result (*post)(struct steno_request *rq);
    bool no_body;                                        /* post does not read it */
    enum MHD_Result (*remove)(struct steno_request *rq); /* answers DELETE at once */
    enum steno_error_form errors;
};

/* The table. Its last row has path NULL and stands for every unknown path. */
extern const struct steno_route steno_routes[];
/* The row of a path; the last row when no other fits. */
const struct steno_route *steno_route_find(const char *path, size_t len);

/* What requests need of the rooms above this one; main.c registers it. */
struct steno_live_calls { /* live/upgrade.h */
    bool (*take)(struct steno_request *rq, enum MHD_Result *result);
    void (*end)(struct steno_request *rq);
};
struct steno_job_calls { /* jobs/job_routes.h */
    enum MHD_Result (*get_list)(struct steno_request *rq);
    enum MHD_Result (*get)(struct steno_request *rq);
    enum MHD_Result (*post)(struct steno_request *rq);
    enum MHD_Result (*remove)(struct steno_request *rq);
    const struct steno_upload_storing *storing; /* upload_internal.h */
};

struct steno_services { /* what routes use; frozen */
    const struct steno_server *srv;
    const struct steno_live_calls *live;
    const struct steno_job_calls *job_calls;
    struct steno_ws *ws;
    steno_transcriber *transcriber;
    steno_fetcher *fetcher;
    steno_hangup *hangup;
    steno_health *health;
    struct steno_job_service *stored; /* NULL: jobs.dir is empty */
};

struct steno_request {
    const struct steno_services *sv;
    struct MHD_Connection *conn;
    const struct steno_route *route;
    const char *method;
    char *target; /* undecoded */
    char id[72];  /* the client's X-Request-Id, or a new one */
    int64_t started;
    double retry_after;      /* s, for a 429 */
    int code;                /* status of the answer; 0 = not answered yet */
    bool http11;             /* not 1.0 */
    bool unread;             /* the client did not read the answer in time */
    bool *linger;            /* the connection's flag: read on after the answer was sent */
    atomic_bool *moved;      /* the connection's flag: its socket belongs to the WebSocket side */
    struct steno_peer *peer; /* the connection's */
    struct steno_ws_handshake *handshake; /* admitted, and not yet handed over */
    struct steno_resumption *resumption;  /* of upgrade.c; NULL: it resumes no session */
    struct steno_upload *upload;
    struct sockaddr_storage client; /* of an upload through a trusted proxy, while it is counted */
    bool client_counted;
    struct steno_buf body; /* of a POST */
    size_t reserved;       /* memory for it */
    const char *origin;    /* the header, for an answer in the middle of it */
    int expired;           /* status that was written within it; under the lock of http.c */
    char note[160];        /* for the log line; the upload adds the rest when it is over */
    char job[40];          /* id of the (first) job that the request made, or was about; "": none */
    const steno_key *key;
    const char *model; /* NULL: none was chosen */
    double audio_seconds, inference_seconds;
    struct steno_trace trace;         /* of an upload, or a request about jobs */
    enum steno_session_result result; /* valid if key, model, ... are: it was admitted */
    bool admitted;
    int64_t received_ns, result_ns;      /* the body was complete; the result was there; 0: no */
    struct steno_pool_stream_stats pool; /* if the trace is recorded */
};

/* Append the head of a request as libmicrohttpd has read it: the request line and its headers.
 * STENO_ERR_LIMIT, STENO_ERR_NOMEM. */
#define STENO_REQUEST_HEAD 32768 /* bytes; more than libmicrohttpd's memory for a head */
STENO_MUST steno_status steno_request_write_head(struct steno_request *rq, struct steno_buf *out);
/* The value of a request header; NULL when it is absent. */
const char *steno_request_header(struct steno_request *rq, const char *name);
/* Whether its Content-Type begins with type ("text/", "application/json"). */
static inline bool steno_request_has_type(struct steno_request *rq, const char *type)
{
    const char *given = steno_request_header(rq, "Content-Type");
    return given && !strncasecmp(given, type, strlen(type));
}
/* Find the request's API key. STENO_ERR_INVAL: a key is required and the request has none or a
 * wrong one; counted, and answered by steno_respond_wrong_key. */
STENO_MUST steno_status steno_request_key(struct steno_request *rq, steno_key **key,
                                          steno_err *err);

/* Whether the request's key is an ephemeral one. */
bool steno_request_is_ephemeral(struct steno_request *rq);
/* Answer 401 as steno_request_key says in err. */
enum MHD_Result steno_respond_wrong_key(struct steno_request *rq, const steno_err *err);

/* An extra response header; both strings are borrowed for the call. name NULL ends an array. */
struct steno_header {
    const char *name, *value;
};

/* Answer with rs, which it takes, and the headers that every answer has. */
enum MHD_Result steno_respond_with(struct steno_request *rq, int code, struct MHD_Response *rs);
/* Answer with a body, whose memory it takes. headers may be NULL. */
enum MHD_Result steno_respond(struct steno_request *rq, int code, const char *media,
                              struct steno_buf *body, const struct steno_header *headers);
/* Answer with a static text. */
enum MHD_Result steno_respond_static(struct steno_request *rq, int code, const char *media,
                                     const char *text);
/* Answer with a body that is produced while it is sent. */
enum MHD_Result steno_respond_stream(struct steno_request *rq, int code, const char *media,
                                     const struct steno_header *headers,
                                     MHD_ContentReaderCallback read, void *ctx);
/* Answer in the error form of the route.
 * headers: three at most beside those of every error. */
enum MHD_Result steno_respond_refusal(struct steno_request *rq, int http, const char *code,
                                      const char *message, const struct steno_header *headers);
/* The same with param; 503 has Retry-After. param and code may be NULL. In the first call of an
 * upload this refuses the body and closes the connection. */
enum MHD_Result steno_respond_error(struct steno_request *rq, int http, const char *code,
                                    const char *param, const char *fmt, ...) STENO_PRINTF(5, 6);
/* The same from a status; base/status.h has the table of codes and HTTP statuses. */
enum MHD_Result steno_respond_status(struct steno_request *rq, const steno_err *err,
                                     const char *param);
/* The same, but STENO_ERR_IO, of a store on the disk or elsewhere, is 503 store_unavailable. */
enum MHD_Result steno_respond_stored_status(struct steno_request *rq, const steno_err *err,
                                            const char *param);

#endif
