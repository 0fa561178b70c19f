/* A session that outlives its connection, without sockets: which messages are sent again, which
 * audio is skipped, what is refused. */
/* link: server/live/ws_session.c server/live/ws_session_input.c server/live/ws_session_audio.c */
/* link: server/live/ws_session_swap.c server/live/ws_session_end.c */
/* link: server/live/ws_session_resume.c server/live/history.c server/live/outbox.c */
/* link: server/live/ws_session_store.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/live/history.h"
#include "tests/support/test.h"
#include "tests/support/ws_fixture.h"

static void make(struct fixture *f, size_t send_bytes, size_t resume_bytes)
{
    open_session(f, send_bytes, resume_bytes, NULL);
}

static int setup(void **state)
{
    static struct fixture f;
    make(&f, 1 << 16, 1 << 14);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    steno_ws_session_free(((struct fixture *)*state)->s);
    return 0;
}

static void note_event(struct fixture *f, enum steno_event_kind kind, const char *t)
{
    struct steno_event ev = {.kind = kind, .time = 1.0, .text = t, .reason = STENO_FINAL_END};
    struct steno_pool_note n = {.kind = STENO_POOL_EVENT, .event = &ev};
    steno_ws_session_note(f->s, 0, &n, NULL);
}

static void in_order(const struct fixture *f, size_t n)
{
    assert_int_equal(f->fake.n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(f->fake.received[i], (int)i);
}

static void finals_in_the_meantime_are_sent_once_and_the_next_sample_is_named(void **state)
{
    struct fixture *f = *state;
    text(f, START);
    say(f, 0, 10);
    note_event(f, STENO_FINAL, "one");
    EXPECT(f, "\"resume_seconds\":30", "\"seq\":1");
    steno_ws_session_detach(f->s);
    note_event(f, STENO_PARTIAL, "tw");
    note_event(f, STENO_FINAL, "two");
    note_event(f, STENO_FINAL, "three");
    assert_int_equal(attach(f, 2, -1, NULL), STENO_OK);
    EXPECT(f, "\"text\":\"two\"", "\"text\":\"three\"", "\"type\":\"resumed\"");
    say(f, 10, 20);
    in_order(f, 20);
}

static void lost_messages_are_sent_again(void **state)
{
    struct fixture *f = *state;
    text(f, START);
    say(f, 0, 10);
    note_event(f, STENO_FINAL, "one");
    note_event(f, STENO_FINAL, "two");
    EXPECT(f, "ready", "\"text\":\"one\"", "\"text\":\"two\""); /* into a dead connection */
    assert_int_equal(attach(f, 1, -1, NULL), STENO_OK); /* which the server takes for alive */
    EXPECT(f, "\"seq\":1,", "\"seq\":2,", "\"samples\":10,\"ended\":false");
    assert_int_equal(attach(f, 0, -1, NULL), STENO_OK); /* once more, from the beginning */
    EXPECT(f, "ready", "\"seq\":1,", "\"seq\":2,", "\"seq\":3,", "\"seq\":4,");
}

static void repeated_samples_are_skipped_and_half_samples_come_again(void **state)
{
    struct fixture *f = *state;
    text(f, START);
    say(f, 0, 10);
    steno_ws_session_binary(f->s, "x", 1, true, false); /* half of the 11th sample */
    steno_ws_session_detach(f->s);
    assert_int_equal(attach(f, 0, 4, NULL), STENO_OK);
    say(f, 4, 20);
    in_order(f, 20);
    assert_int_equal(attach(f, 0, 20, NULL), STENO_OK);
    assert_int_equal(attach(f, 0, 0, NULL), STENO_OK);
    say(f, 0, 30);
    in_order(f, 30);
}

/* 20 samples, for which there is too little room; then the connection is lost. */
static void lose_while_full(struct fixture *f)
{
    int16_t all[20];
    for (int i = 0; i < 20; i++)
        all[i] = (int16_t)i;
    text(f, START);
    f->fake.room = 5;
    steno_ws_session_binary(f->s, all, sizeof all, true, true);
    assert_false(steno_ws_session_readable(f->s));
    steno_ws_session_detach(f->s);
}

static void audio_that_waits_for_room_comes_again(void **state)
{
    struct fixture *f = *state;
    lose_while_full(f);
    f->fake.room = SIZE_MAX;
    assert_int_equal(attach(f, 0, -1, NULL), STENO_OK);
    EXPECT(f, "ready", "\"samples\":5,");
    assert_true(steno_ws_session_readable(f->s));
    say(f, 5, 20);
    in_order(f, 20);
}

static void audio_that_found_room_in_the_meantime_counts_as_received(void **state)
{
    struct fixture *f = *state;
    struct steno_pool_note room = {.kind = STENO_POOL_ROOM};
    lose_while_full(f);
    f->fake.room = SIZE_MAX;
    steno_ws_session_note(f->s, 0, &room, NULL);
    steno_ws_session_resume(f->s);
    assert_int_equal(attach(f, 0, -1, NULL), STENO_OK);
    EXPECT(f, "ready", "\"samples\":20,");
    in_order(f, 20);
}

static void a_session_that_ended_in_the_meantime_says_so_and_closes(void **state)
{
    struct fixture *f = *state;
    struct steno_ws_session_state st;
    text(f, START);
    say(f, 0, 10);
    text(f, "{\"type\":\"end\"}");
    steno_ws_session_detach(f->s);
    assert_int_equal(attach(f, 1, -1, NULL), STENO_OK);
    EXPECT(f, "\"samples\":10,\"ended\":true");
    steno_ws_session_detach(f->s);
    note_event(f, STENO_FINAL, "one");
    done(f);
    assert_true(steno_ws_session_resumable(f->s));
    /* also when the client has read it and then lost the connection */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(attach(f, 2, -1, NULL), STENO_OK);
        EXPECT(f, "\"text\":\"one\"", "\"type\":\"end\"");
        steno_ws_session_get_state(f->s, &st);
        assert_true(st.close);
        assert_int_equal(st.close_code, 1000);
    }
    assert_int_equal(f->fake.ends, 1);
}

static void a_drain_in_the_meantime_is_reported(void **state)
{
    struct fixture *f = *state;
    struct steno_ws_session_state st;
    text(f, START);
    say(f, 0, 10);
    steno_ws_session_detach(f->s);
    steno_ws_session_drain(f->s);
    note_event(f, STENO_FINAL, "one");
    done(f);
    assert_int_equal(attach(f, 1, -1, NULL), STENO_OK);
    EXPECT(f, "\"text\":\"one\"", "\"reason\":\"draining\"");
    steno_ws_session_get_state(f->s, &st);
    assert_int_equal(st.close_code, 1012);
}

static void unavailable_positions_are_refused_and_nothing_changes(void **state)
{
    struct fixture f;
    steno_err err;
    (void)state;
    make(&f, 1 << 16, 1000);
    text(&f, START);
    say(&f, 0, 10);
    steno_ws_session_detach(f.s);
    for (int i = 0; i < 1000; i++) /* memory stays bounded */
        note_event(&f, STENO_FINAL, "a final of some length");
    assert_int_equal(attach(&f, 1, -1, &err), STENO_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "no longer kept"));
    assert_int_equal(attach(&f, 1000, 11, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "sample: 11 is after the 10"));
    assert_int_equal(attach(&f, 1002, -1, &err), STENO_ERR_INVAL);
    assert_int_equal(attach(&f, 1000, 10, &err), STENO_OK);
    EXPECT(&f, "\"seq\":1000,", "\"seq\":1001,");
    steno_ws_session_free(f.s);
}

static void only_resumable_sessions_without_a_close_are_resumed(void **state)
{
    static const char *const never[] = {"{\"type\":\"start\"}",
                                        "{\"type\":\"start\",\"resumable\":false}"};
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        make(&f, 1 << 16, 1 << 14);
        text(&f, never[i]);
        say(&f, 0, 10);
        assert_false(steno_ws_session_resumable(f.s));
        steno_ws_session_free(f.s);
    }
    struct fixture *f = *state;
    assert_false(steno_ws_session_resumable(f->s));
    text(f, START);
    assert_true(steno_ws_session_resumable(f->s));
    steno_ws_session_leave(f->s, 1000);
    assert_false(steno_ws_session_resumable(f->s));
}

static void a_container_cannot_be_taken_up_in_its_middle(void **state)
{
    struct fixture *f = *state;
    struct fixture g;
    text(f, "{\"type\":\"start\",\"resumable\":true,\"encoding\":\"wav\"}");
    EXPECT(f, "resumable: needs raw samples or bare Opus packets, not wav");
    make(&g, 1 << 16, 1 << 14);
    text(&g, "{\"type\":\"start\",\"resumable\":true,\"encoding\":\"opus\",\"sample_rate\":16000}");
    steno_ws_session_binary(g.s, "OggS", 4, true, true);
    EXPECT(&g, "ready", "not Ogg");
    steno_ws_session_free(g.s);
}

/* Random additions against a list that forgets nothing. */
static void the_history_keeps_the_newest_within_its_bytes(void **state)
{
    unsigned seed = 1;
    (void)state;
    for (size_t most = 0; most < 400; most += 37) {
        struct steno_history h;
        char made[300][40];
        steno_history_init(&h, most);
        for (uint64_t seq = 0; seq < 300; seq++) {
            const char *t;
            size_t at = 0, n, len;
            uint64_t seq_of;
            uint64_t first = h.lost;
            seed = seed * 1664525u + 1013904223u;
            len = (size_t)snprintf(made[seq], 40, "%llu%*s", (unsigned long long)seq,
                                   (int)(seed >> 28), "");
            steno_history_add(&h, seq * 2, made[seq], len);
            assert_true(h.bytes.len - h.head <= most);
            assert_true(h.lost >= first);
            for (uint64_t k = (h.lost + 1) / 2; k <= seq; k++) {
                assert_true(steno_history_next(&h, h.lost, &at, &seq_of, &t, &n));
                assert_int_equal(n, strlen(made[k]));
                assert_memory_equal(t, made[k], n);
            }
            assert_false(steno_history_next(&h, h.lost, &at, &seq_of, &t, &n));
            assert_true(steno_history_has(&h, h.lost));
            assert_true(!h.lost || !steno_history_has(&h, h.lost - 1));
        }
        steno_history_free(&h);
    }
}

int main(void)
{
#define CASE(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(finals_in_the_meantime_are_sent_once_and_the_next_sample_is_named),
        CASE(lost_messages_are_sent_again),
        CASE(repeated_samples_are_skipped_and_half_samples_come_again),
        CASE(audio_that_waits_for_room_comes_again),
        CASE(audio_that_found_room_in_the_meantime_counts_as_received),
        CASE(a_session_that_ended_in_the_meantime_says_so_and_closes),
        CASE(a_drain_in_the_meantime_is_reported),
        cmocka_unit_test(unavailable_positions_are_refused_and_nothing_changes),
        CASE(only_resumable_sessions_without_a_close_are_resumed),
        CASE(a_container_cannot_be_taken_up_in_its_middle),
        cmocka_unit_test(the_history_keeps_the_newest_within_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
