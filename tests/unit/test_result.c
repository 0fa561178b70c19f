/* Transcripts, subtitles, JSON. The subtitle forms follow the WebVTT standard (section 4) and
 * the SubRip files of VLC and FFmpeg. The cases are written by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "protocol/result_json.h"
#include "protocol/subtitle.h"
#include "tests/support/test.h"

static struct steno_word hello[] = {
    {"one", 0.5, 0.8, 0.9f}, {"two", 1.0, 1.25, 0.4f}, {"three", 3.5, 3.9996, 1.0f}};

static struct steno_event final_of(const char *text, struct steno_word *w, size_t n)
{
    return (struct steno_event){.kind = STENO_FINAL,
                                .text = text,
                                .words = w,
                                .n_words = n,
                                .start = w[0].start,
                                .end = w[n - 1].end,
                                .confidence = 0.5f,
                                .reason = STENO_FINAL_END};
}

static steno_transcript *transcript(const char *text, struct steno_word *w, size_t n)
{
    steno_transcript *t = steno_transcript_new(0);
    struct steno_event ev = final_of(text, w, n);
    assert_non_null(t);
    assert_int_equal(steno_transcript_add(t, &ev, NULL), STENO_OK);
    return t;
}

static char *subtitle(steno_transcript *t, enum steno_subtitle_format f,
                      const struct steno_subtitle_options *o)
{
    struct steno_buf b;
    steno_buf_init(&b, 1 << 20);
    assert_int_equal(steno_subtitle_write(&b, t, f, o), STENO_OK);
    return steno_buf_take(&b, NULL);
}

static void check_subtitle(steno_transcript *t, enum steno_subtitle_format f,
                           const struct steno_subtitle_options *o, const char *want)
{
    char *got = subtitle(t, f, o);
    assert_string_equal(got ? got : "", want);
    free(got);
}

/* Each section is a segment with its own words; the text of the whole has the model's blanks. */
static void sections_of_a_final_become_segments(void **state)
{
    static const struct steno_token tokens[] = {{.id = 1}, {.id = 2}, {.id = 3}};
    const struct steno_section sections[] = {
        {.start = 0.5, .end = 1.25, .text = " one two", .n_words = 2, .n_tokens = 2},
        {.start = 2, .end = 2, .text = " "},
        {.start = 3,
         .end = 4,
         .text = "three",
         .first_word = 2,
         .n_words = 1,
         .first_token = 2,
         .n_tokens = 1,
         .score = -2}};
    struct steno_event ev = final_of("one twothree", hello, 3);
    steno_transcript *t = steno_transcript_new(0);
    const struct steno_event *last;
    float probability;
    (void)state;
    ev.n_sections = 3;
    ev.sections = sections;
    ev.n_tokens = 3;
    ev.tokens = tokens;
    ev.language = "th";
    ev.language_probability = 0.5f;
    assert_int_equal(steno_transcript_add(t, &ev, NULL), STENO_OK);
    assert_int_equal(steno_transcript_n_segments(t), 2);
    assert_string_equal(steno_transcript_text(t), "one twothree");
    assert_string_equal(steno_transcript_segment(t, 0)->text, "one two");
    assert_int_equal(steno_transcript_segment(t, 0)->n_words, 2);
    last = steno_transcript_segment(t, 1);
    assert_string_equal(last->text, "three");
    assert_string_equal(last->words[0].text, "three");
    assert_int_equal(last->tokens[0].id, 3);
    assert_true(last->start == 3 && last->end == 4 && last->alternatives[0].score == -2);
    assert_string_equal(steno_transcript_language(t, &probability), "th");
    assert_true(probability == 0.5f);
    assert_int_equal(steno_transcript_add(t, &ev, NULL), STENO_OK); /* now the blank counts */
    assert_string_equal(steno_transcript_text(t), "one twothree one twothree");
    steno_transcript_free(t);
}

static void finals_with_text_are_kept_in_order(void **state)
{
    (void)state;
    steno_transcript *t = transcript("one two three", hello, 3);
    struct steno_event ev = final_of("one", hello, 1), partial = ev, empty = ev;
    char text[] = "six";
    struct steno_word w[] = {{text, 5, 6, 0.25f}};
    partial.kind = STENO_PARTIAL;
    empty.text = "";
    assert_int_equal(steno_transcript_add(t, &partial, NULL), STENO_OK);
    assert_int_equal(steno_transcript_add(t, &empty, NULL), STENO_OK);
    ev = final_of(text, w, 1);
    assert_int_equal(steno_transcript_add(t, &ev, NULL), STENO_OK);
    memcpy(text, "xxx", 3); /* the transcript has its own copy */
    assert_int_equal(steno_transcript_n_segments(t), 2);
    assert_string_equal(steno_transcript_text(t), "one two three six");
    assert_string_equal(steno_transcript_segment(t, 1)->words[0].text, "six");
    assert_float_equal(steno_transcript_confidence(t), 0.547723f, 1e-5f); /* (.9*.4*1*.25)^(1/4) */
    steno_transcript_free(t);
}

static void a_transcript_stays_within_its_limit(void **state)
{
    (void)state;
    steno_transcript *t = steno_transcript_new(100000);
    struct steno_event ev = final_of("one two three", hello, 3);
    steno_status st = STENO_OK;
    size_t n = 0;
    while (!st && n < 10000) {
        st = steno_transcript_add(t, &ev, NULL);
        n += !st;
    }
    assert_int_equal(st, STENO_ERR_LIMIT);
    assert_int_equal(steno_transcript_n_segments(t), n);
    assert_int_equal(strlen(steno_transcript_text(t)), n * 14 - 1);
    steno_transcript_free(t);
}

static void srt_has_numbers_commas_and_cuts_at_pauses(void **state)
{
    (void)state;
    steno_transcript *t = transcript("one two three", hello, 3);
    check_subtitle(t, STENO_SRT, NULL,
                   "1\n00:00:00,500 --> 00:00:01,500\none two\n\n"
                   "2\n00:00:03,500 --> 00:00:04,500\nthree\n");
    steno_transcript_free(t);
}

static void vtt_has_a_header_and_dots(void **state)
{
    (void)state;
    steno_transcript *t = transcript("one two three", hello, 3);
    check_subtitle(t, STENO_VTT, &(struct steno_subtitle_options){.pause_seconds = 10},
                   "WEBVTT\n\n00:00:00.500 --> 00:00:04.000\none two three\n");
    check_subtitle(t, STENO_VTT, &(struct steno_subtitle_options){.max_seconds = 0.9},
                   "WEBVTT\n\n00:00:00.500 --> 00:00:01.400\none two\n\n"
                   "00:00:03.500 --> 00:00:04.400\nthree\n");
    steno_transcript_free(t);
}

static void a_word_too_wide_for_a_line_has_its_own(void **state)
{
    (void)state;
    struct steno_word w[] = {{"aaaa", 0, 1, 1},
                             {"bbbb", 1, 2, 1},
                             {"cccc", 2, 3, 1},
                             {"ddddé", 3, 4, 1},
                             {"eeeeeeeeeeeeeee", 4, 5, 1}};
    steno_transcript *t = transcript("aaaa bbbb cccc ddddé eeeeeeeeeeeeeee", w, 5);
    check_subtitle(t, STENO_SRT, &(struct steno_subtitle_options){.line_chars = 10},
                   "1\n00:00:00,000 --> 00:00:04,000\naaaa bbbb\ncccc ddddé\n\n"
                   "2\n00:00:04,000 --> 00:00:05,000\neeeeeeeeeeeeeee\n");
    steno_transcript_free(t);
}

static void options_have_the_names_of_whisper(void **state)
{
    static const struct {
        const char *name, *value;
        steno_status st;
        const char *why;
    } rows[] = {{"max_line_width", "20", STENO_OK, NULL},
                {"max_line_count", "1", STENO_OK, NULL},
                {"max_words_per_line", "3", STENO_OK, NULL},
                {"highlight_words", "true", STENO_OK, NULL},
                {"max_line_count", "0", STENO_ERR_INVAL, "max_line_count: "},
                {"highlight_words", "often", STENO_ERR_INVAL, "highlight_words: "},
                {"max_lines", "1", STENO_ERR_INVAL, "max_lines is none of max_line_width, "}};
    struct steno_subtitle_options o = {0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        steno_err err = {0};
        assert_int_equal(steno_subtitle_option_set(&o, rows[i].name, rows[i].value, &err),
                         rows[i].st);
        assert_true(!rows[i].why || !strncmp(err.msg, rows[i].why, strlen(rows[i].why)));
    }
    assert_true(o.line_chars == 20 && o.lines == 1 && o.line_words == 3 && o.highlight);
    assert_true(steno_subtitle_option_known("max_line_width"));
    assert_false(steno_subtitle_option_known("max_len"));
}

static void words_are_underlined_while_they_are_heard(void **state)
{
    struct steno_word w[] = {{"one", 0, 0.5, 1}, {"two", 0.75, 1, 1}, {"three", 1, 2, 1}};
    steno_transcript *t = transcript("one two three", w, 3);
    (void)state;
    check_subtitle(t, STENO_VTT,
                   &(struct steno_subtitle_options){.highlight = true, .line_words = 2},
                   "WEBVTT\n\n00:00:00.000 --> 00:00:00.500\n<u>one</u>\ntwo three\n\n"
                   "00:00:00.500 --> 00:00:00.750\none\ntwo three\n\n"
                   "00:00:00.750 --> 00:00:01.000\none\n<u>two</u> three\n\n"
                   "00:00:01.000 --> 00:00:02.000\none\ntwo <u>three</u>\n");
    check_subtitle(t, STENO_SRT, &(struct steno_subtitle_options){.lines = 1, .line_words = 2},
                   "1\n00:00:00,000 --> 00:00:01,000\none two\n\n"
                   "2\n00:00:01,000 --> 00:00:02,000\nthree\n");
    check_subtitle(t, STENO_LRC, NULL, "[00:00.00]one two three\n");
    steno_transcript_free(t);
}

/* A cue stays until it can be read; neither pause nor conjunction is needed for that. */
static void cues_stay_until_they_are_read(void **state)
{
    struct steno_word w[] = {
        {"extraordinarily", 0, 0.4, 1}, {"incomprehensible", 0.4, 0.8, 1}, {"Yes.", 5, 5.2, 1}};
    steno_transcript *t = transcript("extraordinarily incomprehensible Yes.", w, 3);
    (void)state;
    check_subtitle(t, STENO_SRT, NULL, /* 32 columns of 17 a second */
                   "1\n00:00:00,000 --> 00:00:01,882\nextraordinarily incomprehensible\n\n"
                   "2\n00:00:05,000 --> 00:00:06,000\nYes.\n");
    steno_transcript_free(t);
}

/* A transcript of a segment for each text; a word lasts 0.4 s, and 2 s of silence lie before a "~".
 */
static steno_transcript *spoken(const char *const *texts, size_t n)
{
    steno_transcript *t = steno_transcript_new(0);
    double now = 0;
    for (size_t i = 0; i < n; i++) {
        struct steno_word w[40];
        struct steno_event ev;
        char words[400], text[400] = "";
        size_t k = 0;
        char *rest = NULL;
        snprintf(words, sizeof words, "%s", texts[i]);
        for (char *p = strtok_r(words, " ", &rest); p; p = strtok_r(NULL, " ", &rest)) {
            now += *p == '~' ? 2 : 0;
            p += *p == '~';
            w[k++] = (struct steno_word){p, now, now + 0.4, 1};
            now += 0.4;
            strcat(strcat(text, k > 1 ? " " : ""), p);
        }
        ev = final_of(text, w, k);
        assert_int_equal(steno_transcript_add(t, &ev, NULL), STENO_OK);
    }
    return t;
}

/* The texts of the cues of a subtitle with lines of 20 columns, "|" between lines and "/" between
 * cues. */
static void check_cues(const char *const *texts, size_t n, const char *want)
{
    steno_transcript *t = spoken(texts, n);
    char *got = subtitle(t, STENO_SRT, &(struct steno_subtitle_options){.line_chars = 20});
    char text[1000] = "", *rest = NULL;
    for (char *line = strtok_r(got, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strstr(line, " --> ")) {
            if (*text)
                text[strlen(text) - 1] = '/';
        } else if (strspn(line, "0123456789") != strlen(line)) {
            strcat(strcat(text, line), "|");
        }
    }
    if (*text)
        text[strlen(text) - 1] = 0;
    assert_string_equal(text, want);
    free(got);
    steno_transcript_free(t);
}

static void cues_end_where_sentences_and_clauses_end(void **state)
{
    static const char *const sentences[] = {"We left at eight that day. It was raining."};
    static const char *const clause[] = {"when it rained all day, we stayed in the house and read"};
    static const char *const mark[] = {"he said to us \"come in.\" Nobody wanted to go in."};
    (void)state;
    check_cues(sentences, 1, "We left at eight|that day./It was raining.");
    check_cues(clause, 1, "when it rained|all day,/we stayed in the|house and read");
    check_cues(mark, 1, "he said to us|\"come in.\"/Nobody wanted|to go in.");
}

/* Whisper's segments may end within a sentence, which leaves few words over. */
static void cues_go_on_where_a_segment_ends_within_a_sentence(void **state)
{
    static const char *const segments[] = {
        "it was the best of times, it was the worst of times, it was", "the age of wisdom"};
    static const char *const pause[] = {"it was the best of times", "~the worst of times"};
    (void)state;
    check_cues(segments, 2,
               "it was the best|of times,/it was the worst|of times,/it was the age|of wisdom");
    check_cues(pause, 2, "it was the best|of times/the worst of times");
}

static void short_sentences_share_a_cue(void **state)
{
    static const char *const all[] = {"Yes. No. Why not?", "Good."};
    (void)state;
    check_cues(all, 2, "Yes. No. Why not?/Good.");
}

static void markup_does_not_come_out_of_words(void **state)
{
    (void)state;
    struct steno_word w[] = {{"<b>", 0, 1, 1}, {"a&b", 1, 1, 1}};
    steno_transcript *t = transcript("<b> a&b", w, 2);
    check_subtitle(t, STENO_VTT, NULL,
                   "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n&lt;b&gt; a&amp;b\n");
    check_subtitle(t, STENO_SRT, NULL, "1\n00:00:00,000 --> 00:00:01,000\nb a&b\n");
    steno_transcript_free(t);
}

static void ideographs_keep_no_spaces(void **state)
{
    (void)state;
    struct steno_word w[] = {{"中", 0, 1, 1}, {"国", 1, 2, 1}, {"two", 2, 3, 1}};
    struct steno_event more = final_of("中国", w, 2);
    steno_transcript *t = transcript("中国 two", w, 3);
    check_subtitle(t, STENO_VTT, NULL, "WEBVTT\n\n00:00:00.000 --> 00:00:03.000\n中国 two\n");
    steno_transcript_free(t);
    t = transcript("中国", w, 2); /* nor between segments */
    w[0].start = 2, w[0].end = 3, w[1].start = 3, w[1].end = 4;
    assert_int_equal(steno_transcript_add(t, &more, NULL), STENO_OK);
    check_subtitle(t, STENO_VTT, NULL, "WEBVTT\n\n00:00:00.000 --> 00:00:04.000\n中国中国\n");
    steno_transcript_free(t);
}

static void a_short_cue_takes_time_from_the_pauses_around_it(void **state)
{
    (void)state;
    struct steno_word w[] = {{"Are", 3, 3.02, 1}, {"you?", 6, 6.02, 1}, {"No.", 6.1, 7.5, 1}};
    steno_transcript *t = transcript("Are you? No.", w, 3);
    check_subtitle(t, STENO_SRT, &(struct steno_subtitle_options){.line_chars = 4, .lines = 1},
                   "1\n00:00:03,000 --> 00:00:04,000\nAre\n\n"
                   "2\n00:00:05,500 --> 00:00:06,100\nyou?\n\n"
                   "3\n00:00:06,100 --> 00:00:07,500\nNo.\n");
    steno_transcript_free(t);
}

/* Without pauses a cue of each word has the time of its word. */
static void cues_of_single_words_are_not_late(void **state)
{
    (void)state;
    struct steno_word w[] = {{"a", 1, 1.2, 1},
                             {"b", 1.2, 1.4, 1},
                             {"c", 1.4, 1.4, 1},
                             {"d", 1.4, 1.7, 1},
                             {"e", 1.7, 2.2, 1}};
    steno_transcript *t = transcript("a b c d e", w, 5);
    check_subtitle(t, STENO_SRT, &(struct steno_subtitle_options){.line_chars = 1, .lines = 1},
                   "1\n00:00:00,500 --> 00:00:01,200\na\n\n2\n00:00:01,200 --> 00:00:01,400\nb\n\n"
                   "3\n00:00:01,400 --> 00:00:01,500\nc\n\n4\n00:00:01,500 --> 00:00:01,700\nd\n\n"
                   "5\n00:00:01,700 --> 00:00:02,700\ne\n");
    steno_transcript_free(t);
}

static double seconds_of(const char *p)
{
    return atof(p) * 3600 + atof(p + 3) * 60 + atof(p + 6) + atof(p + 9) / 1000;
}

/* Whatever the words say: many at once, none of any length, one before the last. */
static void cues_are_long_enough_and_never_overlap(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int round = 0; round < 300; round++) {
        struct steno_word w[200];
        char text[2000] = "", *got, *rest = NULL;
        double at = 0, end = 0;
        size_t cues = 0;
        for (size_t i = 0; i < 200; i++) {
            const unsigned r = (seed = seed * 1664525 + 1013904223) >> 16;
            at += r % 7 < 4 ? 0 : r % 7 == 6 ? (r % 300) * 0.01 : (r % 100) * 0.01;
            w[i] = (struct steno_word){r & 512 ? "ho" : "Hey.", at, at + (r % 5) * 0.02, 1};
            if (r % 97 == 0)
                w[i].start -= 0.5;
            strcat(strcat(text, i ? " " : ""), w[i].text);
        }
        steno_transcript *t = transcript(text, w, 200);
        got = subtitle(
            t, STENO_SRT,
            &(struct steno_subtitle_options){.line_chars = round % 2 ? 0 : 6, .max_seconds = 2});
        for (char *line = strtok_r(got, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
            const char *arrow = strstr(line, " --> ");
            if (!arrow)
                continue;
            const double from = seconds_of(line), to = seconds_of(arrow + 5);
            if (from < end - 1e-9 || to - from < 0.099)
                fail_msg("round %d: '%s', the last cue ended at %.3f", round, line, end);
            end = to;
            cues++;
        }
        assert_true(cues > 5);
        free(got);
        steno_transcript_free(t);
    }
}

static void long_recordings_have_hours(void **state)
{
    (void)state;
    struct steno_word w[] = {{"late", 359999.9994, 360000.5, 1}};
    steno_transcript *t = transcript("late", w, 1);
    check_subtitle(t, STENO_VTT, NULL, "WEBVTT\n\n99:59:59.999 --> 100:00:00.999\nlate\n");
    steno_transcript_free(t);
}

static void nothing_said_gives_empty_files(void **state)
{
    (void)state;
    steno_transcript *t = steno_transcript_new(0);
    check_subtitle(t, STENO_SRT, NULL, "");
    check_subtitle(t, STENO_VTT, NULL, "WEBVTT\n");
    steno_transcript_free(t);
}

static json_t *parse(struct steno_buf *b)
{
    json_error_t e;
    json_t *o = json_loadb(b->data, b->len, 0, &e);
    if (!o)
        fail_msg("%s: %s", e.text, b->data);
    return o;
}

static void json_holds_words_times_and_alternatives(void **state)
{
    (void)state;
    struct steno_alternative alt[2] = {
        {"one two three", 0.5f, -1.23456, 3, hello, 0, NULL, 0, NULL},
        {"one \"two\"", 0.25f, -2.5, 2, hello, 0, NULL, 0, NULL}};
    struct steno_event ev = final_of("one two three", hello, 3);
    steno_transcript *t = steno_transcript_new(0);
    struct steno_buf b;
    json_t *o, *seg, *word;
    ev.alternatives = alt;
    ev.n_alternatives = 2;
    ev.reason = STENO_FINAL_LENGTH;
    assert_int_equal(steno_transcript_add(t, &ev, NULL), STENO_OK);
    steno_transcript_set_duration(t, 4.25);
    steno_buf_init(&b, 1 << 20);
    assert_int_equal(steno_result_json_write(
                         &b, t, &(struct steno_result_json_options){.file = "a.wav", .model = "m"}),
                     STENO_OK);
    assert_null(strchr(b.data, '\n'));
    o = parse(&b);
    assert_string_equal(json_string_value(json_object_get(o, "file")), "a.wav");
    assert_string_equal(json_string_value(json_object_get(o, "text")), "one two three");
    assert_true(json_real_value(json_object_get(o, "duration")) == 4.25);
    assert_null(json_object_get(o, "language"));
    seg = json_array_get(json_object_get(o, "segments"), 0);
    assert_string_equal(json_string_value(json_object_get(seg, "reason")), "length");
    word = json_array_get(json_object_get(seg, "words"), 2);
    assert_string_equal(json_string_value(json_object_get(word, "word")), "three");
    assert_true(json_real_value(json_object_get(word, "end")) == 4.0); /* to the millisecond */
    assert_int_equal(json_array_size(json_object_get(seg, "alternatives")), 2);
    json_decref(o);
    steno_buf_free(&b);
    steno_transcript_free(t);
}

/* Two finals of sections, the first with hypotheses: these are of the whole, no segment has any. */
static void hypotheses_of_a_final_with_sections_are_of_the_whole(void **state)
{
    static const struct steno_section sections[] = {
        {.end = 1, .text = " one two", .n_words = 2, .score = -1},
        {.start = 1, .end = 2, .text = " three", .first_word = 2, .n_words = 1, .score = -2}};
    const struct steno_alternative alt[2] = {
        {.text = "one two three", .score = -3},
        {.text = "won", .score = -4, .n_words = 1, .words = hello}};
    struct steno_event ev = final_of("one two three", hello, 3);
    steno_transcript *t = steno_transcript_new(0);
    struct steno_alternative a;
    struct steno_buf b;
    json_t *o, *list;
    (void)state;
    ev.sections = sections;
    ev.n_sections = 2;
    assert_int_equal(steno_transcript_add(t, &ev, NULL), STENO_OK);
    assert_false(steno_transcript_has_joint_alternatives(t));
    assert_int_equal(steno_transcript_n_alternatives(t), 1);
    ev.alternatives = alt;
    ev.n_alternatives = 2;
    assert_int_equal(steno_transcript_add(t, &ev, NULL), STENO_OK);
    assert_true(steno_transcript_has_joint_alternatives(t));
    assert_int_equal(steno_transcript_n_alternatives(t), 2);
    assert_int_equal(steno_transcript_alternative(t, 1, &a, NULL), STENO_OK);
    assert_string_equal(a.text, "one two three won");
    assert_int_equal(a.n_words, 4);
    assert_true(a.score == -7);
    steno_buf_init(&b, 1 << 20);
    assert_int_equal(steno_result_json_write(&b, t, &(struct steno_result_json_options){0}),
                     STENO_OK);
    o = parse(&b);
    assert_null(json_object_get(json_array_get(json_object_get(o, "segments"), 2), "alternatives"));
    list = json_object_get(o, "alternatives");
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "text")),
                        "one two three one two three");
    assert_true(json_number_value(json_object_get(json_array_get(list, 1), "score")) == -7);
    json_decref(o);
    steno_buf_free(&b);
    steno_transcript_free(t);
}

static void json_that_does_not_fit_leaves_the_buffer_alone(void **state)
{
    (void)state;
    steno_transcript *t = transcript("one two three", hello, 3);
    struct steno_event ev = {.kind = STENO_SPEECH_START, .start = 1.5, .text = ""};
    struct steno_buf whole, line, b;
    steno_buf_init(&whole, 1 << 20);
    steno_buf_init(&line, 1 << 20);
    assert_int_equal(steno_result_json_write(&whole, t, NULL), STENO_OK);
    assert_int_equal(steno_event_json_write(&line, &ev), STENO_OK);
    /* For any room, also inside a member's name, after which a shorter piece would fit again. */
    for (size_t room = 0; room <= whole.len; room++) {
        steno_status want = room < whole.len ? STENO_ERR_LIMIT : STENO_OK;
        steno_buf_init(&b, 4 + room);
        assert_int_equal(steno_buf_puts(&b, "head"), STENO_OK);
        assert_int_equal(steno_result_json_write(&b, t, NULL), want);
        assert_string_equal(b.data + 4, want ? "" : whole.data);
        steno_buf_free(&b);
    }
    for (size_t room = 0; room < line.len; room++) {
        steno_buf_init(&b, 4 + room);
        assert_int_equal(steno_buf_puts(&b, "head"), STENO_OK);
        assert_int_equal(steno_event_json_write(&b, &ev), STENO_ERR_LIMIT);
        steno_buf_free(&b);
    }
    steno_buf_free(&line);
    steno_buf_free(&whole);
    steno_transcript_free(t);
}

static void events_are_lines_of_json(void **state)
{
    (void)state;
    struct steno_event ev = final_of("one two", hello, 2);
    struct steno_buf b;
    json_t *o;
    ev.kind = STENO_PARTIAL;
    ev.stable_bytes = 3;
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_event_json_write(&b, &ev), STENO_OK);
    assert_int_equal(b.data[b.len - 1], '\n');
    o = parse(&b);
    assert_string_equal(json_string_value(json_object_get(o, "type")), "partial");
    assert_string_equal(json_string_value(json_object_get(o, "stable")), "one");
    assert_null(json_object_get(o, "reason"));
    json_decref(o);
    steno_buf_reset(&b);
    ev = (struct steno_event){.kind = STENO_SPEECH_START, .start = 1.5, .text = ""};
    assert_int_equal(steno_event_json_write(&b, &ev), STENO_OK);
    assert_non_null(strstr(b.data, "\"speech_start\""));
    steno_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finals_with_text_are_kept_in_order),
        cmocka_unit_test(sections_of_a_final_become_segments),
        cmocka_unit_test(a_transcript_stays_within_its_limit),
        cmocka_unit_test(srt_has_numbers_commas_and_cuts_at_pauses),
        cmocka_unit_test(options_have_the_names_of_whisper),
        cmocka_unit_test(words_are_underlined_while_they_are_heard),
        cmocka_unit_test(cues_stay_until_they_are_read),
        cmocka_unit_test(vtt_has_a_header_and_dots),
        cmocka_unit_test(a_word_too_wide_for_a_line_has_its_own),
        cmocka_unit_test(cues_end_where_sentences_and_clauses_end),
        cmocka_unit_test(cues_go_on_where_a_segment_ends_within_a_sentence),
        cmocka_unit_test(short_sentences_share_a_cue),
        cmocka_unit_test(markup_does_not_come_out_of_words),
        cmocka_unit_test(ideographs_keep_no_spaces),
        cmocka_unit_test(a_short_cue_takes_time_from_the_pauses_around_it),
        cmocka_unit_test(cues_of_single_words_are_not_late),
        cmocka_unit_test(cues_are_long_enough_and_never_overlap),
        cmocka_unit_test(long_recordings_have_hours),
        cmocka_unit_test(nothing_said_gives_empty_files),
        cmocka_unit_test(json_holds_words_times_and_alternatives),
        cmocka_unit_test(hypotheses_of_a_final_with_sections_are_of_the_whole),
        cmocka_unit_test(json_that_does_not_fit_leaves_the_buffer_alone),
        cmocka_unit_test(events_are_lines_of_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
