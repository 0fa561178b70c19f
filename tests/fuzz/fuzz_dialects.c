/* Message sequences of every dialect against the session core: text, audio, parameters, notes of
 * the recognizer at any moment, drain. The first byte selects the dialect. Checks: every message
 * is JSON (or sherpa's "Done!", or Wyoming's two JSON texts), the session ends with a close code
 * that may be sent, exactly one place is taken and returned. Time comes from the notes alone. */
/* link: server/live/ws_session.c server/live/ws_session_input.c server/live/ws_session_audio.c */
/* link: server/live/ws_session_swap.c server/live/ws_session_end.c */
/* link: server/live/ws_session_resume.c server/live/history.c server/live/outbox.c */
/* link: server/live/ws_session_store.c */
/* covers: protocol/openai_realtime.c protocol/deepgram.c protocol/vosk.c protocol/sherpa.c */
/* covers: protocol/wyoming.c protocol/twilio.c protocol/call_audio.c */
/* covers: protocol/telephony.c */
/* covers: protocol/dialect.c protocol/transcript.c */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/live/ws_session.h"
#include "tests/fuzz/require.h"
#include "tests/support/free_room.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct world {
    const uint8_t *p;
    size_t n;
    steno_ws_session *s;
    const struct steno_dialect *dialect;
    int opens, ends; /* of the current stream: 0 or 1 */
    bool told;       /* its DONE note was given */
    double time;
    int64_t segment;
};

static const struct steno_dialect *const dialects[] = {
    &steno_dialect_deepgram, &steno_dialect_realtime, &steno_dialect_vosk,
    &steno_dialect_sherpa,   &steno_dialect_native,   &steno_dialect_wyoming,
    &steno_dialect_flux,     &steno_dialect_any,      &steno_dialect_wenet,
    &steno_dialect_twilio,   &steno_dialect_asterisk, &steno_dialect_freeswitch};

static steno_status resolve(void *ctx, struct steno_dialect_session *d, steno_err *err)
{
    (void)ctx, (void)err;
    snprintf(d->start.model, sizeof d->start.model, "digits-en");
    d->model_version = "1";
    d->model_family = "ctc";
    return STENO_OK;
}

static steno_status open_place(void *ctx, const struct steno_native_start *s, int rate,
                               steno_err *err)
{
    (void)s, (void)err;
    REQUIRE(rate >= STENO_AUDIO_MIN_RATE && rate <= STENO_AUDIO_MAX_RATE);
    REQUIRE(++((struct world *)ctx)->opens == 1);
    return STENO_OK;
}

static steno_status room(void *ctx, size_t least, size_t most, float **to, size_t *n,
                         steno_err *err)
{
    struct world *w = ctx;
    (void)err;
    REQUIRE(w->opens == 1 && !w->ends);
    *n = give_room(most, least, most, to);
    return STENO_OK;
}

static steno_status add(void *ctx, const float *pcm, size_t n, steno_err *err)
{
    (void)ctx, (void)pcm, (void)n, (void)err;
    return STENO_OK;
}

static steno_status finalize(void *ctx, steno_err *err)
{
    (void)err;
    REQUIRE(((struct world *)ctx)->opens == 1);
    return STENO_OK;
}

static void end(void *ctx)
{
    struct world *w = ctx;
    REQUIRE(w->opens == 1 && ++w->ends == 1);
}

static void close_place(void *ctx)
{
    struct world *w = ctx;
    REQUIRE(w->opens == 1 && w->ends == 1 && w->told);
    w->opens = w->ends = 0;
    w->told = false;
}

static steno_status check(void *ctx, const struct steno_native_start *s, char *model,
                          steno_err *err)
{
    (void)ctx;
    snprintf(model, STENO_NATIVE_MODEL_BYTES, "digits-en");
    return strcmp(s->model, "x") ? STENO_OK
                                 : steno_fail(err, STENO_ERR_INVAL, "model: 'x' is not here");
}

static const struct steno_ws_engine engine = {.resolve = resolve,
                                              .open = open_place,
                                              .room = room,
                                              .add = add,
                                              .finalize = finalize,
                                              .end = end,
                                              .cancel = end,
                                              .close = close_place,
                                              .check = check};

static unsigned next(struct world *w)
{
    return w->n ? w->n--, *w->p++ : 0;
}

static void take_all(struct world *w)
{
    for (;;) {
        struct steno_buf b;
        steno_status st;
        steno_buf_init(&b, 1 << 20);
        st = steno_ws_session_take(w->s, &b);
        if (!st && !(b.len == 5 && !memcmp(b.data, "Done!", 5))) {
            size_t flags = w->dialect == &steno_dialect_wyoming ? JSON_DISABLE_EOF_CHECK : 0;
            json_t *root = json_loadb(b.data, b.len, flags, NULL);
            REQUIRE(root);
            json_decref(root);
        }
        steno_buf_free(&b);
        if (st)
            return;
    }
}

/* The stream that was ended is done; the network's thread attends. */
static void tell_done(struct world *w)
{
    struct steno_pool_note done = {.kind = STENO_POOL_DONE};
    if (!w->opens || !w->ends || w->told)
        return;
    w->told = true;
    steno_ws_session_note(w->s, 0, &done, NULL);
    steno_ws_session_resume(w->s);
}

static void note(struct world *w, unsigned what)
{
    static const char *const texts[] = {"", "four", "four two", "\"\\\xff seven"};
    static const struct steno_word words[] = {{"four", 0.1, 0.4, 0.9F}, {"\"two", 0.5, 0.8, 0.8F}};
    const char *text = texts[what / 4 % 4];
    struct steno_event ev = {.kind = (enum steno_event_kind)(what % 4),
                             .segment = w->segment,
                             .start = w->time,
                             .end = w->time + 1,
                             .time = w->time + 1,
                             .text = text,
                             .stable_bytes = what & 64 ? strlen(text) : 0,
                             .words = words,
                             .n_words = what / 16 % 3,
                             .reason = (enum steno_final_reason)(what / 8 % 4)};
    struct steno_pool_note n = {.kind = STENO_POOL_EVENT, .event = &ev};
    if (!w->opens || w->told)
        return;
    if (what == 239) {
        tell_done(w);
        return;
    }
    if (what == 238) {
        n.kind = STENO_POOL_PROGRESS;
        n.heard = w->time;
    }
    if (what >= 240)
        n.kind = what & 1 ? STENO_POOL_FINALIZED : STENO_POOL_ROOM;
    w->segment += ev.kind == STENO_FINAL;
    w->time += what % 5;
    steno_ws_session_note(w->s, 0, &n, NULL);
}

static void receive(struct world *w, bool binary)
{
    size_t n = next(w) * (binary ? 1u : 2u);
    char *piece;
    if (n > w->n)
        n = w->n;
    piece = malloc(n ? n : 1);
    if (!piece)
        return;
    memcpy(piece, w->p, n);
    w->p += n;
    w->n -= n;
    if (steno_ws_session_readable(w->s) && binary)
        steno_ws_session_binary(w->s, piece, n, true, true);
    else if (steno_ws_session_readable(w->s))
        steno_ws_session_text(w->s, piece, n, true);
    free(piece);
}

static void known_text(struct world *w, unsigned which)
{
    static const char *const texts[] = {
        "{\"type\":\"KeepAlive\"}",
        "{\"type\":\"Finalize\"}",
        "{\"type\":\"CloseStream\"}",
        "{\"config\":{\"sample_rate\":8000,\"words\":0}}",
        "{\"reset\":1}",
        "{\"eof\" : 1}",
        "Done",
        "{\"type\":\"session.update\",\"session\":{\"audio\":{\"input\":{\"format\":{\"type\":"
        "\"audio/pcmu\"},\"turn_detection\":null}}}}",
        "{\"type\":\"transcription_session.update\",\"session\":{\"input_audio_format\":\"pcm16\"}"
        "}",
        "{\"type\":\"input_audio_buffer.append\",\"audio\":\"AAAAAAAAAAA=\"}",
        "{\"type\":\"input_audio_buffer.commit\",\"event_id\":\"x\"}",
        "{\"type\":\"input_audio_buffer.clear\"}",
        "{\"type\":\"end\"}",
        "{\"type\":\"describe\"}",
        "{\"type\":\"transcribe\",\"data\":{\"language\":\"en\",\"transcript_names\":[\"a\"]}}",
        "{\"type\":\"audio-start\",\"data\":{\"rate\":16000,\"width\":2,\"channels\":1}}",
        "{\"type\":\"audio-stop\"}",
        "{\"signal\":\"start\",\"nbest\":3,\"continuous_decoding\":true}",
        "{\"signal\":\"end\"}",
        "{\"type\":\"Configure\",\"thresholds\":{\"eot_threshold\":0.6,\"eager_eot_threshold\":0.4}"
        ","
        "\"keyterms\":[\"a\"],\"language_hints\":[\"en\"]}",
        "{\"type\":\"ForceEndTurn\"}",
        "{\"type\":\"Configure\",\"keyterms\":[\"a\",\"b\"],\"features\":{\"numerals\":true}}",
        "{\"type\":\"Configure\",\"numerals\":true,\"language_hints\":[\"en\",\"de\"]}",
        "{\"event\":\"start\",\"start\":{\"callSid\":\"CA1\",\"tracks\":[\"inbound\",\"outbound\"],"
        "\"customParameters\":{\"a\":\"\\u0001\",\"beam\":\"4\",\"token\":\"t\"}}}",
        "{\"event\":\"start\",\"start\":{\"streamSid\":\"MZ1\",\"tracks\":[\"inbound\"]}}",
        "{\"event\":\"media\",\"media\":{\"track\":\"outbound\",\"timestamp\":\"9000\",\"payload\":"
        "\"////////////////////////////////\"}}",
        "{\"event\":\"media\",\"media\":{\"track\":\"inbound\",\"payload\":\"/v8A\"}}",
        "{\"event\":\"dtmf\",\"dtmf\":{\"digit\":\"#\"}}",
        "{\"event\":\"stop\"}",
        "MEDIA_START connection_id:m1 channel:SIP/a channel_id:1.2 format:slin16 ptime:20",
        "{\"event\":\"MEDIA_START\",\"format\":\"alaw\",\"channel\":\"\\\"\",\"ptime\":20}",
        "DTMF_END digit:5 channel_id:1.2",
        "MEDIA_XON",
        "{\"type\":\"finalize\"}",
        "the dialplan's own words",
    };
    const char *t = texts[which % (sizeof texts / sizeof *texts)];
    if (steno_ws_session_readable(w->s))
        steno_ws_session_text(w->s, t, strlen(t), true);
}

static void parameter(struct world *w, unsigned which)
{
    static const char *const pairs[][2] = {{"encoding", "linear16"},
                                           {"sample_rate", "8000"},
                                           {"interim_results", "true"},
                                           {"vad_events", "true"},
                                           {"endpointing", "300"},
                                           {"utterance_end_ms", "1000"},
                                           {"beta", "1"},
                                           {"model", "x"},
                                           {"words", "false"},
                                           {"encoding", "mulaw"},
                                           {"endpointing", "no"},
                                           {"channels", "99"},
                                           {"callback", "https://a.example/"},
                                           {"caller", "\"a\""}};
    const char *const *pair = pairs[which % (sizeof pairs / sizeof *pairs)];
    steno_ws_session_query(w->s, pair[0], pair[1]);
}

static void step(struct world *w, unsigned op)
{
    switch (op % 8) {
    case 0:
        receive(w, true);
        break;
    case 1:
        receive(w, false);
        break;
    case 2:
        known_text(w, op / 8 < 31 ? op / 8 : 31 + next(w));
        break;
    case 3:
    case 4:
        note(w, next(w));
        break;
    case 5:
        take_all(w);
        break;
    case 6:
        parameter(w, op / 8);
        break;
    default:
        if (op == 255)
            steno_ws_session_drain(w->s);
        else if (op == 15)
            (void)steno_ws_session_hang_up(w->s);
        else if (op == 7)
            steno_ws_session_stop(w->s, "idle_timeout", 1008, "idle");
        else
            steno_ws_session_opened(w->s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_ws_session_limits limits = {4096, 16384, 20.0, 0, 0, true, "darn"};
    struct steno_ws_session_state st;
    struct world w = {.p = data, .n = n};
    w.dialect = dialects[next(&w) % (sizeof dialects / sizeof *dialects)];
    w.s = steno_ws_session_new(w.dialect, &engine, &w, "sess_0123456789abcdef0123456789abcdef",
                               &limits);
    if (!w.s)
        return 0;
    while (w.n)
        step(&w, next(&w));
    steno_ws_session_drain(w.s);
    if (w.opens && !w.ends) { /* a clear waits for a finalize */
        struct steno_pool_note finalized = {.kind = STENO_POOL_FINALIZED};
        for (unsigned i = 0; i < n && !w.ends; i++)
            steno_ws_session_note(w.s, 0, &finalized, NULL);
        steno_ws_session_resume(w.s);
    }
    tell_done(&w); /* of a stream that was to be replaced */
    tell_done(&w);
    steno_ws_session_get_state(w.s, &st);
    REQUIRE(!w.opens || w.told || st.ending == STENO_WS_SLOW);
    take_all(&w);
    steno_ws_session_get_state(w.s, &st);
    REQUIRE(st.close && st.close_code >= 1000 && st.close_code < 1016 && strlen(st.reason) <= 123);
    steno_ws_session_free(w.s);
    return 0;
}
