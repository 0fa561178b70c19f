/* Words that are taken out of a text or replaced by others. */
#include <stdlib.h>
#include <string.h>

#include "speech/recognizer/filters.h"
#include "tests/support/test.h"

#define MAX_WORDS 64

static steno_arena *arena;
static char text_of_words[1024];
static struct steno_word words[MAX_WORDS];

static int open_arena(void **state)
{
    (void)state;
    arena = steno_arena_new(0);
    return arena ? 0 : -1;
}

static int close_arena(void **state)
{
    (void)state;
    steno_arena_free(arena);
    return 0;
}

/* An event of the text whose words last half a second and begin every second. */
static struct steno_event event_of(const char *text, enum steno_event_kind kind)
{
    struct steno_event ev = {.kind = kind, .text = text, .language = "", .words = words};
    char *p = strcpy(text_of_words, text);
    while ((p = strtok(p, " ")) && ev.n_words < MAX_WORDS) {
        words[ev.n_words] = (struct steno_word){.text = p,
                                                .start = (double)ev.n_words,
                                                .end = (double)ev.n_words + .5,
                                                .confidence = .9f};
        ev.n_words++;
        p = NULL;
    }
    return ev;
}

static void apply(struct steno_event *ev, const char *redact, const char *replace)
{
    const struct steno_filter_options h = {.redact = redact, .replace = replace};
    steno_filters *f;
    steno_err err;
    assert_int_equal(steno_filters_open(&f, &h, &err), STENO_OK);
    assert_non_null(f);
    assert_int_equal(steno_filters_apply(f, ev, arena), STENO_OK);
    steno_filters_close(f);
}

/* The words joined are the text. */
static void assert_words_spell_text(const struct steno_event *ev)
{
    char all[1024] = "";
    for (size_t i = 0; i < ev->n_words; i++) {
        strcat(all, i ? " " : "");
        strcat(all, ev->words[i].text);
        assert_true(ev->words[i].end >= ev->words[i].start);
        assert_true(!i || ev->words[i].start >= ev->words[i - 1].end);
    }
    assert_string_equal(all, ev->text);
}

struct row {
    const char *filter, *in, *out;
};

static void check_rows(const struct row *row, size_t n, bool redact, enum steno_event_kind kind)
{
    for (size_t i = 0; i < n; i++) {
        struct steno_event ev = event_of(row[i].in, kind);
        apply(&ev, redact ? row[i].filter : NULL, redact ? NULL : row[i].filter);
        assert_string_equal(ev.text, row[i].out);
        assert_words_spell_text(&ev);
        ev = event_of(row[i].in, kind); /* a model without words */
        ev.n_words = 0;
        apply(&ev, redact ? row[i].filter : NULL, redact ? NULL : row[i].filter);
        assert_string_equal(ev.text, row[i].out);
        assert_int_equal(ev.n_words, 0);
    }
}
#define COUNT(a) (sizeof(a) / sizeof *(a))

static void numbers_are_redacted(void **state)
{
    static const struct row rows[] = {
        {"numbers", "my pin is four two seven one", "my pin is [REDACTED]"},
        {"numbers", "one of two people", "one of two people"},
        {"numbers", "Call 555-1234, please.", "Call [REDACTED], please."},
        {"numbers", "in twenty twenty four we", "in [REDACTED] we"},
        {"numbers", "two hundred and five people", "[REDACTED] people"},
        {"numbers", "four oh oh one", "[REDACTED]"},
        {"numbers", "forty-two thousand and twenty-five", "[REDACTED]"},
        {"numbers", "ninety-nine, and forty two people", "ninety-nine, and forty two people"},
        {"numbers", "call nine-one-one now", "call [REDACTED] now"},
        {"numbers", "a thousand, or five million", "a [REDACTED], or [REDACTED]"},
        {"numbers", "\xd9\xa1\xd9\xa2\xd9\xa3 a", "[REDACTED] a"},             /* Arabic */
        {"numbers", "\xef\xbc\x91\xef\xbc\x92\xef\xbc\x93 a", "[REDACTED] a"}, /* full width */
        {"ssn", "zero seventy-eight oh five eleven twenty", "[REDACTED]"},
        {"true", "it was 1984.", "it was [REDACTED]."},
        {"aggressive_numbers", "one of 2 people", "[REDACTED] of [REDACTED] people"},
        {"phone", "at 030 1234567 or 12345", "at [REDACTED] or 12345"},
        {"phone", "my number is five five five oh one two three", "my number is [REDACTED]"},
        {"phone", "4111 1111 1111 1111", "[REDACTED]"},
        {"pci", "card 4111 1111 1111 1111 expires 04/27, security code 123.",
         "card [REDACTED] expires [REDACTED], security code [REDACTED]."},
        {"pci", "room 123 on floor 12", "room 123 on floor 12"},
        {"ssn", "078-05-1120", "[REDACTED]"},
        {"ssn", "the last four of my social are one one two oh",
         "the last four of my social are [REDACTED]"},
        {"ssn", "in 1984", "in 1984"},
        {"pci,ssn, phone", "078-05-1120 and 4111111111111111", "[REDACTED] and [REDACTED]"},
        {"phone", "\xe7\x94\xb5\xe8\xaf\x9d 13800138000", "\xe7\x94\xb5\xe8\xaf\x9d [REDACTED]"},
    };
    (void)state;
    check_rows(rows, COUNT(rows), true, STENO_FINAL);
}

static void addresses_are_redacted(void **state)
{
    static const struct row rows[] = {
        {"email", "write to ann.lee@example.com, please", "write to [REDACTED], please"},
        {"email", "john dot smith at example dot co dot uk is mine", "[REDACTED] is mine"},
        {"email", "mail ann at example dot com", "mail [REDACTED]"},
        {"email", "meet me at noon", "meet me at noon"},
        {"email", "at home", "at home"},
    };
    (void)state;
    check_rows(rows, COUNT(rows), true, STENO_FINAL);
}

static void words_are_replaced(void **state)
{
    static const struct row rows[] = {
        {"colour:color", "The Colour, the colour.", "The color, the color."},
        {"new york:NYC,york:Yorkshire", "new york and york", "NYC and Yorkshire"},
        {"um:", "um I um think um", "I think"},
        {"steno:Steno by us", "a steno here", "a Steno by us here"},
        {"\xe5\x8c\x97\xe4\xba\xac:Beijing", "\xe5\x8c\x97 \xe4\xba\xac x", "Beijing x"},
        {"a:b\nc:d", "a c", "b d"},
        {"\xc3\x89LAN:go", "\xc3\xa9lan \xc3\x89lan", "go go"},
        {"none:x", "as it is", "as it is"},
    };
    (void)state;
    check_rows(rows, COUNT(rows), false, STENO_FINAL);
}

static void apply_options(struct steno_event *ev, const struct steno_filter_options *o)
{
    steno_filters *f;
    steno_err err;
    assert_int_equal(steno_filters_open(&f, o, &err), STENO_OK);
    assert_non_null(f);
    assert_int_equal(steno_filters_apply(f, ev, arena), STENO_OK);
    steno_filters_close(f);
}

static void fillers_are_left_out(void **state)
{
    static const struct row rows[] = {
        {"", "Um, I uh think so.", "I think so."},
        {"", "mhmm uh-huh uh huh mm-mm mm mm nuh-uh nuh uh uh-uh yes", "yes"},
        {"", "the umbrella of hums", "the umbrella of hums"},
        {"", "um", ""},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct steno_event ev = event_of(rows[i].in, STENO_FINAL);
        apply_options(&ev, &(struct steno_filter_options){.no_fillers = true});
        assert_string_equal(ev.text, rows[i].out);
        assert_words_spell_text(&ev);
    }
}

/* Each word of a phrase keeps its time and its marks; letters are counted, not bytes. */
static void listed_words_are_masked(void **state)
{
    static const struct row rows[] = {
        {"darn\r\n\r\n Holy  Cow \n", "\"Darn!\" Holy cow, a cow.", "\"****!\" **** ***, a cow."},
        {"darn", "darned is not darn", "darned is not ****"},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f dich", "**** dich"},
    };
    struct steno_event ev;
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        ev = event_of(rows[i].in, STENO_FINAL);
        apply_options(&ev, &(struct steno_filter_options){.mask = rows[i].filter});
        assert_string_equal(ev.text, rows[i].out);
        assert_words_spell_text(&ev);
        assert_true(ev.words[1].start == 1 && ev.words[1].end == 1.5);
    }
    ev = event_of("um four darn two", STENO_FINAL); /* the mask wins where both fit */
    apply_options(&ev, &(struct steno_filter_options){
                           .mask = "darn", .no_fillers = true, .replace = "darn:well,two:2"});
    assert_string_equal(ev.text, "four **** 2");
}

static void a_list_has_an_end(void **state)
{
    char *list = malloc(2 * 4097 + 1);
    steno_filters *f;
    steno_err err;
    (void)state;
    assert_non_null(list);
    for (size_t i = 0; i < 4097; i++)
        memcpy(list + 2 * i, "a\n", 3);
    assert_int_equal(steno_filters_open(&f, &(struct steno_filter_options){.mask = list}, &err),
                     STENO_ERR_INVAL);
    assert_string_equal(err.msg, "mask: more than 4096");
    list[2 * 4096] = '\0';
    assert_int_equal(steno_filters_open(&f, &(struct steno_filter_options){.mask = list}, &err),
                     STENO_OK);
    steno_filters_close(f);
    free(list);
}

/* In a partial a number may grow, and an address too. */
static void partials_tell_no_beginning(void **state)
{
    static const struct row rows[] = {
        {"numbers", "my pin is four", "my pin is [REDACTED]"},
        {"numbers", "one of us", "one of us"},
        {"pci", "it is four two seven", "it is [REDACTED]"},
        {"email", "mail ann at example", "mail [REDACTED]"},
        {"email", "mail ann at example dot", "mail [REDACTED]"},
    };
    struct steno_event ev = event_of("a b c d e f g h i j k l", STENO_PARTIAL);
    (void)state;
    ev.stable_words = 12;
    ev.stable_bytes = strlen(ev.text);
    apply(&ev, "numbers", NULL);
    assert_string_equal(ev.text, "a b c d e f g h i j k l");
    assert_int_equal(ev.stable_words, 4);
    assert_int_equal(ev.stable_bytes, strlen("a b c d"));
    check_rows(rows, COUNT(rows), true, STENO_PARTIAL);
}

static void words_keep_their_times(void **state)
{
    struct steno_event ev = event_of("we say four two seven now", STENO_FINAL);
    static const struct steno_token token[6];
    (void)state;
    words[3].confidence = .5f;
    ev.n_tokens = 6;
    ev.tokens = token;
    apply(&ev, "numbers", "now:right now");
    assert_string_equal(ev.text, "we say [REDACTED] right now");
    assert_int_equal(ev.n_words, 5);
    assert_true(ev.words[2].start == 2 && ev.words[2].end == 4.5);
    assert_true(ev.words[2].confidence == .5f);
    assert_true(ev.words[3].start == 5 && ev.words[4].end == 5.5);
    assert_int_equal(ev.n_tokens, 0); /* they would tell it */
    assert_words_spell_text(&ev);
}

static void sections_and_alternatives_are_filtered_too(void **state)
{
    struct steno_event ev = event_of("call 555 1234 now please", STENO_FINAL);
    const struct steno_section sections[] = {
        {.text = " call 555", .first_word = 0, .n_words = 2, .n_tokens = 3, .n_ids = 2},
        {.text = " 1234 now", .first_word = 2, .n_words = 2},
        {.text = " please", .first_word = 4, .n_words = 1}};
    const struct steno_alternative alternatives[] = {
        {.text = "call 555 1234 now please", .n_words = 5, .words = words},
        {.text = "tall 555 1235 now", .n_ids = 4}};
    (void)state;
    ev.sections = sections;
    ev.n_sections = 3;
    ev.alternatives = alternatives;
    ev.n_alternatives = 2;
    apply(&ev, "phone", NULL);
    assert_string_equal(ev.text, "call [REDACTED] now please");
    assert_string_equal(ev.sections[0].text, " call [REDACTED]");
    assert_string_equal(ev.sections[1].text, " now");
    assert_string_equal(ev.sections[2].text, " please");
    assert_int_equal(ev.sections[0].n_words, 2);
    assert_int_equal(ev.sections[1].first_word, 2);
    assert_int_equal(ev.sections[2].first_word, 3);
    assert_int_equal(ev.sections[0].n_tokens + ev.sections[0].n_ids, 0);
    assert_string_equal(ev.alternatives[0].text, "call [REDACTED] now please");
    assert_int_equal(ev.alternatives[0].n_words, 4);
    assert_string_equal(ev.alternatives[1].text, "tall [REDACTED] now");
    assert_int_equal(ev.alternatives[1].n_ids, 0);
    ev = event_of("call 555 1234 now", STENO_FINAL); /* without words each section is for itself */
    ev.n_words = 0;
    ev.sections = (const struct steno_section[]){{.text = " call 5551234"}, {.text = " now"}};
    ev.n_sections = 2;
    apply(&ev, "phone", NULL);
    assert_string_equal(ev.sections[0].text, " call [REDACTED]");
    assert_string_equal(ev.sections[1].text, " now");
}

/* Words that are not in the text would tell what was taken out of it. */
static void words_that_are_not_in_the_text_are_left_out(void **state)
{
    struct steno_event ev = event_of("a 555 1234", STENO_FINAL);
    (void)state;
    ev.text = "call 555 1234";
    apply(&ev, "phone", NULL);
    assert_string_equal(ev.text, "call [REDACTED]");
    assert_int_equal(ev.n_words, 0);
}

static void wrong_hints_are_refused(void **state)
{
    static const struct steno_filter_options wrong[] = {
        {.redact = "pci,pii"}, {.replace = "abc"}, {.replace = ":x"}, {.replace = " :x"}};
    const struct steno_filter_options none = {.redact = "", .replace = " , "};
    steno_filters *f;
    steno_err err;
    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(steno_filters_open(&f, &wrong[i], &err), STENO_ERR_INVAL);
        assert_null(f);
        assert_memory_equal(err.msg, "re", 2);
    }
    assert_int_equal(steno_filters_open(&f, &none, &err), STENO_OK);
    assert_null(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_redacted),
        cmocka_unit_test(addresses_are_redacted),
        cmocka_unit_test(words_are_replaced),
        cmocka_unit_test(fillers_are_left_out),
        cmocka_unit_test(listed_words_are_masked),
        cmocka_unit_test(a_list_has_an_end),
        cmocka_unit_test(partials_tell_no_beginning),
        cmocka_unit_test(words_keep_their_times),
        cmocka_unit_test(sections_and_alternatives_are_filtered_too),
        cmocka_unit_test(words_that_are_not_in_the_text_are_left_out),
        cmocka_unit_test(wrong_hints_are_refused),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
