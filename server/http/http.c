#include "server/http/http.h"

#include "base/clock.h"
#include "base/threads.h"
#include "protocol/openai_rest.h"
#include "protocol/query.h"
#include "server/base/log.h"
#include "server/http/cors.h"
#include "server/http/request_metrics.h"
#include "server/http/upload.h"
#include "server/port/address.h"
#include "server/port/head.h"
#include "server/port/refusal.h"

#include <ctype.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define MAX_TARGET 4096
#define TOO_LONG "the body of this request may have 65536 bytes" /* STENO_POST_BYTES */
#define CONNECTION_MEMORY 24576 /* libmicrohttpd's pool per connection: bounds head and buffers */

struct steno_http {
    struct steno_services sv;
    steno_acceptor *acceptor;
    struct MHD_Daemon *daemon;
    struct steno_request_metrics metrics;

    pthread_mutex_t lock;         /* guards what follows, and the links of every connection */
    pthread_cond_t changed, ends; /* ends: closing is set */
    pthread_t sweeper;
    struct connection *newest;
    int given; /* connections given to libmicrohttpd, started or not */
    bool closing;
    struct steno_log_ration lines; /* lines about refused clients */
};

/* State of a connection that outlives its requests. */
struct connection {
    struct steno_peer peer;
    struct connection *older, *newer;
    int fd; /* libmicrohttpd's; -1: unknown */
    bool linger;
    bool later;                 /* it has had a request */
    struct steno_request *post; /* whose body is coming; under the lock */
    atomic_bool moved;          /* relaxed: it orders nothing */
    /* time of the end of the last request; 0 while there is one. Relaxed: it orders nothing */
    _Atomic int64_t waits_since;
};

/* ---- a request ------------------------------------------------------------------------------- */

/* Use the client's id when it is short and harmless in a log line. */
static void choose_id(struct steno_request *rq)
{
    const char *given = steno_request_header(rq, "X-Request-Id");
    size_t n = given ? strlen(given) : 0;
    if (n && n < sizeof rq->id) {
        size_t i = 0;
        while (i < n && (isalnum((unsigned char)given[i]) || strchr("-_.:", given[i])))
            i++;
        if (i == n) {
            memcpy(rq->id, given, n + 1);
            return;
        }
    }
    steno_id_new(rq->id, "req");
}

static const char *allowed_methods(const struct steno_route *r)
{
    if (r->methods == STENO_ROUTE_DELETE)
        return "DELETE, OPTIONS";
    if (r->methods & STENO_ROUTE_DELETE)
        return "GET, HEAD, POST, DELETE, OPTIONS";
    if (!(r->methods & (STENO_ROUTE_UPLOAD | STENO_ROUTE_POST)))
        return "GET, HEAD, OPTIONS";
    return r->methods & STENO_ROUTE_GET ? "GET, HEAD, POST, OPTIONS" : "POST, OPTIONS";
}

/* OPTIONS, also of "*" (RFC 9110, 9.3.7), and the preflight of a script of another origin. */
static enum MHD_Result answer_options(struct steno_request *rq)
{
    struct MHD_Response *rs = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (!rs)
        return MHD_NO;
    (void)MHD_add_response_header(rs, "Allow", allowed_methods(rq->route));
    steno_cors_preflight(rq, rs);
    return steno_respond_with(rq, 204, rs);
}

static enum MHD_Result wrong_method(struct steno_request *rq)
{
    const struct steno_header headers[] = {{"Allow", allowed_methods(rq->route)}, {NULL, NULL}};
    char message[256];
    snprintf(message, sizeof message, "%.20s is not allowed here; allowed: %s", rq->method,
             headers[0].value);
    return steno_respond_refusal(rq, 405, "method_not_allowed", message, headers);
}

static bool is_post(const struct steno_request *rq)
{
    return rq->route->methods & STENO_ROUTE_POST &&
           steno_method_of(rq->method) == STENO_METHOD_POST;
}

struct wanted {
    const char *name, *value;
};

static enum MHD_Result note_last(void *cls, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    struct wanted *w = cls;
    (void)kind;
    if (!strcasecmp(name, w->name) && value)
        w->value = value;
    return MHD_YES;
}

/* The last of equal headers, the nearest proxy's. */
static const char *last_header(struct MHD_Connection *conn, const char *name)
{
    struct wanted w = {name, NULL};
    MHD_get_connection_values(conn, MHD_HEADER_KIND, note_last, &w);
    return w.value;
}

/* Remove the prefix of a proxy from the target. False: the path is the prefix without its slash,
 * from which the page's relative addresses would lead elsewhere. */
static bool enter_prefix(struct steno_request *rq)
{
    const char *own = rq->sv->srv->conf->path_prefix;
    const char *forwarded = last_header(rq->conn, "X-Forwarded-Prefix");
    size_t path = steno_query_path_len(rq->target);
    size_t skip = steno_server_skip_prefix(rq->sv->srv, &rq->peer->addr, rq->target, path,
                                           forwarded, forwarded ? strlen(forwarded) : 0);
    memmove(rq->target, rq->target + skip, strlen(rq->target + skip) + 1);
    return !*own || path != strlen(own) || memcmp(rq->target, own, path);
}

static enum MHD_Result redirect_to_prefix(struct steno_request *rq)
{
    char place[MAX_TARGET + 8];
    const struct steno_header headers[] = {{"Location", place}, {NULL, NULL}};
    struct steno_buf body;
    snprintf(place, sizeof place, "%s/", rq->sv->srv->conf->path_prefix);
    steno_buf_init(&body, 1);
    return steno_respond(rq, 308, "text/plain; charset=utf-8", &body, headers);
}

/* An upload through a trusted proxy counts as a connection of its client while it runs. False: the
 * client has as many as it may have. */
static bool count_client(steno_http *http, struct steno_request *rq)
{
    if (!steno_server_client(rq->sv->srv, &rq->peer->addr, last_header(rq->conn, "X-Forwarded-For"),
                             &rq->client))
        return true;
    rq->client_counted = steno_acceptor_enter(http->acceptor, &rq->client);
    return rq->client_counted;
}

static bool is_upload(const struct steno_request *rq)
{
    return rq->route->methods & STENO_ROUTE_UPLOAD &&
           steno_method_of(rq->method) == STENO_METHOD_POST;
}

static bool is_about_jobs(const struct steno_request *rq)
{
    return !strncmp(rq->route->label, "/v1/jobs", strlen("/v1/jobs"));
}

/* Pages, lists of models and the like are not. */
static bool is_traced(const struct steno_request *rq)
{
    return is_upload(rq) || is_about_jobs(rq);
}

static enum MHD_Result add_state(void *cls, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    struct steno_buf *b = cls;
    (void)kind;
    if (!strcasecmp(name, "tracestate") && value)
        return steno_buf_printf(b, "%s%s", b->len ? "," : "", value) ? MHD_NO : MHD_YES;
    return MHD_YES;
}

static void begin_trace(struct steno_request *rq)
{
    struct steno_buf state;
    steno_buf_init(&state, 16384);
    MHD_get_connection_values(rq->conn, MHD_HEADER_KIND, add_state, &state);
    steno_trace_begin(rq->sv->srv->tracer, steno_request_header(rq, "traceparent"), state.data,
                      &rq->trace);
    steno_buf_free(&state);
}

static bool brings_body(struct steno_request *rq)
{
    const char *length = steno_request_header(rq, "Content-Length");
    return (length && strcmp(length, "0")) || steno_request_header(rq, "Transfer-Encoding");
}

static struct connection *connection_of(struct MHD_Connection *conn)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* ---- small bodies ---------------------------------------------------------------------------- */

/* Answer in the middle of a body, and end the connection: libmicrohttpd takes no response then
 * (upload_raw.c has more). Lock held. */
static void cut_post(struct connection *c, int http, const char *code, const char *message)
{
    struct steno_request *rq = c->post;
    const char *origin = rq->origin ? rq->origin : "";
    char cors[STENO_ORIGIN_LINES];
    struct steno_buf out;
    c->post = NULL;
    rq->expired = http;
    *rq->linger = true; /* data on the way must not reset the connection */
    steno_origin_lines(rq->sv->srv->conf->cors_origins, origin, strlen(origin), cors);
    steno_buf_init(&out, STENO_REFUSAL_BYTES);
    if (!steno_error_write_answer(&out, rq->route->errors, rq->id, cors, http, code, message))
        (void)!send(c->fd, out.data, out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    steno_buf_free(&out);
    shutdown(c->fd, SHUT_RDWR);
}

/* The body is over, or never was. False: it was cut. */
static bool forget_post(steno_http *http, struct steno_request *rq, struct connection *c)
{
    bool whole;
    pthread_mutex_lock(&http->lock);
    c->post = NULL;
    whole = !rq->expired;
    pthread_mutex_unlock(&http->lock);
    return whole;
}

static bool end_post(steno_http *http, struct steno_request *rq, struct connection *c)
{
    const bool whole = forget_post(http, rq, c);
    (void)MHD_set_connection_option(rq->conn, MHD_CONNECTION_OPTION_TIMEOUT,
                                    (unsigned)http->sv.srv->conf->idle_timeout);
    return whole;
}

/* Check everything that the head tells, and make room for the body. */
static enum MHD_Result begin_post(steno_http *http, struct steno_request *rq)
{
    const char *length = steno_request_header(rq, "Content-Length");
    size_t n = length ? strtoull(length, NULL, 10) : STENO_POST_BYTES;
    steno_key *key;
    steno_err err;
    if (steno_request_key(rq, &key, &err))
        return steno_respond_wrong_key(rq, &err);
    if (rq->route->no_body)
        return rq->route->post(rq);
    if (!brings_body(rq))
        return MHD_YES;
    if (n > STENO_POST_BYTES)
        return steno_respond_error(rq, 413, "limit_exceeded", NULL, TOO_LONG);
    if (steno_limits_reserve(http->sv.srv->limits, n, &err))
        return steno_respond_status(rq, &err, NULL);
    rq->reserved = n;
    rq->origin = steno_request_header(rq, "Origin");
    pthread_mutex_lock(&http->lock);
    connection_of(rq->conn)->post = rq;
    pthread_mutex_unlock(&http->lock);
    /* the sweeper's time, not the later of two */
    (void)MHD_set_connection_option(rq->conn, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
    return MHD_YES;
}

static enum MHD_Result continue_post(steno_http *http, struct steno_request *rq, const char *data,
                                     size_t n)
{
    struct connection *c = connection_of(rq->conn);
    if (rq->code)
        return MHD_YES;
    if (!n)
        return end_post(http, rq, c) ? rq->route->post(rq) : MHD_NO;
    if (!steno_buf_add(&rq->body, data, n))
        return MHD_YES;
    pthread_mutex_lock(&http->lock);
    if (c->post)
        cut_post(c, 413, "limit_exceeded", TOO_LONG);
    pthread_mutex_unlock(&http->lock);
    return MHD_NO;
}

/* ---- routing -------------------------------------------------------------------------------- */

/* Whether the page that asks, if one does, may. OPTIONS only asks whether others may. */
static const char *distrusts(struct steno_request *rq, enum steno_method m)
{
    const struct steno_origin_headers headers = {
        steno_request_header(rq, "Origin"), steno_request_header(rq, "Host"),
        steno_request_header(rq, "Sec-Fetch-Site"), last_header(rq->conn, "X-Forwarded-Host")};
    const bool acts =
        m != STENO_METHOD_GET && m != STENO_METHOD_HEAD && strcmp(rq->method, "OPTIONS") != 0;
    const char *why = steno_server_distrusts(rq->sv->srv, &rq->peer->addr, &headers, acts);
    if (why)
        steno_metric_add(rq->sv->srv->stats->sessions_rejected[STENO_REJECT_ORIGIN], 1);
    return why;
}

static enum MHD_Result begin_request(steno_http *http, struct steno_request *rq)
{
    enum steno_method m = steno_method_of(rq->method);
    const char *why;
    bool within;
    size_t path;
    steno_query_make_origin_form(rq->target);
    within = enter_prefix(rq);
    steno_query_clean_path(rq->target);
    steno_openai_make_path(rq->target);
    path = steno_query_path_len(rq->target);
    choose_id(rq);
    rq->route = steno_route_find(rq->target, path);
    if ((why = distrusts(rq, m)))
        return steno_respond_error(rq, 403, "forbidden", NULL, "%s", why);
    if (!within)
        return redirect_to_prefix(rq);
    if (!strcmp(rq->method, "OPTIONS"))
        return answer_options(rq);
    if (is_traced(rq))
        begin_trace(rq);
    if (is_upload(rq)) {
        return count_client(http, rq)
                   ? steno_upload_begin(rq)
                   : steno_respond_error(rq, 503, "busy", NULL,
                                         "too many connections from this address");
    }
    if (is_post(rq))
        return begin_post(http, rq);
    if (!rq->route->path)
        return steno_respond_error(rq, 404, "not_found", NULL, "%.*s does not exist",
                                   path > 200 ? 200 : (int)path, rq->target);
    if (rq->route->methods & STENO_ROUTE_GET && (m == STENO_METHOD_GET || m == STENO_METHOD_HEAD))
        return rq->route->get(rq);
    if (rq->route->methods & STENO_ROUTE_DELETE && m == STENO_METHOD_DELETE)
        return rq->route->remove(rq);
    return wrong_method(rq);
}

/* The request is answered before its body was read. The connection closes, but only after the
 * client had time to read the answer. */
static enum MHD_Result begin_with_body(steno_http *http, struct steno_request *rq)
{
    enum MHD_Result ok = begin_request(http, rq);
    if (rq->code)
        *rq->linger = true;
    return ok;
}

/* What is wrong with the head of a later request of a connection; the acceptor has seen only the
 * first one's. NULL: nothing. */
static const char *check_framing(struct steno_request *rq)
{
    struct steno_buf head;
    const char *wrong = "the head is too large";
    steno_buf_init(&head, STENO_REQUEST_HEAD);
    if (!steno_request_write_head(rq, &head))
        wrong = steno_request_head_framing(head.data, head.len);
    steno_buf_free(&head);
    return wrong;
}

/* Nobody can say where the next request begins: the connection ends with this answer. */
static enum MHD_Result refuse_framing(struct steno_request *rq, const char *wrong)
{
    const struct steno_header headers[] = {{"Connection", "close"}, {NULL, NULL}};
    choose_id(rq);
    rq->route = steno_route_find(rq->target, steno_query_path_len(rq->target));
    *rq->linger = true;
    return steno_respond_refusal(rq, 400, "invalid_argument", wrong, headers);
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *conn, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **con_cls)
{
    struct steno_request *rq = *con_cls;
    (void)url;
    if (!rq)
        return MHD_NO; /* out of memory when the request line came */
    if (!rq->conn) {
        struct connection *c = connection_of(conn);
        const char *wrong;
        bool later;
        if (!c)
            return MHD_NO;
        rq->conn = conn;
        rq->method = method;
        rq->http11 = !strcmp(version, MHD_HTTP_VERSION_1_1);
        rq->linger = &c->linger;
        rq->moved = &c->moved;
        rq->peer = &c->peer;
        atomic_store_explicit(&c->waits_since, 0, memory_order_relaxed);
        later = c->later;
        c->later = true;
        if (later && (wrong = check_framing(rq)))
            return refuse_framing(rq, wrong);
        /* An answer in this first call closes the connection, because libmicrohttpd cannot know
         * whether a body follows. So a request without a body is answered in the second call. */
        return brings_body(rq) ? begin_with_body(cls, rq) : MHD_YES;
    }
    if (!rq->route) {
        enum MHD_Result ok;
        if (rq->sv->live->take(rq, &ok))
            return ok;
        if (begin_request(cls, rq) != MHD_YES)
            return MHD_NO;
        if (is_post(rq) && !rq->code)
            return rq->route->post(rq);
        return rq->upload && !rq->code ? steno_upload_continue(rq) : MHD_YES;
    }
    if (is_post(rq)) {
        size_t n = *size;
        *size = 0;
        return continue_post(cls, rq, data, n);
    }
    if (*size) {
        enum MHD_Result ok = steno_upload_data(rq, data, *size);
        *size = 0;
        return ok;
    }
    return steno_upload_continue(rq);
}

/* The request line has come. libmicrohttpd gives the raw target only here. The result becomes
 * *con_cls. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *conn)
{
    steno_http *http = cls;
    struct steno_request *rq = calloc(1, sizeof *rq);
    (void)conn;
    if (!rq)
        return NULL;
    rq->sv = &http->sv;
    rq->started = steno_now_ns();
    steno_buf_init(&rq->body, STENO_POST_BYTES);
    rq->target = strndup(target, MAX_TARGET);
    if (rq->target)
        return rq;
    free(rq);
    return NULL;
}

/* Whether the request gets a log line. Refusals for lack of a place or quota come in storms, so
 * their lines are limited. */
static bool worth_a_line(steno_http *http, const struct steno_request *rq)
{
    bool may;
    if (rq->model || (rq->code != 429 && rq->code != 503))
        return true;
    pthread_mutex_lock(&http->lock);
    may = steno_log_ration_take(&http->lines, steno_now_ns());
    pthread_mutex_unlock(&http->lock);
    return may;
}

/* The peer, or who a trusted proxy says is its client. */
static void print_client(const struct steno_request *rq, struct MHD_Connection *conn,
                         const struct steno_peer *peer, char *out)
{
    struct sockaddr_storage client;
    bool known = steno_server_client(rq->sv->srv, &peer->addr, last_header(conn, "X-Forwarded-For"),
                                     &client);
    steno_address_print(known ? &client : &peer->addr, out);
}

static void log_request(const struct steno_request *rq, struct MHD_Connection *conn, double seconds)
{
    const struct connection *c = connection_of(conn);
    char peer[STENO_ADDRESS_TEXT] = "unknown", trace[33];
    const char *target = rq->route->private_path ? rq->route->label : rq->target;
    size_t path = steno_query_path_len(target);
    bool quiet = steno_method_of(rq->method) != STENO_METHOD_POST && rq->code == 200;
    int level = quiet ? LOG_DEBUG : rq->code >= 500 ? LOG_WARNING : LOG_INFO;
    if (c)
        print_client(rq, conn, &c->peer, peer);
    const struct steno_log_field fields[] = {
        {"request_id", rq->id, 0},
        {"trace_id", steno_trace_id(&rq->trace, trace), 0},
        {"peer", peer, 0},
        {"method", rq->method, 0},
        {"route", rq->route->label, 0},
        {"status", NULL, rq->code},
        {"seconds", NULL, seconds},
        {"key", steno_key_name(rq->key), 0},
        {"model", rq->model ? rq->model : "", 0},
        {"audio_seconds", NULL, rq->audio_seconds},
        {"inference_seconds", NULL, rq->inference_seconds},
    };
    steno_log_event(level, "request", STENO_LOG_FIELDS(fields), "%s %s %.*s: %d in %.3f s%s%s [%s]",
                    peer, rq->method, path > 200 ? 200 : (int)path, target, rq->code, seconds,
                    *rq->note ? ", " : "", rq->note, rq->id);
}

/* Report the trace of an upload, or of a request about jobs. */
static void trace_request(const struct steno_request *rq, struct MHD_Connection *conn,
                          const struct connection *c)
{
    struct steno_trace_report r = {
        .trace = rq->trace,
        .start_ns = rq->started,
        .end_ns = steno_now_ns(),
        .method = steno_method_name(steno_method_of(rq->method)),
        .route = rq->route->label,
        .api = steno_session_api_name(is_about_jobs(rq) ? STENO_SESSION_JOB : rq->route->api),
        .status = rq->code,
        .failed = rq->code >= 500,
        .audio_seconds = rq->audio_seconds};
    struct sockaddr_storage client;
    snprintf(r.request_id, sizeof r.request_id, "%s", rq->id);
    snprintf(r.job, sizeof r.job, "%s", rq->job);
    snprintf(r.result, sizeof r.result, "%s",
             rq->admitted ? steno_session_result_name(rq->result) : "");
    snprintf(r.model, sizeof r.model, "%s", rq->model ? rq->model : "");
    snprintf(r.key, sizeof r.key, "%s", steno_key_name(rq->key));
    if (c)
        steno_trace_client(&r, steno_server_client(rq->sv->srv, &c->peer.addr,
                                                   last_header(conn, "X-Forwarded-For"), &client)
                                   ? &client
                                   : &c->peer.addr);
    if (is_upload(rq))
        r.phases[STENO_PHASE_RECEIVE] =
            (struct steno_phase_time){rq->started, rq->received_ns ? rq->received_ns : r.end_ns, 0};
    steno_trace_pool_phases(&r, &rq->pool);
    if (rq->result_ns)
        r.phases[STENO_PHASE_ANSWER] = (struct steno_phase_time){rq->result_ns, r.end_ns, 0};
    steno_tracer_report(rq->sv->srv->tracer, &r);
}

/* The answer was cut off. */
static void note_unread(struct steno_request *rq)
{
    size_t n = strlen(rq->note);
    rq->unread = true;
    snprintf(rq->note + n, sizeof rq->note - n, "%sthe client read nothing for limits.idle_timeout",
             n ? ", " : "");
}

static void on_completed(void *cls, struct MHD_Connection *conn, void **con_cls,
                         enum MHD_RequestTerminationCode why)
{
    steno_http *http = cls;
    struct steno_request *rq = *con_cls;
    struct connection *c = connection_of(conn);
    bool late = why == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED;
    double seconds;
    if (!rq)
        return;
    *con_cls = NULL;
    if (c)
        atomic_store_explicit(&c->waits_since, steno_now_ns(), memory_order_relaxed);
    if (rq->route) {
        if (c && is_post(rq))
            (void)forget_post(http, rq, c);
        if (!rq->code)
            rq->code = rq->expired ? rq->expired : steno_upload_own_answer(rq);
        if (!rq->code)
            rq->code = late ? 408 : 499;
        else if (rq->code == 200 && late)
            note_unread(rq);
        if (rq->client_counted)
            steno_acceptor_leave(http->acceptor, &rq->client);
        steno_upload_end(rq);
        seconds = (double)(steno_now_ns() - rq->started) / 1e9;
        steno_request_metrics_count(&http->metrics, rq, seconds);
        if (rq->sv->srv->conf->log_requests && worth_a_line(http, rq))
            log_request(rq, conn, seconds);
        if (steno_trace_recorded(&rq->trace))
            trace_request(rq, conn, c);
    }
    if (rq->reserved)
        steno_limits_release(rq->sv->srv->limits, rq->reserved);
    rq->sv->live->end(rq);
    free(rq->target);
    steno_buf_free(&rq->body);
    free(rq);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void link_connection(steno_http *http, struct connection *c)
{
    pthread_mutex_lock(&http->lock);
    c->older = http->newest;
    if (c->older)
        c->older->newer = c;
    http->newest = c;
    if (http->closing)
        shutdown(c->fd, SHUT_RD);
    pthread_mutex_unlock(&http->lock);
}

static void unlink_connection(steno_http *http, struct connection *c)
{
    pthread_mutex_lock(&http->lock);
    if (c->older)
        c->older->newer = c->newer;
    if (c->newer)
        c->newer->older = c->older;
    else
        http->newest = c->older;
    pthread_mutex_unlock(&http->lock);
}

static void count_connection(steno_http *http, int by)
{
    pthread_mutex_lock(&http->lock);
    http->given += by;
    pthread_cond_signal(&http->changed);
    pthread_mutex_unlock(&http->lock);
}

static void connection_started(steno_http *http, struct MHD_Connection *conn, void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct connection *c = calloc(1, sizeof *c);
    if (c && info && info->client_addr) {
        c->peer.len = info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                               : sizeof(struct sockaddr_in);
        if (info->client_addr->sa_family == AF_INET || info->client_addr->sa_family == AF_INET6)
            memcpy(&c->peer.addr, info->client_addr, c->peer.len);
        else
            c->peer.addr.ss_family = info->client_addr->sa_family;
    }
    info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (c) {
        c->fd = info ? info->connect_fd : -1;
        link_connection(http, c);
    }
    *context = c;
}

static void connection_closed(steno_http *http, void **context)
{
    struct connection *c = *context;
    if (!c)
        return;
    bool moved = atomic_load_explicit(&c->moved, memory_order_relaxed);
    if (c->linger && !moved) {
        /* this descriptor keeps the socket open when libmicrohttpd closes its own */
        int fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
        if (fd >= 0) {
            shutdown(fd, SHUT_WR);
            steno_acceptor_linger(http->acceptor, fd);
        }
    }
    if (!moved)
        steno_acceptor_closed(http->acceptor, &c->peer);
    unlink_connection(http, c);
    free(c);
    *context = NULL;
}

static void on_connection(void *cls, struct MHD_Connection *conn, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        connection_started(cls, conn, context);
    } else {
        connection_closed(cls, context);
        count_connection(cls, -1);
    }
}

void steno_http_add(steno_http *http, int fd, const struct steno_peer *peer)
{
    count_connection(http, 1);
    /* On failure libmicrohttpd has closed fd. */
    if (MHD_add_connection(http->daemon, fd, (const struct sockaddr *)&peer->addr, peer->len) !=
        MHD_YES) {
        steno_metric_add(http->sv.srv->stats->sessions_rejected[STENO_REJECT_CONNECTIONS], 1);
        steno_acceptor_closed(http->acceptor, peer);
        count_connection(http, -1);
    }
}

/* libmicrohttpd bounds the silence of a connection, not the time of a head that comes byte by byte.
 * A later head of a connection must be there after limits.idle_timeout and limits.header_timeout.
 */
static void *sweep_connections(void *arg)
{
    steno_http *http = arg;
    const struct steno_config *conf = http->sv.srv->conf;
    const int64_t most = (int64_t)((conf->idle_timeout + conf->header_timeout) * 1e9);
    pthread_mutex_lock(&http->lock);
    while (!http->closing) {
        const int64_t now = steno_now_ns();
        for (struct connection *c = http->newest; c; c = c->older) {
            if (c->post && now - c->post->started > (int64_t)(conf->idle_timeout * 1e9))
                cut_post(c, 408, "body_timeout",
                         "the request body did not come in limits.idle_timeout");
            int64_t since = atomic_load_explicit(&c->waits_since, memory_order_relaxed);
            if (!since || now - since <= most ||
                atomic_load_explicit(&c->moved, memory_order_relaxed))
                continue;
            atomic_store_explicit(&c->waits_since, 0, memory_order_relaxed);
            shutdown(c->fd, SHUT_RD); /* libmicrohttpd closes it */
            steno_metric_add(http->sv.srv->stats->sessions_rejected[STENO_REJECT_SLOW], 1);
        }
        (void)steno_cond_wait_until(&http->ends, &http->lock, steno_now_ns() + SECOND);
    }
    pthread_mutex_unlock(&http->lock);
    return NULL;
}

/* Stop reading from all connections, and wait until libmicrohttpd has released them, at most a
 * second. While libmicrohttpd 0.9.75 is being stopped, it queues no answer, but writes the head of
 * the answer that it has for a malformed request (transmit_error_response_len). So nothing may be
 * left to parse by then. */
static void hang_up(steno_http *http)
{
    int64_t until;
    pthread_mutex_lock(&http->lock);
    http->closing = true;
    pthread_cond_signal(&http->ends);
    for (struct connection *c = http->newest; c; c = c->older)
        shutdown(c->fd, SHUT_RD);
    until = steno_now_ns() + SECOND;
    while (http->given && steno_cond_wait_until(&http->changed, &http->lock, until))
        ;
    pthread_mutex_unlock(&http->lock);
}

static void on_mhd_log(void *cls, const char *fmt, va_list ap) STENO_PRINTF(2, 0);
static void on_mhd_log(void *cls, const char *fmt, va_list ap)
{
    char line[512];
    size_t n;
    (void)cls;
    vsnprintf(line, sizeof line, fmt, ap);
    n = strlen(line);
    while (n && line[n - 1] == '\n')
        line[--n] = '\0';
    steno_log(LOG_DEBUG, "libmicrohttpd: %s", line);
}

static void http_free(steno_http *http)
{
    pthread_cond_destroy(&http->changed);
    pthread_cond_destroy(&http->ends);
    pthread_mutex_destroy(&http->lock);
    free(http);
}

/* libmicrohttpd's threads inherit the niceness of the thread that starts them. Requests, above all
 * refused ones, must not take the processors from running streams. */
static void *start_daemon(void *arg)
{
    steno_http *http = arg;
    const struct steno_config *conf = http->sv.srv->conf;
    steno_thread_give_way();
    /* poll, not epoll. With edge-triggered epoll, 0.9.75 takes a short read for the end of the
     * available data and misses the FIN of a client that sent half a body and left. The request
     * then held its place until the idle timeout (clients_gone_in_the_middle_are_noticed). */
    http->daemon = MHD_start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC |
            MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE | MHD_USE_ERROR_LOG,
        0, NULL, NULL, handle, http, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, NULL,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)conf->http_threads, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)conf->connections + (unsigned)conf->http_threads, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)conf->idle_timeout, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, http, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        http, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_END);
    return NULL;
}

steno_status steno_http_open(steno_http **out, const struct steno_services *services,
                             steno_acceptor *acceptor, steno_err *err)
{
    steno_http *http = calloc(1, sizeof *http);
    pthread_t starter;
    steno_status st;
    if (!http)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    http->sv = *services;
    http->acceptor = acceptor;
    pthread_mutex_init(&http->lock, NULL);
    steno_cond_init(&http->changed);
    steno_cond_init(&http->ends);
    steno_request_metrics_register(&http->metrics, http->sv.srv->stats->registry);
    st = steno_thread_start(&starter, "http", start_daemon, http, err);
    if (st) {
        http_free(http);
        return st;
    }
    pthread_join(starter, NULL);
    if (!http->daemon) {
        http_free(http);
        return steno_fail(err, STENO_ERR_INTERNAL, "libmicrohttpd does not start");
    }
    st = steno_thread_start(&http->sweeper, "http-sweep", sweep_connections, http, err);
    if (st) {
        MHD_stop_daemon(http->daemon);
        http_free(http);
        return st;
    }
    *out = http;
    return STENO_OK;
}

void steno_http_close(steno_http *http)
{
    if (!http)
        return;
    hang_up(http);
    pthread_join(http->sweeper, NULL);
    MHD_stop_daemon(http->daemon);
    http_free(http);
}
