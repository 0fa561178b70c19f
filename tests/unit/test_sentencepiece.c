/* Expected texts: SentencePieceProcessor.DecodePieces of sentencepiece 0.2.3 on the same bytes
 * (tests/espnet/oracle_sentencepiece.py prints them). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/text/sentencepiece.h"
#include "tests/support/test.h"

#define MARK "\xE2\x96\x81"

struct file {
    unsigned char b[4096];
    size_t n;
};

/* Append one piece as a protocol buffer: field 1 of the model, with text, score 0 and type. */
static void add(struct file *f, const char *text, int type)
{
    size_t n = strlen(text);
    assert_true(n < 100 && f->n + n + 11 < sizeof f->b);
    f->b[f->n++] = 0x0A;
    f->b[f->n++] = (unsigned char)(n + 9);
    f->b[f->n++] = 0x0A;
    f->b[f->n++] = (unsigned char)n;
    memcpy(f->b + f->n, text, n);
    f->n += n;
    f->b[f->n++] = 0x15;
    memset(f->b + f->n, 0, 4);
    f->n += 4;
    f->b[f->n++] = 0x18;
    f->b[f->n++] = (unsigned char)type;
}

static void raw(struct file *f, const char *bytes, size_t n)
{
    memcpy(f->b + f->n, bytes, n);
    f->n += n;
}

/* trims: sets normalizer_spec.remove_extra_whitespaces. */
static struct file small(bool trims)
{
    struct file f = {.n = 0};
    add(&f, "<unk>", 2);
    add(&f, "<s>", 3);
    add(&f, "</s>", 3);
    add(&f, MARK "a", 1);
    add(&f, "b", 1);
    add(&f, MARK, 1);
    add(&f, "<0xC3>", 6);
    add(&f, "<0xA4>", 6);
    add(&f, "<0xFF>", 6);
    add(&f, "x" MARK "y", 4);
    raw(&f, trims ? "\x1A\x02\x20\x01" : "\x1A\x02\x20\x00", 4);
    return f;
}

static steno_sentencepiece *parse(const struct file *f)
{
    steno_sentencepiece *s = NULL;
    steno_err err = {0};
    if (steno_sentencepiece_parse(&s, f->b, f->n, "m.model", &err))
        fail_msg("%s", err.msg);
    return s;
}

static void check_decode(const steno_sentencepiece *s, const char *list, const char *want)
{
    char copy[256], *p = copy;
    const char *pieces[16];
    size_t n = 0;
    struct steno_buf b;
    snprintf(copy, sizeof copy, "%s", list);
    for (char *t; (t = strsep(&p, "|")) && *t;)
        pieces[n++] = t;
    steno_buf_init(&b, 4096);
    assert_int_equal(steno_sentencepiece_decode(s, pieces, n, &b), STENO_OK);
    assert_string_equal(b.data ? b.data : "", want);
    steno_buf_free(&b);
}

static void pieces_have_types_and_numbers(void **state)
{
    (void)state;
    struct file f = small(true);
    steno_sentencepiece *s = parse(&f);
    assert_int_equal(steno_sentencepiece_count(s), 10);
    assert_string_equal(steno_sentencepiece_model_type(s), "unigram");
    assert_int_equal(steno_sentencepiece_find(s, "b"), 4);
    assert_int_equal(steno_sentencepiece_find(s, "c"), -1);
    assert_int_equal(steno_sentencepiece_type(s, 1), STENO_SENTENCEPIECE_CONTROL);
    assert_int_equal(steno_sentencepiece_type(s, 6), STENO_SENTENCEPIECE_BYTE);
    assert_string_equal(steno_sentencepiece_piece(s, 3), MARK "a");
    steno_sentencepiece_close(s);
}

static void pieces_join_as_sentencepiece_joins_them(void **state)
{
    (void)state;
    struct file f = small(true);
    steno_sentencepiece *s = parse(&f);
    check_decode(s, "", "");
    check_decode(s, MARK "a|b|" MARK "a", "ab a");
    check_decode(s, "b|" MARK "a", "b a");
    check_decode(s, MARK "|" MARK "|b", "b");
    check_decode(s, "<s>|" MARK "a|</s>|b", "ab");
    check_decode(s, "b|<unk>|b", "b \xE2\x81\x87 b");
    check_decode(s, "<blank>|b|<sos/eos>", "<blank>b<sos/eos>");
    check_decode(s, "b|<0xC3>|<0xA4>|b",
                 "b\xC3\xA4"
                 "b");
    check_decode(s, "<0xC3>|b|<0xFF>",
                 "\xEF\xBF\xBD"
                 "b\xEF\xBF\xBD");
    check_decode(s, "<0xA4>|<0xC3>|<0xA4>", "\xEF\xBF\xBD\xC3\xA4");
    check_decode(s, "x" MARK "y|" MARK "a", "x y a");
    check_decode(s, "c|" MARK "q", "c" MARK "q"); /* neither text is a piece */
    steno_sentencepiece_close(s);
}

static void without_trimming_one_space_goes(void **state)
{
    (void)state;
    struct file f = small(false);
    steno_sentencepiece *s = parse(&f);
    check_decode(s, MARK "|" MARK "|b", " b");
    check_decode(s, MARK "|b", "b");
    check_decode(s, "<0xC3>|<0xA4>|" MARK "a", "\xC3\xA4 a");
    steno_sentencepiece_close(s);
}

static void refused(const struct file *f, const char *what)
{
    steno_sentencepiece *s = NULL;
    steno_err err = {0};
    assert_int_equal(steno_sentencepiece_parse(&s, f->b, f->n, "m.model", &err), STENO_ERR_FORMAT);
    assert_null(s);
    if (!strstr(err.msg, what) || !strstr(err.msg, "m.model"))
        fail_msg("'%s' does not say '%s'", err.msg, what);
}

static void wrong_models_are_refused_by_name(void **state)
{
    (void)state;
    struct file f = {.n = 0};
    refused(&f, "0 pieces");
    add(&f, "b", 1);
    refused(&f, "no unknown piece");
    add(&f, "b", 1);
    refused(&f, "piece 1, 'b', is a duplicate of piece 0");
    f = small(true);
    add(&f, "<unk2>", 2);
    refused(&f, "pieces 0 and 10 are both the unknown piece");
    f = small(true);
    add(&f, "z", 7);
    refused(&f, "piece 10 has type 7");
    f = small(true);
    add(&f, "<0xzz>", 6);
    refused(&f, "'<0xzz>', is not a byte");
    f = small(true);
    add(&f, "\xC3", 1);
    refused(&f, "piece 10 is empty");
    f = small(true);
    f.n -= 3;
    refused(&f, "not a SentencePiece model");
    f = (struct file){.n = 5, .b = "hello"};
    refused(&f, "not a SentencePiece model");
    f = small(true);
    raw(&f, "\x12\x02\x18\x09", 4);
    refused(&f, "model type 9");
}

/* Each piece takes two bytes of the file. The memory must stay in proportion to the file. */
static void empty_pieces_do_not_eat_memory(void **state)
{
    (void)state;
    size_t n = (size_t)8 << 20;
    unsigned char *b = malloc(n);
    steno_sentencepiece *s = NULL;
    steno_err err = {0};
    assert_non_null(b);
    for (size_t i = 0; i < n; i += 2) {
        b[i] = 0x0A;
        b[i + 1] = 0;
    }
    assert_int_equal(steno_sentencepiece_parse(&s, b, n, "m.model", &err), STENO_ERR_FORMAT);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_have_types_and_numbers),
        cmocka_unit_test(pieces_join_as_sentencepiece_joins_them),
        cmocka_unit_test(without_trimming_one_space_goes),
        cmocka_unit_test(wrong_models_are_refused_by_name),
        cmocka_unit_test(empty_pieces_do_not_eat_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
