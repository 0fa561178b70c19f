/* Design. A connection is in one of three states: `waiting` (its request head has not come yet),
 * handed over (this file only counts it, in total and per address), or `lingering` (refused; what
 * the client still sends is discarded). Waiting and lingering connections are `struct conn`s in one
 * table indexed by slot. epoll events have slot and generation, so events of a closed connection
 * are recognised.
 *
 * MSG_PEEK leaves the bytes in the socket. With level-triggered epoll an incomplete head would wake
 * the thread again and again. With edge-triggered epoll, each arrival of new bytes wakes it once.
 *
 * Locked: `lock` guards the counters per address, `handed` and the queue of descriptors that shall
 * linger. The table belongs to the thread. */
#define _GNU_SOURCE /* accept4, pthread_setname_np */
#include "server/port/acceptor.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/threads.h"
#include "server/base/log.h"
#include "server/port/address.h"
#include "server/port/head.h"
#include "server/port/listeners.h"
#include "server/port/origin.h"
#include "server/port/refusal.h"
#include "server/port/retry_spreader.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HEAD_MAX 16384       /* bytes of a request head; more is 431 */
#define LINGER_MAX 1024      /* lingering at once; further ones are closed immediately */
#define LINGER_QUEUE 256     /* descriptors on the way from other threads */
#define LINGER_NS 2000000000 /* longest time of reading after a refused request */
#define EVICT_NS 1000000000  /* time a silent connection has before others replace it */
#define BUCKETS 1024         /* of the per-address table */
#define TICK_MS 100
#define HTTP2_PREFACE "PRI * HTTP/2.0\r\n" /* RFC 9113, 3.4 */
#define TLS_HANDSHAKE 22                   /* first byte of a TLS connection (RFC 8446, 5.1) */

struct conn {
    int fd; /* -1: the slot is free */
    uint32_t generation;
    bool lingering, watched; /* watched: in epoll */
    bool tls;                /* fd has what was decrypted */
    bool proxied;            /* a PROXY header comes first */
    int64_t since;           /* time it was accepted or began to linger */
    struct steno_peer peer;
    struct conn *prev, *next; /* in its queue; next also in the free list */
};

/* Connections in the order of `since`: the first one times out first. */
struct conn_queue {
    struct conn *first, *last;
};

struct host { /* connections of one address */
    struct host *next;
    struct sockaddr_storage addr;
    int n;
};

struct steno_acceptor {
    struct steno_port_settings set;
    struct steno_stats *stats;
    steno_acceptor_fn fn;
    void *user;
    struct steno_listeners listeners;
    int epoll, wake, spare; /* spare: closed for a moment when descriptors run out */
    pthread_t thread;
    bool running;

    struct conn *conns; /* [n_conns] */
    uint32_t n_conns, n_fresh, n_open, n_lingering;
    struct conn *free;
    struct conn_queue waiting, lingering;
    struct steno_retry_spreader spreader; /* for refused connections */
    struct steno_log_ration lines;        /* about TLS and PROXY headers that are not due */
    struct steno_networks trusted;        /* proxies */
    steno_tls *tls;                       /* NULL: none */
    bool lingering_only;                  /* stopped: only lingering clients remain */

    pthread_mutex_t lock;
    bool stop, ended; /* ended: no connection may linger any more */
    int total;        /* connections waiting or handed over */
    struct host *hosts[BUCKETS];
    int *linger; /* [n_linger <= LINGER_QUEUE] descriptors on the way to the table */
    size_t n_linger;
};

#define TAG_WAKE UINT64_MAX
#define TAG_LISTEN (UINT64_MAX - STENO_MAX_LISTENERS) /* + index */

/* ---- counters -------------------------------------------------------------------------------- */

/* Of the host, IPv4 only or IPv6. */
static unsigned bucket_of(const struct sockaddr_storage *addr)
{
    unsigned char bytes[16] = {0};
    if (addr->ss_family == AF_INET) {
        const struct sockaddr_in *sin = (const void *)addr;
        memcpy(bytes + 12, &sin->sin_addr, 4);
    } else if (addr->ss_family == AF_INET6) {
        const struct sockaddr_in6 *sin6 = (const void *)addr;
        memcpy(bytes, &sin6->sin6_addr, 16);
        if (IN6_IS_ADDR_V4MAPPED(&sin6->sin6_addr))
            memset(bytes, 0, 12);
    }
    return (unsigned)(steno_hash_bytes(STENO_HASH, bytes, sizeof bytes) % BUCKETS);
}

/* Lock held. *at: the link that holds the host, or the end of its chain. */
static struct host *find_host(steno_acceptor *a, const struct sockaddr_storage *addr,
                              struct host ***at)
{
    struct host **link = &a->hosts[bucket_of(addr)];
    while (*link && !steno_address_same_host(&(*link)->addr, addr))
        link = &(*link)->next;
    *at = link;
    return *link;
}

/* Count a connection of addr, lock held. Connections of proxies and of unix sockets are many
 * clients'; they are not counted. Returns the reason to refuse it, or STENO_REJECTIONS. */
static enum steno_rejection enter_host(steno_acceptor *a, const struct sockaddr_storage *addr)
{
    struct host **link, *h;
    unsigned char host[16];
    if (!steno_address_host(addr, host) || steno_networks_hold(&a->trusted, addr))
        return STENO_REJECTIONS;
    h = find_host(a, addr, &link);
    if (a->set.per_address && h && h->n >= a->set.per_address)
        return STENO_REJECT_ADDRESS;
    if (!h) {
        h = calloc(1, sizeof *h);
        if (!h)
            return STENO_REJECT_CONNECTIONS;
        h->addr = *addr;
        *link = h;
    }
    h->n++;
    return STENO_REJECTIONS;
}

static void leave_host(steno_acceptor *a, const struct sockaddr_storage *addr)
{
    struct host **link, *h = find_host(a, addr, &link);
    if (h && --h->n == 0) {
        *link = h->next;
        free(h);
    }
}

/* Count a new connection. Returns the reason to refuse it, or STENO_REJECTIONS. */
static enum steno_rejection count_in(steno_acceptor *a, const struct steno_peer *peer)
{
    enum steno_rejection why = STENO_REJECT_CONNECTIONS;
    pthread_mutex_lock(&a->lock);
    if (a->total < a->set.connections)
        why = enter_host(a, &peer->addr);
    if (why == STENO_REJECTIONS)
        a->total++;
    pthread_mutex_unlock(&a->lock);
    return why;
}

void steno_acceptor_closed(steno_acceptor *a, const struct steno_peer *peer)
{
    pthread_mutex_lock(&a->lock);
    a->total--;
    leave_host(a, &peer->addr);
    pthread_mutex_unlock(&a->lock);
}

bool steno_acceptor_recount(steno_acceptor *a, struct steno_peer *peer,
                            const struct sockaddr_storage *client)
{
    enum steno_rejection why;
    pthread_mutex_lock(&a->lock);
    why = enter_host(a, client);
    if (why == STENO_REJECTIONS) {
        leave_host(a, &peer->addr);
        peer->addr = *client;
        peer->len = client->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                  : sizeof(struct sockaddr_in);
    }
    pthread_mutex_unlock(&a->lock);
    if (why != STENO_REJECTIONS)
        steno_metric_add(a->stats->sessions_rejected[why], 1);
    return why == STENO_REJECTIONS;
}

bool steno_acceptor_enter(steno_acceptor *a, const struct sockaddr_storage *client)
{
    enum steno_rejection why;
    pthread_mutex_lock(&a->lock);
    why = enter_host(a, client);
    pthread_mutex_unlock(&a->lock);
    if (why != STENO_REJECTIONS)
        steno_metric_add(a->stats->sessions_rejected[why], 1);
    return why == STENO_REJECTIONS;
}

void steno_acceptor_leave(steno_acceptor *a, const struct sockaddr_storage *client)
{
    pthread_mutex_lock(&a->lock);
    leave_host(a, client);
    pthread_mutex_unlock(&a->lock);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void queue_put(struct conn_queue *q, struct conn *c)
{
    c->next = NULL;
    c->prev = q->last;
    if (q->last)
        q->last->next = c;
    else
        q->first = c;
    q->last = c;
}

static void queue_remove(struct conn_queue *q, struct conn *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        q->first = c->next;
    if (c->next)
        c->next->prev = c->prev;
    else
        q->last = c->prev;
}

/* A slot for fd in the queue of waiting or lingering connections; NULL when all are taken. */
static struct conn *slot_take(steno_acceptor *a, int fd, bool lingering)
{
    struct conn *c = a->free;
    if (c)
        a->free = c->next;
    else if (a->n_fresh < a->n_conns)
        c = &a->conns[a->n_fresh++]; /* memory of unused slots is never touched */
    else
        return NULL;
    a->n_open++;
    c->fd = fd;
    c->lingering = lingering;
    c->watched = c->tls = c->proxied = false;
    c->since = steno_now_ns();
    a->n_lingering += lingering;
    queue_put(lingering ? &a->lingering : &a->waiting, c);
    return c;
}

static void slot_free(steno_acceptor *a, struct conn *c)
{
    queue_remove(c->lingering ? &a->lingering : &a->waiting, c);
    a->n_lingering -= c->lingering;
    c->fd = -1;
    c->generation++;
    c->next = a->free;
    a->free = c;
    a->n_open--;
}

static bool watch(steno_acceptor *a, struct conn *c)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
    ev.data.u64 = (uint64_t)c->generation << 32 | (uint32_t)(c - a->conns);
    c->watched = epoll_ctl(a->epoll, EPOLL_CTL_ADD, c->fd, &ev) == 0;
    return c->watched;
}

static void unwatch(steno_acceptor *a, struct conn *c)
{
    if (c->watched)
        (void)epoll_ctl(a->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    c->watched = false;
}

static void drop_conn(steno_acceptor *a, struct conn *c)
{
    bool counted = !c->lingering;
    close(c->fd);
    if (counted)
        steno_acceptor_closed(a, &c->peer);
    slot_free(a, c);
}

/* ---- lingering and refusing ---------------------------------------------------------------- */

static void on_lingering(steno_acceptor *a, struct conn *c)
{
    char sink[65536]; /* not written for TCP: MSG_TRUNC (tcp(7)) */
    ssize_t n;
    /* bounded: one client that floods does not hold the thread */
    for (int i = 0; i < 16; i++) {
        n = recv(c->fd, sink, sizeof sink, MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            drop_conn(a, c);
            return;
        }
    }
    /* More data is waiting, but there will be no edge: register again to get one. */
    unwatch(a, c);
    if (!watch(a, c))
        drop_conn(a, c);
}

/* The answer is written: send a FIN, and read on until the client is done, so that it sees the
 * answer. */
static void linger(steno_acceptor *a, int fd)
{
    struct conn *c = a->n_lingering < LINGER_MAX ? slot_take(a, fd, true) : NULL;
    if (!c)
        close(fd);
    else if (shutdown(fd, SHUT_WR) || !watch(a, c))
        drop_conn(a, c);
    else
        on_lingering(a, c); /* data that has come already */
}

/* Answer a connection whose head, or the part that has come, is p [n]; unread or not. */
static void send_error(const steno_acceptor *a, int fd, const char *p, size_t n, int status,
                       const char *code, const char *message, const char *more)
{
    char extra[STENO_ORIGIN_LINES + 64], cors[STENO_ORIGIN_LINES];
    size_t len = 0;
    const char *origin = steno_request_head_value(p, n, "Origin", &len);
    steno_origin_lines(a->set.cors_origins, origin, len, cors);
    snprintf(extra, sizeof extra, "%s%s", more, cors);
    steno_refusal_send(fd, status, code, message, extra);
}

/* The same before the head was looked at. */
static void send_early_error(const steno_acceptor *a, int fd, int status, const char *code,
                             const char *message, const char *more)
{
    char head[4096];
    ssize_t n = *a->set.cors_origins ? recv(fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT) : 0;
    send_error(a, fd, head, n > 0 ? (size_t)n : 0, status, code, message, more);
}

/* Answer that a limit of connections is reached, and when to come back. */
static void send_busy(steno_acceptor *a, int fd, enum steno_rejection why, bool wyoming)
{
    const char *message = why == STENO_REJECT_ADDRESS ? "too many connections from this address"
                                                      : "too many connections";
    char retry[48];
    snprintf(retry, sizeof retry, "Retry-After: %.0f\r\n",
             steno_retry_spreader_next(&a->spreader, steno_now_ns(), a->set.retry_after));
    if (wyoming)
        steno_refusal_send_wyoming(fd, "busy", message);
    else
        send_early_error(a, fd, 503, "busy", message, retry);
}

static void refuse_fd(steno_acceptor *a, int fd, enum steno_rejection why, bool wyoming)
{
    steno_metric_add(a->stats->sessions_rejected[why], 1);
    send_busy(a, fd, why, wyoming);
    linger(a, fd);
}

/* ---- heads ----------------------------------------------------------------------------------- */

static void hand_over(steno_acceptor *a, struct conn *c, const char *head, size_t len)
{
    int fd = c->fd;
    struct steno_peer peer = c->peer;
    unwatch(a, c);
    slot_free(a, c);
    a->fn(a->user, fd, &peer, head, len);
}

/* The acceptor has answered: do not hand the connection over. */
static void refuse_conn(steno_acceptor *a, struct conn *c)
{
    int fd = c->fd;
    steno_acceptor_closed(a, &c->peer);
    unwatch(a, c);
    slot_free(a, c);
    linger(a, fd);
}

static void keep_watching(steno_acceptor *a, struct conn *c)
{
    if (!c->watched && !watch(a, c))
        drop_conn(a, c);
}

/* The client begins with TLS: its connection goes on with what is decrypted. */
static void on_hello(steno_acceptor *a, struct conn *c)
{
    char peer[STENO_ADDRESS_TEXT];
    if (!a->tls) {
        if (steno_log_ration_take(&a->lines, steno_now_ns()))
            steno_log(LOG_NOTICE, "%s speaks TLS, but tls.certificate is not set: closed",
                      steno_address_print(&c->peer.addr, peer));
        refuse_conn(a, c);
        return;
    }
    unwatch(a, c);
    c->fd = steno_tls_wrap(a->tls, c->fd);
    c->tls = true;
    if (c->fd >= 0) {
        keep_watching(a, c);
    } else {
        steno_acceptor_closed(a, &c->peer);
        slot_free(a, c);
    }
}

/* Read the PROXY header from head [n], which is still unread. False: it has not come, or the
 * connection is gone. */
static bool take_proxy_header(steno_acceptor *a, struct conn *c, char *head, size_t n, bool last)
{
    char peer[STENO_ADDRESS_TEXT];
    struct steno_proxy_header h;
    steno_err err;
    steno_status st = steno_proxy_parse(head, n, &h, &err);
    if (st == STENO_NEED_MORE && !last) {
        keep_watching(a, c);
        return false;
    }
    if (st || recv(c->fd, head, h.len, MSG_DONTWAIT) != (ssize_t)h.len) {
        if (st && st != STENO_NEED_MORE && steno_log_ration_take(&a->lines, steno_now_ns()))
            steno_log(LOG_NOTICE, "proxy %s: %s: closed", steno_address_print(&c->peer.addr, peer),
                      err.msg);
        drop_conn(a, c);
        return false;
    }
    c->proxied = false;
    if (!h.known || steno_acceptor_recount(a, &c->peer, &h.client))
        return true;
    send_busy(a, c->fd, STENO_REJECT_ADDRESS, false);
    refuse_conn(a, c);
    return false;
}

/* Look at the part of the head that has come. last: no more will come. */
static void on_waiting(steno_acceptor *a, struct conn *c, bool last)
{
    char head[HEAD_MAX];
    ssize_t n = recv(c->fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
    const char *wrong;
    size_t len;
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        keep_watching(a, c);
        return;
    }
    if (n <= 0) {
        drop_conn(a, c);
        return;
    }
    if (c->proxied) {
        if (take_proxy_header(a, c, head, (size_t)n, last))
            on_waiting(a, c, last);
        return;
    }
    if (!c->tls && *head == TLS_HANDSHAKE) {
        on_hello(a, c);
        return;
    }
    if (!c->tls && a->set.tls_required) {
        send_error(a, c->fd, head, (size_t)n, 400, "tls_required",
                   "this server speaks TLS: https or wss", "");
        refuse_conn(a, c);
        return;
    }
    len = steno_request_head_length(head, (size_t)n);
    if (len && !strncmp(head, HTTP2_PREFACE, sizeof HTTP2_PREFACE - 1)) {
        send_error(a, c->fd, head, len, 505, "http_version",
                   "this server speaks HTTP/1.1, not HTTP/2", "");
        refuse_conn(a, c);
    } else if (len && (wrong = steno_request_head_framing(head, len))) {
        send_error(a, c->fd, head, len, 400, "invalid_argument", wrong, "");
        refuse_conn(a, c);
    } else if (len) {
        hand_over(a, c, head, len);
    } else if ((size_t)n == sizeof head) {
        steno_metric_add(a->stats->sessions_rejected[STENO_REJECT_SLOW], 1);
        send_error(a, c->fd, head, (size_t)n, 431, "head_too_large",
                   "the request head is larger than 16384 bytes", "");
        refuse_conn(a, c);
    } else if (last) { /* an incomplete head, and the client has closed */
        drop_conn(a, c);
    } else {
        keep_watching(a, c);
    }
}

static void on_event(steno_acceptor *a, uint64_t tag, uint32_t events)
{
    uint32_t slot = (uint32_t)tag;
    struct conn *c;
    if (slot >= a->n_fresh)
        return;
    c = &a->conns[slot];
    if (c->fd < 0 || c->generation != (uint32_t)(tag >> 32))
        return;
    if (c->lingering)
        on_lingering(a, c);
    else
        on_waiting(a, c, events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
}

/* ---- accepting ------------------------------------------------------------------------------- */

/* The oldest connection without a head is dropped when it has had a second. So a client that opens
 * connections and sends nothing cannot keep others out. */
static bool evict(steno_acceptor *a)
{
    struct conn *oldest = a->waiting.first;
    if (!oldest || steno_now_ns() - oldest->since < EVICT_NS)
        return false;
    steno_metric_add(a->stats->sessions_rejected[STENO_REJECT_SLOW], 1);
    drop_conn(a, oldest);
    return true;
}

static void add_conn(steno_acceptor *a, int fd, const struct steno_peer *peer, bool wyoming)
{
    enum steno_rejection why = count_in(a, peer);
    struct conn *c;
    int one = 1;
    if (why == STENO_REJECT_CONNECTIONS && evict(a))
        why = count_in(a, peer);
    if (why != STENO_REJECTIONS) {
        refuse_fd(a, fd, why, wyoming);
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (wyoming) {
        a->fn(a->user, fd, peer, NULL, 0);
        return;
    }
    c = slot_take(a, fd, false);
    if (!c && evict(a))
        c = slot_take(a, fd, false);
    if (!c) {
        steno_acceptor_closed(a, peer);
        refuse_fd(a, fd, STENO_REJECT_CONNECTIONS, false);
        return;
    }
    c->peer = *peer;
    c->proxied = a->set.proxy_protocol && steno_networks_hold(&a->trusted, &peer->addr);
    on_waiting(a, c, false); /* under load the head is here already, and epoll is not needed */
}

/* No descriptor is left. Close the spare one, accept the connection and close it, so that the
 * client knows at once and the listening socket does not stay readable. */
static void shed(steno_acceptor *a, int listener)
{
    int fd;
    steno_metric_add(a->stats->sessions_rejected[STENO_REJECT_DESCRIPTORS], 1);
    if (a->spare >= 0)
        close(a->spare);
    fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    a->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_listener(steno_acceptor *a, const struct steno_listener *l)
{
    /* bounded: new connections must not delay the running ones */
    for (int i = 0; i < 64; i++) {
        struct steno_peer peer = {.len = sizeof peer.addr};
        int fd =
            accept4(l->fd, (struct sockaddr *)&peer.addr, &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            add_conn(a, fd, &peer, l->wyoming);
        } else if (errno == EMFILE || errno == ENFILE) {
            shed(a, l->fd);
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

/* ---- lingering for others -------------------------------------------------------------------- */

void steno_acceptor_linger(steno_acceptor *a, int fd)
{
    bool taken = false;
    uint64_t one = 1;
    pthread_mutex_lock(&a->lock);
    if (!a->ended && a->n_linger < LINGER_QUEUE) {
        a->linger[a->n_linger++] = fd;
        taken = true;
    }
    pthread_mutex_unlock(&a->lock);
    if (taken)
        (void)!write(a->wake, &one, sizeof one);
    else
        close(fd);
}

static void take_lingering(steno_acceptor *a)
{
    for (;;) {
        int fd = -1;
        pthread_mutex_lock(&a->lock);
        if (a->n_linger)
            fd = a->linger[--a->n_linger];
        pthread_mutex_unlock(&a->lock);
        if (fd < 0)
            return;
        linger(a, fd);
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void expire(steno_acceptor *a, int64_t now)
{
    const int64_t header = (int64_t)(a->set.header_timeout * 1e9);
    struct conn *c;
    while ((c = a->waiting.first) && now - c->since >= header) {
        char byte;
        steno_metric_add(a->stats->sessions_rejected[STENO_REJECT_SLOW], 1);
        /* A connection that sent nothing asked nothing: browsers open connections in advance. */
        if (recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1) {
            send_early_error(a, c->fd, 408, "head_timeout", "the request head did not come in time",
                             "");
            refuse_conn(a, c); /* unread input would reset it, and the answer would be lost */
        } else {
            drop_conn(a, c);
        }
    }
    while ((c = a->lingering.first) && now - c->since >= LINGER_NS)
        drop_conn(a, c);
}

/* Told to stop: accept no more, and drop connections without a request. */
static bool stopping(steno_acceptor *a)
{
    bool stop;
    pthread_mutex_lock(&a->lock);
    stop = a->stop;
    pthread_mutex_unlock(&a->lock);
    if (!stop || a->lingering_only)
        return stop;
    a->lingering_only = true;
    for (size_t i = 0; i < a->listeners.n; i++)
        (void)epoll_ctl(a->epoll, EPOLL_CTL_DEL, a->listeners.at[i].fd, NULL);
    while (a->waiting.first)
        drop_conn(a, a->waiting.first);
    return true;
}

/* Lingering clients still read what was written to them: closing now would lose it. */
static bool ended(steno_acceptor *a)
{
    bool none;
    if (!stopping(a) || a->lingering.first)
        return false;
    pthread_mutex_lock(&a->lock);
    none = !a->n_linger;
    a->ended = none;
    pthread_mutex_unlock(&a->lock);
    return none;
}

static void *run_acceptor(void *arg)
{
    steno_acceptor *a = arg;
    struct epoll_event ev[64];
    int64_t next_tick = 0;
    pthread_setname_np(pthread_self(), "acceptor");
    steno_thread_give_way();
    while (!ended(a)) {
        int n = epoll_wait(a->epoll, ev, 64, a->n_open || a->lingering_only ? TICK_MS : -1);
        int64_t now = steno_now_ns();
        for (int i = 0; i < n; i++) {
            uint64_t tag = ev[i].data.u64, count;
            if (tag == TAG_WAKE)
                (void)!read(a->wake, &count, sizeof count);
            else if (tag >= TAG_LISTEN && !a->lingering_only)
                on_listener(a, &a->listeners.at[tag - TAG_LISTEN]);
            else if (tag < TAG_LISTEN)
                on_event(a, tag, ev[i].events);
        }
        take_lingering(a);
        if (now >= next_tick) {
            expire(a, now);
            next_tick = now + TICK_MS * INT64_C(1000000);
        }
    }
    return NULL;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static steno_status watch_listeners(steno_acceptor *a, steno_err *err)
{
    for (size_t i = 0; i < a->listeners.n; i++) {
        struct epoll_event ev = {.events = EPOLLIN, .data.u64 = TAG_LISTEN + i};
        if (epoll_ctl(a->epoll, EPOLL_CTL_ADD, a->listeners.at[i].fd, &ev))
            return steno_fail(err, STENO_ERR_IO, "epoll: %s", strerror(errno));
    }
    return STENO_OK;
}

static bool make_table(steno_acceptor *a)
{
    a->n_conns = (uint32_t)a->set.connections + LINGER_MAX;
    a->conns = calloc(a->n_conns, sizeof *a->conns);
    a->linger = calloc(LINGER_QUEUE, sizeof *a->linger);
    return a->conns && a->linger;
}

steno_status steno_acceptor_open(steno_acceptor **out, const struct steno_port_settings *set,
                                 struct steno_stats *stats, steno_acceptor_fn fn, void *user,
                                 steno_err *err)
{
    struct epoll_event ev = {.events = EPOLLIN};
    steno_status st;
    steno_acceptor *a = calloc(1, sizeof *a);
    if (!a)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    a->set = *set;
    a->stats = stats;
    a->fn = fn;
    a->user = user;
    pthread_mutex_init(&a->lock, NULL);
    a->epoll = epoll_create1(EPOLL_CLOEXEC);
    a->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    a->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ev.data.u64 = TAG_WAKE;
    if (!make_table(a))
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    else if (a->epoll < 0 || a->wake < 0 || epoll_ctl(a->epoll, EPOLL_CTL_ADD, a->wake, &ev))
        st = steno_fail(err, STENO_ERR_INTERNAL, "epoll: %s", strerror(errno));
    else if ((st = steno_networks_parse(set->trusted_proxies, &a->trusted, err)) == STENO_OK)
        st = steno_listeners_open(&a->listeners, set, err);
    if (!st)
        st = watch_listeners(a, err);
    if (st) {
        steno_acceptor_close(a);
        return st;
    }
    *out = a;
    return STENO_OK;
}

void steno_acceptor_use_tls(steno_acceptor *a, steno_tls *tls)
{
    a->tls = tls;
}

steno_status steno_acceptor_start(steno_acceptor *a, steno_err *err)
{
    int rc = pthread_create(&a->thread, NULL, run_acceptor, a);
    if (rc)
        return steno_fail(err, STENO_ERR_INTERNAL, "acceptor thread: %s", strerror(rc));
    a->running = true;
    return STENO_OK;
}

static void free_tables(steno_acceptor *a)
{
    for (uint32_t i = 0; a->conns && i < a->n_fresh; i++)
        if (a->conns[i].fd >= 0)
            close(a->conns[i].fd);
    for (size_t i = 0; i < a->n_linger; i++)
        close(a->linger[i]);
    for (size_t i = 0; i < BUCKETS; i++)
        while (a->hosts[i]) {
            struct host *h = a->hosts[i];
            a->hosts[i] = h->next;
            free(h);
        }
    free(a->conns);
    free(a->linger);
}

void steno_acceptor_stop(steno_acceptor *a)
{
    uint64_t one = 1;
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_mutex_unlock(&a->lock);
    if (a->running) {
        (void)!write(a->wake, &one, sizeof one);
        pthread_join(a->thread, NULL);
        a->running = false;
    }
    steno_listeners_close(&a->listeners);
}

void steno_acceptor_close(steno_acceptor *a)
{
    if (!a)
        return;
    steno_acceptor_stop(a);
    free_tables(a);
    if (a->epoll >= 0)
        close(a->epoll);
    if (a->wake >= 0)
        close(a->wake);
    if (a->spare >= 0)
        close(a->spare);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

const char *steno_acceptor_url(const steno_acceptor *a, size_t i)
{
    return i < a->listeners.n ? a->listeners.at[i].url : NULL;
}

uint16_t steno_acceptor_wyoming_port(const steno_acceptor *a)
{
    return steno_listeners_wyoming_port(&a->listeners);
}
