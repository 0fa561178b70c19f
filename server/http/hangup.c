#define _GNU_SOURCE /* pthread_setname_np, EPOLLRDHUP */
#include "server/http/hangup.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TICK_MS 100

struct watch {
    int fd;              /* -1: free */
    uint32_t generation; /* from 1, so that an id is never 0 */
    int64_t deadline;
    steno_hangup_fn fn;
    void *user;
    bool half, fired, calling;
};

struct steno_hangup {
    int epoll, wake;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t called;
    bool stop, sleeps;     /* sleeps: waits without a timeout */
    struct watch *watches; /* [max] */
    int max, used;
};

#define WAKE UINT64_MAX

static struct watch *hangup_find(steno_hangup *h, uint64_t id)
{
    uint32_t slot = (uint32_t)id;
    struct watch *w;
    if (slot >= (uint32_t)h->max)
        return NULL;
    w = &h->watches[slot];
    return w->fd >= 0 && w->generation == (uint32_t)(id >> 32) ? w : NULL;
}

/* Lock held, released during the call. */
static void fire(steno_hangup *h, struct watch *w, enum steno_hangup_why why)
{
    steno_hangup_fn fn = w->fn;
    void *user = w->user;
    if (w->fired || (why == STENO_HANGUP_HALF && w->half))
        return;
    w->half = true;
    w->fired = why != STENO_HANGUP_HALF;
    w->calling = true;
    pthread_mutex_unlock(&h->lock);
    fn(user, why);
    pthread_mutex_lock(&h->lock);
    w->calling = false;
    pthread_cond_broadcast(&h->called);
}

static void expire(steno_hangup *h)
{
    int64_t now = steno_now_ns();
    for (int i = 0; i < h->max && h->used; i++) {
        struct watch *w = &h->watches[i];
        if (w->fd >= 0 && w->deadline && now >= w->deadline)
            fire(h, w, STENO_HANGUP_LATE);
    }
}

static void *hangup_run(void *arg)
{
    steno_hangup *h = arg;
    struct epoll_event ev[64];
    pthread_setname_np(pthread_self(), "hangup");
    pthread_mutex_lock(&h->lock);
    while (!h->stop) {
        int n, timeout_ms = h->used ? TICK_MS : -1;
        h->sleeps = !h->used;
        pthread_mutex_unlock(&h->lock);
        n = epoll_wait(h->epoll, ev, 64, timeout_ms);
        pthread_mutex_lock(&h->lock);
        h->sleeps = false;
        for (int i = 0; i < n; i++) {
            struct watch *w;
            uint64_t count;
            if (ev[i].data.u64 == WAKE) {
                (void)!read(h->wake, &count, sizeof count);
                continue;
            }
            w = hangup_find(h, ev[i].data.u64);
            if (w && ev[i].events & (EPOLLHUP | EPOLLERR))
                fire(h, w, STENO_HANGUP_GONE);
            else if (w && ev[i].events & EPOLLRDHUP)
                fire(h, w, STENO_HANGUP_HALF);
        }
        expire(h);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static void wake_watcher(steno_hangup *h)
{
    uint64_t one = 1;
    (void)!write(h->wake, &one, sizeof one);
}

steno_status steno_hangup_open(steno_hangup **out, int max, steno_err *err)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = WAKE};
    int rc;
    steno_hangup *h = calloc(1, sizeof *h);
    if (!h)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->called, NULL);
    h->max = max;
    h->watches = calloc((size_t)max, sizeof *h->watches);
    for (int i = 0; h->watches && i < max; i++)
        h->watches[i] = (struct watch){.fd = -1, .generation = 1};
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!h->watches || h->epoll < 0 || h->wake < 0 ||
        epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->wake, &ev)) {
        steno_hangup_close(h);
        return steno_fail(err, STENO_ERR_INTERNAL, "hangup watcher: %s", strerror(errno));
    }
    rc = pthread_create(&h->thread, NULL, hangup_run, h);
    if (rc) {
        steno_hangup_close(h);
        return steno_fail(err, STENO_ERR_INTERNAL, "hangup thread: %s", strerror(rc));
    }
    h->running = true;
    *out = h;
    return STENO_OK;
}

void steno_hangup_close(steno_hangup *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->stop = true;
    pthread_mutex_unlock(&h->lock);
    if (h->running) {
        wake_watcher(h);
        pthread_join(h->thread, NULL);
    }
    if (h->epoll >= 0)
        close(h->epoll);
    if (h->wake >= 0)
        close(h->wake);
    free(h->watches);
    pthread_cond_destroy(&h->called);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

steno_hangup_id steno_hangup_watch(steno_hangup *h, int fd, int64_t deadline_ns, steno_hangup_fn fn,
                                   void *user)
{
    struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLET};
    steno_hangup_id id = 0;
    struct watch *w;
    bool sleeps;
    int i;
    pthread_mutex_lock(&h->lock);
    for (i = 0; i < h->max && h->watches[i].fd >= 0; i++)
        ;
    if (i < h->max) {
        w = &h->watches[i];
        ev.data.u64 = id = (uint64_t)w->generation << 32 | (uint32_t)i;
        w->fd = fd;
        w->deadline = deadline_ns;
        w->fn = fn;
        w->user = user;
        w->half = w->fired = w->calling = false;
        h->used++;
        if (epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &ev)) {
            w->fd = -1;
            h->used--;
            id = 0;
        }
    }
    sleeps = id && h->sleeps;
    if (sleeps)
        h->sleeps = false; /* one wake-up is enough */
    pthread_mutex_unlock(&h->lock);
    if (sleeps)
        wake_watcher(h);
    return id;
}

void steno_hangup_extend(steno_hangup *h, steno_hangup_id id, int64_t deadline_ns)
{
    struct watch *w;
    pthread_mutex_lock(&h->lock);
    w = id ? hangup_find(h, id) : NULL;
    if (w)
        w->deadline = deadline_ns;
    pthread_mutex_unlock(&h->lock);
}

void steno_hangup_forget(steno_hangup *h, steno_hangup_id id)
{
    struct watch *w;
    pthread_mutex_lock(&h->lock);
    w = id ? hangup_find(h, id) : NULL;
    if (w) {
        while (w->calling)
            pthread_cond_wait(&h->called, &h->lock);
        (void)epoll_ctl(h->epoll, EPOLL_CTL_DEL, w->fd, NULL);
        w->fd = -1;
        if (++w->generation == 0)
            w->generation = 1;
        h->used--;
    }
    pthread_mutex_unlock(&h->lock);
}
