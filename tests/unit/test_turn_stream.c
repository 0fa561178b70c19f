/* Streams whose ends of turns a network decides. Networks that always say yes, or no, show when it
 * is asked; the real one of ../shared/turn hears real speech, with Whisper tiny.en as the model. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "speech/pool/pool.h"
#include "speech/recognizer/stream.h"
#include "speech/recognizer/turn_watch.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"
#include "tests/support/whisper_models.h"

#define RATE 8000 /* of digits-en */
#define WORDS 7
#define LONGEST (40 * 16000)

/* The words of tests/data/digits.wav, as in test_turns.c. */
static const size_t words[WORDS][2] = {{4080, 7440},   {8560, 12240},  {13600, 16960},
                                       {19040, 23120}, {24880, 29200}, {30320, 35760},
                                       {37360, 40880}};
static float digits[100000];
static steno_model *model;
static steno_turn_detector *yes, *no; /* whatever they hear */

/* A network that gives `value` for each turn. */
static steno_turn_detector *always(float value)
{
    struct mk_graph *g = mk_new(13);
    steno_turn_detector *d;
    char *path;
    mk_input(g, "input_features", STENO_F32, "n,80,800");
    mk_f32(g, "zero", "", &(float){0}, 1);
    mk_f32(g, "value", "", &value, 1);
    mk_node(g, "ReduceMax", "input_features", "m");
    mk_attr_ints(g, "axes", (int64_t[]){1, 2}, 2);
    mk_attr_int(g, "keepdims", 0);
    pc_graph(g, "Mul m,zero z; Add z,value logits");
    mk_output(g, "logits", STENO_F32, "n");
    path = mk_file(g);
    mk_free(g);
    assert_int_equal(steno_turn_detector_open(&d, path, NULL), STENO_OK);
    mk_unlink(path);
    return d;
}

static size_t read_all(const char *path, float *pcm, size_t max)
{
    steno_recording *r;
    size_t n = 0, k = 1;
    if (steno_recording_open(&r, path, 0, NULL))
        return 0;
    while (k && n < max && !steno_recording_read(r, pcm + n, max - n, &k, NULL))
        n += k;
    steno_recording_close(r);
    return n;
}

static int begin(void **state)
{
    (void)state;
    if (!read_all("tests/data/digits.wav", digits, sizeof digits / sizeof *digits) ||
        steno_model_open(&model, "conf/models/digits-en", NULL, NULL))
        return -1;
    yes = always(0.75f);
    no = always(0.25f);
    return 0;
}

static int end(void **state)
{
    (void)state;
    steno_model_close(model);
    steno_turn_detector_close(yes);
    steno_turn_detector_close(no);
    return 0;
}

struct finals {
    size_t n;
    double time[16]; /* when each came, s */
    char text[16][300];
    enum steno_final_reason reason[16];
};

static void take(steno_stream *s, struct finals *f)
{
    struct steno_event ev;
    while (steno_stream_next(s, &ev))
        if (ev.kind == STENO_FINAL && f->n < 16) {
            f->time[f->n] = ev.time;
            f->reason[f->n] = ev.reason;
            snprintf(f->text[f->n++], sizeof f->text[0], "%s", ev.text);
        }
}

static void hear(steno_model *m, const steno_turn_detector *d, double threshold, double silence,
                 const float *pcm, size_t n, int rate, size_t push, struct finals *f)
{
    const struct steno_stream_options o = {.sample_rate = rate,
                                           .endpoint = {.silence_after = silence}};
    steno_stream *s;
    steno_err err = {0};
    *f = (struct finals){0};
    assert_int_equal(steno_stream_open(&s, m, &o, NULL), STENO_OK);
    if (d)
        assert_int_equal(steno_stream_set_turn(s, d, threshold, 0, NULL), STENO_OK);
    for (size_t at = 0; at < n; at += push) {
        if (steno_stream_push(s, pcm + at, n - at < push ? n - at : push, &err))
            fail_msg("%s", err.msg);
        take(s, f);
    }
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    take(s, f);
    steno_stream_close(s);
}

/* The words with a pause (s) before each and 3 s behind the last. */
static size_t with_pauses(double pause, float *out)
{
    size_t n = 0;
    for (size_t w = 0; w < WORDS; w++) {
        n += (size_t)(pause * RATE);
        memcpy(out + n, digits + words[w][0], (words[w][1] - words[w][0]) * sizeof *out);
        n += words[w][1] - words[w][0];
    }
    return n + 3 * RATE;
}

static void a_yes_ends_at_the_pause_and_a_no_waits_for_the_endpoint(void **state)
{
    float *pcm = calloc(LONGEST, sizeof *pcm);
    const size_t n = with_pauses(0.7, pcm);
    struct finals f, other;
    (void)state;
    hear(model, NULL, 0, 2, pcm, n, RATE, 800, &f);
    assert_int_equal(f.n, 1); /* silence alone: no pause is long enough */
    hear(model, no, 0, 2, pcm, n, RATE, 800, &other);
    assert_int_equal(other.n, 1);
    assert_string_equal(other.text[0], f.text[0]);
    assert_true(other.time[0] == f.time[0]);
    hear(model, yes, 0, 2, pcm, n, RATE, 800, &f);
    assert_int_equal(f.n, WORDS);
    for (size_t w = 0; w < WORDS; w++)
        assert_int_equal(f.reason[w], STENO_FINAL_ENDPOINT);
    /* 0.2 s of silence, to the end of the network's chunk; the last one is not the end's */
    assert_true(f.time[WORDS - 1] < (double)n / RATE - 3 + 1);
    hear(model, yes, 0.9, 2, pcm, n, RATE, 800, &f); /* 0.75 is not enough */
    assert_int_equal(f.n, 1);
    hear(model, no, 0.2, 2, pcm, n, RATE, 800, &f);
    assert_int_equal(f.n, WORDS);
    free(pcm);
}

/* A pause that may be an end is told once, with the words so far and the network's probability. */
static void a_pause_that_may_be_an_end_is_told(void **state)
{
    static const struct {
        double threshold, early;
        size_t told, finals;
    } rows[] = {{0.9, 0.5, WORDS, 1}, /* 0.75 is between them */
                {0.9, 0.75, WORDS, 1}, {0.9, 0.8, 0, 1}, {0.9, 0, 0, 1},
                {0.5, 0.5, 0, WORDS}, /* an end is no pause that may be one */
                {1, 0.5, WORDS, 1}};
    const struct steno_stream_options o = {.sample_rate = RATE, .endpoint = {.silence_after = 2}};
    float *pcm = calloc(LONGEST, sizeof *pcm);
    const size_t n = with_pauses(0.7, pcm);
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct steno_turn_stats stats;
        struct steno_event ev;
        steno_stream *s;
        size_t told = 0, finals = 0, words_said = 0;
        assert_int_equal(steno_stream_open(&s, model, &o, NULL), STENO_OK);
        assert_int_equal(steno_stream_set_turn(s, yes, rows[i].threshold, rows[i].early, NULL),
                         STENO_OK);
        for (size_t at = 0; at < n; at += 800) {
            const size_t k = n - at < 800 ? n - at : 800;
            assert_int_equal(steno_stream_push(s, pcm + at, k, NULL), STENO_OK);
            while (steno_stream_next(s, &ev)) {
                finals += ev.kind == STENO_FINAL;
                words_said = ev.kind == STENO_PARTIAL ? ev.n_words : words_said;
                if (ev.kind != STENO_UTTERANCE_END)
                    continue;
                told++;
                assert_true(ev.confidence == 0.75f);
                assert_true(ev.end > 0 && ev.end <= ev.time);
                assert_true(words_said >= told);
            }
        }
        stats = steno_stream_turn_stats(s);
        assert_int_equal(told, rows[i].told);
        assert_int_equal(finals, rows[i].finals);
        assert_int_equal(stats.answers, WORDS);
        assert_int_equal(stats.ends, rows[i].finals == WORDS ? WORDS : 0);
        assert_true(stats.seconds > 0);
        steno_stream_close(s);
    }
    free(pcm);
}

static void events_do_not_depend_on_pushes(void **state)
{
    static const size_t pushes[] = {80, 777, 100000};
    float *pcm = calloc(LONGEST, sizeof *pcm);
    const size_t n = with_pauses(0.7, pcm);
    struct finals f, other;
    (void)state;
    hear(model, yes, 0, 2, pcm, n, RATE, 160, &f);
    for (size_t i = 0; i < sizeof pushes / sizeof *pushes; i++) {
        hear(model, yes, 0, 2, pcm, n, RATE, pushes[i], &other);
        assert_memory_equal(&f, &other, sizeof f);
    }
    free(pcm);
}

/* Streams of one batch: some have an answer due, some a step. */
static void streams_of_one_batch_are_as_alone(void **state)
{
    enum { N = 5 };
    float *pcm = calloc(LONGEST, sizeof *pcm);
    const size_t n = with_pauses(0.7, pcm);
    struct finals alone, f[N] = {{0}};
    steno_batcher *b;
    steno_stream *s[N];
    size_t at[N] = {0};
    const struct steno_stream_options o = {.sample_rate = RATE, .endpoint = {.silence_after = 2}};
    (void)state;
    hear(model, yes, 0, 2, pcm, n, RATE, 800, &alone);
    assert_int_equal(steno_batcher_open(&b, model, 4, NULL), STENO_OK);
    for (int i = 0; i < N; i++) {
        assert_int_equal(steno_stream_open(&s[i], model, &o, NULL), STENO_OK);
        if (i)
            assert_int_equal(steno_stream_set_turn(s[i], i == 1 ? no : yes, 0, 0, NULL), STENO_OK);
    }
    for (bool more = true; more;) {
        steno_stream *due[N];
        steno_status st[N];
        size_t n_due = 0;
        more = false;
        for (int i = 0; i < N; i++) {
            size_t used = 0,
                   k = n - at[i] < 400 + 70 * (size_t)i ? n - at[i] : 400 + 70 * (size_t)i;
            if (!steno_stream_ready(s[i]) && at[i] < n)
                assert_int_equal(steno_stream_feed(s[i], pcm + at[i], k, &used, NULL), STENO_OK);
            at[i] += used;
            if (steno_stream_ready(s[i]))
                due[n_due++] = s[i];
            more |= at[i] < n || steno_stream_ready(s[i]);
        }
        steno_streams_step(b, due, n_due, st, NULL);
        for (size_t i = 0; i < n_due; i++)
            assert_int_equal(st[i], STENO_OK);
        for (int i = 0; i < N; i++)
            take(s[i], &f[i]);
    }
    assert_int_equal(f[0].n, 1); /* 3 s of silence behind the last word */
    assert_int_equal(f[1].n, 1);
    for (int i = 2; i < N; i++)
        assert_memory_equal(&f[i], &alone, sizeof alone);
    for (int i = 0; i < N; i++)
        steno_stream_close(s[i]);
    steno_batcher_close(b);
    free(pcm);
}

/* ---- in the pool ----------------------------------------------------------------------------- */

struct pooled {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    size_t model_steps; /* streams of all batches */
    struct steno_pool_stream_stats stats;
};

static void count_batch(void *user, size_t n)
{
    ((struct pooled *)user)->model_steps += n; /* of the one worker */
}

static void on_note(void *user, steno_pool_stream *ps, const struct steno_pool_note *n)
{
    struct pooled *p = user;
    (void)ps;
    if (n->kind != STENO_POOL_DONE)
        return;
    pthread_mutex_lock(&p->lock);
    p->done = true;
    p->stats = n->stats;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* Answers are counted, and are no steps of the model: capacity and metrics of batches know which
 * is which. */
static void the_pool_counts_answers_apart(void **state)
{
    static float pcm[LONGEST];
    const size_t n = with_pauses(0.7, pcm);
    size_t steps[2];
    (void)state;
    for (int with = 0; with < 2; with++) {
        struct pooled p = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
        const struct steno_pool_options opt = {.workers = 1,
                                               .capacity = -1,
                                               .buffer_seconds = 60,
                                               .on_batch = count_batch,
                                               .user = &p};
        const struct steno_pool_stream_options o = {
            .stream = {.sample_rate = RATE, .endpoint = {.silence_after = 2}},
            .turn = with ? no : NULL};
        steno_pool *pool;
        steno_pool_stream *ps;
        size_t taken;
        assert_int_equal(steno_pool_open(&pool, model, &opt, NULL), STENO_OK);
        assert_int_equal(steno_pool_stream_open(&ps, pool, &o, on_note, &p, NULL), STENO_OK);
        assert_int_equal(steno_pool_stream_push(ps, pcm, n, &taken, NULL), STENO_OK);
        assert_int_equal(taken, n);
        steno_pool_stream_end(ps);
        pthread_mutex_lock(&p.lock);
        while (!p.done)
            pthread_cond_wait(&p.changed, &p.lock);
        pthread_mutex_unlock(&p.lock);
        steno_pool_stream_close(ps);
        steno_pool_close(pool);
        steps[with] = p.model_steps;
        assert_int_equal(p.stats.turn_answers, with ? WORDS : 0);
        assert_int_equal(p.stats.turn_ends, 0);
        assert_true((p.stats.turn_seconds > 0) == (with == 1));
        assert_true(p.stats.turn_seconds <= p.stats.inference_seconds);
    }
    assert_true(steps[0] > 0);
    assert_int_equal(steps[0], steps[1]);
}

static void wrong_settings_are_refused(void **state)
{
    static const double wrong[] = {-0.1, 1.01, NAN, INFINITY};
    const struct steno_stream_options whole = {.sample_rate = RATE, .no_endpointing = true};
    steno_stream *s;
    (void)state;
    assert_int_equal(steno_stream_open(&s, model, NULL, NULL), STENO_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int early = 0; early < 2; early++)
            assert_int_equal(
                steno_stream_set_turn(s, yes, early ? 0.5 : wrong[i], early ? wrong[i] : 0, NULL),
                STENO_ERR_INVAL);
    assert_int_equal(steno_stream_set_turn(s, yes, 0.5, 0, NULL), STENO_OK);
    assert_int_equal(steno_stream_set_turn(s, no, 0.5, 0, NULL), STENO_OK); /* instead of it */
    assert_int_equal(steno_stream_push(s, digits, 100, NULL), STENO_OK);
    assert_int_equal(steno_stream_set_turn(s, yes, 0.5, 0, NULL), STENO_ERR_INVAL);
    steno_stream_close(s);
    assert_int_equal(steno_stream_open(&s, model, &whole, NULL), STENO_OK);
    assert_int_equal(steno_stream_set_turn(s, yes, 0.5, 0, NULL), STENO_ERR_INVAL);
    steno_stream_close(s);
}

/* ---- questions ------------------------------------------------------------------------------- */

static void it_is_asked_once_in_a_pause(void **state)
{
    steno_turn_watch *w;
    struct steno_turn_judges j = {0};
    const float silence[1000] = {0};
    bool complete;
    (void)state;
    assert_int_equal(steno_turn_watch_open(&w, yes, 0, 0, 1000, NULL),
                     STENO_ERR_INVAL); /* a rate */
    assert_int_equal(steno_turn_watch_open(&w, yes, 0, 0, 16000, NULL), STENO_OK);
    assert_int_equal(steno_turn_watch_push(w, silence, 1000, NULL), STENO_OK);
    assert_int_equal(steno_turn_watch_missing(w, 16000, 16000), 3200);
    steno_turn_watch_see(w, 16000, 19199);
    assert_false(steno_turn_watch_due(w));
    steno_turn_watch_see(w, 16000, 19200);
    assert_true(steno_turn_watch_due(w));
    assert_int_equal(steno_turn_watches_judge(&j, &w, 1, &complete, NULL), STENO_OK);
    assert_true(complete && !steno_turn_watch_due(w));
    steno_turn_watch_see(w, 16000, 32000); /* asked already */
    steno_turn_watch_see(w, 17500, 32000); /* a click */
    assert_false(steno_turn_watch_due(w));
    assert_true(steno_turn_watch_missing(w, 16000, 32000) == SIZE_MAX);
    steno_turn_watch_see(w, 17600, 32000); /* more was said */
    assert_true(steno_turn_watch_due(w));
    assert_int_equal(steno_turn_watch_reset(w, NULL), STENO_OK);
    assert_false(steno_turn_watch_due(w));
    steno_turn_watch_see(w, 100, 3300);
    assert_true(steno_turn_watch_due(w));
    steno_turn_watch_see(NULL, 0, 1e9); /* none */
    assert_false(steno_turn_watch_due(NULL));
    steno_turn_watch_close(w);
    steno_turn_judges_close(&j);
}

/* ---- real speech ----------------------------------------------------------------------------- */

/* Sentences of a person on the phone, one after the other, and one that breaks off for 0.8 s. */
static void a_pause_in_a_sentence_goes_on_and_a_sentence_ends_early(void **state)
{
    static const size_t parts[][2] = {
        {208800, 271200}, /* "... with diarization functionality, but" */
        {60800, 129600},  /* "Have you tried ... Microsoft Speech Service?" */
    };
    const char *root = getenv("STENO_SHARED"), *dir = whisper_model("tiny.en");
    char path[4096], wav[4096];
    float *all = malloc(LONGEST * sizeof *all), *pcm = calloc(LONGEST, sizeof *pcm);
    steno_turn_detector *d = NULL;
    steno_model *m = NULL;
    struct finals f;
    struct stat sb;
    size_t n;
    double sentence;
    (void)state;
    snprintf(path, sizeof path, "%s/turn", root ? root : "../shared");
    snprintf(wav, sizeof wav, "%s/audio/real/katiesteve.wav", root ? root : "../shared");
    if (!dir || stat(path, &sb)) {
        print_message("# skipped: without tiny.en and %s\n", path);
        free(all);
        free(pcm);
        skip();
    }
    assert_int_equal(steno_turn_detector_open(&d, path, NULL), STENO_OK);
    assert_int_equal(steno_model_open(&m, dir, NULL, NULL), STENO_OK);
    assert_true(read_all(wav, all, LONGEST) > parts[0][1]);
    n = parts[0][1] - parts[0][0];
    memcpy(pcm, all + parts[0][0], n * sizeof *pcm);
    n += 12800; /* silence */
    memcpy(pcm + n, all + parts[1][0], (parts[1][1] - parts[1][0]) * sizeof *pcm);
    n += parts[1][1] - parts[1][0];
    sentence = (double)n / 16000;
    n += 5 * 16000;
    hear(m, d, 0, 3, pcm, n, 16000, 1600, &f);
    assert_int_equal(f.n, 1);
    assert_non_null(strstr(f.text[0], "functionality"));
    assert_non_null(strstr(f.text[0], "Speech Service"));
    assert_true(f.time[0] < sentence + 1); /* the endpoint would come 3 s behind it */
    hear(m, NULL, 0, 0.5, pcm, n, 16000, 1600, &f);
    assert_true(f.n >= 2); /* a rule on silence as fast cuts the sentence */
    steno_model_close(m);
    steno_turn_detector_close(d);
    free(all);
    free(pcm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_yes_ends_at_the_pause_and_a_no_waits_for_the_endpoint),
        cmocka_unit_test(a_pause_that_may_be_an_end_is_told),
        cmocka_unit_test(events_do_not_depend_on_pushes),
        cmocka_unit_test(streams_of_one_batch_are_as_alone),
        cmocka_unit_test(the_pool_counts_answers_apart),
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(it_is_asked_once_in_a_pause),
        cmocka_unit_test(a_pause_in_a_sentence_goes_on_and_a_sentence_ends_early),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
