#include "server/jobs/job_hooks.h"

#include "base/clock.h"
#include "base/threads.h"
#include "protocol/deepgram.h"
#include "server/base/log.h"
#include "server/http/request.h"
#include "server/http/webhook.h"
#include "server/jobs/job_json.h"
#include "server/watch/trace.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define THREADS 4
#define BODY_MAX (256u << 20)
#define GUARD_MS 40000 /* no other thread, of any machine, takes a callback while one sends it */
#define TICK_MS 500

struct steno_job_hooks {
    const struct steno_job_parts *parts;
    const struct steno_config *conf;
    steno_webhooks *sender;
    atomic_bool stopping; /* relaxed: looked at again and again */
    pthread_mutex_t lock; /* with the condition, for the sleep between two looks */
    pthread_cond_t wake;
    pthread_t threads[THREADS];
    int n_threads;
};

/* ---- what is sent ---------------------------------------------------------------------------- */

static steno_status write_native(steno_job_queue *q, const struct steno_job_record *r,
                                 struct steno_buf *b, steno_err *err)
{
    steno_status st = steno_buf_printf(
        b, "{\"event_id\":\"%s\",\"type\":\"job.%s\",\"created\":%.3f,\"job\":", r->event,
        steno_job_state_name(r->state), (double)r->ended / 1000);
    if (!st)
        st = steno_job_json_write(b, r, false);
    if (!st && r->state == STENO_JOB_DONE) {
        st = steno_buf_puts(b, ",\"result\":");
        if (!st)
            st = q->ops->result(q, r->id, "json", b, err);
        if (!st && b->data[b->len - 1] == '\n')
            steno_buf_cut(b, b->len - 1);
    }
    return st ? st : steno_buf_puts(b, "}");
}

static steno_status write_body(steno_job_queue *q, const struct steno_job_record *r,
                               struct steno_buf *b, steno_err *err)
{
    if (r->form != STENO_JOB_DEEPGRAM)
        return write_native(q, r, b, err);
    if (r->state == STENO_JOB_DONE)
        return q->ops->result(q, r->id, "deepgram", b, err);
    return steno_deepgram_write_error(b, r->code, r->reason, r->id);
}

/* ---- one try --------------------------------------------------------------------------------- */

static void post(steno_job_hooks *h, const struct steno_job_record *r,
                 const struct steno_trace *trace, const struct steno_buf *body, long *code,
                 char why[64])
{
    const struct steno_webhook m = {.url = r->callback,
                                    .method = r->method,
                                    .event = r->event,
                                    .tries = r->callback_tries,
                                    .body = body->data,
                                    .len = body->len};
    steno_webhooks_send(h->sender, &m, trace, code, why);
}

/* A try is over: deliver, put back or give up. */
static void conclude(steno_job_hooks *h, const struct steno_job_record *r, long code,
                     const char *why)
{
    steno_job_queue *q = h->parts->queue;
    const int64_t now = steno_job_now();
    const int64_t first = (int64_t)(h->conf->callback_retry * 1000);
    const int64_t next = now + steno_webhook_retry_delay(first, r->callback_tries);
    enum steno_callback_state state = STENO_CALLBACK_PENDING;
    steno_metric *m = h->parts->metrics.callbacks_failed;
    steno_err err;
    if (!*why) {
        state = STENO_CALLBACK_DELIVERED;
        m = h->parts->metrics.callbacks_delivered;
    } else if (code == 410 || next > r->ended + (int64_t)(h->conf->callback_give_up * 1000)) {
        state = STENO_CALLBACK_DEAD;
        m = h->parts->metrics.callbacks_dead;
        steno_log(LOG_WARNING, "job %s: its callback is given up after %d tries: %s", r->id,
                  r->callback_tries, why);
    }
    steno_metric_add(m, 1);
    /* when this is lost, the callback is sent again, as another try */
    if (q->ops->callback_over(q, r->id, state, state == STENO_CALLBACK_PENDING ? next : 0, why,
                              &err))
        steno_log(LOG_ERR, "jobs: %s", err.msg);
}

static void trace_try(steno_job_hooks *h, const struct steno_job_record *r,
                      const struct steno_trace *trace, int64_t began, long code, const char *why)
{
    struct steno_trace_report t = {.trace = *trace,
                                   .start_ns = began,
                                   .end_ns = steno_now_ns(),
                                   .kind = STENO_TRACE_CALLBACK,
                                   .method = strcmp(r->method, "PUT") ? "POST" : "PUT",
                                   .api = steno_session_api_name(STENO_SESSION_JOB),
                                   .status = (int)code,
                                   .failed = *why};
    snprintf(t.job, sizeof t.job, "%s", r->id);
    snprintf(t.key, sizeof t.key, "%s", r->owner);
    snprintf(t.result, sizeof t.result, "%s", *why ? "failed" : "delivered");
    steno_tracer_report(h->parts->sv->srv->tracer, &t);
}

static void deliver_callback(steno_job_hooks *h, const struct steno_job_record *r)
{
    const int64_t began = steno_now_ns();
    struct steno_trace trace;
    struct steno_buf body;
    char why[64] = "the result cannot be read";
    long code = 0;
    steno_err err = {STENO_OK, ""};
    steno_buf_init(&body, BODY_MAX);
    steno_trace_begin(h->parts->sv->srv->tracer, r->traceparent, r->tracestate, &trace);
    if (!steno_webhooks_allowed(h->sender)) /* it was submitted when callbacks were allowed */
        snprintf(why, sizeof why, "jobs.callback_hosts is empty");
    else if (steno_job_hooks_check(h, r->callback, &err))
        snprintf(why, sizeof why, "this host is no longer allowed");
    else if (!write_body(h->parts->queue, r, &body, &err))
        post(h, r, &trace, &body, &code, why);
    steno_buf_free(&body);
    if (steno_trace_recorded(&trace))
        trace_try(h, r, &trace, began, code, why);
    conclude(h, r, code, why);
}

/* ---- the threads ----------------------------------------------------------------------------- */

static bool is_stopping(steno_job_hooks *h)
{
    return atomic_load_explicit(&h->stopping, memory_order_relaxed);
}

/* Sleep for a while, or until stop. */
static void pause_sending(steno_job_hooks *h)
{
    const int64_t until = steno_now_ns() + TICK_MS * INT64_C(1000000);
    pthread_mutex_lock(&h->lock);
    if (!is_stopping(h))
        (void)steno_cond_wait_until(&h->wake, &h->lock, until);
    pthread_mutex_unlock(&h->lock);
}

static void *run_hooks(void *arg)
{
    steno_job_hooks *h = arg;
    steno_job_queue *q = h->parts->queue;
    while (!is_stopping(h)) {
        struct steno_job_record r;
        const int64_t now = steno_job_now();
        steno_err err;
        steno_status st = q->ops->callback(q, now, now + GUARD_MS, &r, &err);
        if (st) {
            pause_sending(h);
            continue;
        }
        deliver_callback(h, &r);
        steno_job_record_free(&r);
    }
    return NULL;
}

steno_status steno_job_hooks_open(steno_job_hooks **out, const struct steno_job_parts *parts,
                                  steno_err *err)
{
    steno_job_hooks *h = calloc(1, sizeof *h);
    steno_status st;
    if (!h)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    h->parts = parts;
    h->conf = parts->sv->srv->conf;
    pthread_mutex_init(&h->lock, NULL);
    steno_cond_init(&h->wake);
    st = steno_webhooks_open(&h->sender, h->conf, false, err);
    if (st) {
        steno_job_hooks_close(h);
        return st;
    }
    *out = h;
    return STENO_OK;
}

steno_status steno_job_hooks_start(steno_job_hooks *h, steno_err *err)
{
    for (; h->n_threads < THREADS; h->n_threads++) {
        steno_status st =
            steno_thread_start(&h->threads[h->n_threads], "callbacks", run_hooks, h, err);
        if (st)
            return st;
    }
    return STENO_OK;
}

void steno_job_hooks_stop(steno_job_hooks *h)
{
    if (!h)
        return;
    steno_webhooks_stop(h->sender);
    pthread_mutex_lock(&h->lock);
    atomic_store_explicit(&h->stopping, true, memory_order_relaxed);
    pthread_cond_broadcast(&h->wake);
    pthread_mutex_unlock(&h->lock);
    for (; h->n_threads; h->n_threads--)
        pthread_join(h->threads[h->n_threads - 1], NULL);
}

void steno_job_hooks_close(steno_job_hooks *h)
{
    if (!h)
        return;
    steno_job_hooks_stop(h);
    steno_webhooks_close(h->sender);
    pthread_cond_destroy(&h->wake);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

steno_status steno_job_hooks_check(steno_job_hooks *h, const char *url, steno_err *err)
{
    return steno_webhooks_check(h->sender, url, err);
}
