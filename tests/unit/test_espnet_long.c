/* A long stream through a contextual-block encoder: memory and the cost of a minute stay what they
 * were. Eight minutes of speech stand for hours: nothing in a stream lives longer than a segment,
 * and the longest segment (20 s) has come by many times. Needs ../shared. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "audio/file.h"
#include "steno.h"
#include "tests/support/shared.h"

#define RATE 16000
#define MINUTES 8
#define SLACK ((size_t)256 << 10) /* bytes: fragments of the allocator, a longer text */

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

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void memory_and_cost_stay_what_they_were(void **state)
{
    static float pcm[20 * RATE];
    const char *root = getenv("STENO_SHARED");
    struct steno_stream_options o = {.sample_rate = RATE};
    steno_model *m = NULL;
    steno_stream *s = NULL;
    struct steno_event ev;
    steno_err err;
    char dir[512];
    size_t n = read_all(pcm, sizeof pcm / sizeof *pcm), at = 0, used[MINUTES], finals = 0;
    double cost[MINUTES], early = 1e9, late = 1e9;
    (void)state;
    if (!n)
        skip();
    snprintf(dir, sizeof dir, "%s/zoo/tiny/espnet-stream-conformer-op13",
             root ? root : "../shared");
    if (steno_model_open(&m, dir, NULL, &err) || steno_stream_open(&s, m, &o, &err))
        fail_msg("%s", err.msg);
    for (int minute = 0; minute < MINUTES; minute++) {
        double t = processor_seconds();
        for (size_t left = 60 * RATE; left;) { /* the recordings over and over, 0.1 s at a time */
            size_t k = n - at < RATE / 10 ? n - at : RATE / 10;
            k = k < left ? k : left;
            if (steno_stream_push(s, pcm + at, k, &err))
                fail_msg("%s", err.msg);
            while (steno_stream_next(s, &ev))
                finals += ev.kind == STENO_FINAL;
            at = (at + k) % n;
            left -= k;
        }
        cost[minute] = processor_seconds() - t;
        used[minute] = in_use();
    }
    assert_true(finals >= 3 * (MINUTES - 1)); /* the longest segment is 20 s */
    for (int i = 1; i < MINUTES; i++) {
        double *half = i <= MINUTES / 2 ? &early : &late;
        *half = cost[i] < *half ? cost[i] : *half;
    }
    if (used[MINUTES - 1] > used[2] + SLACK)
        fail_msg("%zu bytes in use after 3 minutes, %zu after %d", used[2], used[MINUTES - 1],
                 MINUTES);
    if (late > 1.5 * early)
        fail_msg("a minute costs %.3f s early, %.3f s late", early, late);
    steno_stream_close(s);
    steno_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_and_cost_stay_what_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
