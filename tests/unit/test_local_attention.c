/* LocalAttention: the operator against a plain computation, and its body in a written file. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"
#include "tests/support/write_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const levels[] = {"scalar", "avx2", "avx512", "native"};

/* ---- the operator ---- */

struct size {
    int64_t batch, rows, heads, size, v_size, window;
};

enum { Q, K, V, MASK, OFF };

static float numbers[5][1 << 16];
static uint8_t offs[1 << 12];

static void fill(void)
{
    uint32_t x = 7;
    for (size_t k = 0; k < 5; k++)
        for (size_t i = 0; i < 1 << 16; i++) {
            x = x * 1664525u + 1013904223u;
            numbers[k][i] = (float)(x >> 8) / (1 << 23) - 1;
        }
    for (size_t i = 0; i < 1 << 12; i++) {
        offs[i] = i % 7 == 3;
        if (i % 5 == 1)
            numbers[MASK][i] = -10000;
    }
}

/* dims: of Q, K and V, or NULL: all open. */
static struct mk_graph *operator(const struct size *s, bool masked, const char *dims)
{
    struct mk_graph *m = mk_new(17);
    Onnx__Node *n;
    mk_import(m, "ai.steno", 1);
    mk_input(m, "q", STENO_F32, dims ? dims : "b,t,a");
    mk_input(m, "k", STENO_F32, dims ? dims : "b,t,a");
    mk_input(m, "v", STENO_F32, dims ? dims : "b,t,c");
    if (masked) {
        mk_input(m, "mask", STENO_F32, "b,t");
        mk_input(m, "off", STENO_BOOL, "b,t,1");
    }
    n = mk_node(m, "LocalAttention", masked ? "q,k,v,mask,off" : "q,k,v", "y");
    n->domain = (char *)(uintptr_t) "ai.steno";
    mk_attr_int(m, "heads", s->heads);
    mk_attr_int(m, "size", s->size);
    mk_attr_int(m, "v_size", s->v_size);
    mk_attr_int(m, "window", s->window);
    mk_attr_float(m, "scale", 0.5f);
    mk_output(m, "y", STENO_F32, NULL);
    return m;
}

static steno_session *run(steno_network *n, const struct size *s, bool masked, int threads)
{
    const int64_t cols[] = {s->heads * s->size, s->heads * s->size, s->heads * s->v_size};
    struct steno_session_options opt = {.threads = threads};
    steno_session *session = NULL;
    steno_err err = {0};
    if (steno_session_open(&session, n, &opt, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < (masked ? 5 : 3); i++) {
        struct steno_tensor t = {.dtype = i == OFF ? STENO_BOOL : STENO_F32,
                                 .data = i == OFF ? (void *)offs : numbers[i]};
        t.shape = (struct steno_shape){.rank = i == MASK ? 2 : 3, .dim = {s->batch, s->rows}};
        if (i != MASK)
            t.shape.dim[2] = i == OFF ? 1 : cols[i];
        if (steno_session_set(session, i, &t, &err))
            fail_msg("%s", err.msg);
    }
    if (steno_session_run(session, &err))
        fail_msg("%lld rows, window %lld: %s", (long long)s->rows, (long long)s->window, err.msg);
    return session;
}

/* One result by the formula, in f64. */
static double plain(const struct size *s, bool masked, int64_t b, int64_t t, int64_t h, int64_t c)
{
    const int64_t d = s->heads * s->size, dv = s->heads * s->v_size;
    double sum = 0, y = 0, max = -INFINITY;
    if (masked && offs[b * s->rows + t])
        return 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = t - s->window; j <= t + s->window; j++) {
            double x = 0, w;
            if (j < 0 || j >= s->rows)
                continue;
            for (int64_t i = 0; i < s->size; i++)
                x += (double)numbers[Q][(b * s->rows + t) * d + h * s->size + i] *
                     (double)numbers[K][(b * s->rows + j) * d + h * s->size + i];
            x = x * 0.5 + (masked ? (double)numbers[MASK][b * s->rows + j] : 0);
            max = pass ? max : fmax(max, x);
            w = pass ? exp(x - max) : 0;
            sum += w;
            y += w * (double)numbers[V][(b * s->rows + j) * dv + h * s->v_size + c];
        }
    return y / sum;
}

static void agrees(const steno_session *session, const struct size *s, bool masked)
{
    const struct steno_tensor *y = steno_session_get(session, 0);
    const int64_t dv = s->heads * s->v_size;
    assert_int_equal(y->shape.rank, 3);
    assert_int_equal(y->shape.dim[0], s->batch);
    assert_int_equal(y->shape.dim[1], s->rows);
    assert_int_equal(y->shape.dim[2], dv);
    for (int64_t i = 0; i < s->batch * s->rows * dv; i++) {
        int64_t row = i / dv, c = i % dv;
        double want = plain(s, masked, row / s->rows, row % s->rows, c / s->v_size, c % s->v_size);
        double got = (double)((float *)y->data)[i];
        if (!(fabs(got - want) < 2e-5))
            fail_msg("%lld rows, window %lld: element %lld is %g, expected %g", (long long)s->rows,
                     (long long)s->window, (long long)i, got, want);
    }
}

static void one_size(const struct size *s, bool masked)
{
    struct mk_graph *m = operator(s, masked, NULL);
    size_t bytes;
    uint8_t *file = mk_bytes(m, &bytes);
    mk_free(m);
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
        struct steno_network_options opt = {.borrow_from = 1, .opt_level = 3, .cpu = levels[l]};
        steno_network *n = NULL;
        steno_session *one, *two;
        steno_err err = {0};
        if (steno_network_open_memory(&n, file, bytes, "test", &opt, &err))
            fail_msg("%s", err.msg);
        one = run(n, s, masked, 1);
        two = run(n, s, masked, 2);
        assert_int_equal(steno_session_misplans(one), 0);
        agrees(one, s, masked);
        assert_memory_equal(steno_session_get(one, 0)->data, steno_session_get(two, 0)->data,
                            steno_numel(steno_session_get(one, 0)) * sizeof(float));
        steno_session_close(one);
        steno_session_close(two);
        steno_network_close(n);
    }
    free(file);
}

static void every_row_sees_its_window(void **state)
{
    static const struct size sizes[] = {
        {1, 1, 1, 4, 4, 0},    {2, 5, 2, 3, 5, 0},    {1, 5, 1, 8, 8, 1},
        {2, 63, 2, 4, 4, 5},   {1, 64, 2, 4, 4, 64},  {2, 65, 3, 5, 2, 17},
        {1, 129, 1, 4, 4, 63}, {1, 200, 2, 8, 8, 10}, {1, 70, 2, 4, 4, 1000}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int masked = 0; masked < 2; masked++)
            one_size(&sizes[i], masked);
}

static void no_rows_give_no_rows(void **state)
{
    const struct size s = {1, 0, 2, 4, 4, 3};
    (void)state;
    one_size(&s, true);
}

static void bad_attributes_and_inputs_are_named(void **state)
{
    static const struct {
        struct size s;
        const char *says;
    } cases[] = {{{1, 4, 0, 4, 4, 1}, "heads is 0"},
                 {{1, 4, 2, 4, 4, -1}, "window is -1"},
                 {{1, 4, 2, 70000, 4, 1}, "size is 70000"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steno_network_options opt = {.borrow_from = 1, .opt_level = 3};
        struct mk_graph *m = operator(&cases[i].s, false, NULL);
        steno_network *n = NULL;
        steno_err err = {0};
        size_t bytes;
        uint8_t *file = mk_bytes(m, &bytes);
        assert_int_not_equal(steno_network_open_memory(&n, file, bytes, "test", &opt, &err), 0);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("'%s' without '%s'", err.msg, cases[i].says);
        free(file);
        mk_free(m);
    }
}

static void it_is_written_as_a_function(void **state)
{
    static const struct size sizes[] = {{3, 3, 2, 4, 4, 3}, {3, 3, 2, 4, 4, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int masked = 0; masked < 2; masked++) {
            wc_round_trip(operator(&sizes[i], masked, "b,t,8"), "LocalAttention", 17);
            wc_round_trip(operator(&sizes[i], masked, "b,t,8"), "LocalAttention", 13);
        }
}

static int setup(void **state)
{
    (void)state;
    fill();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_sees_its_window),
        cmocka_unit_test(no_rows_give_no_rows),
        cmocka_unit_test(bad_attributes_and_inputs_are_named),
        cmocka_unit_test(it_is_written_as_a_function),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
