/* steno_network_options.last_row: of a product whose last row alone is read, that row alone is
 * computed. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

static steno_network *open_rows(const uint8_t *file, size_t size, bool last_row, int level)
{
    const struct steno_network_options opt = {.opt_level = level, .last_row = last_row};
    steno_network *n = NULL;
    steno_err err = {0};
    if (steno_network_open_memory(&n, file, size, "test", &opt, &err))
        fail_msg("%s", err.msg);
    return n;
}

/* Rows of the largest value that a product computes. */
static int64_t rows_of_products(const steno_network *n)
{
    static const char *const types[] = {"MatMul", "Linear", "IntLinear"};
    const struct steno_graph *g = steno_network_graph(n);
    int64_t rows = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            const struct steno_shape *s = &g->values[g->nodes[i].out[0]].shape;
            if (!g->nodes[i].dead && !strcmp(g->nodes[i].op_type, types[t]) && s->dim[1] > rows)
                rows = s->dim[1];
        }
    return rows;
}

/* The last of five rows is the same, alone or not; rows: what the last product computes of them. */
static void check(const char *text, int64_t rows)
{
    struct mk_graph *m = pc_start(13, "1,5,8");
    size_t size;
    uint8_t *file;
    pc_graph(m, text);
    pc.context = text;
    file = mk_bytes(m, &size);
    mk_free(m);
    for (int level = 0; level <= 3; level += 3) {
        steno_network *whole = open_rows(file, size, false, level);
        steno_network *last = open_rows(file, size, true, level);
        steno_session *a = pc_run(whole), *b = pc_run(last);
        const struct steno_tensor *x = steno_session_get(a, 0), *y = steno_session_get(b, 0);
        const size_t n = (size_t)y->shape.dim[2];
        assert_string_equal(steno_network_output(last, 0)->name, "y");
        assert_int_equal(y->shape.rank, 3);
        assert_int_equal(y->shape.dim[1], 1);
        assert_int_equal(steno_numel(x), 5 * n);
        for (size_t i = 0; i < n; i++)
            assert_true(((float *)x->data)[4 * n + i] == ((float *)y->data)[i]);
        if (rows == 1 || !level) /* passes make other operators of the others */
            assert_int_equal(rows_of_products(last), rows);
        steno_session_close(a);
        steno_session_close(b);
        steno_network_close(whole);
        steno_network_close(last);
    }
    free(file);
    pc.context = NULL;
}

static void the_last_row_alone_is_computed(void **state)
{
    (void)state;
    check("w : 8,20; MatMul x,w y; -> y", 1);
    check("w : 8,20; Relu x h; MatMul h,w y; -> y", 1);
    check("w : 8,20; c : 1; MatMul x,w h; Tanh h t; Mul t,c y; -> y", 5);
    check("w : 8,20; c : 20; MatMul x,w h; Div h,c y; -> y", 1);
    check("w : 8,20; c : 1,5,20; MatMul x,w h; Mul h,c y; -> y", 5);
}

static void rows_that_others_read_stay(void **state)
{
    (void)state;
    check("w : 8,20; MatMul x,w y; Relu y z; -> y; -> z", 5);
    /* the second factor has rows of its own, or mixes those of the first */
    check("Transpose x t perm=[0,2,1]; MatMul x,t y; -> y", 5);
    check("w : 5,5; MatMul w,x y; -> y", 5);
    /* a residual has rows */
    check("w : 8,8; MatMul x,w h; Add h,x y; -> y", 5);
}

static void an_input_has_no_product(void **state)
{
    const struct steno_network_options opt = {.opt_level = 3, .last_row = true};
    struct mk_graph *m = pc_start(13, "5,8");
    steno_network *n = NULL;
    steno_err err = {0};
    size_t size;
    uint8_t *file;
    (void)state;
    pc_graph(m, "Relu x y; -> y");
    file = mk_bytes(m, &size);
    mk_free(m);
    assert_int_equal(steno_network_open_memory(&n, file, size, "test", &opt, &err),
                     STENO_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "has not three dimensions"));
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_row_alone_is_computed),
                                       cmocka_unit_test(rows_that_others_read_stay),
                                       cmocka_unit_test(an_input_has_no_product)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
