/* A long stream through a contextual-block encoder: the memory and the work per minute stay
 * constant. Eight minutes of speech stand for hours: nothing in a stream outlives its segment,
 * and the longest segment (20 s) occurs many times. Work is counted in steps (a block, or the
 * end of a segment); the segment's length bounds the cost of a step. Needs ../shared. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/audio/file.h"
#include "speech/recognizer/stream.h"
#include "steno.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

#define RATE 16000
#define MINUTES 8
#define SLACK ((size_t)256 << 10) /* bytes: fragments in the allocator, a longer text */

static const char *const wavs[] = {"61-70968-0000.flac", "61-70968-0001.flac",
                                   "61-70968-0002.flac"};

static size_t read_all(float *pcm, size_t cap)
{
    size_t at = 0;
    for (size_t i = 0; i < sizeof wavs / sizeof *wavs; i++) {
        char rel[128];
        size_t size, n = 1;
        void *bytes;
        steno_audio *a = NULL;
        snprintf(rel, sizeof rel, "audio/librispeech/%s", wavs[i]);
        bytes = steno_test_shared(rel, &size);
        if (!bytes)
            return 0;
        assert_int_equal(steno_audio_open_mem(&a, bytes, size, NULL, NULL), 0);
        for (; n; at += n)
            assert_int_equal(steno_audio_read(a, pcm + at, cap - at, &n, NULL), 0);
        steno_audio_close(a);
        free(bytes);
    }
    return at;
}

static size_t in_use(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* Steps and finals so far. */
struct work {
    size_t steps, finals;
    double longest; /* seconds from the first to the last word of a segment */
};

static void push(steno_batcher *p, steno_stream *s, const float *pcm, size_t n, struct work *w)
{
    struct steno_event ev;
    steno_status st = STENO_OK;
    steno_err err;
    while (n) {
        size_t used;
        if (steno_stream_feed(s, pcm, n, &used, &err))
            fail_msg("%s", err.msg);
        pcm += used;
        n -= used;
        for (; steno_stream_ready(s); w->steps++) {
            steno_streams_step(p, &s, 1, &st, &err);
            if (st)
                fail_msg("%s", err.msg);
        }
        while (steno_stream_next(s, &ev))
            if (ev.kind == STENO_FINAL) {
                w->finals++;
                w->longest = ev.end - ev.start > w->longest ? ev.end - ev.start : w->longest;
            }
    }
}

static void memory_and_work_stay_constant(void **state)
{
    static float pcm[20 * RATE];
    const char *root = getenv("STENO_SHARED");
    struct steno_stream_options o = {.sample_rate = RATE};
    steno_model *m = NULL;
    steno_stream *s = NULL;
    steno_err err;
    char dir[512];
    size_t n = read_all(pcm, sizeof pcm / sizeof *pcm), at = 0, used[MINUTES], before, most = 0;
    struct work w = {0};
    steno_batcher *p = NULL;
    (void)state;
    if (!n)
        skip();
    snprintf(dir, sizeof dir, "%s/zoo/tiny/espnet-stream-conformer-op13",
             root ? root : "../shared");
    if (steno_model_open(&m, dir, NULL, &err) || steno_stream_open(&s, m, &o, &err) ||
        steno_batcher_open(&p, m, 1, &err))
        fail_msg("%s", err.msg);
    for (int minute = 0; minute < MINUTES; minute++) {
        before = w.steps;
        for (size_t left = 60 * RATE; left;) { /* the recordings in a loop, 0.1 s at a time */
            size_t k = n - at < RATE / 10 ? n - at : RATE / 10;
            k = k < left ? k : left;
            push(p, s, pcm + at, k, &w);
            at = (at + k) % n;
            left -= k;
        }
        used[minute] = in_use();
        if (minute < MINUTES / 2) /* a segment may start in one minute and end in the next */
            most = w.steps - before > most ? w.steps - before : most;
        else
            assert_true(w.steps - before <= most + 2);
    }
    assert_true(w.finals >= 3 * (MINUTES - 1) && w.longest <= 21); /* the limit is 20 s */
    assert_true(most > 80);                                        /* 60 s / 0.64 s */
    if (used[MINUTES - 1] > used[2] + SLACK)
        fail_msg("%zu bytes in use after 3 minutes, %zu after %d", used[2], used[MINUTES - 1],
                 MINUTES);
    steno_batcher_close(p);
    steno_stream_close(s);
    steno_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_and_work_stay_constant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
