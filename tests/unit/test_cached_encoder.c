/* A streaming encoder whose states the graph names, on networks made here:
 *
 *     y = S + sum of x over the window + sum of T over its first axis
 *     new_S = y, new_T = T + 1
 *
 * With `counts` T is not a state but processed_lens [N], which the encoder counts:
 *
 *     y = S + sum of x over the window + 2 * processed_lens
 *
 * S has the batch dimension first, T has it in the middle. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/cached_encoder.h"
#include "speech/families/common/cached_encoder_trial.h"
#include "speech/families/common/metadata.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

enum { WINDOW = 4, BINS = 3, FRAMES = 1, STREAMS = 3, STEPS = 3 };

static const struct steno_cached_encoder_shape shape = {WINDOW, BINS, FRAMES, BINS};

/* How a graph differs from the one above. */
struct variant {
    const char *x, *s, *t;  /* dims of the inputs; NULL: "N,4,3", "N,1,3", "2,N,3" */
    const char *new_s;      /* name of the output */
    bool new_s_is_integers; /* int64 instead of float */
    bool counts;
    const char *mixes; /* value [N,1,3] whose sum over the streams each of them adds; NULL: none */
};

static steno_network *make_network(const struct variant *v)
{
    struct mk_graph *g = mk_new(17);
    static const int64_t axis0[] = {0}, axis1[] = {1};
    static const int64_t column[] = {-1, 1, 1};
    static const float one = 1, two = 2;
    const char *new_s = v->new_s ? v->new_s : "new_S";
    steno_network *n = NULL;
    steno_err err = {0};
    char *path;
    mk_input(g, "x", STENO_F32, v->x ? v->x : "N,4,3");
    mk_input(g, "S", STENO_F32, v->s ? v->s : "N,1,3");
    if (v->counts)
        mk_input(g, "processed_lens", STENO_I64, "N");
    else
        mk_input(g, "T", STENO_F32, v->t ? v->t : "2,N,3");
    mk_i64(g, "axis0", "1", axis0, 1);
    mk_i64(g, "axis1", "1", axis1, 1);
    mk_f32(g, "one", "1", &one, 1);
    mk_node(g, "ReduceSum", "x,axis1", "frames");
    if (v->counts) {
        mk_i64(g, "column", "3", column, 3);
        mk_f32(g, "two", "1", &two, 1);
        mk_node(g, "Cast", "processed_lens", "count");
        mk_attr_int(g, "to", 1); /* TensorProto.FLOAT */
        pc_graph(g, "Reshape count,column counts; Mul counts,two t");
    } else {
        pc_graph(g, "ReduceSum T,axis0 t_sum; Transpose t_sum t perm=[1,0,2]");
    }
    mk_node(g, "Add", "S,frames", "with_s");
    if (v->mixes) {
        mk_node(g, "ReduceSum", v->mixes, "all");
        mk_node(g, "Add", "with_s,all", "mixed");
    }
    mk_node(g, "Add", v->mixes ? "mixed,t" : "with_s,t", "y");
    mk_node(g, v->new_s_is_integers ? "Cast" : "Identity", "y", new_s);
    if (v->new_s_is_integers)
        mk_attr_int(g, "to", 7); /* TensorProto.INT64 */
    if (!v->counts)
        mk_node(g, "Add", "T,one", "new_T");
    mk_output(g, "y", STENO_F32, NULL);
    mk_output(g, new_s, v->new_s_is_integers ? STENO_I64 : STENO_F32, NULL);
    if (!v->counts)
        mk_output(g, "new_T", STENO_F32, NULL);
    path = mk_file(g);
    if (steno_network_open(&n, path, NULL, &err))
        fail_msg("%s", err.msg);
    mk_unlink(path);
    mk_free(g);
    return n;
}

/* The window of a stream in a step: all values are the same. */
static float value(int stream, int step)
{
    return (float)(10 * stream + step + 1);
}

static void fill(steno_cached_encoder_batch *b, int at, int stream, int step)
{
    float *x = steno_cached_encoder_batch_x(b, at);
    for (int k = 0; k < WINDOW * BINS; k++)
        x[k] = value(stream, step);
}

/* y of a stream after `step`, by the formula. */
static float expected(int stream, int step)
{
    float s = 0;
    for (int k = 0; k <= step; k++)
        s += WINDOW * value(stream, k) + 2 * (float)k;
    return s;
}

/* All streams over STEPS in batches of `size`, which may have unused places. */
static void run(const struct steno_cached_encoder *e, int size)
{
    struct steno_cached_encoder_state mem[STREAMS], *s[STREAMS];
    steno_cached_encoder_batch *b = NULL;
    assert_int_equal(steno_cached_encoder_batch_open(&b, e, size, 1, NULL), STENO_OK);
    for (int i = 0; i < STREAMS; i++) {
        mem[i] = (struct steno_cached_encoder_state){.fresh = true};
        s[i] = &mem[i];
    }
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < STREAMS; i += size) {
            int n = STREAMS - i < size ? STREAMS - i : size;
            const float *y;
            for (int k = 0; k < n; k++)
                fill(b, k, i + k, step);
            assert_int_equal(steno_cached_encoder_batch_step(b, s + i, n, size, &y, NULL),
                             STENO_OK);
            for (int k = 0; k < n * BINS; k++)
                assert_true(y[k] == expected(i + k / BINS, step));
        }
    for (int i = 0; i < STREAMS; i++)
        steno_cached_encoder_state_free(&mem[i]);
    steno_cached_encoder_batch_close(b);
}

static void a_stream_has_its_own_states_in_every_batch(void **state)
{
    steno_network *n = make_network(&(struct variant){0});
    struct steno_cached_encoder e;
    (void)state;
    assert_int_equal(steno_cached_encoder_bind(&e, n, "x", &shape, "made", NULL), STENO_OK);
    assert_true(e.batches);
    assert_int_equal(e.n_states, 2);
    for (int size = 1; size <= 4; size++)
        run(&e, size);
    steno_cached_encoder_unbind(&e);
    steno_network_close(n);
}

static void frames_are_counted_where_the_network_does_not(void **state)
{
    steno_network *n = make_network(&(struct variant){.counts = true});
    struct steno_cached_encoder e;
    (void)state;
    assert_int_equal(steno_cached_encoder_bind(&e, n, "x", &shape, "made", NULL), STENO_OK);
    assert_true(e.batches);
    assert_int_equal(e.n_states, 2);
    for (int size = 1; size <= 4; size++)
        run(&e, size);
    steno_cached_encoder_unbind(&e);
    steno_network_close(n);
}

static void a_network_without_a_batch_dimension_runs_one_stream(void **state)
{
    steno_network *n = make_network(&(struct variant){.s = "1,1,3"});
    struct steno_cached_encoder e;
    (void)state;
    assert_int_equal(steno_cached_encoder_bind(&e, n, "x", &shape, "made", NULL), STENO_OK);
    assert_false(e.batches);
    run(&e, 1);
    steno_cached_encoder_unbind(&e);
    steno_network_close(n);
}

static steno_status read_all(void *arg, const float *y, size_t n, float *out, steno_err *err)
{
    (void)err;
    ++*(size_t *)arg;
    memcpy(out, y, n * FRAMES * BINS * sizeof *out);
    return STENO_OK;
}

/* The trial finds out whether streams change each other, by their windows or by their states. */
static void streams_that_change_each_other_run_alone(void **state)
{
    static const struct {
        struct variant v;
        bool batches;
        size_t steps[2]; /* of the trial: not exact, exact */
    } rows[] = {{{.mixes = NULL}, true, {3, 6}},
                {{.mixes = "frames,axis0"}, false, {3, 6}},
                {{.mixes = "S,axis0"}, false, {3, 6}},
                {{.s = "1,1,3"}, false, {2, 4}}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int exact = 0; exact < 2; exact++) {
            steno_network *n = make_network(&rows[i].v);
            struct steno_cached_encoder e;
            steno_cached_encoder_batch *b = NULL;
            size_t steps = 0;
            const struct steno_cached_encoder_reader r = {
                .read = read_all, .arg = &steps, .values = FRAMES * BINS, .exact = exact};
            assert_int_equal(steno_cached_encoder_bind(&e, n, "x", &shape, "made", NULL), STENO_OK);
            assert_int_equal(steno_cached_encoder_batch_open(&b, &e, 2, 1, NULL), STENO_OK);
            assert_int_equal(steno_cached_encoder_try(&e, b, &r, NULL), STENO_OK);
            assert_int_equal(e.batches, rows[i].batches);
            if (steps > rows[i].steps[exact] || !steps)
                fail_msg("row %zu, exact %d: %zu steps", i, exact, steps);
            steno_cached_encoder_batch_close(b);
            steno_cached_encoder_unbind(&e);
            steno_network_close(n);
        }
}

static void a_fresh_state_begins_at_zero_again(void **state)
{
    steno_network *n = make_network(&(struct variant){0});
    struct steno_cached_encoder_state mem = {.fresh = true}, *s = &mem;
    steno_cached_encoder_batch *b = NULL;
    struct steno_cached_encoder e;
    const float *y;
    (void)state;
    assert_int_equal(steno_cached_encoder_bind(&e, n, "x", &shape, "made", NULL), STENO_OK);
    assert_int_equal(steno_cached_encoder_batch_open(&b, &e, 1, 1, NULL), STENO_OK);
    for (int again = 0; again < 2; again++)
        for (int step = 0; step < STEPS; step++) {
            mem.fresh = step == 0;
            fill(b, 0, 1, step);
            assert_int_equal(steno_cached_encoder_batch_step(b, &s, 1, 1, &y, NULL), STENO_OK);
            assert_true(y[0] == expected(1, step));
        }
    steno_cached_encoder_state_free(&mem);
    steno_cached_encoder_batch_close(b);
    steno_cached_encoder_unbind(&e);
    steno_network_close(n);
}

static void graphs_that_do_not_fit_are_refused(void **state)
{
    const struct {
        struct variant graph;
        struct steno_cached_encoder_shape shape;
        const char *x, *message;
    } rows[] = {
        {{0}, shape, "feats", "made: 3 inputs, 3 outputs; expected an input feats, states"},
        {{0}, {5, BINS, FRAMES, BINS}, "x", "made: input x is f32 [?,4,3], expected f32 [N,5,3]"},
        {{0}, {WINDOW, BINS, FRAMES, 7}, "x", "expected f32 [N,1,7]"},
        {{.new_s = "next_S"}, shape, "x", "made: state S has no output new_S"},
        {{.new_s_is_integers = true}, shape, "x", "made: new_S and S have different types"},
        {{.t = "M,N,3"}, shape, "x", "state T is f32 [?,?,3], expected known extents"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        steno_network *n = make_network(&rows[i].graph);
        struct steno_cached_encoder e;
        steno_err err = {0};
        assert_int_equal(steno_cached_encoder_bind(&e, n, rows[i].x, &rows[i].shape, "made", &err),
                         STENO_ERR_FORMAT);
        if (!strstr(err.msg, rows[i].message))
            fail_msg("'%s' does not have '%s'", err.msg, rows[i].message);
        steno_network_close(n);
    }
}

static void metadata_that_differ_are_named(void **state)
{
    const struct steno_metadata same[] = {{"window_size", 16}, {"not_there", 3}};
    const struct steno_metadata other[] = {{"window_size", 17}};
    struct mk_graph *g = mk_new(17);
    Onnx__Model *m = mk_message(g);
    Onnx__StringStringEntry entry = ONNX__STRING_STRING_ENTRY__INIT;
    Onnx__StringStringEntry *entries[] = {&entry};
    char key[] = "window_size", text[] = "16", *path;
    steno_network *n = NULL;
    steno_err err = {0};
    (void)state;
    mk_input(g, "x", STENO_F32, "2");
    mk_node(g, "Relu", "x", "y");
    mk_output(g, "y", STENO_F32, "2");
    entry.key = key;
    entry.value = text;
    m->metadata_props = entries;
    m->n_metadata_props = 1;
    path = mk_file(g);
    assert_int_equal(steno_network_open(&n, path, NULL, NULL), STENO_OK);
    assert_int_equal(steno_metadata_check(n, "made", same, 2, NULL), STENO_OK);
    assert_int_equal(steno_metadata_check(n, "made", other, 1, &err), STENO_ERR_FORMAT);
    assert_string_equal(err.msg, "made: metadata window_size is 16, the model directory says 17");
    steno_network_close(n);
    mk_unlink(path);
    m->metadata_props = NULL;
    m->n_metadata_props = 0;
    mk_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_has_its_own_states_in_every_batch),
        cmocka_unit_test(frames_are_counted_where_the_network_does_not),
        cmocka_unit_test(a_network_without_a_batch_dimension_runs_one_stream),
        cmocka_unit_test(streams_that_change_each_other_run_alone),
        cmocka_unit_test(a_fresh_state_begins_at_zero_again),
        cmocka_unit_test(graphs_that_do_not_fit_are_refused),
        cmocka_unit_test(metadata_that_differ_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
