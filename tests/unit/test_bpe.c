/* Expected numbers: openai/whisper 20250625 with tiktoken, recorded in
 * ../shared/reference/whisper.md (3.1). The test looks for the vocabularies in
 * $STENO_WHISPER_TINY_EN and $STENO_WHISPER_BASE, or else in build/models/tiny.en and
 * build/models/base. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/support/whisper_models.h"
#include "base/utf8.h"
#include "speech/text/bpe.h"

static steno_bpe *parse(const char *text)
{
    steno_bpe *b = NULL;
    steno_err err = {0};
    if (steno_bpe_parse(&b, text, strlen(text), "v", &err))
        fail_msg("%s", err.msg);
    return b;
}

static void check_ids(const steno_bpe *b, const char *text, size_t n, const int32_t *want)
{
    int32_t ids[64];
    size_t count = 0;
    assert_int_equal(steno_bpe_encode(b, text, strlen(text), ids, 64, &count, NULL), STENO_OK);
    for (size_t i = 0; i < n && i < count; i++)
        if (ids[i] != want[i])
            fail_msg("'%s': piece %zu is %d, expected %d", text, i, ids[i], want[i]);
    if (count != n)
        fail_msg("'%s': %zu pieces, expected %zu", text, count, n);
}
#define IDS(b, text, ...)                                                                          \
    check_ids(b, text, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t), (int32_t[]){__VA_ARGS__})

static void check_text(const steno_bpe *b, const int32_t *ids, size_t n, const char *want)
{
    struct steno_buf out;
    steno_buf_init(&out, 1 << 16);
    assert_int_equal(steno_bpe_text(b, ids, n, &out), STENO_OK);
    assert_string_equal(out.data ? out.data : "", want);
    steno_buf_free(&out);
}

#define LINES                                                                                      \
    "a\nb\nc\n\xC4\xA0\nab\nbc\n\xC4\xA0"                                                          \
    "a\nabc\n\xC3\xA9\n<|endoftext|>\n<|x|>\n"

static void every_form_gives_the_same_vocabulary(void **state)
{
    static const char *const forms[] = {
        LINES,
        "[\"a\",\"b\",\"c\",\"\\u0120\",\"ab\",\"bc\",\"\\u0120a\",\"abc\",\"\\u00e9\",\"<|"
        "endoftext|>\",\"<|x|>\"]",
        "{\"<|x|>\":10,\"a\":0,\"b\":1,\"c\":2,\"\xC4\xA0\":3,\"ab\":4,\"bc\":5,\"\xC4\xA0"
        "a\":6,\"abc\":7,"
        "\"\xC3\xA9\":8,\"<|endoftext|>\":9}",
        "{\"added_tokens\":[{\"id\":9,\"content\":\"<|endoftext|>\"},{\"id\":10,\"content\":\"<|x|>"
        "\"}],"
        "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"\xC4\xA0\":3,\"ab\":4,\"bc\":5,\"\xC4\xA0"
        "a\":6,"
        "\"abc\":7,\"\xC3\xA9\":8},\"merges\":[\"a b\"]}}"};
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        steno_bpe *b = parse(forms[i]);
        assert_int_equal(steno_bpe_count(b), 11);
        assert_int_equal(steno_bpe_regular(b), 9);
        IDS(b, "abc a", 7, 6);
        IDS(b, "aab\xE9", 0, 4, 8); /* a byte that is not UTF-8 */
        assert_int_equal(steno_bpe_find(b, "<|x|>", 5), 10);
        steno_bpe_close(b);
    }
}

static void the_lowest_number_is_merged_first(void **state)
{
    steno_bpe *b = parse("a\nb\nc\nbc\nab\n"); /* bc merges before ab */
    (void)state;
    IDS(b, "abc", 0, 3);
    IDS(b, "abab", 4, 4);
    steno_bpe_close(b);
}

/* Hugging Face's tokenizers with the pattern of Qwen's tokenizer.json. */
static void qwens_pattern_takes_marks_to_letters_and_digits_apart(void **state)
{
    steno_bpe *b =
        parse("a\nb\n,\n\xC4\xA0\n,a\n1\n2\n12\n\xC4\x8A\n,\xC4\x8A\n\xC4\xA0,\n'\nS\n'S\n"
              "\xC4\xA0\xC4\x8A\nS,\n");
    (void)state;
    IDS(b, "b,a12,\n", 1, 2, 0, 7, 2, 8);
    steno_bpe_set_pattern(b, STENO_BPE_QWEN);
    IDS(b, "b,a12,\n", 1, 4, 5, 6, 9);
    IDS(b, " ,\n\na", 3, 9, 8, 0);
    IDS(b, "b'S'Sa", 1, 13, 13, 0);
    IDS(b, " \n b", 14, 3, 1);
    IDS(b, "1\n,", 5, 8, 2);
    IDS(b, "S,", 12, 2);
    steno_bpe_set_pattern(b, STENO_BPE_CL100K);
    IDS(b, "b,a12,\n", 1, 4, 7, 9);
    IDS(b, "12121,", 7, 5, 6, 5, 2);
    steno_bpe_close(b);
}

static void special_pieces_are_not_text(void **state)
{
    steno_bpe *b = parse(LINES);
    int32_t ids[4];
    size_t n;
    steno_err err = {0};
    (void)state;
    assert_int_equal(steno_bpe_encode(b, "<|x|>", 5, ids, 4, &n, &err), STENO_ERR_FORMAT);
    assert_string_equal(err.msg, "the vocabulary has no piece for byte 0x3C");
    check_text(b, (int32_t[]){7, 10, 9, 6, -1, 99}, 6, "abc a");
    steno_bpe_close(b);
}

/* Python: bytes.decode("utf-8", errors="replace"). */
static void broken_characters_are_replaced(void **state)
{
    static const char *const cases[][2] = {{"a\xE6\x9D", "a\xEF\xBF\xBD"},
                                           {"\xE6\x9D\xB1", "\xE6\x9D\xB1"},
                                           {"\xE6\x41", "\xEF\xBF\xBD"
                                                        "A"},
                                           {"\xF0\x9F\x98\xE6\x9D\xB1", "\xEF\xBF\xBD\xE6\x9D\xB1"},
                                           {"\x80\x81", "\xEF\xBF\xBD\xEF\xBF\xBD"},
                                           {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
                                           {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
                                           {"", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steno_buf out;
        steno_buf_init(&out, 64);
        assert_int_equal(steno_utf8_repair(cases[i][0], strlen(cases[i][0]), &out), STENO_OK);
        assert_string_equal(out.data ? out.data : "", cases[i][1]);
        steno_buf_free(&out);
    }
}

static void every_fault_is_named(void **state)
{
    static const char *const cases[][2] = {
        {"a\n\xE6\x9D\xB1\n", "v: piece 1: character 0 does not represent a byte"},
        {"{\"a\": 0, \"b\": 0}", "v: number 0 is given twice"},
        {"{\"a\": -1}", "v: line 1: piece 'a' has no number from 0 to 1048575"},
        {"[\"a\",\n 1]", "v: line 2: a piece is not a string"},
        {"{\"model\": {\"vocab\": []}}", "v: line 1: the model has no vocab"},
        {"{\"model\": {\"vocab\": {}}}", "v: a vocabulary without pieces"},
        {"", "v: a vocabulary without pieces"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        steno_bpe *b = NULL;
        steno_err err = {0};
        assert_int_not_equal(steno_bpe_parse(&b, cases[i][0], strlen(cases[i][0]), "v", &err),
                             STENO_OK);
        assert_string_equal(err.msg, cases[i][1]);
    }
}

static steno_bpe *open_model(const char *which)
{
    char path[4096];
    steno_bpe *b = NULL;
    steno_err err = {0};
    if (!whisper_model_file(which, "vocabulary.txt", path, sizeof path))
        return NULL;
    if (steno_bpe_open(&b, path, &err))
        fail_msg("%s", err.msg);
    return b;
}

static void english_numbers_are_tiktokens(void **state)
{
    steno_bpe *b = open_model("tiny.en");
    (void)state;
    if (!b)
        skip();
    IDS(b, " Hello, world!", 18435, 11, 995, 0);
    IDS(b, "Hello", 15496);
    IDS(b, " -", 532);
    IDS(b, " I'll don't 123 4567  two", 314, 1183, 836, 470, 17031, 4153, 3134, 220, 734);
    IDS(b, " the time to think", 262, 640, 284, 892);
    IDS(b, " steno GPT-4o", 336, 23397, 402, 11571, 12, 19, 78);
    IDS(b, "♪♪ ♪♪♪", 17992, 103, 17992, 103, 20724, 103, 17992, 103, 17992, 103);
    IDS(b, "東京は晴れ", 30266, 109, 12859, 105, 31676, 162, 247, 112, 39258);
    steno_bpe_close(b);
}

static void multilingual_numbers_are_tiktokens(void **state)
{
    steno_bpe *b = open_model("base");
    (void)state;
    if (!b)
        skip();
    assert_int_equal(steno_bpe_regular(b), 50257);
    IDS(b, " Hello, world!", 2425, 11, 1002, 0);
    IDS(b, "Hello", 15947);
    IDS(b, " -", 359);
    IDS(b, " I'll don't 123 4567  two", 286, 603, 500, 380, 34466, 6905, 22452, 220, 732);
    IDS(b, " the time to think", 264, 565, 281, 519);
    IDS(b, " steno GPT-4o", 342, 5808, 26039, 51, 12, 19, 78);
    IDS(b, "♪♪ ♪♪♪", 26130, 31650);
    IDS(b, "東京は晴れ", 18413, 31375, 3065, 5094, 112, 4132);
    check_text(b, (int32_t[]){18413, 31375, 3065, 5094, 112, 4132}, 6, "東京は晴れ");
    steno_bpe_close(b);
}

static void tokenizer_json_is_the_same_vocabulary(void **state)
{
    char path[4096];
    steno_bpe *b = open_model("base"), *j = NULL;
    (void)state;
    if (!b || !whisper_model_file("base", "tokenizer.json", path, sizeof path)) {
        steno_bpe_close(b);
        skip();
    }
    assert_int_equal(steno_bpe_open(&j, path, NULL), STENO_OK);
    assert_int_equal(steno_bpe_regular(j), steno_bpe_regular(b));
    for (int32_t i = 0; i < steno_bpe_regular(b); i++) {
        struct steno_bpe_piece p = steno_bpe_piece(b, i), q = steno_bpe_piece(j, i);
        if (p.n != q.n || memcmp(p.p, q.p, p.n))
            fail_msg("piece %d differs", i);
    }
    steno_bpe_close(b);
    steno_bpe_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_gives_the_same_vocabulary),
        cmocka_unit_test(the_lowest_number_is_merged_first),
        cmocka_unit_test(qwens_pattern_takes_marks_to_letters_and_digits_apart),
        cmocka_unit_test(special_pieces_are_not_text),
        cmocka_unit_test(broken_characters_are_replaced),
        cmocka_unit_test(every_fault_is_named),
        cmocka_unit_test(english_numbers_are_tiktokens),
        cmocka_unit_test(multilingual_numbers_are_tiktokens),
        cmocka_unit_test(tokenizer_json_is_the_same_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
