#include <math.h>
#include <string.h>

#include "speech/text/words.h"
#include "tests/support/test.h"

static const char pieces[] = "<blk> 0\n▁for 1\nty 2\n▁two 3\n<unk> 4\n中 5\n国 6\n▁ 7\n"
                             "<0xC3> 8\n<0xA9> 9\n▁caf 10\n";
static const char whole[] = "<blk> 0\n▁one 1\n▁two 2\n<unk> 3\n";

static steno_tokens *vocab(const char *text, const char *drop)
{
    steno_tokens *t = NULL;
    assert_int_equal(steno_tokens_parse(&t, text, strlen(text), "t", NULL), STENO_OK);
    assert_int_equal(steno_tokens_drop(t, drop, NULL), STENO_OK);
    return t;
}

static size_t spans(struct steno_span *out, const int *tok, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (struct steno_span){.token = tok[i],
                                     .peak = logf(0.5f),
                                     .first = 10 * (int64_t)i,
                                     .last = 10 * (int64_t)i + 3};
    return n;
}

static void build(struct steno_words *w, steno_tokens *t, const int *tok, size_t n, size_t stable)
{
    struct steno_span s[32];
    assert_int_equal(steno_words_build(w, t, s, spans(s, tok, n), stable), STENO_OK);
}

static void pieces_join_into_words_with_their_frames(void **state)
{
    (void)state;
    steno_tokens *t = vocab(pieces, "<blk> <unk>");
    struct steno_words w;
    steno_words_init(&w);
    build(&w, t, (int[]){1, 2, 4, 3}, 4, 4);
    assert_string_equal(w.line.data, "forty two");
    assert_int_equal(w.n, 2);
    assert_string_equal(w.words.data + w.w[0].text, "forty");
    assert_string_equal(w.words.data + w.w[1].text, "two");
    assert_int_equal(w.w[0].first, 0);
    assert_int_equal(w.w[0].last, 13);
    assert_int_equal(w.w[1].first, 30);
    assert_int_equal(w.w[0].end, 5);
    steno_words_free(&w);
    steno_tokens_close(t);
}

static void confidence_is_the_geometric_mean_of_the_peaks(void **state)
{
    (void)state;
    steno_tokens *t = vocab(pieces, "<blk> <unk>");
    struct steno_span s[3] = {{.token = 1, .peak = logf(0.9f)},
                              {.token = 2, .peak = logf(0.4f)},
                              {.token = 3, .peak = logf(0.8f)}};
    struct steno_words w;
    steno_words_init(&w);
    assert_int_equal(steno_words_build(&w, t, s, 3, 3), STENO_OK);
    assert_float_equal(w.w[0].confidence, 0.6f, 1e-6f);
    assert_float_equal(w.w[1].confidence, 0.8f, 1e-6f);
    assert_float_equal(w.confidence, sqrtf(0.48f), 1e-6f);
    assert_int_equal(steno_words_build(&w, t, s, 0, 0), STENO_OK);
    assert_int_equal(w.n, 0);
    assert_float_equal(w.confidence, 0.0f, 0.0f);
    steno_words_free(&w);
    steno_tokens_close(t);
}

static void last_word_closes_when_nothing_can_be_added(void **state)
{
    (void)state;
    steno_tokens *p = vocab(pieces, "<blk> <unk>"), *d = vocab(whole, "<blk> <unk>");
    struct steno_words w;
    steno_words_init(&w);
    build(&w, p, (int[]){1, 2, 3}, 3, 3); /* "two" could still become "twofold" */
    assert_int_equal(w.stable_words, 1);
    assert_int_equal(w.stable_bytes, strlen("forty"));
    /* the third token is not committed, so the end of "forty" is open too */
    build(&w, p, (int[]){1, 2, 3}, 3, 2);
    assert_int_equal(w.stable_words, 0);
    build(&w, d, (int[]){1, 2, 1}, 3, 3);
    assert_int_equal(w.stable_words, 3);
    build(&w, d, (int[]){1, 2, 1}, 3, 2);
    assert_int_equal(w.stable_words, 2);
    assert_int_equal(w.stable_bytes, strlen("one two"));
    build(&w, d, (int[]){1, 3, 1}, 3, 1);
    assert_int_equal(w.stable_words, 1);
    build(&w, d, (int[]){3, 1}, 2, 0);
    assert_int_equal(w.stable_words, 0);
    assert_int_equal(w.stable_bytes, 0);
    steno_words_free(&w);
    steno_tokens_close(p);
    steno_tokens_close(d);
}

static void ideographs_are_words_without_spaces(void **state)
{
    (void)state;
    steno_tokens *t = vocab(pieces, "<blk> <unk>");
    struct steno_words w;
    steno_words_init(&w);
    build(&w, t, (int[]){5, 6, 3, 5, 2}, 5, 5);
    assert_string_equal(w.line.data, "中国 two中ty");
    assert_int_equal(w.n, 5);
    steno_words_free(&w);
    steno_tokens_close(t);
}

/* The texts that sherpa-onnx makes of such pieces (offline-recognizer-paraformer-impl.h). */
static void pieces_with_joining_marks_go_on_in_the_next(void **state)
{
    (void)state;
    steno_tokens *t = vocab("<blank> 0\nof@@ 1\nbe@@ 2\nnot 3\n子 4\n得 5\ner 6\n", "");
    struct steno_words w;
    steno_tokens_set_joining(t);
    steno_words_init(&w);
    build(&w, t, (int[]){3, 5, 5, 2, 4, 3, 3, 4}, 8, 8);
    assert_string_equal(w.line.data, "not 得得 be 子 not not 子");
    assert_int_equal(w.n, 8);
    build(&w, t, (int[]){4, 1, 1, 6, 3, 1}, 6, 5);
    assert_string_equal(w.line.data, "子 ofofer not of");
    assert_int_equal(w.n, 4);
    assert_int_equal(w.stable_words, 2);
    steno_words_free(&w);
    steno_tokens_close(t);
}

static void bytes_join_into_characters_and_broken_ones_are_replaced(void **state)
{
    (void)state;
    steno_tokens *t = vocab(pieces, "<blk> <unk>");
    struct steno_words w;
    steno_words_init(&w);
    build(&w, t, (int[]){10, 8, 9}, 3, 3);
    assert_string_equal(w.line.data, "café");
    build(&w, t, (int[]){10, 8, 3}, 3, 3);
    assert_string_equal(w.line.data, "caf\xEF\xBF\xBD two");
    build(&w, t, (int[]){9, 9}, 2, 2);
    assert_string_equal(w.line.data, "\xEF\xBF\xBD\xEF\xBF\xBD");
    steno_words_free(&w);
    steno_tokens_close(t);
}

/* Byte-level pieces of "丽 丽 HI": the spaces are as in sherpa-onnx (DecodeByteBpe of its
 * symbol-table.cc), and a character that is cut off is not written. */
static void byte_level_pieces_make_characters_without_spaces_behind_them(void **state)
{
    static const char bytes[] = "<blk> 0\n▁ƋŞţ 1\n▁ƋŞ 2\nţ 3\n▁HI 4\n▁ 5\n";
    (void)state;
    steno_tokens *t = vocab(bytes, "<blk>");
    struct steno_words w;
    steno_words_init(&w);
    build(&w, t, (int[]){1, 2, 3, 4, 4, 1}, 6, 6);
    assert_string_equal(w.line.data, "丽丽HI HI 丽");
    assert_int_equal(w.n, 5);
    build(&w, t, (int[]){1, 2}, 2, 2);
    assert_string_equal(w.line.data, "丽");
    build(&w, t, (int[]){4, 2, 4}, 3, 3);
    assert_string_equal(w.line.data, "HI HI");
    build(&w, t, (int[]){4, 3, 5, 1}, 4, 4);
    assert_string_equal(w.line.data, "HI 丽");
    steno_words_free(&w);
    steno_tokens_close(t);
}

static void lone_word_marks_make_no_words(void **state)
{
    (void)state;
    steno_tokens *t = vocab(pieces, "<blk> <unk>");
    struct steno_words w;
    steno_words_init(&w);
    build(&w, t, (int[]){7, 7, 3, 7}, 4, 4);
    assert_string_equal(w.line.data, "two");
    build(&w, t, (int[]){7, 2}, 2, 2);
    assert_string_equal(w.line.data, "ty");
    steno_words_free(&w);
    steno_tokens_close(t);
}

static void check_words(steno_tokens *t, const int *tok, size_t n, const char *line,
                        const char *words)
{
    struct steno_words w;
    char got[200] = "";
    steno_words_init(&w);
    build(&w, t, tok, n, n);
    for (size_t i = 0; i < w.n; i++)
        strcat(strcat(got, i ? "|" : ""), w.words.data + w.w[i].text);
    assert_string_equal(w.line.data, line);
    assert_string_equal(got, words);
    steno_words_free(&w);
}

#define WORDS(t, line, words, ...)                                                                 \
    check_words(t, (const int[]){__VA_ARGS__}, sizeof(const int[]){__VA_ARGS__} / sizeof(int),     \
                line, words)

/* Text of two scripts, as Whisper writes it: pieces of several ideographs, of bytes, of marks. */
static void scripts_part_words_and_marks_do_not(void **state)
{
    (void)state;
    steno_tokens *t = vocab("▁today 0\n? 1\n今天 2\n天 3\n。 4\nok 5\n▁( 6\n) 7\n<0xE6> 8\n"
                            "<0xA8> 9\n<0xA3> 10\n' 11\ns 12\n¿ 13\nで 14\n",
                            "");
    WORDS(t, "today?今天", "today?|今天", 0, 1, 2);
    WORDS(t, "今天天? today", "今天|天?|today", 2, 3, 1, 0);
    WORDS(t, "天。天。", "天。|天。", 3, 4, 3, 4);
    WORDS(t, "天okで", "天|ok|で", 3, 5, 14);
    WORDS(t, "today (天)ok", "today|(|天)|ok", 0, 6, 3, 7, 5);
    WORDS(t, "today's?", "today's?", 0, 11, 12, 1);
    WORDS(t, "天樣樣? today樣", "天|樣|樣?|today|樣", 3, 8, 9, 10, 8, 9, 10, 1, 0, 8, 9, 10);
    WORDS(t, "天¿ok", "天|¿ok", 3, 13, 5);
    steno_tokens_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_join_into_words_with_their_frames),
        cmocka_unit_test(confidence_is_the_geometric_mean_of_the_peaks),
        cmocka_unit_test(last_word_closes_when_nothing_can_be_added),
        cmocka_unit_test(ideographs_are_words_without_spaces),
        cmocka_unit_test(pieces_with_joining_marks_go_on_in_the_next),
        cmocka_unit_test(bytes_join_into_characters_and_broken_ones_are_replaced),
        cmocka_unit_test(byte_level_pieces_make_characters_without_spaces_behind_them),
        cmocka_unit_test(lone_word_marks_make_no_words),
        cmocka_unit_test(scripts_part_words_and_marks_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
