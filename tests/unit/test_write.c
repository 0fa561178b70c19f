/* The ONNX writer: a written file reads back as the same graph. */

#include "tools/optimize/save.h"
#include "nn/onnx/load.h"
#include "nn/ops/body.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"
#include "tests/support/write_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void serialize(steno_network *n, struct steno_buf *out, int opset)
{
    struct steno_save_options so = {.opset = opset};
    steno_err err = {0};
    steno_buf_init(out, WC_MAX_FILE);
    if (steno_network_serialize(n, &so, out, &err))
        fail_msg("%s", err.msg);
}

/* Names in bodies that hide outer names, captured outputs, constants from outside. */
static void bodies_keep_what_they_capture(void **state)
{
    struct mk_graph *m = mk_new(13), *a = mk_body(m), *b = mk_body(m);
    steno_network *one, *two;
    struct steno_buf out;
    size_t size;
    uint8_t *file;
    (void)state;
    mk_input(m, "x", STENO_F32, "2,3");
    mk_input(m, "c", STENO_BOOL, "");
    mk_f32(m, "k", "3", wc_numbers(), 3);
    mk_node(m, "Add", "x,k", "t");
    pc_graph(a, "Mul t,k inner; -> inner");
    pc_graph(b, "Identity t inner2; -> inner2");
    mk_if(m, "c", "y", a, b);
    mk_output(m, "y", STENO_F32, NULL);
    file = mk_bytes(m, &size);
    one = wc_open(file, size, 3, true);
    serialize(one, &out, 0);
    two = wc_open(out.data, out.len, 0, false);
    steno_network_close(one);
    one = wc_open(file, size, 0, false);
    wc_same(one, two, 0);
    steno_network_close(one);
    steno_network_close(two);
    steno_buf_free(&out);
    free(file);
    mk_free(m);
}

static void metadata_and_symbols_stay(void **state)
{
    struct mk_graph *m = wc_swish();
    Onnx__StringStringEntry e = ONNX__STRING_STRING_ENTRY__INIT, *list[1] = {&e};
    char key[] = "window_size", value[] = "16";
    steno_network *one, *two;
    struct steno_buf out;
    size_t size;
    uint8_t *file;
    (void)state;
    mk_input(m, "z", STENO_F32, "n,3");
    e.key = key;
    e.value = value;
    mk_message(m)->metadata_props = list;
    mk_message(m)->n_metadata_props = 1;
    file = mk_bytes(m, &size);
    mk_message(m)->n_metadata_props = 0;
    mk_message(m)->metadata_props = NULL;
    one = wc_open(file, size, 3, true);
    serialize(one, &out, 0);
    two = wc_open(out.data, out.len, 3, false);
    assert_string_equal(steno_network_meta(two, "window_size"), "16");
    assert_int_equal(steno_network_input(two, 1)->shape.dim[1], 3);
    assert_true(steno_network_input(two, 1)->shape.dim[0] < STENO_DIM_ANY);
    assert_string_equal(steno_network_graph(two)->symbols[0].name, "n");
    steno_network_close(one);
    steno_network_close(two);
    steno_buf_free(&out);
    free(file);
    mk_free(m);
}

static struct mk_graph *squeezed(int opset)
{
    static const int64_t axes[] = {1}, mean[] = {-1};
    struct mk_graph *m = mk_new(opset);
    mk_input(m, "x", STENO_F32, "2,1,6");
    mk_i64(m, "axes", "1", axes, 1);
    mk_node(m, "Squeeze", opset < 13 ? "x" : "x,axes", "a");
    if (opset < 13)
        mk_attr_ints(m, "axes", axes, 1);
    mk_node(m, "Softmax", "a", "b");
    mk_attr_int(m, "axis", opset < 13 ? 1 : -1);
    mk_node(m, "ReduceMean", opset < 18 ? "b" : "b,axes", "c");
    if (opset < 18)
        mk_attr_ints(m, "axes", mean, 1);
    mk_node(m, "Mul", "b,c", "y");
    mk_output(m, "y", STENO_F32, "2,6");
    return m;
}

/* Inference does not know the rank of y. onnx.checker demands a shape, so the file keeps the one
 * that it had. A shape that inference knows replaces the file's. */
static void outputs_keep_their_shape(void **state)
{
    struct mk_graph *m = mk_new(13);
    steno_network *one, *two;
    const struct steno_graph *g;
    struct steno_buf out;
    size_t size;
    uint8_t *file;
    (void)state;
    mk_input(m, "x", STENO_F32, "n,3");
    mk_input(m, "shape", STENO_I64, "k");
    pc_graph(m, "Reshape x,shape y; Relu x z");
    mk_output(m, "y", STENO_F32, "n,1,3");
    mk_output(m, "z", STENO_F32, "7,3");
    file = mk_bytes(m, &size);
    one = wc_open(file, size, 3, true);
    serialize(one, &out, 0);
    two = wc_open(out.data, out.len, 3, false);
    g = steno_network_graph(two);
    assert_int_equal(g->n_declared, 2);
    assert_int_equal(g->declared[0].rank, 3);
    assert_int_equal(g->declared[0].dim[0], steno_network_input(two, 0)->shape.dim[0]);
    assert_int_equal(g->declared[0].dim[1], 1);
    assert_int_equal(g->declared[0].dim[2], 3);
    assert_int_equal(g->declared[1].rank, 2);
    assert_int_equal(g->declared[1].dim[0], steno_network_input(two, 0)->shape.dim[0]);
    steno_network_close(one);
    steno_network_close(two);
    steno_buf_free(&out);
    free(file);
    mk_free(m);
}

/* STFT has rank 4 and the signal's batch, whatever else is unknown. */
static void stft_infers_its_shape(void **state)
{
    static const int64_t hop[] = {2}, length[] = {4};
    struct mk_graph *m = mk_new(17);
    const struct steno_shape *s;
    steno_network *n;
    size_t size;
    uint8_t *file;
    (void)state;
    mk_input(m, "x", STENO_F32, "n,10");
    mk_input(m, "unknown", STENO_I64, "");
    mk_i64(m, "hop", "", hop, 1);
    mk_i64(m, "length", "", length, 1);
    pc_graph(m, "STFT x,hop,,length y; STFT x,unknown,,unknown z; -> y; -> z");
    file = mk_bytes(m, &size);
    n = wc_open(file, size, 0, false);
    s = &steno_network_output(n, 0)->shape;
    assert_int_equal(s->rank, 4);
    assert_int_equal(s->dim[0], steno_network_input(n, 0)->shape.dim[0]);
    assert_int_equal(s->dim[1], 4);
    assert_int_equal(s->dim[2], 3);
    assert_int_equal(s->dim[3], 2);
    s = &steno_network_output(n, 1)->shape;
    assert_int_equal(s->rank, 4);
    assert_int_equal(s->dim[0], steno_network_input(n, 0)->shape.dim[0]);
    assert_true(s->dim[1] < 0 && s->dim[2] < 0 && s->dim[1] != s->dim[2]);
    steno_network_close(n);
    free(file);
    mk_free(m);
}

static void nodes_are_written_in_other_opsets(void **state)
{
    static const int opsets[] = {11, 12, 13, 17, 18, 21};
    (void)state;
    for (size_t i = 0; i < 6; i++)
        for (size_t k = 0; k < 6; k++) {
            struct mk_graph *m = squeezed(opsets[i]);
            steno_network *one, *two;
            struct steno_buf out;
            size_t size;
            uint8_t *file = mk_bytes(m, &size);
            one = wc_open(file, size, 0, true);
            serialize(one, &out, opsets[k]);
            two = wc_open(out.data, out.len, 0, false);
            assert_int_equal(steno_network_opset(two), opsets[k]);
            steno_network_close(one);
            one = wc_open(file, size, 0, false);
            wc_same(one, two, 0);
            steno_network_close(one);
            steno_network_close(two);
            steno_buf_free(&out);
            free(file);
            mk_free(m);
        }
}

/* Two layers of the same form, each a region: one function with two calls. */
static void regions_are_one_function_for_equal_layers(void **state)
{
    struct mk_graph *m = mk_new(13);
    struct steno_onnx_write_options wo = {.opset = 18, .body = steno_body_text};
    struct steno_graph *g = NULL;
    steno_network *plain, *written;
    struct steno_buf out;
    steno_err err = {0};
    float half = 0.5f;
    int32_t region[2];
    size_t size;
    uint8_t *file;
    (void)state;
    mk_input(m, "x", STENO_F32, "2,3,16");
    mk_f32(m, "half", "", &half, 1);
    for (int k = 0; k < 2; k++) {
        static const int64_t last = -1;
        char in[32], out_name[32], w[8];
        snprintf(w, sizeof w, "w%d", k);
        mk_f32(m, w, "16,16", wc_numbers() + 300 * k, 256);
        snprintf(in, sizeof in, k ? "y0,%s" : "x,%s", w);
        snprintf(out_name, sizeof out_name, "a%d", k);
        mk_node(m, "MatMul", in, out_name);
        snprintf(in, sizeof in, "a%d", k);
        snprintf(out_name, sizeof out_name, "m%d", k);
        mk_node(m, "ReduceMean", in, out_name);
        mk_attr_ints(m, "axes", &last, 1);
        snprintf(in, sizeof in, "a%d,m%d", k, k);
        snprintf(out_name, sizeof out_name, "s%d", k);
        mk_node(m, "Sub", in, out_name);
        snprintf(in, sizeof in, "s%d,half", k);
        snprintf(out_name, sizeof out_name, "y%d", k);
        mk_node(m, "Mul", in, out_name);
    }
    mk_output(m, "y1", STENO_F32, "2,3,16");
    file = mk_bytes(m, &size);
    assert_int_equal(steno_onnx_parse(&g, file, size, NULL, NULL, NULL, &err), STENO_OK);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(steno_graph_add_region(g, "Layer", "layer", STENO_NONE, &region[k], &err),
                         STENO_OK);
        for (int i = 0; i < 4; i++)
            g->nodes[4 * k + i].region = region[k];
    }
    assert_int_equal(steno_graph_sort(g, &err), STENO_OK);
    steno_buf_init(&out, WC_MAX_FILE);
    if (steno_onnx_serialize(g, &out, &wo, &err))
        fail_msg("%s", err.msg);
    steno_graph_free(g);
    plain = wc_open(file, size, 0, false);
    written = wc_open(out.data, out.len, 0, false);
    wc_same(plain, written, 0);
    steno_network_close(plain);
    steno_network_close(written);
    {
        Onnx__Model *model = onnx__model__unpack(NULL, out.len, (uint8_t *)out.data);
        assert_non_null(model);
        assert_int_equal(model->n_functions, 1);
        assert_string_equal(model->functions[0]->name, "Layer");
        assert_int_equal(model->functions[0]->n_input, 2); /* x and the weights */
        /* the layer's 4, half, and the axes input of opset 18 */
        assert_int_equal(model->functions[0]->n_node, 6);
        assert_int_equal(model->graph->n_node, 2);
        assert_string_equal(model->graph->node[0]->name, "layer");
        onnx__model__free_unpacked(model, NULL);
    }
    steno_buf_free(&out);
    free(file);
    mk_free(m);
}

static void forms_that_an_opset_lacks_are_named(void **state)
{
    struct steno_save_options so = {.opset = 12};
    struct mk_graph *m = mk_new(13);
    struct steno_buf out;
    steno_network *n;
    steno_err err = {0};
    size_t size;
    uint8_t *file;
    (void)state;
    mk_input(m, "x", STENO_F32, "2,1,6");
    mk_input(m, "axes", STENO_I64, "1");
    pc_graph(m, "Squeeze x,axes y; -> y");
    file = mk_bytes(m, &size);
    n = wc_open(file, size, 3, true);
    steno_buf_init(&out, WC_MAX_FILE);
    assert_int_equal(steno_network_serialize(n, &so, &out, &err), STENO_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "Squeeze"));
    assert_non_null(strstr(err.msg, "not constant"));
    so.opset = 5;
    assert_int_equal(steno_network_serialize(n, &so, &out, &err), STENO_ERR_UNSUPPORTED);
    steno_network_close(n);
    steno_buf_free(&out);
    free(file);
    mk_free(m);
}

struct told {
    int n;
    char pass[32], why[256];
};

static void tell(void *arg, const char *pass, const char *node, const char *why)
{
    struct told *t = arg;
    (void)node;
    t->n++;
    snprintf(t->pass, sizeof t->pass, "%s", pass);
    snprintf(t->why, sizeof t->why, "%s", why);
}

static void near_misses_are_reported(void **state)
{
    struct told t = {.n = 0};
    struct steno_network_options opt = {
        .opt_level = 3, .rewrite_only = true, .refused = tell, .refused_arg = &t};
    struct mk_graph *m = mk_new(13);
    steno_network *n = NULL;
    steno_err err = {0};
    float low = -1e4f, some = 0.5f;
    size_t size;
    uint8_t *file;
    (void)state;
    mk_input(m, "x", STENO_F32, "1,2,3,5");
    mk_input(m, "mask", STENO_BOOL, "1,1,1,5");
    mk_f32(m, "low", "", &low, 1);
    mk_f32(m, "some", "", &some, 1);
    pc_graph(m, "Where mask,low,x a; Softmax a b");
    mk_node(m, "Where", "mask,some,b", "y"); /* not 0 */
    mk_output(m, "y", STENO_F32, "1,2,3,5");
    file = mk_bytes(m, &size);
    if (steno_network_open_memory(&n, file, size, "test", &opt, &err))
        fail_msg("%s", err.msg);
    assert_true(t.n > 0);
    assert_string_equal(t.pass, "softmax");
    assert_non_null(strstr(t.why, "0.5"));
    steno_network_close(n);
    free(file);
    mk_free(m);
}

static void a_network_opened_for_running_is_not_written(void **state)
{
    struct mk_graph *m = wc_swish();
    struct steno_save_options so = {0};
    struct steno_buf out;
    steno_session *s = NULL;
    steno_network *n;
    steno_err err = {0};
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    (void)state;
    steno_buf_init(&out, WC_MAX_FILE);
    n = wc_open(file, size, 3, false);
    assert_int_equal(steno_network_serialize(n, &so, &out, &err), STENO_ERR_INVAL);
    steno_network_close(n);
    n = wc_open(file, size, 3, true);
    assert_int_equal(steno_session_open(&s, n, NULL, &err), STENO_ERR_INVAL);
    assert_null(s);
    steno_network_close(n);
    steno_buf_free(&out);
    free(file);
    mk_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_keep_what_they_capture),
        cmocka_unit_test(metadata_and_symbols_stay),
        cmocka_unit_test(outputs_keep_their_shape),
        cmocka_unit_test(stft_infers_its_shape),
        cmocka_unit_test(nodes_are_written_in_other_opsets),
        cmocka_unit_test(regions_are_one_function_for_equal_layers),
        cmocka_unit_test(forms_that_an_opset_lacks_are_named),
        cmocka_unit_test(near_misses_are_reported),
        cmocka_unit_test(a_network_opened_for_running_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
