/* The languages of a directory are those of the open model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "steno.h"
#include "tests/support/test.h"
#include "tests/support/whisper_models.h"

/* Each is one that steno_language_code takes, so that results can name it. */
static void expect_codes(const char *languages)
{
    for (const char *p = languages; *p;) {
        char code[16];
        const size_t n = strcspn(p, " ");
        assert_in_range(n, 2, sizeof code - 1);
        memcpy(code, p, n);
        code[n] = '\0';
        if (!steno_language_code(code))
            fail_msg("%s has no code", code);
        p += n + (p[n] == ' ');
    }
}

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
    assert_string_equal(info.language, l.language);
    expect_codes(info.languages);
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

/* The language of the last final of spoken digits, and its probability. */
static void expect_language(const char *dir, const char *given, const char *language,
                            float probability)
{
    static int16_t pcm[60 * 8000];
    const struct steno_stream_options o = {.sample_rate = 8000, .hints.language = given};
    char last[8] = "-";
    float sure = -1;
    struct steno_event ev;
    steno_stream *s;
    steno_model *m;
    steno_err err;
    FILE *f = fopen("tests/data/digits.wav", "rb");
    size_t n;
    assert_non_null(f);
    n = fread(pcm, sizeof *pcm, sizeof pcm / sizeof *pcm, f); /* the header is noise */
    fclose(f);
    if (steno_model_open(&m, dir, NULL, &err) || steno_stream_open(&s, m, &o, &err) ||
        steno_stream_push_s16(s, pcm, n, &err) || steno_stream_end(s, &err))
        fail_msg("%s: %s", dir, err.msg);
    while (steno_stream_next(s, &ev))
        if (ev.kind == STENO_FINAL) {
            snprintf(last, sizeof last, "%s", ev.language);
            sure = ev.language_probability;
        }
    assert_string_equal(last, language);
    assert_true(sure == probability);
    steno_stream_close(s);
    steno_model_close(m);
}

/* Also where the network takes none. */
static void a_given_language_is_that_of_the_results(void **state)
{
    (void)state;
    expect_language("conf/models/digits-en", "en-GB", "en", 1);
    expect_language("conf/models/digits-en", NULL, "", 0);
}

/* Bokmal has a prompt of its own beside Norwegian's. */
static void a_language_that_whisper_lacks_is_that_of_the_results(void **state)
{
    const char *root = getenv("STENO_SHARED");
    char dir[512];
    (void)state;
    snprintf(dir, sizeof dir, "%s/zoo/tiny/nemotron-3.5-streaming", root ? root : "../shared");
    if (access(dir, R_OK)) {
        fprintf(stderr, "# skipped: %s is not there\n", dir);
        skip();
    }
    expect_language(dir, "nb", "nb", 1);
    expect_language(dir, "nb-NO", "nb", 1);
    expect_language(dir, "no", "no", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_the_shipped_model),
        cmocka_unit_test(of_all_families),
        cmocka_unit_test(of_whisper),
        cmocka_unit_test(what_is_no_model_has_none),
        cmocka_unit_test(a_given_language_is_that_of_the_results),
        cmocka_unit_test(a_language_that_whisper_lacks_is_that_of_the_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
