/* ldflags: -Wl,--wrap=steno_whisper_encode,--wrap=steno_session_run,--wrap=steno_session_get */
/* Whisper as any model: events of a stream, whatever the pieces that the samples come in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/recognizer/batcher.h"
#include "speech/recognizer/stream.h"
#include "steno.h"
#include "tests/support/test.h"
#include "tests/support/whisper_memo.h"
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
    steno_model *m = whisper_model_kept("tiny.en", STENO_FP32);
    char text[1000];
    size_t n;
    float *pcm = m ? whisper_recording("zoo/whisper/audio/jfk_16k.flac", &n) : NULL;
    (void)state;
    if (!pcm)
        skip();
    for (size_t i = 0; i < 3; i++) {
        run(m, pcm, n, pieces[i], text, sizeof text);
        assert_string_equal(text, WANT);
    }
    free(pcm);
}

/* ---- partials ------------------------------------------------------------------------------ */

#define MAX_PARTIALS 200
#define MAX_WORDS 200 /* of an utterance */

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

static void run_options(steno_model *m, const float *pcm, size_t n, size_t piece,
                        const struct steno_stream_options *o, struct live *l)
{
    steno_stream *s;
    memset(l, 0, sizeof *l);
    assert_int_equal(steno_stream_open(&s, m, o, NULL), STENO_OK);
    for (size_t at = 0; at < n; at += piece) {
        assert_int_equal(steno_stream_push(s, pcm + at, n - at < piece ? n - at : piece, NULL),
                         STENO_OK);
        read_live(s, l);
    }
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    read_live(s, l);
    steno_stream_close(s);
}

static void run_live(steno_model *m, const float *pcm, size_t n, size_t piece, bool partials,
                     struct live *l)
{
    const struct steno_stream_options o = {.sample_rate = 16000, .no_partials = !partials};
    run_options(m, pcm, n, piece, &o, l);
}

/* Partials and finals of the first seconds, however the audio comes. */
static void check_live(const char *which, const char *recording, size_t seconds, size_t runs)
{
    static const size_t pieces[] = {1600, 160000, 777};
    static struct live first, l;
    steno_model *m = whisper_model_kept(which, STENO_INT8_WEIGHTS);
    size_t n;
    float *pcm = m ? whisper_recording(recording, &n) : NULL;
    if (!pcm)
        skip();
    n = n < 16000 * seconds ? n : 16000 * seconds;
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

static void partials_of_tiny_en_keep_what_is_stable(void **state)
{
    (void)state;
    check_live("tiny.en", "zoo/whisper/audio/jfk_16k.flac", 11, 3);
}

static void partials_of_a_long_utterance_keep_what_is_stable(void **state)
{
    (void)state;
    check_live("tiny.en", "audio/speech/two_cities_16k.wav", 35, 1);
}

static void partials_of_base_keep_what_is_stable(void **state)
{
    const bool all = getenv("STENO_WHISPER_ALL") != NULL;
    (void)state;
    check_live("base", "audio/real/es-mx_en-us.wav", all ? 30 : 12, all ? 3 : 1);
}

/* Words of partials that a later partial, or the final, has no more in their place, of all that
 * were shown, %; whole partials and finals in the order of a run, one utterance. */
static double taken_back(const struct live *l)
{
    char before[MAX_WORDS][40], now[MAX_WORDS][40];
    size_t n = 0, shown = 0, back = 0;
    for (size_t i = 0; i <= l->n_partials; i++) {
        char text[4000], *rest = NULL, *p;
        size_t m = 0, kept = 0;
        const char *from =
            i < l->n_partials ? strchr(strchr(l->partials[i], ' ') + 1, ' ') : l->finals;
        snprintf(text, sizeof text, "%s", from);
        for (p = strtok_r(text, " \n", &rest); p && m < MAX_WORDS; p = strtok_r(NULL, " \n", &rest))
            snprintf(now[m++], sizeof now[0], "%s", p);
        for (size_t k = 0; k < n && k < m;
             k++) /* marks that are put behind a word change nothing */
            kept +=
                !strncmp(before[k], now[k], strlen(before[k])) &&
                strlen(now[k]) == strlen(before[k]) + strspn(now[k] + strlen(before[k]), ".,?!");
        back += n - kept;
        shown += m - kept;
        memcpy(before, now, sizeof now);
        n = m;
    }
    return 100.0 * (double)back / (double)shown;
}

/* An utterance of 11 s: finals are the same, partials take fewer words back. */
static void steady_partials_change_no_final(void **state)
{
    static const struct steno_option guesses = {"stabilize_partials", "no"};
    static struct live steady, every;
    struct steno_stream_options all = {.sample_rate = 16000, .options = &guesses, .n_options = 1};
    steno_model *m = whisper_model_kept("tiny.en", STENO_INT8_WEIGHTS);
    size_t n;
    float *pcm = m ? whisper_recording("zoo/whisper/audio/jfk_16k.flac", &n) : NULL;
    (void)state;
    if (!pcm)
        skip();
    run_live(m, pcm, n, 1600, true, &steady);
    run_options(m, pcm, n, 1600, &all, &every);
    assert_string_equal(steady.finals, every.finals);
    assert_true(steady.n_partials > every.n_partials);
    print_message("taken back: %.1f %%, of every guess %.1f %%\n", taken_back(&steady),
                  taken_back(&every));
    assert_true(taken_back(&steady) <= 10 && taken_back(&every) >= 2 * taken_back(&steady));
    free(pcm);
}

/* Partials of a stream whose work waits this long for a worker before each push of 0.1 s. */
static void run_queued(steno_model *m, const float *pcm, size_t n, double wait, struct live *l)
{
    const struct steno_stream_options o = {.sample_rate = 16000};
    steno_stream *s;
    memset(l, 0, sizeof *l);
    assert_int_equal(steno_stream_open(&s, m, &o, NULL), STENO_OK);
    for (size_t at = 0; at < n; at += 1600) {
        steno_stream_set_queued(s, wait * (double)(at / 1600));
        assert_int_equal(steno_stream_push(s, pcm + at, n - at < 1600 ? n - at : 1600, NULL),
                         STENO_OK);
        read_live(s, l);
    }
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    read_live(s, l);
    steno_stream_close(s);
}

static void partials_that_wait_for_a_worker_become_rarer(void **state)
{
    static struct live alone, busy;
    steno_model *m = whisper_model_kept("tiny.en", STENO_INT8_WEIGHTS);
    size_t n;
    float *pcm = m ? whisper_recording("zoo/whisper/audio/jfk_16k.flac", &n) : NULL;
    (void)state;
    if (!pcm)
        skip();
    run_queued(m, pcm, n, 0, &alone);
    run_queued(m, pcm, n, 0.05, &busy);
    assert_true(alone.n_partials >= 8 && busy.n_partials >= 2);
    assert_true(2 * busy.n_partials <= alone.n_partials);
    free(pcm);
}

/* ---- windows side by side ------------------------------------------------------------------ */

/* Two recordings with a pause between them, 57 s. */
static float *long_recording(size_t *n)
{
    size_t a, b, gap = 40000;
    float *x = whisper_recording("audio/speech/two_cities_16k.wav", &a), *both;
    float *y = x ? whisper_recording("zoo/whisper/audio/jfk_16k.flac", &b) : NULL;
    if (!y)
        return NULL;
    *n = a + gap + b;
    both = calloc(*n, sizeof *both);
    assert_non_null(both);
    memcpy(both, x, a * sizeof *x);
    memcpy(both + a + gap, y, b * sizeof *y);
    free(x);
    free(y);
    return both;
}

static steno_model *open_batched(const char *dir)
{
    const struct steno_option batched = {"batched", "4"};
    struct steno_model_options o = steno_model_options_default();
    steno_model *m;
    steno_err err = {0};
    o.options = &batched;
    o.n_options = 1;
    if (steno_model_open(&m, dir, &o, &err))
        fail_msg("%s", err.msg);
    return m;
}

static void side_by_side_no_word_is_lost_or_doubled(void **state)
{
    static const size_t pieces[] = {1000000, 1111};
    static const char *const once[] = {
        "best of times", "epoch of belief",  "winter of despair",  "evil",
        "superlative",   "fellow Americans", "do for your country"};
    const char *dir = whisper_model("tiny.en");
    char text[2][3000];
    size_t n;
    float *pcm = dir ? long_recording(&n) : NULL;
    steno_model *m;
    (void)state;
    if (!pcm)
        skip();
    m = open_batched(dir);
    for (size_t i = 0; i < 2; i++)
        run(m, pcm, n, pieces[i], text[i], sizeof text[i]);
    assert_string_equal(text[0], text[1]);
    for (size_t i = 0, at = 0; i < sizeof once / sizeof *once; i++) {
        const char *p = strstr(text[0] + at, once[i]);
        if (!p || strstr(p + 1, once[i]) || (size_t)(p - text[0]) < at)
            fail_msg("'%s' is not there once, in order: %s", once[i], text[0]);
        at = (size_t)(p - text[0]);
    }
    steno_model_close(m);
    free(pcm);
}

/* All samples at once, as far as the stream takes them; the rest is for later. */
struct fed {
    steno_stream *s;
    const float *pcm;
    size_t at, n;
    bool done;
};

static void feed_on(struct fed *f)
{
    while (!f->done && !steno_stream_ready(f->s)) {
        size_t used = 0;
        if (f->at < f->n)
            assert_int_equal(steno_stream_feed(f->s, f->pcm + f->at, f->n - f->at, &used, NULL),
                             STENO_OK);
        else
            assert_int_equal(steno_stream_flush(f->s, true, &f->done, NULL), STENO_OK);
        f->at += used;
    }
}

/* Steps until the first of f [n] is done. */
static size_t steps_of_first(steno_batcher *b, struct fed *f, size_t n)
{
    size_t steps = 0;
    for (; !f[0].done; steps++) {
        steno_stream *ready[2];
        steno_status st[2];
        size_t k = 0;
        for (size_t i = 0; i < n; i++) {
            feed_on(&f[i]);
            if (!f[i].done)
                ready[k++] = f[i].s;
        }
        if (!f[0].done)
            steno_streams_step(b, ready, k, st, NULL);
    }
    return steps;
}

static struct fed open_fed(steno_model *m, const float *pcm, size_t n)
{
    struct steno_stream_options o = steno_stream_options_default();
    struct fed f = {.pcm = pcm, .n = n};
    o.sample_rate = 16000;
    assert_int_equal(steno_stream_open(&f.s, m, &o, NULL), STENO_OK);
    return f;
}

/* A step encodes one window at most, so that a long recording delays no short one. */
static void a_long_recording_takes_no_steps_from_a_short_one(void **state)
{
    const char *dir = whisper_model("tiny.en");
    size_t n, n_clip, alone, beside;
    float *pcm = dir ? long_recording(&n) : NULL;
    float *clip = pcm ? whisper_recording("audio/librispeech/61-70968-0002.flac", &n_clip) : NULL;
    steno_model *m;
    steno_batcher *b;
    struct fed f[2];
    (void)state;
    if (!clip)
        skip();
    m = open_batched(dir);
    assert_int_equal(steno_batcher_open(&b, m, 2, NULL), STENO_OK);
    f[0] = open_fed(m, clip, n_clip);
    alone = steps_of_first(b, f, 1);
    steno_stream_close(f[0].s);
    f[0] = open_fed(m, clip, n_clip);
    f[1] = open_fed(m, pcm, n);
    beside = steps_of_first(b, f, 2);
    assert_int_equal(alone, beside);
    assert_false(f[1].done);
    assert_int_equal(steno_batcher_network_ns(b), 0); /* no trial times it */
    steno_stream_close(f[0].s);
    steno_stream_close(f[1].s);
    steno_batcher_close(b);
    steno_model_close(m);
    free(pcm);
    free(clip);
}

/* jfk, two_cities and the beginning of katiesteve, with pauses of 0.46 and 1.32 s: the second chunk
 * has 27 s of the one and then of the other. */
static float *three_speakers(size_t *n)
{
    size_t m[3];
    float *part[3] = {whisper_recording("zoo/whisper/audio/jfk_16k.flac", &m[0]),
                      whisper_recording("audio/speech/two_cities_16k.wav", &m[1]),
                      whisper_recording("audio/real/katiesteve.wav", &m[2])};
    const size_t at[3] = {0, m[0] + 7380, m[0] + 7380 + m[1] + 21068}, end = 60 * 16000;
    float *pcm = part[0] && part[1] && part[2] ? calloc(end, sizeof *pcm) : NULL;
    for (int i = 0; pcm && i < 3; i++)
        memcpy(pcm + at[i], part[i], (i < 2 ? m[i] : end - at[i]) * sizeof *pcm);
    for (int i = 0; i < 3; i++)
        free(part[i]);
    *n = end;
    return pcm;
}

/* Without timestamps base writes the last words of that chunk alone. */
static void side_by_side_no_text_is_skipped(void **state)
{
    const char *dir = whisper_model("base");
    size_t n;
    float *pcm = dir ? three_speakers(&n) : NULL;
    char text[4000];
    steno_model *m;
    (void)state;
    if (!pcm)
        skip();
    m = open_batched(dir);
    run(m, pcm, n, n, text, sizeof text);
    if (!strstr(text, "winter of despair") || !strstr(text, "noisiest authorities") ||
        !strstr(text, "comparison only") || !strstr(text, "Good morning"))
        fail_msg("%s", text);
    steno_model_close(m);
    free(pcm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_any_length_give_the_text),
        cmocka_unit_test(partials_of_tiny_en_keep_what_is_stable),
        cmocka_unit_test(partials_of_a_long_utterance_keep_what_is_stable),
        cmocka_unit_test(partials_of_base_keep_what_is_stable),
        cmocka_unit_test(steady_partials_change_no_final),
        cmocka_unit_test(partials_that_wait_for_a_worker_become_rarer),
        cmocka_unit_test(side_by_side_no_word_is_lost_or_doubled),
        cmocka_unit_test(side_by_side_no_text_is_skipped),
        cmocka_unit_test(a_long_recording_takes_no_steps_from_a_short_one)};
    return cmocka_run_group_tests(tests, NULL, whisper_models_close);
}
