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
    o.no_partials = true;
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

/* ---- partials ------------------------------------------------------------------------------ */

#define MAX_PARTIALS 200

struct live {
    char stable[2000], finals[4000], partials[MAX_PARTIALS][1200];
    size_t n_partials, n_stable; /* partials with some stable text */
};

/* What is stable stays at the head of all later partials and of the final. */
static void check_stable(struct live *l, const struct steno_event *ev)
{
    if (strncmp(ev->text, l->stable, strlen(l->stable)))
        fail_msg("'%s' was stable, now '%s'", l->stable, ev->text);
    assert_true(ev->stable_bytes >= strlen(l->stable));
    assert_true(ev->stable_bytes < sizeof l->stable);
    memcpy(l->stable, ev->text, ev->stable_bytes);
    l->stable[ev->stable_bytes] = '\0';
}

static void read_live(steno_stream *s, struct live *l)
{
    struct steno_event ev;
    while (steno_stream_next(s, &ev)) {
        if (ev.kind != STENO_PARTIAL && ev.kind != STENO_FINAL)
            continue;
        check_stable(l, &ev);
        if (ev.kind == STENO_PARTIAL) {
            assert_true(l->n_partials < MAX_PARTIALS);
            l->n_stable += ev.stable_bytes > 0;
            snprintf(l->partials[l->n_partials++], sizeof l->partials[0], "%.2f %zu %s", ev.time,
                     ev.stable_bytes, ev.text);
            continue;
        }
        snprintf(l->finals + strlen(l->finals), sizeof l->finals - strlen(l->finals), "%s\n",
                 ev.text);
        l->stable[0] = '\0';
    }
}

static void run_live(steno_model *m, const float *pcm, size_t n, size_t piece, bool partials,
                     struct live *l)
{
    const struct steno_stream_options o = {.sample_rate = 16000, .no_partials = !partials};
    steno_stream *s;
    memset(l, 0, sizeof *l);
    assert_int_equal(steno_stream_open(&s, m, &o, NULL), STENO_OK);
    for (size_t at = 0; at < n; at += piece) {
        assert_int_equal(steno_stream_push(s, pcm + at, n - at < piece ? n - at : piece, NULL),
                         STENO_OK);
        read_live(s, l);
    }
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    read_live(s, l);
    steno_stream_close(s);
}

/* Partials and finals, however the audio comes. */
static void check_live(steno_model *m, const char *recording, size_t runs)
{
    static const size_t pieces[] = {1600, 160000, 777};
    static struct live first, l;
    size_t n;
    float *pcm = whisper_recording(recording, &n);
    if (!pcm)
        skip();
    for (size_t i = 0; i < runs; i++) {
        run_live(m, pcm, n, pieces[i], true, i ? &l : &first);
        assert_true(first.n_partials >= 8 && first.n_stable > 2);
        if (!i)
            continue;
        assert_string_equal(l.finals, first.finals);
        assert_int_equal(l.n_partials, first.n_partials);
        for (size_t k = 0; k < l.n_partials; k++)
            assert_string_equal(l.partials[k], first.partials[k]);
    }
    free(pcm);
}

static void check_model(const char *which, const char *recording, size_t runs)
{
    const char *dir = whisper_model(which);
    struct steno_model_options o = steno_model_options_default();
    steno_model *m;
    steno_err err = {0};
    if (!dir)
        skip();
    if (steno_model_open(&m, dir, &o, &err))
        fail_msg("%s", err.msg);
    check_live(m, recording, runs);
    steno_model_close(m);
}

static void partials_of_tiny_en_keep_what_is_stable(void **state)
{
    (void)state;
    check_model("tiny.en", "zoo/whisper/audio/jfk_16k.flac", 3);
}

static void partials_of_a_long_utterance_keep_what_is_stable(void **state)
{
    (void)state;
    check_model("tiny.en", "audio/speech/two_cities_16k.wav", 1);
}

static void partials_of_base_keep_what_is_stable(void **state)
{
    (void)state;
    check_model("base", "audio/real/es-mx_en-us.wav", getenv("STENO_WHISPER_ALL") ? 3 : 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_any_length_give_the_text),
        cmocka_unit_test(partials_of_tiny_en_keep_what_is_stable),
        cmocka_unit_test(partials_of_a_long_utterance_keep_what_is_stable),
        cmocka_unit_test(partials_of_base_keep_what_is_stable)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
