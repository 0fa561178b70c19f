/* Recurrent networks with weights in fewer bits: how far results move. The number of threads and
 * the rest of the batch do not change the bits. */

#include "base/cpu.h"
#include "nn/network/network.h"
#include "nn/ops/weights.h"
#include "tests/support/onnx_make.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQ = 6, BATCH = 3, IN = 96, H = 128, GATES = 4 };

static const struct cell {
    const char *name;
    size_t gates;
} cells[] = {{"LSTM", 4}, {"GRU", 3}, {"RNN", 1}};

static float number(size_t i) /* in [-1,1], without a period that could match a rounding step */
{
    return sinf((float)i * 1.7f + (float)(i % 7));
}

/* y [seq, 1, b, H] from X [seq, b, IN] and a state that continues over runs. */
static steno_network *network(const struct cell *c, enum steno_precision p, const char *cpu)
{
    struct steno_network_options opt = {.opt_level = -1, .precision = p, .cpu = cpu};
    static float w[GATES * H * IN], r[GATES * H * H], b[2 * GATES * H];
    struct mk_graph *g = mk_new(17);
    char w_shape[32], r_shape[32], b_shape[32];
    steno_network *n = NULL;
    steno_err err = {0};
    size_t size;
    uint8_t *file;
    for (size_t i = 0; i < c->gates * H * IN; i++)
        w[i] = number(i) * 0.1f;
    for (size_t i = 0; i < c->gates * H * H; i++)
        r[i] = number(i + 5) * 0.08f;
    for (size_t i = 0; i < 2 * c->gates * H; i++)
        b[i] = number(i + 9) * 0.1f;
    snprintf(w_shape, sizeof w_shape, "1,%zu,%d", c->gates * H, IN);
    snprintf(r_shape, sizeof r_shape, "1,%zu,%d", c->gates * H, H);
    snprintf(b_shape, sizeof b_shape, "1,%zu", 2 * c->gates * H);
    mk_input(g, "x", STENO_F32, "t,b,96");
    mk_input(g, "h", STENO_F32, "1,b,128");
    mk_f32(g, "W", w_shape, w, c->gates * H * IN);
    mk_f32(g, "R", r_shape, r, c->gates * H * H);
    mk_f32(g, "B", b_shape, b, 2 * c->gates * H);
    mk_node(g, c->name, "x,W,R,B,,h", "y");
    mk_attr_int(g, "hidden_size", H);
    mk_output(g, "y", STENO_F32, "t,1,b,128");
    file = mk_bytes(g, &size);
    mk_free(g);
    if (steno_network_open_memory(&n, file, size, c->name, &opt, &err))
        fail_msg("%s", err.msg);
    free(file);
    return n;
}

/* Examples [first, first + batch): y [SEQ, batch, H]. */
static void run(steno_network *n, size_t first, size_t batch, int threads, float *y)
{
    static float x[SEQ * BATCH * IN], h[BATCH * H];
    struct steno_session_options so = {.threads = threads};
    struct steno_tensor in[2] = {{STENO_F32, {.rank = 3, .dim = {SEQ, (int64_t)batch, IN}}, x},
                                 {STENO_F32, {.rank = 3, .dim = {1, (int64_t)batch, H}}, h}};
    steno_session *s = NULL;
    steno_err err = {0};
    for (size_t t = 0; t < SEQ; t++)
        for (size_t i = 0; i < batch * IN; i++)
            x[t * batch * IN + i] = number((t * BATCH + first) * IN + i);
    for (size_t i = 0; i < batch * H; i++)
        h[i] = number(first * H + i + 3) * 0.5f;
    if (steno_session_open(&s, n, &so, &err) || steno_session_set(s, 0, &in[0], &err) ||
        steno_session_set(s, 1, &in[1], &err) || steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    memcpy(y, steno_session_get(s, 0)->data, sizeof *y * SEQ * batch * H);
    steno_session_close(s);
}

static double apart(const float *a, const float *b)
{
    double most = 0;
    for (size_t i = 0; i < SEQ * BATCH * H; i++) /* states are in (-1, 1) */
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static void results_differ_by_the_error_of_the_format(void **state)
{
    static const struct {
        enum steno_precision p;
        double least, most;
    } cases[] = {{STENO_FP32, 0, 2e-6},
                 {STENO_BF16_WEIGHTS, 1e-5, 1e-2},
                 {STENO_FP16_WEIGHTS, 1e-7, 2e-3},
                 {STENO_INT8_WEIGHTS, 1e-5, 1e-2}};
    static const char *const levels[] = {"native", "avx2", "scalar"};
    static float want[SEQ * BATCH * H], y[SEQ * BATCH * H];
    (void)state;
    for (size_t c = 0; c < sizeof cells / sizeof *cells; c++) {
        steno_network *n = network(&cells[c], STENO_FP32, "scalar");
        run(n, 0, BATCH, 1, want);
        steno_network_close(n);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
                unsigned mask;
                double off;
                if (steno_cpu_level(levels[l], steno_cpu_detect(), &mask, NULL))
                    continue;
                n = network(&cells[c], cases[i].p, levels[l]);
                run(n, 0, BATCH, 1, y);
                steno_network_close(n);
                off = apart(y, want);
                if (!(off >= cases[i].least && off <= cases[i].most))
                    fail_msg("%s, precision %d, %s: off by %g", cells[c].name, (int)cases[i].p,
                             levels[l], off);
            }
    }
}

static void batch_and_threads_do_not_matter(void **state)
{
    static const enum steno_precision all[] = {STENO_FP32, STENO_BF16_WEIGHTS, STENO_FP16_WEIGHTS,
                                               STENO_INT8_WEIGHTS};
    static float y[SEQ * BATCH * H], again[SEQ * BATCH * H], one[SEQ * H];
    (void)state;
    for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            steno_network *n = network(&cells[c], all[i], "native");
            run(n, 0, BATCH, 1, y);
            run(n, 0, BATCH, 2, again);
            assert_memory_equal(y, again, sizeof y);
            run(n, 1, 1, 1, one);
            for (size_t t = 0; t < SEQ; t++)
                assert_memory_equal(one + t * H, y + (t * BATCH + 1) * H, H * sizeof *one);
            steno_network_close(n);
        }
}

static void weights_have_the_size_of_the_precision(void **state)
{
    const size_t weights = GATES * H * (IN + H);
    size_t bytes[4];
    (void)state;
    for (int p = 0; p < 4; p++) {
        steno_network *n = network(&cells[0], (enum steno_precision)p, "native");
        bytes[p] = steno_network_weight_bytes(n);
        assert_int_equal(steno_network_precision(n)->products, 2);
        assert_int_equal(steno_network_precision(n)->lowered, p == STENO_FP32 ? 0 : 2);
        steno_network_close(n);
    }
    assert_true(bytes[STENO_FP32] <= 4 * weights + 16384);
    assert_true(bytes[STENO_BF16_WEIGHTS] <= 2 * weights + 16384);
    assert_true(bytes[STENO_FP16_WEIGHTS] <= 2 * weights + 16384);
    assert_true(bytes[STENO_INT8_WEIGHTS] <= 2 * weights + 16384);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_differ_by_the_error_of_the_format),
        cmocka_unit_test(batch_and_threads_do_not_matter),
        cmocka_unit_test(weights_have_the_size_of_the_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
