/* A session of /v1/stream without socket and recognizer: order of answers, close codes,
 * backpressure. */
/* link: server/live/ws_session.c server/live/ws_session_input.c server/live/ws_session_audio.c */
/* link: server/live/ws_session_swap.c server/live/ws_session_end.c */
/* link: server/live/ws_session_resume.c server/live/history.c server/live/outbox.c */
/* link: server/live/ws_session_store.c */
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/live/ws_session.h"
#include "tests/support/free_room.h"
#include "tests/support/test.h"

/* Stands in for the pool: counts calls, sums up samples, takes at most `room` samples at a time. */
struct fake {
    steno_status open_status;
    int opens, ends, closes, finalizes, busy_finalizes, rate;
    bool no_more; /* refuse audio */
    size_t room, taken;
    double sum; /* of sample i * (1 + i % 7), so that it depends on the order */
};

static steno_status fake_resolve(void *ctx, struct steno_dialect_session *d, steno_err *err)
{
    struct steno_native_start *s = &d->start;
    (void)ctx;
    if (s->model[0] && strcmp(s->model, "digits-en"))
        return steno_fail(err, STENO_ERR_INVAL, "model: '%s' is not here", s->model);
    snprintf(s->model, sizeof s->model, "digits-en");
    return STENO_OK;
}

static steno_status fake_open(void *ctx, const struct steno_native_start *s, int rate,
                              steno_err *err)
{
    struct fake *f = ctx;
    (void)s;
    f->opens++;
    f->rate = rate;
    return f->open_status ? steno_fail(err, f->open_status, "all places are taken") : STENO_OK;
}

static steno_status fake_room(void *ctx, size_t least, size_t most, float **to, size_t *n,
                              steno_err *err)
{
    (void)err;
    *n = give_room(((struct fake *)ctx)->room, least, most, to);
    return STENO_OK;
}

static steno_status fake_add(void *ctx, const float *pcm, size_t n, steno_err *err)
{
    struct fake *f = ctx;
    for (size_t i = 0; i < n; i++)
        f->sum += (double)pcm[i] * (double)(1 + (f->taken + i) % 7);
    f->taken += n;
    f->room -= n;
    return f->no_more ? steno_fail(err, STENO_ERR_BUSY, "its audio is used up") : STENO_OK;
}

static steno_status fake_finalize(void *ctx, steno_err *err)
{
    struct fake *f = ctx;
    if (f->busy_finalizes-- > 0)
        return steno_fail(err, STENO_ERR_BUSY, "too many");
    f->finalizes++;
    return STENO_OK;
}

static void fake_end(void *ctx)
{
    ((struct fake *)ctx)->ends++;
}

static void fake_close(void *ctx)
{
    ((struct fake *)ctx)->closes++;
}

static double fake_come_back(void *ctx)
{
    (void)ctx;
    return 7;
}

static const struct steno_ws_engine engine = {.resolve = fake_resolve,
                                              .open = fake_open,
                                              .room = fake_room,
                                              .add = fake_add,
                                              .finalize = fake_finalize,
                                              .end = fake_end,
                                              .close = fake_close,
                                              .come_back = fake_come_back};

struct fixture {
    struct fake fake;
    steno_ws_session *s;
};

static void make_dialect(struct fixture *f, const struct steno_dialect *dialect, size_t send_bytes,
                         double audio_seconds)
{
    struct steno_ws_session_limits limits = {1 << 20, send_bytes, audio_seconds, 0, 0, false, NULL};
    memset(f, 0, sizeof *f);
    f->fake.room = SIZE_MAX;
    f->s = steno_ws_session_new(dialect, &engine, &f->fake, "sess_test", &limits);
    assert_non_null(f->s);
}

static void make(struct fixture *f, size_t send_bytes, double audio_seconds)
{
    make_dialect(f, &steno_dialect_native, send_bytes, audio_seconds);
}

static int setup(void **state)
{
    static struct fixture f;
    make(&f, 4096, 0);
    *state = &f;
    return 0;
}

static struct steno_ws_session_state state_of(struct fixture *f)
{
    struct steno_ws_session_state st;
    steno_ws_session_get_state(f->s, &st);
    return st;
}

/* The samples that were received and dropped. In every state, all received samples were either
 * taken or dropped. */
static size_t dropped_samples(struct fixture *f)
{
    struct steno_ws_session_state st = state_of(f);
    size_t received = (size_t)lrint(st.received_seconds * f->fake.rate);
    size_t dropped = (size_t)lrint(st.dropped_seconds * f->fake.rate);
    assert_int_equal(received, f->fake.taken + dropped);
    return dropped;
}

static int teardown(void **state)
{
    (void)dropped_samples(*state);
    steno_ws_session_free(((struct fixture *)*state)->s);
    return 0;
}

static void text(struct fixture *f, const char *t)
{
    steno_ws_session_text(f->s, t, strlen(t), true);
}

static void binary(struct fixture *f, const void *p, size_t n)
{
    steno_ws_session_binary(f->s, p, n, true, true);
}

static void note_text(struct fixture *f, enum steno_event_kind kind, const char *t)
{
    struct steno_event ev = {.kind = kind, .time = 1.0, .text = t, .reason = STENO_FINAL_END};
    struct steno_pool_note n = {.kind = STENO_POOL_EVENT, .event = &ev};
    steno_ws_session_note(f->s, 0, &n, NULL);
}

static void note(struct fixture *f, enum steno_pool_note_kind kind, steno_status st)
{
    steno_err err;
    struct steno_pool_note n = {
        .kind = kind, .status = st, .err = &err, .stats = {.audio_seconds = 1.5}};
    steno_fail(&err, st, "encoder: broke");
    steno_ws_session_note(f->s, 0, &n, NULL);
}

/* The next message has this type, and its `member` (may be NULL) contains `says`. */
static void expect(struct fixture *f, const char *type, const char *member, const char *says)
{
    struct steno_buf b;
    json_t *root;
    steno_buf_init(&b, 65536);
    assert_int_equal(steno_ws_session_take(f->s, &b), STENO_OK);
    root = json_loads(b.data, 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "type")), type);
    assert_string_equal(json_string_value(json_object_get(root, "session_id")), "sess_test");
    if (member && !strstr(json_string_value(json_object_get(root, member)), says))
        fail_msg("%s lacks '%s'", b.data, says);
    json_decref(root);
    steno_buf_free(&b);
}

static void expect_text(struct fixture *f, const char *says)
{
    struct steno_buf b;
    steno_buf_init(&b, 65536);
    assert_int_equal(steno_ws_session_take(f->s, &b), STENO_OK);
    if (!strstr(b.data, says))
        fail_msg("%s lacks '%s'", b.data, says);
    steno_buf_free(&b);
}

static void expect_nothing(struct fixture *f)
{
    struct steno_buf b;
    steno_buf_init(&b, 65536);
    assert_int_equal(steno_ws_session_take(f->s, &b), STENO_NEED_MORE);
    assert_false(state_of(f).close);
}

static void expect_close(struct fixture *f, int code, const char *reason)
{
    struct steno_ws_session_state st = state_of(f);
    assert_true(st.close);
    assert_int_equal(st.close_code, code);
    assert_string_equal(st.reason, reason);
}

static void end_waits_for_the_last_final(void **state)
{
    struct fixture *f = *state;
    char pcm[320] = {0};
    text(f, "{\"type\":\"start\",\"sample_rate\":8000}");
    expect(f, "ready", "model", "digits-en");
    assert_int_equal(f->fake.rate, 8000);
    binary(f, pcm, sizeof pcm);
    note_text(f, STENO_PARTIAL, "four");
    expect(f, "partial", "text", "four");
    text(f, "{\"type\":\"end\"}");
    assert_int_equal(f->fake.ends, 1);
    expect_nothing(f);
    note_text(f, STENO_FINAL, "four two");
    expect(f, "final", "text", "four two");
    expect_nothing(f);
    note(f, STENO_POOL_DONE, STENO_OK);
    assert_false(state_of(f).close); /* not before the last message has been sent */
    expect(f, "end", "reason", "end");
    expect_close(f, 1000, "end");
    assert_int_equal(state_of(f).ending, STENO_WS_ENDED);
}

static void audio_without_start_means_the_defaults_and_a_later_start_is_refused(void **state)
{
    struct fixture *f = *state;
    char pcm[320] = {0};
    binary(f, pcm, sizeof pcm);
    expect(f, "ready", "encoding", "s16le");
    assert_int_equal(f->fake.rate, 16000);
    assert_int_equal(f->fake.taken, 160);
    text(f, "{\"type\":\"start\"}");
    assert_int_equal(f->fake.ends, 1); /* audio before the error is still recognized */
    expect_nothing(f);
    note_text(f, STENO_FINAL, "nine");
    note(f, STENO_POOL_DONE, STENO_OK);
    expect(f, "final", "text", "nine");
    expect(f, "error", "message", "must come before audio");
    expect_close(f, 1008, "invalid_argument");
}

static void query_parameters_serve_clients_that_send_no_start(void **state)
{
    struct fixture *f = *state;
    char pcm[320] = {0};
    steno_ws_session_query(f->s, "encoding", "mulaw");
    steno_ws_session_query(f->s, "sample_rate", "8000");
    binary(f, pcm, sizeof pcm);
    expect(f, "ready", "encoding", "mulaw");
    assert_int_equal(f->fake.taken, 320);
}

static void start_overrides_the_query(void **state)
{
    struct fixture *f = *state;
    steno_ws_session_query(f->s, "encoding", "mulaw");
    steno_ws_session_query(f->s, "sample_rate", "44100");
    text(f, "{\"type\":\"start\",\"encoding\":\"alaw\"}");
    expect(f, "ready", "encoding", "alaw");
    assert_int_equal(f->fake.rate, 44100);
}

static void each_bad_message_ends_with_its_close_code(void **state)
{
    static const struct {
        const char *query, *text, *code, *says;
        int close;
    } bad[] = {
        {NULL, "{\"type\":\"go\"}", "invalid_argument", "unknown type 'go'", 1008},
        {NULL, "{nonsense", "invalid_data", "line 1", 1007},
        {NULL, "{\"type\":\"start\",\"encoding\":\"mp3\"}", "unsupported", "'mp3'", 1003},
        {NULL, "{\"type\":\"start\",\"sample_rate\":1}", "invalid_argument", "8000..192000", 1008},
        {NULL, "{\"type\":\"start\",\"model\":\"x\"}", "invalid_argument", "'x'", 1008},
        {"sample_rate=10000000", NULL, "invalid_argument", "query: sample_rate: 10000000", 1008},
        {"rate=8000", NULL, "invalid_argument", "query: unknown field 'rate'", 1008},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct fixture f;
        make(&f, 4096, 0);
        if (bad[i].query) {
            char name[64];
            const char *eq = strchr(bad[i].query, '=');
            snprintf(name, sizeof name, "%.*s", (int)(eq - bad[i].query), bad[i].query);
            steno_ws_session_query(f.s, name, eq + 1);
        }
        if (bad[i].text)
            text(&f, bad[i].text);
        expect(&f, "error", "message", bad[i].says);
        expect_close(&f, bad[i].close, bad[i].code);
        steno_ws_session_free(f.s);
    }
}

static void text_in_pieces_is_one_message_and_bounded(void **state)
{
    struct fixture *f = *state;
    char spaces[1000];
    steno_ws_session_text(f->s, "{\"type\":", 8, false);
    steno_ws_session_text(f->s, "\"start\"}", 8, true);
    expect(f, "ready", NULL, NULL);
    memset(spaces, ' ', sizeof spaces);
    for (int i = 0; i < 20; i++)
        steno_ws_session_text(f->s, spaces, sizeof spaces, false);
    note(f, STENO_POOL_DONE, STENO_OK);
    expect(f, "error", "message", "more than 16384 bytes of text");
    expect_close(f, 1009, "limit_exceeded");
}

static void binary_messages_are_bounded(void **state)
{
    struct fixture *f = *state;
    static char piece[65536];
    for (int i = 0; i <= 16; i++)
        steno_ws_session_binary(f->s, piece, sizeof piece, i == 0, false);
    assert_int_equal(f->fake.taken, 16 * 65536 / 2);
    expect(f, "ready", NULL, NULL);
    note(f, STENO_POOL_DONE, STENO_OK);
    expect(f, "error", "message", "more than 1048576 bytes of audio");
    expect_close(f, 1009, "limit_exceeded");
}

/* One binary message in pieces of n bytes. */
static void binary_in_pieces(struct fixture *f, const char *p, size_t len, size_t piece)
{
    for (size_t at = 0; at < len; at += piece)
        steno_ws_session_binary(f->s, p + at, len - at < piece ? len - at : piece, !at,
                                len - at <= piece);
}

static void binary_commands_and_audio_that_looks_like_them_survive_any_split(void **state)
{
    static const char eof[] = "{\"eof\" : 1}", config[] = "{\"config\":{\"sample_rate\":16000}}";
    static char audio[10000];
    (void)state;
    memset(audio, '{', sizeof audio);
    for (size_t piece = 1; piece < sizeof audio + 1; piece = piece * 3 + 1) {
        struct fixture f;
        make_dialect(&f, &steno_dialect_vosk, 1 << 20, 0);
        binary_in_pieces(&f, config, sizeof config - 1, piece);
        binary_in_pieces(&f, audio, 4000, piece); /* shorter than a command may be */
        binary_in_pieces(&f, audio, sizeof audio, piece);
        assert_int_equal(f.fake.rate, 16000);
        assert_int_equal(f.fake.taken, (4000 + sizeof audio) / 2);
        assert_int_equal(f.fake.ends, 0);
        binary_in_pieces(&f, eof, sizeof eof - 1, piece);
        assert_int_equal(f.fake.ends, 1);
        assert_int_equal(f.fake.taken, (4000 + sizeof audio) / 2);
        assert_int_equal(dropped_samples(&f), 0);
        steno_ws_session_free(f.s);
    }
}

/* Send 30,001 bytes of s16le in pieces of `piece`. The pool takes `room` samples at a time. */
static double sum_in_pieces(size_t piece, size_t room)
{
    enum { BYTES = 30001 };
    static char pcm[BYTES];
    struct fixture f;
    double sum;
    uint32_t seed = 1;
    for (size_t i = 0; i < BYTES; i++) {
        seed = seed * 1664525u + 1013904223u;
        pcm[i] = (char)(seed >> 24);
    }
    make(&f, 4096, 0);
    f.fake.room = room;
    for (size_t at = 0; at < BYTES;) {
        size_t n = BYTES - at < piece ? BYTES - at : piece;
        while (!steno_ws_session_readable(f.s)) {
            f.fake.room = room;
            note(&f, STENO_POOL_ROOM, STENO_OK);
            assert_true(state_of(&f).room_wanted);
            steno_ws_session_resume(f.s);
        }
        binary(&f, pcm + at, n);
        at += n;
    }
    while (!steno_ws_session_readable(f.s)) {
        f.fake.room = room;
        steno_ws_session_resume(f.s);
    }
    assert_int_equal(f.fake.taken, BYTES / 2);
    text(&f, "{\"type\":\"end\"}"); /* half a sample is left over: no error */
    assert_int_equal(f.fake.ends, 1);
    sum = f.fake.sum;
    steno_ws_session_free(f.s);
    return sum;
}

static void any_split_and_any_back_pressure_gives_the_same_samples(void **state)
{
    double want = sum_in_pieces(30001, SIZE_MAX);
    static const size_t pieces[] = {1, 2, 3, 1000, 30001}, rooms[] = {1, 77, 5000, 20000};
    (void)state;
    assert_true(want != 0);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        for (size_t k = 0; k < sizeof rooms / sizeof *rooms; k++)
            assert_true(fabs(sum_in_pieces(pieces[i], rooms[k]) - want) < 1e-6);
}

static void end_and_errors_wait_for_audio_without_room(void **state)
{
    struct fixture *f = *state;
    char pcm[400] = {0};
    f->fake.room = 50;
    binary(f, pcm, sizeof pcm);
    assert_false(steno_ws_session_readable(f->s));
    steno_ws_session_drain(f->s);
    assert_int_equal(f->fake.ends, 0);
    assert_int_equal(dropped_samples(f), 0); /* bytes that wait are no samples yet */
    f->fake.room = SIZE_MAX;
    steno_ws_session_resume(f->s);
    assert_int_equal(f->fake.taken, 200);
    assert_int_equal(f->fake.ends, 1);
}

static void a_finalize_the_recogniser_cannot_take_yet_waits(void **state)
{
    struct fixture *f = *state;
    char pcm[400] = {0};
    binary(f, pcm, sizeof pcm);
    f->fake.busy_finalizes = 1;
    text(f, "{\"type\":\"finalize\"}");
    assert_false(steno_ws_session_readable(f->s));
    note(f, STENO_POOL_FINALIZED, STENO_OK);
    steno_ws_session_resume(f->s);
    assert_true(steno_ws_session_readable(f->s));
    assert_int_equal(f->fake.finalizes, 1);
}

#define APPEND "{\"type\":\"input_audio_buffer.append\",\"audio\":\"AAAAAAAAAAA=\"}"

#define COMMIT "{\"type\":\"input_audio_buffer.commit\"}"
#define UPDATE(prompt)                                                                             \
    "{\"type\":\"session.update\",\"session\":{\"type\":\"transcription\",\"audio\":{\"input\":{"  \
    "\"turn_detection\":null,\"transcription\":{\"prompt\":\"" prompt "\"}}}}}"

/* A Realtime client changes the settings while an item is open, and sends the audio of the next
 * item before the first one is done, or before the network's thread knows that it is. */
static void audio_of_the_next_item_waits_for_the_new_settings(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct fixture f;
        size_t before;
        make_dialect(&f, &steno_dialect_realtime, 1 << 20, 0);
        steno_ws_session_opened(f.s);
        text(&f, APPEND);
        assert_int_equal(f.fake.opens, 1);
        note_text(&f, STENO_SPEECH_START, "");
        text(&f, UPDATE("one"));
        assert_true(steno_ws_session_readable(f.s));
        text(&f, COMMIT);
        assert_int_equal(f.fake.finalizes, 1);
        before = f.fake.taken;
        if (!late) /* audio may come at any time; it must not reach the old stream */
            assert_false(steno_ws_session_readable(f.s));
        note_text(&f, STENO_FINAL, "four");
        note(&f, STENO_POOL_FINALIZED, STENO_OK);
        if (!late)
            steno_ws_session_resume(f.s);
        /* late: the thread looks at the client before it looks at its notes */
        assert_false(steno_ws_session_readable(f.s));
        assert_int_equal(f.fake.ends, 1);
        note(&f, STENO_POOL_DONE, STENO_OK);
        steno_ws_session_resume(f.s);
        assert_true(steno_ws_session_readable(f.s));
        assert_int_equal(f.fake.opens, 2);
        assert_int_equal(f.fake.closes, 1);
        assert_int_equal(f.fake.taken, before);
        text(&f, APPEND);
        assert_true(f.fake.taken > before);
        steno_ws_session_free(f.s);
    }
}

/* The recognizer has committed what it has. */
static void finish_item(struct fixture *f)
{
    note_text(f, STENO_FINAL, "four");
    note(f, STENO_POOL_FINALIZED, STENO_OK);
    steno_ws_session_resume(f->s);
}

/* A Realtime client that commits itself changes the settings. */
static void new_settings_hold_from_the_next_commit_on(void **state)
{
    (void)state;
    for (int committed = 0; committed < 2; committed++) {
        struct fixture f;
        size_t before;
        make_dialect(&f, &steno_dialect_realtime, 1 << 20, 0);
        steno_ws_session_opened(f.s);
        text(&f, UPDATE("one"));
        text(&f, APPEND);
        text(&f, committed ? COMMIT : UPDATE("two"));
        text(&f, committed ? UPDATE("two") : COMMIT);
        assert_int_equal(f.fake.ends, 0); /* not in the middle of an item, before its speech */
        before = f.fake.taken;
        assert_false(steno_ws_session_readable(f.s)); /* audio is of the next item */
        finish_item(&f);
        assert_int_equal(f.fake.ends, 1);
        note(&f, STENO_POOL_DONE, STENO_OK);
        steno_ws_session_resume(f.s);
        assert_true(steno_ws_session_readable(f.s));
        assert_int_equal(f.fake.taken, before);
        assert_int_equal(f.fake.opens, 2);
        steno_ws_session_free(f.s);
    }
}

/* The settings come while the first item ends and the second one has begun: they wait for both. */
static void new_settings_wait_for_an_item_that_has_begun(void **state)
{
    struct fixture f;
    (void)state;
    make_dialect(&f, &steno_dialect_realtime, 1 << 20, 0);
    steno_ws_session_opened(f.s);
    text(&f, UPDATE("one"));
    text(&f, APPEND);
    text(&f, COMMIT);
    text(&f, APPEND);
    text(&f, UPDATE("two"));
    assert_true(steno_ws_session_readable(f.s));
    finish_item(&f);
    assert_true(steno_ws_session_readable(f.s));
    assert_int_equal(f.fake.ends, 0);
    text(&f, COMMIT); /* not empty, though the first item's result came after the audio */
    assert_int_equal(f.fake.finalizes, 2);
    assert_false(steno_ws_session_readable(f.s));
    finish_item(&f);
    assert_int_equal(f.fake.ends, 1);
    steno_ws_session_free(f.s);
}

static void audio_after_end_is_an_error_but_costs_no_final(void **state)
{
    struct fixture *f = *state;
    char pcm[400] = {0};
    binary(f, pcm, sizeof pcm);
    text(f, "{\"type\":\"end\"}");
    binary(f, pcm, sizeof pcm);
    assert_int_equal(f->fake.taken, 200);
    note_text(f, STENO_FINAL, "six");
    note(f, STENO_POOL_DONE, STENO_OK);
    expect(f, "ready", NULL, NULL);
    expect(f, "final", "text", "six");
    expect(f, "error", "message", "came after end");
    expect_close(f, 1008, "invalid_argument");
}

static void drain_sends_the_last_final_and_closes_1012(void **state)
{
    struct fixture *f = *state;
    char pcm[400] = {0};
    binary(f, pcm, sizeof pcm);
    steno_ws_session_drain(f->s);
    assert_int_equal(f->fake.ends, 1);
    note_text(f, STENO_FINAL, "six");
    note(f, STENO_POOL_DONE, STENO_OK);
    expect(f, "ready", NULL, NULL);
    expect(f, "final", "text", "six");
    expect(f, "end", "reason", "draining");
    expect_close(f, 1012, "draining");
    assert_int_equal(state_of(f).ending, STENO_WS_DRAINED);
}

static void drain_before_any_audio_closes_at_once(void **state)
{
    struct fixture *f = *state;
    steno_ws_session_drain(f->s);
    expect(f, "end", "reason", "draining");
    expect_close(f, 1012, "draining");
    assert_int_equal(f->fake.opens, 0);
}

static void idle_clients_get_their_finals_then_the_reason(void **state)
{
    struct fixture *f = *state;
    char pcm[400] = {0};
    binary(f, pcm, sizeof pcm);
    steno_ws_session_stop(f->s, "idle_timeout", 1008, "idle: no audio for 60 s");
    steno_ws_session_stop(f->s, "idle_timeout", 1008, "idle: no audio for 61 s");
    assert_int_equal(f->fake.ends, 1);
    note_text(f, STENO_FINAL, "six");
    note(f, STENO_POOL_DONE, STENO_OK);
    expect(f, "ready", NULL, NULL);
    expect(f, "final", "text", "six");
    expect(f, "error", "message", "60 s");
    expect_close(f, 1008, "idle_timeout");
}

/* The last message has a retry_after; then the session closes with 1013. */
static void expect_busy(struct fixture *f, const char *message)
{
    char want[128];
    struct steno_buf b;
    steno_buf_init(&b, 65536);
    assert_int_equal(steno_ws_session_take(f->s, &b), STENO_OK);
    snprintf(want, sizeof want, "\"code\":\"busy\",\"message\":\"%s\",\"retry_after\":7}", message);
    if (!strstr(b.data, want))
        fail_msg("%s instead of %s", b.data, want);
    steno_buf_free(&b);
    expect_close(f, 1013, "busy");
}

/* Two samples at 22,050 Hz; the sizes are unknown. */
static const unsigned char wav[] = {
    'R', 'I', 'F', 'F', 0xff, 0xff, 0xff, 0xff, 'W',  'A',  'V',  'E',  'f',  'm',  't', ' ',
    16,  0,   0,   0,   1,    0,    1,    0,    0x22, 0x56, 0,    0,    0x44, 0xac, 0,   0,
    2,   0,   16,  0,   'd',  'a',  't',  'a',  0xff, 0xff, 0xff, 0xff, 1,    0,    2,   0};

static void audio_without_a_place_is_dropped(void **state)
{
    struct fixture *f = *state;
    f->fake.open_status = STENO_ERR_BUSY;
    text(f, "{\"type\":\"start\",\"encoding\":\"wav\"}");
    expect(f, "ready", NULL, NULL);
    binary(f, wav, sizeof wav); /* the header makes the rate known and requests a place */
    assert_int_equal(dropped_samples(f), 0);
    expect_busy(f, "all places are taken");
}

static void no_place_in_the_pool_is_busy_at_once(void **state)
{
    struct fixture *f = *state;
    f->fake.open_status = STENO_ERR_BUSY;
    text(f, "{\"type\":\"start\"}");
    expect_busy(f, "all places are taken");
    assert_int_equal(f->fake.ends, 0);
}

static void audio_refused_in_the_middle_is_busy_after_its_finals(void **state)
{
    struct fixture *f = *state;
    char pcm[320] = {0};
    binary(f, pcm, sizeof pcm);
    expect(f, "ready", NULL, NULL);
    f->fake.no_more = true;
    binary(f, pcm, sizeof pcm);
    assert_int_equal(f->fake.ends, 1);
    assert_int_equal(dropped_samples(f), 0); /* the refusal is for what comes after it */
    note_text(f, STENO_FINAL, "nine");
    note(f, STENO_POOL_DONE, STENO_OK);
    expect(f, "final", "text", "nine");
    expect_busy(f, "its audio is used up");
}

static void an_internal_failure_is_reported_as_ours(void **state)
{
    struct fixture *f = *state;
    text(f, "{\"type\":\"start\"}");
    note(f, STENO_POOL_DONE, STENO_ERR_INTERNAL);
    expect(f, "ready", NULL, NULL);
    expect(f, "error", "message", "encoder: broke");
    expect_close(f, 1011, "internal_error");
    assert_int_equal(state_of(f).ending, STENO_WS_FAILED);
}

static void a_failed_stream_gets_nothing_more(void **state)
{
    struct fixture *f = *state;
    int16_t pcm[160] = {0};
    size_t before;
    text(f, "{\"type\":\"start\"}");
    binary(f, pcm, sizeof pcm);
    before = f->fake.taken;
    note(f, STENO_POOL_DONE, STENO_ERR_INTERNAL); /* from here on the stream may be closed */
    binary(f, pcm, sizeof pcm);
    text(f, "{\"type\":\"finalize\"}");
    steno_ws_session_resume(f->s);
    steno_ws_session_drain(f->s);
    assert_int_equal(f->fake.taken, before);
    assert_int_equal(f->fake.finalizes, 0);
    assert_int_equal(f->fake.ends, 0);
}

static void a_client_that_does_not_read_loses_partials_then_the_connection(void **state)
{
    struct fixture *f = *state;
    char pcm[400] = {0};
    binary(f, pcm, sizeof pcm);
    for (int i = 0; i < 10000; i++)
        note_text(f, STENO_PARTIAL, "one two three four five six seven");
    assert_int_equal(state_of(f).partials_dropped, 9999);
    assert_int_equal(state_of(f).ending, STENO_WS_RUNNING);
    for (int i = 0; i < 30; i++)
        note_text(f, STENO_FINAL, "one two three four five six seven");
    assert_true(state_of(f).queued <= 4096);
    expect_close(f, 1008, "slow_reader");
    assert_int_equal(state_of(f).ending, STENO_WS_SLOW);
}

static void revised_partials_are_counted(void **state)
{
    struct fixture *f = *state;
    text(f, "{\"type\":\"start\"}");
    note_text(f, STENO_PARTIAL, "one");
    note_text(f, STENO_PARTIAL, "one two");
    note_text(f, STENO_PARTIAL, "one ten");
    note_text(f, STENO_FINAL, "one ten");
    note_text(f, STENO_PARTIAL, "six");
    assert_int_equal(state_of(f).partials_revised, 1);
}

static void audio_past_the_limit_is_refused_and_the_rest_transcribed(void **state)
{
    struct fixture f;
    static char pcm[40000];
    (void)state;
    make(&f, 4096, 1.0);
    binary(&f, pcm, sizeof pcm); /* 1.25 s at 16 kHz */
    assert_int_equal(f.fake.taken, 16000);
    assert_int_equal(f.fake.ends, 1);
    note(&f, STENO_POOL_DONE, STENO_OK);
    expect(&f, "ready", NULL, NULL);
    expect(&f, "error", "message", "longer than the limit of 1 s");
    expect_close(&f, 1009, "limit_exceeded");
    /* the block that exceeded the limit; no further block is decoded */
    assert_true(dropped_samples(&f) > 0 && dropped_samples(&f) <= 4000);
    steno_ws_session_free(f.s);
}

static void a_wav_says_its_rate_itself(void **state)
{
    struct fixture *f = *state;
    text(f, "{\"type\":\"start\",\"encoding\":\"wav\"}");
    expect(f, "ready", "encoding", "wav");
    for (size_t i = 0; i < sizeof wav; i++)
        binary(f, wav + i, 1);
    assert_int_equal(f->fake.rate, 22050);
    assert_int_equal(f->fake.taken, 2);
    text(f, "{\"type\":\"end\"}");
    note(f, STENO_POOL_DONE, STENO_OK);
    expect(f, "end", NULL, NULL);
    expect_close(f, 1000, "end");
}

/* Every finalize is answered, also one before the header has told what the audio is: the finals
 * are counted on. */
static void a_finalize_before_the_header_has_an_empty_answer(void **state)
{
    struct fixture *f = *state;
    const struct steno_event ev = {
        .kind = STENO_FINAL, .reason = STENO_FINAL_ENDPOINT, .text = "four", .language = ""};
    const struct steno_pool_note four = {.kind = STENO_POOL_EVENT, .event = &ev};
    text(f, "{\"type\":\"start\",\"encoding\":\"wav\"}");
    expect(f, "ready", "encoding", "wav");
    text(f, "{\"type\":\"finalize\"}");
    expect(f, "final", "reason", "request");
    binary(f, wav, 20);
    text(f, "{\"type\":\"finalize\"}");
    expect(f, "final", "text", "");
    assert_int_equal(f->fake.opens, 0);
    binary(f, wav + 20, sizeof wav - 20);
    assert_int_equal(f->fake.opens, 1);
    steno_ws_session_note(f->s, 0, &four, NULL);
    expect_text(f, "\"segment\":2");
    text(f, "{\"type\":\"finalize\"}");
    assert_int_equal(f->fake.finalizes, 1);
}

static void a_wav_that_ends_in_its_header_is_an_error(void **state)
{
    struct fixture *f = *state;
    text(f, "{\"type\":\"start\",\"encoding\":\"wav\"}");
    expect(f, "ready", NULL, NULL);
    binary(f, "RIFF\x10\0\0\0WAVE", 12);
    text(f, "{\"type\":\"end\"}");
    expect(f, "error", "message", "cut off after 12 bytes");
    expect_close(f, 1007, "invalid_data");
    assert_int_equal(f->fake.opens, 0);
}

static void opus_garbage_is_named(void **state)
{
    struct fixture *f = *state;
    static const char junk[] = "\xff\xff\xff\xff this is no Opus packet";
    text(f, "{\"type\":\"start\",\"encoding\":\"opus\"}");
    expect(f, "ready", NULL, NULL);
    binary(f, junk, sizeof junk - 1);
    note(f, STENO_POOL_DONE, STENO_OK);
    expect(f, "error", "message", "pus");
    expect_close(f, 1007, "invalid_data");
    assert_true(state_of(f).failed_in_audio);
}

static void end_without_anything_is_answered(void **state)
{
    struct fixture *f = *state;
    text(f, "{\"type\":\"end\"}");
    expect(f, "ready", NULL, NULL);
    assert_int_equal(f->fake.ends, 1);
    note(f, STENO_POOL_DONE, STENO_OK);
    expect(f, "end", "reason", "end");
    expect_close(f, 1000, "end");
}

static void *worker(void *arg)
{
    struct fixture *f = arg;
    for (int i = 0; i < 2000; i++)
        note_text(f, i % 10 ? STENO_PARTIAL : STENO_FINAL, "one two");
    note(f, STENO_POOL_DONE, STENO_OK);
    return NULL;
}

/* For the thread sanitizer: a worker sends notes while the network thread feeds audio and takes
 * messages. */
static void notes_come_from_another_thread(void **state)
{
    struct fixture f;
    char pcm[100] = {0};
    uint64_t taken = 0;
    pthread_t t;
    (void)state;
    make(&f, 1 << 20, 0);
    binary(&f, pcm, sizeof pcm);
    assert_int_equal(pthread_create(&t, NULL, worker, &f), 0);
    for (bool over = false; !over;) {
        struct steno_buf b;
        steno_buf_init(&b, 65536);
        over = state_of(&f).close;
        while (steno_ws_session_take(f.s, &b) == STENO_OK) {
            taken++;
            steno_buf_reset(&b);
        }
        binary(&f, pcm, sizeof pcm);
        steno_buf_free(&b);
    }
    pthread_join(t, NULL);
    /* ready, 200 finals, `end`, and every partial that was not replaced unread */
    assert_int_equal(taken, state_of(&f).messages - state_of(&f).partials_dropped);
    assert_int_equal(state_of(&f).finals, 200);
    steno_ws_session_free(f.s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(end_waits_for_the_last_final),
        TEST(audio_without_start_means_the_defaults_and_a_later_start_is_refused),
        TEST(query_parameters_serve_clients_that_send_no_start),
        TEST(start_overrides_the_query),
        TEST(each_bad_message_ends_with_its_close_code),
        TEST(text_in_pieces_is_one_message_and_bounded),
        TEST(binary_messages_are_bounded),
        cmocka_unit_test(binary_commands_and_audio_that_looks_like_them_survive_any_split),
        TEST(any_split_and_any_back_pressure_gives_the_same_samples),
        TEST(end_and_errors_wait_for_audio_without_room),
        TEST(a_finalize_the_recogniser_cannot_take_yet_waits),
        cmocka_unit_test(audio_of_the_next_item_waits_for_the_new_settings),
        cmocka_unit_test(new_settings_hold_from_the_next_commit_on),
        cmocka_unit_test(new_settings_wait_for_an_item_that_has_begun),
        TEST(audio_after_end_is_an_error_but_costs_no_final),
        TEST(drain_sends_the_last_final_and_closes_1012),
        TEST(drain_before_any_audio_closes_at_once),
        TEST(idle_clients_get_their_finals_then_the_reason),
        TEST(audio_without_a_place_is_dropped),
        TEST(no_place_in_the_pool_is_busy_at_once),
        TEST(audio_refused_in_the_middle_is_busy_after_its_finals),
        TEST(an_internal_failure_is_reported_as_ours),
        TEST(a_failed_stream_gets_nothing_more),
        TEST(a_client_that_does_not_read_loses_partials_then_the_connection),
        TEST(revised_partials_are_counted),
        TEST(audio_past_the_limit_is_refused_and_the_rest_transcribed),
        TEST(a_wav_says_its_rate_itself),
        TEST(a_finalize_before_the_header_has_an_empty_answer),
        TEST(a_wav_that_ends_in_its_header_is_an_error),
        TEST(opus_garbage_is_named),
        TEST(end_without_anything_is_answered),
        TEST(notes_come_from_another_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
