#include "speech/audio/feed.h"

#include "tests/support/oggmake.h"
#include "tests/support/test.h"
#include "tests/support/wavgen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OUT 200000

struct result {
    steno_status st;
    steno_err err;
    bool truncated;
    int rate;
    size_t n;
    float x[MAX_OUT];
};

/* Feed n bytes in pieces of `piece`; piece 0: random pieces of up to `most` bytes. */
static void run(const struct steno_feed_options *opt, const void *data, size_t n, size_t piece,
                size_t most, struct result *r)
{
    const unsigned char *p = data;
    size_t used, made;
    steno_feed *f;
    memset(r, 0, sizeof *r);
    r->st = steno_feed_open(&f, opt, &r->err);
    if (r->st)
        return;
    for (size_t at = 0; at < n; at += used) {
        size_t k = piece ? piece : 1 + (size_t)rand() % most;
        k = k < n - at ? k : n - at;
        assert_true(r->n + STENO_FEED_MIN_OUT <= MAX_OUT);
        r->st =
            steno_feed_push(f, p + at, k, &used, r->x + r->n, STENO_FEED_MIN_OUT, &made, &r->err);
        if (r->st && r->st != STENO_NEED_MORE)
            goto out;
        assert_true(used || made); /* every call makes progress */
        r->n += made;
    }
    r->rate = steno_feed_rate(f);
    r->st = steno_feed_end(f, &r->truncated, &r->err);
out:
    steno_feed_close(f);
}

static struct result whole, split;

static void every_encoding_gives_the_same_samples_in_any_split(void **state)
{
    static const char *const names[] = {"s16le", "f32le", "mulaw", "alaw",     "u8", "s24le",
                                        "s32le", "f64le", "wav",   "ogg-opus", NULL};
    unsigned char bytes[30011];
    (void)state;
    srand(9);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)rand();
    for (size_t e = 0; e < sizeof names / sizeof names[0]; e++) {
        for (unsigned channels = 1; channels <= 3; channels += 2) {
            struct steno_feed_options opt = {names[e], 16000, channels, channels == 3 ? 2 : 0};
            const void *data = bytes;
            size_t n = sizeof bytes;
            struct wavgen w = {0};
            struct oggmake m = {0};
            if (e == 8) {
                struct wavgen_fmt f = wavgen_fmt(1, channels, 16000, 16);
                wavgen_make(&w, &f, bytes, 30000);
                data = w.data;
                n = w.len;
            } else if (e == 9) {
                static float x[48000 * 3];
                oggmake_init(&m, channels);
                oggmake_audio(&m, x, 48000);
                data = m.data;
                n = m.len;
            }
            run(&opt, data, n, n, 0, &whole);
            assert_int_equal(whole.st, STENO_OK);
            assert_int_equal(whole.rate, 16000);
            assert_true(whole.n > 1000);
            for (int round = 0; round < 6; round++) {
                run(&opt, data, n, round ? 0 : 1, round < 3 ? 50 : 20000, &split);
                assert_int_equal(split.st, whole.st);
                assert_int_equal(split.n, whole.n);
                assert_int_equal(split.truncated, whole.truncated);
                assert_memory_equal(split.x, whole.x, whole.n * sizeof(float));
            }
            free(w.data);
            if (m.stream)
                oggmake_free(&m);
        }
    }
}

static void input_that_ends_inside_a_frame_is_flagged(void **state)
{
    struct steno_feed_options opt = {"s16le", 8000, 2, 0};
    (void)state;
    run(&opt, "abcdefgh", 8, 8, 0, &whole);
    assert_int_equal(whole.n, 2);
    assert_false(whole.truncated);
    for (size_t n = 5; n < 8; n++) {
        run(&opt, "abcdefgh", n, n, 0, &whole);
        assert_int_equal(whole.n, 1);
        assert_true(whole.truncated);
    }
}

static void all_channels_come_interleaved_in_any_split(void **state)
{
    struct steno_feed_options mono = {"s16le", 8000, 1, 0}, all = {"s16le", 8000, 3, 0};
    unsigned char bytes[9000];
    (void)state;
    all.channel = STENO_FEED_ALL_CHANNELS;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    run(&mono, bytes, sizeof bytes, sizeof bytes, 0, &whole); /* as if each sample were a frame */
    for (size_t piece = 1; piece < 9000; piece = piece * 3 + 1) {
        run(&all, bytes, sizeof bytes, piece, 0, &split);
        assert_int_equal(split.st, STENO_OK);
        assert_int_equal(split.n, whole.n);
        assert_memory_equal(split.x, whole.x, whole.n * sizeof *whole.x);
    }
    run(&all, bytes, 8, 8, 0, &split);
    assert_int_equal(split.n, 3);
    assert_true(split.truncated);
    all.encoding = "opus";
    run(&all, bytes, 8, 8, 0, &split);
    assert_int_equal(split.st, STENO_ERR_UNSUPPORTED);
}

static void opus_packets_come_one_per_push(void **state)
{
    struct steno_feed_options opt = {.encoding = "opus", .sample_rate = 8000};
    static float x[48000], out[STENO_FEED_MIN_OUT];
    struct oggmake_packets p;
    steno_feed *f;
    size_t total = 0, used, made;
    steno_err err;
    (void)state;
    for (size_t i = 0; i < 48000; i++)
        x[i] = (float)(0.3 * sin(0.03 * (double)i));
    oggmake_packets(&p, x, 48000);
    assert_int_equal(steno_feed_open(&f, &opt, NULL), STENO_OK);
    assert_int_equal(steno_feed_rate(f), 8000);
    for (size_t i = 0; i < p.n; i++) {
        size_t n = i == 7 ? 0 : p.len[i]; /* packet 7 is lost */
        assert_int_equal(
            steno_feed_push(f, p.data[i], n, &used, out, STENO_FEED_MIN_OUT, &made, &err),
            STENO_OK);
        assert_int_equal(used, n);
        total += made;
        if (i == 9) /* packet 9 is damaged: an error, then the stream continues */
            assert_int_equal(
                steno_feed_push(f, "\xFF", 1, &used, out, STENO_FEED_MIN_OUT, &made, &err),
                STENO_ERR_FORMAT);
    }
    assert_int_equal(total, 8000);
    steno_feed_close(f);
    steno_feed_close(NULL);
}

static void wrong_options_are_refused_with_their_values(void **state)
{
    static const struct {
        struct steno_feed_options opt;
        steno_status st;
        const char *says;
    } rows[] = {
        {{"speex", 16000, 1, 0}, STENO_ERR_UNSUPPORTED, "'speex'"},
        {{"s16le", 0, 1, 0}, STENO_ERR_UNSUPPORTED, "0 Hz"},
        {{"s16le", 1, 1, 0}, STENO_ERR_UNSUPPORTED, "1 Hz"},
        {{"s16le", 10000000, 1, 0}, STENO_ERR_UNSUPPORTED, "10000000 Hz"},
        {{"s16le", -5, 1, 0}, STENO_ERR_UNSUPPORTED, "-5 Hz"},
        {{"s16le", 16000, 65, 0}, STENO_ERR_INVAL, "65"},
        {{"s16le", 16000, 2, 3}, STENO_ERR_INVAL, "channel 3 of 2"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        steno_feed *f = NULL;
        steno_err err = {0};
        assert_int_equal(steno_feed_open(&f, &rows[i].opt, &err), rows[i].st);
        assert_null(f);
        if (!strstr(err.msg, rows[i].says))
            fail_msg("'%s' does not say '%s'", err.msg, rows[i].says);
    }
}

static void wav_header_that_contradicts_the_start_message_is_refused(void **state)
{
    struct wavgen_fmt fmt = wavgen_fmt(1, 2, 44100, 16);
    struct steno_feed_options opt = {.encoding = "wav", .sample_rate = 16000};
    struct wavgen w;
    (void)state;
    wavgen_make(&w, &fmt, "abcdefgh", 8);
    run(&opt, w.data, w.len, 0, 9, &whole);
    assert_int_equal(whole.st, STENO_ERR_INVAL);
    assert_string_equal(whole.err.msg,
                        "sample rate 16000 Hz was announced, the WAV header says 44100");
    opt.sample_rate = 0;
    opt.channel = 3;
    run(&opt, w.data, w.len, 0, 9, &whole);
    assert_int_equal(whole.st, STENO_ERR_INVAL);
    opt.channel = 2;
    run(&opt, w.data, w.len, 0, 9, &whole);
    assert_int_equal(whole.st, STENO_OK);
    assert_int_equal(whole.n, 2);
    assert_int_equal(whole.rate, 44100);
    free(w.data);
}

static void text_in_place_of_a_container_is_refused(void **state)
{
    struct steno_feed_options opt = {.encoding = "wav"};
    (void)state;
    run(&opt, "Hello world, this is not audio", 30, 1, 0, &whole);
    assert_int_equal(whole.st, STENO_ERR_FORMAT);
    run(&opt, "", 0, 1, 0, &whole);
    assert_int_equal(whole.st, STENO_ERR_FORMAT);
    opt.encoding = "ogg-opus";
    run(&opt, "Hello world, this is not audio", 30, 1, 0, &whole);
    assert_int_equal(whole.st, STENO_ERR_FORMAT);
    run(&opt, "", 0, 1, 0, &whole);
    assert_int_equal(whole.st, STENO_ERR_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_encoding_gives_the_same_samples_in_any_split),
        cmocka_unit_test(input_that_ends_inside_a_frame_is_flagged),
        cmocka_unit_test(all_channels_come_interleaved_in_any_split),
        cmocka_unit_test(opus_packets_come_one_per_push),
        cmocka_unit_test(wrong_options_are_refused_with_their_values),
        cmocka_unit_test(wav_header_that_contradicts_the_start_message_is_refused),
        cmocka_unit_test(text_in_place_of_a_container_is_refused),
    };
    return cmocka_run_group_tests_name("feed", tests, NULL, NULL);
}
