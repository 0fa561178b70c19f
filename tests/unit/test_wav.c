#include "speech/audio/wav.h"

#include "tests/support/test.h"
#include "tests/support/wavgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OUT 4096

struct result {
    steno_status st;
    steno_err err;
    struct steno_wav_info info;
    bool truncated;
    size_t samples;
    float out[MAX_OUT];
};

/* Push in pieces of `piece` bytes (0: random) through a reader with little room. */
static void parse(const void *data, size_t n, size_t piece, struct result *r)
{
    steno_wav *w = steno_wav_new();
    const unsigned char *p = data;
    size_t used, frames;
    float block[STENO_CHANNELS_MAX + 7];
    assert_non_null(w);
    memset(r, 0, sizeof *r);
    for (size_t at = 0; at < n; at += used) {
        size_t k = piece ? piece : 1 + (size_t)rand() % 61;
        k = k < n - at ? k : n - at;
        r->st =
            steno_wav_push(w, p + at, k, &used, block,
                           piece ? STENO_CHANNELS_MAX + 7 : STENO_CHANNELS_MAX + (size_t)rand() % 8,
                           &frames, &r->err);
        if (r->st && r->st != STENO_NEED_MORE)
            goto out;
        if (r->st == STENO_NEED_MORE) {
            assert_int_equal(used, k);
            assert_int_equal(frames, 0);
        }
        if (frames) {
            size_t s = frames * steno_wav_info(w)->channels;
            assert_true(r->samples + s <= MAX_OUT);
            memcpy(r->out + r->samples, block, s * sizeof *block);
            r->samples += s;
        }
    }
    r->st = steno_wav_end(w, &r->truncated, &r->err);
    if (steno_wav_info(w))
        r->info = *steno_wav_info(w);
out:
    steno_wav_free(w);
}

static void ramp16(unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        wavgen_put16(p + 2 * i, (unsigned)((int)i * 37 - 9000) & 0xFFFF);
}

static struct wavgen plain(unsigned channels, unsigned rate, size_t samples)
{
    struct wavgen_fmt f = wavgen_fmt(1, channels, rate, 16);
    unsigned char payload[2 * 1024];
    struct wavgen w;
    ramp16(payload, samples);
    wavgen_make(&w, &f, payload, 2 * samples);
    return w;
}

static void check_ramp(const struct result *r, size_t n)
{
    assert_int_equal(r->samples, n);
    for (size_t i = 0; i < n; i++)
        assert_true(r->out[i] == (float)((int)i * 37 - 9000) / 32768);
}

static void sixteen_bit_stereo_is_read(void **state)
{
    struct wavgen w = plain(2, 16000, 600);
    struct result r;
    (void)state;
    parse(w.data, w.len, w.len, &r);
    assert_int_equal(r.st, STENO_OK);
    assert_int_equal(r.info.channels, 2);
    assert_int_equal(r.info.sample_rate, 16000);
    assert_int_equal(r.info.frames, 300);
    assert_int_equal(r.info.data_offset, 44);
    assert_int_equal(r.info.format, STENO_PCM_S16LE);
    assert_false(r.truncated);
    check_ramp(&r, 600);
    free(w.data);
}

static void every_encoding_is_recognised(void **state)
{
    static const struct {
        unsigned tag, bits;
        enum steno_pcm_format f;
    } rows[] = {
        {1, 8, STENO_PCM_U8},     {1, 16, STENO_PCM_S16LE}, {1, 24, STENO_PCM_S24LE},
        {1, 32, STENO_PCM_S32LE}, {3, 32, STENO_PCM_F32LE}, {3, 64, STENO_PCM_F64LE},
        {6, 8, STENO_PCM_ALAW},   {7, 8, STENO_PCM_MULAW},
    };
    (void)state;
    srand(2);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (unsigned channels = 1; channels <= 3; channels++) {
            struct wavgen_fmt f = wavgen_fmt(rows[i].tag, channels, 48000, rows[i].bits);
            unsigned char payload[24 * 30];
            float want[24 * 30];
            struct wavgen w;
            struct result r;
            for (size_t k = 0; k < sizeof payload; k++)
                payload[k] = (unsigned char)rand();
            wavgen_make(&w, &f, payload, 30 * f.align);
            parse(w.data, w.len, 0, &r);
            assert_int_equal(r.st, STENO_OK);
            assert_int_equal(r.info.format, rows[i].f);
            assert_int_equal(r.samples, 30 * channels);
            steno_pcm_decode(rows[i].f, payload, r.samples, want);
            assert_memory_equal(r.out, want, r.samples * sizeof *want);
            assert_false(r.truncated);
            free(w.data);
        }
    }
}

static void extensible_format_names_its_encoding_in_the_guid(void **state)
{
    /* KSDATAFORMAT_SUBTYPE_PCM {00000001-0000-0010-8000-00AA00389B71} (Microsoft, ksmedia.h) */
    static const unsigned char guid[16] = {1,    0, 0, 0,    0, 0,    0x10, 0,
                                           0x80, 0, 0, 0xAA, 0, 0x38, 0x9B, 0x71};
    unsigned char ext[24 + 2] = {22, 0, 16, 0, 3};
    struct wavgen w = plain(2, 44100, 100);
    struct wavgen x = {0};
    struct result r;
    (void)state;
    memcpy(ext + 8, guid, 16);
    wavgen_append(&x, w.data, 36);
    wavgen_put16(x.data + 20, 0xFFFE);
    wavgen_put32(x.data + 16, 40);
    wavgen_append(&x, ext, 24);
    wavgen_append(&x, w.data + 36, w.len - 36);
    parse(x.data, x.len, 1, &r);
    assert_int_equal(r.st, STENO_OK);
    check_ramp(&r, 100);
    x.data[44 + 10] ^= 0xFF; /* not Microsoft's GUID */
    parse(x.data, x.len, 1, &r);
    assert_int_equal(r.st, STENO_ERR_UNSUPPORTED);
    wavgen_put32(x.data + 16, 18);
    parse(x.data, x.len, 1, &r);
    assert_int_equal(r.st, STENO_ERR_FORMAT);
    assert_non_null(strstr(r.err.msg, "18"));
    free(w.data);
    free(x.data);
}

static void odd_and_unknown_chunks_are_skipped_with_their_pad_byte(void **state)
{
    struct wavgen w = plain(1, 8000, 200);
    struct result r;
    (void)state;
    wavgen_chunk(&w, "LIST", "INFOISFT\5\0\0\0Lavf", 17);
    wavgen_chunk(&w, "fact", "\1\2\3\4", 4);
    wavgen_chunk(&w, "odd ", "x", 1);
    wavgen_chunk(&w, "none", "", 0);
    wavgen_append(&w, "LIST\4\0\0\0abcd", 12);
    parse(w.data, w.len, w.len, &r);
    assert_int_equal(r.st, STENO_OK);
    assert_false(r.truncated);
    check_ramp(&r, 200);
    parse(w.data, w.len, 1, &r);
    check_ramp(&r, 200);
    free(w.data);
}

static void wav_from_pipe_with_unknown_size_streams(void **state)
{
    static const struct {
        uint32_t riff, data;
    } sizes[] = {
        {0xFFFFFFFF, 0xFFFFFFFF},
        {0, 0},
        {36, 0},
        {0xFFFFFFFF, 0xFFFFFFDB},
        {0x7FFFF024, 0x7FFFF000},
        {0x80000024, 0x80000000},
        {0xFFFFFFFF, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct wavgen w = plain(1, 16000, 500);
        struct result r;
        wavgen_put32(w.data + 4, sizes[i].riff);
        wavgen_put32(w.data + 40, sizes[i].data);
        parse(w.data, w.len, 7, &r);
        assert_int_equal(r.st, STENO_OK);
        assert_int_equal(r.info.frames, -1);
        assert_false(r.truncated);
        check_ramp(&r, 500);
        free(w.data);
    }
}

static void data_of_length_zero_before_other_chunks_is_really_empty(void **state)
{
    struct wavgen w = plain(1, 16000, 0);
    struct result r;
    (void)state;
    wavgen_append(&w, "LIST\4\0\0\0abcd", 12);
    wavgen_put32(w.data + 4, 36 + 12);
    parse(w.data, w.len, 3, &r);
    assert_int_equal(r.st, STENO_OK);
    assert_int_equal(r.samples, 0);
    assert_int_equal(r.info.frames, 0);
    assert_false(r.truncated);
    free(w.data);
}

static void data_of_length_zero_before_samples_is_unknown(void **state)
{
    static const size_t chunks[] = {1, 3, 7, 8, 4096};
    (void)state;
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        struct wavgen w = plain(2, 16000, 500);
        struct result r;
        wavgen_put32(w.data + 40, 0); /* the RIFF size stays correct */
        parse(w.data, w.len, chunks[i], &r);
        assert_int_equal(r.st, STENO_OK);
        assert_int_equal(r.info.frames, -1);
        assert_false(r.truncated);
        check_ramp(&r, 500);
        /* fewer samples than the probe takes: the end loses none */
        wavgen_put32(w.data + 4, 36 + 8);
        parse(w.data, 44 + 8, chunks[i], &r);
        assert_int_equal(r.st, STENO_OK);
        assert_int_equal(r.samples, 4);
        parse(w.data, 44 + 3, chunks[i], &r);
        assert_int_equal(r.st, STENO_OK);
        assert_int_equal(r.samples, 0);
        assert_true(r.truncated);
        free(w.data);
    }
}

static void rf64_takes_its_length_from_ds64(void **state)
{
    struct wavgen w = plain(1, 16000, 300), x = {0};
    unsigned char ds64[36] = "ds64";
    struct result r;
    (void)state;
    wavgen_put32(ds64 + 4, 28);
    wavgen_put32(ds64 + 8, 636);
    wavgen_put32(ds64 + 16, 600);
    wavgen_put32(ds64 + 24, 300);
    wavgen_append(&x, w.data, 12);
    memcpy(x.data, "RF64", 4);
    wavgen_put32(x.data + 4, 0xFFFFFFFF);
    wavgen_append(&x, ds64, sizeof ds64);
    wavgen_append(&x, w.data + 12, w.len - 12);
    wavgen_put32(x.data + 36 + 40, 0xFFFFFFFF);
    wavgen_append(&x, "LIST\4\0\0\0abcd", 12);
    for (size_t piece = 1; piece < 50; piece += 12) {
        parse(x.data, x.len, piece, &r);
        assert_int_equal(r.st, STENO_OK);
        assert_int_equal(r.info.frames, 300);
        check_ramp(&r, 300);
    }
    memcpy(x.data, "BW64", 4);
    parse(x.data, x.len, 0, &r);
    check_ramp(&r, 300);
    free(w.data);
    free(x.data);
}

static void truncated_data_are_delivered_and_flagged(void **state)
{
    struct wavgen w = plain(2, 16000, 400);
    struct result r;
    (void)state;
    for (size_t cut = 45; cut < w.len; cut += 13) {
        parse(w.data, cut, 0, &r);
        assert_int_equal(r.st, STENO_OK);
        assert_true(r.truncated);
        check_ramp(&r, (cut - 44) / 4 * 2);
        assert_int_equal(r.info.frames, 200); /* the number in the header */
    }
    free(w.data);
}

static void header_cut_anywhere_is_an_error_that_says_where(void **state)
{
    struct wavgen w = plain(1, 16000, 10);
    struct result r;
    char where[32];
    (void)state;
    parse(w.data, 0, 1, &r);
    assert_int_equal(r.st, STENO_ERR_FORMAT);
    assert_string_equal(r.err.msg, "the input is empty");
    for (size_t cut = 1; cut < 44; cut++) {
        parse(w.data, cut, 0, &r);
        assert_int_equal(r.st, STENO_ERR_FORMAT);
        snprintf(where, sizeof where, "after %zu bytes", cut);
        assert_non_null(strstr(r.err.msg, where));
    }
    free(w.data);
}

static void lying_headers_are_refused_with_their_values(void **state)
{
    static const struct {
        struct wavgen_fmt f;
        steno_status st;
        const char *says;
    } rows[] = {
        {{1, 0, 16000, 32000, 2, 16}, STENO_ERR_FORMAT, "0 channels"},
        {{1, 65535, 16000, 32000, 2, 16}, STENO_ERR_FORMAT, "65535 channels"},
        {{1, 1, 0, 0, 2, 16}, STENO_ERR_UNSUPPORTED, "0 Hz"},
        {{1, 1, 1, 2, 2, 16}, STENO_ERR_UNSUPPORTED, "rate 1 Hz"},
        {{1, 1, 10000000, 20000000, 2, 16}, STENO_ERR_UNSUPPORTED, "10000000 Hz"},
        {{1, 1, 0xFFFFFFFF, 0, 2, 16}, STENO_ERR_UNSUPPORTED, "4294967295 Hz"},
        {{1, 2, 16000, 64000, 3, 16}, STENO_ERR_FORMAT, "block align 3"},
        {{1, 1, 16000, 32000, 2, 0}, STENO_ERR_UNSUPPORTED, "0 bits"},
        {{1, 1, 16000, 80000, 5, 40}, STENO_ERR_UNSUPPORTED, "40 bits"},
        {{3, 1, 16000, 32000, 2, 16}, STENO_ERR_UNSUPPORTED, "16 bits"},
        {{0x11, 1, 16000, 32000, 2, 4}, STENO_ERR_UNSUPPORTED, "0x0011"},
        {{0x55, 1, 16000, 32000, 1, 0}, STENO_ERR_UNSUPPORTED, "0x0055"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wavgen w;
        struct result r;
        wavgen_make(&w, &rows[i].f, "abcdefgh", 8);
        parse(w.data, w.len, 0, &r);
        assert_int_equal(r.st, rows[i].st);
        assert_int_equal(r.err.code, rows[i].st);
        assert_non_null(strstr(r.err.msg, rows[i].says));
        assert_int_equal(r.samples, 0);
        free(w.data);
    }
}

static void wrong_byte_rate_is_tolerated(void **state)
{
    struct wavgen_fmt f = wavgen_fmt(1, 1, 16000, 16);
    unsigned char payload[200];
    struct wavgen w;
    struct result r;
    (void)state;
    f.byte_rate = 5;
    ramp16(payload, 100);
    wavgen_make(&w, &f, payload, 200);
    parse(w.data, w.len, 0, &r);
    assert_int_equal(r.st, STENO_OK);
    check_ramp(&r, 100);
    free(w.data);
}

static void chunk_disorder_is_refused_with_its_place(void **state)
{
    struct wavgen w = plain(1, 16000, 10);
    struct result r;
    (void)state;
    memcpy(w.data + 12, "data", 4); /* data before fmt */
    parse(w.data, w.len, 1, &r);
    assert_int_equal(r.st, STENO_ERR_FORMAT);
    assert_non_null(strstr(r.err.msg, "byte 12"));
    memcpy(w.data + 12, "junk", 4);
    wavgen_put32(w.data + 16, 0xFFFFFFF0);
    parse(w.data, w.len, 1, &r);
    assert_int_equal(r.st, STENO_ERR_FORMAT);
    assert_non_null(strstr(r.err.msg, "4294967280"));
    memcpy(w.data + 12, "fmt ", 4);
    wavgen_put32(w.data + 16, 14);
    parse(w.data, w.len, 1, &r);
    assert_int_equal(r.st, STENO_ERR_FORMAT);
    assert_non_null(strstr(r.err.msg, "14 bytes"));
    memcpy(w.data, "RIFX", 4);
    parse(w.data, w.len, 1, &r);
    assert_int_equal(r.st, STENO_ERR_FORMAT);
    free(w.data);
}

static void failed_reader_keeps_failing_the_same_way(void **state)
{
    steno_wav *w = steno_wav_new();
    size_t used = 99, frames = 99;
    float out[STENO_CHANNELS_MAX];
    steno_err a = {0}, b = {0};
    bool truncated;
    (void)state;
    assert_non_null(w);
    assert_int_equal(
        steno_wav_push(w, "this is no wav", 14, &used, out, STENO_CHANNELS_MAX, &frames, &a),
        STENO_ERR_FORMAT);
    assert_int_equal(used, 99); /* outputs are untouched on failure */
    assert_int_equal(steno_wav_push(w, "RIFF", 4, &used, out, STENO_CHANNELS_MAX, &frames, &b),
                     STENO_ERR_FORMAT);
    assert_string_equal(a.msg, b.msg);
    assert_int_equal(steno_wav_end(w, &truncated, &b), STENO_ERR_FORMAT);
    assert_null(steno_wav_info(w));
    steno_wav_free(w);
    steno_wav_free(NULL);
}

static void any_split_of_the_input_gives_the_same_samples(void **state)
{
    struct wavgen w = plain(3, 22050, 900);
    struct result whole, r;
    (void)state;
    wavgen_chunk(&w, "LIST", "abc", 3);
    wavgen_append(&w, "tail", 4);
    parse(w.data, w.len, w.len, &whole);
    srand(3);
    for (int i = 0; i < 60; i++) {
        parse(w.data, w.len, i < 30 ? (size_t)i + 1 : 0, &r);
        assert_int_equal(r.st, whole.st);
        assert_int_equal(r.samples, whole.samples);
        assert_memory_equal(r.out, whole.out, whole.samples * sizeof *r.out);
        assert_memory_equal(&r.info, &whole.info, sizeof r.info);
    }
    free(w.data);
}

/* Valid or harmless forms that ffmpeg reads as well. */
static void odd_forms_are_read_as_their_container(void **state)
{
    static const struct {
        struct wavgen_fmt f;
        size_t bytes;
    } rows[] = {{{1, 1, 16000, 32000, 2, 12}, 2},  /* 12 bits at the top of 16 */
                {{1, 2, 16000, 96000, 6, 20}, 3},  /* 20 bits at the top of 24 */
                {{1, 1, 16000, 32000, 0, 16}, 2}}; /* no block align */
    static const unsigned char payload[60] = {[1] = 0x40, [2] = 0x40, [5] = 0x40};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wavgen w;
        steno_wav *r = steno_wav_new();
        float x[128];
        size_t used, n = 0;
        steno_err err = {0};
        wavgen_make(&w, &rows[i].f, payload, sizeof payload);
        assert_non_null(r);
        if (steno_wav_push(r, w.data, w.len, &used, x, 128, &n, &err))
            fail_msg("row %zu: %s", i, err.msg);
        assert_int_equal(n, sizeof payload / rows[i].bytes / rows[i].f.channels);
        assert_true(x[0] > 0.25f && x[0] < 0.51f);
        steno_wav_free(r);
        free(w.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_bit_stereo_is_read),
        cmocka_unit_test(every_encoding_is_recognised),
        cmocka_unit_test(extensible_format_names_its_encoding_in_the_guid),
        cmocka_unit_test(odd_and_unknown_chunks_are_skipped_with_their_pad_byte),
        cmocka_unit_test(wav_from_pipe_with_unknown_size_streams),
        cmocka_unit_test(data_of_length_zero_before_other_chunks_is_really_empty),
        cmocka_unit_test(data_of_length_zero_before_samples_is_unknown),
        cmocka_unit_test(rf64_takes_its_length_from_ds64),
        cmocka_unit_test(truncated_data_are_delivered_and_flagged),
        cmocka_unit_test(header_cut_anywhere_is_an_error_that_says_where),
        cmocka_unit_test(lying_headers_are_refused_with_their_values),
        cmocka_unit_test(wrong_byte_rate_is_tolerated),
        cmocka_unit_test(chunk_disorder_is_refused_with_its_place),
        cmocka_unit_test(failed_reader_keeps_failing_the_same_way),
        cmocka_unit_test(any_split_of_the_input_gives_the_same_samples),
        cmocka_unit_test(odd_forms_are_read_as_their_container),
    };
    return cmocka_run_group_tests_name("wav", tests, NULL, NULL);
}
