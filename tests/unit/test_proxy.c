/* link: server/port/proxy.c server/port/address.c */
/* What proxies tell: PROXY headers, X-Forwarded-For, path prefixes; whom the server believes. */

#include "server/port/address.h"
#include "server/port/proxy.h"
#include "tests/support/test.h"

#include <string.h>

#define V2 "\r\n\r\n\0\r\nQUIT\n"

static const char *printed(const struct sockaddr_storage *addr)
{
    static char text[STENO_ADDRESS_TEXT];
    return steno_address_print(addr, text);
}

static void headers_name_the_client(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *client; /* NULL: the proxy itself */
    } cases[] = {
#define CASE(bytes, client) {bytes "GET /", sizeof(bytes) - 1, client}
        /* The examples of the specification, 2.1 */
        CASE("PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n", "192.168.0.1:56324"),
        CASE("PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n", "[2001:db8::1]:1"),
        CASE("PROXY UNKNOWN\r\n", NULL),
        CASE("PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n", NULL),
        /* version 2, PROXY, TCP over IPv4: 192.0.2.7:258 to 192.0.2.8:443, and one extension */
        CASE(V2 "\x21\x11\0\x10\xc0\0\2\7\xc0\0\2\x08\1\2\1\xbb\4\0\1x", "192.0.2.7:258"),
        CASE(V2 "\x21\x21\0\x24\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1"
                "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\2\0\x50\1\xbb",
             "[2001:db8::1]:80"),
        CASE(V2 "\x20\0\0\0", NULL),   /* LOCAL */
        CASE(V2 "\x21\0\0\2ab", NULL), /* unspecified */
        CASE(V2 "\x20\x11\0\0", NULL), /* LOCAL with a family and no address */
#undef CASE
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steno_proxy_header h;
        for (size_t n = 0; n < cases[i].n; n++)
            assert_int_equal(steno_proxy_parse(cases[i].bytes, n, &h, NULL), STENO_NEED_MORE);
        for (size_t n = cases[i].n; n <= cases[i].n + 5; n++) {
            assert_int_equal(steno_proxy_parse(cases[i].bytes, n, &h, NULL), STENO_OK);
            assert_int_equal(h.len, cases[i].n);
            assert_int_equal(h.known, cases[i].client != NULL);
            if (h.known)
                assert_string_equal(printed(&h.client), cases[i].client);
        }
    }
}

static void damaged_headers_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
    } cases[] = {
#define CASE(bytes) {bytes, sizeof(bytes) - 1}
        CASE("GET / HTTP/1.1\r\n"),
        CASE("\x16\3\1\2"),
        CASE("PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\n"),
        CASE("PROXY TCP4 192.168.0.1 192.168.0.11 56324\r\n"),
        CASE("PROXY TCP4 192.168.0.1 192.168.0.11 56324 443 1\r\n"),
        CASE("PROXY TCP4 192.168.0.1  192.168.0.11 56324 443\r\n"),
        CASE("PROXY TCP4 192.168.0.1 192.168.0.11 65536 443\r\n"),
        CASE("PROXY TCP4 ::1 ::1 1 2\r\n"),
        CASE("PROXY TCP6 127.0.0.1 127.0.0.1 1 2\r\n"),
        CASE("PROXY TCP4 192.168.0.1 ::1 1 2\r\n"),
        CASE("PROXY TCP5 192.168.0.1 192.168.0.11 1 2\r\n"),
        CASE("PROXY UNKNOWNS\r\n"),
        CASE("PROXY \r\n"),
        CASE("PROXY TCP4 1111111111111111111111111111111111111111111111111111111111111111111111111"
             "1111111111111111111111111111111111111111111"),
        CASE(V2 "\x11\x11\0\0"), /* version 1 in binary */
        CASE(V2 "\x22\x11\0\0"), /* no such command */
        CASE(V2 "\x21\x11\0\x0b" /* too short for its family */
                "01234567890"),
        CASE(V2 "\x21\x21\0\x0c"
                "012345678901"),
        CASE(V2 "\x21\x41\0\0"),     /* no such family */
        CASE(V2 "\x21\x11\xff\xff"), /* too long */
#undef CASE
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steno_proxy_header h;
        steno_err err = {STENO_OK, ""};
        steno_status st = steno_proxy_parse(cases[i].bytes, cases[i].n, &h, &err);
        assert_true(st == STENO_ERR_FORMAT || st == STENO_ERR_LIMIT);
        assert_true(*err.msg);
    }
}

static void networks_hold_what_is_in_them(void **state)
{
    static const struct {
        const char *networks, *address;
        bool in;
    } cases[] = {
        {"127.0.0.1", "127.0.0.1:80", true},
        {"127.0.0.1", "127.0.0.2:80", false},
        {"10.0.0.0/8, 192.168.1.0/25", "10.255.0.1:80", true},
        {"10.0.0.0/8, 192.168.1.0/25", "192.168.1.127:80", true},
        {"10.0.0.0/8, 192.168.1.0/25", "192.168.1.128:80", false},
        {"10.0.0.0/8", "[::ffff:10.1.2.3]:80", true},
        {"2001:db8::/33", "[2001:db8:7fff::1]:80", true},
        {"2001:db8::/33", "[2001:db8:8000::1]:80", false},
        {"0.0.0.0/0", "8.8.8.8:80", true},
        {"0.0.0.0/0", "[2001:db8::1]:80", false},
        {"::/0", "8.8.8.8:80", true},
        {"unix", "unix:/run/x", true},
        {"::/0", "unix:/run/x", false},
        {"", "127.0.0.1:80", false},
    };
    static const char *const wrong[] = {"10.0.0.0/33",  "::/129",   "10.0.0/8",  "localhost",
                                        "10.0.0.0/8.0", "1.2.3.4/", "1.2.3.4:80"};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steno_networks w;
        struct steno_address a;
        assert_int_equal(steno_networks_parse(cases[i].networks, &w, NULL), STENO_OK);
        assert_int_equal(steno_address_parse(cases[i].address, strlen(cases[i].address), &a, NULL),
                         STENO_OK);
        assert_int_equal(steno_networks_hold(&w, &a.addr), cases[i].in);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct steno_networks w;
        steno_err err = {STENO_OK, ""};
        assert_int_equal(steno_networks_parse(wrong[i], &w, &err), STENO_ERR_INVAL);
        assert_non_null(strstr(err.msg, wrong[i]));
    }
}

static void the_client_is_the_last_who_is_no_trusted_proxy(void **state)
{
    static const struct {
        const char *value, *client; /* NULL: unknown */
    } cases[] = {
        {"192.0.2.1", "192.0.2.1:0"},
        {"6.6.6.6, 192.0.2.1", "192.0.2.1:0"},
        {"6.6.6.6, 192.0.2.1, 10.0.0.1, 10.0.0.2", "192.0.2.1:0"},
        {"10.0.0.9,10.0.0.1", "10.0.0.9:0"},
        {"192.0.2.1:4711", "192.0.2.1:0"},
        {"2001:db8::1", "[2001:db8::1]:0"},
        {"[2001:db8::1]:80", "[2001:db8::1]:0"},
        {" ,192.0.2.1, ", "192.0.2.1:0"},
        {"192.0.2.1, unknown", NULL},
        {"192.0.2.1, _hidden, 10.0.0.1", NULL},
        {"", NULL},
        {" , ", NULL},
        {"[::1", NULL},
    };
    struct steno_networks trusted;
    (void)state;
    assert_int_equal(steno_networks_parse("10.0.0.0/8", &trusted, NULL), STENO_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sockaddr_storage client;
        bool known = steno_forwarded_client(cases[i].value, &trusted, &client);
        assert_int_equal(known, cases[i].client != NULL);
        if (known)
            assert_string_equal(printed(&client), cases[i].client);
    }
}

static void prefixes_end_at_a_slash(void **state)
{
    static const struct {
        const char *path, *prefix;
        size_t skip;
    } cases[] = {{"/stt/v1/stream", "/stt", 4},
                 {"/stt/", "/stt", 4},
                 {"/stt", "/stt", 0},
                 {"/sttx/v1", "/stt", 0},
                 {"/v1/stream", "/stt", 0},
                 {"/a/b/c", "/a/b", 4},
                 {"/stt/v1", "/stt/", 4},
                 {"/stt/v1", "stt", 0},
                 {"/stt/v1", "", 0},
                 {"/stt/v1", "/", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(steno_path_skip(cases[i].path, strlen(cases[i].path), cases[i].prefix,
                                         strlen(cases[i].prefix)),
                         cases[i].skip);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_name_the_client),
        cmocka_unit_test(damaged_headers_are_refused),
        cmocka_unit_test(networks_hold_what_is_in_them),
        cmocka_unit_test(the_client_is_the_last_who_is_no_trusted_proxy),
        cmocka_unit_test(prefixes_end_at_a_slash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
