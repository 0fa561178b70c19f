/* Partials keep what was shown. */
#include <string.h>

#include "speech/recognizer/steady.h"
#include "tests/support/test.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define MOST 80

static struct steno_word words[MOST];
static char spelled[2000];

/* A partial of the text, whose first `stable` words are stable; each word takes half a second. */
static struct steno_event partial(const char *text, size_t stable)
{
    struct steno_event ev = {
        .kind = STENO_PARTIAL, .text = text, .words = words, .stable_words = stable, .n_tokens = 1};
    char *p = strcpy(spelled, text), *rest = NULL;
    for (p = strtok_r(p, " ", &rest); p; p = strtok_r(NULL, " ", &rest)) {
        assert_true(ev.n_words < MOST);
        words[ev.n_words] = (struct steno_word){.text = p,
                                                .start = (double)ev.n_words,
                                                .end = (double)ev.n_words + .5,
                                                .confidence = .9f};
        if (ev.n_words++ < stable)
            ev.stable_bytes = (size_t)(p - spelled) + strlen(p);
    }
    return ev;
}

static void assert_shows(struct steno_steady *t, struct steno_event ev, const char *want)
{
    char all[2000] = "";
    const char *const before = ev.text;
    assert_int_equal(steno_steady_apply(t, &ev), STENO_OK);
    assert_string_equal(ev.text, want);
    assert_true(ev.stable_bytes <= strlen(ev.text));
    assert_memory_equal(ev.text, before, ev.stable_bytes);
    for (size_t i = 0; i < ev.n_words; i++) {
        strcat(all, i ? " " : "");
        strcat(all, ev.words[i].text);
        assert_true(ev.words[i].end >= ev.words[i].start);
        assert_true(!i || ev.words[i].start >= ev.words[i - 1].end);
    }
    assert_string_equal(all, want);
}

struct row {
    size_t stable;
    const char *in, *shown;
};

static void assert_rows(const struct row *r, size_t n)
{
    struct steno_steady t = {0};
    for (size_t i = 0; i < n; i++)
        assert_shows(&t, partial(r[i].in, r[i].stable), r[i].shown);
    steno_steady_free(&t);
}

static void marks_wait_until_they_are_stable(void **state)
{
    static const struct row rows[] = {{0, "And so, my...", "And so my"},
                                      {1, "And so, my fellow?!", "And so my fellow"},
                                      {2, "And so, my fellow", "And so, my fellow"},
                                      {4, "And so, my fellow. A", "And so, my fellow. A"}};
    (void)state;
    assert_rows(rows, COUNT(rows));
}

static void a_word_stays_until_another_is_heard_twice(void **state)
{
    static const struct row rows[] = {
        {0, "real-time diarize in", "real-time diarize in"},
        {0, "real-time diorize in Microsoft", "real-time diarize in Microsoft"},
        {0, "real-time diarize in", "real-time diarize in Microsoft"},
        {0, "Real time diaries in", "real-time diarize in Microsoft"},
        {0, "Real time diaries in Microsoft", "Real time diaries in Microsoft"}};
    (void)state;
    assert_rows(rows, COUNT(rows));
}

static void capitals_stay_until_they_are_stable(void **state)
{
    static const struct row rows[] = {{0, "it was the", "it was the"},
                                      {0, "It was the best", "it was the best"},
                                      {0, "It was the best of", "it was the best of"},
                                      {3, "It was the best of", "It was the best of"}};
    (void)state;
    assert_rows(rows, COUNT(rows));
}

static void words_that_are_put_in_move_none(void **state)
{
    static const struct row rows[] = {
        {0, "that's a good story", "that's a good story"},
        {0, "Oh, that's a good story. What", "that's a good story What"},
        {0, "that's a good story. What are", "that's a good story What are"},
        {0, "", "that's a good story What are"},
        {0, "Oh, that's a good", "that's a good story What are"},
        {0, "Oh, that's a", "Oh that's a good story What are"}};
    (void)state;
    assert_rows(rows, COUNT(rows));
}

/* More words than are compared: they are shown as the model has them. */
static void very_many_words_are_shown_as_they_are(void **state)
{
    struct steno_steady t = {0};
    char text[MOST * 2] = "";
    (void)state;
    for (size_t i = 0; i < MOST - 1; i++)
        strcat(text, i ? " a" : "b");
    assert_shows(&t, partial(text, 0), text);
    *text = 'c';
    assert_shows(&t, partial(text, 0), text);
    steno_steady_free(&t);
}

/* What a final would say, and another utterance. */
static void finished_text_is_shown_as_it_is(void **state)
{
    const struct steno_section whole = {.text = "It is.", .n_words = 2};
    struct steno_steady t = {0};
    struct steno_event ev;
    (void)state;
    assert_shows(&t, partial("it's", 0), "it's");
    ev = partial("It is.", 0);
    ev.sections = &whole;
    ev.n_sections = 1;
    assert_shows(&t, ev, "It is.");
    assert_shows(&t, partial("it is so", 0), "It is. so");
    steno_steady_reset(&t);
    assert_shows(&t, partial("so it is", 0), "so it is");
    steno_steady_free(&t);
}

/* Tokens spell what the model says, so they go where that is not shown. */
static void tokens_are_those_of_the_words(void **state)
{
    struct steno_steady t = {0};
    struct steno_event ev = partial("one two.", 0);
    (void)state;
    assert_int_equal(steno_steady_apply(&t, &ev), STENO_OK);
    assert_int_equal(ev.n_tokens, 1);
    ev = partial("one too", 0);
    assert_int_equal(steno_steady_apply(&t, &ev), STENO_OK);
    assert_string_equal(ev.text, "one two");
    assert_int_equal(ev.n_tokens, 0);
    steno_steady_free(&t);
}

/* Words without blanks between them: the last marks alone are left out. */
static void text_without_blanks_loses_its_last_marks(void **state)
{
    static const char *const rows[][2] = {
        {"\xe4\xbd\xa0\xe5\xa5\xbd\xe3\x80\x82", "\xe4\xbd\xa0\xe5\xa5\xbd"},
        {"\xe4\xbd\xa0\xe5\xa5\xbd", "\xe4\xbd\xa0\xe5\xa5\xbd"}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct steno_word w[] = {{.text = "\xe4\xbd\xa0"}, {.text = rows[i][0] + 3}};
        struct steno_event ev = {
            .kind = STENO_PARTIAL, .text = rows[i][0], .words = w, .n_words = 2};
        struct steno_steady t = {0};
        assert_int_equal(steno_steady_apply(&t, &ev), STENO_OK);
        assert_string_equal(ev.text, rows[i][1]);
        assert_string_equal(ev.words[1].text, rows[i][1] + 3);
        steno_steady_free(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_wait_until_they_are_stable),
        cmocka_unit_test(a_word_stays_until_another_is_heard_twice),
        cmocka_unit_test(capitals_stay_until_they_are_stable),
        cmocka_unit_test(words_that_are_put_in_move_none),
        cmocka_unit_test(very_many_words_are_shown_as_they_are),
        cmocka_unit_test(finished_text_is_shown_as_it_is),
        cmocka_unit_test(tokens_are_those_of_the_words),
        cmocka_unit_test(text_without_blanks_loses_its_last_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
