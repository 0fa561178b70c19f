/* A session whose results are stored outside of its process, without sockets and without Redis:
 * what is delivered when, and what goes on elsewhere. */
/* link: server/live/ws_session.c server/live/ws_session_input.c server/live/ws_session_audio.c */
/* link: server/live/ws_session_swap.c server/live/ws_session_end.c */
/* link: server/live/ws_session_resume.c server/live/history.c server/live/outbox.c */
/* link: server/live/ws_session_store.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/session_head.h"
#include "server/live/history.h"
#include "tests/support/test.h"
#include "tests/support/ws_fixture.h"

/* Stands in for the storage: keeps what was put, as Redis does. */
struct storage {
    bool up, stale, taken, left, erased, waiting;
    uint64_t stored, last;
    int puts;
    char head[4096];
    struct steno_buf records;
};
static struct storage storage;

static bool put(void *place, const char *head, const struct steno_buf *records, uint64_t last,
                uint64_t lost, bool all)
{
    struct storage *x = place;
    (void)lost;
    x->stale = !x->up;
    if (!x->up)
        return false;
    if (all)
        steno_buf_reset(&x->records);
    assert_int_equal(steno_buf_add(&x->records, records->data, records->len), STENO_OK);
    snprintf(x->head, sizeof x->head, "%s", head);
    x->last = last;
    x->puts++;
    return true;
}

static void get_state(void *place, struct steno_ws_storage_state *out)
{
    const struct storage *x = place;
    *out = (struct steno_ws_storage_state){x->up, x->stale, x->taken, x->stored};
}

static void set_waiting(void *place, bool waiting)
{
    ((struct storage *)place)->waiting = waiting;
}

static void leave(void *place, bool erase)
{
    ((struct storage *)place)->left = true;
    ((struct storage *)place)->erased = erase;
}

static const struct steno_ws_storage fake_storage = {put, get_state, set_waiting, leave};

static const struct steno_ws_storage *fake_store(void *ctx, void **place)
{
    (void)ctx;
    *place = &storage;
    return &fake_storage;
}

static void make(struct fixture *f, size_t send_bytes, size_t resume_bytes)
{
    steno_buf_free(&storage.records);
    storage = (struct storage){.up = true, .stale = true};
    steno_buf_init(&storage.records, 1 << 20);
    open_session(f, send_bytes, resume_bytes, fake_store);
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
    assert_true(storage.left);
    steno_buf_free(&storage.records);
    return 0;
}

/* end: s; the event's time is a second later. */
static void note_event(struct fixture *f, enum steno_event_kind kind, int64_t segment, double end,
                       const char *t)
{
    struct steno_event ev = {
        .kind = kind, .segment = segment, .end = end, .time = end + 1, .text = t};
    struct steno_pool_note n = {.kind = STENO_POOL_EVENT, .event = &ev};
    steno_ws_session_note(f->s, 0, &n, NULL);
}

/* All messages so far are stored. */
static void store_all(struct fixture *f)
{
    storage.stored = storage.last + 1;
    assert_true(steno_ws_session_refresh(f->s, 1));
}

static void start(struct fixture *f)
{
    text(f, START);
    EXPECT(f, NULL);
    store_all(f);
    EXPECT(f, "\"ready\"");
}

static struct steno_ws_session_state state_of(struct fixture *f)
{
    struct steno_ws_session_state st;
    steno_ws_session_get_state(f->s, &st);
    return st;
}

static void a_final_is_delivered_once_it_is_stored(void **state)
{
    struct fixture *f = *state;
    start(f);
    say(f, 0, 100);
    note_event(f, STENO_SPEECH_START, 0, 0, "");
    note_event(f, STENO_PARTIAL, 0, 0.001, "on");
    EXPECT(f, "speech_start", "\"on\"");
    note_event(f, STENO_FINAL, 0, 0.002, "one");
    note_event(f, STENO_SPEECH_START, 1, 0.003, "");
    note_event(f, STENO_PARTIAL, 1, 0.003, "tw");
    EXPECT(f, NULL);
    assert_true(steno_ws_session_refresh(f->s, 1));
    EXPECT(f, NULL);
    note_event(f, STENO_FINAL, 1, 0.004, "two");
    storage.stored = storage.last; /* the first one, not the second */
    assert_true(steno_ws_session_refresh(f->s, 1));
    EXPECT(f, "\"one\"", "speech_start");
    store_all(f);
    EXPECT(f, "\"two\"");
    note_event(f, STENO_PARTIAL, 2, 0.005, "th");
    EXPECT(f, "\"th\"");
    assert_int_equal(storage.puts, 3);
    assert_int_equal(steno_ws_session_take_unstored(f->s), 0);
}

static void the_end_is_stored_too_before_the_connection_closes(void **state)
{
    struct fixture *f = *state;
    start(f);
    text(f, "{\"type\":\"end\"}");
    done(f);
    EXPECT(f, NULL);
    assert_false(state_of(f).close);
    store_all(f);
    assert_false(state_of(f).close);
    EXPECT(f, "\"end\"");
    assert_true(state_of(f).close);
    assert_non_null(strstr(storage.head, ".ending="));
}

static void nothing_waits_for_a_storage_that_is_slow_or_away(void **state)
{
    struct fixture *f = *state;
    start(f);
    note_event(f, STENO_FINAL, 0, 0.001, "one");
    assert_true(steno_ws_session_refresh(f->s, 1));
    assert_true(steno_ws_session_refresh(f->s, 400000000));
    EXPECT(f, NULL);
    assert_true(steno_ws_session_refresh(f->s, 600000000));
    EXPECT(f, "\"one\"");
    assert_int_equal(steno_ws_session_take_unstored(f->s), 1);
    note_event(f, STENO_FINAL, 1, 0.002, "two");
    storage.up = false;
    storage.stale = true; /* what the storage's thread finds out */
    assert_true(steno_ws_session_refresh(f->s, 1));
    EXPECT(f, "\"two\"");
    note_event(f, STENO_FINAL, 2, 0.003, "three");
    EXPECT(f, "\"three\"");
    assert_int_equal(steno_ws_session_take_unstored(f->s), 2);
    storage.up = true;
    storage.puts = 0;
    assert_true(steno_ws_session_refresh(f->s, 1)); /* all that it missed */
    assert_int_equal(storage.puts, 1);
    assert_int_equal(storage.last, 3);
    assert_non_null(strstr(storage.head, "&.seq=4&"));
}

static void many_results_do_not_push_out_those_that_wait(void **state)
{
    struct fixture f;
    char says[64];
    (void)state;
    make(&f, 1 << 16, 1024);
    start(&f);
    for (int i = 0; i < 40; i++) {
        snprintf(says, sizeof says, "number %d;", i);
        note_event(&f, STENO_FINAL, i, 0.001, says);
    }
    storage.stored = storage.last + 1;
    assert_true(steno_ws_session_refresh(f.s, 1));
    for (int i = 0; i < 40; i++) {
        struct steno_buf b;
        steno_buf_init(&b, 65536);
        snprintf(says, sizeof says, "number %d;", i);
        assert_int_equal(steno_ws_session_take(f.s, &b), STENO_OK);
        assert_non_null(strstr(b.data, says));
        steno_buf_free(&b);
    }
    EXPECT(&f, NULL);
    assert_true(steno_ws_session_take_unstored(f.s) > 0);
    steno_ws_session_free(f.s);
}

static void a_taken_session_delivers_nothing_more(void **state)
{
    struct fixture *f = *state;
    start(f);
    note_event(f, STENO_FINAL, 0, 0.001, "one");
    storage.taken = true;
    assert_false(steno_ws_session_refresh(f->s, 1));
    steno_ws_session_move(f->s, 4001);
    EXPECT(f, NULL);
    note_event(f, STENO_FINAL, 1, 0.002, "two");
    EXPECT(f, NULL);
    assert_true(state_of(f).close);
    assert_int_equal(state_of(f).close_code, 4001);
    assert_string_equal(state_of(f).reason, "resumed on another machine");
    assert_false(steno_ws_session_resumable(f->s));
}

static void a_resumed_connection_gets_no_message_before_it_is_stored(void **state)
{
    struct fixture *f = *state;
    start(f);
    say(f, 0, 100);
    steno_ws_session_detach(f->s);
    assert_true(storage.waiting);
    note_event(f, STENO_FINAL, 0, 0.002, "one");
    assert_int_equal(attach(f, 1, -1, NULL), STENO_OK);
    assert_false(storage.waiting);
    EXPECT(f, NULL);
    store_all(f);
    EXPECT(f, "\"one\"", "resumed");
}

static void only_a_session_that_is_stored_is_handed_over(void **state)
{
    struct fixture *f = *state;
    text(f, "{\"type\":\"keepalive\"}");
    assert_false(steno_ws_session_hand_over(f->s));
    start(f);
    storage.up = false;
    assert_false(steno_ws_session_hand_over(f->s));
    storage.up = true;
    assert_true(steno_ws_session_hand_over(f->s));
    assert_int_equal(state_of(f).close_code, 1012);
    assert_string_equal(state_of(f).reason, "draining");
    EXPECT(f, NULL);
}

static void a_client_that_closes_leaves_nothing(void **state)
{
    struct fixture f;
    (void)state;
    make(&f, 1 << 16, 1 << 14);
    start(&f);
    steno_ws_session_leave(f.s, 1000);
    steno_ws_session_free(f.s);
    assert_true(storage.erased);
}

/* The session of f, on another machine. */
static steno_status elsewhere(struct fixture *f, struct fixture *to, uint64_t next, steno_err *err)
{
    struct steno_session_head h;
    steno_status st;
    (void)f;
    assert_int_equal(steno_session_head_read(storage.head, &h, err), STENO_OK);
    open_session(to, 1 << 16, 1 << 14, fake_store);
    st = steno_ws_session_restore(to->s, &h, &storage.records, next, &fake_storage, &storage, err);
    steno_session_head_free(&h);
    return st;
}

static void a_session_goes_on_elsewhere_from_its_last_final(void **state)
{
    struct fixture *f = *state, g;
    steno_err err;
    text(f, "{\"type\":\"start\",\"resumable\":true,\"sample_rate\":8000,\"words\":false}");
    store_all(f);
    EXPECT(f, "ready");
    say(f, 0, 200);
    note_event(f, STENO_FINAL, 0, 0.005, "one");
    note_event(f, STENO_FINAL, 1, 0.0101, "two"); /* its end is within a sample */
    store_all(f);
    EXPECT(f, "\"one\"", "\"two\"");
    note_event(f, STENO_PARTIAL, 2, 0.012, "th");
    EXPECT(f, "\"seq\":3"); /* the client has seen it, the storage has not */
    assert_int_equal(elsewhere(f, &g, 4, &err), STENO_OK);
    assert_int_equal(attach(&g, 4, 81, &err), STENO_ERR_INVAL);
    assert_int_equal(attach(&g, 4, -1, NULL), STENO_OK);
    EXPECT(&g, "\"type\":\"resumed\",\"session_id\":\"sess_test\",\"seq\":4,\"audio_ms\":1010,"
               "\"samples\":80,");
    say(&g, 80, 200);
    assert_int_equal(g.fake.n, 120);
    assert_int_equal(g.fake.received[0], 80);
    /* the new stream counts from 0 */
    note_event(&g, STENO_FINAL, 0, 0.005, "three");
    store_all(&g);
    EXPECT(&g, "\"segment\":2,\"start\":0.010,\"end\":0.015");
    steno_ws_session_free(g.s);
    /* a client that has seen less gets more */
    assert_int_equal(elsewhere(f, &g, 1, &err), STENO_OK);
    assert_int_equal(attach(&g, 1, 70, NULL), STENO_OK);
    EXPECT(&g, "\"one\"", "\"two\"", "\"three\"", "resumed");
    steno_ws_session_free(g.s);
}

/* Without the list the texts would be as they were said. */
static void words_are_masked_elsewhere_or_the_session_is_not_restored(void **state)
{
    struct fixture f, g;
    steno_err err;
    (void)state;
    listed_words = "darn";
    make(&f, 1 << 16, 1 << 14);
    text(&f, "{\"type\":\"start\",\"resumable\":true,\"sample_rate\":8000,"
             "\"profanity_filter\":true}");
    store_all(&f);
    EXPECT(&f, "ready");
    listed_words = NULL;
    assert_int_equal(elsewhere(&f, &g, 1, &err), STENO_ERR_INVAL);
    assert_memory_equal(err.msg, "profanity_filter:", 17);
    steno_ws_session_free(g.s);
    listed_words = "darn";
    assert_int_equal(elsewhere(&f, &g, 1, &err), STENO_OK);
    steno_ws_session_free(g.s);
    steno_ws_session_free(f.s);
    listed_words = NULL;
}

static void what_was_finalized_is_not_said_again(void **state)
{
    struct fixture *f = *state, g;
    struct steno_event ev = {.kind = STENO_FINAL, .reason = STENO_FINAL_REQUEST, .text = "one"};
    struct steno_pool_note n = {.kind = STENO_POOL_EVENT, .event = &ev};
    steno_err err;
    start(f);
    say(f, 0, 320);
    ev.end = 0.005;
    ev.time = 0.02;
    steno_ws_session_note(f->s, 0, &n, NULL);
    assert_int_equal(elsewhere(f, &g, 2, &err), STENO_OK);
    assert_int_equal(attach(&g, 2, -1, NULL), STENO_OK);
    EXPECT(&g, "\"samples\":320,");
    steno_ws_session_free(g.s);
}

static void an_ended_session_is_told_elsewhere(void **state)
{
    struct fixture *f = *state, g;
    steno_err err;
    start(f);
    steno_ws_session_reject(f->s, STENO_ERR_INVAL, 1008, "no_good", "no good");
    done(f);
    assert_int_equal(elsewhere(f, &g, 1, &err), STENO_OK);
    assert_int_equal(attach(&g, 1, -1, NULL), STENO_OK);
    EXPECT(&g, "no_good");
    assert_true(state_of(&g).close);
    assert_int_equal(state_of(&g).close_code, 1008);
    steno_ws_session_free(g.s);
}

/* Every field that a start has, and texts with every kind of character. */
static void heads_are_read_as_they_were_written(void **state)
{
    static const char settings[] =
        "{\"type\":\"start\",\"model\":\"a+b\",\"encoding\":\"mulaw\",\"sample_rate\":11025,"
        "\"channels\":2,"
        "\"interim\":false,\"words\":false,\"alternatives\":3,\"beam\":7,\"endpointing\":false,"
        "\"multichannel\":true,\"resumable\":true,\"vad\":\"energy\",\"silence_alone\":1.7,"
        "\"silence_after\":0.1,\"longest\":33,\"language\":\"de\",\"translate\":true,"
        "\"prompt\":\"a&b=c%d; \u00e4\",\"hotwords\":\"x, "
        "y\",\"filler_words\":false,\"profanity_filter\":true,\"ctc_weight\":0.25,\"quantized\":"
        "true}";
    struct steno_session_head h = {.seq = 12,
                                   .lost = 3,
                                   .finals = 5,
                                   .audio_ms = 7,
                                   .rate = 11025,
                                   .channels = 2,
                                   .samples = {40, 50},
                                   .segments = {1, 2},
                                   .over = true,
                                   .ending = 1,
                                   .close_code = 1000},
                              g;
    struct steno_native_start plain;
    struct steno_native_message m;
    struct steno_buf one, two;
    steno_err err;
    (void)state;
    steno_native_start_init(&plain);
    plain.hints = &h.hints;
    h.hints.profanity = "darn";
    if (steno_native_parse(settings, strlen(settings), &plain, &m, &err))
        fail_msg("%s", err.msg);
    h.start = m.start;
    steno_buf_init(&one, 65536);
    steno_buf_init(&two, 65536);
    assert_int_equal(steno_session_head_write(&one, &h), STENO_OK);
    if (steno_session_head_read(one.data, &g, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(steno_session_head_write(&two, &g), STENO_OK);
    assert_string_equal(one.data, two.data);
    assert_string_equal(g.hints.prompt, "a&b=c%d; \xc3\xa4");
    assert_true(g.hints.no_fillers && g.hints.profanity_filter);
    assert_memory_equal(&g.start.audio, &h.start.audio, sizeof g.start.audio);
    assert_true(steno_options_equal(&g.start.options, &h.start.options));
    assert_true(g.start.multichannel && g.start.resumable && !g.start.words && !g.start.interim);
    assert_int_equal(g.start.beam, 7);
    assert_int_equal(g.samples[1], 50);
    steno_session_head_free(&g);
    steno_session_head_free(&h);
    steno_buf_free(&one);
    steno_buf_free(&two);
}

static void damaged_heads_are_refused(void **state)
{
    static const char *const wrong[] = {"",
                                        "&.seq=1",
                                        "&.seq=x&.rate=8000&.samples=1&.segments=1",
                                        "&.rate=8000&.samples=1",
                                        "&.rate=8000&.samples=-1&.segments=1",
                                        "&.rate=8000&.samples=1&.segments=1&model",
                                        "&.rate=8000&.samples=1&.segments=1&model=%0",
                                        "&.rate=8000&.samples=1&.segments=1&model=%00",
                                        "&.rate=8000&.samples=1&.segments=1&nonsense=1",
                                        "&.rate=8000&.samples=1&.segments=1&.other=1",
                                        "&.rate=8000&.lost=2&.seq=1&.samples=1&.segments=1",
                                        "&.rate=100&.samples=1&.segments=1"};
    struct steno_session_head h;
    steno_err err;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!steno_session_head_read(wrong[i], &h, &err))
            fail_msg("'%s' was read", wrong[i]);
}

int main(void)
{
#define CASE(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_final_is_delivered_once_it_is_stored),
        CASE(the_end_is_stored_too_before_the_connection_closes),
        CASE(nothing_waits_for_a_storage_that_is_slow_or_away),
        cmocka_unit_test(many_results_do_not_push_out_those_that_wait),
        CASE(a_taken_session_delivers_nothing_more),
        CASE(a_resumed_connection_gets_no_message_before_it_is_stored),
        CASE(only_a_session_that_is_stored_is_handed_over),
        cmocka_unit_test(a_client_that_closes_leaves_nothing),
        CASE(a_session_goes_on_elsewhere_from_its_last_final),
        cmocka_unit_test(words_are_masked_elsewhere_or_the_session_is_not_restored),
        CASE(what_was_finalized_is_not_said_again),
        CASE(an_ended_session_is_told_elsewhere),
        cmocka_unit_test(heads_are_read_as_they_were_written),
        cmocka_unit_test(damaged_heads_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
