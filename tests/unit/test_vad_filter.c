/* Streams with the VAD filter, which removes silence: the same finals for less work. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "speech/audio/file.h"
#include "base/buf.h"
#include "speech/recognizer/vad_filter.h"
#include "speech/recognizer/stream.h"
#include "steno.h"
#include "tests/support/test.h"

#define RATE 8000
#define PAUSE (5 * RATE)
#define ROW                                                                                        \
    0.04 /* s: after a removed pause the network's state differs, so a peak may move by one frame  \
          */
#define SILERO "/models/silero-vad"

static steno_model *model;
static float *talk; /* noise, the recording, noise, the recording, noise */
static size_t n_talk, n_speech;

static float hiss(uint32_t *seed) /* -70 dB of full scale */
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(int32_t)*seed * 0x1p-31f * 5e-4f;
}

static size_t add_hiss(float *to, size_t n)
{
    uint32_t seed = 7;
    for (size_t i = 0; i < n; i++)
        to[i] = hiss(&seed);
    return n;
}

static int begin(void **state)
{
    static float wav[100000];
    steno_audio *a = NULL;
    size_t n;
    int fd = open("tests/data/digits.wav", O_RDONLY);
    (void)state;
    if (fd < 0 || steno_audio_open_fd(&a, fd, NULL, NULL))
        return -1;
    while (!steno_audio_read(a, wav + n_speech, 100000 - n_speech, &n, NULL) && n)
        n_speech += n;
    steno_audio_close(a);
    close(fd);
    talk = malloc((3 * PAUSE + 2 * n_speech) * sizeof *talk);
    if (!talk)
        return -1;
    for (int i = 0; i < 3; i++) {
        n_talk += add_hiss(talk + n_talk, PAUSE);
        if (i < 2) {
            memcpy(talk + n_talk, wav, n_speech * sizeof *talk);
            n_talk += n_speech;
        }
    }
    return steno_model_open(&model, "conf/models/digits-en", NULL, NULL);
}

static int end(void **state)
{
    (void)state;
    steno_model_close(model);
    free(talk);
    return 0;
}

enum { MOST = 64 };
struct filtered {
    struct steno_buf finals;
    double at[MOST]; /* start times of words */
    size_t words;
    double skipped;
};

static void note_events(steno_stream *s, struct filtered *h)
{
    struct steno_event e;
    while (steno_stream_next(s, &e)) {
        if (e.kind != STENO_FINAL)
            continue;
        assert_int_equal(steno_buf_printf(&h->finals, "%lld [%s]\n", (long long)e.segment, e.text),
                         STENO_OK);
        for (size_t i = 0; i < e.n_words && h->words < MOST; i++)
            h->at[h->words++] = e.words[i].start;
    }
}

/* Push pcm in pieces of `piece` samples; finalize in the middle if asked to. */
static struct filtered run_filter(const steno_vad *vad, int rate, const float *pcm, size_t n,
                                  size_t piece, bool finalize)
{
    const struct steno_stream_options opt = {.vad = vad, .sample_rate = rate};
    struct filtered h = {.skipped = 0};
    steno_stream *s = NULL;
    steno_err err = {0};
    steno_buf_init(&h.finals, 1 << 16);
    assert_int_equal(steno_stream_open(&s, model, &opt, &err), STENO_OK);
    for (size_t at = 0; at < n;) {
        size_t k = n - at < piece ? n - at : piece;
        if (finalize && at <= n / 2 && at + k > n / 2)
            k = n / 2 - at + 1;
        if (steno_stream_push(s, pcm + at, k, &err))
            fail_msg("%s", err.msg);
        at += k;
        if (finalize && at == n / 2 + 1)
            assert_int_equal(steno_stream_finalize(s, &err), STENO_OK);
        note_events(s, &h);
    }
    if (steno_stream_end(s, &err))
        fail_msg("%s", err.msg);
    note_events(s, &h);
    h.skipped = steno_stream_skipped(s);
    steno_stream_close(s);
    return h;
}

static void assert_same_finals(const struct filtered *a, const struct filtered *b)
{
    assert_non_null(a->finals.data);
    assert_string_equal(a->finals.data, b->finals.data ? b->finals.data : "");
    assert_int_equal(a->words, b->words);
    for (size_t i = 0; i < a->words; i++)
        assert_true(fabs(a->at[i] - b->at[i]) < ROW + 1e-6);
}

static steno_vad *open_vad(const char *dir)
{
    steno_vad *v = NULL;
    steno_err err = {0};
    if (steno_vad_open(&v, dir, &err))
        fail_msg("%s", err.msg);
    return v;
}

/* The time removed from three pauses of 5 s, less what the network still gets: a second after
 * speech, 0.2 s before it, and windows that lie across the borders. */
static void check_saving(const steno_vad *vad)
{
    struct filtered all = run_filter(NULL, RATE, talk, n_talk, 800, false);
    struct filtered gated = run_filter(vad, RATE, talk, n_talk, 800, false);
    assert_same_finals(&all, &gated);
    assert_true(all.skipped == 0);
    assert_true(gated.skipped > 3 * 5 - 3 * 1.2 - 3 * 2 * 0.27 - 1);
    assert_true(gated.skipped < 3 * 5);
    steno_buf_free(&all.finals);
    steno_buf_free(&gated.finals);
}

static void pauses_are_removed_and_finals_stay(void **state)
{
    steno_vad *v = open_vad(NULL);
    (void)state;
    check_saving(v);
    steno_vad_close(v);
}

static void speech_alone_goes_through_whole(void **state)
{
    steno_vad *v = open_vad(NULL);
    struct filtered all = run_filter(NULL, RATE, talk + PAUSE, n_speech, 800, false);
    struct filtered gated = run_filter(v, RATE, talk + PAUSE, n_speech, 800, false);
    (void)state;
    assert_same_finals(&all, &gated);
    assert_true(gated.skipped < 1);
    steno_buf_free(&all.finals);
    steno_buf_free(&gated.finals);
    steno_vad_close(v);
}

static void silence_alone_runs_no_network_and_says_nothing(void **state)
{
    steno_vad *v = open_vad(NULL);
    struct filtered h = run_filter(v, RATE, talk, PAUSE, 800, false);
    (void)state;
    assert_int_equal(h.finals.len, 0);
    assert_true(h.skipped > (double)PAUSE / RATE - 0.3);
    assert_true(h.skipped < (double)PAUSE / RATE + 0.3);
    steno_buf_free(&h.finals);
    steno_vad_close(v);
}

static void pieces_of_any_size_give_the_same(void **state)
{
    static const size_t pieces[] = {1, 37, 160, 1024, 4096, 1000000};
    steno_vad *v = open_vad(NULL);
    struct filtered want = run_filter(v, RATE, talk, n_talk, 800, false);
    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct filtered got = run_filter(v, RATE, talk, n_talk, pieces[i], false);
        assert_same_finals(&want, &got);
        assert_true(want.skipped == got.skipped);
        steno_buf_free(&got.finals);
    }
    steno_buf_free(&want.finals);
    steno_vad_close(v);
}

/* The middle is inside a pause. */
static void a_finalize_restarts_the_stream_after_the_filter(void **state)
{
    steno_vad *v = open_vad(NULL);
    struct filtered all = run_filter(NULL, RATE, talk, n_talk, 800, true);
    struct filtered gated = run_filter(v, RATE, talk, n_talk, 800, true);
    (void)state;
    assert_same_finals(&all, &gated);
    assert_true(gated.skipped > 8);
    steno_buf_free(&all.finals);
    steno_buf_free(&gated.finals);
    steno_vad_close(v);
}

/* The same samples at another rate are a different recording, but silence stays silence. */
static void other_rates_pass_the_resampler_first(void **state)
{
    static const int rates[] = {11025, 16000, 48000};
    steno_vad *v = open_vad(NULL);
    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct filtered h = run_filter(v, rates[i], talk, PAUSE, 441, false);
        assert_int_equal(h.finals.len, 0);
        assert_true(h.skipped > (double)PAUSE / rates[i] - 0.3);
        steno_buf_free(&h.finals);
    }
    steno_vad_close(v);
}

static void a_directory_without_the_network_is_refused_by_its_name(void **state)
{
    steno_vad *v = NULL;
    steno_err err;
    (void)state;
    assert_int_equal(steno_vad_open(&v, "conf/models", &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "conf/models"));
    assert_non_null(strstr(err.msg, "silero_vad.onnx"));
    assert_null(v);
}

static void a_network_that_is_not_a_detector_is_refused(void **state)
{
    char dir[] = "/tmp/steno-gate-XXXXXX", at[64], root[4096];
    char to[4200];
    steno_vad *v = NULL;
    steno_err err;
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_non_null(getcwd(root, sizeof root));
    snprintf(at, sizeof at, "%s/silero_vad.onnx", dir);
    snprintf(to, sizeof to, "%s/conf/models/digits-en/encoder.onnx", root);
    assert_int_equal(symlink(to, at), 0);
    assert_int_equal(steno_vad_open(&v, dir, &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "stateN"));
    unlink(at);
    rmdir(dir);
}

static void silero_removes_the_same_pauses(void **state)
{
    const char *shared = getenv("STENO_SHARED");
    char dir[4096];
    struct stat s;
    steno_vad *v;
    (void)state;
    snprintf(dir, sizeof dir, "%s" SILERO, shared ? shared : "../shared");
    if (stat(dir, &s)) {
        print_message("%s is not there: silero-vad is not tried\n", dir);
        skip();
    }
    v = open_vad(dir);
    check_saving(v);
    steno_vad_close(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_are_removed_and_finals_stay),
        cmocka_unit_test(speech_alone_goes_through_whole),
        cmocka_unit_test(silence_alone_runs_no_network_and_says_nothing),
        cmocka_unit_test(pieces_of_any_size_give_the_same),
        cmocka_unit_test(a_finalize_restarts_the_stream_after_the_filter),
        cmocka_unit_test(other_rates_pass_the_resampler_first),
        cmocka_unit_test(a_directory_without_the_network_is_refused_by_its_name),
        cmocka_unit_test(a_network_that_is_not_a_detector_is_refused),
        cmocka_unit_test(silero_removes_the_same_pauses),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
