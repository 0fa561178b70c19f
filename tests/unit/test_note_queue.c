/* Notes that wait behind a final. */
/* link: server/live/note_queue.c */
#include <string.h>

#include "server/live/note_queue.h"
#include "tests/support/test.h"

static void put(struct steno_note_queue *q, unsigned channel, enum steno_event_kind kind,
                const char *text)
{
    char own[32]; /* what the note points to is copied */
    const struct steno_event ev = {.kind = kind, .text = own, .language = ""};
    const struct steno_pool_note note = {.kind = STENO_POOL_EVENT, .event = &ev, .latency = 1};
    strcpy(own, text);
    assert_true(steno_note_queue_add(q, channel, &note));
    memset(own, 'x', sizeof own);
}

static void expect(struct steno_note_queue *q, unsigned channel, enum steno_event_kind kind,
                   const char *text)
{
    struct steno_waiting_note *w = steno_note_queue_take(q);
    assert_non_null(w);
    assert_int_equal(w->channel, channel);
    assert_true(steno_note_is_event(&w->note, kind));
    assert_string_equal(w->note.event->text, text);
    assert_true(w->note.latency >= 1 && w->note.latency < 100);
    steno_waiting_note_free(w);
}

static void notes_leave_in_order(void **state)
{
    struct steno_note_queue q = {0};
    const steno_err why = {STENO_ERR_IO, "gone"};
    const struct steno_pool_note done = {
        .kind = STENO_POOL_DONE, .status = STENO_ERR_IO, .err = &why};
    struct steno_waiting_note *w;
    (void)state;
    assert_null(steno_note_queue_take(&q));
    put(&q, 0, STENO_FINAL, "one");
    put(&q, 1, STENO_FINAL, "two");
    expect(&q, 0, STENO_FINAL, "one");
    assert_true(steno_note_queue_add(&q, 0, &done));
    put(&q, 0, STENO_FINAL, "three");
    expect(&q, 1, STENO_FINAL, "two");
    w = steno_note_queue_take(&q);
    assert_true(w->note.kind == STENO_POOL_DONE && w->note.err == &w->err);
    assert_string_equal(w->note.err->msg, "gone");
    steno_waiting_note_free(w);
    steno_note_queue_clear(&q);
    assert_null(q.first);
    assert_null(q.last);
}

static void the_newest_of_partials_in_a_row_waits(void **state)
{
    struct steno_note_queue q = {0};
    (void)state;
    put(&q, 0, STENO_PARTIAL, "first"); /* alone, and the first */
    put(&q, 0, STENO_PARTIAL, "second");
    expect(&q, 0, STENO_PARTIAL, "second");
    put(&q, 0, STENO_FINAL, "a");
    put(&q, 0, STENO_PARTIAL, "b");
    put(&q, 0, STENO_PARTIAL, "bc");
    put(&q, 1, STENO_PARTIAL, "of another channel");
    put(&q, 0, STENO_PARTIAL, "bcd");
    put(&q, 0, STENO_FINAL, "bcde");
    put(&q, 0, STENO_PARTIAL, "f");
    expect(&q, 0, STENO_FINAL, "a");
    expect(&q, 0, STENO_PARTIAL, "bc");
    expect(&q, 1, STENO_PARTIAL, "of another channel");
    expect(&q, 0, STENO_PARTIAL, "bcd");
    expect(&q, 0, STENO_FINAL, "bcde");
    expect(&q, 0, STENO_PARTIAL, "f");
    assert_null(steno_note_queue_take(&q));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_leave_in_order),
        cmocka_unit_test(the_newest_of_partials_in_a_row_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
