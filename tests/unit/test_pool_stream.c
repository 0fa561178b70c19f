/* The pool over real streams (the tone network of tests/data/models/tones). A stream gives the
 * same results alone and among others that other threads push in other pieces. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "speech/pool/pool.h"
#include "tests/support/test.h"

#define TONES "tests/data/models/tones"
enum { RATE = 8000, SECONDS = 12, N = RATE * SECONDS, STREAMS = 16 };

static steno_model *model;

static int open_model(void **state)
{
    steno_err err = {0};
    (void)state;
    if (!steno_model_open(&model, TONES, NULL, &err))
        return 0;
    print_error("%s\n", err.msg);
    return -1;
}

static int close_model(void **state)
{
    (void)state;
    steno_model_close(model);
    return 0;
}

/* The words differ between streams. */
static void fill(float *pcm, int which)
{
    static const int hz[] = {500, 1000, 0, 1000, 500, 0, 0, 500, 1000, 1700, 0};
    for (int i = 0; i < N; i++) {
        int f = hz[(i / (RATE / 4) + which) % 11];
        if ((i / (RATE / 4)) % 16 > 11)
            f = 0;
        pcm[i] = f ? 0.3f * (float)sin(6.283185307179586 * f * (double)i / RATE) : 0.0f;
    }
}

static void note_event(struct steno_buf *b, const struct steno_event *e)
{
    assert_int_equal(steno_buf_printf(b, "%d %lld %.4f %.3f %.3f [%s] %zu %.6f\n", e->kind,
                                      (long long)e->segment, e->time, e->start, e->end, e->text,
                                      e->stable_bytes, (double)e->confidence),
                     STENO_OK);
}

static char *alone(const float *pcm)
{
    steno_stream *s = NULL;
    struct steno_event e;
    struct steno_buf b;
    steno_buf_init(&b, 1 << 20);
    assert_int_equal(steno_stream_open(&s, model, NULL, NULL), STENO_OK);
    assert_int_equal(steno_stream_push(s, pcm, N, NULL), STENO_OK);
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    while (steno_stream_next(s, &e))
        note_event(&b, &e);
    steno_stream_close(s);
    return b.data;
}

struct client {
    steno_pool *pool;
    float pcm[N];
    size_t piece;
    struct steno_buf received;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned rooms;
    bool done;
    steno_status status;
};

static void on_note(void *user, steno_pool_stream *ps, const struct steno_pool_note *note)
{
    struct client *c = user;
    (void)ps;
    if (note->kind == STENO_POOL_EVENT)
        note_event(&c->received, note->event);
    pthread_mutex_lock(&c->lock);
    c->rooms += note->kind == STENO_POOL_ROOM;
    if (note->kind == STENO_POOL_DONE) {
        c->done = true;
        c->status = note->status;
    }
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void push_all(struct client *c, steno_pool_stream *ps)
{
    for (size_t at = 0; at < N;) {
        size_t n = N - at < c->piece ? N - at : c->piece, taken;
        unsigned rooms;
        pthread_mutex_lock(&c->lock);
        rooms = c->rooms;
        pthread_mutex_unlock(&c->lock);
        assert_int_equal(steno_pool_stream_push(ps, c->pcm + at, n, &taken, NULL), STENO_OK);
        at += taken;
        pthread_mutex_lock(&c->lock);
        while (taken < n && c->rooms == rooms)
            pthread_cond_wait(&c->changed, &c->lock);
        pthread_mutex_unlock(&c->lock);
    }
}

static void *run_client(void *arg)
{
    struct client *c = arg;
    steno_pool_stream *ps = NULL;
    assert_int_equal(steno_pool_stream_open(&ps, c->pool, NULL, on_note, c, NULL), STENO_OK);
    push_all(c, ps);
    steno_pool_stream_end(ps);
    pthread_mutex_lock(&c->lock);
    while (!c->done)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    steno_pool_stream_close(ps);
    return NULL;
}

static void a_stream_says_the_same_among_others(void **state)
{
    (void)state;
    static struct client c[STREAMS];
    pthread_t th[STREAMS];
    struct steno_pool_options o = {.workers = 3, .max_streams = STREAMS, .buffer_seconds = 0.5};
    steno_pool *p = NULL;
    assert_int_equal(steno_pool_open(&p, model, &o, NULL), STENO_OK);
    for (int i = 0; i < STREAMS; i++) {
        c[i].pool = p;
        c[i].piece = (size_t)(37 + 331 * i);
        fill(c[i].pcm, i);
        steno_buf_init(&c[i].received, 1 << 20);
        pthread_mutex_init(&c[i].lock, NULL);
        pthread_cond_init(&c[i].changed, NULL);
        assert_int_equal(pthread_create(&th[i], NULL, run_client, &c[i]), 0);
    }
    for (int i = 0; i < STREAMS; i++) {
        char *want = alone(c[i].pcm);
        pthread_join(th[i], NULL);
        assert_int_equal(c[i].status, STENO_OK);
        assert_non_null(strstr(want, "one"));
        assert_string_equal(c[i].received.data, want);
        steno_buf_free(&c[i].received);
        free(want);
    }
    steno_pool_close(p);
}

static void a_live_stream_is_soon_answered(void **state)
{
    (void)state;
    static struct client c;
    steno_pool *p = NULL;
    steno_pool_stream *ps = NULL;
    struct steno_pool_stream_stats st;
    assert_int_equal(steno_pool_open(&p, model, &(struct steno_pool_options){.workers = 1}, NULL),
                     STENO_OK);
    c = (struct client){.pool = p, .piece = 160};
    fill(c.pcm, 0);
    steno_buf_init(&c.received, 1 << 20);
    pthread_mutex_init(&c.lock, NULL);
    pthread_cond_init(&c.changed, NULL);
    assert_int_equal(steno_pool_stream_open(&ps, p, NULL, on_note, &c, NULL), STENO_OK);
    push_all(&c, ps);
    steno_pool_stream_end(ps);
    pthread_mutex_lock(&c.lock);
    while (!c.done)
        pthread_cond_wait(&c.changed, &c.lock);
    pthread_mutex_unlock(&c.lock);
    steno_pool_stream_get_stats(ps, &st);
    /* 20 ms pushes, 80 ms steps: no wake-up per push */
    assert_true(st.steps <= (uint64_t)(1.3 * SECONDS / 0.08));
    assert_true(fabs(st.audio_seconds - SECONDS) < 1e-9);
    steno_pool_stream_close(ps);
    steno_pool_close(p);
    steno_buf_free(&c.received);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_says_the_same_among_others),
        cmocka_unit_test(a_live_stream_is_soon_answered),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
