/* URLs of a Redis server: what they name, and what is refused. */
/* link: server/jobs/redis_url.c */
#include <stdio.h>
#include <string.h>

#include "server/jobs/redis_url.h"
#include "tests/support/test.h"

static void urls_name_a_server_its_database_and_a_login(void **state)
{
    static const struct {
        const char *url;
        struct steno_redis_url want;
    } cases[] = {
        {"redis://localhost", {"localhost", 6379, 0, "", ""}},
        {"redis://localhost/", {"localhost", 6379, 0, "", ""}},
        {"redis://10.0.0.1:7000/15", {"10.0.0.1", 7000, 15, "", ""}},
        {"redis://[::1]:7000", {"::1", 7000, 0, "", ""}},
        {"redis://:secret@h", {"h", 6379, 0, "", "secret"}},
        {"redis://me:a@b:c@h/2", {"h", 6379, 2, "me", "a@b:c"}},
        {"redis://m%65:%40%2F%25@h", {"h", 6379, 0, "me", "@/%"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steno_redis_url u;
        steno_err err = {STENO_OK, ""};
        if (steno_redis_url_read(cases[i].url, &u, &err))
            fail_msg("%s: %s", cases[i].url, err.msg);
        assert_string_equal(u.host, cases[i].want.host);
        assert_int_equal(u.port, cases[i].want.port);
        assert_int_equal(u.database, cases[i].want.database);
        assert_string_equal(u.user, cases[i].want.user);
        assert_string_equal(u.password, cases[i].want.password);
    }
}

static void wrong_urls_are_refused_by_the_part_that_is_wrong(void **state)
{
    static const struct {
        const char *url, *says;
        steno_status st;
    } cases[] = {
        {"", "redis://", STENO_ERR_INVAL},
        {"http://h", "redis://", STENO_ERR_INVAL},
        {"rediss://h", "TLS", STENO_ERR_UNSUPPORTED},
        {"redis://", "host", STENO_ERR_INVAL},
        {"redis://[::1", "host", STENO_ERR_INVAL},
        {"redis://[::1]x", "followed", STENO_ERR_INVAL},
        {"redis://h:", "port", STENO_ERR_INVAL},
        {"redis://h:0", "port", STENO_ERR_INVAL},
        {"redis://h:65536", "port", STENO_ERR_INVAL},
        {"redis://h:1x", "port", STENO_ERR_INVAL},
        {"redis://h/x", "database", STENO_ERR_INVAL},
        {"redis://h/1/", "database", STENO_ERR_INVAL},
        {"redis://h/-1", "database", STENO_ERR_INVAL},
        {"redis://secret@h", "password", STENO_ERR_INVAL},
        {"redis://:%zz@h", "%xx", STENO_ERR_INVAL},
        {"redis://:%0", "host", STENO_ERR_INVAL},
        {"redis://:%4@h", "%xx", STENO_ERR_INVAL},
        {"redis://:a%00b@h", "%xx", STENO_ERR_INVAL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steno_redis_url u;
        steno_err err = {STENO_OK, ""};
        if (steno_redis_url_read(cases[i].url, &u, &err) != cases[i].st)
            fail_msg("%s: not the expected status; message '%s'", cases[i].url, err.msg);
        if (!strstr(err.msg, cases[i].says) || strstr(err.msg, "secret"))
            fail_msg("%s: message '%s'", cases[i].url, err.msg);
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    char url[1024];
    struct steno_redis_url u;
    steno_err err;
    (void)state;
    for (int n = 250; n < 260; n++) {
        snprintf(url, sizeof url, "redis://%0*d", n, 0);
        assert_int_equal(steno_redis_url_read(url, &u, &err) == STENO_OK, n < 256);
        snprintf(url, sizeof url, "redis://:%0*d@h", n, 0);
        assert_int_equal(steno_redis_url_read(url, &u, &err) == STENO_OK, n < 256);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_name_a_server_its_database_and_a_login),
        cmocka_unit_test(wrong_urls_are_refused_by_the_part_that_is_wrong),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
