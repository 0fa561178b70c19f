/* The forms of whisper.cpp's server and of whisper-asr-webservice. Names, defaults and layouts are
 * those of examples/server/server.cpp and examples/server-common.cpp (ggml-org/whisper.cpp), and of
 * app/webservice.py (ahmetoner/whisper-asr-webservice 1.8) with the writers of openai/whisper
 * (whisper/utils.py), which that service uses. */

#include "protocol/whisper_asr.h"
#include "protocol/whisper_cpp.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <string.h>

/* ---- transcripts ----------------------------------------------------------------------------- */

static void add(steno_transcript *t, const struct steno_event *ev)
{
    assert_int_equal(steno_transcript_add(t, ev, NULL), STENO_OK);
}

/* Two sections as Whisper cuts them. The second has a tab, and characters that JSON escapes. */
static steno_transcript *two_sections(void)
{
    static const struct steno_word words[] = {{"And", 0, 0.5, 0.5f},
                                              {"so,", 0.5, 1.04, 0.75f},
                                              {"a\tb", 2, 2.25, 1},
                                              {"\"c\"", 2.25, 3, 0.25f}};
    static const struct steno_token tokens[] = {{.id = 843}, {.id = 523}, {.id = 11}, {.id = 64}};
    static const int32_t first[] = {50363, 843, 523, 11, 50415}, second[] = {64};
    const struct steno_section sections[] = {{.start = 0,
                                              .end = 1.04,
                                              .text = " And so,",
                                              .n_words = 2,
                                              .n_tokens = 3,
                                              .n_ids = 5,
                                              .ids = first,
                                              .avg_log_prob = -0.25,
                                              .compression_ratio = 1.5f,
                                              .no_speech = 0.125f},
                                             {.start = 2,
                                              .end = 3661.5,
                                              .text = " a\tb \"c\"",
                                              .first_word = 2,
                                              .n_words = 2,
                                              .first_token = 3,
                                              .n_tokens = 1,
                                              .n_ids = 1,
                                              .ids = second,
                                              .avg_log_prob = -0.5,
                                              .compression_ratio = 1,
                                              .no_speech = 0.5f,
                                              .seek = 1}};
    const struct steno_event ev = {.kind = STENO_FINAL,
                                   .text = "And so, a\tb \"c\"",
                                   .n_words = 4,
                                   .words = words,
                                   .n_tokens = 4,
                                   .tokens = tokens,
                                   .n_sections = 2,
                                   .sections = sections,
                                   .language = "en",
                                   .language_probability = 0.75f};
    steno_transcript *t = steno_transcript_new(0);
    assert_non_null(t);
    add(t, &ev);
    return t;
}

/* What a model without sections says: no blank before it. */
static steno_transcript *one_segment(double start, const char *text)
{
    const struct steno_word word = {text, start, start + 1, 0.5f};
    const struct steno_event ev = {.kind = STENO_FINAL,
                                   .start = start,
                                   .end = start + 1,
                                   .text = text,
                                   .confidence = 0.5f,
                                   .n_words = 1,
                                   .words = &word};
    steno_transcript *t = steno_transcript_new(0);
    assert_non_null(t);
    add(t, &ev);
    return t;
}

/* Takes the text of b and empties it. */
static void says(struct steno_buf *b, steno_status st, const char *want)
{
    assert_int_equal(st, STENO_OK);
    assert_string_equal(b->data ? b->data : "", want);
    steno_buf_reset(b);
}

/* ---- whisper.cpp ----------------------------------------------------------------------------- */

static steno_status field(struct steno_openai_request *ask, struct steno_whisper_cpp_wants *w,
                          const char *name, const char *value, steno_err *err)
{
    const char *param = NULL;
    steno_status st = steno_whisper_cpp_field(ask, w, name, value, strlen(value), &param, err);
    if (st)
        assert_string_equal(param, name);
    return st;
}

static const char *option(const struct steno_whisper_cpp_wants *w, const char *name)
{
    static char number[STENO_OPTION_TEXT];
    const char *value = steno_options_get(&w->options, name, number);
    return value ? value : "";
}

static void fields_of_inference_are_read(void **state)
{
    static const char *const sent[][2] = {
        {"model", "base"},         {"language", "es"},
        {"prompt", "digits"},      {"temperature", "0.5"},
        {"temperature_inc", "0"},  {"response_format", "verbose_json"},
        {"translate", "true"},     {"detect_language", "1"},
        {"diarize", "yes"},        {"vad", "y"},
        {"no_timestamps", "true"}, {"token_timestamps", "false"},
        {"beam_size", "5"},        {"best_of", "3"},
        {"max_context", "0"},      {"no_speech_thold", "0.7"},
        {"logprob_thold", "-2"},   {"max_len", "1"},
        {"offset_n", "10"},        {"offset_t", "0"},
        {"duration", "2500"},      {"no_language_probabilities", "true"}};
    struct steno_openai_request ask = {0};
    struct steno_whisper_cpp_wants w = {0};
    (void)state;
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        assert_true(steno_whisper_cpp_known(sent[i][0]));
        assert_int_equal(field(&ask, &w, sent[i][0], sent[i][1], NULL), STENO_OK);
    }
    assert_string_equal(ask.model, "base");
    assert_string_equal(ask.hints.language, "es");
    assert_string_equal(ask.hints.prompt, "digits");
    assert_true(ask.temperature == 0.5 && ask.format == STENO_OPENAI_VERBOSE_JSON);
    assert_true(ask.hints.translate && ask.vad_filter);
    assert_true(w.detect && w.speakers && w.no_times && w.no_word_times && w.no_probabilities);
    assert_true(w.beam == 5 && w.max_len == 1 && w.offset_n == 10 && w.seconds == 2.5);
    assert_string_equal(option(&w, "temperature_fallback"), "no");
    assert_string_equal(option(&w, "best_of"), "3");
    assert_string_equal(option(&w, "condition_on_previous_text"), "no");
    assert_string_equal(option(&w, "no_speech_threshold"), "0.7");
    assert_string_equal(option(&w, "log_prob_threshold"), "-2");
    assert_string_equal(option(&w, "without_timestamps"), "yes");
    steno_hint_store_free(&ask.hints);
}

/* The server's own defaults, unknown values as it reads them, and fields without effect here. */
static void defaults_and_unknown_fields_change_nothing(void **state)
{
    static const char *const sent[][2] = {{"beam_size", "-1"},
                                          {"best_of", "-1"},
                                          {"response_format", "xml"},
                                          {"translate", "perhaps"},
                                          {"duration", "0"},
                                          {"entropy_thold", "2.40"},
                                          {"word_thold", "0.01"},
                                          {"audio_ctx", "0"},
                                          {"split_on_word", "true"},
                                          {"suppress_nst", "true"},
                                          {"debug_mode", "1"},
                                          {"tinydiarize", "true"},
                                          {"carry_initial_prompt", "true"},
                                          {"vad_threshold", "0.5"},
                                          {"from_the_future", "?"},
                                          {"temperature", ""},
                                          {"beam_size", ""},
                                          {"language", ""},
                                          {"temperature_inc", ""},
                                          {"diarize", ""}};
    const struct steno_whisper_cpp_wants nothing = {0};
    struct steno_openai_request ask = {0};
    struct steno_whisper_cpp_wants w = {0};
    (void)state;
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++)
        assert_int_equal(field(&ask, &w, sent[i][0], sent[i][1], NULL), STENO_OK);
    assert_memory_equal(&w, &nothing, sizeof w);
    assert_true(ask.format == STENO_OPENAI_JSON && !ask.hints.translate && !ask.temperature);
    assert_false(steno_whisper_cpp_known("entropy_thold"));
    assert_int_equal(field(&ask, &w, "temperature_inc", "0.2", NULL), STENO_OK);
    assert_string_equal(option(&w, "temperature_fallback"), "yes");
    /* what programs send for "all" */
    assert_int_equal(field(&ask, &w, "max_context", "2147483647", NULL), STENO_OK);
    assert_string_equal(option(&w, "condition_on_previous_text"), "yes");
    assert_int_equal(field(&ask, &w, "duration", "2147483647", NULL), STENO_OK);
    assert_true(w.seconds == 2147483.647);
}

static void wrong_fields_are_named(void **state)
{
    static char big[STENO_OPENAI_FIELD + 10];
    static const char *const bad[][2] = {
        {"temperature", "hot"}, {"temperature_inc", "x"}, {"beam_size", "65"},
        {"best_of", "1.5"},     {"max_context", "all"},   {"no_speech_thold", "2"},
        {"logprob_thold", "1"}, {"max_len", "-1"},        {"offset_n", "1e9"},
        {"offset_t", "10"},     {"duration", "-1"},       {"prompt", "\xff"}};
    struct steno_openai_request ask = {0};
    struct steno_whisper_cpp_wants w = {0};
    const char *param = NULL;
    steno_err err;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(field(&ask, &w, bad[i][0], bad[i][1], &err), STENO_ERR_INVAL);
        assert_ptr_equal(strstr(err.msg, bad[i][0]), err.msg);
    }
    memset(big, '1', sizeof big - 1);
    assert_int_equal(field(&ask, &w, "beam_size", big, &err), STENO_ERR_INVAL);
    assert_int_equal(field(&ask, &w, "prompt", big, &err), STENO_ERR_INVAL);
    assert_int_equal(steno_whisper_cpp_field(&ask, &w, "vad", "1\0", 2, &param, &err),
                     STENO_ERR_INVAL);
    assert_false(ask.vad_filter);
}

static steno_status cpp(struct steno_buf *b, enum steno_openai_format format, steno_transcript *t,
                        const struct steno_whisper_cpp_wants *w)
{
    const struct steno_openai_result r = {.transcript = t,
                                          .language = "en",
                                          .language_probability = 0.75f,
                                          .translated = true,
                                          .duration = 3661.5};
    const struct steno_whisper_cpp_about about = {.wants = w, .temperature = 0.5, .detected = true};
    return steno_whisper_cpp_write(b, format, &r, &about);
}

static void inference_answers_as_the_server_does(void **state)
{
    const struct steno_whisper_cpp_wants w = {0}, numbered = {.offset_n = 7, .max_len = 1};
    steno_transcript *t = two_sections();
    struct steno_buf b;
    (void)state;
    steno_buf_init(&b, 1 << 16);
    says(&b, cpp(&b, STENO_OPENAI_TEXT, t, &w), " And so,\n a\tb \"c\"\n");
    says(&b, cpp(&b, STENO_OPENAI_JSON, t, &w), "{\"text\":\" And so,\\n a\\tb \\\"c\\\"\\n\"}");
    says(&b, cpp(&b, STENO_OPENAI_VERBOSE_JSON, t, &w),
         "{\"task\":\"translate\",\"language\":\"english\",\"duration\":3661.5,"
         "\"text\":\" And so,\\n a\\tb \\\"c\\\"\\n\",\"segments\":["
         "{\"id\":0,\"text\":\" And so,\",\"start\":0,\"end\":1.04,\"words\":["
         "{\"word\":\" And\",\"start\":0,\"end\":0.5,\"probability\":0.5000},"
         "{\"word\":\" so,\",\"start\":0.5,\"end\":1.04,\"probability\":0.7500}],"
         "\"tokens\":[843,523,11],\"temperature\":0.5,\"avg_logprob\":-0.25,"
         "\"no_speech_prob\":0.125},"
         "{\"id\":1,\"text\":\" a\\tb \\\"c\\\"\",\"start\":2,\"end\":3661.5,\"words\":["
         "{\"word\":\" a\\tb\",\"start\":2,\"end\":2.25,\"probability\":1.0000},"
         "{\"word\":\" \\\"c\\\"\",\"start\":2.25,\"end\":3,\"probability\":0.2500}],"
         "\"tokens\":[64],\"temperature\":0.5,\"avg_logprob\":-0.5,\"no_speech_prob\":0.5}],"
         "\"detected_language\":\"english\",\"detected_language_probability\":0.75,"
         "\"language_probabilities\":{\"en\":0.75}}");
    /* each cue ends with a blank line, and max_len=1 makes a cue of every word */
    says(&b, cpp(&b, STENO_OPENAI_SRT, t, &numbered),
         "8\n00:00:00,000 --> 00:00:00,500\nAnd\n\n9\n00:00:00,500 --> 00:00:01,500\nso,\n\n"
         "10\n00:00:01,500 --> 00:00:02,250\na\tb\n\n11\n00:00:02,250 --> 00:00:03,250\n\"c\"\n\n");
    says(&b, cpp(&b, STENO_OPENAI_VTT, t, &numbered),
         "WEBVTT\n\n00:00:00.000 --> 00:00:00.500\nAnd\n\n00:00:00.500 --> 00:00:01.500\nso,\n\n"
         "00:00:01.500 --> 00:00:02.250\na\tb\n\n00:00:02.250 --> 00:00:03.250\n\"c\"\n\n");
    steno_buf_free(&b);
    steno_transcript_free(t);
}

static void what_is_not_wanted_is_left_out(void **state)
{
    const struct steno_whisper_cpp_wants plain = {.no_times = true, .no_probabilities = true},
                                         detect = {.detect = true};
    steno_transcript *t = one_segment(1, "one");
    struct steno_buf b;
    (void)state;
    steno_buf_init(&b, 1 << 16);
    says(&b, cpp(&b, STENO_OPENAI_VERBOSE_JSON, t, &plain),
         "{\"task\":\"translate\",\"language\":\"english\",\"duration\":3661.5,\"text\":\"one\\n\","
         "\"segments\":[{\"id\":0,\"text\":\"one\",\"words\":[{\"word\":\"one\","
         "\"probability\":0.5000}],\"tokens\":[],\"temperature\":0.5,\"avg_logprob\":-0.693147,"
         "\"no_speech_prob\":0.5}]}");
    says(&b, cpp(&b, STENO_OPENAI_VERBOSE_JSON, t, &detect),
         "{\"task\":\"translate\",\"language\":\"english\",\"duration\":3661.5,\"text\":\"\","
         "\"segments\":[],\"detected_language\":\"english\",\"detected_language_probability\":0.75,"
         "\"language_probabilities\":{\"en\":0.75}}");
    says(&b, cpp(&b, STENO_OPENAI_JSON, t, &detect), "{\"text\":\"\"}");
    says(&b, cpp(&b, STENO_OPENAI_SRT, t, &detect), "");
    says(&b, cpp(&b, STENO_OPENAI_VTT, t, &detect), "WEBVTT\n\n");
    steno_buf_free(&b);
    steno_transcript_free(t);
}

static void channels_are_speakers(void **state)
{
    const struct steno_whisper_cpp_wants w = {.speakers = true, .no_times = true};
    steno_transcript *both[] = {one_segment(2, "two"), one_segment(1, "one")};
    steno_transcript *alone[] = {one_segment(1, "one")}, *t;
    struct steno_buf b;
    (void)state;
    steno_buf_init(&b, 1 << 16);
    t = steno_transcript_of_channels(both, 2);
    assert_non_null(t);
    says(&b, cpp(&b, STENO_OPENAI_TEXT, t, &w), "(speaker 1)one\n(speaker 0)two\n");
    assert_int_equal(cpp(&b, STENO_OPENAI_VERBOSE_JSON, t, &w), STENO_OK);
    assert_non_null(strstr(b.data, "{\"id\":1,\"text\":\"two\",\"speaker\":\"(speaker 0)\","));
    steno_buf_reset(&b);
    steno_transcript_free(t);
    t = steno_transcript_of_channels(alone, 1);
    assert_non_null(t);
    says(&b, cpp(&b, STENO_OPENAI_TEXT, t, &w), "one\n");
    says(&b, cpp(&b, STENO_OPENAI_SRT, t, &w), "1\n00:00:01,000 --> 00:00:02,000\none\n\n");
    says(&b, steno_whisper_cpp_write_error(&b, "no \"file\""), "{\"error\":\"no \\\"file\\\"\"}\n");
    steno_buf_free(&b);
    steno_transcript_free(t);
}

/* ---- whisper-asr-webservice ------------------------------------------------------------------ */

static void parameters_of_asr_are_read(void **state)
{
    static const char *const sent[][2] = {{"output", "tsv"},
                                          {"task", "translate"},
                                          {"language", "haw"},
                                          {"encode", "False"},
                                          {"vad_filter", "True"},
                                          {"word_timestamps", "on"},
                                          {"initial_prompt", "digits"},
                                          {"diarize", "true"},
                                          {"min_speakers", "2"},
                                          {"video_file", "/films/a.mkv"}};
    struct steno_openai_request ask = {0};
    struct steno_whisper_asr_wants w = {0};
    (void)state;
    assert_string_equal(steno_whisper_asr_extension(w.output), "txt");
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++)
        assert_int_equal(steno_whisper_asr_query(&ask, &w, sent[i][0], sent[i][1], NULL), STENO_OK);
    assert_true(w.raw && w.words && w.output == STENO_WHISPER_ASR_TSV);
    assert_true(ask.hints.translate && ask.vad_filter);
    assert_string_equal(ask.hints.language, "haw");
    assert_string_equal(ask.hints.prompt, "digits");
    assert_string_equal(steno_whisper_asr_extension(w.output), "tsv");
    assert_int_equal(steno_whisper_asr_query(&ask, &w, "output", "text", NULL), STENO_OK);
    assert_int_equal(steno_whisper_asr_query(&ask, &w, "encode", "true", NULL), STENO_OK);
    assert_int_equal(steno_whisper_asr_query(&ask, &w, "task", "transcribe", NULL), STENO_OK);
    assert_true(!w.raw && !ask.hints.translate && w.output == STENO_WHISPER_ASR_TXT);
    steno_hint_store_free(&ask.hints);
}

static void wrong_parameters_are_named(void **state)
{
    static const char *const bad[][2] = {{"output", "xml"},
                                         {"task", "summarize"},
                                         {"encode", "maybe"},
                                         {"vad_filter", "2"},
                                         {"word_timestamps", "tru"}};
    struct steno_openai_request ask = {0};
    struct steno_whisper_asr_wants w = {0};
    steno_err err;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(steno_whisper_asr_query(&ask, &w, bad[i][0], bad[i][1], &err),
                         STENO_ERR_INVAL);
        assert_ptr_equal(strstr(err.msg, bad[i][0]), err.msg);
    }
}

static void asr_answers_as_the_service_does(void **state)
{
    steno_transcript *t = two_sections();
    const struct steno_openai_result r = {.transcript = t, .language = "en"};
    struct steno_whisper_asr_wants w = {0};
    struct steno_buf b;
    json_t *j;
    (void)state;
    steno_buf_init(&b, 1 << 16);
    says(&b, steno_whisper_asr_write(&b, &r, &w), "And so,\na\tb \"c\"\n");
    w.output = STENO_WHISPER_ASR_TSV;
    says(&b, steno_whisper_asr_write(&b, &r, &w),
         "start\tend\ttext\n0\t1040\tAnd so,\n2000\t3661500\ta b \"c\"\n");
    w.output = STENO_WHISPER_ASR_SRT;
    says(&b, steno_whisper_asr_write(&b, &r, &w),
         "1\n00:00:00,000 --> 00:00:03,000\nAnd so, a\tb \"c\"\n\n");
    w.output = STENO_WHISPER_ASR_VTT;
    says(&b, steno_whisper_asr_write(&b, &r, &w),
         "WEBVTT\n\n00:00:00.000 --> 00:00:03.000\nAnd so, a\tb \"c\"\n\n");
    w.output = STENO_WHISPER_ASR_JSON;
    says(&b, steno_whisper_asr_write(&b, &r, &w),
         "{\"text\":\" And so, a\\tb \\\"c\\\"\",\"segments\":["
         "{\"id\":0,\"seek\":0,\"start\":0,\"end\":1.04,\"text\":\" And so,\","
         "\"tokens\":[50363,843,523,11,50415],\"temperature\":0,\"avg_logprob\":-0.25,"
         "\"compression_ratio\":1.5,\"no_speech_prob\":0.125},"
         "{\"id\":1,\"seek\":100,\"start\":2,\"end\":3661.5,\"text\":\" a\\tb \\\"c\\\"\","
         "\"tokens\":[64],\"temperature\":0,\"avg_logprob\":-0.5,\"compression_ratio\":1,"
         "\"no_speech_prob\":0.5}],\"language\":\"en\"}");
    w.words = true;
    assert_int_equal(steno_whisper_asr_write(&b, &r, &w), STENO_OK);
    assert_non_null(strstr(b.data, "\"no_speech_prob\":0.125,\"words\":[{\"word\":\" And\","
                                   "\"start\":0,\"end\":0.5,\"probability\":0.5000},{\"word\":\""));
    j = json_loadb(b.data, b.len, 0, NULL);
    assert_non_null(j);
    json_decref(j);
    steno_buf_free(&b);
    steno_transcript_free(t);
}

static void silence_has_the_same_form(void **state)
{
    static const char *const want[] = {"", "{\"text\":\"\",\"segments\":[],\"language\":\"\"}", "",
                                       "WEBVTT\n\n", "start\tend\ttext\n"};
    const struct steno_openai_result r = {.transcript = steno_transcript_new(0)};
    struct steno_whisper_asr_wants w = {0};
    struct steno_buf b;
    (void)state;
    steno_buf_init(&b, 1 << 16);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        w.output = (enum steno_whisper_asr_output)i;
        says(&b, steno_whisper_asr_write(&b, &r, &w), want[i]);
    }
    steno_buf_free(&b);
    steno_transcript_free(r.transcript);
}

static void languages_and_errors_are_written(void **state)
{
    struct steno_openai_result r = {.language = "zh", .language_probability = 0.5f};
    struct steno_buf b;
    (void)state;
    steno_buf_init(&b, 1 << 16);
    says(&b, steno_whisper_asr_write_language(&b, &r),
         "{\"detected_language\":\"chinese\",\"language_code\":\"zh\",\"confidence\":0.5}");
    r.language = "x-own";
    says(&b, steno_whisper_asr_write_language(&b, &r),
         "{\"detected_language\":\"x-own\",\"language_code\":\"x-own\",\"confidence\":0.5}");
    r.language = "";
    says(&b, steno_whisper_asr_write_language(&b, &r),
         "{\"detected_language\":\"undetermined\",\"language_code\":\"und\",\"confidence\":0}");
    says(&b, steno_whisper_asr_write_error(&b, "a \"b\""), "{\"detail\":\"a \\\"b\\\"\"}\n");
    steno_buf_free(&b);
}

/* Every size at which the buffer is full: an error, and no crash. */
static void a_full_buffer_is_an_error(void **state)
{
    const struct steno_whisper_cpp_wants w = {0};
    const struct steno_whisper_asr_wants json = {.output = STENO_WHISPER_ASR_JSON, .words = true};
    steno_transcript *t = two_sections();
    const struct steno_openai_result r = {.transcript = t, .language = "en"};
    (void)state;
    for (size_t max = 1; max < 700; max++) {
        struct steno_buf b;
        steno_buf_init(&b, max);
        assert_int_equal(cpp(&b, STENO_OPENAI_VERBOSE_JSON, t, &w), STENO_ERR_LIMIT);
        steno_buf_free(&b);
        steno_buf_init(&b, max);
        (void)!steno_whisper_asr_write(&b, &r, &json);
        assert_true(b.len <= max);
        steno_buf_free(&b);
    }
    steno_transcript_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_inference_are_read),
        cmocka_unit_test(defaults_and_unknown_fields_change_nothing),
        cmocka_unit_test(wrong_fields_are_named),
        cmocka_unit_test(inference_answers_as_the_server_does),
        cmocka_unit_test(what_is_not_wanted_is_left_out),
        cmocka_unit_test(channels_are_speakers),
        cmocka_unit_test(parameters_of_asr_are_read),
        cmocka_unit_test(wrong_parameters_are_named),
        cmocka_unit_test(asr_answers_as_the_service_does),
        cmocka_unit_test(silence_has_the_same_form),
        cmocka_unit_test(languages_and_errors_are_written),
        cmocka_unit_test(a_full_buffer_is_an_error),
    };
    return cmocka_run_group_tests_name("whisper_forms", tests, NULL, NULL);
}
