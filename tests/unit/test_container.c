/* Containers through steno-decode: the same samples from memory, a file, a pipe and a live stream,
 * and programs in its place that crash, hang and lie. */
#include "speech/audio/container.h"
#include "speech/audio/decode_wire.h"
#include "speech/audio/file.h"

#include "tests/support/shared.h"
#include "tests/support/test.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOLDER "tests/data/containers/"
#define MAX_SAMPLES 100000
#define CHIRP_SECONDS 0.6

static const struct sample {
    const char *name;
    const char *format, *codec;
    const char *demuxer; /* of a live stream; NULL: the format needs to seek */
    int rate;
    double likeness; /* least correlation with the chirp */
} samples[] = {
    {"chirp.webm", "matroska", "opus", "matroska", 48000, 0.95},
    {"chirp.m4a", "mp4", "aac", NULL, 16000, 0.9},
    {"chirp-fragmented.mp4", "mp4", "aac", "mov", 16000, 0.9},
    {"chirp-video.mp4", "mp4", "aac", NULL, 16000, 0.9},
    {"chirp.aac", "aac", "aac", "aac", 16000, 0.9},
    {"chirp.ac3", "ac3", "ac3", "ac3", 32000, 0.9},
    {"chirp.gsm", "gsm", "gsm", "gsm", 8000, 0.8},
    {"chirp.spx", "ogg", "speex", "ogg", 16000, 0.8},
    {"chirp-flac.ogg", "ogg", "flac", "ogg", 16000, 0.999},
    {"chirp-alac.caf", "caf", "alac", NULL, 16000, 0.999},
    {"chirp.wma", "asf", "wmav2", "asf", 16000, 0.9},
};
#define N_SAMPLES (sizeof samples / sizeof *samples)

struct clip {
    steno_err err;
    struct steno_audio_info info;
    char format[16], codec[16];
    size_t n;
    float x[MAX_SAMPLES];
};

static steno_status drain(steno_audio *a, struct clip *c)
{
    steno_status st = STENO_OK;
    size_t got = 1;
    while (!st && got) {
        assert_true(c->n < MAX_SAMPLES);
        st = steno_audio_read(a, c->x + c->n, MAX_SAMPLES - c->n, &got, &c->err);
        c->n += st ? 0 : got;
    }
    steno_audio_get_info(a, &c->info);
    snprintf(c->format, sizeof c->format, "%s", c->info.format);
    snprintf(c->codec, sizeof c->codec, "%s", c->info.codec);
    steno_audio_close(a);
    return st;
}

static steno_status from_memory(const void *data, size_t n, const struct steno_audio_options *opt,
                                struct clip *c)
{
    steno_audio *a = NULL;
    steno_status st = steno_audio_open_mem(&a, data, n, opt, &c->err);
    return st ? st : drain(a, c);
}

static steno_status from_stream(FILE *f, struct clip *c)
{
    steno_audio *a = NULL;
    steno_status st = steno_audio_open_fd(&a, fileno(f), NULL, &c->err);
    return st ? st : drain(a, c);
}

static struct clip *new_clip(void)
{
    struct clip *c = calloc(1, sizeof *c);
    assert_non_null(c);
    return c;
}

static void *load(const char *name, size_t *n)
{
    char path[128];
    void *data;
    snprintf(path, sizeof path, FOLDER "%s", name);
    data = steno_test_slurp(path, n);
    if (!data)
        fail_msg("%s: %s", path, strerror(errno));
    return data;
}

static void assert_same(const char *name, const char *way, const struct clip *a,
                        const struct clip *b)
{
    if (a->n != b->n || memcmp(a->x, b->x, a->n * sizeof *a->x))
        fail_msg("%s: %zu samples from memory, %zu from %s, or others", name, a->n, b->n, way);
}

static void every_container_is_equal_from_memory_file_and_pipe(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SAMPLES; i++) {
        struct clip *c = new_clip(), *other = new_clip();
        char path[128];
        size_t n;
        void *data = load(samples[i].name, &n);
        FILE *f;
        if (from_memory(data, n, NULL, c))
            fail_msg("%s: %s", samples[i].name, c->err.msg);
        assert_string_equal(c->format, samples[i].format);
        assert_string_equal(c->codec, samples[i].codec);
        assert_int_equal(c->info.sample_rate, samples[i].rate);
        assert_false(c->info.truncated);
        assert_int_equal(c->info.gaps, 0);
        snprintf(path, sizeof path, "cat " FOLDER "%s", samples[i].name);
        f = fopen(path + 4, "rb");
        assert_int_equal(from_stream(f, other), STENO_OK);
        fclose(f);
        assert_same(samples[i].name, "a file", c, other);
        other->n = 0;
        f = popen(path, "r");
        assert_int_equal(from_stream(f, other), STENO_OK);
        pclose(f);
        assert_same(samples[i].name, "a pipe", c, other);
        free(data);
        free(c);
        free(other);
    }
}

/* The largest correlation of x with the chirp, which begins at most a tenth of a second earlier or
 * later. */
static double likeness(const float *x, long n, int rate)
{
    const long m = (long)(CHIRP_SECONDS * rate) + 1;
    double *chirp = malloc((size_t)m * sizeof *chirp), best = 0, xx = 1e-9;
    assert_non_null(chirp);
    for (long k = 0; k < m; k++) {
        const double t = (double)k / rate;
        chirp[k] = 0.5 * sin(2 * M_PI * (200 * t + 900 * t * t));
    }
    for (long i = 0; i < n; i++)
        xx += (double)x[i] * (double)x[i];
    for (long lag = -rate / 10; lag < rate / 10; lag++) {
        const long end = n < lag + m ? n : lag + m;
        double xy = 0, yy = 1e-9;
        for (long i = lag < 0 ? 0 : lag; i < end; i++) {
            xy += (double)x[i] * chirp[i - lag];
            yy += chirp[i - lag] * chirp[i - lag];
        }
        best = fmax(best, xy / sqrt(xx * yy));
    }
    free(chirp);
    return best;
}

static void samples_are_those_that_were_encoded(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SAMPLES; i++) {
        struct clip *c = new_clip();
        double best;
        size_t n;
        void *data = load(samples[i].name, &n);
        assert_int_equal(from_memory(data, n, NULL, c), STENO_OK);
        best = likeness(c->x, (long)c->n, samples[i].rate);
        if (best < samples[i].likeness)
            fail_msg("%s: the correlation is %.4f", samples[i].name, best);
        free(data);
        free(c);
    }
}

static void wait_for(const steno_container *s)
{
    struct pollfd p[2] = {{.events = POLLIN}, {.events = POLLOUT}};
    steno_container_descriptors(s, &p[0].fd, &p[1].fd);
    assert_true(poll(p, 2, 20000) > 0);
}

/* Push a recording in pieces as a stream, reading what comes. The first channel of it goes to c. */
static steno_status stream(const char *demuxer, const void *data, size_t n, size_t piece,
                           struct clip *c)
{
    const struct steno_container_options opt = {.demuxer = demuxer};
    steno_container *s = NULL;
    const float *x = NULL;
    size_t frames = 1, at = 0;
    steno_status st = steno_container_open_live(&s, &opt, &c->err);
    while (!st && frames) {
        size_t k = n - at < piece ? n - at : piece, used = 0;
        if (k)
            st = steno_container_push(s, (const char *)data + at, k, &used, &c->err);
        else
            steno_container_end(s);
        at += used;
        frames = 1;
        if (!st)
            st = steno_container_read(s, false, &x, &frames, &c->err);
        if (st == STENO_NEED_MORE) {
            if (!used)
                wait_for(s);
            st = STENO_OK;
            frames = 1;
            continue;
        }
        if (!st && frames) {
            struct steno_container_info info;
            steno_container_get_info(s, &info);
            for (size_t i = 0; i < frames; i++)
                c->x[c->n++] = x[i * info.channels];
        }
    }
    steno_container_close(s);
    return st;
}

static void live_streams_give_the_same_samples_in_any_pieces(void **state)
{
    static const size_t pieces[] = {1, 333, 1 << 20};
    (void)state;
    for (size_t i = 0; i < N_SAMPLES; i++) {
        struct clip *c = new_clip();
        size_t n;
        void *data = load(samples[i].name, &n);
        assert_int_equal(from_memory(data, n, NULL, c), STENO_OK);
        for (size_t k = 0; samples[i].demuxer && k < 3; k++) {
            struct clip *live = new_clip();
            if (stream(samples[i].demuxer, data, n, pieces[k], live))
                fail_msg("%s: %s", samples[i].name, live->err.msg);
            assert_same(samples[i].name, "a live stream", c, live);
            free(live);
        }
        free(data);
        free(c);
    }
}

static void cut_and_damaged_containers_end_in_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SAMPLES; i++) {
        size_t n;
        unsigned char *data = load(samples[i].name, &n);
        for (int k = 1; k < 8; k++) {
            struct clip *c = new_clip();
            steno_status st = from_memory(data, n * (size_t)k / 8, NULL, c);
            if (st && ((st != STENO_ERR_FORMAT && st != STENO_ERR_UNSUPPORTED) || !*c->err.msg))
                fail_msg("%s, %d eighths: %d '%s'", samples[i].name, k, st, c->err.msg);
            memset(c, 0, sizeof *c);
            for (size_t at = 40 + (size_t)k * 7; at < n; at += 97)
                data[at] ^= (unsigned char)(0x55 + k);
            st = from_memory(data, n, NULL, c);
            if (st && (st == STENO_ERR_INTERNAL || !*c->err.msg))
                fail_msg("%s, damage %d: %d '%s'", samples[i].name, k, st, c->err.msg);
            free(c);
        }
        free(data);
    }
}

static void longer_audio_than_allowed_is_refused(void **state)
{
    const struct steno_audio_options opt = {.max_seconds = 0.3};
    struct clip *c = new_clip();
    size_t n;
    void *data = load("chirp.webm", &n);
    (void)state;
    assert_int_equal(from_memory(data, n, &opt, c), STENO_ERR_LIMIT);
    assert_non_null(strstr(c->err.msg, "0.3 s"));
    free(data);
    free(c);
}

static void more_processes_than_allowed_are_busy(void **state)
{
    steno_decoders *d, *none;
    struct steno_audio_options opt = {0};
    struct clip *c = new_clip();
    steno_audio *a;
    size_t n;
    void *data = load("chirp.webm", &n);
    (void)state;
    assert_int_equal(steno_decoders_open(&d, 1, NULL), STENO_OK);
    assert_int_equal(steno_decoders_open(&none, 0, NULL), STENO_OK);
    opt.decoders = d;
    assert_int_equal(steno_audio_open_mem(&a, data, n, &opt, NULL), STENO_OK);
    assert_int_equal(steno_decoders_running(d), 1);
    assert_int_equal(from_memory(data, n, &opt, c), STENO_ERR_BUSY);
    steno_audio_close(a);
    assert_int_equal(steno_decoders_running(d), 0);
    assert_int_equal(from_memory(data, n, &opt, c), STENO_OK);
    assert_int_equal(steno_decoders_running(d), 0);
    opt.decoders = none;
    assert_int_equal(from_memory(data, n, &opt, c), STENO_ERR_UNSUPPORTED);
    steno_decoders_close(d);
    steno_decoders_close(none);
    free(data);
    free(c);
}

/* ---- other programs in its place ------------------------------------------------------------- */

#define FORMAT_16K                                                                                 \
    "\\1\\0\\0\\0\\60\\0\\0\\0\\200\\76\\0\\0\\1\\0\\0\\0\\377\\377\\377\\377\\377\\377\\377\\377"
#define NAMES                                                                                      \
    "x\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0y\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0"

static void run_as_decoder(const char *script, steno_status want, const char *says)
{
    char path[] = "/tmp/steno-decode-XXXXXX";
    struct clip *c = new_clip();
    size_t n;
    void *data = load("chirp.webm", &n);
    FILE *f = fdopen(mkstemp(path), "w");
    steno_status st;
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", script);
    fclose(f);
    assert_int_equal(chmod(path, 0700), 0);
    setenv("STENO_DECODE", path, 1);
    st = from_memory(data, n, NULL, c);
    unsetenv("STENO_DECODE");
    unlink(path);
    if (st != want || (says && !strstr(c->err.msg, says)))
        fail_msg("%s: %d '%s'", script, st, c->err.msg);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie is left */
    free(data);
    free(c);
}

static void a_program_that_crashes_or_hangs_is_an_error_of_its_file(void **state)
{
    (void)state;
    run_as_decoder("kill -SEGV $$", STENO_ERR_FORMAT, "crashed");
    run_as_decoder("kill -SYS $$", STENO_ERR_FORMAT, "may not");
    run_as_decoder("ulimit -S -t 1; while :; do :; done", STENO_ERR_LIMIT, "too long");
    run_as_decoder("exit 3", STENO_ERR_FORMAT, "status 3");
    run_as_decoder("exit 127", STENO_ERR_UNSUPPORTED, "libavformat");
}

static void a_program_that_lies_is_an_error_of_its_file(void **state)
{
    (void)state;
    run_as_decoder("printf '\\377\\377\\377\\377\\377\\377\\377\\377'", STENO_ERR_FORMAT,
                   "too long");
    run_as_decoder("printf '\\11\\0\\0\\0\\0\\0\\0\\0'", STENO_ERR_FORMAT, "unknown record");
    run_as_decoder("printf '\\2\\0\\0\\0\\4\\0\\0\\0abcd'", STENO_ERR_FORMAT, "samples");
    run_as_decoder("printf '\\3\\0\\0\\0\\10\\0\\0\\0abcdefgh'", STENO_ERR_FORMAT, "end record");
    run_as_decoder("printf '\\1\\0\\0\\0\\4\\0\\0\\0abcd'", STENO_ERR_FORMAT, "format record");
    run_as_decoder("printf '" FORMAT_16K NAMES FORMAT_16K NAMES "'", STENO_ERR_FORMAT,
                   "format record");
    run_as_decoder("printf '" FORMAT_16K NAMES "\\2\\0\\0\\0\\3\\0\\0\\0abc'", STENO_ERR_FORMAT,
                   "samples");
    run_as_decoder(
        "printf '\\1\\0\\0\\0\\60\\0\\0\\0\\1\\0\\0\\0\\1\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0" NAMES
        "'",
        STENO_ERR_UNSUPPORTED, "sample rate 1 Hz");
    run_as_decoder("printf '\\4\\0\\0\\0\\7\\0\\0\\0\\5\\0\\0\\0a\\nb'", STENO_ERR_FORMAT, "a?b");
    run_as_decoder("printf '\\4\\0\\0\\0\\7\\0\\0\\0\\11\\0\\0\\0abc'", STENO_ERR_FORMAT, "abc");
    run_as_decoder("printf '\\1\\0\\0'", STENO_ERR_FORMAT, "ended early");
}

static void a_missing_program_is_named(void **state)
{
    struct clip *c = new_clip();
    size_t n;
    void *data = load("chirp.webm", &n);
    (void)state;
    setenv("STENO_DECODE", "/nowhere/steno-decode", 1);
    assert_int_equal(from_memory(data, n, NULL, c), STENO_ERR_UNSUPPORTED);
    unsetenv("STENO_DECODE");
    assert_non_null(strstr(c->err.msg, "WebM or Matroska"));
    assert_non_null(strstr(c->err.msg, "steno-decode"));
    free(data);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_container_is_equal_from_memory_file_and_pipe),
        cmocka_unit_test(samples_are_those_that_were_encoded),
        cmocka_unit_test(live_streams_give_the_same_samples_in_any_pieces),
        cmocka_unit_test(cut_and_damaged_containers_end_in_words),
        cmocka_unit_test(longer_audio_than_allowed_is_refused),
        cmocka_unit_test(more_processes_than_allowed_are_busy),
        cmocka_unit_test(a_program_that_crashes_or_hangs_is_an_error_of_its_file),
        cmocka_unit_test(a_program_that_lies_is_an_error_of_its_file),
        cmocka_unit_test(a_missing_program_is_named),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
