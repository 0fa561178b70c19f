/* Capacity on a machine that runs other processes too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "speech/pool/others.h"

#define CPUS 4
#define MOST 1000 /* s of audio per s: about the capacity */
#define OWN 2e-3  /* s of processor time per s of audio */

struct machine {
    struct steno_pool_others o;
    int64_t now;
    double free, process;
};

/* One look every half second for `seconds`, with streams at `rate` and other processes that use
 * `others` processors. */
static void pass(struct machine *m, double seconds, double rate, double others)
{
    for (double t = 0; t < seconds; t += 0.5) {
        m->now += 500000000;
        m->process += 0.5 * rate * OWN;
        m->free += 0.5 * (CPUS - rate * OWN - others);
        steno_pool_others_look(&m->o, m->now, CPUS, m->free, m->process, rate, MOST);
    }
}

static void near(double got, double want)
{
    if (!(got > want - 0.02 * want && got < want + 0.02 * want))
        fail_msg("%g, not %g", got, want);
}

static void without_figures_of_others_the_capacity_is_full(void **state)
{
    struct steno_pool_others o = {0};
    (void)state;
    near(steno_pool_others_fit(&o, 3, OWN), 1500);
    /* the system does not report free time */
    steno_pool_others_look(&o, 1000000000, CPUS, -1, 1, 100, MOST);
    near(steno_pool_others_fit(&o, 3, OWN), 1500);
    /* the first look has no difference yet */
    steno_pool_others_look(&o, 2000000000, CPUS, 5, 1, 100, MOST);
    near(steno_pool_others_fit(&o, 3, OWN), 1500);
}

static void a_job_of_others_lowers_the_capacity_while_it_runs(void **state)
{
    struct machine m = {.free = 100};
    (void)state;
    pass(&m, 30, 0, 0);
    near(steno_pool_others_fit(&m.o, 3, OWN), 1500);
    pass(&m, 30, 0, 1);
    near(steno_pool_others_fit(&m.o, 3, OWN), 1000);
    pass(&m, 30, 500, 1); /* the same with streams */
    near(steno_pool_others_fit(&m.o, 3, OWN), 1000);
    pass(&m, 60, 500, 0);
    near(steno_pool_others_fit(&m.o, 3, OWN), 1500);
}

/* A proxy uses half of what the streams use. The pool learns it at half load and remembers it
 * without load. */
static void load_that_comes_with_the_streams_is_remembered(void **state)
{
    struct machine m = {.free = 100};
    (void)state;
    pass(&m, 10, 0, 0);
    pass(&m, 60, 500, 500 * OWN / 2);
    near(steno_pool_others_fit(&m.o, 3, OWN), 1000);
    pass(&m, 60, 0, 0);
    near(steno_pool_others_fit(&m.o, 3, OWN), 1000);
    pass(&m, 60, 1000, 1000 * OWN / 2);
    near(steno_pool_others_fit(&m.o, 3, OWN), 1000);
    pass(&m, 60, 500, 0); /* the proxy has moved to another machine */
    near(steno_pool_others_fit(&m.o, 3, OWN), 1500);
}

static void others_that_want_all_processors_get_half(void **state)
{
    struct machine m = {.free = 100};
    (void)state;
    pass(&m, 60, 0, CPUS);
    near(steno_pool_others_fit(&m.o, 3, OWN), 750);
    pass(&m, 60, 0, 2 * CPUS); /* the system's clocks disagree */
    assert_true(m.o.busy <= CPUS);
    pass(&m, 60, 0, -1);
    assert_true(m.o.busy >= 0 && m.o.busy < 0.01);
}

/* Others begin when the streams run already, and take all that is left. The streams that are let in
 * then are not fewer with each look. */
static void a_job_that_begins_beside_streams_gets_no_more_than_half(void **state)
{
    struct machine m = {.free = 100};
    double rate = 600;
    (void)state;
    pass(&m, 10, 0, 0);
    pass(&m, 10, rate, 0);
    for (int i = 0; i < 60; i++) {
        double fit = steno_pool_others_fit(&m.o, 3, OWN);
        rate = rate < fit ? rate : fit;
        pass(&m, 1, rate, CPUS - rate * OWN);
    }
    near(rate, 600);
    near(steno_pool_others_fit(&m.o, 3, OWN), 750);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_figures_of_others_the_capacity_is_full),
        cmocka_unit_test(a_job_of_others_lowers_the_capacity_while_it_runs),
        cmocka_unit_test(load_that_comes_with_the_streams_is_remembered),
        cmocka_unit_test(others_that_want_all_processors_get_half),
        cmocka_unit_test(a_job_that_begins_beside_streams_gets_no_more_than_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
