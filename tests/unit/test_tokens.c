#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/text/bpe.h"
#include "speech/text/tokens.h"
#include "tests/support/test.h"

static steno_tokens *parse(const char *text)
{
    steno_tokens *t = NULL;
    steno_err err = {0};
    if (steno_tokens_parse(&t, text, strlen(text), "tokens.txt", &err))
        fail_msg("%s", err.msg);
    return t;
}

static void check_text(const steno_tokens *t, int32_t id, const char *want, unsigned flags)
{
    size_t n;
    const char *s = steno_tokens_text(t, id, &n);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(s, want, n);
    assert_int_equal(steno_tokens_flags(t, id), flags);
}

static void pieces_get_their_word_marks(void **state)
{
    (void)state;
    steno_tokens *t = parse("<blk> 0\n▁HE 1\nLLO 2\n world 3\n▁ 4\n 5\n<0xE4> 6\n中 7\nカ\t8\n9 "
                            "9\n今天 10\n。 11\n?! 12\n"
                            "¿ 13\n( 14\n<0x9D> 15\n▁? 16\n");
    assert_int_equal(steno_tokens_count(t), 17);
    check_text(t, 0, "<blk>", 0);
    check_text(t, 1, "HE", STENO_TOKEN_WORD);
    check_text(t, 2, "LLO", 0);
    check_text(t, 3, "world", STENO_TOKEN_WORD);
    check_text(t, 4, "", STENO_TOKEN_WORD);
    check_text(t, 5, "", STENO_TOKEN_WORD); /* a line with only an id is the space */
    check_text(t, 6, "\xE4", STENO_TOKEN_BYTE | STENO_TOKEN_ALONE);
    check_text(t, 7, "中", STENO_TOKEN_ALONE);
    check_text(t, 8, "カ", STENO_TOKEN_ALONE);
    check_text(t, 9, "9", 0);
    check_text(t, 10, "今天", STENO_TOKEN_ALONE);
    check_text(t, 11, "。", STENO_TOKEN_FOLLOWS);
    check_text(t, 12, "?!", STENO_TOKEN_FOLLOWS);
    check_text(t, 13, "¿", 0);
    check_text(t, 14, "(", 0);
    check_text(t, 15, "\x9D", STENO_TOKEN_BYTE | STENO_TOKEN_FOLLOWS);
    check_text(t, 16, "?", STENO_TOKEN_WORD);
    assert_int_equal(steno_tokens_find(t, "LLO"), 2);
    assert_int_equal(steno_tokens_find(t, "llo"), -1);
    assert_false(steno_tokens_whole_words(t));
    steno_tokens_close(t);
}

/* "你好" and "HI" as icefall's byte-level BPE writes them, and half of a character. */
static void byte_level_pieces_are_known_by_their_letters(void **state)
{
    (void)state;
    steno_tokens *t = parse("<blk> 0\n▁ƋŞţ 1\n▁Ƌ 2\nşł 3\n▁HI 4\n▁ 5\n⁇ 6\n");
    steno_tokens *latvian = parse("<blk> 0\n▁āčē 1\nģī 2\nķļņšūž 3\n");
    steno_tokens *vietnamese = parse("<blk> 0\n▁ươ 1\nđạ 2\n");
    steno_tokens *accents = parse("<blk> 0\n▁Ƌé 1\n");
    char letter[2];
    assert_true(steno_tokens_byte_level(t));
    check_text(t, 0, "<blk>", 0);
    check_text(t, 1, "\xE4\xB8\xBD", STENO_TOKEN_WORD | STENO_TOKEN_BYTE);
    check_text(t, 2, "\xE4", STENO_TOKEN_WORD | STENO_TOKEN_BYTE);
    check_text(t, 3, "\xB9\x9D", STENO_TOKEN_BYTE);
    check_text(t, 4, "HI", STENO_TOKEN_WORD);
    check_text(t, 5, "", STENO_TOKEN_WORD);
    check_text(t, 6, " ", STENO_TOKEN_BYTE);
    assert_int_equal(steno_tokens_find(t, "şł"), 3);
    assert_int_equal(steno_tokens_byte_letter('A', letter), 1);
    assert_memory_equal(letter, "A", 1);
    assert_int_equal(steno_tokens_byte_letter(0xE4, letter), 2);
    assert_memory_equal(letter, "Ƌ", 2);
    assert_int_equal(steno_tokens_byte_letter(0xFF, letter), 2);
    assert_memory_equal(letter, "Ʀ", 2);
    assert_int_equal(steno_tokens_byte_letter(0, letter), 2);
    assert_memory_equal(letter, "Ā", 2);
    assert_false(steno_tokens_byte_level(latvian));
    check_text(latvian, 1, "āčē", STENO_TOKEN_WORD);
    assert_false(steno_tokens_byte_level(vietnamese));
    assert_false(steno_tokens_byte_level(accents));
    steno_tokens_close(t);
    steno_tokens_close(latvian);
    steno_tokens_close(vietnamese);
    steno_tokens_close(accents);
}

static void order_crlf_bom_and_missing_last_newline_do_not_matter(void **state)
{
    (void)state;
    steno_tokens *t = parse("\xEF\xBB\xBF▁b 1\r\n▁a 0\r\n\r\n▁c 2");
    check_text(t, 0, "a", STENO_TOKEN_WORD);
    check_text(t, 1, "b", STENO_TOKEN_WORD);
    check_text(t, 2, "c", STENO_TOKEN_WORD);
    assert_true(steno_tokens_whole_words(t));
    steno_tokens_close(t);
}

static void dropping_the_unwritten_leaves_whole_words(void **state)
{
    (void)state;
    steno_err err = {0};
    steno_tokens *t = parse("<blk> 0\n▁one 1\n<unk> 2\n");
    assert_false(steno_tokens_whole_words(t));
    assert_int_equal(steno_tokens_drop(t, " <blk>\t<unk> ", &err), STENO_OK);
    assert_true(steno_tokens_whole_words(t));
    assert_int_equal(steno_tokens_flags(t, 2), STENO_TOKEN_DROP);
    assert_int_equal(steno_tokens_drop(t, "<sil>", &err), STENO_ERR_FORMAT);
    assert_string_equal(err.msg, "'<sil>' is not in the vocabulary");
    steno_tokens_close(t);
}

static void bad_files_are_named_with_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        steno_status st;
        const char *msg;
    } cases[] = {
        {"", STENO_ERR_FORMAT, "tokens.txt: no tokens"},
        {"\n\n", STENO_ERR_FORMAT, "tokens.txt: no tokens"},
        {"a 0\nb\n", STENO_ERR_FORMAT, "tokens.txt:2: expected \"piece id\""},
        {"a 0\nb1\n", STENO_ERR_FORMAT, "tokens.txt:2: expected"},
        {"a -1\n", STENO_ERR_FORMAT, "tokens.txt:1: expected"},
        {"a 1048576\n", STENO_ERR_FORMAT, "tokens.txt:1: expected"},
        {"a 99999999999999999999\n", STENO_ERR_FORMAT, "tokens.txt:1: expected"},
        {"a 0\nb 0\n", STENO_ERR_FORMAT, "tokens.txt:2: duplicate id 0"},
        {"a 0\nb 2\n", STENO_ERR_FORMAT, "tokens.txt: id 1 is missing (highest is 2)"},
        {"a 0\n\xFF\xFE 1\n", STENO_ERR_FORMAT, "tokens.txt:2: piece is not UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        steno_tokens *t = NULL;
        steno_err err = {0};
        steno_status st =
            steno_tokens_parse(&t, cases[i].text, strlen(cases[i].text), "tokens.txt", &err);
        assert_int_equal(st, cases[i].st);
        assert_null(t);
        if (strncmp(err.msg, cases[i].msg, strlen(cases[i].msg)) != 0)
            fail_msg("case %zu: \"%s\"", i, err.msg);
    }
}

static void zero_bytes_and_giant_pieces_are_refused(void **state)
{
    (void)state;
    steno_tokens *t = NULL;
    steno_err err = {0};
    char big[STENO_TOKENS_MAX_PIECE + 8];
    assert_int_equal(steno_tokens_parse(&t, "a\0b 0\n", 6, "t", &err), STENO_ERR_FORMAT);
    memset(big, 'x', sizeof big);
    memcpy(big + sizeof big - 3, " 0\n", 3);
    assert_int_equal(steno_tokens_parse(&t, big, sizeof big, "t", &err), STENO_ERR_LIMIT);
    assert_null(t);
}

static void missing_file_is_named(void **state)
{
    (void)state;
    steno_tokens *t = NULL;
    steno_err err = {0};
    assert_int_equal(steno_tokens_open(&t, "/nonexistent/tokens.txt", &err), STENO_ERR_IO);
    assert_string_equal(err.msg, "/nonexistent/tokens.txt: No such file or directory");
}

struct byte_row {
    const char *piece, *text;
    unsigned flags;
};

static void pieces_of_bytes_need_not_be_text(void **state)
{
    static const struct byte_row rows[] = {
        {"hello", "hello", 0},
        {" hello", "hello", STENO_TOKEN_WORD},
        {",", ",", STENO_TOKEN_FOLLOWS},
        {"\xE4\xBD\xA0", "\xE4\xBD\xA0", STENO_TOKEN_ALONE},
        {"\xE4\xBD", "\xE4\xBD", STENO_TOKEN_BYTE | STENO_TOKEN_ALONE},
        {" \xE4\xBD", "\xE4\xBD", STENO_TOKEN_WORD | STENO_TOKEN_BYTE},
        {"\xA0", "\xA0", STENO_TOKEN_BYTE | STENO_TOKEN_FOLLOWS},
        {" ", "", STENO_TOKEN_WORD},
        {"\n", "", STENO_TOKEN_WORD},
        {"", "", STENO_TOKEN_DROP},
    };
    enum { N = sizeof rows / sizeof *rows };
    struct steno_bpe_piece piece[N];
    char longest[STENO_TOKENS_MAX_PIECE + 1] = {0};
    steno_tokens *t;
    steno_err err;
    (void)state;
    for (size_t i = 0; i < N; i++)
        piece[i] = (struct steno_bpe_piece){rows[i].piece, strlen(rows[i].piece)};
    assert_int_equal(steno_tokens_of_bytes(&t, piece, N, "t", &err), STENO_OK);
    assert_int_equal(steno_tokens_count(t), N);
    assert_true(steno_tokens_cut_characters(t) && !steno_tokens_byte_level(t));
    for (int32_t i = 0; i < N; i++) {
        size_t n;
        const char *text = steno_tokens_text(t, i, &n);
        assert_int_equal(n, strlen(rows[i].text));
        assert_memory_equal(text, rows[i].text, n);
        assert_int_equal(steno_tokens_flags(t, i), rows[i].flags);
        assert_int_equal(steno_tokens_find(t, rows[i].piece), i);
    }
    steno_tokens_close(t);
    piece[1] = (struct steno_bpe_piece){longest, sizeof longest};
    assert_int_equal(steno_tokens_of_bytes(&t, piece, N, "t", &err), STENO_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "t: piece 1 has 513 bytes"));
    assert_int_equal(steno_tokens_of_bytes(&t, piece, 0, "t", &err), STENO_ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_bytes_need_not_be_text),
        cmocka_unit_test(pieces_get_their_word_marks),
        cmocka_unit_test(byte_level_pieces_are_known_by_their_letters),
        cmocka_unit_test(order_crlf_bom_and_missing_last_newline_do_not_matter),
        cmocka_unit_test(dropping_the_unwritten_leaves_whole_words),
        cmocka_unit_test(bad_files_are_named_with_their_line),
        cmocka_unit_test(zero_bytes_and_giant_pieces_are_refused),
        cmocka_unit_test(missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
