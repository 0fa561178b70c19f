/* The automaton of hotwords. The phrases and sums of the first test are those of icefall's own
 * (icefall/context_graph.py, strict_mode=False). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/search/hotwords.h"
#include "tests/support/test.h"

static void add(steno_hotwords *h, const char *phrase, float score)
{
    int32_t ids[32];
    size_t n = strlen(phrase);
    for (size_t i = 0; i < n; i++)
        ids[i] = phrase[i];
    assert_int_equal(steno_hotwords_add(h, ids, n, score, NULL), STENO_OK);
}

/* Score of a whole sequence, its end included. */
static double run(const steno_hotwords *h, const char *text)
{
    int32_t state = STENO_HOTWORDS_START;
    double sum = 0;
    for (; *text; text++) {
        float score = 0;
        state = steno_hotwords_step(h, state, *text, &score);
        sum += (double)score;
    }
    return sum + (double)steno_hotwords_end(h, state);
}

static void sums_are_those_of_icefall(void **state)
{
    static const char *const phrases[] = {"S",    "HE",    "SHE",  "SHELL", "HIS",
                                          "HERS", "HELLO", "THIS", "THEM"};
    static const struct {
        const char *text;
        double sum;
    } rows[] = {{"HEHERSHE", 7}, {"HERSHE", 5}, {"HISHE", 5},   {"SHED", 3}, {"SHELF", 3},
                {"HELL", 2},     {"HELLO", 2},  {"DHRHISQ", 3}, {"THEN", 2}, {"", 0}};
    steno_hotwords *h = NULL;
    (void)state;
    assert_int_equal(steno_hotwords_open(&h, NULL), STENO_OK);
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        add(h, phrases[i], 1);
    assert_int_equal(steno_hotwords_build(h, NULL), STENO_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(fabs(run(h, rows[i].text) - rows[i].sum) < 1e-6);
    steno_hotwords_close(h);
}

static void a_phrase_that_breaks_off_is_taken_back(void **state)
{
    steno_hotwords *h = NULL;
    float score = 0;
    int32_t at;
    (void)state;
    assert_int_equal(steno_hotwords_open(&h, NULL), STENO_OK);
    add(h, "ABC", 2);
    add(h, "BD", 3);
    assert_int_equal(steno_hotwords_build(h, NULL), STENO_OK);
    assert_int_equal(steno_hotwords_n_next(h, STENO_HOTWORDS_START), 2);
    at = steno_hotwords_step(h, STENO_HOTWORDS_START, 'A', &score);
    assert_true(score == 2);
    at = steno_hotwords_step(h, at, 'B', &score);
    assert_true(score == 2);
    assert_true(steno_hotwords_end(h, at) == -4);
    /* "BD" goes on from its first token, which "AB" ended with */
    assert_int_equal(steno_hotwords_step(h, at, 'D', &score), STENO_HOTWORDS_START);
    assert_true(score == 2); /* 6 of "BD", less the 4 so far */
    at = steno_hotwords_step(h, at, 'X', &score);
    assert_int_equal(at, STENO_HOTWORDS_START);
    assert_true(score == -4);
    steno_hotwords_close(h);
}

static void a_shared_token_has_the_highest_score(void **state)
{
    steno_hotwords *h = NULL;
    float score = 0;
    (void)state;
    assert_int_equal(steno_hotwords_open(&h, NULL), STENO_OK);
    add(h, "AB", 1);
    add(h, "AC", 5);
    add(h, "", 9);
    assert_int_equal(steno_hotwords_build(h, NULL), STENO_OK);
    (void)steno_hotwords_step(h, STENO_HOTWORDS_START, 'A', &score);
    assert_true(score == 5);
    assert_true(fabs(run(h, "AC") - 10) < 1e-6);
    assert_true(fabs(run(h, "XY")) < 1e-6);
    steno_hotwords_close(h);
}

static void too_many_tokens_are_an_error(void **state)
{
    steno_hotwords *h = NULL;
    int32_t ids[2];
    steno_status st = STENO_OK;
    (void)state;
    assert_int_equal(steno_hotwords_open(&h, NULL), STENO_OK);
    for (int32_t i = 0; i < STENO_HOTWORDS_TOKENS && !st; i++) {
        ids[0] = i / 300;
        ids[1] = 1000000 + i;
        st = steno_hotwords_add(h, ids, 2, 1, NULL);
    }
    assert_int_equal(st, STENO_ERR_LIMIT);
    assert_int_equal(steno_hotwords_build(h, NULL), STENO_OK);
    steno_hotwords_close(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_icefall),
        cmocka_unit_test(a_phrase_that_breaks_off_is_taken_back),
        cmocka_unit_test(a_shared_token_has_the_highest_score),
        cmocka_unit_test(too_many_tokens_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
