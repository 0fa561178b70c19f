#include "server/live/call_hooks.h"

#include "base/clock.h"
#include "base/threads.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/http/webhook.h"

#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define CALL_BYTES (1u << 20) /* that wait, of one call */
#define ALL_BYTES (64u << 20) /* of all calls */
#define LAST_SECONDS 5        /* for what waits when the server stops */
#define NS 1000000000

struct message {
    struct message *next;
    int64_t born_ns;
    uint64_t number; /* in its call, from 0 */
    size_t n;
    char body[]; /* [n] */
};

struct steno_call_hook {
    struct steno_call_hooks *hooks;
    struct steno_call_hook *next;
    char id[STENO_ID_SIZE];
    bool trusted; /* the URL is the operator's */
    bool sending; /* the first message, by a thread */
    bool left;
    int tries; /* of the first message */
    int64_t due_ns;
    uint64_t count; /* messages so far */
    size_t bytes;   /* of those that wait */
    struct message *first, **last;
    char url[];
};

struct steno_call_hooks {
    const struct steno_config *conf;
    steno_webhooks *sender;
    steno_metric *delivered, *failed, *given_up;
    /* locked by lock */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping;
    steno_call_hook *calls;
    size_t bytes; /* of all calls */
    pthread_t threads[THREADS];
    int n_threads;
};

/* ---- the list of calls; the caller holds the lock -------------------------------------------- */

static void forget_first(steno_call_hook *c)
{
    struct message *m = c->first;
    c->first = m->next;
    if (!c->first)
        c->last = &c->first;
    c->bytes -= m->n;
    c->hooks->bytes -= m->n;
    c->tries = 0;
    c->due_ns = 0;
    free(m);
}

/* Free a call that has left when nothing of it waits. */
static void forget_done(steno_call_hook *c)
{
    steno_call_hook **at = &c->hooks->calls;
    if (!c->left || c->first || c->sending)
        return;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    free(c);
}

/* A call whose first message is due; NULL: none. Then *until is when one is. */
static steno_call_hook *next_due(steno_call_hooks *h, int64_t now, int64_t *until)
{
    *until = now + (int64_t)3600 * NS;
    for (steno_call_hook *c = h->calls; c; c = c->next) {
        if (!c->first || c->sending)
            continue;
        if (c->due_ns <= now)
            return c;
        if (c->due_ns < *until)
            *until = c->due_ns;
    }
    return NULL;
}

/* Another call's turn is next. */
static void move_to_end(steno_call_hook *c)
{
    steno_call_hook **at = &c->hooks->calls;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    c->next = NULL;
    while (*at)
        at = &(*at)->next;
    *at = c;
}

/* True: the message is given up. */
static bool conclude(steno_call_hook *c, long code, const char *why)
{
    steno_call_hooks *h = c->hooks;
    const int64_t now = steno_now_ns(), first = (int64_t)(h->conf->callback_retry * 1000);
    const double most = h->conf->callback_give_up < STENO_CALL_GIVE_UP ? h->conf->callback_give_up
                                                                       : STENO_CALL_GIVE_UP;
    bool gone;
    c->due_ns = now + steno_webhook_retry_delay(first, c->tries) * 1000000;
    gone = *why && (code == 410 || (double)(c->due_ns - c->first->born_ns) / NS > most);
    steno_metric_add(*why ? h->failed : h->delivered, 1);
    if (gone)
        steno_metric_add(h->given_up, 1);
    if (gone || !*why)
        forget_first(c);
    return gone;
}

/* ---- the threads ----------------------------------------------------------------------------- */

/* Send the first message of a call. The lock is held, but not meanwhile. */
static void send_first(steno_call_hook *c)
{
    steno_call_hooks *h = c->hooks;
    struct message *m = c->first; /* stays: others only append */
    char event[STENO_ID_SIZE + 24], why[64];
    long code;
    bool gone;
    const struct steno_webhook w = {.url = c->url,
                                    .method = "POST",
                                    .event = event,
                                    .tries = ++c->tries,
                                    .trusted = c->trusted,
                                    .body = m->body,
                                    .len = m->n};
    snprintf(event, sizeof event, "%s-%llu", c->id, (unsigned long long)m->number);
    c->sending = true;
    move_to_end(c);
    pthread_mutex_unlock(&h->lock);
    steno_webhooks_send(h->sender, &w, NULL, &code, why);
    pthread_mutex_lock(&h->lock);
    c->sending = false;
    gone = conclude(c, code, why);
    forget_done(c);
    pthread_cond_broadcast(&h->wake);
    if (!gone)
        return;
    pthread_mutex_unlock(&h->lock);
    steno_log(LOG_WARNING, "call message %s is given up after %d tries: %s", event, w.tries, why);
    pthread_mutex_lock(&h->lock);
}

static void *run_call_hooks(void *arg)
{
    steno_call_hooks *h = arg;
    pthread_mutex_lock(&h->lock);
    while (!h->stopping) {
        int64_t until;
        steno_call_hook *c = next_due(h, steno_now_ns(), &until);
        if (c)
            send_first(c);
        else
            (void)steno_cond_wait_until(&h->wake, &h->lock, until);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* ---- open, close ----------------------------------------------------------------------------- */

static steno_metric *add_counter(steno_metrics *m, const char *labels)
{
    return steno_metrics_counter(m, "steno_call_posts_total",
                                 "Messages of telephone calls that were posted; failed: tries.",
                                 labels);
}

steno_status steno_call_hooks_open(steno_call_hooks **out, const struct steno_server *srv,
                                   steno_err *err)
{
    steno_call_hooks *h = calloc(1, sizeof *h);
    steno_metrics *m = srv->stats->registry;
    steno_status st;
    int wanted;
    if (!h)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    h->conf = srv->conf;
    h->delivered = add_counter(m, "result=\"delivered\"");
    h->failed = add_counter(m, "result=\"failed\"");
    h->given_up = add_counter(m, "result=\"given_up\"");
    pthread_mutex_init(&h->lock, NULL);
    steno_cond_init(&h->wake);
    st = steno_webhooks_open(&h->sender, h->conf, *h->conf->calls_callback, err);
    wanted = *h->conf->calls_callback || *h->conf->callback_hosts ? THREADS : 0;
    for (; !st && h->n_threads < wanted; h->n_threads++)
        st = steno_thread_start(&h->threads[h->n_threads], "call-hooks", run_call_hooks, h, err);
    if (st) {
        steno_call_hooks_close(h);
        return st;
    }
    *out = h;
    return STENO_OK;
}

void steno_call_hooks_close(steno_call_hooks *h)
{
    const int64_t until = steno_now_ns() + (int64_t)LAST_SECONDS * NS;
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    while (h->calls && h->n_threads && steno_now_ns() < until)
        (void)steno_cond_wait_until(&h->wake, &h->lock, until);
    h->stopping = true;
    pthread_cond_broadcast(&h->wake);
    pthread_mutex_unlock(&h->lock);
    steno_webhooks_stop(h->sender);
    for (; h->n_threads; h->n_threads--)
        pthread_join(h->threads[h->n_threads - 1], NULL);
    while (h->calls) {
        steno_call_hook *c = h->calls;
        steno_log(LOG_WARNING, "call %s: its last messages are lost: the server was stopped",
                  c->id);
        while (c->first)
            forget_first(c);
        forget_done(c);
    }
    steno_webhooks_close(h->sender);
    pthread_cond_destroy(&h->wake);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

/* ---- calls ----------------------------------------------------------------------------------- */

steno_status steno_call_hook_begin(steno_call_hook **out, steno_call_hooks *h, const char *id,
                                   const char *url, steno_err *err)
{
    const bool trusted = !*url;
    const char *to = trusted ? h->conf->calls_callback : url;
    steno_call_hook *c;
    if (!*to)
        return steno_fail(err, STENO_ERR_INVAL,
                          "callback: none is named, and calls.callback is empty");
    if (!trusted && steno_webhooks_check(h->sender, url, err))
        return err->code;
    c = calloc(1, sizeof *c + strlen(to) + 1);
    if (!c)
        return steno_fail(err, STENO_ERR_NOMEM, "callback: out of memory");
    c->hooks = h;
    c->trusted = trusted;
    c->last = &c->first;
    snprintf(c->id, sizeof c->id, "%s", id);
    memcpy(c->url, to, strlen(to) + 1);
    pthread_mutex_lock(&h->lock);
    c->next = h->calls;
    h->calls = c;
    pthread_mutex_unlock(&h->lock);
    *out = c;
    return STENO_OK;
}

void steno_call_hook_post(steno_call_hook *c, const char *body, size_t n)
{
    steno_call_hooks *h = c->hooks;
    struct message *m = malloc(sizeof *m + n);
    pthread_mutex_lock(&h->lock);
    if (!m || c->bytes + n > CALL_BYTES || h->bytes + n > ALL_BYTES) {
        steno_metric_add(h->given_up, 1);
        c->count++;
        free(m);
    } else {
        *m = (struct message){.born_ns = steno_now_ns(), .number = c->count++, .n = n};
        memcpy(m->body, body, n);
        *c->last = m;
        c->last = &m->next;
        c->bytes += n;
        h->bytes += n;
        pthread_cond_signal(&h->wake);
    }
    pthread_mutex_unlock(&h->lock);
}

void steno_call_hook_leave(steno_call_hook *c)
{
    steno_call_hooks *h = c ? c->hooks : NULL;
    if (!c)
        return;
    pthread_mutex_lock(&h->lock);
    c->left = true;
    forget_done(c);
    pthread_mutex_unlock(&h->lock);
}
