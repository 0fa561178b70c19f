/* Steps of many streams as one batch. The results of a stream do not depend on the rest of the
 * batch. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speech/audio/file.h"
#include "base/buf.h"
#include "speech/families/ctc/internal.h"
#include "speech/recognizer/model.h"
#include "speech/recognizer/stream.h"
#include "speech/recognizer/stream_internal.h"
#include "tests/support/pass_check.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

#define DIGITS "conf/models/digits-en"
#define TONES "tests/data/models/tones"
#define BLOCKS "zoo/tiny/espnet-stream-conformer-op13" /* below the shared folder */
#define WAV "tests/data/digits.wav"
enum { ALL = 32 };
#ifdef STENO_SANITIZE /* numbers are the plain build's to compare; kcheck runs the scalar kernels  \
                       */
enum { MOST = 9, SCALAR = 0 };
#else
enum { MOST = ALL, SCALAR = 1 };
#endif

static float *speech;
static size_t n_speech;

static int read_speech(void **state)
{
    steno_audio *a = NULL;
    size_t n, cap = 100000;
    int fd = open(WAV, O_RDONLY);
    (void)state;
    speech = malloc(cap * sizeof *speech);
    if (fd < 0 || !speech || steno_audio_open_fd(&a, fd, NULL, NULL))
        return -1;
    while (!steno_audio_read(a, speech + n_speech, cap - n_speech, &n, NULL) && n)
        n_speech += n;
    steno_audio_close(a);
    close(fd);
    return n_speech ? 0 : -1;
}

static int drop_speech(void **state)
{
    (void)state;
    free(speech);
    return 0;
}

static steno_model *model_open_as(const char *dir, const struct steno_model_options *opt)
{
    steno_model *m = NULL;
    steno_err err = {0};
    if (steno_model_open(&m, dir, opt, &err))
        fail_msg("%s", err.msg);
    return m;
}

static steno_model *model_open(const char *dir)
{
    return model_open_as(dir, NULL);
}

/* ---- a stream with its own audio: another start in the recording, another loudness -----------
 */

struct talker {
    steno_stream *s;
    size_t at, end;
    float gain;
    bool done;
    struct steno_buf said;
};

static void talker_open(struct talker *t, steno_model *m, int which)
{
    *t = (struct talker){.at = (size_t)(which * 731) % (n_speech / 2),
                         .end = n_speech - (size_t)(which * 977) % (n_speech / 4),
                         .gain = 1.0f - 0.02f * (float)which};
    steno_buf_init(&t->said, 1 << 20);
    assert_int_equal(steno_stream_open(&t->s, m, NULL, NULL), STENO_OK);
}

static void talker_close(struct talker *t)
{
    steno_stream_close(t->s);
    steno_buf_free(&t->said);
}

/* Feed audio, then the end, until a window is full. False when the stream is over. */
static bool talker_advance(struct talker *t)
{
    while (!steno_stream_ready(t->s)) {
        float x[400];
        size_t n = t->end - t->at < 400 ? t->end - t->at : 400, used = 0;
        for (size_t i = 0; i < n; i++)
            x[i] = t->gain * speech[t->at + i];
        if (n)
            assert_int_equal(steno_stream_feed(t->s, x, n, &used, NULL), STENO_OK);
        else
            assert_int_equal(steno_stream_flush(t->s, true, &t->done, NULL), STENO_OK);
        t->at += used;
        if (t->done)
            return false;
    }
    return true;
}

/* digits: precision of the compared numbers. */
static void talker_listen(struct talker *t, int digits)
{
    struct steno_event e;
    while (steno_stream_next(t->s, &e)) {
        assert_int_equal(steno_buf_printf(&t->said, "%d %lld %.3f %.3f %.3f [%s] %zu %.*g\n",
                                          e.kind, (long long)e.segment, e.time, e.start, e.end,
                                          e.text, e.stable_bytes, digits, (double)e.confidence),
                         STENO_OK);
        for (size_t i = 0; i < e.n_words; i++)
            assert_int_equal(steno_buf_printf(&t->said, "  %s %.*g\n", e.words[i].text, digits,
                                              (double)e.words[i].confidence),
                             STENO_OK);
    }
}

/* Run all streams to their ends. Each round is one call for the streams that are ready. */
static void run_together(steno_batcher *p, struct talker *t, int n, int digits)
{
    for (;;) {
        steno_stream *ready[ALL];
        steno_status st[ALL];
        size_t k = 0;
        for (int i = 0; i < n; i++)
            if (!t[i].done && talker_advance(&t[i]))
                ready[k++] = t[i].s;
        if (k)
            steno_streams_step(p, ready, k, st, NULL);
        for (size_t i = 0; i < k; i++)
            assert_int_equal(st[i], STENO_OK);
        for (int i = 0; i < n; i++)
            talker_listen(&t[i], digits);
        if (!k)
            return;
    }
}

static void compare_as(const char *dir, const struct steno_model_options *opt, int n, int digits)
{
    steno_model *m = model_open_as(dir, opt);
    steno_batcher *alone = NULL, *together = NULL;
    static struct talker a[ALL], b[ALL];
    assert_true(m->info.batches);
    assert_int_equal(steno_batcher_open(&alone, m, 1, NULL), STENO_OK);
    assert_int_equal(steno_batcher_open(&together, m, ALL, NULL), STENO_OK);
    assert_int_equal(steno_batcher_max(together), ALL);
    for (int i = 0; i < n; i++) {
        talker_open(&a[i], m, i);
        talker_open(&b[i], m, i);
        run_together(alone, &a[i], 1, digits);
    }
    run_together(together, b, n, digits);
    for (int i = 0; i < n; i++) {
        assert_non_null(a[i].said.data);
        assert_string_equal(b[i].said.data, a[i].said.data);
        talker_close(&a[i]);
        talker_close(&b[i]);
    }
    steno_batcher_close(alone);
    steno_batcher_close(together);
    steno_model_close(m);
}

static void compare(const char *dir, int n, int digits)
{
    compare_as(dir, NULL, n, digits);
}

/* Where the CPU does not multiply a format, the kernels of the next best level are used. */
static const enum steno_precision precisions[] = {STENO_FP32, STENO_BF16_WEIGHTS,
                                                  STENO_FP16_WEIGHTS, STENO_INT8_WEIGHTS};
#define N_PRECISIONS (sizeof precisions / sizeof *precisions)

static void a_stream_says_the_same_among_31_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_PRECISIONS; i++) {
        const struct steno_model_options opt = {.precision = precisions[i]};
        compare_as(TONES, &opt, MOST, 9);
        compare_as(DIGITS, &opt, MOST, 9);
    }
}

/* Blocks of ESPnet's streaming encoder, first and later ones, with a search of each stream's
 * own. */
static void streams_of_blocks_say_the_same_in_a_batch(void **state)
{
    const char *root = getenv("STENO_SHARED");
    char dir[512];
    size_t n;
    void *there = steno_test_shared(BLOCKS "/config.yaml", &n);
    (void)state;
    free(there);
    if (!there)
        skip();
    snprintf(dir, sizeof dir, "%s/" BLOCKS, root ? root : "../shared");
    for (size_t i = 0; i < N_PRECISIONS; i++) {
        const struct steno_model_options opt = {.precision = precisions[i]};
        compare_as(dir, &opt, i ? 7 : MOST, 9);
    }
}

static void any_number_of_streams_says_the_same(void **state)
{
    (void)state;
    static const int counts[] = {2, 3, 5, 7, 13, 31};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        compare(TONES, counts[i], 9);
    compare(DIGITS, 3, 9);
}

/* ---- the network's scores, before decoding -------------------------------------------------- */

enum { STEPS = 2 }; /* the second one reads the states that the first has left */

/* Window `step` of stream `which`: at the range of log-mel energies, with another loudness for
 * each stream. */
static void make_window(const struct steno_cached_encoder *e, int which, int step, float *x)
{
    uint32_t seed = (uint32_t)(which * STEPS + step) * 2654435761u;
    for (int64_t k = 0; k < e->shape.window * e->shape.bins; k++) {
        seed = seed * 1664525u + 1013904223u; /* Numerical Recipes, 3rd ed., 7.1.1 */
        x[k] = (float)(int32_t)seed * 0x1p-31f * (1 + 0.5f * (float)which) - 4;
    }
}

/* n streams over STEPS, `size` at a time. scores: [STEPS, n, frames, vocab]. */
static void score(const struct steno_cached_encoder *e, int n, int size, float *scores)
{
    struct steno_cached_encoder_state mem[ALL], *s[ALL];
    size_t row = (size_t)(e->shape.frames * e->shape.width);
    steno_cached_encoder_batch *b = NULL;
    assert_int_equal(steno_cached_encoder_batch_open(&b, e, size, 1, NULL), STENO_OK);
    for (int i = 0; i < n; i++) {
        mem[i] = (struct steno_cached_encoder_state){.fresh = true};
        s[i] = &mem[i];
    }
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < n; i += size) {
            int k = n - i < size ? n - i : size;
            const float *y;
            for (int at = 0; at < k; at++)
                make_window(e, i + at, step, steno_cached_encoder_batch_x(b, at));
            assert_int_equal(steno_cached_encoder_batch_step(b, s + i, k, size, &y, NULL),
                             STENO_OK);
            memcpy(scores + (size_t)(step * n + i) * row, y, (size_t)k * row * sizeof *y);
        }
    for (int i = 0; i < n; i++)
        steno_cached_encoder_state_free(&mem[i]);
    steno_cached_encoder_batch_close(b);
}

/* apart: the allowed distance of a score from that of the stream alone, relative to 1 + its
 * magnitude; 0: the same bits. */
static void compare_scores(const char *dir, const char *cpu, enum steno_precision precision, int n,
                           float apart)
{
    const struct steno_model_options opt = {.cpu = cpu, .precision = precision};
    steno_model *m = model_open_as(dir, &opt);
    const struct steno_cached_encoder *e = &((struct steno_shell_model *)m->impl)->encoder;
    size_t len = (size_t)(STEPS * n) * (size_t)(e->shape.frames * e->shape.width);
    float *alone = malloc(len * sizeof *alone), *batch = malloc(len * sizeof *batch);
    assert_non_null(alone);
    assert_non_null(batch);
    score(e, n, 1, alone);
    for (int size = 2; size <= ALL && size < 2 * n; size *= 2) {
        score(e, n, size, batch);
        for (size_t i = 0; i < len; i++)
            if (!isfinite(alone[i]) ||
                (memcmp(&alone[i], &batch[i], sizeof *alone) != 0 &&
                 !(fabsf(alone[i] - batch[i]) < apart * (1 + fabsf(alone[i])))))
                fail_msg("%s, %s, %s: in batches of %d score %zu is %a, alone %a", dir,
                         cpu ? cpu : "native", steno_precision_name(precision), size, i,
                         (double)batch[i], (double)alone[i]);
    }
    free(alone);
    free(batch);
    steno_model_close(m);
}

static void scores_have_the_same_bits_in_every_batch(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_PRECISIONS; i++) {
        compare_scores(TONES, NULL, precisions[i], ALL, 0);
        if (SCALAR)
            compare_scores(TONES, "scalar", precisions[i], ALL, 0);
        compare_scores(TONES, "avx2", precisions[i], ALL, 0);
        compare_scores(DIGITS, NULL, precisions[i], ALL, 0);
        compare_scores(DIGITS, "avx2", precisions[i], 7, 0);
        if (SCALAR)
            compare_scores(DIGITS, "scalar", precisions[i], 3, 0);
    }
}

/* OpenBLAS sums in an order of its own (nn/kernels/blas.c). The allowed distance is less than
 * that of the trial at load. */
static void scores_of_openblas_differ_in_the_last_digits(void **state)
{
    (void)state;
    compare_scores(DIGITS, "blas", STENO_FP32, 9, 1e-5f);
}

/* Costs decide how a number of streams is split into batches. The total shows the split. */
static void the_cheapest_sizes_are_chosen(void **state)
{
    (void)state;
    const struct steno_step_costs flat = {.seconds = {1, 1, 1, 1, 1, 1}},
                                  linear = {.seconds = {1, 2.5, 5, 10, 20, 40}},
                                  four = {.seconds = {1, 1.5, 2, 8, (double)INFINITY,
                                                      (double)INFINITY}};
    assert_true(steno_step_cost(&flat, 0) == 0);
    assert_true(steno_step_cost(&flat, 31) == 1);
    assert_true(steno_step_cost(&flat, 33) == 2);
    assert_true(steno_step_cost(&linear, 7) == 7);
    assert_true(steno_step_cost(&four, 3) == 2); /* an unused place is cheaper than 2 + 1 */
    assert_true(steno_step_cost(&four, 5) == 3);
    assert_true(steno_step_cost(&four, 32) == 16);
}

static void costs_are_measured_size_by_size(void **state)
{
    (void)state;
    steno_model *m = model_open(TONES);
    steno_batcher *p = NULL;
    struct steno_step_costs c;
    assert_int_equal(steno_batcher_open(&p, m, 4, NULL), STENO_OK);
    assert_int_equal(steno_batcher_measure(p, 1.0, &c, NULL), STENO_OK);
    assert_true(c.seconds[0] > 0 && isfinite(c.seconds[0]));
    assert_true(isinf(c.seconds[3]) && isinf(c.seconds[5])); /* above the batcher's max */
    assert_int_equal(steno_batcher_measure(p, 0, &c, NULL), STENO_OK);
    assert_true(isfinite(c.seconds[0]) && isinf(c.seconds[1]));
    steno_batcher_close(p);
    steno_model_close(m);
}

/* ---- families without a trial ---- */

static size_t batches[8], n_batches; /* streams of each step of the fake family */

static steno_status open_no_worker(void **worker, void *model, int max, steno_err *err)
{
    (void)worker;
    (void)model;
    (void)max;
    (void)err;
    return STENO_OK;
}

static void close_no_worker(void *worker)
{
    (void)worker;
}

static steno_status open_no_trial(void **trial, void *worker, steno_err *err)
{
    (void)worker;
    (void)err;
    *trial = NULL;
    return STENO_OK;
}

static void count_step(void *worker, struct steno_step_item *items, size_t n, int size,
                       struct steno_network_time *spent)
{
    (void)worker;
    (void)spent;
    assert_true((size_t)size >= n);
    batches[n_batches++] = n;
    for (size_t i = 0; i < n; i++)
        items[i].st = STENO_OK;
}

static void fill_nothing(const steno_stream *s, struct steno_step_item *item)
{
    (void)s;
    (void)item;
}

static steno_status finish_nothing(steno_stream *s, const struct steno_step_item *item)
{
    (void)s;
    return item->st;
}

static void without_a_trial_each_stream_steps_alone(void **state)
{
    static const struct steno_family family = {.worker_open = open_no_worker,
                                               .worker_close = close_no_worker,
                                               .trial_open = open_no_trial,
                                               .step = count_step};
    static const struct steno_feeder feeder = {.fill_item = fill_nothing,
                                               .finish_step = finish_nothing};
    const steno_model m = {.family = &family, .info = {.batches = true, .untimed = true}};
    struct steno_stream one = {.feeder = &feeder}, *s[3];
    struct steno_step_costs c;
    steno_batcher *b = NULL;
    steno_status st[3];
    (void)state;
    for (size_t i = 0; i < 3; i++)
        s[i] = &one;
    assert_int_equal(steno_batcher_open(&b, &m, 8, NULL), STENO_OK);
    assert_int_equal(steno_batcher_measure(b, 0.1, &c, NULL), STENO_OK);
    assert_true(c.more);
    assert_true(c.seconds[0] == 0 && isinf(c.seconds[1]));
    steno_batcher_set_costs(b, &c);
    n_batches = 0;
    steno_streams_step(b, s, 3, st, NULL);
    assert_int_equal(n_batches, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(batches[i], 1);
    assert_int_equal(steno_batcher_network_ns(b), 0);
    steno_batcher_close(b);
}

/* ---- networks that cannot be batched --------------------------------------------------------- */

/* The tone model's directory with another network: log_probs = LogSoftmax over 5 means of x,
 * each of `kind`. 'b' mixes the streams of a batch; 'f' has a batch of 1 in its shapes. */
static char *make_model(char kind)
{
    char *dir = strdup("/tmp/steno-batcher-XXXXXX"), cmd[400];
    static const int64_t shape_one[] = {1, 11, 40}, pick[] = {0}, to[] = {2}, ax[] = {1},
                         bins_to[] = {5}, bins_ax[] = {2};
    bool fixed = kind == 'f';
    struct mk_graph *g = mk_new(17);
    char *file;
    assert_non_null(mkdtemp(dir));
    mk_input(g, "x", STENO_F32, "N,11,40");
    mk_input(g, "prev", STENO_F32, "N,1,40");
    mk_output(g, "log_probs", STENO_F32, "N,2,5");
    mk_output(g, "new_prev", STENO_F32, "N,1,40");
    mk_i64(g, "zero", "1", pick, 1);
    mk_i64(g, "two", "1", to, 1);
    mk_i64(g, "ax1", "1", ax, 1);
    mk_i64(g, "five", "1", bins_to, 1);
    mk_i64(g, "ax2", "1", bins_ax, 1);
    if (fixed) {
        mk_i64(g, "shape", "3", shape_one, 3);
        mk_node(g, "Reshape", "x,shape", "y");
    } else { /* x minus the mean over the batch */
        pc_graph(g, "ReduceMean x mean axes=[0]; Add x,mean y");
    }
    pc_graph(g, "Slice y,zero,two,ax1 rows; Slice rows,zero,five,ax2 some; "
                "LogSoftmax some log_probs axis=2; Identity prev new_prev");
    file = mk_file(g);
    snprintf(cmd, sizeof cmd, "cp %s/model.conf %s/tokens.txt %s/ && cp %s %s/encoder.onnx", TONES,
             TONES, dir, file, dir);
    assert_int_equal(system(cmd), 0);
    mk_unlink(file);
    mk_free(g);
    return dir;
}

static void drop_model(char *dir)
{
    char cmd[100];
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    assert_int_equal(system(cmd), 0);
    free(dir);
}

static void a_network_that_mixes_its_batch_gets_none(void **state)
{
    (void)state;
    for (const char *kind = "bf"; *kind; kind++) {
        char *dir = make_model(*kind);
        steno_model *m = model_open(dir);
        steno_batcher *p = NULL;
        static struct talker t[3];
        assert_false(m->info.batches);
        assert_int_equal(steno_batcher_open(&p, m, ALL, NULL), STENO_OK);
        assert_int_equal(steno_batcher_max(p), 1);
        for (int i = 0; i < 3; i++)
            talker_open(&t[i], m, i);
        run_together(p, t, 3, 9); /* one after the other */
        for (int i = 0; i < 3; i++)
            talker_close(&t[i]);
        steno_batcher_close(p);
        steno_model_close(m);
        drop_model(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_says_the_same_among_31_others),
        cmocka_unit_test(streams_of_blocks_say_the_same_in_a_batch),
        cmocka_unit_test(any_number_of_streams_says_the_same),
        cmocka_unit_test(scores_have_the_same_bits_in_every_batch),
        cmocka_unit_test(scores_of_openblas_differ_in_the_last_digits),
        cmocka_unit_test(the_cheapest_sizes_are_chosen),
        cmocka_unit_test(costs_are_measured_size_by_size),
        cmocka_unit_test(without_a_trial_each_stream_steps_alone),
        cmocka_unit_test(a_network_that_mixes_its_batch_gets_none),
    };
    return cmocka_run_group_tests(tests, read_speech, drop_speech);
}
