/* Weights of f32 networks are multiplied as they are: whatever their number, their shape and the
 * level of the CPU. And the bits of an example do not depend on the rest of its batch. */

#include "base/cpu.h"
#include "nn/network/network.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 320, K = 256, T = 21, B = 3, MOST = K > N ? K : N };

static float w[MOST * MOST];

static float number(size_t i)
{
    return sinf((float)i * 1.7f + (float)(i % 7));
}

static void fill_weights(void)
{
    for (size_t i = 0; i < MOST * MOST; i++)
        w[i] = number(i) / 16;
}

/* Next level that this CPU has, or NULL. */
static const char *level(size_t *i)
{
    static const char *const all[] = {"scalar", "avx2", "avx512", "vnni", "bf16", "amx"};
    while (*i < sizeof all / sizeof *all) {
        const char *name = all[(*i)++];
        unsigned mask;
        if (!steno_cpu_level(name, steno_cpu_detect(), &mask, NULL))
            return name;
    }
    return NULL;
}

static steno_network *open_network(struct mk_graph *g, const char *cpu)
{
    struct steno_network_options opt = {.opt_level = -1, .cpu = cpu};
    char *path = mk_file(g);
    steno_network *n = NULL;
    steno_err err = {0};
    if (steno_network_open(&n, path, &opt, &err))
        fail_msg("%s", err.msg);
    mk_unlink(path);
    mk_free(g);
    return n;
}

/* y = x W, x of this shape. */
static steno_network *product(const char *shape, const char *cpu)
{
    struct mk_graph *g = mk_new(17);
    mk_input(g, "x", STENO_F32, shape);
    mk_f32(g, "W", "256,320", w, K * N);
    pc_graph(g, "MatMul x,W y; -> y");
    return open_network(g, cpu);
}

static void run(steno_network *n, struct steno_tensor x, int threads, float *y, size_t count)
{
    struct steno_session_options so = {.threads = threads};
    steno_session *s = NULL;
    steno_err err = {0};
    if (steno_session_open(&s, n, &so, &err) || steno_session_set(s, 0, &x, &err) ||
        steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    memcpy(y, steno_session_get(s, 0)->data, count * sizeof *y);
    steno_session_close(s);
}

static const struct {
    const char *shape;
    struct steno_shape with_rows[2]; /* of 1 and of T rows */
} shapes[] = {{"n,256", {{2, {1, K}}, {2, {T, K}}}},
              {"1,n,256", {{3, {1, 1, K}}, {3, {1, T, K}}}},
              {"b,t,256", {{3, {1, 1, K}}, {3, {T, 1, K}}}},
              {"b,4,256", {{3, {1, 4, K}}, {3, {5, 4, K}}}}};

/* Rows of x that each select one row of W: y has its very bits, beside numbers of any size. */
static void rows_of_a_table_are_exact(void **state)
{
    static float x[T * K], y[T * N];
    (void)state;
    fill_weights();
    for (size_t j = 0; j < N; j++) {
        w[j] = -1e9f;
        w[N + j] = 2e-38f;
    }
    for (size_t i = 0, at = 0; i < sizeof shapes / sizeof *shapes; i++, at = 0)
        for (const char *cpu; (cpu = level(&at));) {
            steno_network *n = product(shapes[i].shape, cpu);
            for (int many = 0; many < 2; many++) {
                const struct steno_shape s = shapes[i].with_rows[many];
                const size_t rows = (size_t)(s.dim[0] * (s.rank == 3 ? s.dim[1] : 1));
                memset(x, 0, sizeof x);
                for (size_t r = 0; r < rows; r++)
                    x[r * K + (r * 11 + 1) % K] = 1;
                run(n, (struct steno_tensor){STENO_F32, s, x}, 1, y, rows * N);
                for (size_t r = 0; r < rows; r++)
                    for (size_t j = 0; j < N; j++)
                        if (y[r * N + j] != w[(r * 11 + 1) % K * N + j])
                            fail_msg("%s, x [%s]: row %zu of %zu, column %zu: %a, not %a", cpu,
                                     shapes[i].shape, r, rows, j, (double)y[r * N + j],
                                     (double)w[(r * 11 + 1) % K * N + j]);
            }
            steno_network_close(n);
        }
}

/* Against sums in f64: an element's error is that of its own terms, also where rows of W have sizes
 * of 1e-4 to 1e4 and those of x the inverse. */
static void sums_are_those_of_f32(void **state)
{
    static float x[T * K], y[T * N];
    (void)state;
    fill_weights();
    for (size_t k = 0; k < K; k++) {
        const float size = powf(10, (float)(k % 9) - 4);
        for (size_t j = 0; j < N; j++)
            w[k * N + j] *= size;
        for (size_t r = 0; r < T; r++)
            x[r * K + k] = number(r * K + k + 3) / size;
    }
    for (size_t i = 0, at = 0; i < 3; i++, at = 0)
        for (const char *cpu; (cpu = level(&at));) {
            steno_network *n = product(shapes[i].shape, cpu);
            run(n, (struct steno_tensor){STENO_F32, shapes[i].with_rows[1], x}, 1, y, T * N);
            steno_network_close(n);
            for (size_t e = 0; e < T * N; e++) {
                double sum = 0, size = 0;
                for (size_t k = 0; k < K; k++) {
                    const double v = (double)x[e / N * K + k] * (double)w[k * N + e % N];
                    sum += v;
                    size += fabs(v);
                }
                if (fabs((double)y[e] - sum) > 5e-7 * size)
                    fail_msg("%s, x [%s]: element %zu is off by %g of its terms", cpu,
                             shapes[i].shape, e, fabs((double)y[e] - sum) / size);
            }
        }
}

static void same_or_nan(float have, float want, const char *cpu, size_t e)
{
    if (isnan(want) ? !isnan(have) : have != want)
        fail_msg("%s: element %zu is %a, not %a", cpu, e, (double)have, (double)want);
}

/* Infinities and NaN stay in the columns where they are, as IEEE 754 has it. */
static void infinities_stay_in_their_columns(void **state)
{
    static float x[T * K], without[T * N], y[T * N];
    (void)state;
    for (size_t k = 0; k < T * K; k++)
        x[k] = fabsf(number(k)) + 0.1f;
    x[4 * K + 5] = 0;
    for (size_t i = 0, at = 0; i < 3; i++, at = 0)
        for (const char *cpu; (cpu = level(&at));) {
            const struct steno_tensor in = {STENO_F32, shapes[i].with_rows[1], x};
            steno_network *n;
            fill_weights();
            n = product(shapes[i].shape, cpu);
            run(n, in, 1, without, T * N);
            steno_network_close(n);
            w[5 * N + 7] = INFINITY;
            w[9 * N + 300] = NAN;
            w[6 * N + 20] = INFINITY;
            w[7 * N + 20] = -INFINITY;
            n = product(shapes[i].shape, cpu);
            run(n, in, 1, y, T * N);
            steno_network_close(n);
            for (size_t e = 0; e < T * N; e++)
                same_or_nan(y[e],
                            e % N == 7                    ? e / N == 4 ? NAN : INFINITY
                            : e % N == 20 || e % N == 300 ? NAN
                                                          : without[e],
                            cpu, e);
        }
}

/* h of one step of a GRU whose recurrent weights have one row of a large size: as at level scalar,
 * where nothing but f32 ever was. The state is 0 where that row is. */
static void recurrent_weights_are_exact(void **state)
{
    enum { H = 256 };
    static float x[8], h0[H], want[H], have[H], wx[3 * H * 8], r[3 * H * H];
    size_t at = 0;
    (void)state;
    for (size_t i = 0; i < 3 * H * H; i++)
        r[i] = i % H == 17 ? -1e9f : number(i) / 16; /* r is [3 H, H]: column 17 meets h[17] */
    for (size_t i = 0; i < H; i++)
        h0[i] = i == 17 ? 0 : number(i + 2);
    for (const char *cpu; (cpu = level(&at));) {
        struct mk_graph *g = mk_new(17);
        steno_network *n;
        mk_input(g, "x", STENO_F32, "1,1,8");
        mk_f32(g, "W", "1,768,8", wx, 3 * H * 8);
        mk_f32(g, "R", "1,768,256", r, 3 * H * H);
        mk_f32(g, "h0", "1,1,256", h0, H);
        mk_node(g, "GRU", "x,W,R,,,h0", "y");
        mk_attr_int(g, "hidden_size", H);
        mk_output(g, "y", STENO_F32, NULL);
        n = open_network(g, cpu);
        run(n, (struct steno_tensor){STENO_F32, {3, {1, 1, 8}}, x}, 1, have, H);
        steno_network_close(n);
        if (!strcmp(cpu, "scalar"))
            memcpy(want, have, sizeof want);
        for (size_t i = 0; i < H; i++)
            if (fabsf(have[i] - want[i]) > 1e-5f)
                fail_msg("%s: h[%zu] is %g, not %g", cpu, i, (double)have[i], (double)want[i]);
    }
}

/* A convolution of many weights, those of one channel of a large size, on an image whose channel
 * there is 0. Another one follows, so that channels come last. */
static void weights_of_convolutions_are_exact(void **state)
{
    enum { C = 96, S = 6 };
    static float x[C * S * S], want[C * S * S], have[C * S * S], w3[C * C * 9], w1[C * C];
    const int64_t pads[4] = {1, 1, 1, 1}, two[2] = {2, 2};
    (void)state;
    for (size_t i = 0; i < C * C * 9; i++)
        w3[i] = i / 9 % C == 5 ? 1e9f : number(i) / 16;
    for (size_t i = 0; i < C; i++)
        w1[i * C + i] = 1;
    for (size_t i = 0; i < C * S * S; i++)
        x[i] = i / (S * S) == 5 ? 0 : number(i + 1);
    for (int stride = 1; stride <= 2; stride++) {
        const size_t count = C * S * S / (size_t)(stride * stride);
        size_t at = 0;
        for (const char *cpu; (cpu = level(&at));) {
            struct mk_graph *g = mk_new(17);
            steno_network *n;
            mk_input(g, "x", STENO_F32, "1,96,6,6");
            mk_f32(g, "W", "96,96,3,3", w3, C * C * 9);
            mk_node(g, "Conv", "x,W", "c");
            mk_attr_ints(g, "pads", pads, 4);
            if (stride == 2)
                mk_attr_ints(g, "strides", two, 2);
            mk_node(g, "Relu", "c", "r");
            mk_f32(g, "V", "96,96,1,1", w1, C * C);
            pc_graph(g, "Conv r,V y; -> y");
            n = open_network(g, cpu);
            run(n, (struct steno_tensor){STENO_F32, {4, {1, C, S, S}}, x}, 1, have, count);
            steno_network_close(n);
            if (!strcmp(cpu, "scalar"))
                memcpy(want, have, sizeof want);
            for (size_t i = 0; i < count; i++)
                if (fabsf(have[i] - want[i]) > 1e-4f)
                    fail_msg("%s, stride %d: y[%zu] is %g, not %g", cpu, stride, i, (double)have[i],
                             (double)want[i]);
        }
    }
}

static void batch_does_not_matter(void **state)
{
    static float x[B * T * K], all[B * T * N], some[B * T * N];
    steno_network *n;
    (void)state;
    fill_weights();
    for (size_t i = 0; i < B * T * K; i++)
        x[i] = number(i + 3);
    n = product("b,t,256", NULL);
    run(n, (struct steno_tensor){STENO_F32, {3, {B, T, K}}, x}, 1, all, B * T * N);
    run(n, (struct steno_tensor){STENO_F32, {3, {B, T, K}}, x}, 2, some, B * T * N);
    assert_memory_equal(all, some, sizeof all);
    run(n, (struct steno_tensor){STENO_F32, {3, {1, T, K}}, x + T * K}, 1, some, T * N);
    assert_memory_equal(all + T * N, some, T * N * sizeof *all);
    run(n, (struct steno_tensor){STENO_F32, {3, {1, 1, K}}, x + (2 * T + 5) * K}, 1, some, N);
    assert_memory_equal(all + (2 * T + 5) * N, some, N * sizeof *all);
    steno_network_close(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_a_table_are_exact),
        cmocka_unit_test(sums_are_those_of_f32),
        cmocka_unit_test(infinities_stay_in_their_columns),
        cmocka_unit_test(recurrent_weights_are_exact),
        cmocka_unit_test(weights_of_convolutions_are_exact),
        cmocka_unit_test(batch_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
