/* The pool around a fake recognizer (tests/unit/pool_fake.h). */
/* link: tests/unit/pool_fake.c */
#include <math.h>
#include <sched.h>
#include <string.h>

#include "tests/unit/pool_fake.h"
#include "tests/support/test.h"

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
    struct steno_pool_stream_stats st;
    float buf[3 * 4000] = {0};
    size_t taken;
    client_open(&c, p,
                &(struct steno_pool_stream_options){.stream = {.beam = 20000 /* us per step */}});
    assert_int_equal(steno_pool_stream_push(c.ps, buf, 3 * 4000, &taken, NULL), STENO_OK);
    assert_int_equal(taken, 4000);
    pthread_mutex_lock(&c.lock);
    while (!c.rooms)
        pthread_cond_wait(&c.changed, &c.lock);
    pthread_mutex_unlock(&c.lock);
    steno_pool_stream_get_stats(c.ps, &st);
    assert_true(st.waiting_seconds <= 0.25);
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
    float x = 0;
    fake_log_reset();
    fake_barrier(false);
    client_open(&a, p, NULL);
    client_open(&b, p, NULL);
    client_push(&a, 20 * WINDOW, 4096);
    client_push(&b, 20 * WINDOW, 4096);
    fake_wait_batches(1);
    steno_pool_stream_cancel(a.ps);
    fake_barrier(true);
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

/* One worker and an upload of 300 steps of 1 ms. A live stream that comes later must not wait
 * for all of them. */
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
    struct steno_pool_stream_stats st;
    struct steno_pool_heartbeat h = steno_pool_worker_heartbeat(p, 0);
    int64_t idle_since = h.since_ns;
    assert_false(h.busy);
    fake_log_reset();
    fake_barrier(false);
    client_open(&c, p, NULL);
    client_push(&c, WINDOW, WINDOW);
    fake_wait_batches(1);
    h = steno_pool_worker_heartbeat(p, 0);
    assert_true(h.busy);
    assert_true(h.since_ns >= idle_since);
    client_push(&c, 2 * WINDOW, 2 * WINDOW); /* the worker is busy, so these windows wait */
    steno_pool_stream_get_stats(c.ps, &st);
    assert_true(fabs(st.waiting_seconds - 2 * st.audio_seconds / 3) < 1e-9);
    fake_barrier(true);
    steno_pool_stream_end(c.ps);
    client_wait_done(&c);
    steno_pool_stream_get_stats(c.ps, &st);
    assert_true(st.waiting_seconds == 0 && st.audio_seconds > 0);
    client_close(&c);
    steno_pool_close(p);
}

/* Of a large model on a slow machine a step takes minutes. */
static void a_step_that_advances_is_alive_however_long_it_takes(void **state)
{
    (void)state;
    steno_pool *p = pool_open(1, 1, 4.0);
    struct client c;
    struct steno_pool_heartbeat h;
    int64_t since;
    fake_log_reset();
    fake_barrier(false);
    client_open(&c, p, NULL);
    client_push(&c, WINDOW, WINDOW);
    fake_wait_batches(1);
    since = steno_pool_worker_heartbeat(p, 0).since_ns;
    for (int node = 0; node < 3; node++) {
        const int64_t asked = steno_now_ns();
        assert_int_equal(steno_pool_worker_heartbeat(p, 0).since_ns, since); /* a node hangs */
        fake_beat(1 + node);
        h = steno_pool_worker_heartbeat(p, 0);
        assert_true(h.busy && h.since_ns >= asked && h.since_ns > since);
        since = h.since_ns;
    }
    fake_barrier(true);
    steno_pool_stream_end(c.ps);
    client_wait_done(&c);
    client_close(&c);
    steno_pool_close(p);
}

static void wait_idle(steno_pool *p, int n)
{
    int idle = -1;
    while (idle != n) {
        pthread_mutex_lock(&p->lock);
        idle = p->idle;
        pthread_mutex_unlock(&p->lock);
        sched_yield();
    }
}

/* The worker that puts a stream back takes it again. Waking another worker for it would only
 * move it between caches. */
static void a_stream_that_is_alone_stays_with_its_worker(void **state)
{
    (void)state;
    steno_pool *p = pool_open(3, 2, 8.0);
    for (int round = 0; round < 20; round++) {
        int64_t before[3];
        int served = 0;
        struct client c;
        wait_idle(p, 3);
        for (int i = 0; i < 3; i++)
            before[i] = steno_pool_worker_heartbeat(p, i).since_ns;
        fake_log_reset();
        fake_barrier(false);
        client_open(&c, p, &(struct steno_pool_stream_options){.priority = STENO_POOL_UPLOAD});
        client_push(&c, 60 * WINDOW, WINDOW);
        fake_wait_batches(1);
        steno_pool_stream_end(c.ps);
        fake_barrier(true);
        client_wait_done(&c);
        client_close(&c);
        wait_idle(p, 3);
        assert_int_equal(c.partials, 60);
        for (int i = 0; i < 3; i++)
            served += steno_pool_worker_heartbeat(p, i).since_ns != before[i];
        assert_int_equal(served, 1);
    }
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
    assert_true(c.worst_latency >= 0.02);
    steno_pool_stream_get_stats(c.ps, &st);
    assert_true(st.inference_seconds >= 0.02);
    assert_float_equal((float)st.audio_seconds, 0.125f, 1e-6f);
    client_close(&c);
    steno_pool_close(p);
}

/* A step is not due until the window is full. */
static void speech_is_told_before_a_step(void **state)
{
    const struct steno_pool_stream_options o = {
        .stream = {.sample_rate = RATE, .endpoint.longest = SPEAKER}};
    steno_pool *p = pool_open(1, 1, 1);
    struct client c;
    (void)state;
    client_open(&c, p, &o);
    client_push(&c, WINDOW / 4, WINDOW / 4);
    pthread_mutex_lock(&c.lock);
    while (!c.starts)
        pthread_cond_wait(&c.changed, &c.lock);
    assert_int_equal(c.partials, 0);
    pthread_mutex_unlock(&c.lock);
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

static void finals_of_live_streams_alone_begin_early(void **state)
{
    static const enum steno_pool_class classes[] = {STENO_POOL_LIVE, STENO_POOL_UPLOAD,
                                                    STENO_POOL_JOB};
    steno_pool *p = pool_open(1, 4, 1);
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct client c;
        const int before = early_fakes;
        client_open(&c, p, &(struct steno_pool_stream_options){.priority = classes[i]});
        assert_int_equal(early_fakes - before, classes[i] == STENO_POOL_LIVE);
        client_close(&c);
    }
    steno_pool_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finals_of_live_streams_alone_begin_early),
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
        cmocka_unit_test(many_streams_from_many_threads),
        cmocka_unit_test(heartbeat_shows_who_is_busy),
        cmocka_unit_test(a_step_that_advances_is_alive_however_long_it_takes),
        cmocka_unit_test(a_stream_that_is_alone_stays_with_its_worker),
        cmocka_unit_test(latency_counts_from_the_push),
        cmocka_unit_test(speech_is_told_before_a_step),
        cmocka_unit_test(options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
