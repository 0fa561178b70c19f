#include "server/core/limits.h"

#include "base/threads.h"
#include "server/port/retry_spreader.h"

#include <pthread.h>
#include <stdlib.h>

struct steno_limits {
    const struct steno_config *conf;
    struct steno_stats *stats;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t idle;  /* no session is active */
    int streams, uploads;
    size_t reserved;
    bool draining;
    struct steno_retry_spreader spreader;
};

steno_limits *steno_limits_new(const struct steno_config *conf, struct steno_stats *stats)
{
    steno_limits *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->conf = conf;
    l->stats = stats;
    pthread_mutex_init(&l->lock, NULL);
    steno_cond_init(&l->idle);
    return l;
}

void steno_limits_free(steno_limits *l)
{
    if (!l)
        return;
    pthread_cond_destroy(&l->idle);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static int *counter_of(steno_limits *l, enum steno_session_api api, int *max)
{
    *max = steno_session_is_live(api) ? l->conf->sessions : l->conf->uploads;
    return steno_session_is_live(api) ? &l->streams : &l->uploads;
}

steno_status steno_limits_enter(steno_limits *l, enum steno_session_api api, steno_err *err)
{
    int max, *n;
    bool draining, full;
    pthread_mutex_lock(&l->lock);
    n = counter_of(l, api, &max);
    draining = l->draining;
    full = *n >= max;
    if (!draining && !full)
        ++*n;
    pthread_mutex_unlock(&l->lock);
    if (draining) {
        steno_metric_add(l->stats->sessions_rejected[STENO_REJECT_DRAINING], 1);
        return steno_fail(err, STENO_ERR_BUSY, "the server is shutting down");
    }
    if (full) {
        steno_metric_add(l->stats->sessions_rejected[STENO_REJECT_SESSIONS], 1);
        return steno_fail(err, STENO_ERR_BUSY, "all %d places for %s are taken", max,
                          steno_session_is_live(api) ? "streams" : "uploads");
    }
    steno_metric_add(l->stats->sessions_active[api], 1);
    return STENO_OK;
}

static void give_back(steno_limits *l, enum steno_session_api api)
{
    int max;
    steno_metric_add(l->stats->sessions_active[api], -1);
    pthread_mutex_lock(&l->lock);
    --*counter_of(l, api, &max);
    if (l->streams + l->uploads == 0)
        pthread_cond_broadcast(&l->idle);
    pthread_mutex_unlock(&l->lock);
}

void steno_limits_started(steno_limits *l, enum steno_session_api api)
{
    steno_metric_add(l->stats->sessions_started[api], 1);
}

void steno_limits_leave(steno_limits *l, enum steno_session_api api,
                        enum steno_session_result result)
{
    steno_metric_add(l->stats->sessions_total[api][result], 1);
    give_back(l, api);
}

void steno_limits_refund(steno_limits *l, enum steno_session_api api, enum steno_rejection why)
{
    steno_metric_add(l->stats->sessions_rejected[why], 1);
    give_back(l, api);
}

double steno_limits_come_back(steno_limits *l, int64_t now_ns)
{
    double after;
    pthread_mutex_lock(&l->lock);
    after = steno_retry_spreader_next(&l->spreader, now_ns, l->conf->retry_after);
    pthread_mutex_unlock(&l->lock);
    return after;
}

steno_status steno_limits_reserve(steno_limits *l, size_t bytes, steno_err *err)
{
    size_t sum;
    bool fits;
    pthread_mutex_lock(&l->lock);
    fits = steno_add_size(l->reserved, bytes, &sum) && sum <= l->conf->upload_bytes;
    if (fits)
        l->reserved = sum;
    pthread_mutex_unlock(&l->lock);
    if (fits)
        return STENO_OK;
    steno_metric_add(l->stats->sessions_rejected[STENO_REJECT_MEMORY], 1);
    return steno_fail(err, STENO_ERR_BUSY, "other uploads fill the memory for uploads");
}

void steno_limits_release(steno_limits *l, size_t bytes)
{
    pthread_mutex_lock(&l->lock);
    l->reserved -= bytes;
    pthread_mutex_unlock(&l->lock);
}

void steno_limits_drain(steno_limits *l)
{
    pthread_mutex_lock(&l->lock);
    l->draining = true;
    pthread_mutex_unlock(&l->lock);
}

bool steno_limits_draining(steno_limits *l)
{
    bool d;
    pthread_mutex_lock(&l->lock);
    d = l->draining;
    pthread_mutex_unlock(&l->lock);
    return d;
}

int steno_limits_active(steno_limits *l)
{
    int n;
    pthread_mutex_lock(&l->lock);
    n = l->streams + l->uploads;
    pthread_mutex_unlock(&l->lock);
    return n;
}

bool steno_limits_wait_idle(steno_limits *l, int64_t deadline_ns)
{
    bool none, in_time = true;
    pthread_mutex_lock(&l->lock);
    while (l->streams + l->uploads > 0 && in_time)
        in_time = steno_cond_wait_until(&l->idle, &l->lock, deadline_ns);
    none = l->streams + l->uploads == 0;
    pthread_mutex_unlock(&l->lock);
    return none;
}
