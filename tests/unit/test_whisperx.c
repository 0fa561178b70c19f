/* whisperX's JSON, and the lines of a text. The members and their order are those of whisperX's
 * alignment.py and of its writer: a word that was not aligned has no times and no score. */
#include <stdlib.h>
#include <string.h>

#include "protocol/text_lines.h"
#include "protocol/whisperx.h"
#include "tests/support/test.h"

static const struct steno_word words[] = {
    {"Call", 0.5, 0.75, 0.9F}, {"-", 0.75, 0.75, 0}, {"$20", 1, 1.5, 0.25F}, {"\"ok\"", 2, 2.5, 1}};
static const struct steno_token tokens[] = {
    {3, 0.5F, 0.5, 0.52}, {-1, 0.25F, 1, 1.5}, {9, 0, 0, 0}};
static const int32_t places[] = {0, 1, 7, 10, 10, 10};

static steno_transcript *two_segments(void)
{
    const struct steno_section sections[] = {
        {.start = 0.5,
         .end = 1.5,
         .text = "Call - $20",
         .n_words = 3,
         .n_tokens = 3,
         .ids = places,
         .n_ids = 6},
        {.start = 2, .end = 2.5, .text = "\"ok\"", .first_word = 3, .n_words = 1}};
    const struct steno_event ev = {.kind = STENO_FINAL,
                                   .text = "Call - $20\n\"ok\"",
                                   .language = "",
                                   .words = words,
                                   .n_words = 4,
                                   .tokens = tokens,
                                   .n_tokens = 3,
                                   .sections = sections,
                                   .n_sections = 2};
    steno_transcript *t = steno_transcript_new(0);
    assert_non_null(t);
    assert_int_equal(steno_transcript_add(t, &ev, NULL), STENO_OK);
    return t;
}

static void expect(const steno_transcript *t, const char *language, bool chars, const char *text)
{
    struct steno_buf b;
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_whisperx_write(&b, t, language, chars), STENO_OK);
    assert_string_equal(b.data, text);
    steno_buf_free(&b);
}

#define SAID(speaker)                                                                              \
    "{\"word\":\"Call\",\"start\":0.5,\"end\":0.75,\"score\":0.900" speaker                        \
    "},{\"word\":\"-\"" speaker                                                                    \
    "},{\"word\":\"$20\",\"start\":1,\"end\":1.5,\"score\":0.250" speaker "}"
#define OK(speaker) "{\"word\":\"\\\"ok\\\"\",\"start\":2,\"end\":2.5,\"score\":1.000" speaker "}"

static void words_and_characters_as_whisperx_has_them(void **state)
{
    steno_transcript *t = two_segments();
    (void)state;
    expect(
        t, "en", true,
        "{\"segments\":[{\"start\":0.5,\"end\":1.5,\"text\":\"Call - $20\",\"words\":[" SAID(
            "") "],\"chars\":[{\"char\":\"C\",\"start\":0.5,\"end\":0.52,\"score\":0.500},"
                "{\"char\":\"$20\",\"start\":1,\"end\":1.5,\"score\":0.250}]},"
                "{\"start\":2,\"end\":2.5,\"text\":\"\\\"ok\\\"\",\"words\":[" OK(
                    "") "],\"chars\":[]}],\"word_segments\":[" SAID("") "," OK("") "],\"language\":"
                                                                                   "\"en\"}");
    steno_transcript_free(t);
}

static void speakers_have_labels_or_names(void **state)
{
    steno_transcript *t = two_segments();
    struct steno_attribution *voice = calloc(2, sizeof *voice);
    (void)state;
    assert_non_null(voice);
    voice[0].speaker = 1;
    voice[1].speaker = 2;
    steno_transcript_take_voices(t, voice, 2);
    assert_int_equal(steno_transcript_name_speaker(t, 2, "Ann"), STENO_OK);
#define FIRST ",\"speaker\":\"SPEAKER_00\""
#define ANN ",\"speaker\":\"Ann\""
    expect(t, NULL, false,
           "{\"segments\":[{\"start\":0.5,\"end\":1.5,\"text\":\"Call - $20\"" FIRST
           ",\"words\":[" SAID(FIRST) "]},{\"start\":2,\"end\":2.5,\"text\":\"\\\"ok\\\"\"" ANN
                                      ",\"words\":[" OK(ANN) "]}],\"word_segments\":[" SAID(
                                          FIRST) "," OK(ANN) "],\"language\":\"\"}");
    steno_transcript_free(t);
}

static void nothing_said(void **state)
{
    steno_transcript *t = steno_transcript_new(0);
    (void)state;
    assert_non_null(t);
    expect(t, "de", true, "{\"segments\":[],\"word_segments\":[],\"language\":\"de\"}");
    steno_transcript_free(t);
}

static void texts_are_cut_into_lines(void **state)
{
    struct steno_text_lines l;
    (void)state;
    assert_int_equal(steno_text_lines_cut(&l, "a b\r\n\nc\rd\n", 10, NULL), STENO_OK);
    assert_int_equal(l.n, 4);
    assert_string_equal(l.lines[0].text, "a b");
    assert_string_equal(l.lines[1].text, "");
    assert_string_equal(l.lines[2].text, "c\rd");
    assert_string_equal(l.lines[3].text, "");
    steno_text_lines_free(&l);
    assert_int_equal(steno_text_lines_cut(&l, "", 0, NULL), STENO_OK);
    assert_int_equal(l.n, 1);
    steno_text_lines_free(&l);
    assert_int_equal(steno_text_lines_cut(&l, "a\0b", 3, NULL), STENO_ERR_INVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_characters_as_whisperx_has_them),
        cmocka_unit_test(speakers_have_labels_or_names),
        cmocka_unit_test(nothing_said),
        cmocka_unit_test(texts_are_cut_into_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
