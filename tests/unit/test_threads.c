#include "base/threads.h"
#include "tests/support/test.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

struct job {
    atomic_int runs[64];
    int n;
};

static void count(void *arg, int part)
{
    struct job *j = arg;
    atomic_fetch_add_explicit(&j->runs[part], 1, memory_order_relaxed);
}

static void check_job(steno_team *t, int n)
{
    struct job j = {.n = n};
    steno_team_run(t, n, count, &j);
    for (int i = 0; i < 64; i++)
        assert_int_equal(atomic_load(&j.runs[i]), i < n);
}

static void every_part_runs_exactly_once(void **state)
{
    (void)state;
    for (int size = 1; size <= 4; size++) {
        steno_team *t = NULL;
        assert_int_equal(steno_team_new(&t, size, NULL), STENO_OK);
        assert_int_equal(steno_team_size(t), size);
        for (int round = 0; round < 500; round++)
            check_job(t, round % 65);
        steno_team_free(t);
    }
}

enum { TEAM = 3, JOBS = 200 };

struct meeting {
    atomic_int there;
    pthread_t by[TEAM];
};

/* Returns once every part is running, so that each thread has exactly one. */
static void meet(void *arg, int part)
{
    struct meeting *m = arg;
    m->by[part] = pthread_self();
    atomic_fetch_add(&m->there, 1);
    while (atomic_load(&m->there) < TEAM)
        sched_yield();
}

static void a_part_stays_with_its_thread(void **state)
{
    steno_team *t = NULL;
    pthread_t worker[TEAM] = {0};
    (void)state;
    assert_int_equal(steno_team_new(&t, TEAM, NULL), STENO_OK);
    for (int job = 0; job < JOBS; job++) {
        struct meeting m = {0};
        steno_team_run(t, TEAM, meet, &m);
        assert_true(pthread_equal(m.by[0], pthread_self()));
        for (int i = 1; i < TEAM; i++) {
            if (job)
                assert_true(pthread_equal(m.by[i], worker[i]));
            worker[i] = m.by[i];
        }
    }
    assert_false(pthread_equal(worker[1], worker[2]));
    steno_team_free(t);
}

static void sleeping_team_wakes_up(void **state)
{
    steno_team *t = NULL;
    (void)state;
    assert_int_equal(steno_team_new(&t, 3, NULL), STENO_OK);
    for (int round = 0; round < 5; round++) {
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
        check_job(t, 7);
    }
    steno_team_free(t);
}

static void no_team_runs_inline(void **state)
{
    (void)state;
    assert_int_equal(steno_team_size(NULL), 1);
    check_job(NULL, 5);
    steno_team_free(NULL);
}

static void impossible_size_is_an_error(void **state)
{
    steno_team *t = NULL;
    steno_err err;
    (void)state;
    assert_int_equal(steno_team_new(&t, 0, &err), STENO_ERR_INVAL);
    assert_int_equal(steno_team_new(&t, 1000000, &err), STENO_ERR_INVAL);
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_runs_exactly_once),
        cmocka_unit_test(a_part_stays_with_its_thread),
        cmocka_unit_test(sleeping_team_wakes_up),
        cmocka_unit_test(no_team_runs_inline),
        cmocka_unit_test(impossible_size_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
