/* Sockets of live streams: the loop. ws_conn.c has what happens on one of them.
 *
 * libwebsockets owns the sockets, polls them, keeps what the kernel would not take, and has the
 * timer. It uses them as raw sockets. protocol/ws_frame.c implements the WebSocket protocol,
 * because libwebsockets 4.1.6 has four faults. It takes unmasked frames from clients (against RFC
 * 6455, 5.1). It passes a frame's payload on before anyone can refuse its length. It closes with a
 * reset while the client still sends, so that the reason is lost. It passes on several frames of
 * one read and ignores the flow control between them.
 *
 * One service thread owns the context and every socket. Other threads reach it only through two
 * lists under ws->mx (sockets to adopt, and the ready list of connections) and lws_cancel_service.
 * A recogniser's worker puts its answer into the session's outbox and the connection on the ready
 * list, and returns.
 *
 * The loop is libev's. Its epoll costs as much as there are events; libwebsockets' own poll costs
 * as much as there are connections (a third of a core at 1,000 streams). libwebsockets loads its
 * plugin for libev on request; where the plugin is not installed, its poll is used.
 *
 * libwebsockets 4.1.6 as Debian builds it: one service thread per context (LWS_MAX_SMP 1), and no
 * listening socket here. permessage-deflate is not offered (about 300 KiB of zlib per connection
 * for small texts, and audio does not shrink). */
#include "server/live/ws_internal.h"

#include <ev.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/base/log.h"

#define SWEEP_US (1000 * 1000)
#define LINGER_S 2      /* longest time of reading after the last message */
#define LINGER_MAX 1024 /* sockets that linger at once; further ones are closed at once */

struct steno_ws_adoption {
    struct steno_ws_adoption *next;
    int fd;
    struct steno_peer peer;
    struct steno_ws_handshake handshake;
    char *early; /* [n_early] bytes that came behind the handshake, or NULL */
    size_t n_early;
};

/* ---- begin and end of connections ------------------------------------------------------------ */

static void drop_adoption(steno_ws *ws, struct steno_ws_adoption *a)
{
    if (a->fd >= 0)
        close(a->fd);
    ws->owner->closed(ws->user, &a->peer);
    steno_ws_handshake_release(ws->srv, &a->handshake);
    free(a->early);
    free(a);
}

/* Without memory the session has its own id for the request's, and no trace. */
static void take_extra(struct steno_ws_conn *c, const struct steno_ws_handshake *g)
{
    const bool own = !strcmp(g->request_id, g->id);
    if (own && !g->trace.on)
        return;
    c->extra = calloc(1, sizeof *c->extra);
    if (!c->extra)
        return;
    if (!own)
        memcpy(c->extra->request_id, g->request_id, sizeof g->request_id);
    c->extra->trace = g->trace;
}

static void adopt_one(steno_ws *ws, struct steno_ws_adoption *a)
{
    struct steno_ws_conn *c = calloc(1, sizeof *c);
    const lws_sock_file_fd_type fd = {.sockfd = a->fd};
    if (c)
        c->wsi = lws_adopt_descriptor_vhost(ws->vhost, LWS_ADOPT_SOCKET, fd, ws->protocols[0].name,
                                            NULL);
    if (!c || !c->wsi) {
        steno_log(LOG_WARNING, "stream: %s",
                  c ? "libwebsockets refused a socket" : "out of memory");
        if (c)
            a->fd = -1; /* libwebsockets has closed it */
        free(c);
        drop_adoption(ws, a);
        return;
    }
    c->ws = ws;
    c->peer = a->peer;
    c->hs = a->handshake.hs;
    c->dialect = a->handshake.dialect;
    c->api = a->handshake.api;
    c->key = a->handshake.key;
    c->late_key = a->handshake.late_key;
    c->preset = a->handshake.session;
    memcpy(c->id, a->handshake.id, sizeof c->id);
    take_extra(c, &a->handshake);
    c->unread = a->early;
    c->n_unread = a->n_early;
    c->opened_ns = c->last_message_ns = c->last_rx_ns = c->last_tx_ns = steno_now_ns();
    steno_ws_conn_link(&ws->conns, c);
    lws_set_opaque_user_data(c->wsi, c);
    if (!a->handshake.resumes)
        steno_ws_conn_begin(c);
    else if (!steno_ws_ask_storage(c))
        steno_ws_conn_resume_here(c);
    free(a);
}

static void adopt_waiting(steno_ws *ws)
{
    struct steno_ws_adoption *a, *next;
    pthread_mutex_lock(&ws->mx);
    a = ws->adoptions;
    ws->adoptions = NULL;
    ws->last_adoption = &ws->adoptions;
    pthread_mutex_unlock(&ws->mx);
    for (; a; a = next) {
        next = a->next;
        adopt_one(ws, a);
    }
}

static struct steno_ws_question *take_questions(steno_ws *ws)
{
    struct steno_ws_question *q;
    pthread_mutex_lock(&ws->mx);
    q = ws->questions;
    ws->questions = NULL;
    pthread_mutex_unlock(&ws->mx);
    return q;
}

static void answer_questions(steno_ws *ws)
{
    struct steno_ws_question *q = take_questions(ws), *next;
    for (; q; q = next) {
        next = q->next; /* it may be gone after its answer */
        if (!steno_ws_ask_storage_for(ws, q))
            steno_ws_answer_question(ws, q);
    }
}

/* Its socket no longer belongs to it. */
static void free_conn(struct steno_ws_conn *c)
{
    steno_ws_conn_finish(c);
    steno_ws_conn_unlink(c);
    c->ws->owner->closed(c->ws->user, &c->peer);
    free(c);
}

/* User data of a socket that lingers without a connection and whose input is discarded. */
static char lingers;

/* Nothing more is sent or processed, and the socket stays open until the client is done, at most
 * LINGER_S. -1: it must be closed at once. */
static int linger(steno_ws *ws, struct lws *wsi)
{
    ws->lingering++;
    lws_set_opaque_user_data(wsi, &lingers);
    if (shutdown(lws_get_socket_fd(wsi), SHUT_WR))
        return -1;
    lws_rx_flow_control(wsi, 1);
    lws_set_timeout(wsi, PENDING_TIMEOUT_SHUTDOWN_FLUSH, LINGER_S);
    return 0;
}

/* Everything is sent: release the socket such that the client receives it. The session ends here,
 * its socket a little later. (A duplicate descriptor on which the acceptor lingers would be
 * simpler. But libev does not forget a descriptor whose file lives on: at its first event it makes
 * its epoll anew, with all connections.) */
static int release_socket(struct steno_ws_conn *c)
{
    steno_ws *ws = c->ws;
    struct lws *wsi = c->wsi;
    bool may = ws->lingering < LINGER_MAX;
    c->discarding = true;
    if (!steno_ws_conn_wait(c)) {
        if (may)
            free_conn(c);
        else
            steno_ws_conn_finish(c);
    }
    return may ? linger(ws, wsi) : -1;
}

static int write_to(struct steno_ws_conn *c)
{
    bool all_sent = false;
    int failed = steno_ws_conn_write(c, &all_sent);
    return all_sent ? release_socket(c) : failed;
}

static void drain_all(steno_ws *ws)
{
    ws->drained = true;
    for (struct steno_ws_conn *c = ws->conns; c; c = c->next)
        if (!steno_ws_conn_hand_over(c))
            steno_ws_conn_drain(c);
    for (struct steno_ws_conn *c = ws->waiting, *next; c; c = next) {
        next = c->next;
        if (!steno_ws_conn_hand_over(c))
            steno_ws_conn_drain(c);
    }
}

/* While this thread did not run, nobody was read from or written to: that time does not count
 * against clients. */
static void count_stall(steno_ws *ws, int64_t now)
{
    const int64_t late = now - ws->swept_ns - INT64_C(2000) * SWEEP_US;
    ws->swept_ns = now;
    for (struct steno_ws_conn *c = ws->conns; late > 0 && c; c = c->next) {
        c->last_tx_ns += late;
        c->last_rx_ns += late;
        c->last_message_ns += late;
    }
}

/* Once a second: check for silent and slow clients, and update the send queue's gauge. */
static void on_sweep(lws_sorted_usec_list_t *sul)
{
    steno_ws *ws = lws_container_of(sul, steno_ws, sweep);
    int64_t now = steno_now_ns();
    size_t queued = 0;
    count_stall(ws, now);
    for (struct steno_ws_conn *c = ws->conns, *next; c; c = next) {
        next = c->next;
        if (steno_ws_conn_refresh(c) && !steno_ws_conn_sweep(c, now, &queued))
            lws_set_timeout(c->wsi, PENDING_TIMEOUT_KILLED_BY_PARENT, LWS_TO_KILL_ASYNC);
    }
    steno_ws_waiting_sweep(ws, now);
    steno_metric_set(ws->srv->stats->ws_send_queue, (double)queued);
    lws_sul_schedule(ws->ctx, 0, &ws->sweep, on_sweep, SWEEP_US);
}

static void on_wake(steno_ws *ws)
{
    struct steno_ws_conn *c;
    adopt_waiting(ws);
    answer_questions(ws);
    steno_ws_take_moves(ws);
    if (!ws->drained && atomic_load_explicit(&ws->drain, memory_order_acquire))
        drain_all(ws);
    while ((c = steno_ws_next_ready(ws)))
        if (c->established && steno_ws_conn_refresh(c))
            steno_ws_conn_attend(c);
}

static int on_lws(struct lws *wsi, enum lws_callback_reasons reason, void *unused, void *in,
                  size_t len)
{
    struct steno_ws_conn *c = wsi ? lws_get_opaque_user_data(wsi) : NULL;
    (void)unused;
    if ((void *)c == &lingers) {
        if (reason == LWS_CALLBACK_WSI_DESTROY)
            ((steno_ws *)lws_context_user(lws_get_context(wsi)))->lingering--;
        return 0;
    }
    switch (reason) {
    case LWS_CALLBACK_EVENT_WAIT_CANCELLED:
        on_wake(lws_context_user(lws_get_context(wsi)));
        return 0;
    case LWS_CALLBACK_RAW_RX:
        if (!c)
            return -1;
        steno_ws_conn_receive(c, in, len);
        return 0;
    case LWS_CALLBACK_RAW_WRITEABLE:
        return c ? write_to(c) : -1;
    case LWS_CALLBACK_RAW_CLOSE:
        if (c && !steno_ws_conn_wait(c))
            steno_ws_conn_finish(c);
        return 0;
    case LWS_CALLBACK_WSI_DESTROY:
        if (c)
            free_conn(c);
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

static void *run_loop(void *arg)
{
    steno_ws *ws = arg;
    /* lingering sockets have their own deadline */
    while (!atomic_load_explicit(&ws->stop, memory_order_acquire) || ws->lingering)
        if (ws->loop)
            ev_run(ws->loop, EVRUN_ONCE);
        else if (lws_service(ws->ctx, 0) < 0)
            break;
    return NULL;
}

/* A context on a libev loop of this module: then only run_loop() runs it. */
static void make_libev_context(steno_ws *ws, struct lws_context_creation_info *info)
{
    void *loops[1];
    ws->loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
    if (!ws->loop)
        return;
    loops[0] = ws->loop;
    info->options |= LWS_SERVER_OPTION_LIBEV;
    info->foreign_loops = loops;
    ws->ctx = lws_create_context(info);
    info->options &= ~(uint64_t)LWS_SERVER_OPTION_LIBEV;
    info->foreign_loops = NULL;
    if (!ws->ctx) {
        steno_log(LOG_NOTICE,
                  "websocket: libwebsockets' libev plugin is missing; its poll is used");
        ev_loop_destroy(ws->loop);
        ws->loop = NULL;
    }
}

static steno_status make_context(steno_ws *ws, steno_err *err)
{
    struct lws_context_creation_info info = {0};
    ws->protocols[0] = (struct lws_protocols){
        .name = "steno", .callback = on_lws, .rx_buffer_size = STENO_WS_RX_BYTES};
    info.port = CONTEXT_PORT_NO_LISTEN_SERVER;
    info.protocols = ws->protocols;
    info.user = ws;
    info.gid = (gid_t)-1;
    info.uid = (uid_t)-1;
    info.options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS;
    info.pt_serv_buf_size = STENO_WS_RX_BYTES; /* of one read */
    info.vhost_name = "stenod";
    lws_set_log_level(LLL_ERR | LLL_WARN, log_lws);
    make_libev_context(ws, &info);
    if (!ws->ctx)
        ws->ctx = lws_create_context(&info);
    if (ws->ctx)
        ws->vhost = lws_create_vhost(ws->ctx, &info);
    if (!ws->vhost)
        return steno_fail(err, STENO_ERR_INTERNAL, "websocket: libwebsockets made no context");
    return STENO_OK;
}

steno_status steno_ws_open(steno_ws **out, struct steno_server *srv,
                           const struct steno_ws_owner *owner, void *user,
                           struct steno_redis *redis, steno_err *err)
{
    steno_ws *ws = calloc(1, sizeof *ws);
    steno_status st = STENO_OK;
    if (!ws)
        return steno_fail(err, STENO_ERR_NOMEM, "websocket: out of memory");
    if (pthread_mutex_init(&ws->mx, NULL)) {
        free(ws);
        return steno_fail(err, STENO_ERR_NOMEM, "websocket: cannot make a mutex");
    }
    ws->srv = srv;
    ws->owner = owner;
    ws->user = user;
    ws->admission = (struct steno_ws_admission){
        .srv = srv, .owner = owner, .user = user, .lock = PTHREAD_MUTEX_INITIALIZER};
    ws->last_adoption = &ws->adoptions;
    steno_buf_init(&ws->tx, 65536 + 2 * srv->conf->ws_send_bytes);
    st = steno_buf_reserve(&ws->tx, 4096);
    if (st) {
        st = steno_fail(err, st, "websocket: out of memory");
        goto fail;
    }
    st = make_context(ws, err);
    if (!st && srv->speakers)
        st = steno_diarizers_open(&ws->diarizers, srv->speakers, srv->conf->speakers_threads,
                                  srv->stats, err);
    if (!st)
        st = steno_call_hooks_open(&ws->calls, srv, err);
    if (!st && redis && srv->conf->ws_resume > 0)
        st = steno_session_store_open(&ws->sessions, redis, srv->conf->ws_resume,
                                      srv->conf->ws_resume_bytes, srv->stats->registry, err);
    if (st)
        goto fail;
    ws->swept_ns = steno_now_ns();
    lws_sul_schedule(ws->ctx, 0, &ws->sweep, on_sweep, SWEEP_US);
    if (pthread_create(&ws->thread, NULL, run_loop, ws)) {
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

static void queue_adoption(steno_ws *ws, struct steno_ws_adoption *a)
{
    pthread_mutex_lock(&ws->mx);
    *ws->last_adoption = a;
    ws->last_adoption = &a->next;
    pthread_mutex_unlock(&ws->mx);
    lws_cancel_service(ws->ctx);
}

void steno_ws_adopt(steno_ws *ws, int fd, const struct steno_peer *peer, const char *head,
                    size_t len)
{
    struct steno_ws_adoption *a = calloc(1, sizeof *a);
    if (!a) {
        close(fd);
        ws->owner->closed(ws->user, peer);
        return;
    }
    a->fd = fd;
    a->peer = *peer;
    if (head ? !steno_ws_admit(&ws->admission, fd, &a->peer, head, len, &a->handshake)
             : !steno_ws_admit_wyoming(&ws->admission, fd, peer, &a->handshake)) {
        free(a);
        return;
    }
    queue_adoption(ws, a);
}

void steno_ws_ask(steno_ws *ws, struct steno_ws_question *q)
{
    pthread_mutex_lock(&ws->mx);
    q->next = ws->questions;
    ws->questions = q;
    pthread_mutex_unlock(&ws->mx);
    lws_cancel_service(ws->ctx);
}

struct steno_ws_admission *steno_ws_admission(steno_ws *ws)
{
    return &ws->admission;
}

void steno_ws_adopt_answered(steno_ws *ws, int fd, const struct steno_peer *peer,
                             struct steno_ws_handshake *g, const char *early, size_t n)
{
    struct steno_ws_adoption *a = calloc(1, sizeof *a);
    char *copy = n ? malloc(n) : NULL;
    if (!a || (n && !copy)) {
        close(fd);
        ws->owner->closed(ws->user, peer);
        steno_ws_handshake_release(ws->srv, g);
        free(copy);
        free(a);
        return;
    }
    if (n)
        memcpy(copy, early, n);
    a->fd = fd;
    a->peer = *peer;
    a->handshake = *g;
    a->handshake.hs.answered = true;
    a->early = copy;
    a->n_early = n;
    queue_adoption(ws, a);
}

void steno_ws_drain(steno_ws *ws)
{
    atomic_store_explicit(&ws->drain, true, memory_order_release);
    lws_cancel_service(ws->ctx);
}

void steno_ws_close(steno_ws *ws)
{
    struct steno_ws_adoption *a, *next;
    if (!ws)
        return;
    if (ws->running) {
        atomic_store_explicit(&ws->stop, true, memory_order_release);
        lws_cancel_service(ws->ctx);
        pthread_join(ws->thread, NULL);
        for (struct steno_ws_question *q = take_questions(ws), *after; q; q = after) {
            after = q->next;
            steno_ws_answer_question(ws, q);
        }
    }
    steno_session_store_stop(ws->sessions); /* it wakes connections, and answers the last claims */
    steno_ws_take_moves(ws);
    if (ws->ctx) {
        lws_sul_cancel(&ws->sweep);
        lws_context_destroy(ws->ctx);
    }
    if (ws->loop)
        ev_loop_destroy(ws->loop);
    steno_ws_waiting_sweep(ws, INT64_MAX);
    steno_session_store_close(ws->sessions);
    for (a = ws->adoptions; a; a = next) {
        next = a->next;
        drop_adoption(ws, a);
    }
    steno_call_hooks_close(ws->calls);
    steno_diarizers_close(ws->diarizers);
    steno_buf_free(&ws->tx);
    pthread_mutex_destroy(&ws->mx);
    free(ws);
}
