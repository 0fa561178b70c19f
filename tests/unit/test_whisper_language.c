/* Which language a window has, with one detected in each. No model. */

#include "speech/families/whisper/recording_internal.h"
#include "tests/support/test.h"

/* Languages are numbers; `spoken` is that of the text before, -1: there is none; `before` its
 * probability. */
static int language_of(int spoken, int guess, float probability, float before)
{
    const steno_whisper_recording r = {.at = {.spoken = spoken, .language = -1}};
    const struct steno_whisper_guess g = steno_whisper_language_keep(
        &r, (struct steno_whisper_guess){
                .language = guess, .probability = probability, .second = 0.1f, .before = before});
    assert_true(g.probability == (g.language == guess ? probability : before));
    return g.language;
}

static void an_unlikely_language_does_not_take_over(void **state)
{
    (void)state;
    assert_int_equal(language_of(0, 7, 0.21f, 0.02f), 0); /* hum behind English */
    assert_int_equal(language_of(0, 7, 0.49f, 0.02f), 0);
    assert_int_equal(language_of(0, 7, 0.5f, 0.02f), 7);
    assert_int_equal(language_of(0, 7, 0.68f, 0.32f), 0); /* "nine" and "nein" */
    assert_int_equal(language_of(0, 7, 0.8f, 0.2f), 7);
    assert_int_equal(language_of(0, 0, 0.3f, 0.3f), 0);
    assert_int_equal(language_of(-1, 7, 0.21f, 0), 7); /* nothing was said before */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_unlikely_language_does_not_take_over)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
