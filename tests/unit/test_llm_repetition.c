/* Texts of language models that go round in circles. */
#include <string.h>

#include "speech/families/llm/repetition.h"
#include "tests/support/test.h"

/* The letters are tokens. */
static size_t repeated(const char *text)
{
    struct steno_span t[128] = {0};
    const size_t n = strlen(text);
    assert_true(n <= 128);
    for (size_t i = 0; i < n; i++)
        t[i].token = text[i];
    return steno_llm_repeated(t, n);
}

static void what_repeats_at_the_end_is_counted(void **state)
{
    (void)state;
    assert_int_equal(repeated("abxxxxx"), 4);
    assert_int_equal(repeated("abxyxyxyxyxy"), 8);
    assert_int_equal(repeated("xyzxyzxyzxyzxyzx"), 13); /* the sixth time is not complete */
    assert_int_equal(repeated("aaaaabaaaaabaaaaabaaaaabaaaaab"), 24);
}

static void what_people_say_is_kept(void **state)
{
    (void)state;
    assert_int_equal(repeated(""), 0);
    assert_int_equal(repeated("a"), 0);
    assert_int_equal(repeated("nononono"), 0); /* four times */
    assert_int_equal(repeated("xxxxxxxxxxa"), 0);
    assert_int_equal(repeated("abcdefghijklmnopqrstu"
                              "abcdefghijklmnopqrstu"
                              "abcdefghijklmnopqrstu"
                              "abcdefghijklmnopqrstu"
                              "abcdefghijklmnopqrstu"),
                     0); /* 21 tokens */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_repeats_at_the_end_is_counted),
        cmocka_unit_test(what_people_say_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
