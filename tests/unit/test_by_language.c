/* Which grammar or punctuation network a text of an unknown language may have. */

#include "speech/recognizer/by_language.h"
#include "tests/support/test.h"

static void a_language_is_guessed_only_where_no_other_fits(void **state)
{
    static const struct {
        const char *tool, *languages;
        bool sure;
    } rows[] = {
        {"", "en de", true},      {"en", "", true},
        {"en", "en", true},       {"en", "zh en", true},
        {"en", "en de", false},   {"en", "de", false},
        {"zh", "en de zh", true}, {"en", "zh yue en ja ko", true},
        {"de", "en de", false},   {"en", "en notalanguage", false},
    };
    struct steno_tool both = {.language = "zh", .english = true};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct steno_tool t = {0};
        for (size_t k = 0; rows[i].tool[k]; k++)
            t.language[k] = rows[i].tool[k];
        assert_int_equal(steno_by_language_is_sure(&t, rows[i].languages), rows[i].sure);
    }
    assert_true(steno_by_language_is_sure(&both, "zh en"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_language_is_guessed_only_where_no_other_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
