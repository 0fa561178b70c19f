/* Which model aligns a language. */
/* link: server/core/aligners.c */
#include <string.h>

#include "base/status.h"
#include "server/core/aligners.h"
#include "tests/support/test.h"

static const char *find(const char *list, const char *language)
{
    static char name[STENO_ALIGNER_NAME];
    assert_int_equal(steno_aligners_check(list, NULL), STENO_OK);
    return steno_aligners_find(list, language, name) ? name : "(none)";
}

static void a_language_has_its_own_or_that_of_all(void **state)
{
    static const char list[] = "en=a, German=b ,c";
    (void)state;
    assert_string_equal(find(list, "en"), "a");
    assert_string_equal(find(list, "English"), "a");
    assert_string_equal(find(list, "de"), "b");
    assert_string_equal(find(list, "fr"), "c");
    assert_string_equal(find(list, ""), "c");
    assert_string_equal(find(list, NULL), "c");
    assert_string_equal(find(list, "no language"), "c");
    assert_string_equal(find("c,en=a", "en"), "a");
    assert_string_equal(find("en=a", "de"), "(none)");
    assert_string_equal(find("", "de"), "(none)");
    assert_string_equal(find(" , ,", "de"), "(none)");
}

static void names_come_one_after_the_other(void **state)
{
    const char *list = " en=a,de=b , c";
    char name[STENO_ALIGNER_NAME];
    (void)state;
    for (char want = 'a'; want <= 'c'; want++) {
        assert_true(steno_aligners_next(&list, name));
        assert_true(name[0] == want && !name[1]);
    }
    assert_false(steno_aligners_next(&list, name));
}

static void refuses(const char *list, const char *message)
{
    steno_err err;
    assert_int_equal(steno_aligners_check(list, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, message));
}

static void wrong_lists_are_refused(void **state)
{
    char longest[STENO_ALIGNER_NAME + 1];
    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    refuses("xx=a", "'xx' is no language");
    refuses("=a", "'' is no language");
    refuses("en=", "expected NAME or LANGUAGE=NAME");
    refuses("a, en= ,b", "expected NAME or LANGUAGE=NAME");
    refuses(longest, "expected NAME or LANGUAGE=NAME");
    refuses("a-language-that-nobody-has-heard-of=a", "is no language");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_language_has_its_own_or_that_of_all),
        cmocka_unit_test(names_come_one_after_the_other),
        cmocka_unit_test(wrong_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
