/* Frames side by side, by FunASR's rule (funasr/frontends/wav_frontend.py, apply_lfr) and by that
 * of streaming Paraformer. */
#include <stdlib.h>

#include "speech/features/lfr.h"
#include "tests/support/test.h"

static const struct steno_lfr centred = {7, 6, true}, complete = {7, 6, false};

static void counts_follow_the_rules(void **state)
{
    (void)state;
    assert_int_equal(steno_lfr_count(&centred, 0), 0);
    assert_int_equal(steno_lfr_count(&centred, 1), 1);
    assert_int_equal(steno_lfr_count(&centred, 6), 1);
    assert_int_equal(steno_lfr_count(&centred, 7), 2);
    assert_int_equal(steno_lfr_count(&centred, 13), 3);
    assert_int_equal(steno_lfr_count(&complete, 6), 0);
    assert_int_equal(steno_lfr_count(&complete, 7), 1);
    assert_int_equal(steno_lfr_count(&complete, 12), 1);
    assert_int_equal(steno_lfr_count(&complete, 61), 10);
}

/* Frame i has value i, in dimension 1 its negative. */
static void check(const struct steno_lfr *o, size_t n, size_t row, const int *want)
{
    float x[2 * 20], out[4 * 2 * 7];
    for (size_t i = 0; i < n; i++) {
        x[2 * i] = (float)i;
        x[2 * i + 1] = -(float)i;
    }
    assert_in_range(steno_lfr_count(o, n), row + 1, 4);
    steno_lfr_apply(o, x, n, 2, out);
    for (size_t k = 0; k < 7; k++) {
        assert_true(out[(row * 7 + k) * 2] == (float)want[k]);
        assert_true(out[(row * 7 + k) * 2 + 1] == -(float)want[k]);
    }
}

static void edges_are_repeated_or_left_out(void **state)
{
    (void)state;
    check(&centred, 1, 0, (const int[]){0, 0, 0, 0, 0, 0, 0});
    check(&centred, 14, 0, (const int[]){0, 0, 0, 0, 1, 2, 3});
    check(&centred, 14, 1, (const int[]){3, 4, 5, 6, 7, 8, 9});
    check(&centred, 14, 2, (const int[]){9, 10, 11, 12, 13, 13, 13});
    check(&complete, 14, 0, (const int[]){0, 1, 2, 3, 4, 5, 6});
    check(&complete, 14, 1, (const int[]){6, 7, 8, 9, 10, 11, 12});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_follow_the_rules),
        cmocka_unit_test(edges_are_repeated_or_left_out),
    };
    return cmocka_run_group_tests_name("lfr", tests, NULL, NULL);
}
