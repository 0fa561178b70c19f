#include "nn/network/network.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdio.h>

enum { ROWS = 5000, WIDE = 64, LAYERS = 8 };
#define BYTES (sizeof(float) * ROWS * WIDE) /* more than a plan may hold as constants */

static float sign_at(int r, int k)
{
    return (r * 7 + k * k * 3) % 5 < 2 ? -1.f : 1.f;
}

/* name [rows of x, WIDE] = part W. W rotates the columns by `by`. */
static void product(struct mk_graph *m, int by, const char *name)
{
    static float w[WIDE * WIDE];
    char weights[16], in[24];
    for (int i = 0; i < WIDE * WIDE; i++)
        w[i] = i % WIDE == (i / WIDE + by) % WIDE;
    snprintf(weights, sizeof weights, "W%d", by);
    snprintf(in, sizeof in, "part,%s", weights);
    mk_f32(m, weights, "64,64", w, WIDE * WIDE);
    mk_node(m, "MatMul", in, name);
}

/* part: the first rows of a table, as many as x has. */
static void table_of(struct mk_graph *m)
{
    static float table[ROWS * WIDE];
    const int64_t zero = 0;
    for (int i = 0; i < ROWS * WIDE; i++)
        table[i] = sign_at(i / WIDE, i % WIDE);
    mk_input(m, "x", STENO_F32, "t,64");
    mk_input(m, "c", STENO_BOOL, "");
    mk_f32(m, "table", "5000,64", table, ROWS * WIDE);
    mk_i64(m, "zero", "1", &zero, 1);
    pc_graph(m, "Shape x shape; Gather shape,zero rows; Slice table,zero,rows,zero part");
}

/* y = x * (part W0) * (part W1) ...; the last factor only if c; raw = part W9 in another shape.
 * All products are written before their first reader. */
static struct mk_graph *layers(void)
{
    const int64_t raw[] = {-1, 16, 4};
    struct mk_graph *m = mk_new(17), *with = mk_body(m), *without = mk_body(m);
    table_of(m);
    mk_i64(m, "target", "3", raw, 3);
    for (int p = 0; p <= LAYERS + 1; p++)
        product(m, p, (char[]){'p', (char)('0' + p), 0});
    mk_node(m, "Mul", "x,p0", "h0");
    for (int p = 1; p < LAYERS; p++) {
        const char in[] = {'h', (char)('0' + p - 1), ',', 'p', (char)('0' + p), 0};
        mk_node(m, "Mul", in, (char[]){'h', (char)('0' + p), 0});
    }
    mk_node(with, "Mul", "h7,p8", "o");
    mk_output(with, "o", STENO_F32, "t,64");
    mk_node(without, "Neg", "h7", "o");
    mk_output(without, "o", STENO_F32, "t,64");
    mk_if(m, "c", "y", with, without);
    mk_node(m, "Reshape", "p9,target", "raw");
    mk_output(m, "y", STENO_F32, "t,64");
    mk_output(m, "raw", STENO_F32, "t,16,4");
    return m;
}

/* y = (part W0) + or - (part W1), by c, inside a branch that shapes choose. The second product
 * is in that branch. */
static struct mk_graph *nested(void)
{
    struct mk_graph *m = mk_new(17), *chosen = mk_body(m), *never = mk_body(m), *sum = mk_body(m),
                    *difference = mk_body(m);
    table_of(m);
    product(m, 0, "p0");
    product(chosen, 1, "p1");
    mk_node(sum, "Add", "p0,p1", "o");
    mk_output(sum, "o", STENO_F32, "t,64");
    mk_node(difference, "Sub", "p0,p1", "o");
    mk_output(difference, "o", STENO_F32, "t,64");
    mk_if(chosen, "c", "z", sum, difference);
    mk_output(chosen, "z", STENO_F32, "t,64");
    mk_node(never, "Neg", "x", "z");
    mk_output(never, "z", STENO_F32, "t,64");
    mk_node(m, "Greater", "rows,zero", "some");
    mk_if(m, "some", "y", chosen, never);
    mk_output(m, "y", STENO_F32, "t,64");
    return m;
}

static float transposed(int r, int c, int by)
{
    return sign_at(r, (c - by + WIDE) % WIDE);
}

static void check_nested(const steno_session *s, bool c)
{
    const float *y = steno_session_get(s, 0)->data;
    for (int i = 0; i < ROWS * WIDE; i++) {
        const int r = i / WIDE, k = i % WIDE;
        const float want = transposed(r, k, 0) + (c ? 1 : -1) * transposed(r, k, 1);
        if (y[i] != want)
            fail_msg("row %d, column %d: %g for %g", r, k, (double)y[i], (double)want);
    }
}

static void check(const steno_session *s, bool all)
{
    const float *y = steno_session_get(s, 0)->data, *raw = steno_session_get(s, 1)->data;
    for (int i = 0; i < ROWS * WIDE; i++) {
        const int r = i / WIDE, c = i % WIDE;
        float want = (float)(i % 9 - 4);
        for (int p = 0; p < LAYERS; p++)
            want *= transposed(r, c, p);
        want *= all ? transposed(r, c, LAYERS) : -1;
        if (y[i] != want || raw[i] != transposed(r, c, LAYERS + 1))
            fail_msg("row %d, column %d: %g for %g, %g", r, c, (double)y[i], (double)want,
                     (double)raw[i]);
    }
}

/* Three runs, the second with c false. The activations take `least` to `most` bytes. */
static void run(struct mk_graph *m, int level, void (*look)(const steno_session *, bool),
                size_t least, size_t most)
{
    static float x[ROWS * WIDE];
    const struct steno_network_options opt = {.opt_level = level};
    char *path = mk_file(m);
    steno_network *n = NULL;
    steno_session *s = NULL;
    steno_err err = {0};
    for (int i = 0; i < ROWS * WIDE; i++)
        x[i] = (float)(i % 9 - 4);
    if (steno_network_open(&n, path, &opt, &err) || steno_session_open(&s, n, NULL, &err))
        fail_msg("%s", err.msg);
    for (int round = 0; round < 3; round++) {
        bool c = round != 1;
        const struct steno_tensor t = {
            .dtype = STENO_F32, .shape = {.rank = 2, .dim = {ROWS, WIDE}}, .data = x};
        const struct steno_tensor cond = {.dtype = STENO_BOOL, .data = &c};
        if (steno_session_set(s, 0, &t, &err) || steno_session_set(s, 1, &cond, &err) ||
            steno_session_run(s, &err))
            fail_msg("%s", err.msg);
        look(s, c);
    }
    assert_in_range(steno_session_arena_bytes(s), least, most);
    steno_session_close(s);
    steno_network_close(n);
    mk_unlink(path);
    mk_free(m);
}

static void products_of_shapes_alone_run_just_before_their_reader(void **state)
{
    (void)state;
    for (int level = 0; level <= 3; level += 3)
        /* part, one product, h, the results of the branches and the outputs; not ten products */
        run(layers(), level, check, 4 * BYTES, 8 * BYTES);
}

static void readers_in_branches_have_all_that_they_read(void **state)
{
    (void)state;
    for (int level = 0; level <= 3; level += 3)
        run(nested(), level, check_nested, 1, 8 * BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_shapes_alone_run_just_before_their_reader),
        cmocka_unit_test(readers_in_branches_have_all_that_they_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
