/* Trial streams that a pool measures, before it opens or while it serves, with the options of
 * later live streams. */
/* link: tests/unit/pool_fake.c */
#include <math.h>
#include <sched.h>
#include <string.h>

#include "tests/unit/pool_fake.h"
#include "tests/support/test.h"

/* ---- a family whose streams run networks of their own ---- */

static steno_status measure_nothing(steno_batcher *p, double longest, struct steno_step_costs *c,
                                    steno_err *err)
{
    (void)p;
    (void)longest;
    (void)err;
    c->more = true;
    for (int i = 0; i < STENO_BATCH_SIZES; i++)
        c->seconds[i] = i ? (double)INFINITY : 0;
    return STENO_OK;
}

static void take_any_costs(steno_batcher *p, const struct steno_step_costs *c)
{
    (void)p;
    (void)c;
}

static steno_pool *pool_of_wholes(const struct steno_pool_options *o)
{
    static struct steno_pool_ops ops;
    steno_pool *p = NULL;
    ops = fake_ops;
    ops.measure = measure_nothing;
    ops.set_costs = take_any_costs;
    assert_int_equal(steno_pool_open_with(&p, &ops, NULL, o, NULL), STENO_OK);
    return p;
}

/* ---- the report to the owner ---- */

struct told {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int times, failures;
    struct steno_pool_costs costs;
    double each;
};

static void on_measured(void *user, const struct steno_pool_costs *costs, bool quiet, double each)
{
    struct told *t = user;
    (void)quiet;
    pthread_mutex_lock(&t->lock);
    t->each = each;
    t->times++;
    t->failures += !costs;
    if (costs)
        t->costs = *costs;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void wait_told(struct told *t)
{
    pthread_mutex_lock(&t->lock);
    while (!t->times)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

#define TOLD                                                                                       \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                     \
    }

static struct steno_pool_options options(struct told *t, char name)
{
    return (struct steno_pool_options){.workers = 2,
                                       .max_streams = 16,
                                       .trial = {.endpoint = {.longest = name}},
                                       .on_measured = on_measured,
                                       .measured_user = t};
}

/* ---- tests ---- */

static void a_batching_network_is_measured_before_the_pool_opens(void **state)
{
    struct told t = TOLD;
    struct steno_pool_options o = options(&t, 'T');
    struct steno_pool_stats st;
    steno_pool *p;
    (void)state;
    fake_log_reset();
    p = fake_pool(&o);
    assert_int_equal(t.times, 1);
    assert_true(t.each == 0);
    assert_true(t.costs.step[0] > 0);
    assert_int_equal(fake_log()[0], 'T'); /* with the name of the trial's options */
    steno_pool_get_stats(p, &st);
    assert_false(st.measuring);
    steno_pool_close(p);
    o.costs = &t.costs;
    p = fake_pool(&o);
    assert_int_equal(t.times, 1); /* the costs are known: nothing is measured */
    steno_pool_close(p);
    assert_int_equal(open_batchers, 0);
}

static void the_pool_serves_while_streams_are_measured(void **state)
{
    struct told t = TOLD;
    struct steno_pool_options o = options(&t, 'T');
    struct steno_pool_stats st;
    struct client c[2];
    steno_pool *p;
    (void)state;
    fake_log_reset();
    fake_barrier(false);
    p = pool_of_wholes(&o); /* it opens although no step ends */
    steno_pool_get_stats(p, &st);
    assert_true(st.measuring);
    assert_int_equal(st.capacity, 2); /* a stream for each worker */
    for (int i = 0; i < 2; i++)
        client_open(&c[i], p, NULL);
    assert_int_equal(steno_pool_admit(p, STENO_POOL_LIVE, NULL), STENO_ERR_BUSY);
    fake_wait_batches(1);
    assert_int_equal(fake_log()[0], 'T');
    fake_barrier(true);
    wait_told(&t);
    steno_pool_get_stats(p, &st);
    assert_false(st.measuring);
    assert_int_equal(t.failures, 0);
    assert_true(t.each >= t.costs.host);
    assert_memory_equal(&st.costs.host, &t.costs.host, sizeof t.costs.host);
    for (int i = 0; i < 2; i++)
        client_close(&c[i]);
    steno_pool_close(p);
    assert_int_equal(t.times, 1);
    assert_int_equal(open_fakes, 0);
    assert_int_equal(open_batchers, 0);
}

static void the_time_of_steps_without_a_trial_limits_the_capacity(void **state)
{
    const double least = FAKE_BURN * RATE / WINDOW; /* of a processor, per second of audio */
    struct told t = TOLD;
    struct steno_pool_options o = options(&t, 'T');
    struct steno_pool_ops ops = fake_ops;
    struct steno_pool_stats st;
    steno_pool *p = NULL;
    (void)state;
    ops.measure = measure_nothing;
    ops.set_costs = take_any_costs;
    ops.step = fake_step_and_burn;
    o.max_streams = 4096;
    assert_int_equal(steno_pool_open_with(&p, &ops, NULL, &o, NULL), STENO_OK);
    wait_told(&t);
    assert_int_equal(t.failures, 0);
    assert_true(t.costs.host >= least && t.costs.host < 3 * least);
    assert_true(t.each >= t.costs.host);
    steno_pool_get_stats(p, &st);
    assert_in_range(st.capacity, 1, (int)(o.workers / least));
    steno_pool_close(p);
}

static void with_a_given_capacity_nothing_is_measured(void **state)
{
    struct told t = TOLD;
    struct steno_pool_options o = options(&t, 'T');
    struct steno_pool_stats st;
    steno_pool *p;
    (void)state;
    o.capacity = 3;
    fake_log_reset();
    p = pool_of_wholes(&o);
    steno_pool_get_stats(p, &st);
    assert_false(st.measuring);
    assert_int_equal(st.capacity, 3);
    steno_pool_close(p);
    assert_string_equal(fake_log(), "");
    assert_int_equal(t.times, 0);
}

static void *close_it(void *pool)
{
    steno_pool_close(pool);
    return NULL;
}

static void closing_stops_the_measurement(void **state)
{
    struct told t = TOLD;
    struct steno_pool_options o = options(&t, 'T');
    pthread_t closer;
    steno_pool *p;
    (void)state;
    fake_log_reset();
    fake_barrier(false);
    p = pool_of_wholes(&o);
    fake_wait_batches(1);
    assert_int_equal(pthread_create(&closer, NULL, close_it, p), 0);
    while (!atomic_load(&p->give_up)) /* close waits for the step, the step waits for the barrier */
        sched_yield();
    fake_barrier(true);
    pthread_join(closer, NULL);
    assert_int_equal(t.times, 0);
    assert_int_equal(open_fakes, 0);
    assert_int_equal(open_batchers, 0);
}

static void options_that_do_not_suit_the_model_are_left_out(void **state)
{
    struct told t = TOLD;
    struct steno_pool_options o = options(&t, 'T');
    steno_pool *p;
    (void)state;
    o.trial.sample_rate = 1; /* fakes do not open with this rate */
    fake_log_reset();
    p = pool_of_wholes(&o);
    wait_told(&t);
    assert_int_equal(t.failures, 0);
    assert_int_equal(fake_log()[0], '?');
    steno_pool_close(p);
}

static void a_failed_trial_is_reported_and_the_pool_serves(void **state)
{
    struct told t = TOLD;
    struct steno_pool_options o = options(&t, 'T');
    struct steno_pool_stats st;
    steno_pool *p;
    (void)state;
    o.trial.n_best = 1; /* the first step fails */
    p = pool_of_wholes(&o);
    wait_told(&t);
    assert_int_equal(t.failures, 1);
    steno_pool_get_stats(p, &st);
    assert_false(st.measuring);
    assert_int_equal(steno_pool_admit(p, STENO_POOL_LIVE, NULL), STENO_OK);
    steno_pool_close(p);
    assert_int_equal(open_fakes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batching_network_is_measured_before_the_pool_opens),
        cmocka_unit_test(the_pool_serves_while_streams_are_measured),
        cmocka_unit_test(the_time_of_steps_without_a_trial_limits_the_capacity),
        cmocka_unit_test(with_a_given_capacity_nothing_is_measured),
        cmocka_unit_test(closing_stops_the_measurement),
        cmocka_unit_test(options_that_do_not_suit_the_model_are_left_out),
        cmocka_unit_test(a_failed_trial_is_reported_and_the_pool_serves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
