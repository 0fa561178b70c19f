/* How many live streams a machine carries, by what it shows: exact figures, no threads, no clock.
 * test_capacity_rush.c lets whole machines run. */
#include <math.h>

#include "speech/pool/capacity.h"
#include "tests/support/test.h"

#define SOCKETS 150e-6 /* capacity.c */

struct machine {
    struct steno_capacity c;
    int64_t now;
    double free, worked;
};

static struct machine machine(int workers, int cpus, double planned)
{
    struct machine m = {
        .c = {.planned = planned, .workers = workers, .cpus = cpus, .quota = (double)INFINITY},
        .now = 1,
        .free = 100};
    steno_capacity_start(&m.c, m.now);
    return m;
}

/* Looks for `seconds`, with `rate` live streams that take `own` s per s of audio, uploads and
 * others that keep so many processors busy. */
static void pass(struct machine *m, double seconds, double rate, double own, double uploads,
                 double others)
{
    for (double t = 0; t < seconds; t += STENO_POOL_LOOK_SECONDS) {
        const double s = STENO_POOL_LOOK_SECONDS;
        m->now += (int64_t)(s * 1e9);
        m->worked += s * (rate * own + uploads);
        m->free += s * (m->c.cpus - rate * own - uploads - others);
        steno_capacity_look(&m->c,
                            &(struct steno_capacity_look){.now_ns = m->now,
                                                          .free = m->free,
                                                          .worked = m->worked,
                                                          .audio = s * rate,
                                                          .spent = s * rate * own,
                                                          .planned = s * rate * m->c.planned});
    }
}

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 0.02 * want))
        fail_msg("%g, not %g", got, want);
}

static void what_a_stream_costs_is_the_capacity(void **state)
{
    struct machine m = machine(2, 2, 5e-3 - SOCKETS);
    (void)state;
    near(steno_capacity_fit(&m.c), 1.4 / 5e-3);
    m.c.spent *= 4; /* the machine has become slower */
    near(steno_capacity_fit(&m.c), 1.4 / (4 * (5e-3 - SOCKETS) + SOCKETS));
    m = machine(1, 16, 5e-3);
    near(steno_capacity_fit(&m.c), 0.85 / 5e-3); /* the worker's limit */
    m = machine(2, 2, 5e-3 - SOCKETS);
    m.c.quota = 0.25;
    near(steno_capacity_fit(&m.c), 0.7 * 0.25 / 5e-3);
    m = machine(1, 1, 35e-3 - SOCKETS);
    m.c.parts = true;
    near(steno_capacity_fit(&m.c), 0.8 / 35e-3);
}

static void without_figures_of_others_the_capacity_is_full(void **state)
{
    struct machine m = machine(2, 2, 5e-3 - SOCKETS);
    (void)state;
    for (int i = 0; i < 100; i++)
        steno_capacity_look(
            &m.c, &(struct steno_capacity_look){
                      .now_ns = m.now += 500000000, .free = -1, .worked = i, .audio = 50});
    near(steno_capacity_fit(&m.c), 280);
    steno_capacity_look(&m.c, &(struct steno_capacity_look){.now_ns = m.now}); /* no time */
    near(steno_capacity_fit(&m.c), 280);
}

static void work_of_others_takes_places_while_it_lasts(void **state)
{
    struct machine m = machine(4, 4, 2e-3 - SOCKETS);
    (void)state;
    pass(&m, 30, 0, 0, 0, 0);
    near(steno_capacity_fit(&m.c), 2.8 / 2e-3);
    pass(&m, 30, 0, 0, 0, 1);
    near(steno_capacity_fit(&m.c), 1.8 / 2e-3);
    pass(&m, 30, 500, 2e-3 - SOCKETS, 0, 1 + 500 * SOCKETS); /* beside streams */
    near(steno_capacity_fit(&m.c), 1.8 / 2e-3);
    pass(&m, 30, 500, 2e-3 - SOCKETS, 0, 500 * SOCKETS);
    near(steno_capacity_fit(&m.c), 2.8 / 2e-3);
    pass(&m, 60, 0, 0, 0, 4); /* if all is wanted twice, each gets half */
    near(steno_capacity_fit(&m.c), 1.4 / 2e-3);
    pass(&m, 60, 0, 0, 0, -1); /* the system's clocks disagree */
    near(steno_capacity_fit(&m.c), 2.8 / 2e-3);
}

/* What comes with the streams, as a proxy's work, leaves the fewer places the nearer they come to
 * the capacity. */
static void load_that_comes_with_streams_ends_at_the_limit(void **state)
{
    struct machine m = machine(4, 4, 2e-3 - SOCKETS);
    double rate = 0;
    (void)state;
    for (int i = 0; i < 60; i++) {
        rate += fmin(fmax(steno_capacity_fit(&m.c) - rate, -20), 20);
        pass(&m, 2, rate, 2e-3 - SOCKETS, 0, rate * (1e-3 + SOCKETS));
    }
    near(rate, 2.8 / 3e-3);
}

/* Others that take all that is left do not drive the streams away. */
static void others_that_fill_the_machine_leave_half(void **state)
{
    struct machine m = machine(4, 4, 2e-3 - SOCKETS);
    double rate = 1200;
    (void)state;
    for (int i = 0; i < 120; i++) {
        rate = fmin(rate, steno_capacity_fit(&m.c));
        pass(&m, 1, rate, 2e-3 - SOCKETS, 0, 4 - rate * (2e-3 - SOCKETS));
    }
    near(rate, 1.4 / 2e-3);
}

static void uploads_change_nothing(void **state)
{
    struct machine m = machine(2, 2, 5e-3 - SOCKETS);
    (void)state;
    pass(&m, 60, 140, 5e-3 - SOCKETS, 2 - 140 * (5e-3 - SOCKETS), 0);
    near(steno_capacity_fit(&m.c), 280);
    pass(&m, 60, 0, 0, 2, 0);
    near(steno_capacity_fit(&m.c), 280);
}

static void a_wrong_plan_is_corrected_within_a_minute(void **state)
{
    struct machine m = machine(1, 1, 70e-3);
    (void)state;
    for (int i = 0; i < 60; i++)
        pass(&m, 1, (int)steno_capacity_fit(&m.c), 35e-3, 0, 0);
    assert_in_range((int)steno_capacity_fit(&m.c), 18, 20);
    m = machine(1, 1, 17e-3);
    for (int i = 0; i < 60; i++) /* it can do 28 */
        pass(&m, 1, 28, 35e-3, 0, 0);
    assert_in_range((int)steno_capacity_fit(&m.c), 19, 21);
}

/* Twenty streams that began together are all heard for 5 s, then all of them end an utterance. */
static void the_capacity_stays_while_utterances_begin_and_end(void **state)
{
    struct machine m = machine(1, 1, 35e-3);
    double least = 1000, most = 0;
    (void)state;
    for (int i = 0; i < 400; i++) {
        pass(&m, STENO_POOL_LOOK_SECONDS, 20, i / 10 % 2 ? 49e-3 : 21e-3, 0, 0);
        least = fmin(least, steno_capacity_fit(&m.c));
        most = fmax(most, steno_capacity_fit(&m.c));
    }
    assert_true(least > 17 && most < 23);
}

/* Where many utterances end at once a worker is late and takes less audio, or none. */
static void dear_looks_count_although_they_take_less_audio(void **state)
{
    struct machine m = machine(1, 1, 35e-3);
    double sum = 0;
    (void)state;
    for (int i = 0; i < 440; i++) {
        const double audio = i % 4 == 3 ? 0 : 13;
        m.now += 500000000;
        steno_capacity_look(&m.c, &(struct steno_capacity_look){.now_ns = m.now,
                                                                .audio = audio,
                                                                .spent = i % 4 == 3 ? 0.5 : 0.3,
                                                                .planned = 35e-3 * audio});
        sum += i < 400 ? 0 : steno_capacity_fit(&m.c) / 40;
    }
    near(sum, 0.7 / (1.4 / 39 + SOCKETS));
}

static void few_streams_teach_little(void **state)
{
    struct machine few = machine(2, 2, 5e-3), many = few;
    (void)state;
    pass(&few, 60, 14, 10e-3, 0, 0); /* a twentieth of the capacity, by themselves */
    pass(&many, 60, 140, 10e-3, 0, 0);
    assert_true(steno_capacity_slower(&few.c) < 1.05);
    assert_true(steno_capacity_slower(&many.c) > 1.8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_stream_costs_is_the_capacity),
        cmocka_unit_test(without_figures_of_others_the_capacity_is_full),
        cmocka_unit_test(work_of_others_takes_places_while_it_lasts),
        cmocka_unit_test(load_that_comes_with_streams_ends_at_the_limit),
        cmocka_unit_test(others_that_fill_the_machine_leave_half),
        cmocka_unit_test(uploads_change_nothing),
        cmocka_unit_test(a_wrong_plan_is_corrected_within_a_minute),
        cmocka_unit_test(the_capacity_stays_while_utterances_begin_and_end),
        cmocka_unit_test(dear_looks_count_although_they_take_less_audio),
        cmocka_unit_test(few_streams_teach_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
