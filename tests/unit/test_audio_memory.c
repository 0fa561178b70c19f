/* The way from audio to features allocates nothing once it is warm, and memory does not depend
 * on the length of a recording. malloc and its kin are replaced by counting versions for the
 * whole process, libraries included. (A sanitizer brings its own malloc, so there the test is
 * skipped.) */
#include "speech/audio/feed.h"
#include "speech/audio/file.h"
#include "speech/audio/ogg_opus.h"
#include "speech/audio/resample.h"
#include "speech/features/fbank.h"

#include "tests/support/oggmake.h"
#include "tests/support/test.h"
#include "tests/support/wavgen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#if !defined(STENO_SANITIZE) && defined(__GLIBC__)
#define COUNTING 1
static size_t calls;

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

STENO_API void *malloc(size_t n)
{
    calls++;
    return __libc_malloc(n);
}
STENO_API void *calloc(size_t n, size_t size)
{
    calls++;
    return __libc_calloc(n, size);
}
STENO_API void *realloc(void *p, size_t n)
{
    calls++;
    return __libc_realloc(p, n);
}
STENO_API void *aligned_alloc(size_t align, size_t n)
{
    calls++;
    return __libc_memalign(align, n);
}
#else
#define COUNTING 0
static size_t calls;
#endif

#define WARM 100
#define CHUNKS 1000

/* One 20 ms chunk through the resampler and the filter bank. */
static void chunk(steno_resampler *r, steno_fbank *f, const float *x, size_t n)
{
    static float y[8192], out[64 * 80];
    size_t used, made, at = 0, taken, frames;
    if (steno_resampler_push(r, x, n, &used, y, 8192, &made, NULL) > STENO_NEED_MORE)
        abort();
    for (; at < made; at += taken)
        if (steno_fbank_push(f, y + at, made - at, &taken, out, 64, &frames) > STENO_NEED_MORE)
            abort();
}

static void allocations_of_libraries_are_counted(void **state)
{
    steno_resampler *r;
    size_t before = calls, same;
    (void)state;
    if (!COUNTING)
        skip();
    assert_int_equal(steno_resampler_open(&r, 16000, 16000, NULL), STENO_OK);
    same = calls - before;
    steno_resampler_close(r);
    before = calls;
    assert_int_equal(steno_resampler_open(&r, 16000, 8000, NULL), STENO_OK);
    assert_true(calls - before > same + 3); /* filters and queues of libsoxr */
    steno_resampler_close(r);
}

static void resampler_and_filter_bank_allocate_nothing_per_chunk(void **state)
{
    static const int rates[] = {8000, 11025, 16000, 44100, 48000, 192000};
    static float x[4096];
    (void)state;
    if (!COUNTING)
        skip();
    for (size_t i = 0; i < 4096; i++)
        x[i] = (float)sin(0.01 * (double)i);
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        struct steno_fbank_options o = steno_fbank_kaldi(8000, 40);
        steno_resampler *r;
        steno_fbank *f;
        size_t before, n = (size_t)rates[i] / 50;
        o.edges = i % 2 ? STENO_EDGES_REFLECT : STENO_EDGES_SNIP;
        assert_int_equal(steno_resampler_open(&r, rates[i], 8000, NULL), STENO_OK);
        assert_int_equal(steno_fbank_open(&f, &o, NULL), STENO_OK);
        for (int c = 0; c < WARM; c++)
            chunk(r, f, x, n);
        before = calls;
        for (int c = 0; c < CHUNKS; c++)
            chunk(r, f, x, n);
        assert_int_equal(calls - before, 0);
        steno_resampler_close(r);
        steno_fbank_close(f);
    }
}

static void live_feeds_allocate_nothing_per_chunk(void **state)
{
    static const char *const names[] = {"s16le", "mulaw", "f32le", "wav", "ogg-opus"};
    static float x[48000 * 4], out[STENO_FEED_MIN_OUT];
    (void)state;
    if (!COUNTING)
        skip();
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        x[i] = (float)(0.2 * sin(0.02 * (double)i));
    for (size_t e = 0; e < sizeof names / sizeof names[0]; e++) {
        struct steno_feed_options opt = {names[e], 16000, 1, 0};
        struct wavgen_fmt fmt = wavgen_fmt(3, 1, 16000, 32);
        struct wavgen w = {0};
        struct oggmake m = {0};
        steno_feed *f;
        const unsigned char *p = (const void *)x;
        size_t n = sizeof x, before = 0, used, made;
        if (e == 3) {
            wavgen_make(&w, &fmt, x, sizeof x);
            p = w.data;
            n = w.len;
        } else if (e == 4) {
            oggmake_init(&m, 1);
            oggmake_audio(&m, x, 48000 * 4);
            p = m.data;
            n = m.len;
        }
        assert_int_equal(steno_feed_open(&f, &opt, NULL), STENO_OK);
        for (size_t at = 0; at < n; at += used) {
            size_t k = n - at < 640 ? n - at : 640;
            if (at > n / 4 && !before)
                before = calls;
            if (steno_feed_push(f, p + at, k, &used, out, STENO_FEED_MIN_OUT, &made, NULL) >
                STENO_NEED_MORE)
                abort();
        }
        assert_int_equal(calls - before, 0);
        steno_feed_close(f);
        free(w.data);
        if (m.stream)
            oggmake_free(&m);
    }
}

static long peak_kib(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

/* Three hours of silence at 16 kHz (345 MB as WAV) through a pipe, read in blocks that are not
 * kept. */
static void three_hours_of_silence_need_no_more_memory_than_a_second(void **state)
{
    struct steno_fbank_options o = steno_fbank_kaldi(16000, 80);
    static float x[16384], out[256 * 80];
    struct steno_audio_info info;
    steno_audio *a;
    steno_fbank *f;
    size_t n, used, frames, samples = 0, total = 0;
    long before;
    FILE *p;
    char command[160];
    (void)state;
    snprintf(
        command, sizeof command,
        "printf 'RIFF\\377\\377\\377\\377WAVEfmt \\020\\0\\0\\0\\001\\0\\001\\0\\200\\076\\0\\0"
        "\\0\\175\\0\\0\\002\\0\\020\\0data\\377\\377\\377\\377'; head -c 345600000 /dev/zero");
    p = popen(command, "r");
    assert_non_null(p);
    assert_int_equal(steno_audio_open_fd(&a, fileno(p), NULL, NULL), STENO_OK);
    assert_int_equal(steno_fbank_open(&f, &o, NULL), STENO_OK);
    before = peak_kib();
    for (;;) {
        assert_int_equal(steno_audio_read(a, x, 16384, &n, NULL), STENO_OK);
        if (!n)
            break;
        samples += n;
        if (samples < 16000 * 60) { /* the first minute goes through the filter bank too */
            assert_true(steno_fbank_push(f, x, n, &used, out, 256, &frames) <= STENO_NEED_MORE);
            assert_int_equal(used, n);
            total += frames;
        }
    }
    steno_audio_get_info(a, &info);
    assert_int_equal(samples, (size_t)16000 * 3 * 3600);
    assert_false(info.truncated);
    assert_true(total > 5800); /* without the block in which the minute ends */
#if !defined(STENO_SANITIZE)   /* a sanitizer's own bookkeeping grows */
    assert_true(peak_kib() - before < 1024);
#endif
    (void)before;
    steno_audio_close(a);
    steno_fbank_close(f);
    pclose(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_of_libraries_are_counted),
        cmocka_unit_test(resampler_and_filter_bank_allocate_nothing_per_chunk),
        cmocka_unit_test(live_feeds_allocate_nothing_per_chunk),
        cmocka_unit_test(three_hours_of_silence_need_no_more_memory_than_a_second),
    };
    return cmocka_run_group_tests_name("audio_memory", tests, NULL, NULL);
}
