/* How many turns a recording has: words with exact pauses between them, for every pause and every
 * length of silence that ends a turn. Pauses are digital silence or faint noise. A model that is
 * fed by windows (digits-en), and one fed by segments (Whisper). */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speech/audio/file.h"
#include "speech/recognizer/sound.h"
#include "steno.h"
#include "tests/support/test.h"
#include "tests/support/whisper_models.h"

#define RATE 8000
#define WORDS 7
#define SILERO "/models/silero-vad"

/* The words of tests/data/digits.wav, in samples: where their level passes -50 dB. */
static const size_t words[WORDS][2] = {{4080, 7440},   {8560, 12240},  {13600, 16960},
                                       {19040, 23120}, {24880, 29200}, {30320, 35760},
                                       {37360, 40880}};
static const double pauses[] = {0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.3, 1.6, 2.0};
static const double thresholds[] = {0.2, 0.25, 0.35, 0.5, 0.7, 0.9, 1.2};
#define N_PAUSES (sizeof pauses / sizeof *pauses)
#define N_THRESHOLDS (sizeof thresholds / sizeof *thresholds)
#ifdef STENO_SANITIZE /* exact times are the plain build's to check; the code is the same */
#define STEP 2
#else
#define STEP 1
#endif

static float *recording;
static size_t n_recording;

static int read_recording(void **state)
{
    steno_audio *a = NULL;
    size_t n;
    int fd = open("tests/data/digits.wav", O_RDONLY);
    (void)state;
    recording = calloc(100000, sizeof *recording);
    if (!recording || fd < 0 || steno_audio_open_fd(&a, fd, NULL, NULL))
        return -1;
    while (!steno_audio_read(a, recording + n_recording, 100000 - n_recording, &n, NULL) && n)
        n_recording += n;
    steno_audio_close(a);
    close(fd);
    return 0;
}

static int free_recording(void **state)
{
    (void)state;
    free(recording);
    return 0;
}

/* -70 dB of full scale, or nothing. */
static void add_pause(float *pcm, size_t *at, double seconds, bool noise)
{
    static uint32_t seed = 7;
    for (size_t i = 0; i < (size_t)(seconds * RATE); i++) {
        seed = seed * 1664525u + 1013904223u;
        pcm[(*at)++] = noise ? (float)(int32_t)seed * 0x1p-31f * 5e-4f : 0;
    }
}

/* A pause, then each of the first words with a pause after it; free() it. */
static float *with_pauses(size_t n_words, double pause, bool noise, size_t *n)
{
    float *pcm = calloc(30 * RATE, sizeof *pcm);
    assert_non_null(pcm);
    *n = 0;
    add_pause(pcm, n, 0.4, noise);
    for (size_t i = 0; i < n_words; i++) {
        const size_t len = words[i][1] - words[i][0];
        memcpy(pcm + *n, recording + words[i][0], len * sizeof *pcm);
        *n += len;
        add_pause(pcm, n, i + 1 < n_words ? pause : 2.5, noise);
    }
    return pcm;
}

struct turns {
    size_t n, words;
};

/* The words of finals and the ends of utterances of a stream. */
struct spoken {
    double words[WORDS][2], ends[2 * WORDS];
    size_t n_words, n_ends;
};

static void add_events(steno_stream *s, struct spoken *out, double after)
{
    struct steno_event ev;
    while (steno_stream_next(s, &ev)) {
        for (size_t i = 0; ev.kind == STENO_FINAL && i < ev.n_words; i++) {
            assert_true(out->n_words < WORDS);
            out->words[out->n_words][0] = ev.words[i].start;
            out->words[out->n_words++][1] = ev.words[i].end;
        }
        if (ev.kind != STENO_UTTERANCE_END)
            continue;
        assert_true(out->n_ends < 2 * WORDS && ev.time >= ev.end + after - 1e-6);
        out->ends[out->n_ends++] = ev.end;
    }
}

#define WORD_BEFORE 0.23 /* s: of digits-en's model.conf */

/* Every gap between words that is longer than `after` s has one UTTERANCE_END, with the end of the
 * word before it. Gaps near `after` may have one or none: a word is seen up to word_before after it
 * begins. */
static void check_utterance_ends(steno_model *m, double pause, double after, bool endpoints)
{
    const struct steno_stream_options o = {.sample_rate = RATE,
                                           .no_endpointing = !endpoints,
                                           .no_partials = true,
                                           .endpoint = {.silence_after = 0.25},
                                           .utterance_end = after};
    struct spoken got = {0};
    size_t n, at = 0;
    float *pcm = with_pauses(WORDS, pause, false, &n);
    steno_stream *s;
    assert_int_equal(steno_stream_open(&s, m, &o, NULL), STENO_OK);
    assert_int_equal(steno_stream_push(s, pcm, n, NULL), STENO_OK);
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    add_events(s, &got, after);
    assert_int_equal(got.n_words, WORDS);
    for (size_t i = 0; i < WORDS; i++) {
        const double gap = i + 1 < WORDS ? got.words[i + 1][0] - got.words[i][1] : 2.5;
        const bool told = at < got.n_ends && fabs(got.ends[at] - got.words[i][1]) < 1e-6;
        at += told;
        if (fabs(gap - after) > WORD_BEFORE + 0.07 && told != (gap > after))
            fail_msg("word %zu, gap of %.2f s, told after %.2f s: %d", i, gap, after, told);
    }
    assert_int_equal(at, got.n_ends);
    steno_stream_close(s);
    free(pcm);
}

static struct turns turns_of(steno_model *m, const float *pcm, size_t n, double silence_after,
                             const steno_vad *vad)
{
    const struct steno_stream_options o = {.sample_rate = RATE,
                                           .no_partials = true,
                                           .endpoint = {.silence_after = silence_after},
                                           .turn_vad = vad};
    struct turns t = {0};
    struct steno_event ev;
    steno_stream *s;
    assert_int_equal(steno_stream_open(&s, m, &o, NULL), STENO_OK);
    for (size_t at = 0; at < n; at += 800)
        assert_int_equal(steno_stream_push(s, pcm + at, n - at < 800 ? n - at : 800, NULL),
                         STENO_OK);
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    while (steno_stream_next(s, &ev))
        if (ev.kind == STENO_FINAL) {
            assert_int_equal(ev.reason, STENO_FINAL_ENDPOINT);
            t.n++;
            t.words += ev.n_words;
        }
    steno_stream_close(s);
    return t;
}

#define RULE_GRAIN 0.06 /* s: a frame of scores and two of the rule on energy */
#define NET_GRAIN 0.2   /* silero's probability falls up to that long after a word */

/* A turn per word where the pause is longer than the threshold, else one turn. Pauses that differ
 * from it by less than the grain are left out. wants_words: the words are counted, too. */
static void check_matrix(steno_model *m, const steno_vad *vad, bool noise, size_t step,
                         size_t n_words, bool wants_words)
{
    for (size_t p = 0; p < N_PAUSES; p += step) {
        size_t n;
        float *pcm = with_pauses(n_words, pauses[p], noise, &n);
        for (size_t t = 0; t < N_THRESHOLDS; t += step) {
            struct turns got;
            const size_t want = pauses[p] > thresholds[t] ? n_words : 1;
            if (fabs(pauses[p] - thresholds[t]) < (vad ? NET_GRAIN : RULE_GRAIN))
                continue;
            got = turns_of(m, pcm, n, thresholds[t], vad);
            if (got.n != want || (wants_words && got.words != n_words))
                fail_msg("pause %.2f s, threshold %.2f s, %s: %zu turns of %zu words, expected %zu",
                         pauses[p], thresholds[t], noise ? "noise" : "silence", got.n, got.words,
                         want);
        }
        free(pcm);
    }
}

static void pauses_are_counted_exactly_by_windows(void **state)
{
    steno_model *m;
    (void)state;
    assert_int_equal(steno_model_open(&m, "conf/models/digits-en", NULL, NULL), STENO_OK);
    check_matrix(m, NULL, false, STEP, WORDS, true);
    check_matrix(m, NULL, true, STEP, WORDS, true);
    steno_model_close(m);
}

static void pauses_are_counted_exactly_by_segments(void **state)
{
    const char *dir = whisper_model("tiny.en");
    struct steno_model_options o = steno_model_options_default();
    steno_model *m;
    (void)state;
    if (!dir)
        skip();
    o.precision = STENO_INT8_WEIGHTS; /* turns are counted, whatever the words are */
    assert_int_equal(steno_model_open(&m, dir, &o, NULL), STENO_OK);
    check_matrix(m, NULL, false, 3, 3, false);
    check_matrix(m, NULL, true, 3, 3, false);
    steno_model_close(m);
}

static void utterances_end_once_at_their_time(void **state)
{
    static const double after[] = {0.5, 1.0, 1.2};
    steno_model *m;
    (void)state;
    assert_int_equal(steno_model_open(&m, "conf/models/digits-en", NULL, NULL), STENO_OK);
    for (size_t p = 0; p < N_PAUSES; p += STEP)
        for (size_t a = 0; a < 3; a++)
            for (int endpoints = 0; endpoints < 2; endpoints++)
                check_utterance_ends(m, pauses[p], after[a], endpoints);
    steno_model_close(m);
}

static void silero_counts_them_too(void **state)
{
    const char *shared = getenv("STENO_SHARED");
    char dir[1024];
    steno_model *m;
    steno_vad *v;
    (void)state;
    snprintf(dir, sizeof dir, "%s" SILERO, shared ? shared : "../shared");
    if (access(dir, R_OK)) {
        print_message("%s is not there: silero-vad is not tried\n", dir);
        skip();
    }
    assert_int_equal(steno_vad_open(&v, dir, NULL), STENO_OK);
    assert_int_equal(steno_model_open(&m, "conf/models/digits-en", NULL, NULL), STENO_OK);
    check_matrix(m, v, false, STEP, WORDS, true);
    check_matrix(m, v, true, STEP, WORDS, true);
    steno_model_close(m);
    steno_vad_close(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_are_counted_exactly_by_windows),
        cmocka_unit_test(pauses_are_counted_exactly_by_segments),
        cmocka_unit_test(utterances_end_once_at_their_time),
        cmocka_unit_test(silero_counts_them_too),
    };
    return cmocka_run_group_tests_name("turns", tests, read_recording, free_recording);
}
