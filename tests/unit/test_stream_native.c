/* The native WebSocket dialect against docs/protocol.md, message by message. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "protocol/json_text.h"
#include "protocol/stream_native.h"
#include "tests/support/test.h"

#define GET(o, name) steno_options_get(o, name, (char[STENO_OPTION_TEXT]){0})

static steno_status parse(const char *text, struct steno_native_message *m, steno_err *err)
{
    struct steno_native_start defaults;
    steno_native_start_init(&defaults);
    err->msg[0] = '\0';
    return steno_native_parse(text, strlen(text), &defaults, m, err);
}

static void start_without_fields_means_the_documented_defaults(void **state)
{
    struct steno_native_message m;
    steno_err err;
    (void)state;
    assert_int_equal(parse("{\"type\":\"start\"}", &m, &err), STENO_OK);
    assert_int_equal(m.type, STENO_NATIVE_START);
    assert_string_equal(m.start.model, "");
    assert_int_equal(m.start.audio.encoding, STENO_ENCODING_S16LE);
    assert_int_equal(m.start.audio.sample_rate, 16000);
    assert_int_equal(m.start.audio.channels, 1);
    assert_true(m.start.interim && m.start.words && m.start.endpointing);
    assert_int_equal(m.start.alternatives, 1);
}

static void start_takes_every_field(void **state)
{
    struct steno_native_message m;
    steno_err err;
    (void)state;
    assert_int_equal(parse("{\"type\":\"start\",\"model\":\"digits-en\",\"encoding\":\"mulaw\","
                           "\"sample_rate\":8000,\"channels\":2,\"channel\":2,\"interim\":false,"
                           "\"words\":false,\"alternatives\":3,\"beam\":8,\"endpointing\":false,"
                           "\"silence_alone\":2.5,\"silence_after\":0.4,\"longest\":12}",
                           &m, &err),
                     STENO_OK);
    assert_string_equal(m.start.model, "digits-en");
    assert_int_equal(m.start.audio.encoding, STENO_ENCODING_MULAW);
    assert_int_equal(m.start.audio.sample_rate, 8000);
    assert_int_equal(m.start.audio.channels, 2);
    assert_int_equal(m.start.audio.channel, 2);
    assert_false(m.start.interim || m.start.words || m.start.endpointing);
    assert_int_equal(m.start.alternatives, 3);
    assert_int_equal(m.start.beam, 8);
    assert_true(m.start.endpoint.silence_alone == 2.5);
    assert_true(m.start.endpoint.silence_after == 0.4);
    assert_true(m.start.endpoint.longest == 12);
}

static void aligned_words_are_written_as_a_query(void **state)
{
    struct steno_native_message m;
    struct steno_buf b;
    steno_err err;
    (void)state;
    steno_buf_init(&b, 4096);
    assert_int_equal(parse("{\"type\":\"start\",\"word_times\":\"aligned\"}", &m, &err), STENO_OK);
    assert_true(m.start.aligned);
    assert_int_equal(steno_native_write_query(&b, &m.start), STENO_OK);
    assert_non_null(strstr(b.data, "&word_times=aligned"));
    assert_int_equal(steno_native_query("word_times", "model", &m.start, &err), STENO_OK);
    assert_false(m.start.aligned);
    steno_buf_free(&b);
}

/* What another server is told of a session. */
static void what_ends_turns_is_written_as_a_query(void **state)
{
    struct steno_native_message m;
    struct steno_buf b;
    steno_err err;
    (void)state;
    steno_buf_init(&b, 4096);
    assert_int_equal(
        parse("{\"type\":\"start\",\"turn\":\"semantic\",\"turn_threshold\":0.625}", &m, &err),
        STENO_OK);
    assert_int_equal(m.start.turn.kind, STENO_TURN_SEMANTIC);
    assert_true(m.start.turn.threshold == 0.625);
    assert_int_equal(steno_native_write_query(&b, &m.start), STENO_OK);
    assert_non_null(strstr(b.data, "&turn=semantic"));
    assert_non_null(strstr(b.data, "&turn_threshold=0.625"));
    steno_buf_free(&b);
    assert_int_equal(parse("{\"type\":\"start\",\"turn\":\"silence\"}", &m, &err), STENO_OK);
    assert_int_equal(steno_native_write_query(&b, &m.start), STENO_OK);
    assert_true(!b.data || !strstr(b.data, "turn"));
    steno_buf_free(&b);
}

static void start_takes_the_joint_search(void **state)
{
    struct steno_native_message m;
    struct steno_native_start s;
    steno_err err;
    (void)state;
    assert_int_equal(
        parse("{\"type\":\"start\",\"ctc_weight\":0.25,\"maxlenratio\":-30}", &m, &err), STENO_OK);
    assert_int_equal(m.start.options.n, 2);
    assert_string_equal(GET(&m.start.options, "ctc_weight"), "0.25");
    assert_string_equal(GET(&m.start.options, "maxlenratio"), "-30");
    assert_int_equal(parse("{\"type\":\"start\",\"lm_weight\":\"0.5\"}", &m, &err),
                     STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "lm_weight: must be a number"));
    assert_int_equal(parse("{\"type\":\"start\",\"ctc_weight\":1.5}", &m, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "ctc_weight: 1.5 is outside 0..1"));
    steno_native_start_init(&s);
    assert_int_equal(steno_native_query("penalty", "-0.5", &s, &err), STENO_OK);
    assert_int_equal(s.options.n, 1);
    assert_string_equal(GET(&s.options, "penalty"), "-0.5");
    assert_int_equal(steno_native_query("pre_beam", "wide", &s, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "pre_beam: 'wide' is not a number"));
}

static void start_takes_which_of_a_directory_is_meant(void **state)
{
    static const char ready[] = "\"beam\":0,\"quantized\":true,\"compat\":\"espnet-onnx\"}";
    struct steno_native_message m;
    struct steno_native_start s;
    struct steno_native_head head = {"sess_1", 0, 0, 0, 0, 0, NULL};
    struct steno_buf out;
    steno_err err;
    (void)state;
    assert_int_equal(
        parse("{\"type\":\"start\",\"quantized\":true,\"compat\":\"espnet-onnx\"}", &m, &err),
        STENO_OK);
    assert_string_equal(GET(&m.start.options, "quantized"), "yes");
    assert_string_equal(GET(&m.start.options, "compat"), "espnet-onnx");
    assert_int_equal(parse("{\"type\":\"start\",\"quantized\":\"true\"}", &m, &err),
                     STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "quantized: must be true or false"));
    assert_int_equal(parse("{\"type\":\"start\",\"compat\":\"other\"}", &m, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "compat: 'other' is neither espnet-onnx nor none"));
    steno_native_start_init(&s);
    assert_null(GET(&s.options, "quantized"));
    assert_int_equal(steno_native_query("quantized", "0", &s, &err), STENO_OK);
    assert_int_equal(steno_native_query("compat", "none", &s, &err), STENO_OK);
    assert_string_equal(GET(&s.options, "quantized"), "no");
    assert_string_equal(GET(&s.options, "compat"), "none");
    assert_int_equal(steno_native_query("quantized", "x", &s, &err), STENO_ERR_INVAL);
    steno_buf_init(&out, 4096);
    assert_int_equal(steno_options_set(&s.options, "quantized", "yes", NULL), STENO_OK);
    assert_int_equal(steno_options_set(&s.options, "compat", "espnet-onnx", NULL), STENO_OK);
    assert_int_equal(steno_native_write_ready(&out, &head, &s), STENO_OK);
    assert_string_equal(out.data + out.len - strlen(ready), ready);
    steno_buf_free(&out);
}

static void the_other_messages_need_only_their_type(void **state)
{
    struct steno_native_message m;
    steno_err err;
    (void)state;
    assert_int_equal(parse("{\"type\":\"finalize\"}", &m, &err), STENO_OK);
    assert_int_equal(m.type, STENO_NATIVE_FINALIZE);
    assert_int_equal(parse(" {\"type\" : \"end\"}\n", &m, &err), STENO_OK);
    assert_int_equal(m.type, STENO_NATIVE_END);
    assert_int_equal(parse("{\"type\":\"keepalive\"}", &m, &err), STENO_OK);
    assert_int_equal(m.type, STENO_NATIVE_KEEPALIVE);
}

/* Every refusal names the place and the fault. */
static void bad_messages_are_refused_by_name(void **state)
{
    static const struct {
        const char *text;
        steno_status st;
        const char *says;
    } bad[] = {
        {"", STENO_ERR_FORMAT, "not JSON"},
        {"start", STENO_ERR_FORMAT, "line 1"},
        {"{\"type\":\"start\"", STENO_ERR_FORMAT, "line 1"},
        {"{\"type\":\"start\"} x", STENO_ERR_FORMAT, "column"},
        {"[1,2]", STENO_ERR_FORMAT, "object"},
        {"{}", STENO_ERR_INVAL, "'type' is missing"},
        {"{\"type\":3}", STENO_ERR_INVAL, "'type' must be a string"},
        {"{\"type\":\"stop\"}", STENO_ERR_INVAL, "unknown type 'stop'"},
        {"{\"type\":\"end\",\"type\":\"start\"}", STENO_ERR_FORMAT, "duplicate"},
        {"{\"type\":\"start\",\"samplerate\":8000}", STENO_ERR_INVAL,
         "unknown field 'samplerate' (sample_rate is known)"},
        {"{\"type\":\"start\",\"encoding\":\"mp3\"}", STENO_ERR_UNSUPPORTED, "unknown 'mp3'"},
        {"{\"type\":\"start\",\"encoding\":7}", STENO_ERR_INVAL, "encoding: must be a string"},
        {"{\"type\":\"start\",\"sample_rate\":1}", STENO_ERR_INVAL, "sample_rate: 1 is outside"},
        {"{\"type\":\"start\",\"sample_rate\":10000000}", STENO_ERR_INVAL,
         "sample_rate: 10000000 is outside"},
        {"{\"type\":\"start\",\"sample_rate\":8000.5}", STENO_ERR_INVAL, "not a whole number"},
        {"{\"type\":\"start\",\"sample_rate\":\"8000\"}", STENO_ERR_INVAL,
         "sample_rate: must be a number"},
        {"{\"type\":\"start\",\"channels\":0}", STENO_ERR_INVAL, "channels: 0 is outside"},
        {"{\"type\":\"start\",\"channel\":2}", STENO_ERR_INVAL, "channel: 2 of audio with 1"},
        {"{\"type\":\"start\",\"interim\":1}", STENO_ERR_INVAL, "interim: must be true or false"},
        {"{\"type\":\"start\",\"alternatives\":11}", STENO_ERR_INVAL, "alternatives: 11"},
        {"{\"type\":\"start\",\"turn\":\"loud\"}", STENO_ERR_INVAL, "turn: 'loud'"},
        {"{\"type\":\"start\",\"word_times\":\"loud\"}", STENO_ERR_INVAL, "word_times: 'loud'"},
        {"{\"type\":\"start\",\"word_times\":true}", STENO_ERR_INVAL,
         "word_times: must be a string"},
        {"{\"type\":\"start\",\"turn_threshold\":1.01}", STENO_ERR_INVAL, "turn_threshold: 1.01"},
        {"{\"type\":\"start\",\"turn_threshold\":0.5}", STENO_ERR_INVAL,
         "turn_threshold: needs turn=semantic"},
        {"{\"type\":\"start\",\"turn\":\"semantic\",\"endpointing\":false}", STENO_ERR_INVAL,
         "turn: not possible with endpointing=false"},
        {"{\"type\":\"start\",\"silence_after\":-1}", STENO_ERR_INVAL, "silence_after: -1"},
        {"{\"type\":\"start\",\"silence_after\":1e400}", STENO_ERR_FORMAT, "real number overflow"},
        {"{\"type\":\"start\",\"model\":\"0123456789012345678901234567890123456789"
         "012345678901234567890123456789\"}",
         STENO_ERR_INVAL, "model: 70 bytes long"},
        {"{\"type\":\"\xff\"}", STENO_ERR_FORMAT, "line 1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct steno_native_message m;
        steno_err err;
        steno_status st = parse(bad[i].text, &m, &err);
        if (st != bad[i].st || !strstr(err.msg, bad[i].says))
            fail_msg("%s -> %d '%s', wanted %d '%s'", bad[i].text, (int)st, err.msg, (int)bad[i].st,
                     bad[i].says);
    }
}

static void nesting_is_limited_before_parsing(void **state)
{
    char text[400] = "{\"type\":\"start\",\"x\":";
    struct steno_native_message m;
    steno_err err;
    (void)state;
    memset(text + strlen(text), '[', 100);
    assert_int_equal(parse(text, &m, &err), STENO_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "deeper than 16"));
    memset(text, '[', 32);
    text[STENO_JSON_MAX_DEPTH] = '"';
    assert_int_equal(steno_json_check(text, 32, &err), STENO_OK); /* brackets in a string */
}

/* What a tree takes is bounded by the number of values, not by the bytes of their text. */
static void values_are_counted_before_parsing(void **state)
{
    struct steno_buf b;
    steno_err err;
    (void)state;
    steno_buf_init(&b, 1 << 20);
    assert_int_equal(steno_buf_puts(&b, "{\"s\":\"{},{},\\\"{},\",\"a\":[{}"), STENO_OK);
    while (steno_json_check(b.data, b.len, &err) == STENO_OK)
        assert_int_equal(steno_buf_puts(&b, ",{}"), STENO_OK);
    assert_non_null(strstr(err.msg, "more than 4096 values"));
    assert_true(b.len > 3 * STENO_JSON_MAX_VALUES / 2 && b.len < 3 * STENO_JSON_MAX_VALUES);
    steno_buf_reset(&b);
    while (b.len <= STENO_JSON_MAX_BYTES)
        assert_int_equal(steno_buf_puts(&b, "          "), STENO_OK);
    assert_int_equal(steno_json_check(b.data, b.len, &err), STENO_ERR_LIMIT);
    assert_int_equal(steno_json_check(b.data, STENO_JSON_MAX_BYTES, &err), STENO_OK);
    steno_buf_free(&b);
}

static void long_text_is_refused(void **state)
{
    static char text[STENO_NATIVE_MAX_TEXT + 2];
    struct steno_native_start defaults;
    struct steno_native_message m;
    steno_err err;
    (void)state;
    steno_native_start_init(&defaults);
    memset(text, ' ', sizeof text);
    assert_int_equal(steno_native_parse(text, sizeof text - 1, &defaults, &m, &err),
                     STENO_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "16385 bytes"));
}

static void query_parameters_are_the_fields_of_start(void **state)
{
    struct steno_native_start s;
    steno_err err;
    (void)state;
    steno_native_start_init(&s);
    assert_int_equal(steno_native_query("encoding", "opus", &s, &err), STENO_OK);
    assert_int_equal(steno_native_query("sample_rate", "24000", &s, &err), STENO_OK);
    assert_int_equal(steno_native_query("interim", "0", &s, &err), STENO_OK);
    assert_int_equal(steno_native_query("longest", "7.5", &s, &err), STENO_OK);
    assert_int_equal(s.audio.encoding, STENO_ENCODING_OPUS);
    assert_int_equal(s.audio.sample_rate, 24000);
    assert_false(s.interim);
    assert_true(s.endpoint.longest == 7.5);
    assert_int_equal(steno_native_query("sample_rate", "8k", &s, &err), STENO_ERR_INVAL);
    assert_int_equal(steno_native_query("sample_rate", "nan", &s, &err), STENO_ERR_INVAL);
    assert_int_equal(steno_native_query("sample_rate", "0x1f40", &s, &err), STENO_ERR_INVAL);
    assert_int_equal(steno_native_query("words", "maybe", &s, &err), STENO_ERR_INVAL);
    assert_int_equal(steno_native_query("words", "no", &s, &err), STENO_OK);
    assert_int_equal(steno_native_query("rate", "8000", &s, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "unknown field 'rate'"));
}

static void more_alternatives_widen_the_beam(void **state)
{
    struct steno_native_message m;
    steno_err err;
    (void)state;
    assert_int_equal(parse("{\"type\":\"start\",\"alternatives\":5,\"beam\":2}", &m, &err),
                     STENO_OK);
    assert_int_equal(m.start.beam, 5);
    assert_int_equal(parse("{\"type\":\"start\",\"alternatives\":5}", &m, &err), STENO_OK);
    assert_int_equal(m.start.beam, 0); /* the model's own beam, at least 5 */
}

/* ---- messages of the server ------------------------------------------------------------------ */

static const struct steno_native_head head = {"sess_1", 7, 1480, 0, 0, 0, NULL};

static void expect(struct steno_buf *b, const char *want)
{
    json_t *root = json_loads(b->data, 0, NULL);
    assert_non_null(root); /* another parser accepts it as JSON too */
    json_decref(root);
    assert_string_equal(b->data, want);
    steno_buf_reset(b);
}

static void server_messages_have_their_documented_form(void **state)
{
    static const struct steno_word words[] = {{"four", 0.1234, 0.42, 0.987F},
                                              {"tw\"o", 0.5, 0.81, 1.0F}};
    static const struct steno_alternative alts[] = {
        {"four tw\"o", 0.9F, -1.25, 2, words, 0, NULL, 0, NULL},
        {"four", 0.05F, -4.5, 1, words, 0, NULL, 0, NULL}};
    struct steno_event ev = {.kind = STENO_PARTIAL,
                             .segment = 2,
                             .start = 0.1234,
                             .end = 0.81,
                             .text = "four tw\"o",
                             .stable_bytes = 4,
                             .confidence = 0.91F,
                             .n_words = 2,
                             .words = words,
                             .n_alternatives = 2,
                             .alternatives = alts,
                             .reason = STENO_FINAL_ENDPOINT};
    struct steno_native_start s;
    struct steno_buf b;
    (void)state;
    steno_buf_init(&b, 4096);
    steno_native_start_init(&s);
    snprintf(s.model, sizeof s.model, "digits-en");
    s.audio.sample_rate = 16000;
    s.audio.channels = 1;

    assert_int_equal(steno_native_write_ready(&b, &head, &s), STENO_OK);
    expect(&b, "{\"type\":\"ready\",\"session_id\":\"sess_1\",\"seq\":7,\"audio_ms\":1480,"
               "\"protocol\":\"steno.v1\",\"model\":\"digits-en\",\"encoding\":\"s16le\","
               "\"sample_rate\":16000,\"channels\":1,\"interim\":true,\"words\":true,"
               "\"endpointing\":true,\"alternatives\":1,\"beam\":0}");

    assert_int_equal(steno_native_write_event(&b, &head, &s, &ev), STENO_OK);
    expect(&b, "{\"type\":\"partial\",\"session_id\":\"sess_1\",\"seq\":7,\"audio_ms\":1480,"
               "\"segment\":2,\"start\":0.123,\"text\":\"four tw\\\"o\",\"stable\":\"four\","
               "\"words\":[{\"word\":\"four\",\"start\":0.123,\"end\":0.420,\"confidence\":0.987},"
               "{\"word\":\"tw\\\"o\",\"start\":0.500,\"end\":0.810,\"confidence\":1.000}]}");

    ev.kind = STENO_FINAL;
    s.words = false;
    s.alternatives = 2;
    assert_int_equal(steno_native_write_event(&b, &head, &s, &ev), STENO_OK);
    expect(&b, "{\"type\":\"final\",\"session_id\":\"sess_1\",\"seq\":7,\"audio_ms\":1480,"
               "\"segment\":2,\"start\":0.123,\"end\":0.810,\"confidence\":0.910,"
               "\"reason\":\"endpoint\",\"text\":\"four tw\\\"o\",\"alternatives\":["
               "{\"text\":\"four tw\\\"o\",\"confidence\":0.900,\"score\":-1.250},"
               "{\"text\":\"four\",\"confidence\":0.050,\"score\":-4.500}]}");

    ev.kind = STENO_SPEECH_START;
    assert_int_equal(steno_native_write_event(&b, &head, &s, &ev), STENO_OK);
    expect(&b, "{\"type\":\"speech_start\",\"session_id\":\"sess_1\",\"seq\":7,"
               "\"audio_ms\":1480,\"segment\":2,\"start\":0.123}");

    assert_int_equal(
        steno_native_write_error(&b, &head, "invalid_data", "line 1:\n\"x\x01\xff\"", 0), STENO_OK);
    expect(&b, "{\"type\":\"error\",\"session_id\":\"sess_1\",\"seq\":7,\"audio_ms\":1480,"
               "\"code\":\"invalid_data\",\"message\":\"line 1:\\n\\\"x\\u0001\xEF\xBF\xBD\\\"\"}");

    assert_int_equal(steno_native_write_error(&b, &head, "busy", "full", 2.5), STENO_OK);
    expect(&b, "{\"type\":\"error\",\"session_id\":\"sess_1\",\"seq\":7,\"audio_ms\":1480,"
               "\"code\":\"busy\",\"message\":\"full\",\"retry_after\":3}");

    assert_int_equal(steno_native_write_end(&b, &head, "end", 3, ""), STENO_OK);
    expect(&b, "{\"type\":\"end\",\"session_id\":\"sess_1\",\"seq\":7,\"audio_ms\":1480,"
               "\"reason\":\"end\",\"finals\":3}");
    steno_buf_free(&b);
}

static void a_full_buffer_is_an_error_not_half_a_message(void **state)
{
    struct steno_buf b;
    (void)state;
    steno_buf_init(&b, 40);
    assert_int_equal(steno_native_write_end(&b, &head, "end", 3, "w"), STENO_ERR_LIMIT);
    steno_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start_without_fields_means_the_documented_defaults),
        cmocka_unit_test(start_takes_every_field),
        cmocka_unit_test(aligned_words_are_written_as_a_query),
        cmocka_unit_test(what_ends_turns_is_written_as_a_query),
        cmocka_unit_test(start_takes_the_joint_search),
        cmocka_unit_test(start_takes_which_of_a_directory_is_meant),
        cmocka_unit_test(the_other_messages_need_only_their_type),
        cmocka_unit_test(bad_messages_are_refused_by_name),
        cmocka_unit_test(nesting_is_limited_before_parsing),
        cmocka_unit_test(values_are_counted_before_parsing),
        cmocka_unit_test(long_text_is_refused),
        cmocka_unit_test(query_parameters_are_the_fields_of_start),
        cmocka_unit_test(more_alternatives_widen_the_beam),
        cmocka_unit_test(server_messages_have_their_documented_form),
        cmocka_unit_test(a_full_buffer_is_an_error_not_half_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
