/* Request targets: RFC 3986 and application/x-www-form-urlencoded. */

#include "base/buf.h"
#include "protocol/query.h"
#include "tests/support/test.h"

#include <string.h>

static steno_status collect(void *user, const char *name, const char *value, steno_err *err)
{
    (void)err;
    return steno_buf_printf(user, "%s=%s;", name, value);
}

static void pairs_are_decoded_in_order(void **state)
{
    static const struct {
        const char *target, *want;
    } good[] = {
        {"/x", ""},
        {"/x?", ""},
        {"/x?a=1", "a=1;"},
        {"/x?a=1&b=2&a=3", "a=1;b=2;a=3;"},
        {"/x?a", "a=;"},
        {"/x?a=&&b=c=d", "a=;b=c=d;"},
        {"/x?a%5B%5D=%41+%2b%c3%bc", "a[]=A +\xc3\xbc;"},
        {"/x?a=1#b=2", "a=1;"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct steno_buf out;
        steno_buf_init(&out, 4096);
        assert_int_equal(steno_query_each(good[i].target, collect, &out, NULL), STENO_OK);
        assert_string_equal(out.data ? out.data : "", good[i].want);
        assert_int_equal(steno_query_path_len(good[i].target), 2);
        steno_buf_free(&out);
    }
}

static void bad_escapes_and_bytes_are_named(void **state)
{
    static const struct {
        const char *target, *says;
    } bad[] = {{"/?a=%", "pair 1 has a bad %-escape"},   {"/?a=1&b=%4", "pair 2 has a bad"},
               {"/?%zz=1", "pair 1 has a bad %-escape"}, {"/?a=%00", "pair 1 holds a NUL"},
               {"/?a=%ff", "pair 1 is not UTF-8"},       {"/?a=%c3", "pair 1 is not UTF-8"},
               {"/?a=%ed%a0%80", "pair 1 is not UTF-8"}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct steno_buf out;
        steno_err err;
        steno_buf_init(&out, 4096);
        assert_int_equal(steno_query_each(bad[i].target, collect, &out, &err), STENO_ERR_INVAL);
        if (!strstr(err.msg, bad[i].says))
            fail_msg("%s: '%s'", bad[i].target, err.msg);
        steno_buf_free(&out);
    }
}

static void long_and_many_pairs_are_limits(void **state)
{
    struct steno_buf target, out;
    (void)state;
    steno_buf_init(&target, 1 << 16);
    steno_buf_init(&out, 1 << 16);
    assert_int_equal(steno_buf_puts(&target, "/?a="), STENO_OK);
    for (int i = 0; i < STENO_QUERY_TEXT - 1; i++)
        assert_int_equal(steno_buf_puts(&target, "x"), STENO_OK);
    assert_int_equal(steno_query_each(target.data, collect, &out, NULL), STENO_OK);
    assert_int_equal(steno_buf_puts(&target, "x"), STENO_OK);
    assert_int_equal(steno_query_each(target.data, collect, &out, NULL), STENO_ERR_LIMIT);
    steno_buf_reset(&target);
    assert_int_equal(steno_buf_puts(&target, "/?"), STENO_OK);
    for (int i = 0; i <= STENO_QUERY_MAX; i++)
        assert_int_equal(steno_buf_puts(&target, "a&"), STENO_OK);
    assert_int_equal(steno_query_each(target.data, collect, &out, NULL), STENO_ERR_LIMIT);
    steno_buf_free(&target);
    steno_buf_free(&out);
}

static void numbers_take_the_whole_text_and_their_range(void **state)
{
    static const char *const bad[] = {"",   " 1",  "1 ",  "0x1", "nan",  "inf",
                                      "1e", "--1", "1,5", "ten", "1e999"};
    double d = -1;
    int i = -1;
    bool b = false;
    steno_err err;
    (void)state;
    assert_int_equal(steno_query_double("t", "0.25", 0, 1, &d, NULL), STENO_OK);
    assert_true(d == 0.25);
    assert_int_equal(steno_query_int("k", "1e1", 0, 10, &i, NULL), STENO_OK);
    assert_int_equal(i, 10);
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        if (steno_query_double("t", bad[k], -9, 9, &d, NULL) != STENO_ERR_INVAL)
            fail_msg("'%s' was taken", bad[k]);
    assert_int_equal(steno_query_int("k", "11", 0, 10, &i, &err), STENO_ERR_INVAL);
    assert_string_equal(err.msg, "k: 11 is outside 0..10");
    assert_int_equal(steno_query_int("k", "1000001", 0, 1000000, &i, &err), STENO_ERR_INVAL);
    assert_string_equal(err.msg, "k: 1000001 is outside 0..1000000");
    assert_int_equal(steno_query_int("k", "1.5", 0, 10, &i, &err), STENO_ERR_INVAL);
    assert_int_equal(steno_query_bool("w", "Yes", &b, NULL), STENO_OK);
    assert_true(b);
    assert_int_equal(steno_query_bool("w", "", &b, &err), STENO_ERR_INVAL);
    assert_string_equal(err.msg, "w: '' is not true or false");
}

static void slashes_of_joined_paths_do_not_matter(void **state)
{
    static const char *const paths[][2] = {{"//v1//models/", "/v1/models"},
                                           {"/v1/models?a=//b/", "/v1/models?a=//b/"},
                                           {"/", "/"},
                                           {"///", "/"},
                                           {"", ""},
                                           {"/v1/models/a//b", "/v1/models/a/b"}};
    char out[8];
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char target[64];
        strcpy(target, paths[i][0]);
        steno_query_clean_path(target);
        assert_string_equal(target, paths[i][1]);
    }
    static const char *const absolute[][2] = {{"HTTP://a.b:80/v1/models", "/v1/models"},
                                              {"https://a", "/"},
                                              {"http://a?b=c", "/?b=c"},
                                              {"http://", "/"},
                                              {"/a?b=http://c", "/a?b=http://c"},
                                              {"*", "*"}};
    for (size_t i = 0; i < sizeof absolute / sizeof *absolute; i++) {
        char target[64];
        strcpy(target, absolute[i][0]);
        steno_query_make_origin_form(target);
        assert_string_equal(target, absolute[i][1]);
    }
    assert_true(steno_query_path_is("/v1//listen/", 12, "/v1/listen"));
    assert_true(steno_query_path_is("//", 2, "/"));
    assert_false(steno_query_path_is("/v1/listening", 13, "/v1/listen"));
    assert_false(steno_query_path_is("/v1/list", 8, "/v1/listen"));
    assert_false(steno_query_path_is("", 0, "/"));
    assert_int_equal(steno_query_decode_path("a%2Fb", 5, out, sizeof out, NULL), STENO_OK);
    assert_string_equal(out, "a/b");
    assert_int_equal(steno_query_decode_path("a%2", 3, out, sizeof out, NULL), STENO_ERR_INVAL);
    assert_int_equal(steno_query_decode_path("%00", 3, out, sizeof out, NULL), STENO_ERR_INVAL);
    assert_int_equal(steno_query_decode_path("12345678", 8, out, sizeof out, NULL),
                     STENO_ERR_INVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_decoded_in_order),
        cmocka_unit_test(bad_escapes_and_bytes_are_named),
        cmocka_unit_test(long_and_many_pairs_are_limits),
        cmocka_unit_test(numbers_take_the_whole_text_and_their_range),
        cmocka_unit_test(slashes_of_joined_paths_do_not_matter),
    };
    return cmocka_run_group_tests_name("query", tests, NULL, NULL);
}
