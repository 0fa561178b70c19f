/* ARPA models and KenLM binaries. Reference scores: kenlm 0.3.0 on the same text
 * (tests/espnet/oracle_ngram.py prints them). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/search/lm/ngram.h"
#include "tests/support/test.h"

static const char text[] = "\n\\data\\\n"
                           "ngram 1=6\n"
                           "ngram 2=5\n"
                           "ngram 3=3\n"
                           "\n"
                           "\\1-grams:\n"
                           "-1.5\t<unk>\t0\n"
                           "-99\t<s>\t-0.30\n"
                           "-0.8\t</s>\n"
                           "-0.6\ta\t-0.25\n"
                           "-0.9\tb\t-0.15\n"
                           "-1.1\tc\t-0.05\n"
                           "\n"
                           "\\2-grams:\n"
                           "-0.2\t<s> a\t-0.11\n"
                           "-0.4\ta b\t-0.12\n"
                           "-0.5\tb a\t-0.13\n"
                           "-0.7\tb c\n"
                           "-0.35\tb </s>\n"
                           "\n"
                           "\\3-grams:\n"
                           "-0.05\t<s> a b\n"
                           "-0.15\ta b a\n"
                           "-0.25\ta b </s>\n"
                           "\n"
                           "\\end\\\n";

static steno_ngram *parse(const char *arpa)
{
    steno_ngram *m = NULL;
    steno_err err = {0};
    if (steno_ngram_parse(&m, arpa, strlen(arpa), "lm.arpa", &err))
        fail_msg("%s", err.msg);
    return m;
}

static const char *const tokens[] = {"<blank>", "a", "b", "c", "</s>", "<unk>", "q"};
#define N (sizeof tokens / sizeof *tokens)

/* The token numbers of a history, and the scores of all tokens after it. */
static const struct row {
    size_t n;
    int32_t history[4];
    double score[N];
} rows[] = {
    {0, {0}, {-1.80000, -0.20000, -1.20000, -1.40000, -1.10000, -1.80000, -1.80000}},
    {1, {1}, {-1.86000, -0.96000, -0.05000, -1.46000, -1.16000, -1.86000, -1.86000}},
    {1, {2}, {-1.65000, -0.50000, -1.05000, -0.70000, -0.35000, -1.65000, -1.65000}},
    {2, {1, 2}, {-1.77000, -0.15000, -1.17000, -0.82000, -0.25000, -1.77000, -1.77000}},
    {3, {1, 2, 1}, {-1.88000, -0.98000, -0.53000, -1.48000, -1.18000, -1.88000, -1.88000}},
    {1, {3}, {-1.55000, -0.65000, -0.95000, -1.15000, -0.85000, -1.55000, -1.55000}},
    {2, {0, 2}, {-1.65000, -0.50000, -1.05000, -0.70000, -0.35000, -1.65000, -1.65000}},
    {1, {6}, {-1.50000, -0.60000, -0.90000, -1.10000, -0.80000, -1.50000, -1.50000}},
    {2, {2, 6}, {-1.50000, -0.60000, -0.90000, -1.10000, -0.80000, -1.50000, -1.50000}},
    {4, {1, 2, 3, 1}, {-1.75000, -0.85000, -0.40000, -1.35000, -1.05000, -1.75000, -1.75000}},
};

static void scores_are_those_of_kenlm(void **state)
{
    (void)state;
    steno_ngram *m = parse(text);
    steno_ngram_map *p = NULL;
    assert_int_equal(steno_ngram_order(m), 3);
    assert_int_equal(steno_ngram_count(m, 2), 5);
    assert_int_equal(steno_ngram_map_open(&p, m, tokens, N, NULL), STENO_OK);
    assert_int_equal(steno_ngram_map_unknown(p), 3); /* three unknown: <blank>, <unk>, q */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float got[N];
        steno_ngram_map_score(p, rows[i].history, rows[i].n, got);
        for (size_t k = 0; k < N; k++)
            if (fabs((double)got[k] - rows[i].score[k]) > 1e-5)
                fail_msg("row %zu, %s: %.6f, expected %.6f", i, tokens[k], (double)got[k],
                         rows[i].score[k]);
    }
    steno_ngram_map_close(p);
    steno_ngram_close(m);
}

/* The scores of all tokens at once equal those by the definition, token by token. */
static void all_at_once_is_one_by_one(void **state)
{
    (void)state;
    steno_ngram *m = parse(text);
    steno_ngram_map *p = NULL;
    assert_int_equal(steno_ngram_map_open(&p, m, tokens, N, NULL), STENO_OK);
    for (int32_t a = 0; a < (int32_t)N; a++)
        for (int32_t b = 0; b < (int32_t)N; b++) {
            int32_t history[2] = {a, b};
            int32_t words[3] = {steno_ngram_word(m, "<s>"), steno_ngram_word(m, tokens[a]),
                                steno_ngram_word(m, tokens[b])};
            float got[N];
            steno_ngram_map_score(p, history, 2, got);
            for (size_t k = 0; k < N; k++) {
                double want = steno_ngram_score(m, words, 3, steno_ngram_word(m, tokens[k]));
                assert_true(fabs(want - (double)got[k]) < 1e-5);
            }
        }
    steno_ngram_map_close(p);
    steno_ngram_close(m);
}

static void an_unknown_token_is_very_unlikely_without_unk(void **state)
{
    (void)state;
    steno_ngram *m = parse("\\data\\\nngram 1=2\n\\1-grams:\n-0.5 a\n-0.7 b\n\\end\\\n");
    assert_true(steno_ngram_score(m, NULL, 0, steno_ngram_word(m, "zzz")) == -100);
    assert_true(fabs(steno_ngram_score(m, NULL, 0, steno_ngram_word(m, "b")) + 0.7) < 1e-6);
    steno_ngram_close(m);
}

static void wrong_files_are_refused_with_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *arpa, *what;
    } cases[] = {
        {"", "no \\data\\ section"},
        {"hello\n", "no \\data\\ section"},
        {"\\data\\\n\\1-grams:\n", "names no n-grams"},
        {"\\data\\\nngram 2=1\n", "lm.arpa:2: orders must be"},
        {"\\data\\\nngram 1=x\n", "lm.arpa:2: expected 'ngram N=COUNT'"},
        {"\\data\\\nngram 1=-1\n", "counts not negative"},
        {"\\data\\\nngram 1=1\n\\2-grams:\n", "lm.arpa:3: expected \\1-grams:"},
        {"\\data\\\nngram 1=2\n\\1-grams:\n-1 a\n\\end\\\n", "1 1-grams, the header says 2"},
        {"\\data\\\nngram 1=1\n\\1-grams:\nx a\n\\end\\\n", "lm.arpa:4: no log-probability"},
        {"\\data\\\nngram 1=1\n\\1-grams:\nnan a\n\\end\\\n", "lm.arpa:4: no log-probability"},
        {"\\data\\\nngram 1=1\n\\1-grams:\n0.5 a\n\\end\\\n", "above 0"},
        {"\\data\\\nngram 1=1\n\\1-grams:\n-1\n\\end\\\n", "too few words"},
        {"\\data\\\nngram 1=1\n\\1-grams:\n-1 a b\n\\end\\\n", "not a back-off"},
        {"\\data\\\nngram 1=1\n\\1-grams:\n-1 a -1 -1\n\\end\\\n", "more than a back-off"},
        {"\\data\\\nngram 1=2\n\\1-grams:\n-1 a\n-1 a\n\\end\\\n", "lm.arpa:5: duplicate n-gram"},
        {"\\data\\\nngram 1=1\nngram 2=1\n\\1-grams:\n-1 a\n\\2-grams:\n-1 a b\n\\end\\\n",
         "lm.arpa:7: a word without a 1-gram"},
        {"\\data\\\nngram 1=1\n\\1-grams:\n-1 a\n", "expected \\end\\"},
        {"\\data\\\nngram 99=1\n", "orders must be"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        steno_ngram *m = NULL;
        steno_err err = {0};
        steno_status st =
            steno_ngram_parse(&m, cases[i].arpa, strlen(cases[i].arpa), "lm.arpa", &err);
        if (st != STENO_ERR_FORMAT || m || !strstr(err.msg, cases[i].what))
            fail_msg("case %zu: '%s' does not say '%s'", i, err.msg, cases[i].what);
    }
}

/* Made by kenlm 0.3.0's build_binary from the text above (tests/data/README.md). */
static const char *const binaries[] = {"tests/data/ngram/probing.bin", "tests/data/ngram/trie.bin"};

static steno_ngram *open_binary(size_t i)
{
    steno_ngram *m = NULL;
    steno_err err = {0};
    if (steno_ngram_open(&m, binaries[i], &err))
        fail_msg("%s", err.msg);
    return m;
}

static void a_binary_scores_as_kenlm(void **state)
{
    (void)state;
    for (size_t f = 0; f < 2; f++) {
        steno_ngram *m = open_binary(f);
        steno_ngram_map *p = NULL;
        assert_int_equal(steno_ngram_order(m), 3);
        assert_int_equal(steno_ngram_count(m, 1), 6);
        assert_int_equal(steno_ngram_count(m, 2), 5);
        assert_int_equal(steno_ngram_map_open(&p, m, tokens, N, NULL), STENO_OK);
        assert_int_equal(steno_ngram_map_unknown(p), 3);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            float got[N];
            steno_ngram_map_score(p, rows[i].history, rows[i].n, got);
            for (size_t k = 0; k < N; k++)
                if (fabs((double)got[k] - rows[i].score[k]) > 1e-5)
                    fail_msg("%s, row %zu, %s: %.6f, expected %.6f", binaries[f], i, tokens[k],
                             (double)got[k], rows[i].score[k]);
        }
        steno_ngram_map_close(p);
        steno_ngram_close(m);
    }
}

/* All contexts of up to three tokens, with and without <s>. */
static void a_binary_scores_as_its_text(void **state)
{
    (void)state;
    steno_ngram *arpa = parse(text);
    for (size_t f = 0; f < 2; f++) {
        steno_ngram *m = open_binary(f);
        for (size_t i = 0; i < N * N * N * N; i++) {
            int32_t ours[3], theirs[3];
            const char *word = tokens[i / (N * N * N)];
            size_t rest = i;
            for (int k = 0; k < 3; k++, rest /= N) {
                ours[k] = steno_ngram_word(m, tokens[rest % N]);
                theirs[k] = steno_ngram_word(arpa, tokens[rest % N]);
            }
            for (size_t n = 0; n <= 3; n++)
                if (fabs(steno_ngram_score(m, ours, n, steno_ngram_word(m, word)) -
                         steno_ngram_score(arpa, theirs, n, steno_ngram_word(arpa, word))) > 1e-5)
                    fail_msg("%s, context %zu of %zu, %s", binaries[f], i, n, word);
        }
        steno_ngram_close(m);
    }
    steno_ngram_close(arpa);
}

/* Open a binary with n bytes at `at` replaced, or cut off at `cut`; it must be refused with this
 * status and message. Layout of probing.bin: header to 136, vocabulary 8 + 9 * 12, 7 1-grams of
 * 8 to 308, 7 2-grams of 16, 4 3-grams of 12 to 468, words. trie.bin: vocabulary 8 + 6 * 8 to
 * 192, 8 1-grams of 16. */
static void refuse(size_t file, size_t at, const void *with, size_t n, size_t cut,
                   steno_status want, const char *what)
{
    static char bytes[1 << 12];
    FILE *f = fopen(binaries[file], "rb");
    steno_ngram *m = NULL;
    steno_err err = {0};
    size_t size;
    assert_non_null(f);
    size = fread(bytes, 1, sizeof bytes - 1, f);
    fclose(f);
    assert_true(size > 200 && size < sizeof bytes - 1);
    memcpy(bytes + at, with, n);
    if (steno_ngram_parse(&m, bytes, cut ? cut : size, "lm.bin", &err) != want || m ||
        !strstr(err.msg, what))
        fail_msg("'%s' does not say '%s'", err.msg, what);
}

static void wrong_binaries_are_refused_by_name(void **state)
{
    (void)state;
    static const unsigned char ones[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    static const unsigned char large[8] = {0, 0, 0, 64}, zero[8] = {0}, three[1] = {3};
    static const unsigned char some[8] = {40}, nan[4] = {0, 0, 192, 127};
    static const steno_status format = STENO_ERR_FORMAT, unsupported = STENO_ERR_UNSUPPORTED;
    unsigned char full[108], word[12]; /* keys that exist; 0xFFFFFFFF as a float is NaN */
    memset(full, 1, sizeof full);
    memset(word, 255, sizeof word);
    refuse(0, 0, "", 0, 60, format, "ends in its header");
    refuse(0, 0, "", 0, 100, format, "ends in its header");
    refuse(0, 0, "", 0, 110, format, "ends in its header");
    refuse(0, 34, "incomplete", 10, 0, format, "did not finish");
    refuse(0, 49, "4", 1, 0, unsupported, "format version 4");
    refuse(0, 60, ones, 4, 0, format, "another architecture");
    refuse(0, 88, zero, 1, 0, unsupported, "n-grams of 0 words");
    refuse(0, 88, ones, 1, 0, unsupported, "n-grams of 255 words");
    refuse(0, 92, nan, 4, 0, format, "multiplier");
    refuse(0, 92, zero, 4, 0, format, "multiplier");
    refuse(0, 96, three, 1, 0, unsupported, "type 3 (trie with quantization)");
    refuse(0, 96, ones, 4, 0, unsupported, "(unknown)");
    refuse(0, 104, three, 1, 0, unsupported, "probing of version 3");
    refuse(0, 108, ones, 8, 0, format, "1-grams, the file has");
    refuse(0, 124, large, 8, 0, format, "3-grams, the file has");
    refuse(0, 124, some, 8, 0, format, "beyond the end");
    refuse(0, 132, "", 0, 140, format, "beyond the end");
    refuse(0, 136, three, 1, 0, format, "another version than 0");
    refuse(0, 140, ones, 4, 0, format, "more words than 1-grams");
    refuse(0, 144, full, sizeof full, 0, format, "1-grams: a hash table without an empty bucket");
    refuse(0, 144, word, sizeof word, 0, format, "a word without the number of a 1-gram");
    refuse(0, 252, nan, 4, 0, format, "1-grams: entry 0: a log-probability");
    refuse(0, 308, word, sizeof word, 0, format, "2-grams: entry 0: a log-probability");
    refuse(0, 420, word, sizeof word, 0, format, "3-grams: entry 0: a log-probability");
    refuse(0, 468, "x", 1, 0, format, "byte 468: expected the words here");
    refuse(1, 136, ones, 8, 0, format, "more words than 1-grams");
    refuse(1, 192, nan, 4, 0, format, "1-grams: entry 0: a log-probability");
    refuse(1, 200, ones, 8, 0, format, "1-grams: entry 0: a pointer");
}

/* After any cut and any flipped byte the file is refused or all scores are numbers. */
static void damaged_binaries_do_no_harm(void **state)
{
    (void)state;
    for (size_t f = 0; f < 2; f++) {
        static char whole[1 << 12];
        FILE *in = fopen(binaries[f], "rb");
        size_t n;
        assert_non_null(in);
        n = fread(whole, 1, sizeof whole, in);
        fclose(in);
        for (size_t i = 0; i < 2 * n; i++) {
            size_t size = i < n ? i : n;
            char *bytes = malloc(size + 1);
            steno_ngram *m = NULL;
            assert_non_null(bytes);
            memcpy(bytes, whole, size);
            if (i >= n)
                bytes[i - n] = (char)(bytes[i - n] ^ 0xA5);
            if (!steno_ngram_parse(&m, bytes, size, "lm.bin", NULL)) {
                int32_t context[2] = {steno_ngram_word(m, "a"), steno_ngram_word(m, "b")};
                for (size_t k = 0; k < N; k++)
                    assert_true(
                        isfinite(steno_ngram_score(m, context, 2, steno_ngram_word(m, tokens[k]))));
                steno_ngram_close(m);
            }
            free(bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_kenlm),
        cmocka_unit_test(all_at_once_is_one_by_one),
        cmocka_unit_test(an_unknown_token_is_very_unlikely_without_unk),
        cmocka_unit_test(wrong_files_are_refused_with_the_line),
        cmocka_unit_test(a_binary_scores_as_kenlm),
        cmocka_unit_test(a_binary_scores_as_its_text),
        cmocka_unit_test(wrong_binaries_are_refused_by_name),
        cmocka_unit_test(damaged_binaries_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
