/* Products of rows of a table. The network keeps those of the longest input, plans refer to
 * them, and every row has the bits that it has alone. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/network/network.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#define ROWS 64 /* of the table; frame t of T uses row ROWS - T + t */
#define DIM 6
#define WIDE 10

enum form { SLICE, STEP_OF_TWO, FROM_THE_BACK, ROWS_READ, PLUS_X };

static float cell(int i)
{
    return (float)(i * 37 % 101) / 50 - 1;
}

static float weight(size_t i)
{
    return (float)(i * 29 % 83) / 41 - 1;
}

/* y [1, T, WIDE] = x [1, T, WIDE] * (table[ROWS - T : ROWS] W + b). */
static struct mk_graph *graph(enum form form, size_t wide)
{
    static const int64_t rows = ROWS, axis = 1, two = 2, zero = 0, all = INT64_MAX;
    static float table[ROWS * DIM];
    float *w;
    struct mk_graph *m = mk_new(13);
    char dims[64];
    for (int i = 0; i < ROWS * DIM; i++)
        table[i] = cell(i);
    snprintf(dims, sizeof dims, "1,%d,%d", ROWS, DIM);
    mk_f32(m, "table", dims, table, ROWS * DIM);
    w = malloc((DIM + 1) * wide * sizeof *w);
    assert_non_null(w);
    for (size_t i = 0; i < (DIM + 1) * wide; i++)
        w[i] = weight(i);
    snprintf(dims, sizeof dims, "%d,%zu", DIM, wide);
    mk_f32(m, "w", dims, w, DIM * wide);
    snprintf(dims, sizeof dims, "%zu", wide);
    mk_f32(m, "b", dims, w + DIM * wide, wide);
    free(w);
    mk_i64(m, "rows", "1", &rows, 1);
    mk_i64(m, "axis", "1", &axis, 1);
    mk_i64(m, "two", "1", &two, 1);
    mk_i64(m, "zero", "1", &zero, 1);
    mk_i64(m, "all", "1", &all, 1);
    snprintf(dims, sizeof dims, "1,T,%zu", wide == WIDE ? wide : 1);
    mk_input(m, "x", STENO_F32, dims);
    pc_graph(m, "Shape x shape; Slice shape,axis,two frames");
    mk_node(m, "Sub", form == FROM_THE_BACK ? "zero,frames" : "rows,frames", "start");
    mk_node(m, "Slice",
            form == STEP_OF_TWO     ? "table,start,rows,axis,two"
            : form == FROM_THE_BACK ? "table,start,all,axis"
                                    : "table,start,rows,axis",
            "taken");
    mk_node(m, "MatMul", "taken,w", "product");
    if (form == PLUS_X) { /* x becomes the residual of the product */
        mk_node(m, "Add", "product,x", "y");
    } else {
        pc_graph(m, "Add product,b p; Mul x,p y");
    }
    mk_output(m, "y", STENO_F32, NULL);
    if (form == ROWS_READ) {
        pc_graph(m, "Mul taken,taken square; -> square");
    }
    return m;
}

static steno_network *load(struct mk_graph *m, enum steno_precision precision)
{
    struct steno_network_options o = {.opt_level = -1, .precision = precision};
    steno_network *n = NULL;
    steno_err err;
    char *path = mk_file(m);
    if (steno_network_open(&n, path, &o, &err))
        fail_msg("%s", err.msg);
    mk_unlink(path);
    mk_free(m);
    return n;
}

static steno_session *open(steno_network *n)
{
    steno_session *s = NULL;
    steno_err err;
    if (steno_session_open(&s, n, NULL, &err))
        fail_msg("%s", err.msg);
    return s;
}

static const struct steno_tensor *run(steno_session *s, int64_t frames, int64_t wide)
{
    static float ones[ROWS * WIDE];
    struct steno_tensor t = {
        .dtype = STENO_F32, .shape = {.rank = 3, .dim = {1, frames, wide}}, .data = ones};
    steno_err err;
    for (int i = 0; i < ROWS * WIDE; i++)
        ones[i] = 1;
    if (steno_session_set(s, 0, &t, &err) || steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    return steno_session_get(s, 0);
}

static int steps(const steno_session *s, const char *op)
{
    struct steno_profile_row r;
    int n = 0;
    for (int i = 0; steno_session_profile(s, i, &r); i++)
        n += !strcmp(r.node->op_type, op);
    return n;
}

/* The frames of an input of length T equal the last T frames of the whole table. */
static void check_frames(const struct steno_tensor *y, int64_t frames, const float *whole)
{
    assert_int_equal(y->shape.dim[1], frames);
    assert_memory_equal(y->data, whole + (ROWS - frames) * WIDE,
                        (size_t)frames * WIDE * sizeof(float));
}

static void check_product(const struct steno_tensor *y, enum form form, int64_t frames)
{
    const int64_t first = ROWS - frames;
    for (int64_t r = 0; r < frames; r++)
        for (int c = 0; c < WIDE; c++) {
            double sum = form == PLUS_X ? 1 : (double)weight(DIM * WIDE + (size_t)c);
            for (int k = 0; k < DIM; k++)
                sum += (double)cell((int)(first + r) * DIM + k) *
                       (double)weight((size_t)(k * WIDE + c));
            assert_float_equal(((const float *)y->data)[r * WIDE + c], (float)sum, 1e-5);
        }
}

static void whole_table(steno_network *n, float *whole)
{
    steno_session *s = open(n);
    memcpy(whole, run(s, ROWS, WIDE)->data, ROWS * WIDE * sizeof *whole);
    steno_session_close(s);
}

static void rows_are_kept_for_shorter_inputs(void **state)
{
    static const int64_t lengths[] = {5, 3, 17, 17, 4, 40, 1, 64, 63, 2};
    static const enum steno_precision precision[] = {STENO_FP32, STENO_BF16_WEIGHTS,
                                                     STENO_INT8_WEIGHTS};
    (void)state;
    for (size_t p = 0; p < sizeof precision / sizeof *precision; p++) {
        float whole[ROWS * WIDE];
        steno_network *n = load(graph(SLICE, WIDE), precision[p]);
        steno_session *s;
        int64_t most = 0;
        whole_table(n, whole);
        if (precision[p] == STENO_FP32)
            check_product(&(struct steno_tensor){.data = whole}, SLICE, ROWS);
        s = open(n);
        assert_int_equal(steno_session_plan_constant_bytes(s), 0);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            const struct steno_tensor *y = run(s, lengths[i], WIDE);
            most = lengths[i] > most ? lengths[i] : most;
            check_frames(y, lengths[i], whole);
            assert_int_equal(steps(s, "Linear"), 0);
            assert_int_equal(steps(s, "Slice"), 0);
            assert_int_equal(steno_session_plan_constant_bytes(s),
                             (size_t)most * WIDE * sizeof(float));
        }
        steno_session_trim(s, true);
        assert_int_equal(steno_session_plan_constant_bytes(s), 0);
        check_frames(run(s, 7, WIDE), 7, whole);
        steno_session_close(s);
        steno_network_close(n);
    }
}

static void sessions_share_them(void **state)
{
    float whole[ROWS * WIDE];
    steno_network *n = load(graph(SLICE, WIDE), STENO_FP32);
    steno_session *a, *b;
    (void)state;
    whole_table(n, whole);
    a = open(n);
    b = open(n);
    check_frames(run(a, 20, WIDE), 20, whole);
    check_frames(run(b, 10, WIDE), 10, whole);
    assert_int_equal(steno_session_plan_constant_bytes(b), 20 * WIDE * sizeof(float));
    steno_session_close(a); /* b's plan still refers to them */
    assert_int_equal(steno_session_plan_constant_bytes(b), 20 * WIDE * sizeof(float));
    check_frames(run(b, 30, WIDE), 30, whole);
    check_frames(run(b, 10, WIDE), 10, whole);
    assert_int_equal(steno_session_plan_constant_bytes(b), 30 * WIDE * sizeof(float));
    steno_session_close(b);
    steno_network_close(n);
}

struct walk {
    steno_network *n;
    float *ones;
    const float *whole;
    unsigned seed;
    bool same;
};

static void *random_lengths(void *arg)
{
    struct walk *w = arg;
    steno_session *s = NULL;
    steno_err err;
    w->same = true;
    for (int i = 0; i < 60 && w->same; i++) {
        struct steno_tensor t = {
            .dtype = STENO_F32, .shape = {.rank = 3, .dim = {1, 1, WIDE}}, .data = w->ones};
        w->seed = w->seed * 1103515245 + 12345;
        t.shape.dim[1] += (w->seed >> 16) % ROWS;
        if (i % 20 == 0) {
            steno_session_close(s);
            w->same = !steno_session_open(&s, w->n, NULL, &err);
        }
        w->same = w->same && !steno_session_set(s, 0, &t, &err) && !steno_session_run(s, &err) &&
                  !memcmp(steno_session_get(s, 0)->data, w->whole + (ROWS - t.shape.dim[1]) * WIDE,
                          (size_t)t.shape.dim[1] * WIDE * sizeof(float));
    }
    steno_session_close(s);
    return NULL;
}

static void threads_read_and_replace_them(void **state)
{
    float whole[ROWS * WIDE], ones[ROWS * WIDE];
    steno_network *n = load(graph(SLICE, WIDE), STENO_FP32);
    pthread_t t[4];
    struct walk w[4];
    (void)state;
    whole_table(n, whole);
    for (int i = 0; i < ROWS * WIDE; i++)
        ones[i] = 1;
    for (int i = 0; i < 4; i++) {
        w[i] = (struct walk){n, ones, whole, (unsigned)i + 1, false};
        assert_int_equal(pthread_create(&t[i], NULL, random_lengths, &w[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        assert_true(w[i].same);
    }
    steno_network_close(n);
}

static void too_large_products_are_computed_in_every_run(void **state)
{
    const size_t wide = (size_t)1 << 19; /* one row takes 2 MiB */
    steno_network *n = load(graph(SLICE, wide), STENO_FP32);
    steno_session *s = open(n);
    (void)state;
    run(s, 30, 1);
    assert_int_equal(steno_session_plan_constant_bytes(s), 30 * wide * sizeof(float));
    assert_int_equal(steps(s, "Linear"), 0);
    run(s, 33, 1);
    assert_int_equal(steno_session_plan_constant_bytes(s), 30 * wide * sizeof(float));
    assert_int_equal(steps(s, "Linear"), 1);
    run(s, 29, 1);
    assert_int_equal(steps(s, "Linear"), 0);
    steno_session_close(s);
    steno_network_close(n);
}

static void near_misses_are_computed(void **state)
{
    static const enum form form[] = {STEP_OF_TWO, FROM_THE_BACK, PLUS_X};
    (void)state;
    for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
        const int64_t frames = form[i] == STEP_OF_TWO ? 2 : 9; /* two frames use one row */
        steno_network *n = load(graph(form[i], WIDE), STENO_FP32);
        steno_session *s = open(n);
        const struct steno_tensor *y = run(s, frames, WIDE);
        assert_int_equal(y->shape.dim[1], frames);
        if (form[i] == STEP_OF_TWO)
            assert_memory_equal(y->data, (const float *)y->data + WIDE, WIDE * sizeof(float));
        else
            check_product(y, form[i], frames);
        steno_session_close(s);
        steno_network_close(n);
    }
}

/* The rows themselves have a second reader; the graph computes that too. */
static void rows_that_are_read_stay(void **state)
{
    steno_network *n = load(graph(ROWS_READ, WIDE), STENO_FP32);
    steno_session *s = open(n);
    const struct steno_tensor *square;
    (void)state;
    check_product(run(s, 11, WIDE), ROWS_READ, 11);
    square = steno_session_get(s, 1);
    assert_int_equal(square->shape.dim[1], 11);
    for (int i = 0; i < 11 * DIM; i++) {
        float x = cell((ROWS - 11) * DIM + i);
        assert_float_equal(((const float *)square->data)[i], x * x, 1e-6);
    }
    steno_session_close(s);
    steno_network_close(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_kept_for_shorter_inputs),
        cmocka_unit_test(sessions_share_them),
        cmocka_unit_test(threads_read_and_replace_them),
        cmocka_unit_test(too_large_products_are_computed_in_every_run),
        cmocka_unit_test(near_misses_are_computed),
        cmocka_unit_test(rows_that_are_read_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
