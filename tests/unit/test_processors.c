#define _GNU_SOURCE /* sched_setaffinity */
#include "base/processors.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

static void all_that_the_process_may_use_are_counted(void **state)
{
    cpu_set_t before, one;
    int n = steno_cpu_count(), first = 0;
    (void)state;
    if (sched_getaffinity(0, sizeof before, &before))
        skip(); /* more than 1,024 */
    assert_int_equal(n, CPU_COUNT(&before));
    while (!CPU_ISSET(first, &before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(steno_cpu_count(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* Over half a second of work: not less than before, and no more than all of them for all the time.
 */
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

static void one_processor_is_free_for_no_longer_than_all(void **state)
{
    cpu_set_t before, one;
    int first = 0;
    double all = steno_cpu_free(), some;
    (void)state;
    if (all < 0 || sched_getaffinity(0, sizeof before, &before))
        skip();
    while (!CPU_ISSET(first, &before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    some = steno_cpu_free();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_true(some > 0 && some <= all + 0.1 * CPU_COUNT(&before) + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_the_process_may_use_are_counted),
        cmocka_unit_test(free_time_grows_no_faster_than_time),
        cmocka_unit_test(one_processor_is_free_for_no_longer_than_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
