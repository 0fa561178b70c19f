/* The dialects of Deepgram, function by function: parameters, messages, results and close codes of
 * /v1/listen and of Flux. tests/integration/test_dialects.py tests whole sessions. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/dialect_session.h"
#include "tests/support/test.h"

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
    const struct steno_event ev = {.kind = kind,
                                   .time = 2 + silence,
                                   .end = 2,
                                   .text = "four",
                                   .confidence = 0.25f,
                                   .reason = reason};
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
        double silence; /* s, by docs/dialects.md */
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
    says_no_more(&h); /* it is speech once there is a word */
    event(&h, STENO_PARTIAL, "four", STENO_FINAL_END);
    says(&h, "{\"type\":\"SpeechStarted\",\"channel\":[0,1],\"timestamp\":1.0}");
    says_some(&h, "{\"type\":\"Results\",\"is_final\":false}");
    event(&h, STENO_PARTIAL, "four t\"wo", STENO_FINAL_END);
    assert_true(h.replaceable[2]);
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
    says_some(&h,
              "{\"start\":2.0,\"duration\":0.25,\"from_finalize\":true,\"speech_final\":false}");
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

static void deepgram_has_no_speech_in_clicks_and_music(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_deepgram);
    assert_false(h.d.start.interim);
    query(&h, "vad_events", "true", STENO_OK);
    assert_true(h.d.start.interim); /* speech is told with its first word, not with the final */
    event(&h, STENO_SPEECH_START, "", STENO_FINAL_END);
    event(&h, STENO_PARTIAL, "four", STENO_FINAL_END);
    says_some(&h, "{\"type\":\"SpeechStarted\",\"timestamp\":1.0}");
    says_no_more(&h);
    event(&h, STENO_FINAL, "four t\"wo", STENO_FINAL_ENDPOINT);
    h.read = h.n;
    event(&h, STENO_SPEECH_START, "", STENO_FINAL_END);
    assert_true(h.d.dialect->is_busy(&h.d));
    event(&h, STENO_FINAL, "", STENO_FINAL_ENDPOINT);
    says_some(&h, "{\"type\":\"Results\",\"is_final\":true,\"speech_final\":false,\"start\":2.0,"
                  "\"duration\":0.25}");
    assert_false(h.d.dialect->is_busy(&h.d));
    event(&h, STENO_SPEECH_START, "", STENO_FINAL_END); /* words in the final alone */
    event(&h, STENO_FINAL, "four t\"wo", STENO_FINAL_ENDPOINT);
    says_some(&h, "{\"type\":\"SpeechStarted\"}");
    says_some(&h, "{\"type\":\"Results\",\"speech_final\":true}");
    says_no_more(&h);
    stop(&h);
}

static void deepgram_tells_a_voice_at_once(void **state)
{
    const struct steno_event voice = {
        .kind = STENO_SPEECH_START, .start = 1, .text = "", .confidence = 1};
    struct received h;
    (void)state;
    start(&h, &steno_dialect_deepgram);
    query(&h, "vad_events", "true", STENO_OK);
    h.d.dialect->event(&h.d, &voice);
    says_some(&h, "{\"type\":\"SpeechStarted\",\"timestamp\":1.0}");
    event(&h, STENO_PARTIAL, "four", STENO_FINAL_END);
    says_no_more(&h); /* once, and interim results were not requested */
    stop(&h);
}

/* A model that takes no hotwords. */
static steno_status refuse_hotwords(struct steno_dialect_session *d,
                                    const struct steno_native_start *s, char *model, steno_err *err)
{
    (void)d, (void)model;
    return s->needs_hotwords && s->hints->hotwords
               ? steno_fail(err, STENO_ERR_INVAL, "hotwords: the model takes none")
               : STENO_OK;
}

static void deepgram_is_configured_while_it_runs(void **state)
{
#define ID "\"request_id\":\"00112233-4455-6677-8899-aabbccddeeff\""
    static const char *const wrong[] = {"{\"type\":\"Configure\",\"keyterms\":\"four\"}",
                                        "{\"type\":\"Configure\",\"keyterms\":[4]}",
                                        "{\"type\":\"Configure\",\"features\":[]}",
                                        "{\"type\":\"Configure\",\"features\":{\"numerals\":1}}",
                                        "{\"type\":\"Configure\",\"features\":{\"redact\":true}}"};
    char long_one[STENO_HINT_BYTES + 100];
    struct received h;
    (void)state;
    start(&h, &steno_dialect_deepgram);
    query(&h, "keyterm", "Hamm", STENO_OK);
    assert_int_equal(text(&h, "{\"type\":\"Configure\"}", STENO_OK), STENO_ACT_NOTHING);
    says(&h, "{\"type\":\"ConfigureSuccess\"," ID "}");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(text(&h, wrong[i], STENO_OK), STENO_ACT_NOTHING);
        says_some(&h, "{\"type\":\"ConfigureFailure\",\"code\":\"CONFIGURE_INVALID\"}");
    }
    assert_string_equal(h.d.hints.hotwords, "Hamm");
    assert_int_equal(text(&h,
                          "{\"type\":\"Configure\",\"keyterms\":[\"Clov\",\"the servant\"],"
                          "\"features\":{\"numerals\":true,\"redact\":false}}",
                          STENO_OK),
                     STENO_ACT_CHANGE);
    says(&h, "{\"type\":\"ConfigureSuccess\"," ID ",\"keyterms\":[\"Clov\",\"the servant\"]}");
    assert_string_equal(h.d.hints.hotwords, "Clov, the servant");
    snprintf(long_one, sizeof long_one, "{\"type\":\"Configure\",\"keyterms\":[\"%0*d\"]}",
             STENO_HINT_BYTES + 1, 0);
    text(&h, long_one, STENO_OK);
    says_some(&h, "{\"code\":\"CONFIGURE_KEYTERM_LIMIT_EXCEEDED\"}");
    h.d.check = refuse_hotwords;
    text(&h, "{\"type\":\"Configure\",\"keyterms\":[\"Nell\"]}", STENO_OK);
    says_some(&h, "{\"code\":\"CONFIGURE_KEYTERMS_NOT_SUPPORTED\"}");
    assert_string_equal(h.d.hints.hotwords, "Clov, the servant");
    text(&h, "{\"type\":\"Configure\",\"keyterms\":[]}", STENO_OK);
    says(&h, "{\"type\":\"ConfigureSuccess\"," ID ",\"keyterms\":[]}");
    h.d.offset = 10; /* the stream of the new settings began here */
    h.d.model_language = "en";
    event(&h, STENO_FINAL, "four t\"wo", STENO_FINAL_ENDPOINT);
    says_some(&h, "{\"type\":\"Results\",\"start\":0.0,\"duration\":12.0}");
    assert_non_null(strstr(h.said[h.n - 1], "\"start\":11.250,\"end\":11.500"));
    stop(&h);
}

/* ---- Flux ------------------------------------------------------------------------------------ */

static void heard(struct received *h, double from, double to)
{
    for (int i = 1; i <= (int)((to - from) * 50 + 0.5); i++)
        h->d.dialect->progress(&h->d, from + 0.02 * i);
}

#define TURN(event, more) "{\"type\":\"TurnInfo\",\"event\":\"" event "\"" more "}"

static void flux_has_news_every_quarter_of_a_second(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_flux);
    assert_true(h.d.start.progress);
    heard(&h, 0, 1);
    for (int i = 1; i <= 3; i++)
        says_some(&h, TURN("Update", ",\"turn_index\":0,\"transcript\":\"\",\"words\":[]"));
    says_no_more(&h); /* at 0.26, 0.52, 0.78 s */
    event(&h, STENO_PARTIAL, "four", 0);
    says_some(&h, TURN("StartOfTurn", ",\"audio_window_end\":2.25"));
    heard(&h, 2.0, 2.6);
    says_some(&h, TURN("Update", ",\"audio_window_end\":2.5,\"transcript\":\"four\""));
    says_no_more(&h);
    stop(&h);
}

static void flux_tells_what_ended_a_turn(void **state)
{
    static const struct {
        const char *threshold, *timeout;
        enum steno_final_reason reason;
        const char *trigger;
    } rows[] = {{"0.7", "5000", STENO_FINAL_ENDPOINT, "model"},
                {"0.9", "500", STENO_FINAL_ENDPOINT, "timeout"},
                {"1", "60000", STENO_FINAL_ENDPOINT, "timeout"},
                {"1.0", "60000", STENO_FINAL_REQUEST, "manual"},
                {"0.7", "5000", STENO_FINAL_END, "manual"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char want[128];
        struct received h;
        start(&h, &steno_dialect_flux);
        query(&h, "eot_threshold", rows[i].threshold, STENO_OK);
        query(&h, "eot_timeout_ms", rows[i].timeout, STENO_OK);
        query(&h, "eot_threshold", "1.01", STENO_ERR_INVAL);
        query(&h, "eot_timeout_ms", "60001", STENO_ERR_INVAL);
        event(&h, STENO_PARTIAL, "four", 0);
        says_some(&h, TURN("StartOfTurn", ""));
        assert_null(strstr(h.said[0], "trigger"));
        event(&h, STENO_FINAL, "four t\"wo", rows[i].reason);
        snprintf(want, sizeof want, "{\"event\":\"EndOfTurn\",\"trigger\":\"%s\"}",
                 rows[i].trigger);
        says_some(&h, want);
        says_no_more(&h);
        stop(&h);
    }
}

/* A server with the network for it: a final before the timeout is the network's. */
static void flux_thresholds_are_those_of_the_network(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_flux);
    h.d.judges_turns = true;
    assert_int_equal(h.d.start.turn.kind, STENO_TURN_IF_THERE);
    query(&h, "eot_threshold", "0.8", STENO_OK);
    query(&h, "eot_timeout_ms", "2000", STENO_OK);
    assert_true(h.d.start.turn.threshold == 0.8 && h.d.start.turn.wait == 2);
    assert_true(fabs(confidence_at(&h, STENO_FINAL, STENO_FINAL_ENDPOINT, 0.25) - 0.8) < 0.011);
    assert_non_null(strstr(h.said[h.n - 1], "\"trigger\":\"model\""));
    (void)confidence_at(&h, STENO_FINAL, STENO_FINAL_ENDPOINT, 1.9);
    assert_non_null(strstr(h.said[h.n - 1], "\"trigger\":\"timeout\""));
    query(&h, "eot_threshold", "1", STENO_OK); /* nothing is so sure */
    assert_int_equal(h.d.start.turn.kind, STENO_TURN_SILENCE);
    assert_true(h.d.start.endpoint.silence_after == 2);
    query(&h, "eager_eot_threshold", "0.4", STENO_OK); /* it is asked all the same */
    assert_int_equal(h.d.start.turn.kind, STENO_TURN_IF_THERE);
    assert_true(h.d.start.turn.early == 0.4 && h.d.start.turn.threshold == 1);
    (void)confidence_at(&h, STENO_PARTIAL, 0, 0.1);
    assert_true(confidence_at(&h, STENO_UTTERANCE_END, 0, 0.1) == 0.25); /* as the network says */
    assert_non_null(strstr(h.said[h.n - 1], "\"event\":\"EagerEndOfTurn\""));
    stop(&h);
}

static void a_forced_end_without_words_is_none(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_flux);
    assert_int_equal(text(&h, "{\"type\":\"ForceEndTurn\"}", STENO_OK), STENO_ACT_FINALIZE);
    event(&h, STENO_SPEECH_START, "", 0);
    event(&h, STENO_FINAL, "", STENO_FINAL_REQUEST);
    says_no_more(&h);
    event(&h, STENO_PARTIAL, "four",
          0); /* but a turn that has begun ends, whatever is left of it */
    says_some(&h, TURN("StartOfTurn", ""));
    event(&h, STENO_FINAL, "", STENO_FINAL_REQUEST);
    says_some(&h,
              TURN("EndOfTurn", ",\"turn_index\":0,\"trigger\":\"manual\",\"transcript\":\"\""));
    assert_false(h.d.dialect->is_busy(&h.d));
    says_no_more(&h);
    stop(&h);
}

static void a_flux_turn_is_longer_than_a_segment(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_flux);
    event(&h, STENO_PARTIAL, "four", 0);
    event(&h, STENO_FINAL, "four t\"wo", STENO_FINAL_LENGTH);
    h.read = h.n;
    assert_true(h.d.dialect->is_busy(&h.d));
    event(&h, STENO_PARTIAL, "four t\"wo", 0);
    says_some(&h, TURN("Update", ",\"turn_index\":0,\"transcript\":\"four t\\\"wo four t\\\"wo\""));
    event(&h, STENO_FINAL, "", STENO_FINAL_ENDPOINT);
    says_some(&h, TURN("EndOfTurn", ",\"transcript\":\"four t\\\"wo\",\"trigger\":\"model\""));
    event(&h, STENO_FINAL, "four t\"wo", STENO_FINAL_ENDPOINT);
    says_some(&h, TURN("StartOfTurn", ",\"turn_index\":1,\"transcript\":\"four t\\\"wo\""));
    stop(&h);
}

static void a_flux_turn_is_resumed_before_its_text_changes(void **state)
{
    struct received h;
    (void)state;
    for (int changes = 0; changes < 2; changes++) {
        start(&h, &steno_dialect_flux);
        query(&h, "eager_eot_threshold", "0.4", STENO_OK);
        event(&h, STENO_PARTIAL, "four t\"wo", 0);
        event(&h, STENO_UTTERANCE_END, "", 0);
        h.read = h.n;
        event(&h, STENO_FINAL, changes ? "four" : "four t\"wo", STENO_FINAL_ENDPOINT);
        if (changes)
            says_some(&h, TURN("TurnResumed", ",\"transcript\":\"four\""));
        says_some(&h, TURN("EndOfTurn", ""));
        says_no_more(&h);
        stop(&h);
    }
}

static void flux_says_all_of_its_configuration(void **state)
{
#define HEAD(n) "\"request_id\":\"00112233-4455-6677-8899-aabbccddeeff\",\"sequence_id\":" #n
    struct received h;
    (void)state;
    start(&h, &steno_dialect_flux);
    query(&h, "keyterm", "Hamm", STENO_OK);
    query(&h, "language_hint", "en", STENO_OK);
    query(&h, "language_hint", "de", STENO_OK);
    query(&h, "numerals", "perhaps", STENO_ERR_INVAL);
    assert_int_equal(text(&h, "{\"type\":\"Configure\"}", STENO_OK), STENO_ACT_CHANGE);
    says(&h, "{\"type\":\"ConfigureSuccess\"," HEAD(
                 0) ",\"thresholds\":{\"eot_threshold\":0.7,"
                    "\"eot_timeout_ms\":5000},\"numerals\":false,\"keyterms\":[\"Hamm\"],"
                    "\"language_hints\":[\"en\",\"de\"]}");
    text(
        &h,
        "{\"type\":\"Configure\",\"thresholds\":{\"eot_threshold\":1.0,\"eager_eot_threshold\":0.5,"
        "\"eot_timeout_ms\":60000},\"keyterms\":[],\"language_hints\":[\"fr\"],\"numerals\":true}",
        STENO_OK);
    says(&h, "{\"type\":\"ConfigureSuccess\"," HEAD(
                 1) ",\"thresholds\":{\"eot_threshold\":1,"
                    "\"eot_timeout_ms\":60000,\"eager_eot_threshold\":0.5},\"numerals\":true,"
                    "\"keyterms\":[],\"language_hints\":[\"fr\"]}");
    text(&h, "{\"type\":\"Configure\",\"numerals\":1}", STENO_OK);
    says_some(&h, "{\"type\":\"ConfigureFailure\"}");
    text(&h, "{\"type\":\"Configure\",\"language_hints\":\"fr\"}", STENO_OK);
    says_some(&h, "{\"type\":\"ConfigureFailure\"}");
    stop(&h);
}

static void flux_refuses_thresholds_that_it_would_not_follow(void **state)
{
    static const char *const wrong[][2] = {
        {"\"high\"", "thresholds must be an object"},
        {"{\"eot_treshold\":0.9}", "thresholds.eot_treshold is unknown"},
        {"{\"eager_eot_threshold\":0.8}",
         "eager_eot_threshold: 0.8 is more than eot_threshold, 0.7"}};
    struct received h;
    steno_err err;
    char message[160];
    (void)state;
    start(&h, &steno_dialect_flux);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(message, sizeof message, "{\"type\":\"Configure\",\"thresholds\":%s}",
                 wrong[i][0]);
        text(&h, message, STENO_OK);
        snprintf(message, sizeof message, "{\"type\":\"ConfigureFailure\",\"description\":\"%s\"}",
                 wrong[i][1]);
        says_some(&h, message);
    }
    query(&h, "encoding", "linear16", STENO_OK);
    query(&h, "sample_rate", "16000", STENO_OK);
    query(&h, "eager_eot_threshold", "0.8", STENO_OK);
    assert_int_equal(h.d.dialect->first_audio(&h.d, "", 0, &err), STENO_ERR_INVAL);
    query(&h, "eot_threshold", "0.8", STENO_OK); /* in any order */
    assert_int_equal(h.d.dialect->first_audio(&h.d, "", 0, &err), STENO_OK);
    stop(&h);
}

static void flux_writes_numbers_as_digits(void **state)
{
    static const struct steno_word words[] = {
        {.text = "twenty", .start = 1, .end = 1.25, .confidence = 1},
        {.text = "three", .start = 1.25, .end = 1.5, .confidence = 1}};
    const struct steno_event ev = {.kind = STENO_FINAL,
                                   .time = 3,
                                   .end = 1.5,
                                   .text = "twenty three",
                                   .language = "en",
                                   .words = words,
                                   .n_words = 2,
                                   .reason = STENO_FINAL_ENDPOINT};
    struct received h;
    (void)state;
    start(&h, &steno_dialect_flux);
    query(&h, "numerals", "true", STENO_OK);
    h.d.offset = 10;
    h.d.dialect->event(&h.d, &ev);
    says_some(&h, TURN("StartOfTurn", ""));
    says_some(&h, TURN("EndOfTurn",
                       ",\"transcript\":\"23\",\"languages\":[\"en\"],\"words\":[{\"word\":"
                       "\"23\",\"confidence\":1.0,\"start\":11.0,\"end\":11.5}]"));
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

/* Filters mean the same live and for uploads. */
static void deepgram_filters_that_are_off_or_missing_refuse_nothing(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_deepgram);
    query(&h, "redact", "false", STENO_OK);
    query(&h, "replace", "", STENO_OK);
    assert_null(h.d.hints.redact);
    query(&h, "redact", "pci", STENO_OK);
    assert_string_equal(h.d.hints.redact, "pci");
    query(&h, "profanity_filter", "true", STENO_OK); /* without a list it is in warnings */
    assert_false(h.d.hints.profanity_filter);
    stop(&h);
}

static void deepgram_names_what_only_uploads_have(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_deepgram);
    query(&h, "paragraphs", "true", STENO_OK);
    query(&h, "utterances", "false", STENO_OK);
    query(&h, "punctuate", "true", STENO_OK);
    steno_dialect_deepgram.end(&h.d, false);
    assert_non_null(
        strstr(h.said[0], "{\"parameter\":\"paragraphs\",\"type\":\"unsupported_parameter\""));
    assert_null(strstr(h.said[0], "utterances"));
    assert_null(strstr(h.said[0], "punctuate"));
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
        cmocka_unit_test(deepgram_has_no_speech_in_clicks_and_music),
        cmocka_unit_test(deepgram_tells_a_voice_at_once),
        cmocka_unit_test(deepgram_is_configured_while_it_runs),
        cmocka_unit_test(flux_has_news_every_quarter_of_a_second),
        cmocka_unit_test(flux_tells_what_ended_a_turn),
        cmocka_unit_test(flux_thresholds_are_those_of_the_network),
        cmocka_unit_test(a_forced_end_without_words_is_none),
        cmocka_unit_test(a_flux_turn_is_longer_than_a_segment),
        cmocka_unit_test(a_flux_turn_is_resumed_before_its_text_changes),
        cmocka_unit_test(flux_says_all_of_its_configuration),
        cmocka_unit_test(flux_refuses_thresholds_that_it_would_not_follow),
        cmocka_unit_test(flux_writes_numbers_as_digits),
        cmocka_unit_test(deepgram_close_codes),
        cmocka_unit_test(deepgram_keywords_are_hotwords),
        cmocka_unit_test(deepgram_filters_that_are_off_or_missing_refuse_nothing),
        cmocka_unit_test(deepgram_names_what_only_uploads_have),
        cmocka_unit_test(deepgram_detects_one_of_the_languages_that_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
