/* Streams of WeNet's own layout, whose finals the attention decoder orders: any chunking, many
 * utterances, threads, and the decoder by itself. tests/integration/test_wenet_rescoring.py
 * compares the alternatives with WeNet's rules. The directories are conversions of
 * tests/data/convert, of random weights. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/convert/convert.h"
#include "speech/families/wenet/model.h"
#include "steno.h"
#include "tests/support/test.h"

#define RECORDING "tests/data/speech/jfk.wav"
#define MOST_FINALS 16
#define BEAM 6
#define THREADS 3

static char folder[64];
static float *pcm;
static size_t n_pcm;

/* ---- models ---------------------------------------------------------------------------------- */

static char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void convert(const char *checkpoint, const char *name, const char *left)
{
    const struct steno_convert_flag flags[] = {{"layout", "wenet"}, {"left-chunks", left}};
    const struct steno_convert_options o = {flags, 2};
    char in[128];
    const char *what;
    steno_err err = {0};
    snprintf(in, sizeof in, "tests/data/convert/%s.zip", checkpoint);
    if (steno_convert(in, path_of(name), &o, &what, &err))
        fail_msg("%s", err.msg);
}

static int set_up(void **state)
{
    FILE *f = fopen(RECORDING, "rb");
    int16_t *samples;
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/steno-wenet-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_non_null(f);
    samples = malloc(400000 * sizeof *samples);
    assert_int_equal(fseek(f, 44, SEEK_SET), 0);
    n_pcm = fread(samples, sizeof *samples, 400000, f);
    fclose(f);
    assert_true(n_pcm > 160000);
    pcm = malloc(n_pcm * sizeof *pcm);
    for (size_t i = 0; i < n_pcm; i++)
        pcm[i] = (float)samples[i] / 32768;
    free(samples);
    convert("wenet-u2pp", "four", NULL);
    convert("wenet-u2pp", "all", "-1");
    convert("wenet-offline", "whole", NULL);
    return 0;
}

static int tear_down(void **state)
{
    static const char *const files[] = {"encoder.onnx", "ctc.onnx", "decoder.onnx", "units.txt",
                                        ""};
    static const char *const models[] = {"four", "all", "whole"};
    (void)state;
    for (size_t m = 0; m < 3; m++)
        for (size_t i = 0; i < 5; i++) {
            char name[64];
            snprintf(name, sizeof name, "%s/%s", models[m], files[i]);
            assert_int_equal(*files[i] ? unlink(path_of(name)) : rmdir(path_of(models[m])), 0);
        }
    free(pcm);
    return rmdir(folder);
}

static steno_model *open_model(const char *name)
{
    steno_model *m = NULL;
    steno_err err = {0};
    if (steno_model_open(&m, path_of(name), NULL, &err))
        fail_msg("%s", err.msg);
    return m;
}

/* ---- finals ---------------------------------------------------------------------------------- */

struct finals {
    size_t n, alternatives[MOST_FINALS];
    char *text[MOST_FINALS][BEAM];
    double score[MOST_FINALS][BEAM], end[MOST_FINALS];
};

static void take(steno_stream *s, struct finals *f)
{
    struct steno_event ev;
    while (steno_stream_next(s, &ev)) {
        if (ev.kind != STENO_FINAL)
            continue;
        assert_true(f->n < MOST_FINALS && ev.n_alternatives <= BEAM);
        f->alternatives[f->n] = ev.n_alternatives;
        f->end[f->n] = ev.end;
        for (size_t i = 0; i < ev.n_alternatives; i++) {
            f->text[f->n][i] = strdup(ev.alternatives[i].text);
            f->score[f->n][i] = ev.alternatives[i].score;
            if (i)
                assert_true(ev.alternatives[i].score <= ev.alternatives[i - 1].score);
        }
        f->n++;
    }
}

static struct finals decode(steno_model *m, const struct steno_stream_options *o, size_t push)
{
    struct finals f = {0};
    steno_stream *s = NULL;
    steno_err err = {0};
    if (steno_stream_open(&s, m, o, &err))
        fail_msg("%s", err.msg);
    for (size_t at = 0; at < n_pcm; at += push) {
        const size_t n = n_pcm - at < push ? n_pcm - at : push;
        if (steno_stream_push(s, pcm + at, n, &err))
            fail_msg("%s", err.msg);
        take(s, &f);
    }
    if (steno_stream_end(s, &err))
        fail_msg("%s", err.msg);
    take(s, &f);
    steno_stream_close(s);
    return f;
}

static void drop(struct finals *f)
{
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->alternatives[i]; k++)
            free(f->text[i][k]);
}

static void assert_same(const struct finals *a, const struct finals *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        assert_int_equal(a->alternatives[i], b->alternatives[i]);
        assert_true(a->end[i] == b->end[i]);
        for (size_t k = 0; k < a->alternatives[i]; k++) {
            assert_string_equal(a->text[i][k], b->text[i][k]);
            assert_true(a->score[i][k] == b->score[i][k]);
        }
    }
}

static struct steno_stream_options short_utterances(void)
{
    struct steno_stream_options o = steno_stream_options_default();
    o.beam = o.n_best = BEAM;
    o.endpoint.longest = 1.3;
    return o;
}

/* ---- streams --------------------------------------------------------------------------------- */

static void any_chunking_gives_the_same_finals(const char *name)
{
    static const size_t pushes[] = {160, 1601, 16000};
    const struct steno_stream_options o = short_utterances();
    steno_model *m = open_model(name);
    struct finals whole = decode(m, &o, n_pcm);
    assert_true(whole.n > 3);
    for (size_t i = 0; i < sizeof pushes / sizeof *pushes; i++) {
        struct finals f = decode(m, &o, pushes[i]);
        assert_same(&f, &whole);
        drop(&f);
    }
    drop(&whole);
    steno_model_close(m);
}

static void any_chunking_gives_the_same_finals_with_a_bounded_cache(void **state)
{
    (void)state;
    any_chunking_gives_the_same_finals("four");
}

static void any_chunking_gives_the_same_finals_with_a_growing_cache(void **state)
{
    (void)state;
    any_chunking_gives_the_same_finals("all");
}

/* An endpoint may be in the middle of a chunk: what is behind it counts for the next utterance. */
static void a_recording_after_another_is_as_by_itself(void **state)
{
    const struct steno_stream_options o = short_utterances();
    steno_model *m = open_model("four");
    struct finals once = decode(m, &o, 4000), twice = {0};
    steno_stream *s = NULL;
    (void)state;
    assert_int_equal(steno_stream_open(&s, m, &o, NULL), STENO_OK);
    for (int i = 0; i < 2; i++) {
        drop(&twice);
        twice.n = 0;
        assert_int_equal(steno_stream_push(s, pcm, n_pcm, NULL), STENO_OK);
        assert_int_equal(steno_stream_finalize(s, NULL), STENO_OK);
        take(s, &twice);
    }
    assert_int_equal(twice.n, once.n);
    for (size_t i = 0; i < once.n; i++) {
        assert_string_equal(twice.text[i][0], once.text[i][0]);
        assert_true(twice.score[i][0] == once.score[i][0]);
    }
    steno_stream_close(s);
    drop(&once);
    drop(&twice);
    steno_model_close(m);
}

static void without_weight_the_finals_are_those_of_ctc(void **state)
{
    static const struct steno_option none[] = {{"rescoring_weight", "0"}};
    struct steno_stream_options o = short_utterances();
    steno_model *m = open_model("four");
    struct finals rescored = decode(m, &o, 16000), ctc, best;
    size_t moved = 0;
    (void)state;
    o.options = none;
    o.n_options = 1;
    ctc = decode(m, &o, 16000);
    assert_int_equal(ctc.n, rescored.n);
    for (size_t i = 0; i < ctc.n; i++)
        moved += strcmp(ctc.text[i][0], rescored.text[i][0]) != 0;
    assert_true(moved > 0);
    o.n_best = 1;
    best = decode(m, &o, 16000);
    for (size_t i = 0; i < ctc.n; i++)
        assert_string_equal(best.text[i][0], ctc.text[i][0]);
    drop(&best);
    drop(&ctc);
    drop(&rescored);
    steno_model_close(m);
}

static void one_alternative_is_the_best_of_all(void **state)
{
    struct steno_stream_options o = short_utterances();
    steno_model *m = open_model("four");
    struct finals all = decode(m, &o, 16000), one;
    (void)state;
    o.n_best = 1;
    one = decode(m, &o, 16000);
    assert_int_equal(one.n, all.n);
    for (size_t i = 0; i < all.n; i++) {
        assert_int_equal(one.alternatives[i], 1);
        assert_string_equal(one.text[i][0], all.text[i][0]);
        assert_true(one.score[i][0] == all.score[i][0]);
    }
    drop(&one);
    drop(&all);
    steno_model_close(m);
}

struct job {
    steno_model *model;
    struct finals f;
};

static void *run_job(void *arg)
{
    struct job *j = arg;
    const struct steno_stream_options o = short_utterances();
    j->f = decode(j->model, &o, 8000);
    return NULL;
}

static void streams_of_many_threads_share_the_decoder(void **state)
{
    static const char *const models[] = {"four", "whole"};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        const struct steno_stream_options o = short_utterances();
        struct job jobs[THREADS] = {0};
        pthread_t thread[THREADS];
        steno_model *m = open_model(models[k]);
        struct finals alone = decode(m, &o, 8000);
        for (size_t i = 0; i < THREADS; i++) {
            jobs[i].model = m;
            assert_int_equal(pthread_create(&thread[i], NULL, run_job, &jobs[i]), 0);
        }
        for (size_t i = 0; i < THREADS; i++) {
            pthread_join(thread[i], NULL);
            assert_same(&jobs[i].f, &alone);
            drop(&jobs[i].f);
        }
        drop(&alone);
        steno_model_close(m);
    }
}

/* ---- the decoder by itself ------------------------------------------------------------------- */

static steno_wenet_rescorer *open_decoder(void)
{
    static const struct steno_wenet_decoder d = {
        .vocab = 31, .width = 8, .sos = 30, .eos = 30, .both = true};
    static char dir[128];
    const struct steno_family_open o = {.dir = dir, .threads = 1, .precision = STENO_FP32};
    steno_wenet_rescorer *r = NULL;
    steno_err err = {0};
    snprintf(dir, sizeof dir, "%s", path_of("four"));
    if (steno_wenet_rescorer_open(&r, &o, false, &d, &err))
        fail_msg("%s", err.msg);
    return r;
}

static void fill_memory(struct steno_wenet_finals *f, size_t rows)
{
    float row[8];
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < 8; k++)
            row[k] = sinf((float)(i * 8 + k));
        assert_int_equal(steno_wenet_finals_add(f, row, 1), STENO_OK);
    }
}

/* 2^20 / (300 x 900) = 3 hypotheses a run. */
static void long_hypotheses_score_the_same_in_several_runs(void **state)
{
    struct steno_wenet_finals f = {.rescorer = open_decoder(), .weights = {1, 0, 0.4}};
    struct steno_span spans[300];
    struct steno_hypothesis h[8];
    double score[8];
    (void)state;
    for (int i = 0; i < 300; i++)
        spans[i] = (struct steno_span){.token = 3 + i * 7 % 27};
    for (size_t i = 0; i < 8; i++)
        h[i] = (struct steno_hypothesis){.spans = spans + i, .n = 299 - i};
    fill_memory(&f, 900);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(steno_wenet_finals_rescore(&f, h + i, 1, 0, NULL), STENO_OK);
        assert_int_equal(f.n, 1);
        score[i] = f.h[0].score;
    }
    assert_int_equal(steno_wenet_finals_rescore(&f, h, 8, 0, NULL), STENO_OK);
    assert_int_equal(f.n, 8);
    for (size_t i = 0; i < 8; i++)
        assert_float_equal(f.h[i].score, score[f.h[i].spans - spans], 1e-2);
    steno_wenet_finals_free(&f);
    steno_wenet_rescorer_close(f.rescorer);
}

static void an_utterance_beyond_the_positions_keeps_its_order(void **state)
{
    struct steno_wenet_finals f = {.rescorer = open_decoder(), .weights = {1, 0, 0}};
    struct steno_span *spans = calloc(5000, sizeof *spans);
    const struct steno_hypothesis h[] = {{.spans = spans, .n = 5000}, {.spans = spans, .n = 2}};
    (void)state;
    fill_memory(&f, 20);
    assert_int_equal(steno_wenet_finals_rescore(&f, h, 2, 0, NULL), STENO_OK);
    assert_int_equal(f.n, 0);
    assert_int_equal(steno_wenet_finals_rescore(&f, h + 1, 1, 20, NULL), STENO_OK);
    assert_int_equal(f.n, 0); /* all rows belong to the next utterance */
    assert_int_equal(steno_wenet_finals_rescore(&f, h + 1, 1, 19, NULL), STENO_OK);
    assert_int_equal(f.n, 1);
    free(spans);
    steno_wenet_finals_free(&f);
    steno_wenet_rescorer_close(f.rescorer);
}

static void the_next_utterance_keeps_the_rows_ahead(void **state)
{
    struct steno_wenet_finals f = {.rescorer = open_decoder(), .weights = {1, 0, 0}};
    (void)state;
    fill_memory(&f, 20);
    steno_wenet_finals_next(&f, 3);
    assert_int_equal(f.rows, 3);
    assert_true(f.memory[0] == sinf(17 * 8) && f.memory[23] == sinf(19 * 8 + 7));
    steno_wenet_finals_next(&f, 9);
    assert_int_equal(f.rows, 3);
    steno_wenet_finals_next(&f, 0);
    assert_int_equal(f.rows, 0);
    steno_wenet_finals_free(&f);
    steno_wenet_rescorer_close(f.rescorer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_chunking_gives_the_same_finals_with_a_bounded_cache),
        cmocka_unit_test(any_chunking_gives_the_same_finals_with_a_growing_cache),
        cmocka_unit_test(a_recording_after_another_is_as_by_itself),
        cmocka_unit_test(without_weight_the_finals_are_those_of_ctc),
        cmocka_unit_test(one_alternative_is_the_best_of_all),
        cmocka_unit_test(streams_of_many_threads_share_the_decoder),
        cmocka_unit_test(long_hypotheses_score_the_same_in_several_runs),
        cmocka_unit_test(an_utterance_beyond_the_positions_keeps_its_order),
        cmocka_unit_test(the_next_utterance_keeps_the_rows_ahead),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
