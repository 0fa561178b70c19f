/* Grammars: texts that transducers rewrite. Reference: the recorded pairs of ../shared/itn, of
 * wetext 0.1.8 over kaldifst 1.8.3. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "speech/itn/fields.h"
#include "speech/itn/itn.h"
#include "speech/itn/rewrite.h"
#include "speech/itn/shield.h"
#include "tests/support/fst_make.h"
#include "tests/support/itn_recorded.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

#define MAX_TEXT 32768

/* ---- fields ---------------------------------------------------------------------------------- */

static void keys_come_in_the_verbalizers_order(void **state)
{
    static const struct {
        const char *tagged, *ordered; /* NULL: refused */
    } rows[] = {
        {"money { value: \"2\" currency: \"$\" }", "money { currency: \"$\" value: \"2\" }"},
        {"date { day: \"3\" month: \"may\" preserve_order: \"true\" }",
         "date { day: \"3\" month: \"may\" preserve_order: \"true\" }"},
        {"date { day: \"3\" era: \"ad\" year: \"9\" }  word { value: \"a\" } ",
         "date { year: \"9\" day: \"3\" era: \"ad\" } word { value: \"a\" }"},
        {"word { value: \"say \\\"}\\\\\" }", "word { value: \"say \\\"}\\\\\" }"},
        {"", ""},
        {"word { value: \"a }", NULL},
        {"word { value: \"a\\", NULL},
        {"word { value: \"a\" ", NULL},
        {"word { value \"a\" }", NULL},
        {"word { }", NULL},
        {"word value: \"a\" }", NULL},
        {"3 { value: \"a\" }", NULL},
    };
    struct steno_itn_fields f = {0};
    struct steno_buf out;
    (void)state;
    steno_buf_init(&out, 4096);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *t = rows[i].tagged;
        const steno_status st = steno_itn_fields_order(t, strlen(t), &out, &f);
        assert_int_equal(st, rows[i].ordered ? STENO_OK : STENO_ERR_FORMAT);
        if (rows[i].ordered)
            assert_string_equal(out.data ? out.data : "", rows[i].ordered);
    }
    steno_buf_free(&out);
    free(f.field);
}

/* ---- grammars -------------------------------------------------------------------------------- */

static char folder[] = "/tmp/steno-itn-XXXXXX";

static void path_of(char *out, size_t size, const char *name)
{
    snprintf(out, size, "%s/%s", folder, name);
}

static void save_bytes(const char *name, const void *p, size_t n)
{
    char path[256];
    FILE *f;
    path_of(path, sizeof path, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void save(const struct fst_make *m, const char *name)
{
    size_t n;
    unsigned char *p = fst_make_bytes(m, FST_MAKE_VECTOR, &n);
    save_bytes(name, p, n);
    free(p);
}

static void remove_file(const char *name)
{
    char path[256];
    path_of(path, sizeof path, name);
    (void)remove(path);
}

/* Copies any text of letters a to e and blanks, each letter at weight 1, from state 0 back to it.
 */
static void copy_letters(struct fst_make *m)
{
    for (const char *c = "abcde "; *c; c++)
        fst_make_add(m, 0, *c, *c, 1, 0);
    m->final[0] = 0;
}

static void check_text(const steno_itn *g, const char *spoken, const char *written, bool read)
{
    steno_itn_writer *w = steno_itn_writer_new();
    struct steno_itn_text t;
    assert_non_null(w);
    assert_int_equal(steno_itn_write(w, g, spoken, &t, NULL), STENO_OK);
    assert_string_equal(t.text, written);
    assert_int_equal(t.n, strlen(written));
    assert_int_equal(t.read, read);
    for (size_t i = 0; i < t.n; i++)
        assert_true(t.origin[i].begin <= t.origin[i].end && t.origin[i].end <= strlen(spoken));
    steno_itn_writer_free(w);
}

/* "ab" is 12 and "1" is one: two rules, in the order of their names. */
static void rules_follow_each_other(void **state)
{
    struct fst_make m;
    steno_itn *g = NULL;
    (void)state;
    fst_make_start(&m);
    copy_letters(&m);
    fst_make_path(&m, 0, "ab", "12", 1, 0);
    save(&m, "1.fst");
    fst_make_start(&m);
    copy_letters(&m);
    fst_make_path(&m, 0, "1", "one", 1, 0);
    fst_make_path(&m, 0, "2", "two", 1, 0);
    save(&m, "2.fst");
    assert_int_equal(steno_itn_open(&g, folder, NULL, NULL), STENO_OK);
    check_text(g, "  c ab d\n", "c onetwo d", true);
    check_text(g, "c xyz", "c xyz", false);
    check_text(g, " ", "", false);
    steno_itn_close(g);
    remove_file("1.fst");
    remove_file("2.fst");
}

/* In a model's folder other transducers may lie: names tell the rules, and a folder goes before. */
static void a_models_folder_may_have_rules(void **state)
{
    struct fst_make m;
    steno_itn *g = NULL;
    char path[256];
    (void)state;
    fst_make_start(&m);
    copy_letters(&m);
    save(&m, "HLG.fst");
    assert_int_equal(steno_itn_open_of_model(&g, folder, NULL), STENO_OK);
    assert_null(g);
    fst_make_path(&m, 0, "ab", "12", 1, 0);
    save(&m, "itn_zh_number.fst");
    assert_int_equal(steno_itn_open_of_model(&g, folder, NULL), STENO_OK);
    check_text(g, "c ab", "c 12", true);
    steno_itn_close(g);
    path_of(path, sizeof path, "itn");
    assert_int_equal(mkdir(path, 0700), 0);
    fst_make_path(&m, 0, "c", "3", 0, 0);
    save(&m, "itn/x.fst");
    assert_int_equal(steno_itn_open_of_model(&g, folder, NULL), STENO_OK);
    check_text(g, "c ab", "3 12", true);
    steno_itn_close(g);
    remove_file("itn/x.fst");
    assert_int_equal(steno_itn_open_of_model(&g, folder, NULL), STENO_ERR_IO);
    remove_file("itn");
    remove_file("HLG.fst");
    remove_file("itn_zh_number.fst");
}

static void origins_follow_a_chain(void **state)
{
    struct fst_make m;
    steno_itn *g = NULL;
    steno_itn_writer *w = steno_itn_writer_new();
    struct steno_itn_text t;
    static const struct steno_itn_origin want[] = {{2, 3}, {3, 4}, {4, 6}, {4, 6},
                                                   {4, 6}, {6, 7}, {7, 8}};
    (void)state;
    fst_make_start(&m);
    copy_letters(&m);
    fst_make_path(&m, 0, "ab", "one", 1, 0);
    save(&m, "1.fst");
    assert_int_equal(steno_itn_open(&g, folder, NULL, NULL), STENO_OK);
    assert_int_equal(steno_itn_write(w, g, "  c ab d", &t, NULL), STENO_OK);
    assert_string_equal(t.text, "c one d");
    for (size_t i = 0; i < t.n; i++) {
        assert_int_equal(t.origin[i].begin, want[i].begin);
        assert_int_equal(t.origin[i].end, want[i].end);
    }
    steno_itn_close(g);
    steno_itn_writer_free(w);
    remove_file("1.fst");
}

/* "ab" is tagged as money with the sign behind the number, which the verbalizer wants before it. A
 * text of other letters is one word. */
static void save_pair(void)
{
    struct fst_make m;
    int32_t end, s;
    fst_make_start(&m);
    end = fst_make_state(&m, 0);
    fst_make_path(&m, 0, "ab ", "money { value: \"2\" ", 1, s = fst_make_state(&m, INFINITY));
    fst_make_path(&m, s, "cd", "currency: \"d\" }", 0, end);
    fst_make_path(&m, 0, "e", "word { value: \"e\" }", 9, end);
    fst_make_path(&m, 0, "dd", "none { value: \"\" }", 9, end);
    save(&m, "tagger.fst");
    fst_make_start(&m);
    end = fst_make_state(&m, 0);
    fst_make_path(&m, 0, "money { currency: \"d\" ", "$", 0, s = fst_make_state(&m, INFINITY));
    fst_make_path(&m, s, "value: \"2\" }", "2", 0, end);
    fst_make_path(&m, 0, "word { value: \"e\" }", "e", 0, end);
    save(&m, "verbalizer.fst");
}

static void a_pair_tags_and_writes(void **state)
{
    steno_itn *g = NULL;
    steno_itn_writer *w = steno_itn_writer_new();
    struct steno_itn_text t;
    (void)state;
    save_pair();
    assert_int_equal(steno_itn_open(&g, folder, "en", NULL), STENO_OK);
    check_text(g, " ab cd", "$2", true);
    check_text(g, "e", "e", true);
    check_text(g, "dd", "dd", false); /* no way to write its tag */
    check_text(g, "ab", "ab", false);
    assert_int_equal(steno_itn_write(w, g, " ab cd", &t, NULL), STENO_OK);
    assert_true(t.origin[0].begin == 4 && t.origin[0].end == 6); /* $ of "cd" */
    assert_true(t.origin[1].begin == 1 && t.origin[1].end == 3);
    steno_itn_writer_free(w);
    steno_itn_close(g);
    remove_file("tagger.fst");
    remove_file("verbalizer.fst");
}

static void missing_files_are_named(void **state)
{
    steno_itn *g = NULL;
    steno_err err;
    char want[256];
    struct fst_make m;
    (void)state;
    assert_int_equal(steno_itn_open(&g, folder, "en", &err), STENO_ERR_IO);
    snprintf(want, sizeof want, "%s: there is no grammar: no .fst or .far file", folder);
    assert_string_equal(err.msg, want);
    fst_make_small(&m);
    save(&m, "en_itn_tagger.fst");
    assert_int_equal(steno_itn_open(&g, folder, "en", &err), STENO_ERR_IO);
    snprintf(want, sizeof want, "%s/en_itn_verbalizer.fst: No such file or directory", folder);
    assert_string_equal(err.msg, want);
    assert_int_equal(steno_itn_open(&g, folder, NULL, &err), STENO_ERR_IO);
    assert_string_equal(err.msg, want);
    remove_file("en_itn_tagger.fst");
    assert_int_equal(steno_itn_open(&g, "/tmp/steno-no-such-folder", NULL, &err), STENO_ERR_IO);
}

/* ---- recorded pairs -------------------------------------------------------------------------- */

static steno_itn *open_language(const char *language)
{
    steno_itn *g = NULL;
    assert_int_equal(steno_itn_open(&g, folder, language, NULL), STENO_OK);
    return g;
}

/* The byte at which character n of a text begins. */
static size_t byte_of(const char *text, json_int_t n)
{
    size_t i = 0;
    for (; text[i] && (n || (text[i] & 0xC0) == 0x80); i++)
        n -= (text[i + 1] & 0xC0) != 0x80;
    return i;
}

/* The origins of a recorded span's output are its input; outside of spans each byte is its own. */
static void check_spans(const struct steno_itn_text *t, const char *spoken, const json_t *spans)
{
    size_t i;
    json_t *s;
    json_array_foreach (spans, i, s) {
        const size_t in = byte_of(spoken, json_integer_value(json_array_get(s, 1)));
        const size_t in_end = byte_of(spoken, json_integer_value(json_array_get(s, 2)));
        const size_t out = byte_of(t->text, json_integer_value(json_array_get(s, 3)));
        const size_t out_end = byte_of(t->text, json_integer_value(json_array_get(s, 4)));
        uint32_t begin = UINT32_MAX, end = 0;
        for (size_t k = out; k < out_end; k++) {
            if (t->origin[k].begin == t->origin[k].end)
                continue;
            begin = t->origin[k].begin < begin ? t->origin[k].begin : begin;
            end = t->origin[k].end > end ? t->origin[k].end : end;
        }
        if (begin != in || end != in_end)
            fprintf(stderr, "# %s | %s: [%u, %u), not [%zu, %zu)\n", spoken, t->text, begin, end,
                    in, in_end);
        assert_int_equal(begin, in);
        assert_int_equal(end, in_end);
    }
}

/* What the tagger writes, and its weight. */
static void check_tagged(steno_rewrite *w, const struct steno_fst *f, const json_t *row)
{
    const char *spoken = json_string_value(json_object_get(row, "spoken"));
    const char *tagged = json_string_value(json_object_get(row, "tagged"));
    const double cost = json_number_value(json_object_get(row, "cost"));
    struct steno_rewrite_path p;
    size_t n = 0;
    assert_int_equal(steno_rewrite_run(w, f, spoken, strlen(spoken), &p), STENO_OK);
    assert_true(p.found);
    assert_true(fabs((double)p.weight - cost) < 1e-3 * (1 + fabs(cost)));
    for (size_t i = 0; i < p.n; i++)
        if (p.step[i].out &&
            (tagged[n] || p.step[i].out != ' ')) /* recorded without blanks behind */
            assert_int_equal(p.step[i].out, (unsigned char)tagged[n++]);
    assert_int_equal(tagged[n], 0);
}

static void check_tagger(const char *name, const json_t *rows)
{
    char path[256];
    struct steno_fst_list l = {0};
    steno_rewrite *w = steno_rewrite_new();
    size_t i;
    json_t *row;
    path_of(path, sizeof path, name);
    assert_int_equal(steno_fst_read(&l, path, NULL), STENO_OK);
    json_array_foreach (rows, i, row)
        check_tagged(w, &l.fst[0], row);
    steno_fst_list_free(&l);
    steno_rewrite_free(w);
}

static void check_recorded(const char *language, size_t count)
{
    char name[64];
    steno_itn_writer *w;
    steno_itn *g;
    json_t *rows, *row;
    size_t i;
    if (!itn_recorded_unpack(folder, language))
        skip();
    g = open_language(language);
    w = steno_itn_writer_new();
    rows = itn_recorded_rows(language);
    assert_int_equal(json_array_size(rows), count);
    json_array_foreach (rows, i, row) {
        const char *spoken = json_string_value(json_object_get(row, "spoken"));
        struct steno_itn_text t;
        assert_int_equal(steno_itn_write(w, g, spoken, &t, NULL), STENO_OK);
        assert_string_equal(t.text, json_string_value(json_object_get(row, "written")));
        check_spans(&t, spoken, json_object_get(row, "spans"));
    }
    snprintf(name, sizeof name, "%s_itn_tagger.fst", language);
    check_tagger(name, rows);
    json_decref(rows);
    steno_itn_close(g);
    steno_itn_writer_free(w);
}

/* "language<TAB>spoken => written" a line, of WeTextProcessing's own tests. */
static void recorded_test_pairs_are_met(void **state)
{
    static const char *const languages[] = {"en", "zh", "ja"};
    steno_itn *g[3] = {0};
    steno_itn_writer *w;
    struct steno_itn_text t;
    size_t n, count = 0;
    char *line, *data = steno_test_shared("itn/pairs/wetextprocessing.txt", &n);
    (void)state;
    for (int i = 0; data && i < 3; i++) {
        assert_true(itn_recorded_unpack(folder, languages[i]));
        g[i] = open_language(languages[i]);
    }
    if (!data)
        skip();
    w = steno_itn_writer_new();
    data[n - 1] = '\0'; /* the last end of line */
    for (line = data; *line; count++) {
        char *spoken = line + 3, *written = strstr(line, " => "), *end = line + strcspn(line, "\n");
        const int i = *line == 'e' ? 0 : *line == 'z' ? 1 : 2;
        const bool last = !*end;
        assert_non_null(written);
        *written = *end = '\0';
        assert_int_equal(steno_itn_write(w, g[i], spoken, &t, NULL), STENO_OK);
        assert_string_equal(t.text, written + 4);
        line = last ? end : end + 1;
    }
    assert_int_equal(count, 300);
    free(data);
    steno_itn_writer_free(w);
    for (int i = 0; i < 3; i++)
        steno_itn_close(g[i]);
}

/* ---- words that grammars are kept from ------------------------------------------------------- */

/* Shields are shown as the words that they cover: "in a [second]". */
static void words_of_english_are_shielded(void **state)
{
    static const char *const rows[] = {
        "the [first] twenty five lines",
        "may [first] run",
        "may fourth is a monday",
        "march third twenty twenty four",
        "on march second",
        "the third of march",
        "the twenty second",
        "the hundred and first",
        "second half of twenty twenty",
        "a [tenth] of it",
        "the tenth stream",
        "ten [minutes] and three [seconds]",
        "five kilometers per hour",
        "four [and] two dollars",
        "two hundred and five",
        "two [real] speakers",
        "for [example] it [misses]",
        "[a] c compiler",
        "a b c",
        "f [o] [o] then o o seven",
        "in nineteen fifty two [a] man said in twenty [i] go",
        "platform nine a",
        "room five a b",
        "in fifty three [b] [c] and a b c",
        "a b c two b c d",
        "[e] [g] twenty percent",
        "a [dot] is used here",
        "it ends with [dot]",
        "send it [to] info at steno dot io",
        "[mail] john underscore smith at example dot co dot uk [thanks]",
        "[visit] w w w dot google dot com [for] more",
        "is [linked] in",
        "it [is] one nine two dot one six eight dot one dot one",
        "] first", /* has the byte already */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char spoken[128], want[128];
        size_t n = 0;
        bool covered = false;
        if (rows[i][0] == ']') {
            snprintf(spoken, sizeof spoken, "%s", rows[i]);
            assert_int_equal(steno_itn_shield_english(spoken), STENO_OK);
            assert_string_equal(spoken, rows[i]);
            continue;
        }
        for (const char *p = rows[i]; *p; p++) {
            covered = *p == '[' || (covered && *p != ']');
            if (*p == '[' || *p == ']')
                continue;
            spoken[n] = *p;
            want[n++] = covered ? STENO_ITN_SHIELD : *p;
        }
        spoken[n] = want[n] = '\0';
        assert_int_equal(steno_itn_shield_english(spoken), STENO_OK);
        assert_string_equal(spoken, want);
    }
}

/* Sentences in which nothing is counted: the English grammar rewrites them, behind the shield it
 * does not. */
static void ordinary_sentences_stay(void **state)
{
    static const char *const rows[] = {
        "i will be there in a second",
        "wait a minute i was first",
        "at first we thought that the second one was better",
        "on the third try it worked for example with a dot at the end",
        "he was the eighth to arrive and the fourth to leave",
        "a fifth of the people had left in three seconds",
        "it took two hours and five minutes",
        "the file begins with a dot and ends with a comma",
        "first come first served",
        "every second counts",
        "one of the first things you learn in a c course",
        "may first things come first",
        "the network hits or misses the point",
        "two real people talked for ten minutes",
        "henry the eighth had six wives",
        "is it linked in some way",
    };
    steno_itn_writer *w;
    steno_itn *g;
    (void)state;
    if (!itn_recorded_unpack(folder, "en"))
        skip();
    g = open_language("en");
    w = steno_itn_writer_new();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct steno_itn_text t;
        char text[128];
        assert_int_equal(steno_itn_write(w, g, rows[i], &t, NULL), STENO_OK);
        assert_string_not_equal(t.text, rows[i]);
        snprintf(text, sizeof text, "%s", rows[i]);
        assert_int_equal(steno_itn_shield_english(text), STENO_OK);
        assert_int_equal(steno_itn_write(w, g, text, &t, NULL), STENO_OK);
        assert_string_equal(t.text, text);
    }
    steno_itn_close(g);
    steno_itn_writer_free(w);
}

/* The same grammar as vector and as const. */
static void a_const_file_has_the_same_paths(void **state)
{
    json_t *rows;
    (void)state;
    if (!itn_recorded_file(folder, "ja_itn_tagger.const.fst"))
        skip();
    rows = itn_recorded_rows("ja");
    check_tagger("ja_itn_tagger.const.fst", rows);
    json_decref(rows);
}

static void recorded_english_is_met(void **state)
{
    (void)state;
    check_recorded("en", 162);
}

static void recorded_chinese_is_met(void **state)
{
    (void)state;
    check_recorded("zh", 105);
}

static void recorded_japanese_is_met(void **state)
{
    (void)state;
    check_recorded("ja", 50);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"en_itn_tagger.fst",      "en_itn_verbalizer.fst",
                                        "zh_itn_tagger.fst",      "zh_itn_verbalizer.fst",
                                        "ja_itn_tagger.fst",      "ja_itn_verbalizer.fst",
                                        "ja_itn_tagger.const.fst"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove_file(names[i]);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_come_in_the_verbalizers_order),
        cmocka_unit_test(rules_follow_each_other),
        cmocka_unit_test(a_models_folder_may_have_rules),
        cmocka_unit_test(origins_follow_a_chain),
        cmocka_unit_test(a_pair_tags_and_writes),
        cmocka_unit_test(missing_files_are_named),
        cmocka_unit_test(recorded_english_is_met),
        cmocka_unit_test(recorded_chinese_is_met),
        cmocka_unit_test(recorded_japanese_is_met),
        cmocka_unit_test(words_of_english_are_shielded),
        cmocka_unit_test(ordinary_sentences_stay),
        cmocka_unit_test(recorded_test_pairs_are_met),
        cmocka_unit_test(a_const_file_has_the_same_paths),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
