/* Numbers of an English text as digits. What is expected is what an English reader writes; where
 * both ways are common (a lone "one", "a second"), the header says which one it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/numerals.h"
#include "tests/support/test.h"

#define MOST 64

/* A text as a hypothesis: word i is from i to i + 0.5 s. */
struct said {
    char text[1024], copy[1024];
    struct steno_word words[MOST];
    struct steno_alternative a;
};

static void say(struct said *s, const char *text)
{
    char *save, *w;
    size_t n = 0;
    snprintf(s->text, sizeof s->text, "%s", text);
    snprintf(s->copy, sizeof s->copy, "%s", text);
    for (w = strtok_r(s->copy, " ", &save); w; w = strtok_r(NULL, " ", &save), n++)
        s->words[n] = (struct steno_word){w, (double)n, (double)n + 0.5, 0.5f};
    s->a = (struct steno_alternative){
        .text = s->text, .confidence = 0.5f, .n_words = n, .words = s->words};
}

static void check(const char *text, bool smart, const char *want)
{
    struct said s;
    struct steno_alternative out;
    steno_arena *arena = steno_arena_new(0);
    char joined[1024] = "";
    say(&s, text);
    assert_int_equal(steno_numerals_write(&s.a, smart, arena, &out, NULL), STENO_OK);
    if (strcmp(out.text, want))
        fail_msg("'%s' became '%s', expected '%s'", text, out.text, want);
    for (size_t i = 0; i < out.n_words; i++)
        snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%s%s", i ? " " : "",
                 out.words[i].text);
    assert_string_equal(joined, want);
    steno_arena_free(arena);
}

struct row {
    const char *text, *want;
};

static void check_all(const struct row *rows, size_t n, bool smart)
{
    for (size_t i = 0; i < n; i++)
        check(rows[i].text, smart, rows[i].want);
}
#define CHECK_ALL(rows) check_all(rows, sizeof(rows) / sizeof *(rows), false)
#define CHECK_SMART(rows) check_all(rows, sizeof(rows) / sizeof *(rows), true)

static void cardinals(void **state)
{
    static const struct row rows[] = {
        {"zero", "0"},
        {"seven", "7"},
        {"eleven", "11"},
        {"twenty", "20"},
        {"twenty three", "23"},
        {"ninety nine red balloons", "99 red balloons"},
        {"a hundred", "100"},
        {"one hundred and five", "105"},
        {"two hundred fifty six bytes", "256 bytes"},
        {"nineteen hundred", "1900"},
        {"twenty five hundred and one", "2501"},
        {"two thousand and five", "2005"},
        {"two thousand five hundred", "2500"},
        {"twelve thousand three hundred forty five", "12345"},
        {"a million", "1000000"},
        {"two million three hundred thousand and five", "2300005"},
        {"nine hundred ninety nine trillion nine hundred ninety nine billion nine hundred ninety "
         "nine million nine hundred ninety nine thousand nine hundred ninety nine",
         "999999999999999"},
        {"ninety nine hundred ninety nine trillion", "9999000000000000"},
        {"one thousand two thousand", "1000 2000"},
        {"five million billion", "5000000 billion"},
        {"zero zero", "0 0"},
    };
    (void)state;
    CHECK_ALL(rows);
}

static void ordinals(void **state)
{
    static const struct row rows[] = {
        {"the twenty first", "the 21st"},
        {"the twenty second of may", "the 22nd of may"},
        {"the thirty third", "the 33rd"},
        {"the eleventh", "the 11th"},
        {"the twelfth night", "the 12th night"},
        {"the thirteenth", "the 13th"},
        {"the hundred and eleventh", "the hundred and 11th"},
        {"one hundred and eleventh", "111th"},
        {"one hundredth", "100th"},
        {"two thousandth", "2000th"},
        {"two thousand and first", "2001st"},
        {"the fortieth", "the 40th"},
        {"wait a second", "wait a second"},
        {"first of all", "first of all"},
        {"the third man", "the third man"},
        {"one second", "one second"},
        {"two seconds", "2 seconds"},
        {"twenty second first", "22nd first"},
    };
    (void)state;
    CHECK_ALL(rows);
}

static void years(void **state)
{
    static const struct row rows[] = {
        {"nineteen eighty four", "1984"},       {"in eighteen oh five", "in 1805"},
        {"twenty twenty six", "2026"},          {"twenty ten", "2010"},
        {"nineteen hundred and one", "1901"},   {"the nineteen eighties", "the 1980s"},
        {"nineteen twelve hundred", "19 1200"}, {"ten thirty", "10 30"},
        {"twenty five thirty", "25 30"},        {"twenty oh", "20 oh"},
        {"the eighties", "the eighties"},
    };
    (void)state;
    CHECK_ALL(rows);
}

static void digits_said_one_by_one(void **state)
{
    static const struct row rows[] = {
        {"four two seven one nine zero three", "4271903"},
        {"call five five five oh one two three now", "call 5550123 now"},
        {"nine one one", "911"},
        {"one two", "one 2"},
        {"two three", "2 3"},
        {"oh two three four", "oh 234"},
        {"one two three hundred", "one 2 300"},
        {"one two three four thousand", "123 4000"},
        {"four, two, seven", "4, 2, 7"},
        {"one two three twenty", "123 20"},
        {"one one one one one one one one one one one one one one one one one one one one one one "
         "one one one one one one one one one one one",
         "1111111111111111111111111111111 one one"},
    };
    (void)state;
    CHECK_ALL(rows);
}

static void decimals(void **state)
{
    static const struct row rows[] = {
        {"three point one four", "3.14"},     {"zero point five", "0.5"},
        {"twenty two point oh two", "22.02"}, {"two point five million", "2.5 million"},
        {"the point is", "the point is"},     {"two points", "2 points"},
        {"a point five", "a point 5"},        {"one point five", "1.5"},
        {"two point. five", "2 point. 5"},    {"two point", "2 point"},
    };
    (void)state;
    CHECK_ALL(rows);
}

static void words_that_are_no_numbers_stay(void **state)
{
    static const struct row rows[] = {
        {"", ""},
        {"no one knows", "no one knows"},
        {"one of them", "one of them"},
        {"two thirds of it", "two thirds of it"},
        {"two-thirds", "two-thirds"},
        {"one-third", "one-third"},
        {"hundred of them", "hundred of them"},
        {"a and b", "a and b"},
        {"a few hundred", "a few hundred"},
        {"and the second-hand six-pack", "and the second-hand six-pack"},
        {"someone often tends to weigh tonnes", "someone often tends to weigh tonnes"},
        {"23 and 5", "23 and 5"},
        {"oh no", "oh no"},
        {"supercalifragilistic", "supercalifragilistic"},
        {"-", "-"},
        {"--- twenty-twenty-", "--- 2020-"},
    };
    (void)state;
    CHECK_ALL(rows);
}

static void marks_and_hyphens(void **state)
{
    static const struct row rows[] = {
        {"Twenty-three.", "23."},
        {"(twenty three)", "(23)"},
        {"Twenty, three.", "20, 3."},
        {"One hundred and five, please!", "105, please!"},
        {"\"Two thousand and five\"", "\"2005\""},
        {"twenty-three hundred", "2300"},
        {"a twenty-one-year plan", "a twenty-one-year plan"},
        {"four-five-six", "456"},
        {"one-two-three-four-five", "one-two-three-four-five"},
        {"Nineteen eighty-four.", "1984."},
        {"\xC2\xBFtwenty three?", "\xC2\xBF"
                                  "23?"},
    };
    (void)state;
    CHECK_ALL(rows);
}

static void money(void **state)
{
    static const struct row rows[] = {
        {"twenty five dollars", "$25"},
        {"it costs one dollar now", "it costs $1 now"},
        {"a hundred dollars", "$100"},
        {"a dollar", "a dollar"},
        {"two thousand and five dollars", "$2005"},
        {"thirteen dollars and fifty cents", "$13.50"},
        {"thirteen dollars five cents.", "$13.05."},
        {"thirteen dollars and fifty people", "$13 and 50 people"},
        {"two point five million dollars", "$2.5 million"},
        {"two million dollars", "$2000000"},
        {"three point nine nine dollars", "$3.99"},
        {"five euros and twenty cents", "\xE2\x82\xAC"
                                        "5.20"},
        {"fifty cents", "50 cents"},
        {"a five-dollar bill", "a $5 bill"},
        {"Twenty dollars, please", "$20, please"},
        {"twenty, dollars", "20, dollars"},
        {"the third dollar", "the third dollar"},
        {"dollars", "dollars"},
        {"twenty pounds", "20 pounds"},
    };
    (void)state;
    CHECK_SMART(rows);
}

static void dates(void **state)
{
    static const struct row rows[] = {
        {"march third twenty twenty four", "March 3, 2024"},
        {"march third two thousand and four", "March 3, 2004"},
        {"on july fourth seventeen seventy six", "on July 4, 1776"},
        {"December twenty fifth, twenty ten.", "December 25, 2010."},
        {"november second", "November 2"},
        {"november the second", "November 2"},
        {"november two twenty twenty two", "November 2, 2022"},
        {"in june five people came", "in june 5 people came"},
        {"in march twenty twenty four", "in March 2024"},
        {"january nineteen oh one", "January 1901"},
        {"the third of march twenty twenty four", "the 3rd of March 2024"},
        {"the twenty first of may", "the 21st of May"},
        {"the thirty second of may", "the 32nd of may"},
        {"february thirty first", "February 31"},
        {"we may first ask", "we may first ask"},
        {"We may second that", "We may second that"},
        {"We met May first", "We met May 1"},
        {"until may first", "until May 1"},
        {"may fifth", "May 5"},
        {"they march third in line", "they march third in line"},
        {"march, third", "march, third"},
        {"may two hundred people", "may 200 people"},
        {"august", "august"},
    };
    (void)state;
    CHECK_SMART(rows);
}

static void times_of_day(void **state)
{
    static const struct row rows[] = {
        {"at eight thirty seven pm on wednesday", "at 8:37 PM on wednesday"},
        {"eight oh five a m", "8:05 AM"},
        {"twelve p.m. sharp", "12 PM sharp"},
        {"at eight p.m.", "at 8 PM."},
        {"Eleven fifteen PM,", "11:15 PM,"},
        {"ten thirty", "10 30"},
        {"thirteen pm", "13 pm"},
        {"eight sixty pm", "8 60 pm"},
        {"i am", "i am"},
        {"i am one", "i am one"},
    };
    (void)state;
    CHECK_SMART(rows);
}

/* numerals alone: Deepgram's smart_format has these, numerals has not. */
static void numbers_alone_leave_money_dates_and_times(void **state)
{
    static const struct row rows[] = {
        {"twenty five dollars", "25 dollars"},
        {"march third twenty twenty four", "march third 2024"},
        {"eight thirty pm", "8 30 pm"},
    };
    (void)state;
    CHECK_ALL(rows);
}

static void words_of_dates_keep_their_times(void **state)
{
    struct said s;
    struct steno_alternative out;
    steno_arena *arena = steno_arena_new(0);
    (void)state;
    say(&s, "on march third twenty twenty four then");
    assert_int_equal(steno_numerals_write(&s.a, true, arena, &out, NULL), STENO_OK);
    assert_int_equal(out.n_words, 5);
    assert_string_equal(out.words[2].text, "3,");
    assert_true(out.words[1].start == 1 && out.words[1].end == 1.5);
    assert_true(out.words[2].start == 2 && out.words[2].end == 2.5);
    assert_true(out.words[3].start == 3 && out.words[3].end == 5.5);
    assert_true(out.words[4].start == 6);
    steno_arena_free(arena);
}

static void words_keep_their_times(void **state)
{
    struct said s;
    struct steno_alternative out;
    steno_arena *arena = steno_arena_new(0);
    (void)state;
    say(&s, "exactly twenty three people");
    s.words[1].confidence = 0.25f;
    s.words[2].confidence = 1;
    assert_int_equal(steno_numerals_write(&s.a, false, arena, &out, NULL), STENO_OK);
    assert_int_equal(out.n_words, 3);
    assert_string_equal(out.words[1].text, "23");
    assert_true(out.words[1].start == 1 && out.words[1].end == 2.5);
    assert_true(out.words[1].confidence > 0.4999f && out.words[1].confidence < 0.5001f);
    assert_true(out.words[2].start == 3 && out.words[2].end == 3.5);
    assert_true(out.confidence == 0.5f);
    steno_arena_free(arena);
}

/* Blanks of the text that are no single spaces stay, and so does what is in no word. */
static void the_rest_of_the_text_stays(void **state)
{
    const struct steno_word words[] = {
        {"twenty", 0, 1, 1}, {"three", 1, 2, 1}, {"x", 2, 3, 1}, {"six", 3, 4, 1}};
    struct steno_alternative a = {
        .text = "- twenty  three / x\nsix -", .n_words = 4, .words = words};
    struct steno_alternative out;
    steno_arena *arena = steno_arena_new(0);
    (void)state;
    assert_int_equal(steno_numerals_write(&a, false, arena, &out, NULL), STENO_OK);
    assert_string_equal(out.text, "- 23 / x\n6 -");
    a.text = "another text";
    assert_int_equal(steno_numerals_write(&a, false, arena, &out, NULL), STENO_OK);
    assert_string_equal(out.text, "another text");
    assert_int_equal(out.n_words, 4);
    steno_arena_free(arena);
}

static void memory_is_bounded(void **state)
{
    struct said s;
    struct steno_alternative out = {0};
    steno_arena *arena = steno_arena_new(64);
    steno_err err;
    (void)state;
    say(&s, "twenty three");
    assert_int_equal(steno_numerals_write(&s.a, false, arena, &out, &err), STENO_ERR_LIMIT);
    assert_null(out.text);
    steno_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cardinals),
        cmocka_unit_test(ordinals),
        cmocka_unit_test(years),
        cmocka_unit_test(digits_said_one_by_one),
        cmocka_unit_test(decimals),
        cmocka_unit_test(words_that_are_no_numbers_stay),
        cmocka_unit_test(marks_and_hyphens),
        cmocka_unit_test(money),
        cmocka_unit_test(dates),
        cmocka_unit_test(times_of_day),
        cmocka_unit_test(numbers_alone_leave_money_dates_and_times),
        cmocka_unit_test(words_of_dates_keep_their_times),
        cmocka_unit_test(words_keep_their_times),
        cmocka_unit_test(the_rest_of_the_text_stays),
        cmocka_unit_test(memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
