/* Connections are watched for a hangup while their requests wait. */
/* link: server/http/hangup.c */

#include "base/clock.h"
#include "server/http/hangup.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

struct seen {
    atomic_int begun, calls, timeouts, halves;
    atomic_bool slow;
};

static void on_hangup(void *user, enum steno_hangup_why why)
{
    struct seen *s = user;
    if (why == STENO_HANGUP_HALF) {
        atomic_fetch_add(&s->halves, 1);
        return;
    }
    atomic_fetch_add(&s->begun, 1);
    if (atomic_load(&s->slow))
        usleep(100000);
    atomic_fetch_add(&s->timeouts, why == STENO_HANGUP_LATE);
    atomic_fetch_add(&s->calls, 1);
}

/* Whether the count is reached within a minute; a busy machine may need that long. */
static bool happened(const atomic_int *count)
{
    for (int i = 0; i < 6000 && !atomic_load(count); i++)
        usleep(10000);
    return atomic_load(count) > 0;
}

static void a_client_that_leaves_is_reported_once(void **state)
{
    steno_hangup *h;
    struct seen s = {0};
    int p[2];
    steno_hangup_id id;
    (void)state;
    assert_int_equal(steno_hangup_open(&h, 4, NULL), STENO_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p), 0);
    id = steno_hangup_watch(h, p[0], 0, on_hangup, &s);
    assert_true(id != 0);
    assert_int_equal(write(p[1], "data is no reason", 17), 17);
    usleep(50000);
    assert_int_equal(atomic_load(&s.calls), 0);
    close(p[1]);
    assert_true(happened(&s.calls));
    usleep(250000);
    assert_int_equal(atomic_load(&s.calls), 1);
    assert_int_equal(atomic_load(&s.timeouts), 0);
    steno_hangup_forget(h, id);
    steno_hangup_forget(h, id); /* an id that is no longer in use: no effect */
    steno_hangup_forget(h, 0);
    close(p[0]);
    steno_hangup_close(h);
}

static void a_deadline_passes_without_events(void **state)
{
    steno_hangup *h;
    struct seen s = {0};
    int p[2];
    (void)state;
    assert_int_equal(steno_hangup_open(&h, 4, NULL), STENO_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p), 0);
    assert_true(steno_hangup_watch(h, p[0], steno_now_ns() + 50000000, on_hangup, &s) != 0);
    assert_true(happened(&s.calls));
    assert_int_equal(atomic_load(&s.timeouts), 1);
    close(p[0]);
    close(p[1]);
    steno_hangup_close(h);
}

static void a_half_closed_client_is_recognized_and_still_watched(void **state)
{
    steno_hangup *h;
    struct seen s = {0};
    steno_hangup_id id;
    int p[2];
    (void)state;
    assert_int_equal(steno_hangup_open(&h, 4, NULL), STENO_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p), 0);
    id = steno_hangup_watch(h, p[0], 0, on_hangup, &s);
    assert_true(id != 0);
    assert_int_equal(shutdown(p[1], SHUT_WR), 0);
    assert_true(happened(&s.halves));
    assert_int_equal(atomic_load(&s.halves), 1);
    assert_int_equal(atomic_load(&s.calls), 0);
    steno_hangup_extend(h, id, steno_now_ns() + 1);
    steno_hangup_extend(h, id + 1, 1); /* another id: no effect */
    assert_true(happened(&s.calls));
    assert_int_equal(atomic_load(&s.timeouts), 1);
    assert_int_equal(atomic_load(&s.halves), 1);
    close(p[0]);
    close(p[1]);
    steno_hangup_close(h);
}

static void forget_waits_for_a_running_call_and_ends_the_watch(void **state)
{
    steno_hangup *h;
    struct seen s = {0};
    int p[2], q[2];
    steno_hangup_id id;
    (void)state;
    assert_int_equal(steno_hangup_open(&h, 1, NULL), STENO_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, q), 0);
    atomic_store(&s.slow, true);
    id = steno_hangup_watch(h, p[0], 0, on_hangup, &s);
    assert_true(id != 0);
    assert_true(steno_hangup_watch(h, q[0], 0, on_hangup, &s) == 0); /* all places are taken */
    close(p[1]);
    assert_true(happened(&s.begun));
    steno_hangup_forget(h, id);
    assert_int_equal(atomic_load(&s.calls), 1);
    /* the place is free again; its former watch does not fire any more */
    id = steno_hangup_watch(h, q[0], 0, on_hangup, &s);
    assert_true(id != 0);
    usleep(150000);
    assert_int_equal(atomic_load(&s.calls), 1);
    steno_hangup_forget(h, id);
    close(q[1]);
    usleep(50000);
    assert_int_equal(atomic_load(&s.calls), 1);
    close(p[0]);
    close(q[0]);
    steno_hangup_close(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_leaves_is_reported_once),
        cmocka_unit_test(a_deadline_passes_without_events),
        cmocka_unit_test(a_half_closed_client_is_recognized_and_still_watched),
        cmocka_unit_test(forget_waits_for_a_running_call_and_ends_the_watch),
    };
    return cmocka_run_group_tests_name("hangup", tests, NULL, NULL);
}
