/* Compressed weights (kernels.h, gemm_f32_w24 and gemm_bf16_w12): which weights are compressed;
 * sums are as exact as in f32; and the bits of an example do not depend on the rest of its
 * batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "nn/network/network.h"
#include "nn/ops/weights.h"
#include "tests/support/onnx_make.h"

#include <math.h>
#include <string.h>

enum { N = 512, K = 512, T = 21, B = 3 };

static void none(size_t m, size_t n, size_t k, const float *a, size_t lda, const void *packed,
                 float *c, size_t ldc, const struct steno_gemm_epilogue *ep, size_t part,
                 size_t n_parts)
{
    (void)m, (void)n, (void)k, (void)a, (void)lda, (void)packed, (void)c, (void)ldc, (void)ep,
        (void)part, (void)n_parts;
}

static void large_weights_are_compressed(void **state)
{
    const steno_kernels k = {.gemm_f32_w24 = {.part = none}}, plain = {0};
    (void)state;
    assert_true(steno_ops_compressed(&k, STENO_FP32, 512, 512));
    assert_true(steno_ops_compressed(&k, STENO_FP32, 256, 256));
    assert_false(steno_ops_compressed(&k, STENO_FP32, 256, 255));
    assert_false(steno_ops_compressed(&k, STENO_FP32, 8192, 40)); /* 2.5 panels */
    assert_false(steno_ops_compressed(&k, STENO_FP32, 40, 8192));
    assert_false(steno_ops_compressed(&plain, STENO_FP32, 512, 512));
    /* bf16 has its own format */
    assert_false(steno_ops_compressed(&k, STENO_BF16_WEIGHTS, 512, 512));
    assert_false(steno_ops_compressed(&k, STENO_INT8_WEIGHTS, 512, 512));
}

static float number(size_t i)
{
    return sinf((float)i * 1.7f + (float)(i % 7));
}

/* y = x W with x and y of this shape; tokens: the model takes tokens, too. */
static steno_network *network_of(const char *shape, bool tokens, enum steno_precision precision)
{
    struct steno_network_options opt = {.opt_level = -1, .precision = precision};
    static float w[K * N];
    struct mk_graph *g = mk_new(17);
    steno_network *n = NULL;
    steno_err err = {0};
    char *path;
    for (size_t i = 0; i < K * N; i++)
        w[i] = number(i) / 16;
    mk_input(g, "x", STENO_F32, shape);
    if (tokens)
        mk_input(g, "tokens", STENO_I64, "b,u");
    mk_f32(g, "W", "512,512", w, K * N);
    mk_node(g, "MatMul", "x,W", "y");
    mk_output(g, "y", STENO_F32, shape);
    path = mk_file(g);
    if (steno_network_open(&n, path, &opt, &err))
        fail_msg("%s", err.msg);
    mk_unlink(path);
    mk_free(g);
    return n;
}

/* The number of examples and their length are both symbolic, and the rows belong to tokens. */
static steno_network *network(void)
{
    return network_of("b,t,512", true, STENO_FP32);
}

/* b examples of t rows each, from row `from` on, out of one long sequence. */
static void run(steno_network *n, size_t from, int b, int t, int threads, float *y)
{
    static float x[B * T * K];
    struct steno_session_options so = {.threads = threads};
    struct steno_tensor in = {STENO_F32, {.rank = 3, .dim = {b, t, K}}, x};
    int64_t token[B] = {0};
    struct steno_tensor tokens = {STENO_I64, {.rank = 2, .dim = {b, 1}}, token};
    steno_session *s = NULL;
    steno_err err = {0};
    for (size_t i = 0; i < (size_t)(b * t) * K; i++)
        x[i] = number(i + from * K + 3);
    if (steno_session_open(&s, n, &so, &err) || steno_session_set(s, 0, &in, &err) ||
        steno_session_set(s, 1, &tokens, &err) || steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    memcpy(y, steno_session_get(s, 0)->data, sizeof *y * (size_t)(b * t) * N);
    steno_session_close(s);
}

static void batch_does_not_matter(void **state)
{
    static float all[B * T * N], some[B * T * N];
    steno_network *n = network();
    (void)state;
    run(n, 0, B, T, 1, all);
    run(n, 0, B, T, 2, some);
    assert_memory_equal(all, some, sizeof all);
    run(n, T, 1, T, 1, some);
    assert_memory_equal(all + T * N, some, T * N * sizeof *all);
    run(n, 2 * T + 5, 1, 1, 1, some);
    assert_memory_equal(all + (2 * T + 5) * N, some, N * sizeof *all);
    steno_network_close(n);
}

/* Against sums in f64: the error is that of f32. */
static void sums_are_those_of_f32(void **state)
{
    static float y[B * T * N];
    steno_network *n = network();
    double worst = 0;
    (void)state;
    run(n, 0, B, T, 1, y);
    steno_network_close(n);
    for (size_t i = 0; i < B * T; i += 5)
        for (size_t j = 0; j < N; j++) {
            double sum = 0, size = 0;
            for (size_t k = 0; k < K; k++) {
                const double v = (double)number(i * K + k + 3) * (double)(number(k * N + j) / 16);
                sum += v;
                size += fabs(v);
            }
            worst = fmax(worst, fabs((double)y[i * N + j] - sum) / size);
        }
    if (worst > 5e-7)
        fail_msg("off by %g of the sum of magnitudes", worst);
}

static size_t bytes_of(const char *shape, bool tokens, enum steno_precision precision)
{
    steno_network *n = network_of(shape, tokens, precision);
    const size_t bytes = steno_network_weight_bytes(n);
    steno_network_close(n);
    return bytes;
}

/* On CPUs where compression makes products of many rows slower, weights that multiply many rows
 * keep all their bits: those of whole utterances, also in batches of any size, and those whose
 * shape says so. */
static void weights_of_many_rows_stay(void **state)
{
    steno_kernels k;
    steno_err err;
    unsigned cpu;
    (void)state;
    if (steno_cpu_choose(NULL, &cpu, &err))
        fail_msg("%s", err.msg);
    steno_kernels_init(&k, cpu);
    if (!k.compressed_max_rows)
        skip();
    for (int i = 0; i < 2; i++) {
        const enum steno_precision p = i && k.gemm_bf16_w12.part ? STENO_BF16_WEIGHTS : STENO_FP32;
        const size_t few = bytes_of("b,t,512", true, p), many = bytes_of("1,t,512", true, p);
        assert_true(few * 4 < many * 3 + many / 32); /* plus one exponent per column */
        assert_int_equal(bytes_of("b,512", true, p), few);
        assert_int_equal(bytes_of("b,512", false, p), few);
        assert_int_equal(bytes_of("b,4,512", false, p), few);
        assert_int_equal(bytes_of("4,b,512", true, p), few);
        assert_int_equal(bytes_of("b,42,512", true, p), many);
        assert_int_equal(bytes_of("b,t,512", false, p), many);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_weights_are_compressed),
        cmocka_unit_test(batch_does_not_matter),
        cmocka_unit_test(sums_are_those_of_f32),
        cmocka_unit_test(weights_of_many_rows_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
