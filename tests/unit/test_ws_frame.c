/* WebSocket framing against the examples of RFC 6455 (5.7) and its rules, for every split of the
 * input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/ws_frame.h"
#include "tests/support/test.h"

#define MAX_TEXT 300
#define MAX_BINARY 70000

/* The items of one run as text: "T[Hel..lo] B(256) ping[x] close 1000[bye] !2". */
struct story {
    char text[512];
    steno_status status;
    steno_err err;
    char message[70001];
    size_t n;
};

static void tell(struct story *s, const struct steno_ws_item *it)
{
    size_t at = strlen(s->text);
    char *out = s->text + at;
    size_t room = sizeof s->text - at;
    if (it->kind == STENO_WS_TEXT || it->kind == STENO_WS_BINARY) {
        if (it->first)
            s->n = 0;
        assert_true(s->n + it->n < sizeof s->message);
        if (it->n)
            memcpy(s->message + s->n, it->data, it->n);
        s->n += it->n;
        s->message[s->n] = '\0';
        if (!it->last)
            return;
        if (it->kind == STENO_WS_BINARY)
            snprintf(out, room, "B(%zu) ", s->n);
        else
            snprintf(out, room, "T[%s] ", s->message);
    } else if (it->kind == STENO_WS_CLOSE) {
        snprintf(out, room, "close %d[%.*s] ", it->close_code, (int)it->n, it->n ? it->data : "");
    } else {
        snprintf(out, room, "%s[%.*s] ", it->kind == STENO_WS_PING ? "ping" : "pong", (int)it->n,
                 it->data);
    }
}

/* Feed n bytes in pieces of `cut`. */
static struct story *run(const void *bytes, size_t n, size_t cut)
{
    struct story *s = calloc(1, sizeof *s);
    struct steno_ws_reader r;
    char *copy = malloc(n ? n : 1);
    assert_non_null(s);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    steno_ws_reader_init(&r, MAX_TEXT, MAX_BINARY);
    for (size_t at = 0; at < n && s->status == STENO_OK;) {
        size_t k = n - at < cut ? n - at : cut;
        size_t done = 0;
        while (done < k) {
            struct steno_ws_item it;
            size_t used = 0;
            steno_status st =
                steno_ws_reader_next(&r, copy + at + done, k - done, &used, &it, &s->err);
            done += used;
            if (st == STENO_OK)
                tell(s, &it);
            else if (st != STENO_NEED_MORE) {
                s->status = st;
                break;
            }
        }
        at += k;
    }
    free(copy);
    return s;
}

static void expect(const void *bytes, size_t n, const char *text, steno_status status,
                   const char *names)
{
    static const size_t cuts[] = {1, 2, 3, 7, SIZE_MAX};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        struct story *s = run(bytes, n, cuts[i]);
        assert_string_equal(s->text, text);
        assert_int_equal(s->status, status);
        if (names)
            assert_non_null(strstr(s->err.msg, names));
        free(s);
    }
}

/* A client's frame with an all-zero mask. Returns its length. */
static size_t frame(unsigned char *out, unsigned first, const char *data, size_t n)
{
    static const unsigned char key[4] = {0x37, 0xfa, 0x21, 0x3d};
    size_t head = steno_ws_frame_head(out, STENO_WS_TEXT, n);
    out[0] = (unsigned char)first;
    out[1] |= 0x80;
    memcpy(out + head, key, 4);
    for (size_t i = 0; i < n; i++)
        out[head + 4 + i] = (unsigned char)data[i] ^ key[i & 3];
    return head + 4 + n;
}

static void examples_of_the_rfc_are_read(void **state)
{
    static const unsigned char hello[] = {0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d,
                                          0x7f, 0x9f, 0x4d, 0x51, 0x58};
    unsigned char b[64], out[STENO_WS_HEAD_BYTES];
    size_t n;
    (void)state;
    expect(hello, sizeof hello, "T[Hello] ", STENO_OK, NULL);
    n = frame(b, 0x01, "Hel", 3);
    n += frame(b + n, 0x89, "Hello", 5); /* a ping between fragments */
    n += frame(b + n, 0x80, "lo", 2);
    expect(b, n, "ping[Hello] T[Hello] ", STENO_OK, NULL);
    assert_int_equal(steno_ws_frame_head(out, STENO_WS_BINARY, 256), 4);
    assert_memory_equal(out, "\x82\x7e\x01\x00", 4);
    assert_int_equal(steno_ws_frame_head(out, STENO_WS_BINARY, 65536), 10);
    assert_memory_equal(out, "\x82\x7f\0\0\0\0\0\x01\0\0", 10);
}

static void lengths_at_their_edges_are_read(void **state)
{
    static const size_t sizes[] = {0, 1, 125, 126, 127, 65535, 65536, MAX_BINARY};
    unsigned char *b = malloc(MAX_BINARY + 32);
    char *data = calloc(1, MAX_BINARY), want[32];
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct story *s = run(b, frame(b, 0x82, data, sizes[i]), 997);
        snprintf(want, sizeof want, "B(%zu) ", sizes[i]);
        assert_string_equal(s->text, want);
        free(s);
    }
    free(b);
    free(data);
}

static void a_message_over_the_limit_is_refused_by_its_head(void **state)
{
    /* 9 MiB of binary: refused without any payload */
    static const unsigned char big[] = {0x82, 0xff, 0, 0, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 0};
    unsigned char b[512];
    char text[200];
    size_t n;
    (void)state;
    expect(big, sizeof big, "", STENO_ERR_LIMIT, "more than 70000 bytes of audio");
    memset(text, 'a', sizeof text);
    n = frame(b, 0x01, text, 200);
    n += frame(b + n, 0x80, text, 101);
    expect(b, n, "", STENO_ERR_LIMIT, "more than 300 bytes of text");
    n = frame(b, 0x01, text, 200);
    n += frame(b + n, 0x80, text, 100);
    {
        struct story *s = run(b, n, 50);
        assert_int_equal(s->status, STENO_OK);
        assert_int_equal(s->n, 300);
        free(s);
    }
}

static void rules_of_framing_are_held(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *names;
    } bad[] = {
        {"\x82\x01x", 3, "not masked"},
        {"\x82\x00", 2, "not masked"},
        {"\xc2\x80\0\0\0\0", 6, "reserved bits 0x40"},
        {"\x83\x80\0\0\0\0", 6, "opcode 3"},
        {"\x8b\x80\0\0\0\0", 6, "opcode 11"},
        {"\x80\x80\0\0\0\0", 6, "continuation"},
        {"\x09\x80\0\0\0\0", 6, "fragmented"},
        {"\x89\xfe\0\x7e\0\0\0\0", 8, "125"},
        {"\x82\xfe\0\x05\0\0\0\0hello", 13, "shortest"},
        {"\x82\xff\0\0\0\0\0\0\x01\0\0\0\0\0", 14, "shortest"},
        {"\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0", 14, "2^63"},
        {"\x02\x80\0\0\0\0\x82\x80\0\0\0\0", 12, "within"},
        {"\x88\x81\0\0\0\0x", 7, "two bytes"},
        {"\x88\x82\0\0\0\0\x03\xed", 8, "1005"},
        {"\x88\x82\0\0\0\0\x03\xe7", 8, "999"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect(bad[i].bytes, bad[i].n, "", STENO_ERR_INVAL, bad[i].names);
}

static void text_must_be_utf8_across_any_cut(void **state)
{
    static const char *const good[] = {"\xce\xba\xe1\xbd\xb9\xcf\x83", "\xf0\x9f\x8e\xa4",
                                       "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf", ""};
    static const char *const bad[] = {"\xff",         "\x80",
                                      "\xc0\xaf",     "\xc1\xbf",
                                      "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",
                                      "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                      "\xce",         "\xe1\xbd x"};
    unsigned char b[64];
    char want[64];
    size_t n;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(want, sizeof want, "T[%s] ", good[i]);
        expect(b, frame(b, 0x81, good[i], strlen(good[i])), want, STENO_OK, NULL);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect(b, frame(b, 0x81, bad[i], strlen(bad[i])), "", STENO_ERR_FORMAT, "UTF-8");
    n = frame(b, 0x01, "\xce", 1); /* a character split over two fragments */
    n += frame(b + n, 0x80, "\xba", 1);
    expect(b, n, "T[\xce\xba] ", STENO_OK, NULL);
    n = frame(b, 0x88, "\x03\xe8\xff", 3);
    expect(b, n, "", STENO_ERR_FORMAT, "reason");
}

static void a_close_has_code_and_reason(void **state)
{
    unsigned char b[64], out[STENO_WS_CONTROL_BYTES + 2];
    char reason[200];
    size_t n;
    (void)state;
    expect(b, frame(b, 0x88, "", 0), "close 1005[] ", STENO_OK, NULL);
    expect(b,
           frame(b, 0x88,
                 "\x03\xe8"
                 "bye",
                 5),
           "close 1000[bye] ", STENO_OK, NULL);
    n = steno_ws_close_frame(out, 1009, "limit_exceeded");
    assert_int_equal(n, 18);
    assert_memory_equal(out, "\x88\x10\x03\xf1limit_exceeded", 18);
    memset(reason, 'x', sizeof reason);
    memcpy(reason + 122, "\xce\xba", 2); /* the limit would fall inside a character */
    reason[150] = '\0';
    n = steno_ws_close_frame(out, 1000, reason);
    assert_int_equal(n, 2 + 2 + 122);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_of_the_rfc_are_read),
        cmocka_unit_test(lengths_at_their_edges_are_read),
        cmocka_unit_test(a_message_over_the_limit_is_refused_by_its_head),
        cmocka_unit_test(rules_of_framing_are_held),
        cmocka_unit_test(text_must_be_utf8_across_any_cut),
        cmocka_unit_test(a_close_has_code_and_reason),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
