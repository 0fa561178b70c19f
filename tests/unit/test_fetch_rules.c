/* Which hosts and addresses a URL of a client may reach. */
/* link: server/http/fetch.c engine/curl/libcurl.c server/core/limits.c */
/* link: server/port/retry_spreader.c */
/* link: server/base/stats.c server/base/metrics.c server/core/server.c server/port/proxy.c */
/* link: server/core/word_list.c */
/* link: server/port/address.c */
/* link: server/core/keys.c server/port/origin.c */
/* link: server/base/log.c server/watch/trace.c server/watch/traceparent.c server/core/config.c */
#include <arpa/inet.h>
#include <string.h>

#include "server/http/fetch.h"
#include "tests/support/test.h"

static bool is_private(const char *text)
{
    struct sockaddr_storage a = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&a;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a;
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
        a.ss_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
        a.ss_family = AF_INET6;
    else
        fail_msg("%s", text);
    return steno_fetch_is_private((struct sockaddr *)&a);
}

static void addresses_of_this_side_are_private(void **state)
{
    static const char *const inside[] = {"127.0.0.1",
                                         "10.1.2.3",
                                         "172.16.0.1",
                                         "172.31.255.255",
                                         "192.168.0.1",
                                         "169.254.169.254",
                                         "100.64.0.1",
                                         "0.0.0.0",
                                         "224.0.0.1",
                                         "255.255.255.255",
                                         "192.0.2.1",
                                         "198.18.0.1",
                                         "::1",
                                         "::",
                                         "fe80::1",
                                         "fd00::1",
                                         "ff02::1",
                                         "::ffff:127.0.0.1",
                                         "::ffff:10.0.0.1",
                                         "64:ff9b::a00:1",
                                         "2002:7f00:1::",
                                         "2001:db8::1",
                                         "2001:0:1::1",
                                         "::127.0.0.1"};
    static const char *const outside[] = {"1.1.1.1",       "172.32.0.1",      "192.169.0.1",
                                          "100.128.0.1",   "2606:4700::1111", "::ffff:1.1.1.1",
                                          "2002:101:101::"};
    struct sockaddr other = {.sa_family = AF_UNIX};
    (void)state;
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        if (!is_private(inside[i]))
            fail_msg("%s is private", inside[i]);
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        if (is_private(outside[i]))
            fail_msg("%s is not private", outside[i]);
    assert_true(steno_fetch_is_private(&other));
}

static void hosts_are_listed_by_name_domain_or_all(void **state)
{
    (void)state;
    assert_true(steno_fetch_host_listed("a.example", "A.EXAMPLE"));
    assert_true(steno_fetch_host_listed("x, *.b.example", "deep.in.b.example"));
    assert_true(steno_fetch_host_listed("*", "anything"));
    assert_false(steno_fetch_host_listed("", "a.example"));
    assert_false(steno_fetch_host_listed("*.b.example", "b.example"));
    assert_false(steno_fetch_host_listed("*.b.example", "evilb.example"));
    assert_false(steno_fetch_host_listed("a.example", "a.example.evil"));
    assert_false(steno_fetch_host_listed("a.example", "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_of_this_side_are_private),
        cmocka_unit_test(hosts_are_listed_by_name_domain_or_all),
    };
    return cmocka_run_group_tests_name("fetch_rules", tests, NULL, NULL);
}
