/* Partials whose begin a grammar has written: what is shown is never taken back, in whichever steps
 * the stable words come, and the final begins with it. Reference: the recorded pairs of
 * ../shared/itn and the final itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "speech/recognizer/begun.h"
#include "tests/support/fst_make.h"
#include "tests/support/itn_recorded.h"
#include "tests/support/test.h"

#define MAX_WORDS 256

static char folder[] = "/tmp/steno-begun-XXXXXX";

/* A text and its words, word i from i to i + 0.5 s; characters where there are no blanks. */
struct spoken {
    char text[2048], own[4096];
    struct steno_word w[MAX_WORDS];
    size_t n, end[MAX_WORDS];
};

static void cut_words(struct spoken *s, const char *text, bool characters)
{
    char *to = s->own;
    s->n = 0;
    snprintf(s->text, sizeof s->text, "%s", text);
    for (const char *p = s->text; *p; p += strspn(p, " ")) {
        size_t k = 1;
        while (characters ? ((unsigned char)p[k] & 0xC0) == 0x80 : p[k] && p[k] != ' ')
            k++;
        assert_true(s->n < MAX_WORDS);
        s->w[s->n] = (struct steno_word){to, (double)s->n, (double)s->n + 0.5, 0.5F};
        memcpy(to, p, k);
        to[k] = '\0';
        to += k + 1;
        p += k;
        s->end[s->n++] = (size_t)(p - s->text);
    }
}

static void check_partial(const struct steno_event *ev, const struct spoken *s, size_t words,
                          const char *before)
{
    double last = 0;
    assert_true(ev->stable_bytes <= strlen(ev->text) && ev->stable_words <= ev->n_words);
    assert_memory_equal(ev->text, before, strlen(before));
    assert_true(strlen(before) <= ev->stable_bytes);
    for (size_t i = 0; i < ev->n_words; i++) {
        assert_true(ev->words[i].start >= last && ev->words[i].end >= ev->words[i].start);
        assert_non_null(strstr(ev->text, ev->words[i].text));
        last = ev->words[i].end;
    }
    assert_true(!words || last == s->w[words - 1].end);
}

/* Partials whose stable words grow by `step`; the written begin of the last one, in *last [size].
 */
static void run_partials(const struct spoken *s, const struct steno_written_by *by, size_t step,
                         char *last, size_t size)
{
    struct steno_begun b = {0};
    steno_arena *a = steno_arena_new(0);
    *last = '\0';
    for (size_t k = step; k < s->n + step; k += step) {
        const size_t n = k < s->n ? k : s->n;
        char text[sizeof s->text];
        struct steno_event ev = {.text = text,
                                 .words = s->w,
                                 .n_words = n,
                                 .stable_words = n,
                                 .stable_bytes = s->end[n - 1]};
        snprintf(text, sizeof text, "%.*s", (int)s->end[n - 1], s->text);
        assert_int_equal(steno_begun_extend(&b, &ev, by), STENO_OK);
        steno_arena_reset(a);
        assert_int_equal(steno_begun_apply(&b, &ev, a), STENO_OK);
        check_partial(&ev, s, n, last);
        snprintf(last, size, "%.*s", (int)ev.stable_bytes, ev.text);
    }
    steno_begun_free(&b);
    steno_arena_free(a);
}

/* Whether a number was written before the final. */
static bool check_spoken(const struct spoken *s, const struct steno_written_by *by)
{
    struct steno_alternative final = {.text = s->text, .words = s->w, .n_words = s->n};
    steno_arena *a = steno_arena_new(0);
    char first[4096] = "";
    bool written;
    assert_int_equal(steno_written_apply(&final, by, a), STENO_OK);
    for (size_t step = 1; step <= s->n; step += step < 4 ? 1 : s->n) {
        char last[4096];
        run_partials(s, by, step, last, sizeof last);
        assert_memory_equal(final.text, last, strlen(last));
        if (step == 1)
            memcpy(first, last, sizeof first);
        assert_string_equal(last, first);
    }
    written = strncmp(s->text, first, strlen(first)) != 0;
    steno_arena_free(a);
    return written;
}

/* How many of the recorded texts have a number that is written before the final. */
static size_t check_pairs(const char *language)
{
    static struct spoken s;
    struct steno_written_by by = {.shielded = !strcmp(language, "en")};
    steno_itn *g;
    json_t *rows, *row;
    size_t i, written = 0;
    if (!itn_recorded_unpack(folder, language))
        skip();
    assert_int_equal(steno_itn_open(&g, folder, language, NULL), STENO_OK);
    by.grammar = g;
    by.itn = steno_itn_writer_new();
    rows = itn_recorded_rows(language);
    json_array_foreach (rows, i, row) {
        char more[2048];
        const char *text = json_string_value(json_object_get(row, "spoken"));
        cut_words(&s, text, *language != 'e');
        check_spoken(&s, &by);
        snprintf(more, sizeof more, *language == 'e' ? "it is %s that was said" : "%s", text);
        if (*language != 'e')
            strcat(more, "\xE3\x81\xAF\xE6\x98\xAF\xE3\x81\xAF"); /* は是は */
        cut_words(&s, more, *language != 'e');
        written += check_spoken(&s, &by);
    }
    json_decref(rows);
    steno_itn_writer_free(by.itn);
    steno_itn_close(g);
    return written;
}

static void recorded_english_is_never_taken_back(void **state)
{
    (void)state;
    assert_true(check_pairs("en") > 100);
}

static void recorded_chinese_is_never_taken_back(void **state)
{
    (void)state;
    assert_true(check_pairs("zh") > 60);
}

static void recorded_japanese_is_never_taken_back(void **state)
{
    (void)state;
    assert_true(check_pairs("ja") > 30);
}

static void check_begun(const struct steno_written_by *by, const char *text, const char *begun)
{
    static struct spoken s;
    char last[4096];
    cut_words(&s, text, false);
    run_partials(&s, by, 1, last, sizeof last);
    assert_string_equal(last, begun);
}

static void a_number_that_may_grow_waits(void **state)
{
    struct steno_written_by by = {.shielded = true};
    steno_itn *g;
    (void)state;
    if (!itn_recorded_unpack(folder, "en"))
        skip();
    assert_int_equal(steno_itn_open(&g, folder, "en", NULL), STENO_OK);
    by.grammar = g;
    by.itn = steno_itn_writer_new();
    check_begun(&by, "now i have twenty", "now");
    check_begun(&by, "now i have twenty four", "now");
    check_begun(&by, "now i have twenty four cats here", "now i have");
    check_begun(&by, "now i have twenty four cats here too", "now i have 24 cats");
    check_begun(&by, "it was twenty five dollars and", "it was");
    check_begun(&by, "it was twenty five dollars and fifty cents in all of", "it was $25.50 in");
    check_begun(&by, "it was twenty five dollars and cats and dogs", "it was $25 and cats");
    check_begun(&by, "so on the third", "so");
    check_begun(&by, "so on the third of march we met again", "so on 3 march we");
    check_begun(&by, "mail is a b c at example dot org now and then",
                "mail is abc@example.org now");
    steno_itn_writer_free(by.itn);
    steno_itn_close(g);
}

/* Rules that rewrite a whole text have no tokens: what follows may change anything. */
static void a_chain_writes_no_partial(void **state)
{
    struct steno_written_by by = {0};
    struct fst_make m;
    steno_itn *g;
    char path[128];
    size_t n;
    unsigned char *p;
    FILE *f;
    (void)state;
    fst_make_start(&m);
    m.final[0] = 0;
    for (int c = 1; c < 256; c++)
        fst_make_add(&m, 0, c, c, 1, 0);
    fst_make_path(&m, 0, "two", "2", 0, 0);
    p = fst_make_bytes(&m, FST_MAKE_VECTOR, &n);
    snprintf(path, sizeof path, "%s/chain", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/chain/itn.fst", folder);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    free(p);
    snprintf(path, sizeof path, "%s/chain", folder);
    assert_int_equal(steno_itn_open(&g, path, NULL, NULL), STENO_OK);
    by.grammar = g;
    by.itn = steno_itn_writer_new();
    check_begun(&by, "two cats and two dogs", "");
    steno_itn_writer_free(by.itn);
    steno_itn_close(g);
}

/* A partial that does not go on with what was written is shown as it is. */
static void another_text_is_left_alone(void **state)
{
    static const struct steno_word w[] = {{"one", 0, 1, 1}, {"two", 1, 2, 1}};
    static const struct steno_word written[] = {{"1", 0, 1, 1}};
    const struct steno_begun b = {
        .seen = 1, .spoken = 1, .spoken_text = "one", .n_words = 1, .words = written, .text = "1"};
    struct steno_event ev = {
        .text = "one two", .words = w, .n_words = 2, .stable_words = 2, .stable_bytes = 7};
    steno_arena *a = steno_arena_new(0);
    (void)state;
    assert_int_equal(steno_begun_apply(&b, &ev, a), STENO_OK);
    assert_string_equal(ev.text, "1 two");
    assert_int_equal(ev.n_words, 2);
    assert_string_equal(ev.words[0].text, "1");
    assert_true(ev.stable_words == 1 && ev.stable_bytes == 1);
    ev = (struct steno_event){.text = "on two", .words = w, .n_words = 2, .stable_words = 2};
    assert_int_equal(steno_begun_apply(&b, &ev, a), STENO_OK);
    assert_string_equal(ev.text, "on two");
    assert_true(ev.n_words == 2 && !ev.stable_words && !ev.stable_bytes);
    steno_arena_free(a);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {
        "en_itn_tagger.fst", "en_itn_verbalizer.fst", "zh_itn_tagger.fst", "zh_itn_verbalizer.fst",
        "ja_itn_tagger.fst", "ja_itn_verbalizer.fst", "chain/itn.fst",     "chain"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)remove(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_text_is_left_alone),
        cmocka_unit_test(a_chain_writes_no_partial),
        cmocka_unit_test(a_number_that_may_grow_waits),
        cmocka_unit_test(recorded_english_is_never_taken_back),
        cmocka_unit_test(recorded_chinese_is_never_taken_back),
        cmocka_unit_test(recorded_japanese_is_never_taken_back),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
