/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc */
/* ldflags: -Wl,--wrap=aligned_alloc,--wrap=posix_memalign */

#include "base/threads.h"
#include "nn/network/network.h"
#include "tests/support/alloc_count.h"
#include "tests/support/pass_check.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- helpers ---- */

static steno_network *network(struct mk_graph *m, int level)
{
    struct steno_network_options opt = {.opt_level = level, .borrow_from = 1};
    steno_network *n = NULL;
    steno_err err = {0};
    char *path = mk_file(m);
    if (steno_network_open(&n, path, &opt, &err))
        fail_msg("%s", err.msg);
    mk_unlink(path);
    mk_free(m);
    return n;
}

static void refused(struct mk_graph *m, steno_status want, const char *const *what)
{
    steno_network *n = NULL;
    steno_err err = {0};
    char *path = mk_file(m);
    assert_int_equal(steno_network_open(&n, path, NULL, &err), want);
    for (; *what; what++)
        if (!strstr(err.msg, *what))
            fail_msg("'%s' is not in '%s'", *what, err.msg);
    mk_unlink(path);
    mk_free(m);
}

static steno_session *session(steno_network *n)
{
    steno_session *s = NULL;
    steno_err err = {0};
    if (steno_session_open(&s, n, NULL, &err))
        fail_msg("%s", err.msg);
    return s;
}

static struct steno_tensor f32(float *data, int rank, const int64_t *dims)
{
    struct steno_tensor t = {.dtype = STENO_F32, .shape.rank = rank, .data = data};
    memcpy(t.shape.dim, dims, (size_t)rank * sizeof *dims);
    return t;
}

static void set(steno_session *s, int i, const struct steno_tensor *t)
{
    steno_err err = {0};
    if (steno_session_set(s, i, t, &err))
        fail_msg("%s", err.msg);
}

static void run(steno_session *s)
{
    steno_err err = {0};
    if (steno_session_run(s, &err))
        fail_msg("%s", err.msg);
}

static float at(const steno_session *s, int out, size_t i)
{
    return ((const float *)steno_session_get(s, out)->data)[i];
}

/* y = relu(x + 1) * x, z = transpose(reshape(y by a shape computed from x's shape)): operators
 * in place, views, shape arithmetic. */
static struct mk_graph *mixed(void)
{
    static const float one = 1;
    static const int64_t index[1] = {1}, minus[1] = {-1};
    struct mk_graph *m = mk_new(17);
    mk_input(m, "x", STENO_F32, "n,6");
    mk_f32(m, "one", "", &one, 1);
    mk_i64(m, "index", "1", index, 1);
    mk_i64(m, "minus", "1", minus, 1);
    pc_graph(m, "Add x,one a; Relu a b; Mul b,x y; Shape x s; Gather s,index six axis=0; "
                "Concat six,minus shape axis=0; Reshape y,shape r; Transpose r t; Exp t z");
    mk_output(m, "y", STENO_F32, "n,6");
    mk_output(m, "z", STENO_F32, NULL);
    return m;
}

static void check_mixed(const steno_session *s, const float *x, size_t n)
{
    const struct steno_tensor *y = steno_session_get(s, 0), *z = steno_session_get(s, 1);
    assert_int_equal(y->shape.rank, 2);
    assert_int_equal(y->shape.dim[0], n);
    assert_int_equal(z->shape.dim[0], n);
    assert_int_equal(z->shape.dim[1], 6);
    for (size_t i = 0; i < 6 * n; i++)
        assert_float_equal(((float *)y->data)[i], fmaxf(x[i] + 1, 0) * x[i], 1e-6);
    for (size_t i = 0; i < 6; i++)
        for (size_t k = 0; k < n; k++)
            assert_float_equal(((float *)z->data)[k * 6 + i], expf(((float *)y->data)[i * n + k]),
                               1e-4);
}

/* ---- tests ---- */

static void every_level_gives_the_same(void **state)
{
    float x[60];
    (void)state;
    for (int i = 0; i < 60; i++)
        x[i] = (float)(i % 11) / 5 - 1.2f;
    for (int level = 0; level <= 3; level++) {
        steno_network *n = network(mixed(), level);
        steno_session *s = session(n);
        struct steno_tensor t = f32(x, 2, (int64_t[]){10, 6});
        set(s, 0, &t);
        run(s);
        check_mixed(s, x, 10);
        assert_int_equal(steno_session_misplans(s), 0);
        steno_session_close(s);
        steno_network_close(n);
    }
}

static void shapes_may_change_between_runs(void **state)
{
    steno_network *n = network(mixed(), 3);
    steno_session *s = session(n);
    float x[240];
    (void)state;
    for (int i = 0; i < 240; i++)
        x[i] = (float)(i % 13) / 6 - 1;
    for (int round = 0; round < 60; round++) { /* more shapes than a session keeps plans */
        int64_t rows = 1 + (round * 7) % 40;
        struct steno_tensor t = f32(x, 2, (int64_t[]){rows, 6});
        set(s, 0, &t);
        run(s);
        check_mixed(s, x, (size_t)rows);
    }
    assert_int_equal(steno_session_misplans(s), 0);
    steno_session_close(s);
    steno_network_close(n);
}

static void empty_tensors_run(void **state)
{
    steno_network *n = network(mixed(), 3);
    steno_session *s = session(n);
    float x[1] = {0};
    struct steno_tensor t = f32(x, 2, (int64_t[]){0, 6});
    (void)state;
    set(s, 0, &t);
    /* Reshape of nothing to (6, -1) is undefined: an error with the node's name, no crash */
    {
        steno_err err = {0};
        steno_status st = steno_session_run(s, &err);
        assert_true(!st || strstr(err.msg, "'r'"));
    }
    t = f32(x, 2, (int64_t[]){1, 6});
    {
        float y[6] = {1, 2, 3, 4, 5, 6};
        t.data = y;
        set(s, 0, &t);
        run(s); /* the session still works after a failed run */
        check_mixed(s, y, 1);
    }
    steno_session_close(s);
    steno_network_close(n);
}

static void steady_state_allocates_nothing(void **state)
{
    steno_network *n = network(mixed(), 3);
    steno_session *s = session(n);
    float x[60] = {0};
    struct steno_tensor a = f32(x, 2, (int64_t[]){10, 6}), b = f32(x, 2, (int64_t[]){3, 6});
    long before;
    (void)state;
    for (int i = 0; i < 3; i++) {
        set(s, 0, i & 1 ? &a : &b);
        run(s);
    }
    before = atomic_load(&allocations);
    for (int i = 0; i < 1000; i++) {
        set(s, 0, i & 1 ? &a : &b); /* two lengths alternate: the session keeps both plans */
        run(s);
    }
    assert_int_equal(atomic_load(&allocations), before);
    steno_session_close(s);
    steno_network_close(n);
}

enum { TABLE = 1000, DEPTH = 16, WIDE = 256, PRODUCTS = 3 };

static float table_at(int row, int k)
{
    return (float)((row * 7 + k * 3) % 17 - 8);
}
static float weight_at(int p, int k, int c)
{
    return (float)((p * 5 + k + c * 2) % 5 - 2);
}

/* y_i [t, WIDE] = x * (first t rows of a table) W_i, like the projections of positions in each
 * layer. */
static struct mk_graph *positions(void)
{
    static float table[TABLE * DEPTH], w[PRODUCTS][DEPTH * WIDE];
    const int64_t zero = 0;
    struct mk_graph *m = mk_new(17);
    for (int i = 0; i < TABLE * DEPTH; i++)
        table[i] = table_at(i / DEPTH, i % DEPTH);
    mk_input(m, "x", STENO_F32, "t,256");
    mk_f32(m, "table", "1000,16", table, TABLE * DEPTH);
    mk_i64(m, "zero", "1", &zero, 1);
    pc_graph(m, "Shape x shape; Gather shape,zero rows; Slice table,zero,rows,zero part");
    for (int p = 0; p < PRODUCTS; p++) {
        const char num[2] = {(char)('0' + p), '\0'};
        char name[3][8];
        for (int i = 0; i < DEPTH * WIDE; i++)
            w[p][i] = weight_at(p, i / WIDE, i % WIDE);
        snprintf(name[0], sizeof name[0], "W%s", num);
        snprintf(name[1], sizeof name[1], "p%s", num);
        snprintf(name[2], sizeof name[2], "y%s", num);
        mk_f32(m, name[0], "16,256", w[p], DEPTH * WIDE);
        {
            char in[20];
            snprintf(in, sizeof in, "part,%s", name[0]);
            mk_node(m, "MatMul", in, name[1]);
            snprintf(in, sizeof in, "x,%s", name[1]);
            mk_node(m, "Mul", in, name[2]);
        }
        mk_output(m, name[2], STENO_F32, "t,256");
    }
    return m;
}

static void check_positions(const steno_session *s, int rows, float x)
{
    struct steno_profile_row step;
    for (int p = 0; p < PRODUCTS; p++)
        for (int r = 0; r < rows; r += 1 + rows / 9)
            for (int c = 0; c < WIDE; c += 37) {
                float want = 0;
                for (int k = 0; k < DEPTH; k++)
                    want += table_at(r, k) * weight_at(p, k, c);
                assert_float_equal(((float *)steno_session_get(s, p)->data)[r * WIDE + c], want * x,
                                   1e-3);
            }
    for (int i = 0; steno_session_profile(s, i, &step); i++)
        assert_string_equal(step.node->op_type, "Mul"); /* a run does nothing else */
}

/* A product that depends on weights and shapes alone is computed once per shape. Each plan holds
 * 3 MB of such constants here, so plans are dropped and made again. */
static void products_of_shapes_alone_are_kept(void **state)
{
    static float x[TABLE * WIDE];
    steno_network *n = network(positions(), 3);
    steno_session *s = session(n);
    (void)state;
    for (int round = 0; round < 24; round++) {
        const int rows = round % 3 == 2 ? 5 : TABLE - round / 2;
        struct steno_tensor t = f32(x, 2, (int64_t[]){rows, WIDE});
        for (int i = 0; i < rows * WIDE; i++)
            x[i] = (float)(round + 1);
        set(s, 0, &t);
        run(s);
        check_positions(s, rows, (float)(round + 1));
    }
    steno_session_close(s);
    steno_network_close(n);
}

/* After steno_session_trim a session holds no activations and gives the same results. The plan
 * stays unless all is trimmed. */
static void a_trimmed_session_holds_nothing_and_still_runs(void **state)
{
    static float x[TABLE * WIDE];
    const struct steno_tensor t = f32(x, 2, (int64_t[]){TABLE, WIDE});
    steno_network *n = network(positions(), 3);
    steno_session *s = session(n);
    struct steno_profile_row step;
    size_t running;
    (void)state;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = 2;
    steno_session_trim(s, true); /* before any run */
    set(s, 0, &t);
    run(s);
    running = steno_session_arena_bytes(s);
    assert_true(running > 0);
    for (int all = 0; all < 2; all++) {
        steno_session_trim(s, all);
        assert_int_equal(steno_session_arena_bytes(s), 0);
        assert_int_equal(steno_session_profile(s, 0, &step), !all);
        run(s);
        check_positions(s, TABLE, 2);
        assert_in_range(steno_session_arena_bytes(s), 1, running);
    }
    steno_session_close(s);
    steno_network_close(n);
}

/* new = old * 0.5 + x; diff = new - old: a state that is fed back. */
static struct mk_graph *streaming(void)
{
    static const float half = 0.5f;
    struct mk_graph *m = mk_new(17);
    mk_input(m, "x", STENO_F32, "4");
    mk_input(m, "old", STENO_F32, "4");
    mk_f32(m, "half", "", &half, 1);
    pc_graph(m, "Mul old,half h; Add h,x new; Sub new,old diff");
    mk_output(m, "new", STENO_F32, "4");
    mk_output(m, "diff", STENO_F32, "4");
    return m;
}

static void outputs_may_be_the_next_inputs(void **state)
{
    steno_network *n = network(streaming(), 3);
    steno_session *s = session(n);
    float x[4] = {1, 2, 3, 4}, zero[4] = {0}, want = 0;
    struct steno_tensor tx = f32(x, 1, (int64_t[]){4}), t0 = f32(zero, 1, (int64_t[]){4});
    long before = 0;
    (void)state;
    set(s, 0, &tx);
    set(s, 1, &t0);
    for (int i = 0; i < 1000; i++) {
        float old = want;
        run(s);
        want = want * 0.5f + 1;
        assert_float_equal(at(s, 0, 0), want, 0);
        assert_float_equal(at(s, 0, 3), 4 * want, 0);
        /* reads both buffers after the state was written */
        assert_float_equal(at(s, 1, 0), want - old, 0);
        set(s, 1, steno_session_get(s, 0));
        if (i == 3)
            before = atomic_load(&allocations);
    }
    assert_int_equal(atomic_load(&allocations), before);
    steno_session_close(s);
    steno_network_close(n);
}

/* all = old and x: what grows by a row in each run, such as the cache of a text, moves rarely. */
static void an_output_that_grows_has_room(void **state)
{
    float x[4] = {1, 2, 3, 4};
    const struct steno_tensor row = f32(x, 2, (int64_t[]){1, 4}),
                              none = f32(x, 2, (int64_t[]){0, 4});
    const void *last[2] = {NULL, NULL};
    struct mk_graph *m = mk_new(17);
    steno_network *n;
    steno_session *s;
    int moves = 0;
    (void)state;
    mk_input(m, "old", STENO_F32, "n,4");
    mk_input(m, "x", STENO_F32, "1,4");
    pc_graph(m, "Concat old,x all axis=0");
    mk_output(m, "all", STENO_F32, "m,4");
    n = network(m, 3);
    s = session(n);
    set(s, 0, &none);
    set(s, 1, &row);
    for (int i = 0; i < 400; i++) {
        const struct steno_tensor *y;
        run(s);
        y = steno_session_get(s, 0);
        assert_int_equal(y->shape.dim[0], i + 1);
        moves += y->data != last[i % 2];
        last[i % 2] = y->data;
        x[0] = (float)(i + 2);
        set(s, 0, y);
    }
    assert_true(moves < 50); /* 18 until rows are an eighth of it, then a few */
    for (int i = 0; i < 400; i++)
        assert_true(((const float *)steno_session_get(s, 0)->data)[4 * i] == (float)(i + 1));
    steno_session_close(s);
    steno_network_close(n);
}

static void sessions_of_one_network_are_independent(void **state)
{
    steno_network *n = network(streaming(), 3);
    steno_session *a = session(n), *b = session(n);
    float x[4] = {1, 1, 1, 1}, zero[4] = {0};
    struct steno_tensor tx = f32(x, 1, (int64_t[]){4}), t0 = f32(zero, 1, (int64_t[]){4});
    (void)state;
    for (int i = 0; i < 2; i++) {
        steno_session *s = i ? b : a;
        set(s, 0, &tx);
        set(s, 1, &t0);
    }
    run(a);
    set(a, 1, steno_session_get(a, 0));
    run(b);
    run(a);
    assert_float_equal(at(a, 0, 0), 1.5f, 0);
    assert_float_equal(at(b, 0, 0), 1, 0);
    steno_session_close(a);
    steno_session_close(b);
    steno_network_close(n);
}

/* Graph outputs that no node writes into their own memory: an input, a constant, one value
 * twice, a view of an input. */
static void outputs_of_every_origin(void **state)
{
    static const float c[2] = {7, 8};
    static const int64_t shape[2] = {2, 1};
    (void)state;
    for (int level = 0; level <= 3; level += 3) {
        struct mk_graph *m = mk_new(17);
        steno_network *n;
        steno_session *s;
        float x[2] = {3, -4};
        struct steno_tensor t = f32(x, 1, (int64_t[]){2});
        mk_input(m, "x", STENO_F32, "2");
        mk_f32(m, "c", "2", c, 2);
        mk_i64(m, "shape", "2", shape, 2);
        pc_graph(m, "Abs x a; Reshape x,shape v; Reshape a,shape w; Identity x i");
        mk_output(m, "x", STENO_F32, "2");
        mk_output(m, "c", STENO_F32, "2");
        mk_output(m, "a", STENO_F32, "2");
        mk_output(m, "a", STENO_F32, "2");
        mk_output(m, "v", STENO_F32, "2,1");
        mk_output(m, "w", STENO_F32, "2,1");
        mk_output(m, "i", STENO_F32, "2");
        n = network(m, level);
        s = session(n);
        set(s, 0, &t);
        for (int round = 0; round < 3; round++) {
            run(s);
            assert_float_equal(at(s, 0, 1), -4, 0);
            assert_float_equal(at(s, 1, 1), 8, 0);
            assert_float_equal(at(s, 2, 1), 4, 0);
            assert_float_equal(at(s, 3, 1), 4, 0);
            assert_float_equal(at(s, 4, 1), -4, 0);
            assert_int_equal(steno_session_get(s, 4)->shape.rank, 2);
            assert_float_equal(at(s, 5, 1), 4, 0);
            assert_float_equal(at(s, 6, 0), 3, 0);
            /* the session's memory, not the caller's */
            assert_ptr_not_equal(steno_session_get(s, 0)->data, x);
        }
        assert_string_equal(steno_network_output(n, 6)->name, "i");
        steno_session_close(s);
        steno_network_close(n);
    }
}

/* An operator may overwrite its input only when nobody reads the input later. */
static void inputs_read_later_are_not_overwritten(void **state)
{
    struct mk_graph *m = mk_new(17);
    steno_network *n;
    steno_session *s;
    float x[2] = {0.5f, -1};
    struct steno_tensor t = f32(x, 1, (int64_t[]){2});
    (void)state;
    mk_input(m, "x", STENO_F32, "2");
    pc_graph(m, "Exp x a; Neg a b; Relu b c; Add a,c d; Mul d,d e; Sub e,a y");
    mk_output(m, "y", STENO_F32, "2");
    n = network(m, 0);
    s = session(n);
    set(s, 0, &t);
    run(s);
    for (int i = 0; i < 2; i++)
        assert_float_equal(at(s, 0, (size_t)i), expf(x[i]) * expf(x[i]) - expf(x[i]), 1e-5);
    assert_float_equal(x[0], 0.5f, 0);
    steno_session_close(s);
    steno_network_close(n);
}

static void shapes_that_depend_on_data_run_and_are_planned(void **state)
{
    struct mk_graph *m = mk_new(17);
    steno_network *n;
    steno_session *s;
    float x[1] = {2};
    int64_t want[2] = {1, 1};
    struct steno_tensor t = f32(x, 1, (int64_t[]){1});
    struct steno_tensor shape = {.dtype = STENO_I64, .shape = {1, {2}}, .data = want};
    long before = 0;
    (void)state;
    mk_input(m, "x", STENO_F32, "1");
    mk_input(m, "shape", STENO_I64, "2");
    pc_graph(m, "Expand x,shape big; Transpose big transposed");
    mk_node(m, "Identity", "transposed", "same"); /* a view of memory outside the plan */
    pc_graph(m, "Neg same minus; Add minus,same zero; Sub zero,transposed y; -> y");
    n = network(m, 0);
    s = session(n);
    set(s, 0, &t);
    set(s, 1, &shape);
    for (int i = 0; i < 300; i++) {
        want[0] = 1 + i % 9;
        want[1] = 1 + i % 5;
        run(s);
        assert_int_equal(steno_session_get(s, 0)->shape.dim[0], want[1]);
        assert_int_equal(steno_session_get(s, 0)->shape.dim[1], want[0]);
        for (int64_t k = 0; k < want[0] * want[1]; k++)
            assert_float_equal(at(s, 0, (size_t)k), -2, 0);
        if (i == 150)
            before = atomic_load(&allocations);
    }
    assert_int_equal(atomic_load(&allocations), before);
    steno_session_close(s);
    steno_network_close(n);
}

static void wrong_inputs_are_refused_with_names(void **state)
{
    steno_network *n = network(mixed(), 3);
    steno_session *s = session(n);
    float x[12] = {0};
    struct steno_tensor t = f32(x, 2, (int64_t[]){2, 5});
    steno_err err = {0};
    (void)state;
    assert_int_equal(steno_session_run(s, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "'x'"));
    assert_int_equal(steno_session_set(s, 0, &t, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "[?,6]"));
    assert_non_null(strstr(err.msg, "[2,5]"));
    t = f32(x, 1, (int64_t[]){6});
    assert_int_equal(steno_session_set(s, 0, &t, &err), STENO_ERR_INVAL);
    t = f32(x, 2, (int64_t[]){2, 6});
    t.dtype = STENO_I32;
    assert_int_equal(steno_session_set(s, 0, &t, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "i32"));
    assert_int_equal(steno_session_set(s, 1, &t, &err), STENO_ERR_INVAL);
    assert_int_equal(steno_session_set(s, -1, &t, &err), STENO_ERR_INVAL);
    t.dtype = STENO_F32;
    t.shape.dim[0] = -1;
    assert_int_equal(steno_session_set(s, 0, &t, &err), STENO_ERR_INVAL);
    assert_null(steno_session_get(s, 2));
    steno_session_close(s);
    steno_network_close(n);
}

static void every_missing_operator_is_listed(void **state)
{
    struct mk_graph *m = mk_new(17), *body = mk_body(m);
    const char *want[] = {"operators are not supported", "Nonesuch@17", "com.acme:Gadget@3",
                          "Inner@17", NULL};
    (void)state;
    mk_import(m, "com.acme", 3);
    mk_input(m, "x", STENO_F32, "2");
    mk_input(m, "c", STENO_BOOL, "");
    pc_graph(m, "Nonesuch x a; Nonesuch a b; com.acme:Gadget b d");
    mk_node(body, "Inner", "d", "o");
    mk_output(body, "o", STENO_F32, "2");
    mk_if(m, "c", "y", body, body);
    mk_output(m, "y", STENO_F32, "2");
    refused(m, STENO_ERR_UNSUPPORTED, want);
}

static void incompatible_shapes_are_refused_at_load(void **state)
{
    static const float w[3] = {1, 2, 3};
    struct mk_graph *m = mk_new(17);
    const char *want[] = {"'bad'", "Add", NULL};
    (void)state;
    mk_input(m, "x", STENO_F32, "n,4");
    mk_f32(m, "w", "3", w, 3);
    pc_graph(m, "Add x,w bad; -> bad");
    refused(m, STENO_ERR_FORMAT, want);
}

static void constants_fold_and_dead_nodes_go(void **state)
{
    static const float two = 2;
    struct mk_graph *m = mk_new(17);
    steno_network *n;
    steno_session *s;
    float x[2] = {5, 6};
    struct steno_tensor t = f32(x, 1, (int64_t[]){2});
    (void)state;
    mk_input(m, "x", STENO_F32, "2");
    mk_f32(m, "two", "", &two, 1);
    pc_graph(m, "Mul two,two four; Sqrt four root; Exp x unread; Add x,root p");
    mk_node(m, "Add", "x,root", "q"); /* the same computation again */
    mk_node(m, "Mul", "p,q", "y");
    mk_output(m, "y", STENO_F32, "2");
    n = network(m, 3);
    assert_int_equal(steno_network_nodes_in_file(n), 6);
    assert_int_equal(steno_graph_count_nodes(steno_network_graph(n)), 2);
    s = session(n);
    set(s, 0, &t);
    run(s);
    assert_float_equal(at(s, 0, 1), 64, 0);
    steno_session_close(s);
    steno_network_close(n);
}

static void folding_does_not_blow_up_memory(void **state)
{
    static const int64_t big[2] = {20000, 20000};
    struct mk_graph *m = mk_new(17);
    steno_network *n;
    (void)state;
    mk_input(m, "x", STENO_F32, "");
    mk_i64(m, "big", "2", big, 2);
    pc_graph(m, "ConstantOfShape big zeros; Add zeros,x y; -> y");
    n = network(m, 3);
    assert_true(steno_network_weight_bytes(n) < 1000);
    steno_network_close(n);
}

static void sizes_that_overflow_at_run_time_are_errors(void **state)
{
    static const int64_t one[1] = {1};
    struct mk_graph *m = mk_new(17);
    steno_network *n;
    steno_session *s;
    int64_t huge[3] = {(int64_t)1 << 31, (int64_t)1 << 31, (int64_t)1 << 31};
    float x[1] = {1};
    struct steno_tensor shape = {.dtype = STENO_I64, .shape = {1, {3}}, .data = huge};
    struct steno_tensor t = f32(x, 1, one);
    steno_err err = {0};
    (void)state;
    mk_input(m, "x", STENO_F32, "1");
    mk_input(m, "shape", STENO_I64, "3");
    pc_graph(m, "Expand x,shape y; -> y");
    n = network(m, 3);
    s = session(n);
    set(s, 0, &t);
    set(s, 1, &shape);
    assert_int_equal(steno_session_run(s, &err), STENO_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "'y'"));
    huge[0] = huge[1] = huge[2] = -7;
    assert_int_not_equal(steno_session_run(s, &err), STENO_OK);
    huge[0] = huge[1] = 1;
    huge[2] = 3;
    run(s);
    assert_int_equal(steno_session_get(s, 0)->shape.dim[2], 3);
    steno_session_close(s);
    steno_network_close(n);
}

static void limits_of_memory_and_steps_hold(void **state)
{
    struct steno_session_options small = {.max_bytes = 100000}, few = {.max_steps = 2};
    steno_network *n = network(mixed(), 0);
    static float x[60000];
    struct steno_tensor t = f32(x, 2, (int64_t[]){10000, 6});
    (void)state;
    for (int i = 0; i < 2; i++) {
        steno_session *s = NULL;
        steno_err err = {0};
        assert_int_equal(steno_session_open(&s, n, i ? &few : &small, NULL), STENO_OK);
        set(s, 0, &t);
        assert_int_equal(steno_session_run(s, &err), STENO_ERR_LIMIT);
        assert_non_null(strstr(err.msg, i ? "2 steps" : "100000 bytes"));
        steno_session_close(s);
    }
    steno_network_close(n);
}

struct worker {
    steno_network *n;
    float x[60];
    size_t rows;
    bool good;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    steno_session *s = NULL;
    bool good = !steno_session_open(&s, w->n, NULL, NULL);
    for (int i = 0; good && i < 50; i++) {
        int64_t rows = 1 + (int64_t)((w->rows + (size_t)i) % 10);
        struct steno_tensor t = f32(w->x, 2, (int64_t[]){rows, 6});
        good = !steno_session_set(s, 0, &t, NULL) && !steno_session_run(s, NULL) &&
               at(s, 0, 0) == fmaxf(w->x[0] + 1, 0) * w->x[0];
    }
    w->good = good;
    steno_session_close(s);
    return NULL;
}

/* The network is frozen: sessions in four threads plan and run at the same time. */
static void sessions_run_at_the_same_time(void **state)
{
    static struct worker w[4];
    steno_network *n = network(mixed(), 3);
    pthread_t t[4];
    (void)state;
    for (int i = 0; i < 4; i++) {
        w[i].n = n;
        w[i].rows = (size_t)i * 3;
        for (int k = 0; k < 60; k++)
            w[i].x[k] = (float)(k + i) / 10;
        assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(t[i], NULL), 0);
        assert_true(w[i].good);
    }
    steno_network_close(n);
}

static void a_watched_thread_beats_before_each_node(void **state)
{
    steno_network *n = network(mixed(), 3);
    steno_session *s = session(n);
    float x[60] = {0};
    struct steno_tensor t = f32(x, 2, (int64_t[]){10, 6});
    _Atomic uint64_t beats = 0, others = 0;
    uint64_t each;
    (void)state;
    set(s, 0, &t);
    run(s); /* on a thread that nobody watches */
    steno_thread_count_beats(&beats);
    run(s);
    each = beats;
    assert_in_range(each, 2, 7); /* of seven nodes that are no shape arithmetic, some are fused */
    run(s);
    assert_int_equal(beats, 2 * each);
    steno_thread_count_beats(&others);
    run(s);
    steno_thread_count_beats(NULL);
    run(s);
    assert_int_equal(beats, 2 * each);
    assert_int_equal(others, each);
    steno_session_close(s);
    steno_network_close(n);
}

static void threads_give_the_same_bits(void **state)
{
    steno_network *n = network(mixed(), 3);
    steno_session *one = session(n), *four = NULL;
    static float x[6 * 5000];
    struct steno_tensor t = f32(x, 2, (int64_t[]){5000, 6});
    (void)state;
    for (int i = 0; i < 30000; i++)
        x[i] = (float)(i % 101) / 50 - 1;
    assert_int_equal(
        steno_session_open(&four, n, &(struct steno_session_options){.threads = 4}, NULL),
        STENO_OK);
    set(one, 0, &t);
    set(four, 0, &t);
    run(one);
    run(four);
    assert_memory_equal(steno_session_get(one, 1)->data, steno_session_get(four, 1)->data,
                        sizeof x);
    steno_session_close(one);
    steno_session_close(four);
    steno_network_close(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_gives_the_same),
        cmocka_unit_test(shapes_may_change_between_runs),
        cmocka_unit_test(empty_tensors_run),
        cmocka_unit_test(steady_state_allocates_nothing),
        cmocka_unit_test(products_of_shapes_alone_are_kept),
        cmocka_unit_test(a_trimmed_session_holds_nothing_and_still_runs),
        cmocka_unit_test(outputs_may_be_the_next_inputs),
        cmocka_unit_test(an_output_that_grows_has_room),
        cmocka_unit_test(sessions_of_one_network_are_independent),
        cmocka_unit_test(outputs_of_every_origin),
        cmocka_unit_test(inputs_read_later_are_not_overwritten),
        cmocka_unit_test(shapes_that_depend_on_data_run_and_are_planned),
        cmocka_unit_test(wrong_inputs_are_refused_with_names),
        cmocka_unit_test(every_missing_operator_is_listed),
        cmocka_unit_test(incompatible_shapes_are_refused_at_load),
        cmocka_unit_test(constants_fold_and_dead_nodes_go),
        cmocka_unit_test(folding_does_not_blow_up_memory),
        cmocka_unit_test(sizes_that_overflow_at_run_time_are_errors),
        cmocka_unit_test(limits_of_memory_and_steps_hold),
        cmocka_unit_test(sessions_run_at_the_same_time),
        cmocka_unit_test(a_watched_thread_beats_before_each_node),
        cmocka_unit_test(threads_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
