/* The JSON files beside a CTC network over samples: frames, rate, tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/phrases.h"
#include "speech/families/wav2vec2/conf.h"
#include "speech/text/words.h"
#include "tests/support/test.h"

static steno_json *parse(const char *text)
{
    steno_json *j = NULL;
    steno_err err = {0};
    if (text && steno_json_parse(&j, text, strlen(text), "test", &err))
        fail_msg("%s", err.msg);
    return j;
}

static const struct steno_json_node *root(const steno_json *j)
{
    return j ? steno_json_root(j) : NULL;
}

static steno_status read(struct steno_wav2vec2_conf *c, const char *config,
                         const char *preprocessor, steno_err *err)
{
    steno_json *a = parse(config), *b = parse(preprocessor);
    const steno_status st = steno_wav2vec2_conf_read(c, root(a), root(b), err);
    steno_json_close(a);
    steno_json_close(b);
    return st;
}

static void frames_follow_from_the_convolutions(void **state)
{
    struct steno_wav2vec2_conf c;
    (void)state;
    assert_int_equal(read(&c, "{}", NULL, NULL), STENO_OK);
    assert_int_equal(c.frame_samples, 320); /* of all published models; 400 samples are 25 ms */
    assert_int_equal(c.least, 400);
    assert_true(c.normalize);
    assert_int_equal(c.pad, -1);
    assert_int_equal(read(&c,
                          "{\"conv_kernel\": [4, 3], \"conv_stride\": [2, 3], "
                          "\"pad_token_id\": 7, \"vocab_size\": 9}",
                          "{\"do_normalize\": false, \"sampling_rate\": 16000}", NULL),
                     STENO_OK);
    assert_int_equal(c.frame_samples, 6);
    assert_int_equal(c.least, 8);
    assert_false(c.normalize);
    assert_int_equal(c.pad, 7);
    assert_int_equal(c.vocab, 9);
}

static void wrong_values_are_refused_by_name(void **state)
{
    static const struct {
        const char *config, *preprocessor, *message;
        steno_status st;
    } cases[] = {
        {"{\"conv_stride\": 5}", NULL, "conv_stride is no list", STENO_ERR_FORMAT},
        {"{\"conv_stride\": [5, 0]}", NULL, "conv_stride is no list", STENO_ERR_FORMAT},
        {"{\"conv_stride\": [5, 2]}", NULL, "do not fit together", STENO_ERR_FORMAT},
        {"{\"conv_stride\": [4096, 4096], \"conv_kernel\": [9, 9]}", NULL, "do not fit together",
         STENO_ERR_FORMAT},
        {"{\"vocab_size\": 1}", NULL, "vocab_size is not in 2..", STENO_ERR_FORMAT},
        {"{}", "{\"sampling_rate\": 8000}", "sampling_rate is not 16000", STENO_ERR_UNSUPPORTED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steno_wav2vec2_conf c;
        steno_err err = {0};
        assert_int_equal(read(&c, cases[i].config, cases[i].preprocessor, &err), cases[i].st);
        if (!strstr(err.msg, cases[i].message))
            fail_msg("'%s' without '%s'", err.msg, cases[i].message);
    }
}

/* Tokens of a vocabulary; NULL: the message has `refused` in it. */
static steno_tokens *tokens(int32_t *blank, int64_t vocab, int64_t pad, const char *text,
                            const char *tokenizer, const char *added, const char *refused)
{
    const struct steno_wav2vec2_conf c = {.vocab = vocab, .pad = pad};
    steno_json *v = parse(text), *t = parse(tokenizer), *a = parse(added);
    steno_tokens *out = NULL;
    steno_err err = {0};
    const steno_status st = steno_wav2vec2_tokens(&out, blank, &c, root(v), root(t), root(a), &err);
    steno_json_close(v);
    steno_json_close(t);
    steno_json_close(a);
    if (st && (!refused || !strstr(err.msg, refused)))
        fail_msg("%s", err.msg);
    if (!st && refused)
        fail_msg("accepted: %s", text);
    return out;
}

static void letters_become_words(void **state)
{
    static const char vocab[] =
        "{\"<pad>\": 0, \"<s>\": 1, \"</s>\": 2, \"<unk>\": 3, \"|\": 4, \"O\": 5, \"N\": 6, "
        "\"E\": 7}";
    static const int32_t ids[] = {4, 5, 6, 7, 3, 4, 4, 1, 5, 6, 4};
    struct steno_span spans[sizeof ids / sizeof *ids];
    struct steno_words w;
    int32_t blank = -1;
    steno_tokens *t = tokens(&blank, 10, -1, vocab, NULL, NULL, NULL);
    (void)state;
    assert_int_equal(blank, 0);
    assert_int_equal(steno_tokens_count(t), 10); /* two scores have no piece */
    assert_int_equal(steno_tokens_delimiter(t), 4);
    assert_string_equal(steno_tokens_piece(t, 4), "|");
    for (int i = 0; i < (int)(sizeof ids / sizeof *ids); i++)
        spans[i] = (struct steno_span){
            .token = ids[i], .first = 10 * i, .last = 10 * i + 1, .peak = ids[i] == 4 ? -9 : 0};
    steno_words_init(&w);
    assert_int_equal(steno_words_build(&w, t, spans, sizeof ids / sizeof *ids, 0), STENO_OK);
    assert_string_equal(steno_words_line(&w), "ONE ON");
    assert_int_equal(w.n, 2);
    /* a word begins with its first letter, and the delimiter is no part of its confidence */
    assert_int_equal(w.w[0].first, 10);
    assert_int_equal(w.w[0].last, 31);
    assert_int_equal(w.w[1].first, 80);
    assert_int_equal(w.w[1].last, 91);
    assert_true(w.w[0].confidence == 1);
    steno_words_free(&w);
    steno_tokens_close(t);
}

static void the_tokenizer_names_the_marks(void **state)
{
    int32_t blank = -1;
    size_t n;
    steno_tokens *t = tokens(
        &blank, 0, 9, "{\"[PAD]\": 2, \" \": 0, \"\xC3\x84\": 1, \"[UNK]\": 3, \"\\n\": 4}",
        "{\"pad_token\": {\"content\": \"[PAD]\"}, \"unk_token\": \"[UNK]\", \"do_lower_case\": "
        "true, \"word_delimiter_token\": \" \", \"added_tokens_decoder\": {\"6\": {\"content\": "
        "\"<x>\"}}}",
        "{\"<s>\": 5}", NULL);
    (void)state;
    assert_int_equal(blank, 2);
    assert_int_equal(steno_tokens_delimiter(t), 0);
    assert_int_equal(steno_tokens_count(t), 7);
    assert_memory_equal(steno_tokens_text(t, 1, &n), "\xC3\xA4", 2); /* in small letters */
    for (int32_t i = 2; i < 6; i++)
        assert_true(steno_tokens_flags(t, i) & STENO_TOKEN_DROP);
    assert_string_equal(steno_tokens_piece(t, 6), "<x>");
    steno_tokens_close(t);
    /* one language out of several; the padding by config.json alone */
    t = tokens(&blank, 0, 1, "{\"deu\": {\"a\": 0}, \"fra\": {\"b\": 0, \"c\": 1}}",
               "{\"target_lang\": \"fra\"}", NULL, NULL);
    assert_int_equal(blank, 1);
    assert_int_equal(steno_tokens_find(t, "b"), 0);
    steno_tokens_close(t);
}

/* tokens.txt: a separator before an ideograph is a space, which it has not by itself. */
static void separators_of_tokens_txt_are_spaces(void **state)
{
    static const char text[] = "<s> 0\n<unk> 1\n  2\na 3\n\xE6\x97\xA5 4\n";
    static const int32_t ids[] = {2, 3, 1, 4, 4, 2, 4, 3, 2, 2};
    struct steno_span spans[sizeof ids / sizeof *ids];
    char path[] = "/tmp/steno-tokens-XXXXXX";
    struct steno_words w;
    steno_tokens *t = NULL;
    int32_t blank = -1;
    FILE *f = fdopen(mkstemp(path), "w");
    (void)state;
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, sizeof text - 1, f), sizeof text - 1);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(steno_wav2vec2_tokens_txt(&t, &blank, path, NULL), STENO_OK);
    assert_int_equal(blank, 0);
    assert_int_equal(steno_tokens_delimiter(t), 2);
    for (int i = 0; i < (int)(sizeof ids / sizeof *ids); i++)
        spans[i] = (struct steno_span){.token = ids[i], .first = i, .last = i};
    steno_words_init(&w);
    assert_int_equal(steno_words_build(&w, t, spans, sizeof ids / sizeof *ids, 0), STENO_OK);
    assert_string_equal(steno_words_line(&w), "a\xE6\x97\xA5\xE6\x97\xA5 \xE6\x97\xA5"
                                              "a");
    assert_int_equal(w.w[3].first, 6);
    steno_words_free(&w);
    steno_tokens_close(t);
    assert_int_equal(remove(path), 0);
}

static void wrong_vocabularies_are_refused(void **state)
{
    int32_t blank = -1;
    (void)state;
    assert_null(tokens(&blank, 0, -1, "[]", NULL, NULL, "no vocabulary"));
    assert_null(tokens(&blank, 0, -1, "{\"a\": 1e3}", NULL, NULL, "expected \"piece\": id"));
    assert_null(tokens(&blank, 0, -1, "{\"a\": 9999999}", NULL, NULL, "with an id below"));
    assert_null(tokens(&blank, 0, -1, "{\"a\": 0}", NULL, NULL, "there is no '<pad>'"));
    assert_null(tokens(&blank, 0, 5, "{\"a\": 0}", NULL, NULL, "there is no '<pad>'"));
    assert_null(tokens(&blank, 2, -1, "{\"<pad>\": 2}", NULL, NULL, "the blank is 2 of 2 scores"));
    assert_null(tokens(&blank, 0, -1, "{\"a\": {\"b\": 0}}", NULL, NULL, "vocabularies of 1"));
    assert_int_equal(blank, -1);
}

static void hotwords_are_spelled_in_letters(void **state)
{
    static const char vocab[] = "{\"<pad>\": 0, \"|\": 1, \"O\": 2, \"N\": 3}";
    struct steno_phrases p;
    steno_hotwords *h = NULL;
    int32_t blank;
    steno_tokens *t = tokens(&blank, 0, -1, vocab, NULL, NULL, NULL);
    (void)state;
    assert_int_equal(steno_phrases_open(&p, t, NULL), STENO_OK);
    assert_int_equal(steno_phrases_build(&h, &p, (const char *[]){"on no"}, 1, 1.5f, NULL),
                     STENO_OK);
    assert_non_null(h);
    steno_hotwords_close(h);
    assert_int_equal(steno_phrases_build(&h, &p, (const char *[]){"one"}, 1, 1.5f, NULL), STENO_OK);
    assert_null(h); /* there is no E */
    steno_phrases_close(&p);
    steno_tokens_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_follow_from_the_convolutions),
        cmocka_unit_test(wrong_values_are_refused_by_name),
        cmocka_unit_test(letters_become_words),
        cmocka_unit_test(the_tokenizer_names_the_marks),
        cmocka_unit_test(separators_of_tokens_txt_are_spaces),
        cmocka_unit_test(wrong_vocabularies_are_refused),
        cmocka_unit_test(hotwords_are_spelled_in_letters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
