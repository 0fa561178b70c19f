/* ARPA models. Scores: kenlm 0.3.0 on the same text (tests/espnet/oracle_ngram.py prints them). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decoder/ngram.h"

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

/* Token numbers of a history, and the scores of all tokens after it. */
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
    assert_int_equal(steno_ngram_map_unknown(p), 3); /* <blank>, <unk>, q */
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

/* The table of all tokens and the definition, word by word, say the same. */
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

static void without_unknown_it_is_very_unlikely(void **state)
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
        {"\\data\\\nngram 1=1\n\\1-grams:\n-1 a b\n\\end\\\n", "no back-off"},
        {"\\data\\\nngram 1=1\n\\1-grams:\n-1 a -1 -1\n\\end\\\n", "more than a back-off"},
        {"\\data\\\nngram 1=2\n\\1-grams:\n-1 a\n-1 a\n\\end\\\n", "lm.arpa:5: this n-gram was"},
        {"\\data\\\nngram 1=1\nngram 2=1\n\\1-grams:\n-1 a\n\\2-grams:\n-1 a b\n\\end\\\n",
         "lm.arpa:7: a word that no 1-gram"},
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

static void a_binary_is_refused_by_name(void **state)
{
    (void)state;
    static const char head[] = "mmap lm http://kheafield.com/code format version 5\n";
    steno_ngram *m = NULL;
    steno_err err = {0};
    assert_int_equal(steno_ngram_parse(&m, head, sizeof head, "lm.bin", &err),
                     STENO_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "KenLM binary"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_kenlm),
        cmocka_unit_test(all_at_once_is_one_by_one),
        cmocka_unit_test(without_unknown_it_is_very_unlikely),
        cmocka_unit_test(wrong_files_are_refused_with_the_line),
        cmocka_unit_test(a_binary_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
