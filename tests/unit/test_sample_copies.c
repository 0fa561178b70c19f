/* ldflags: -Wl,--wrap=memcpy,--wrap=memmove,--wrap=__memcpy_chk,--wrap=__memmove_chk */
/* ldflags: -Wl,--wrap=steno_pcm_push,--wrap=steno_pcm_clean,--wrap=steno_pcm_mix */
/* link: server/live/ws_session.c server/live/ws_session_input.c server/live/ws_session_audio.c */
/* link: server/live/ws_session_swap.c server/live/ws_session_end.c */
/* link: server/live/ws_session_resume.c server/live/history.c server/live/outbox.c */
/* link: server/live/ws_session_store.c */
/* How often a sample is written between the socket and the transform: every second of audio of a
 * live session, and of an upload in memory, costs so many bytes of copies. All samples have one
 * value that no other data have, and each function that may write samples counts those it wrote. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/live/ws_session.h"
#include "speech/audio/file.h"
#include "speech/audio/pcm.h"
#include "speech/pool/pool.h"
#include "tests/support/test.h"
#include "tests/support/wavgen.h"

#define SAMPLE 12345 /* 0x3039; as f32 0x3EC0E400 */
#define RATE 8000
#define SECONDS 60
#define CHUNK 1600 /* bytes of a message: 0.1 s */
/* A sample of s16 is read from the socket once, and then written as f32: decoded into the stream's
 * ring, and into the buffer of the front end. */
#define MOST_WRITES 2
/* Of samples that two frames share, when the front end's buffer is full; of those that wait behind
 * a step; of the ring, when it grows. */
#define MOVES 0.5

/* ---- the counter ----------------------------------------------------------------------------- */

static atomic_size_t copied; /* bytes of samples */

void *__real_memcpy(void *to, const void *from, size_t n);
void *__real_memmove(void *to, const void *from, size_t n);
size_t __real_steno_pcm_push(struct steno_pcm *p, const void *data, size_t n, size_t *used,
                             float *out, size_t max);
void __real_steno_pcm_clean(const float *in, size_t n, float *out);
void __real_steno_pcm_mix(const float *in, size_t frames, unsigned channels, unsigned channel,
                          float *out);
void *__wrap_memcpy(void *to, const void *from, size_t n);
void *__wrap_memmove(void *to, const void *from, size_t n);
void *__wrap___memcpy_chk(void *to, const void *from, size_t n, size_t room);
void *__wrap___memmove_chk(void *to, const void *from, size_t n, size_t room);
size_t __wrap_steno_pcm_push(struct steno_pcm *p, const void *data, size_t n, size_t *used,
                             float *out, size_t max);
void __wrap_steno_pcm_clean(const float *in, size_t n, float *out);
void __wrap_steno_pcm_mix(const float *in, size_t frames, unsigned channels, unsigned channel,
                          float *out);

/* Count what was written at `to`: samples of f32, or of s16. */
static void *note(void *to, size_t n)
{
    const float whole = SAMPLE / 32768.0f;
    const int16_t half = SAMPLE;
    const char *p = to;
    size_t found = 0;
    for (size_t i = 0; i + sizeof half <= n;) {
        const size_t k = i + sizeof whole <= n && !memcmp(p + i, &whole, sizeof whole)
                             ? sizeof whole
                         : !memcmp(p + i, &half, sizeof half) ? sizeof half
                                                              : 0;
        found += k;
        i += k ? k : sizeof half;
    }
    atomic_fetch_add(&copied, found);
    return to;
}

void *__wrap_memcpy(void *to, const void *from, size_t n)
{
    return note(__real_memcpy(to, from, n), n);
}

void *__wrap_memmove(void *to, const void *from, size_t n)
{
    return note(__real_memmove(to, from, n), n);
}

void *__wrap___memcpy_chk(void *to, const void *from, size_t n, size_t room)
{
    assert_true(n <= room);
    return __wrap_memcpy(to, from, n);
}

void *__wrap___memmove_chk(void *to, const void *from, size_t n, size_t room)
{
    assert_true(n <= room);
    return __wrap_memmove(to, from, n);
}

size_t __wrap_steno_pcm_push(struct steno_pcm *p, const void *data, size_t n, size_t *used,
                             float *out, size_t max)
{
    const size_t made = __real_steno_pcm_push(p, data, n, used, out, max);
    note(out, made * sizeof *out);
    return made;
}

void __wrap_steno_pcm_clean(const float *in, size_t n, float *out)
{
    __real_steno_pcm_clean(in, n, out);
    note(out, n * sizeof *out);
}

/* Of one channel it is a copy by memmove. */
void __wrap_steno_pcm_mix(const float *in, size_t frames, unsigned channels, unsigned channel,
                          float *out)
{
    __real_steno_pcm_mix(in, frames, channels, channel, out);
    if (channels > 1)
        note(out, frames * sizeof *out);
}

/* ---- a stream of the pool -------------------------------------------------------------------- */

struct talk {
    steno_model *model;
    steno_pool *pool;
    steno_pool_stream *stream;
    steno_ws_session *session; /* NULL: an upload */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, room; /* under lock */
};

static void on_note(void *user, steno_pool_stream *ps, const struct steno_pool_note *n)
{
    struct talk *t = user;
    (void)ps;
    if (t->session)
        steno_ws_session_note(t->session, 0, n, NULL);
    pthread_mutex_lock(&t->lock);
    t->done |= n->kind == STENO_POOL_DONE;
    t->room |= n->kind == STENO_POOL_ROOM;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void wait_for(struct talk *t, const bool *what)
{
    pthread_mutex_lock(&t->lock);
    while (!*what)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static void open_pool(struct talk *t)
{
    const struct steno_pool_options opt = {
        .workers = 1, .batch = 1, .capacity = -1, .buffer_seconds = 5};
    *t = (struct talk){0};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    assert_int_equal(steno_model_open(&t->model, "conf/models/digits-en", NULL, NULL), STENO_OK);
    assert_int_equal(steno_pool_open(&t->pool, t->model, &opt, NULL), STENO_OK);
}

static void close_pool(struct talk *t)
{
    wait_for(t, &t->done);
    steno_pool_stream_close(t->stream);
    steno_ws_session_free(t->session);
    steno_pool_close(t->pool);
    steno_model_close(t->model);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
}

static steno_status open_stream(void *ctx, const struct steno_native_start *s, int rate,
                                steno_err *err)
{
    struct talk *t = ctx;
    const struct steno_pool_stream_options o = {.stream = {.sample_rate = rate, .n_best = 1}};
    (void)s;
    return steno_pool_stream_open(&t->stream, t->pool, &o, on_note, t, err);
}

/* Bytes of copies for each second of audio, of which every sample is written to the memory of the
 * stream once at least. */
static double bytes_each_second(void)
{
    const double bytes = (double)atomic_load(&copied) / SECONDS;
    assert_true(bytes >= RATE * sizeof(float));
    return bytes;
}

/* ---- live ------------------------------------------------------------------------------------ */

static steno_status resolve(void *ctx, struct steno_dialect_session *d, steno_err *err)
{
    (void)ctx;
    (void)err;
    snprintf(d->start.model, sizeof d->start.model, "digits-en");
    return STENO_OK;
}

static steno_status room(void *ctx, size_t least, size_t most, float **to, size_t *n,
                         steno_err *err)
{
    return steno_pool_stream_room(((struct talk *)ctx)->stream, least, most, to, n, err);
}

static steno_status add(void *ctx, const float *pcm, size_t n, steno_err *err)
{
    (void)pcm, (void)err;
    steno_pool_stream_add(((struct talk *)ctx)->stream, n);
    return STENO_OK;
}

static void end(void *ctx)
{
    steno_pool_stream_end(((struct talk *)ctx)->stream);
}

/* As live audio comes: the worker has heard what came before. */
static void wait_for_worker(struct talk *t)
{
    const struct timespec pause = {.tv_nsec = 100000};
    struct steno_pool_stream_stats stats;
    for (;;) {
        steno_pool_stream_get_stats(t->stream, &stats);
        if (stats.waiting_seconds < 0.5)
            return;
        nanosleep(&pause, NULL);
    }
}

static void a_live_sample_is_written_twice(void **state)
{
    static const struct steno_ws_engine engine = {
        .resolve = resolve, .open = open_stream, .room = room, .add = add, .end = end};
    static const struct steno_ws_session_limits limits = {8 << 20, 1 << 20, 14400, 0,
                                                          0,       false,   NULL};
    static const char begin[] = "{\"type\":\"start\",\"sample_rate\":8000}";
    static const char over[] = "{\"type\":\"end\"}";
    struct talk t;
    int16_t pcm[CHUNK / sizeof(int16_t)];
    (void)state;
    for (size_t i = 0; i < CHUNK / sizeof *pcm; i++)
        pcm[i] = SAMPLE;
    open_pool(&t);
    t.session = steno_ws_session_new(&steno_dialect_native, &engine, &t, "sess_copies", &limits);
    assert_non_null(t.session);
    steno_ws_session_text(t.session, begin, strlen(begin), true);
    atomic_store(&copied, 0);
    for (int i = 0; i < SECONDS * RATE * 2 / CHUNK; i++) {
        wait_for_worker(&t);
        steno_ws_session_binary(t.session, (const char *)pcm, sizeof pcm, true, true);
    }
    steno_ws_session_text(t.session, over, strlen(over), true);
    close_pool(&t);
    print_message("live: %.0f bytes of copies a second, %.2f of each sample\n", bytes_each_second(),
                  bytes_each_second() / (RATE * sizeof(float)));
    assert_true(bytes_each_second() <= (MOST_WRITES + MOVES) * RATE * sizeof(float));
}

/* ---- an upload ------------------------------------------------------------------------------- */

/* Decode the next samples. False at the end. */
static bool decode_some(struct talk *t, steno_audio *audio)
{
    float *to;
    size_t n = 0, reserved = 0;
    while (!reserved) {
        pthread_mutex_lock(&t->lock);
        t->room = false;
        pthread_mutex_unlock(&t->lock);
        assert_int_equal(steno_pool_stream_room(t->stream, 8192, 8192, &to, &reserved, NULL),
                         STENO_OK);
        if (!reserved)
            wait_for(t, &t->room);
    }
    assert_int_equal(steno_audio_read(audio, to, reserved, &n, NULL), STENO_OK);
    steno_pool_stream_add(t->stream, n);
    return n;
}

/* As the transcriber does it, with the recording in memory. */
static void a_sample_of_an_upload_is_written_twice(void **state)
{
    static int16_t pcm[SECONDS * RATE];
    const struct wavgen_fmt format = wavgen_fmt(1, 1, RATE, 16);
    struct wavgen wav;
    struct talk t;
    steno_audio *audio;
    (void)state;
    for (size_t i = 0; i < SECONDS * RATE; i++)
        pcm[i] = SAMPLE;
    wavgen_make(&wav, &format, pcm, sizeof pcm);
    open_pool(&t);
    assert_int_equal(open_stream(&t, NULL, RATE, NULL), STENO_OK);
    atomic_store(&copied, 0);
    assert_int_equal(steno_audio_open_mem(&audio, wav.data, wav.len, NULL, NULL), STENO_OK);
    while (decode_some(&t, audio))
        ;
    steno_audio_close(audio);
    steno_pool_stream_end(t.stream);
    close_pool(&t);
    free(wav.data);
    print_message("upload: %.0f bytes of copies a second, %.2f of each sample\n",
                  bytes_each_second(), bytes_each_second() / (RATE * sizeof(float)));
    assert_true(bytes_each_second() <= (MOST_WRITES + MOVES) * RATE * sizeof(float));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_live_sample_is_written_twice),
        cmocka_unit_test(a_sample_of_an_upload_is_written_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
