#include "speech/audio/pcm.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ITU-T G.711 tables 2a and 2b: decoder output values y_n, here on the 16-bit scale (x4 for the
 * 14-bit mu-law, x8 for the 13-bit A-law). mu-law: code 0xFF is +0, 0x80 the largest value, 0x00
 * the most negative one. A-law: 0xD5 is +1, 0xAA the largest value (4032), 0x2A the most
 * negative one. */
static void g711_codes_decode_to_the_tables_of_the_standard(void **state)
{
    static const struct {
        enum steno_pcm_format f;
        unsigned char code;
        float s16;
    } rows[] = {
        {STENO_PCM_MULAW, 0xFF, 0},      {STENO_PCM_MULAW, 0x7F, 0},
        {STENO_PCM_MULAW, 0xFE, 8},      {STENO_PCM_MULAW, 0x80, 32124},
        {STENO_PCM_MULAW, 0x00, -32124}, {STENO_PCM_MULAW, 0xF0, 120},
        {STENO_PCM_MULAW, 0xEF, 132},    {STENO_PCM_ALAW, 0xD5, 8},
        {STENO_PCM_ALAW, 0x55, -8},      {STENO_PCM_ALAW, 0xAA, 32256},
        {STENO_PCM_ALAW, 0x2A, -32256},  {STENO_PCM_ALAW, 0xDA, 248},
        {STENO_PCM_ALAW, 0xC5, 264},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        float out;
        steno_pcm_decode(rows[i].f, &rows[i].code, 1, &out);
        assert_true(out == rows[i].s16 / 32768);
    }
}

static void integers_scale_to_full_range(void **state)
{
    static const struct {
        enum steno_pcm_format f;
        unsigned char bytes[4];
        float want;
    } rows[] = {
        {STENO_PCM_U8, {0}, -1},
        {STENO_PCM_U8, {128}, 0},
        {STENO_PCM_U8, {255}, 127.0f / 128},
        {STENO_PCM_S16LE, {0x00, 0x80}, -1},
        {STENO_PCM_S16LE, {0xFF, 0x7F}, 32767.0f / 32768},
        {STENO_PCM_S16LE, {0xFF, 0xFF}, -1.0f / 32768},
        {STENO_PCM_S24LE, {0x00, 0x00, 0x80}, -1},
        {STENO_PCM_S24LE, {0x00, 0x00, 0x40}, 0.5f},
        {STENO_PCM_S24LE, {0xFF, 0xFF, 0xFF}, -1.0f / 8388608},
        {STENO_PCM_S32LE, {0x00, 0x00, 0x00, 0x80}, -1},
        {STENO_PCM_S32LE, {0x00, 0x00, 0x00, 0x40}, 0.5f},
        {STENO_PCM_F32LE, {0x00, 0x00, 0x00, 0xBF}, -0.5f},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        float out;
        steno_pcm_decode(rows[i].f, rows[i].bytes, 1, &out);
        assert_true(out == rows[i].want);
    }
}

static void nan_and_infinity_become_silence(void **state)
{
    float in[6] = {NAN, INFINITY, -INFINITY, 0.25f, 1e30f, -1e30f}, out[6];
    double wide[4] = {NAN, INFINITY, -1e300, 0.25};
    (void)state;
    steno_pcm_decode(STENO_PCM_F32LE, in, 6, out);
    assert_true(out[0] == 0 && out[1] == 0 && out[2] == 0 && out[3] == 0.25f);
    assert_true(out[4] == STENO_PCM_FLOAT_MAX && out[5] == -STENO_PCM_FLOAT_MAX);
    assert_true(steno_pcm_is_clean(out, 6));
    for (size_t i = 0; i < 6; i++)
        assert_true(steno_pcm_is_clean(in + i, 1) == (i == 3));
    assert_false(steno_pcm_is_clean(in, 6));
    steno_pcm_clean(in, 6, out);
    assert_true(out[0] == 0 && out[1] == 0 && out[2] == 0 && out[3] == 0.25f);
    steno_pcm_decode(STENO_PCM_F64LE, wide, 4, out);
    assert_true(out[0] == 0 && out[1] == 0 && out[2] == -STENO_PCM_FLOAT_MAX && out[3] == 0.25f);
}

static void any_split_of_the_bytes_gives_the_same_samples(void **state)
{
    unsigned char bytes[997];
    float whole[997], out[1000];
    (void)state;
    srand(1);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)rand();
    for (int f = 0; f < STENO_PCM_COUNT; f++) {
        size_t size = steno_pcm_bytes((enum steno_pcm_format)f), n = sizeof bytes / size;
        steno_pcm_decode((enum steno_pcm_format)f, bytes, n, whole);
        for (int round = 0; round < 20; round++) {
            struct steno_pcm p;
            size_t at = 0, got = 0, used;
            steno_pcm_init(&p, (enum steno_pcm_format)f);
            while (at < sizeof bytes) {
                size_t k = round ? (size_t)rand() % 40 : 1, max = round ? (size_t)rand() % 9 : 1;
                k = k < sizeof bytes - at ? k : sizeof bytes - at;
                got += steno_pcm_push(&p, bytes + at, k, &used, out + got,
                                      max < 1000 - got ? max : 1000 - got);
                at += used;
            }
            assert_int_equal(got, n);
            assert_int_equal(p.have, sizeof bytes - n * size);
            assert_memory_equal(out, whole, n * sizeof *out);
        }
    }
}

static void channels_are_averaged_or_picked(void **state)
{
    const float in[6] = {1, 3, 5, -1, -3, -6};
    float out[2];
    (void)state;
    steno_pcm_mix(in, 2, 3, 0, out);
    assert_true(out[0] == 3 && fabsf(out[1] + 10.0f / 3) < 1e-6f);
    steno_pcm_mix(in, 2, 3, 3, out);
    assert_true(out[0] == 5 && out[1] == -6);
    steno_pcm_mix(in, 2, 1, 0, out);
    assert_true(out[0] == 1 && out[1] == 3);
}

static void encodings_are_found_by_name_and_unknown_ones_named(void **state)
{
    enum steno_pcm_format f = STENO_PCM_COUNT;
    steno_err err = {0};
    (void)state;
    for (int i = 0; i < STENO_PCM_COUNT; i++) {
        assert_int_equal(steno_pcm_parse(steno_pcm_name((enum steno_pcm_format)i), &f, &err), 0);
        assert_int_equal(f, i);
    }
    assert_int_equal(steno_pcm_parse("G711_ULAW", &f, &err), STENO_OK);
    assert_int_equal(f, STENO_PCM_MULAW);
    assert_int_equal(steno_pcm_parse("speex", &f, &err), STENO_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "speex"));
    assert_non_null(strstr(err.msg, "s16le"));
    assert_int_equal(f, STENO_PCM_MULAW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(g711_codes_decode_to_the_tables_of_the_standard),
        cmocka_unit_test(integers_scale_to_full_range),
        cmocka_unit_test(nan_and_infinity_become_silence),
        cmocka_unit_test(any_split_of_the_bytes_gives_the_same_samples),
        cmocka_unit_test(channels_are_averaged_or_picked),
        cmocka_unit_test(encodings_are_found_by_name_and_unknown_ones_named),
    };
    return cmocka_run_group_tests_name("pcm", tests, NULL, NULL);
}
