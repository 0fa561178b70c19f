#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/threads.h"
#include "tests/unit/pool_fake.h"
#include "tests/support/test.h"

/* ---- the fake recognizer, which counts ------------------------------------------------------ */

struct fake {
    int64_t taken, wrong; /* sample i should be (i % 997) / 1000 */
    size_t have;
    int steps, step_us, fail_at;
    int parts, part; /* steps for each window; those done */
    double share;    /* of a step; < 0: the first one of a window is not shared */
    double slack;    /* s, from the second step of a window on; < 0: from the first one on */
    int64_t segment, base;
    struct {
        enum steno_event_kind kind;
        enum steno_final_reason reason;
        char text[48];
        double time;
        int64_t segment;
    } q[64];
    size_t head, tail;
    bool padded, padding;
    char name;
    _Atomic int inside; /* calls inside the fake; never two */
};

_Atomic int open_fakes, open_batchers, measured, early_fakes;

static float sample(int64_t i)
{
    return (float)(i % 997) / 1000.0f;
}

static struct fake *fake_of(const steno_stream *s)
{
    union {
        const steno_stream *s;
        struct fake *f;
    } u = {.s = s};
    return u.f;
}

static steno_status fake_open(steno_stream **out, steno_model *m,
                              const struct steno_stream_options *o,
                              const struct steno_stream_known *known, steno_err *err)
{
    struct fake *f = calloc(1, sizeof *f);
    (void)m, (void)known;
    if (o->sample_rate == 1) {
        free(f);
        return steno_fail(err, STENO_ERR_INVAL, "rate");
    }
    f->step_us = o->beam; /* the options carry the scenario */
    f->fail_at = o->n_best;
    f->parts = (int)o->endpoint.silence_after;
    f->share = o->endpoint.silence_alone;
    f->slack = o->utterance_end;
    f->name = o->endpoint.longest > 0 ? (char)o->endpoint.longest : '?';
    *out = (steno_stream *)f;
    atomic_fetch_add(&open_fakes, 1);
    return STENO_OK;
}

static int fake_rate(const steno_model *m)
{
    (void)m;
    return RATE;
}

static void fake_close(steno_stream *s)
{
    free(fake_of(s));
    atomic_fetch_sub(&open_fakes, 1);
}

static double fake_slack(const steno_stream *s)
{
    const struct fake *f = fake_of(s);
    return f->have == WINDOW && !f->padding && (f->part || f->slack < 0) ? fabs(f->slack) : 0;
}

static void enter(struct fake *f)
{
    assert_int_equal(atomic_fetch_add(&f->inside, 1), 0);
}

static void leave(struct fake *f)
{
    atomic_fetch_sub(&f->inside, 1);
}

static void emit(struct fake *f, enum steno_event_kind kind, enum steno_final_reason reason)
{
    size_t i = f->tail++ % 64;
    f->q[i].kind = kind;
    f->q[i].reason = reason;
    f->q[i].time = (double)f->taken / RATE;
    f->q[i].segment = f->segment;
    snprintf(f->q[i].text, sizeof f->q[i].text, "%lld %lld", (long long)(f->taken - f->base),
             (long long)f->wrong);
    if (kind == STENO_FINAL) {
        f->segment++;
        f->base = f->taken;
    }
}

static steno_status fake_feed(steno_stream *s, const float *pcm, size_t n, size_t *used,
                              steno_err *err)
{
    struct fake *f = fake_of(s);
    size_t room;
    (void)err;
    enter(f);
    if (fake_slack(s) > 0)
        f->part = (int)(f->have = 0);
    room = WINDOW - f->have;
    *used = n < room ? n : room;
    for (size_t i = 0; i < *used; i++)
        f->wrong +=
            pcm[i] < sample(f->taken + (int64_t)i) || pcm[i] > sample(f->taken + (int64_t)i);
    f->taken += (int64_t)*used;
    f->have += *used;
    if (f->name == SPEAKER && f->taken == (int64_t)*used)
        emit(f, STENO_SPEECH_START, STENO_FINAL_END);
    leave(f);
    return STENO_OK;
}

static bool fake_ready(const steno_stream *s)
{
    return fake_of(s)->have == WINDOW;
}

static size_t fake_missing(const steno_stream *s)
{
    const struct fake *f = fake_of(s);
    return f->name == SPEAKER && !f->taken ? WINDOW / 4 : WINDOW - f->have;
}

static double fake_share(const steno_stream *s)
{
    const struct fake *f = fake_of(s);
    return f->share < 0 && !f->part ? 1 : fabs(f->share);
}

static void fake_set_early(steno_stream *s, bool early)
{
    (void)s;
    atomic_fetch_add(&early_fakes, early);
}

/* ---- the log and the barrier ---------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char text[4096];
    size_t len;
    int batches, shut_at, beats;
    bool shut;
} book = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void log_batch(steno_stream *const *s, size_t n)
{
    pthread_mutex_lock(&book.lock);
    for (size_t i = 0; i <= n && book.len + 1 < sizeof book.text; i++)
        book.text[book.len++] = i < n ? fake_of(s[i])->name : ' ';
    book.text[book.len] = '\0';
    if (++book.batches == book.shut_at)
        book.shut = true;
    pthread_cond_broadcast(&book.changed);
    while (book.shut) {
        pthread_cond_wait(&book.changed, &book.lock);
        for (; book.beats; pthread_cond_broadcast(&book.changed), book.beats--)
            steno_thread_beat();
    }
    pthread_mutex_unlock(&book.lock);
}

void fake_beat(int n)
{
    pthread_mutex_lock(&book.lock);
    book.beats = n;
    pthread_cond_broadcast(&book.changed);
    while (book.beats)
        pthread_cond_wait(&book.changed, &book.lock);
    pthread_mutex_unlock(&book.lock);
}

void fake_log_reset(void)
{
    pthread_mutex_lock(&book.lock);
    book.len = 0;
    book.text[0] = '\0';
    book.batches = book.shut_at = 0;
    pthread_mutex_unlock(&book.lock);
}

const char *fake_log(void)
{
    return book.text;
}

void fake_barrier(bool open)
{
    pthread_mutex_lock(&book.lock);
    book.shut = !open;
    pthread_cond_broadcast(&book.changed);
    pthread_mutex_unlock(&book.lock);
}

void fake_run_to(int n)
{
    pthread_mutex_lock(&book.lock);
    book.shut_at = n;
    pthread_mutex_unlock(&book.lock);
    fake_barrier(true);
    fake_wait_batches(n);
}

void fake_wait_batches(int n)
{
    pthread_mutex_lock(&book.lock);
    while (book.batches < n)
        pthread_cond_wait(&book.changed, &book.lock);
    pthread_mutex_unlock(&book.lock);
}

static void fake_step(steno_batcher *p, steno_stream *const *s, size_t n, steno_status *st,
                      steno_err *err)
{
    (void)p;
    log_batch(s, n);
    for (size_t i = 0; i < n; i++) {
        struct fake *f = fake_of(s[i]);
        enter(f);
        if (f->step_us)
            nanosleep(&(struct timespec){.tv_nsec = f->step_us * 1000L}, NULL);
        f->steps++;
        st[i] = STENO_OK;
        if (++f->part < f->parts) {
            leave(f);
            continue;
        }
        f->part = 0;
        f->have = 0;
        if (f->padding)
            f->padding = false;
        else if (f->fail_at && f->steps == f->fail_at)
            st[i] = steno_fail(&err[i], STENO_ERR_INTERNAL, "step %d broke", f->steps);
        else
            emit(f, STENO_PARTIAL, 0);
        leave(f);
    }
}

void fake_step_and_burn(steno_batcher *p, steno_stream *const *s, size_t n, steno_status *st,
                        steno_err *err)
{
    double from = steno_pool_thread_cpu();
    while (steno_pool_thread_cpu() - from < FAKE_BURN)
        ;
    fake_step(p, s, n, st, err);
}

/* A flush takes one more step, as a recognizer that pads with silence does. */
static steno_status fake_flush(steno_stream *s, bool end, bool *done, steno_err *err)
{
    struct fake *f = fake_of(s);
    (void)err;
    *done = f->padded;
    f->padded = !f->padded;
    if (!*done) {
        f->have = WINDOW;
        f->padding = true;
        return STENO_OK;
    }
    f->have = 0;
    emit(f, STENO_FINAL, end ? STENO_FINAL_END : STENO_FINAL_REQUEST);
    return STENO_OK;
}

/* ---- the batcher: costs are given, batches are counted --------------------------------------- */

static steno_status fake_batcher_open(steno_batcher **out, const steno_model *m, int max,
                                      steno_err *err)
{
    int *p = malloc(sizeof *p);
    (void)m;
    if (!p)
        return steno_fail(err, STENO_ERR_NOMEM, "batcher");
    *p = max;
    *out = (steno_batcher *)(void *)p;
    atomic_fetch_add(&open_batchers, 1);
    return STENO_OK;
}

static void fake_batcher_close(steno_batcher *p)
{
    if (p)
        atomic_fetch_sub(&open_batchers, 1);
    free(p);
}

static int fake_batcher_max(const steno_batcher *p)
{
    return *(const int *)(const void *)p;
}

static void fake_set_costs(steno_batcher *p, const struct steno_step_costs *c)
{
    (void)p;
    assert_true(c->seconds[0] > 0);
}

static steno_status fake_measure(steno_batcher *p, double longest, struct steno_step_costs *c,
                                 steno_err *err)
{
    (void)p;
    (void)longest;
    (void)err;
    atomic_fetch_add(&measured, 1);
    for (int i = 0; i < STENO_BATCH_SIZES; i++)
        c->seconds[i] = i < 4 ? 0.001 * (1 + i) : (double)INFINITY; /* 8 take as long as 4 */
    return STENO_OK;
}

static int64_t fake_network_ns(const steno_batcher *p)
{
    (void)p;
    return 0;
}

static int64_t fake_network_cpu(steno_batcher *p)
{
    (void)p;
    return 0;
}

static double fake_chunk(const steno_model *m)
{
    (void)m;
    return (double)WINDOW / RATE;
}

static bool fake_next(steno_stream *s, struct steno_event *ev)
{
    struct fake *f = fake_of(s);
    size_t i = f->head % 64;
    if (f->head == f->tail)
        return false;
    f->head++;
    *ev = (struct steno_event){.kind = f->q[i].kind,
                               .reason = f->q[i].reason,
                               .text = f->q[i].text,
                               .time = f->q[i].time,
                               .segment = f->q[i].segment};
    return true;
}

const struct steno_pool_ops fake_ops = {
    .open = fake_open,
    .rate = fake_rate,
    .close = fake_close,
    .feed = fake_feed,
    .ready = fake_ready,
    .missing = fake_missing,
    .share = fake_share,
    .slack = fake_slack,
    .set_early = fake_set_early,
    .step = fake_step,
    .flush = fake_flush,
    .next = fake_next,
    .batcher_open = fake_batcher_open,
    .batcher_close = fake_batcher_close,
    .batcher_max = fake_batcher_max,
    .set_costs = fake_set_costs,
    .measure = fake_measure,
    .network_ns = fake_network_ns,
    .network_cpu = fake_network_cpu,
    .chunk_seconds = fake_chunk,
};

/* ---- a client ------------------------------------------------------------------------------ */

static void on_note(void *user, steno_pool_stream *ps, const struct steno_pool_note *note)
{
    struct client *c = user;
    bool close_it = false;
    pthread_mutex_lock(&c->lock);
    assert_int_equal(c->done, 0);
    switch (note->kind) {
    case STENO_POOL_EVENT:
        if (note->event->kind == STENO_SPEECH_START)
            c->starts++;
        else if (note->event->kind == STENO_PARTIAL)
            c->partials++;
        else
            snprintf(c->text[c->finals++ & 7], 48, "%s", note->event->text);
        if (note->latency > c->worst_latency)
            c->worst_latency = note->latency;
        if (c->cancel_in_event)
            steno_pool_stream_cancel(ps);
        break;
    case STENO_POOL_PROGRESS:
        break;
    case STENO_POOL_FINALIZED:
        c->finalized++;
        break;
    case STENO_POOL_ROOM:
        c->rooms++;
        break;
    case STENO_POOL_DONE:
        c->done = 1;
        c->status = note->status;
        c->done_ns = steno_now_ns();
        if (note->err)
            snprintf(c->msg, sizeof c->msg, "%.80s", note->err->msg);
        close_it = c->close_in_done;
        break;
    }
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (close_it)
        steno_pool_stream_close(ps);
}

void client_open(struct client *c, steno_pool *p, const struct steno_pool_stream_options *o)
{
    steno_err err = {0};
    *c = (struct client){.ps = NULL};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    if (steno_pool_stream_open(&c->ps, p, o, on_note, c, &err))
        fail_msg("%s", err.msg);
}

void client_close(struct client *c)
{
    steno_pool_stream_close(c->ps);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
}

/* Push n samples. Wait for room as a server does. */
void client_push(struct client *c, int64_t n, size_t piece)
{
    float buf[4096];
    while (n > 0) {
        size_t k = piece < (size_t)n ? piece : (size_t)n, taken;
        int rooms;
        for (size_t i = 0; i < k; i++)
            buf[i] = sample(c->sent + (int64_t)i);
        pthread_mutex_lock(&c->lock);
        rooms = c->rooms;
        pthread_mutex_unlock(&c->lock);
        assert_int_equal(steno_pool_stream_push(c->ps, buf, k, &taken, NULL), STENO_OK);
        c->sent += (int64_t)taken;
        n -= (int64_t)taken;
        pthread_mutex_lock(&c->lock);
        while (taken < k && c->rooms == rooms)
            pthread_cond_wait(&c->changed, &c->lock);
        pthread_mutex_unlock(&c->lock);
    }
}

void client_wait_done(struct client *c)
{
    pthread_mutex_lock(&c->lock);
    while (!c->done)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

steno_pool *fake_pool(const struct steno_pool_options *o)
{
    steno_pool *p = NULL;
    assert_int_equal(steno_pool_open_with(&p, &fake_ops, NULL, o, NULL), STENO_OK);
    return p;
}

steno_pool *pool_open(int workers, int streams, double buffer)
{
    return fake_pool(&(struct steno_pool_options){
        .workers = workers, .max_streams = streams, .buffer_seconds = buffer});
}
