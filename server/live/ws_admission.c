#include "server/live/ws_admission.h"

#include "base/clock.h"
#include "base/list.h"
#include "protocol/deepgram.h"
#include "protocol/query.h"
#include "server/core/credentials.h"
#include "server/port/address.h"
#include "server/port/head.h"
#include "server/port/origin.h"
#include "server/port/refusal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct steno_ws_handshake handshake;

/* The parameters of the URL that matter for admission. */
struct asked {
    bool damaged; /* the query; the session reports it in its dialect */
    char model[STENO_NATIVE_MODEL_BYTES];
    struct steno_options options; /* of models */
    bool bad_option, resumes;
};

bool steno_ws_asked(const struct steno_server *srv, const struct steno_peer *peer, const char *head,
                    size_t len)
{
    struct steno_request_head rq;
    size_t skip;
    if (!steno_request_head_parse(head, len, &rq) || !rq.upgrade)
        return false;
    skip =
        steno_server_skip_prefix(srv, &peer->addr, rq.path, rq.path_len, rq.prefix, rq.prefix_len);
    return steno_dialect_find(rq.path + skip, rq.path_len - skip,
                              steno_dialect_of_root(srv->conf->ws_root));
}

bool steno_ws_refuse(struct steno_ws_refusal *no, int status, const char *code, const char *message,
                     double retry_after)
{
    no->status = status;
    no->code = code;
    no->retry_after = retry_after;
    snprintf(no->message, sizeof no->message, "%s", message);
    return false;
}

static steno_status on_query(void *user, const char *name, const char *value, steno_err *err)
{
    struct asked *a = user;
    (void)err;
    if (!strcmp(name, "model"))
        snprintf(a->model, sizeof a->model, "%s", value);
    else if (!strcmp(name, "session_id"))
        a->resumes = true;
    else if (steno_options_known_of(name, STENO_OPTION_OF_MODEL) &&
             steno_options_set(&a->options, name, value, NULL))
        a->bad_option = true;
    return STENO_OK;
}

static void read_query(const handshake *g, struct asked *a)
{
    memset(a, 0, sizeof *a);
    if (steno_query_each(g->hs.target, on_query, a, NULL))
        *a = (struct asked){.damaged = true};
}

static enum steno_session_api api_of(const struct steno_dialect *d)
{
    for (int a = STENO_SESSION_STREAM; a < STENO_SESSION_APIS; a++)
        if (!strcmp(d->name, steno_session_api_name((enum steno_session_api)a)))
            return (enum steno_session_api)a;
    return STENO_SESSION_STREAM;
}

static bool find_dialect(const struct steno_server *srv, handshake *g, struct steno_ws_refusal *no)
{
    g->dialect = steno_dialect_find(g->hs.target, steno_query_path_len(g->hs.target),
                                    steno_dialect_of_root(srv->conf->ws_root));
    if (!g->dialect)
        return steno_ws_refuse(no, 404, "not_found",
                               "no WebSocket endpoint at this path; /v1/stream is one", 0);
    g->api = api_of(g->dialect);
    return true;
}

const char *steno_ws_subprotocol(const struct steno_dialect *d, const struct steno_handshake *hs)
{
    const char *of_key = steno_credentials_protocol(hs->protocols);
    if (d->subprotocol && steno_list_holds(hs->protocols, d->subprotocol))
        return d->subprotocol;
    return of_key ? of_key : "";
}

/* True when the handshake can be answered with 101. */
static bool check_handshake(const handshake *g, struct steno_ws_refusal *no)
{
    int status;
    const char *own = g->dialect->subprotocol;
    const char *wrong = steno_handshake_check(&g->hs, &status);
    if (wrong)
        return steno_ws_refuse(no, status, status == 426 ? "upgrade_required" : "invalid_argument",
                               wrong, 0);
    if (!*g->hs.protocols || *steno_ws_subprotocol(g->dialect, &g->hs) ||
        steno_credentials_protocol(g->hs.protocols))
        return true;
    steno_ws_refuse(no, 400, "invalid_argument", "", 0);
    /* the list itself may hold a key, so it is not in the message */
    snprintf(
        no->message, sizeof no->message,
        "Sec-WebSocket-Protocol: no protocol of this path is in it%s%s; none need be asked for",
        own ? ", which speaks " : "", own ? own : "");
    return false;
}

static bool find_key(const struct steno_server *srv, handshake *g, struct steno_ws_refusal *no)
{
    const struct steno_credentials given = {g->hs.authorization, g->hs.api_key, g->hs.protocols,
                                            g->hs.target};
    char secret[STENO_SECRET];
    bool any = steno_credentials_secret(&given, secret);
    steno_err err;
    steno_status st;
    if (!any && g->dialect->late_key && steno_keys_required(srv->keys)) {
        g->late_key = true;
        return true;
    }
    st = steno_keys_find(srv->keys, any ? secret : NULL, &g->key, &err);
    if (!st && any && g->api == STENO_SESSION_REALTIME)
        g->session = steno_keys_session(srv->keys, secret);
    explicit_bzero(secret, sizeof secret);
    if (!st)
        return true;
    steno_metric_add(srv->stats->sessions_rejected[STENO_REJECT_KEY], 1);
    return steno_ws_refuse(no, 401, "invalid_api_key", err.msg, 0);
}

static steno_status on_setting(void *user, const char *name, const char *value, steno_err *err)
{
    struct steno_dialect_session *d = user;
    if (steno_credentials_parameter(name))
        return STENO_OK;
    return d->dialect->query(d, name, value, err);
}

/* What a session of Deepgram's would find wrong with the URL. */
static steno_status try_settings(const struct steno_server *srv, const handshake *g,
                                 struct steno_dialect_session *d, steno_err *err)
{
    struct steno_served *served;
    struct steno_hints hints;
    steno_status st = steno_query_each(g->hs.target, on_setting, d, err);
    if (!st && d->dialect->first_audio(d, "", 0, err) == STENO_ERR_INVAL)
        return err->code;
    if (st || steno_native_start_complete(&d->start, err))
        return err->code;
    st = steno_models_acquire(srv->models, d->start.model, &d->start.options, &served, err);
    if (st == STENO_ERR_INVAL)
        return steno_fail_in(err, st, "model");
    if (st)
        return STENO_OK; /* it has no place now: the admission says so */
    hints = steno_hints_of(&d->hints);
    hints = steno_hints_taken(&hints, &served->info);
    st = steno_hint_check(&d->hints, &hints, &served->info, err);
    steno_models_release(srv->models, served);
    return st;
}

/* Deepgram answers wrong parameters before the upgrade. */
static bool check_settings(const struct steno_server *srv, const handshake *g,
                           struct steno_ws_refusal *no)
{
    struct steno_dialect_session d = {.dialect = g->dialect};
    steno_err err = {0};
    steno_status st = STENO_ERR_NOMEM;
    d.state = calloc(1, d.dialect->state_bytes);
    if (d.state) {
        steno_native_start_init(&d.start);
        d.start.hints = &d.hints;
        d.hints.profanity = srv->profanity;
        d.dialect->init(&d);
        st = try_settings(srv, g, &d, &err);
        if (d.dialect->free_state)
            d.dialect->free_state(&d);
        steno_hint_store_free(&d.hints);
        free(d.state);
    }
    if (!st)
        return true;
    if (st == STENO_ERR_NOMEM || st == STENO_ERR_INTERNAL)
        return steno_ws_refuse(no, 503, steno_status_info(st)->name, "out of memory", 1);
    return steno_ws_refuse(no, 400, "invalid_argument", err.msg, 0);
}

/* Check whether the pool of the model that the URL names would take a stream, and note its name for
 * the answer. Impossible requests pass: the session reports them in its dialect. *why: the reason
 * that a refusal counts as. */
static steno_status admit(const struct steno_server *srv, handshake *g, const struct asked *a,
                          enum steno_rejection *why, steno_err *err)
{
    struct steno_served *served;
    steno_status st;
    *why = STENO_REJECT_LOADING;
    if (a->damaged || a->bad_option)
        return STENO_OK;
    st = steno_models_acquire(srv->models, a->model, &a->options, &served, err);
    if (st)
        return st == STENO_ERR_INVAL ? STENO_OK : st;
    *why = STENO_REJECT_CAPACITY;
    st = steno_pool_admit(served->pool, STENO_POOL_LIVE, err);
    if (!st && *a->model) /* without memory the header is left out */
        g->hs.model = strdup(served->name);
    steno_models_release(srv->models, served);
    return st;
}

/* Take a place of the limits, of the pool and of the key. */
static bool take_places(const struct steno_server *srv, handshake *g, const struct asked *a,
                        struct steno_ws_refusal *no)
{
    double after = 1;
    int64_t now = steno_now_ns();
    enum steno_rejection why;
    steno_err err;
    if (steno_limits_enter(srv->limits, g->api, &err))
        return steno_ws_refuse(
            no, 503,
            steno_limits_draining(srv->limits) ? "draining" : steno_status_info(err.code)->name,
            err.msg, steno_limits_come_back(srv->limits, now));
    if (admit(srv, g, a, &why, &err)) {
        steno_limits_refund(srv->limits, g->api, why);
        return steno_ws_refuse(no, 503, steno_status_info(err.code)->name, err.msg,
                               steno_limits_come_back(srv->limits, now));
    }
    if (steno_key_enter(srv->keys, g->key, now, &after, &err)) {
        steno_limits_refund(srv->limits, g->api, STENO_REJECT_QUOTA);
        return steno_ws_refuse(no, 429, "quota_exceeded", err.msg, after);
    }
    steno_limits_started(srv->limits, g->api);
    g->entered = true;
    return true;
}

void steno_ws_request_id(char out[STENO_REQUEST_ID], const struct steno_handshake *hs,
                         const char *own)
{
    const char *given = hs->request_id ? hs->request_id : ""; /* Wyoming has none */
    size_t n = strlen(given);
    bool good = n && n < STENO_REQUEST_ID;
    for (size_t i = 0; good && i < n; i++)
        good = isalnum((unsigned char)given[i]) || strchr("-_.:", given[i]);
    snprintf(out, STENO_REQUEST_ID, "%s", good ? given : own);
}

/* Whether the page that asks, if one does, may use the server. */
static bool check_sender(const struct steno_server *srv, const struct steno_peer *peer,
                         const handshake *g, struct steno_ws_refusal *no)
{
    const struct steno_origin_headers headers = {g->hs.origin, *g->hs.host ? g->hs.host : NULL,
                                                 g->hs.fetch_site, g->hs.forwarded_host};
    const char *why = steno_server_distrusts(srv, &peer->addr, &headers, true);
    if (!why)
        return true;
    steno_metric_add(srv->stats->sessions_rejected[STENO_REJECT_ORIGIN], 1);
    return steno_ws_refuse(no, 403, "forbidden", why, 0);
}

static bool check_admission(const struct steno_server *srv, const struct steno_peer *peer,
                            handshake *g, struct steno_ws_refusal *no)
{
    struct asked a;
    if (!find_dialect(srv, g, no) || !check_handshake(g, no) || !check_sender(srv, peer, g, no))
        return false;
    read_query(g, &a);
    if (!find_key(srv, g, no))
        return false;
    if (g->api == STENO_SESSION_DEEPGRAM && !check_settings(srv, g, no))
        return false;
    g->resumes = a.resumes && g->dialect->resumed;
    return g->resumes || take_places(srv, g, &a, no);
}

const char *steno_ws_route(const struct steno_dialect *d)
{
    static const struct {
        const char *name, *path;
    } routes[] = {
        {"stream", "/v1/stream"}, {"deepgram", "/v1/listen"}, {"realtime", "/v1/realtime"},
        {"vosk", "/vosk"},        {"sherpa", "/sherpa"},      {"wenet", "/wenet"},
        {"twilio", "/twilio"},    {"asterisk", "/asterisk"},  {"freeswitch", "/freeswitch"}};
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (!strcmp(d->name, routes[i].name))
            return routes[i].path;
    return d->name;
}

void steno_ws_trace_refusal(const struct steno_server *srv, const handshake *g, int64_t started,
                            const struct sockaddr_storage *client, struct steno_ws_refusal *no)
{
    struct steno_trace_report r = {.trace = g->trace,
                                   .start_ns = started,
                                   .end_ns = steno_now_ns(),
                                   .method = "GET",
                                   .route = g->dialect ? steno_ws_route(g->dialect) : "other",
                                   .api = g->dialect ? steno_session_api_name(g->api) : "",
                                   .status = no->status,
                                   .failed = no->status >= 500};
    if (g->trace.on) {
        (void)steno_traceparent_write(&g->trace.own, no->traceparent);
        snprintf(no->tracestate, sizeof no->tracestate, "%s", g->trace.state);
    }
    if (!steno_trace_recorded(&g->trace))
        return;
    snprintf(r.result, sizeof r.result, "refused");
    snprintf(r.request_id, sizeof r.request_id, "%s", no->request_id);
    snprintf(r.key, sizeof r.key, "%s", steno_key_name(g->key));
    if (client)
        steno_trace_client(&r, client);
    steno_tracer_report(srv->tracer, &r);
}

static void begin_trace(const struct steno_server *srv, handshake *g)
{
    char state[4096] = ""; /* a longer list is cut, and then perhaps not valid: it is dropped */
    size_t n = 0;
    for (size_t i = 0; i < 4 && *g->hs.tracestate[i] && n < sizeof state; i++)
        n += (size_t)snprintf(state + n, sizeof state - n, "%s%s", n ? "," : "",
                              g->hs.tracestate[i]);
    steno_trace_begin(srv->tracer, g->hs.traceparent, n < sizeof state ? state : NULL, &g->trace);
}

static bool try_admission(const struct steno_server *srv, const struct steno_peer *peer,
                          handshake *g, struct steno_ws_refusal *no)
{
    char id[STENO_ID_SIZE];
    begin_trace(srv, g);
    if (check_admission(srv, peer, g, no)) {
        if (g->dialect->resumed)
            steno_id_of_node(g->id, srv->conf->node);
        else
            steno_id_new(g->id, "sess");
        steno_ws_request_id(g->request_id, &g->hs, g->id);
        return true;
    }
    no->deepgram = g->dialect && g->api == STENO_SESSION_DEEPGRAM;
    steno_ws_request_id(no->request_id, &g->hs, steno_id_new(id, "req"));
    return false;
}

void steno_ws_handshake_release(const struct steno_server *srv, handshake *g)
{
    if (g->entered) {
        steno_key_leave(srv->keys, g->key);
        steno_limits_leave(srv->limits, g->api, STENO_SESSION_FAILED);
    }
    g->entered = false;
    free(g->session);
    g->session = NULL;
    steno_handshake_free(&g->hs);
}

steno_status steno_ws_write_accept(struct steno_buf *out, const struct steno_handshake *hs,
                                   const struct steno_dialect *d, const char *id,
                                   const char *request_id, const struct steno_trace *trace)
{
    const bool deepgram = api_of(d) == STENO_SESSION_DEEPGRAM;
    char extra[480 + STENO_TRACESTATE_SIZE + 16], uuid[37], parent[STENO_TRACEPARENT_SIZE];
    int n;
    steno_dialect_uuid(id, uuid);
    n = snprintf(extra, sizeof extra, "X-Request-Id: %s\r\n%s%s%s", request_id,
                 deepgram ? "dg-request-id: " : "", deepgram ? uuid : "", deepgram ? "\r\n" : "");
    if (hs->model)
        n += snprintf(extra + n, sizeof extra - (size_t)n, "X-Steno-Model: %.127s\r\n", hs->model);
    if (trace && trace->on)
        snprintf(extra + n, sizeof extra - (size_t)n, "traceparent: %s\r\n%s%s%s",
                 steno_traceparent_write(&trace->own, parent), *trace->state ? "tracestate: " : "",
                 trace->state, *trace->state ? "\r\n" : "");
    return steno_handshake_accept(hs, steno_ws_subprotocol(d, hs), extra, out);
}

/* Append the header lines that a refusal has beside those of every answer. id: for Deepgram. */
static steno_status put_headers(struct steno_buf *b, const struct steno_ws_refusal *no,
                                const char *id)
{
    char reason[STENO_DEEPGRAM_ERROR];
    steno_status st = steno_buf_printf(b, "X-Request-Id: %s\r\n", no->request_id);
    steno_deepgram_error_header(no->message, reason);
    if (!st && no->deepgram)
        st = steno_buf_printf(b, "dg-request-id: %s\r\ndg-error: %s\r\n", id, reason);
    if (!st && (no->status == 503 || no->status == 429))
        st = steno_buf_printf(b, "Retry-After: %.0f\r\n", fmax(1, ceil(no->retry_after)));
    if (!st && no->status == 401)
        st = steno_buf_puts(b, "WWW-Authenticate: Bearer\r\n");
    if (!st && *no->traceparent)
        st = steno_buf_printf(b, "traceparent: %s\r\n", no->traceparent);
    if (!st && *no->tracestate)
        st = steno_buf_printf(b, "tracestate: %s\r\n", no->tracestate);
    return st;
}

steno_status steno_ws_write_refusal(struct steno_buf *out, const struct steno_server *srv,
                                    const char *origin, const struct steno_ws_refusal *no)
{
    char id[STENO_DEEPGRAM_ID], cors[STENO_ORIGIN_LINES];
    struct steno_buf body, extra;
    steno_status st;
    steno_buf_init(&body, STENO_REFUSAL_BYTES / 2);
    steno_buf_init(&extra, STENO_REFUSAL_BYTES / 2);
    steno_deepgram_request_id(no->request_id, id);
    steno_origin_lines(srv->conf->cors_origins, origin, origin ? strlen(origin) : 0, cors);
    st = put_headers(&extra, no, id);
    if (!st)
        st = steno_buf_puts(&extra, cors);
    if (!st && no->deepgram)
        st = steno_deepgram_write_error(&body, no->code, no->message, id);
    if (!st)
        st = no->deepgram ? steno_refusal_write_body(out, no->status, extra.data, &body)
                          : steno_refusal_write(out, no->status, no->code, no->message, extra.data);
    steno_buf_free(&extra);
    steno_buf_free(&body);
    return st;
}

/* ---- the socket ------------------------------------------------------------------------------ */

/* Read the head, which the acceptor only peeked at, from the socket. All of it is there. */
static bool consume_head(int fd, size_t len)
{
    char sink[4096];
    while (len) {
        ssize_t n = recv(fd, sink, len < sizeof sink ? len : sizeof sink, MSG_DONTWAIT);
        if (n <= 0)
            return false;
        len -= (size_t)n;
    }
    return true;
}

static void log_refusal(struct steno_ws_admission *d, const struct steno_peer *who,
                        const handshake *g, const struct steno_ws_refusal *no)
{
    const char *api = g->dialect ? g->dialect->name : "";
    char peer[STENO_ADDRESS_TEXT], trace[33];
    bool may;
    if (!d->srv->conf->log_requests)
        return;
    pthread_mutex_lock(&d->lock);
    may = steno_log_ration_take(&d->lines, steno_now_ns());
    pthread_mutex_unlock(&d->lock);
    if (!may)
        return;
    const struct steno_log_field fields[] = {
        {"request_id", no->request_id, 0},
        {"trace_id", steno_trace_id(&g->trace, trace), 0},
        {"api", api, 0},
        {"peer", steno_address_print(&who->addr, peer), 0},
        {"key", steno_key_name(g->key), 0},
        {"status", NULL, no->status},
        {"error", no->message, 0},
    };
    steno_log_event(LOG_INFO, "refused", STENO_LOG_FIELDS(fields),
                    "%s: handshake refused with %d: %s", api, no->status, no->message);
}

/* Send a refusal. False when the socket is to be closed, true when it lingers. A client waits for
 * its answer (RFC 6455, 4.1), so usually nothing follows its head, and closing resets nothing: then
 * the FIN goes with the answer. */
static bool send_refusal(const struct steno_ws_admission *d, int fd, const char *origin,
                         const struct steno_ws_refusal *no)
{
    struct steno_buf out;
    char byte;
    bool more = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
    steno_buf_init(&out, STENO_REFUSAL_BYTES);
    if (!steno_ws_write_refusal(&out, d->srv, origin, no))
        (void)!send(fd, out.data, out.len, MSG_DONTWAIT | MSG_NOSIGNAL | (more ? 0 : MSG_MORE));
    steno_buf_free(&out);
    if (more)
        d->owner->linger(d->user, fd);
    return more;
}

bool steno_ws_admit_wyoming(struct steno_ws_admission *d, int fd, const struct steno_peer *peer,
                            handshake *g)
{
    struct steno_ws_refusal no = {0};
    const struct asked nothing = {0};
    steno_err err;
    memset(g, 0, sizeof *g);
    g->dialect = &steno_dialect_wyoming;
    g->api = STENO_SESSION_WYOMING;
    if (steno_keys_named(d->srv->keys, d->srv->conf->wyoming_key, &g->key, &err)) {
        steno_metric_add(d->srv->stats->sessions_rejected[STENO_REJECT_KEY], 1);
        steno_ws_refuse(&no, 401, "invalid_api_key", err.msg, 0);
    } else if (take_places(d->srv, g, &nothing, &no)) {
        steno_ws_request_id(g->request_id, &g->hs, steno_id_new(g->id, "sess"));
        return true;
    }
    steno_id_new(no.request_id, "req");
    log_refusal(d, peer, g, &no);
    steno_refusal_send_wyoming(fd, no.code, no.message);
    d->owner->linger(d->user, fd);
    d->owner->closed(d->user, peer);
    steno_ws_handshake_release(d->srv, g);
    return false;
}

/* Check a parsed handshake. A trusted proxy says whose it is: then peer becomes the client. */
static bool decide(struct steno_ws_admission *d, struct steno_peer *peer, handshake *g,
                   struct steno_ws_refusal *no)
{
    const char *prefix = g->hs.forwarded_prefix;
    const int64_t started = steno_now_ns();
    struct steno_peer client = *peer;
    bool forwarded = steno_server_client(d->srv, &peer->addr, g->hs.forwarded_for, &client.addr);
    g->hs.target +=
        steno_server_skip_prefix(d->srv, &peer->addr, g->hs.target,
                                 steno_query_path_len(g->hs.target), prefix, strlen(prefix));
    if (try_admission(d->srv, peer, g, no)) {
        if (!forwarded || d->owner->recount(d->user, peer, &client.addr))
            return true;
        steno_ws_refuse(no, 503, "busy", "too many connections from this address",
                        steno_limits_come_back(d->srv->limits, steno_now_ns()));
        steno_id_new(no->request_id, "req");
    }
    steno_ws_trace_refusal(d->srv, g, started, forwarded ? &client.addr : &peer->addr, no);
    log_refusal(d, forwarded ? &client : peer, g, no);
    return false;
}

bool steno_ws_decide(struct steno_ws_admission *d, struct steno_peer *peer, const char *head,
                     size_t len, handshake *g, struct steno_ws_refusal *no)
{
    steno_err err;
    steno_status st;
    memset(g, 0, sizeof *g);
    memset(no, 0, sizeof *no);
    st = steno_handshake_parse(&g->hs, head, len, &err);
    if (st) {
        steno_id_new(no->request_id, "req");
        return steno_ws_refuse(no, steno_status_info(st)->http, steno_status_info(st)->name,
                               err.msg, 1);
    }
    if (decide(d, peer, g, no))
        return true;
    steno_ws_handshake_release(d->srv, g);
    return false;
}

bool steno_ws_admit(struct steno_ws_admission *d, int fd, struct steno_peer *peer, const char *head,
                    size_t len, handshake *g)
{
    struct steno_ws_refusal no = {0};
    bool lingers = false;
    memset(g, 0, sizeof *g);
    if (!steno_handshake_parse(&g->hs, head, len, NULL) && consume_head(fd, len)) {
        if (decide(d, peer, g, &no))
            return true;
        lingers = send_refusal(d, fd, g->hs.origin, &no);
    }
    if (!lingers)
        close(fd);
    d->owner->closed(d->user, peer);
    steno_ws_handshake_release(d->srv, g);
    return false;
}
