/* The capacity in live streams: what follows from their costs, and how these follow what the
 * workers take. */
/* link: tests/unit/pool_fake.c */
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/pool_fake.h"

/* 8 streams take 4 ms per step of 125 ms. So one stream takes 4 ms of network and 1 ms of the rest
 * per second. */
static steno_pool *pool_of_small(void)
{
    const struct steno_pool_costs costs = {
        .step = {0.001, 0.002, 0.003, 0.004, (double)INFINITY, (double)INFINITY}, .host = 0.001};
    return fake_pool(
        &(struct steno_pool_options){.workers = 1, .costs = &costs, .max_streams = 100000});
}

static void capacity_follows_from_what_a_stream_costs(void **state)
{
    (void)state;
    int before = measured;
    steno_pool *p = pool_of_small();
    struct steno_pool_stats st;
    assert_int_equal(measured, before);
    pthread_mutex_lock(&p->lock);
    assert_true(p->load.other > 0); /* sockets have a cost before anything was measured */
    p->load.other = 0;
    p->load.cpus = 2;
    p->load.quota = (double)INFINITY;
    pthread_mutex_unlock(&p->lock);
    steno_pool_get_stats(p, &st);
    assert_in_range(st.capacity, 169, 170); /* one worker: 0.85 / 5 ms */
    assert_true(fabs(st.each - 0.005) < 1e-9);
    pthread_mutex_lock(&p->lock);
    p->load.slower = 4; /* steps take four times as long */
    assert_in_range(steno_pool_capacity_now(p), 49, 50);
    p->load.slower = 1;
    p->load.others.busy = 0.6; /* processors that other processes use, of two */
    p->load.other = 0.005;
    assert_in_range(steno_pool_capacity_now(p), 79, 80); /* (0.7 * 2 - 0.6) / 10 ms */
    p->load.others.busy = 2; /* if other processes want all of it, they get half */
    assert_in_range(steno_pool_capacity_now(p), 69, 70);
    p->load.others.busy = 0.6;
    p->load.running = 0.5; /* a worker waits half of its time, so it does half of the work */
    assert_in_range(steno_pool_capacity_now(p), 106, 107);
    p->load.other = 0;
    p->load.others.busy = 0;
    p->load.quota = 0.25; /* of the control group: 0.7 / 4 of a processor at 2.5 ms */
    assert_in_range(steno_pool_capacity_now(p), 69, 70);
    p->load.other = 1000; /* sockets use all processors: one stream is always admitted */
    assert_int_equal(steno_pool_capacity_now(p), 1);
    pthread_mutex_unlock(&p->lock);
    steno_pool_close(p);
}

/* Account some seconds of live streams. The pool's lock is held. */
static void account_live(steno_pool *p, double seconds, double host, double audio)
{
    p->load.since_ns = steno_now_ns() - (int64_t)(seconds * 1e9);
    steno_pool_account(p,
                       &(struct steno_pool_work){
                           .host = host, .audio = audio, .live_host = host, .live_audio = audio});
}

static void costs_are_corrected_by_measured_times(void **state)
{
    (void)state;
    steno_pool *p = pool_of_small();
    pthread_mutex_lock(&p->lock);
    /* Seconds in which 1,000 s of audio take three times the planned time. After one second the
     * correction is small, after a minute it is complete. */
    for (int i = 0; i < 60; i++) {
        p->load.since_ns = steno_now_ns() - 1000000000;
        steno_pool_account(p, &(struct steno_pool_work){.steps = 8000,
                                                        .live_steps = 8000,
                                                        .planned = 4,
                                                        .network = 12,
                                                        .host = 2,
                                                        .live_host = 2,
                                                        .audio = 1000,
                                                        .live_audio = 1000});
        if (!i)
            assert_true(p->load.slower > 1.1 && p->load.slower < 1.3);
    }
    assert_true(p->load.slower > 2.9 && p->load.slower < 3);
    assert_true(p->load.costs.host > 0.00195 && p->load.costs.host < 0.002);
    assert_true(steno_pool_crowded(p));
    p->load.since_ns = steno_now_ns() - 1000000000;
    steno_pool_account(p, &(struct steno_pool_work){.steps = 8, .live_steps = 8, .audio = 0.5});
    assert_false(steno_pool_crowded(p));
    assert_true(p->load.slower > 2.9); /* half a second of audio is too little to measure by */
    /* Streams that end together cost much for the little audio they have left. Such seconds do
     * not change the costs. */
    {
        double host = p->load.costs.host, few;
        p->stats.opened += 100;
        p->load.live_turnover += 100;
        account_live(p, 1, 10, 10);
        assert_true(p->load.costs.host == host);
        p->load.live_rate = 10;
        account_live(p, 1, 10, 10);
        few = p->load.costs.host - host;
        assert_true(few > 0); /* in a second without streams that come or go they do */
        p->load.costs.host = host;
        p->load.live_rate = 40;
        account_live(p, 1, 40, 40);
        /* 4 times the streams weigh 64 times as much: 16 times for each second of audio */
        assert_true(p->load.costs.host - host > 48 * few);
    }
    pthread_mutex_unlock(&p->lock);
    steno_pool_close(p);
}

/* Account a second in which streams sent `audio` seconds and the process used one second outside
 * its workers. */
static double other_after(steno_pool *p, double audio)
{
    double before = p->load.other;
    p->load.process_cpu -= 1;
    p->load.since_ns = steno_now_ns() - 1000000000;
    steno_pool_account(p, &(struct steno_pool_work){.audio = audio});
    return p->load.other - before;
}

static void a_rush_of_clients_does_not_change_the_costs(void **state)
{
    (void)state;
    steno_pool *p = pool_of_small();
    double other;
    pthread_mutex_lock(&p->lock);
    p->stats.live = 200;
    p->stats.refused += 5000; /* refused while 200 streams ran, which is the capacity */
    other = other_after(p, 200);
    assert_true(other <= 0 && other >= 0);
    p->stats.opened += 12; /* 12 streams opened: more than a tenth of those that run */
    other = other_after(p, 200);
    assert_true(other <= 0 && other >= 0);
    p->stats.opened += 9;
    p->stats.refused += 200;
    /* one second for 200 s of audio, by a tenth of the way */
    assert_true(other_after(p, 200) > 0.0004);
    p->stats.live = 0;
    pthread_mutex_unlock(&p->lock);
    steno_pool_close(p);
}

/* A pool of a model whose streams run networks of their own, with a lone processor. host: s per s
 * of audio, as known at start. */
static steno_pool *pool_of_large(double host)
{
    const struct steno_pool_costs costs = {
        .step = {1e-12, (double)INFINITY, (double)INFINITY, (double)INFINITY, (double)INFINITY},
        .host = host};
    struct steno_pool_options o = {.workers = 1, .costs = &costs, .max_streams = 1000};
    steno_pool *p = fake_pool(&o);
    pthread_mutex_lock(&p->lock);
    p->load.cpus = 1;
    p->load.quota = (double)INFINITY;
    p->load.other = 0;
    p->stats.live = 20;
    return p;
}

static void close_pool_of_large(steno_pool *p)
{
    p->stats.live = 0;
    pthread_mutex_unlock(&p->lock);
    steno_pool_close(p);
}

static void streams_that_take_steps_by_parts_may_use_more_of_the_processors(void **state)
{
    steno_pool *p = pool_of_large(0.0349);
    (void)state;
    assert_int_equal(steno_pool_capacity_now(p), 20); /* 0.7 / 0.0349 */
    p->load.shares = true;
    assert_int_equal(steno_pool_capacity_now(p), 22); /* 0.8 / 0.0349 */
    p->load.quota = 0.5;
    assert_int_equal(steno_pool_capacity_now(p), 11);
    p->load.quota = (double)INFINITY;
    p->load.cpus = 2;
    assert_int_equal(steno_pool_capacity_now(p), 24); /* the worker's limit, 0.85 */
    close_pool_of_large(p);
}

/* An upload of Whisper costs a third of a live stream's partials and finals. */
static void uploads_do_not_change_what_a_live_stream_costs(void **state)
{
    steno_pool *p = pool_of_large(0.0349);
    (void)state;
    assert_int_equal(steno_pool_capacity_now(p), 20);
    for (int i = 0; i < 120; i++) { /* a minute of uploads beside 20 streams */
        p->load.since_ns = steno_now_ns() - 500000000;
        steno_pool_account(
            p, &(struct steno_pool_work){
                   .host = 0.5, .audio = 10 + 25, .live_host = 0.349, .live_audio = 10});
    }
    assert_int_equal(steno_pool_capacity_now(p), 20);
    for (int i = 0; i < 120; i++) { /* and alone */
        p->load.since_ns = steno_now_ns() - 500000000;
        steno_pool_account(p, &(struct steno_pool_work){.host = 0.5, .audio = 40});
    }
    assert_int_equal(steno_pool_capacity_now(p), 20);
    close_pool_of_large(p);
}

/* Streams that began together are all heard for 5 s, then all of them end an utterance. */
static void the_capacity_stays_while_utterances_begin_and_end(void **state)
{
    steno_pool *p = pool_of_large(0.0349);
    int least = 1000, most = 0;
    (void)state;
    for (int i = 0; i < 200; i++) {
        int n;
        account_live(p, 0.5, 10 * (i / 10 % 2 ? 0.049 : 0.021), 10);
        n = steno_pool_capacity_now(p);
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    assert_in_range(least, 17, 20);
    assert_in_range(most, 20, 23);
    close_pool_of_large(p);
}

/* While many utterances end, the worker is late and takes less audio. */
static void dear_looks_count_although_they_take_less_audio(void **state)
{
    steno_pool *p = pool_of_large(0.0349);
    (void)state;
    for (int i = 0; i < 400; i++)
        account_live(p, 0.5, i % 4 == 3 ? 0.5 : 0.3, i % 4 == 3 ? 7 : 11);
    assert_in_range(steno_pool_capacity_now(p), 19, 20); /* 0.7 of 40 / 1.4 */
    close_pool_of_large(p);
}

/* What was known at start is worth 5 s of a full pool. */
static void a_wrong_estimate_is_corrected_within_a_minute(void **state)
{
    steno_pool *low = pool_of_large(0.0699), *high;
    (void)state;
    assert_int_equal(steno_pool_capacity_now(low), 10);
    for (int i = 0; i < 120; i++) /* as many streams as are let in */
        account_live(low, 0.5, 0.0175 * steno_pool_capacity_now(low),
                     0.5 * steno_pool_capacity_now(low));
    assert_in_range(steno_pool_capacity_now(low), 18, 20);
    close_pool_of_large(low);
    high = pool_of_large(0.0174);
    assert_int_equal(steno_pool_capacity_now(high), 40);
    for (int i = 0; i < 120; i++) /* more streams than the worker can do: it does 28.6 */
        account_live(high, 0.5, 0.5, 14.3);
    assert_in_range(steno_pool_capacity_now(high), 20, 23);
    close_pool_of_large(high);
}

/* In each look some of twenty streams end, as in sessions of 10 s. */
static void the_ends_of_short_sessions_are_part_of_their_cost(void **state)
{
    steno_pool *p = pool_of_large(0.0349);
    (void)state;
    for (int i = 0; i < 240; i++) {
        p->load.live_turnover += i % 2 ? 4 : 0;
        account_live(p, 0.5, 10 * (i % 2 ? 0.049 : 0.021), 10);
    }
    assert_in_range(steno_pool_capacity_now(p), 19, 21);
    close_pool_of_large(p);
}

/* s per s of audio that live streams took so far. */
static double live_cost(steno_pool *p)
{
    double cost;
    while (atomic_load(&p->workers[0].busy))
        sched_yield();
    pthread_mutex_lock(&p->lock);
    cost = p->load.live_host / p->load.live_audio;
    pthread_mutex_unlock(&p->lock);
    return cost;
}

static void live_streams_are_charged_with_their_own_work(void **state)
{
    enum { STEPS = 20, STEP_US = 4000 };
    const double least = 1e-6 * STEP_US * RATE / WINDOW;
    struct steno_pool_options o = {.workers = 1, .batch = 1, .capacity = 2};
    struct steno_pool_stream_options live = {.stream = {.beam = STEP_US}},
                                     upload = {.priority = STENO_POOL_UPLOAD};
    steno_pool *p = fake_pool(&o);
    struct client c[2];
    (void)state;
    pthread_mutex_lock(&p->lock);
    p->load.since_ns = steno_now_ns() + INT64_C(600000000000); /* no look empties the sums */
    pthread_mutex_unlock(&p->lock);
    client_open(&c[0], p, &live);
    client_open(&c[1], p, &upload);
    client_push(&c[0], STEPS * WINDOW / 2, WINDOW);
    client_push(&c[1], 50 * STEPS * WINDOW, WINDOW);
    client_push(&c[0], STEPS * WINDOW / 2, WINDOW);
    for (int i = 0; i < 2; i++) {
        steno_pool_stream_end(c[i].ps);
        client_wait_done(&c[i]);
        client_close(&c[i]);
    }
    assert_true(live_cost(p) >= least);
    assert_true(p->load.live_audio >= 0.999 * STEPS * WINDOW / RATE);
    assert_true(p->load.live_audio <= 1.001 * STEPS * WINDOW / RATE);
    assert_true(p->load.audio >= 49.0 * STEPS * WINDOW / RATE);
    steno_pool_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capacity_follows_from_what_a_stream_costs),
        cmocka_unit_test(costs_are_corrected_by_measured_times),
        cmocka_unit_test(a_rush_of_clients_does_not_change_the_costs),
        cmocka_unit_test(streams_that_take_steps_by_parts_may_use_more_of_the_processors),
        cmocka_unit_test(uploads_do_not_change_what_a_live_stream_costs),
        cmocka_unit_test(the_capacity_stays_while_utterances_begin_and_end),
        cmocka_unit_test(dear_looks_count_although_they_take_less_audio),
        cmocka_unit_test(a_wrong_estimate_is_corrected_within_a_minute),
        cmocka_unit_test(the_ends_of_short_sessions_are_part_of_their_cost),
        cmocka_unit_test(live_streams_are_charged_with_their_own_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
