/* Streams of Whisper that share steps, as the pool lets them: each has the events that it has
 * alone, to the last bit, in f32 and with the weights that the processor multiplies best. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/recognizer/stream.h"
#include "steno.h"
#include "tests/support/test.h"
#include "tests/support/whisper_models.h"

#define STREAMS 6
#define EVENTS 60000 /* bytes */

struct client {
    const char *recording;
    int beam;
    bool partials;
    size_t seconds; /* of the recording, at most */
};

static const struct client clients[STREAMS] = {
    {"audio/librispeech/61-70968-0002.flac", 5, false, 30},
    {"audio/librispeech/61-70968-0000.flac", 1, true, 4},
    {"audio/librispeech/61-70968-0001.flac", 3, false, 30},
    {"zoo/whisper/audio/endgame_16k.flac", 1, true, 5},
    {"zoo/whisper/audio/jfk_16k.flac", 1, true, 3},
    {"zoo/whisper/audio/jfk_16k.flac", 5, false, 30}};

static float *pcm[STREAMS];
static size_t length[STREAMS];

struct fed {
    steno_stream *s;
    size_t at;
    bool done;
    char *events; /* [EVENTS] */
    size_t used;
};

static void put(struct fed *f, const char *text, double a, double b)
{
    const int n = snprintf(f->events + f->used, EVENTS - f->used, "%s %a %a\n", text, a, b);
    assert_true(n > 0 && (size_t)n < EVENTS - f->used);
    f->used += (size_t)n;
}

static void write_events(struct fed *f)
{
    struct steno_event ev;
    while (steno_stream_next(f->s, &ev)) {
        if (ev.kind != STENO_PARTIAL && ev.kind != STENO_FINAL)
            continue;
        put(f, ev.kind == STENO_PARTIAL ? "partial" : "final", ev.time, (double)ev.stable_bytes);
        put(f, ev.text, 0, (double)ev.n_words);
        for (size_t i = 0; i < ev.n_words; i++) {
            put(f, "word", ev.words[i].start, ev.words[i].end);
            put(f, "", (double)ev.words[i].confidence, 0);
        }
    }
}

static void open_one(struct fed *f, steno_model *m, size_t i)
{
    struct steno_stream_options o = steno_stream_options_default();
    *f = (struct fed){.events = calloc(1, EVENTS)};
    assert_non_null(f->events);
    o.sample_rate = 16000;
    o.beam = clients[i].beam;
    o.no_partials = !clients[i].partials;
    assert_int_equal(steno_stream_open(&f->s, m, &o, NULL), STENO_OK);
}

/* Feed stream i until a step is due. */
static void feed(struct fed *f, size_t i)
{
    while (!f->done && !steno_stream_ready(f->s)) {
        size_t used = 0;
        if (f->at < length[i])
            assert_int_equal(
                steno_stream_feed(f->s, pcm[i] + f->at, length[i] - f->at, &used, NULL), STENO_OK);
        else
            assert_int_equal(steno_stream_flush(f->s, true, &f->done, NULL), STENO_OK);
        f->at += used;
    }
}

/* One step of the streams in `order` [n] from the first on, and those behind it that it has room
 * for. They go to the end of the order; those that are done leave it. Returns how many stepped. */
static size_t step_some(steno_batcher *b, struct fed *f, size_t *order, size_t *n)
{
    steno_stream *ready[STREAMS] = {NULL};
    steno_status st[STREAMS];
    size_t took[STREAMS], k = 0, k_ready = 0, left = 0;
    double taken = 0;
    for (size_t i = 0; i < *n; i++) {
        const double share = steno_stream_share(f[order[i]].s);
        if (k && taken + share > 1) {
            order[left++] = order[i];
            continue;
        }
        taken += share;
        took[k++] = order[i];
    }
    for (size_t i = 0; i < k; i++) {
        feed(&f[took[i]], took[i]);
        if (!f[took[i]].done)
            ready[k_ready++] = f[took[i]].s;
    }
    steno_streams_step(b, ready, k_ready, st, NULL);
    for (size_t i = 0; i < k_ready; i++)
        assert_int_equal(st[i], STENO_OK);
    for (size_t i = 0; i < k; i++) {
        write_events(&f[took[i]]);
        if (!f[took[i]].done)
            order[left++] = took[i];
    }
    *n = left;
    return k_ready;
}

/* Returns the most streams of a step. */
static size_t run_all(steno_model *m, size_t *order, size_t n, struct fed *f)
{
    steno_batcher *b;
    size_t most = 0;
    assert_int_equal(steno_batcher_open(&b, m, STREAMS, NULL), STENO_OK);
    for (size_t i = 0; i < n; i++)
        open_one(&f[order[i]], m, order[i]);
    while (n) {
        const size_t together = step_some(b, f, order, &n);
        most = together > most ? together : most;
    }
    steno_batcher_close(b);
    return most;
}

static bool read_recordings(void)
{
    for (size_t i = 0; i < STREAMS; i++) {
        pcm[i] = whisper_recording(clients[i].recording, &length[i]);
        if (!pcm[i])
            return false;
        if (length[i] > clients[i].seconds * 16000)
            length[i] = clients[i].seconds * 16000;
    }
    return true;
}

/* Of the first `streams` clients. */
static void check_model(const char *which, enum steno_precision precision, size_t streams)
{
    struct steno_model_options o = steno_model_options_default();
    const char *dir = whisper_model(which);
    struct fed alone[STREAMS], f[STREAMS];
    size_t order[STREAMS];
    steno_model *m;
    steno_err err = {0};
    if (!dir || !read_recordings())
        skip();
    o.precision = precision;
    if (steno_model_open(&m, dir, &o, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < streams; i++)
        assert_int_equal(run_all(m, &(size_t){i}, 1, alone), 1);
    for (size_t i = 0; i < streams; i++)
        order[i] = i;
    assert_in_range(run_all(m, order, streams, f), 2, streams);
    for (size_t i = 0; i < streams; i++) {
        assert_string_equal(f[i].events, alone[i].events);
        assert_non_null(strstr(f[i].events, "final"));
        steno_stream_close(f[i].s);
        steno_stream_close(alone[i].s);
        free(f[i].events);
        free(alone[i].events);
    }
    for (size_t i = 0; i < STREAMS; i++)
        free(pcm[i]);
    steno_model_close(m);
}

static void streams_of_tiny_en_say_together_what_each_says_alone(void **state)
{
    (void)state;
    check_model("tiny.en", STENO_FP32, STREAMS);
    check_model("tiny.en", STENO_AUTO_WEIGHTS, STREAMS);
}

static void streams_of_base_say_together_what_each_says_alone(void **state)
{
    (void)state;
    check_model("base", STENO_AUTO_WEIGHTS, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_of_tiny_en_say_together_what_each_says_alone),
        cmocka_unit_test(streams_of_base_say_together_what_each_says_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
