#define _GNU_SOURCE /* pthread_setname_np */
#include "server/watch/health.h"

#include "base/clock.h"
#include "base/threads.h"
#include "server/base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#define SECOND INT64_C(1000000000)
#define STUCK_NS (10 * SECOND) /* a node takes milliseconds: after this time it is stuck */
#define CANARY_EVERY_NS (5 * SECOND)
#define CANARY_LATE_NS (10 * SECOND) /* without an answer for so long: not ready */
#define FRESH_NS (30 * SECOND)       /* how long an answer counts */
#define STATUS_EVERY_NS (2 * SECOND)
#define TICK_NS (SECOND / 4)

struct steno_health {
    const struct steno_server *srv;
    pthread_t thread;
    bool running;
    int64_t watchdog_ns; /* interval of feeding systemd; 0 = it does not ask for it */

    pthread_mutex_t lock; /* guards the following fields */
    pthread_cond_t wake;
    bool stop;
    int stuck; /* worker that hangs; -1 = none */
    int64_t stuck_since;
    int64_t last_ok; /* last success of the canary; 0 = never */
    int64_t sent;    /* time the running canary was sent; 0 = none runs */
    bool canary_done;
    steno_err canary_err;

    /* of the thread */
    int told; /* sessions in the last STATUS= */
    int64_t told_at;
    struct steno_served *served; /* the canary's model */
    steno_pool_stream *canary;
    uint64_t steps_seen;
};

static void on_canary(void *user, steno_pool_stream *ps, const struct steno_pool_note *note)
{
    struct steno_health *h = user;
    (void)ps;
    if (note->kind != STENO_POOL_DONE)
        return;
    pthread_mutex_lock(&h->lock);
    h->canary_done = true;
    if (!note->status)
        h->last_ok = steno_now_ns();
    else if (note->err)
        h->canary_err = *note->err;
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->lock);
}

static void release_model(steno_health *h)
{
    steno_models_release(h->srv->models, h->served);
    h->served = NULL;
}

/* Send a fifth of a second of silence as a complete stream. */
static void send_canary(steno_health *h)
{
    static const float silence[1600];
    struct steno_pool_stream_options opt = {.stream = {.sample_rate = 8000, .no_partials = true},
                                            .priority = STENO_POOL_LIVE,
                                            .always = true};
    struct steno_pool_stats stats;
    size_t taken;
    steno_err err;
    int64_t now = steno_now_ns();
    if (steno_models_acquire(h->srv->models, NULL, NULL, &h->served, &err))
        return; /* not reached: the default model is always loaded */
    steno_pool_get_stats(h->served->pool, &stats);
    if (steno_pool_stream_open(&h->canary, h->served->pool, &opt, on_canary, h, &err)) {
        release_model(h);
        /* no place: then the streams themselves show whether recognition runs */
        pthread_mutex_lock(&h->lock);
        if (stats.steps > h->steps_seen)
            h->last_ok = now;
        h->sent = now;
        pthread_mutex_unlock(&h->lock);
        h->canary = NULL;
        h->steps_seen = stats.steps;
        return;
    }
    h->steps_seen = stats.steps;
    pthread_mutex_lock(&h->lock);
    h->sent = now;
    h->canary_done = false;
    pthread_mutex_unlock(&h->lock);
    if (steno_pool_stream_push(h->canary, silence, sizeof silence / sizeof *silence, &taken, &err))
        steno_log(LOG_WARNING, "canary: %s", err.msg);
    steno_pool_stream_end(h->canary);
}

/* The first worker that has been at one step for too long, or -1. */
static int find_stuck(const struct steno_health *h, int64_t now, int64_t *since)
{
    int worker;
    return steno_models_find_stuck(h->srv->models, now - STUCK_NS, &worker, since) ? worker : -1;
}

static void look_for_stuck(steno_health *h, int64_t now)
{
    int64_t since = 0;
    int stuck = find_stuck(h, now, &since), before;
    bool done, due;
    pthread_mutex_lock(&h->lock);
    before = h->stuck;
    h->stuck = stuck;
    h->stuck_since = since;
    done = h->canary && h->canary_done;
    due = !h->canary && (!h->sent || now - h->sent >= CANARY_EVERY_NS);
    pthread_mutex_unlock(&h->lock);
    if (stuck >= 0 && before < 0)
        steno_log(LOG_ERR, "worker %d has hung for %.1f s: the watchdog is no longer fed", stuck,
                  (double)(now - since) / 1e9);
    else if (stuck < 0 && before >= 0)
        steno_log(LOG_NOTICE, "worker %d works again", before);
    if (done) {
        steno_pool_stream_close(h->canary);
        h->canary = NULL;
        release_model(h);
    } else if (due) {
        send_canary(h);
    }
}

/* Update the text of `systemctl status` when it has changed. */
static void notify_status(steno_health *h, int64_t now)
{
    int n = steno_limits_active(h->srv->limits);
    if (n == h->told || now - h->told_at < STATUS_EVERY_NS || steno_limits_draining(h->srv->limits))
        return;
    h->told = n;
    h->told_at = now;
    sd_notifyf(0, "STATUS=Serving %d sessions", n);
}

static void *run_health(void *arg)
{
    steno_health *h = arg;
    int64_t fed = 0;
    pthread_setname_np(pthread_self(), "health");
    pthread_mutex_lock(&h->lock);
    while (!h->stop) {
        int64_t now = steno_now_ns();
        bool alive;
        pthread_mutex_unlock(&h->lock);
        look_for_stuck(h, now);
        notify_status(h, now);
        pthread_mutex_lock(&h->lock);
        alive = h->stuck < 0;
        if (h->watchdog_ns && alive && now - fed >= h->watchdog_ns) {
            fed = now;
            pthread_mutex_unlock(&h->lock);
            sd_notify(0, "WATCHDOG=1");
            pthread_mutex_lock(&h->lock);
        }
        if (!h->stop && !(h->canary && h->canary_done))
            (void)steno_cond_wait_until(&h->wake, &h->lock, now + TICK_NS);
    }
    pthread_mutex_unlock(&h->lock);
    steno_pool_stream_close(h->canary);
    h->canary = NULL;
    release_model(h);
    return NULL;
}

steno_status steno_health_open(steno_health **out, const struct steno_server *srv, steno_err *err)
{
    uint64_t usec = 0;
    int rc;
    steno_health *h = calloc(1, sizeof *h);
    if (!h)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    h->srv = srv;
    h->stuck = -1;
    pthread_mutex_init(&h->lock, NULL);
    steno_cond_init(&h->wake);
    if (sd_watchdog_enabled(0, &usec) > 0)
        h->watchdog_ns = (int64_t)usec * 1000 / 4; /* sd_watchdog_enabled(3) advises half */
    rc = pthread_create(&h->thread, NULL, run_health, h);
    if (rc) {
        steno_health_close(h);
        return steno_fail(err, STENO_ERR_INTERNAL, "health thread: %s", strerror(rc));
    }
    h->running = true;
    *out = h;
    return STENO_OK;
}

void steno_health_close(steno_health *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->stop = true;
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->lock);
    if (h->running)
        pthread_join(h->thread, NULL);
    pthread_cond_destroy(&h->wake);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

bool steno_health_stuck(steno_health *h)
{
    bool stuck;
    pthread_mutex_lock(&h->lock);
    stuck = h->stuck >= 0;
    pthread_mutex_unlock(&h->lock);
    return stuck;
}

bool steno_health_live(steno_health *h, struct steno_buf *out)
{
    int stuck;
    int64_t since;
    steno_status st;
    pthread_mutex_lock(&h->lock);
    stuck = h->stuck;
    since = h->stuck_since;
    pthread_mutex_unlock(&h->lock);
    if (stuck < 0)
        st = steno_buf_puts(out, "{\"status\":\"ok\",\"reasons\":[]}\n");
    else
        st = steno_buf_printf(out,
                              "{\"status\":\"failing\",\"reasons\":[\"worker %d hangs for %.1f "
                              "s\"]}\n",
                              stuck, (double)(steno_now_ns() - since) / 1e9);
    return !st && stuck < 0;
}

bool steno_health_ready(steno_health *h, struct steno_buf *out)
{
    int64_t now = steno_now_ns(), ok, sent;
    const char *why = "";
    int stuck;
    bool waiting;
    steno_status st;
    pthread_mutex_lock(&h->lock);
    ok = h->last_ok;
    sent = h->sent;
    waiting = !h->canary_done;
    stuck = h->stuck;
    pthread_mutex_unlock(&h->lock);
    if (atomic_load_explicit(&h->srv->leaving, memory_order_relaxed))
        why = "an operator takes the server out";
    else if (steno_limits_draining(h->srv->limits))
        why = "the server is shutting down";
    else if (stuck >= 0)
        why = "a worker hangs";
    else if (!ok)
        why = "no recognition has succeeded yet";
    else if (now - ok > FRESH_NS || (waiting && sent > ok && now - sent > CANARY_LATE_NS))
        why = "recognition has not answered for some time";
    st = steno_buf_printf(out, "{\"status\":\"%s\",\"reasons\":[%s%s%s],\"sessions\":%d}\n",
                          *why ? "unavailable" : "ok", *why ? "\"" : "", why, *why ? "\"" : "",
                          steno_limits_active(h->srv->limits));
    return !st && !*why;
}
