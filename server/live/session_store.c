#define _GNU_SOURCE /* memmem */
/* session_commands.c has the form of what is stored.
 *
 * A key lives for the time of websocket.resume after the connection was lost, or after the last
 * sign of life of its machine and a third of that time more, which is how often there is one. */
#include "server/live/session_store.h"

#include "base/clock.h"
#include "base/sha256.h"
#include "base/threads.h"
#include "server/base/log.h"
#include "server/live/history.h"
#include "server/live/session_commands.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SECOND INT64_C(1000000000)
#define BATCH 64 /* commands that are sent at once */
#define BATCH_BYTES (1u << 20)
#define TOKEN_SIZE 40 /* with its NUL */

/* ---- state ----------------------------------------------------------------------------------- */

struct steno_stored_session {
    steno_session_store *store;
    struct steno_stored_session *next, **back; /* store->all */
    struct steno_stored_session *next_due;     /* store->due */
    bool in_due;
    void (*wake)(void *user); /* NULL once the session has left it */
    void *user;
    char id[48], owner[48], hash[STENO_SHA256_HEX], token[TOKEN_SIZE];
    /* what is to be stored */
    char *head; /* NULL: nothing */
    struct steno_buf records;
    uint64_t last, lost;
    bool all, touch, erase;
    /* what is stored */
    uint64_t stored; /* messages below it */
    bool fresh;      /* nothing was put yet */
    bool stale, taken;
    int64_t refused;  /* when Redis refused it, in ns: nothing is put for a second; 0 = never */
    int64_t touched;  /* when it was stored or touched, in ns */
    int64_t waits_ns; /* since when its client is away; 0 = it is not */
};

struct steno_session_store {
    struct steno_redis *redis;
    int64_t resume_ns;
    size_t bytes;
    pthread_t thread;
    bool running;
    int64_t quiet; /* of the thread: it refused something, and no line about that before */
    struct {
        steno_metric *up, *seconds, *writes, *here, *elsewhere, *failures, *unstored;
    } metrics;

    pthread_mutex_t lock; /* guards what follows, and the sessions */
    pthread_cond_t work;
    struct steno_stored_session *all;
    struct steno_stored_session *due, **last_due;
    struct steno_session_claim *claims, **last_claim;
    size_t waiting_bytes; /* of all records */
    int64_t next_touch, next_try;
    bool up, stop;
};

static int64_t to_ms(int64_t ns)
{
    return ns / 1000000;
}

/* How long the key of x is to live, in ms. */
static int64_t life_of(const struct steno_stored_session *x, int64_t now)
{
    const int64_t resume = x->store->resume_ns;
    int64_t left = x->waits_ns ? x->waits_ns + resume - now : resume + resume / 3;
    return left < 1000000 ? 1 : to_ms(left);
}

/* ---- sessions; lock held --------------------------------------------------------------------- */

static void make_due(struct steno_stored_session *x)
{
    steno_session_store *s = x->store;
    if (x->in_due)
        return;
    x->in_due = true;
    x->next_due = NULL;
    *s->last_due = x;
    s->last_due = &x->next_due;
    pthread_cond_signal(&s->work);
}

static void drop_pending(struct steno_stored_session *x)
{
    x->store->waiting_bytes -= x->records.len;
    steno_buf_free(&x->records);
    free(x->head);
    x->head = NULL;
}

static void wake_owner(const struct steno_stored_session *x)
{
    if (x->wake)
        x->wake(x->user);
}

static void make_stale(struct steno_stored_session *x)
{
    drop_pending(x);
    x->stale = true;
    wake_owner(x);
}

static void remove_session(struct steno_stored_session *x)
{
    drop_pending(x);
    *x->back = x->next;
    if (x->next)
        x->next->back = x->back;
    free(x);
}

static void random_token(char out[TOKEN_SIZE])
{
    uint64_t bits[2] = {0, 0};
    (void)!getrandom(bits, sizeof bits, 0);
    snprintf(out, TOKEN_SIZE, "%016llx%016llx", (unsigned long long)bits[0],
             (unsigned long long)bits[1]);
}

static void hash_id(const char *id, char out[STENO_SHA256_HEX])
{
    struct steno_sha256 sum;
    uint8_t digest[STENO_SHA256_BYTES];
    steno_sha256_begin(&sum);
    steno_sha256_add(&sum, id, strlen(id));
    steno_sha256_end(&sum, digest);
    steno_sha256_text(digest, out);
}

static steno_stored_session *new_session(steno_session_store *s, const char *id, const char *owner,
                                         void (*fn)(void *user), void *user)
{
    struct steno_stored_session *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->store = s;
    x->wake = fn;
    x->user = user;
    snprintf(x->id, sizeof x->id, "%s", id);
    snprintf(x->owner, sizeof x->owner, "%s", owner);
    hash_id(id, x->hash);
    steno_buf_init(&x->records, s->bytes);
    x->touched = steno_now_ns();
    return x;
}

static void add_session(struct steno_stored_session *x)
{
    steno_session_store *s = x->store;
    pthread_mutex_lock(&s->lock);
    x->back = &s->all;
    x->next = s->all;
    if (x->next)
        x->next->back = &x->next;
    s->all = x;
    pthread_mutex_unlock(&s->lock);
}

steno_stored_session *steno_stored_session_new(steno_session_store *s, const char *id,
                                               const char *owner, void (*fn)(void *user),
                                               void *user)
{
    struct steno_stored_session *x = new_session(s, id, owner, fn, user);
    if (!x)
        return NULL;
    random_token(x->token);
    x->fresh = true;
    add_session(x);
    return x;
}

steno_stored_session *steno_stored_session_adopt(steno_session_store *s,
                                                 const struct steno_session_claim *c,
                                                 void (*fn)(void *user), void *user)
{
    struct steno_stored_session *x = new_session(s, c->id, c->owner, fn, user);
    if (!x)
        return NULL;
    memcpy(x->token, c->token, sizeof x->token);
    x->waits_ns = x->touched;
    add_session(x);
    return x;
}

void steno_stored_session_token(steno_stored_session *x, char *out)
{
    memcpy(out, x->token, sizeof x->token);
}

void steno_stored_session_expire(steno_stored_session *x)
{
    pthread_mutex_lock(&x->store->lock);
    make_stale(x);
    pthread_mutex_unlock(&x->store->lock);
}

/* ---- what a session does with its place ------------------------------------------------------ */

/* Append the messages with STENO_SESSION_MASK instead of the id. */
static steno_status add_records(struct steno_stored_session *x, const struct steno_buf *from)
{
    const size_t len = strlen(x->id);
    const char *text;
    size_t at = 0, n;
    uint64_t seq;
    steno_status st = STENO_OK;
    while (!st && steno_record_next(from, &at, &seq, &text, &n)) {
        const char *id = memmem(text, n, x->id, len);
        const size_t before = id ? (size_t)(id - text) : n;
        struct steno_buf masked;
        steno_buf_init(&masked, n + 1);
        st = steno_buf_add(&masked, text, before);
        if (!st && id)
            st = steno_buf_add(&masked, (char[]){STENO_SESSION_MASK}, 1);
        if (!st && id)
            st = steno_buf_add(&masked, id + len, n - before - len);
        if (!st)
            st = steno_record_add(&x->records, seq, masked.data, masked.len);
        steno_buf_free(&masked);
    }
    return st;
}

static bool put_session(void *place, const char *head, const struct steno_buf *records,
                        uint64_t last, uint64_t lost, bool all)
{
    struct steno_stored_session *x = place;
    steno_session_store *s = x->store;
    char *copy = strdup(head);
    size_t had;
    bool good = false;
    pthread_mutex_lock(&s->lock);
    if (all)
        drop_pending(x);
    had = x->records.len;
    if (s->up && copy && (!x->refused || steno_now_ns() - x->refused > SECOND) &&
        s->waiting_bytes + records->len <= STENO_SESSION_STORE_BYTES && !add_records(x, records)) {
        good = true;
        s->waiting_bytes += x->records.len - had;
        free(x->head);
        x->head = copy;
        copy = NULL;
        x->all |= all || x->fresh;
        x->fresh = x->stale = false;
        x->last = last;
        x->lost = lost;
        make_due(x);
    } else {
        steno_buf_cut(&x->records, had);
        drop_pending(x);
        x->stale = true;
    }
    pthread_mutex_unlock(&s->lock);
    free(copy);
    return good;
}

static void get_state(void *place, struct steno_ws_storage_state *out)
{
    struct steno_stored_session *x = place;
    pthread_mutex_lock(&x->store->lock);
    *out = (struct steno_ws_storage_state){x->store->up, x->stale, x->taken, x->stored};
    pthread_mutex_unlock(&x->store->lock);
}

static void set_waiting(void *place, bool waiting)
{
    struct steno_stored_session *x = place;
    pthread_mutex_lock(&x->store->lock);
    x->waits_ns = waiting ? steno_now_ns() : 0;
    x->touch = true;
    make_due(x);
    pthread_mutex_unlock(&x->store->lock);
}

static void leave(void *place, bool erase)
{
    struct steno_stored_session *x = place;
    steno_session_store *s = x->store;
    pthread_mutex_lock(&s->lock);
    x->wake = NULL;
    if (!x->waits_ns)
        x->waits_ns = steno_now_ns();
    x->touch = !x->taken;
    x->erase = erase;
    if (erase)
        drop_pending(x);
    if (s->running)
        make_due(x); /* the thread frees it */
    else
        remove_session(x);
    pthread_mutex_unlock(&s->lock);
}

const struct steno_ws_storage steno_session_storage = {
    .put = put_session, .get_state = get_state, .set_waiting = set_waiting, .leave = leave};

/* ---- storing --------------------------------------------------------------------------------- */

struct task {
    struct steno_stored_session *x;
    struct steno_redis_call call;
    bool puts, ends;
    uint64_t last;
};

/* Make the next command of x. Lock held. False: nothing is to be sent. */
static bool make_task(struct steno_stored_session *x, struct task *t, int64_t now)
{
    *t = (struct task){.x = x};
    if (x->taken || x->fresh) {
        drop_pending(x);
        x->touch = x->erase = false;
        return false;
    }
    if (x->head) {
        const struct steno_session_put put = {.hash = x->hash,
                                              .token = x->token,
                                              .owner = x->owner,
                                              .life_ms = life_of(x, now),
                                              .all = x->all,
                                              .head = x->head,
                                              .lost = x->lost,
                                              .records = &x->records};
        steno_session_put(&t->call, &put);
        t->puts = true;
        t->last = x->last;
        drop_pending(x);
        x->all = x->touch = false;
    } else if (x->erase || x->touch) {
        (x->erase ? steno_session_erase : steno_session_touch)(&t->call, x->hash, x->token,
                                                               life_of(x, now));
        x->touch = x->erase = false;
    } else
        return false;
    x->touched = now;
    return true;
}

static bool has_work(const struct steno_stored_session *x)
{
    return x->head || x->touch || x->erase;
}

/* Take sessions off the due list. Lock held. */
static size_t take_tasks(steno_session_store *s, struct task *tasks, int64_t now)
{
    size_t n = 0, bytes = 0;
    while (s->due && n < BATCH && bytes < BATCH_BYTES) {
        struct steno_stored_session *x = s->due;
        s->due = x->next_due;
        if (!s->due)
            s->last_due = &s->due;
        x->in_due = false;
        if (make_task(x, &tasks[n], now))
            bytes += tasks[n++].call.bytes.len;
        else if (!x->wake)
            remove_session(x);
    }
    return n;
}

/* Every third of the time for which clients may be away: each key's time begins anew, and who has
 * lost a session learns it. Lock held. */
static void touch_all(steno_session_store *s, int64_t now)
{
    const int64_t every = s->resume_ns / 3;
    if (now < s->next_touch)
        return;
    for (struct steno_stored_session *x = s->all; x; x = x->next)
        if (!x->taken && !x->stale && now - x->touched >= every) {
            x->touch = true;
            make_due(x);
        }
    s->next_touch = now + every / 4;
}

static void set_up(steno_session_store *s, bool up, const steno_err *err)
{
    if (up == s->up)
        return;
    s->up = up;
    steno_metric_set(s->metrics.up, up);
    if (up)
        steno_log(LOG_NOTICE, "live sessions are stored in Redis again");
    else
        steno_log(LOG_WARNING,
                  "%s: live sessions are not stored, and clients come back to this machine alone",
                  err->msg);
}

/* Redis is away: nothing of what is due can be stored. Lock held. */
static void give_up(steno_session_store *s)
{
    while (s->due) {
        struct steno_stored_session *x = s->due;
        s->due = x->next_due;
        x->in_due = false;
        if (x->head || !x->wake)
            make_stale(x);
        x->touch = x->erase = false;
        if (!x->wake)
            remove_session(x);
    }
    s->last_due = &s->due;
}

/* Lock held. */
static void take_answer(const struct task *t, const redisReply *r)
{
    struct steno_stored_session *x = t->x;
    const char *word = r && r->type == REDIS_REPLY_STRING ? r->str : "";
    if (!strcmp(word, "ok")) {
        if (t->puts)
            x->stored = t->last + 1;
        if (t->puts)
            wake_owner(x);
    } else if (!strcmp(word, "taken")) {
        x->taken = true;
        wake_owner(x);
    } else { /* gone, or an error such as that Redis has no memory left */
        if (strcmp(word, "gone") != 0)
            x->refused = steno_now_ns();
        make_stale(x);
    }
    if (has_work(x) || !x->wake)
        make_due(x);
}

static void store_batch(steno_session_store *s, struct task *tasks, size_t n)
{
    struct steno_redis_words words[BATCH];
    redisReply *replies[BATCH] = {NULL};
    const int64_t began = steno_now_ns();
    steno_err err;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i++)
        if (!steno_redis_call_words(&tasks[i].call, &words[i]))
            st = steno_fail(&err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_redis_pipeline(s->redis, STENO_REDIS_LIVE, n, words, replies, &err);
    if (!st) {
        steno_metric_observe(s->metrics.seconds, (double)(steno_now_ns() - began) * 1e-9);
        steno_metric_add(s->metrics.writes, (double)n);
    } else
        steno_metric_add(s->metrics.failures, 1);
    for (size_t i = 0; i < n && !st; i++)
        if (replies[i]->type == REDIS_REPLY_ERROR) {
            steno_metric_add(s->metrics.failures, 1);
            if (began > s->quiet) {
                steno_log(LOG_WARNING, "live sessions are not stored: %s", replies[i]->str);
                s->quiet = began + 60 * SECOND;
            }
            break;
        }
    pthread_mutex_lock(&s->lock);
    if (st) {
        set_up(s, false, &err);
        s->next_try = steno_now_ns() + SECOND;
    }
    for (size_t i = 0; i < n; i++)
        take_answer(&tasks[i], st ? NULL : replies[i]);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < n; i++) {
        if (replies[i])
            freeReplyObject(replies[i]);
        steno_redis_call_free(&tasks[i].call);
    }
}

/* ---- claims ---------------------------------------------------------------------------------- */

static void claim_session(steno_session_store *s, struct steno_session_claim *c)
{
    char hash[STENO_SHA256_HEX];
    struct steno_redis_words words;
    struct steno_redis_call call;
    redisReply *r = NULL;
    steno_err err = {0};
    steno_status st = STENO_OK;
    hash_id(c->id, hash);
    random_token(c->token);
    c->result = STENO_CLAIM_AWAY;
    steno_session_put_claim(&call, hash, c, to_ms(s->resume_ns + s->resume_ns / 3) + 1);
    if (!steno_redis_call_words(&call, &words))
        st = steno_fail(&err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_redis_pipeline(s->redis, STENO_REDIS_LIVE, 1, &words, &r, &err);
    steno_redis_call_free(&call);
    if (st) {
        steno_metric_add(s->metrics.failures, 1);
        pthread_mutex_lock(&s->lock);
        set_up(s, false, &err);
        s->next_try = steno_now_ns() + SECOND;
        pthread_mutex_unlock(&s->lock);
    } else {
        steno_session_read_claim(c, r, s->bytes);
        freeReplyObject(r);
    }
    c->done(c);
}

bool steno_session_store_up(steno_session_store *s)
{
    bool up;
    pthread_mutex_lock(&s->lock);
    up = s->up && !s->stop;
    pthread_mutex_unlock(&s->lock);
    return up;
}

void steno_session_store_claim(steno_session_store *s, struct steno_session_claim *c)
{
    pthread_mutex_lock(&s->lock);
    c->next = NULL;
    *s->last_claim = c;
    s->last_claim = &c->next;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

void steno_session_store_count_unstored(steno_session_store *s, uint64_t n)
{
    if (n)
        steno_metric_add(s->metrics.unstored, (double)n);
}

void steno_session_store_count_moved(steno_session_store *s, bool here)
{
    steno_metric_add(here ? s->metrics.here : s->metrics.elsewhere, 1);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Ask Redis for a sign of life. */
static void try_again(steno_session_store *s)
{
    const char *v[] = {"PING"};
    const size_t len[] = {4};
    const struct steno_redis_words words = {1, v, len};
    redisReply *r = NULL;
    steno_err err;
    const bool good = !steno_redis_pipeline(s->redis, STENO_REDIS_LIVE, 1, &words, &r, &err);
    if (good)
        freeReplyObject(r);
    pthread_mutex_lock(&s->lock);
    if (good)
        set_up(s, true, NULL);
    s->next_try = steno_now_ns() + SECOND;
    pthread_mutex_unlock(&s->lock);
}

static void *run_store(void *arg)
{
    steno_session_store *s = arg;
    struct task tasks[BATCH];
    pthread_mutex_lock(&s->lock);
    for (;;) {
        const int64_t now = steno_now_ns();
        struct steno_session_claim *c = s->claims;
        if (c) {
            s->claims = c->next;
            if (!s->claims)
                s->last_claim = &s->claims;
            pthread_mutex_unlock(&s->lock);
            claim_session(s, c);
            pthread_mutex_lock(&s->lock);
            continue;
        }
        if (!s->up) {
            give_up(s);
            if (s->stop)
                break;
            if (now >= s->next_try) {
                pthread_mutex_unlock(&s->lock);
                try_again(s);
                pthread_mutex_lock(&s->lock);
            } else
                (void)steno_cond_wait_until(&s->work, &s->lock, s->next_try);
            continue;
        }
        if (!s->stop)
            touch_all(s, now);
        if (s->due) {
            const size_t n = take_tasks(s, tasks, now);
            if (!n)
                continue;
            pthread_mutex_unlock(&s->lock);
            store_batch(s, tasks, n);
            pthread_mutex_lock(&s->lock);
        } else if (s->stop)
            break;
        else
            (void)steno_cond_wait_until(&s->work, &s->lock, s->next_touch);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void register_metrics(steno_session_store *s, steno_metrics *m)
{
    static const double bounds[] = {.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 2};
    s->metrics.up = steno_metrics_gauge(m, "steno_session_store_up",
                                        "1: live sessions are stored in Redis.", "");
    s->metrics.writes =
        steno_metrics_counter(m, "steno_session_store_writes_total",
                              "Changes of live sessions that were sent to Redis.", "");
    s->metrics.failures = steno_metrics_counter(
        m, "steno_session_store_failures_total",
        "Times that Redis did not answer, or refused, to store or to give live sessions.", "");
    s->metrics.unstored = steno_metrics_counter(
        m, "steno_session_store_unstored_total",
        "Results that were delivered before they were stored, because Redis was away or slow.", "");
    s->metrics.seconds =
        steno_metrics_histogram(m, "steno_session_store_seconds",
                                "Time until changes of live sessions, sent together, were stored.",
                                "", bounds, sizeof bounds / sizeof *bounds);
    s->metrics.here =
        steno_metrics_counter(m, "steno_ws_sessions_moved_total",
                              "Live sessions that went on on another machine.", "to=\"here\"");
    s->metrics.elsewhere =
        steno_metrics_counter(m, "steno_ws_sessions_moved_total", "", "to=\"elsewhere\"");
    steno_metric_set(s->metrics.up, 1);
}

steno_status steno_session_store_open(steno_session_store **out, struct steno_redis *redis,
                                      double resume, size_t bytes, steno_metrics *registry,
                                      steno_err *err)
{
    steno_session_store *s = calloc(1, sizeof *s);
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    s->redis = redis;
    s->resume_ns = (int64_t)(resume * 1e9);
    s->bytes = bytes;
    s->up = true; /* the store of jobs has just been opened */
    s->last_due = &s->due;
    s->last_claim = &s->claims;
    s->next_touch = steno_now_ns();
    pthread_mutex_init(&s->lock, NULL);
    steno_cond_init(&s->work);
    register_metrics(s, registry);
    s->running = true;
    st = steno_thread_start(&s->thread, "session-store", run_store, s, err);
    if (st) {
        s->running = false;
        steno_session_store_close(s);
        return st;
    }
    *out = s;
    return STENO_OK;
}

void steno_session_store_stop(steno_session_store *s)
{
    if (!s || !s->running)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_lock(&s->lock);
    s->running = s->up = false;
    pthread_mutex_unlock(&s->lock);
}

void steno_session_store_close(steno_session_store *s)
{
    if (!s)
        return;
    steno_session_store_stop(s);
    while (s->all)
        remove_session(s->all);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
