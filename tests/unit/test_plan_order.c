#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "exec/session.h"
#include "tests/support/onnx_make.h"

#include <stdio.h>

enum { ROWS = 5000, WIDE = 64, LAYERS = 8 };
#define BYTES (sizeof(float) * ROWS * WIDE) /* more than is kept with a plan */

static float sign_at(int r, int k)
{
    return (r * 7 + k * k * 3) % 5 < 2 ? -1.f : 1.f;
}

/* name [rows of x, WIDE] = part W, W turning columns by `by`. */
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

/* part: as many rows of a table as x has; y = x * (part W0) * (part W1) ...; the last factor only
 * if c; raw = part W9 in another shape. All products stand ahead of the first reader. */
static struct mk_graph *layers(void)
{
    static float table[ROWS * WIDE];
    const int64_t zero = 0, raw[] = {-1, 16, 4};
    struct mk_graph *m = mk_new(17), *with = mk_body(m), *without = mk_body(m);
    for (int i = 0; i < ROWS * WIDE; i++)
        table[i] = sign_at(i / WIDE, i % WIDE);
    mk_input(m, "x", STENO_F32, "t,64");
    mk_input(m, "c", STENO_BOOL, "");
    mk_f32(m, "table", "5000,64", table, ROWS * WIDE);
    mk_i64(m, "zero", "1", &zero, 1);
    mk_i64(m, "target", "3", raw, 3);
    mk_node(m, "Shape", "x", "shape");
    mk_node(m, "Gather", "shape,zero", "rows");
    mk_node(m, "Slice", "table,zero,rows,zero", "part");
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

static float turned(int r, int c, int by)
{
    return sign_at(r, (c - by + WIDE) % WIDE);
}

static void check(const steno_session *s, bool all)
{
    const float *y = steno_session_get(s, 0)->data, *raw = steno_session_get(s, 1)->data;
    for (int i = 0; i < ROWS * WIDE; i++) {
        const int r = i / WIDE, c = i % WIDE;
        float want = (float)(i % 9 - 4);
        for (int p = 0; p < LAYERS; p++)
            want *= turned(r, c, p);
        want *= all ? turned(r, c, LAYERS) : -1;
        if (y[i] != want || raw[i] != turned(r, c, LAYERS + 1))
            fail_msg("row %d, column %d: %g for %g, %g", r, c, (double)y[i], (double)want,
                     (double)raw[i]);
    }
}

static void products_of_shapes_alone_run_just_before_their_reader(void **state)
{
    static float x[ROWS * WIDE];
    struct mk_graph *m = layers();
    char *path = mk_file(m);
    steno_err err = {0};
    (void)state;
    for (int i = 0; i < ROWS * WIDE; i++)
        x[i] = (float)(i % 9 - 4);
    for (int level = 0; level <= 3; level += 3) {
        const struct steno_network_options opt = {.opt_level = level};
        steno_network *n = NULL;
        steno_session *s = NULL;
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
            check(s, c);
        }
        /* part, a product, h, what the branches give and the outputs; not ten products */
        assert_in_range(steno_session_arena_bytes(s), 4 * BYTES, 8 * BYTES);
        steno_session_close(s);
        steno_network_close(n);
    }
    mk_unlink(path);
    mk_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_shapes_alone_run_just_before_their_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
