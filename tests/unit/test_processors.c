#define _GNU_SOURCE /* sched_setaffinity, nftw */
#include "base/processors.h"

#include <ftw.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/threads.h"
#include "tests/support/test.h"

/* Pin this thread to the first processor of the set. */
static void pin_to_one(const cpu_set_t *may)
{
    cpu_set_t one;
    int first = 0;
    while (!CPU_ISSET(first, may))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
}

static void all_that_the_process_may_use_are_counted(void **state)
{
    cpu_set_t before;
    int n = steno_cpu_count();
    (void)state;
    if (sched_getaffinity(0, sizeof before, &before))
        skip(); /* more than 1,024 processors */
    assert_int_equal(n, CPU_COUNT(&before));
    pin_to_one(&before);
    assert_int_equal(steno_cpu_count(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* During half a second of work the free time does not fall, and it grows by no more than all
 * processors for the whole time. */
static void free_time_grows_no_faster_than_time(void **state)
{
    double free = steno_cpu_free(), later;
    int64_t start = steno_now_ns(), now;
    (void)state;
    if (free < 0)
        skip(); /* no /proc */
    do
        now = steno_now_ns();
    while (now - start < 500000000);
    later = steno_cpu_free();
    now = steno_now_ns();
    assert_true(later >= free - 0.1); /* idle and wait may go back a tick or two: proc(5) */
    assert_true(later - free <= (double)(now - start) * 1e-9 * steno_cpu_count() + 0.1);
}

struct spinner {
    atomic_bool stop;
    atomic_llong seconds; /* of a processor that it has used */
};

static void *spin_nicely(void *arg)
{
    struct spinner *s = arg;
    struct timespec t;
    steno_thread_give_way();
    while (!atomic_load(&s->stop)) {
        for (volatile int i = 0; i < 1000000; i++)
            ; /* without the kernel, whose time is nobody's */
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        atomic_store(&s->seconds, (long long)t.tv_sec);
    }
    return NULL;
}

/* The free time includes the work of low-priority threads (steno_thread_give_way), also of this
 * process: they give way to others. A busy kernel sees samples of that work, at worst few. */
static void low_priority_threads_are_free_time(void **state)
{
    struct spinner s = {0};
    cpu_set_t before;
    pthread_t thread;
    double free, later;
    (void)state;
    if (steno_cpu_free() < 0 || sched_getaffinity(0, sizeof before, &before))
        skip();
    pin_to_one(&before); /* which is never idle then */
    free = later = steno_cpu_free();
    assert_int_equal(pthread_create(&thread, NULL, spin_nicely, &s), 0);
    while (later - free < 0.5 && atomic_load(&s.seconds) < 30) {
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        later = steno_cpu_free();
    }
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_true(later - free >= 0.5);
}

static void one_processor_is_free_for_no_longer_than_all(void **state)
{
    cpu_set_t before;
    double all = steno_cpu_free(), some;
    (void)state;
    if (all < 0 || sched_getaffinity(0, sizeof before, &before))
        skip();
    pin_to_one(&before);
    some = steno_cpu_free();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_true(some > 0 && some <= all + 0.1 * CPU_COUNT(&before) + 1);
}

/* ---- control groups -------------------------------------------------------------------------- */

struct tree {
    char dir[32], groups[64];
};

static void write_at(const struct tree *t, const char *path, const char *text)
{
    char name[256];
    FILE *f;
    snprintf(name, sizeof name, "%s/%s", t->dir, path);
    for (char *p = name + strlen(t->dir) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(name, 0700);
        *p = '/';
    }
    f = fopen(name, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void tree_make(struct tree *t, const char *groups)
{
    snprintf(t->dir, sizeof t->dir, "/tmp/steno-groups-XXXXXX");
    assert_non_null(mkdtemp(t->dir));
    snprintf(t->groups, sizeof t->groups, "%s/groups", t->dir);
    write_at(t, "groups", groups);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static void expect(struct tree *t, double quota)
{
    double got = steno_cpu_quota_at(t->groups, t->dir);
    if (!(got >= quota && got <= quota))
        fail_msg("%g, not %g", got, quota);
    assert_int_equal(nftw(t->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void the_least_quota_of_a_group_and_those_above_it_counts(void **state)
{
    struct tree t;
    (void)state;
    tree_make(&t, "0::/system.slice/stenod.service\n");
    write_at(&t, "system.slice/stenod.service/cpu.max", "150000 100000\n");
    write_at(&t, "system.slice/cpu.max", "max 100000\n");
    expect(&t, 1.5);
    tree_make(&t, "0::/system.slice/stenod.service\n");
    write_at(&t, "system.slice/stenod.service/cpu.max", "400000 100000\n");
    write_at(&t, "system.slice/cpu.max", "50000 100000\n");
    expect(&t, 0.5);
    tree_make(&t, "0::/a\n");
    write_at(&t, "a/cpu.max", "max 100000\n");
    expect(&t, (double)INFINITY);
    tree_make(&t, "0::/docker/0123\n"); /* a path of the host, seen from inside a container */
    write_at(&t, "cpu.max", "200000 100000\n");
    expect(&t, 2);
    tree_make(&t, "0::/\n");
    write_at(&t, "cpu.max", "25000 50000\n");
    expect(&t, 0.5);
}

static void version_1_has_its_quota_in_two_files(void **state)
{
    struct tree t;
    (void)state;
    tree_make(&t, "5:memory:/m\n2:cpu,cpuacct:/a/b\n0::/\n");
    write_at(&t, "cpu/a/b/cpu.cfs_quota_us", "-1\n");
    write_at(&t, "cpu/a/b/cpu.cfs_period_us", "100000\n");
    write_at(&t, "cpu/a/cpu.cfs_quota_us", "300000\n");
    write_at(&t, "cpu/a/cpu.cfs_period_us", "100000\n");
    write_at(&t, "cpu/m/cpu.cfs_quota_us", "1000\n"); /* not our group */
    write_at(&t, "cpu/m/cpu.cfs_period_us", "100000\n");
    expect(&t, 3);
    tree_make(&t, "3:cpuset:/c\n");
    write_at(&t, "cpu/c/cpu.cfs_quota_us", "1000\n");
    write_at(&t, "cpu/c/cpu.cfs_period_us", "100000\n");
    expect(&t, (double)INFINITY);
}

static void unreadable_limits_are_no_limits(void **state)
{
    static const char *const groups[] = {"", "0", "0:", "0::", "0::a", ":::", "0::/a\n0::/\n"};
    static const char *const max[] = {"", "max", "0 0", "-1 100000", "100000", "100000 0", "x y"};
    struct tree t;
    (void)state;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        tree_make(&t, groups[i]);
        expect(&t, (double)INFINITY);
    }
    for (size_t i = 0; i < sizeof max / sizeof max[0]; i++) {
        tree_make(&t, "0::/a");
        write_at(&t, "a/cpu.max", max[i]);
        expect(&t, (double)INFINITY);
    }
    assert_true(steno_cpu_quota_at("/nowhere/at/all", "/tmp") > 1e300);
    assert_true(steno_cpu_quota() > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_the_process_may_use_are_counted),
        cmocka_unit_test(free_time_grows_no_faster_than_time),
        cmocka_unit_test(low_priority_threads_are_free_time),
        cmocka_unit_test(the_least_quota_of_a_group_and_those_above_it_counts),
        cmocka_unit_test(version_1_has_its_quota_in_two_files),
        cmocka_unit_test(unreadable_limits_are_no_limits),
        cmocka_unit_test(one_processor_is_free_for_no_longer_than_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
