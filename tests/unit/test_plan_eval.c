/* What a plan decides in advance: branches whose condition depends on shapes alone, and views
 * that stay in their input's memory. */

#include "nn/network/network.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

static const int64_t zero[1] = {0}, one[1] = {1};

static steno_session *open(struct mk_graph *m, steno_network **n)
{
    struct steno_network_options opt = {.opt_level = 0};
    steno_session *s = NULL;
    steno_err err = {0};
    char *path = mk_file(m);
    if (steno_network_open(n, path, &opt, &err) || steno_session_open(&s, *n, NULL, &err))
        fail_msg("%s", err.msg);
    mk_unlink(path);
    mk_free(m);
    return s;
}

static void close_both(steno_session *s, steno_network *n)
{
    steno_session_close(s);
    steno_network_close(n);
}

static void set(steno_session *s, int i, float *data, int rank, const int64_t *dims)
{
    struct steno_tensor t = {.dtype = STENO_F32, .shape.rank = rank, .data = data};
    steno_err err = {0};
    memcpy(t.shape.dim, dims, (size_t)rank * sizeof *dims);
    if (steno_session_set(s, i, &t, &err))
        fail_msg("%s", err.msg);
}

static void run(steno_session *s)
{
    steno_err err = {0};
    if (steno_session_run(s, &err))
        fail_msg("%s", err.msg);
}

static const float *out(const steno_session *s, int i)
{
    return steno_session_get(s, i)->data;
}

/* The last plan must run exactly these operators, in this order. */
static void check_steps(const steno_session *s, const char *const *want)
{
    struct steno_profile_row r;
    int i = 0;
    for (; steno_session_profile(s, i, &r); i++) {
        if (!want[i])
            fail_msg("step %d, %s, is one too many", i, r.node->op_type);
        assert_string_equal(r.node->op_type, want[i]);
    }
    assert_null(want[i]);
}

/* cond: the first dimension of x is 1. */
static void first_is_one(struct mk_graph *m)
{
    mk_i64(m, "zero", "1", zero, 1);
    mk_i64(m, "one", "1", one, 1);
    pc_graph(m, "Shape x shape; Gather shape,zero first; Equal first,one cond");
}

/* The guard that exporters put around a Squeeze: y = -(x.squeeze(0) if x.shape[0] == 1 else x). */
static void both_branches_are_taken_in_turn(void **state)
{
    struct mk_graph *m = mk_new(17), *yes = mk_body(m), *no = mk_body(m);
    float x[12], y[12];
    steno_network *n;
    steno_session *s;
    (void)state;
    mk_input(m, "x", STENO_F32, "n,4");
    mk_node(m, "Neg", "x", "minus");
    first_is_one(m);
    pc_graph(yes, "Squeeze minus,zero squeezed; -> squeezed");
    pc_graph(no, "Identity minus same; -> same");
    mk_if(m, "cond", "chosen", yes, no);
    pc_graph(m, "Exp chosen y; -> y");
    s = open(m, &n);
    for (int i = 0; i < 12; i++)
        x[i] = (float)i / 4;
    for (int round = 0; round < 40; round++) { /* more rounds than a session keeps plans */
        int64_t rows = round % 4 % 3 + 1;
        const struct steno_tensor *got;
        set(s, 0, x, 2, (int64_t[]){rows, 4});
        run(s);
        got = steno_session_get(s, 0);
        assert_int_equal(got->shape.rank, rows == 1 ? 1 : 2);
        assert_int_equal(got->shape.dim[got->shape.rank - 1], 4);
        if (rows == 3)
            memcpy(y, out(s, 0), sizeof y);
        else if (round > 2)
            assert_memory_equal(out(s, 0), y, (size_t)rows * 4 * sizeof *y);
        check_steps(s, (const char *const[]){"Neg", "Exp", NULL});
    }
    assert_int_equal(steno_session_misplans(s), 0);
    close_both(s, n);
}

/* Branches with nodes of their own, nested branches and constants. The outputs are an input, a
 * constant, a computed value, and one value twice. */
static void outputs_of_a_branch_come_from_anywhere(void **state)
{
    static const float three[2] = {3, 3}, five[2] = {5, 5};
    struct mk_graph *m = mk_new(17), *yes = mk_body(m), *no = mk_body(m);
    struct mk_graph *inner_yes = mk_body(yes), *inner_no = mk_body(yes);
    float x[4] = {1, 2, 3, 4};
    steno_network *n;
    steno_session *s;
    (void)state;
    mk_input(m, "x", STENO_F32, "n,2");
    first_is_one(m);
    mk_f32(inner_yes, "three", "2", three, 2);
    pc_graph(inner_yes, "Mul x,three tripled; Sub tripled,x doubled; -> doubled");
    pc_graph(inner_no, "Identity x never; -> never");
    mk_f32(yes, "five", "2", five, 2);
    mk_if(yes, "cond", "inner", inner_yes, inner_no);
    pc_graph(yes, "Add inner,five sum; Identity x x_again; -> sum; -> sum; -> five; -> x_again");
    pc_graph(no, "Neg x minus; Abs x plus");
    for (int i = 0; i < 4; i++)
        mk_output(no, i % 2 ? "plus" : "minus", STENO_F32, NULL);
    mk_if(m, "cond", "a,b,c,d", yes, no);
    mk_node(m, "Neg", "a", "e"); /* must not overwrite a, which is also b and an output */
    for (const char *o = "abcde"; *o; o++)
        mk_output(m, (char[]){*o, 0}, STENO_F32, NULL);
    s = open(m, &n);
    for (int round = 0; round < 6; round++) {
        set(s, 0, x, 2, (int64_t[]){1, 2});
        run(s);
        assert_memory_equal(out(s, 0), ((float[]){7, 9}), 8);
        assert_memory_equal(out(s, 1), ((float[]){7, 9}), 8);
        assert_memory_equal(out(s, 2), ((float[]){5, 5}), 8);
        assert_memory_equal(out(s, 3), ((float[]){1, 2}), 8);
        assert_memory_equal(out(s, 4), ((float[]){-7, -9}), 8);
        check_steps(s, (const char *const[]){"Mul", "Sub", "Add", "Identity", "Neg", NULL});
        set(s, 0, x, 2, (int64_t[]){2, 2});
        run(s);
        for (int i = 0; i < 5; i++)
            assert_float_equal(out(s, i)[3], (i % 2 || i == 4 ? 4 : -4), 0);
        check_steps(s, (const char *const[]){"Neg", "Abs", "Neg", NULL});
    }
    close_both(s, n);
}

/* A loop reads the result of a branch that the plan chose. Its own body has an If that the plan
 * decides too. */
static void loops_see_into_branches(void **state)
{
    static const int64_t turns[1] = {3};
    struct mk_graph *m = mk_new(17), *yes = mk_body(m), *no = mk_body(m), *body = mk_body(m);
    struct mk_graph *add = mk_body(body), *keep = mk_body(body);
    float x[4] = {1, 2, 3, 4};
    steno_network *n;
    steno_session *s;
    (void)state;
    mk_input(m, "x", STENO_F32, "n,2");
    first_is_one(m);
    mk_i64(m, "turns", "", turns, 1);
    pc_graph(yes, "Neg x minus; -> minus");
    pc_graph(no, "Identity x same; -> same");
    mk_if(m, "cond", "chosen", yes, no);
    mk_input(body, "turn", STENO_I64, "");
    mk_input(body, "go", STENO_BOOL, "");
    mk_input(body, "sum", STENO_F32, NULL);
    pc_graph(add, "Add sum,chosen more; -> more");
    pc_graph(keep, "Mul sum,chosen less; -> less");
    mk_node(body, "Identity", "go", "go_on");
    mk_if(body, "cond", "next", add, keep);
    mk_output(body, "go_on", STENO_BOOL, "");
    mk_output(body, "next", STENO_F32, NULL);
    mk_node(m, "Loop", "turns,,x", "y");
    mk_attr_graph(m, "body", body);
    mk_output(m, "y", STENO_F32, NULL);
    s = open(m, &n);
    for (int round = 0; round < 3; round++) {
        set(s, 0, x, 2, (int64_t[]){1, 2});
        run(s);
        assert_memory_equal(out(s, 0), ((float[]){-2, -4}), 8);
        set(s, 0, x, 2, (int64_t[]){2, 2});
        run(s);
        assert_memory_equal(out(s, 0), ((float[]){1, 16, 81, 256}), 16);
    }
    close_both(s, n);
}

/* A condition that depends on data is evaluated in every run. */
static void conditions_on_data_are_evaluated_in_every_run(void **state)
{
    static const float none = 0;
    struct mk_graph *m = mk_new(17), *yes = mk_body(m), *no = mk_body(m);
    float x[1];
    steno_network *n;
    steno_session *s;
    (void)state;
    mk_input(m, "x", STENO_F32, "1");
    mk_f32(m, "none", "", &none, 1);
    mk_node(m, "Less", "x,none", "cond");
    pc_graph(yes, "Neg x minus; -> minus");
    pc_graph(no, "Identity x same; -> same");
    mk_if(m, "cond", "y", yes, no);
    mk_output(m, "y", STENO_F32, NULL);
    s = open(m, &n);
    for (int round = 0; round < 6; round++) {
        x[0] = round % 2 ? -3.0f : 3.0f;
        set(s, 0, x, 1, (int64_t[]){1});
        run(s);
        assert_float_equal(out(s, 0)[0], 3, 0);
    }
    check_steps(s, (const char *const[]){"Less", "If", NULL});
    close_both(s, n);
}

/* Views of an input, of a value in the arena, of a graph output. A view of an input that is a
 * graph output needs a copy. */
static void views_take_no_step(void **state)
{
    static const int64_t flat[1] = {-1};
    struct mk_graph *m = mk_new(17);
    float x[6] = {1, 2, 3, 4, 5, 6};
    steno_network *n;
    steno_session *s;
    (void)state;
    mk_input(m, "x", STENO_F32, "2,3");
    mk_i64(m, "zero", "1", zero, 1);
    mk_i64(m, "flat", "1", flat, 1);
    pc_graph(m, "Unsqueeze x,zero x3; Reshape x3,flat x1; Neg x1 a; Unsqueeze a,zero a2; "
                "Identity a2 b; Neg b c; Flatten x3 d; -> a; -> b; -> c; -> d");
    s = open(m, &n);
    for (int round = 0; round < 3; round++) {
        float other[6];
        for (int i = 0; i < 6; i++)
            other[i] = (float)(round + i);
        set(s, 0, round == 1 ? x : other, 2, (int64_t[]){2, 3}); /* other memory in every run */
        run(s);
        for (int i = 0; i < 6; i++) {
            float v = round == 1 ? x[i] : other[i];
            assert_float_equal(out(s, 0)[i], -v, 0);
            assert_float_equal(out(s, 1)[i], -v, 0);
            assert_float_equal(out(s, 2)[i], v, 0);
            assert_float_equal(out(s, 3)[i], v, 0);
        }
        assert_int_equal(steno_session_get(s, 1)->shape.rank, 2);
        assert_int_equal(steno_session_get(s, 3)->shape.dim[1], 6);
    }
    check_steps(s, (const char *const[]){"Neg", "Neg", "Flatten", NULL});
    close_both(s, n);
}

/* A Scan whose body doubles the size of its state, against the rule that a state keeps its
 * shape. Shape inference is wrong about the result, and so about its views. */
static void views_follow_a_value_that_was_planned_wrongly(void **state)
{
    static const int64_t flat[1] = {-1};
    struct mk_graph *m = mk_new(17), *body = mk_body(m);
    float x[1] = {2}, seq[3] = {1, 2, 3};
    steno_network *n;
    steno_session *s;
    (void)state;
    mk_input(m, "x", STENO_F32, "1");
    mk_input(m, "seq", STENO_F32, "3");
    mk_i64(m, "zero", "1", zero, 1);
    mk_i64(m, "flat", "1", flat, 1);
    mk_input(body, "h", STENO_F32, NULL);
    mk_input(body, "e", STENO_F32, "");
    pc_graph(body, "Concat h,h next axis=0; Neg e minus; -> next");
    mk_output(body, "minus", STENO_F32, "");
    mk_node(m, "Scan", "x,seq", "grown,ys");
    mk_attr_graph(m, "body", body);
    mk_attr_int(m, "num_scan_inputs", 1);
    pc_graph(m, "Unsqueeze grown,zero row; Reshape row,flat again; Neg again y; -> y; -> ys");
    s = open(m, &n);
    for (int round = 0; round < 3; round++) {
        const struct steno_tensor *y;
        set(s, 0, x, 1, (int64_t[]){1});
        set(s, 1, seq, 1, (int64_t[]){3});
        run(s);
        y = steno_session_get(s, 0);
        assert_int_equal(y->shape.dim[0], 8);
        for (int i = 0; i < 8; i++)
            assert_float_equal(((const float *)y->data)[i], -2, 0);
    }
    assert_true(steno_session_misplans(s) > 0);
    close_both(s, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_branches_are_taken_in_turn),
        cmocka_unit_test(outputs_of_a_branch_come_from_anywhere),
        cmocka_unit_test(loops_see_into_branches),
        cmocka_unit_test(conditions_on_data_are_evaluated_in_every_run),
        cmocka_unit_test(views_take_no_step),
        cmocka_unit_test(views_follow_a_value_that_was_planned_wrongly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
