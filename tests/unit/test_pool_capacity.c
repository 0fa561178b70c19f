/* What the pool's workers tell the capacity (test_capacity.c): live streams' audio and time. */
/* link: tests/unit/pool_fake.c */
#include <math.h>
#include <sched.h>

#include "tests/unit/pool_fake.h"
#include "tests/support/test.h"

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
    p->load.capacity.cpus = 16;
    p->load.capacity.quota = (double)INFINITY;
    pthread_mutex_unlock(&p->lock);
    steno_pool_get_stats(p, &st);
    assert_in_range(st.capacity, 169, 170); /* one worker: 0.85 / 5 ms */
    assert_true(fabs(st.each - 0.005) < 1e-9);
    assert_true(fabs(st.costs.host - 0.001) < 1e-9);
    pthread_mutex_lock(&p->lock);
    p->load.capacity.spent *= 2; /* all takes twice as long */
    pthread_mutex_unlock(&p->lock);
    steno_pool_get_stats(p, &st);
    assert_in_range(st.capacity, 84, 85);
    assert_true(fabs(st.costs.host - 0.002) < 1e-9);
    assert_true(fabs(st.costs.step[1] - 0.004) < 1e-9);
    pthread_mutex_lock(&p->lock);
    p->load.capacity.spent *= 1000; /* one stream is always admitted */
    assert_int_equal(steno_pool_capacity_now(p), 1);
    pthread_mutex_unlock(&p->lock);
    steno_pool_close(p);
}

/* Half a second in which `steps` live streams took a step of 125 ms each. */
static void look_after(steno_pool *p, uint64_t steps)
{
    pthread_mutex_lock(&p->lock);
    p->load.steps = steps;
    p->load.capacity.at_ns = steno_now_ns() - 500000000;
    pthread_mutex_unlock(&p->lock);
    steno_pool_look(p);
}

/* Alone each step takes 1 ms of the network and 0.125 of the rest. */
static void more_steps_than_a_worker_can_do_alone_are_a_crowd(void **state)
{
    steno_pool *p = pool_of_small();
    (void)state;
    look_after(p, 350);
    assert_false(steno_pool_crowded(p));
    look_after(p, 550);
    assert_true(steno_pool_crowded(p));
    look_after(p, 0);
    assert_false(steno_pool_crowded(p));
    steno_pool_close(p);
}

static void wait_idle(steno_pool *p)
{
    while (atomic_load(&p->workers[0].busy))
        sched_yield();
}

static void live_streams_are_charged_with_their_own_work(void **state)
{
    enum { STEPS = 20 };
    const double audio = STEPS * (double)WINDOW / RATE, least = STEPS * FAKE_BURN;
    struct steno_pool_options o = {.workers = 1, .batch = 1, .capacity = 2};
    struct steno_pool_stream_options live = {.priority = STENO_POOL_LIVE},
                                     upload = {.priority = STENO_POOL_UPLOAD};
    struct steno_pool_ops ops = fake_ops;
    steno_pool *p = NULL;
    struct client c[2];
    (void)state;
    ops.step = fake_step_and_burn;
    assert_int_equal(steno_pool_open_with(&p, &ops, NULL, &o, NULL), STENO_OK);
    pthread_mutex_lock(&p->lock);
    p->load.capacity.at_ns = INT64_MAX / 2; /* no look empties the sums */
    pthread_mutex_unlock(&p->lock);
    client_open(&c[0], p, &live);
    client_open(&c[1], p, &upload);
    client_push(&c[0], STEPS * WINDOW / 2, WINDOW);
    client_push(&c[1], 5 * STEPS * WINDOW, WINDOW);
    client_push(&c[0], STEPS * WINDOW / 2, WINDOW);
    for (int i = 0; i < 2; i++) {
        steno_pool_stream_end(c[i].ps);
        client_wait_done(&c[i]);
        client_close(&c[i]);
    }
    wait_idle(p);
    pthread_mutex_lock(&p->lock);
    assert_true(fabs(p->load.since.audio - audio) <= 0.001 * audio);
    assert_in_range(p->load.steps, STEPS, STEPS + 1); /* and one of silence at the end */
    assert_true(p->load.since.spent >= least && p->load.since.spent < 2 * least);
    pthread_mutex_unlock(&p->lock);
    steno_pool_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capacity_follows_from_what_a_stream_costs),
        cmocka_unit_test(more_steps_than_a_worker_can_do_alone_are_a_crowd),
        cmocka_unit_test(live_streams_are_charged_with_their_own_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
