/* The dialects of telephone calls, message by message: what is kept of a call, where the samples of
 * Twilio's tracks go, and what is posted. tests/integration/test_calls.py has whole calls. */
#include "tests/support/dialect_session.h"

#include "base/base64.h"

#define CALL "\"call\":{\"source\":\"twilio\",\"call_id\":\"CA1\",\"stream_id\":\"MZ1\","
#define HEAD "\"session_id\":\"sess_00112233445566778899aabbccddeeff\","

/* A message of n samples of one value. ms: its time stamp, -1: it has none. */
static enum steno_dialect_act media(struct received *h, const char *track, long ms, int n,
                                    int value)
{
    struct steno_buf b;
    char samples[2000];
    char stamp[40] = "";
    enum steno_dialect_act act;
    assert_true(n <= (int)sizeof samples);
    memset(samples, value, (size_t)n);
    if (ms >= 0)
        snprintf(stamp, sizeof stamp, "\"timestamp\":\"%ld\",", ms);
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_buf_printf(&b,
                                      "{\"event\":\"media\",\"media\":{\"track\":\"%s\",%s"
                                      "\"payload\":\"",
                                      track, stamp),
                     STENO_OK);
    assert_int_equal(steno_base64_put(&b, samples, (size_t)n), STENO_OK);
    assert_int_equal(steno_buf_puts(&b, "\"}}"), STENO_OK);
    act = text(h, b.data, STENO_OK);
    steno_buf_free(&b);
    return act;
}

static void begin_call(struct received *h, const char *tracks)
{
    char t[300];
    start(h, &steno_dialect_twilio);
    snprintf(t, sizeof t,
             "{\"event\":\"start\",\"start\":{\"callSid\":\"CA1\",\"streamSid\":\"MZ1\","
             "\"tracks\":[%s],\"customParameters\":{\"who\":\"Ann\",\"words\":\"false\"}}}",
             tracks);
    assert_int_equal(text(h, t, STENO_OK), STENO_ACT_START);
    steno_dialect_take(&h->d);
}

/* The audio since the last look begins with these pairs, and has so many. */
static void hears(struct received *h, size_t pairs, int inbound, int outbound)
{
    assert_int_equal(h->d.audio.len, 2 * pairs);
    for (size_t i = 0; i < pairs; i++) {
        assert_int_equal((unsigned char)h->d.audio.data[2 * i], inbound);
        assert_int_equal((unsigned char)h->d.audio.data[2 * i + 1], outbound);
    }
    steno_buf_reset(&h->d.audio);
}

static void one_track_is_passed_on_as_it_is(void **state)
{
    struct received h;
    (void)state;
    begin_call(&h, "\"inbound\"");
    assert_int_equal(h.d.start.audio.encoding, STENO_ENCODING_MULAW);
    assert_int_equal(h.d.start.audio.sample_rate, 8000);
    assert_false(h.d.start.multichannel);
    assert_false(h.d.start.words);
    assert_int_equal(media(&h, "inbound", 0, 160, 1), STENO_ACT_AUDIO);
    assert_int_equal(media(&h, "inbound", 99999, 160, 2), STENO_ACT_AUDIO); /* no gap is filled */
    assert_int_equal(h.d.audio.len, 320);
    assert_int_equal(h.d.audio.data[160], 2);
    assert_int_equal(text(&h, "{\"event\":\"stop\"}", STENO_OK), STENO_ACT_END);
    stop(&h);
}

static void two_tracks_go_in_step(void **state)
{
    struct received h;
    (void)state;
    begin_call(&h, "\"inbound\",\"outbound\"");
    assert_true(h.d.start.multichannel);
    assert_int_equal(h.d.start.audio.channels, 2);
    media(&h, "inbound", 0, 160, 1);
    hears(&h, 0, 0, 0);
    media(&h, "inbound", 20, 160, 1);
    media(&h, "outbound", 0, 240, 2);
    hears(&h, 240, 1, 2);
    media(&h, "outbound", 30, 80, 2);
    hears(&h, 80, 1, 2);
    stop(&h);
}

static void a_track_behind_is_filled_and_its_late_samples_are_dropped(void **state)
{
    struct received h;
    (void)state;
    begin_call(&h, "\"inbound\",\"outbound\"");
    for (long i = 0; i < 8; i++)
        media(&h, "inbound", i * 125, 1000, 1); /* 1 s */
    hears(&h, 0, 0, 0);
    media(&h, "inbound", 1000, 1000, 1);
    hears(&h, 1000, 1, 0xff);          /* more than a second behind */
    media(&h, "outbound", 0, 1000, 2); /* belongs where silence is */
    hears(&h, 0, 0, 0);
    media(&h, "outbound", 125, 1000, 2); /* belongs where nothing is yet */
    hears(&h, 1000, 1, 2);
    media(&h, "outbound", 500, 400, 3); /* 0.25 s are missing before it */
    assert_int_equal(h.d.audio.len, 2 * (2000 + 400));
    assert_int_equal((unsigned char)h.d.audio.data[1], 0xff);
    assert_int_equal(h.d.audio.data[2 * 2000 + 1], 3);
    steno_buf_reset(&h.d.audio);
    media(&h, "outbound", 0, 100,
          4); /* a stamp that is wrong: nothing was filled for it but that */
    assert_int_equal(h.d.audio.len, 0);
    stop(&h);
}

static void what_one_track_waits_with_is_heard_at_the_end(void **state)
{
    struct received h;
    (void)state;
    for (int i = 0; i < 2; i++) {
        begin_call(&h, "\"inbound\",\"outbound\"");
        media(&h, i ? "outbound" : "inbound", -1, 500, 7);
        hears(&h, 0, 0, 0);
        assert_int_equal(i ? h.d.dialect->hung_up(&h.d)
                           : text(&h, "{\"event\":\"stop\"}", STENO_OK),
                         STENO_ACT_END);
        hears(&h, 500, i ? 0xff : 7, i ? 7 : 0xff);
        stop(&h);
    }
}

static void messages_say_which_call_it_is(void **state)
{
    struct received h;
    (void)state;
    begin_call(&h, "\"inbound\",\"outbound\"");
    h.d.channels = 2;
    h.d.channel = 1;
    event(&h, STENO_SPEECH_START, "", STENO_FINAL_END);
    event(&h, STENO_PARTIAL, "four", STENO_FINAL_END);
    says_no_more(&h);
    event(&h, STENO_FINAL, "four", STENO_FINAL_ENDPOINT);
    says(&h, "{" CALL "\"tracks\":[\"inbound\",\"outbound\"],\"parameters\":{\"who\":\"Ann\"}},"
             "\"message\":{\"type\":\"final\"," HEAD "\"seq\":0,\"audio_ms\":0,\"segment\":4,"
             "\"channel\":2,\"start\":1.0,\"end\":2.0,\"confidence\":0.75,\"reason\":\"endpoint\","
             "\"text\":\"four\"}}");
    assert_int_equal(
        text(&h, "{\"event\":\"dtmf\",\"dtmf\":{\"track\":\"inbound_track\",\"digit\":\"#\"}}",
             STENO_OK),
        STENO_ACT_NOTHING);
    says(&h, "{" CALL "\"tracks\":[\"inbound\",\"outbound\"],\"parameters\":{\"who\":\"Ann\"}},"
             "\"message\":{\"type\":\"dtmf\"," HEAD "\"seq\":1,\"audio_ms\":0,\"digit\":\"#\"}}");
    stop(&h);
}

static void alternatives_are_posted_where_they_are_asked_for(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_twilio);
    query(&h, "alternatives", "3", STENO_OK);
    nbest(&h);
    assert_non_null(strstr(h.said[0], "\"alternatives\":["));
    says_some(&h, "{\"call\":{\"source\":\"twilio\",\"parameters\":{}}}");
    stop(&h);
}

static void secrets_and_urls_are_kept_apart(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_twilio);
    assert_true(h.d.posted);
    query(&h, "callback", "https://a.example/", STENO_OK);
    query(&h, "call_id", "7", STENO_OK);
    query(&h, "beam", "many", STENO_ERR_INVAL);
    assert_string_equal(h.d.callback, "https://a.example/");
    text(&h,
         "{\"event\":\"start\",\"start\":{\"tracks\":[\"outbound\"],\"customParameters\":{"
         "\"token\":\"k\",\"x\":1,"
         "\"sample_rate\":\"16000\"}}}",
         STENO_OK);
    assert_string_equal(h.d.secret, "k");
    assert_int_equal(h.d.asked.audio.sample_rate, 8000);
    h.d.dialect->error(&h.d, "internal_error", "it broke");
    says(&h, "{\"call\":{\"source\":\"twilio\",\"call_id\":\"7\",\"tracks\":[\"outbound\"],"
             "\"parameters\":{\"sample_rate\":\"16000\"}},\"message\":{\"type\":\"error\"," HEAD
             "\"seq\":0,\"audio_ms\":0,\"code\":\"internal_error\",\"message\":\"it broke\"}}");
    stop(&h);
}

/* ---- Asterisk -------------------------------------------------------------------------------- */

static void asterisk_says_what_it_sends(void **state)
{
    static const struct {
        const char *format;
        enum steno_encoding encoding;
        int rate; /* 0: it is refused */
    } all[] = {{"ulaw", STENO_ENCODING_MULAW, 8000},
               {"alaw", STENO_ENCODING_ALAW, 8000},
               {"slin", STENO_ENCODING_S16LE, 8000},
               {"slin16", STENO_ENCODING_S16LE, 16000},
               {"slin44", STENO_ENCODING_S16LE, 44100},
               {"slin192", STENO_ENCODING_S16LE, 192000},
               {"opus", 0, 0},
               {"g722", 0, 0},
               {"slin7", 0, 0},
               {"slin16x", 0, 0},
               {"slin999", 0, 0},
               {"", 0, 0}};
    (void)state;
    for (size_t i = 0; i < 2 * (sizeof all / sizeof *all); i++) {
        const char *format = all[i / 2].format;
        const steno_status want = all[i / 2].rate ? STENO_OK : STENO_ERR_UNSUPPORTED;
        struct received h;
        char t[300];
        snprintf(t, sizeof t,
                 i % 2
                     ? "MEDIA_START connection_id:m1 channel:SIP/a channel_id:17.1 format:%s "
                       "optimal_frame_size:160 ptime:20"
                     : "{\"event\":\"MEDIA_START\",\"connection_id\":\"m1\",\"channel\":\"SIP/a\","
                       "\"channel_id\":\"17.1\",\"format\":\"%s\",\"ptime\":20}",
                 format);
        start(&h, &steno_dialect_asterisk);
        assert_int_equal(text(&h, t, want), STENO_ACT_START);
        if (!want) {
            assert_int_equal(h.d.asked.audio.encoding, all[i / 2].encoding);
            assert_int_equal(h.d.asked.audio.sample_rate, all[i / 2].rate);
            assert_int_equal(text(&h,
                                  i % 2 ? "DTMF_END digit:# channel_id:17.1"
                                        : "{\"event\":\"DTMF_END\",\"digit\":\"#\"}",
                                  STENO_OK),
                             STENO_ACT_NOTHING);
            says(&h, "{\"call\":{\"source\":\"asterisk\",\"call_id\":\"17.1\","
                     "\"stream_id\":\"m1\",\"parameters\":{\"channel\":\"SIP/a\"}},\"message\":{"
                     "\"type\":\"dtmf\"," HEAD "\"seq\":0,\"audio_ms\":0,\"digit\":\"#\"}}");
        }
        stop(&h);
    }
}

static void asterisk_has_a_format_without_its_name(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_asterisk); /* as 22.6.0 sends it */
    query(&h, "encoding", "s16le", STENO_OK);
    query(&h, "sample_rate", "16000", STENO_OK);
    query(&h, "call_id", "7", STENO_OK);
    query(&h, "desk", "1", STENO_OK);
    query(&h, "desk", "2", STENO_OK); /* the first one counts */
    text(&h, "MEDIA_START connection_id:m1 channel:SIP/a optimal_frame_size:640", STENO_OK);
    assert_int_equal(h.d.asked.audio.encoding, STENO_ENCODING_S16LE);
    assert_int_equal(h.d.asked.audio.sample_rate, 16000);
    text(&h, "MEDIA_XOFF", STENO_OK);
    text(&h, "STATUS channel_id:1 queue_length:0", STENO_OK);
    says_no_more(&h);
    text(&h, "MEDIA_START connection_id:m2", STENO_ERR_INVAL);
    text(&h, " ", STENO_ERR_INVAL);
    text(&h, "{\"digit\":\"5\"}", STENO_ERR_INVAL);
    assert_int_equal(h.d.dialect->hung_up(&h.d), STENO_ACT_END);
    h.d.dialect->end(&h.d, false);
    says_some(&h, "{\"call\":{\"source\":\"asterisk\",\"call_id\":\"7\",\"stream_id\":\"m1\","
                  "\"parameters\":{\"desk\":\"1\",\"channel\":\"SIP/a\"}}}");
    stop(&h);
}

/* ---- FreeSWITCH ------------------------------------------------------------------------------ */

static void freeswitch_gets_its_answers_on_the_connection(void **state)
{
    struct received h;
    (void)state;
    start(&h, &steno_dialect_freeswitch);
    assert_int_equal(h.d.start.audio.sample_rate, 8000);
    assert_int_equal(h.d.start.audio.encoding, STENO_ENCODING_S16LE);
    assert_false(h.d.posted);
    assert_int_equal(text(&h, "{\"caller\":\"Ann\",\"type\":\"x\"}", STENO_OK), STENO_ACT_NOTHING);
    event(&h, STENO_PARTIAL, "four t", STENO_FINAL_END);
    says(&h, "{\"type\":\"transcription\",\"data\":{\"type\":\"partial\"," HEAD "\"seq\":0,"
             "\"audio_ms\":0,\"segment\":4,\"start\":1.0,\"text\":\"four t\",\"stable\":\"four\","
             "\"words\":[{\"word\":\"four\",\"start\":1.25,\"end\":1.5,\"confidence\":0.5},"
             "{\"word\":\"t\\\"wo\",\"start\":1.75,\"end\":2.0,\"confidence\":1.0}]}}");
    assert_true(h.replaceable[0]);
    assert_int_equal(text(&h, "{\"type\":\"finalize\"}", STENO_OK), STENO_ACT_FINALIZE);
    assert_int_equal(text(&h, "{\"type\":\"end\"}", STENO_OK), STENO_ACT_END);
    assert_int_equal(h.d.dialect->binary_end(&h.d, 320), STENO_ACT_NOTHING);
    assert_int_equal(h.d.dialect->binary_end(&h.d, 0), STENO_ACT_END);
    stop(&h);
}

static void freeswitch_repeats_its_metadata_where_messages_are_posted(void **state)
{
    static const char *const all[][2] = {{"{\"caller\":\"Ann\"}", "{\"caller\":\"Ann\"}"},
                                         {"Ann \"A\"", "\"Ann \\\"A\\\"\""},
                                         {"[1]", "\"[1]\""}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct received h;
        char t[300];
        start(&h, &steno_dialect_freeswitch);
        query(&h, "callback", "https://a.example/", STENO_OK);
        assert_true(h.d.posted);
        assert_false(h.d.start.interim);
        text(&h, all[i][0], STENO_OK);
        text(&h, "{\"a later one\":1}", STENO_OK);
        h.d.dialect->end(&h.d, false);
        snprintf(t, sizeof t,
                 "{\"call\":{\"source\":\"freeswitch\",\"parameters\":{\"metadata\":%s}}}",
                 all[i][1]);
        says_some(&h, t);
        stop(&h);
    }
}

static void mistakes_have_their_errors(void **state)
{
    static const struct {
        const char *text;
        steno_status want;
    } all[] = {
        {"{\"event\":\"media\",\"media\":{\"payload\":\"AA==\"}}", STENO_ERR_INVAL},
        {"{\"event\":\"start\"}", STENO_ERR_INVAL},
        {"{\"event\":\"start\",\"start\":{\"mediaFormat\":{\"encoding\":\"audio/x-l16\"}}}",
         STENO_ERR_UNSUPPORTED},
        {"{\"event\":\"start\",\"start\":{\"mediaFormat\":{\"sampleRate\":16000}}}",
         STENO_ERR_UNSUPPORTED},
        {"{\"event\":\"start\",\"start\":{\"mediaFormat\":{\"channels\":2}}}",
         STENO_ERR_UNSUPPORTED},
        {"{\"event\":3}", STENO_ERR_INVAL},
        {"[]", STENO_ERR_FORMAT},
        {"{\"event\":\"connected\"}", STENO_OK},
        {"{\"event\":\"mark\"}", STENO_OK},
    };
    struct received h;
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        start(&h, &steno_dialect_twilio);
        text(&h, all[i].text, all[i].want);
        stop(&h);
    }
    begin_call(&h, "\"inbound\"");
    text(&h, "{\"event\":\"media\",\"media\":{\"payload\":\"A*==\"}}", STENO_ERR_FORMAT);
    text(&h, "{\"event\":\"media\",\"media\":{}}", STENO_ERR_INVAL);
    text(&h, "{\"event\":\"start\",\"start\":{}}", STENO_ERR_INVAL);
    stop(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_track_is_passed_on_as_it_is),
        cmocka_unit_test(two_tracks_go_in_step),
        cmocka_unit_test(a_track_behind_is_filled_and_its_late_samples_are_dropped),
        cmocka_unit_test(what_one_track_waits_with_is_heard_at_the_end),
        cmocka_unit_test(messages_say_which_call_it_is),
        cmocka_unit_test(alternatives_are_posted_where_they_are_asked_for),
        cmocka_unit_test(secrets_and_urls_are_kept_apart),
        cmocka_unit_test(mistakes_have_their_errors),
        cmocka_unit_test(asterisk_says_what_it_sends),
        cmocka_unit_test(asterisk_has_a_format_without_its_name),
        cmocka_unit_test(freeswitch_gets_its_answers_on_the_connection),
        cmocka_unit_test(freeswitch_repeats_its_metadata_where_messages_are_posted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
