/* Pass rowtile: two convolutions, of which the first one's result exists only as one tile of
 * rows at a time, give the same bits as one convolution after the other, in every precision and
 * with any number of threads. */

#include "nn/network/network.h"
#include "nn/passes/passes.h"
#include "tests/support/onnx_make.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { X_MOST = 1 << 20, W_MOST = 136 * 136 * 9 };

static float x_data[X_MOST], w_data[W_MOST];

/* One convolution of the pair: strides, dilation, pads (before and after along axis 0, both
 * sides along axis 1) and group. */
struct conv {
    int out, kernel, stride[2], dilation, pad[3], group;
    const char *act;
};

struct pair {
    const char *name;
    int c_in;
    struct conv conv[2];
};

static const struct pair pairs[] = {
    {"subsampling",
     1,
     {{8, 3, {2, 2}, 1, {0, 0, 0}, 1, "Relu"}, {8, 3, {2, 2}, 1, {0, 0, 0}, 1, "Relu"}}},
    {"padded", 2, {{6, 3, {2, 2}, 1, {1, 1, 1}, 1, "Relu"}, {7, 3, {2, 1}, 1, {1, 2, 0}, 1, ""}}},
    {"wide padding",
     1,
     {{4, 2, {1, 1}, 1, {4, 9, 3}, 1, ""}, {3, 3, {1, 2}, 2, {7, 12, 5}, 1, "Sigmoid"}}},
    {"steps over rows",
     1,
     {{4, 2, {1, 2}, 1, {0, 0, 0}, 1, "Tanh"}, {5, 2, {5, 1}, 1, {0, 1, 0}, 1, "Relu"}}},
    {"depthwise",
     1,
     {{16, 3, {2, 2}, 1, {1, 1, 1}, 1, "Relu"}, {16, 3, {2, 2}, 1, {1, 1, 1}, 16, ""}}},
    {"patches of 8 bits",
     16,
     {{16, 3, {1, 2}, 1, {1, 1, 1}, 1, "Relu"}, {24, 3, {2, 2}, 1, {0, 1, 1}, 1, "Relu"}}},
    {"fewer multiplications",
     1,
     {{136, 3, {2, 2}, 1, {0, 0, 0}, 1, "Relu"}, {136, 3, {2, 2}, 1, {0, 0, 0}, 1, "Relu"}}},
    {"the same, padded",
     1,
     {{128, 3, {2, 2}, 1, {1, 1, 1}, 1, ""}, {130, 3, {2, 2}, 1, {1, 1, 1}, 1, ""}}},
};

static void add_conv(struct mk_graph *m, const struct conv *c, int c_in, int i)
{
    const int64_t strides[2] = {c->stride[0], c->stride[1]};
    const int64_t dilations[2] = {c->dilation, c->dilation};
    const int64_t pads[4] = {c->pad[0], c->pad[2], c->pad[1], c->pad[2]};
    const int per = c_in / c->group;
    char dims[64], in[32], names[32];
    snprintf(dims, sizeof dims, "%d,%d,%d,%d", c->out, per, c->kernel, c->kernel);
    snprintf(names, sizeof names, "w%d", i);
    mk_f32(m, names, dims, w_data, (size_t)(c->out * per * c->kernel * c->kernel));
    snprintf(dims, sizeof dims, "%d", c->out);
    snprintf(names, sizeof names, "b%d", i);
    mk_f32(m, names, dims, w_data + 7, (size_t)c->out);
    snprintf(in, sizeof in, "%s,w%d,b%d", i ? "middle" : "x", i, i);
    snprintf(names, sizeof names, "%s%s", i ? "y" : "middle", *c->act ? "_" : "");
    mk_node(m, "Conv", in, names);
    mk_attr_int(m, "group", c->group);
    mk_attr_ints(m, "strides", strides, 2);
    mk_attr_ints(m, "dilations", dilations, 2);
    mk_attr_ints(m, "pads", pads, 4);
    if (*c->act)
        mk_node(m, c->act, names, i ? "y" : "middle");
}

static struct mk_graph *pair_graph(const struct pair *p)
{
    struct mk_graph *m = mk_new(17);
    char dims[32];
    snprintf(dims, sizeof dims, "b,%d,t,f", p->c_in);
    mk_input(m, "x", STENO_F32, dims);
    add_conv(m, &p->conv[0], p->c_in, 0);
    add_conv(m, &p->conv[1], p->conv[0].out, 1);
    mk_output(m, "y", STENO_F32, NULL);
    return m;
}

static void fill(void)
{
    uint32_t r = 1;
    for (size_t i = 0; i < X_MOST; i++)
        x_data[i] = (float)((r = r * 1664525u + 1013904223u) >> 8) / (1 << 23) - 1;
    for (size_t i = 0; i < W_MOST; i++)
        w_data[i] = ((float)((r = r * 1664525u + 1013904223u) >> 8) / (1 << 23) - 1) / 8;
}

static steno_network *open_with(const uint8_t *file, size_t size, enum steno_precision precision,
                                const char *cpu, const char *disabled)
{
    const struct steno_network_options opt = {
        .opt_level = 3, .precision = precision, .cpu = cpu, .disable_passes = disabled};
    steno_network *n = NULL;
    steno_err err = {0};
    if (steno_network_open_memory(&n, file, size, "test", &opt, &err))
        fail_msg("%s", err.msg);
    return n;
}

static steno_status run(steno_network *n, int threads, const int64_t *dims, steno_session **out,
                        steno_err *err)
{
    const struct steno_session_options opt = {.threads = threads};
    struct steno_tensor t = {.dtype = STENO_F32, .data = x_data, .shape = {.rank = 4}};
    steno_status st = steno_session_open(out, n, &opt, err);
    memcpy(t.shape.dim, dims, 4 * sizeof *dims);
    assert_true(steno_numel(&t) <= X_MOST);
    if (!st)
        st = steno_session_set(*out, 0, &t, err);
    return st ? st : steno_session_run(*out, err);
}

static void same_bits(const char *what, steno_network *plain, steno_network *row_tiles, int threads,
                      const int64_t *dims)
{
    steno_session *a = NULL, *b = NULL;
    const struct steno_tensor *p, *q;
    steno_err err = {0};
    if (run(plain, 1, dims, &a, &err) || run(row_tiles, threads, dims, &b, &err))
        fail_msg("%s: %s", what, err.msg);
    p = steno_session_get(a, 0);
    q = steno_session_get(b, 0);
    assert_true(steno_shape_equal(&p->shape, &q->shape) && steno_numel(p));
    if (memcmp(p->data, q->data, steno_numel(p) * sizeof(float)))
        fail_msg("%s, %d threads, %lld x %lld pixels: bits differ", what, threads,
                 (long long)dims[2], (long long)dims[3]);
    steno_session_close(a);
    steno_session_close(b);
}

static void check_pair(const struct pair *p, enum steno_precision precision, const char *cpu)
{
    static const int extents[][3] = {
        {1, 8, 9}, {1, 11, 80}, {2, 15, 17}, {3, 90, 23}, {1, 241, 80}};
    static const int threads[] = {1, 2, 5};
    struct mk_graph *m = pair_graph(p);
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    steno_network *plain = open_with(file, size, precision, cpu, "rowtile");
    steno_network *n = open_with(file, size, precision, cpu, NULL);
    mk_free(m);
    assert_int_equal(pc_count(plain, "ConvRowTiles"), 0);
    assert_int_equal(pc_count(n, "ConvRowTiles"), 1);
    assert_int_equal(pc_count(n, "ConvNhwc"), 0);
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
        const int64_t dims[4] = {extents[i][0], p->c_in, extents[i][1], extents[i][2]};
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
            same_bits(p->name, plain, n, threads[t], dims);
    }
    steno_network_close(plain);
    steno_network_close(n);
    free(file);
}

static void row_tiles_give_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        check_pair(&pairs[i], STENO_FP32, NULL);
}

static void row_tiles_in_16_and_8_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        check_pair(&pairs[i], STENO_BF16_WEIGHTS, NULL);
        check_pair(&pairs[i], STENO_INT8_WEIGHTS, NULL);
    }
    check_pair(&pairs[6], STENO_FP16_WEIGHTS, NULL);
}

static void row_tiles_at_lower_cpu_levels(void **state)
{
    (void)state;
    check_pair(&pairs[1], STENO_FP32, "scalar");
    check_pair(&pairs[7], STENO_FP32, "avx2");
    check_pair(&pairs[7], STENO_BF16_WEIGHTS, "avx2");
    check_pair(&pairs[5], STENO_INT8_WEIGHTS, "avx2");
}

/* The first convolution's result takes 8 MiB here; the arena must be smaller by nine tenths of
 * that. */
static void the_arena_is_without_the_first_result(void **state)
{
    static const int64_t dims[4] = {1, 1, 804, 80};
    struct mk_graph *m = pair_graph(&pairs[6]);
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    steno_network *plain = open_with(file, size, STENO_FP32, NULL, "rowtile");
    steno_network *n = open_with(file, size, STENO_FP32, NULL, NULL);
    steno_session *a = NULL, *b = NULL;
    const size_t first = (size_t)401 * 39 * 136 * sizeof(float);
    (void)state;
    mk_free(m);
    assert_int_equal(run(plain, 1, dims, &a, NULL), STENO_OK);
    assert_int_equal(run(n, 1, dims, &b, NULL), STENO_OK);
    assert_true(steno_session_arena_bytes(a) > first);
    assert_true(steno_session_arena_bytes(b) < steno_session_arena_bytes(a) - first * 9 / 10);
    steno_session_close(a);
    steno_session_close(b);
    steno_network_close(plain);
    steno_network_close(n);
    free(file);
}

static void set_rows(steno_session *s, int64_t rows)
{
    const struct steno_tensor t = {
        .dtype = STENO_F32, .data = x_data, .shape = {.rank = 4, .dim = {1, 1, rows, 80}}};
    assert_int_equal(steno_session_set(s, 0, &t, NULL), STENO_OK);
}

/* A further run of s gives the same result as a session's first run. */
static void check_run(steno_session *s, steno_network *n, int64_t rows)
{
    steno_session *first = NULL;
    const struct steno_tensor *p, *q;
    set_rows(s, rows);
    assert_int_equal(steno_session_run(s, NULL), STENO_OK);
    assert_int_equal(run(n, 1, (int64_t[]){1, 1, rows, 80}, &first, NULL), STENO_OK);
    p = steno_session_get(s, 0);
    q = steno_session_get(first, 0);
    assert_true(steno_shape_equal(&p->shape, &q->shape) && steno_numel(p));
    assert_memory_equal(p->data, q->data, steno_numel(p) * sizeof(float));
    steno_session_close(first);
}

/* A row tile and the values after it are never alive together: from the second run on, scratch
 * lies in the arena. */
static void scratch_and_activations_share_memory(void **state)
{
    static const int64_t rows[] = {44, 30, 44, 100, 30, 44, 100};
    struct mk_graph *m = mk_new(17);
    size_t size, first;
    uint8_t *file;
    steno_network *n;
    steno_session *s = NULL;
    (void)state;
    mk_input(m, "x", STENO_F32, "b,1,t,f");
    add_conv(m, &pairs[6].conv[0], 1, 0);
    add_conv(m, &pairs[6].conv[1], pairs[6].conv[0].out, 1);
    pc_graph(m, "Concat y,y,y,y,y,y wide axis=1; Exp wide exp; ReduceMax exp z axes=[1]; -> z");
    file = mk_bytes(m, &size);
    mk_free(m);
    n = open_with(file, size, STENO_FP32, NULL, NULL);
    assert_int_equal(pc_count(n, "ConvRowTiles"), 1);
    assert_int_equal(run(n, 1, (int64_t[]){1, 1, 44, 80}, &s, NULL), STENO_OK);
    first = steno_session_arena_bytes(s);
    check_run(s, n, 44);
    assert_in_range(steno_session_arena_bytes(s), 1, first * 4 / 5);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_run(s, n, rows[i]);
    steno_session_trim(s, false);
    check_run(s, n, 44);
    steno_session_close(s);
    steno_network_close(n);
    free(file);
}

static void too_few_rows_are_refused(void **state)
{
    static const int64_t short_of_one[4] = {1, 1, 6, 9}, short_of_two[4] = {1, 1, 2, 9};
    struct mk_graph *m = pair_graph(&pairs[0]);
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    steno_network *n = open_with(file, size, STENO_FP32, NULL, NULL);
    steno_session *s = NULL;
    steno_err err = {0};
    (void)state;
    mk_free(m);
    assert_int_equal(run(n, 1, short_of_one, &s, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "does not fit an axis of 2 "));
    steno_session_close(s);
    assert_int_equal(run(n, 1, short_of_two, &s, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "does not fit an axis of 2 "));
    steno_session_close(s);
    steno_network_close(n);
    free(file);
}

static int pairs_found(struct mk_graph *m)
{
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    steno_network *n = open_with(file, size, STENO_FP32, NULL, NULL);
    const int found = pc_count(n, "ConvRowTiles");
    assert_true(found || pc_count(n, "ConvNhwc") >= 2);
    steno_network_close(n);
    mk_free(m);
    free(file);
    return found;
}

static void a_first_result_that_others_read_stays(void **state)
{
    struct mk_graph *m = pair_graph(&pairs[0]);
    (void)state;
    pc_graph(m, "Exp middle z; -> z");
    assert_int_equal(pairs_found(m), 0);
    m = pair_graph(&pairs[0]);
    mk_output(m, "middle", STENO_F32, NULL);
    assert_int_equal(pairs_found(m), 0);
}

/* Near misses: a sum between the two convolutions, and padding that depends on the extents. */
static void other_pairs_stay(void **state)
{
    static const char *const texts[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct mk_graph *m = mk_new(17);
        mk_input(m, "x", STENO_F32, "b,4,t,f");
        mk_f32(m, "w0", "4,4,3,3", w_data, 144);
        mk_f32(m, "w1", "4,4,3,3", w_data + 9, 144);
        mk_node(m, "Conv", "x,w0", "c");
        if (!i)
            mk_node(m, "Conv", "x,w1", "d");
        if (!i)
            mk_node(m, "Add", "c,d", "s");
        mk_node(m, "Conv", i ? "c,w1" : "s,w1", "y");
        mk_attr_str(m, "auto_pad", texts[i]);
        mk_output(m, "y", STENO_F32, NULL);
        assert_int_equal(pairs_found(m), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_tiles_give_the_same_bits),
        cmocka_unit_test(row_tiles_in_16_and_8_bits),
        cmocka_unit_test(row_tiles_at_lower_cpu_levels),
        cmocka_unit_test(the_arena_is_without_the_first_result),
        cmocka_unit_test(scratch_and_activations_share_memory),
        cmocka_unit_test(too_few_rows_are_refused),
        cmocka_unit_test(a_first_result_that_others_read_stays),
        cmocka_unit_test(other_pairs_stay),
    };
    fill();
    return cmocka_run_group_tests_name("pass_rowtile", tests, NULL, NULL);
}
