/* FireRedASR's attention decoder in ../shared/zoo/tiny against sherpa-onnx's results. The network
 * of random weights repeats one token, so they show the features, the first token and the limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/nemo_zoo.h"
#include "tests/support/zoo.h"

static struct zoo_count check(const struct zoo_run *r)
{
    struct zoo_count c;
    if (!zoo_check(r, &c))
        skip();
    assert_true(c.rows > 0);
    return c;
}

static void rows_are_as_recorded(void **state)
{
    struct zoo_run r = {.dir = "fire-red-asr-aed", .set = "fp32 greedy"};
    struct zoo_count c = check(&r);
    (void)state;
    assert_int_equal(c.equal, c.rows);
    r.piece = 3000;
    c = check(&r);
    assert_int_equal(c.equal, c.rows);
}

static void rows_in_8_bits_are_as_recorded(void **state)
{
    const struct set files = {.dir = "fire-red-asr-aed", .part = "", .int8 = true};
    const char *link = nemo_link(&files);
    const struct zoo_count c =
        check(&(struct zoo_run){.dir = link, .of = "fire-red-asr-aed", .set = "int8 greedy"});
    (void)state;
    nemo_unlink(link);
    assert_int_equal(c.equal, c.rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_as_recorded),
        cmocka_unit_test(rows_in_8_bits_are_as_recorded),
    };
    return cmocka_run_group_tests_name("fire_red", tests, NULL, NULL);
}
