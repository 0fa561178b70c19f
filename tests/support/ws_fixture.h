/* A resumable session of /v1/stream without sockets: a recognizer that keeps the samples, and the
 * steps of its client. A test that includes this also links server/live/ws_session.c and what that
 * needs, which other tests do not; so it is a header alone. */
#ifndef STENO_TESTS_SUPPORT_WS_FIXTURE_H
#define STENO_TESTS_SUPPORT_WS_FIXTURE_H

#include <string.h>

#include "server/live/ws_session.h"
#include "tests/support/free_room.h"
#include "tests/support/test.h"

#define START "{\"type\":\"start\",\"resumable\":true}"

/* Stands in for the pool; keeps the samples as 16-bit numbers. */
struct fake {
    size_t room, n;
    int16_t received[4096];
    int ends;
};

static steno_status fake_resolve(void *ctx, struct steno_dialect_session *d, steno_err *err)
{
    (void)ctx;
    (void)err;
    d->start.resume_seconds = 30;
    return STENO_OK;
}

static steno_status fake_open(void *ctx, const struct steno_native_start *s, int rate,
                              steno_err *err)
{
    (void)ctx;
    (void)s;
    (void)rate;
    (void)err;
    return STENO_OK;
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
    (void)err;
    f->room -= n;
    for (size_t i = 0; i < n; i++) {
        assert_true(f->n < sizeof f->received / sizeof *f->received);
        f->received[f->n++] = (int16_t)(pcm[i] * 32768.0f);
    }
    return STENO_OK;
}

static steno_status fake_finalize(void *ctx, steno_err *err)
{
    (void)ctx;
    (void)err;
    return STENO_OK;
}

static void fake_end(void *ctx)
{
    ((struct fake *)ctx)->ends++;
}

struct fixture {
    struct fake fake;
    struct steno_ws_engine engine;
    steno_ws_session *s;
};

static const char *listed_words; /* of the operator; NULL: none */

/* A new session at f. store: where its results are stored; NULL: nowhere. */
static void open_session(struct fixture *f, size_t send_bytes, size_t resume_bytes,
                         const struct steno_ws_storage *(*store)(void *ctx, void **place))
{
    struct steno_ws_session_limits limits = {1 << 20, send_bytes, 0,           resume_bytes,
                                             0,       false,      listed_words};
    memset(f, 0, sizeof *f);
    f->fake.room = SIZE_MAX;
    f->engine = (struct steno_ws_engine){.resolve = fake_resolve,
                                         .open = fake_open,
                                         .room = fake_room,
                                         .add = fake_add,
                                         .finalize = fake_finalize,
                                         .end = fake_end,
                                         .store = store};
    f->s = steno_ws_session_new(&steno_dialect_native, &f->engine, &f->fake, "sess_test", &limits);
    assert_non_null(f->s);
}

static void text(struct fixture *f, const char *t)
{
    steno_ws_session_text(f->s, t, strlen(t), true);
}

/* Send samples from..to. Each has its own number as its value. */
static void say(struct fixture *f, int from, int to)
{
    for (int i = from; i < to; i++) {
        int16_t x = (int16_t)i;
        steno_ws_session_binary(f->s, &x, sizeof x, true, true);
    }
}

static void done(struct fixture *f)
{
    struct steno_pool_note n = {.kind = STENO_POOL_DONE};
    steno_ws_session_note(f->s, 0, &n, NULL);
}

static steno_status attach(struct fixture *f, uint64_t next, int64_t sample, steno_err *err)
{
    struct steno_native_resume ask = {.session_id = "sess_test", .next = next, .sample = sample};
    return steno_ws_session_attach(f->s, &ask, err);
}

/* The waiting messages must contain the strings of `says`, one string per message in order, and
 * there must be no more messages. */
static void expect(struct fixture *f, const char *const *says)
{
    for (; *says; says++) {
        struct steno_buf b;
        steno_buf_init(&b, 65536);
        assert_int_equal(steno_ws_session_take(f->s, &b), STENO_OK);
        if (!strstr(b.data, *says))
            fail_msg("%s lacks '%s'", b.data, *says);
        steno_buf_free(&b);
    }
    struct steno_buf none;
    steno_buf_init(&none, 65536);
    if (!steno_ws_session_take(f->s, &none))
        fail_msg("one more: %s", none.data);
}
#define EXPECT(f, ...) expect(f, (const char *const[]){__VA_ARGS__, NULL})

#endif
