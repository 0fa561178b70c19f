/* States of a beam: gathered by parent, gathered again, and rewound. */

#include "speech/families/common/beam_states.h"
#include "tests/support/test.h"

#define FLOATS 20 /* less than the stride */

/* A step that adds `by` times the row's number to every state. */
static void step(struct steno_beam_states *b, const int32_t *parent, size_t n, float by)
{
    assert_true(steno_beam_states_reserve(b, n, FLOATS));
    steno_beam_states_step(b, parent, n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < FLOATS; k++)
            steno_beam_state(b, STENO_BEAM_OUT, i)[k] =
                steno_beam_state(b, STENO_BEAM_IN, i)[k] + by * (float)(i + 1);
}

static void assert_out(const struct steno_beam_states *b, size_t n, const float *want)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < FLOATS; k++)
            assert_true(steno_beam_state(b, STENO_BEAM_OUT, i)[k] == want[i]);
}

static void a_child_has_its_parents_state(void **state)
{
    static const int32_t twice[] = {0, 0}, crossed[] = {1, 0, 1};
    static const float first[] = {1}, second[] = {11, 21}, third[] = {121, 211, 321};
    struct steno_beam_states b = {0};
    (void)state;
    step(&b, NULL, 1, 1);
    assert_out(&b, 1, first);
    step(&b, twice, 2, 10);
    assert_out(&b, 2, second);
    step(&b, crossed, 3, 100);
    assert_out(&b, 3, third);
    step(&b, NULL, 1, 1); /* a new utterance */
    assert_out(&b, 1, first);
    steno_beam_states_free(&b);
}

/* Repeat the last call, repeat the call before it, and go on from there, as steno_joint_blocks
 * does. */
static void a_search_can_go_back(void **state)
{
    static const int32_t twice[] = {0, 0}, crossed[] = {1, 0};
    static const float again[] = {31, 61}, before[] = {6}, on[] = {16, 26}, further[] = {126, 216};
    struct steno_beam_states b = {0};
    (void)state;
    step(&b, NULL, 1, 1);
    step(&b, twice, 2, 10);
    steno_beam_states_rewind(&b, 0);
    step(&b, crossed, 2, 30); /* after a rewind the parents are ignored */
    assert_out(&b, 2, again);
    steno_beam_states_rewind(&b, 1);
    step(&b, NULL, 1, 6);
    assert_out(&b, 1, before);
    step(&b, twice, 2, 10);
    assert_out(&b, 2, on);
    steno_beam_states_rewind(&b, 0);
    step(&b, NULL, 2, 10);
    assert_out(&b, 2, on);
    step(&b, crossed, 2, 100);
    assert_out(&b, 2, further);
    steno_beam_states_free(&b);
}

/* Elements that were added later are zero in earlier states. */
static void longer_states_are_filled_with_zeros(void **state)
{
    struct steno_beam_states b = {0};
    (void)state;
    step(&b, NULL, 1, 1);
    assert_true(steno_beam_states_reserve(&b, 3, 100));
    assert_true(b.stride >= 100 && b.stride % 16 == 0 && b.cap >= 3);
    for (int k = STENO_BEAM_IN; k <= STENO_BEAM_OUT; k++)
        for (size_t i = 0; i < 3; i++)
            for (size_t c = 0; c < b.stride; c++)
                assert_true(steno_beam_state(&b, k, i)[c] ==
                            (k == STENO_BEAM_OUT && i == 0 && c < FLOATS ? 1 : 0));
    assert_true(steno_beam_states_bytes(&b) == 3 * b.cap * b.stride * sizeof(float));
    assert_false(steno_beam_states_reserve(&b, SIZE_MAX / 8, 100));
    steno_beam_states_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_has_its_parents_state),
        cmocka_unit_test(a_search_can_go_back),
        cmocka_unit_test(longer_states_are_filled_with_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
