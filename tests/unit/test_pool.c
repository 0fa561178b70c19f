/* The pool around a recogniser that only counts: a step every WINDOW samples, and a check that the
 * samples are the ones that were pushed, in order. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pool/internal.h"

enum { RATE = 8000, WINDOW = 1000 };

/* ---- the counting recogniser --------------------------------------------------------------- */

struct fake {
    int64_t taken, wrong; /* sample i should be (i % 997) / 1000 */
    size_t have;
    int steps, step_us, fail_at;
    int64_t segment, base;
    struct {
        enum steno_event_kind kind;
        enum steno_final_reason reason;
        char text[48];
        double time;
        int64_t segment;
    } q[64];
    size_t head, tail;
    _Atomic int inside; /* calls at work: never two */
};

static _Atomic int open_fakes;

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
                              const struct steno_stream_options *o, steno_err *err)
{
    struct fake *f = calloc(1, sizeof *f);
    (void)m;
    if (o->sample_rate == 1) {
        free(f);
        return steno_fail(err, STENO_ERR_INVAL, "rate");
    }
    f->step_us = o->beam; /* the options carry the scenario */
    f->fail_at = o->n_best;
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

static void enter(struct fake *f)
{
    assert_int_equal(atomic_fetch_add(&f->inside, 1), 0);
}

static void leave(struct fake *f)
{
    atomic_fetch_sub(&f->inside, 1);
}

static steno_status fake_feed(steno_stream *s, const float *pcm, size_t n, size_t *used,
                              steno_err *err)
{
    struct fake *f = fake_of(s);
    size_t room = WINDOW - f->have;
    (void)err;
    enter(f);
    *used = n < room ? n : room;
    for (size_t i = 0; i < *used; i++)
        f->wrong +=
            pcm[i] < sample(f->taken + (int64_t)i) || pcm[i] > sample(f->taken + (int64_t)i);
    f->taken += (int64_t)*used;
    f->have += *used;
    leave(f);
    return STENO_OK;
}

static bool fake_ready(const steno_stream *s)
{
    return fake_of(s)->have == WINDOW;
}

static size_t fake_missing(const steno_stream *s)
{
    return WINDOW - fake_of(s)->have;
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

static void fake_step(steno_stream *const *s, size_t n, steno_status *st, steno_err *err)
{
    for (size_t i = 0; i < n; i++) {
        struct fake *f = fake_of(s[i]);
        enter(f);
        if (f->step_us)
            nanosleep(&(struct timespec){.tv_nsec = f->step_us * 1000L}, NULL);
        f->have = 0;
        f->steps++;
        st[i] = STENO_OK;
        if (f->fail_at && f->steps == f->fail_at)
            st[i] = steno_fail(&err[i], STENO_ERR_INTERNAL, "step %d broke", f->steps);
        else
            emit(f, STENO_PARTIAL, 0);
        leave(f);
    }
}

static steno_status fake_finalize(steno_stream *s, steno_err *err)
{
    (void)err;
    emit(fake_of(s), STENO_FINAL, STENO_FINAL_REQUEST);
    return STENO_OK;
}

static steno_status fake_end(steno_stream *s, steno_err *err)
{
    (void)err;
    emit(fake_of(s), STENO_FINAL, STENO_FINAL_END);
    return STENO_OK;
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

static const struct steno_pool_ops fake_ops = {
    .open = fake_open,
    .rate = fake_rate,
    .close = fake_close,
    .feed = fake_feed,
    .ready = fake_ready,
    .missing = fake_missing,
    .step = fake_step,
    .finalize = fake_finalize,
    .end = fake_end,
    .next = fake_next,
};

/* ---- a client ------------------------------------------------------------------------------ */

struct client {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    steno_pool_stream *ps;
    int64_t sent;
    int partials, finals, finalized, rooms, done;
    steno_status status;
    char msg[256], text[8][48];
    int64_t done_ns;
    double worst_latency;
    bool close_in_done, cancel_in_event;
};

static void on_note(void *user, steno_pool_stream *ps, const struct steno_pool_note *note)
{
    struct client *c = user;
    bool close_it = false;
    pthread_mutex_lock(&c->lock);
    assert_int_equal(c->done, 0);
    switch (note->kind) {
    case STENO_POOL_EVENT:
        if (note->event->kind == STENO_PARTIAL)
            c->partials++;
        else
            snprintf(c->text[c->finals++ & 7], 48, "%s", note->event->text);
        if (note->latency > c->worst_latency)
            c->worst_latency = note->latency;
        if (c->cancel_in_event)
            steno_pool_stream_cancel(ps);
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

static void client_open(struct client *c, steno_pool *p, const struct steno_pool_stream_options *o)
{
    steno_err err = {0};
    *c = (struct client){.ps = NULL};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    if (steno_pool_stream_open(&c->ps, p, o, on_note, c, &err))
        fail_msg("%s", err.msg);
}

static void client_close(struct client *c)
{
    steno_pool_stream_close(c->ps);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
}

/* Push n samples, waiting for room as a server would. */
static void client_push(struct client *c, int64_t n, size_t piece)
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

static void client_wait_done(struct client *c)
{
    pthread_mutex_lock(&c->lock);
    while (!c->done)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

static steno_pool *pool_open(int workers, int streams, double buffer)
{
    steno_pool *p = NULL;
    struct steno_pool_options o = {
        .workers = workers, .max_streams = streams, .buffer_seconds = buffer};
    assert_int_equal(steno_pool_open_with(&p, &fake_ops, NULL, &o, NULL), STENO_OK);
    return p;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void audio_comes_out_in_order_with_the_last_final(void **state)
{
    (void)state;
    static const size_t pieces[] = {1, 7, 160, 4096};
    for (size_t i = 0; i < 4; i++) {
        steno_pool *p = pool_open(2, 4, 1.0);
        struct client c;
        client_open(&c, p, NULL);
        client_push(&c, 10 * WINDOW + 123, pieces[i]);
        steno_pool_stream_end(c.ps);
        client_wait_done(&c);
        assert_int_equal(c.status, STENO_OK);
        assert_int_equal(c.partials, 10);
        assert_int_equal(c.finals, 1);
        assert_string_equal(c.text[0], "10123 0");
        client_close(&c);
        steno_pool_close(p);
    }
    assert_int_equal(open_fakes, 0);
}

static void finalize_cuts_at_the_sample_it_was_asked_at(void **state)
{
    (void)state;
    steno_pool *p = pool_open(1, 1, 2.0);
    struct client c;
    client_open(&c, p, NULL);
    client_push(&c, 1000, 333);
    assert_int_equal(steno_pool_stream_finalize(c.ps, NULL), STENO_OK);
    assert_int_equal(steno_pool_stream_finalize(c.ps, NULL), STENO_OK);
    client_push(&c, 234, 100);
    assert_int_equal(steno_pool_stream_finalize(c.ps, NULL), STENO_OK);
    client_push(&c, 50, 50);
    steno_pool_stream_end(c.ps);
    steno_pool_stream_end(c.ps);
    client_wait_done(&c);
    assert_int_equal(c.finals, 4);
    assert_int_equal(c.finalized, 3);
    assert_string_equal(c.text[0], "1000 0");
    assert_string_equal(c.text[1], "0 0");
    assert_string_equal(c.text[2], "234 0");
    assert_string_equal(c.text[3], "50 0");
    client_close(&c);
    steno_pool_close(p);
}

static void full_pool_refuses_and_a_closed_stream_makes_room(void **state)
{
    (void)state;
    steno_pool *p = pool_open(1, 2, 1.0);
    steno_pool_stream *x = NULL;
    struct client a, b;
    struct steno_pool_stats st;
    steno_err err = {0};
    client_open(&a, p, NULL);
    client_open(&b, p, NULL);
    assert_int_equal(steno_pool_stream_open(&x, p, NULL, NULL, NULL, &err), STENO_ERR_BUSY);
    assert_string_equal(err.msg, "all 2 places for streams are taken");
    assert_null(x);
    client_close(&a);
    client_open(&a, p, NULL);
    steno_pool_get_stats(p, &st);
    assert_int_equal(st.active, 2);
    assert_int_equal(st.capacity, 2);
    assert_int_equal(st.refused, 1);
    assert_int_equal(st.opened, 3);
    client_close(&a);
    client_close(&b);
    steno_pool_get_stats(p, &st);
    assert_int_equal(st.active, 0);
    steno_pool_close(p);
}

static void refused_options_take_no_place(void **state)
{
    (void)state;
    steno_pool *p = pool_open(1, 1, 1.0);
    steno_pool_stream *x = NULL;
    struct client c;
    assert_int_equal(steno_pool_stream_open(
                         &x, p, &(struct steno_pool_stream_options){.stream = {.sample_rate = 1}},
                         NULL, NULL, NULL),
                     STENO_ERR_INVAL);
    client_open(&c, p, NULL);
    client_close(&c);
    steno_pool_close(p);
}

static void full_buffer_takes_no_more_and_tells_when_there_is_room(void **state)
{
    (void)state;
    steno_pool *p = pool_open(1, 1, 0.5);
    struct client c;
    float buf[3 * 4000] = {0};
    size_t taken;
    client_open(&c, p,
                &(struct steno_pool_stream_options){.stream = {.beam = 20000 /* us per step */}});
    assert_int_equal(steno_pool_stream_room(c.ps), 4000);
    assert_int_equal(steno_pool_stream_push(c.ps, buf, 3 * 4000, &taken, NULL), STENO_OK);
    assert_int_equal(taken, 4000);
    pthread_mutex_lock(&c.lock);
    while (!c.rooms)
        pthread_cond_wait(&c.changed, &c.lock);
    pthread_mutex_unlock(&c.lock);
    assert_true(steno_pool_stream_room(c.ps) >= 2000);
    client_close(&c);
    steno_pool_close(p);
}

static void a_window_longer_than_the_buffer_still_fills(void **state)
{
    (void)state;
    steno_pool *p = pool_open(1, 1, 0.1); /* 800 samples */
    struct client c;
    client_open(&c, p, NULL);
    client_push(&c, 5 * WINDOW, 4096);
    steno_pool_stream_end(c.ps);
    client_wait_done(&c);
    assert_int_equal(c.partials, 5);
    client_close(&c);
    steno_pool_close(p);
}

static void cancel_ends_with_a_note_and_close_without(void **state)
{
    (void)state;
    steno_pool *p = pool_open(1, 2, 4.0);
    struct client a, b;
    size_t taken;
    struct steno_pool_stream_options slow = {.stream = {.beam = 5000}};
    float x = 0;
    client_open(&a, p, &slow);
    client_open(&b, p, &slow);
    client_push(&a, 20 * WINDOW, 4096);
    client_push(&b, 20 * WINDOW, 4096);
    steno_pool_stream_cancel(a.ps);
    client_wait_done(&a);
    assert_int_equal(a.status, STENO_ERR_CANCELLED);
    assert_true(a.partials < 20);
    assert_int_equal(steno_pool_stream_push(a.ps, &x, 1, &taken, NULL), STENO_ERR_CANCELLED);
    assert_int_equal(steno_pool_stream_finalize(a.ps, NULL), STENO_ERR_CANCELLED);
    client_close(&a);
    client_close(&b);
    assert_int_equal(b.done, 0);
    steno_pool_close(p);
    assert_int_equal(open_fakes, 0);
}

static void a_failing_step_ends_its_stream_with_the_message(void **state)
{
    (void)state;
    steno_pool *p = pool_open(2, 2, 4.0);
    struct client a, b;
    client_open(&a, p, &(struct steno_pool_stream_options){.stream = {.n_best = 3}});
    client_open(&b, p, NULL);
    client_push(&a, 3 * WINDOW, WINDOW);
    client_push(&b, 10 * WINDOW, WINDOW);
    steno_pool_stream_end(b.ps);
    client_wait_done(&a);
    client_wait_done(&b);
    assert_int_equal(a.status, STENO_ERR_INTERNAL);
    assert_string_equal(a.msg, "step 3 broke");
    assert_int_equal(a.partials, 2);
    assert_int_equal(b.status, STENO_OK);
    assert_int_equal(b.partials, 10);
    client_close(&a);
    client_close(&b);
    steno_pool_close(p);
}

static void a_callback_may_cancel_and_close(void **state)
{
    (void)state;
    steno_pool *p = pool_open(2, 8, 4.0);
    struct client c[8];
    struct steno_pool_stats st;
    for (int i = 0; i < 8; i++) {
        client_open(&c[i], p, NULL);
        c[i].close_in_done = true;
        c[i].cancel_in_event = i & 1;
    }
    for (int i = 0; i < 8; i++) {
        client_push(&c[i], 2 * WINDOW, 2 * WINDOW);
        if (!(i & 1))
            steno_pool_stream_end(c[i].ps);
    }
    for (int i = 0; i < 8; i++) {
        client_wait_done(&c[i]);
        assert_int_equal(c[i].status, i & 1 ? STENO_ERR_CANCELLED : STENO_OK);
    }
    do {
        steno_pool_get_stats(p, &st);
    } while (st.active);
    steno_pool_close(p);
    assert_int_equal(open_fakes, 0);
}

static void closing_the_pool_ends_its_streams(void **state)
{
    (void)state;
    steno_pool *p = pool_open(1, 2, 4.0);
    struct client a, b;
    client_open(&a, p, &(struct steno_pool_stream_options){.stream = {.beam = 2000}});
    client_open(&b, p, NULL);
    b.close_in_done = true;
    client_push(&a, 20 * WINDOW, 4096);
    steno_pool_close(p);
    assert_int_equal(a.status, STENO_ERR_CANCELLED);
    assert_int_equal(b.status, STENO_ERR_CANCELLED);
    assert_string_equal(a.msg, "pool closed");
    client_close(&a);
    assert_int_equal(open_fakes, 0);
}

/* One worker, an upload with 300 steps of 1 ms waiting, then a live stream: its step must not stand
 * behind the upload's. */
static void a_long_upload_does_not_hold_up_a_live_stream(void **state)
{
    (void)state;
    steno_pool *p = pool_open(1, 2, 60.0);
    struct client up, live;
    client_open(&up, p,
                &(struct steno_pool_stream_options){.stream = {.beam = 1000},
                                                    .priority = STENO_POOL_UPLOAD});
    client_push(&up, 300 * WINDOW, 4096);
    steno_pool_stream_end(up.ps);
    client_open(&live, p, &(struct steno_pool_stream_options){.stream = {.beam = 1000}});
    client_push(&live, 10 * WINDOW, 4096);
    steno_pool_stream_end(live.ps);
    client_wait_done(&live);
    client_wait_done(&up);
    assert_true(live.done_ns < up.done_ns);
    assert_true(up.partials == 300 && live.partials == 10);
    client_close(&up);
    client_close(&live);
    steno_pool_close(p);
}

/* And live streams that take all there is do not starve an upload past its slack. */
static void streams_of_a_class_take_turns(void **state)
{
    (void)state;
    steno_pool *p = pool_open(1, 4, 60.0);
    struct client c[4];
    int64_t first = INT64_MAX, last = 0, begin = steno_now_ns();
    for (int i = 0; i < 4; i++) {
        client_open(&c[i], p, &(struct steno_pool_stream_options){.stream = {.beam = 500}});
        client_push(&c[i], 100 * WINDOW, 4096);
    }
    for (int i = 0; i < 4; i++)
        steno_pool_stream_end(c[i].ps);
    for (int i = 0; i < 4; i++) {
        client_wait_done(&c[i]);
        first = c[i].done_ns < first ? c[i].done_ns : first;
        last = c[i].done_ns > last ? c[i].done_ns : last;
    }
    assert_true(first - begin > (last - begin) / 2); /* one after the other: a quarter */
    for (int i = 0; i < 4; i++)
        client_close(&c[i]);
    steno_pool_close(p);
}

static void *run_client(void *arg)
{
    struct client *c = arg;
    for (int i = 0; i < 20; i++) {
        client_push(c, 450 + 37 * i, 160);
        if (i % 7 == 3)
            assert_int_equal(steno_pool_stream_finalize(c->ps, NULL), STENO_OK);
    }
    steno_pool_stream_end(c->ps);
    client_wait_done(c);
    return NULL;
}

static void many_streams_from_many_threads(void **state)
{
    (void)state;
    enum { N = 24 };
    steno_pool *p = pool_open(4, N, 0.25);
    static struct client c[N];
    pthread_t th[N];
    struct steno_pool_stats st;
    for (int i = 0; i < N; i++) {
        client_open(&c[i], p, NULL);
        assert_int_equal(pthread_create(&th[i], NULL, run_client, &c[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(th[i], NULL);
        assert_int_equal(c[i].status, STENO_OK);
        assert_int_equal(c[i].finals, 4);
        assert_int_equal(c[i].finalized, 3);
        for (int k = 0; k < 4; k++)
            assert_string_equal(strchr(c[i].text[k], ' '), " 0");
        client_close(&c[i]);
    }
    steno_pool_get_stats(p, &st);
    assert_int_equal(st.active, 0);
    assert_int_equal(st.ready, 0);
    assert_true(st.audio_seconds > 0 && st.steps > 0);
    steno_pool_close(p);
    assert_int_equal(open_fakes, 0);
}

static void heartbeat_shows_who_is_busy(void **state)
{
    (void)state;
    steno_pool *p = pool_open(1, 1, 4.0);
    struct client c;
    struct steno_pool_heartbeat h = steno_pool_worker_heartbeat(p, 0);
    int64_t idle_since = h.since_ns;
    assert_false(h.busy);
    client_open(&c, p, &(struct steno_pool_stream_options){.stream = {.beam = 30000}});
    client_push(&c, WINDOW, WINDOW);
    do {
        h = steno_pool_worker_heartbeat(p, 0);
    } while (!h.busy);
    assert_true(h.since_ns >= idle_since);
    steno_pool_stream_end(c.ps);
    client_wait_done(&c);
    client_close(&c);
    steno_pool_close(p);
}

static void latency_counts_from_the_push(void **state)
{
    (void)state;
    steno_pool *p = pool_open(1, 1, 4.0);
    struct client c;
    struct steno_pool_stream_stats st;
    client_open(&c, p, &(struct steno_pool_stream_options){.stream = {.beam = 20000}});
    client_push(&c, WINDOW, WINDOW);
    steno_pool_stream_end(c.ps);
    client_wait_done(&c);
    assert_true(c.worst_latency >= 0.02 && c.worst_latency < 5);
    steno_pool_stream_get_stats(c.ps, &st);
    assert_true(st.inference_seconds >= 0.02);
    assert_float_equal((float)st.audio_seconds, 0.125f, 1e-6f);
    client_close(&c);
    steno_pool_close(p);
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    steno_pool *p = NULL;
    steno_err err = {0};
    assert_int_equal(steno_pool_open_with(&p, &fake_ops, NULL,
                                          &(struct steno_pool_options){.workers = -1}, &err),
                     STENO_ERR_INVAL);
    assert_int_equal(steno_pool_open_with(&p, &fake_ops, NULL,
                                          &(struct steno_pool_options){.buffer_seconds = 1e9},
                                          &err),
                     STENO_ERR_INVAL);
    assert_null(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(audio_comes_out_in_order_with_the_last_final),
        cmocka_unit_test(finalize_cuts_at_the_sample_it_was_asked_at),
        cmocka_unit_test(full_pool_refuses_and_a_closed_stream_makes_room),
        cmocka_unit_test(refused_options_take_no_place),
        cmocka_unit_test(full_buffer_takes_no_more_and_tells_when_there_is_room),
        cmocka_unit_test(a_window_longer_than_the_buffer_still_fills),
        cmocka_unit_test(cancel_ends_with_a_note_and_close_without),
        cmocka_unit_test(a_failing_step_ends_its_stream_with_the_message),
        cmocka_unit_test(a_callback_may_cancel_and_close),
        cmocka_unit_test(closing_the_pool_ends_its_streams),
        cmocka_unit_test(a_long_upload_does_not_hold_up_a_live_stream),
        cmocka_unit_test(streams_of_a_class_take_turns),
        cmocka_unit_test(many_streams_from_many_threads),
        cmocka_unit_test(heartbeat_shows_who_is_busy),
        cmocka_unit_test(latency_counts_from_the_push),
        cmocka_unit_test(options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
