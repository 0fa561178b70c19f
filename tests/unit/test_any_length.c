/* Position tables and length masks of an export, used past their end. Inside the table the
 * result is the table's own numbers, past it the formula's. Tables of other contents are left
 * alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/network/network.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#define ROWS 32 /* rows of the exported table */
#define DIM 6

static double exact(int64_t pos, int k)
{
    double angle = (double)pos * pow(10000.0, -(double)(k & ~1) / DIM);
    return k & 1 ? cos(angle) : sin(angle);
}

static void table(struct mk_graph *m, int64_t first, int64_t step, int n, float spoil)
{
    static float t[2 * ROWS * DIM];
    char dims[32];
    for (int r = 0; r < n; r++)
        for (int k = 0; k < DIM; k++)
            t[r * DIM + k] = (float)exact(first + step * r, k);
    t[DIM * (n - 1)] += spoil;
    snprintf(dims, sizeof dims, "1,%d,%d", n, DIM);
    mk_f32(m, "table", dims, t, (size_t)(n * DIM));
}

static void numbers(struct mk_graph *m)
{
    static const int64_t zero = 0, one = 1, n = ROWS, before = ROWS - 1, axis = 0;
    mk_i64(m, "zero", "1", &zero, 1);
    mk_i64(m, "one", "1", &one, 1);
    mk_i64(m, "rows", "1", &n, 1);
    mk_i64(m, "before", "1", &before, 1);
    mk_i64(m, "axis", "", &axis, 1);
    mk_input(m, "x", STENO_F32, "T");
    mk_node(m, "Shape", "x", "length");
}

static steno_network *load(struct mk_graph *m)
{
    struct steno_network_options o = {.opt_level = -1, .any_length = true, .borrow_from = 1};
    steno_network *n = NULL;
    steno_err err;
    char *path = mk_file(m);
    if (steno_network_open(&n, path, &o, &err))
        fail_msg("%s", err.msg);
    mk_unlink(path);
    mk_free(m);
    return n;
}

static const struct steno_tensor *run(steno_session *s, int64_t length)
{
    static float x[4096];
    struct steno_tensor t = {.dtype = STENO_F32, .shape = {.rank = 1, .dim = {length}}, .data = x};
    steno_err err;
    if (steno_session_set(s, 0, &t, &err) || steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    return steno_session_get(s, 0);
}

static void check_rows(const struct steno_tensor *y, int64_t n, int64_t first, int64_t step)
{
    assert_int_equal(y->shape.rank, 3);
    assert_int_equal(y->shape.dim[1], n);
    for (int64_t r = 0; r < n; r++)
        for (int k = 0; k < DIM; k++) {
            double want = exact(first + step * r, k), got = ((const float *)y->data)[r * DIM + k];
            if (!(fabs(want - got) < 1e-6))
                fail_msg("row %d of %d, column %d: %g, not %g", (int)r, (int)n, k, got, want);
        }
}

static void positions_continue_past_the_table(void **state)
{
    static const int64_t lengths[] = {1, ROWS - 1, ROWS, ROWS + 1, 5 * ROWS};
    struct mk_graph *m = mk_new(13);
    steno_network *n;
    steno_session *s = NULL;
    (void)state;
    numbers(m);
    table(m, 0, 1, ROWS, 0);
    mk_node(m, "Slice", "table,zero,length,one,one", "y");
    mk_output(m, "y", STENO_F32, "1,?,6");
    n = load(m);
    assert_int_equal(steno_session_open(&s, n, NULL, NULL), 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        check_rows(run(s, lengths[i]), lengths[i], 0, 1);
    steno_session_close(s);
    steno_network_close(n);
}

/* ESPnet: rows n - 1 - T + 1 .. n - 1 + T of a table in which row n - 1, the middle one, is
 * position 0. */
static void relative_positions_continue_at_both_ends(void **state)
{
    static const int64_t lengths[] = {1, ROWS, ROWS + 1, 4 * ROWS};
    struct mk_graph *m = mk_new(13);
    steno_network *n;
    steno_session *s = NULL;
    (void)state;
    numbers(m);
    table(m, ROWS - 1, -1, 2 * ROWS - 1, 0);
    pc_graph(m, "Sub rows,length start; Add before,length end; Slice table,start,end,one,one y");
    mk_output(m, "y", STENO_F32, "1,?,6");
    n = load(m);
    assert_int_equal(steno_session_open(&s, n, NULL, NULL), 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        check_rows(run(s, lengths[i]), 2 * lengths[i] - 1, lengths[i] - 1, -1);
    steno_session_close(s);
    steno_network_close(n);
}

static void length_masks_continue_past_the_table(void **state)
{
    for (int below = 0; below < 2; below++) {
        static uint8_t flags[ROWS * ROWS];
        struct mk_graph *m = mk_new(13);
        const struct steno_tensor *y;
        Onnx__Tensor *t;
        steno_network *n;
        steno_session *s = NULL;
        (void)state;
        for (int i = 0; i < ROWS * ROWS; i++)
            flags[i] = (i % ROWS > i / ROWS) != below;
        numbers(m);
        t = mk_tensor(m, "flags", STENO_BOOL, "32,32");
        t->raw_data.data = flags; /* borrowed */
        t->raw_data.len = sizeof flags;
        pc_graph(m, "Sub length,one last; Gather flags,last row; Add length,one end; "
                    "Slice row,zero,end,one,one y");
        mk_output(m, "y", STENO_BOOL, "1,?");
        n = load(m);
        assert_int_equal(steno_session_open(&s, n, NULL, NULL), 0);
        y = run(s, 3 * ROWS);
        assert_int_equal(y->shape.dim[1], 3 * ROWS + 1);
        for (int j = 0; j <= 3 * ROWS; j++)
            assert_int_equal(((const uint8_t *)y->data)[j], (j == 3 * ROWS) != below);
        steno_session_close(s);
        steno_network_close(n);
    }
}

static void other_tables_are_left_alone(void **state)
{
    struct mk_graph *m = mk_new(13);
    steno_network *n;
    steno_session *s = NULL;
    (void)state;
    numbers(m);
    table(m, 0, 1, ROWS, 0.1f);
    mk_node(m, "Slice", "table,zero,length,one,one", "y");
    mk_output(m, "y", STENO_F32, "1,?,6");
    n = load(m);
    assert_int_equal(steno_session_open(&s, n, NULL, NULL), 0);
    assert_int_equal(run(s, 2 * ROWS)->shape.dim[1], ROWS);
    steno_session_close(s);
    steno_network_close(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_continue_past_the_table),
        cmocka_unit_test(relative_positions_continue_at_both_ends),
        cmocka_unit_test(length_masks_continue_past_the_table),
        cmocka_unit_test(other_tables_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
