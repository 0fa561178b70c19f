#include "base/arena.h"
#include "nn/exec/plan.h"
#include "tests/support/test.h"

#define N 300

static bool overlap(const struct steno_interval *a, const struct steno_interval *b)
{
    bool time = a->first <= b->last && b->first <= a->last;
    bool space = a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
    return time && space;
}

static uint32_t next(uint32_t *s)
{
    *s ^= *s << 13, *s ^= *s >> 17, *s ^= *s << 5; /* xorshift32 */
    return *s;
}

static void blocks_alive_together_never_overlap(void **state)
{
    static struct steno_interval v[N];
    uint32_t seed = 88172645;
    (void)state;
    for (int round = 0; round < 40; round++) {
        size_t total, sum = 0;
        for (int i = 0; i < N; i++) {
            v[i].bytes = next(&seed) % (round & 1 ? 100000 : 300);
            v[i].first = (int32_t)(next(&seed) % 200);
            v[i].last = v[i].first + (int32_t)(next(&seed) % 20);
        }
        assert_int_equal(steno_plan_place(v, N, &total), STENO_OK);
        for (int i = 0; i < N; i++) {
            assert_int_equal(v[i].offset % STENO_ALIGN, 0);
            assert_true(v[i].offset + v[i].bytes <= total);
            sum += v[i].bytes;
            for (int k = 0; k < i; k++)
                assert_false(v[i].bytes && v[k].bytes && overlap(&v[i], &v[k]));
        }
        assert_true(total < sum); /* some memory was reused */
    }
}

static void a_chain_needs_two_blocks(void **state)
{
    struct steno_interval v[50];
    size_t total;
    (void)state;
    for (int i = 0; i < 50; i++)
        v[i] = (struct steno_interval){.bytes = 1024, .first = i, .last = i + 1};
    assert_int_equal(steno_plan_place(v, 50, &total), STENO_OK);
    assert_int_equal(total, 2048);
}

static void a_small_block_takes_the_smallest_gap(void **state)
{
    /* in step 1 there are gaps of 256 and 128 below the block of 64 that lives throughout */
    struct steno_interval v[] = {
        {.bytes = 256, .first = 0, .last = 0}, {.bytes = 1024, .first = 0, .last = 1},
        {.bytes = 128, .first = 0, .last = 0}, {.bytes = 512, .first = 0, .last = 1},
        {.bytes = 128, .first = 1, .last = 1},
    };
    size_t total;
    (void)state;
    assert_int_equal(steno_plan_place(v, 5, &total), STENO_OK);
    assert_int_equal(total, 256 + 1024 + 128 + 512);
    assert_false(overlap(&v[4], &v[1]));
}

static void nothing_and_empty_blocks_take_no_memory(void **state)
{
    struct steno_interval v[2] = {{.bytes = 0, .first = 0, .last = 9}, {.bytes = 0}};
    size_t total = 1;
    (void)state;
    assert_int_equal(steno_plan_place(v, 2, &total), STENO_OK);
    assert_int_equal(total, 0);
    assert_int_equal(steno_plan_place(NULL, 0, &total), STENO_OK);
    assert_int_equal(total, 0);
}

static void sizes_that_overflow_are_refused(void **state)
{
    struct steno_interval v[2] = {{.bytes = SIZE_MAX / 2}, {.bytes = SIZE_MAX / 2 + 10}};
    size_t total = 7;
    (void)state;
    assert_int_equal(steno_plan_place(v, 2, &total), STENO_ERR_LIMIT);
    v[0].bytes = SIZE_MAX;
    assert_int_equal(steno_plan_place(v, 1, &total), STENO_ERR_LIMIT);
    assert_int_equal(total, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_alive_together_never_overlap),
        cmocka_unit_test(a_chain_needs_two_blocks),
        cmocka_unit_test(a_small_block_takes_the_smallest_gap),
        cmocka_unit_test(nothing_and_empty_blocks_take_no_memory),
        cmocka_unit_test(sizes_that_overflow_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
