/* The 1st, 2nd, ... nth allocation fails in a session of /v1/stream. Each time the session ends
 * with one of our close codes, every sent answer is whole, and nothing leaks (AddressSanitizer's
 * build checks); at last the scenario passes. When jansson's allocations fail too, the session
 * still ends in order, but jansson 2.14 reports some of them as syntax errors. */
/* link: server/live/ws_session.c server/live/ws_session_input.c server/live/ws_session_audio.c */
/* link: server/live/ws_session_swap.c server/live/ws_session_end.c */
/* link: server/live/ws_session_resume.c server/live/history.c server/live/outbox.c */
/* link: server/live/ws_session_store.c */
/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/live/ws_session.h"
#include "tests/support/free_room.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/test.h"

static bool jansson_too;

static void *for_jansson(size_t n)
{
    return jansson_too ? malloc(n) : __real_malloc(n);
}

struct fake {
    size_t room, taken;
    int opens, ends;
};

static steno_status resolve(void *ctx, struct steno_dialect_session *d, steno_err *err)
{
    struct steno_native_start *s = &d->start;
    (void)ctx, (void)err;
    snprintf(s->model, sizeof s->model, "digits-en");
    return STENO_OK;
}

static steno_status open_place(void *ctx, const struct steno_native_start *s, int rate,
                               steno_err *err)
{
    (void)s, (void)rate, (void)err;
    ((struct fake *)ctx)->opens++;
    return STENO_OK;
}

static steno_status room(void *ctx, size_t least, size_t most, float **to, size_t *n,
                         steno_err *err)
{
    (void)err;
    *n = give_room(((struct fake *)ctx)->room, least, most, to);
    return STENO_OK;
}

static steno_status add(void *ctx, const float *pcm, size_t n, steno_err *err)
{
    struct fake *f = ctx;
    (void)pcm, (void)err;
    f->room -= n;
    f->taken += n;
    return STENO_OK;
}

static steno_status finalize(void *ctx, steno_err *err)
{
    (void)ctx, (void)err;
    return STENO_OK;
}

static void end(void *ctx)
{
    ((struct fake *)ctx)->ends++;
}

static const struct steno_ws_engine engine = {.resolve = resolve,
                                              .open = open_place,
                                              .room = room,
                                              .add = add,
                                              .finalize = finalize,
                                              .end = end};

static void text(steno_ws_session *s, const char *t)
{
    size_t half = strlen(t) / 2; /* in two parts, so that the session has to store the first */
    steno_ws_session_text(s, t, half, false);
    steno_ws_session_text(s, t + half, strlen(t) - half, true);
}

static void note(steno_ws_session *s, enum steno_pool_note_kind kind, enum steno_event_kind ev_kind)
{
    struct steno_event ev = {.kind = ev_kind, .text = "four two seven", .time = 1};
    struct steno_pool_note n = {.kind = kind, .event = &ev};
    steno_ws_session_note(s, 0, &n, NULL);
}

/* Take all waiting answers. `type` and `said` get the type and text of the last one. */
static int take_all(steno_ws_session *s, char type[16], char said[256])
{
    int n = 0;
    for (;; n++) {
        struct steno_buf b;
        json_t *root;
        long left = alloc_left;
        steno_status st;
        steno_buf_init(&b, 65536);
        alloc_left = -1; /* allocations of the client's side do not fail */
        st = steno_ws_session_take(s, &b);
        if (!st) {
            root = json_loadb(b.data, b.len, 0, NULL);
            assert_non_null(root);
            snprintf(type, 16, "%s", json_string_value(json_object_get(root, "type")));
            snprintf(said, 256, "%s", b.data);
            json_decref(root);
        }
        steno_buf_free(&b);
        alloc_left = left;
        if (st)
            return n;
    }
}

/* A session from start to end. True when no allocation failed. */
static bool scenario(void)
{
    struct steno_ws_session_limits limits = {1 << 20, 4096, 0, 0, 0, false, NULL};
    struct steno_ws_session_state st;
    struct fake f = {.room = 1000};
    static char pcm[8000];
    char last[16] = "", said[256] = "";
    steno_ws_session *s =
        steno_ws_session_new(&steno_dialect_native, &engine, &f, "sess_fault", &limits);
    if (!s)
        return false;
    text(s, "{\"type\":\"start\",\"encoding\":\"s16le\",\"sample_rate\":8000}");
    steno_ws_session_binary(s, pcm, sizeof pcm, true, true);
    note(s, STENO_POOL_EVENT, STENO_PARTIAL);
    f.room = 100000;
    for (int i = 0; i < 3 && !steno_ws_session_readable(s); i++)
        steno_ws_session_resume(s);
    note(s, STENO_POOL_EVENT, STENO_PARTIAL);
    note(s, STENO_POOL_EVENT, STENO_FINAL);
    text(s, "{\"type\":\"end\"}");
    note(s, STENO_POOL_EVENT, STENO_FINAL);
    steno_ws_session_get_state(s, &st);
    if (st.ending == STENO_WS_RUNNING) /* it waits for DONE, which comes after an end */
        assert_int_equal(f.ends, f.opens);
    if (f.opens)
        note(s, STENO_POOL_DONE, STENO_FINAL);
    take_all(s, last, said);
    steno_ws_session_get_state(s, &st);
    assert_true(st.close);
    assert_true(f.opens <= 1 && f.ends <= 1);
    if (st.ending == STENO_WS_ENDED) {
        assert_int_equal(f.taken, sizeof pcm / 2);
        assert_string_equal(last, "end");
        assert_int_equal(st.close_code, 1000);
    } else {
        bool syntax = jansson_too && st.ending == STENO_WS_BAD && st.close_code == 1007;
        if (!syntax && (st.ending != STENO_WS_FAILED || st.close_code != 1013))
            fail_msg("ends with %d %s %s", st.close_code, st.reason, said);
    }
    steno_ws_session_free(s);
    return st.ending == STENO_WS_ENDED;
}

static void fail_each_in_turn(int at_least)
{
    int n = 0, unnoticed = 0;
    assert_true(scenario());
    for (;; n++) {
        bool passed, none_left;
        alloc_left = n;
        passed = scenario();
        none_left = alloc_left >= 0;
        alloc_left = -1;
        if (none_left)
            break;
        unnoticed += passed;
    }
    print_message("%d allocations in a session, %d may fail unnoticed\n", n, unnoticed);
    assert_true(n >= at_least);
}

static void every_failed_allocation_ends_the_session_and_says_so(void **state)
{
    (void)state;
    jansson_too = false;
    fail_each_in_turn(10);
}

static void failed_allocations_of_jansson_end_it_as_orderly(void **state)
{
    (void)state;
    jansson_too = true;
    fail_each_in_turn(20);
}

/* The client hears what was said before memory ran out. */
static void finals_before_a_failed_allocation_are_sent(void **state)
{
    struct steno_ws_session_limits limits = {1 << 20, 1 << 20, 0, 0, 0, false, NULL};
    int most = 0;
    (void)state;
    for (int n = 0; n < 6; n++) { /* the later, the more messages wait */
        struct steno_ws_session_state st;
        struct fake f = {.room = 100000};
        char pcm[8000] = {0}, last[16] = "", said[256] = "";
        int finals = -1;
        steno_ws_session *s =
            steno_ws_session_new(&steno_dialect_native, &engine, &f, "sess_fault", &limits);
        assert_non_null(s);
        text(s, "{\"type\":\"start\",\"encoding\":\"s16le\",\"sample_rate\":8000}");
        steno_ws_session_binary(s, pcm, sizeof pcm, true, true);
        take_all(s, last, said);
        alloc_left = n;
        do {
            note(s, STENO_POOL_EVENT, STENO_FINAL);
            finals++;
            steno_ws_session_get_state(s, &st);
        } while (st.ending == STENO_WS_RUNNING);
        assert_int_equal(alloc_left, -1);
        assert_int_equal(st.ending, STENO_WS_FAILED);
        assert_int_equal(st.close_code, 1013);
        assert_false(st.close && finals);
        assert_int_equal(take_all(s, last, said), finals);
        steno_ws_session_get_state(s, &st);
        assert_true(st.close);
        most = finals > most ? finals : most;
        steno_ws_session_free(s);
    }
    assert_true(most > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finals_before_a_failed_allocation_are_sent),
        cmocka_unit_test(every_failed_allocation_ends_the_session_and_says_so),
        cmocka_unit_test(failed_allocations_of_jansson_end_it_as_orderly),
    };
    json_set_alloc_funcs(for_jansson, free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
