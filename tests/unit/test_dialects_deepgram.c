/* The dialects of Deepgram, function by function: parameters, messages, results and close codes of
 * /v1/listen and of Flux. tests/integration/test_dialects.py tests whole sessions. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/dialect_session.h"

static void deepgram_parameters(void **state)
{
    static const struct {
        const char *name, *value;
        steno_status st;
    } rows[] = {{"encoding", "linear16", STENO_OK},
                {"encoding", "g729", STENO_ERR_UNSUPPORTED},
                {"sample_rate", "16000", STENO_OK},
                {"sample_rate", "7999", STENO_ERR_INVAL},
                {"sample_rate", "x", STENO_ERR_INVAL},
                {"channels", "2", STENO_OK},
                {"channels", "9", STENO_ERR_INVAL},
                {"interim_results", "true", STENO_OK},
                {"interim_results", "perhaps", STENO_ERR_INVAL},
                {"endpointing", "50", STENO_OK},
                {"endpointing", "-1", STENO_ERR_INVAL},
                {"smart_format", "true", STENO_OK},
                {"anything", "at all", STENO_OK}};
    struct received h;
    steno_err err;
    (void)state;
    start(&h, &steno_dialect_deepgram);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        query(&h, rows[i].name, rows[i].value, rows[i].st);
    assert_int_equal(h.d.start.audio.sample_rate, 16000);
    assert_int_equal(h.d.start.audio.channels, 2);
    assert_true(h.d.start.endpointing && fabs(h.d.start.endpoint.silence_after - 0.1) < 1e-9);
    query(&h, "endpointing", "false", STENO_OK);
    assert_false(h.d.start.endpointing);
    assert_int_equal(h.d.dialect->first_audio(&h.d, "abcd", 4, &err), STENO_OK);
    stop(&h);
}

static void deepgram_detects_audio_without_an_encoding(void **state)
{
    struct received h;
    steno_err err;
    (void)state;
    start(&h, &steno_dialect_deepgram);
    assert_int_equal(h.d.dialect->first_audio(&h.d, "RIFFx", 5, &err), STENO_OK);
    assert_int_equal(h.d.start.audio.encoding, STENO_ENCODING_WAV);
    assert_int_equal(h.d.dialect->first_audio(&h.d, "OggS", 4, &err), STENO_OK);
    assert_int_equal(h.d.start.audio.encoding, STENO_ENCODING_OPUS);
    assert_int_equal(h.d.dialect->first_audio(&h.d, "RIF", 3, &err), STENO_ERR_FORMAT);
    query(&h, "encoding", "mulaw", STENO_OK);
    h.d.start.audio.sample_rate = 0;
    assert_int_equal(h.d.dialect->first_audio(&h.d, "abcd", 4, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "sample_rate"));
    stop(&h);
}

static void flux_needs_a_rate_for_raw_audio_alone(void **state)
{
    struct received h;
    steno_err err;
    (void)state;
    start(&h, &steno_dialect_flux);
    assert_int_equal(h.d.dialect->first_audio(&h.d, "RIFFx", 5, &err), STENO_OK);
    query(&h, "encoding", "flac", STENO_OK);
    assert_int_equal(h.d.dialect->first_audio(&h.d, "fLaC", 4, &err), STENO_OK);
    query(&h, "encoding", "linear16", STENO_OK);
    h.d.start.audio.sample_rate = 0;
    assert_int_equal(h.d.dialect->first_audio(&h.d, "abcd", 4, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "sample_rate"));
    stop(&h);
}

/* A final or the end of an utterance, so long after the last word's end. */
static double confidence_at(struct received *h, enum steno_event_kind kind,
                            enum steno_final_reason reason, double silence)
{
    const struct steno_event ev = {
        .kind = kind, .time = 2 + silence, .end = 2, .text = "four", .reason = reason};
    json_t *said;
    double c;
    h->d.dialect->event(&h->d, &ev);
    said = json_loads(h->said[h->n - 1], 0, NULL);
    assert_non_null(said);
    c = json_number_value(json_object_get(said, "end_of_turn_confidence"));
    json_decref(said);
    return c;
}

static void flux_thresholds_are_confidences(void **state)
{
    static const struct {
        const char *threshold;
        double silence; /* s, by docs/protocol.md */
    } rows[] = {{"0.3", 0.31}, {"0.5", 0.51}, {"0.6", 0.60},
                {"0.7", 0.70}, {"0.8", 0.82}, {"0.9", 1.01}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct received h;
        const double c = strtod(rows[i].threshold, NULL);
        start(&h, &steno_dialect_flux);
        query(&h, "eager_eot_threshold", rows[i].threshold, STENO_OK);
        assert_true(fabs(h.d.start.utterance_end - rows[i].silence) < 0.005);
        query(&h, "eot_threshold", rows[i].threshold, i ? STENO_OK : STENO_ERR_INVAL);
        assert_true(fabs(h.d.start.endpoint.silence_after - (i ? rows[i].silence : 0.7)) < 0.005);
        assert_true(confidence_at(&h, STENO_PARTIAL, 0, 0) < 0.105);
        assert_true(fabs(confidence_at(&h, STENO_PARTIAL, 0, rows[i].silence) - c) < 0.015);
        /* reached by silence: the event says so, whatever the last word's end is */
        assert_true(confidence_at(&h, STENO_UTTERANCE_END, 0, 0.1) > c - 0.01);
        assert_true(confidence_at(&h, STENO_PARTIAL, 0, -1) < 0.105);
        assert_true(confidence_at(&h, STENO_FINAL, STENO_FINAL_ENDPOINT, 0.1) >
                    (i ? c : 0.7) - 0.01);
        assert_true(confidence_at(&h, STENO_FINAL, STENO_FINAL_END, 0.1) < 0.2);
        stop(&h);
    }
}

static void a_flux_timeout_bounds_the_silence(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_flux);
    query(&h, "eot_threshold", "0.9", STENO_OK);
    query(&h, "eot_timeout_ms", "500", STENO_OK);
    assert_true(fabs(h.d.start.endpoint.silence_after - 0.5) < 1e-9);
    assert_true(fabs(confidence_at(&h, STENO_FINAL, STENO_FINAL_ENDPOINT, 0.1) - 0.49) < 0.011);
    stop(&h);
}

static void deepgram_messages(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_deepgram);
    assert_int_equal(text(&h, "{\"type\":\"KeepAlive\"}", STENO_OK), STENO_ACT_NOTHING);
    assert_int_equal(text(&h, "{\"type\":\"Finalize\"}", STENO_OK), STENO_ACT_FINALIZE);
    assert_int_equal(text(&h, "{\"type\":\"CloseStream\"}", STENO_OK), STENO_ACT_END);
    text(&h, "{\"type\":\"finalize\"}", STENO_ERR_INVAL);
    text(&h, "{\"type\":1}", STENO_ERR_INVAL);
    text(&h, "{", STENO_ERR_FORMAT);
    assert_int_equal(h.d.dialect->binary_end(&h.d, 0), STENO_ACT_END);
    assert_int_equal(h.d.dialect->binary_end(&h.d, 1), STENO_ACT_NOTHING);
    stop(&h);
}

static void deepgram_results_follow_each_other(void **state)
{
    static const char metadata[] =
        "\"metadata\":{\"request_id\":\"00112233-4455-6677-8899-aabbccddeeff\",\"model_info\":{"
        "\"name\":\"digits\",\"version\":\"3\",\"arch\":\"ctc\"},"
        "\"model_uuid\":\"00112233-4455-6677-8899-aabbccddeeff\"}";
    char want[1024];
    struct received h;
    (void)state;
    start(&h, &steno_dialect_deepgram);
    event(&h, STENO_PARTIAL, "four", STENO_FINAL_END);
    event(&h, STENO_SPEECH_START, "", STENO_FINAL_END);
    says_no_more(&h); /* neither was requested */
    query(&h, "interim_results", "true", STENO_OK);
    query(&h, "vad_events", "true", STENO_OK);
    query(&h, "utterance_end_ms", "1000", STENO_OK);
    assert_true(fabs(h.d.start.utterance_end - 1) < 1e-9);
    event(&h, STENO_SPEECH_START, "", STENO_FINAL_END);
    says(&h, "{\"type\":\"SpeechStarted\",\"channel\":[0,1],\"timestamp\":1.0}");
    event(&h, STENO_PARTIAL, "four t\"wo", STENO_FINAL_END);
    assert_true(h.replaceable[1]);
    says_some(&h, "{\"type\":\"Results\",\"is_final\":false,\"speech_final\":false,\"start\":0.0,"
                  "\"duration\":2.25}");
    event(&h, STENO_FINAL, "four t\"wo", STENO_FINAL_ENDPOINT);
    snprintf(want, sizeof want,
             "{\"type\":\"Results\",\"channel_index\":[0,1],\"duration\":2.0,\"start\":0.0,"
             "\"is_final\":true,\"speech_final\":true,\"from_finalize\":false,\"channel\":{"
             "\"alternatives\":[{\"transcript\":\"four t\\\"wo\",\"confidence\":0.75,\"words\":["
             "{\"word\":\"four\",\"start\":1.25,\"end\":1.5,\"confidence\":0.5},"
             "{\"word\":\"t\\\"wo\",\"start\":1.75,\"end\":2.0,\"confidence\":1.0}]}]},%s}",
             metadata);
    says(&h, want);
    event(&h, STENO_UTTERANCE_END, "", STENO_FINAL_END);
    says(&h, "{\"type\":\"UtteranceEnd\",\"channel\":[0,1],\"last_word_end\":2.0}");
    event(&h, STENO_FINAL, "", STENO_FINAL_REQUEST); /* starts where the last result ended */
    says_some(&h, "{\"start\":2.0,\"duration\":0.0,\"from_finalize\":true,\"speech_final\":false}");
    h.d.audio_ms = 2500;
    h.d.dialect->end(&h.d, false);
    says_some(&h, "{\"type\":\"Metadata\",\"duration\":2.5,\"channels\":1}");
    says_no_more(&h);
    stop(&h);
}

static void deepgram_sends_hypotheses_and_accepts_search_options(void **state)
{
    static const char four[] = "{\"word\":\"four\",\"start\":1.25,\"end\":1.5,\"confidence\":0.5}";
    char want[512];
    struct received h;
    (void)state;
    start(&h, &steno_dialect_deepgram);
    query(&h, "alternatives", "3", STENO_OK);
    query(&h, "alternatives", "11", STENO_ERR_INVAL);
    query(&h, "ctc_weight", "0.25", STENO_OK);
    query(&h, "ctc_weight", "2", STENO_ERR_INVAL);
    query(&h, "beam", "4", STENO_OK);
    query(&h, "quantized", "true", STENO_OK);
    assert_int_equal(h.d.start.alternatives, 3);
    assert_int_equal(h.d.start.beam, 4);
    assert_string_equal(GET(&h.d.start.options, "ctc_weight"), "0.25");
    assert_string_equal(GET(&h.d.start.options, "quantized"), "yes");
    nbest(&h);
    snprintf(want, sizeof want,
             "{\"channel\":{\"alternatives\":[{\"transcript\":\"four t\\\"wo\",\"confidence\":0.75,"
             "\"words\":[%s,{\"word\":\"t\\\"wo\",\"start\":1.75,\"end\":2.0,"
             "\"confidence\":1.0}]},{\"transcript\":\"four\",\"confidence\":0.5,\"words\":[%s]},"
             "{\"transcript\":\"\",\"confidence\":0.0,\"words\":[]}]}}",
             four, four);
    says_some(&h, want);
    stop(&h);
}

static void deepgram_close_codes(void **state)
{
    static const struct {
        const char *code;
        int close;
        const char *reason;
    } rows[] = {{"idle_timeout", 1011, "NET-0001"},
                {"invalid_data", 1008, "DATA-0000"},
                {"unsupported", 1008, "DATA-0000"},
                {"internal_error", 1011, "NET-0000"},
                {"busy", 1013, "as it was"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int close = 1013;
        const char *reason = "as it was";
        steno_dialect_deepgram.close(rows[i].code, &close, &reason);
        assert_int_equal(close, rows[i].close);
        assert_string_equal(reason, rows[i].reason);
    }
}

static void deepgram_keywords_are_hotwords(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_deepgram);
    query(&h, "language", "en-GB", STENO_OK);
    query(&h, "keywords", "Hamm:1.5", STENO_OK);
    query(&h, "keyterm", "Clov: the servant", STENO_OK);
    assert_string_equal(h.d.hints.language, "en-GB");
    assert_string_equal(h.d.hints.hotwords, "Hamm, Clov: the servant");
    query(&h, "detect_language", "true", STENO_OK);
    assert_string_equal(h.d.hints.language, "");
    stop(&h);
}

static void deepgram_detects_one_of_the_languages_that_are_listed(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_deepgram);
    query(&h, "language", "fr", STENO_OK);
    query(&h, "detect_language", "en", STENO_OK);
    assert_string_equal(h.d.hints.language, "en");
    query(&h, "detect_language", "pt-BR", STENO_OK);
    assert_string_equal(h.d.hints.language, "en,pt-BR");
    query(&h, "detect_language", "perhaps", STENO_ERR_INVAL);
    for (size_t i = 0; i < 14; i++)
        query(&h, "detect_language", "icelandic", i < 11 ? STENO_OK : STENO_ERR_INVAL);
    query(&h, "detect_language", "true", STENO_OK);
    assert_string_equal(h.d.hints.language, "");
    stop(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deepgram_parameters),
        cmocka_unit_test(deepgram_detects_audio_without_an_encoding),
        cmocka_unit_test(flux_needs_a_rate_for_raw_audio_alone),
        cmocka_unit_test(flux_thresholds_are_confidences),
        cmocka_unit_test(a_flux_timeout_bounds_the_silence),
        cmocka_unit_test(deepgram_messages),
        cmocka_unit_test(deepgram_results_follow_each_other),
        cmocka_unit_test(deepgram_sends_hypotheses_and_accepts_search_options),
        cmocka_unit_test(deepgram_close_codes),
        cmocka_unit_test(deepgram_keywords_are_hotwords),
        cmocka_unit_test(deepgram_detects_one_of_the_languages_that_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
