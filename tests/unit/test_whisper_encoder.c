/* The encoder against CTranslate2's in float32, recorded in ../shared/zoo/whisper (its README.md
 * describes the files). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include "base/arena.h"
#include "speech/families/whisper/mel.h"
#include "speech/families/whisper/net.h"
#include "formats/npy.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"
#include "tests/support/whisper_models.h"
#include "tests/support/whisper_run.h"

static bool read_npy(const char *rel, struct steno_npy *out)
{
    size_t n;
    void *bytes = steno_test_shared(rel, &n);
    steno_err err = {0};
    if (!bytes)
        return false;
    if (steno_npy_parse(bytes, n, rel, n, out, &err))
        fail_msg("%s", err.msg);
    free(bytes);
    return true;
}

/* The spectrogram of a recording of the zoo, in pieces of any size; its frames as a window. */
static steno_whisper_mel *open_mel(const char *name, struct steno_whisper_window *w, float **pcm)
{
    char rel[100];
    steno_whisper_mel *f;
    size_t n, all;
    snprintf(rel, sizeof rel, "zoo/whisper/audio/%s_16k.flac", name);
    *pcm = whisper_recording(rel, &n);
    assert_non_null(*pcm);
    assert_int_equal(steno_whisper_mel_open(&f, 80, NULL), STENO_OK);
    for (size_t at = 0, k; at < n; at += k) {
        k = n - at < 7 * at + 1 ? n - at : 7 * at + 1;
        assert_int_equal(steno_whisper_mel_push(f, *pcm + at, k, NULL), STENO_OK);
    }
    assert_int_equal(steno_whisper_mel_end(f, NULL), STENO_OK);
    w->n = steno_whisper_mel_frames(f);
    assert_int_equal(w->n, n / 160);
    w->mel = steno_whisper_mel_at(f, 0, &all);
    assert_int_equal(all, w->n + 1);
    w->floor = steno_whisper_mel_floor(f);
    return f;
}

static void mel_is_faster_whispers(void **state)
{
    static const char *const names[] = {"jfk", "es", "ja", "endgame"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char rel[100];
        struct steno_npy want;
        struct steno_whisper_window w = {.rows = 1500};
        steno_whisper_mel *f;
        float *pcm, *rows;
        snprintf(rel, sizeof rel, "zoo/whisper/mel/%s_first50.npy", names[i]);
        if (!read_npy(rel, &want))
            skip();
        f = open_mel(names[i], &w, &pcm);
        rows = malloc(1500 * 2 * 240 * sizeof *rows);
        assert_non_null(rows);
        steno_whisper_frames(w.mel, w.n, w.floor, 80, 3000, rows);
        for (size_t t = 0; t < 50; t++)
            for (size_t b = 0; b < 80; b++) {
                const float have = rows[(3 * t + 1) * 80 + b],
                            x = ((const float *)want.data)[b * 50 + t];
                if (fabsf(have - x) > 2e-5f)
                    fail_msg("%s: frame %zu band %zu: %g, expected %g", names[i], t, b,
                             (double)have, (double)x);
            }
        free(rows);
        steno_whisper_mel_close(f);
        free(pcm);
        steno_aligned_free(want.data);
    }
}

static void check_encoder(const char *which)
{
    struct steno_whisper_window w = {.rows = 1500};
    const char *dir = whisper_model(which);
    struct whisper_net net;
    steno_whisper_state *s = NULL;
    struct steno_npy want;
    steno_err err = {0};
    char rel[100];
    steno_whisper_mel *f;
    size_t rows, d;
    float *pcm, worst = 0;
    const float *y;
    snprintf(rel, sizeof rel, "zoo/whisper/%s/jfk_encoder_rows.npy", which);
    if (!dir || !read_npy(rel, &want))
        skip();
    f = open_mel("jfk", &w, &pcm);
    whisper_net_open(&net, dir, STENO_FP32);
    if (steno_whisper_state_open(&s, net.m, &err) || steno_whisper_encode(net.r, s, &w, &err))
        fail_msg("%s", err.msg);
    y = steno_whisper_encoded(net.r, &rows);
    assert_int_equal(rows, 1500);
    d = (size_t)net.m->dims.audio_state;
    for (size_t i = 0; i < 61; i++) { /* frames 0 to 31, then every 50th */
        const size_t row = i < 32 ? i : (i - 31) * 50;
        for (size_t c = 0; c < d; c++)
            worst = fmaxf(worst, fabsf(y[row * d + c] - ((const float *)want.data)[i * d + c]));
    }
    print_message("# %s: largest difference %g\n", which, (double)worst);
    assert_true(worst < 1e-3f);
    steno_whisper_state_close(s);
    whisper_net_close(&net);
    steno_aligned_free(want.data);
    steno_whisper_mel_close(f);
    free(pcm);
}

static void tiny_en_encodes_as_ctranslate2(void **state)
{
    (void)state;
    check_encoder("tiny.en");
}

static void base_encodes_as_ctranslate2(void **state)
{
    (void)state;
    check_encoder("base");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mel_is_faster_whispers),
        cmocka_unit_test(tiny_en_encodes_as_ctranslate2),
        cmocka_unit_test(base_encodes_as_ctranslate2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
