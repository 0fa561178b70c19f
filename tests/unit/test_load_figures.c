/* The counting of steno-load: the histogram, the encoders against the engine's decoders, word
 * errors. */
/* link: loadtest/support/histogram.c loadtest/support/clip.c loadtest/support/recording.c */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/audio/feed.h"
#include "speech/audio/pcm.h"
#include "loadtest/support/clip.h"
#include "loadtest/support/histogram.h"
#include "loadtest/support/recording.h"
#include "tests/support/test.h"

#define WAV "tests/data/digits.wav"

static void quantiles_are_right_to_a_hundredth(void **state)
{
    (void)state;
    static struct histogram h;
    for (int i = 1; i <= 100000; i++)
        histogram_add(&h, i * 0.01); /* 0.01 to 1000 ms */
    assert_int_equal(h.n, 100000);
    for (int i = 0; i < 4; i++) {
        const double q[] = {0.01, 0.5, 0.99, 0.999};
        double got = histogram_quantile(&h, q[i]), want = 1000 * q[i];
        assert_true(got >= want && got <= want * 1.0079);
    }
    assert_true(histogram_quantile(&h, 1) == h.max_ms);
    assert_true(fabs(histogram_mean(&h) - 500.005) < 1e-6);
}

static void a_histogram_takes_any_value(void **state)
{
    (void)state;
    static struct histogram h;
    assert_true(histogram_quantile(&h, 0.5) == 0);
    histogram_add(&h, -5);
    histogram_add(&h, 0.0004);
    histogram_add(&h, 1e30);
    assert_true(histogram_quantile(&h, 0.6) == 0);
    assert_true(histogram_quantile(&h, 1) > 1e8);
}

/* Our encoders against the decoders of engine/speech/audio, which have tests against the
 * recommendation. */
static void encodings_decode_to_the_recording(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum steno_pcm_format format;
        float relative, absolute; /* error relative to the value, and to full scale */
    } rows[] = {{"s16le", STENO_PCM_S16LE, 0, 0},
                {"wav", STENO_PCM_S16LE, 0, 0},
                {"f32le", STENO_PCM_F32LE, 0, 0},
                {"mulaw", STENO_PCM_MULAW, 1 / 32.0f, 1 / 4000.0f},
                {"alaw", STENO_PCM_ALAW, 1 / 32.0f, 1 / 2000.0f}};
    struct recording r;
    float *want, *got;
    assert_int_equal(recording_read(&r, WAV, NULL), STENO_OK);
    want = malloc(r.n * sizeof *want);
    got = malloc(r.n * sizeof *got);
    steno_pcm_decode(STENO_PCM_S16LE, r.pcm, r.n, want);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        struct clip c;
        assert_int_equal(clip_read(&c, WAV, rows[k].name, 0, 1, NULL, NULL), STENO_OK);
        assert_int_equal(c.samples, r.n);
        assert_int_equal(c.data.len, c.header + r.n * c.frame);
        steno_pcm_decode(rows[k].format, c.data.data + c.header, r.n, got);
        for (size_t i = 0; i < r.n; i++)
            assert_true(fabsf(got[i] - want[i]) <=
                        rows[k].relative * fabsf(want[i]) + rows[k].absolute);
        clip_free(&c);
    }
    free(want);
    free(got);
    recording_free(&r);
}

/* Opus is lossy and lags by the encoder's look-ahead (RFC 7845, 4.2: a pre-skip of about 6.5
 * ms). The decoded recording must resemble the original at one small lag. */
static void opus_packets_decode_to_the_recording(void **state)
{
    const struct steno_feed_options opt = {.encoding = "opus", .sample_rate = 8000};
    struct clip c;
    struct recording r;
    steno_feed *feed;
    float *want, *got, pcm[8192];
    size_t n = 0;
    double best = 0;
    (void)state;
    assert_int_equal(recording_read(&r, WAV, NULL), STENO_OK);
    assert_int_equal(clip_read(&c, WAV, "opus", 0, 1, NULL, NULL), STENO_OK);
    assert_int_equal(c.n_packets, (r.n + 159) / 160);
    assert_true(c.data.len < r.n / 2); /* at most a quarter of s16le */
    assert_int_equal(clip_chunk(&c, 100), 800);
    assert_int_equal(clip_chunk(&c, 50), 320);
    assert_int_equal(clip_chunk(&c, 1), 160);
    want = calloc(r.n, sizeof *want);
    got = calloc(c.samples + 160, sizeof *got);
    steno_pcm_decode(STENO_PCM_S16LE, r.pcm, r.n, want);
    assert_int_equal(steno_feed_open(&feed, &opt, NULL), STENO_OK);
    for (size_t i = 0; i < c.n_packets; i++) {
        size_t used, made, len = c.packets[i + 1] - c.packets[i];
        steno_status st =
            steno_feed_push(feed, c.data.data + c.packets[i], len, &used, pcm, 8192, &made, NULL);
        assert_true(st == STENO_OK || st == STENO_NEED_MORE);
        assert_true(n + made <= c.samples + 160);
        memcpy(got + n, pcm, made * sizeof *pcm);
        n += made;
    }
    assert_true(n > r.n - 800);
    for (size_t lag = 0; lag < 160; lag++) {
        double both = 0, a = 0, b = 0;
        for (size_t i = 0; i + lag < n && i < r.n; i++) {
            both += (double)want[i] * (double)got[i + lag];
            a += (double)want[i] * (double)want[i];
            b += (double)got[i + lag] * (double)got[i + lag];
        }
        best = fmax(best, both / sqrt(a * b));
    }
    assert_true(best > 0.9);
    steno_feed_close(feed);
    free(want);
    free(got);
    clip_free(&c);
    recording_free(&r);
}

static void a_clip_repeats_with_its_text(void **state)
{
    (void)state;
    struct clip c;
    steno_err err;
    assert_int_equal(clip_read(&c, WAV, "s16le", 500, 3, "one two", NULL), STENO_OK);
    assert_string_equal(c.text, "one two one two one two");
    assert_int_equal(c.data.len, c.samples * 2);
    for (size_t i = c.samples - 4000; i < c.samples; i++) /* the last half second */
        assert_int_equal(c.data.data[2 * i] | c.data.data[2 * i + 1], 0);
    clip_free(&c);
    assert_int_equal(clip_read(&c, WAV, "mp3", 0, 1, NULL, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "mp3"));
    assert_int_equal(clip_read(&c, "/no/file.wav", "wav", 0, 1, NULL, &err), STENO_ERR_IO);
}

static void word_errors_are_the_least_edits(void **state)
{
    (void)state;
    static const struct {
        const char *want, *got;
        size_t errors, words;
    } rows[] = {
        {"one two three", "one two three", 0, 3},
        {"one two three", "one three", 1, 3},
        {"one two three", "one two two three", 1, 3},
        {"one two three", "one nine three", 1, 3},
        {"one two three", "", 3, 3},
        {"", "one two", 2, 0},
        {"a b c d", "b c d a", 2, 4},
        {"one two", " one  two ", 0, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n;
        assert_int_equal(clip_word_errors(rows[i].want, rows[i].got, &n), rows[i].errors);
        assert_int_equal(n, rows[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_right_to_a_hundredth),
        cmocka_unit_test(a_histogram_takes_any_value),
        cmocka_unit_test(encodings_decode_to_the_recording),
        cmocka_unit_test(opus_packets_decode_to_the_recording),
        cmocka_unit_test(a_clip_repeats_with_its_text),
        cmocka_unit_test(word_errors_are_the_least_edits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
