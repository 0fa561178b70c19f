/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free */
/* ldflags: -Wl,--wrap=aligned_alloc,--wrap=posix_memalign */
/* link: server/live/ws_session.c server/live/ws_session_input.c server/live/ws_session_audio.c */
/* link: server/live/ws_session_swap.c server/live/ws_session_end.c */
/* link: server/live/ws_session_resume.c server/live/history.c server/live/outbox.c */
/* link: server/live/ws_session_store.c */
/* The memory that a live session holds, counted at the allocator: a session with its stream in
 * the pool and the shipped model. After speech was recognized and every answer was read, it
 * holds less than 64 KiB beyond the network's own part (states and window). That includes the
 * connection's struct and libwebsockets' part of a socket. With all buffers full it holds no
 * more than docs/capacity.md says. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "server/live/ws_internal.h"
#include "server/live/ws_session.h"
#include "tests/support/test.h"

#define MOST 65536
#define LWS_SOCKET                                                                                 \
    2048           /* struct lws of a raw socket is 0.8 KiB in 4.1.6, including its watchers       \
                    */
#define CHUNK 1600 /* 0.1 s of s16le at 8 kHz */
#define PIECE                                                                                      \
    65536 /* the audio of one read that arrives when the ring becomes full, as bytes and samples   \
           */

static atomic_size_t live, most;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
int __real_posix_memalign(void **p, size_t align, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n);
void __wrap_free(void *p);

/* Including the allocator's own word before the block (glibc). */
static size_t bytes_of(void *p)
{
    return p ? malloc_usable_size(p) + sizeof(size_t) : 0;
}

static void *note(void *p)
{
    size_t now = atomic_fetch_add(&live, bytes_of(p)) + bytes_of(p), before = atomic_load(&most);
    while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
        ;
    return p;
}

void *__wrap_malloc(size_t n)
{
    return note(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return note(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t n)
{
    size_t before = bytes_of(p);
    void *q = __real_realloc(p, n);
    if (q)
        atomic_fetch_sub(&live, before);
    return q ? note(q) : NULL;
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return note(__real_aligned_alloc(align, n));
}

int __wrap_posix_memalign(void **p, size_t align, size_t n)
{
    int rc = __real_posix_memalign(p, align, n);
    if (!rc)
        note(*p);
    return rc;
}

void __wrap_free(void *p)
{
    atomic_fetch_sub(&live, bytes_of(p));
    __real_free(p);
}

/* ---- a session on a pool --------------------------------------------------------------------- */

struct talk {
    steno_pool *pool;
    steno_ws_session *session;
    steno_pool_stream *stream;
    struct steno_buf received;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool finalized, done; /* under lock */
    pthread_mutex_t
        *barrier; /* under lock: the worker's callback waits here; NULL: it does not wait */
    bool waits;   /* under lock: the callback waits */
};

static void on_note(void *user, steno_pool_stream *ps, const struct steno_pool_note *n)
{
    struct talk *t = user;
    pthread_mutex_t *barrier;
    (void)ps;
    steno_ws_session_note(t->session, 0, n, NULL);
    pthread_mutex_lock(&t->lock);
    barrier = t->barrier;
    t->finalized |= n->kind == STENO_POOL_FINALIZED;
    t->done |= n->kind == STENO_POOL_DONE;
    t->waits = barrier;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (barrier) {
        pthread_mutex_lock(barrier);
        pthread_mutex_unlock(barrier);
    }
}

static steno_status resolve(void *ctx, struct steno_dialect_session *d, steno_err *err)
{
    (void)ctx;
    (void)err;
    snprintf(d->start.model, sizeof d->start.model, "digits-en");
    return STENO_OK;
}

static steno_status open_stream(void *ctx, const struct steno_native_start *s, int rate,
                                steno_err *err)
{
    struct talk *t = ctx;
    const struct steno_pool_stream_options o = {.stream = {.sample_rate = rate, .n_best = 1}};
    (void)s;
    return steno_pool_stream_open(&t->stream, t->pool, &o, on_note, t, err);
}

static steno_status room(void *ctx, size_t least, size_t wanted, float **to, size_t *n,
                         steno_err *err)
{
    return steno_pool_stream_room(((struct talk *)ctx)->stream, least, wanted, to, n, err);
}

static steno_status add(void *ctx, const float *pcm, size_t n, steno_err *err)
{
    (void)pcm, (void)err;
    steno_pool_stream_add(((struct talk *)ctx)->stream, n);
    return STENO_OK;
}

static steno_status finalize(void *ctx, steno_err *err)
{
    return steno_pool_stream_finalize(((struct talk *)ctx)->stream, err);
}

static void end(void *ctx)
{
    steno_pool_stream_end(((struct talk *)ctx)->stream);
}

static const struct steno_ws_engine engine = {.resolve = resolve,
                                              .open = open_stream,
                                              .room = room,
                                              .add = add,
                                              .finalize = finalize,
                                              .end = end};
static const struct steno_ws_session_limits limits = {8 << 20, 1 << 20, 14400, 262144,
                                                      0,       false,   NULL};

static void say(struct talk *t, const char *text)
{
    steno_ws_session_text(t->session, text, strlen(text), true);
}

/* What a client does that reads everything. */
static void read_answers(struct talk *t)
{
    while (steno_ws_session_take(t->session, &t->received) == STENO_OK)
        ;
}

static void wait_for(struct talk *t, const bool *what)
{
    pthread_mutex_lock(&t->lock);
    while (!*what)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static void talk_begin(struct talk *t, steno_pool *pool, const char *start)
{
    *t = (struct talk){.pool = pool};
    steno_buf_init(&t->received, 1 << 20);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    t->session = steno_ws_session_new(&steno_dialect_native, &engine, t, "sess_bytes", &limits);
    assert_non_null(t->session);
    say(t, start);
}

/* Send the recording in chunks and finalize. Afterwards all of it is recognized and all answers
 * are read. */
static void talk_open(struct talk *t, steno_pool *pool, const char *start)
{
    static char pcm[200000];
    FILE *f = fopen("tests/data/digits.wav", "rb");
    size_t n;
    assert_non_null(f);
    assert_int_equal(fseek(f, 44, SEEK_SET), 0);
    n = fread(pcm, 1, sizeof pcm, f);
    fclose(f);
    talk_begin(t, pool, start);
    for (size_t at = 0; at < n; at += CHUNK) {
        while (!steno_ws_session_readable(t->session))
            steno_ws_session_resume(t->session);
        steno_ws_session_binary(t->session, pcm + at, n - at < CHUNK ? n - at : CHUNK, true, true);
        read_answers(t);
    }
    say(t, "{\"type\":\"finalize\"}");
    wait_for(t, &t->finalized);
    read_answers(t);
    assert_non_null(t->received.data);
    assert_non_null(strstr(t->received.data, "four two seven one nine zero three"));
    steno_buf_free(&t->received);
}

static void talk_free(struct talk *t)
{
    steno_pool_stream_close(t->stream);
    steno_ws_session_free(t->session);
    steno_buf_free(&t->received);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
}

static void talk_close(struct talk *t)
{
    say(t, "{\"type\":\"end\"}");
    wait_for(t, &t->done);
    talk_free(t);
}

/* Wait until the worker has finished its round, so that it allocates nothing more for itself. */
static void wait_idle(steno_pool *pool)
{
    struct steno_pool_stats st;
    const struct timespec t = {.tv_nsec = 1000000};
    do {
        nanosleep(&t, NULL);
        steno_pool_get_stats(pool, &st);
    } while (st.ready || steno_pool_worker_heartbeat(pool, 0).busy);
}

static void check(const char *start)
{
    const struct steno_pool_options opt = {.workers = 1, .batch = 1, .capacity = -1};
    enum { SESSIONS = 4 };
    struct steno_model_info info;
    struct talk first, t[SESSIONS];
    steno_model *model;
    steno_pool *pool;
    size_t before, each;
    assert_int_equal(steno_model_open(&model, "conf/models/digits-en", NULL, NULL), STENO_OK);
    assert_int_equal(steno_pool_open(&pool, model, &opt, NULL), STENO_OK);
    steno_model_get_info(model, &info);
    talk_open(&first, pool, start); /* the worker allocates its own memory for the first session */
    wait_idle(pool);
    before = atomic_load(&live);
    assert_true(before > 0);
    for (int i = 0; i < SESSIONS; i++)
        talk_open(&t[i], pool, start);
    wait_idle(pool);
    each = (atomic_load(&live) - before) / SESSIONS + sizeof(struct steno_ws_conn) + LWS_SOCKET;
    print_message("%zu bytes, %zu of them states and window\n", each, info.stream_bytes);
    assert_true(each < MOST + info.stream_bytes);
    assert_true(each > info.stream_bytes); /* the counter works */
    for (int i = 0; i < SESSIONS; i++)
        talk_close(&t[i]);
    talk_close(&first);
    steno_pool_close(pool);
    steno_model_close(model);
}

static void an_idle_session_holds_less_than_64_kib_beyond_its_states(void **state)
{
    (void)state;
    check("{\"type\":\"start\",\"sample_rate\":8000}");
}

static void a_resumable_session_holds_no_more(void **state)
{
    (void)state;
    check("{\"type\":\"start\",\"sample_rate\":8000,\"resumable\":true}");
}

/* A client sends and does not read, and another stream holds the only worker. Audio fills the
 * ring until reading pauses, plus one more read. Answers fill the queue and the history until
 * the server gives the client up. */
static void fill(struct talk *t)
{
    static const char zeros[CHUNK];
    char text[1000];
    struct steno_event final = {.kind = STENO_FINAL, .text = text};
    struct steno_event partial = {.kind = STENO_PARTIAL, .text = text};
    struct steno_ws_session_state st = {0};
    size_t queued = 0;
    while (steno_ws_session_readable(t->session))
        steno_ws_session_binary(t->session, zeros, sizeof zeros, true, true);
    for (size_t n = 0; n < STENO_WS_RX_BYTES; n += sizeof zeros)
        steno_ws_session_binary(t->session, zeros, sizeof zeros, true, true);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    while (st.ending == STENO_WS_RUNNING) {
        const struct steno_pool_note notes[] = {{STENO_POOL_EVENT, .event = &partial},
                                                {STENO_POOL_EVENT, .event = &final}};
        steno_ws_session_note(t->session, 0, &notes[0], NULL);
        steno_ws_session_note(t->session, 0, &notes[1], NULL);
        queued = st.queued > queued ? st.queued : queued;
        steno_ws_session_get_state(t->session, &st);
    }
    assert_int_equal(st.ending, STENO_WS_SLOW);
    assert_true(queued > limits.send_bytes - 2 * sizeof text - 1000);
}

static void open_barrier(struct talk *t, pthread_mutex_t *barrier)
{
    pthread_mutex_lock(&t->lock);
    t->barrier = barrier;
    pthread_mutex_unlock(&t->lock);
}

static void a_full_session_holds_no_more_than_is_documented(void **state)
{
    const struct steno_pool_options opt = {
        .workers = 1, .batch = 1, .capacity = -1, .buffer_seconds = 4};
    static const char start[] = "{\"type\":\"start\",\"sample_rate\":8000,\"resumable\":true}";
    const size_t ring = 4 * 8000 * sizeof(float);
    pthread_mutex_t barrier = PTHREAD_MUTEX_INITIALIZER;
    struct steno_model_info info;
    struct talk first, full;
    steno_model *model;
    steno_pool *pool;
    size_t before, held, bound;
    (void)state;
    assert_int_equal(steno_model_open(&model, "conf/models/digits-en", NULL, NULL), STENO_OK);
    assert_int_equal(steno_pool_open(&pool, model, &opt, NULL), STENO_OK);
    steno_model_get_info(model, &info);
    talk_open(&first, pool, start);
    wait_idle(pool);
    pthread_mutex_lock(&barrier);
    open_barrier(&first, &barrier);
    say(&first, "{\"type\":\"finalize\"}");
    wait_for(&first, &first.waits);
    before = atomic_load(&live);
    atomic_store(&most, before);
    talk_begin(&full, pool, start);
    fill(&full);
    held = atomic_load(&most) - before + sizeof(struct steno_ws_conn) + LWS_SOCKET;
    bound =
        info.stream_bytes + MOST + ring + PIECE + 3 * limits.send_bytes + 2 * limits.resume_bytes;
    print_message("%zu bytes of at most %zu\n", held, bound);
    assert_true(held < bound);
    assert_true(held > ring + limits.send_bytes + limits.resume_bytes); /* it was full */
    open_barrier(&first, NULL);
    pthread_mutex_unlock(&barrier);
    talk_free(&full);
    talk_close(&first);
    steno_pool_close(pool);
    steno_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_session_holds_less_than_64_kib_beyond_its_states),
        cmocka_unit_test(a_resumable_session_holds_no_more),
        cmocka_unit_test(a_full_session_holds_no_more_than_is_documented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
