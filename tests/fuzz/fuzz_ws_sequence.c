/* Message sequences of /v1/stream against the session's state machine: text and audio in pieces,
 * notes of the recognizer at any moment, full buffers, drain, connections that are lost and
 * resumed. Each operation of the input is one byte, followed by its operands. Checks: every
 * answer is JSON with the session's id; seq increases by one for each answer, except for
 * replaced partials; nothing follows `end` or `error`; no sample is lost or invented between
 * decoder and recognizer, however much the recognizer takes at a time; there is exactly one open
 * and one end. A client that resumes gets every answer from the requested one on, exactly once. */
/* link: server/live/ws_session.c server/live/ws_session_input.c server/live/ws_session_audio.c */
/* link: server/live/ws_session_swap.c server/live/ws_session_end.c */
/* link: server/live/ws_session_resume.c server/live/history.c server/live/outbox.c */
/* link: server/live/ws_session_store.c */
/* covers: server/live/ws_session.c server/live/ws_session_input.c server/live/ws_session_audio.c */
/* covers: server/live/ws_session_swap.c */
/* covers: server/live/ws_session_resume.c server/live/history.c server/live/outbox.c */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/stream_native.h"
#include "server/live/ws_session.h"
#include "tests/fuzz/require.h"
#include "tests/support/free_room.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct world {
    const uint8_t *p;
    size_t n;
    steno_ws_session *s;
    size_t room, taken; /* samples */
    int rate, opens, ends, done;
    bool concluded, in_text, in_binary;
    bool lost; /* no connection */
    int64_t last_seq;
};

static unsigned next(struct world *w)
{
    if (!w->n)
        return 0;
    w->n--;
    return *w->p++;
}

static steno_status resolve(void *ctx, struct steno_dialect_session *d, steno_err *err)
{
    struct steno_native_start *s = &d->start;
    (void)ctx;
    if (s->model[0] == 'x')
        return steno_fail(err, STENO_ERR_INVAL, "model: '%s' is not here", s->model);
    return STENO_OK;
}

static steno_status open_place(void *ctx, const struct steno_native_start *s, int rate,
                               steno_err *err)
{
    struct world *w = ctx;
    REQUIRE(rate >= STENO_AUDIO_MIN_RATE && rate <= STENO_AUDIO_MAX_RATE);
    if (s->beam == 13)
        return steno_fail(err, STENO_ERR_BUSY, "all places are taken");
    w->opens++;
    w->rate = rate;
    REQUIRE(w->opens == 1);
    return STENO_OK;
}

static steno_status room(void *ctx, size_t least, size_t most, float **to, size_t *n,
                         steno_err *err)
{
    struct world *w = ctx;
    (void)err;
    REQUIRE(w->opens == 1 && !w->ends && least <= most);
    *n = give_room(w->room, least, most, to);
    return STENO_OK;
}

static steno_status add(void *ctx, const float *pcm, size_t n, steno_err *err)
{
    struct world *w = ctx;
    (void)err;
    REQUIRE(w->opens == 1 && !w->ends);
    for (size_t i = 0; i < n; i++)
        REQUIRE(pcm[i] == pcm[i]); /* no NaN arrives */
    w->room -= n < w->room ? n : w->room;
    w->taken += n;
    return STENO_OK;
}

static steno_status finalize(void *ctx, steno_err *err)
{
    struct world *w = ctx;
    REQUIRE(w->opens == 1 && !w->ends);
    return w->room % 5 == 4 ? steno_fail(err, STENO_ERR_BUSY, "later") : STENO_OK;
}

static void end(void *ctx)
{
    struct world *w = ctx;
    w->ends++;
    REQUIRE(w->opens == 1 && w->ends == 1);
}

static const struct steno_ws_engine engine = {.resolve = resolve,
                                              .open = open_place,
                                              .room = room,
                                              .add = add,
                                              .finalize = finalize,
                                              .end = end};

static void check_answer(struct world *w, const struct steno_buf *b)
{
    json_t *root = json_loadb(b->data, b->len, 0, NULL);
    const char *type = json_string_value(json_object_get(root, "type"));
    int64_t seq = json_integer_value(json_object_get(root, "seq"));
    REQUIRE(root && type && !w->concluded);
    REQUIRE(!strcmp(json_string_value(json_object_get(root, "session_id")), "sess_fuzz"));
    REQUIRE(seq > w->last_seq);
    w->last_seq = seq;
    w->concluded = !strcmp(type, "end") || !strcmp(type, "error");
    json_decref(root);
}

static void take_one(struct world *w)
{
    struct steno_buf b;
    steno_buf_init(&b, 1 << 20);
    if (steno_ws_session_take(w->s, &b) == STENO_OK)
        check_answer(w, &b);
    steno_buf_free(&b);
}

static void note(struct world *w, unsigned kind)
{
    static const char *const texts[] = {"", "four", "four two", "seven \"\\\xff"};
    struct steno_event ev = {.kind = (enum steno_event_kind)(kind % 3),
                             .time = (double)next(w),
                             .text = texts[kind / 3 % 4],
                             .stable_bytes = kind % 7};
    steno_err err;
    struct steno_pool_note n = {.kind = STENO_POOL_EVENT, .event = &ev, .err = &err};
    steno_fail(&err, STENO_ERR_INTERNAL, "encoder: broke");
    if (!w->opens || w->done)
        return;
    if (kind >= 200) {
        w->done = 1;
        n.kind = STENO_POOL_DONE;
        n.status = w->ends && kind < 240 ? STENO_OK : STENO_ERR_INTERNAL;
    } else if (kind >= 100) {
        n.kind = kind & 1 ? STENO_POOL_ROOM : STENO_POOL_FINALIZED;
        w->room = kind % 50 * 400;
    }
    steno_ws_session_note(w->s, 0, &n, NULL);
}

/* All decoded samples were taken or are reported as dropped. */
static void check_samples(const struct world *w)
{
    struct steno_ws_session_state st;
    steno_ws_session_get_state(w->s, &st);
    if (w->opens)
        REQUIRE(lrint((st.received_seconds - st.dropped_seconds) * w->rate) == (long)w->taken);
    else
        REQUIRE(st.received_seconds == st.dropped_seconds);
}

/* Backpressure as on the network: nothing is sent to a session that is not readable. */
static bool wait_readable(struct world *w)
{
    for (int i = 0; i < 4 && !steno_ws_session_readable(w->s); i++) {
        w->room = 6000;
        steno_ws_session_resume(w->s);
    }
    return steno_ws_session_readable(w->s);
}

static void receive(struct world *w, bool binary, unsigned flags)
{
    size_t n = next(w);
    bool last = flags & 1;
    char piece[256];
    if (n > w->n)
        n = w->n;
    if (!wait_readable(w))
        return;
    if (n) /* a separate block, so that a sanitizer sees reads past its end */
        memcpy(piece, w->p, n);
    w->p += n;
    w->n -= n;
    if (binary) {
        steno_ws_session_binary(w->s, piece, n, !w->in_binary, last);
        w->in_binary = !last;
    } else {
        steno_ws_session_text(w->s, piece, n, last);
        w->in_text = !last;
    }
}

static void known_text(struct world *w, unsigned which)
{
    static const char *const texts[] = {
        "{\"type\":\"start\"}",
        "{\"type\":\"start\",\"encoding\":\"opus\"}",
        "{\"type\":\"start\",\"encoding\":\"wav\"}",
        "{\"type\":\"start\",\"encoding\":\"f32le\",\"sample_rate\":48000,\"channels\":2}",
        "{\"type\":\"start\",\"beam\":13}",
        "{\"type\":\"start\",\"model\":\"x\"}",
        "{\"type\":\"finalize\"}",
        "{\"type\":\"end\"}",
        "{\"type\":\"keepalive\"}",
        "{\"type\":\"start\",\"encoding\":\"mulaw\",\"interim\":false}",
        "{\"type\":\"start\",\"resumable\":true,\"vad\":\"energy\"}",
        "{\"type\":\"start\",\"encoding\":\"opus\",\"resumable\":true,\"vad\":\"silero\"}",
        "{\"type\":\"start\",\"vad\":\"loud\"}",
    };
    const char *t = texts[which % (sizeof texts / sizeof *texts)];
    if (wait_readable(w) && !w->in_text)
        steno_ws_session_text(w->s, t, strlen(t), true);
}

/* The connection is lost. A resumable session waits, as server/live/ws_resume.c does it. */
static void lose(struct world *w)
{
    if (w->lost || !steno_ws_session_resumable(w->s))
        return;
    steno_ws_session_detach(w->s);
    w->lost = true;
    w->in_text = w->in_binary = false;
}

/* A client resumes and requests the answers from `next` on. False: it is refused. */
static bool come_back(struct world *w, uint64_t next, int64_t sample)
{
    struct steno_native_resume ask = {.next = next, .sample = sample};
    struct steno_ws_session_state st;
    steno_err err;
    if (!steno_ws_session_resumable(w->s) || steno_ws_session_attach(w->s, &ask, &err))
        return false;
    w->lost = w->in_text = w->in_binary = false;
    w->last_seq = (int64_t)next - 1;
    steno_ws_session_get_state(w->s, &st);
    w->concluded =
        st.close; /* it confirms the last answer; without that, the answer is sent again */
    return true;
}

static void ask(struct world *w, unsigned which)
{
    static const char *const pairs[][2] = {{"sample_rate", "8000"},
                                           {"encoding", "alaw"},
                                           {"resumable", "true"},
                                           {"vad", "energy"},
                                           {"vad", "loud"}};
    if (which < sizeof pairs / sizeof *pairs)
        steno_ws_session_query(w->s, pairs[which][0], pairs[which][1]);
    else if (which == 5)
        lose(w);
    else if (which == 6) /* it requests the answers after those it has read */
        (void)come_back(w, (uint64_t)(w->last_seq + 1), -1);
    else
        (void)come_back(w, next(w), (int64_t)next(w) * 8 - 8);
}

static void step(struct world *w, unsigned op)
{
    if (w->lost && (op % 10 <= 3 || op % 10 == 6))
        return; /* no client is connected */
    switch (op % 10) {
    case 0:
    case 1:
        receive(w, true, op / 10);
        break;
    case 2:
        receive(w, false, op / 10);
        break;
    case 3:
        known_text(w, op / 10);
        break;
    case 4:
    case 5:
        note(w, next(w));
        break;
    case 6:
        take_one(w);
        break;
    case 7:
        steno_ws_session_resume(w->s);
        break;
    case 8:
        if (op / 10 % 2)
            steno_ws_session_drain(w->s);
        else
            steno_ws_session_stop(w->s, "idle_timeout", 1008, "idle: no audio");
        break;
    default:
        ask(w, op / 10 % 8);
    }
}

/* In every state: with room and DONE the session ends and says so. */
static void must_end(struct world *w)
{
    struct steno_ws_session_state st;
    steno_err err;
    struct steno_pool_note done = {.kind = STENO_POOL_DONE, .err = &err};
    if (w->lost && !come_back(w, (uint64_t)(w->last_seq + 1), -1))
        return; /* the answers that it missed are no longer stored, so nobody can read the rest */
    steno_ws_session_drain(w->s);
    for (int i = 0; i < 100000 && !steno_ws_session_readable(w->s); i++) {
        w->room = 1 << 20;
        steno_ws_session_resume(w->s);
    }
    steno_ws_session_get_state(w->s, &st);
    REQUIRE(st.ending != STENO_WS_RUNNING || !w->opens || w->ends == 1);
    if (w->opens && !w->done)
        steno_ws_session_note(w->s, 0, &done, NULL);
    for (int i = 0; i < 100000; i++) {
        take_one(w);
        steno_ws_session_get_state(w->s, &st);
        if (st.close)
            break;
    }
    REQUIRE(st.close && st.close_code >= 1000 && st.close_code < 1016);
    REQUIRE(strlen(st.reason) <= 123);
    REQUIRE(w->concluded || st.ending == STENO_WS_SLOW);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_ws_session_limits limits = {4096, 2048, 2.0, 1024, 0, true, NULL};
    struct world w = {.p = data, .n = n, .room = 1000, .last_seq = -1};
    w.s = steno_ws_session_new(&steno_dialect_native, &engine, &w, "sess_fuzz", &limits);
    if (!w.s)
        return 0;
    while (w.n) {
        step(&w, next(&w));
        check_samples(&w);
    }
    must_end(&w);
    check_samples(&w);
    steno_ws_session_free(w.s);
    return 0;
}
