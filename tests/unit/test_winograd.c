/* A network of one 3x3 convolution with stride 2 and many channels. Winograd's method gives the
 * same results as all multiplications, for every extent, level, precision and number of threads,
 * and from a packed cache. */

#include "nn/network/network.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { C = 128, O = 24, MOST_IN = 43, MOST_OUT = 22, BATCH = 2 };

static float x[BATCH * C * MOST_IN * MOST_IN], w[O * C * 9], bias[O];
static float want[BATCH * O * MOST_OUT * MOST_OUT], mag[BATCH * O * MOST_OUT * MOST_OUT];

static float number(size_t i) /* in [-1,1], without a period */
{
    return sinf((float)(i % 9973) * 1.7f + (float)(i % 11));
}

static char *write_model(int pad)
{
    const int64_t two[2] = {2, 2}, pads[4] = {pad, 0, 0, pad};
    struct mk_graph *m = mk_new(17);
    char *path;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = number(i);
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        w[i] = number(i + 3) / 8;
    for (size_t i = 0; i < O; i++)
        bias[i] = number(i + 5);
    mk_input(m, "x", STENO_F32, "n,128,t,f");
    mk_f32(m, "w", "24,128,3,3", w, sizeof w / sizeof *w);
    mk_f32(m, "b", "24", bias, O);
    mk_node(m, "Conv", "x,w,b", "c");
    mk_attr_ints(m, "strides", two, 2);
    mk_attr_ints(m, "pads", pads, 4);
    pc_graph(m, "Relu c y; -> y");
    path = mk_file(m);
    mk_free(m);
    return path;
}

static steno_network *open_as(const char *path, const char *cpu, enum steno_precision p,
                              const char *cache)
{
    struct steno_network_options opt = {
        .opt_level = -1, .cpu = cpu, .precision = p, .cache_dir = cache};
    steno_network *n = NULL;
    steno_err err = {0};
    if (steno_network_open(&n, path, &opt, &err))
        fail_msg("%s", err.msg);
    return n;
}

/* y [BATCH, O, h, w] of an image in0 x in1. The caller frees it. */
static float *run(steno_network *n, int threads, int64_t in0, int64_t in1, size_t *count)
{
    const struct steno_session_options so = {.threads = threads};
    struct steno_tensor t = {STENO_F32, {4, {BATCH, C, in0, in1}}, x};
    const struct steno_tensor *y;
    steno_session *s = NULL;
    steno_err err = {0};
    float *copy;
    if (steno_session_open(&s, n, &so, &err) || steno_session_set(s, 0, &t, &err) ||
        steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    y = steno_session_get(s, 0);
    *count = steno_numel(y);
    copy = malloc(*count * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, y->data, *count * sizeof *copy);
    steno_session_close(s);
    return copy;
}

/* All multiplications in double. `pad` rows above; columns are padded on the right. */
static size_t reference(size_t in0, size_t in1, size_t pad)
{
    const size_t out0 = (in0 + pad - 3) / 2 + 1, out1 = (in1 + pad - 3) / 2 + 1;
    for (size_t i = 0; i < BATCH * O * out0 * out1; i++) {
        const size_t n = i / (O * out0 * out1), o = i / (out0 * out1) % O;
        double sum = (double)bias[o], all = fabs(sum);
        for (size_t k = 0; k < C * 9; k++) {
            const size_t r = i / out1 % out0 * 2 + k % 9 / 3 - pad, c = i % out1 * 2 + k % 3;
            double v;
            if (r >= in0 || c >= in1)
                continue;
            v = (double)x[((n * C + k / 9) * in0 + r) * in1 + c] * (double)w[o * C * 9 + k];
            sum += v;
            all += fabs(v);
        }
        want[i] = sum > 0 ? (float)sum : 0;
        mag[i] = (float)all;
    }
    return BATCH * O * out0 * out1;
}

static const int64_t sizes[][2] = {{3, 3},  {7, 39}, {9, 21},  {13, 15}, {14, 18}, {17, 17},
                                   {19, 9}, {20, 8}, {39, 13}, {43, 12}, {5, 43},  {42, 43}};

/* Allowed distance of an output from `want`, relative to the sum of magnitudes, by precision.
 * Few of the 1152 roundings of an f32 sum add up. Rounded 16-bit factors have errors of 2^-9
 * each, also those of summed inputs; their signs vary. */
static const struct {
    enum steno_precision p;
    double most;
} precisions[] = {{STENO_FP32, 2e-6}, {STENO_BF16_WEIGHTS, 2e-3}, {STENO_FP16_WEIGHTS, 2e-4}};

static void compare(const char *path, const char *cpu, size_t p, const int64_t *size,
                    size_t expected)
{
    steno_network *n = open_as(path, cpu, precisions[p].p, NULL);
    size_t count, again;
    float *y = run(n, 1, size[0], size[1], &count), *z = run(n, 2, size[0], size[1], &again);
    assert_int_equal(count, expected);
    assert_int_equal(again, expected);
    assert_memory_equal(y, z, count * sizeof *y);
    for (size_t k = 0; k < count; k++)
        if (!(fabs((double)y[k] - (double)want[k]) <= precisions[p].most * (double)mag[k]))
            fail_msg("%s, precision %d, %dx%d: y[%zu] = %g, not %g", cpu, (int)precisions[p].p,
                     (int)size[0], (int)size[1], k, (double)y[k], (double)want[k]);
    free(y);
    free(z);
    steno_network_close(n);
}

static void all_extents_at_all_levels(void **state)
{
    static const char *const levels[] = {"scalar", "avx2", "avx512", "native"};
    (void)state;
    for (int pad = 0; pad < 2; pad++) {
        char *path = write_model(pad);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            size_t n = reference((size_t)sizes[i][0], (size_t)sizes[i][1], (size_t)pad);
            for (size_t l = 0; l < 12; l++)
                compare(path, levels[l / 3], l % 3, sizes[i], n);
        }
        mk_unlink(path);
    }
}

static void remove_folder(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    char name[512];
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.') {
            snprintf(name, sizeof name, "%s/%.200s", dir, e->d_name);
            assert_int_equal(unlink(name), 0);
        }
    if (d)
        closedir(d);
    assert_int_equal(rmdir(dir), 0);
}

static void packed_once_and_mapped_after(void **state)
{
    (void)state;
    for (int p = 0; p < 4; p++) {
        char dir[] = "/tmp/steno-winograd-XXXXXX", *path = write_model(0);
        steno_network *first, *second;
        size_t count, again;
        float *y, *z;
        assert_non_null(mkdtemp(dir));
        first = open_as(path, NULL, (enum steno_precision)p, dir);
        second = open_as(path, NULL, (enum steno_precision)p, dir);
        assert_false(steno_network_is_mapped(first));
        assert_true(steno_network_is_mapped(second));
        y = run(first, 1, 17, 17, &count);
        z = run(second, 1, 17, 17, &again);
        assert_int_equal(count, again);
        assert_memory_equal(y, z, count * sizeof *y);
        free(y);
        free(z);
        steno_network_close(first);
        steno_network_close(second);
        remove_folder(dir);
        mk_unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_extents_at_all_levels),
        cmocka_unit_test(packed_once_and_mapped_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
