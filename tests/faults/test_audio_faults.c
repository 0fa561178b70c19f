/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=read,--wrap=pread,--wrap=fstat */
/* The 1st, 2nd, ... nth allocation or read fails while recordings and live feeds are decoded,
 * resampled and turned into features. Each time there is an error that names the cause, no leak
 * (AddressSanitizer's build checks), and no wrong sample before it; at last the scenario passes.
 * Only our own calls are wrapped; allocations inside libraries have tests upstream. */
#include "speech/audio/feed.h"
#include "speech/audio/file.h"
#include "speech/audio/resample.h"
#include "speech/features/cmvn.h"
#include "speech/features/fbank.h"

#include "tests/support/oggmake.h"
#include "tests/support/test.h"
#include "tests/support/wavgen.h"

#include <errno.h>
#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long allocations = -1, reads = -1; /* calls until one fails; -1: none fails */
static bool interrupt;                    /* instead of failing, one read returns EINTR */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
ssize_t __real_read(int fd, void *buf, size_t n);
ssize_t __real_pread(int fd, void *buf, size_t n, off_t at);
int __real_fstat(int fd, struct stat *sb);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
ssize_t __wrap_read(int fd, void *buf, size_t n);
ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at);
int __wrap_fstat(int fd, struct stat *sb);

static bool refuse(long *left)
{
    return *left >= 0 && (*left)-- == 0;
}

void *__wrap_malloc(size_t n)
{
    return refuse(&allocations) ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return refuse(&allocations) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return refuse(&allocations) ? NULL : __real_realloc(p, n);
}

static bool read_fails(void)
{
    if (!refuse(&reads))
        return false;
    errno = interrupt ? EINTR : EIO;
    return true;
}

/* Reads are short, at most 1000 bytes at a time. */
ssize_t __wrap_read(int fd, void *buf, size_t n)
{
    return read_fails() ? -1 : __real_read(fd, buf, n < 1000 ? n : 1000);
}

ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at)
{
    return read_fails() ? -1 : __real_pread(fd, buf, n < 1000 ? n : 1000, at);
}

int __wrap_fstat(int fd, struct stat *sb)
{
    return read_fails() ? -1 : __real_fstat(fd, sb);
}

/* ---- scenarios: 0, or the status of the failure --------------------------------------------- */

static struct wavgen wav;  /* 16 kHz mono, 3000 samples */
static struct oggmake ogg; /* Opus of the same length */
static unsigned char flac[20000];
static size_t n_flac;
static unsigned char container[8000];
static size_t n_container;
static size_t frames_wanted;

static steno_status features(steno_resampler *r, steno_fbank *f, const float *x, size_t n,
                             size_t *frames, steno_err *err)
{
    float y[4096], out[40 * 64];
    size_t used, made, taken, got;
    steno_status st = steno_resampler_push(r, x, n, &used, y, 4096, &made, err);
    if (st > STENO_NEED_MORE)
        return st;
    st = steno_fbank_push(f, y, made, &taken, out, 64, &got);
    *frames += got;
    return st > STENO_NEED_MORE ? st : STENO_OK;
}

static steno_status from_audio(steno_audio *a, steno_err *err)
{
    struct steno_fbank_options o = steno_fbank_kaldi(8000, 40);
    steno_resampler *r = NULL;
    steno_fbank *f = NULL;
    float x[1024];
    size_t n = 1, frames = 0;
    steno_status st = steno_resampler_open(&r, 16000, 8000, err);
    if (!st)
        st = steno_fbank_open(&f, &o, err);
    while (!st && n) {
        st = steno_audio_read(a, x, 1024, &n, err);
        if (!st && n)
            st = features(r, f, x, n, &frames, err);
    }
    if (!st && !frames_wanted)
        frames_wanted = frames;
    if (!st)
        assert_int_equal(frames, frames_wanted);
    steno_resampler_close(r);
    steno_fbank_close(f);
    return st;
}

static steno_status read_memory(const void *data, size_t n, steno_err *err)
{
    steno_audio *a = NULL;
    steno_status st = steno_audio_open_mem(&a, data, n, NULL, err);
    if (!st)
        st = from_audio(a, err);
    else
        assert_null(a);
    steno_audio_close(a);
    return st;
}

static steno_status wav_in_memory(steno_err *err)
{
    return read_memory(wav.data, wav.len, err);
}

static steno_status flac_in_memory(steno_err *err)
{
    return read_memory(flac, n_flac, err);
}

/* A format of steno-decode: up to its end, without features. */
static steno_status container_in_memory(steno_err *err)
{
    steno_audio *a = NULL;
    float x[1024];
    size_t n = 1;
    steno_status st = steno_audio_open_mem(&a, container, n_container, NULL, err);
    while (!st && n)
        st = steno_audio_read(a, x, 1024, &n, err);
    steno_audio_close(a);
    return st;
}

static steno_status from_descriptor(const void *data, size_t n, bool as_pipe, steno_err *err)
{
    steno_audio *a = NULL;
    steno_status st;
    int fd[2] = {-1, -1};
    FILE *f = NULL;
    if (as_pipe) { /* small enough for a pipe's buffer */
        assert_int_equal(pipe(fd), 0);
        assert_int_equal(write(fd[1], data, n), n);
        close(fd[1]);
    } else {
        long held = allocations;
        allocations = -1;
        f = tmpfile();
        assert_non_null(f);
        assert_int_equal(fwrite(data, 1, n, f), n);
        fflush(f);
        fd[0] = fileno(f);
        lseek(fd[0], 0, SEEK_SET);
        allocations = held;
    }
    st = steno_audio_open_fd(&a, fd[0], NULL, err);
    if (!st)
        st = from_audio(a, err);
    steno_audio_close(a);
    if (f)
        fclose(f);
    else
        close(fd[0]);
    return st;
}

static steno_status wav_from_pipe(steno_err *err)
{
    return from_descriptor(wav.data, wav.len, true, err);
}

static steno_status flac_from_pipe(steno_err *err)
{
    return from_descriptor(flac, n_flac, true, err);
}

static steno_status wav_from_file(steno_err *err)
{
    return from_descriptor(wav.data, wav.len, false, err);
}

static steno_status flac_from_file(steno_err *err)
{
    return from_descriptor(flac, n_flac, false, err);
}

static steno_status live(const char *encoding, const void *data, size_t n, steno_err *err)
{
    struct steno_feed_options opt = {encoding, 16000, 1, 0};
    static float out[STENO_FEED_MIN_OUT];
    const unsigned char *p = data;
    size_t used, made, total = 0;
    bool truncated;
    steno_feed *f = NULL;
    steno_status st = steno_feed_open(&f, &opt, err);
    for (size_t at = 0; st <= STENO_NEED_MORE && at < n; at += used) {
        if (!f)
            break;
        st = steno_feed_push(f, p + at, n - at < 500 ? n - at : 500, &used, out, STENO_FEED_MIN_OUT,
                             &made, err);
        if (st <= STENO_NEED_MORE)
            total += made;
        else
            break;
    }
    if (f && st <= STENO_NEED_MORE)
        st = steno_feed_end(f, &truncated, err);
    if (!st)
        assert_int_equal(total, 3000);
    steno_feed_close(f);
    return st;
}

static steno_status live_wav(steno_err *err)
{
    return live("wav", wav.data, wav.len, err);
}

static steno_status live_opus(steno_err *err)
{
    return live("ogg-opus", ogg.data, ogg.len, err);
}

static steno_status normalisation(steno_err *err)
{
    const float mean[4] = {1, 2, 3, 4}, std[4] = {10, 20, 30, 40};
    float x[8] = {0};
    steno_cmvn *c;
    steno_status st = steno_cmvn_open(&c, mean, std, 4, err);
    if (st)
        return st;
    steno_cmvn_apply(c, x, 2);
    steno_cmvn_close(c);
    return STENO_OK;
}

/* ---- driver ----------------------------------------------------------------------------------*/

typedef steno_status scenario(steno_err *err);

/* Let call 0, 1, 2, ... fail until the scenario reaches none of them. Returns the number of
 * calls. */
static int fail_each(scenario *run, long *counter, steno_status expected)
{
    for (long n = 0; n < 2000; n++) {
        steno_err err = {0};
        steno_status st;
        *counter = n;
        st = run(&err);
        if (*counter >= 0) { /* the scenario has fewer than n calls */
            *counter = -1;
            assert_int_equal(st, STENO_OK);
            return (int)n;
        }
        *counter = -1;
        if (st != expected)
            fail_msg("failure %ld: status %d, '%s'", n, st, err.msg);
        assert_int_equal(err.code, st);
        assert_true(err.msg[0] != '\0');
    }
    fail_msg("no end of failures");
    return 0;
}

static void each_allocation_that_fails_is_an_error_without_a_leak(void **state)
{
    static scenario *const all[] = {wav_in_memory,  flac_in_memory,     wav_from_pipe,
                                    flac_from_pipe, live_wav,           live_opus,
                                    normalisation,  container_in_memory};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_true(fail_each(all[i], &allocations, STENO_ERR_NOMEM) > 1);
}

static void each_read_that_fails_is_an_error_that_names_it(void **state)
{
    static scenario *const all[] = {wav_from_pipe, wav_from_file, flac_from_pipe, flac_from_file};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_true(fail_each(all[i], &reads, STENO_ERR_IO) > 3);
}

static void interrupted_reads_are_repeated(void **state)
{
    static scenario *const all[] = {wav_from_pipe, flac_from_pipe};
    (void)state;
    interrupt = true;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        for (long n = 1; n < 12; n++) { /* call 0 is fstat, which returns no EINTR */
            steno_err err = {0};
            reads = n;
            assert_int_equal(all[i](&err), STENO_OK);
        }
    }
    reads = -1;
    interrupt = false;
}

static int make_inputs(void **state)
{
    struct wavgen_fmt fmt = wavgen_fmt(1, 1, 16000, 16);
    SF_INFO info = {
        .samplerate = 16000, .channels = 1, .format = SF_FORMAT_FLAC | SF_FORMAT_PCM_16};
    unsigned char pcm[6000];
    static float x[9000];
    short s[3000];
    FILE *f = tmpfile();
    SNDFILE *snd;
    (void)state;
    srand(10);
    for (size_t i = 0; i < 3000; i++) {
        s[i] = (short)(rand() % 2000 - 1000);
        wavgen_put16(pcm + 2 * i, (unsigned short)s[i]);
    }
    wavgen_make(&wav, &fmt, pcm, sizeof pcm);
    oggmake_init(&ogg, 1);
    oggmake_audio(&ogg, x, 9000); /* 48 kHz */
    if (!f)
        return 1;
    snd = sf_open_fd(fileno(f), SFM_WRITE, &info, 0);
    if (!snd || sf_writef_short(snd, s, 3000) != 3000)
        return 1;
    sf_close(snd);
    rewind(f);
    n_flac = fread(flac, 1, sizeof flac, f);
    fclose(f);
    f = fopen("tests/data/containers/chirp.m4a", "rb");
    if (!f)
        return 1;
    n_container = fread(container, 1, sizeof container, f);
    fclose(f);
    return n_flac < 1000 || n_container < 1000;
}

static int free_inputs(void **state)
{
    (void)state;
    free(wav.data);
    oggmake_free(&ogg);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_that_fails_is_an_error_without_a_leak),
        cmocka_unit_test(each_read_that_fails_is_an_error_that_names_it),
        cmocka_unit_test(interrupted_reads_are_repeated),
    };
    return cmocka_run_group_tests_name("audio_faults", tests, make_inputs, free_inputs);
}
