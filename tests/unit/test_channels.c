/* The channels of one session over a real pool (the tone network of tests/data/models/tones): every
 * channel gives the events of a stream alone, whatever the pieces, finalize and the end are told
 * once for all, and one that fails takes no text from the others. */
/* link: server/live/channels.c */
/* ldflags: -Wl,--wrap=steno_streams_step */
#include "server/live/channels.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "speech/recognizer/batcher.h"
#include "tests/support/test.h"

#define TONES "tests/data/models/tones"
enum { RATE = 8000, SECONDS = 6, N = RATE * SECONDS, MOST = 8 };

struct client {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int rooms, finalized, done;
    steno_status status;
    char message[sizeof((steno_err *)0)->msg];
    double audio_seconds;
    struct steno_buf events[MOST];
};

/* Steps wait until they may begin. One stream, the first that has a step, fails at a step. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool wait;
    int fails_at; /* its step; 0: it never fails */
    const steno_stream *stream;
} steps = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void __real_steno_streams_step(steno_batcher *b, steno_stream *const *s, size_t n, steno_status *st,
                               steno_err *err);
void __wrap_steno_streams_step(steno_batcher *b, steno_stream *const *s, size_t n, steno_status *st,
                               steno_err *err);

static bool step_fails(const steno_stream *s)
{
    bool fails = false;
    pthread_mutex_lock(&steps.lock);
    while (steps.wait)
        pthread_cond_wait(&steps.changed, &steps.lock);
    if (steps.fails_at && !steps.stream)
        steps.stream = s;
    if (steps.fails_at && steps.stream == s)
        fails = !--steps.fails_at;
    pthread_mutex_unlock(&steps.lock);
    return fails;
}

void __wrap_steno_streams_step(steno_batcher *b, steno_stream *const *s, size_t n, steno_status *st,
                               steno_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (step_fails(s[i]))
            st[i] = steno_fail(&err[i], STENO_ERR_INTERNAL, "the network broke");
        else
            __real_steno_streams_step(b, &s[i], 1, &st[i], &err[i]);
    }
}

static steno_model *model;
static steno_pool *pool;
static const struct steno_pool_stream_options options = {
    .stream = {.sample_rate = RATE, .no_partials = true}, .priority = STENO_POOL_LIVE};

static int open_pool(void **state)
{
    steno_err err = {0};
    const struct steno_pool_options o = {.workers = 2, .max_streams = 32, .buffer_seconds = 0.5};
    (void)state;
    if (!steno_model_open(&model, TONES, NULL, &err) && !steno_pool_open(&pool, model, &o, &err))
        return 0;
    print_error("%s\n", err.msg);
    return -1;
}

static int close_pool(void **state)
{
    (void)state;
    steno_pool_close(pool);
    steno_model_close(model);
    return 0;
}

static void on_note(void *user, unsigned channel, const struct steno_pool_note *note)
{
    struct client *c = user;
    const struct steno_event *e = note->event;
    pthread_mutex_lock(&c->lock);
    if (note->kind == STENO_POOL_EVENT && e->kind == STENO_FINAL)
        (void)!steno_buf_printf(&c->events[channel], "%lld %.3f %.3f %d [%s]\n",
                                (long long)e->segment, e->start, e->end, e->reason, e->text);
    c->rooms += note->kind == STENO_POOL_ROOM;
    c->finalized += note->kind == STENO_POOL_FINALIZED;
    if (note->kind == STENO_POOL_DONE) {
        c->done++;
        c->status = note->status;
        snprintf(c->message, sizeof c->message, "%s", note->err ? note->err->msg : "");
        c->audio_seconds = note->stats.audio_seconds;
    }
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void client_init(struct client *c)
{
    *c = (struct client){.status = STENO_OK};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    for (int i = 0; i < MOST; i++)
        steno_buf_init(&c->events[i], 1 << 20);
}

static void client_free(struct client *c)
{
    for (int i = 0; i < MOST; i++)
        steno_buf_free(&c->events[i]);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
}

static void wait_until(struct client *c, const int *count, int least)
{
    pthread_mutex_lock(&c->lock);
    while (*count < least)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

static float sample(int i, unsigned channel)
{
    static const int hz[] = {500, 1000, 0, 1000, 500, 0, 0, 500, 1000, 1700, 0};
    int f = hz[((unsigned)(i / (RATE / 4)) + channel) % 11];
    return f ? 0.3f * (float)sin(6.283185307179586 * f * (double)i / RATE) : 0.0f;
}

/* Push frames [from, to) in pieces, as there is room. */
static void push(steno_channels *s, struct client *c, unsigned n, unsigned first, int from, int to,
                 int piece)
{
    while (from < to) {
        const int k = to - from < piece ? to - from : piece;
        int rooms;
        size_t room = 0;
        float *x;
        pthread_mutex_lock(&c->lock);
        rooms = c->rooms;
        pthread_mutex_unlock(&c->lock);
        assert_int_equal(steno_channels_room(s, 1, (size_t)k, &x, &room, NULL), STENO_OK);
        assert_true(room <= (size_t)k);
        for (size_t i = 0; i < room; i++)
            for (unsigned ch = 0; ch < n; ch++)
                x[i * n + ch] = sample(from + (int)i, first + ch);
        if (room)
            steno_channels_add(s, room);
        else
            wait_until(c, &c->rooms, rooms + 1);
        from += (int)room;
    }
}

static steno_channels *open_in(steno_pool *p, struct client *c, unsigned n)
{
    steno_channels *s = NULL;
    steno_err err = {0};
    client_init(c);
    if (steno_channels_open(&s, p, &options, n, on_note, c, &err))
        fail_msg("%s", err.msg);
    return s;
}

static steno_channels *open_channels(struct client *c, unsigned n)
{
    return open_in(pool, c, n);
}

/* The events of a stream alone, to be freed. */
static char *events_of(unsigned channel)
{
    struct client c;
    steno_channels *s = open_channels(&c, 1);
    char *events;
    push(s, &c, 1, channel, 0, N, 1000);
    steno_channels_end(s);
    wait_until(&c, &c.done, 1);
    events = strdup(c.events[0].data ? c.events[0].data : "");
    assert_true(events && strlen(events) > 20);
    steno_channels_close(s);
    client_free(&c);
    return events;
}

static void every_channel_gives_the_events_of_a_stream_alone(void **state)
{
    static const int pieces[] = {37, 1500, 20000};
    char *want[MOST];
    struct client c;
    steno_channels *s;
    (void)state;
    for (unsigned ch = 0; ch < MOST; ch++)
        want[ch] = events_of(ch);
    for (size_t p = 0; p < 3; p++) {
        struct steno_pool_stream_stats st;
        s = open_channels(&c, MOST);
        push(s, &c, MOST, 0, 0, N, pieces[p]);
        steno_channels_end(s);
        wait_until(&c, &c.done, 1);
        for (unsigned ch = 0; ch < MOST; ch++)
            assert_string_equal(c.events[ch].data, want[ch]);
        assert_int_equal(c.status, STENO_OK);
        assert_true(fabs(c.audio_seconds - SECONDS) < 1e-9);
        steno_channels_get_stats(s, &st);
        assert_true(fabs(st.audio_seconds - MOST * SECONDS) < 1e-9);
        steno_channels_close(s);
        assert_int_equal(c.done, 1);
        client_free(&c);
    }
    for (unsigned ch = 0; ch < MOST; ch++)
        free(want[ch]);
}

static void a_finalize_is_told_once_for_all(void **state)
{
    struct client c;
    steno_channels *s = open_channels(&c, 3);
    (void)state;
    for (int i = 0; i < 4; i++) {
        push(s, &c, 3, 0, i * RATE / 2, (i + 1) * RATE / 2, 400);
        while (steno_channels_finalize(s, NULL) == STENO_ERR_BUSY)
            wait_until(&c, &c.finalized, c.finalized + 1);
    }
    wait_until(&c, &c.finalized, 4);
    steno_channels_end(s);
    wait_until(&c, &c.done, 1);
    assert_int_equal(c.finalized, 4);
    steno_channels_close(s);
    client_free(&c);
}

static void steps_begin(void)
{
    pthread_mutex_lock(&steps.lock);
    steps.wait = false;
    pthread_cond_broadcast(&steps.changed);
    pthread_mutex_unlock(&steps.lock);
}

static void a_channel_that_fails_takes_no_text_from_the_others(void **state)
{
    enum { CHANNELS = 3 };
    const struct steno_pool_options o = {.workers = 2, .buffer_seconds = 2 * SECONDS};
    char *want[CHANNELS];
    int least = 1000;
    (void)state;
    for (unsigned ch = 0; ch < CHANNELS; ch++)
        want[ch] = events_of(ch);
    for (int at = 1; at < 40; at += 6) {
        struct client c;
        steno_pool *p;
        steno_channels *s;
        float *x;
        size_t room;
        int failed = 0;
        assert_int_equal(steno_pool_open(&p, model, &o, NULL), STENO_OK);
        s = open_in(p, &c, CHANNELS);
        steps.wait = true;
        steps.fails_at = at;
        steps.stream = NULL;
        push(s, &c, CHANNELS, 0, 0, N, 1000); /* all of it, before the first step */
        steps_begin();
        wait_until(&c, &c.done, 1); /* nobody ended the others */
        for (unsigned ch = 0; ch < CHANNELS; ch++) {
            const char *said = c.events[ch].data ? c.events[ch].data : "";
            if (strcmp(said, want[ch])) {
                failed++;
                least = (int)strlen(said) < least ? (int)strlen(said) : least;
            }
        }
        assert_int_equal(failed, 1);
        assert_int_equal(c.status, STENO_ERR_INTERNAL);
        assert_string_equal(c.message, "the network broke");
        assert_int_equal(steno_channels_room(s, 1, 1, &x, &room, NULL), STENO_ERR_CANCELLED);
        steno_channels_close(s);
        assert_int_equal(c.done, 1);
        client_free(&c);
        steno_pool_close(p);
    }
    assert_int_equal(least, 0); /* at its first step */
    steps.fails_at = 0;
    for (unsigned ch = 0; ch < CHANNELS; ch++)
        free(want[ch]);
}

static void channels_that_find_no_place_open_none(void **state)
{
    struct client c;
    steno_channels *s = NULL, *more[5];
    steno_err err = {0};
    struct client others[5];
    int open = 0;
    struct steno_pool_stats st;
    (void)state;
    for (; open < 5 && !s; open++)
        more[open] = open_channels(&others[open], 6);
    client_init(&c);
    assert_int_equal(steno_channels_open(&s, pool, &options, 6, on_note, &c, &err), STENO_ERR_BUSY);
    steno_pool_get_stats(pool, &st);
    assert_int_equal(st.active, 30);
    while (open)
        steno_channels_close(more[--open]);
    steno_pool_get_stats(pool, &st);
    assert_int_equal(st.active, 0);
    for (int i = 0; i < 5; i++)
        client_free(&others[i]);
    client_free(&c);
}

static void closing_in_the_middle_leaves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 30; i++) {
        struct client c;
        steno_channels *s = open_channels(&c, 4);
        push(s, &c, 4, 0, 0, 100 + i * 300, 777);
        if (i & 1)
            steno_channels_cancel(s);
        steno_channels_close(s);
        client_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_channel_gives_the_events_of_a_stream_alone),
        cmocka_unit_test(a_finalize_is_told_once_for_all),
        cmocka_unit_test(a_channel_that_fails_takes_no_text_from_the_others),
        cmocka_unit_test(channels_that_find_no_place_open_none),
        cmocka_unit_test(closing_in_the_middle_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, open_pool, close_pool);
}
