#include "speech/audio/ogg_opus.h"

#include "tests/support/oggmake.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OUT (48000 * 10)

struct result {
    steno_status st;
    steno_err err;
    bool truncated;
    unsigned channels;
    size_t n;
    float *x; /* [MAX_OUT] */
};

/* Push the bytes in pieces of `piece` (0: random). Output room is one packet (piece = n:
 * plenty). */
static void decode(const void *data, size_t n, int rate, unsigned channel, size_t piece,
                   struct result *r)
{
    size_t least = STENO_OPUS_MAX_FRAMES(rate), used, made;
    const unsigned char *p = data;
    steno_ogg_opus *o;
    memset(r, 0, sizeof *r);
    r->x = malloc(MAX_OUT * sizeof *r->x);
    assert_non_null(r->x);
    assert_int_equal(steno_ogg_opus_open(&o, rate, channel, NULL), STENO_OK);
    for (size_t at = 0; at < n; at += used) {
        size_t k = piece ? piece : 1 + (size_t)rand() % 700, room = piece ? MAX_OUT : least;
        k = k < n - at ? k : n - at;
        room = room < MAX_OUT - r->n ? room : MAX_OUT - r->n;
        r->st = steno_ogg_opus_push(o, p + at, k, &used, r->x + r->n, room, &made, &r->err);
        if (r->st && r->st != STENO_NEED_MORE)
            goto out;
        assert_true(made <= room);
        assert_true(used == k || room - made < least);
        r->n += made;
    }
    r->st = steno_ogg_opus_end(o, &r->truncated, &r->err);
    r->channels = steno_ogg_opus_channels(o);
out:
    steno_ogg_opus_close(o);
}

static void tone(float *x, size_t frames, unsigned channels, double hz)
{
    for (size_t t = 0; t < frames; t++)
        for (unsigned c = 0; c < channels; c++)
            x[t * channels + c] =
                (float)(0.4 / (c + 1) * sin(2 * 3.14159265358979 * hz * (double)t / 48000));
}

static struct oggmake make(unsigned channels, size_t frames)
{
    struct oggmake m;
    float *x = malloc(frames * channels * sizeof *x);
    assert_non_null(x);
    tone(x, frames, channels, 440);
    oggmake_init(&m, channels);
    oggmake_audio(&m, x, frames);
    free(x);
    return m;
}

/* Amplitude of the 440 Hz tone in a section at this rate. */
static double amplitude(const float *x, size_t n, int rate)
{
    double re = 0, im = 0;
    for (size_t i = 0; i < n; i++) {
        double a = 2 * 3.14159265358979 * 440 * (double)i / rate;
        re += (double)x[i] * cos(a);
        im += (double)x[i] * sin(a);
    }
    return 2 * sqrt(re * re + im * im) / (double)n;
}

static void stream_is_decoded_at_every_rate_without_preskip_and_padding(void **state)
{
    static const int rates[] = {8000, 12000, 16000, 24000, 48000};
    struct oggmake m = make(1, 100000);
    struct result r;
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        decode(m.data, m.len, rates[i], 0, m.len, &r);
        assert_int_equal(r.st, STENO_OK);
        assert_false(r.truncated);
        assert_int_equal(r.channels, 1);
        assert_in_range(r.n, 100000 / (48000 / rates[i]), 100000 / (48000 / rates[i]) + 1);
        assert_true(fabs(amplitude(r.x + rates[i] / 2, (size_t)rates[i], rates[i]) - 0.4) < 0.05);
        free(r.x);
    }
    oggmake_free(&m);
}

static void any_split_of_the_bytes_gives_the_same_samples(void **state)
{
    struct oggmake m = make(2, 60000);
    struct result whole, r;
    (void)state;
    srand(8);
    decode(m.data, m.len, 16000, 2, m.len, &whole);
    assert_int_equal(whole.st, STENO_OK);
    for (int i = 0; i < 12; i++) {
        decode(m.data, m.len, 16000, 2, i == 1 ? 1 : 0, &r);
        assert_int_equal(r.st, whole.st);
        assert_int_equal(r.n, whole.n);
        assert_memory_equal(r.x, whole.x, r.n * sizeof *r.x);
        free(r.x);
    }
    free(whole.x);
    oggmake_free(&m);
}

static void stereo_is_mixed_or_one_channel_picked(void **state)
{
    struct oggmake m = make(2, 96000); /* the right channel has half the amplitude */
    static const double want[] = {0.3, 0.4, 0.2};
    struct result r;
    (void)state;
    for (unsigned channel = 0; channel < 3; channel++) {
        decode(m.data, m.len, 16000, channel, 999, &r);
        assert_int_equal(r.st, STENO_OK);
        assert_int_equal(r.channels, 2);
        assert_true(fabs(amplitude(r.x + 8000, 16000, 16000) - want[channel]) < 0.04);
        free(r.x);
    }
    decode(m.data, m.len, 16000, 3, 999, &r);
    assert_int_equal(r.st, STENO_ERR_INVAL);
    assert_string_equal(r.err.msg, "channel 3 was requested, the audio has 2");
    free(r.x);
    oggmake_free(&m);
}

static void surround_of_family_1_is_mixed(void **state)
{
    struct oggmake m = make(6, 96000);
    double want = 0.4 * (1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4 + 1.0 / 5 + 1.0 / 6) / 6;
    struct result r;
    (void)state;
    decode(m.data, m.len, 16000, 0, 4096, &r);
    assert_int_equal(r.st, STENO_OK);
    assert_int_equal(r.channels, 6);
    assert_true(fabs(amplitude(r.x + 8000, 16000, 16000) - want) < 0.05);
    free(r.x);
    oggmake_free(&m);
}

static void chained_streams_continue(void **state)
{
    struct oggmake a = make(1, 50000), b = make(2, 30000);
    struct result ra, rb, r;
    (void)state;
    decode(a.data, a.len, 16000, 0, a.len, &ra);
    decode(b.data, b.len, 16000, 0, b.len, &rb);
    oggmake_append(&a, b.data, b.len);
    decode(a.data, a.len, 16000, 0, 0, &r);
    assert_int_equal(r.st, STENO_OK);
    assert_int_equal(r.n, ra.n + rb.n);
    assert_memory_equal(r.x, ra.x, ra.n * sizeof *r.x);
    assert_memory_equal(r.x + ra.n, rb.x, rb.n * sizeof *r.x);
    assert_int_equal(r.channels, 2);
    free(r.x);
    free(ra.x);
    free(rb.x);
    oggmake_free(&a);
    oggmake_free(&b);
}

static void lost_pages_are_concealed_for_as_long_as_they_lasted(void **state)
{
    struct oggmake m = make(1, 96000);
    struct result whole, r;
    size_t from, to;
    (void)state;
    decode(m.data, m.len, 16000, 0, m.len, &whole);
    assert_true(m.n_pages > 8);
    from = m.page[4];
    to = m.page[6];
    memmove(m.data + from, m.data + to, m.len - to);
    decode(m.data, m.len - (to - from), 16000, 0, 0, &r);
    assert_int_equal(r.st, STENO_OK);
    assert_int_equal(r.n, whole.n);
    assert_false(r.truncated);
    free(r.x);
    free(whole.x);
    oggmake_free(&m);
}

static void damaged_bytes_cost_their_page_alone(void **state)
{
    struct oggmake m = make(1, 96000);
    struct result r;
    (void)state;
    m.data[m.page[5] + 100] ^= 0x55; /* the checksum no longer matches */
    decode(m.data, m.len, 16000, 0, 0, &r);
    assert_int_equal(r.st, STENO_OK);
    assert_in_range(r.n, 32000, 32001);
    free(r.x);
    oggmake_free(&m);
}

static void comment_header_of_megabytes_is_not_collected(void **state)
{
    struct oggmake m;
    static float x[48000];
    struct result r;
    (void)state;
    tone(x, 48000, 1, 440);
    oggmake_init_tags(&m, 1, 3 << 20);
    oggmake_audio(&m, x, 48000);
    assert_true(m.len > 3 << 20);
    decode(m.data, m.len, 16000, 0, 65536, &r);
    assert_int_equal(r.st, STENO_OK);
    assert_in_range(r.n, 16000, 16001);
    free(r.x);
    oggmake_free(&m);
}

static void truncated_stream_is_delivered_and_flagged(void **state)
{
    struct oggmake m = make(1, 96000);
    struct result r;
    (void)state;
    for (size_t i = 3; i < m.n_pages; i += 3) {
        decode(m.data, m.page[i] + 11, 16000, 0, 0, &r);
        assert_int_equal(r.st, STENO_OK);
        assert_true(r.truncated);
        assert_true(r.n > 0 && r.n < 32000);
        free(r.x);
    }
    decode(m.data, m.page[0] + 20, 16000, 0, 0, &r);
    assert_int_equal(r.st, STENO_ERR_FORMAT);
    assert_non_null(strstr(r.err.msg, "after 20 bytes"));
    free(r.x);
    decode(m.data, 0, 16000, 0, 1, &r);
    assert_int_equal(r.st, STENO_ERR_FORMAT);
    assert_string_equal(r.err.msg, "the input is empty");
    free(r.x);
    oggmake_free(&m);
}

static void other_bytes_than_ogg_opus_are_refused(void **state)
{
    struct oggmake m;
    struct result r;
    (void)state;
    decode("RIFF\1\2\3\4WAVE", 12, 16000, 0, 1, &r);
    assert_int_equal(r.st, STENO_ERR_FORMAT);
    assert_string_equal(r.err.msg, "not an Ogg stream: it starts with 52 00 00 00, not 'OggS'");
    free(r.x);
    oggmake_foreign(&m); /* two pages of another codec */
    decode(m.data, m.len, 16000, 0, 0, &r);
    assert_int_equal(r.st, STENO_ERR_FORMAT);
    assert_string_equal(r.err.msg, "Ogg without an Opus stream");
    free(r.x);
    oggmake_free(&m);
}

static void lying_headers_are_refused_with_their_values(void **state)
{
    static const struct {
        unsigned char head[24];
        size_t n;
        steno_status st;
        const char *says;
    } rows[] = {
        {"OpusHead\1\1\0\0", 12, STENO_ERR_FORMAT, "12 bytes"},
        {"OpusHead\x10\1\0\0\0\0\0\0\0\0\0", 19, STENO_ERR_UNSUPPORTED, "version 16"},
        {"OpusHead\1\0\0\0\0\0\0\0\0\0\0", 19, STENO_ERR_FORMAT, "0 channels"},
        {"OpusHead\1\3\0\0\0\0\0\0\0\0\0", 19, STENO_ERR_FORMAT, "3 channels"},
        {"OpusHead\1\3\0\0\0\0\0\0\0\0\1", 19, STENO_ERR_FORMAT, "19 bytes for 3"},
        {"OpusHead\1\1\0\0\0\0\0\0\0\0\2\1\0\0", 22, STENO_ERR_UNSUPPORTED, "family 2"},
        {"OpusHead\1\1\0\0\0\0\0\0\0\0\1\0\0\0", 22, STENO_ERR_FORMAT, "0 streams"},
        {"OpusHead\1\1\0\0\0\0\0\0\0\0\1\1\2\0", 22, STENO_ERR_FORMAT, "2 of them coupled"},
        {"OpusHead\1\1\0\0\0\0\0\0\0\0\1\1\0\7", 22, STENO_ERR_FORMAT, "1 channels in 1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct oggmake m;
        struct result r;
        oggmake_head(&m, rows[i].head, rows[i].n);
        decode(m.data, m.len, 16000, 0, 0, &r);
        assert_int_equal(r.st, rows[i].st);
        if (!strstr(r.err.msg, rows[i].says))
            fail_msg("'%s' does not say '%s'", r.err.msg, rows[i].says);
        free(r.x);
        oggmake_free(&m);
    }
}

static void recording_matches_the_file_reader(void **state)
{
    size_t n;
    void *data = steno_test_shared("audio/formats/silero-test.opus", &n);
    struct result r;
    (void)state;
    if (!data)
        skip();
    decode(data, n, 16000, 0, 0, &r);
    assert_int_equal(r.st, STENO_OK);
    assert_int_equal(r.n, 129024); /* as libsndfile counts */
    free(r.x);
    free(data);
}

/* ---- packets ---------------------------------------------------------------------------------*/

static void packets_decode_one_by_one_and_lost_ones_are_concealed(void **state)
{
    static float x[48000], out[5760];
    struct oggmake_packets p;
    steno_opus *o;
    size_t total = 0, n;
    double energy = 0;
    (void)state;
    tone(x, 48000, 1, 440);
    oggmake_packets(&p, x, 48000);
    assert_int_equal(p.n, 50);
    assert_int_equal(steno_opus_open(&o, 16000, NULL), STENO_OK);
    assert_int_equal(steno_opus_push(o, NULL, 0, out, 5760, &n, NULL), STENO_OK);
    assert_int_equal(n, 0); /* there is nothing to conceal from yet */
    for (size_t i = 0; i < p.n; i++) {
        bool lost = i == 20;
        assert_int_equal(steno_opus_push(o, p.data[i], lost ? 0 : p.len[i], out, 5760, &n, NULL),
                         STENO_OK);
        assert_int_equal(n, 320);
        total += n;
        for (size_t k = 0; lost && k < n; k++)
            energy += (double)out[k] * (double)out[k];
    }
    assert_int_equal(total, 16000);
    assert_true(energy / 320 > 0.01); /* the concealed tone continues: 0.4^2 / 2 = 0.08 */
    steno_opus_close(o);
}

static void damaged_packet_is_an_error_and_the_next_one_decodes(void **state)
{
    static float x[4800], out[5760];
    struct oggmake_packets p;
    steno_opus *o;
    steno_err err;
    size_t n = 77;
    (void)state;
    oggmake_packets(&p, x, 4800);
    assert_int_equal(steno_opus_open(&o, 48000, NULL), STENO_OK);
    /* code 3 without a frame count (RFC 6716 section 3.2.5, R6) */
    assert_int_equal(steno_opus_push(o, "\xFF", 1, out, 5760, &n, &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "1 bytes"));
    assert_int_equal(n, 77);
    assert_int_equal(steno_opus_push(o, p.data[0], p.len[0], out, 5760, &n, NULL), STENO_OK);
    assert_int_equal(n, 960);
    assert_int_equal(steno_opus_push(o, p.data[0], p.len[0], out, 100, &n, &err), STENO_ERR_INVAL);
    steno_opus_close(o);
    steno_opus_close(NULL);
}

static void rates_that_opus_lacks_are_refused(void **state)
{
    steno_opus *o = NULL;
    steno_ogg_opus *g = NULL;
    steno_err err;
    (void)state;
    assert_int_equal(steno_opus_open(&o, 44100, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "44100"));
    assert_int_equal(steno_ogg_opus_open(&g, 0, 0, &err), STENO_ERR_INVAL);
    assert_true(!o && !g);
    assert_int_equal(steno_opus_rate_for(8000), 8000);
    assert_int_equal(steno_opus_rate_for(11025), 12000);
    assert_int_equal(steno_opus_rate_for(16000), 16000);
    assert_int_equal(steno_opus_rate_for(44100), 48000);
    assert_int_equal(steno_opus_rate_for(192000), 48000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_is_decoded_at_every_rate_without_preskip_and_padding),
        cmocka_unit_test(any_split_of_the_bytes_gives_the_same_samples),
        cmocka_unit_test(stereo_is_mixed_or_one_channel_picked),
        cmocka_unit_test(surround_of_family_1_is_mixed),
        cmocka_unit_test(chained_streams_continue),
        cmocka_unit_test(lost_pages_are_concealed_for_as_long_as_they_lasted),
        cmocka_unit_test(damaged_bytes_cost_their_page_alone),
        cmocka_unit_test(comment_header_of_megabytes_is_not_collected),
        cmocka_unit_test(truncated_stream_is_delivered_and_flagged),
        cmocka_unit_test(other_bytes_than_ogg_opus_are_refused),
        cmocka_unit_test(lying_headers_are_refused_with_their_values),
        cmocka_unit_test(recording_matches_the_file_reader),
        cmocka_unit_test(packets_decode_one_by_one_and_lost_ones_are_concealed),
        cmocka_unit_test(damaged_packet_is_an_error_and_the_next_one_decodes),
        cmocka_unit_test(rates_that_opus_lacks_are_refused),
    };
    return cmocka_run_group_tests_name("ogg_opus", tests, NULL, NULL);
}
