/* Which hosts name the server, and which requests come from pages of others. */
/* link: server/port/origin.c server/port/address.c */

#include "server/port/origin.h"
#include "tests/support/test.h"

static void names_that_others_can_own_are_no_hosts_of_the_server(void **state)
{
    static const char *const good[] = {"localhost",
                                       "localhost:8080",
                                       "LOCALHOST:8080",
                                       "a.localhost",
                                       "127.0.0.1:8080",
                                       "[::1]:8080",
                                       "[::1]",
                                       "192.168.1.5",
                                       "stenod",
                                       "stenod:80",
                                       "x",
                                       "localhost.",
                                       "",
                                       "stt.example.org",
                                       "STT.example.org:8443",
                                       "stt.example.org."};
    static const char *const bad[] = {"evil.example",
                                      "evil.example:8080",
                                      "localhost.evil.example",
                                      "127.0.0.1.evil.example",
                                      "stt.example.org.evil",
                                      "1.2.3",
                                      "[x.y]",
                                      "a.b.localhost.c",
                                      "localhost@evil.example"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!steno_origin_good_host(good[i], "other.example, stt.example.org"))
            fail_msg("%s is refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (steno_origin_good_host(bad[i], "other.example, stt.example.org"))
            fail_msg("%s is good", bad[i]);
    assert_false(steno_origin_good_host("stt.example.org", ""));
    assert_true(steno_origin_good_host("evil.example", "*"));
}

static void foreign_pages_are_told_by_origin_or_fetch_metadata(void **state)
{
    static const struct {
        struct steno_origin_headers h; /* origin, host, fetch_site, forwarded_host */
        bool foreign;
    } cases[] = {
        {{NULL, "localhost:8080", NULL, NULL}, false}, /* no browser */
        {{"", "localhost:8080", "", ""}, false},
        {{"http://localhost:8080", "localhost:8080", NULL, NULL}, false},
        {{"HTTP://LOCALHOST:8080", "localhost:8080", NULL, NULL}, false},
        {{"http://localhost:3000", "localhost:8080", NULL, NULL}, true},
        {{"http://localhost", "localhost:8080", NULL, NULL}, true},
        {{"http://a.example", "a.example:80", NULL, NULL}, false},
        {{"https://a.example", "a.example:443", NULL, NULL}, false},
        {{"https://a.example", "a.example", NULL, NULL}, false},
        {{"https://a.example:8443", "a.example", NULL, NULL}, false}, /* nginx's $host */
        {{"http://[::1]:8080", "[::1]:8080", NULL, NULL}, false},
        {{"http://[::1]:8080", "[::2]:8080", NULL, NULL}, true},
        {{"https://evil.example", "a.example", NULL, NULL}, true},
        {{"https://a.example.evil", "a.example", NULL, NULL}, true},
        {{"null", "a.example", NULL, NULL}, true},
        {{"null", "null", NULL, NULL}, true},
        {{"file://", "", NULL, NULL}, true},
        {{"chrome-extension://abc", "a.example", NULL, NULL}, true},
        {{"https://a.example", NULL, NULL, NULL}, true},
        /* what the browser says counts, whatever a proxy made of the host */
        {{"https://a.example", "10.0.0.7:8080", "same-origin", NULL}, false},
        {{"https://a.example", "a.example", "cross-site", NULL}, true},
        {{"https://a.example", "a.example", "same-site", NULL}, true},
        {{NULL, "a.example", "cross-site", NULL}, true},
        {{NULL, "a.example", "none", NULL}, false},
        /* a proxy tells the host, or the settings name it */
        {{"https://a.example", "10.0.0.7:8080", NULL, "a.example"}, false},
        {{"https://evil.example", "10.0.0.7:8080", NULL, "a.example"}, true},
        {{"https://own.example", "10.0.0.7:8080", NULL, NULL}, false},
        {{"own.example", "10.0.0.7:8080", NULL, NULL}, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (steno_origin_is_foreign(&cases[i].h, "own.example") != cases[i].foreign)
            fail_msg("case %zu: %s", i, cases[i].h.origin ? cases[i].h.origin : "none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_others_can_own_are_no_hosts_of_the_server),
        cmocka_unit_test(foreign_pages_are_told_by_origin_or_fetch_metadata),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
