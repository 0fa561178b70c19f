/* Times of a transcript's words from an alignment of its text. */
#include <string.h>

#include "protocol/word_times.h"
#include "tests/support/test.h"

static void add_segment(steno_transcript *t, const char *text, const struct steno_word *w, size_t n)
{
    const struct steno_alternative best = {.text = text, .words = w, .n_words = n};
    const struct steno_event ev = {.kind = STENO_FINAL,
                                   .text = text,
                                   .language = "",
                                   .start = n ? w[0].start : 3,
                                   .end = n ? w[n - 1].end : 3.5,
                                   .words = w,
                                   .n_words = n,
                                   .alternatives = &best,
                                   .n_alternatives = 1};
    assert_int_equal(steno_transcript_add(t, &ev, NULL), STENO_OK);
}

/* "Call 5 000, ok." without its words; nothing; "你好 - x". */
static steno_transcript *spoken(void)
{
    static const struct steno_word first[] = {{"Call", 0.2, 0.6, 0.5F},
                                              {"5\xC2\xA0"
                                               "000,",
                                               0.6, 1.2, 0.6F},
                                              {"ok.", 1.2, 1.6, 0.7F}};
    static const struct steno_word blank[] = {{" ", 2, 2.1, 0.5F}};
    static const struct steno_word last[] = {
        {"\xE4\xBD\xA0\xE5\xA5\xBD", 4, 4.5, 0.8F}, {"-", 4.5, 4.6, 0.4F}, {"x", 4.6, 5, 0.9F}};
    steno_transcript *t = steno_transcript_new(0);
    assert_non_null(t);
    add_segment(t, "Call 5 000, ok.", first, 3);
    add_segment(t, "no words", NULL, 0);
    add_segment(t, "blank", blank, 1);
    add_segment(t, "\xE4\xBD\xA0\xE5\xA5\xBD - x", last, 3);
    return t;
}

static void lines_are_the_words_of_segments_around_their_times(void **state)
{
    steno_transcript *t = spoken();
    struct steno_text_lines l;
    (void)state;
    assert_int_equal(steno_word_times_lines(&l, t, NULL), STENO_OK);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.lines[0].text, "Call 5\xC2\xA0"
                                         "000, ok. ");
    assert_string_equal(l.lines[1].text, "\xE4\xBD\xA0\xE5\xA5\xBD - x ");
    assert_true(l.lines[0].from == 0 && l.lines[0].to > 2.59 && l.lines[0].to < 2.61);
    assert_true(l.lines[1].from == 3 && l.lines[1].to == 6);
    steno_text_lines_free(&l);
    steno_transcript_free(t);
}

static void check(const struct steno_word *w, double start, double end, float confidence)
{
    assert_true(w->start == start && w->end == end && w->confidence == confidence);
}

static void words_take_the_times_of_what_spells_them(void **state)
{
    /* a word in two, with nothing found for the last; a word of two characters */
    static const struct steno_word aligned[] = {{"Call", 0.3, 0.5, 1},
                                                {"5", 0.7, 0.8, 1},
                                                {"000,", 0.9, 1.0, 1},
                                                {"ok.", 1.0, 1.0, 0},
                                                {"\xE4\xBD\xA0", 4.1, 4.2, 1},
                                                {"\xE5\xA5\xBD", 4.3, 4.4, 1},
                                                {"-", 4.4, 4.4, 0},
                                                {"x", 4.45, 4.9, 1}};
    static const struct steno_section sections[] = {{.text = "", .first_word = 0, .n_words = 4},
                                                    {.text = "", .first_word = 4, .n_words = 4}};
    const struct steno_event ev = {
        .kind = STENO_FINAL, .words = aligned, .n_words = 8, .sections = sections, .n_sections = 2};
    steno_transcript *t = spoken();
    const struct steno_event *seg;
    (void)state;
    assert_int_equal(steno_word_times_take(t, &ev, NULL), STENO_OK);
    seg = steno_transcript_segment(t, 0);
    check(&seg->words[0], 0.3, 0.5, 0.5F);
    check(&seg->words[1], 0.7, 1.0, 0.6F);
    check(&seg->words[2], 1.2, 1.6, 0.7F); /* its own */
    assert_true(seg->start == 0.3 && seg->end == 1.6);
    assert_ptr_equal(seg->alternatives[0].words, seg->words);
    seg = steno_transcript_segment(t, 3);
    check(&seg->words[0], 4.1, 4.4, 0.8F);
    check(&seg->words[1], 4.45, 4.45, 0.4F); /* between its neighbours */
    check(&seg->words[2], 4.45, 4.9, 0.9F);
    assert_true(steno_transcript_segment(t, 2)->words[0].start == 2);
    steno_transcript_free(t);
}

/* Fewer words than were asked for, as of a text that was cut short: the others keep their times. */
static void an_alignment_that_is_too_short_does_no_harm(void **state)
{
    static const struct steno_word aligned[] = {{"Call", 0.3, 0.5, 1}};
    static const struct steno_section sections[] = {{.text = "", .first_word = 0, .n_words = 1}};
    const struct steno_event ev = {
        .kind = STENO_FINAL, .words = aligned, .n_words = 1, .sections = sections, .n_sections = 1};
    steno_transcript *t = spoken();
    (void)state;
    assert_int_equal(steno_word_times_take(t, &ev, NULL), STENO_OK);
    check(&steno_transcript_segment(t, 0)->words[0], 0.3, 0.5, 0.5F);
    check(&steno_transcript_segment(t, 0)->words[2], 1.2, 1.6, 0.7F);
    check(&steno_transcript_segment(t, 3)->words[2], 4.6, 5, 0.9F);
    steno_transcript_free(t);
}

/* A live final: it begins no sooner than the words before it end, and what was found is counted
 * from elsewhere by the caller. */
static void a_final_by_itself(void **state)
{
    static const struct steno_word own[] = {{"five", 2.0, 2.4, 0.5F}, {"six", 2.4, 3, 0.6F}};
    static const struct steno_word aligned[] = {{"five", 2.1, 2.3, 1}, {"six", 2.5, 2.9, 1}};
    const struct steno_alternative all[] = {{.text = "five six", .words = own, .n_words = 2},
                                            {.text = "five", .words = own, .n_words = 1}};
    struct steno_event ev = {.text = "five six",
                             .start = 2,
                             .end = 3,
                             .words = own,
                             .n_words = 2,
                             .alternatives = all,
                             .n_alternatives = 2};
    struct steno_text_lines l;
    steno_arena *a = steno_arena_new(0);
    (void)state;
    assert_int_equal(steno_word_times_line(&l, &ev, 0, NULL), STENO_OK);
    assert_true(l.n == 1 && l.lines[0].from == 1 && l.lines[0].to == 4);
    assert_string_equal(l.lines[0].text, "five six ");
    steno_text_lines_free(&l);
    assert_int_equal(steno_word_times_line(&l, &ev, 1.5, NULL), STENO_OK);
    assert_true(l.n == 1 && l.lines[0].from == 1.5 && l.lines[0].to == 4);
    steno_text_lines_free(&l);
    assert_int_equal(steno_word_times_place(&ev, a, aligned, 2, NULL), STENO_OK);
    check(&ev.words[0], 2.1, 2.3, 0.5F);
    check(&ev.words[1], 2.5, 2.9, 0.6F);
    assert_true(ev.start == 2.1 && ev.end == 2.9);
    assert_ptr_equal(ev.alternatives[0].words, ev.words);
    check(&ev.alternatives[1].words[0], 2.0, 2.4, 0.5F);
    ev.n_words = 0;
    assert_int_equal(steno_word_times_line(&l, &ev, 0, NULL), STENO_OK);
    assert_int_equal(l.n, 0);
    steno_text_lines_free(&l);
    steno_arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_the_words_of_segments_around_their_times),
        cmocka_unit_test(words_take_the_times_of_what_spells_them),
        cmocka_unit_test(an_alignment_that_is_too_short_does_no_harm),
        cmocka_unit_test(a_final_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
