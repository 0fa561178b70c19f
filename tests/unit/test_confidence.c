/* Confidences of words: the map beside a model, and how `steno model calibrate` fits it.
 * Regression, area and alignment are compared with plain forms of their definitions. */
/* link: engine/tools/cli/confidence_fit.c engine/tools/cli/word_match.c */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/english.h"
#include "tools/cli/confidence_fit.h"
#include "tools/cli/word_match.h"
#include "tests/support/test.h"

#define MOST 60

static unsigned seed = 1;

static unsigned draw(unsigned below)
{
    seed = seed * 1664525u + 1013904223u; /* Numerical Recipes */
    return (seed >> 8) % below;
}

/* Words whose confidences repeat, and that are right the more often the higher these are. */
static size_t make(struct confidence_sample *s, size_t most)
{
    const size_t n = 1 + draw((unsigned)most);
    for (size_t i = 0; i < n; i++) {
        s[i].confidence = (float)draw(20) / 19;
        s[i].right = draw(25) < 3 + (unsigned)(s[i].confidence * 20);
    }
    confidence_sort(s, n);
    return n;
}

/* ---- the fit --------------------------------------------------------------------------------- */

static double mean_right(const struct confidence_sample *s, size_t from, size_t to)
{
    double sum = 0;
    for (size_t i = from; i <= to; i++)
        sum += s[i].right;
    return sum / (double)(to - from + 1);
}

/* Isotonic regression by its min-max formula (Robertson, Wright, Dykstra 1988, 1.4): the largest
 * over lower sets of the smallest mean over upper sets; sets do not part equal confidences. */
static double min_max(const struct confidence_sample *s, size_t n, size_t i)
{
    double most = -1;
    for (size_t from = 0; from <= i; from++) {
        double least = 2;
        if (from && s[from].confidence <= s[from - 1].confidence)
            continue;
        for (size_t to = i; to < n; to++)
            if (to + 1 == n || s[to + 1].confidence > s[to].confidence)
                least = fmin(least, mean_right(s, from, to));
        most = fmax(most, least);
    }
    return most;
}

static void the_regression_is_that_of_its_definition(void **state)
{
    struct confidence_sample s[MOST];
    double fit[MOST];
    (void)state;
    for (int round = 0; round < 500; round++) {
        const size_t n = make(s, MOST);
        assert_true(confidence_isotonic(s, n, fit));
        for (size_t i = 0; i < n; i++)
            assert_true(fabs(fit[i] - min_max(s, n, i)) < 1e-12);
    }
}

static void the_area_counts_pairs(void **state)
{
    struct confidence_sample s[MOST];
    (void)state;
    for (int round = 0; round < 200; round++) {
        const size_t n = make(s, MOST);
        double pairs = 0, won = 0;
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < n; k++)
                if (s[i].right && !s[k].right) {
                    pairs++;
                    won += s[i].confidence > s[k].confidence   ? 1
                           : s[i].confidence < s[k].confidence ? 0
                                                               : 0.5;
                }
        if (pairs > 0)
            assert_true(fabs(confidence_area(s, n) - won / pairs) < 1e-12);
        else
            assert_true(isnan(confidence_area(s, n)));
    }
}

/* Three words of 0.05 of which one is right, four of 0.95 that are right, one of 1 that is not. */
static void the_error_is_by_bins(void **state)
{
    const struct confidence_sample s[] = {
        {0.05f, false, false}, {0.05f, true, false}, {0.05f, false, false}, {0.95f, true, false},
        {0.95f, true, false},  {0.95f, true, false}, {0.95f, true, false},  {1, false, false}};
    const struct steno_confidence_map half = {1, "", {{0.5f, 0.5f}}};
    (void)state;
    assert_true(fabs(confidence_error(s, 8, NULL) - (0.85 + 0.8) / 8) < 1e-6);
    assert_true(fabs(confidence_error(s, 8, &half) - 1.0 / 8) < 1e-6);
    assert_true(confidence_error(s, 0, NULL) == 0);
}

static void a_map_rises_and_lowers_the_error(void **state)
{
    static struct confidence_sample s[2000];
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct steno_confidence_map m;
        const size_t n = 40 + make(s, 1900);
        for (size_t i = 0; i < n; i++) {
            s[i].confidence = (float)draw(1000) / 999;
            s[i].right = draw(1000) < 500 + (unsigned)(s[i].confidence * 450); /* far too careful */
        }
        confidence_sort(s, n);
        assert_int_equal(confidence_fit(s, n, &m, NULL), STENO_OK);
        assert_in_range(m.n, 1, STENO_CONFIDENCE_KNOTS);
        for (size_t i = 0; i < m.n; i++) {
            assert_true(m.knot[i].to >= STENO_CONFIDENCE_LEAST && m.knot[i].to < 1);
            assert_true(!i ||
                        (m.knot[i].from > m.knot[i - 1].from && m.knot[i].to >= m.knot[i - 1].to));
        }
        assert_true(confidence_error(s, n, &m) < 0.1 && confidence_error(s, n, NULL) > 0.1);
    }
}

static void few_words_give_no_map(void **state)
{
    struct confidence_sample s[39];
    struct steno_confidence_map m;
    steno_err err;
    (void)state;
    memset(s, 0, sizeof s);
    assert_int_equal(confidence_fit(s, 39, &m, &err), STENO_ERR_FORMAT);
    assert_string_equal(err.msg, "39 words are too few for a map: it needs 40");
}

/* ---- the map --------------------------------------------------------------------------------- */

static void a_map_is_lines_between_knots(void **state)
{
    static const char text[] = "{\"knots\": [[0.2, 0.4], [0.6, 0.8], [0.7, 0.8]]}";
    struct steno_confidence_map m;
    (void)state;
    assert_int_equal(steno_confidence_map_parse(&m, text, strlen(text), "m", NULL), STENO_OK);
    assert_int_equal(m.n, 3);
    assert_true(steno_confidence_map_of(&m, 0) == 0.4f);
    assert_true(steno_confidence_map_of(&m, 0.2f) == 0.4f);
    assert_true(fabsf(steno_confidence_map_of(&m, 0.3f) - 0.5f) < 1e-6f);
    assert_true(steno_confidence_map_of(&m, 0.65f) == 0.8f);
    assert_true(steno_confidence_map_of(&m, 1) == 0.8f);
    assert_true(steno_confidence_map_of(NULL, 0.3f) == 0.3f);
    m.n = 0;
    assert_true(steno_confidence_map_of(&m, 0.3f) == 0.3f);
}

static void wrong_maps_are_refused(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "m: line 1"},
        {"[]", "m: line 1: an object with the list 'knots' and perhaps 'language' is expected"},
        {"{\"knots\": [], \"n\": 1}", "m: line 1: an object with"},
        {"{\"knots\": []}", "m: line 1: an object with"},
        {"{\"knots\": [[0, 1]], \"language\": 1}", "m: line 1: 'language' is a code"},
        {"{\"knots\": [[0, 1]], \"language\": \"Plattdeutsch\"}", "m: line 1: 'language' is"},
        {"{\"knots\": [[0.1, 0.2],\n[0.3]]}", "m: line 2: a knot is two numbers of 0 to 1"},
        {"{\"knots\": [[0.1, 1.2]]}", "m: line 1: a knot is two numbers of 0 to 1"},
        {"{\"knots\": [[-0.1, 0.2]]}", "m: line 1: a knot is two numbers of 0 to 1"},
        {"{\"knots\": [[\"0.1\", 0.2]]}", "m: line 1: a knot is two numbers of 0 to 1"},
        {"{\"knots\": [[0.1, 0.0001]]}", "m: line 1: the second number of a knot is 0.001"},
        {"{\"knots\": [[0.1, 0.2], [0.1, 0.3]]}", "m: line 1: the first numbers of the knots"},
        {"{\"knots\": [[0.1, 0.2], [0.2, 0.1]]}", "m: line 1: the second numbers of the knots"},
    };
    struct steno_confidence_map m;
    char many[600] = "{\"knots\": [[0, 0.5]";
    steno_err err;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(
            steno_confidence_map_parse(&m, rows[i].text, strlen(rows[i].text), "m", &err),
            STENO_ERR_FORMAT);
        if (strncmp(err.msg, rows[i].message, strlen(rows[i].message)) != 0)
            fail_msg("'%s' says '%s'", rows[i].text, err.msg);
    }
    for (int i = 1; i <= STENO_CONFIDENCE_KNOTS; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), ", [0.%02d, 0.5]", i);
    strcat(many, "]}");
    assert_int_equal(steno_confidence_map_parse(&m, many, strlen(many), "m", &err),
                     STENO_ERR_FORMAT);
    assert_string_equal(err.msg, "m: line 1: there are more than 16 knots");
}

static void what_is_stored_is_read(void **state)
{
    const struct steno_confidence_map m = {2, "nds", {{0.25f, 0.5f}, {0.75f, 0.875f}}};
    struct steno_confidence_map got = {0};
    char dir[] = "/tmp/steno-confidence-XXXXXX", file[64];
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(steno_confidence_map_open(&got, dir, NULL), STENO_OK);
    assert_int_equal(got.n, 0);
    assert_int_equal(steno_confidence_map_store(&m, dir, NULL), STENO_OK);
    assert_int_equal(steno_confidence_map_open(&got, dir, NULL), STENO_OK);
    assert_true(got.n == 2 && got.knot[1].from == 0.75f && got.knot[1].to == 0.875f);
    assert_string_equal(got.language, "nds");
    snprintf(file, sizeof file, "%s/confidence.json", dir);
    assert_int_equal(remove(file), 0);
    assert_int_equal(remove(dir), 0);
}

/* ---- words ----------------------------------------------------------------------------------- */

static long least_edits(char **a, size_t n, char **b, size_t m)
{
    long drop, add, both;
    if (!n || !m)
        return (long)(n + m);
    drop = 1 + least_edits(a + 1, n - 1, b, m);
    add = 1 + least_edits(a, n, b + 1, m - 1);
    both = (strcmp(*a, *b) != 0) + least_edits(a + 1, n - 1, b + 1, m - 1);
    return drop < add ? (drop < both ? drop : both) : add < both ? add : both;
}

/* Hits in their order are words of b in their order, and the rest costs what was counted. */
static void check_match(char **a, size_t n, char **b, size_t m)
{
    bool hit[8];
    size_t at = 0, hits = 0;
    const long edits = word_match(a, n, b, m, hit);
    assert_int_equal(edits, least_edits(a, n, b, m));
    assert_int_equal(word_match(a, n, b, m, NULL), edits);
    for (size_t i = 0; i < n; i++) {
        while (hit[i] && at < m && strcmp(a[i], b[at]) != 0)
            at++;
        assert_true(!hit[i] || at < m);
        at += hit[i];
        hits += hit[i];
    }
    assert_true(edits >= (long)((n > m ? n : m) - hits) && edits <= (long)(n + m - 2 * hits));
}

static void words_are_matched_at_the_least_cost(void **state)
{
    static char words[][2] = {"a", "b", "c"};
    char *a[7], *b[7];
    (void)state;
    for (int round = 0; round < 300; round++) {
        const size_t n = draw(7), m = draw(7);
        for (size_t i = 0; i < 7; i++) {
            a[i] = words[draw(3)];
            b[i] = words[draw(3)];
        }
        check_match(a, n, b, m);
    }
}

/* The list is searched by halves: every word must be where it is looked for. */
static void number_words_are_found(void **state)
{
    static const char *const words[] = {"a",   "Twelfth",     "zero", "TRILLIONTH",  "may",
                                        "p.m", "thousandths", "o",    "seventeenth", "and"};
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_int_not_equal(steno_english_word(words[i], strlen(words[i]))->kind, STENO_EN_OTHER);
    assert_int_equal(steno_english_word("twel", 4)->kind, STENO_EN_OTHER);
    assert_int_equal(steno_english_word("seventeenthly", 13)->kind, STENO_EN_OTHER);
    for (int i = 0; i < 10; i++) {
        const char *word = steno_english_digit(i);
        const struct steno_english_word *w = steno_english_word(word, strlen(word));
        assert_true(w->kind == STENO_EN_DIGIT && w->value == i && !w->ordinal);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_regression_is_that_of_its_definition),
        cmocka_unit_test(the_area_counts_pairs),
        cmocka_unit_test(the_error_is_by_bins),
        cmocka_unit_test(a_map_rises_and_lowers_the_error),
        cmocka_unit_test(few_words_give_no_map),
        cmocka_unit_test(a_map_is_lines_between_knots),
        cmocka_unit_test(wrong_maps_are_refused),
        cmocka_unit_test(what_is_stored_is_read),
        cmocka_unit_test(words_are_matched_at_the_least_cost),
        cmocka_unit_test(number_words_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
