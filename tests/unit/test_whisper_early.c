/* ldflags: -Wl,--wrap=steno_whisper_encode,--wrap=steno_session_run,--wrap=steno_session_get */
/* ldflags: -Wl,--wrap=steno_whisper_step */
/* Finals of live streams that are begun before their endpoint: what is left to do at the endpoint,
 * and that they are the same. */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

#include "speech/families/whisper/net.h"
#include "speech/features/activity.h"
#include "speech/recognizer/stream.h"
#include "steno.h"
#define MEMO_OWN_ENCODE
#include "tests/support/test.h"
#include "tests/support/whisper_memo.h"
#include "tests/support/whisper_models.h"

#define HOP 160
#define RATE 16000
#define JFK "zoo/whisper/audio/jfk_16k.flac"
#define CITIES "audio/speech/two_cities_16k.wav"
#define SPANISH "audio/real/es-mx_en-us.wav"

/* ---- counting ------------------------------------------------------------------------------- */

static size_t windows, runs; /* windows of 30 s that were encoded; all runs of a network */

steno_status __real_steno_whisper_step(steno_whisper_runner *r, struct steno_whisper_ask *ask,
                                       size_t n, steno_err *err);
steno_status __wrap_steno_whisper_step(steno_whisper_runner *r, struct steno_whisper_ask *ask,
                                       size_t n, steno_err *err);

steno_status __wrap_steno_whisper_encode(steno_whisper_runner *r, steno_whisper_state *s,
                                         const struct steno_whisper_window *w, steno_err *err)
{
    windows += w->rows == 1500;
    runs++;
    return memo_encode(r, s, w, err);
}

steno_status __wrap_steno_whisper_step(steno_whisper_runner *r, struct steno_whisper_ask *ask,
                                       size_t n, steno_err *err)
{
    runs++;
    return __real_steno_whisper_step(r, ask, n, err);
}

/* ---- streams -------------------------------------------------------------------------------- */

static bool early;    /* finals may be begun early */
static double queued; /* s that work waits for a worker, for each second of audio */

struct said {
    char finals[20000], partials[60000];
    size_t n_finals, n_partials;
    double start, time; /* of the last final: begin of its segment, and its endpoint */
    double segment;     /* begin of the running segment */
    double heard;       /* when it was noticed */
    size_t late;        /* runs of networks in pushes that gave a final */
};

static void add(char *to, size_t size, const char *line)
{
    assert_true(strlen(to) + strlen(line) < size);
    strcat(to, line);
}

/* Text, times, scores and confidences of all alternatives. */
static void add_final(struct said *out, const struct steno_event *ev)
{
    char line[3000];
    for (size_t i = 0; i < ev->n_alternatives; i++) {
        const struct steno_alternative *a = &ev->alternatives[i];
        snprintf(line, sizeof line, "%s: %a %s", a->text, a->score, ev->language);
        add(out->finals, sizeof out->finals, line);
        for (size_t k = 0; k < a->n_words; k++) {
            snprintf(line, sizeof line, " %.2f %.2f %a", a->words[k].start - out->segment,
                     a->words[k].end - out->segment, (double)a->words[k].confidence);
            add(out->finals, sizeof out->finals, line);
        }
        add(out->finals, sizeof out->finals, "\n");
    }
    out->n_finals++;
    out->start = out->segment;
    out->time = ev->time;
}

static size_t take_events(steno_stream *s, struct said *out)
{
    struct steno_event ev;
    const size_t before = out->n_finals;
    char line[3000];
    while (steno_stream_next(s, &ev)) {
        if (ev.kind == STENO_SPEECH_START) {
            out->segment = ev.start;
            out->heard = ev.time;
        }
        if (ev.kind == STENO_FINAL)
            add_final(out, &ev);
        if (ev.kind != STENO_PARTIAL)
            continue;
        snprintf(line, sizeof line, "%.2f %zu %s\n", ev.time, ev.stable_bytes, ev.text);
        add(out->partials, sizeof out->partials, line);
        out->n_partials++;
    }
    return out->n_finals - before;
}

static void push(steno_stream *s, const float *pcm, size_t n, size_t piece, struct said *out)
{
    for (size_t at = 0; at < n; at += piece) {
        const size_t before = runs;
        if (queued > 0)
            steno_stream_set_queued(s, queued * (double)at / RATE);
        assert_int_equal(steno_stream_push(s, pcm + at, n - at < piece ? n - at : piece, NULL),
                         STENO_OK);
        if (take_events(s, out))
            out->late += runs - before;
    }
}

static steno_stream *open_stream(steno_model *m, const struct steno_stream_options *o)
{
    steno_stream *s;
    assert_int_equal(steno_stream_open(&s, m, o, NULL), STENO_OK);
    steno_stream_set_early(s, early);
    return s;
}

static void run(steno_model *m, const struct steno_stream_options *o, const float *pcm, size_t n,
                size_t piece, struct said *out)
{
    steno_stream *s;
    memset(out, 0, sizeof *out);
    windows = runs = 0;
    s = open_stream(m, o);
    push(s, pcm, n, piece, out);
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    (void)take_events(s, out);
    steno_stream_close(s);
}

/* The same as the pool has it: audio comes, a hop at a time, between the steps of an early final.
 * `steps` of it run for each hop; what else is due is done at once. */
static void run_in_steps(steno_model *m, const struct steno_stream_options *o, const float *pcm,
                         size_t n, size_t steps, struct said *out)
{
    steno_stream *s = open_stream(m, o);
    steno_batcher *b;
    memset(out, 0, sizeof *out);
    windows = runs = 0;
    assert_int_equal(steno_batcher_open(&b, m, 1, NULL), STENO_OK);
    for (size_t at = 0, used; at < n; at += used) {
        size_t left = steps;
        steno_status st;
        assert_int_equal(steno_stream_feed(s, pcm + at, n - at < HOP ? n - at : HOP, &used, NULL),
                         STENO_OK);
        while (steno_stream_ready(s) && (!(steno_stream_slack(s) > 0) || left-- > 0)) {
            steno_streams_step(b, &s, 1, &st, NULL);
            assert_int_equal(st, STENO_OK);
        }
        (void)take_events(s, out);
    }
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    (void)take_events(s, out);
    steno_stream_close(s);
    steno_batcher_close(b);
}

/* The first seconds of a recording (0: all), and silence behind them. */
static float *spoken(const char *name, size_t seconds, double silence, size_t *n)
{
    const size_t more = (size_t)(silence * RATE);
    float *pcm = whisper_recording(name, n), *all;
    if (!pcm)
        return NULL;
    if (seconds && *n > seconds * RATE)
        *n = seconds * RATE;
    all = calloc(*n + more, sizeof *all);
    assert_non_null(all);
    memcpy(all, pcm, *n * sizeof *pcm);
    free(pcm);
    *n += more;
    return all;
}

struct fixture {
    steno_model *m;
    float *pcm;
    size_t n;
};

static struct fixture prepare(const char *which, const char *recording, size_t seconds,
                              double silence)
{
    struct fixture f = {.m = whisper_model_kept(which, STENO_INT8_WEIGHTS)};
    early = true;
    queued = 0;
    f.pcm = f.m ? spoken(recording, seconds, silence, &f.n) : NULL;
    if (!f.pcm)
        skip();
    return f;
}

/* ---- what is left to do ---------------------------------------------------------------------- */

static void at_the_endpoint_no_network_runs(void **state)
{
    struct fixture f = prepare("tiny.en", JFK, 0, 2);
    static struct said on, off;
    struct steno_stream_options o = {.sample_rate = RATE};
    (void)state;
    for (int partials = 0; partials < 2; partials++) {
        o.no_partials = !partials;
        early = true;
        run(f.m, &o, f.pcm, f.n, HOP, &on);
        assert_int_equal(on.n_finals, 1);
        assert_int_equal(on.late, 0);
        early = false;
        run(f.m, &o, f.pcm, f.n, HOP, &off);
        assert_true(off.late > 20);
        assert_string_equal(on.finals, off.finals);
    }
    free(f.pcm);
}

/* Silence of 0.6 s, then a finalize or the end: what is left is a final without work. */
static void a_request_takes_the_final_that_was_begun(void **state)
{
    struct fixture f = prepare("tiny.en", JFK, 0, 0.6);
    static struct said by[4];
    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct steno_stream_options o = {.sample_rate = RATE};
        steno_stream *s;
        size_t before;
        memset(&by[i], 0, sizeof by[i]);
        early = i <= 1;
        s = open_stream(f.m, &o);
        push(s, f.pcm, f.n, HOP, &by[i]);
        assert_int_equal(by[i].n_finals, 0);
        before = runs;
        assert_int_equal(i % 2 ? steno_stream_end(s, NULL) : steno_stream_finalize(s, NULL),
                         STENO_OK);
        (void)take_events(s, &by[i]);
        assert_int_equal(by[i].n_finals, 1);
        assert_string_equal(by[i].finals, by[0].finals);
        if (i > 1 ? runs - before < 20 : runs != before)
            fail_msg("%zu runs of networks behind request %d", runs - before, i);
        steno_stream_close(s);
    }
    free(f.pcm);
}

/* With as much audio at a time as the stream asks for, it tells of speech within 0.1 s, and its
 * text comes half a second before its endpoint, after that silence. */
static void speech_and_the_text_are_told_at_once(void **state)
{
    struct fixture f = prepare("tiny.en", JFK, 0, 2);
    const struct steno_stream_options o = {.sample_rate = RATE};
    steno_stream *s = open_stream(f.m, &o);
    static struct said out;
    double shown = 0, final = 0, heard = 0;
    (void)state;
    memset(&out, 0, sizeof out);
    for (size_t at = 0; at < f.n && !final;) {
        const size_t asked = steno_stream_missing(s), before = out.n_partials;
        const size_t n = asked < f.n - at ? asked : f.n - at;
        push(s, f.pcm + at, n, n, &out);
        at += n;
        heard = heard || !out.heard ? heard : (double)at / RATE;
        shown = out.n_partials > before ? (double)at / RATE : shown;
        final = out.n_finals ? (double)at / RATE : 0;
    }
    assert_true(fabs(final - shown - 0.5) < 0.03);
    assert_true(out.heard > 0 && heard - out.heard < 0.11);
    steno_stream_close(s);
    free(f.pcm);
}

/* Thirteen pauses of half a second and more; each final that is begun encodes one window. Where
 * other streams wait, two for each final are dropped at most; else as many as fit into the
 * utterance when the pause between two of them grows by 0.8 s each time. */
static void slow_speech_costs_few_finals_more(void **state)
{
    struct fixture f = prepare("tiny.en", CITIES, 24, 2);
    static struct said idle, busy, off;
    const double seconds = (double)f.n / RATE;
    const struct steno_stream_options o = {.sample_rate = RATE};
    size_t needed, with[2];
    (void)state;
    run(f.m, &o, f.pcm, f.n, 1600, &idle);
    with[0] = windows;
    queued = 0.04;
    run(f.m, &o, f.pcm, f.n, 1600, &busy);
    with[1] = windows;
    early = false;
    run(f.m, &o, f.pcm, f.n, 1600, &off);
    needed = windows;
    print_message("%zu finals, %zu windows; idle %zu, busy %zu\n", off.n_finals, needed, with[0],
                  with[1]);
    assert_in_range(with[1], needed + 1, needed + 2 * off.n_finals);
    assert_in_range(with[0], with[1] + 1, with[1] + off.n_finals * (size_t)sqrt(2 * seconds / 0.8));
    assert_string_equal(idle.finals, off.finals);
    assert_string_equal(busy.finals, off.finals);
    free(f.pcm);
}

/* Streams that are late, or whose work waits for workers, do what is due first. */
static void under_load_no_final_is_begun(void **state)
{
    struct fixture f = prepare("tiny.en", JFK, 0, 2);
    static struct said by[3];
    size_t needed[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct steno_stream_options o = {.sample_rate = RATE};
        steno_stream *s;
        memset(&by[i], 0, sizeof by[i]);
        s = open_stream(f.m, &o);
        for (size_t at = 0; at < f.n; at += 1600) {
            const size_t n = f.n - at < 1600 ? f.n - at : 1600;
            if (i == 1)
                steno_stream_set_waiting(s, RATE / 2);
            else if (i == 2)
                steno_stream_set_queued(s, 0.05 * (double)(at / 1600));
            push(s, f.pcm + at, n, n, &by[i]);
        }
        needed[i] = by[i].late;
        assert_int_equal(by[i].n_finals, 1);
        steno_stream_close(s);
    }
    assert_int_equal(needed[0], 0);
    assert_true(needed[1] > 20 && needed[2] > 20);
    free(f.pcm);
}

/* ---- the same finals ------------------------------------------------------------------------- */

/* Finals with early ones and without; utterances of more than one window, texts that go before the
 * next utterance, alternatives. other: samples of a piece that must change nothing, or 0. */
static void check_same(const char *which, const char *recording, size_t seconds,
                       double silence_after, size_t other)
{
    static const struct steno_option carry = {"carry_context", "yes"};
    struct fixture f = prepare(which, recording, seconds, 2);
    static struct said first, l;
    struct steno_stream_options o = {.sample_rate = RATE,
                                     .n_best = 3,
                                     .options = &carry,
                                     .n_options = 1,
                                     .endpoint = {.silence_after = silence_after}};
    size_t begun;
    run(f.m, &o, f.pcm, f.n, 1600, &first);
    begun = windows;
    if (other) {
        run(f.m, &o, f.pcm, f.n, other, &l);
        assert_string_equal(l.finals, first.finals);
        assert_string_equal(l.partials, first.partials);
    }
    early = false;
    run(f.m, &o, f.pcm, f.n, 1600, &l);
    assert_true(begun > windows); /* some were dropped */
    assert_true(first.n_partials > l.n_partials);
    assert_string_equal(l.finals, first.finals);
    free(f.pcm);
}

static void finals_of_a_long_utterance_are_the_same(void **state)
{
    (void)state;
    check_same("tiny.en", CITIES, 33, 1, 0);
}

static void finals_of_short_utterances_are_the_same(void **state)
{
    (void)state;
    check_same("tiny.en", CITIES, 15, 0.6, 77777);
}

static void finals_whose_language_is_detected_are_the_same(void **state)
{
    (void)state;
    check_same("base", SPANISH, 12, 0.4, 0);
}

/* The end of the segment's audio, if its endpoint is at this sample: 0.06 s behind the last sound,
 * soft or not. */
static size_t end_of_audio(const float *pcm, size_t endpoint)
{
    struct steno_activity a;
    size_t end = 0;
    steno_activity_init(&a, (double)HOP / RATE);
    for (size_t at = 0; at + HOP <= endpoint; at += HOP)
        if (steno_activity_push(&a, pcm + at, HOP) || steno_activity_is_soft(&a))
            end = at + HOP;
    return end + (size_t)(0.06 * RATE);
}

/* Sound between any two steps of an early final drops it; an endpoint and the end of the audio make
 * it the final. */
static void finals_are_the_same_wherever_sound_drops_early_ones(const char *which,
                                                                const char *recording,
                                                                size_t seconds)
{
    static const size_t steps[] = {0, 1, 2};
    static const struct steno_option carry = {"carry_context", "yes"};
    struct fixture f = prepare(which, recording, seconds, 2);
    static struct said whole, l;
    struct steno_stream_options o = {.sample_rate = RATE,
                                     .no_partials = true,
                                     .n_best = 3,
                                     .options = &carry,
                                     .n_options = 1,
                                     .endpoint = {.silence_after = 0.5}};
    size_t all, none;
    run(f.m, &o, f.pcm, f.n, HOP, &whole);
    all = runs;
    early = false;
    run(f.m, &o, f.pcm, f.n, HOP, &l);
    none = runs;
    assert_string_equal(l.finals, whole.finals);
    early = true;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        run_in_steps(f.m, &o, f.pcm, f.n, steps[i], &l);
        assert_string_equal(l.finals, whole.finals);
        if (steps[i] ? runs <= none || runs >= all : runs != none)
            fail_msg("%zu runs of networks with %zu steps a hop, %zu to %zu expected", runs,
                     steps[i], none, all);
    }
    free(f.pcm);
}

static void sound_stops_an_early_final(void **state)
{
    (void)state;
    finals_are_the_same_wherever_sound_drops_early_ones("tiny.en", CITIES, 15);
}

static void sound_stops_an_early_final_while_its_language_is_detected(void **state)
{
    (void)state;
    finals_are_the_same_wherever_sound_drops_early_ones("base", SPANISH, 12);
}

static void a_final_is_what_an_upload_of_its_segment_gives(void **state)
{
    static const char *const recordings[] = {JFK, "audio/speech/beckett.wav"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct fixture f = prepare("tiny.en", recordings[i], 0, 2);
        static struct said live, upload;
        struct steno_stream_options o = {.sample_rate = RATE, .no_partials = true};
        size_t from, to;
        run(f.m, &o, f.pcm, f.n, 1600, &live);
        from = (size_t)(live.start * RATE + 0.5);
        to = end_of_audio(f.pcm, (size_t)(live.time * RATE + 0.5));
        o.no_endpointing = true;
        run(f.m, &o, f.pcm + from, to - from, 1600, &upload);
        assert_true(strlen(upload.finals) > 100 || live.n_finals > 1);
        assert_non_null(strstr(live.finals, upload.finals));
        free(f.pcm);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_the_endpoint_no_network_runs),
        cmocka_unit_test(a_request_takes_the_final_that_was_begun),
        cmocka_unit_test(speech_and_the_text_are_told_at_once),
        cmocka_unit_test(slow_speech_costs_few_finals_more),
        cmocka_unit_test(under_load_no_final_is_begun),
        cmocka_unit_test(finals_of_a_long_utterance_are_the_same),
        cmocka_unit_test(finals_of_short_utterances_are_the_same),
        cmocka_unit_test(finals_whose_language_is_detected_are_the_same),
        cmocka_unit_test(sound_stops_an_early_final),
        cmocka_unit_test(sound_stops_an_early_final_while_its_language_is_detected),
        cmocka_unit_test(a_final_is_what_an_upload_of_its_segment_gives)};
    return cmocka_run_group_tests(tests, NULL, whisper_models_close);
}
