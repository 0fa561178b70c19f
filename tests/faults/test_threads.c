/* A worker team that gets no threads or no memory: an error, and nothing is left behind. */
/* ldflags: -Wl,--wrap=pthread_create,--wrap=malloc,--wrap=calloc */
#include "base/threads.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

static int creations_left = -1, allocations_left = -1; /* -1: no limit */

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
void *__real_malloc(size_t);
void *__wrap_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__wrap_calloc(size_t, size_t);

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
    if (creations_left == 0)
        return EAGAIN;
    creations_left -= creations_left > 0;
    return __real_pthread_create(t, a, fn, arg);
}

static bool refuse(void)
{
    if (allocations_left == 0)
        return true;
    allocations_left -= allocations_left > 0;
    return false;
}

void *__wrap_malloc(size_t n)
{
    return refuse() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return refuse() ? NULL : __real_calloc(n, size);
}

static void nth_thread_that_cannot_start_is_an_error(void **state)
{
    steno_err err;
    (void)state;
    for (int n = 0; n < 3; n++) {
        steno_team *t = NULL;
        steno_status st;
        creations_left = n;
        st = steno_team_new(&t, 4, &err);
        creations_left = -1;
        assert_int_equal(st, STENO_ERR_NOMEM);
        assert_null(t);
        assert_non_null(strstr(err.msg, "steno-op-"));
    }
}

static void nth_allocation_that_fails_is_an_error(void **state)
{
    int n = 0;
    (void)state;
    for (;; n++) {
        steno_team *t = NULL;
        steno_status st;
        allocations_left = n;
        st = steno_team_new(&t, 3, NULL);
        allocations_left = -1;
        if (!st) {
            steno_team_free(t);
            break;
        }
        assert_int_equal(st, STENO_ERR_NOMEM);
        assert_null(t);
        assert_true(n < 20);
    }
    assert_true(n >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nth_thread_that_cannot_start_is_an_error),
        cmocka_unit_test(nth_allocation_that_fails_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
