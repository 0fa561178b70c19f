/* Alternatives that a grammar rewrites and a network marks: texts, words and their times. Grammars
 * are made here: what a rule does not name is copied letter by letter. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speech/recognizer/written.h"
#include "tests/support/fst_make.h"
#include "tests/support/test.h"

static char folder[] = "/tmp/steno-written-XXXXXX";
static const char *const rules[][2] = {
    {"twenty one", "21"}, {"two dollars", "$2"}, {"half past", "30 past"},
    {"now", "right now"}, {"\xE4\xB8\x89", "3"}, /* 三 */
    {"mister", "mr."},    {"second", "2nd"},     {"a c", "AC"},
};

/* Every byte costs 1, a rule nothing. */
static void save_rules(void)
{
    struct fst_make m;
    char path[128];
    size_t n;
    unsigned char *p;
    FILE *f;
    fst_make_start(&m);
    m.final[0] = 0;
    for (int c = 1; c < 256; c++)
        fst_make_add(&m, 0, c, c, 1, 0);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        fst_make_path(&m, 0, rules[i][0], rules[i][1], 0, 0);
    p = fst_make_bytes(&m, FST_MAKE_VECTOR, &n);
    snprintf(path, sizeof path, "%s/itn.fst", folder);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    free(p);
}

struct expected {
    const char *text;
    double start, end;
    float confidence;
};

#define MAX_WORDS 8
struct row {
    const char *text;
    const char *words[MAX_WORDS]; /* word i is at i to i + 0.5 s, with confidence 0.5, 0.25, ... */
    const char *written;
    struct expected out[MAX_WORDS];
};

static const struct row rows[] = {
    {"in twenty one days",
     {"in", "twenty", "one", "days"},
     "in 21 days",
     {{"in", 0, 0.5, 0.5f}, {"21", 1, 2.5, 0.176777f}, {"days", 3, 3.5, 0.0625f}}},
    {"two dollars", {"two", "dollars"}, "$2", {{"$2", 0, 1.5, 0.353553f}}},
    /* two words of one share its time by length */
    {"go now",
     {"go", "now"},
     "go right now",
     {{"go", 0, 0.5, 0.5f}, {"right", 1, 1.3125, 0.25f}, {"now", 1.3125, 1.5, 0.25f}}},
    /* a piece that keeps one of its words */
    {"half past",
     {"half", "past"},
     "30 past",
     {{"30", 0, 0.5, 0.353553f}, {"past", 0.5, 1.5, 0.353553f}}},
    /* capitals stay, and what is new gets them */
    {"MISTER X IN TWENTY ONE",
     {"MISTER", "X", "IN", "TWENTY", "ONE"},
     "MR. X IN 21",
     {{"MR.", 0, 0.5, 0.5f},
      {"X", 1, 1.5, 0.25f},
      {"IN", 2, 2.5, 0.125f},
      {"21", 3, 4.5, 0.044194f}}},
    {"It Is twenty one",
     {"It", "Is", "twenty", "one"},
     "It Is 21",
     {{"It", 0, 0.5, 0.5f}, {"Is", 1, 1.5, 0.25f}, {"21", 2, 3.5, 0.088388f}}},
    /* no blanks: 有三个 */
    {"\xE6\x9C\x89\xE4\xB8\x89\xE4\xB8\xAA",
     {"\xE6\x9C\x89", "\xE4\xB8\x89", "\xE4\xB8\xAA"},
     "\xE6\x9C\x89"
     "3"
     "\xE4\xB8\xAA",
     {{"\xE6\x9C\x89", 0, 0.5, 0.5f}, {"3", 1, 1.5, 0.25f}, {"\xE4\xB8\xAA", 2, 2.5, 0.125f}}},
    /* caf\xC3\xA9 is one word */
    {"caf\xC3\xA9 now",
     {"caf\xC3\xA9", "now"},
     "caf\xC3\xA9 right now",
     {{"caf\xC3\xA9", 0, 0.5, 0.5f}, {"right", 1, 1.3125, 0.25f}, {"now", 1.3125, 1.5, 0.25f}}},
    {"go", {"go"}, "go", {{"go", 0, 0.5, 0.5f}}},
    {"", {NULL}, "", {{NULL, 0, 0, 0}}},
};

static void check_row(const struct row *r, const struct steno_written_by *by)
{
    struct steno_word words[MAX_WORDS];
    struct steno_alternative a = {.text = r->text, .words = words, .n_tokens = 3};
    steno_arena *arena = steno_arena_new(0);
    size_t n = 0;
    for (; a.n_words < MAX_WORDS && r->words[a.n_words]; a.n_words++)
        words[a.n_words] = (struct steno_word){.text = r->words[a.n_words],
                                               .start = (double)a.n_words,
                                               .end = (double)a.n_words + 0.5,
                                               .confidence = powf(0.5f, (float)a.n_words + 1)};
    assert_int_equal(steno_written_apply(&a, by, arena), STENO_OK);
    assert_string_equal(a.text, r->written);
    assert_int_equal(a.n_tokens, 3);
    for (; n < MAX_WORDS && r->out[n].text; n++) {
        assert_true(n < a.n_words);
        assert_string_equal(a.words[n].text, r->out[n].text);
        assert_true(fabs(a.words[n].start - r->out[n].start) < 1e-5);
        assert_true(fabs(a.words[n].end - r->out[n].end) < 1e-5);
        assert_true(fabsf(a.words[n].confidence - r->out[n].confidence) < 1e-5f);
    }
    assert_int_equal(a.n_words, n);
    steno_arena_free(arena);
}

static void words_have_the_times_of_what_was_spoken(void **state)
{
    steno_itn *g = NULL;
    steno_itn_writer *w = steno_itn_writer_new();
    struct steno_written_by by = {.itn = w};
    (void)state;
    assert_int_equal(steno_itn_open_of_model(&g, folder, NULL), STENO_OK);
    assert_non_null(g);
    by.grammar = g;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(&rows[i], &by);
    steno_itn_close(g);
    steno_itn_writer_free(w);
}

/* Words that the grammar is kept from stay as they are, in their case too. */
static void shielded_words_stay(void **state)
{
    static const struct row shielded[] = {
        {"In a Second twenty one",
         {"In", "a", "Second", "twenty", "one"},
         "In a Second 21",
         {{"In", 0, 0.5, 0.5f},
          {"a", 1, 1.5, 0.25f},
          {"Second", 2, 2.5, 0.125f},
          {"21", 3, 4.5, 0.044194f}}},
        {"a c compiler",
         {"a", "c", "compiler"},
         "a c compiler",
         {{"a", 0, 0.5, 0.5f}, {"c", 1, 1.5, 0.25f}, {"compiler", 2, 2.5, 0.125f}}},
        /* a text with the shield's byte is not shielded */
        {"] second", {"]", "second"}, "] 2nd", {{"]", 0, 0.5, 0.5f}, {"2nd", 1, 1.5, 0.25f}}},
    };
    steno_itn *g = NULL;
    struct steno_written_by by = {.itn = steno_itn_writer_new(), .shielded = true};
    (void)state;
    assert_int_equal(steno_itn_open_of_model(&g, folder, NULL), STENO_OK);
    by.grammar = g;
    for (size_t i = 0; i < sizeof shielded / sizeof *shielded; i++)
        check_row(&shielded[i], &by);
    steno_itn_close(g);
    steno_itn_writer_free(by.itn);
}

/* Of lone numbers "one" stays, and so do ordinals and words that the grammar is kept from. */
static void lone_numbers_become_digits_where_that_is_wanted(void **state)
{
    static const struct row lone[] = {
        {"Zero dogs one cat",
         {"Zero", "dogs", "one", "cat"},
         "0 dogs one cat",
         {{"0", 0, 0.5, 0.5f},
          {"dogs", 1, 1.5, 0.25f},
          {"one", 2, 2.5, 0.125f},
          {"cat", 3, 3.5, 0.0625f}}},
        {"nine a second twenty one",
         {"nine", "a", "second", "twenty", "one"},
         "9 a second 21",
         {{"9", 0, 0.5, 0.5f},
          {"a", 1, 1.5, 0.25f},
          {"second", 2, 2.5, 0.125f},
          {"21", 3, 4.5, 0.044194f}}},
    };
    steno_itn *g = NULL;
    struct steno_written_by by = {.itn = steno_itn_writer_new(), .shielded = true, .digits = true};
    (void)state;
    assert_int_equal(steno_itn_open_of_model(&g, folder, NULL), STENO_OK);
    by.grammar = g;
    for (size_t i = 0; i < sizeof lone / sizeof *lone; i++)
        check_row(&lone[i], &by);
    steno_itn_close(g);
    steno_itn_writer_free(by.itn);
}

/* Marks and capitals come from the network of tests/data/punctuation, which reads what was spoken:
 * "hello" gets a first capital and a comma, "you" a question mark, "nasa" is in capitals. */
static const struct row marked[] = {
    {"hello to you",
     {"hello", "to", "you"},
     "Hello, to you?",
     {{"Hello,", 0, 0.5, 0.5f}, {"to", 1, 1.5, 0.25f}, {"you?", 2, 2.5, 0.125f}}},
    /* capitals become small letters, but for those that the network wants */
    {"HELLO AT NASA",
     {"HELLO", "AT", "NASA"},
     "Hello, at NASA",
     {{"Hello,", 0, 0.5, 0.5f}, {"at", 1, 1.5, 0.25f}, {"NASA", 2, 2.5, 0.125f}}},
    /* the mark behind a number is that of its last word, and a mark within it is none */
    {"in twenty one",
     {"in", "twenty", "one"},
     "in 21,",
     {{"in", 0, 0.5, 0.5f}, {"21,", 1, 2.5, 0.176777f}}},
    {"one two dollars",
     {"one", "two", "dollars"},
     "one, $2.",
     {{"one,", 0, 0.5, 0.5f}, {"$2.", 1, 2.5, 0.176777f}}},
    /* one written word has the case of its spoken one, and no second full stop */
    {"mister x", {"mister", "x"}, "Mr. x", {{"Mr.", 0, 0.5, 0.5f}, {"x", 1, 1.5, 0.25f}}},
    /* of several that one word became the last has its mark */
    {"go now",
     {"go", "now"},
     "go right now.",
     {{"go", 0, 0.5, 0.5f}, {"right", 1, 1.3125, 0.25f}, {"now.", 1.3125, 1.5, 0.25f}}},
    {"Hello You",
     {"Hello", "You"},
     "Hello, You?",
     {{"Hello,", 0, 0.5, 0.5f}, {"You?", 1, 1.5, 0.25f}}},
    {"x", {"x"}, "x", {{"x", 0, 0.5, 0.5f}}},
};

static void marks_are_those_of_what_was_spoken(void **state)
{
    steno_itn *g = NULL;
    steno_punctuator *p = NULL;
    struct steno_written_by by = {.itn = steno_itn_writer_new()};
    (void)state;
    assert_int_equal(steno_itn_open_of_model(&g, folder, NULL), STENO_OK);
    assert_int_equal(steno_punctuator_open(&p, "tests/data/punctuation", NULL), STENO_OK);
    assert_int_equal(steno_punctuation_writer_open(&by.marks, p, NULL), STENO_OK);
    for (size_t grammar = 0; grammar < 2; grammar++) {
        by.grammar = grammar ? g : NULL;
        for (size_t i = 0; i < sizeof marked / sizeof *marked; i++)
            if (grammar || i < 2)
                check_row(&marked[i], &by);
    }
    steno_punctuation_writer_close(by.marks);
    steno_punctuator_close(p);
    steno_itn_close(g);
    steno_itn_writer_free(by.itn);
}

/* Chinese marks become those of ASCII behind a word of it: the recorded text 12, whose words are
 * characters. */
static void marks_are_of_the_words_script(void **state)
{
    static const struct row chinese = {
        "\xE8\xAF\xB7\xE6\x89\x93\xE5\xBC\x80 window \xE8\xB0\xA2\xE8\xB0\xA2",
        {"\xE8\xAF\xB7", "\xE6\x89\x93", "\xE5\xBC\x80", "window", "\xE8\xB0\xA2", "\xE8\xB0\xA2"},
        "\xE8\xAF\xB7\xE6\x89\x93\xEF\xBC\x8C\xE5\xBC\x80\xEF\xBC\x8C window, "
        "\xE8\xB0\xA2\xE8\xB0\xA2\xE3\x80\x82",
        {{"\xE8\xAF\xB7", 0, 0.5, 0.5f},
         {"\xE6\x89\x93\xEF\xBC\x8C", 1, 1.5, 0.25f},
         {"\xE5\xBC\x80\xEF\xBC\x8C", 2, 2.5, 0.125f},
         {"window,", 3, 3.5, 0.0625f},
         {"\xE8\xB0\xA2", 4, 4.5, 0.03125f},
         {"\xE8\xB0\xA2\xE3\x80\x82", 5, 5.5, 0.015625f}}};
    const char *shared = getenv("STENO_SHARED");
    char dir[256];
    steno_punctuator *p = NULL;
    struct steno_written_by by = {0};
    (void)state;
    snprintf(dir, sizeof dir, "%s/punctuation/ct-transformer", shared ? shared : "../shared");
    if (!steno_punctuator_is_dir(dir))
        skip();
    assert_int_equal(steno_punctuator_open(&p, dir, NULL), STENO_OK);
    assert_int_equal(steno_punctuation_writer_open(&by.marks, p, NULL), STENO_OK);
    check_row(&chinese, &by);
    steno_punctuation_writer_close(by.marks);
    steno_punctuator_close(p);
}

/* Words that the text does not have, one after the other, leave it alone. */
static void other_words_change_nothing(void **state)
{
    steno_itn *g = NULL;
    steno_itn_writer *w = steno_itn_writer_new();
    const struct steno_word words[] = {{"one", 0, 1, 1}, {"twenty", 1, 2, 1}};
    struct steno_alternative a = {.text = "twenty one", .words = words, .n_words = 2};
    struct steno_written_by by = {.itn = w};
    steno_arena *arena = steno_arena_new(0);
    (void)state;
    assert_int_equal(steno_itn_open_of_model(&g, folder, NULL), STENO_OK);
    by.grammar = g;
    assert_int_equal(steno_written_apply(&a, &by, arena), STENO_OK);
    assert_ptr_equal(a.words, words);
    assert_string_equal(a.text, "twenty one");
    steno_arena_free(arena);
    steno_itn_close(g);
    steno_itn_writer_free(w);
}

static void texts_that_models_wrote_are_told(void **state)
{
    (void)state;
    assert_true(steno_written_is_spoken("twenty one days"));
    assert_true(steno_written_is_spoken("TWENTY ONE DAY'S"));
    assert_true(steno_written_is_spoken("\xE4\xB8\x89\xE4\xB8\xAA"));
    assert_true(steno_written_is_spoken(""));
    assert_false(steno_written_is_spoken("Twenty one"));
    assert_false(steno_written_is_spoken("21 days"));
    assert_false(steno_written_is_spoken("days."));
    assert_false(steno_written_is_spoken("\xE4\xB8\x89\xE3\x80\x82"));
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    save_rules();
    return 0;
}

static int remove_folder(void **state)
{
    char path[128];
    (void)state;
    snprintf(path, sizeof path, "%s/itn.fst", folder);
    (void)remove(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_have_the_times_of_what_was_spoken),
        cmocka_unit_test(shielded_words_stay),
        cmocka_unit_test(lone_numbers_become_digits_where_that_is_wanted),
        cmocka_unit_test(marks_are_those_of_what_was_spoken),
        cmocka_unit_test(marks_are_of_the_words_script),
        cmocka_unit_test(other_words_change_nothing),
        cmocka_unit_test(texts_that_models_wrote_are_told),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
