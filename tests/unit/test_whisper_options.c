/* ldflags: -Wl,--wrap=steno_whisper_encode,--wrap=steno_session_run,--wrap=steno_session_get */
/* Language, translation, prefix and decoding options of a stream against faster-whisper 1.2.1 in
 * float32 with the same settings: the same text, and the same language. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/recognizer/stream.h"
#include "steno.h"
#include "tests/support/test.h"
#include "tests/support/whisper_memo.h"
#include "tests/support/whisper_models.h"

#define SPANISH "audio/real/es-mx_en-us.wav"
#define CHINESE "audio/real/zhcn_short.wav"
#define JFK "zoo/whisper/audio/jfk_16k.flac"

struct heard {
    char text[2000], language[8];
    float probability;
    size_t sections;
};

/* The text of a whole recording. */
static steno_status hear_knowing(steno_model *m, const char *file,
                                 const struct steno_stream_options *o, const char *vocabulary,
                                 struct heard *out, steno_err *err)
{
    size_t n;
    float *pcm = whisper_recording(file, &n);
    struct steno_stream_options so = *o;
    struct steno_event ev;
    steno_stream *s;
    steno_status st;
    memset(out, 0, sizeof *out);
    if (!pcm)
        skip();
    so.no_endpointing = so.no_partials = true;
    st = steno_stream_open_knowing(&s, m, &so,
                                   &(struct steno_stream_known){.vocabulary = vocabulary}, err);
    if (!st) {
        st = steno_stream_push(s, pcm, n, err);
        if (!st)
            st = steno_stream_end(s, err);
        while (!st && steno_stream_next(s, &ev)) {
            snprintf(out->text, sizeof out->text, "%s", ev.text);
            snprintf(out->language, sizeof out->language, "%s", ev.language);
            out->probability = ev.language_probability;
            out->sections = ev.n_sections;
        }
        steno_stream_close(s);
    }
    free(pcm);
    return st;
}

static steno_status hear(steno_model *m, const char *file, const struct steno_stream_options *o,
                         struct heard *out, steno_err *err)
{
    return hear_knowing(m, file, o, NULL, out, err);
}

static steno_model *open_model(const char *which)
{
    steno_model *m = whisper_model_kept(which, STENO_FP32);
    if (!m)
        skip();
    return m;
}

struct a_case {
    const char *file;
    struct steno_hints hints;
    struct steno_option options[2];
    int beam;
    const char *text, *language;
    float probability; /* faster-whisper's; 1: given */
};

static void check_cases(const char *which, const struct a_case *c, size_t n)
{
    steno_model *m = open_model(which);
    for (size_t i = 0; i < n; i++) {
        const struct steno_stream_options so = {.hints = c[i].hints,
                                                .beam = c[i].beam,
                                                .options = c[i].options,
                                                .n_options = (c[i].options[0].name != NULL) +
                                                             (c[i].options[1].name != NULL)};
        struct heard h;
        steno_err err;
        if (hear(m, c[i].file, &so, &h, &err))
            fail_msg("case %zu: %s", i, err.msg);
        if (strcmp(h.text, c[i].text) || strcmp(h.language, c[i].language) || !h.sections)
            fail_msg("case %zu: %s '%s'\nexpected %s '%s'", i, h.language, h.text, c[i].language,
                     c[i].text);
        /* its detection sees one frame more than the window has */
        assert_true(h.probability > c[i].probability - 0.004f &&
                    h.probability < c[i].probability + 0.004f);
    }
}

/* clang-format off */
#define OPENED \
    "Cuando abrió los ojos por la mañana fue porque una joven empleada doméstica " \
    "había entrado en su habitación para encender el fuego."
#define LIVED \
    " Una de las cosas extrañas de vivir en el mundo es que es solo de vez en cuando " \
    "uno está bastante seguro de que va a vivir por siempre y para siempre."
/* clang-format on */

static void base_writes_what_faster_whisper_writes(void **state)
{
    static const struct a_case cases[] = {
        {SPANISH, {0}, {{0}}, 0, OPENED LIVED, "es", 0.9195f},
        {SPANISH, {.language = "Spanish"}, {{0}}, 0, OPENED LIVED, "es", 1},
        {SPANISH,
         {0},
         {{"without_timestamps", "yes"}},
         0,
         OPENED LIVED
         " Mary had like to look at her mother from a distance, and she had thought her very "
         "pretty.",
         "es",
         0.9195f},
        {SPANISH,
         {0},
         {{"repetition_penalty", "1.2"}, {"no_repeat_ngram_size", "3"}},
         0,
         OPENED " Una de las cosas extrañas de vivir en el mundo es que solo debes en cuando uno "
                "está bastante seguro de que va a vivir por siempre y para siempre.",
         "es",
         0.9195f},
        {CHINESE, {.language = "auto"}, {{0}}, 1, "今天天氣怎麼樣?", "zh", 0.9955f},
        {CHINESE, {.language = "zh-CN"}, {{0}}, 0, "今天天氣怎麼樣?", "zh", 1},
        {CHINESE, {.translate = true}, {{0}}, 0, "How is the weather today?", "zh", 0.9955f},
    };
    (void)state;
    check_cases("base", cases, sizeof cases / sizeof *cases);
}

static void a_prefix_begins_the_text_as_in_faster_whisper(void **state)
{
    static const struct a_case cases[] = {
        {JFK,
         {.prefix = "Well, then,"},
         {{0}},
         0,
         "Well, then, what you can do for you, ask what you can do for your country.",
         "en",
         1},
        {JFK,
         {.prefix = "Well, then,"},
         {{0}},
         1,
         "Well, then, I'm not going to ask you to ask what you can do for your country.",
         "en",
         1},
        {JFK,
         {.prefix = "And so my fellow"},
         {{"without_timestamps", "yes"}},
         0,
         "And so my fellow Americans ask not what your country can do for you. Ask what you can "
         "do for your country.",
         "en",
         1},
    };
    (void)state;
    check_cases("tiny.en", cases, sizeof cases / sizeof *cases);
}

/* Two utterances with a pause between them. */
static void a_prefix_begins_the_first_utterance_alone(void **state)
{
    static const float pause[2 * 16000];
    steno_model *m = open_model("tiny.en");
    const struct steno_stream_options so = {.hints = {.prefix = "Well, then,"},
                                            .no_partials = true};
    size_t n, finals = 0;
    float *pcm = whisper_recording(JFK, &n);
    struct steno_event ev;
    steno_stream *s;
    (void)state;
    if (!pcm)
        skip();
    assert_int_equal(steno_stream_open(&s, m, &so, NULL), STENO_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(steno_stream_push(s, pcm, n, NULL), STENO_OK);
        assert_int_equal(steno_stream_push(s, pause, 2 * 16000, NULL), STENO_OK);
    }
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    while (steno_stream_next(s, &ev)) {
        if (ev.kind != STENO_FINAL)
            continue;
        if (!strncmp(ev.text, "Well, then,", 11) != !finals)
            fail_msg("final %zu: %s", finals, ev.text);
        finals++;
    }
    assert_true(finals > 1);
    steno_stream_close(s);
    free(pcm);
}

/* A prompt in capitals makes the text so; hotwords change how a word is heard. */
static void prompt_and_hotwords_reach_the_decoder(void **state)
{
    steno_model *m = open_model("tiny.en");
    struct steno_stream_options so = {.beam = 1};
    struct heard plain, prompted, hot, known;
    steno_err err;
    (void)state;
    assert_int_equal(hear(m, JFK, &so, &plain, &err), STENO_OK);
    so.hints.prompt = "ASK NOT WHAT YOUR COUNTRY CAN DO. AND SO, MY FELLOW CITIZENS OF THE WORLD:";
    assert_int_equal(hear(m, JFK, &so, &prompted, &err), STENO_OK);
    so.hints = (struct steno_hints){.hotwords = "AMERICANS COUNTRY ASK NOT"};
    assert_int_equal(hear(m, JFK, &so, &hot, &err), STENO_OK);
    assert_string_not_equal(plain.text, prompted.text);
    assert_string_not_equal(plain.text, hot.text);
    so.hints = (struct steno_hints){.hotwords = "AMERICANS, COUNTRY, ASK NOT"};
    assert_int_equal(hear(m, JFK, &so, &hot, &err), STENO_OK);
    so.hints = (struct steno_hints){.hotwords = "AMERICANS"};
    assert_int_equal(hear_knowing(m, JFK, &so, "\nCOUNTRY :2.5 \r\n:3\n\nASK NOT", &known, &err),
                     STENO_OK);
    assert_string_equal(known.text, hot.text);
}

/* 3399 is " Americans". */
static void suppressed_tokens_are_not_written(void **state)
{
    struct steno_option option = {"suppress_tokens", "-1, 3399 11"};
    const struct steno_stream_options so = {.beam = 1, .options = &option, .n_options = 1};
    struct steno_model_options mo = steno_model_options_default();
    steno_model *m = open_model("tiny.en");
    struct heard plain, without, back, of_model;
    steno_err err;
    (void)state;
    assert_int_equal(hear(m, JFK, &(struct steno_stream_options){.beam = 1}, &plain, &err),
                     STENO_OK);
    assert_non_null(strstr(plain.text, " Americans"));
    assert_int_equal(hear(m, JFK, &so, &without, &err), STENO_OK);
    if (strstr(without.text, " Americans"))
        fail_msg("%s", without.text);
    option.value = "-1";
    assert_int_equal(hear(m, JFK, &so, &back, &err), STENO_OK);
    assert_string_equal(plain.text, back.text);
    option.value = "-1,11,3399";
    mo.precision = STENO_FP32;
    mo.options = &option;
    mo.n_options = 1;
    assert_int_equal(steno_model_open(&m, whisper_model("tiny.en"), &mo, &err), STENO_OK);
    assert_int_equal(hear(m, JFK, &(struct steno_stream_options){.beam = 1}, &of_model, &err),
                     STENO_OK);
    assert_string_equal(of_model.text, without.text);
    steno_model_close(m);
}

static void faults_of_a_stream_name_the_field(void **state)
{
    const struct {
        struct steno_stream_options o;
        const char *message;
    } bad[] = {
        {{.hints.language = "es"}, "language: the model '"},
        {{.hints.translate = true}, "translate: the model '"},
        {{.beam = 33}, "beam: 33 is more than 32"},
        {{.options = &(struct steno_option){"best_of", "1.5"}, .n_options = 1},
         "best_of: 1.5 is not a whole number"},
        {{.options = &(struct steno_option){"temperature", "1.01"}, .n_options = 1},
         "temperature: 1.01 is outside 0..1"},
        {{.options = &(struct steno_option){"suppress_tokens", "-1,51864"}, .n_options = 1},
         "suppress_tokens: there is no token 51864, the model has 51864"},
        {{.options = &(struct steno_option){"suppress_tokens", "7;8"}, .n_options = 1},
         "suppress_tokens: '7;8' is not a whole number"},
    };
    steno_model *m = open_model("tiny.en");
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        steno_stream *s;
        steno_err err;
        assert_int_equal(steno_stream_open(&s, m, &bad[i].o, &err), STENO_ERR_INVAL);
        if (strncmp(err.msg, bad[i].message, strlen(bad[i].message)))
            fail_msg("'%s' does not begin with '%s'", err.msg, bad[i].message);
    }
}

/* One temperature samples, always in the same way. */
static void a_temperature_samples_and_repeats(void **state)
{
    const struct steno_option options[] = {{"temperature", "1"}, {"best_of", "1"}};
    const struct steno_stream_options so = {.options = options, .n_options = 2};
    steno_model *m = open_model("tiny.en");
    struct heard greedy, one, two;
    steno_err err;
    (void)state;
    assert_int_equal(hear(m, JFK, &(struct steno_stream_options){.beam = 1}, &greedy, &err),
                     STENO_OK);
    assert_int_equal(hear(m, JFK, &so, &one, &err), STENO_OK);
    assert_int_equal(hear(m, JFK, &so, &two, &err), STENO_OK);
    assert_string_equal(one.text, two.text);
    assert_string_not_equal(one.text, greedy.text);
}

static void a_beam_gives_its_other_texts(void **state)
{
    const struct steno_stream_options so = {
        .n_best = 5, .no_endpointing = true, .no_partials = true};
    steno_model *m = open_model("tiny.en");
    size_t n, found = 0;
    float *pcm = whisper_recording(JFK, &n);
    struct steno_event ev;
    steno_stream *s;
    (void)state;
    if (!pcm)
        skip();
    assert_int_equal(steno_stream_open(&s, m, &so, NULL), STENO_OK);
    assert_int_equal(steno_stream_push(s, pcm, n, NULL), STENO_OK);
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    while (steno_stream_next(s, &ev)) {
        if (ev.kind != STENO_FINAL)
            continue;
        found = ev.n_alternatives;
        for (size_t i = 0; i < found; i++) {
            const struct steno_alternative *a = &ev.alternatives[i];
            assert_true(a->n_words > 0 && a->words[a->n_words - 1].end <= 11);
            assert_true(a->score < 0);
            for (size_t k = 0; k < i; k++)
                assert_string_not_equal(a->text, ev.alternatives[k].text);
        }
    }
    assert_true(found > 1 && found <= 5);
    steno_stream_close(s);
    free(pcm);
}

/* A recording of two windows. Every alternative is a text of all of it, with words in order. */
static void a_recording_of_several_windows_has_alternatives_of_the_whole(void **state)
{
    static const char *const said[] = {"best of times", "season of light",      "winter of despair",
                                       "other way",     "noisiest authorities", "comparison only"};
    const struct steno_stream_options so = {
        .n_best = 3, .no_endpointing = true, .no_partials = true};
    steno_model *m = open_model("tiny.en");
    size_t n, found = 0;
    float *pcm = whisper_recording("audio/speech/two_cities_16k.wav", &n);
    struct steno_event ev;
    steno_stream *s;
    (void)state;
    if (!pcm)
        skip();
    assert_int_equal(steno_stream_open(&s, m, &so, NULL), STENO_OK);
    assert_int_equal(steno_stream_push(s, pcm, n, NULL), STENO_OK);
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    while (steno_stream_next(s, &ev)) {
        if (ev.kind != STENO_FINAL)
            continue;
        assert_true(ev.n_sections > 5);
        assert_string_equal(ev.alternatives[0].text, ev.text);
        for (found = 0; found < ev.n_alternatives; found++) {
            const struct steno_alternative *a = &ev.alternatives[found];
            const char *at = a->text;
            assert_true(a->score < 0);
            for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
                at = strstr(at, said[i]);
                if (!at || strstr(at + 1, said[i]))
                    fail_msg("'%s' is not there once, in order: %s", said[i], a->text);
            }
            for (size_t i = 1; i < a->n_words; i++)
                assert_true(a->words[i].start >= a->words[i - 1].start);
            assert_true(found == 0 || strcmp(a->text, ev.text) != 0);
        }
    }
    assert_true(found > 1);
    steno_stream_close(s);
    free(pcm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base_writes_what_faster_whisper_writes),
        cmocka_unit_test(a_prefix_begins_the_text_as_in_faster_whisper),
        cmocka_unit_test(a_prefix_begins_the_first_utterance_alone),
        cmocka_unit_test(prompt_and_hotwords_reach_the_decoder),
        cmocka_unit_test(suppressed_tokens_are_not_written),
        cmocka_unit_test(faults_of_a_stream_name_the_field),
        cmocka_unit_test(a_temperature_samples_and_repeats),
        cmocka_unit_test(a_beam_gives_its_other_texts),
        cmocka_unit_test(a_recording_of_several_windows_has_alternatives_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, whisper_models_close);
}
