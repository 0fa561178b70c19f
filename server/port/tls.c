/* Design. A connection has two ends: `tcp` to the client and `inner` to the server. In each
 * direction at most one record is held, in `in` (decrypted, for inner) or `out` (for tcp); while it
 * is held, the other end is not read, so that TCP slows the sender down. Half-closing passes in
 * both directions: a close_notify or FIN of the client becomes a FIN of inner, and a FIN of inner
 * becomes close_notify and FIN to the client.
 *
 * epoll is level-triggered. inner is registered only while an event of it is wanted, because a
 * hangup is reported whether it is wanted or not. tcp always is: a reset ends both ends at once, as
 * it does without TLS.
 *
 * A handshake costs as much processor time as a stream takes in seconds, and clients come in
 * storms. So handshakes have a thread of their own, of low priority; a connection moves to the
 * other thread, which pumps bytes, once its handshake is done. (One thread with a limit of four
 * steps of handshakes between two rounds of running connections was tried: loadtest/tls_storm.py,
 * docs/log/2026-11-26.md.) A connection in a handshake has only its tcp end in an epoll.
 *
 * Locked: `lock` guards ctx and, of both loops, the lists of new connections and `stop`. Everything
 * else of a loop, and its connections, belong to its thread. */
#include "server/port/tls.h"

#include "base/clock.h"
#include "base/threads.h"
#include "server/base/log.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECORD 16384         /* bytes of plain text in a record (RFC 8446, 5.1) */
#define ROUNDS 16            /* records of one direction at a time */
#define SEND_BYTES 65536     /* kernel's buffer towards the client, as for streams without TLS */
#define LINGER_NS 2000000000 /* time for the client to close after the server has */
#define TICK_MS 500

struct held { /* bytes that the receiving end did not take yet */
    char *data;
    size_t at, n;
};

struct tls_conn;
struct end {
    struct tls_conn *c;
    int fd;
    uint32_t mask;
    bool watched;
};

struct tls_conn {
    struct tls_conn *next, **back; /* list of all; next also in lists of new and dead ones */
    struct end tcp, inner;
    SSL *ssl;
    struct held in, out;
    bool in_over, out_over; /* no byte comes from tcp, from inner any more */
    bool finished;          /* close_notify and FIN are sent */
    bool wants_write;       /* OpenSSL must write before it can read */
    bool dead;
    int64_t progress; /* time of the last byte towards the client */
};

struct loop { /* a thread and its connections */
    int epoll, wake;
    pthread_t thread;
    bool running;
    struct tls_conn *conns, *graves;
    struct tls_conn *fresh; /* locked; also stop */
    bool stop;
};

struct steno_tls {
    char *certificate, *key;
    double idle_timeout;
    struct loop handshakes, pumps;
    char scratch[RECORD]; /* of the thread of pumps */
    pthread_mutex_t lock;
    SSL_CTX *ctx;
};

/* ---- certificates ---------------------------------------------------------------------------- */

/* The server speaks HTTP/1.1 alone. A client that offers only others is told so (RFC 7301, 3.2). */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *n,
                           const unsigned char *offered, unsigned n_offered, void *user)
{
    static const unsigned char own[] = "\x08http/1.1";
    unsigned char *chosen;
    (void)ssl, (void)user;
    if (SSL_select_next_proto(&chosen, n, own, sizeof own - 1, offered, n_offered) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* What OpenSSL says is wrong, and forget it. */
static const char *last_words(const char *none)
{
    const char *why = ERR_reason_error_string(ERR_peek_error());
    ERR_clear_error();
    return why ? why : none;
}

static steno_status fail_file(const char *path, steno_err *err)
{
    if (access(path, R_OK))
        return steno_fail(err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    return steno_fail(err, STENO_ERR_INVAL, "%s: %s", path, last_words("it is not usable"));
}

static steno_status make_context(SSL_CTX **out, const char *certificate, const char *key,
                                 steno_err *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    steno_status st = STENO_OK;
    if (!ctx)
        return steno_fail(err, STENO_ERR_NOMEM, "TLS: out of memory");
    (void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(ctx, certificate) != 1)
        st = fail_file(certificate, err);
    else if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 ||
             SSL_CTX_check_private_key(ctx) != 1)
        st = fail_file(key, err);
    if (st)
        SSL_CTX_free(ctx);
    else
        *out = ctx;
    return st;
}

steno_status steno_tls_check(const char *certificate, const char *key, steno_err *err)
{
    SSL_CTX *ctx = NULL;
    steno_status st = make_context(&ctx, certificate, key, err);
    SSL_CTX_free(ctx);
    return st;
}

steno_status steno_tls_reload(steno_tls *t, steno_err *err)
{
    SSL_CTX *ctx = NULL, *old;
    steno_status st = make_context(&ctx, t->certificate, t->key, err);
    if (st)
        return st;
    pthread_mutex_lock(&t->lock);
    old = t->ctx;
    t->ctx = ctx;
    pthread_mutex_unlock(&t->lock);
    SSL_CTX_free(old); /* connections keep it as long as they need it */
    return STENO_OK;
}

/* ---- one connection -------------------------------------------------------------------------- */

static void watch(struct loop *l, struct end *e, uint32_t mask, bool always)
{
    struct epoll_event ev = {.events = mask, .data.ptr = e};
    bool wanted = mask || always;
    if (wanted == e->watched && mask == e->mask)
        return;
    if (!wanted)
        (void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, e->fd, NULL);
    else if (epoll_ctl(l->epoll, e->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, e->fd, &ev))
        e->c->dead = true; /* out of memory */
    e->watched = wanted;
    e->mask = mask;
}

static void free_conn(struct tls_conn *c)
{
    SSL_free(c->ssl);
    if (c->tcp.fd >= 0)
        close(c->tcp.fd);
    if (c->inner.fd >= 0)
        close(c->inner.fd);
    free(c->in.data);
    free(c->out.data);
    free(c);
}

static void free_list(struct tls_conn *c)
{
    while (c) {
        struct tls_conn *next = c->next;
        free_conn(c);
        c = next;
    }
}

static void link_conn(struct loop *l, struct tls_conn *c)
{
    c->next = l->conns;
    c->back = &l->conns;
    if (c->next)
        c->next->back = &c->next;
    l->conns = c;
}

static void unlink_conn(struct tls_conn *c)
{
    *c->back = c->next;
    if (c->next)
        c->next->back = c->back;
}

/* Close both ends. The struct stays until the events of this round are handled. */
static void bury(struct loop *l, struct tls_conn *c)
{
    unlink_conn(c);
    close(c->tcp.fd);
    close(c->inner.fd);
    c->tcp.fd = c->inner.fd = -1;
    c->dead = true;
    c->next = l->graves;
    l->graves = c;
}

static bool hold(struct held *h, const char *p, size_t n)
{
    h->data = malloc(n);
    if (!h->data)
        return false;
    memcpy(h->data, p, n);
    h->at = 0;
    h->n = n;
    return true;
}

static bool release_held(struct held *h, size_t n)
{
    h->at += n;
    if (h->at < h->n)
        return false;
    free(h->data);
    *h = (struct held){NULL, 0, 0};
    return true;
}

/* Bytes that inner took of p [n]; all of them when its other end reads no more. */
static size_t give_inner(struct tls_conn *c, const char *p, size_t n)
{
    ssize_t k = send(c->inner.fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (k < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : n;
    return (size_t)k;
}

/* What OpenSSL says about a call that did not succeed. False: the connection is broken. */
static bool note_error(struct tls_conn *c, int rc)
{
    int why = SSL_get_error(c->ssl, rc);
    c->wants_write |= why == SSL_ERROR_WANT_WRITE;
    if (why == SSL_ERROR_ZERO_RETURN)
        c->in_over = true;
    else if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
        c->dead = true;
    if (c->dead && !SSL_is_init_finished(c->ssl))
        steno_log(LOG_DEBUG, "TLS: handshake failed: %s", last_words("the client closed"));
    ERR_clear_error();
    return !c->dead;
}

/* From the client to the server. */
static void pump_in(steno_tls *t, struct tls_conn *c)
{
    if (c->in.n && !release_held(&c->in, give_inner(c, c->in.data + c->in.at, c->in.n - c->in.at)))
        return;
    for (int i = 0; i < ROUNDS && !c->in_over; i++) {
        size_t taken;
        int n = SSL_read(c->ssl, t->scratch, RECORD);
        if (n <= 0) {
            if (note_error(c, n) && c->in_over)
                shutdown(c->inner.fd, SHUT_WR);
            return;
        }
        taken = give_inner(c, t->scratch, (size_t)n);
        if (taken < (size_t)n) {
            c->dead |= !hold(&c->in, t->scratch + taken, (size_t)n - taken);
            return;
        }
    }
}

/* Bytes of p [n] that the client took; 0 also when the connection is broken. */
static size_t put_client(struct tls_conn *c, const char *p, size_t n)
{
    int k = SSL_write(c->ssl, p, (int)n);
    if (k <= 0) {
        (void)note_error(c, k);
        return 0;
    }
    c->progress = steno_now_ns();
    return (size_t)k;
}

/* Every answer is sent: tell the client. */
static void finish_client(struct tls_conn *c)
{
    (void)SSL_shutdown(c->ssl);
    ERR_clear_error();
    shutdown(c->tcp.fd, SHUT_WR);
    c->finished = true;
    c->progress = steno_now_ns();
}

/* From the server to the client. */
static void pump_out(steno_tls *t, struct tls_conn *c)
{
    if (c->out.n &&
        !release_held(&c->out, put_client(c, c->out.data + c->out.at, c->out.n - c->out.at)))
        return;
    for (int i = 0; i < ROUNDS && !c->out_over; i++) {
        size_t taken;
        ssize_t n = recv(c->inner.fd, t->scratch, RECORD, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            c->out_over = true;
            break;
        }
        taken = put_client(c, t->scratch, (size_t)n);
        if (taken < (size_t)n) {
            c->dead |= !hold(&c->out, t->scratch + taken, (size_t)n - taken);
            return;
        }
    }
    if (c->out_over && !c->finished)
        finish_client(c);
}

static void pump(steno_tls *t, struct tls_conn *c, bool failed)
{
    struct loop *l = &t->pumps;
    if (c->dead)
        return;
    c->wants_write = false;
    c->dead = failed;
    if (!c->dead)
        pump_in(t, c);
    if (!c->dead)
        pump_out(t, c);
    if (!c->dead && c->in_over && c->finished && !c->in.n)
        c->dead = true;
    if (!c->dead) {
        bool in = !c->in_over && !c->in.n, out = c->out.n || c->wants_write;
        watch(l, &c->tcp, (in ? EPOLLIN : 0u) | (out ? EPOLLOUT : 0u), true);
        in = !c->out_over && !c->out.n;
        watch(l, &c->inner, (in ? EPOLLIN : 0u) | (c->in.n ? EPOLLOUT : 0u), false);
    }
    if (c->dead)
        bury(l, c);
}

/* ---- what both threads do -------------------------------------------------------------------- */

static void wake_loop(struct loop *l)
{
    uint64_t one = 1;
    (void)!write(l->wake, &one, sizeof one);
}

/* Give a connection that no thread has to the thread of l. */
static void hand_to(steno_tls *t, struct loop *l, struct tls_conn *c)
{
    pthread_mutex_lock(&t->lock);
    c->next = l->fresh;
    l->fresh = c;
    pthread_mutex_unlock(&t->lock);
    wake_loop(l);
}

/* The list of new connections. Returns whether the thread is to stop. */
static bool take_fresh(steno_tls *t, struct loop *l, struct tls_conn **fresh)
{
    bool stop;
    pthread_mutex_lock(&t->lock);
    *fresh = l->fresh;
    l->fresh = NULL;
    stop = l->stop;
    pthread_mutex_unlock(&t->lock);
    return stop;
}

static void free_graves(struct loop *l)
{
    free_list(l->graves);
    l->graves = NULL;
}

static bool inner_closed(const struct tls_conn *c)
{
    struct pollfd inner = {.fd = c->inner.fd};
    return poll(&inner, 1, 0) == 1 && inner.revents & POLLHUP;
}

/* Wait, and serve what is ready. Returns the time. */
static int64_t serve_ready(steno_tls *t, struct loop *l,
                           void (*serve)(steno_tls *t, struct tls_conn *c, bool failed))
{
    struct epoll_event ev[64];
    const int n = epoll_wait(l->epoll, ev, 64, l->conns ? TICK_MS : -1);
    const int64_t now = steno_now_ns();
    for (int i = 0; i < n; i++) {
        struct end *e = ev[i].data.ptr;
        uint64_t count;
        if (e)
            serve(t, e->c, e == &e->c->tcp && ev[i].events & EPOLLERR);
        else
            (void)!read(l->wake, &count, sizeof count);
    }
    return now;
}

/* ---- the thread of handshakes ---------------------------------------------------------------- */

static void shake(steno_tls *t, struct tls_conn *c, bool failed)
{
    struct loop *l = &t->handshakes;
    int rc = 0;
    c->wants_write = false;
    c->dead = failed;
    if (!c->dead && (rc = SSL_do_handshake(c->ssl)) != 1)
        (void)note_error(c, rc);
    if (!c->dead && rc != 1) {
        watch(l, &c->tcp, EPOLLIN | (c->wants_write ? EPOLLOUT : 0u), true);
    } else if (!c->dead) {
        watch(l, &c->tcp, 0, false);
        unlink_conn(c);
        hand_to(t, &t->pumps, c);
        return;
    }
    if (c->dead || c->in_over)
        bury(l, c);
}

static void expire_handshakes(struct loop *l)
{
    for (struct tls_conn *c = l->conns, *next; c; c = next) {
        next = c->next;
        if (inner_closed(c)) /* the acceptor waits for a head no longer */
            bury(l, c);
    }
}

static void *run_handshakes(void *arg)
{
    steno_tls *t = arg;
    struct loop *l = &t->handshakes;
    int64_t next_tick = 0;
    steno_thread_give_way();
    for (;;) {
        const int64_t now = serve_ready(t, l, shake);
        struct tls_conn *fresh, *next;
        if (take_fresh(t, l, &fresh)) {
            free_list(fresh);
            return NULL; /* none of them has asked for anything yet */
        }
        for (struct tls_conn *c = fresh; c; c = next) {
            next = c->next;
            link_conn(l, c);
            watch(l, &c->tcp, EPOLLIN, true);
            if (c->dead)
                bury(l, c);
        }
        if (now >= next_tick) {
            expire_handshakes(l);
            next_tick = now + TICK_MS * INT64_C(1000000);
        }
        free_graves(l);
    }
}

/* ---- the thread that pumps ------------------------------------------------------------------- */

/* Whether the server has closed the connection, and its client does not close or takes no byte. */
static bool abandoned(const steno_tls *t, const struct tls_conn *c, int64_t now)
{
    if (c->finished)
        return now - c->progress > LINGER_NS;
    if (c->inner.watched) /* the loop sees it */
        return false;
    return now - c->progress > (int64_t)(t->idle_timeout * 1e9) && inner_closed(c);
}

static void expire(steno_tls *t, int64_t now)
{
    for (struct tls_conn *c = t->pumps.conns, *next; c; c = next) {
        next = c->next;
        if (abandoned(t, c, now))
            bury(&t->pumps, c);
    }
}

/* Whether every answer is sent. */
static bool all_finished(const struct loop *l)
{
    for (const struct tls_conn *c = l->conns; c; c = c->next)
        if (!c->finished)
            return false;
    return true;
}

static void *run_pumps(void *arg)
{
    steno_tls *t = arg;
    struct loop *l = &t->pumps;
    int64_t next_tick = 0, deadline = INT64_MAX;
    for (;;) {
        const int64_t now = serve_ready(t, l, pump);
        struct tls_conn *fresh, *next;
        if (take_fresh(t, l, &fresh) && deadline == INT64_MAX)
            deadline = now + LINGER_NS;
        for (struct tls_conn *c = fresh; c; c = next) {
            next = c->next;
            link_conn(l, c);
            pump(t, c, false);
        }
        if (now >= next_tick) {
            expire(t, now);
            next_tick = now + TICK_MS * INT64_C(1000000);
        }
        free_graves(l);
        if (deadline != INT64_MAX && (all_finished(l) || now >= deadline))
            return NULL;
    }
}

/* ---- the public functions -------------------------------------------------------------------- */

int steno_tls_wrap(steno_tls *t, int fd)
{
    struct tls_conn *c = calloc(1, sizeof *c);
    int pair[2] = {-1, -1}, bytes = SEND_BYTES;
    if (!c || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair)) {
        close(fd);
        free(c);
        return -1;
    }
    c->tcp = (struct end){.c = c, .fd = fd};
    c->inner = (struct end){.c = c, .fd = pair[0]};
    c->progress = steno_now_ns();
    pthread_mutex_lock(&t->lock);
    c->ssl = SSL_new(t->ctx);
    pthread_mutex_unlock(&t->lock);
    if (!c->ssl || SSL_set_fd(c->ssl, fd) != 1) {
        free_conn(c);
        close(pair[1]);
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    SSL_set_accept_state(c->ssl);
    hand_to(t, &t->handshakes, c);
    return pair[1];
}

static steno_status open_loop(struct loop *l, steno_err *err)
{
    struct epoll_event ev = {.events = EPOLLIN};
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->epoll < 0 || l->wake < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->wake, &ev))
        return steno_fail(err, STENO_ERR_INTERNAL, "TLS: epoll: %s", strerror(errno));
    return STENO_OK;
}

static steno_status start_loop(struct loop *l, steno_tls *t, const char *name, void *(*fn)(void *),
                               steno_err *err)
{
    steno_status st = steno_thread_start(&l->thread, name, fn, t, err);
    l->running = !st;
    return st;
}

static void stop_loop(steno_tls *t, struct loop *l)
{
    pthread_mutex_lock(&t->lock);
    l->stop = true;
    pthread_mutex_unlock(&t->lock);
    if (l->running) {
        wake_loop(l);
        pthread_join(l->thread, NULL);
    }
    l->running = false;
}

static void free_loop(struct loop *l)
{
    free_list(l->conns);
    free_list(l->fresh);
    free_list(l->graves);
    if (l->epoll >= 0)
        close(l->epoll);
    if (l->wake >= 0)
        close(l->wake);
}

steno_status steno_tls_open(steno_tls **out, const char *certificate, const char *key,
                            double idle_timeout, steno_err *err)
{
    steno_tls *t = calloc(1, sizeof *t);
    steno_status st;
    if (!t)
        return steno_fail(err, STENO_ERR_NOMEM, "TLS: out of memory");
    pthread_mutex_init(&t->lock, NULL);
    t->handshakes.epoll = t->handshakes.wake = t->pumps.epoll = t->pumps.wake = -1;
    t->idle_timeout = idle_timeout;
    t->certificate = strdup(certificate);
    t->key = strdup(key);
    if (!t->certificate || !t->key)
        st = steno_fail(err, STENO_ERR_NOMEM, "TLS: out of memory");
    else if ((st = make_context(&t->ctx, certificate, key, err)) == STENO_OK &&
             (st = open_loop(&t->handshakes, err)) == STENO_OK &&
             (st = open_loop(&t->pumps, err)) == STENO_OK &&
             (st = start_loop(&t->pumps, t, "tls", run_pumps, err)) == STENO_OK)
        st = start_loop(&t->handshakes, t, "tls handshakes", run_handshakes, err);
    if (st)
        steno_tls_close(t);
    else
        *out = t;
    return st;
}

void steno_tls_close(steno_tls *t)
{
    if (!t)
        return;
    stop_loop(t, &t->handshakes); /* first: it hands connections to the other */
    stop_loop(t, &t->pumps);
    free_loop(&t->handshakes);
    free_loop(&t->pumps);
    SSL_CTX_free(t->ctx);
    free(t->certificate);
    free(t->key);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
