/* The waker: calls for what becomes readable or writable, none after a watch was ended. */
/* link: server/http/waker.c */
#include "server/http/waker.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MAX 3

static void count(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

static void nap(int ms)
{
    const struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

static void wait_for(atomic_int *calls, int least)
{
    for (int i = 0; atomic_load(calls) < least; i++) {
        assert_true(i < 10000);
        nap(1);
    }
}

static void calls_come_for_bytes_room_and_the_end(void **state)
{
    steno_waker *w;
    atomic_int reads = 0, writes = 0;
    int fd[2], room = 0;
    char block[4096] = "";
    steno_waker_id in, out;
    (void)state;
    assert_int_equal(steno_waker_open(&w, MAX, NULL), STENO_OK);
    assert_int_equal(pipe(fd), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fcntl(fd[i], F_SETFL, O_NONBLOCK), 0);
    in = steno_waker_watch(w, fd[0], -1, count, &reads);
    out = steno_waker_watch(w, -1, fd[1], count, &writes);
    assert_true(in && out && in != out);
    wait_for(&writes, 1); /* there is room now */
    assert_int_equal(atomic_load(&reads), 0);
    while (write(fd[1], block, sizeof block) > 0)
        ;
    wait_for(&reads, 1);
    room = atomic_load(&writes);
    while (read(fd[0], block, sizeof block) > 0)
        ;
    wait_for(&writes, room + 1);
    room = atomic_load(&reads);
    steno_waker_forget(w, out);
    close(fd[1]);
    wait_for(&reads, room + 1); /* the end of the pipe */
    steno_waker_forget(w, in);
    close(fd[0]);
    steno_waker_close(w);
}

static void an_ended_watch_is_silent_and_its_place_free(void **state)
{
    steno_waker *w;
    atomic_int old = 0, new = 0;
    int fd[2];
    (void)state;
    assert_int_equal(steno_waker_open(&w, 1, NULL), STENO_OK);
    assert_int_equal(pipe(fd), 0);
    for (int i = 0; i < 100; i++) {
        steno_waker_id first = steno_waker_watch(w, fd[0], -1, count, &old), second;
        int again[2];
        assert_true(first != 0);
        assert_int_equal(steno_waker_watch(w, fd[0], -1, count, &old), 0); /* no place */
        steno_waker_forget(w, first);
        assert_int_equal(pipe(again), 0);
        second = steno_waker_watch(w, again[0], -1, count, &new);
        assert_true(second && second != first);
        assert_int_equal(write(fd[1], "x", 1), 1); /* the old descriptor is still with epoll */
        assert_int_equal(write(again[1], "x", 1), 1);
        wait_for(&new, i + 1);
        steno_waker_forget(w, first); /* a second time: nothing */
        steno_waker_forget(w, second);
        close(again[0]);
        close(again[1]);
        close(fd[0]);
        close(fd[1]);
        assert_int_equal(pipe(fd), 0);
    }
    assert_int_equal(atomic_load(&old), 0);
    assert_int_equal(atomic_load(&new), 100);
    steno_waker_forget(w, 0);
    steno_waker_forget(NULL, 0);
    steno_waker_close(w);
    close(fd[0]);
    close(fd[1]);
}

static void slowly(void *user)
{
    atomic_int *phase = user;
    atomic_store(phase, 1);
    nap(50);
    atomic_store(phase, 2);
}

static void forget_waits_for_a_running_call(void **state)
{
    steno_waker *w;
    atomic_int phase = 0;
    int fd[2];
    steno_waker_id id;
    (void)state;
    assert_int_equal(steno_waker_open(&w, MAX, NULL), STENO_OK);
    assert_int_equal(pipe(fd), 0);
    id = steno_waker_watch(w, fd[0], -1, slowly, &phase);
    assert_int_equal(write(fd[1], "x", 1), 1);
    wait_for(&phase, 1);
    steno_waker_forget(w, id);
    assert_int_equal(atomic_load(&phase), 2);
    steno_waker_close(w);
    close(fd[0]);
    close(fd[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_come_for_bytes_room_and_the_end),
        cmocka_unit_test(an_ended_watch_is_silent_and_its_place_free),
        cmocka_unit_test(forget_waits_for_a_running_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
