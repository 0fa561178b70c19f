/* Which text consecutive hypotheses agree on, without a model: pieces 0 to 99 begin words, others
 * below 1000 go on with them, and timestamps begin at 1000. */
#include <stdlib.h>
#include <string.h>

#include "speech/families/whisper/agree.h"
#include "tests/support/test.h"

#define T(steps) (1000 + (steps))

static bool begins(const void *arg, int32_t id)
{
    (void)arg;
    return id < 100;
}

static struct steno_whisper_agreement agreement(size_t needed, size_t hold)
{
    return (struct steno_whisper_agreement){
        .first_time = 1000, .begins_word = begins, .needed = needed, .hold = hold};
}

static void add(struct steno_whisper_agreement *a, const int32_t *ids, size_t n)
{
    float probs[STENO_WHISPER_AGREE_MAX] = {0};
    steno_whisper_agreement_add(a, ids, probs, n);
}

#define ADD(a, ...)                                                                                \
    add(a, (const int32_t[]){__VA_ARGS__}, sizeof(const int32_t[]){__VA_ARGS__} / sizeof(int32_t))

static void two_hypotheses_agree_on_whole_words_but_the_last(void **state)
{
    struct steno_whisper_agreement a = agreement(2, 0);
    (void)state;
    ADD(&a, T(0), 1, 2, 3);
    assert_int_equal(a.agreed, 0);
    ADD(&a, T(0), 1, 2, 3);
    assert_int_equal(a.agreed, 3); /* word 3 may go on */
    ADD(&a, T(0), 1, 2, 3, 4);
    assert_int_equal(a.agreed, 4); /* a word has begun behind it */
}

static void a_word_that_goes_on_is_not_agreed(void **state)
{
    struct steno_whisper_agreement a = agreement(2, 0);
    (void)state;
    ADD(&a, T(0), 1, 2, 500, 3);
    ADD(&a, T(0), 1, 2, 4, 5);
    assert_int_equal(a.agreed, 2);
    ADD(&a, T(0), 1, 2, 500, 4);
    assert_int_equal(a.agreed, 2);
    ADD(&a, T(0), 1, 2, 500, 4, 5);
    assert_int_equal(a.agreed, 5);
}

static void timestamps_need_not_agree(void **state)
{
    struct steno_whisper_agreement a = agreement(2, 0);
    (void)state;
    ADD(&a, T(0), 1, 2, T(40));
    ADD(&a, T(5), 1, 2, T(50), T(50), 3, 4);
    assert_int_equal(a.agreed, 3); /* without the timestamps behind it */
    assert_int_equal(a.ids[0], T(5));
    ADD(&a, T(5), 1, 2, T(60), T(60), 3, 4, 5);
    assert_int_equal(a.agreed, 7);
}

static void more_hypotheses_are_needed_if_asked_for(void **state)
{
    struct steno_whisper_agreement a = agreement(3, 0);
    (void)state;
    ADD(&a, T(0), 1, 2, 3, 4);
    ADD(&a, T(0), 1, 2, 3, 4);
    assert_int_equal(a.agreed, 0);
    ADD(&a, T(0), 1, 2, 9, 4);
    assert_int_equal(a.agreed, 3);
    ADD(&a, T(0), 1, 2, 9, 4, 5);
    assert_int_equal(a.agreed, 3);
    ADD(&a, T(0), 1, 2, 9, 4, 5);
    assert_int_equal(a.agreed, 5);
}

static void words_are_held_back_if_asked_for(void **state)
{
    struct steno_whisper_agreement a = agreement(2, 1);
    (void)state;
    ADD(&a, T(0), 1, 2, 3, 4);
    ADD(&a, T(0), 1, 2, 3, 4);
    assert_int_equal(a.agreed, 3);
    ADD(&a, T(0), 1, 2, 3, 4);
    assert_int_equal(a.agreed, 3);
}

/* Hypotheses drawn at random behind the agreed text: what was agreed stays at the head. */
static void agreed_text_never_changes(void **state)
{
    unsigned seed = 1;
    (void)state;
    for (int run = 0; run < 200; run++) {
        struct steno_whisper_agreement a = agreement(2 + (size_t)run % 3, (size_t)run / 3 % 3);
        int32_t before[STENO_WHISPER_AGREE_MAX];
        size_t n_before = 0;
        for (int step = 0; step < 40; step++) {
            int32_t ids[STENO_WHISPER_AGREE_MAX];
            size_t n = a.agreed;
            memcpy(ids, a.ids, n * sizeof *ids);
            for (size_t most = n + 6; n < most && n < STENO_WHISPER_AGREE_MAX; n++) {
                seed = seed * 1664525 + 1013904223;
                ids[n] = n < a.n && seed >> 29 ? a.ids[n]
                         : seed >> 28 & 1      ? T((int32_t)(seed >> 20 & 255))
                                               : (int32_t)(seed >> 20 & 127);
            }
            add(&a, ids, n);
            assert_true(a.agreed >= n_before && a.agreed <= n);
            assert_memory_equal(a.ids, before, n_before * sizeof *ids);
            n_before = a.agreed;
            memcpy(before, a.ids, n_before * sizeof *ids);
            assert_true(!n_before || before[n_before - 1] < 1000);
        }
    }
}

static void a_result_keeps_the_agreed_text_or_does_not(void **state)
{
    struct steno_whisper_agreement a = agreement(2, 0);
    size_t used;
    (void)state;
    ADD(&a, T(0), 1, 2, 3, 4);
    ADD(&a, T(0), 1, 2, 3, 4);
    assert_int_equal(steno_whisper_agreement_text(&a), 3);
    assert_true(steno_whisper_agreement_kept(&a, (const int32_t[]){T(2), 1, 2, T(9), T(9), 3, 7}, 7,
                                             &used));
    assert_int_equal(used, 3);
    assert_false(steno_whisper_agreement_kept(&a, (const int32_t[]){T(0), 1, 7, 3}, 4, &used));
    assert_true(steno_whisper_agreement_kept(&a, (const int32_t[]){T(0), 1, T(9)}, 3, &used));
    assert_int_equal(used, 1); /* the rest is for the next window */
}

static void what_a_window_leaves_is_agreed_in_the_next(void **state)
{
    struct steno_whisper_agreement a = agreement(2, 0);
    (void)state;
    ADD(&a, T(7), 1, 2, T(30), T(30), 3, 4, 5);
    ADD(&a, T(7), 1, 2, T(30), T(30), 3, 4, 5);
    assert_int_equal(a.agreed, 7);
    steno_whisper_agreement_move(&a, 2);
    assert_int_equal(a.agreed, 3);
    assert_int_equal(a.n, 3);
    assert_memory_equal(a.ids, ((const int32_t[]){T(0), 3, 4}), 3 * sizeof(int32_t));
    steno_whisper_agreement_move(&a, 2);
    assert_int_equal(a.n, 0);
    steno_whisper_agreement_move(&a, 0);
    assert_int_equal(a.n, 0);
}

static void a_split_and_a_join_leave_all_as_it_was(void **state)
{
    struct steno_whisper_agreement a = agreement(2, 0), b;
    int32_t ids[STENO_WHISPER_AGREE_MAX], shift;
    float probs[STENO_WHISPER_AGREE_MAX];
    (void)state;
    ADD(&a, T(7), 1, 2, T(30), T(40), 3, 4, T(50));
    ADD(&a, T(7), 1, 2, T(30), T(40), 3, 4, T(50));
    b = a;
    assert_int_equal(a.agreed, 6);
    assert_int_equal(steno_whisper_agreement_split(&a, 3, ids, probs, &shift), 0);
    assert_int_equal(steno_whisper_agreement_split(&a, 4, ids, probs, &shift), 4);
    assert_int_equal(shift, 40);
    assert_memory_equal(ids, ((const int32_t[]){T(7), 1, 2, T(30)}), 4 * sizeof *ids);
    assert_memory_equal(a.ids, ((const int32_t[]){T(0), 3, 4, T(10)}), 4 * sizeof *ids);
    assert_int_equal(a.n, 4);
    assert_int_equal(a.agreed, 2);
    assert_int_equal(a.common[0], 1);
    steno_whisper_agreement_join(&a, ids, probs, 4, shift);
    assert_int_equal(a.n, b.n);
    assert_int_equal(a.agreed, b.agreed);
    assert_memory_equal(a.ids, b.ids, b.n * sizeof *ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_hypotheses_agree_on_whole_words_but_the_last),
        cmocka_unit_test(a_word_that_goes_on_is_not_agreed),
        cmocka_unit_test(timestamps_need_not_agree),
        cmocka_unit_test(more_hypotheses_are_needed_if_asked_for),
        cmocka_unit_test(words_are_held_back_if_asked_for),
        cmocka_unit_test(agreed_text_never_changes),
        cmocka_unit_test(a_result_keeps_the_agreed_text_or_does_not),
        cmocka_unit_test(a_split_and_a_join_leave_all_as_it_was),
        cmocka_unit_test(what_a_window_leaves_is_agreed_in_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
