/* 8-bit convolutions of stride 2 by Winograd's method: their distance from f32 is that of
 * rounded patches, for extents of every remainder modulo 3, padding, activations, CPU levels and
 * threads. */

#include "base/cpu.h"
#include "nn/network/network.h"
#include "nn/ops/weights.h"
#include "tests/support/onnx_make.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { C = 128, O = 40, MOST = 21 };

static float number(size_t i) /* in [-1,1], without a period that could match a rounding step */
{
    return sinf((float)i * 1.7f + (float)(i % 7));
}

/* Conv(x [1, C, h, w]), 3x3, stride 2, padded by `pad` on both sides, then the activation `act`
 * (NULL: none). */
static steno_network *network(enum steno_precision p, const char *cpu, int64_t pad, const char *act)
{
    struct steno_network_options opt = {.opt_level = -1, .precision = p, .cpu = cpu};
    static float w[O * C * 9], b[O];
    const int64_t pads[4] = {pad, pad, pad, pad}, two[2] = {2, 2};
    struct mk_graph *g = mk_new(17);
    steno_network *n = NULL;
    steno_err err = {0};
    size_t size;
    uint8_t *file;
    for (size_t i = 0; i < O * C * 9; i++)
        w[i] = number(i) * (1 + (float)(i / (C * 9) % 5)) * 0.05f;
    for (size_t i = 0; i < O; i++)
        b[i] = number(i + 3);
    mk_input(g, "x", STENO_F32, "1,128,h,w");
    mk_f32(g, "W", "40,128,3,3", w, O * C * 9);
    mk_f32(g, "b", "40", b, O);
    mk_node(g, "Conv", "x,W,b", act ? "c" : "y");
    mk_attr_ints(g, "pads", pads, 4);
    mk_attr_ints(g, "strides", two, 2);
    if (act)
        mk_node(g, act, "c", "y");
    mk_output(g, "y", STENO_F32, "1,40,a,b");
    file = mk_bytes(g, &size);
    mk_free(g);
    if (steno_network_open_memory(&n, file, size, "conv", &opt, &err))
        fail_msg("%s", err.msg);
    free(file);
    return n;
}

static size_t run(steno_network *n, size_t h, size_t w, int threads, float *y)
{
    static float x[C * MOST * MOST];
    struct steno_session_options so = {.threads = threads};
    struct steno_tensor in = {STENO_F32, {.rank = 4, .dim = {1, C, (int64_t)h, (int64_t)w}}, x};
    steno_session *s = NULL;
    steno_err err = {0};
    size_t count;
    for (size_t i = 0; i < C * h * w; i++)
        x[i] = fmaxf(0, number(i) + 0.2f);
    if (steno_session_open(&s, n, &so, &err) || steno_session_set(s, 0, &in, &err) ||
        steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    count = steno_numel(steno_session_get(s, 0));
    memcpy(y, steno_session_get(s, 0)->data, count * sizeof *y);
    steno_session_close(s);
    return count;
}

/* Root mean square of a - b divided by that of b. */
static double off_by(const float *a, const float *b, size_t n)
{
    double off = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        all += (double)b[i] * (double)b[i];
    }
    return sqrt(off / all);
}

static void images_are_as_close_as_8_bits_allow(void **state)
{
    static const char *const levels[] = {"native", "avx2", "scalar"}, *const acts[] = {NULL, "Relu",
                                                                                       "Tanh"};
    static const size_t sizes[][2] = {{3, 3}, {4, 9}, {7, 5}, {9, 8}, {11, 13}, {13, 21}, {21, 20}};
    static float want[O * MOST * MOST], y[O * MOST * MOST], again[O * MOST * MOST];
    (void)state;
    for (int pad = 0; pad < 3; pad++)
        for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
            const char *act = acts[(size_t)pad % 3];
            steno_network *f32 = network(STENO_FP32, "scalar", pad, act), *n;
            unsigned mask;
            if (steno_cpu_level(levels[l], steno_cpu_detect(), &mask, NULL)) {
                steno_network_close(f32);
                continue;
            }
            n = network(STENO_INT8_WEIGHTS, levels[l], pad, act);
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                const size_t count = run(f32, sizes[i][0], sizes[i][1], 1, want);
                double off;
                assert_int_equal(run(n, sizes[i][0], sizes[i][1], 1, y), count);
                off = off_by(y, want, count);
                if (!(off > 1e-4 && off < 0.02)) /* two roundings to 255 steps: about 0.01 */
                    fail_msg("%s, %zux%zu, padding %d: off by %g", levels[l], sizes[i][0],
                             sizes[i][1], pad, off);
                (void)run(n, sizes[i][0], sizes[i][1], 3, again);
                assert_memory_equal(y, again, count * sizeof *y);
            }
            steno_network_close(f32);
            steno_network_close(n);
        }
}

/* 25 matrices of bytes, but 9 on CPUs whose AMX tiles are faster without Winograd; the report
 * counts one product. */
static void matrices_are_kept_once(void **state)
{
    steno_network *n = network(STENO_INT8_WEIGHTS, "native", 1, NULL);
    const bool tiles = steno_cpu_detect() & STENO_CPU_AMX && steno_cpu_detect() & STENO_CPU_BF16;
    const struct steno_precision_report *r = steno_network_precision(n);
    const size_t bytes = steno_network_weight_bytes(n), columns = (O + 31) / 32 * 32;
    (void)state;
    assert_int_equal(r->products, 1);
    assert_int_equal(r->lowered, 1);
    assert_true(r->error > 0.001 && r->error < 0.01);
    assert_true(bytes >= (tiles ? 9u : 25u) * C * O);
    assert_true(bytes <= (tiles ? 9u : 25u) * (C * columns + 16 * columns) + 4096);
    steno_network_close(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_are_as_close_as_8_bits_allow),
        cmocka_unit_test(matrices_are_kept_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
