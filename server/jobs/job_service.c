#include "server/jobs/job_service.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/threads.h"
#include "server/base/log.h"
#include "server/http/request.h"
#include "server/jobs/job_hooks.h"
#include "server/jobs/job_redis.h"
#include "server/jobs/job_runner.h"
#include "server/jobs/job_sqlite.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define PASSWORD_MAX 4096
#define COUNTS_NS 1000000000 /* how old the counts of a scrape may be */

struct steno_job_service {
    struct steno_job_parts parts;
    steno_job_runner *runner;
    steno_job_hooks *hooks;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t work;
    struct steno_job_task *first, *last;
    bool stop;
    pthread_t thread;
    bool running;

    pthread_mutex_t count_lock; /* guards what follows; held while the store is read */
    struct steno_job_counts counts;
    int64_t counted;
};

/* ---- metrics --------------------------------------------------------------------------------- */

struct sampled {
    steno_job_service *s;
    int kind; /* state, or STENO_JOB_STATES + callback state; -1: age of the oldest */
};

/* Both are for the life of the process: series cannot be removed, so there is one service at a time
 * whose counts they show. */
static double sample_count(void *ctx)
{
    struct sampled *x = ctx;
    steno_job_service *s = x->s;
    double v;
    steno_err err;
    pthread_mutex_lock(&s->count_lock);
    if (!s->counted || steno_now_ns() - s->counted > COUNTS_NS) {
        (void)!s->parts.queue->ops->count(s->parts.queue, &s->counts, &err);
        s->counted = steno_now_ns(); /* of a store that is away, too: it is asked once a second */
    }
    if (x->kind < 0)
        v = s->counts.oldest ? (double)(steno_job_now() - s->counts.oldest) / 1000 : 0;
    else if (x->kind < STENO_JOB_STATES)
        v = (double)s->counts.jobs[x->kind];
    else
        v = (double)s->counts.callbacks[x->kind - STENO_JOB_STATES];
    pthread_mutex_unlock(&s->count_lock);
    return v;
}

static const double wait_bounds[] = {1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400};

static steno_status register_metrics(steno_job_service *s, struct sampled *samples, steno_err *err)
{
    steno_metrics *m = s->parts.sv->srv->stats->registry;
    struct steno_job_metrics *x = &s->parts.metrics;
    char labels[64];
    for (int i = 0; i < STENO_JOB_STATES; i++, samples++) {
        *samples = (struct sampled){s, i};
        snprintf(labels, sizeof labels, "state=\"%s\"", steno_job_state_name(i));
        steno_metrics_sample(m, "steno_jobs", "Jobs in the store.", labels, false, sample_count,
                             samples);
        if (steno_job_is_over(i))
            x->ended[i] = steno_metrics_counter(m, "steno_jobs_ended_total",
                                                "Jobs that ended in this state.", labels);
    }
    for (int i = 1; i < STENO_CALLBACK_STATES; i++, samples++) {
        *samples = (struct sampled){s, STENO_JOB_STATES + i};
        snprintf(labels, sizeof labels, "state=\"%s\"", steno_callback_state_name(i));
        steno_metrics_sample(m, "steno_job_callbacks", "Callbacks of jobs in the store.", labels,
                             false, sample_count, samples);
    }
    *samples = (struct sampled){s, -1};
    steno_metrics_sample(m, "steno_jobs_oldest_seconds",
                         "Age of the queued job that waits for longest; 0: none waits.", "", false,
                         sample_count, samples);
    x->submitted = steno_metrics_counter(m, "steno_jobs_submitted_total",
                                         "Jobs that were stored and acknowledged.", "");
    x->retried = steno_metrics_counter(m, "steno_jobs_retried_total",
                                       "Runs that were not the first of their job.", "");
    x->wait = steno_metrics_histogram(m, "steno_job_wait_seconds",
                                      "From the submission of a job to its first run.", "",
                                      wait_bounds, sizeof wait_bounds / sizeof *wait_bounds);
    x->callbacks_delivered = steno_metrics_counter(m, "steno_job_callback_tries_total",
                                                   "Tries of callbacks.", "result=\"delivered\"");
    x->callbacks_failed =
        steno_metrics_counter(m, "steno_job_callback_tries_total", "", "result=\"failed\"");
    x->callbacks_dead =
        steno_metrics_counter(m, "steno_job_callback_tries_total", "", "result=\"given_up\"");
    return x->callbacks_dead ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

/* ---- the thread that stores ------------------------------------------------------------------ */

static void *run_service(void *arg)
{
    steno_job_service *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct steno_job_task *t;
        while (!s->first && !s->stop)
            pthread_cond_wait(&s->work, &s->lock);
        t = s->first;
        if (!t)
            break;
        s->first = t->next;
        if (!s->first)
            s->last = NULL;
        pthread_mutex_unlock(&s->lock);
        t->run(t);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

steno_status steno_job_service_post(steno_job_service *s, struct steno_job_task *t, steno_err *err)
{
    bool stopped;
    pthread_mutex_lock(&s->lock);
    stopped = s->stop;
    if (!stopped) {
        t->next = NULL;
        if (s->last)
            s->last->next = t;
        else
            s->first = t;
        s->last = t;
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->lock);
    return stopped ? steno_fail(err, STENO_ERR_CANCELLED, "the server is shutting down") : STENO_OK;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* Whether a job still needs its recording. When the store cannot tell, it does. */
static bool is_needed(void *user, const char *id)
{
    steno_job_queue *q = user;
    struct steno_job_record r;
    steno_err err;
    bool needed;
    steno_status st = q->ops->get(q, NULL, id, &r, &err);
    if (st)
        return st != STENO_ERR_INVAL;
    needed = !steno_job_is_over(r.state);
    steno_job_record_free(&r);
    return needed;
}

steno_status steno_job_service_open_shared(steno_job_queue **out, const struct steno_config *conf,
                                           steno_err *err)
{
    char *password = NULL;
    size_t len = 0;
    steno_status st = STENO_OK;
    if (*conf->jobs_password) {
        st = steno_file_read(conf->jobs_password, PASSWORD_MAX, &password, &len, err);
        if (st)
            return steno_fail_in(err, st, "jobs.queue_password");
        password[strcspn(password, "\r\n")] = '\0';
    }
    st = steno_job_redis_open(out, conf->jobs_queue, password, (int64_t)(conf->jobs_lease * 1000),
                              err);
    if (password)
        explicit_bzero(password, len);
    free(password);
    return st ? steno_fail_in(err, st, "jobs.queue") : STENO_OK;
}

/* The store has all; what the spool has are copies of runs that ended. */
static bool is_no_copy(void *user, const char *id)
{
    (void)user, (void)id;
    return false;
}

static steno_status open_store(steno_job_service *s, steno_err *err)
{
    char path[PATH_MAX];
    steno_status st = steno_spool_open(&s->parts.spool, s->parts.sv->srv->conf->jobs_dir, err);
    if (st)
        return st;
    if (*s->parts.sv->srv->conf->jobs_queue) {
        st = steno_job_service_open_shared(&s->parts.queue, s->parts.sv->srv->conf, err);
        if (!st)
            steno_spool_clean(s->parts.spool, is_no_copy, NULL);
        return st;
    }
    steno_spool_path(s->parts.spool, "jobs.db", path, sizeof path);
    st = steno_job_sqlite_open(&s->parts.queue, path, steno_job_now(), err);
    if (!st)
        steno_spool_clean(s->parts.spool, is_needed, s->parts.queue);
    return st;
}

steno_status steno_job_service_open(steno_job_service **out, const struct steno_services *services,
                                    steno_err *err)
{
    const size_t n = STENO_JOB_STATES + STENO_CALLBACK_STATES;
    steno_job_service *s;
    steno_status st;
    *out = NULL;
    if (!*services->srv->conf->jobs_dir)
        return STENO_OK;
    s = calloc(1, sizeof *s + n * sizeof(struct sampled));
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    s->parts.sv = services;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->count_lock, NULL);
    pthread_cond_init(&s->work, NULL);
    st = open_store(s, err);
    if (!st)
        st = register_metrics(s, (struct sampled *)(s + 1), err);
    if (!st)
        st = steno_thread_start(&s->thread, "job-store", run_service, s, err);
    s->running = !st;
    if (st) {
        steno_job_service_close(s);
        return st == STENO_ERR_NOMEM || *services->srv->conf->jobs_queue
                   ? st
                   : steno_fail_in(err, st, "jobs.dir");
    }
    st = steno_job_hooks_open(&s->hooks, &s->parts, err);
    if (st) {
        steno_job_service_close(s);
        return st;
    }
    *out = s;
    return STENO_OK;
}

steno_status steno_job_service_start(steno_job_service *s, steno_err *err)
{
    steno_status st =
        steno_job_runner_open(&s->runner, &s->parts, s->parts.sv->srv->conf->jobs_workers, err);
    return st ? st : steno_job_hooks_start(s->hooks, err);
}

void steno_job_service_stop(steno_job_service *s)
{
    if (!s || !s->running)
        return;
    if (s->runner)
        steno_job_runner_stop(s->runner);
    steno_job_hooks_stop(s->hooks);
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    s->running = false;
}

void steno_job_service_close(steno_job_service *s)
{
    if (!s)
        return;
    steno_job_service_stop(s);
    steno_job_runner_close(s->runner);
    steno_job_hooks_close(s->hooks);
    if (s->parts.queue)
        s->parts.queue->ops->close(s->parts.queue);
    steno_spool_close(s->parts.spool);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->count_lock);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void steno_job_service_submitted(steno_job_service *s, size_t n)
{
    steno_metric_add(s->parts.metrics.submitted, (double)n);
    steno_job_runner_wake(s->runner);
}

void steno_job_service_removed(steno_job_service *s, const char *id)
{
    steno_job_runner_end(s->runner, id);
    steno_spool_remove(s->parts.spool, id); /* a run that reads it goes on until it notices */
}

steno_status steno_job_service_check_callback(steno_job_service *s, const char *url, steno_err *err)
{
    return steno_job_hooks_check(s->hooks, url, err);
}

steno_job_queue *steno_job_service_queue(steno_job_service *s)
{
    return s->parts.queue;
}

struct steno_redis *steno_job_service_links(steno_job_service *s)
{
    return s ? steno_job_redis_links(s->parts.queue) : NULL;
}

steno_spool *steno_job_service_spool(steno_job_service *s)
{
    return s->parts.spool;
}
