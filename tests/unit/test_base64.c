/* Base64, both ways. */
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "tests/support/test.h"

/* RFC 4648, section 10, and the two characters that are no letters or digits. */
static const struct {
    const char *bytes, *text;
} vectors[] = {{"", ""},
               {"f", "Zg=="},
               {"fo", "Zm8="},
               {"foo", "Zm9v"},
               {"foob", "Zm9vYg=="},
               {"fooba", "Zm9vYmE="},
               {"foobar", "Zm9vYmFy"},
               {"\xFB\xFF\xFE", "+//+"}};

static void the_rfcs_examples_go_both_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const char *text = vectors[i].text, *bytes = vectors[i].bytes;
        unsigned char out[16];
        size_t n = strlen(text), len;
        struct steno_buf b;
        steno_buf_init(&b, 64);
        assert_int_equal(steno_base64_put(&b, bytes, strlen(bytes)), STENO_OK);
        assert_int_equal(b.len, n);
        assert_memory_equal(b.len ? b.data : "", text, n);
        steno_buf_free(&b);
        assert_int_equal(steno_base64_decode(text, n, out, &len), n);
        assert_int_equal(len, strlen(bytes));
        assert_memory_equal(out, bytes, len);
        while (n && text[n - 1] == '=')
            n--;
        assert_int_equal(steno_base64_decode(text, n, out, &len), n);
        assert_int_equal(len, strlen(bytes));
        assert_memory_equal(out, bytes, len);
    }
}

static void every_byte_comes_back(void **state)
{
    unsigned char bytes[256], out[STENO_BASE64_DECODED(344)];
    struct steno_buf b;
    size_t len;
    (void)state;
    for (int i = 0; i < 256; i++)
        bytes[i] = (unsigned char)i;
    steno_buf_init(&b, 512);
    assert_int_equal(steno_base64_put(&b, bytes, sizeof bytes), STENO_OK);
    assert_int_equal(b.len, 344);
    assert_int_equal(steno_base64_decode(b.data, b.len, out, &len), b.len);
    assert_int_equal(len, sizeof bytes);
    assert_memory_equal(out, bytes, len);
    steno_buf_free(&b);
}

static void the_first_wrong_character_is_told(void **state)
{
    static const struct {
        const char *text;
        size_t at;
    } wrong[] = {{"Zm9v*", 4}, {"Z m9v", 1}, {"Zm=v", 2},  {"=", 0},
                 {"====", 0},  {"Zg=", 2},   {"Zg===", 2}, {"Z===", 1},
                 {"Zm9vY", 4}, {"Zm9-", 3},  {"Zm_v", 2},  {"Zm9v\xC3", 4}};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        unsigned char out[16];
        size_t len;
        assert_int_equal(steno_base64_decode(wrong[i].text, strlen(wrong[i].text), out, &len),
                         wrong[i].at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rfcs_examples_go_both_ways),
        cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(the_first_wrong_character_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
