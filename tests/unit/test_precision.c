/* Weights in fewer bits than f32: how far results move, what stays in f32, and the report. */

#include "base/cpu.h"
#include "nn/network/network.h"
#include "nn/ops/weights.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { T = 9, K = 48, N = 40, C = 16, O = 24, H = 7, W = 6 };

static float outlier; /* one weight of W and of C3, unless 0 */

static float number(int i) /* in [-1,1], without a period that could match a rounding step */
{
    return sinf((float)i * 1.7f + (float)(i % 7));
}

/* y [t, N] = Relu(x W + b); z [1, O, H, W / 2 or so] = Conv 3x3 stride 2, then Conv 1x1. */
static steno_network *network(enum steno_precision p)
{
    struct steno_network_options opt = {.opt_level = -1, .precision = p, .borrow_from = 1};
    static float w[K * N], c3[O * C * 9], c1[O * O], b[O + N];
    struct mk_graph *g = mk_new(17);
    steno_network *n = NULL;
    steno_err err = {0};
    char *path;
    for (int i = 0; i < K * N; i++)
        w[i] = number(i) * (1 + (float)(i % N)); /* columns of different scale */
    for (int i = 0; i < O * C * 9; i++)
        c3[i] = number(i + 5);
    for (int i = 0; i < O * O; i++)
        c1[i] = number(i + 11);
    for (int i = 0; i < O + N; i++)
        b[i] = number(i + 3);
    if (outlier != 0) {
        w[5 * N + 7] = outlier;
        c3[77] = outlier;
    }
    mk_input(g, "x", STENO_F32, "t,48");
    mk_input(g, "image", STENO_F32, "1,16,7,6");
    mk_f32(g, "W", "48,40", w, K * N);
    mk_f32(g, "b", "40", b, N);
    mk_f32(g, "C3", "24,16,3,3", c3, O * C * 9);
    mk_f32(g, "C1", "24,24,1,1", c1, O * O);
    mk_f32(g, "cb", "24", b + N, O);
    pc_graph(g, "MatMul x,W p; Add p,b q; Relu q y; "
                "Conv image,C3,cb c pads=[1,1,1,1] strides=[2,2]; "
                "Conv c,C1,cb z kernel_shape=[1,1]");
    mk_output(g, "y", STENO_F32, "t,40");
    mk_output(g, "z", STENO_F32, "1,24,4,3");
    path = mk_file(g);
    if (steno_network_open(&n, path, &opt, &err))
        fail_msg("%s", err.msg);
    mk_unlink(path);
    mk_free(g);
    return n;
}

static float corner; /* added to the image's first pixel */

/* Rows [from, from + t) of one x; y [t, N], z [O, 4, 3]. */
static void run(steno_network *n, int from, int t, int threads, float *y, float *z)
{
    static float x[T * K], image[C * H * W];
    struct steno_session_options so = {.threads = threads};
    struct steno_tensor in[2] = {{STENO_F32, {.rank = 2, .dim = {t, K}}, x},
                                 {STENO_F32, {.rank = 4, .dim = {1, C, H, W}}, image}};
    steno_session *s = NULL;
    steno_err err = {0};
    for (int i = 0; i < t * K; i++)
        x[i] = number(i + from * K) * (float)(1 + (from * K + i) / K); /* rows of different scale */
    for (int i = 0; i < C * H * W; i++)
        image[i] = number(i) + 0.25f + (i % (H * W) ? 0 : corner);
    if (steno_session_open(&s, n, &so, &err) || steno_session_set(s, 0, &in[0], &err) ||
        steno_session_set(s, 1, &in[1], &err) || steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    memcpy(y, steno_session_get(s, 0)->data, sizeof *y * (size_t)t * N);
    memcpy(z, steno_session_get(s, 1)->data, sizeof *z * O * 12);
    steno_session_close(s);
}

/* Largest difference divided by the largest magnitude of b. */
static double apart(const float *a, const float *b, int n)
{
    double most = 0, range = 0;
    for (int i = 0; i < n; i++) {
        range = fmax(range, fabs((double)b[i]));
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    }
    return most / range;
}

static void results_differ_by_the_error_of_the_format(void **state)
{
    /* each weight and activation has an error of at most half a step; the K errors mostly cancel */
    static const struct {
        enum steno_precision p;
        double least, most;
    } cases[] = {{STENO_BF16_WEIGHTS, 1e-5, 8e-3},
                 {STENO_FP16_WEIGHTS, 1e-7, 1e-3},
                 {STENO_INT8_WEIGHTS, 1e-5, 2e-2}};
    static float y[T * N], z[O * 12], y0[T * N], z0[O * 12];
    steno_network *n = network(STENO_FP32);
    (void)state;
    run(n, 0, T, 1, y0, z0);
    steno_network_close(n);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double ey, ez;
        n = network(cases[i].p);
        run(n, 0, T, 1, y, z);
        ey = apart(y, y0, T * N);
        ez = apart(z, z0, O * 12);
        if (!(ey >= cases[i].least && ey <= cases[i].most && ez >= cases[i].least &&
              ez <= cases[i].most))
            fail_msg("precision %d: y off by %g, z by %g", (int)cases[i].p, ey, ez);
        steno_network_close(n);
    }
}

static void rows_and_threads_do_not_matter(void **state)
{
    static const enum steno_precision all[] = {STENO_BF16_WEIGHTS, STENO_FP16_WEIGHTS,
                                               STENO_INT8_WEIGHTS};
    static float y[T * N], one[T * N], z[O * 12], z2[O * 12];
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        steno_network *n = network(all[i]);
        run(n, 0, T, 1, y, z);
        run(n, 0, T, 2, one, z2);
        assert_memory_equal(y, one, sizeof y);
        assert_memory_equal(z, z2, sizeof z);
        run(n, 4, 1, 1, one, z2);
        assert_memory_equal(y + 4 * N, one, N * sizeof *one);
        steno_network_close(n);
    }
}

/* Each patch has its own scale, so a large pixel outside a patch changes no bit of its result. */
static void a_pixel_depends_on_its_patch_alone(void **state)
{
    static float y[T * N], z[O * 12], z2[O * 12];
    steno_network *n = network(STENO_INT8_WEIGHTS);
    bool same = true;
    (void)state;
    run(n, 0, T, 1, y, z);
    corner = 1000;
    run(n, 0, T, 1, y, z2);
    corner = 0;
    /* stride 2: results from row 1 and column 1 on do not see the corner */
    for (int o = 0; o < O; o++) {
        same = same && z[o * 12] == z2[o * 12];
        for (int p = 3; p < 12; p++)
            if (p % 3)
                assert_true(z[o * 12 + p] == z2[o * 12 + p]);
    }
    assert_false(same);
    steno_network_close(n);
}

/* Weights of the three products, with columns padded to whole panels and K to a multiple of
 * `step`. */
static size_t filled(size_t step)
{
    static const size_t k[] = {K, C * 9, O}, n[] = {N, O, O};
    size_t all = 0;
    for (int i = 0; i < 3; i++)
        all += (k[i] + step - 1) / step * step * ((n[i] + 31) / 32 * 32);
    return all;
}

static void weights_are_held_once_and_small(void **state)
{
    const size_t weights = K * N + O * C * 9 + O * O, biases = (O + N) * sizeof(float);
    size_t bytes[4];
    (void)state;
    for (int p = 0; p < 4; p++) {
        steno_network *n = network((enum steno_precision)p);
        bytes[p] = steno_network_weight_bytes(n);
        steno_network_close(n);
    }
    assert_true(bytes[STENO_FP32] >= 4 * weights);
    /* a step of AMX takes 32 of K in bf16 and 64 in bytes; a column of bytes has its scale and
     * two sums */
    assert_true(bytes[STENO_BF16_WEIGHTS] <= 2 * filled(32) + biases);
    assert_true(bytes[STENO_FP16_WEIGHTS] <= 2 * filled(1) + biases);
    assert_true(bytes[STENO_INT8_WEIGHTS] <= filled(64) + 12 * (64 + 32 + 32) + 3 * 64 + biases);
}

/* In f32 and finite where the format does not hold a weight; the other product is lowered. */
static void a_weight_that_the_format_does_not_hold_keeps_f32(void **state)
{
    static const struct {
        enum steno_precision p;
        float outlier;
        int overflowed;
    } cases[] = {{STENO_FP16_WEIGHTS, 70000, 2},    {STENO_BF16_WEIGHTS, 70000, 0},
                 {STENO_BF16_WEIGHTS, 3.4e38f, 2},  {STENO_INT8_WEIGHTS, 70000, 0},
                 {STENO_INT8_WEIGHTS, 2e30f, 2},    {STENO_FP16_WEIGHTS, INFINITY, 0},
                 {STENO_INT8_WEIGHTS, INFINITY, 2}, {STENO_INT8_WEIGHTS, NAN, 2}};
    static float want[2][T * N + O * 12], have[2][T * N + O * 12];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        steno_network *plain, *n;
        outlier = cases[i].outlier;
        plain = network(STENO_FP32);
        n = network(cases[i].p);
        assert_int_equal(steno_network_precision(n)->overflowed, cases[i].overflowed);
        assert_int_equal(steno_network_precision(n)->lowered, 3 - cases[i].overflowed);
        run(plain, 0, T, 1, want[0], want[1]);
        run(n, 0, T, 1, have[0], have[1]);
        for (int k = 0; k < T * N; k++)
            assert_int_equal(isfinite(want[0][k]), isfinite(have[0][k]));
        if (isfinite(outlier))
            assert_true(apart(have[0], want[0], T * N) < 0.02);
        outlier = 0;
        steno_network_close(plain);
        steno_network_close(n);
    }
}

enum { IMAGE = 16 * 6 * 5 };

/* y = Relu(Conv 3x3) twice, channels last inside, and z = Conv 1x1 of the image; all of them have
 * one weight that is an outlier. */
static steno_network *convolutions(enum steno_precision p, float odd, const char *cache, float *out)
{
    struct steno_network_options opt = {
        .opt_level = -1, .precision = p, .borrow_from = !cache, .cache_dir = cache};
    static float w3[16 * 16 * 9], w1[16 * 16], x[IMAGE];
    const struct steno_tensor in = {STENO_F32, {4, {1, 16, 6, 5}}, x};
    struct steno_session_options so = {.threads = 1};
    struct mk_graph *g = mk_new(17);
    steno_network *n = NULL;
    steno_session *s = NULL;
    steno_err err = {0};
    char *path;
    for (int i = 0; i < 16 * 16 * 9; i++)
        w3[i] = number(i) / 16;
    for (int i = 0; i < 16 * 16; i++)
        w1[i] = number(i + 2) / 4;
    for (int i = 0; i < IMAGE; i++)
        x[i] = number(i + 1) + 0.5f;
    w3[16 * 9 * 3 + 5] = w1[16 * 3 + 5] = odd;
    mk_input(g, "x", STENO_F32, "1,16,6,5");
    mk_f32(g, "A", "16,16,3,3", w3, 16 * 16 * 9);
    mk_f32(g, "B", "16,16,3,3", w3, 16 * 16 * 9);
    mk_f32(g, "C", "16,16,1,1", w1, 16 * 16);
    pc_graph(g, "Conv x,A a pads=[1,1,1,1]; Relu a ra; Conv ra,B b pads=[1,1,1,1]; Relu b y; "
                "Conv x,C z");
    mk_output(g, "y", STENO_F32, "1,16,6,5");
    mk_output(g, "z", STENO_F32, "1,16,6,5");
    path = mk_file(g);
    if (steno_network_open(&n, path, &opt, &err) || steno_session_open(&s, n, &so, &err) ||
        steno_session_set(s, 0, &in, &err) || steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    memcpy(out, steno_session_get(s, 0)->data, IMAGE * sizeof *out);
    memcpy(out + IMAGE, steno_session_get(s, 1)->data, IMAGE * sizeof *out);
    steno_session_close(s);
    mk_unlink(path);
    mk_free(g);
    return n;
}

static void remove_all(const char *dir)
{
    DIR *d = opendir(dir);
    char path[512];
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(dir);
}

/* Also when a cache has the weights: the second load of each. */
static void convolutions_that_the_format_does_not_hold_keep_f32(void **state)
{
    static const struct {
        enum steno_precision p;
        float odd;
        int overflowed;
    } cases[] = {{STENO_FP16_WEIGHTS, 70000, 3},     {STENO_FP16_WEIGHTS, 2000, 0},
                 {STENO_BF16_WEIGHTS, 3.395e38f, 3}, {STENO_BF16_WEIGHTS, 70000, 0},
                 {STENO_INT8_WEIGHTS, 2e30f, 3},     {STENO_INT8_WEIGHTS, 0.05f, 0}};
    static float want[2 * IMAGE], have[2 * IMAGE];
    char cache[] = "/tmp/steno-test-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(cache));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        steno_network_close(convolutions(STENO_FP32, cases[i].odd, NULL, want));
        for (int load = 0; load < 2; load++) {
            steno_network *n = convolutions(cases[i].p, cases[i].odd, cache, have);
            const struct steno_precision_report *report = steno_network_precision(n);
            assert_int_equal(steno_network_is_mapped(n), load);
            assert_int_equal(report->overflowed, cases[i].overflowed);
            for (int part = 0; part < 2; part++)
                if (!(apart(have + part * IMAGE, want + part * IMAGE, IMAGE) < 0.03))
                    fail_msg("case %zu, load %d: output %d is off by %g", i, load, part,
                             apart(have + part * IMAGE, want + part * IMAGE, IMAGE));
            steno_network_close(n);
        }
    }
    remove_all(cache);
}

enum { CELL = 8, STEPS = 5 };

/* y = LSTM(x), z = GRU(x), each with one weight that is an outlier: of W, or of R. */
static steno_network *recurrent(enum steno_precision p, float odd, bool of_r, const char *cache,
                                float *out)
{
    struct steno_network_options opt = {
        .opt_level = -1, .precision = p, .borrow_from = !cache, .cache_dir = cache};
    static float w[4 * CELL * CELL], r[4 * CELL * CELL], x[STEPS * CELL];
    struct mk_graph *g = mk_new(17);
    const struct steno_tensor in = {STENO_F32, {3, {STEPS, 1, CELL}}, x};
    struct steno_session_options so = {.threads = 1};
    steno_network *n = NULL;
    steno_session *s = NULL;
    steno_err err = {0};
    char *path;
    for (int i = 0; i < 4 * CELL * CELL; i++) {
        w[i] = number(i);
        r[i] = number(i + 7);
    }
    for (int i = 0; i < STEPS * CELL; i++)
        x[i] = number(i + 1);
    (of_r ? r : w)[5] = odd;
    mk_input(g, "x", STENO_F32, "5,1,8");
    mk_f32(g, "W4", "1,32,8", w, 4 * CELL * CELL);
    mk_f32(g, "R4", "1,32,8", r, 4 * CELL * CELL);
    mk_f32(g, "W3", "1,24,8", w, 3 * CELL * CELL);
    mk_f32(g, "R3", "1,24,8", r, 3 * CELL * CELL);
    mk_node(g, "LSTM", "x,W4,R4", "y");
    mk_attr_int(g, "hidden_size", CELL);
    mk_node(g, "GRU", "x,W3,R3", "z");
    mk_attr_int(g, "hidden_size", CELL);
    mk_output(g, "y", STENO_F32, "5,1,1,8");
    mk_output(g, "z", STENO_F32, "5,1,1,8");
    path = mk_file(g);
    if (steno_network_open(&n, path, &opt, &err) || steno_session_open(&s, n, &so, &err) ||
        steno_session_set(s, 0, &in, &err) || steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    memcpy(out, steno_session_get(s, 0)->data, STEPS * CELL * sizeof *out);
    memcpy(out + STEPS * CELL, steno_session_get(s, 1)->data, STEPS * CELL * sizeof *out);
    steno_session_close(s);
    mk_unlink(path);
    mk_free(g);
    return n;
}

/* Also when a cache has the weights: the second load of each. */
static void recurrent_weights_that_the_format_does_not_hold_keep_f32(void **state)
{
    static const struct {
        enum steno_precision p;
        float odd;
        int overflowed;
    } cases[] = {{STENO_FP16_WEIGHTS, 70000, 2},     {STENO_BF16_WEIGHTS, 70000, 0},
                 {STENO_BF16_WEIGHTS, 3.395e38f, 2}, {STENO_INT8_WEIGHTS, 3.395e38f, 2},
                 {STENO_FP16_WEIGHTS, 0.5f, 0},      {STENO_FP32, 70000, 0}};
    static float want[2 * STEPS * CELL], have[2 * STEPS * CELL];
    char cache[] = "/tmp/steno-test-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(cache));
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const bool of_r = i % 2, over = cases[i / 2].overflowed;
        const enum steno_precision p = cases[i / 2].p;
        steno_network_close(recurrent(STENO_FP32, cases[i / 2].odd, of_r, NULL, want));
        for (int load = 0; load < 2; load++) {
            steno_network *n = recurrent(p, cases[i / 2].odd, of_r, cache, have);
            const struct steno_precision_report *report = steno_network_precision(n);
            assert_int_equal(steno_network_is_mapped(n), load);
            assert_int_equal(report->overflowed, cases[i / 2].overflowed);
            assert_int_equal(report->products, 4);
            assert_int_equal(report->lowered, over || p == STENO_FP32 ? 0 : 4);
            for (int k = 0; k < 2 * STEPS * CELL; k++)
                assert_true(fabsf(have[k] - want[k]) <= (over ? 0 : 0.03f));
            steno_network_close(n);
        }
    }
    remove_all(cache);
}

static void the_report_has_the_errors(void **state)
{
    steno_network *n = network(STENO_INT8_WEIGHTS);
    const struct steno_precision_report *r = steno_network_precision(n);
    (void)state;
    assert_int_equal(r->products, 3);
    assert_int_equal(r->lowered, 3);
    /* uniform rounding of uniform weights: step / sqrt(12), of a range of 127 steps / sqrt(3) */
    assert_true(r->error > 0.001 && r->error < 0.01);
    assert_true(r->worst >= r->error && r->worst < 0.01);
    steno_network_close(n);
    n = network(STENO_BF16_WEIGHTS);
    r = steno_network_precision(n);
    assert_int_equal(r->products, 3);
    assert_int_equal(r->lowered, 3);
    assert_true(r->error > 0.0005 && r->error < 0.004);
    steno_network_close(n);
    n = network(STENO_FP32);
    assert_int_equal(steno_network_precision(n)->lowered, 0);
    steno_network_close(n);
}

/* y = Relu((x quantized to 8 bits) times 8-bit weights + b) as a quantizer writes it, and z = a
 * convolution of the image that the quantizer left in f32. */
static steno_network *quantized(enum steno_precision p)
{
    struct steno_network_options opt = {.opt_level = -1, .precision = p};
    static uint8_t q[K * N + 1];
    static float b[N], c3[O * C * 9], scale = 1.0f / 127;
    struct mk_graph *g = mk_new(17);
    Onnx__Tensor *t;
    steno_network *n = NULL;
    steno_err err = {0};
    size_t size;
    uint8_t *file;
    for (int i = 0; i < K * N; i++)
        q[i] = (uint8_t)(int8_t)lrintf(number(i) * 127);
    for (int i = 0; i < N; i++)
        b[i] = number(i + 3);
    for (int i = 0; i < O * C * 9; i++)
        c3[i] = number(i + 5);
    mk_input(g, "x", STENO_F32, "t,48");
    mk_input(g, "image", STENO_F32, "1,16,7,6");
    mk_f32(g, "C3", "24,16,3,3", c3, O * C * 9);
    t = mk_tensor(g, "w", STENO_I8, "48,40");
    t->raw_data.data = q;
    t->raw_data.len = K * N;
    mk_f32(g, "ws", "", &scale, 1);
    mk_f32(g, "b", "40", b, N);
    pc_graph(g, "DynamicQuantizeLinear x q,qs,qz; MatMulInteger q,w,qz i; Cast i f");
    mk_attr_int(g, "to", STENO_F32);
    pc_graph(g, "Mul qs,ws s; Mul f,s p; Add p,b c; Relu c y; "
                "Conv image,C3 z pads=[1,1,1,1] strides=[2,2]");
    mk_output(g, "y", STENO_F32, "t,40");
    mk_output(g, "z", STENO_F32, NULL);
    file = mk_bytes(g, &size);
    if (steno_network_open_memory(&n, file, size, "quantized", &opt, &err))
        fail_msg("%s", err.msg);
    free(file);
    mk_free(g);
    return n;
}

/* In any precision but f32 each row of a quantized graph has its own range, so that its bits do
 * not depend on other rows, and the whole chain is one node. In f32 the range covers all rows. */
static void a_quantized_graph_rounds_by_rows_unless_exact(void **state)
{
    static const enum steno_precision by_rows[] = {STENO_BF16_WEIGHTS, STENO_INT8_WEIGHTS,
                                                   STENO_AUTO_WEIGHTS};
    static float y[T * N], exact[T * N], one[T * N], z[C * H * W];
    steno_network *n;
    (void)state;
    for (size_t i = 0; i < sizeof by_rows / sizeof *by_rows; i++) {
        n = quantized(by_rows[i]);
        /* plus the convolution between two Transposes */
        assert_int_equal(steno_graph_count_nodes(steno_network_graph(n)), 4);
        run(n, 0, T, 1, y, z);
        run(n, 4, 1, 1, one, z);
        assert_memory_equal(y + 4 * N, one, N * sizeof *one);
        steno_network_close(n);
    }
    n = quantized(STENO_FP32);
    run(n, 0, T, 1, exact, z);
    run(n, 4, 1, 1, one, z);
    assert_memory_not_equal(exact + 4 * N, one, N * sizeof *one);
    assert_true(apart(y, exact, T * N) < 1e-2);
    steno_network_close(n);
}

static void layers_that_a_quantizer_left_in_f32_stay_in_f32(void **state)
{
    unsigned cpu;
    enum steno_precision want;
    (void)state;
    assert_int_equal(steno_cpu_choose(NULL, &cpu, NULL), STENO_OK);
    want = cpu & STENO_CPU_BF16 ? STENO_BF16_WEIGHTS : STENO_FP32;
    for (int i = 0; i < 2; i++) {
        steno_network *n = quantized(i ? STENO_INT8_WEIGHTS : STENO_AUTO_WEIGHTS);
        const struct steno_precision_report *r = steno_network_precision(n);
        assert_true(r->bytes);
        assert_int_equal(r->kept, want);
        assert_true(r->products > 0 && r->lowered == (want == STENO_FP32 ? 0 : r->products));
        steno_network_close(n);
    }
}

static void auto_leaves_an_f32_graph_alone(void **state)
{
    steno_network *n = network(STENO_AUTO_WEIGHTS);
    const struct steno_precision_report *r = steno_network_precision(n);
    (void)state;
    assert_false(r->bytes);
    assert_int_equal(r->kept, STENO_FP32);
    assert_int_equal(r->lowered, 0);
    steno_network_close(n);
    n = network(STENO_INT8_WEIGHTS);
    assert_int_equal(steno_network_precision(n)->kept, STENO_INT8_WEIGHTS);
    steno_network_close(n);
}

/* ---- attention of more rows than a tile ---- */

enum { ROWS = 150, HEADS = 2, SIZE = 20, ALL = HEADS * SIZE };

static void split_heads(struct mk_graph *g, const char *of, const char *to, bool turned)
{
    const int64_t keys[4] = {0, 2, 3, 1}, rows[4] = {0, 2, 1, 3};
    char in[16], wide[8];
    snprintf(in, sizeof in, "%.4s,heads", of);
    snprintf(wide, sizeof wide, "%.4s4", of);
    mk_node(g, "Reshape", in, wide);
    mk_node(g, "Transpose", wide, to);
    mk_attr_ints(g, "perm", turned ? keys : rows, 4);
}

/* y [1, ROWS, ALL]: softmax(q k' / 4) v by heads of q, k, v, which are the inputs. */
static void attend(enum steno_precision p, const char *cpu, int threads, float *y)
{
    struct steno_network_options opt = {.opt_level = -1, .precision = p, .cpu = cpu};
    struct steno_session_options so = {.threads = threads};
    static float x[3][ROWS * ALL];
    const int64_t heads[4] = {0, 0, HEADS, SIZE}, joined[3] = {0, 0, ALL};
    const float scale = 0.25f;
    struct mk_graph *g = mk_new(17);
    steno_network *n = NULL;
    steno_session *s = NULL;
    steno_err err = {0};
    size_t size;
    uint8_t *file;
    for (int i = 0; i < 3; i++)
        mk_input(g, (const char *[]){"q", "k", "v"}[i], STENO_F32, "1,t,40");
    mk_i64(g, "heads", "4", heads, 4);
    mk_i64(g, "joined", "3", joined, 3);
    mk_f32(g, "scale", "", &scale, 1);
    split_heads(g, "q", "qh", false);
    split_heads(g, "k", "kh", true);
    split_heads(g, "v", "vh", false);
    pc_graph(g, "MatMul qh,kh s; Mul s,scale c; Softmax c w; MatMul w,vh o; "
                "Transpose o ot perm=[0,2,1,3]; Reshape ot,joined y");
    mk_output(g, "y", STENO_F32, "1,t,40");
    file = mk_bytes(g, &size);
    mk_free(g);
    if (steno_network_open_memory(&n, file, size, "attention", &opt, &err) ||
        steno_session_open(&s, n, &so, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(steno_graph_count_nodes(steno_network_graph(n)), 1);
    for (int i = 0; i < 3; i++) {
        struct steno_tensor t = {STENO_F32, {.rank = 3, .dim = {1, ROWS, ALL}}, x[i]};
        for (int j = 0; j < ROWS * ALL; j++)
            x[i][j] = number(j + i * 31) * 1.5f;
        assert_int_equal(steno_session_set(s, i, &t, &err), STENO_OK);
    }
    if (steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    memcpy(y, steno_session_get(s, 0)->data, ROWS * ALL * sizeof *y);
    steno_session_close(s);
    steno_network_close(n);
    free(file);
}

static void attention_is_as_near_as_16_bits(void **state)
{
    static const char *const levels[] = {"scalar", "avx2", "avx512", "native"};
    static float want[ROWS * ALL], y[ROWS * ALL], again[ROWS * ALL];
    (void)state;
    attend(STENO_FP32, "scalar", 1, want);
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++)
        for (int p = 0; p < 4; p++) {
            double most = p == STENO_BF16_WEIGHTS || p == STENO_INT8_WEIGHTS ? 1e-2 : 2e-6;
            attend((enum steno_precision)p, levels[l], 1, y);
            if (!(apart(y, want, ROWS * ALL) <= most))
                fail_msg("%s, precision %d: off by %g", levels[l], p, apart(y, want, ROWS * ALL));
            attend((enum steno_precision)p, levels[l], 2, again);
            assert_memory_equal(y, again, sizeof y);
        }
}

/* Bytes that the profile counts for the nodes of a run. */
static double bytes_moved(enum steno_precision p)
{
    static float x[T * K], image[C * H * W];
    struct steno_session_options so = {.threads = 1};
    struct steno_tensor in[2] = {{STENO_F32, {.rank = 2, .dim = {T, K}}, x},
                                 {STENO_F32, {.rank = 4, .dim = {1, C, H, W}}, image}};
    steno_network *n = network(p);
    steno_session *s = NULL;
    steno_err err = {0};
    struct steno_profile_row row;
    double sum = 0;
    if (steno_session_open(&s, n, &so, &err))
        fail_msg("%s", err.msg);
    steno_session_set_profile(s, true);
    if (steno_session_set(s, 0, &in[0], &err) || steno_session_set(s, 1, &in[1], &err) ||
        steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; steno_session_profile(s, i, &row); i++)
        sum += row.bytes;
    steno_session_close(s);
    steno_network_close(n);
    return sum;
}

static void the_profile_counts_weights_as_they_are_kept(void **state)
{
    const double weights = K * N + O * C * 9 + O * O, f32 = bytes_moved(STENO_FP32);
    const double bf16 = bytes_moved(STENO_BF16_WEIGHTS), i8 = bytes_moved(STENO_INT8_WEIGHTS);
    (void)state;
    assert_true(f32 >= 4 * weights); /* panels are padded: 40 columns take 48 or 64 */
    assert_true(f32 - bf16 >= 1.9 * weights && f32 - bf16 <= 4 * weights);
    assert_true(bf16 - i8 >= 0.8 * weights && bf16 - i8 <= 2 * weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_differ_by_the_error_of_the_format),
        cmocka_unit_test(rows_and_threads_do_not_matter),
        cmocka_unit_test(a_pixel_depends_on_its_patch_alone),
        cmocka_unit_test(weights_are_held_once_and_small),
        cmocka_unit_test(a_weight_that_the_format_does_not_hold_keeps_f32),
        cmocka_unit_test(convolutions_that_the_format_does_not_hold_keep_f32),
        cmocka_unit_test(recurrent_weights_that_the_format_does_not_hold_keep_f32),
        cmocka_unit_test(the_report_has_the_errors),
        cmocka_unit_test(a_quantized_graph_rounds_by_rows_unless_exact),
        cmocka_unit_test(layers_that_a_quantizer_left_in_f32_stay_in_f32),
        cmocka_unit_test(auto_leaves_an_f32_graph_alone),
        cmocka_unit_test(attention_is_as_near_as_16_bits),
        cmocka_unit_test(the_profile_counts_weights_as_they_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
