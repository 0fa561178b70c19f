/* Messages waiting for a slow client. */
/* link: server/live/outbox.c */
#include <stdio.h>
#include <string.h>

#include "server/live/outbox.h"
#include "tests/support/test.h"

static steno_status put(struct steno_outbox *o, const char *text, bool partial)
{
    assert_int_equal(steno_buf_puts(steno_outbox_begin(o), text), STENO_OK);
    return steno_outbox_commit(o, partial, NULL);
}

static void expect_next(struct steno_outbox *o, const char *want)
{
    struct steno_buf b;
    steno_buf_init(&b, 4096);
    assert_int_equal(steno_outbox_take(o, &b), STENO_OK);
    assert_string_equal(b.data, want);
    steno_buf_free(&b);
}

static void expect_empty(struct steno_outbox *o)
{
    struct steno_buf b;
    steno_buf_init(&b, 16);
    assert_int_equal(steno_outbox_take(o, &b), STENO_NEED_MORE);
    assert_int_equal(steno_outbox_size(o), 0);
}

static void messages_leave_in_order(void **state)
{
    struct steno_outbox o;
    char text[32];
    (void)state;
    steno_outbox_init(&o, 4096);
    for (int i = 0; i < 300;
         i++) { /* reads and writes interleaved: records move inside the buffer */
        snprintf(text, sizeof text, "message %d", i);
        assert_int_equal(put(&o, text, false), STENO_OK);
        if (i % 3) {
            snprintf(text, sizeof text, "message %d", i - 1 - i / 3);
            expect_next(&o, text);
        }
    }
    for (int i = 200; i < 300; i++) {
        snprintf(text, sizeof text, "message %d", i);
        expect_next(&o, text);
    }
    expect_empty(&o);
    steno_outbox_free(&o);
}

static void the_newest_partial_replaces_an_unread_one(void **state)
{
    struct steno_outbox o;
    bool replaced;
    (void)state;
    steno_outbox_init(&o, 4096);
    assert_int_equal(put(&o, "final 1", false), STENO_OK);
    assert_int_equal(put(&o, "one", true), STENO_OK);
    assert_int_equal(put(&o, "one two", true), STENO_OK);
    steno_buf_reset(&o.spare);
    assert_int_equal(steno_buf_puts(steno_outbox_begin(&o), "one two three"), STENO_OK);
    assert_int_equal(steno_outbox_commit(&o, true, &replaced), STENO_OK);
    assert_true(replaced);
    assert_int_equal(put(&o, "final 2", false), STENO_OK);
    assert_int_equal(put(&o, "four", true), STENO_OK); /* a final is between them: both stay */
    expect_next(&o, "final 1");
    expect_next(&o, "one two three");
    expect_next(&o, "final 2");
    expect_next(&o, "four");
    /* the partial before it has been read */
    assert_int_equal(put(&o, "four five", true), STENO_OK);
    expect_next(&o, "four five");
    expect_empty(&o);
    steno_outbox_free(&o);
}

static void finals_are_never_dropped_to_make_room(void **state)
{
    struct steno_outbox o;
    int n = 0;
    char text[64];
    (void)state;
    steno_outbox_init(&o, 1000);
    for (;; n++) {
        snprintf(text, sizeof text, "final number %d with some words in it", n);
        if (put(&o, text, false) == STENO_ERR_LIMIT)
            break;
    }
    assert_in_range(n, 10, 100);
    assert_true(steno_outbox_size(&o) <= 1000);
    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof text, "final number %d with some words in it", i);
        expect_next(&o, text);
    }
    expect_empty(&o);
    assert_int_equal(put(&o, "again", false), STENO_OK);
    expect_next(&o, "again");
    steno_outbox_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_leave_in_order),
        cmocka_unit_test(the_newest_partial_replaces_an_unread_one),
        cmocka_unit_test(finals_are_never_dropped_to_make_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
