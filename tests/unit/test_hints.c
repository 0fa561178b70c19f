/* Hints of a request against what a model can use: every error names the field. */
#include <string.h>

#include "steno.h"
#include "tests/support/test.h"

static const struct steno_model_info many = {.name = "base",
                                             .languages = "en zh de es jw",
                                             .detects_language = true,
                                             .translates = true,
                                             .takes_prompt = true,
                                             .takes_hotwords = true};
static const struct steno_model_info english = {.name = "tiny.en", .languages = "en"};
static const struct steno_model_info unknown = {.name = "digits", .languages = ""};

static void languages_have_codes_names_tags_and_other_names(void **state)
{
    static const struct {
        const char *text, *code;
    } cases[] = {{"en", "en"},      {"EN", "en"},       {"english", "en"},    {"English", "en"},
                 {"en-US", "en"},   {"pt_BR", "pt"},    {"zh-Hant-TW", "zh"}, {"mandarin", "zh"},
                 {"yue", "yue"},    {"yue-HK", "yue"},  {"jv", "jw"},         {"castilian", "es"},
                 {"klingon", NULL}, {"english-", NULL}, {"", NULL},           {"e", NULL},
                 {"en,de", NULL},   {"zh-TW,en", NULL}, {"nb-NO", "nb"},      {"bokmal", "nb"},
                 {"no", "no"},      {"zu", "zu"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *code = steno_language_code(cases[i].text);
        if (cases[i].code)
            assert_string_equal(code, cases[i].code);
        else
            assert_null(code);
    }
    assert_string_equal(steno_language_name("es"), "spanish");
    assert_string_equal(steno_language_name("ht"), "haitian creole");
    assert_null(steno_language_name("xx"));
}

static void check(const struct steno_model_info *i, const struct steno_hints *h,
                  const char *message)
{
    steno_err err = {0};
    const steno_status st = steno_hints_check(i, h, &err);
    if (!message) {
        assert_int_equal(st, STENO_OK);
        return;
    }
    assert_int_equal(st, STENO_ERR_INVAL);
    assert_string_equal(err.msg, message);
}

static void a_language_has_to_be_one_of_the_models(void **state)
{
    static const char *const good[] = {NULL,     "",   "auto",   "multi",
                                       "Detect", "en", "German", "zh-CN"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        check(&many, &(struct steno_hints){.language = good[i]}, NULL);
    check(&many, &(struct steno_hints){.language = "fr"}, "language: the model 'base' has no 'fr'");
    check(&many, &(struct steno_hints){.language = "klingon"},
          "language: 'klingon' is no code or English name of a language");
    check(&english, &(struct steno_hints){.language = "en-GB"}, NULL);
    check(&english, &(struct steno_hints){.language = "auto"}, NULL);
    check(&english, &(struct steno_hints){.language = "spanish"},
          "language: the model 'tiny.en' speaks 'en', not 'spanish'");
    check(&unknown, &(struct steno_hints){.language = "whatever"}, NULL);
}

static void several_languages_are_for_models_that_detect_one(void **state)
{
    (void)state;
    check(&many, &(struct steno_hints){.language = "en,de"}, NULL);
    check(&many, &(struct steno_hints){.language = "zh-TW, German ,es"}, NULL);
    check(&many, &(struct steno_hints){.language = "en,fr"},
          "language: the model 'base' has no 'fr'");
    check(&many, &(struct steno_hints){.language = "en,"},
          "language: '' is no code or English name of a language");
    check(&many, &(struct steno_hints){.language = "en,auto"},
          "language: 'auto' is no code or English name of a language");
    check(&english, &(struct steno_hints){.language = "en,de"},
          "language: the model 'tiny.en' does not detect which of 'en,de' is spoken");
}

static void what_a_model_does_not_take_is_named(void **state)
{
    static char longest[STENO_HINT_BYTES + 2];
    (void)state;
    memset(longest, 'a', STENO_HINT_BYTES + 1);
    check(&many, &(struct steno_hints){.translate = true, .prompt = "a", .prefix = "b"}, NULL);
    check(&english, &(struct steno_hints){.translate = true},
          "translate: the model 'tiny.en' does not translate");
    check(&english, &(struct steno_hints){.prompt = "a"},
          "prompt: models like 'tiny.en' take none");
    check(&english, &(struct steno_hints){.prefix = "a"},
          "prefix: models like 'tiny.en' take none");
    check(&english, &(struct steno_hints){.hotwords = "a"},
          "hotwords: models like 'tiny.en' take none");
    check(&english, &(struct steno_hints){.prompt = "", .hotwords = ""}, NULL);
    check(&many, &(struct steno_hints){.hotwords = longest}, "hotwords: longer than 8192 bytes");
    check(&many, &(struct steno_hints){.hotwords = longest + 1}, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(languages_have_codes_names_tags_and_other_names),
        cmocka_unit_test(a_language_has_to_be_one_of_the_models),
        cmocka_unit_test(several_languages_are_for_models_that_detect_one),
        cmocka_unit_test(what_a_model_does_not_take_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
