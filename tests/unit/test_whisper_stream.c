/* Whisper as any model: events of a stream, whatever the pieces that the samples come in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "steno.h"
#include "tests/support/whisper_models.h"

#define WANT                                                                                       \
    "And so, my fellow Americans ask not what your country can do for you ask what you can do "    \
    "for "                                                                                         \
    "your country."

/* The texts of finals one behind the other; words lie in order within the recording. */
static void check_events(steno_stream *s, char *out, size_t size, double seconds)
{
    struct steno_event ev;
    while (steno_stream_next(s, &ev)) {
        double last = 0;
        if (ev.kind != STENO_FINAL)
            continue;
        snprintf(out + strlen(out), size - strlen(out), "%s%s", *out ? " " : "", ev.text);
        for (size_t i = 0; i < ev.n_words; i++) {
            assert_true(ev.words[i].start >= last && ev.words[i].end >= ev.words[i].start);
            assert_true(ev.words[i].end <= seconds);
            last = ev.words[i].start;
        }
        assert_true(ev.n_words > 0);
    }
}

static void run(steno_model *m, const float *pcm, size_t n, size_t piece, char *out, size_t size)
{
    struct steno_stream_options o = steno_stream_options_default();
    steno_stream *s;
    *out = '\0';
    o.sample_rate = 16000;
    assert_int_equal(steno_stream_open(&s, m, &o, NULL), STENO_OK);
    for (size_t at = 0; at < n; at += piece) {
        assert_int_equal(steno_stream_push(s, pcm + at, n - at < piece ? n - at : piece, NULL),
                         STENO_OK);
        check_events(s, out, size, (double)n / 16000);
    }
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    check_events(s, out, size, (double)n / 16000);
    steno_stream_close(s);
}

static void pieces_of_any_length_give_the_text(void **state)
{
    static const size_t pieces[] = {160000, 1600, 777};
    const char *dir = whisper_model("tiny.en");
    struct steno_model_options o = steno_model_options_default();
    steno_model *m;
    steno_err err = {0};
    char text[1000];
    size_t n;
    float *pcm = dir ? whisper_recording("zoo/whisper/audio/jfk_16k.flac", &n) : NULL;
    (void)state;
    if (!pcm)
        skip();
    o.precision = STENO_FP32;
    if (steno_model_open(&m, dir, &o, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < 3; i++) {
        run(m, pcm, n, pieces[i], text, sizeof text);
        assert_string_equal(text, WANT);
    }
    steno_model_close(m);
    free(pcm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_of_any_length_give_the_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
