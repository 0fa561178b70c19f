/* JSON as it is written: texts and numbers of a format. */

#include "protocol/json_text.h"
#include "tests/support/test.h"

#include <string.h>

static void texts_are_quoted_unless_they_are_plain(void **state)
{
    struct steno_buf b;
    (void)state;
    steno_buf_init(&b, 1000);
    assert_int_equal(steno_json_printf(&b, "{\"a\":%s,\"%-s\":%.*s%-.*s}", "say \"hi\"\n\x01", "b",
                                       2, "cd\"", 1, ",x"),
                     STENO_OK);
    assert_string_equal(b.data, "{\"a\":\"say \\\"hi\\\"\\n\\u0001\",\"b\":\"cd\",}");
    steno_buf_reset(&b);
    assert_int_equal(steno_json_printf(&b, "%s", "\xFF\xC3\xA4"), STENO_OK);
    assert_string_equal(b.data, "\"\xEF\xBF\xBD\xC3\xA4\"");
    steno_buf_free(&b);
}

static void numbers_are_those_of_printf(void **state)
{
    struct steno_buf b;
    (void)state;
    steno_buf_init(&b, 1000);
    assert_int_equal(steno_json_printf(&b, "%d %u %lld %llu %.3f %f", -1, 4000000000u,
                                       -9000000000LL, 18000000000000000000ULL, 1.25, 0.5),
                     STENO_OK);
    assert_string_equal(b.data, "-1 4000000000 -9000000000 18000000000000000000 1.250 0.500000");
    steno_buf_reset(&b);
    assert_int_equal(steno_json_printf(&b, "nothing to convert"), STENO_OK);
    assert_string_equal(b.data, "nothing to convert");
    assert_int_equal(steno_json_printf(&b, "%x", 1u), STENO_ERR_INTERNAL); /* it is not known */
    steno_buf_free(&b);
}

static void more_than_fits_is_an_error(void **state)
{
    struct steno_buf b;
    (void)state;
    steno_buf_init(&b, 10);
    assert_int_equal(steno_json_printf(&b, "%s", "12345678"), STENO_OK);
    assert_int_equal(steno_json_printf(&b, "%d", 1), STENO_ERR_LIMIT);
    assert_int_equal(b.len, 10);
    steno_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_quoted_unless_they_are_plain),
        cmocka_unit_test(numbers_are_those_of_printf),
        cmocka_unit_test(more_than_fits_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
