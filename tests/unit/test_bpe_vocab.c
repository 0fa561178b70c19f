/* Words to pieces by scores. */
#include <stdlib.h>
#include <string.h>

#include "speech/text/bpe_vocab.h"
#include "tests/support/test.h"

#define M "\xE2\x96\x81"

static const char tokens_txt[] = "<blk> 0\n" M " 1\nA 2\nB 3\nAB 4\n" M "A 5\n" M "AB 6\nBC 7\n";
static const char vocab[] =
    "<blk>\t0\n" M "\t-6\nA\t-5\nB\t-5\nAB\t-3\n" M "A\t-1\r\n" M "AB -2\nBC\t-0.5\nC\t-9\n";

static steno_tokens *read_tokens(void)
{
    steno_tokens *t = NULL;
    assert_int_equal(steno_tokens_parse(&t, tokens_txt, sizeof tokens_txt - 1, "t", NULL),
                     STENO_OK);
    return t;
}

static void the_way_with_the_highest_sum_is_taken(void **state)
{
    static const struct {
        const char *word;
        steno_status st;
        int32_t ids[4];
        size_t n;
    } rows[] = {{M "AB", STENO_OK, {6}, 1},
                {M "ABC", STENO_OK, {5, 7}, 2}, /* -1.5; "AB", "C" would be -11 */
                {M "AAB", STENO_OK, {5, 4}, 2},
                {"B", STENO_OK, {3}, 1},
                {"", STENO_OK, {0}, 0},
                {M "C", STENO_ERR_FORMAT, {0}, 0},  /* "C" is a piece, but no token */
                {M "AX", STENO_ERR_FORMAT, {0}, 0}, /* no piece */
                {"X", STENO_ERR_FORMAT, {0}, 0}};
    steno_tokens *t = read_tokens();
    steno_bpe_vocab *v = NULL;
    (void)state;
    assert_int_equal(steno_bpe_vocab_parse(&v, vocab, sizeof vocab - 1, "v", t, NULL), STENO_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int32_t ids[16] = {0};
        size_t n = 0;
        assert_int_equal(steno_bpe_vocab_encode(v, rows[i].word, strlen(rows[i].word), ids, &n),
                         rows[i].st);
        assert_int_equal(n, rows[i].n);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(ids[k], rows[i].ids[k]);
    }
    steno_bpe_vocab_close(v);
    steno_tokens_close(t);
}

/* Numbers are those of lines. A run of bytes with which no piece begins is one token, or bytes. */
static void any_bytes_can_be_cut(void **state)
{
    static const struct {
        const char *pieces, *word;
        int32_t ids[4];
        size_t n;
    } rows[] = {
        {"<unk>\t0\n" M "A\t-1\nB\t-1\n", M "AXYBX", {1, 0, 2, 0}, 4},
        {"<unk>\t0\n" M "A\t-1\n<0x58>\t0\n", M "AXXY", {1, 2, 2, 0}, 4},
        {"<unk>\t0\nA\t-1\nAB\t-2\nB\t-1\n", "AB", {2}, 1}, /* of equal sums the longer piece */
        {"<unk>\t0\n", "", {0}, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        steno_bpe_vocab *v = NULL;
        int32_t ids[16] = {0};
        size_t n = 0;
        assert_int_equal(
            steno_bpe_vocab_parse(&v, rows[i].pieces, strlen(rows[i].pieces), "v", NULL, NULL),
            STENO_OK);
        assert_int_equal(
            steno_bpe_vocab_encode_any(v, rows[i].word, strlen(rows[i].word), 0, ids, &n),
            STENO_OK);
        assert_int_equal(n, rows[i].n);
        assert_memory_equal(ids, rows[i].ids, n * sizeof *ids);
        steno_bpe_vocab_close(v);
    }
}

static void wrong_lines_are_named(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {{"A\t-1\nB\n", "v:2: expected \"piece score\""},
                {"A\tx\n", "v:1: expected \"piece score\""},
                {"A\tinf\n", "v:1: expected \"piece score\""},
                {"\t-1\n", "v:1: expected \"piece score\""},
                {"A \n", "v:1: expected \"piece score\""},
                {"", "v: there are no pieces"},
                {"\n\n", "v: there are no pieces"}};
    steno_tokens *t = read_tokens();
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        steno_bpe_vocab *v = NULL;
        steno_err err = {0};
        assert_int_equal(
            steno_bpe_vocab_parse(&v, rows[i].text, strlen(rows[i].text), "v", t, &err),
            STENO_ERR_FORMAT);
        assert_string_equal(err.msg, rows[i].why);
    }
    steno_tokens_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_way_with_the_highest_sum_is_taken),
        cmocka_unit_test(any_bytes_can_be_cut),
        cmocka_unit_test(wrong_lines_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
