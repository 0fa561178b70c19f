/* The functions of steno.h at their limits, as a program sees them that knows only the header: what
 * is one past a limit is refused, and the message names it; the limit itself is taken. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "steno.h"
#include "tests/support/test.h"

#define TONES "tests/data/models/tones"
#define DIGITS "tests/data/digits.wav"

static steno_model *open_tones(void)
{
    steno_model *m = NULL;
    assert_int_equal(steno_model_open(&m, TONES, NULL, NULL), STENO_OK);
    return m;
}

/* said: a part of the message; NULL: it is taken. */
static void expect(steno_status st, const steno_err *err, const char *said)
{
    if (!said && st)
        fail_msg("%s", err->msg);
    if (said && (st != STENO_ERR_INVAL || !strstr(err->msg, said)))
        fail_msg("status %d, '%s', expected '%s'", (int)st, err->msg, said);
}

static void options_of_models(void **state)
{
    static const struct steno_option unknown = {"blank_penaltee", "1"};
    static const struct {
        struct steno_model_options opt;
        const char *said;
    } rows[] = {{{.threads = 0}, NULL},
                {{.threads = 2}, NULL},
                {{.threads = -1}, "threads: -1 is below 0"},
                {{.threads = INT_MAX}, "2147483647 threads"},
                {{.cpu = "scalar"}, NULL},
                {{.cpu = ""}, NULL},
                {{.cpu = "avx"}, "unknown CPU level 'avx'"},
                {{.precision = STENO_AUTO_WEIGHTS}, NULL},
                {{.precision = (enum steno_precision)99}, "precision: there is no number 99"},
                {{.options = &unknown, .n_options = 1}, "blank_penaltee"},
                {{.options = &unknown, .n_options = 0}, NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        steno_model *m = NULL;
        steno_err err = {0};
        expect(steno_model_open(&m, TONES, &rows[i].opt, &err), &err, rows[i].said);
        steno_model_close(m);
    }
}

static void options_of_streams(void **state)
{
    static const struct {
        struct steno_stream_options opt;
        const char *said;
    } rows[] = {{{.sample_rate = 0}, NULL},
                {{.sample_rate = 8000}, NULL},
                {{.sample_rate = 192000}, NULL},
                {{.sample_rate = 7999}, "7999"},
                {{.sample_rate = 192001}, "192001"},
                {{.sample_rate = -1}, "-1"},
                {{.beam = STENO_MAX_BEAM}, NULL},
                {{.beam = -STENO_MAX_BEAM}, NULL},
                {{.beam = STENO_MAX_BEAM + 1}, "beam is 65"},
                {{.beam = INT_MIN}, "beam is -2147483648"},
                {{.n_best = STENO_MAX_BEAM}, NULL},
                {{.n_best = -1}, "n_best is -1"},
                {{.n_best = 3, .beam = 2}, "n_best is 3, more than the beam, 2"},
                {{.n_best = 3, .beam = -2}, NULL},
                {{.endpoint = {.silence_alone = -1, .silence_after = -1, .longest = -1}}, NULL},
                {{.endpoint.silence_after = NAN}, "endpoint rules must be finite"},
                {{.endpoint.longest = INFINITY}, "endpoint rules must be finite"},
                {{.utterance_end = 0.5}, NULL},
                {{.utterance_end = -1}, "utterance_end: -1"},
                {{.utterance_end = NAN}, "utterance_end: nan"},
                {{.hints.language = ""}, NULL},
                {{.hints.prompt = ""}, NULL},
                {{.hints.prompt = "x"}, "prompt: "},
                {{.hints.prefix = "x"}, "prefix: "},
                {{.hints.language = "klingon"}, "language: "}};
    steno_model *m = open_tones();
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        steno_stream *s = NULL;
        steno_err err = {0};
        expect(steno_stream_open(&s, m, &rows[i].opt, &err), &err, rows[i].said);
        steno_stream_close(s);
    }
    steno_model_close(m);
}

static void lines_of_a_text(void **state)
{
    static const struct {
        struct steno_line line[2];
        const char *said;
    } rows[] = {{{{"one", 0, 0}, {"two", 0, 0}}, NULL},
                {{{"", 0, 0}, {"", 0, 0}}, NULL},
                {{{"one", 5, 6}, {"two", 1, 2}}, "line 2: its times"},
                {{{"one", NAN, NAN}, {"two", 0, 0}}, "line 1: its times"},
                {{{"one", 0, 0}, {"\xff", 0, 0}}, "line 2: byte 1 is not UTF-8"}};
    steno_model *m = open_tones();
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        steno_stream *s = NULL;
        steno_err err = {0};
        expect(steno_stream_open_lines(&s, m, NULL, rows[i].line, 2, &err), &err, rows[i].said);
        steno_stream_close(s);
    }
    steno_model_close(m);
}

static void calls_after_the_end(void **state)
{
    static const struct steno_filter_options filters = {.no_fillers = true};
    static const float pcm[160];
    steno_model *m = open_tones();
    struct steno_event ev;
    steno_stream *s = NULL;
    steno_err err = {0};
    (void)state;
    assert_int_equal(steno_stream_open(&s, m, NULL, NULL), STENO_OK);
    assert_false(steno_stream_next(s, &ev));
    assert_int_equal(steno_stream_push(s, NULL, 0, NULL), STENO_OK);
    assert_int_equal(steno_stream_set_filters(s, &filters, NULL), STENO_OK);
    assert_int_equal(steno_stream_push(s, pcm, 160, NULL), STENO_OK);
    expect(steno_stream_set_filters(s, &filters, &err), &err, "audio was pushed already");
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    expect(steno_stream_push(s, pcm, 1, &err), &err, "stream has ended");
    expect(steno_stream_finalize(s, &err), &err, "stream has ended");
    expect(steno_stream_end(s, &err), &err, "stream has ended");
    assert_int_equal(steno_stream_samples(s), 160);
    assert_true(steno_stream_skipped(s) == 0);
    steno_stream_close(s);
    steno_model_close(m);
}

static void recordings_and_their_channels(void **state)
{
    static const struct {
        int channel;
        const char *said;
    } rows[] = {{0, NULL},
                {1, NULL},
                {2, "the audio has 1"},
                {-1, "channel: -1"},
                {INT_MAX, "the audio has 1"}};
    steno_recording *r = NULL;
    float one;
    size_t n = 7;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        steno_err err = {0};
        r = NULL;
        expect(steno_recording_open(&r, DIGITS, rows[i].channel, &err), &err, rows[i].said);
        steno_recording_close(r);
    }
    assert_int_equal(steno_recording_open(&r, "tests/data", 0, NULL), STENO_ERR_IO);
    assert_int_equal(steno_recording_open_memory(&r, NULL, 0, 0, NULL), STENO_ERR_FORMAT);
    assert_int_equal(steno_recording_open(&r, DIGITS, 0, NULL), STENO_OK);
    assert_int_equal(steno_recording_read(r, &one, 0, &n, NULL), STENO_OK);
    assert_int_equal(n, 0);
    assert_int_equal(steno_recording_read(r, &one, 1, &n, NULL), STENO_OK);
    assert_int_equal(n, 1);
    steno_recording_close(r);
}

static void names_that_nobody_has(void **state)
{
    struct steno_model_languages languages;
    (void)state;
    assert_null(steno_option_at(SIZE_MAX));
    assert_null(steno_option_find(""));
    assert_null(steno_language_code(""));
    assert_null(steno_language_code("english "));
    assert_string_equal(steno_language_code("zh-Hant-TW"), "zh");
    assert_null(steno_model_family("tests/data"));
    assert_false(steno_model_languages("tests/data", &languages));
    assert_int_equal(steno_model_check("tests/data", NULL, 0, NULL), STENO_ERR_FORMAT);
    assert_int_equal(steno_option_check("itn", "AUTO", NULL), STENO_ERR_INVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_models),     cmocka_unit_test(options_of_streams),
        cmocka_unit_test(lines_of_a_text),       cmocka_unit_test(calls_after_the_end),
        cmocka_unit_test(names_that_nobody_has), cmocka_unit_test(recordings_and_their_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
