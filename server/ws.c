/* Sockets of GET /v1/stream: libwebsockets around server/ws_session.h.
 *
 * One service thread owns the context and every socket. Others reach it only through two lists
 * under ws->mx (sockets to adopt, connections with news) and lws_cancel_service. A recogniser's
 * worker that calls on_note writes the answer into the session's outbox, puts the connection on the
 * news list and returns; the service thread then asks for the socket to become writable and sends
 * one message per WRITEABLE callback.
 *
 * Back-pressure: when the pool's buffer of a stream is full the session stops being readable and
 * the socket's reading is switched off (lws_rx_flow_control: lws keeps at most its one read
 * buffer), so that TCP slows the client down; a ROOM note switches it on again. A client that does
 * not read: partials replace each other, and past ws_send_bytes of unread finals it is closed.
 *
 * libwebsockets 4.1.6 as Debian builds it: one service thread per context (LWS_MAX_SMP 1), no
 * listening socket here, permessage-deflate off (about 300 KiB of zlib per connection for text that
 * is small, and audio does not shrink). */
#include "server/ws.h"

#include <libwebsockets.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "audio/ogg_opus.h"
#include "base/clock.h"
#include "protocol/openai_rest.h"
#include "server/log.h"
#include "server/ws_session.h"

#define RX_BYTES 8192           /* handed to the session at a time, per connection */
#define SOCKET_SEND_BYTES 65536 /* kernel's buffer of unread answers; Linux doubles it */
#define CLOSE_SECONDS 10        /* for a slow reader to take the close frame */
#define SWEEP_US (1000 * 1000)

struct conn {
    steno_ws *ws;
    struct lws *wsi;
    struct steno_peer peer;
    char id[STENO_ID_SIZE];
    struct conn *next, **back; /* ws->conns: service thread */
    struct conn *next_news;    /* ws->news, locked by ws->mx */
    bool has_news;             /* likewise */
    bool entered;              /* holds a place of the limits */
    bool established, rx_off, closing;
    steno_ws_session *session;
    steno_pool_stream *stream;
    int64_t opened_ns, last_rx_ns;
    atomic_llong first_audio_ns; /* relaxed: the pool's lock orders it before every note */
    bool had_partial;            /* the stream's worker */
};

struct adoption {
    struct adoption *next;
    int fd;
    struct steno_peer peer;
};

struct steno_ws {
    struct steno_server *srv;
    void (*closed)(void *user, const struct steno_peer *peer);
    void *user;
    struct lws_context *ctx;
    struct lws_vhost *vhost;
    struct lws_protocols protocols[2];
    lws_retry_bo_t idle;
    lws_sorted_usec_list_t sweep;
    pthread_t thread;
    bool running;
    atomic_bool stop, drain; /* release/acquire with lws_cancel_service's wake-up */
    /* service thread */
    struct conn *conns;
    struct steno_buf tx;
    bool drained;
    /* locked by mx */
    pthread_mutex_t mx;
    struct adoption *adoptions, **last_adoption;
    struct conn *news;
};

bool steno_ws_serves(const char *path, size_t len)
{
    static const char mine[] = "/v1/stream";
    return len == sizeof mine - 1 && !memcmp(path, mine, len);
}

/* ---- the recogniser ---------------------------------------------------------------------- */

static void wake(struct conn *c)
{
    steno_ws *ws = c->ws;
    bool first;
    pthread_mutex_lock(&ws->mx);
    first = !ws->news;
    if (!c->has_news) {
        c->has_news = true;
        c->next_news = ws->news;
        ws->news = c;
    }
    pthread_mutex_unlock(&ws->mx);
    if (first)
        lws_cancel_service(ws->ctx);
}

static void observe(struct conn *c, const struct steno_pool_note *note)
{
    struct steno_stats *st = c->ws->srv->stats;
    const struct steno_event *ev = note->event;
    if (note->kind != STENO_POOL_EVENT)
        return;
    if (ev->kind == STENO_PARTIAL) {
        int64_t first = atomic_load_explicit(&c->first_audio_ns, memory_order_relaxed);
        if (!c->had_partial && first)
            steno_metric_observe(st->first_partial, (double)(steno_now_ns() - first) * 1e-9);
        c->had_partial = true;
        steno_metric_observe(st->partial_latency, note->latency);
    } else if (ev->kind == STENO_FINAL && ev->n_words) {
        steno_metric_observe(st->final_latency, note->latency + ev->time - ev->end);
    }
}

/* A worker of the pool. */
static void on_note(void *user, steno_pool_stream *ps, const struct steno_pool_note *note)
{
    struct conn *c = user;
    (void)ps;
    observe(c, note);
    if (steno_ws_session_note(c->session, note))
        wake(c);
}

static steno_status engine_resolve(void *ctx, struct steno_native_start *s, steno_err *err)
{
    const struct steno_server *srv = ((struct conn *)ctx)->ws->srv;
    if (!steno_server_knows_model(srv, s->model))
        return steno_fail(err, STENO_ERR_INVAL, "model: '%s' is not served here, but '%s' is",
                          s->model, srv->info.name);
    snprintf(s->model, sizeof s->model, "%s", srv->info.name);
    if (s->audio.encoding == STENO_ENCODING_OPUS && !s->audio.sample_rate)
        s->audio.sample_rate = steno_opus_rate_for(srv->info.sample_rate);
    return STENO_OK;
}

static steno_status engine_open(void *ctx, const struct steno_native_start *s, int rate,
                                steno_err *err)
{
    struct conn *c = ctx;
    struct steno_pool_stream_options opt = {
        .stream = {.sample_rate = rate,
                   .no_endpointing = !s->endpointing,
                   .no_partials = !s->interim,
                   .beam = s->beam,
                   .n_best = s->alternatives,
                   .endpoint = s->endpoint},
        .priority = STENO_POOL_LIVE,
    };
    return steno_pool_stream_open(&c->stream, c->ws->srv->pool, &opt, on_note, c, err);
}

static steno_status engine_push(void *ctx, const float *pcm, size_t n, size_t *taken,
                                steno_err *err)
{
    struct conn *c = ctx;
    if (!atomic_load_explicit(&c->first_audio_ns, memory_order_relaxed))
        atomic_store_explicit(&c->first_audio_ns, steno_now_ns(), memory_order_relaxed);
    return steno_pool_stream_push(c->stream, pcm, n, taken, err);
}

static steno_status engine_finalize(void *ctx, steno_err *err)
{
    return steno_pool_stream_finalize(((struct conn *)ctx)->stream, err);
}

static void engine_end(void *ctx)
{
    steno_pool_stream_end(((struct conn *)ctx)->stream);
}

static const struct steno_ws_engine engine = {engine_resolve, engine_open, engine_push,
                                              engine_finalize, engine_end};

/* ---- the end of a connection ------------------------------------------------------------- */

static enum steno_session_result result_of(const struct steno_ws_session_state *st)
{
    switch (st->ending) {
    case STENO_WS_ENDED:
        return STENO_SESSION_OK;
    case STENO_WS_DRAINED:
        return STENO_SESSION_DRAINED;
    case STENO_WS_BAD:
        return STENO_SESSION_BAD;
    case STENO_WS_STOPPED:
    case STENO_WS_SLOW:
        return STENO_SESSION_TIMEOUT;
    case STENO_WS_BUSY:
    case STENO_WS_FAILED:
        return STENO_SESSION_FAILED;
    case STENO_WS_RUNNING:
        break;
    }
    return STENO_SESSION_GONE;
}

static void account(struct conn *c, const struct steno_ws_session_state *st)
{
    static const char *const how[STENO_SESSION_RESULTS] = {
        "ok", "bad request", "client gone", "timed out", "drained", "failed"};
    struct steno_stats *stats = c->ws->srv->stats;
    struct steno_pool_stream_stats ps = {0};
    if (c->stream) {
        steno_pool_stream_get_stats(c->stream, &ps);
        steno_metric_add(stats->audio_seconds[STENO_SESSION_STREAM], ps.audio_seconds);
        steno_metric_add(stats->inference_seconds[STENO_SESSION_STREAM], ps.inference_seconds);
        if (ps.audio_seconds > 0)
            steno_metric_observe(stats->realtime_factor, ps.inference_seconds / ps.audio_seconds);
        if (ps.steps)
            steno_metric_observe(stats->queue_wait, ps.queue_wait_seconds / (double)ps.steps);
    }
    steno_metric_add(stats->partial_revisions, (double)st->partials_revised);
    if (st->failed_in_audio)
        steno_stats_decode_error(stats, STENO_SESSION_STREAM, st->failure);
    if (c->ws->srv->conf->log_requests)
        steno_log(LOG_INFO,
                  "stream %s: %s%s%s, %.2f s of audio, %llu finals, %llu messages, %.1f s open",
                  c->id, how[result_of(st)], st->ending >= STENO_WS_BAD ? ": " : "",
                  st->ending >= STENO_WS_BAD ? st->reason : "", st->audio_seconds,
                  (unsigned long long)st->finals, (unsigned long long)st->messages,
                  (double)(steno_now_ns() - c->opened_ns) * 1e-9);
}

static void unlink_news(struct conn *c)
{
    pthread_mutex_lock(&c->ws->mx);
    for (struct conn **p = &c->ws->news; *p; p = &(*p)->next_news)
        if (*p == c) {
            *p = c->next_news;
            break;
        }
    c->has_news = false;
    pthread_mutex_unlock(&c->ws->mx);
}

/* Release all but the struct; again: nothing. */
static void finish(struct conn *c)
{
    struct steno_ws_session_state st;
    if (!c->entered)
        return;
    c->entered = false;
    steno_ws_session_get_state(c->session, &st);
    if (c->stream && st.ending == STENO_WS_RUNNING)
        steno_pool_stream_cancel(c->stream);
    account(c, &st);
    steno_pool_stream_close(c->stream); /* no note comes after it */
    c->stream = NULL;
    unlink_news(c);
    steno_ws_session_free(c->session);
    c->session = NULL;
    if (c->established)
        steno_metric_add(c->ws->srv->stats->ws_connections, -1);
    steno_limits_leave(c->ws->srv->limits, STENO_SESSION_STREAM, result_of(&st));
}

static void destroy(struct conn *c)
{
    finish(c);
    *c->back = c->next;
    if (c->next)
        c->next->back = c->back;
    c->ws->closed(c->ws->user, &c->peer);
    free(c);
}

/* ---- handshake --------------------------------------------------------------------------- */

static bool add_header(struct conn *c, enum lws_token_indexes name, const char *value,
                       unsigned char **p, unsigned char *end)
{
    return !lws_add_http_header_by_token(c->wsi, name, (const unsigned char *)value,
                                         (int)strlen(value), p, end);
}

/* Answer the upgrade request with an error status and close. */
static int refuse(struct conn *c, unsigned status, const char *code, const char *message)
{
    unsigned char buf[LWS_PRE + 4096], *start = buf + LWS_PRE, *p = start;
    unsigned char *end = buf + sizeof buf - 1;
    char after[24];
    struct steno_buf body;
    steno_buf_init(&body, 2048);
    snprintf(after, sizeof after, "%.0f", fmax(1, ceil(c->ws->srv->conf->retry_after)));
    if (!steno_openai_write_error(&body, message, steno_openai_error_type((int)status), NULL,
                                  code) &&
        !lws_add_http_header_status(c->wsi, status, &p, end) &&
        add_header(c, WSI_TOKEN_HTTP_CONTENT_TYPE, "application/json", &p, end) &&
        (status != 503 || add_header(c, WSI_TOKEN_HTTP_RETRY_AFTER, after, &p, end)) &&
        (status != 426 || add_header(c, WSI_TOKEN_VERSION, "13", &p, end)) &&
        add_header(c, WSI_TOKEN_CONNECTION, "close", &p, end) &&
        !lws_add_http_header_content_length(c->wsi, body.len, &p, end) &&
        !lws_finalize_http_header(c->wsi, &p, end) && (size_t)(end - p) >= body.len) {
        memcpy(p, body.data, body.len);
        p += body.len;
        lws_write(c->wsi, start, (size_t)(p - start), LWS_WRITE_HTTP_HEADERS);
    }
    steno_buf_free(&body);
    return -1; /* closes; what was written is with the kernel */
}

/* Whether one of the comma-separated names in a header is ours. */
static bool offers(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; *p; p += strspn(p, ", ")) {
        size_t k = strcspn(p, ", ");
        if (k == n && !strncmp(p, name, n))
            return true;
        p += k;
    }
    return false;
}

/* What libwebsockets would answer by just closing. 0, or the return value of refuse. */
static int check_handshake(struct conn *c)
{
    char text[256], message[400];
    int n = lws_hdr_copy(c->wsi, text, sizeof text, WSI_TOKEN_GET_URI);
    if (n <= 0 || !steno_ws_serves(text, (size_t)n))
        return refuse(c, 404, "not_found", "no WebSocket at this path; /v1/stream is one");
    n = lws_hdr_copy(c->wsi, text, sizeof text, WSI_TOKEN_VERSION);
    if (n <= 0 || strcmp(text, "13"))
        return refuse(c, 426, "upgrade_required", "Sec-WebSocket-Version must be 13 (RFC 6455)");
    /* RFC 6455, 4.2.1: 16 bytes in base64 */
    if (lws_hdr_copy(c->wsi, text, sizeof text, WSI_TOKEN_KEY) != 24)
        return refuse(c, 400, "invalid_argument", "Sec-WebSocket-Key must be 24 characters");
    n = lws_hdr_copy(c->wsi, text, sizeof text, WSI_TOKEN_PROTOCOL);
    if (n < 0 || (n > 0 && !offers(text, STENO_NATIVE_PROTOCOL))) {
        snprintf(message, sizeof message,
                 "Sec-WebSocket-Protocol: '%s' has no protocol of this path; " STENO_NATIVE_PROTOCOL
                 " is one, and none need be asked for",
                 n < 0 ? "(too long)" : text);
        return refuse(c, 400, "invalid_argument", message);
    }
    return 0;
}

static void read_query(struct conn *c)
{
    char pair[512], *value;
    int n;
    for (int i = 0;
         (n = lws_hdr_copy_fragment(c->wsi, pair, sizeof pair, WSI_TOKEN_HTTP_URI_ARGS, i)) != -1;
         i++) {
        if (n < 0 || n >= (int)sizeof pair) {
            steno_ws_session_query(c->session, "(longer than 511 bytes)", "");
            return;
        }
        pair[n] = '\0';
        value = strchr(pair, '=');
        if (value)
            *value++ = '\0';
        steno_ws_session_query(c->session, pair, value ? value : "");
    }
}

static int confirm(struct conn *c)
{
    struct steno_server *srv = c->ws->srv;
    struct steno_ws_session_limits limits = {srv->conf->ws_message_bytes, srv->conf->ws_send_bytes,
                                             srv->conf->audio_seconds};
    steno_err err;
    int refused = check_handshake(c);
    if (refused)
        return refused;
    if (steno_limits_enter(srv->limits, STENO_SESSION_STREAM, &err))
        return refuse(c, 503, steno_status_info(err.code)->name, err.msg);
    steno_id_new(c->id, "sess");
    c->session = steno_ws_session_new(&engine, c, c->id, &limits);
    if (!c->session) {
        steno_limits_leave(srv->limits, STENO_SESSION_STREAM, STENO_SESSION_FAILED);
        return refuse(c, 503, "out_of_memory", "out of memory");
    }
    c->entered = true;
    read_query(c);
    return 0;
}

/* ---- traffic ----------------------------------------------------------------------------- */

static void establish(struct conn *c)
{
    int bytes = SOCKET_SEND_BYTES;
    c->established = true;
    steno_metric_add(c->ws->srv->stats->ws_connections, 1);
    if (setsockopt(lws_get_socket_fd(c->wsi), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes))
        steno_log(LOG_DEBUG, "stream %s: the kernel keeps its own send buffer size", c->id);
    c->last_rx_ns = steno_now_ns();
    if (c->ws->drained)
        steno_ws_session_drain(c->session);
    lws_callback_on_writable(
        c->wsi); /* the query may have failed: then there is something to say */
}

static void update_flow(struct conn *c)
{
    bool off = !steno_ws_session_readable(c->session);
    if (off == c->rx_off)
        return;
    c->rx_off = off;
    if (off)
        steno_metric_add(c->ws->srv->stats->ws_rx_paused, 1);
    c->last_rx_ns = steno_now_ns(); /* a pause of ours is no silence of the client's */
    lws_rx_flow_control(c->wsi, !off);
}

static void receive(struct conn *c, const char *p, size_t n)
{
    bool last = lws_is_final_fragment(c->wsi);
    c->last_rx_ns = steno_now_ns();
    lws_validity_confirmed(c->wsi);
    if (lws_frame_is_binary(c->wsi)) {
        bool first = lws_is_first_fragment(c->wsi);
        steno_ws_session_binary(c->session, p, n, first, last);
    } else {
        steno_ws_session_text(c->session, p, n, last);
    }
    update_flow(c);
    lws_callback_on_writable(c->wsi);
}

static int close_with(struct conn *c, const struct steno_ws_session_state *st)
{
    char reason[124];
    int n = snprintf(reason, sizeof reason, "%s", st->reason);
    lws_close_reason(c->wsi, (enum lws_close_status)st->close_code, (unsigned char *)reason,
                     (size_t)n);
    return -1;
}

static int write_one(struct conn *c)
{
    struct steno_ws_session_state st;
    struct steno_buf *tx = &c->ws->tx;
    size_t n;
    tx->len = LWS_PRE;
    if (steno_ws_session_take(c->session, tx) == STENO_OK) {
        n = tx->len - LWS_PRE;
        if (lws_write(c->wsi, (unsigned char *)tx->data + LWS_PRE, n, LWS_WRITE_TEXT) < (int)n)
            return -1;
        lws_callback_on_writable(c->wsi);
        return 0;
    }
    steno_ws_session_get_state(c->session, &st);
    return st.close ? close_with(c, &st) : 0;
}

/* ---- news and time ----------------------------------------------------------------------- */

static void attend(struct conn *c)
{
    struct steno_ws_session_state st;
    steno_ws_session_get_state(c->session, &st);
    if (st.room_wanted) {
        steno_ws_session_resume(c->session);
        update_flow(c);
    }
    if (st.ending == STENO_WS_SLOW && !c->closing) {
        c->closing = true;
        lws_set_timeout(c->wsi, PENDING_TIMEOUT_CLOSE_SEND, CLOSE_SECONDS);
    }
    lws_callback_on_writable(c->wsi);
}

static void take_news(steno_ws *ws)
{
    for (;;) {
        struct conn *c;
        pthread_mutex_lock(&ws->mx);
        c = ws->news;
        if (c) {
            ws->news = c->next_news;
            c->has_news = false;
        }
        pthread_mutex_unlock(&ws->mx);
        if (!c)
            return;
        if (c->established)
            attend(c);
    }
}

static void adopt_one(steno_ws *ws, struct adoption *a)
{
    struct conn *c = calloc(1, sizeof *c);
    if (!c) {
        close(a->fd);
        ws->closed(ws->user, &a->peer);
        return;
    }
    c->ws = ws;
    c->peer = a->peer;
    c->opened_ns = c->last_rx_ns = steno_now_ns();
    c->wsi = lws_adopt_socket_vhost(ws->vhost, a->fd); /* closes fd if it fails */
    if (!c->wsi) {
        steno_log(LOG_WARNING, "stream: libwebsockets refused a socket");
        ws->closed(ws->user, &a->peer);
        free(c);
        return;
    }
    c->back = &ws->conns;
    c->next = ws->conns;
    if (c->next)
        c->next->back = &c->next;
    ws->conns = c;
    lws_set_opaque_user_data(c->wsi, c);
}

static void adopt_waiting(steno_ws *ws)
{
    struct adoption *a, *next;
    pthread_mutex_lock(&ws->mx);
    a = ws->adoptions;
    ws->adoptions = NULL;
    ws->last_adoption = &ws->adoptions;
    pthread_mutex_unlock(&ws->mx);
    for (; a; a = next) {
        next = a->next;
        adopt_one(ws, a);
        free(a);
    }
}

static void drain_all(steno_ws *ws)
{
    ws->drained = true;
    for (struct conn *c = ws->conns; c; c = c->next)
        if (c->established && c->session) {
            steno_ws_session_drain(c->session);
            lws_callback_on_writable(c->wsi);
        }
}

/* Once a second: silent clients, the send queue's gauge. */
static void on_sweep(lws_sorted_usec_list_t *sul)
{
    steno_ws *ws = lws_container_of(sul, steno_ws, sweep);
    double idle = ws->srv->conf->ws_idle_timeout;
    int64_t now = steno_now_ns();
    size_t queued = 0;
    for (struct conn *c = ws->conns; c; c = c->next) {
        struct steno_ws_session_state st;
        if (!c->session || !c->established)
            continue;
        steno_ws_session_get_state(c->session, &st);
        queued += st.queued;
        if (c->rx_off) /* its pongs are not read either */
            lws_validity_confirmed(c->wsi);
        else if ((double)(now - c->last_rx_ns) * 1e-9 > idle) {
            char msg[96];
            snprintf(msg, sizeof msg, "idle: no audio and no message for %g s", idle);
            steno_ws_session_stop(c->session, "idle_timeout", 1008, msg);
            lws_callback_on_writable(c->wsi);
        }
    }
    steno_metric_set(ws->srv->stats->ws_send_queue, (double)queued);
    lws_sul_schedule(ws->ctx, 0, &ws->sweep, on_sweep, SWEEP_US);
}

static void on_wake(steno_ws *ws)
{
    adopt_waiting(ws);
    if (!ws->drained && atomic_load_explicit(&ws->drain, memory_order_acquire))
        drain_all(ws);
    take_news(ws);
}

static int on_lws(struct lws *wsi, enum lws_callback_reasons reason, void *unused, void *in,
                  size_t len)
{
    struct conn *c = wsi ? lws_get_opaque_user_data(wsi) : NULL;
    (void)unused;
    switch (reason) {
    case LWS_CALLBACK_EVENT_WAIT_CANCELLED:
        on_wake(lws_context_user(lws_get_context(wsi)));
        return 0;
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        return c ? confirm(c) : -1;
    case LWS_CALLBACK_HTTP: /* no upgrade, or a second request after a refused one */
        return -1;
    case LWS_CALLBACK_ESTABLISHED:
        establish(c);
        return 0;
    case LWS_CALLBACK_RECEIVE:
        receive(c, in, len);
        return 0;
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return c && c->session ? write_one(c) : 0;
    case LWS_CALLBACK_CLOSED:
        if (c)
            finish(c);
        return 0;
    case LWS_CALLBACK_WSI_DESTROY:
        if (c)
            destroy(c);
        return 0;
    default:
        return 0;
    }
}

/* ---- open, close ------------------------------------------------------------------------- */

static void log_lws(int level, const char *line)
{
    steno_log(level & LLL_ERR ? LOG_WARNING : LOG_DEBUG, "libwebsockets: %.*s",
              (int)strcspn(line, "\n"), line);
}

static void *serve(void *arg)
{
    steno_ws *ws = arg;
    while (!atomic_load_explicit(&ws->stop, memory_order_acquire))
        if (lws_service(ws->ctx, 0) < 0)
            break;
    return NULL;
}

static uint16_t seconds16(double s)
{
    return s < UINT16_MAX ? (uint16_t)s : UINT16_MAX;
}

static steno_status make_context(steno_ws *ws, steno_err *err)
{
    const struct steno_config *conf = ws->srv->conf;
    struct lws_context_creation_info info = {0};
    /* a name for clients that ask for a subprotocol; those that don't get the first one as well */
    ws->protocols[0] = (struct lws_protocols){
        .name = STENO_NATIVE_PROTOCOL, .callback = on_lws, .rx_buffer_size = RX_BYTES};
    ws->idle.secs_since_valid_ping = seconds16(conf->ws_ping_interval);
    ws->idle.secs_since_valid_hangup = seconds16(conf->ws_idle_timeout + 1);
    info.port = CONTEXT_PORT_NO_LISTEN_SERVER;
    info.protocols = ws->protocols;
    info.user = ws;
    info.gid = (gid_t)-1;
    info.uid = (uid_t)-1;
    info.options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS | LWS_SERVER_OPTION_VALIDATE_UTF8;
    info.max_http_header_data = 16384; /* cookies, tokens: the default 4096 is too little */
    info.max_http_header_pool = 256;   /* handshakes at once */
    /* not more than rx_buffer_size: lws hands one read over in pieces of that without looking at
     * the flow control between them (lws_parse_ws, 4.1.6) */
    info.pt_serv_buf_size = RX_BYTES;
    info.retry_and_idle_policy = &ws->idle;
    info.vhost_name = "stenod";
    lws_set_log_level(LLL_ERR | LLL_WARN, log_lws);
    ws->ctx = lws_create_context(&info);
    if (ws->ctx)
        ws->vhost = lws_create_vhost(ws->ctx, &info);
    if (!ws->vhost)
        return steno_fail(err, STENO_ERR_INTERNAL, "websocket: libwebsockets has no context");
    return STENO_OK;
}

steno_status steno_ws_open(steno_ws **out, struct steno_server *srv,
                           void (*closed)(void *user, const struct steno_peer *peer), void *user,
                           steno_err *err)
{
    steno_ws *ws = calloc(1, sizeof *ws);
    steno_status st = STENO_OK;
    if (!ws)
        return steno_fail(err, STENO_ERR_NOMEM, "websocket: out of memory");
    if (pthread_mutex_init(&ws->mx, NULL)) {
        free(ws);
        return steno_fail(err, STENO_ERR_NOMEM, "websocket: no mutex");
    }
    ws->srv = srv;
    ws->closed = closed;
    ws->user = user;
    ws->last_adoption = &ws->adoptions;
    steno_buf_init(&ws->tx, LWS_PRE + 2 * srv->conf->ws_send_bytes);
    st = steno_buf_reserve(&ws->tx, LWS_PRE + 4096);
    if (st) {
        st = steno_fail(err, st, "websocket: out of memory");
        goto fail;
    }
    st = make_context(ws, err);
    if (st)
        goto fail;
    lws_sul_schedule(ws->ctx, 0, &ws->sweep, on_sweep, SWEEP_US);
    if (pthread_create(&ws->thread, NULL, serve, ws)) {
        st = steno_fail(err, STENO_ERR_INTERNAL, "websocket: cannot make a thread");
        goto fail;
    }
    ws->running = true;
    *out = ws;
    return STENO_OK;
fail:
    steno_ws_close(ws);
    return st;
}

void steno_ws_adopt(steno_ws *ws, int fd, const struct steno_peer *peer)
{
    struct adoption *a = malloc(sizeof *a);
    if (!a) {
        close(fd);
        ws->closed(ws->user, peer);
        return;
    }
    *a = (struct adoption){.fd = fd, .peer = *peer};
    pthread_mutex_lock(&ws->mx);
    *ws->last_adoption = a;
    ws->last_adoption = &a->next;
    pthread_mutex_unlock(&ws->mx);
    lws_cancel_service(ws->ctx);
}

void steno_ws_drain(steno_ws *ws)
{
    atomic_store_explicit(&ws->drain, true, memory_order_release);
    lws_cancel_service(ws->ctx);
}

void steno_ws_close(steno_ws *ws)
{
    struct adoption *a, *next;
    if (!ws)
        return;
    if (ws->running) {
        atomic_store_explicit(&ws->stop, true, memory_order_release);
        lws_cancel_service(ws->ctx);
        pthread_join(ws->thread, NULL);
    }
    if (ws->ctx) {
        lws_sul_cancel(&ws->sweep);
        lws_context_destroy(ws->ctx);
    }
    for (a = ws->adoptions; a; a = next) {
        next = a->next;
        close(a->fd);
        ws->closed(ws->user, &a->peer);
        free(a);
    }
    steno_buf_free(&ws->tx);
    pthread_mutex_destroy(&ws->mx);
    free(ws);
}
