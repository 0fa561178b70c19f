/* Pass nhwc, and the activations that passes convact and linear fuse after it. Outputs equal
 * those of the graph without passes, and the remaining nodes are the expected ones. */

#include "nn/network/network.h"
#include "nn/passes/passes.h"
#include "tests/support/onnx_make.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 14 };

static float x_data[MOST], w_data[MOST];

/* Pass rowtile would fuse two convolutions into one node; here the convolutions are counted. */
static steno_network *open_with(const uint8_t *file, size_t size, int level, const char *disabled)
{
    struct steno_network_options opt = {
        .opt_level = level, .disable_passes = disabled, .borrow_from = 1};
    steno_network *n = NULL;
    steno_err err = {0};
    if (steno_network_open_memory(&n, file, size, "test", &opt, &err))
        fail_msg("%s", err.msg);
    return n;
}

static steno_session *run(steno_network *n, int batch)
{
    steno_session *s = NULL;
    steno_err err = {0};
    struct steno_tensor t = {.dtype = STENO_F32, .data = x_data};
    if (steno_session_open(&s, n, NULL, &err))
        fail_msg("%s", err.msg);
    t.shape = steno_network_input(n, 0)->shape;
    t.shape.dim[0] = batch;
    if (steno_session_set(s, 0, &t, &err) || steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(steno_session_misplans(s), 0);
    return s;
}

static void same_outputs(steno_network *a, steno_network *b, int batch)
{
    steno_session *sa = run(a, batch), *sb = run(b, batch);
    for (int i = 0; i < steno_network_n_outputs(a); i++) {
        const struct steno_tensor *p = steno_session_get(sa, i), *q = steno_session_get(sb, i);
        assert_true(p->dtype == q->dtype && steno_shape_equal(&p->shape, &q->shape));
        for (size_t k = 0; k < steno_numel(p); k++) {
            const float u = ((float *)p->data)[k], v = ((float *)q->data)[k];
            if (!(fabsf(u - v) <= 1e-5f * fmaxf(1, fabsf(u))))
                fail_msg("output %d element %zu: %g, %g", i, k, (double)u, (double)v);
        }
    }
    steno_session_close(sa);
    steno_session_close(sb);
}

/* The optimized network, after a check of its outputs against the plain one. The caller closes
 * it. */
static steno_network *optimised(struct mk_graph *m)
{
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    steno_network *plain = open_with(file, size, 0, NULL), *n = open_with(file, size, 3, "rowtile");
    steno_network *without = open_with(file, size, 3, "nhwc,rowtile");
    mk_free(m);
    for (int batch = 1; batch <= 2; batch++) {
        same_outputs(plain, n, batch);
        same_outputs(plain, without, batch);
    }
    assert_int_equal(pc_count(without, "ConvNhwc"), 0);
    steno_network_close(plain);
    steno_network_close(without);
    free(file);
    return n;
}

static struct mk_graph *start_at(int opset, const char *dims)
{
    struct mk_graph *m = mk_new(opset);
    for (int i = 0; i < MOST; i++) {
        x_data[i] = (float)(i * 37 % 29) / 12 - 1;
        w_data[i] = (float)(i * 23 % 31) / 40 - 0.3f;
    }
    mk_input(m, "x", STENO_F32, dims);
    return m;
}

static void conv(struct mk_graph *m, const char *in, const char *out, int group, int stride,
                 int pad)
{
    const int64_t strides[2] = {stride, stride}, pads[4] = {pad, pad, pad, pad};
    mk_node(m, "Conv", in, out);
    mk_attr_int(m, "group", group);
    mk_attr_ints(m, "strides", strides, 2);
    mk_attr_ints(m, "pads", pads, 4);
}

static struct mk_graph *start(const char *dims)
{
    return start_at(17, dims);
}

/* The block of MobileNetV2: 1x1, Clip, depthwise, Clip, 1x1, sum with the block's input. */
static void inverted_residual_is_three_nodes_between_transposes(void **state)
{
    static const float lo = 0, hi = 0.5f;
    struct mk_graph *m = start("b,8,6,7");
    steno_network *n;
    (void)state;
    mk_f32(m, "lo", "", &lo, 1);
    mk_f32(m, "hi", "", &hi, 1);
    mk_f32(m, "w0", "8,8,1,1", w_data, 64);
    mk_f32(m, "w1", "24,8,1,1", w_data + 3, 192);
    mk_f32(m, "b1", "24", w_data + 9, 24);
    mk_f32(m, "w2", "24,1,3,3", w_data + 5, 216);
    mk_f32(m, "b2", "24", w_data + 11, 24);
    mk_f32(m, "w3", "8,24,1,1", w_data + 7, 192);
    conv(m, "x,w0", "first", 1, 1, 0);
    conv(m, "first,w1,b1", "wide", 1, 1, 0);
    mk_node(m, "Clip", "wide,lo,hi", "wide6");
    conv(m, "wide6,w2,b2", "deep", 24, 1, 1);
    mk_node(m, "Clip", "deep,lo,hi", "deep6");
    conv(m, "deep6,w3", "narrow", 1, 1, 0);
    pc_graph(m, "Add first,narrow y; -> y");
    n = optimised(m);
    assert_int_equal(pc_count(n, "ConvNhwc"), 1);
    assert_int_equal(pc_count(n, "Linear"), 3);
    assert_int_equal(pc_count(n, "Transpose"), 2);
    assert_int_equal(steno_graph_count_nodes(steno_network_graph(n)), 6);
    steno_network_close(n);
}

/* Conv2d subsampling of ESPnet: 1 > 6 > 5 channels, stride 2, then [B, T, C * F]. */
static void subsampling_keeps_one_transpose(void **state)
{
    static const int64_t shape[3] = {0, 0, 15};
    struct mk_graph *m = start("b,1,19,15");
    steno_network *n;
    (void)state;
    mk_f32(m, "w0", "6,1,3,3", w_data, 54);
    mk_f32(m, "w1", "5,6,3,3", w_data + 5, 270);
    mk_i64(m, "shape", "3", shape, 3);
    conv(m, "x,w0", "c", 1, 2, 0);
    mk_node(m, "Relu", "c", "r");
    conv(m, "r,w1", "d", 1, 2, 0);
    pc_graph(m, "Relu d s; Transpose s t perm=[0,2,1,3]; Reshape t,shape y; -> y");
    n = optimised(m);
    assert_int_equal(pc_count(n, "ConvNhwc"), 2);
    assert_int_equal(pc_count(n, "Relu"), 0);
    assert_int_equal(pc_count(n, "Transpose"), 2); /* one of a single channel, and the merged one */
    steno_network_close(n);
}

/* Other readers of a convolution's result get it in its original layout. */
static void results_that_others_read_are_transposed_back(void **state)
{
    static const float scale[5] = {1, 2, 3, 4, 5};
    struct mk_graph *m = start("b,4,6,5");
    steno_network *n;
    (void)state;
    mk_f32(m, "w", "3,4,2,2", w_data, 48);
    mk_f32(m, "scale", "5", scale, 5);
    conv(m, "x,w", "c", 1, 1, 0);
    mk_node(m, "Relu", "c", "r");
    mk_node(m, "Softmax", "r", "y"); /* along the last axis in either layout */
    mk_attr_int(m, "axis", 3);
    pc_graph(m, "Neg c z; -> y; -> z; -> c");
    n = optimised(m);
    assert_int_equal(pc_count(n, "ConvNhwc"), 1);
    steno_network_close(n);
}

/* Grouped convolutions stay as they are. */
static void other_convolutions_are_left_alone(void **state)
{
    struct mk_graph *m = start("b,4,6,5");
    steno_network *n;
    (void)state;
    mk_f32(m, "w", "6,2,3,3", w_data, 108);
    conv(m, "x,w", "c", 2, 1, 1);
    pc_graph(m, "Sigmoid c y; -> y");
    n = optimised(m);
    assert_int_equal(pc_count(n, "ConvNhwc"), 0);
    assert_int_equal(pc_count(n, "FusedConv"), 1);
    steno_network_close(n);
}

/* Between convolutions: no Transpose but those of the graph's input and output. */
static void limits_and_slopes_stay_channels_last(void **state)
{
    static const char *const types[] = {"Max", "Min", "PRelu"};
    (void)state;
    for (size_t i = 0; i < 2 * (sizeof types / sizeof types[0]); i++) {
        struct mk_graph *m = start("b,4,6,5");
        steno_network *n;
        mk_f32(m, "w0", "6,4,3,3", w_data, 216);
        mk_f32(m, "w1", "3,6,3,3", w_data + 5, 162);
        mk_f32(m, "k", i % 2 ? "6,1,1" : "", w_data + 7, i % 2 ? 6 : 1);
        conv(m, "x,w0", "a", 1, 1, 1);
        mk_node(m, types[i / 2], "a,k", "b");
        conv(m, "b,w1", "y", 1, 1, 1);
        mk_output(m, "y", STENO_F32, NULL);
        n = optimised(m);
        assert_int_equal(pc_count(n, "ConvNhwc"), 2);
        assert_int_equal(pc_count(n, "Transpose"), 2);
        steno_network_close(n);
    }
}

/* 8-bit weights that the graph dequantizes are constants before the convolution is packed. */
static void widened_weights_fold(void **state)
{
    static int8_t small[40 * 32 * 9 * 8];
    struct mk_graph *m = start("b,32,4,4");
    Onnx__Tensor *w;
    static const float scale = 0.01f;
    steno_network *n;
    (void)state;
    for (size_t i = 0; i < sizeof small; i++)
        small[i] = (int8_t)(i * 7 % 31);
    w = mk_tensor(m, "q", STENO_I8, "320,32,3,3");
    w->raw_data.data = (uint8_t *)small;
    w->raw_data.len = sizeof small;
    mk_f32(m, "scale", "", &scale, 1);
    mk_node(m, "Cast", "q", "f");
    mk_attr_int(m, "to", STENO_F32);
    mk_node(m, "Mul", "f,scale", "w");
    conv(m, "x,w", "y", 1, 1, 1);
    mk_output(m, "y", STENO_F32, NULL);
    {
        size_t size;
        uint8_t *file = mk_bytes(m, &size);
        n = open_with(file, size, 3, "rowtile");
        mk_free(m);
        free(file);
    }
    assert_int_equal(pc_count(n, "Cast"), 0);
    assert_int_equal(pc_count(n, "Mul"), 0);
    assert_int_equal(pc_count(n, "ConvNhwc"), 1);
    steno_network_close(n);
}

/* The convolution before an activation computes the activation too: with 3x3
 * kernels at stride 2 (by Winograd's method), at stride 1, and on one channel. */
static void activations_are_done_by_the_convolution(void **state)
{
    static const char *const types[] = {"Relu",        "Sigmoid",   "Tanh",     "Gelu",
                                        "HardSwish",   "Softplus",  "Softsign", "Mish",
                                        "HardSigmoid", "LeakyRelu", "Elu"};
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct mk_graph *m = start_at(20, "b,1,11,9");
        steno_network *n;
        mk_f32(m, "w0", "6,1,3,3", w_data, 54);
        mk_f32(m, "w1", "20,6,3,3", w_data + 5, 1080);
        mk_f32(m, "w2", "3,20,3,3", w_data + 3, 540);
        conv(m, "x,w0", "a", 1, 1, 1);
        mk_node(m, types[i], "a", "b");
        conv(m, "b,w1", "c", 1, 2, 1);
        mk_node(m, types[i], "c", "d");
        conv(m, "d,w2", "e", 1, 1, 1);
        mk_node(m, types[i], "e", "y");
        mk_output(m, "y", STENO_F32, NULL);
        n = optimised(m);
        assert_int_equal(pc_count(n, "ConvNhwc"), 3);
        assert_int_equal(pc_count(n, types[i]), 0);
        steno_network_close(n);
    }
}

/* Masks of lengths between convolutions, as NeMo's subsampling has them: turned for it, and no
 * Transpose but those of the graph's input and output. */
static void masks_do_not_end_the_layout(void **state)
{
    static const char *const hide[] = {
        "Mul a,m b",
        "Mul m,a b",
        "Where k,a,half b",
        "Where k,half,a b",
        "Add a,m b",
        "Shape a s; Expand m,s e; Mul a,e b; Relu b c; Shape c v; Expand m,v f; Mul c,f b2"};
    (void)state;
    for (size_t i = 0; i < sizeof hide / sizeof *hide; i++) {
        const bool whole = strstr(hide[i], "b2") != NULL;
        struct mk_graph *m = start("b,4,6,5");
        steno_network *n;
        mk_f32(m, "w0", "6,4,3,3", w_data, 216);
        mk_f32(m, "w1", "3,6,3,3", w_data + 5, 162);
        pc_graph(m, "half = 0.5; zero = 0.0; c0 = [0]; c1 = [1]; ax = [1];"
                    "Slice x,c0,c1,ax u; Greater u,zero k; Cast k m to=1");
        conv(m, "x,w0", "a", 1, 1, 1);
        pc_graph(m, hide[i]);
        conv(m, whole ? "b2,w1" : "b,w1", "y", 1, 1, 1);
        mk_output(m, "y", STENO_F32, NULL);
        n = optimised(m);
        assert_int_equal(pc_count(n, "ConvNhwc"), 2);
        assert_int_equal(pc_count(n, "Transpose"), 3); /* and the mask's */
        assert_int_equal(pc_count(n, "Expand"), 0);
        if (whole)
            assert_int_equal(pc_count(n, "Mul"), 1);
        steno_network_close(n);
    }
}

static void pool(struct mk_graph *m, const char *type, const char *in, const char *out, int kernel,
                 int stride, int pad)
{
    const int64_t kernels[2] = {kernel, kernel}, strides[2] = {stride, stride};
    const int64_t pads[4] = {pad, pad, 0, pad};
    mk_node(m, type, in, out);
    mk_attr_ints(m, "kernel_shape", kernels, 2);
    mk_attr_ints(m, "strides", strides, 2);
    mk_attr_ints(m, "pads", pads, 4);
}

/* Squeeze and excitation (MobileNetV3), pools, factors by channel, and a Concat of channels stay
 * channels last: a Transpose at each end and none between. */
static void blocks_of_image_networks_stay_channels_last(void **state)
{
    static const float scales[4] = {1, 1, 2, 1.5f};
    struct mk_graph *m = start("b,3,11,14");
    steno_network *n;
    (void)state;
    mk_f32(m, "w0", "8,3,3,3", w_data, 216);
    mk_f32(m, "w1", "4,8,1,1", w_data + 3, 32);
    mk_f32(m, "w2", "8,4,1,1", w_data + 5, 32);
    mk_f32(m, "w3", "5,16,3,3", w_data + 7, 720);
    mk_f32(m, "factors", "8,1,1", w_data + 9, 8);
    mk_f32(m, "shifts", "1,8,1,1", w_data + 11, 8);
    conv(m, "x,w0", "a", 1, 1, 1);
    mk_node(m, "Relu", "a", "relu");
    pool(m, "MaxPool", "relu", "p", 3, 2, 1);
    mk_node(m, "GlobalAveragePool", "p", "mean");
    conv(m, "mean,w1", "se1", 1, 1, 0);
    conv(m, "se1,w2", "se2", 1, 1, 0);
    pc_graph(m, "Sigmoid se2 gate; Mul p,gate gated; Mul gated,factors scaled; "
                "Add shifts,scaled moved");
    pool(m, "AveragePool", "moved", "even", 3, 1, 1);
    mk_attr_int(m, "count_include_pad", 1);
    pool(m, "AveragePool", "moved", "uneven", 3, 1, 1);
    mk_node(m, "Concat", "even,uneven", "both");
    mk_attr_int(m, "axis", 1);
    mk_f32(m, "scales", "4", scales, 4);
    mk_node(m, "Resize", "both,,scales", "large"); /* nearest */
    conv(m, "large,w3", "c", 1, 1, 1);
    pc_graph(m, "GlobalMaxPool c most; Add c,most y; -> y");
    n = optimised(m);
    assert_int_equal(pc_count(n, "PoolNhwc"), 3);
    assert_int_equal(pc_count(n, "ReduceMean"), 1);
    assert_int_equal(pc_count(n, "ReduceMax"), 1);
    assert_int_equal(pc_count(n, "Transpose"), 2);
    steno_network_close(n);
}

/* Extents that the file gives as "?" are any, not the same one; as -1 they are any too, but one
 * from node to node. */
static void extents_without_a_name(void **state)
{
    struct mk_graph *m = start("-1,3,??,??");
    size_t size;
    uint8_t *file;
    steno_network *n;
    const struct steno_shape *s;
    static const float statistics[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    (void)state;
    mk_f32(m, "w0", "8,3,3,3", w_data, 216);
    conv(m, "x,w0", "a", 1, 1, 1);
    for (int i = 0; i < 4; i++)
        mk_f32(m, (const char *[]){"s", "t", "u", "v"}[i], "8", statistics, 8);
    pc_graph(m, "BatchNormalization a,s,t,u,v y; -> y");
    file = mk_bytes(m, &size);
    mk_free(m);
    n = open_with(file, size, 3, NULL);
    s = &steno_network_input(n, 0)->shape;
    assert_true(s->dim[0] == STENO_DIM_ANY && s->dim[2] == STENO_DIM_ANY &&
                s->dim[3] == STENO_DIM_ANY);
    assert_int_equal(pc_count(n, "BatchNormalization"), 0);
    steno_network_close(n);
    free(file);
}

/* A window of stride 1 whose padding makes up for its span has as many places as its input, which
 * what follows may rely on. */
static void a_window_keeps_an_extent(void **state)
{
    static const struct {
        const char *node;
        bool keeps;
    } rows[] = {{"Conv x,w0 y pads=[1,1,1,1]", true},
                {"Conv x,w0 y pads=[2,0,0,2]", true},
                {"Conv x,w0 y pads=[2,2,2,2] dilations=[2,2]", true},
                {"MaxPool x y kernel_shape=[3,3] pads=[1,1,1,1]", true},
                {"AveragePool x y kernel_shape=[1,1]", true},
                {"Conv x,w0 y", false},
                {"Conv x,w0 y pads=[1,1,1,1] strides=[2,2]", false},
                {"MaxPool x y kernel_shape=[3,3] pads=[1,1,1,0]", false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int level = 0; level <= 3; level += 3) {
            struct mk_graph *m = start("1,3,h,h");
            const struct steno_shape *x, *y;
            steno_network *n;
            uint8_t *file;
            size_t size;
            mk_f32(m, "w0", "8,3,3,3", w_data, 216);
            pc_graph(m, rows[i].node);
            pc_graph(m, "-> y");
            file = mk_bytes(m, &size);
            mk_free(m);
            n = open_with(file, size, level, NULL);
            x = &steno_network_input(n, 0)->shape;
            y = &steno_network_output(n, 0)->shape;
            if ((y->dim[3] == x->dim[3]) != rows[i].keeps)
                fail_msg("%s at level %d: %lld of %lld", rows[i].node, level, (long long)y->dim[3],
                         (long long)x->dim[3]);
            steno_network_close(n);
            free(file);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_image_networks_stay_channels_last),
        cmocka_unit_test(extents_without_a_name),
        cmocka_unit_test(a_window_keeps_an_extent),
        cmocka_unit_test(inverted_residual_is_three_nodes_between_transposes),
        cmocka_unit_test(subsampling_keeps_one_transpose),
        cmocka_unit_test(results_that_others_read_are_transposed_back),
        cmocka_unit_test(other_convolutions_are_left_alone),
        cmocka_unit_test(limits_and_slopes_stay_channels_last),
        cmocka_unit_test(masks_do_not_end_the_layout),
        cmocka_unit_test(widened_weights_fold),
        cmocka_unit_test(activations_are_done_by_the_convolution),
    };
    return cmocka_run_group_tests_name("pass_nhwc", tests, NULL, NULL);
}
