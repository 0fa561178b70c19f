/* One connection of the WebSocket side, from the answer to its handshake to its end.
 *
 * Backpressure: when the pool's buffer of a stream is full, or too many answers are unread, the
 * session stops being readable. Input that was read beyond that is kept (at most one read), reading
 * from the socket is switched off, and TCP slows the client down. A ROOM note, or a client that
 * reads again, switches it on. A client that reads nothing for websocket.slow_timeout is closed.
 *
 * The end: after the close frame is written, the socket lingers without its connection, and the
 * loop (ws.c) reads on for a while. Closing at once would reset the connection and lose the reason.
 */
#include "server/live/ws_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/list.h"
#include "protocol/query.h"
#include "server/base/log.h"
#include "server/core/credentials.h"
#include "server/port/address.h"
#include "server/port/refusal.h"

#define SOCKET_SEND_BYTES 65536 /* kernel's buffer of unread answers; Linux doubles it */
#define WRITE_BYTES 16384       /* of messages written at a time */

typedef struct steno_ws_conn conn;

static double seconds_since(int64_t then, int64_t now)
{
    return (double)(now - then) * 1e-9;
}

/* Wyoming has no handshake, no close frame and no pings that a server may send. */
static bool is_wyoming(const conn *c)
{
    return c->dialect == &steno_dialect_wyoming;
}

/* ---- the end of a connection ------------------------------------------------------------- */

static enum steno_session_result result_of(const struct steno_ws_session_state *st)
{
    switch (st->ending) {
    case STENO_WS_ENDED:
        return STENO_SESSION_OK;
    case STENO_WS_DRAINED:
        return STENO_SESSION_DRAINED;
    case STENO_WS_MOVED:
        return STENO_SESSION_MOVED;
    case STENO_WS_BAD:
        return STENO_SESSION_BAD;
    case STENO_WS_STOPPED:
    case STENO_WS_SLOW:
        return STENO_SESSION_TIMEOUT;
    case STENO_WS_BUSY:
        return STENO_SESSION_REFUSED;
    case STENO_WS_FAILED:
        return STENO_SESSION_FAILED;
    case STENO_WS_RUNNING:
        break;
    }
    return st->ended_by_close ? STENO_SESSION_OK : STENO_SESSION_GONE;
}

/* Log the one line of a session. */
static void log_end(conn *c, const struct steno_ws_session_state *st,
                    const struct steno_pool_stream_stats *ps, const char *trace)
{
    static const char *const how[STENO_SESSION_RESULTS] = {
        "ok",      "bad request", "client gone", "timed out",
        "drained", "failed",      "refused",     "goes on elsewhere"};
    double open = seconds_since(c->opened_ns, steno_now_ns());
    const char *wrong = st->ending >= STENO_WS_BAD ? st->reason : "";
    char peer[STENO_ADDRESS_TEXT];
    char mixed[40] = "";
    const struct steno_log_field fields[] = {
        {"session_id", c->id, 0},
        {"request_id", steno_ws_conn_request_id(c), 0},
        {"trace_id", trace, 0},
        {"api", c->dialect->name, 0},
        {"peer", steno_address_print(&c->peer.addr, peer), 0},
        {"key", steno_key_name(c->key), 0},
        {"model", c->served ? c->served->label : "", 0},
        {"result", how[result_of(st)], 0},
        {"error", wrong, 0},
        {"close_code", NULL, st->close_code},
        {"seconds", NULL, open},
        {"audio_seconds", NULL, st->audio_seconds},
        {"mixed_channels", NULL, st->mixed},
        {"inference_seconds", NULL, ps->inference_seconds},
        {"queue_wait_max", NULL, ps->queue_wait_max},
        {"finals", NULL, (double)st->finals},
        {"messages", NULL, (double)st->messages},
        {"partials_dropped", NULL, (double)st->partials_dropped},
    };
    if (st->mixed)
        snprintf(mixed, sizeof mixed, ", %u channels mixed", st->mixed);
    steno_log_event(LOG_INFO, "session", STENO_LOG_FIELDS(fields),
                    "%s %s: %s%s%s, %.2f s of audio%s, %llu finals, %llu messages, %.1f s open",
                    c->dialect->name, c->id, how[result_of(st)], *wrong ? ": " : "", wrong,
                    st->audio_seconds, mixed, (unsigned long long)st->finals,
                    (unsigned long long)st->messages, open);
}

static void trace_end(const conn *c, const struct steno_ws_session_state *st,
                      const struct steno_pool_stream_stats *ps)
{
    struct steno_trace_report r = {.trace = c->extra->trace,
                                   .start_ns = c->opened_ns,
                                   .end_ns = steno_now_ns(),
                                   .method = is_wyoming(c) ? "CONNECT" : "GET",
                                   .route = steno_ws_route(c->dialect),
                                   .api = steno_session_api_name(c->api),
                                   .status = is_wyoming(c) ? 0 : 101,
                                   .close_code = st->close_code,
                                   .failed = st->ending == STENO_WS_FAILED,
                                   .audio_seconds = st->audio_seconds};
    snprintf(r.result, sizeof r.result, "%s", steno_session_result_name(result_of(st)));
    snprintf(r.id, sizeof r.id, "%s", c->id);
    snprintf(r.request_id, sizeof r.request_id, "%s", steno_ws_conn_request_id(c));
    snprintf(r.model, sizeof r.model, "%s", c->served ? c->served->label : "");
    snprintf(r.key, sizeof r.key, "%s", steno_key_name(c->key));
    steno_trace_client(&r, &c->peer.addr);
    steno_trace_pool_phases(&r, ps);
    r.phases[STENO_PHASE_RECEIVE] = (struct steno_phase_time){
        c->opened_ns, c->last_message_ns ? c->last_message_ns : r.end_ns, 0};
    if (ps->last_step_ns)
        r.phases[STENO_PHASE_ANSWER] = (struct steno_phase_time){ps->last_step_ns, r.end_ns, 0};
    steno_tracer_report(c->ws->srv->tracer, &r);
}

static void account(conn *c, const struct steno_ws_session_state *st)
{
    struct steno_stats *stats = c->ws->srv->stats;
    const struct steno_pool_stream_stats ps = c->past;
    char trace[33] = "";
    if (c->extra)
        (void)steno_trace_id(&c->extra->trace, trace);
    steno_stats_audio(stats, c->api, st->received_seconds, st->dropped_seconds, &ps, trace);
    steno_metric_add(stats->partial_revisions, (double)st->partials_revised);
    if (st->failed_in_audio)
        steno_stats_decode_error(stats, c->api, st->failure);
    if (c->ws->srv->conf->log_requests)
        log_end(c, st, &ps, trace);
    if (c->extra && steno_trace_recorded(&c->extra->trace))
        trace_end(c, st, &ps);
}

void steno_ws_conn_end_session(conn *c)
{
    struct steno_ws_session_state st;
    if (!c->entered)
        return;
    c->entered = false;
    steno_ws_session_get_state(c->session, &st);
    if (c->stream && (st.ending == STENO_WS_RUNNING || st.ending == STENO_WS_MOVED))
        steno_channels_cancel(c->stream);
    if (c->waiting_ns && !c->told && !steno_ws_session_posted(c->session) &&
        st.ending != STENO_WS_MOVED) /* it may have ended well, but the client was not told */
        st.ending = STENO_WS_RUNNING;
    steno_ws_close_stream(c); /* no note comes after this and the diarizer's */
    account(c, &st);
    steno_diarizer_close(c->diarizer);
    c->diarizer = NULL;
    steno_waker_forget(c->ws->srv->waker, c->decoding);
    steno_ws_conn_unlink_ready(c);
    steno_models_release(c->ws->srv->models, c->served);
    c->served = NULL;
    steno_key_leave(c->ws->srv->keys, c->key);
    steno_limits_leave(c->ws->srv->limits, c->api, result_of(&st));
}

void steno_ws_conn_finish(conn *c)
{
    if (c->asked)
        *c->asked = NULL;
    c->asked = NULL;
    steno_handshake_free(&c->hs);
    free(c->preset);
    c->preset = NULL;
    steno_wyoming_reader_free(&c->events);
    steno_buf_free(&c->refusal);
    free(c->unread);
    c->unread = NULL;
    c->n_unread = 0;
    steno_ws_conn_end_session(c);
    if (c->session) {
        steno_ws_session_free(c->session);
        c->session = NULL;
        steno_ws_conn_unlink_ready(c); /* its storage may have woken it after the session's end */
    }
    steno_call_hook_leave(c->call);
    c->call = NULL;
    free(c->extra);
    c->extra = NULL;
    if (c->established && !c->waiting_ns)
        steno_metric_add(c->ws->srv->stats->ws_connections, -1);
    c->established = false;
}

/* ---- handshake --------------------------------------------------------------------------- */

void steno_ws_conn_close(conn *c, int close_code, const char *reason)
{
    unsigned char frame[STENO_WS_CONTROL_BYTES + 2];
    size_t n = steno_ws_close_frame(frame, close_code, reason);
    steno_buf_init(&c->refusal, sizeof frame);
    if (steno_buf_add(&c->refusal, frame, n))
        steno_buf_reset(&c->refusal);
    c->discarding = true;
    lws_callback_on_writable(c->wsi);
}

void steno_ws_conn_refuse(conn *c, int status, const char *code, const char *message)
{
    struct steno_ws_refusal no = {.status = status, .code = code};
    char id[STENO_ID_SIZE];
    if (c->hs.answered) { /* too late for an HTTP status */
        steno_ws_conn_close(c, status == 503 ? 1013 : 1008, message);
        return;
    }
    steno_ws_request_id(no.request_id, &c->hs, steno_id_new(id, "req"));
    snprintf(no.message, sizeof no.message, "%s", message);
    if (status == 503)
        no.retry_after = steno_limits_come_back(c->ws->srv->limits, steno_now_ns());
    if (c->extra) {
        const struct steno_ws_handshake g = {
            .dialect = c->dialect, .api = c->api, .key = c->key, .trace = c->extra->trace};
        steno_ws_trace_refusal(c->ws->srv, &g, c->opened_ns ? c->opened_ns : steno_now_ns(),
                               &c->peer.addr, &no);
    }
    steno_buf_init(&c->refusal, STENO_REFUSAL_BYTES);
    if (is_wyoming(c) ? steno_wyoming_write_error(&c->refusal, code, message)
                      : steno_ws_write_refusal(&c->refusal, c->ws->srv, c->hs.origin, &no))
        steno_buf_reset(&c->refusal); /* out of memory: only close */
    c->discarding = true;
    lws_callback_on_writable(c->wsi);
}

static steno_status on_query(void *user, const char *name, const char *value, steno_err *err)
{
    (void)err;
    if (!steno_credentials_parameter(name))
        steno_ws_session_query(((conn *)user)->session, name, value);
    return STENO_OK;
}

bool steno_ws_conn_new_session(conn *c)
{
    const struct steno_config *conf = c->ws->srv->conf;
    const struct steno_ws_session_limits limits = {
        conf->ws_message_bytes, conf->ws_send_bytes,
        conf->audio_seconds,    conf->ws_resume > 0 ? conf->ws_resume_bytes : 0,
        (int64_t)time(NULL),    c->ws->srv->speakers != NULL,
        c->ws->srv->profanity};
    c->session = steno_ws_session_new(c->dialect, &steno_ws_engine, c, c->id, &limits);
    return c->session;
}

static bool open_session(conn *c)
{
    c->entered = steno_ws_conn_new_session(c);
    if (c->entered)
        return true;
    steno_key_leave(c->ws->srv->keys, c->key);
    steno_limits_leave(c->ws->srv->limits, c->api, STENO_SESSION_FAILED);
    steno_ws_conn_refuse(c, 503, "out_of_memory", "out of memory");
    return false;
}

void steno_ws_conn_connected(conn *c)
{
    int bytes = SOCKET_SEND_BYTES;
    const struct steno_config *conf = c->ws->srv->conf;
    size_t text = c->dialect->max_text;
    if (c->dialect->text_part || text > conf->ws_message_bytes)
        text = conf->ws_message_bytes;
    if (is_wyoming(c))
        steno_wyoming_reader_init(&c->events, text, conf->ws_message_bytes);
    else
        steno_ws_reader_init(&c->reader, text, conf->ws_message_bytes);
    c->last_message_ns = c->last_rx_ns = c->last_tx_ns = steno_now_ns();
    c->established = true;
    steno_metric_add(c->ws->srv->stats->ws_connections, 1);
    if (setsockopt(lws_get_socket_fd(c->wsi), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes))
        steno_log(LOG_DEBUG, "stream %s: the kernel keeps its own send buffer size", c->id);
    lws_callback_on_writable(c->wsi);
}

void steno_ws_conn_begin(conn *c)
{
    steno_err err;
    if (!open_session(c))
        return;
    steno_ws_conn_connected(c);
    if (c->api == STENO_SESSION_REALTIME &&
        (*c->hs.beta || steno_list_holds(c->hs.protocols, STENO_OPENAI_BETA)))
        (void)on_query(c, "beta", "1", NULL);
    if (c->preset)
        (void)on_query(c, "session", c->preset, NULL);
    if (!is_wyoming(c) && steno_query_each(c->hs.target, on_query, c, &err))
        steno_ws_session_reject(c->session, err.code, 0, NULL, err.msg);
    steno_ws_session_opened(c->session);
    if (c->ws->drained)
        steno_ws_session_drain(c->session);
    if (c->n_unread)
        steno_ws_conn_attend(c);
}

/* ---- input ------------------------------------------------------------------------------- */

static bool readable(conn *c)
{
    struct steno_ws_session_state st;
    if (!steno_ws_session_readable(c->session))
        return false;
    steno_ws_session_get_state(c->session, &st);
    return st.queued <= c->ws->srv->conf->ws_send_bytes / 2;
}

/* A client of Wyoming may end its side of the connection once it has sent everything. libwebsockets
 * closes a connection as soon as it reads that end, with what is still to be written. */
static bool owes_answer(conn *c)
{
    struct steno_ws_session_state st;
    if (!is_wyoming(c))
        return false;
    steno_ws_session_get_state(c->session, &st);
    return st.queued || st.takes_no_more;
}

/* While libwebsockets keeps what the kernel would not take, it reads nothing (4.1.6), but polls for
 * the input that it does not read. A client that sends on would make the loop run without end. */
static void update_flow(conn *c)
{
    bool full = lws_partial_buffered(c->wsi);
    bool off = full || (!c->discarding && (c->n_unread || !readable(c) || owes_answer(c)));
    if (full)
        lws_callback_on_writable(c->wsi); /* checked again after it is written */
    if (off == c->rx_off)
        return;
    c->rx_off = off;
    if (off)
        steno_metric_add(c->ws->srv->stats->ws_rx_paused, 1);
    /* a pause of the server is not silence of the client */
    c->last_message_ns = c->last_rx_ns = steno_now_ns();
    lws_rx_flow_control(c->wsi, !off);
}

/* The client broke a rule of framing. Results of the audio before it are still sent. */
static void fail_framing(conn *c, const steno_err *err)
{
    c->discarding = true;
    if (err->code == STENO_ERR_INVAL)
        steno_ws_session_reject(c->session, err->code, 1002, "protocol_error", err->msg);
    else
        steno_ws_session_reject(c->session, err->code, 0, NULL, err->msg);
}

static void take_frame(conn *c, const struct steno_ws_item *it)
{
    switch (it->kind) {
    case STENO_WS_TEXT:
        c->last_message_ns = c->last_rx_ns;
        steno_ws_session_text(c->session, it->data, it->n, it->last);
        break;
    case STENO_WS_BINARY:
        c->last_message_ns = c->last_rx_ns;
        steno_ws_session_binary(c->session, it->data, it->n, it->first, it->last);
        break;
    case STENO_WS_PING: /* only the newest one must be answered (RFC 6455, 5.5.3) */
        memcpy(c->pong_data, it->data, it->n);
        c->pong = (unsigned)it->n + 1;
        break;
    case STENO_WS_CLOSE:
        c->discarding = true;
        if (!steno_ws_session_hang_up(c->session))
            steno_ws_session_leave(c->session, it->close_code);
        break;
    case STENO_WS_PONG:
    case STENO_WS_CONTINUATION:
        break;
    }
}

static void take_event(conn *c, const struct steno_wyoming_item *it)
{
    c->last_message_ns = c->last_rx_ns;
    if (it->is_event)
        steno_ws_session_text(c->session, it->data, it->n, true);
    else
        steno_ws_session_binary(c->session, it->data, it->n, it->first, it->last);
}

/* Read one item and pass it to the session. */
static steno_status read_item(conn *c, char *p, size_t n, size_t *used, steno_err *err)
{
    struct steno_wyoming_item event;
    struct steno_ws_item frame;
    steno_status st;
    if (is_wyoming(c)) {
        st = steno_wyoming_reader_next(&c->events, p, n, used, &event, err);
        if (!st)
            take_event(c, &event);
    } else {
        st = steno_ws_reader_next(&c->reader, p, n, used, &frame, err);
        if (!st)
            take_frame(c, &frame);
    }
    return st;
}

/* Read frames until the input ends or the session pauses. Returns the number of bytes read. */
static size_t read_frames(conn *c, char *p, size_t n)
{
    size_t at = 0;
    while (at < n && !c->discarding && readable(c)) {
        steno_err err;
        size_t used = 0;
        steno_status st = read_item(c, p + at, n - at, &used, &err);
        at += used;
        if (st && st != STENO_NEED_MORE)
            fail_framing(c, &err);
    }
    return c->discarding ? n : at;
}

/* Post the messages that are to be posted. Those of a call that has not begun are dropped: nobody
 * has said where to. */
static void post_messages(conn *c)
{
    struct steno_buf *tx = &c->ws->tx;
    while (steno_ws_session_posted(c->session)) {
        steno_buf_reset(tx);
        if (steno_ws_session_take(c->session, tx))
            break;
        if (c->call)
            steno_call_hook_post(c->call, tx->data, tx->len);
    }
}

/* Ask for a write callback if there is anything to send: most audio is answered later or not at
 * all. */
static void ask_to_write(conn *c)
{
    struct steno_ws_session_state st;
    post_messages(c);
    steno_ws_session_get_state(c->session, &st);
    if (c->hs.memory || c->pong || c->ping || st.queued || st.close)
        lws_callback_on_writable(c->wsi);
}

/* Keep input that cannot be read now. */
static void keep_unread(conn *c, const char *p, size_t n)
{
    char *rest = n ? malloc(n) : NULL;
    if (rest)
        memcpy(rest, p, n);
    free(c->unread);
    c->unread = rest;
    c->n_unread = rest ? n : 0;
    if (n && !rest) {
        c->discarding = true;
        steno_ws_session_reject(c->session, STENO_ERR_NOMEM, 0, NULL, "message: out of memory");
    }
}

void steno_ws_conn_receive(conn *c, char *p, size_t n)
{
    size_t used;
    if (c->discarding || !c->session)
        return;
    c->last_rx_ns = steno_now_ns();
    used = read_frames(c, p, n);
    if (used < n)
        keep_unread(c, p + used, n - used);
    update_flow(c);
    ask_to_write(c);
}

/* Continue with the input that was kept while the session was paused. */
static void read_on(conn *c)
{
    if (c->n_unread && !c->discarding) {
        char *p = c->unread;
        size_t n = c->n_unread, used;
        c->unread = NULL;
        c->n_unread = 0;
        used = read_frames(c, p, n);
        keep_unread(c, p + used, n - used);
        free(p);
    }
    update_flow(c);
}

void steno_ws_conn_attend(conn *c)
{
    struct steno_ws_session_state st;
    steno_ws_session_get_state(c->session, &st);
    if (st.room_wanted)
        steno_ws_session_resume(c->session);
    if (!c->wsi) {
        post_messages(c);
        return;
    }
    read_on(c);
    ask_to_write(c);
}

/* ---- output ------------------------------------------------------------------------------ */

/* Send bytes; libwebsockets keeps what the kernel does not take. */
static bool send_bytes(conn *c, const void *p, size_t n)
{
    return lws_write(c->wsi, (unsigned char *)(uintptr_t)p, n, LWS_WRITE_RAW) == (int)n;
}

static bool put_control(conn *c, enum steno_ws_opcode opcode, const char *p, size_t n)
{
    unsigned char out[STENO_WS_CONTROL_BYTES + STENO_WS_HEAD_BYTES];
    size_t head = steno_ws_frame_head(out, opcode, n);
    if (n)
        memcpy(out + head, p, n);
    return send_bytes(c, out, head + n);
}

static int write_refusal(conn *c, bool *all_sent)
{
    if (c->refusal.len && !send_bytes(c, c->refusal.data, c->refusal.len))
        return -1;
    *all_sent = true;
    return 0;
}

static bool write_accept(conn *c)
{
    struct steno_buf *tx = &c->ws->tx;
    bool answered = c->hs.answered;
    steno_buf_reset(tx);
    if (!answered &&
        steno_ws_write_accept(tx, &c->hs, c->dialect, c->id, steno_ws_conn_request_id(c),
                              c->extra ? &c->extra->trace : NULL))
        return false;
    steno_handshake_free(&c->hs);
    return answered || send_bytes(c, tx->data, tx->len);
}

/* Append the next message in its frame. STENO_NEED_MORE when there is none. */
static steno_status take_framed(conn *c, struct steno_buf *tx)
{
    unsigned char head[STENO_WS_HEAD_BYTES];
    size_t at = tx->len, n;
    steno_status st = steno_buf_add(tx, (char[STENO_WS_HEAD_BYTES]){0}, STENO_WS_HEAD_BYTES);
    if (!st)
        st = steno_ws_session_take(c->session, tx);
    if (st) {
        steno_buf_cut(tx, at);
        return st;
    }
    n = steno_ws_frame_head(head, STENO_WS_TEXT, tx->len - at - STENO_WS_HEAD_BYTES);
    memmove(tx->data + at + n, tx->data + at + STENO_WS_HEAD_BYTES,
            tx->len - at - STENO_WS_HEAD_BYTES);
    memcpy(tx->data + at, head, n);
    tx->len -= STENO_WS_HEAD_BYTES - n;
    return STENO_OK;
}

/* Write as many messages as fit one write. False when the connection broke; *any: at least one was
 * written. */
static bool write_messages(conn *c, bool *any)
{
    struct steno_buf *tx = &c->ws->tx;
    post_messages(c);
    steno_buf_reset(tx);
    while (tx->len < WRITE_BYTES) {
        steno_status st =
            is_wyoming(c) ? steno_ws_session_take(c->session, tx) : take_framed(c, tx);
        if (st == STENO_NEED_MORE)
            break;
        if (st)
            return false;
    }
    *any = tx->len > 0;
    return !*any || send_bytes(c, tx->data, tx->len);
}

static int write_close(conn *c, const struct steno_ws_session_state *st, bool *all_sent)
{
    unsigned char out[STENO_WS_CONTROL_BYTES + 2];
    size_t n =
        steno_ws_close_frame(out, st->close_code == 1005 ? 1000 : st->close_code, st->reason);
    if (!is_wyoming(c) && !send_bytes(c, out, n))
        return -1;
    c->told = *all_sent = true;
    return 0;
}

int steno_ws_conn_write(conn *c, bool *all_sent)
{
    struct steno_ws_session_state st;
    bool any;
    c->last_tx_ns = steno_now_ns();
    if (!c->session)
        return write_refusal(c, all_sent);
    if (c->hs.memory) {
        lws_callback_on_writable(c->wsi); /* a failed query has something to send */
        return write_accept(c) ? 0 : -1;
    }
    if (c->pong || c->ping) {
        bool good = c->pong ? put_control(c, STENO_WS_PONG, c->pong_data, c->pong - 1)
                            : put_control(c, STENO_WS_PING, NULL, 0);
        c->ping = c->pong && c->ping;
        c->pong = 0;
        lws_callback_on_writable(c->wsi);
        return good ? 0 : -1;
    }
    if (!write_messages(c, &any))
        return -1;
    read_on(c); /* it may have been paused until answers were read */
    if (any) {
        ask_to_write(c);
        return 0;
    }
    steno_ws_session_get_state(c->session, &st);
    return st.close ? write_close(c, &st, all_sent) : 0;
}

/* ---- time -------------------------------------------------------------------------------- */

void steno_ws_conn_drain(conn *c)
{
    if (!c->established || !c->session)
        return;
    steno_ws_session_drain(c->session);
    if (c->wsi)
        lws_callback_on_writable(c->wsi);
}

static bool reads_nothing(conn *c, const struct steno_ws_session_state *st, int64_t now)
{
    if (!st->queued && !st->close && !lws_partial_buffered(c->wsi)) {
        c->last_tx_ns = now;
        return false;
    }
    if (seconds_since(c->last_tx_ns, now) <= c->ws->srv->conf->ws_slow_timeout)
        return false;
    if (!steno_ws_session_resumable(
            c->session)) /* a resumable client may have lost its network, and may come back */
        steno_ws_session_give_up(c->session);
    return true;
}

#define KEY_SECONDS 10 /* until a key that comes in a message must be there */

static void check_silence(conn *c, int64_t now)
{
    const struct steno_config *conf = c->ws->srv->conf;
    char msg[96];
    if (c->late_key && seconds_since(c->opened_ns, now) > KEY_SECONDS) {
        steno_ws_session_stop(c->session, "invalid_api_key", 1008, "no API key came");
        lws_callback_on_writable(c->wsi);
    }
    if (seconds_since(c->last_message_ns, now) > conf->ws_idle_timeout) {
        snprintf(msg, sizeof msg, "idle: no audio and no message for %g s", conf->ws_idle_timeout);
        steno_ws_session_stop(c->session, "idle_timeout", 1008, msg);
        if (!c->stopped_ns)
            c->stopped_ns = now;
        lws_callback_on_writable(c->wsi);
    }
    if (!is_wyoming(c) && seconds_since(c->last_rx_ns, now) > conf->ws_ping_interval &&
        seconds_since(c->last_ping_ns, now) > conf->ws_ping_interval) {
        c->ping = true;
        c->last_ping_ns = now;
        lws_callback_on_writable(c->wsi);
    }
}

bool steno_ws_conn_sweep(conn *c, int64_t now, size_t *queued)
{
    const struct steno_config *conf = c->ws->srv->conf;
    struct steno_ws_session_state st;
    if (!c->session)
        return seconds_since(c->opened_ns, now) <= conf->ws_slow_timeout;
    ask_to_write(c); /* what was held back may be due */
    steno_ws_session_get_state(c->session, &st);
    *queued += st.queued;
    if (st.loading) {
        steno_ws_session_resume(c->session);
        read_on(c);
        ask_to_write(c);
    }
    if (reads_nothing(c, &st, now))
        return false;
    if (c->rx_off || c->discarding) {
        c->last_rx_ns = c->last_message_ns = now; /* it is the server that does not read */
        return true;
    }
    check_silence(c, now);
    /* however long the silence was (the machine may have been suspended), the client is told first
     */
    return !c->stopped_ns || seconds_since(c->stopped_ns, now) <= conf->ws_slow_timeout ||
           seconds_since(c->last_rx_ns, now) <= conf->ws_idle_timeout + 1;
}
