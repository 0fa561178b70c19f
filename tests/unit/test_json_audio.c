/* The audio in a JSON message, taken out while the message arrives. */
#include <stdlib.h>
#include <string.h>

#include "protocol/json_audio.h"
#include "tests/support/test.h"

struct taken {
    struct steno_json_audio a;
    struct steno_buf rest, audio;
};

static void push(struct taken *t, const char *p, size_t n)
{
    steno_err err;
    char *copy = malloc(n ? n : 1); /* its end is the sanitizer's */
    memcpy(copy, p, n);
    assert_int_equal(steno_json_audio_push(&t->a, copy, n, &t->rest, &t->audio, &err), STENO_OK);
    free(copy);
}

static void begin(struct taken *t)
{
    memset(t, 0, sizeof *t);
    steno_buf_init(&t->rest, 1 << 16);
    steno_buf_init(&t->audio, 1 << 16);
}

static void end(struct taken *t)
{
    steno_buf_free(&t->rest);
    steno_buf_free(&t->audio);
}

static const struct {
    const char *text, *rest, *audio, *fail;
} cases[] = {
    {"{\"type\":\"x\",\"audio\":\"Zm9vYmE=\"}", "{\"type\":\"x\",\"audio\":\"\"}", "fooba", ""},
    {" { \"audio\" :\t\"Zm9v\" , \"b\":[1] } ", " { \"audio\" :\t\"\" , \"b\":[1] } ", "foo", ""},
    /* escapes of PHP and of .NET; no padding */
    {"{\"audio\":\"+\\/\\/+\\u002B\\u002f\\u002F\\u002b\"}", "{\"audio\":\"\"}",
     "\xFB\xFF\xFE\xFB\xFF\xFE", ""},
    {"{\"audio\":\"Zm8\"}", "{\"audio\":\"\"}", "fo", ""},
    {"{\"audio\":\"\"}", "{\"audio\":\"\"}", "", ""},
    /* not the member of the message's object */
    {"{\"session\":{\"audio\":\"Zm9v\"}}", "{\"session\":{\"audio\":\"Zm9v\"}}", "", ""},
    {"[\"audio\",\"Zm9v\"]", "[\"audio\",\"Zm9v\"]", "", ""},
    {"{\"b\":\"audio\",\"c\":\"Zm9v\"}", "{\"b\":\"audio\",\"c\":\"Zm9v\"}", "", ""},
    {"{\"b\":\"\\\"audio\\\":\\\"Zm9v\"}", "{\"b\":\"\\\"audio\\\":\\\"Zm9v\"}", "", ""},
    {"{\"audios\":\"Zm9v\",\"audi\":\"Zm9v\"}", "{\"audios\":\"Zm9v\",\"audi\":\"Zm9v\"}", "", ""},
    {"{\"\\u0061udio\":\"Zm9v\"}", "{\"\\u0061udio\":\"Zm9v\"}", "", ""},
    {"{\"audio\":{\"input\":\"Zm9v\"}}", "{\"audio\":{\"input\":\"Zm9v\"}}", "", ""},
    {"{\"audio\":7,\"b\":\"Zm9v\"}", "{\"audio\":7,\"b\":\"Zm9v\"}", "", ""},
    /* mistakes; what came before them counts */
    {"{\"audio\":\"Zm9vA*==\"}", "{\"audio\":\"\"}", "foo", "invalid base64 at byte 5"},
    {"{\"audio\":\"Zm9v\\nZm9v\"}", "{\"audio\":\"\"}", "foo", "invalid base64 at byte 4"},
    {"{\"audio\":\"Zm8=Zm9v\"}", "{\"audio\":\"\"}", "fo", "invalid base64 at byte"},
    {"{\"audio\":\"Zm9vZ\"}", "{\"audio\":\"\"}", "foo", "invalid base64 at byte 4"},
    {"{\"audio\":\"\\u00e9\\u012b\"}", "{\"audio\":\"\"}", "", "invalid base64 at byte 0"},
    {"}]}{\"audio\":\"", "}]}{\"audio\":\"", "", ""},
};

static void the_audio_is_taken_out_however_the_message_is_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step <= strlen(cases[i].text) + 1; step++) {
            const char *p = cases[i].text;
            struct taken t;
            begin(&t);
            for (size_t n = strlen(p), k; n; n -= k, p += k) {
                k = n < step ? n : step;
                push(&t, p, k);
            }
            assert_string_equal(t.rest.data, cases[i].rest);
            assert_string_equal(t.audio.data ? t.audio.data : "", cases[i].audio);
            assert_int_equal(t.audio.len, strlen(cases[i].audio));
            if (!strstr(t.a.fail.msg, cases[i].fail) || !t.a.fail.code != !*cases[i].fail)
                fail_msg("%s: '%s'", cases[i].text, t.a.fail.msg);
            end(&t);
        }
}

static void what_remains_is_bounded_and_the_audio_is_not_counted(void **state)
{
    static const char head[] = "{\"type\":\"x\",\"audio\":\"", four[] = "AAAA";
    struct taken t;
    steno_err err;
    (void)state;
    begin(&t);
    t.rest.max = 64;
    push(&t, head, sizeof head - 1);
    for (int i = 0; i < 1000; i++) /* as a session does that takes the audio at once */
        push(&t, four, 4);
    assert_int_equal(t.audio.len, 3000);
    push(&t, "\",\"b\":\"", 7);
    while (t.rest.len + 4 <= 64)
        push(&t, four, 4);
    assert_int_equal(steno_json_audio_push(&t.a, four, 4, &t.rest, &t.audio, &err),
                     STENO_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "more than 64 bytes"));
    end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_audio_is_taken_out_however_the_message_is_split),
        cmocka_unit_test(what_remains_is_bounded_and_the_audio_is_not_counted),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
