#include "speech/features/cmvn.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 1..5 in the first dimension, constant 7 in the second. Mean 3, variance 2 (ddof 0) or 2.5. */
static void fill(float *x)
{
    for (size_t t = 0; t < 5; t++) {
        x[2 * t] = (float)(t + 1);
        x[2 * t + 1] = 7;
    }
}

static void near(float got, double want)
{
    if (fabs((double)got - want) > 1e-6)
        fail_msg("%g, expected %g", (double)got, want);
}

static void global_mean_and_deviation_are_applied_per_dimension(void **state)
{
    const float mean[2] = {3, 5}, std[2] = {2, 0.5f};
    float x[10];
    steno_cmvn *c;
    (void)state;
    fill(x);
    assert_int_equal(steno_cmvn_open(&c, mean, std, 2, NULL), STENO_OK);
    steno_cmvn_apply(c, x, 5);
    for (size_t t = 0; t < 5; t++) {
        near(x[2 * t], ((double)t + 1 - 3) / 2);
        near(x[2 * t + 1], 4);
    }
    steno_cmvn_close(c);
    /* no statistics: no change */
    assert_int_equal(steno_cmvn_open(&c, NULL, NULL, 2, NULL), STENO_OK);
    fill(x);
    steno_cmvn_apply(c, x, 5);
    near(x[8], 5);
    near(x[9], 7);
    steno_cmvn_close(c);
    steno_cmvn_close(NULL);
}

/* ESPnet GlobalMVN: mean = sum / count, std = sqrt(max(sum_square / count - mean^2, 1e-20)). */
static void inverse_deviations_multiply(void **state)
{
    const float neg_mean[2] = {-1, 2}, inv_std[2] = {0.5f, 4}, zero[2] = {1, 0};
    float x[4] = {3, -1, 1, 0};
    steno_cmvn *c;
    (void)state;
    assert_int_equal(steno_cmvn_open_inverse(&c, neg_mean, inv_std, 2, NULL), STENO_OK);
    steno_cmvn_apply(c, x, 2);
    near(x[0], 1);
    near(x[1], 4);
    near(x[2], 0);
    near(x[3], 8);
    steno_cmvn_close(c);
    assert_int_equal(steno_cmvn_open_inverse(&c, neg_mean, zero, 2, NULL), STENO_ERR_INVAL);
}

static void utterance_normalisation_has_nemo_and_espnet_forms(void **state)
{
    struct steno_utterance_norm o = STENO_NORM_ESPNET;
    float x[10];
    (void)state;
    fill(x);
    steno_cmvn_utterance(x, 5, 2, &STENO_NORM_NEMO);
    near(x[0], -2 / (sqrt(2.5) + 1e-5));
    near(x[8], 2 / (sqrt(2.5) + 1e-5));
    near(x[9], 0);
    fill(x);
    steno_cmvn_utterance(x, 5, 2, &STENO_NORM_ESPNET);
    near(x[0], -2 / sqrt(2));
    near(x[9], 0);
    fill(x);
    o.vars = false;
    steno_cmvn_utterance(x, 5, 2, &o);
    near(x[0], -2);
    near(x[9], 0);
}

/* norm_means and norm_vars of ESPnet's utterance_mvn. */
static void means_and_deviations_are_switched_separately(void **state)
{
    struct steno_utterance_norm o = STENO_NORM_ESPNET;
    float x[10];
    (void)state;
    fill(x);
    o.keep_means = true;
    steno_cmvn_utterance(x, 5, 2, &o);
    near(x[0], 1 / sqrt(2));
    near(x[8], 5 / sqrt(2));
    fill(x);
    o.least = 4;
    steno_cmvn_utterance(x, 5, 2, &o);
    near(x[0], 1.0 / 4); /* a deviation of 1.4 counts as 4 */
    fill(x);
    o.vars = false;
    steno_cmvn_utterance(x, 5, 2, &o);
    near(x[0], 1);
    near(x[8], 5);
}

static void one_frame_or_none_is_accepted(void **state)
{
    float x[2] = {4, 5};
    (void)state;
    steno_cmvn_utterance(x, 0, 2, &STENO_NORM_NEMO);
    near(x[0], 4);
    /* one frame has no deviation: only the mean is removed */
    steno_cmvn_utterance(x, 1, 2, &STENO_NORM_NEMO);
    near(x[0], 0);
    near(x[1], 0);
}

static void impossible_statistics_are_refused_with_their_place(void **state)
{
    const float mean[3] = {0, 0, 0}, zero[3] = {1, 0, 1}, nan[3] = {1, 1, NAN};
    steno_cmvn *c = NULL;
    steno_err err = {0};
    (void)state;
    assert_int_equal(steno_cmvn_open(&c, mean, zero, 3, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "dimension 1"));
    assert_int_equal(steno_cmvn_open(&c, mean, nan, 3, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "dimension 2"));
    assert_null(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(global_mean_and_deviation_are_applied_per_dimension),
        cmocka_unit_test(inverse_deviations_multiply),
        cmocka_unit_test(utterance_normalisation_has_nemo_and_espnet_forms),
        cmocka_unit_test(means_and_deviations_are_switched_separately),
        cmocka_unit_test(one_frame_or_none_is_accepted),
        cmocka_unit_test(impossible_statistics_are_refused_with_their_place),
    };
    return cmocka_run_group_tests_name("cmvn", tests, NULL, NULL);
}
