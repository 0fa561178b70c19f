/* Integrate-and-fire on frames and weights written by hand. */
#include <math.h>
#include <stdlib.h>

#include "speech/families/funasr/cif.h"
#include "tests/support/test.h"

static void near(float a, double b)
{
    assert_true(fabs((double)a - b) < 1e-6);
}

static void a_token_fires_at_a_weight_of_one(void **state)
{
    struct steno_cif c;
    float out[2];
    (void)state;
    assert_true(steno_cif_open(&c, 2));
    assert_false(steno_cif_push(&c, (const float[]){1, 2}, 0.4f, out));
    assert_true(steno_cif_push(&c, (const float[]){10, 20}, 0.8f, out));
    near(out[0], 0.4 * 1 + 0.6 * 10);
    near(out[1], 0.4 * 2 + 0.6 * 20);
    near(c.integral, 0.2); /* the rest of the second frame begins the next token */
    assert_true(steno_cif_push(&c, (const float[]){1, 1}, 0.8f, out));
    near(out[0], 0.2 * 10 + 0.8);
    near(c.integral, 0);
    steno_cif_close(&c);
}

static void the_end_fires_a_token_of_enough_weight(void **state)
{
    struct steno_cif c;
    float out[1] = {0};
    (void)state;
    assert_true(steno_cif_open(&c, 1));
    assert_false(steno_cif_push(&c, (const float[]){2}, 0.5f, out));
    assert_false(steno_cif_flush(&c, out));
    near(c.integral, 0.5);
    assert_false(steno_cif_push(&c, (const float[]){2}, 0.1f, out));
    assert_true(steno_cif_flush(&c, out));
    near(out[0], 1.2);
    near(c.integral, 0);
    assert_false(steno_cif_flush(&c, out));
    steno_cif_close(&c);
}

static void a_pause_fires_it_too_once(void **state)
{
    struct steno_cif c;
    float out[1] = {0};
    int fired = 0, at = -1;
    (void)state;
    assert_true(steno_cif_open(&c, 1));
    assert_false(steno_cif_push(&c, (const float[]){1}, 0.7f, out));
    for (int i = 0; i < 20; i++)
        if (steno_cif_push(&c, (const float[]){1}, 0.001f, out)) {
            fired++;
            at = i;
        }
    assert_int_equal(fired, 1);
    assert_int_equal(at, STENO_CIF_QUIET_ROWS - 1);
    steno_cif_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_fires_at_a_weight_of_one),
        cmocka_unit_test(the_end_fires_a_token_of_enough_weight),
        cmocka_unit_test(a_pause_fires_it_too_once),
    };
    return cmocka_run_group_tests_name("cif", tests, NULL, NULL);
}
