/* Dialects of other servers, function by function: what a message requests and what an event
 * becomes. tests/integration/test_dialects.py tests whole sessions. The message formats are
 * those of the servers' own documents, which docs/dialects.md names. Deepgram's dialects are in
 * test_dialects_deepgram.c. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/dialect_session.h"
#include "tests/support/test.h"

/* ---- vosk ------------------------------------------------------------------------------------ */

static void vosk_answers_each_message_with_the_current_text(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_vosk);
    assert_int_equal(h.d.start.audio.sample_rate, 8000);
    assert_int_equal(h.d.dialect->binary_end(&h.d, 100), STENO_ACT_NOTHING);
    says(&h, "{\"partial\":\"\"}");
    event(&h, STENO_PARTIAL, "four", STENO_FINAL_END);
    says_no_more(&h); /* it answers only a message */
    h.d.dialect->binary_end(&h.d, 100);
    says(&h, "{\"partial\":\"four\"}");
    event(&h, STENO_FINAL, "four t\"wo", STENO_FINAL_ENDPOINT);
    h.d.dialect->binary_end(&h.d, 100);
    says(&h, "{\"result\":[{\"conf\":0.5,\"end\":1.5,\"start\":1.25,\"word\":\"four\"},"
             "{\"conf\":1.0,\"end\":2.0,\"start\":1.75,\"word\":\"t\\\"wo\"}],\"text\":\"four "
             "t\\\"wo\"}");
    h.d.dialect->binary_end(&h.d, 100);
    says(&h, "{\"partial\":\"\"}");
    stop(&h);
}

static void vosk_joins_the_remaining_finals_in_its_last_answer(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_vosk);
    query(&h, "words", "0", STENO_OK);
    event(&h, STENO_FINAL, "one", STENO_FINAL_ENDPOINT);
    event(&h, STENO_FINAL, "", STENO_FINAL_ENDPOINT);
    event(&h, STENO_FINAL, "two", STENO_FINAL_END);
    h.d.dialect->end(&h.d, false);
    says(&h, "{\"text\":\"one two\"}");
    says_no_more(&h);
    stop(&h);
}

#define FOUR "{\"end\":1.5,\"start\":1.25,\"word\":\"four\"}"
#define TWO "{\"end\":2.0,\"start\":1.75,\"word\":\"t\\\"wo\"}"

static void vosk_sends_as_many_hypotheses_as_requested(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_vosk);
    text(&h, "{\"config\":{\"max_alternatives\":500}}", STENO_OK);
    assert_int_equal(h.d.asked.alternatives, STENO_NATIVE_MAX_ALTERNATIVES);
    text(&h, "{\"config\":{\"max_alternatives\":-1}}", STENO_ERR_INVAL);
    text(&h, "{\"config\":{\"max_alternatives\":\"three\"}}", STENO_ERR_INVAL);
    text(&h, "{\"config\":{\"max_alternatives\":3}}", STENO_OK);
    assert_int_equal(h.d.asked.alternatives, 3);
    nbest(&h);
    /* this final has fewer hypotheses: its best text stands for the missing ones */
    event(&h, STENO_FINAL, "four t\"wo", STENO_FINAL_END);
    h.d.dialect->end(&h.d, false);
    says(&h, "{\"alternatives\":["
             "{\"confidence\":0.707107,\"result\":[" FOUR "," TWO "," FOUR "," TWO "],"
             "\"text\":\"four t\\\"wo four t\\\"wo\"},"
             "{\"confidence\":0.629961,\"result\":[" FOUR "," FOUR "," TWO "],"
             "\"text\":\"four four t\\\"wo\"},"
             "{\"confidence\":0.707107,\"result\":[" FOUR "," TWO "],\"text\":\"four t\\\"wo\"}]}");
    text(&h, "{\"config\":{\"max_alternatives\":0}}", STENO_OK);
    nbest(&h);
    h.d.dialect->binary_end(&h.d, 1);
    says_some(&h, "{\"text\":\"four t\\\"wo\"}");
    stop(&h);
}

static void vosk_understands_config_eof_and_reset(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_vosk);
    assert_int_equal(
        text(&h, "{\"config\":{\"sample_rate\":16000.0,\"words\":0,\"model\":\"m\",\"x\":1}}",
             STENO_OK),
        STENO_ACT_SETTINGS);
    assert_int_equal(h.d.asked.audio.sample_rate, 16000);
    assert_string_equal(h.d.asked.model, "m");
    assert_int_equal(text(&h, "{\"reset\":1}", STENO_OK), STENO_ACT_FINALIZE);
    event(&h, STENO_FINAL, "one", STENO_FINAL_REQUEST);
    h.d.dialect->finalized(&h.d);
    says(&h, "{\"text\":\"one\"}");
    h.d.dialect->finalized(&h.d); /* finalized, but not because of a reset */
    says_no_more(&h);
    assert_int_equal(text(&h, "{\"eof\":1}", STENO_OK), STENO_ACT_END);
    text(&h, "{\"config\":{\"sample_rate\":7999}}", STENO_ERR_INVAL);
    text(&h, "{\"config\":{\"sample_rate\":\"8 kHz\"}}", STENO_ERR_INVAL);
    text(&h, "{\"config\":{\"sample_rate\":null}}", STENO_ERR_INVAL);
    /* numbers in strings, which Python's float() and int() read */
    text(&h, "{\"config\":{\"sample_rate\":\"8000\",\"max_alternatives\":\"3\"}}", STENO_OK);
    assert_int_equal(h.d.asked.audio.sample_rate, 8000);
    assert_int_equal(h.d.asked.alternatives, 3);
    text(&h, "{\"config\":{\"max_alternatives\":\"0\"}}", STENO_OK);
    text(&h, "{}", STENO_ERR_INVAL);
    text(&h, "[]", STENO_ERR_FORMAT);
    text(&h, "eof", STENO_ERR_FORMAT);
    event(&h, STENO_FINAL, "two", STENO_FINAL_END);
    h.d.dialect->error(&h.d, "invalid_data", "a \"reason\"");
    says_some(&h, "{\"text\":\"two\"}"); /* an error does not lose the text before it */
    says(&h, "{\"error\":\"invalid_data\",\"message\":\"a \\\"reason\\\"\"}");
    stop(&h);
}

static void vosk_commands_in_binary_messages_are_read_as_text(void **state)
{
    static const char *const commands[] = {"{\"eof\" : 1}", "{\"eof\":1}", "{\"reset\" : 1}",
                                           "{\"config\" : { \"sample_rate\" : 16000 } }"};
    static const char *const audio[] = {"{}",      "{\"eof\" : 1", "{\"eof\" : 1}x",
                                        "\"eof\"", "[1]",          ""};
    (void)state;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        assert_true(steno_dialect_vosk.binary_text(commands[i], strlen(commands[i])));
    for (size_t i = 0; i < sizeof audio / sizeof *audio; i++)
        assert_false(steno_dialect_vosk.binary_text(audio[i], strlen(audio[i])));
}

/* ---- sherpa ---------------------------------------------------------------------------------- */

static void sherpa_results_count_from_their_segment(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_sherpa);
    assert_int_equal(h.d.start.audio.encoding, STENO_ENCODING_F32LE);
    assert_int_equal(h.d.start.audio.sample_rate, 16000);
    event(&h, STENO_SPEECH_START, "", STENO_FINAL_END);
    event(&h, STENO_PARTIAL, "four t\"wo", STENO_FINAL_END);
    event(&h, STENO_FINAL, "four t\"wo", STENO_FINAL_ENDPOINT);
    assert_true(h.replaceable[0] && !h.replaceable[1]);
    says_some(&h, "{\"text\":\"four t\\\"wo\",\"is_final\":false,\"is_eof\":false,\"segment\":4}");
    says(&h,
         "{\"text\":\"four t\\\"wo\",\"tokens\":[\"four\",\"t\\\"wo\"],\"timestamps\":[0.25,0.75],"
         "\"ys_probs\":[-0.6931,0.0],\"lm_probs\":[],\"context_scores\":[],\"words\":[\"four\","
         "\"t\\\"wo\"],"
         "\"segment\":4,\"start_time\":1.00,\"is_final\":true,\"is_eof\":false}");
    h.d.audio_ms = 2500;
    h.d.dialect->end(&h.d, false); /* the last segment has already ended */
    says_some(&h, "{\"text\":\"four t\\\"wo\",\"segment\":4,\"is_final\":true,\"is_eof\":true}");
    says(&h, "Done!");
    says_no_more(&h);
    stop(&h);
}

static void sherpa_ends_once(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_sherpa);
    assert_int_equal(text(&h, "Done", STENO_OK), STENO_ACT_END);
    text(&h, "done", STENO_ERR_INVAL);
    text(&h, "Done!", STENO_ERR_INVAL);
    text(&h, "", STENO_ERR_INVAL);
    event(&h, STENO_FINAL, "four", STENO_FINAL_END);
    h.d.dialect->end(&h.d, false);
    says_some(&h, "{\"text\":\"four\",\"is_eof\":true}");
    says(&h, "Done!");
    says_no_more(&h);
    stop(&h);
}

/* ---- OpenAI Realtime ------------------------------------------------------------------------- */

static void realtime_deltas_add_up_to_the_text(void **state)
{
    struct received h;
    char all[64] = "";
    bool completed = false;
    (void)state;
    start(&h, &steno_dialect_realtime);
    event(&h, STENO_SPEECH_START, "", STENO_FINAL_END);
    event(&h, STENO_PARTIAL, "four t\"wo", STENO_FINAL_END); /* the stable prefix is "four" */
    event(&h, STENO_FINAL, "four t\"wo", STENO_FINAL_ENDPOINT);
    for (int i = 0; i < h.n; i++) {
        json_t *m = json_loads(h.said[i], JSON_REJECT_DUPLICATES, NULL);
        const char *type = json_string_value(json_object_get(m, "type"));
        assert_non_null(type);
        if (strstr(type, "transcription.delta"))
            strncat(all, json_string_value(json_object_get(m, "delta")), 32);
        if (strstr(type, "transcription.completed")) {
            assert_string_equal(json_string_value(json_object_get(m, "transcript")), "four t\"wo");
            completed = true;
        }
        json_decref(m);
    }
    assert_true(completed);
    assert_string_equal(all, "four t\"wo");
    stop(&h);
}

static void realtime_sends_log_probabilities_when_they_are_included(void **state)
{
    json_t *j;
    struct received h;
    (void)state;
    start(&h, &steno_dialect_realtime);
    query(&h, "penalty", "0.5", STENO_OK);
    assert_string_equal(GET(&h.d.start.options, "penalty"), "0.5");
    text(&h,
         "{\"type\":\"session.update\",\"session\":{\"include\":["
         "\"item.input_audio_transcription.logprobs\"]}}",
         STENO_OK);
    event(&h, STENO_FINAL, "four t\"wo", STENO_FINAL_ENDPOINT);
    j = json_loads(h.said[h.n - 1], 0, NULL);
    assert_string_equal(json_string_value(json_object_get(j, "type")),
                        "conversation.item.input_audio_transcription.completed");
    free(h.said[0]);
    h.said[0] = json_dumps(json_object_get(j, "logprobs"), 0);
    json_decref(j);
    says(&h, "[{\"token\":\"four\",\"logprob\":-0.6931,\"bytes\":[102,111,117,114]},"
             "{\"token\":\" t\\\"wo\",\"logprob\":0.0,\"bytes\":[32,116,34,119,111]}]");
    stop(&h);
}

static void realtime_audio_is_base64(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_realtime);
    assert_int_equal(
        text(&h, "{\"type\":\"input_audio_buffer.append\",\"audio\":\"AAECAwQ=\"}", STENO_OK),
        STENO_ACT_NOTHING); /* the audio was taken before */
    assert_int_equal(h.d.audio.len, 5);
    assert_memory_equal(h.d.audio.data, "\0\1\2\3\4", 5);
    assert_int_equal(text(&h, "{\"type\":\"input_audio_buffer.commit\"}", STENO_OK),
                     STENO_ACT_FINALIZE);
    stop(&h);
}

static void realtime_mistakes_are_errors_and_the_session_continues(void **state)
{
    static const char *const bad[] = {
        "{\"type\":\"input_audio_buffer.append\",\"audio\":\"A*==\",\"event_id\":\"e1\"}",
        "{\"type\":\"input_audio_buffer.append\",\"event_id\":\"e1\"}",
        "{\"type\":\"no.such\",\"event_id\":\"e1\"}",
        "{\"event_id\":\"e1\"}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct received h;
        json_t *m;
        start(&h, &steno_dialect_realtime);
        assert_int_equal(text(&h, bad[i], STENO_OK), STENO_ACT_NOTHING);
        assert_int_equal(h.n, 1);
        m = json_loads(h.said[0], 0, NULL);
        assert_string_equal(json_string_value(json_object_get(m, "type")), "error");
        assert_string_equal(
            json_string_value(json_object_get(json_object_get(m, "error"), "event_id")), "e1");
        json_decref(m);
        stop(&h);
    }
}

/* ---- hints ----------------------------------------------------------------------------------- */

static void native_takes_hints_in_start_and_query(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_native);
    query(&h, "language", "de", STENO_OK);
    query(&h, "prompt", "Nagg", STENO_OK);
    query(&h, "translate", "maybe", STENO_ERR_INVAL);
    assert_int_equal(text(&h,
                          "{\"type\":\"start\",\"language\":\"spanish\",\"translate\":true,"
                          "\"hotwords\":\"Nell\",\"prompt\":null}",
                          STENO_OK),
                     STENO_ACT_START);
    assert_string_equal(h.d.hints.language, "spanish");
    assert_string_equal(h.d.hints.hotwords, "Nell");
    assert_null(h.d.hints.prompt);
    assert_true(h.d.hints.translate);
    text(&h, "{\"type\":\"start\",\"language\":3}", STENO_ERR_INVAL);
    stop(&h);
}

static void realtime_sessions_have_language_prompt_and_keywords(void **state)
{
    struct received h;
    json_t *m, *script;
    (void)state;
    start(&h, &steno_dialect_realtime);
    text(&h,
         "{\"type\":\"session.update\",\"session\":{\"type\":\"transcription\",\"audio\":{"
         "\"input\":{"
         "\"transcription\":{\"model\":\"base\",\"language\":\"es\",\"prompt\":\"Nagg\","
         "\"keywords\":[\"Hamm\",\"Clov\"]}}}}}",
         STENO_OK);
    assert_string_equal(h.d.hints.language, "es");
    assert_string_equal(h.d.hints.prompt, "Nagg");
    assert_string_equal(h.d.hints.hotwords, "Hamm, Clov");
    m = json_loads(h.said[h.n - 1], 0, NULL);
    script = json_object_get(
        json_object_get(json_object_get(json_object_get(m, "session"), "audio"), "input"),
        "transcription");
    assert_string_equal(json_string_value(json_object_get(script, "language")), "es");
    assert_string_equal(json_string_value(json_object_get(script, "prompt")), "Nagg");
    json_decref(m);
    text(&h,
         "{\"type\":\"transcription_session.update\",\"session\":{\"input_audio_transcription\":{"
         "\"language\":7}}}",
         STENO_OK);
    m = json_loads(h.said[h.n - 1], 0, NULL);
    assert_string_equal(json_string_value(json_object_get(json_object_get(m, "error"), "param")),
                        "language");
    json_decref(m);
    stop(&h);
}

static void parameters_of_our_own_work_or_are_refused(void **state)
{
    static const struct steno_dialect *const simple[] = {&steno_dialect_vosk, &steno_dialect_sherpa,
                                                         &steno_dialect_wenet};
    struct received h;
    (void)state;
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++) {
        start(&h, simple[i]);
        query(&h, "multichannel", "false", STENO_OK);
        query(&h, "multichannel", "true", STENO_ERR_INVAL); /* messages have no channel */
        stop(&h);
        start(&h, simple[i]);
        query(&h, "resumable", "true", STENO_ERR_INVAL); /* nor the session's id */
        stop(&h);
    }
    start(&h, &steno_dialect_vosk);
    query(&h, "alternatives", "3", STENO_OK);
    h.d.dialect->end(&h.d, false);
    assert_non_null(strstr(h.said[0], "{\"alternatives\":["));
    stop(&h);
    start(&h, &steno_dialect_native);
    query(&h, "resumable", "true", STENO_OK);
    query(&h, "multichannel", "true", STENO_OK);
    stop(&h);
}

/* Each is an error, and changes nothing: it was "updated" without an effect. */
static void realtime_refuses_settings_that_it_cannot_read(void **state)
{
#define INPUT(members) "{\"type\":\"transcription\",\"audio\":{\"input\":{" members "}}}"
    static const char *const rows[][2] = {
        {INPUT("\"format\":\"g711_ulaw\""), "format: must be an object"},
        {INPUT("\"format\":{\"rate\":8000}"), "format.type: is missing"},
        {INPUT("\"transcription\":\"base\""), "transcription: must be an object"},
        {INPUT("\"transcription\":{\"model\":5}"), "transcription.model: must be a string"},
        {INPUT("\"transcription\":{\"keywords\":\"nine\"}"), "keywords: must be a list of strings"},
        {INPUT("\"turn_detection\":\"none\""), "turn_detection: must be an object"},
        {INPUT("\"turn_detection\":{\"type\":5}"), "turn_detection.type: must be a string"},
        {INPUT("\"format\":{\"type\":5}"), "format.type: must be a string"},
        {"{\"audio\":5}", "session.audio: must be an object"},
        {"{\"audio\":{\"input\":5}}", "session.audio.input: must be an object"},
        {"{\"type\":\"realtime\"}", "session.type: 'realtime' is not transcription"},
        {"{\"type\":5}", "session.type: 'not a string' is not"},
        {"{\"include\":\"item.input_audio_transcription.logprobs\"}", "include: must be an array"},
        {"{\"input_audio_format\":\"g711_ulaw\"}", "session.input_audio_format: is of"},
        {"{\"turn_detection\":null}", "session.turn_detection: is of"},
        {"{}", "session: is missing or empty"},
        {"5", "session: must be an object"}};
    struct received h;
    char message[256];
    (void)state;
    start(&h, &steno_dialect_realtime);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(message, sizeof message, "{\"type\":\"session.update\",\"session\":%s}",
                 rows[i][0]);
        text(&h, message, STENO_OK);
        assert_non_null(strstr(h.said[h.n - 1], "\"type\":\"error\""));
        assert_non_null(strstr(h.said[h.n - 1], rows[i][1]));
    }
    text(&h, "{\"type\":\"session.update\"}", STENO_OK);
    assert_non_null(strstr(h.said[h.n - 1], "session: is missing or empty"));
    text(&h, "{\"type\":\"transcription_session.update\",\"session\":" INPUT("") "}", STENO_OK);
    assert_non_null(strstr(h.said[h.n - 1], "session.audio: is of session.update"));
    assert_int_equal(h.d.start.audio.sample_rate, 24000);
    assert_true(h.d.start.endpointing);
    query(&h, "beta", "1", STENO_OK); /* whose session.update has these members */
    text(&h,
         "{\"type\":\"session.update\",\"session\":{\"input_audio_format\":\"g711_ulaw\","
         "\"turn_detection\":null}}",
         STENO_OK);
    assert_non_null(strstr(h.said[h.n - 1], "transcription_session.updated"));
    assert_int_equal(h.d.start.audio.sample_rate, 8000);
    assert_false(h.d.start.endpointing);
    stop(&h);
#undef INPUT
}

static void vosk_phrases_are_hotwords(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_vosk);
    text(&h, "{\"config\":{\"phrase_list\":[\"one two\",\"[unk]\",\"three\"]}}", STENO_OK);
    assert_string_equal(h.d.asked_hints.hotwords, "one two, three");
    assert_null(h.d.hints.hotwords); /* until the settings are taken */
    stop(&h);
}

/* ---- wyoming --------------------------------------------------------------------------------- */

/* The next event has this type and these data. */
static void tells(struct received *h, const char *type, const char *data)
{
    json_t *head, *a, *b = json_loads(data, 0, NULL);
    const char *said = h->read < h->n ? h->said[h->read] : "", *rest = strchr(said, '\n');
    if (!rest)
        fail_msg("nothing was said, expected %s", type);
    head = json_loads(said, JSON_DISABLE_EOF_CHECK, NULL);
    assert_string_equal(json_string_value(json_object_get(head, "type")), type);
    assert_int_equal(json_integer_value(json_object_get(head, "data_length")), strlen(rest + 1));
    a = rest[1] ? json_loads(rest + 1, JSON_REJECT_DUPLICATES, NULL) : json_object();
    if (!json_equal(a, b))
        fail_msg("%s: said %s, expected %s", type, rest + 1, data);
    json_decref(a);
    json_decref(b);
    json_decref(head);
    h->read++;
}

static steno_status two_models(struct steno_dialect_session *d,
                               steno_status (*see)(void *, const struct steno_dialect_model *),
                               void *user)
{
    const struct steno_dialect_model a = {"digits", "ctc", "1", "MIT", "en"},
                                     b = {"w", "whisper", "2", "", "en de  fr "};
    steno_status st = see(user, &a);
    (void)d;
    return st ? st : see(user, &b);
}

static void wyoming_describes_the_models(void **state)
{
    struct received h;
    json_t *info, *asr, *models;
    (void)state;
    start(&h, &steno_dialect_wyoming);
    h.d.each_model = two_models;
    assert_int_equal(text(&h, "{\"type\":\"describe\",\"data\":{}}", STENO_OK), STENO_ACT_NOTHING);
    info = json_loads(strchr(h.said[0], '\n'), JSON_REJECT_DUPLICATES, NULL);
    asr = json_array_get(json_object_get(info, "asr"), 0);
    models = json_object_get(asr, "models");
    assert_true(json_is_true(json_object_get(asr, "supports_transcript_streaming")));
    assert_int_equal(json_array_size(models), 2);
    assert_int_equal(json_array_size(json_object_get(json_array_get(models, 1), "languages")), 3);
    assert_int_equal(json_array_size(json_object_get(info, "tts")), 0);
    json_decref(info);
    text(&h, "{\"type\":\"ping\",\"data\":{\"text\":\"x\"}}", STENO_OK);
    h.read = 1;
    tells(&h, "pong", "{\"text\":\"x\"}");
    stop(&h);
}

static void wyoming_takes_one_recording(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_wyoming);
    text(&h,
         "{\"type\":\"transcribe\",\"data\":{\"name\":\"m\",\"language\":\"de\","
         "\"transcript_names\":[\"Nagg\"],\"transcript_terms\":[\"lamp\"]}}",
         STENO_OK);
    assert_string_equal(h.d.hints.language, "de");
    assert_string_equal(h.d.hints.hotwords, "Nagg, lamp");
    assert_int_equal(text(&h,
                          "{\"type\":\"audio-start\",\"data\":{\"rate\":22050,\"width\":2,"
                          "\"channels\":2}}",
                          STENO_OK),
                     STENO_ACT_START);
    assert_string_equal(h.d.asked.model, "m");
    assert_int_equal(h.d.asked.audio.sample_rate, 22050);
    assert_int_equal(h.d.asked.audio.channels, 2);
    h.d.start = h.d.asked;
    assert_int_equal(text(&h,
                          "{\"type\":\"audio-chunk\",\"data\":{\"rate\":22050,\"width\":2,"
                          "\"channels\":2}}",
                          STENO_OK),
                     STENO_ACT_NOTHING);
    assert_int_equal(text(&h, "{\"type\":\"audio-stop\"}", STENO_OK), STENO_ACT_END);
    text(&h, "{\"type\":\"audio-chunk\",\"data\":{\"rate\":16000,\"width\":2,\"channels\":2}}",
         STENO_ERR_INVAL);
    text(&h, "{\"type\":\"audio-chunk\",\"data\":{\"rate\":22050,\"width\":4,\"channels\":2}}",
         STENO_ERR_UNSUPPORTED);
    says_no_more(&h);
    stop(&h);
}

static void wyoming_streams_text_that_stays(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_wyoming);
    event(&h, STENO_PARTIAL, "four to", STENO_FINAL_END);
    tells(&h, "transcript-start", "{}");
    tells(&h, "transcript-chunk", "{\"text\":\"four\"}");
    event(&h, STENO_PARTIAL, "four tw", STENO_FINAL_END);
    says_no_more(&h);
    event(&h, STENO_FINAL, "four two", STENO_FINAL_ENDPOINT);
    tells(&h, "transcript-chunk", "{\"text\":\" two\"}");
    event(&h, STENO_FINAL, "five", STENO_FINAL_END);
    tells(&h, "transcript-chunk", "{\"text\":\" five\"}");
    h.d.dialect->end(&h.d, false);
    tells(&h, "transcript", "{\"text\":\"four two five\"}");
    tells(&h, "transcript-stop", "{}");
    says_no_more(&h);
    stop(&h);
}

static void wyoming_answers_silence_and_errors(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_wyoming);
    h.d.dialect->end(&h.d, false);
    tells(&h, "transcript", "{\"text\":\"\"}");
    h.d.dialect->error(&h.d, "busy", "no \"place\"");
    tells(&h, "error", "{\"text\":\"no \\\"place\\\"\",\"code\":\"busy\"}");
    stop(&h);
}

/* ---- partials -------------------------------------------------------------------------------- */

/* Recognizers do no work for what a client is not told. */
static void partials_are_asked_for_by_those_who_read_them(void **state)
{
    static const struct {
        const struct steno_dialect *dialect;
        const char *name, *value;
        bool interim, no_tail;
    } all[] = {{&steno_dialect_native, NULL, NULL, true, false},
               {&steno_dialect_native, "interim", "false", false, false},
               {&steno_dialect_deepgram, NULL, NULL, false, false},
               {&steno_dialect_deepgram, "interim_results", "true", true, false},
               {&steno_dialect_wyoming, NULL, NULL, true, true}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct received h;
        start(&h, all[i].dialect);
        if (all[i].name)
            query(&h, all[i].name, all[i].value, STENO_OK);
        assert_int_equal(h.d.start.interim, all[i].interim);
        assert_int_equal(h.d.start.no_tail, all[i].no_tail);
        stop(&h);
    }
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* Whatever fails, what was heard is told first. */
static void every_dialect_tells_what_was_heard_before_an_error(void **state)
{
    static const struct steno_dialect *const all[] = {
        &steno_dialect_native, &steno_dialect_deepgram, &steno_dialect_flux,
        &steno_dialect_vosk,   &steno_dialect_sherpa,   &steno_dialect_realtime,
        &steno_dialect_wenet,  &steno_dialect_wyoming};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct received h;
        int at[3] = {-1, -1, -1}; /* the last messages with both finals, the first with the error */
        start(&h, all[i]);
        event(&h, STENO_SPEECH_START, "", STENO_FINAL_END);
        event(&h, STENO_FINAL, "one", STENO_FINAL_ENDPOINT);
        event(&h, STENO_SPEECH_START, "", STENO_FINAL_END);
        event(&h, STENO_FINAL, "two", STENO_FINAL_END);
        all[i]->error(&h.d, "internal_error", "the encoder broke");
        for (int k = 0; k < h.n; k++) {
            /* Wyoming's clients read the last message alone, unless they stream */
            const bool read =
                all[i] != &steno_dialect_wyoming || strstr(h.said[k], "\"transcript\"");
            at[0] = read && strstr(h.said[k], "one") ? k : at[0];
            at[1] = read && strstr(h.said[k], "two") ? k : at[1];
            at[2] = at[2] < 0 && strstr(h.said[k], "the encoder broke") ? k : at[2];
        }
        if (at[0] < 0 || at[1] < at[0] || at[2] <= at[1])
            fail_msg("%s, dialect %zu: finals in messages %d and %d, the error in %d", all[i]->name,
                     i, at[0], at[1], at[2]);
        stop(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vosk_answers_each_message_with_the_current_text),
        cmocka_unit_test(vosk_joins_the_remaining_finals_in_its_last_answer),
        cmocka_unit_test(vosk_sends_as_many_hypotheses_as_requested),
        cmocka_unit_test(vosk_understands_config_eof_and_reset),
        cmocka_unit_test(vosk_commands_in_binary_messages_are_read_as_text),
        cmocka_unit_test(sherpa_results_count_from_their_segment),
        cmocka_unit_test(sherpa_ends_once),
        cmocka_unit_test(realtime_deltas_add_up_to_the_text),
        cmocka_unit_test(realtime_sends_log_probabilities_when_they_are_included),
        cmocka_unit_test(realtime_audio_is_base64),
        cmocka_unit_test(realtime_mistakes_are_errors_and_the_session_continues),
        cmocka_unit_test(native_takes_hints_in_start_and_query),
        cmocka_unit_test(realtime_sessions_have_language_prompt_and_keywords),
        cmocka_unit_test(realtime_refuses_settings_that_it_cannot_read),
        cmocka_unit_test(parameters_of_our_own_work_or_are_refused),
        cmocka_unit_test(vosk_phrases_are_hotwords),
        cmocka_unit_test(wyoming_describes_the_models),
        cmocka_unit_test(wyoming_takes_one_recording),
        cmocka_unit_test(wyoming_streams_text_that_stays),
        cmocka_unit_test(wyoming_answers_silence_and_errors),
        cmocka_unit_test(partials_are_asked_for_by_those_who_read_them),
        cmocka_unit_test(every_dialect_tells_what_was_heard_before_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
