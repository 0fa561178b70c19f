/* The end of a turn: features, the samples that are kept, networks that are no such network; with
 * the real network of ../shared/turn its recorded probabilities, alone and several turns at once.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "formats/npy.h"
#include "formats/zip.h"
#include "speech/turn/detector.h"
#include "speech/turn/recent.h"
#include "tests/support/pass_check.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

#define CELLS (STENO_TURN_BINS * STENO_TURN_FRAMES)
#define PIECES 64
#ifdef STENO_SANITIZE /* a call takes seconds there */
#define STRIDE 6
#else
#define STRIDE 1
#endif

static json_t *pieces;
static steno_turn_detector *detector;
static struct steno_turn_audio turn[PIECES];
static float *samples[PIECES];
static size_t n_pieces;

static const char *path_of(const char *rel)
{
    static char path[4096];
    const char *root = getenv("STENO_SHARED");
    snprintf(path, sizeof path, "%s/%s", root ? root : "../shared", rel);
    return path;
}

/* The samples [from, to) of a recording at 16 kHz. */
static float *cut(const char *file, size_t from, size_t to)
{
    struct steno_recording_info info;
    steno_recording *r;
    float *pcm = malloc(to * sizeof *pcm);
    size_t n = 0, k = 1;
    assert_int_equal(steno_recording_open(&r, path_of(file), 0, NULL), STENO_OK);
    steno_recording_get_info(r, &info);
    assert_int_equal(info.sample_rate, STENO_TURN_RATE);
    while (n < to && k && !steno_recording_read(r, pcm + n, to - n, &k, NULL))
        n += k;
    steno_recording_close(r);
    assert_int_equal(n, to);
    memmove(pcm, pcm + from, (to - from) * sizeof *pcm);
    return pcm;
}

static int begin(void **state)
{
    size_t n;
    char *text = steno_test_shared("turn/pieces.json", &n);
    steno_err err;
    (void)state;
    if (!text)
        return 0;
    pieces = json_loadb(text, n, 0, NULL);
    free(text);
    if (steno_turn_detector_open(&detector, path_of("turn"), &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return -1;
    }
    n_pieces = json_array_size(pieces);
    assert_true(n_pieces <= PIECES);
    for (size_t i = 0; i < n_pieces; i++) {
        const json_t *p = json_array_get(pieces, i);
        const size_t from = (size_t)json_integer_value(json_object_get(p, "begin_sample"));
        const size_t to = (size_t)json_integer_value(json_object_get(p, "end_sample"));
        char file[256];
        snprintf(file, sizeof file, "audio/%s", json_string_value(json_object_get(p, "file")));
        samples[i] = cut(file, from, to);
        turn[i] = (struct steno_turn_audio){samples[i], to - from};
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_pieces; i++)
        free(samples[i]);
    steno_turn_detector_close(detector);
    json_decref(pieces);
    return 0;
}

/* ---- features -------------------------------------------------------------------------------- */

static void features_are_those_of_pipecat(void **state)
{
    size_t n, count = 0;
    char *zip = steno_test_shared("turn/features.npz", &n);
    struct steno_zip_member m;
    steno_turn_features *f;
    float *got = malloc(CELLS * sizeof *got);
    (void)state;
    if (!zip) {
        free(got);
        skip();
    }
    assert_int_equal(steno_turn_features_open(&f, NULL), STENO_OK);
    for (size_t i = 0; !steno_zip_member(zip, n, "zip", i, &m, NULL); i++) {
        struct steno_npy a;
        void *bytes;
        const float *want;
        char name[32];
        long piece;
        double worst = 0;
        assert_int_equal(steno_zip_read(zip, n, "zip", &m, 1 << 20, &bytes, NULL), STENO_OK);
        assert_int_equal(steno_npy_parse(bytes, m.size, "npy", 1 << 20, &a, NULL), STENO_OK);
        snprintf(name, sizeof name, "%.*s", (int)m.name_len, m.name);
        assert_int_equal(sscanf(name, "piece%ld.npy", &piece), 1);
        want = a.data;
        assert_int_equal(steno_turn_features_make(f, turn[piece].pcm, turn[piece].n, got, NULL),
                         STENO_OK);
        for (size_t k = 0; k < CELLS; k++)
            worst = fmax(worst, fabs((double)got[k] - (double)want[k]));
        assert_true(worst < 1e-4);
        count++;
        free(a.data);
        free(bytes);
    }
    assert_int_equal(count, 3);
    steno_turn_features_close(f);
    free(got);
    free(zip);
}

/* Zeros go in front: a turn sounds the same with its silence written out; a long one is its end;
 * a sample that is no number is silence. */
static void only_the_last_seconds_count(void **state)
{
    enum { SHORT = 5000, LONG = STENO_TURN_SAMPLES + 777 };
    float *pcm = calloc(LONG, sizeof *pcm), *a = malloc(CELLS * sizeof *a),
          *b = malloc(CELLS * sizeof *b);
    steno_turn_features *f;
    (void)state;
    for (size_t i = 0; i < SHORT; i++)
        pcm[LONG - SHORT + i] = (float)(int)(i * 7919 % 201) / 400 - 0.25f;
    assert_int_equal(steno_turn_features_open(&f, NULL), STENO_OK);
    assert_int_equal(steno_turn_features_make(f, pcm + LONG - SHORT, SHORT, a, NULL), STENO_OK);
    assert_int_equal(steno_turn_features_make(f, pcm, LONG, b, NULL), STENO_OK);
    assert_memory_equal(a, b, CELLS * sizeof *a);
    pcm[0] = 1;
    pcm[LONG - SHORT - 1] = NAN;
    assert_int_equal(steno_turn_features_make(f, pcm, LONG, b, NULL), STENO_OK);
    assert_memory_equal(a, b, CELLS * sizeof *a);
    pcm[LONG - 1] = -pcm[LONG - 1];
    assert_int_equal(steno_turn_features_make(f, pcm, LONG, b, NULL), STENO_OK);
    assert_memory_not_equal(a, b, CELLS * sizeof *a);
    assert_int_equal(steno_turn_features_make(f, NULL, 0, a, NULL), STENO_OK); /* silence alone */
    assert_true(isfinite(a[0]));
    steno_turn_features_close(f);
    free(pcm);
    free(a);
    free(b);
}

/* ---- recent ---------------------------------------------------------------------------------- */

static void the_last_samples_are_kept(void **state)
{
    enum { ALL = 3 * STENO_TURN_SAMPLES + 1234 };
    float *pcm = malloc(ALL * sizeof *pcm);
    steno_turn_recent *r;
    const float *kept;
    size_t n;
    (void)state;
    for (size_t i = 0; i < ALL; i++)
        pcm[i] = (float)i;
    assert_int_equal(steno_turn_recent_open(&r, STENO_TURN_RATE, NULL), STENO_OK);
    for (size_t at = 0, k; at < ALL; at += k) {
        k = 1 + at * 31 % 3001;
        k = k < ALL - at ? k : ALL - at;
        for (size_t i = 0; i < k; i++)
            pcm[at + i] = (float)((at + i) % 65536); /* beyond 65536 samples are clamped */
        assert_int_equal(steno_turn_recent_push(r, pcm + at, k, NULL), STENO_OK);
        kept = steno_turn_recent_samples(r, &n);
        assert_true(n >= (at + k < STENO_TURN_SAMPLES ? at + k : STENO_TURN_SAMPLES));
        assert_memory_equal(kept, pcm + at + k - n, n * sizeof *kept);
    }
    steno_turn_recent_keep(r, 100);
    kept = steno_turn_recent_samples(r, &n);
    assert_int_equal(n, 100);
    assert_memory_equal(kept, pcm + ALL - 100, 100 * sizeof *kept);
    steno_turn_recent_close(r);
    free(pcm);
}

static void other_rates_are_resampled(void **state)
{
    float pcm[8000];
    steno_turn_recent *r;
    size_t n;
    (void)state;
    for (size_t i = 0; i < 8000; i++)
        pcm[i] = sinf((float)i * 0.1f) / 2;
    assert_int_equal(steno_turn_recent_open(&r, 8000, NULL), STENO_OK);
    assert_int_equal(steno_turn_recent_push(r, pcm, 8000, NULL), STENO_OK);
    assert_int_equal(steno_turn_recent_end(r, NULL), STENO_OK);
    assert_in_range((steno_turn_recent_samples(r, &n), n), 16000, 16000);
    assert_true(fabsf(steno_turn_recent_samples(r, &n)[8000] - pcm[4000]) < 0.01f);
    steno_turn_recent_close(r);
    assert_int_equal(steno_turn_recent_open(&r, 100, NULL), STENO_ERR_INVAL);
}

/* ---- the network ----------------------------------------------------------------------------- */

static void the_recorded_turns_are_judged(void **state)
{
    steno_turn_judge *j;
    size_t sure = 0;
    (void)state;
    if (!detector)
        skip();
    assert_int_equal(steno_turn_judge_open(&j, detector, NULL), STENO_OK);
    for (size_t i = 0; i < n_pieces; i += STRIDE) {
        const json_t *p = json_array_get(pieces, i);
        const double a = json_real_value(json_object_get(p, "probability"));
        const double b =
            json_real_value(json_object_get(p, "probability_without_graph_optimization"));
        float got;
        assert_int_equal(steno_turn_judge_run(j, &turn[i], 1, &got, NULL), STENO_OK);
        /* Between 0.3 and 0.7 two settings of one runtime differ by as much as 0.3. */
        if (fmax(a, b) < 0.3 || fmin(a, b) > 0.7) {
            assert_int_equal(got > 0.5f, a > 0.5);
            sure++;
        }
        if (fmax(a, b) < 0.02 || fmin(a, b) > 0.97)
            assert_true(fabs((double)got - a) < 0.03);
    }
    assert_true(sure >= (STRIDE > 1 ? 2 : 18));
    steno_turn_judge_close(j);
}

static void turns_judged_together_are_judged_as_alone(void **state)
{
    enum { TOGETHER = 6 }; /* more than one run takes */
    float alone[TOGETHER], together[TOGETHER];
    steno_turn_judge *j;
    (void)state;
    if (!detector || STRIDE > 1)
        skip();
    assert_int_equal(steno_turn_judge_open(&j, detector, NULL), STENO_OK);
    for (size_t i = 0; i < TOGETHER; i++)
        assert_int_equal(steno_turn_judge_run(j, &turn[i], 1, &alone[i], NULL), STENO_OK);
    assert_int_equal(steno_turn_judge_run(j, turn, TOGETHER, together, NULL), STENO_OK);
    assert_memory_equal(alone, together, sizeof alone);
    assert_int_equal(steno_turn_judge_run(j, turn, 0, together, NULL), STENO_OK);
    steno_turn_judge_close(j);
}

/* A network with input [N, bins, 800] that gives `value` for each turn. */
static char *network(const char *shape, float value, const char *out)
{
    struct mk_graph *g = mk_new(13);
    char *path;
    mk_input(g, "input_features", STENO_F32, shape);
    mk_f32(g, "zero", "", &(float){0}, 1);
    mk_f32(g, "value", "", &value, 1);
    mk_node(g, "ReduceMax", "input_features", "m");
    mk_attr_ints(g, "axes", (int64_t[]){1, 2}, 2);
    mk_attr_int(g, "keepdims", 0);
    pc_graph(g, "Mul m,zero z; Add z,value logits");
    mk_output(g, "logits", STENO_F32, out);
    path = mk_file(g);
    mk_free(g);
    return path;
}

static void other_networks_are_refused(void **state)
{
    static const struct {
        const char *in, *out;
        float value;
        const char *says;
    } cases[] = {{"n,80,800", "n", 0.25f, NULL},
                 {"n,80,400", "n", 0.25f, "not f32 [N, 80, 800]"},
                 {"n,128,800", "n", 0.25f, "not f32 [N, 80, 800]"},
                 {"n,80,800", "n", 1.5f, "no probability"},
                 {"n,80,800", "n", NAN, "no probability"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = network(cases[i].in, cases[i].value, cases[i].out);
        steno_turn_detector *d = NULL;
        steno_err err = {0};
        const steno_status st = steno_turn_detector_open(&d, path, &err);
        if (cases[i].says) {
            assert_int_equal(st, STENO_ERR_FORMAT);
            assert_non_null(strstr(err.msg, cases[i].says));
            assert_non_null(strstr(err.msg, path));
        } else
            assert_int_equal(st, STENO_OK);
        steno_turn_detector_close(d);
        mk_unlink(path);
    }
}

static void a_directory_without_such_a_file_is_refused(void **state)
{
    steno_turn_detector *d = NULL;
    steno_err err = {0};
    (void)state;
    assert_int_equal(steno_turn_detector_open(&d, "tests/data", &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "smart-turn"));
    assert_int_equal(steno_turn_detector_open(&d, "tests/data/none.onnx", &err), STENO_ERR_IO);
    assert_false(steno_turn_detector_is_dir("tests/data"));
    assert_false(steno_turn_detector_is_dir("tests/data/none"));
    if (detector)
        assert_true(steno_turn_detector_is_dir(path_of("turn")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_those_of_pipecat),
        cmocka_unit_test(only_the_last_seconds_count),
        cmocka_unit_test(the_last_samples_are_kept),
        cmocka_unit_test(other_rates_are_resampled),
        cmocka_unit_test(the_recorded_turns_are_judged),
        cmocka_unit_test(turns_judged_together_are_judged_as_alone),
        cmocka_unit_test(other_networks_are_refused),
        cmocka_unit_test(a_directory_without_such_a_file_is_refused),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
