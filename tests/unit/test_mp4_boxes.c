/* Boxes of an MP4 that comes as a stream: what is taken for damage, and where. */
/* link: engine/tools/decode/boxes.c */

#include "tools/decode/boxes.h"
#include "tests/support/test.h"

#define FTYP                                                                                       \
    "\0\0\0\x10"                                                                                   \
    "ftypisom\0\0\0\0"
#define FREE                                                                                       \
    "\0\0\0\x0c"                                                                                   \
    "freeabcd"
#define LARGE                                                                                      \
    "\0\0\0\1mdat\0\0\0\0\0\0\0\x14"                                                               \
    "wxyz"

static void streams_are_taken_up_to_their_damage(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *message; /* NULL = whole */
    } cases[] = {
#define CASE(bytes, message) {bytes, sizeof bytes - 1, message}
        CASE("", NULL),
        CASE(FTYP, NULL),
        CASE(FTYP FREE LARGE FREE, NULL),
        CASE(FTYP "\0\0\0\x0c"
                  "abcdefgh" FREE,
             NULL), /* an unknown box that is small */
        CASE(FTYP "\0\0\0\0mdatany bytes \1\2\3\4\5\6\7\x08", NULL),
        CASE(FTYP FREE "\0\0", NULL),                       /* a head that has not come yet */
        CASE("RIFFabcdWAVE\1\2\3\4\5\6\7\x08", NULL),       /* no MP4: nothing is checked */
        CASE("\0\0\0\x0cmoovabcd\1\2\3\4\5\6\7\x08", NULL), /* old QuickTime: the same */
        CASE(FTYP "\1\2\3\4\5\6\7\x08", "the MP4 is damaged at byte 16: no box begins there"),
        CASE(FTYP FREE "\0\0\0\x10"
                       "mo\xffv",
             "the MP4 is damaged at byte 28: no box begins there"),
        CASE(FTYP "\0\0\0\7free", "the MP4 is damaged at byte 16: a box is shorter than its head"),
        CASE(FTYP "\0\0\0\1mdat\0\0\0\0\0\0\0\x0f",
             "the MP4 is damaged at byte 16: a box is shorter than its head"),
        CASE(FTYP "\x20\0\0\0"
                  "abcd",
             "the MP4 is damaged at byte 16: a large box has a name that is not known"),
        CASE(FTYP "\0\0\0\0"
                  "abcd",
             "the MP4 is damaged at byte 16: a large box has a name that is not known"),
#undef CASE
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const unsigned char *p = (const unsigned char *)cases[i].bytes;
        struct steno_boxes b = {0};
        steno_err err = {STENO_OK, ""};
        size_t good = steno_boxes_take(&b, p, cases[i].n, &err);
        if (cases[i].message) {
            assert_string_equal(err.msg, cases[i].message);
            assert_int_equal(err.code, STENO_ERR_FORMAT);
            assert_true(b.damaged && good < cases[i].n);
            assert_int_equal(steno_boxes_take(&b, p, cases[i].n, NULL), 0);
        } else {
            assert_int_equal(err.code, STENO_OK);
            assert_int_equal(good, cases[i].n);
        }
    }
}

static void what_comes_before_the_damage_is_kept(void **state)
{
    static const char bytes[] = FTYP FREE "\1\2\3\4\5\6\7\x08 and more of it";
    struct steno_boxes b = {0};
    steno_err err;
    (void)state;
    assert_int_equal(steno_boxes_take(&b, (const unsigned char *)bytes, sizeof bytes - 1, &err),
                     28);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_taken_up_to_their_damage),
        cmocka_unit_test(what_comes_before_the_damage_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
