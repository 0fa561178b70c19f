#define _GNU_SOURCE /* pthread_setname_np */
#include "server/http/waker.h"

#include "base/threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct watch {
    bool used, calling;
    uint32_t generation; /* of its earlier watches; ids have one more, so that none is 0 */
    steno_waker_fn *fn;
    void *user;
};

struct steno_waker {
    int epoll, stop_event;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* guards the watches */
    pthread_cond_t called;
    int max;
    struct watch *watches; /* [max] */
};

#define STOP UINT64_MAX

/* Lock held. */
static struct watch *waker_find(steno_waker *w, uint64_t id)
{
    uint32_t slot = (uint32_t)id;
    struct watch *x;
    if (!id || slot >= (uint32_t)w->max)
        return NULL;
    x = &w->watches[slot];
    return x->used && x->generation + 1 == (uint32_t)(id >> 32) ? x : NULL;
}

/* Lock held, released during the call. */
static void call(steno_waker *w, struct watch *x)
{
    steno_waker_fn *fn = x->fn;
    void *user = x->user;
    x->calling = true;
    pthread_mutex_unlock(&w->lock);
    fn(user);
    pthread_mutex_lock(&w->lock);
    x->calling = false;
    pthread_cond_broadcast(&w->called);
}

static void *waker_run(void *arg)
{
    steno_waker *w = arg;
    struct epoll_event ev[64];
    bool stop = false;
    while (!stop) {
        int n = epoll_wait(w->epoll, ev, 64, -1);
        pthread_mutex_lock(&w->lock);
        for (int i = 0; i < n; i++) {
            struct watch *x = waker_find(w, ev[i].data.u64);
            if (ev[i].data.u64 == STOP)
                stop = true;
            else if (x)
                call(w, x);
        }
        pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

static steno_status waker_init(steno_waker *w, int max, steno_err *err)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = STOP};
    steno_status st;
    w->max = max;
    w->watches = calloc((size_t)max + 1, sizeof *w->watches);
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!w->watches || w->epoll < 0 || w->stop_event < 0 ||
        epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->stop_event, &ev))
        return steno_fail(err, STENO_ERR_INTERNAL, "waker: %s", strerror(errno));
    st = steno_thread_start(&w->thread, "waker", waker_run, w, err);
    w->running = !st;
    return st;
}

steno_status steno_waker_open(steno_waker **out, int max, steno_err *err)
{
    steno_status st;
    steno_waker *w = calloc(1, sizeof *w);
    if (!w)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    w->epoll = w->stop_event = -1;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->called, NULL);
    st = waker_init(w, max, err);
    if (st)
        steno_waker_close(w);
    else
        *out = w;
    return st;
}

void steno_waker_close(steno_waker *w)
{
    const uint64_t one = 1;
    if (!w)
        return;
    if (w->running) {
        (void)!write(w->stop_event, &one, sizeof one);
        pthread_join(w->thread, NULL);
    }
    if (w->epoll >= 0)
        close(w->epoll);
    if (w->stop_event >= 0)
        close(w->stop_event);
    free(w->watches);
    pthread_cond_destroy(&w->called);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static bool waker_add(steno_waker *w, int fd, uint32_t events, uint64_t id)
{
    struct epoll_event ev = {.events = events | EPOLLET, .data.u64 = id};
    return fd < 0 || !epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &ev);
}

/* Lock held. The descriptors stay with epoll until they are closed; their events find no watch.
 * (One that was closed already may have its number taken by another watch.) */
static void remove_watch(struct watch *x)
{
    x->used = false;
    if (++x->generation == UINT32_MAX)
        x->generation = 0;
}

steno_waker_id steno_waker_watch(steno_waker *w, int readable, int writable, steno_waker_fn *fn,
                                 void *user)
{
    steno_waker_id id = 0;
    int i = 0;
    pthread_mutex_lock(&w->lock);
    while (i < w->max && w->watches[i].used)
        i++;
    if (i < w->max) {
        struct watch *x = &w->watches[i];
        id = (uint64_t)(x->generation + 1) << 32 | (uint32_t)i;
        x->used = true;
        x->fn = fn;
        x->user = user;
        if (!waker_add(w, readable, EPOLLIN, id) || !waker_add(w, writable, EPOLLOUT, id)) {
            remove_watch(x);
            id = 0;
        }
    }
    pthread_mutex_unlock(&w->lock);
    return id;
}

void steno_waker_forget(steno_waker *w, steno_waker_id id)
{
    struct watch *x;
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    x = waker_find(w, id);
    if (x) {
        while (x->calling)
            pthread_cond_wait(&w->called, &w->lock);
        remove_watch(x);
    }
    pthread_mutex_unlock(&w->lock);
}
