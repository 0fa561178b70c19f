/* Words get speakers: transcripts with the turns of a recording. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/result_json.h"
#include "protocol/subtitle.h"
#include "protocol/voices.h"
#include "tests/support/test.h"

#define MOST 32

/* Add a final whose words, one a second from `start` on, are those of the text. */
static void add(steno_transcript *t, const char *text, double start)
{
    struct steno_word w[MOST];
    char copy[256], *save = NULL;
    struct steno_event ev = {.kind = STENO_FINAL, .text = text, .start = start, .words = w};
    ev.language = "";
    snprintf(copy, sizeof copy, "%s", text);
    for (char *p = strtok_r(copy, " ", &save); p; p = strtok_r(NULL, " ", &save)) {
        const double at = start + (double)ev.n_words;
        w[ev.n_words++] = (struct steno_word){p, at, at + 1, 0.5f};
    }
    ev.end = start + (double)ev.n_words;
    assert_int_equal(steno_transcript_add(t, &ev, NULL), STENO_OK);
}

/* "1: text|2: text|..." of segments. */
static const char *voices_of(const char *text, const struct steno_turn *turn, size_t n)
{
    static char out[512];
    steno_transcript *t = steno_transcript_new(0), *v;
    size_t at = 0;
    add(t, text, 0);
    v = steno_transcript_with_voices(t, turn, n, NULL);
    assert_non_null(v);
    *out = '\0';
    for (size_t i = 0; i < steno_transcript_n_segments(v); i++) {
        const struct steno_event *seg = steno_transcript_segment(v, i);
        at += (size_t)snprintf(out + at, sizeof out - at, "%s%u: %s", i ? "|" : "",
                               steno_transcript_segment_speaker(v, i), seg->text);
        assert_true(seg->n_words > 0 && seg->start == seg->words[0].start &&
                    seg->end == seg->words[seg->n_words - 1].end);
    }
    steno_transcript_free(t);
    steno_transcript_free(v);
    return out;
}

static void a_word_has_the_speaker_at_its_middle(void **state)
{
    static const struct steno_turn t[] = {{0, 2.4, 1}, {2.4, 6, 0}};
    (void)state;
    assert_string_equal(voices_of("a b c d e f", t, 2), "1: a b|2: c d e f");
}

static void a_word_in_a_gap_has_the_nearest_turn(void **state)
{
    static const struct steno_turn t[] = {{1, 2, 0}, {4.9, 6, 1}};
    (void)state;
    assert_string_equal(voices_of("a b c d e f g h", t, 2), "1: a b c|2: d e f g h");
}

static void a_change_moves_to_the_end_of_a_sentence(void **state)
{
    static const struct steno_turn early[] = {{0, 2, 0}, {2, 9, 1}};
    static const struct steno_turn late[] = {{0, 4, 0}, {4, 9, 1}};
    static const struct steno_turn far[] = {{0, 6, 0}, {6, 9, 1}};
    (void)state;
    assert_string_equal(voices_of("a b c. d e f g h i", early, 2), "1: a b c.|2: d e f g h i");
    assert_string_equal(voices_of("a b c.\" d e f g h i", late, 2), "1: a b c.\"|2: d e f g h i");
    assert_string_equal(voices_of("a b c. d e f g h i", far, 2), "1: a b c. d e f|2: g h i");
}

/* "no." is all that the other one says. */
static void a_sentence_end_takes_no_speaker_away(void **state)
{
    static const struct steno_turn t[] = {{0, 3, 0}, {3, 4, 1}, {4, 9, 0}};
    (void)state;
    assert_string_equal(voices_of("a b c no. d e", t, 3), "1: a b c|2: no.|1: d e");
}

static void words_of_scripts_without_blanks_stay_together(void **state)
{
    static const struct steno_turn t[] = {{0, 2, 0}, {2, 9, 1}};
    struct steno_word w[] = {
        {"\u4f60", 0, 1, 1}, {"\u597d", 1, 2, 1}, {"\u518d", 2, 3, 1}, {"\u89c1", 3, 4, 1}};
    struct steno_event ev = {.kind = STENO_FINAL, .text = "\u4f60\u597d\u518d\u89c1", .end = 4};
    steno_transcript *all = steno_transcript_new(0), *v;
    (void)state;
    ev.words = w;
    ev.n_words = 4;
    ev.language = "";
    assert_int_equal(steno_transcript_add(all, &ev, NULL), STENO_OK);
    v = steno_transcript_with_voices(all, t, 2, NULL);
    assert_int_equal(steno_transcript_n_segments(v), 2);
    assert_string_equal(steno_transcript_segment(v, 0)->text, "\u4f60\u597d");
    assert_string_equal(steno_transcript_segment(v, 1)->text, "\u518d\u89c1");
    steno_transcript_free(all);
    steno_transcript_free(v);
}

static void segments_without_words_have_the_speaker_of_their_middle(void **state)
{
    static const struct steno_turn t[] = {{0, 2, 0}, {2, 9, 1}};
    struct steno_event ev = {.kind = STENO_FINAL, .text = "no times", .start = 1, .end = 8};
    steno_transcript *all = steno_transcript_new(0), *v;
    (void)state;
    ev.language = "";
    assert_int_equal(steno_transcript_add(all, &ev, NULL), STENO_OK);
    v = steno_transcript_with_voices(all, t, 2, NULL);
    assert_int_equal(steno_transcript_segment_speaker(v, 0), 1); /* the first one that says words */
    assert_int_equal(steno_transcript_n_speakers(v), 1);
    steno_transcript_free(v);
    v = steno_transcript_with_voices(all, t, 0, NULL); /* nobody was heard */
    assert_int_equal(steno_transcript_segment_speaker(v, 0), 0);
    assert_int_equal(steno_transcript_n_speakers(v), 0);
    steno_transcript_free(v);
    steno_transcript_free(all);
}

/* Speakers by the second: '.' = not known. */
static int who_in(const void *ctx, double seconds)
{
    const char *who = ctx;
    const char c = who[(size_t)seconds];
    return c == '.' ? -1 : c - '0';
}

/* "speaker: text|..." of a final whose words, one a second, are those of the text. */
static const char *divided(const char *text, size_t n_words, const char *who)
{
    static char out[512];
    static const char *const one[] = {"a", "b.", "c", "d", "e", "f"};
    struct steno_word w[6];
    struct steno_event ev = {
        .kind = STENO_FINAL, .text = text, .end = 4, .words = w, .n_words = n_words};
    struct steno_voiced *v;
    struct steno_live_voices voices = {0};
    size_t n, used = 0, at = 0;
    for (size_t i = 0; i < n_words; i++)
        w[i] = (struct steno_word){one[i], (double)i, (double)i + 1, 0.5f};
    assert_int_equal(steno_voices_divide(&ev, who_in, who, &v, &n), STENO_OK);
    *out = '\0';
    for (size_t i = 0; i < n; i++) {
        struct steno_buf b;
        steno_buf_init(&b, 100);
        assert_int_equal(steno_voices_put_words(&b, &ev, v[i].word, v[i].n_words, &at), STENO_OK);
        used += (size_t)snprintf(out + used, sizeof out - used, "%s%d: %s", i ? "|" : "",
                                 v[i].speaker, b.data ? b.data : "");
        steno_buf_free(&b);
    }
    voices.part = v;
    voices.n_parts = n;
    assert_int_equal(steno_live_voice_at(&voices, 0), n ? (unsigned)v[0].speaker + 1 : 0);
    assert_int_equal(steno_live_voice_at(&voices, 99), n ? (unsigned)v[n - 1].speaker + 1 : 0);
    free(v);
    return out;
}

static void a_final_is_divided_by_who_talks(void **state)
{
    (void)state;
    assert_string_equal(divided("a b. c d e f", 6, "001111"), "0: a b.|1: c d e f");
    assert_string_equal(divided("a b. c d e f", 6, "000111"), "0: a b.|1: c d e f"); /* snapped */
    assert_string_equal(divided("a b. c d e f", 6, "..1..0"), "1: a b. c d e|0: f");
    assert_string_equal(divided("a b. c d", 4, "...."), "");
    assert_string_equal(divided("", 0, "000000"), "");
    assert_string_equal(divided("no words", 0, "..3..."), "3: ");
    assert_int_equal(steno_live_voice_at(NULL, 1), 0);
}

static void no_cue_and_no_json_segment_has_two_speakers(void **state)
{
    static const struct steno_turn t[] = {{0, 2, 4}, {2, 3, 2}};
    steno_transcript *all = steno_transcript_new(0), *v;
    struct steno_buf b;
    (void)state;
    add(all, "a b c", 0);
    steno_transcript_set_duration(all, 3);
    v = steno_transcript_with_voices(all, t, 2, NULL);
    steno_buf_init(&b, 10000);
    assert_int_equal(steno_subtitle_write(&b, v, STENO_VTT, NULL), STENO_OK);
    assert_string_equal(b.data, "WEBVTT\n\n00:00:00.000 --> 00:00:02.000\n<v Speaker 1>a b\n\n"
                                "00:00:02.000 --> 00:00:03.000\n<v Speaker 2>c\n");
    steno_buf_reset(&b);
    assert_int_equal(steno_subtitle_write(&b, v, STENO_SRT, NULL), STENO_OK);
    assert_string_equal(b.data, "1\n00:00:00,000 --> 00:00:02,000\nSpeaker 1: a b\n\n"
                                "2\n00:00:02,000 --> 00:00:03,000\nSpeaker 2: c\n");
    steno_buf_reset(&b);
    assert_int_equal(
        steno_result_json_write(&b, v, &(struct steno_result_json_options){.no_words = true}),
        STENO_OK);
    assert_string_equal(b.data, "{\"text\":\"a b c\",\"duration\":3.0,\"confidence\":0.5,"
                                "\"speakers\":2,\"segments\":["
                                "{\"text\":\"a b\",\"speaker\":1,\"start\":0.0,\"end\":2.0,"
                                "\"confidence\":0.5,\"reason\":\"endpoint\"},"
                                "{\"text\":\"c\",\"speaker\":2,\"start\":2.0,\"end\":3.0,"
                                "\"confidence\":0.5,\"reason\":\"endpoint\"}]}");
    steno_buf_free(&b);
    steno_transcript_free(all);
    steno_transcript_free(v);
}

static void text_has_a_line_for_each_turn(void **state)
{
    static const struct steno_turn t[] = {{0, 2, 1}, {2, 4, 0}, {4, 6, 1}};
    steno_transcript *all = steno_transcript_new(0), *v;
    struct steno_buf b;
    (void)state;
    add(all, "a b", 0);
    add(all, "c d", 2);
    add(all, "e f", 4);
    v = steno_transcript_with_voices(all, t, 3, NULL);
    steno_buf_init(&b, 1000);
    assert_int_equal(steno_voices_write_text(&b, v), STENO_OK);
    assert_string_equal(b.data, "Speaker 1: a b\nSpeaker 2: c d\nSpeaker 1: e f");
    steno_buf_free(&b);
    steno_buf_init(&b, 20);
    assert_int_equal(steno_voices_write_text(&b, v), STENO_ERR_LIMIT);
    steno_buf_free(&b);
    assert_int_equal(steno_transcript_voice_at(v, -1).speaker, 1);
    assert_int_equal(steno_transcript_voice_at(v, 3.5).speaker, 2);
    assert_int_equal(steno_transcript_voice_at(v, 99).speaker, 1);
    assert_int_equal(steno_transcript_voice_at(all, 0).speaker, 0);
    steno_transcript_free(v);
    steno_transcript_free(all);
}

/* The share of a segment in which its speaker has a turn. */
static void confidence_is_what_turns_cover(void **state)
{
    static const struct steno_turn t[] = {{0, 1, 0}, {1.5, 2, 0}, {3, 3.5, 0}, {6, 7, 1}};
    steno_transcript *all = steno_transcript_new(0), *v;
    (void)state;
    add(all, "a b c d", 0);
    v = steno_transcript_with_voices(all, t, 4, NULL);
    assert_int_equal(steno_transcript_n_segments(v), 1);
    assert_true(steno_transcript_voice_at(v, 0).confidence == 0.5f);
    steno_transcript_free(v);
    steno_transcript_free(all);
}

static void speakers_of_channels_are_numbered_through(void **state)
{
    static const struct steno_turn t[] = {{0, 2, 0}, {2, 4, 1}};
    steno_transcript *all = steno_transcript_new(0), *silent = steno_transcript_new(0), *list[4];
    steno_transcript *v;
    (void)state;
    add(all, "a b c d", 0);
    list[0] = steno_transcript_with_voices(silent, t, 2, NULL);
    list[1] = steno_transcript_with_voices(all, t, 2, NULL);
    list[2] = steno_transcript_with_voices(all, t, 0, NULL); /* nobody was heard */
    list[3] = steno_transcript_with_voices(all, t, 2, NULL);
    v = steno_transcript_of_channels(list, 4);
    assert_int_equal(steno_transcript_n_speakers(v), 4);
    for (size_t i = 0; i < steno_transcript_n_segments(v); i++) {
        const unsigned channel = steno_transcript_segment_channel(v, i);
        const unsigned first = channel == 2 ? 1 : channel == 4 ? 3 : 0;
        const unsigned later = first && steno_transcript_segment(v, i)->start > 0 ? 1 : 0;
        assert_int_equal(steno_transcript_segment_speaker(v, i), first + later);
    }
    assert_int_equal(steno_transcript_voice_at(steno_transcript_channel(v, 3), 3).speaker, 4);
    steno_transcript_free(v);
    steno_transcript_free(silent);
    steno_transcript_free(all);
}

static void requests_are_checked(void **state)
{
    struct steno_voices_wants w = {0};
    const char *param;
    steno_err err;
    (void)state;
    assert_true(steno_voices_known("max_speakers") && !steno_voices_known("speakers"));
    assert_int_equal(steno_voices_set(&w, "num_speakers", "0", &err), STENO_ERR_INVAL);
    assert_int_equal(steno_voices_set(&w, "num_speakers", "1001", &err), STENO_ERR_INVAL);
    assert_int_equal(steno_voices_set(&w, "min_speakers", "3", &err), STENO_OK);
    assert_int_equal(steno_voices_check(&w, &param, &err), STENO_ERR_INVAL);
    assert_string_equal(err.msg, "min_speakers: needs diarize=true");
    assert_int_equal(steno_voices_set(&w, "diarize", "true", &err), STENO_OK);
    assert_int_equal(steno_voices_check(&w, &param, &err), STENO_OK);
    assert_int_equal(steno_voices_set(&w, "max_speakers", "2", &err), STENO_OK);
    assert_int_equal(steno_voices_check(&w, &param, &err), STENO_ERR_INVAL);
    assert_string_equal(param, "min_speakers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_has_the_speaker_at_its_middle),
        cmocka_unit_test(a_word_in_a_gap_has_the_nearest_turn),
        cmocka_unit_test(a_change_moves_to_the_end_of_a_sentence),
        cmocka_unit_test(a_sentence_end_takes_no_speaker_away),
        cmocka_unit_test(words_of_scripts_without_blanks_stay_together),
        cmocka_unit_test(segments_without_words_have_the_speaker_of_their_middle),
        cmocka_unit_test(a_final_is_divided_by_who_talks),
        cmocka_unit_test(no_cue_and_no_json_segment_has_two_speakers),
        cmocka_unit_test(text_has_a_line_for_each_turn),
        cmocka_unit_test(confidence_is_what_turns_cover),
        cmocka_unit_test(speakers_of_channels_are_numbered_through),
        cmocka_unit_test(requests_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
