/* OpenAI's transcription form, field by field as in openai/openai-openapi 2.3.0. */

#include "protocol/openai_rest.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static steno_status field(struct steno_openai_request *r, const char *name, const char *value,
                          const char **param, steno_err *err)
{
    return steno_openai_field(r, name, value, strlen(value), param, err);
}

static void fields_of_the_form_are_read(void **state)
{
    struct steno_openai_request r = {0};
    const char *param = NULL;
    (void)state;
    r.has_file = true;
    assert_int_equal(field(&r, "model", "whisper-1", &param, NULL), STENO_OK);
    assert_int_equal(field(&r, "language", "en", &param, NULL), STENO_OK);
    assert_int_equal(field(&r, "response_format", "verbose_json", &param, NULL), STENO_OK);
    assert_int_equal(field(&r, "timestamp_granularities[]", "word", &param, NULL), STENO_OK);
    assert_int_equal(field(&r, "timestamp_granularities", "segment", &param, NULL), STENO_OK);
    assert_int_equal(field(&r, "temperature", "0.5", &param, NULL), STENO_OK);
    assert_int_equal(field(&r, "stream", "true", &param, NULL), STENO_OK);
    assert_int_equal(field(&r, "prompt", "digits", &param, NULL), STENO_OK);
    assert_int_equal(field(&r, "from_the_future[]", "?", &param, NULL), STENO_OK);
    assert_string_equal(r.model, "whisper-1");
    assert_int_equal(r.format, STENO_OPENAI_VERBOSE_JSON);
    assert_true(r.words && r.segments && r.stream);
    assert_int_equal(field(&r, "stream", "null", &param, NULL), STENO_OK);
    assert_false(r.stream);
    assert_int_equal(steno_openai_check(&r, &param, NULL), STENO_OK);
    assert_string_equal(r.hints.language, "en");
    assert_string_equal(r.hints.prompt, "digits");
    steno_hint_store_free(&r.hints);
}

static void hints_are_read_and_their_faults_name_the_field(void **state)
{
    struct steno_openai_request r = {0};
    const char *param = NULL;
    steno_err err;
    (void)state;
    assert_int_equal(field(&r, "language", "Spanish", &param, NULL), STENO_OK);
    assert_int_equal(field(&r, "hotwords", "Nagg, Nell", &param, NULL), STENO_OK);
    assert_int_equal(field(&r, "keywords[]", "Hamm", &param, NULL), STENO_OK);
    assert_int_equal(field(&r, "prefix", "Why this", &param, NULL), STENO_OK);
    assert_int_equal(field(&r, "vad_filter", "true", &param, NULL), STENO_OK);
    assert_string_equal(r.hints.language, "Spanish");
    assert_string_equal(r.hints.hotwords, "Nagg, Nell, Hamm");
    assert_string_equal(r.hints.prefix, "Why this");
    assert_true(r.vad_filter);
    assert_int_equal(field(&r, "prompt", "\xff", &param, &err), STENO_ERR_INVAL);
    assert_string_equal(param, "prompt");
    assert_string_equal(err.msg, "prompt: it is not UTF-8");
    assert_int_equal(field(&r, "vad_filter", "perhaps", &param, &err), STENO_ERR_INVAL);
    assert_string_equal(param, "vad_filter");
    steno_hint_store_free(&r.hints);
}

static void wrong_values_name_field_and_choices(void **state)
{
    static const struct {
        const char *name, *value, *param, *says;
    } bad[] = {
        {"response_format", "xml", "response_format",
         "'xml' is not one of json, text, srt, verbose_json, vtt, diarized_json"},
        {"temperature", "2", "temperature", "temperature: 2 is outside 0..1"},
        {"temperature", "hot", "temperature", "'hot' is not a number"},
        {"timestamp_granularities[]", "char", "timestamp_granularities",
         "neither word nor segment"},
        {"timestamp_granularities", "word,char", "timestamp_granularities", "'char'"},
        {"stream", "maybe", "stream", "'maybe' is not true or false"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct steno_openai_request r = {0};
        const char *param = NULL;
        steno_err err;
        assert_int_equal(field(&r, bad[i].name, bad[i].value, &param, &err), STENO_ERR_INVAL);
        assert_string_equal(param, bad[i].param);
        if (!strstr(err.msg, bad[i].says))
            fail_msg("'%s' does not say '%s'", err.msg, bad[i].says);
    }
}

static void empty_fields_are_absent_and_lists_have_commas(void **state)
{
    static const char *const names[] = {
        "model",   "language", "prompt",      "response_format",          "stream",
        "channel", "include",  "temperature", "timestamp_granularities[]"};
    struct steno_openai_request r = {0};
    const char *param = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(field(&r, names[i], "", &param, NULL), STENO_OK);
    assert_true(r.format == STENO_OPENAI_JSON && !r.words && !r.segments && !r.stream);
    assert_int_equal(field(&r, "timestamp_granularities", "word, segment", &param, NULL), STENO_OK);
    assert_true(r.words && r.segments);
}

static void missing_and_contradictory_fields_are_named(void **state)
{
    struct steno_openai_request r = {0};
    const char *param = NULL;
    (void)state;
    assert_int_equal(steno_openai_check(&r, &param, NULL), STENO_ERR_INVAL);
    assert_string_equal(param, "file");
    r.has_file = true;
    assert_int_equal(steno_openai_check(&r, &param, NULL), STENO_OK); /* also without a model */
    r.words = true;
    assert_int_equal(steno_openai_check(&r, &param, NULL), STENO_ERR_INVAL);
    assert_string_equal(param, "timestamp_granularities");
}

/* Events have text alone: the format or the times that were asked for would be lost. */
static void stream_goes_with_some_formats(void **state)
{
    static const bool goes[] = {[STENO_OPENAI_JSON] = true,
                                [STENO_OPENAI_TEXT] = true,
                                [STENO_OPENAI_VERBOSE_JSON] = true,
                                [STENO_OPENAI_DIARIZED_JSON] = true,
                                [STENO_OPENAI_WHISPERX] = false};
    struct steno_openai_request r = {.has_file = true, .stream = true};
    const char *param;
    steno_err err;
    (void)state;
    for (size_t i = 0; i < sizeof goes / sizeof *goes; i++) {
        r.format = (enum steno_openai_format)i;
        param = NULL;
        assert_int_equal(steno_openai_check(&r, &param, &err),
                         goes[i] ? STENO_OK : STENO_ERR_INVAL);
        if (!goes[i])
            assert_string_equal(param, "response_format");
    }
    r.format = STENO_OPENAI_VERBOSE_JSON;
    r.words = true;
    assert_int_equal(steno_openai_check(&r, &param, &err), STENO_ERR_INVAL);
    assert_string_equal(param, "timestamp_granularities");
    assert_non_null(strstr(err.msg, "not with stream"));
}

static void hostile_fields_are_refused(void **state)
{
    static char big[STENO_OPENAI_FIELD + 10];
    struct steno_openai_request r = {0};
    const char *param = NULL;
    (void)state;
    memset(big, 'x', sizeof big - 1);
    assert_int_equal(steno_openai_field(&r, "model", big, sizeof big - 1, &param, NULL),
                     STENO_ERR_INVAL);
    assert_int_equal(steno_openai_field(&r, "model", big, STENO_OPENAI_NAME, &param, NULL),
                     STENO_ERR_INVAL);
    assert_int_equal(steno_openai_field(&r, "model", "a\0b", 3, &param, NULL), STENO_ERR_INVAL);
    assert_string_equal(r.model, "");
}

/* Two segments; the second contains characters that JSON must escape. */
static steno_transcript *two_segments(void)
{
    static const struct steno_word first[] = {{"four", 0.5, 0.81, 0.9f}, {"two", 1, 1.25, 0.8f}};
    static const struct steno_word second[] = {{"\"q\\\n\xff", 3, 3.5, 0.5f}};
    struct steno_event a = {.kind = STENO_FINAL,
                            .segment = 0,
                            .start = 0.5,
                            .end = 1.25,
                            .text = "four two",
                            .confidence = 0.85f,
                            .n_words = 2,
                            .words = first};
    struct steno_event b = {.kind = STENO_FINAL,
                            .segment = 1,
                            .start = 3,
                            .end = 3.5,
                            .text = "\"q\\\n\xff",
                            .confidence = 0.5f,
                            .n_words = 1,
                            .words = second};
    steno_transcript *t = steno_transcript_new(0);
    assert_non_null(t);
    assert_int_equal(steno_transcript_add(t, &a, NULL), STENO_OK);
    assert_int_equal(steno_transcript_add(t, &b, NULL), STENO_OK);
    return t;
}

static json_t *load(struct steno_buf *b)
{
    json_error_t e;
    json_t *j = json_loadb(b->data, b->len, 0, &e);
    if (!j)
        fail_msg("%s in %s", e.text, b->data);
    return j;
}

static double number(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);
    assert_true(json_is_number(v));
    return json_number_value(v);
}

static void json_answer_has_text_and_usage(void **state)
{
    struct steno_openai_result r = {.transcript = two_segments(),
                                    .language = "en",
                                    .duration = 4.2,
                                    .warning = "cut \"short\""};
    struct steno_buf b;
    json_t *j;
    (void)state;
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_openai_write_json(&b, &r), STENO_OK);
    j = load(&b);
    assert_string_equal(json_string_value(json_object_get(j, "text")),
                        "four two \"q\\\n\xef\xbf\xbd");
    assert_string_equal(json_string_value(json_object_get(json_object_get(j, "usage"), "type")),
                        "duration");
    assert_true(number(json_object_get(j, "usage"), "seconds") == 5);
    assert_int_equal(json_array_size(json_object_get(j, "warnings")), 1);
    json_decref(j);
    steno_buf_free(&b);
    steno_transcript_free(r.transcript);
}

static const char *text_of(const json_t *j, const char *key)
{
    return json_string_value(json_object_get(j, key));
}

/* Without channels the speakers are voices: A to Z, AA, ... */
static void voices_are_the_speakers_of_diarized_json(void **state)
{
    enum { TURNS = 28 };
    struct steno_turn turns[TURNS];
    struct steno_openai_result r = {.language = "en"};
    steno_transcript *plain = steno_transcript_new(0);
    struct steno_buf b;
    json_t *j, *list;
    (void)state;
    for (int i = 0; i < TURNS; i++) {
        const struct steno_word w = {"one", i, i + 1, 1};
        const struct steno_event ev = {.kind = STENO_FINAL,
                                       .text = "one",
                                       .n_words = 1,
                                       .words = &w,
                                       .start = i,
                                       .end = i + 1};
        turns[i] = (struct steno_turn){i, i + 1, i};
        assert_int_equal(steno_transcript_add(plain, &ev, NULL), STENO_OK);
    }
    r.transcript = steno_transcript_with_voices(plain, turns, TURNS, NULL);
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_openai_write_diarized(&b, &r), STENO_OK);
    j = load(&b);
    list = json_object_get(j, "segments");
    assert_string_equal(text_of(json_array_get(list, 0), "speaker"), "A");
    assert_string_equal(text_of(json_array_get(list, 25), "speaker"), "Z");
    assert_string_equal(text_of(json_array_get(list, 26), "speaker"), "AA");
    assert_string_equal(text_of(json_array_get(list, 27), "speaker"), "AB");
    json_decref(j);
    steno_buf_reset(&b);
    assert_int_equal(steno_openai_write_verbose(&b, &r, true, true), STENO_OK);
    j = load(&b);
    assert_string_equal(text_of(json_array_get(json_object_get(j, "words"), 1), "speaker"), "B");
    assert_string_equal(text_of(json_array_get(json_object_get(j, "segments"), 1), "speaker"), "B");
    json_decref(j);
    steno_buf_reset(&b);
    assert_int_equal(steno_openai_write_all_segment_events(&b, &r), STENO_OK);
    assert_non_null(strstr(b.data, "\"id\":\"seg_27\",\"start\":27"));
    assert_non_null(strstr(b.data, "\"speaker\":\"AB\"}\n\n"));
    steno_buf_free(&b);
    steno_transcript_free(plain);
    steno_transcript_free(r.transcript);
}

/* TranscriptionDiarizedSegment: its members; speakers are channels, by name where one is known. */
static void channels_are_the_speakers_of_diarized_json(void **state)
{
    struct steno_openai_request ask = {0};
    steno_transcript *channels[] = {two_segments(), two_segments(), two_segments()};
    struct steno_openai_result r = {.duration = 4.25, .speakers = &ask.speakers};
    const char *param = NULL;
    const struct steno_event *seg;
    struct steno_buf b;
    json_t *j, *list;
    size_t id = 3;
    (void)state;
    assert_int_equal(field(&ask, "response_format", "diarized_json", &param, NULL), STENO_OK);
    assert_int_equal(field(&ask, "known_speaker_names[]", "agent \"x\"", &param, NULL), STENO_OK);
    r.transcript = steno_transcript_of_channels(channels, 3);
    assert_non_null(r.transcript);
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_openai_write_diarized(&b, &r), STENO_OK);
    j = load(&b);
    assert_string_equal(text_of(j, "task"), "transcribe");
    assert_true(number(j, "duration") == 4.25);
    list = json_object_get(j, "segments");
    assert_int_equal(json_array_size(list), 6);
    assert_string_equal(text_of(json_array_get(list, 0), "speaker"), "agent \"x\"");
    assert_string_equal(text_of(json_array_get(list, 1), "speaker"), "B");
    assert_string_equal(text_of(json_array_get(list, 5), "speaker"), "C");
    assert_string_equal(text_of(json_array_get(list, 1), "type"), "transcript.text.segment");
    assert_string_equal(text_of(json_array_get(list, 1), "id"), "seg_1");
    assert_string_equal(text_of(json_array_get(list, 1), "text"), "four two");
    assert_true(number(json_array_get(list, 1), "start") == 0.5);
    assert_non_null(
        strstr(text_of(j, "text"), "agent \"x\": four two\nB: four two\nC: four two\n"));
    json_decref(j);
    steno_buf_reset(&b);
    seg = steno_transcript_segment(r.transcript, 0);
    assert_int_equal(steno_openai_write_segment_events(&b, seg, 2, &ask.speakers, &id), STENO_OK);
    assert_int_equal(id, 4);
    assert_string_equal(b.data, "data: {\"type\":\"transcript.text.segment\",\"id\":\"seg_3\","
                                "\"start\":0.5,\"end\":1.25,\"text\":\"four two\","
                                "\"speaker\":\"B\"}\n\n");
    for (int i = 1; i < STENO_OPENAI_SPEAKERS; i++)
        assert_int_equal(field(&ask, "known_speaker_names", "n", &param, NULL), STENO_OK);
    assert_int_equal(field(&ask, "known_speaker_names", "n", &param, NULL), STENO_ERR_INVAL);
    assert_string_equal(param, "known_speaker_names");
    steno_buf_free(&b);
    steno_transcript_free(r.transcript);
}

static void log_probabilities_are_sent_when_they_are_included(void **state)
{
    struct steno_openai_request ask = {0};
    struct steno_openai_result r = {.transcript = two_segments(), .language = "en", .duration = 4};
    const char *param = NULL;
    struct steno_buf b;
    json_t *j, *list;
    (void)state;
    assert_int_equal(field(&ask, "include[]", "something", &param, NULL), STENO_OK);
    assert_false(ask.logprobs);
    assert_int_equal(field(&ask, "include[]", "logprobs", &param, NULL), STENO_OK);
    r.logprobs = ask.logprobs;
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_openai_write_json(&b, &r), STENO_OK);
    j = load(&b);
    list = json_object_get(j, "logprobs");
    assert_int_equal(json_array_size(list), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "token")),
                        "four");
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "token")),
                        " two");
    assert_true(fabs(number(json_array_get(list, 1), "logprob") - log(0.8)) < 1e-3);
    assert_int_equal(json_array_size(json_object_get(json_array_get(list, 1), "bytes")), 4);
    json_decref(j);
    steno_buf_reset(&b);
    assert_int_equal(steno_openai_write_done(&b, &r), STENO_OK);
    assert_non_null(strstr(b.data, "\"logprobs\":[{\"token\":\"four\""));
    steno_buf_free(&b);
    steno_transcript_free(r.transcript);
}

static void segments_have_tokens_and_the_hypotheses_asked_for(void **state)
{
    static const struct steno_token tokens[] = {{.id = 7}, {.id = 3}};
    static const int32_t ids[] = {49, 7, 3, 49};
    const struct steno_alternative list[] = {
        {.text = "a b", .confidence = 0.5f, .score = -1.5, .n_ids = 4, .ids = ids},
        {.text = "a", .confidence = 0.25f, .score = -2}};
    struct steno_event ev = {.kind = STENO_FINAL,
                             .text = "a b",
                             .confidence = 0.5f,
                             .n_tokens = 2,
                             .tokens = tokens,
                             .alternatives = list,
                             .n_alternatives = 2};
    struct steno_openai_result r = {.transcript = steno_transcript_new(0), .language = "en"};
    struct steno_buf b;
    json_t *j;
    char *said;
    (void)state;
    assert_int_equal(steno_transcript_add(r.transcript, &ev, NULL), STENO_OK);
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_openai_write_verbose(&b, &r, false, true), STENO_OK);
    j = load(&b);
    said = json_dumps(json_array_get(json_object_get(j, "segments"), 0), JSON_SORT_KEYS);
    assert_non_null(strstr(
        said, "\"alternatives\": [{\"confidence\": 0.5, \"score\": -1.5, \"text\": \"a b\"}, "
              "{\"confidence\": 0.25, \"score\": -2.0, \"text\": \"a\"}]"));
    assert_non_null(strstr(said, "\"tokens\": [7, 3]"));
    free(said);
    json_decref(j);
    steno_buf_free(&b);
    steno_transcript_free(r.transcript);
}

static void verbose_answer_has_every_required_member(void **state)
{
    /* CreateTranscriptionResponseVerboseJson and TranscriptionSegment: required members */
    static const char *const segment_members[] = {"id",
                                                  "seek",
                                                  "start",
                                                  "end",
                                                  "text",
                                                  "tokens",
                                                  "temperature",
                                                  "avg_logprob",
                                                  "compression_ratio",
                                                  "no_speech_prob"};
    struct steno_openai_result r = {
        .transcript = two_segments(), .language = "en", .duration = 4.25};
    struct steno_buf b;
    json_t *j, *words, *segments;
    (void)state;
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_openai_write_verbose(&b, &r, true, true), STENO_OK);
    j = load(&b);
    assert_string_equal(json_string_value(json_object_get(j, "language")), "english");
    assert_string_equal(json_string_value(json_object_get(j, "task")), "transcribe");
    assert_true(number(j, "duration") == 4.25);
    words = json_object_get(j, "words");
    assert_int_equal(json_array_size(words), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(words, 1), "word")),
                        "two");
    assert_true(fabs(number(json_array_get(words, 0), "end") - 0.81) < 1e-9);
    segments = json_object_get(j, "segments");
    assert_int_equal(json_array_size(segments), 2);
    for (size_t i = 0; i < sizeof segment_members / sizeof *segment_members; i++)
        if (!json_object_get(json_array_get(segments, 0), segment_members[i]))
            fail_msg("a segment has no %s", segment_members[i]);
    assert_true(fabs(number(json_array_get(segments, 1), "avg_logprob") - log(0.5)) < 1e-3);
    json_decref(j);
    steno_buf_reset(&b);
    assert_int_equal(steno_openai_write_verbose(&b, &r, true, false), STENO_OK);
    j = load(&b);
    assert_null(json_object_get(j, "segments"));
    json_decref(j);
    steno_buf_reset(&b);
    assert_int_equal(steno_openai_write_verbose(&b, &r, false, false), STENO_OK);
    j = load(&b);
    assert_null(json_object_get(j, "words"));
    assert_non_null(json_object_get(j, "segments"));
    json_decref(j);
    steno_buf_free(&b);
    steno_transcript_free(r.transcript);
}

/* The figures of a segment are the model's own, and so is its text. */
static void segments_of_whisper_are_written_as_they_are(void **state)
{
    static const int32_t ids[] = {50364, 440, 50414, 50414, 1027, 50464};
    static const struct steno_word words[] = {{"The", 3.0, 3.5, 0.9f}, {"tale", 4.0, 4.5, 0.8f}};
    const struct steno_section sections[] = {{.start = 3,
                                              .end = 4,
                                              .text = " The",
                                              .n_words = 1,
                                              .n_ids = 3,
                                              .ids = ids,
                                              .seek = 3,
                                              .temperature = 0.2f,
                                              .language = "es",
                                              .avg_log_prob = -0.25,
                                              .compression_ratio = 1.5f,
                                              .no_speech = 0.125f},
                                             {.start = 4,
                                              .end = 5,
                                              .text = " tale",
                                              .first_word = 1,
                                              .n_words = 1,
                                              .n_ids = 3,
                                              .ids = ids + 3,
                                              .seek = 3}};
    const struct steno_event ev = {.kind = STENO_FINAL,
                                   .text = "The tale",
                                   .n_words = 2,
                                   .words = words,
                                   .n_sections = 2,
                                   .sections = sections,
                                   .language = "es",
                                   .language_probability = 0.75f};
    struct steno_openai_result r = {.transcript = steno_transcript_new(0), .duration = 5};
    struct steno_buf b;
    json_t *j, *want;
    (void)state;
    assert_int_equal(steno_transcript_add(r.transcript, &ev, NULL), STENO_OK);
    r.language = steno_transcript_language(r.transcript, &r.language_probability);
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_openai_write_verbose(&b, &r, false, true), STENO_OK);
    j = load(&b);
    assert_string_equal(json_string_value(json_object_get(j, "language")), "spanish");
    assert_string_equal(json_string_value(json_object_get(j, "task")), "transcribe");
    assert_string_equal(json_string_value(json_object_get(j, "text")), "The tale");
    want = json_loads(
        "{\"id\":0,\"seek\":300,\"start\":3,\"end\":4,\"text\":\" The\",\"tokens\":[50364,"
        "440,50414],\"temperature\":0.2,\"avg_logprob\":-0.25,"
        "\"compression_ratio\":1.5,\"no_speech_prob\":0.125,\"language\":\"spanish\"}",
        0, NULL);
    assert_true(json_equal(json_array_get(json_object_get(j, "segments"), 0), want));
    assert_int_equal(json_array_size(json_object_get(j, "segments")), 2);
    json_decref(want);
    json_decref(j);
    steno_buf_reset(&b);
    r.translated = true;
    assert_int_equal(steno_openai_write_verbose(&b, &r, false, true), STENO_OK);
    assert_non_null(strstr(b.data, "{\"task\":\"translate\",\"language\":\"english\""));
    steno_buf_free(&b);
    steno_transcript_free(r.transcript);
}

static void errors_have_the_clients_form(void **state)
{
    struct steno_buf b;
    (void)state;
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_openai_write_error(&b, "no \"x\"", "invalid_request_error", NULL, "c"),
                     STENO_OK);
    assert_string_equal(b.data, "{\"error\":{\"message\":\"no \\\"x\\\"\",\"type\":"
                                "\"invalid_request_error\",\"param\":null,\"code\":\"c\"}}\n");
    assert_string_equal(steno_openai_error_type(404), "invalid_request_error");
    assert_string_equal(steno_openai_error_type(429), "rate_limit_error");
    assert_string_equal(steno_openai_error_type(503), "server_error");
    steno_buf_free(&b);
}

static void events_are_lines_of_data(void **state)
{
    struct steno_openai_result r = {.transcript = two_segments(), .language = "en", .duration = 4};
    struct steno_buf b;
    (void)state;
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_openai_write_delta(&b, "four\ntwo", 8, 0), STENO_OK);
    assert_string_equal(b.data,
                        "data: {\"type\":\"transcript.text.delta\",\"delta\":\"four\\ntwo\"}\n\n");
    steno_buf_reset(&b);
    assert_int_equal(steno_openai_write_done(&b, &r), STENO_OK);
    assert_non_null(
        strstr(b.data, "data: {\"type\":\"transcript.text.done\",\"text\":\"four two "));
    assert_non_null(strstr(b.data, "\n\ndata: [DONE]\n\n"));
    steno_buf_reset(&b);
    assert_int_equal(steno_openai_write_error_event(&b, "m", "server_error", "c"), STENO_OK);
    assert_string_equal(b.data, "data: {\"error\":{\"message\":\"m\",\"type\":\"server_error\","
                                "\"param\":null,\"code\":\"c\"}}\n\n");
    steno_buf_free(&b);
    steno_transcript_free(r.transcript);
}

static void an_event_that_does_not_fit_leaves_those_before_it_whole(void **state)
{
    struct steno_openai_result r = {.transcript = two_segments(), .language = "en", .duration = 4};
    static const char delta[] = "data: {\"type\":\"transcript.text.delta\",\"delta\":\"four\"}\n\n";
    static const char error[] = "data: {\"error\":{\"message\":\"m\",\"type\":\"server_error\","
                                "\"param\":null,\"code\":\"c\"}}\n\n";
    struct steno_buf b;
    (void)state;
    for (size_t room = 0; room < 100; room++) {
        bool fits = room >= sizeof delta - 1;
        steno_buf_init(&b, 4 + room);
        assert_int_equal(steno_buf_puts(&b, "head"), STENO_OK);
        assert_int_equal(!steno_openai_write_delta(&b, "four", 4, 0), fits);
        assert_string_equal(b.data + 4, fits ? delta : "");
        steno_buf_cut(&b, 4);
        assert_int_equal(steno_openai_write_done(&b, &r), STENO_ERR_LIMIT);
        assert_string_equal(b.data, "head");
        fits = room >= sizeof error - 1;
        assert_int_equal(!steno_openai_write_error_event(&b, "m", "server_error", "c"), fits);
        assert_string_equal(b.data + 4, fits ? error : "");
        steno_buf_free(&b);
    }
    steno_transcript_free(r.transcript);
}

static void models_are_listed(void **state)
{
    struct steno_openai_model m = {"digits-en",    1700000000, "ctc",       "en",
                                   "CC BY-SA 4.0", "1",        "en de yue", true};
    struct steno_buf b;
    json_t *j, *first;
    (void)state;
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_openai_write_models(&b, &m, 1), STENO_OK);
    j = load(&b);
    assert_string_equal(json_string_value(json_object_get(j, "object")), "list");
    first = json_array_get(json_object_get(j, "data"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "id")), "digits-en");
    assert_string_equal(json_string_value(json_object_get(first, "object")), "model");
    assert_true(number(first, "created") == 1700000000);
    assert_int_equal(json_array_size(json_object_get(first, "languages")), 3);
    assert_string_equal(json_string_value(json_array_get(json_object_get(first, "languages"), 2)),
                        "yue");
    assert_true(json_is_true(json_object_get(first, "translates")));
    json_decref(j);
    steno_buf_free(&b);
}

static void answers_that_do_not_fit_are_errors(void **state)
{
    struct steno_openai_result r = {.transcript = two_segments(), .language = "en", .duration = 1};
    (void)state;
    for (size_t max = 0; max < 300; max += 7) {
        struct steno_buf b;
        steno_buf_init(&b, max);
        assert_int_equal(steno_openai_write_verbose(&b, &r, true, true), STENO_ERR_LIMIT);
        steno_buf_free(&b);
    }
    steno_transcript_free(r.transcript);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_the_form_are_read),
        cmocka_unit_test(wrong_values_name_field_and_choices),
        cmocka_unit_test(empty_fields_are_absent_and_lists_have_commas),
        cmocka_unit_test(missing_and_contradictory_fields_are_named),
        cmocka_unit_test(stream_goes_with_some_formats),
        cmocka_unit_test(hostile_fields_are_refused),
        cmocka_unit_test(hints_are_read_and_their_faults_name_the_field),
        cmocka_unit_test(segments_of_whisper_are_written_as_they_are),
        cmocka_unit_test(json_answer_has_text_and_usage),
        cmocka_unit_test(channels_are_the_speakers_of_diarized_json),
        cmocka_unit_test(voices_are_the_speakers_of_diarized_json),
        cmocka_unit_test(log_probabilities_are_sent_when_they_are_included),
        cmocka_unit_test(segments_have_tokens_and_the_hypotheses_asked_for),
        cmocka_unit_test(verbose_answer_has_every_required_member),
        cmocka_unit_test(errors_have_the_clients_form),
        cmocka_unit_test(events_are_lines_of_data),
        cmocka_unit_test(an_event_that_does_not_fit_leaves_those_before_it_whole),
        cmocka_unit_test(models_are_listed),
        cmocka_unit_test(answers_that_do_not_fit_are_errors),
    };
    return cmocka_run_group_tests_name("openai_rest", tests, NULL, NULL);
}
