/* Hot words as pieces: bpe.vocab, a SentencePiece model, or tokens.txt alone. tests/data/pieces has
 * models and how sentencepiece 0.2.3 cuts words by them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "speech/families/common/phrases.h"
#include "tests/support/test.h"

#define DATA "tests/data/pieces/"
#define M "\xE2\x96\x81"
#define SCORE 1.5F

/* The pieces of a model, as its tokens.txt has them. */
static steno_tokens *tokens_of(const char *name)
{
    char path[64];
    steno_sentencepiece *s = NULL;
    steno_tokens *t = NULL;
    struct steno_buf text;
    snprintf(path, sizeof path, DATA "%s.model", name);
    assert_int_equal(steno_sentencepiece_open(&s, path, NULL), STENO_OK);
    steno_buf_init(&text, 1 << 20);
    for (int32_t i = 0; i < steno_sentencepiece_count(s); i++)
        assert_int_equal(
            steno_buf_printf(&text, "%s %d\n", steno_sentencepiece_piece(s, i), (int)i), STENO_OK);
    assert_int_equal(steno_tokens_parse(&t, text.data, text.len, "tokens.txt", NULL), STENO_OK);
    steno_buf_free(&text);
    steno_sentencepiece_close(s);
    return t;
}

/* True if the phrase became exactly these pieces, separated by spaces: the automaton is a chain of
 * them, and all together have their scores. */
static bool becomes(const struct steno_phrases *p, const char *phrase, char *pieces)
{
    steno_hotwords *h = NULL;
    int32_t at = STENO_HOTWORDS_START;
    size_t n = 0;
    double sum = 0;
    bool same, chain = true;
    assert_int_equal(steno_phrases_build(&h, p, (const char *[]){phrase}, 1, SCORE, NULL),
                     STENO_OK);
    for (char *save, *piece = strtok_r(pieces, " ", &save); h && piece;
         piece = strtok_r(NULL, " ", &save), n++) {
        float score = 0;
        chain = chain && steno_hotwords_n_next(h, at) == 1 && (at == STENO_HOTWORDS_START) == !n;
        at = steno_hotwords_step(h, at, steno_tokens_find(p->tokens, piece), &score);
        sum += (double)score;
    }
    same = h && chain && at == STENO_HOTWORDS_START &&
           sum + (double)steno_hotwords_end(h, at) == (double)SCORE * (double)n;
    steno_hotwords_close(h);
    return same;
}

/* Rows of NAME.tsv that are equal; *rows: all. */
static size_t equal_rows(const struct steno_phrases *p, const char *name, size_t *rows)
{
    char path[64], *bytes = NULL, *save;
    size_t n = 0, equal = 0;
    snprintf(path, sizeof path, DATA "%s.tsv", name);
    assert_int_equal(steno_file_read(path, 1 << 20, &bytes, &n, NULL), STENO_OK);
    *rows = 0;
    for (char *line = strtok_r(bytes, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *tab = strchr(line, '\t');
        assert_non_null(tab);
        *tab = '\0';
        equal += becomes(p, line, tab + 1);
        ++*rows;
    }
    free(bytes);
    assert_true(*rows >= 100);
    return equal;
}

/* A directory with a file that is a link to NAME.model. */
static void make_dir(char *dir, size_t size, const char *name, const char *as)
{
    char cwd[512], from[640], to[128];
    snprintf(dir, size, "/tmp/steno-phrases-XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_non_null(getcwd(cwd, sizeof cwd));
    snprintf(from, sizeof from, "%s/" DATA "%s.model", cwd, name);
    snprintf(to, sizeof to, "%s/%s", dir, as);
    assert_int_equal(symlink(from, to), 0);
}

static void remove_dir(const char *dir, const char *as)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, as);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void a_model_of_the_directory_cuts_as_sentencepiece(void **state)
{
    static const struct {
        const char *name, *as;
    } rows[] = {{"bpe", "xyz.bpe.model"},
                {"bpe", "tokenizer.model"},
                {"unigram", "bpe.model"},
                {"unigram", "train_unigram300.model"},
                {"bbpe", "bbpe.model"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        steno_tokens *t = tokens_of(rows[i].name);
        struct steno_phrases p;
        char dir[64];
        size_t n, equal;
        make_dir(dir, sizeof dir, rows[i].name, rows[i].as);
        assert_int_equal(steno_phrases_open_in(&p, t, dir, NULL), STENO_OK);
        assert_string_equal(steno_phrases_source(&p), rows[i].as);
        assert_int_equal(steno_tokens_byte_level(t), !strcmp(rows[i].name, "bbpe"));
        equal = equal_rows(&p, rows[i].name, &n);
        assert_int_equal(equal, n);
        steno_phrases_close(&p);
        steno_tokens_close(t);
        remove_dir(dir, rows[i].as);
    }
}

/* The order of BPE's pieces is all that it needs; of unigram's, probabilities are estimates. */
static void tokens_alone_cut_nearly_as_well(void **state)
{
    static const struct {
        const char *name;
        double least;
    } rows[] = {{"bpe", 1}, {"unigram", 0.95}, {"bbpe", 0.95}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        steno_tokens *t = tokens_of(rows[i].name);
        struct steno_phrases p;
        size_t n, equal;
        assert_int_equal(steno_phrases_open_in(&p, t, "/nowhere", NULL), STENO_OK);
        assert_string_equal(steno_phrases_source(&p), "tokens.txt");
        equal = equal_rows(&p, rows[i].name, &n);
        print_message("# %s: %zu of %zu\n", rows[i].name, equal, n);
        assert_true((double)equal >= rows[i].least * (double)n);
        steno_phrases_close(&p);
        steno_tokens_close(t);
    }
}

static void a_broken_model_is_named(void **state)
{
    steno_tokens *t = tokens_of("bpe");
    struct steno_phrases p;
    steno_err err;
    (void)state;
    for (int i = 0; i < 2; i++) {
        static const char *const names[] = {"bpe.model", "bpe.vocab"};
        char dir[] = "/tmp/steno-phrases-XXXXXX", path[64];
        FILE *f;
        assert_non_null(mkdtemp(dir));
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        f = fopen(path, "w");
        assert_non_null(f);
        assert_true(fputs("abc", f) >= 0 && !fclose(f));
        assert_int_equal(steno_phrases_open_in(&p, t, dir, &err), STENO_ERR_FORMAT);
        assert_non_null(strstr(err.msg, names[i]));
        steno_phrases_close(&p);
        remove_dir(dir, names[i]);
    }
    steno_tokens_close(t);
}

static void case_follows_the_vocabulary(void **state)
{
    static const struct {
        const char *tokens, *phrase, *pieces;
    } rows[] = {
        {M "AB 0\nC 1\n", "abC", M "AB C"},
        {M "ab 0\nc 1\n", "ABC", M "ab c"},
        {M "ab 0\nC 1\n", "abC", M "ab C"},
        /* Cyrillic small letters alone */
        {M "\xD0\xB4\xD0\xB0 0\n<EN> 1\n", "\xD0\x94\xD0\x90", M "\xD0\xB4\xD0\xB0"},
        /* words without marks, as the demonstration model has them */
        {"<blk> 0\none 1\ntwo 2\n", "two one", "two one"},
        /* pieces of several Chinese characters: the run is cut as a whole, without a mark */
        {M "a 0\n\xE6\x88\x91\xE4\xBB\xAC 1\n\xE6\x88\x91 2\n\xE4\xBB\xAC 3\n",
         "\xE6\x88\x91\xE4\xBB\xAC\xE6\x88\x91 A", "\xE6\x88\x91\xE4\xBB\xAC \xE6\x88\x91 " M "a"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        steno_tokens *t = NULL;
        struct steno_phrases p;
        char pieces[64];
        snprintf(pieces, sizeof pieces, "%s", rows[i].pieces);
        assert_int_equal(steno_tokens_parse(&t, rows[i].tokens, strlen(rows[i].tokens), "t", NULL),
                         STENO_OK);
        assert_int_equal(steno_phrases_open(&p, t, NULL), STENO_OK);
        if (!becomes(&p, rows[i].phrase, pieces))
            fail_msg("row %zu: %s", i, rows[i].phrase);
        steno_phrases_close(&p);
        steno_tokens_close(t);
    }
}

/* 8 KiB, the limit of a request, as one word: no step is quadratic in look-ups. */
static void a_word_as_long_as_a_request_is_cut(void **state)
{
    static const char *const names[] = {"bpe", "unigram"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        static char word[8193];
        steno_tokens *t = tokens_of(names[i]);
        struct steno_phrases p;
        steno_hotwords *h = NULL;
        assert_int_equal(steno_phrases_open(&p, t, NULL), STENO_OK);
        for (size_t k = 0; k < 8192; k++)
            word[k] = "transformationsoftheencoder"[k % 27];
        assert_int_equal(steno_phrases_build(&h, &p, (const char *[]){word}, 1, SCORE, NULL),
                         STENO_OK);
        assert_non_null(h);
        steno_hotwords_close(h);
        steno_phrases_close(&p);
        steno_tokens_close(t);
    }
}

static void a_list_has_phrases_and_their_scores(void **state)
{
    const char *list = " ,a b :2.5\r\n/:3\nc:4, d :x ,e : 1\n f\t:.5";
    static const struct {
        const char *phrase;
        float score;
    } want[] = {{"a b", 2.5f}, {"c:4", 1}, {"d :x", 1}, {"e : 1", 1}, {"f", 0.5f}};
    const char *phrase;
    size_t n, i = 0;
    float score = 1;
    (void)state;
    for (; steno_phrases_next(&list, &phrase, &n, &score); i++, score = 1) {
        assert_true(i < sizeof want / sizeof *want);
        assert_int_equal(n, strlen(want[i].phrase));
        assert_memory_equal(phrase, want[i].phrase, n);
        assert_true(score == want[i].score);
    }
    assert_int_equal(i, sizeof want / sizeof *want);
    assert_string_equal(list, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_has_phrases_and_their_scores),
        cmocka_unit_test(a_model_of_the_directory_cuts_as_sentencepiece),
        cmocka_unit_test(tokens_alone_cut_nearly_as_well),
        cmocka_unit_test(a_broken_model_is_named),
        cmocka_unit_test(case_follows_the_vocabulary),
        cmocka_unit_test(a_word_as_long_as_a_request_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
