/* Cepstra: the orthonormal cosine transform and Kaldi's lifter. */
#include <math.h>

#include "speech/features/cepstrum.h"
#include "tests/support/test.h"

#define BINS 40

static void the_transform_is_orthonormal(void **state)
{
    static float matrix[BINS * BINS];
    (void)state;
    steno_cepstrum_fill(matrix, BINS, BINS, 0);
    for (size_t i = 0; i < BINS; i++)
        for (size_t k = 0; k < BINS; k++) {
            double sum = 0;
            for (size_t n = 0; n < BINS; n++)
                sum += (double)matrix[i * BINS + n] * (double)matrix[k * BINS + n];
            assert_true(fabs(sum - (i == k)) < 1e-5);
        }
}

/* A flat frame has the first cepstrum alone. The lifter is 1 there, and 1 + 11 in the middle. */
static void frames_are_transformed_and_liftered(void **state)
{
    static float plain[BINS * BINS], liftered[13 * BINS];
    float x[2 * BINS], y[2 * 13];
    (void)state;
    steno_cepstrum_fill(plain, BINS, BINS, 0);
    steno_cepstrum_fill(liftered, 13, BINS, 22);
    for (size_t i = 0; i < BINS; i++) {
        x[i] = 2;
        x[BINS + i] = plain[11 * BINS + i];
    }
    steno_cepstrum_apply(liftered, 13, BINS, x, 2, y);
    assert_true(fabsf(y[0] - 2 * sqrtf(BINS)) < 1e-4F);
    for (size_t k = 1; k < 13; k++)
        assert_true(fabsf(y[k]) < 1e-4F);
    for (size_t k = 0; k < 13; k++)
        assert_true(fabsf(y[13 + k] - (k == 11 ? 12.0F : 0)) < 1e-4F);
    steno_cepstrum_apply(plain, BINS, BINS, x, 2, x); /* in place */
    assert_true(fabsf(x[BINS + 11] - 1) < 1e-5F && fabsf(x[BINS + 12]) < 1e-5F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_transform_is_orthonormal),
        cmocka_unit_test(frames_are_transformed_and_liftered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
