/* Marks and units that are said, as signs: Deepgram's dictation and measurements. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/dictated.h"
#include "tests/support/test.h"

#define MOST 64

/* Rewrite a text whose word i is from i to i + 0.5 s; its words are those of the result. */
static void check(const char *text, bool marks, bool units, const char *want, const double *starts)
{
    char copy[1024], joined[1024] = "", *save = NULL;
    struct steno_word words[MOST];
    struct steno_alternative in = {.text = text, .words = words}, out;
    steno_arena *arena = steno_arena_new(0);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save), in.n_words++)
        words[in.n_words] =
            (struct steno_word){w, (double)in.n_words, (double)in.n_words + 0.5, 0.5f};
    assert_int_equal(steno_dictated_write(&in, marks, units, arena, &out), STENO_OK);
    if (strcmp(out.text, want))
        fail_msg("'%s' became '%s', expected '%s'", text, out.text, want);
    for (size_t i = 0; i < out.n_words; i++) {
        snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%s%s", i ? " " : "",
                 out.words[i].text);
        if (starts)
            assert_float_equal(out.words[i].start, starts[i], 1e-9);
    }
    assert_string_equal(joined, want);
    steno_arena_free(arena);
}

static void said_marks_become_signs(void **state)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"a headache comma nausea comma and vomiting period they left period",
         "a headache, nausea, and vomiting. They left."},
        {"is that so question mark yes exclamation mark", "is that so? Yes!"},
        {"two things colon bread new line milk new paragraph thanks",
         "two things: bread <\\n> milk <\\n\\n> Thanks"},
        {"a headache, comma, nausea. Period.", "a headache, nausea."}, /* the model's own marks */
        {"period", "."},
        {"the question is new", "the question is new"},
        {"new line comma yes", "<\\n> , yes"}, /* no word is before the comma */
        {"periodic commas", "periodic commas"},
        {"", ""},
    };
    static const double starts[] = {0, 2, 4, 5};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(rows[i].text, true, false, rows[i].want, NULL);
    check("one comma two period three four", true, true, "one, two. Three four", starts);
}

static void units_behind_numbers_become_signs(void **state)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"take 5 milligrams and twenty milliliters.", "take 5 mg and twenty ml."},
        {"a 2.5 Kilometer run, 10 meters wide", "a 2.5 km run, 10 m wide"},
        {"one gram, half a liter", "one g, half a liter"}, /* "half a" is no number */
        {"the gram and the meter", "the gram and the meter"},
        {"3 metersx", "3 metersx"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(rows[i].text, false, true, rows[i].want, NULL);
    check("5 grams comma", false, true, "5 g comma", NULL);
    check("5 grams comma", true, false, "5 grams,", NULL);
}

/* Words that do not stand in the text: nothing is rewritten. */
static void words_of_another_text_stay(void **state)
{
    struct steno_word words[] = {{"five", 0, 1, 1}, {"comma", 1, 2, 1}};
    const struct steno_alternative in = {.text = "5 comma", .words = words, .n_words = 2};
    struct steno_alternative out;
    steno_arena *arena = steno_arena_new(0);
    (void)state;
    assert_int_equal(steno_dictated_write(&in, true, true, arena, &out), STENO_OK);
    assert_string_equal(out.text, "5 comma");
    assert_ptr_equal(out.words, words);
    steno_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(said_marks_become_signs),
        cmocka_unit_test(units_behind_numbers_become_signs),
        cmocka_unit_test(words_of_another_text_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
