/* The languages of a directory are those of the open model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "steno.h"
#include "tests/support/whisper_models.h"

/* known: the directory names its languages. */
static void compare(const char *dir, bool known)
{
    struct steno_model_languages l;
    struct steno_model_info info;
    steno_model *m;
    steno_err err;
    assert_int_equal(steno_model_languages(dir, &l), known);
    if (steno_model_open(&m, dir, NULL, &err))
        fail_msg("%s: %s", dir, err.msg);
    steno_model_get_info(m, &info);
    assert_string_equal(l.languages, info.languages);
    assert_string_equal(l.language, strchr(info.languages, ' ') ? "" : info.languages);
    assert_int_equal(l.translates, info.translates);
    steno_model_close(m);
}

static void of_the_shipped_model(void **state)
{
    (void)state;
    compare("conf/models/digits-en", true);
}

static void of_all_families(void **state)
{
    static const struct {
        const char *name;
        bool known;
    } rows[] = {{"nemo-canary", true},
                {"nemo-parakeet-tdt", true},
                {"nemo-rnnt-streaming", true},
                {"sense-voice", true},
                {"paraformer-offline", false},
                {"moonshine-v2", false},
                {"wenet-ctc-streaming", false},
                {"giga-am-v2-ctc", true},
                {"moonshine-streaming", true},
                {"fire-red-asr-aed", true},
                {"t-one", true},
                {"nemotron-3.5-streaming", true},
                {"fire-red-asr-ctc", true},
                {"dolphin-ctc", false}};
    const char *root = getenv("STENO_SHARED");
    char dir[512];
    (void)state;
    root = root ? root : "../shared";
    if (access(root, R_OK)) {
        fprintf(stderr, "# skipped: %s is not there\n", root);
        skip();
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(dir, sizeof dir, "%s/zoo/tiny/%s", root, rows[i].name);
        compare(dir, rows[i].known);
    }
}

static void of_whisper(void **state)
{
    static const char *const names[] = {"tiny.en", "base"};
    size_t there = 0;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *dir = whisper_model(names[i]);
        if (!dir)
            continue;
        compare(dir, true);
        there++;
    }
    if (!there)
        skip();
}

static void what_is_no_model_has_none(void **state)
{
    struct steno_model_languages l;
    (void)state;
    assert_false(steno_model_languages("/nowhere", &l));
    assert_false(steno_model_languages("tests/data", &l));
    assert_string_equal(l.languages, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_the_shipped_model),
        cmocka_unit_test(of_all_families),
        cmocka_unit_test(of_whisper),
        cmocka_unit_test(what_is_no_model_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
