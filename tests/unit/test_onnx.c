#include "nn/onnx/load.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static steno_status parse(struct mk_graph *m, struct steno_graph **g, steno_err *err)
{
    size_t n;
    uint8_t *p = mk_bytes(m, &n);
    steno_status st = steno_onnx_parse(g, p, n, NULL, NULL, NULL, err);
    free(p);
    mk_free(m);
    return st;
}

static steno_status borrow(const uint8_t *p, size_t n, struct steno_graph **g, steno_err *err)
{
    struct steno_onnx_options opt = {.borrow_from = 1};
    return steno_onnx_parse(g, p, n, NULL, &opt, NULL, err);
}

/* The model must be refused with this status and a message that contains `what`. */
static void refused(struct mk_graph *m, steno_status want, const char *what)
{
    struct steno_graph *g = NULL;
    steno_err err = {0};
    assert_int_equal(parse(m, &g, &err), want);
    assert_null(g);
    if (!strstr(err.msg, what))
        fail_msg("'%s' is not in '%s'", what, err.msg);
}

static struct steno_graph *accepted(struct mk_graph *m)
{
    struct steno_graph *g = NULL;
    steno_err err = {0};
    if (parse(m, &g, &err))
        fail_msg("%s", err.msg);
    return g;
}

static struct mk_graph *small(void)
{
    static const float w[6] = {1, 2, 3, 4, 5, 6};
    struct mk_graph *m = mk_new(17);
    mk_input(m, "x", STENO_F32, "n,3");
    mk_f32(m, "w", "3,2", w, 6);
    pc_graph(m, "MatMul x,w h; Relu h y");
    mk_output(m, "y", STENO_F32, "n,2");
    return m;
}

static void a_small_model_keeps_names_types_and_symbols(void **state)
{
    struct steno_graph *g = accepted(small());
    const struct steno_value *x = &g->values[g->inputs[0]], *y = &g->values[g->outputs[0]];
    (void)state;
    assert_int_equal(g->n_inputs, 1);
    assert_string_equal(x->name, "x");
    assert_int_equal(x->dtype, STENO_F32);
    assert_int_equal(x->shape.rank, 2);
    assert_true(x->shape.dim[0] <= -2);
    assert_string_equal(g->symbols[-x->shape.dim[0] - 2].name, "n");
    assert_int_equal(x->shape.dim[1], 3);
    assert_string_equal(y->name, "y");
    assert_int_equal(g->n_nodes, 2);
    assert_string_equal(g->nodes[0].op_type, "MatMul");
    assert_int_equal(g->nodes[0].opset, 17);
    assert_float_equal(((const float *)g->values[g->nodes[0].in[1]].constant->data)[5], 6, 0);
    steno_graph_free(g);
}

static void nodes_in_any_order_are_sorted(void **state)
{
    struct mk_graph *m = mk_new(13);
    struct steno_graph *g;
    (void)state;
    mk_input(m, "x", STENO_F32, "2");
    pc_graph(m, "Neg b y; Exp a b; Abs x a");
    mk_output(m, "y", STENO_F32, "2");
    g = accepted(m);
    assert_string_equal(g->nodes[0].op_type, "Abs");
    assert_string_equal(g->nodes[2].op_type, "Neg");
    steno_graph_free(g);
}

static void initializers_among_the_inputs_are_constants(void **state)
{
    static const float w[1] = {4};
    struct mk_graph *m = mk_new(9);
    struct steno_graph *g;
    (void)state;
    mk_message(m)->ir_version = 3;
    mk_input(m, "w", STENO_F32, "1");
    mk_input(m, "x", STENO_F32, "1");
    mk_f32(m, "w", "1", w, 1);
    mk_node(m, "Add", "x,w", "y");
    mk_output(m, "y", STENO_F32, "1");
    g = accepted(m);
    assert_int_equal(g->n_inputs, 1);
    assert_string_equal(g->values[g->inputs[0]].name, "x");
    steno_graph_free(g);
}

static void constant_nodes_become_values(void **state)
{
    struct mk_graph *m = mk_new(13);
    struct steno_graph *g;
    int64_t ints[3] = {4, -5, 6};
    const struct steno_tensor *t;
    (void)state;
    mk_node(m, "Constant", "", "c");
    mk_attr_ints(m, "value_ints", ints, 3);
    mk_node(m, "Constant", "", "f");
    mk_attr_float(m, "value_float", 1.5f);
    mk_output(m, "c", STENO_I64, "3");
    mk_output(m, "f", STENO_F32, "");
    g = accepted(m);
    assert_int_equal(g->n_nodes, 0);
    t = g->values[g->outputs[0]].constant;
    assert_int_equal(t->dtype, STENO_I64);
    assert_memory_equal(t->data, ints, sizeof ints);
    t = g->values[g->outputs[1]].constant;
    assert_int_equal(t->shape.rank, 0);
    assert_float_equal(*(const float *)t->data, 1.5f, 0);
    steno_graph_free(g);
}

/* Every element type from its typed field: int32_data holds the small ones (onnx.proto,
 * TensorProto). */
static void typed_fields_of_every_element_type(void **state)
{
    static const steno_dtype types[] = {STENO_U8,  STENO_I8,   STENO_U16,  STENO_I16, STENO_I32,
                                        STENO_F16, STENO_BF16, STENO_BOOL, STENO_U32, STENO_U64};
    static int32_t ints[2] = {1, 200};
    static uint64_t longs[2] = {1, 200};
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct mk_graph *m = mk_new(13);
        Onnx__Tensor *t = mk_tensor(m, "c", types[i], "2");
        struct steno_graph *g;
        const void *d;
        uint64_t got = 0, want = types[i] == STENO_BOOL ? 1 : types[i] == STENO_I8 ? 0xc8 : 200;
        size_t size = steno_dtype_size(types[i]);
        if (types[i] == STENO_U32 || types[i] == STENO_U64) {
            t->uint64_data = longs;
            t->n_uint64_data = 2;
        } else {
            t->int32_data = ints;
            t->n_int32_data = 2;
        }
        mk_output(m, "c", types[i], "2");
        g = accepted(m);
        d = g->values[g->outputs[0]].constant->data;
        memcpy(&got, (const char *)d + size, size); /* little-endian */
        assert_int_equal(got, want);
        steno_graph_free(g);
    }
}

static void tensors_whose_data_does_not_fit_their_shape(void **state)
{
    static const float w[3] = {1, 2, 3};
    static float f[5];
    struct mk_graph *m = mk_new(13);
    Onnx__Tensor *t;
    (void)state;
    mk_f32(m, "short", "2,2", w, 3);
    refused(m, STENO_ERR_FORMAT, "'short'");
    m = mk_new(13);
    mk_f32(m, "long", "2", w, 3);
    refused(m, STENO_ERR_FORMAT, "'long'");
    m = mk_new(13);
    t = mk_tensor(m, "typed", STENO_F32, "4");
    t->float_data = f;
    t->n_float_data = 5;
    refused(m, STENO_ERR_FORMAT, "'typed'");
    m = mk_new(13);
    mk_tensor(m, "nothing", STENO_F32, "1000000,1000000");
    refused(m, STENO_ERR_LIMIT, "'nothing'");
    m = mk_new(13);
    mk_tensor(m, "wide", STENO_I64, "4611686018427387904,16");
    refused(m, STENO_ERR_LIMIT, "'wide'");
    m = mk_new(13);
    mk_tensor(m, "much", STENO_F32, "1000000");
    refused(m, STENO_ERR_FORMAT, "'much'");
    m = mk_new(13);
    mk_tensor(m, "negative", STENO_F32, "-4");
    refused(m, STENO_ERR_FORMAT, "'negative'");
    m = mk_new(13);
    mk_tensor(m, "deep", STENO_F32, "1,1,1,1,1,1,1,1,1,1,1");
    refused(m, STENO_ERR_LIMIT, "rank 11");
    m = mk_new(13);
    mk_tensor(m, "odd", (steno_dtype)17, "1");
    refused(m, STENO_ERR_UNSUPPORTED, "'odd'");
    m = mk_new(13);
    mk_tensor(m, "text", STENO_STRING, "1");
    refused(m, STENO_ERR_UNSUPPORTED, "string");
}

static void empty_tensors_are_fine(void **state)
{
    struct mk_graph *m = mk_new(13);
    struct steno_graph *g;
    (void)state;
    mk_tensor(m, "none", STENO_F32, "0,5");
    mk_output(m, "none", STENO_F32, NULL);
    g = accepted(m);
    assert_int_equal(g->values[g->outputs[0]].shape.dim[1], 5);
    steno_graph_free(g);
}

static void broken_graphs_are_named(void **state)
{
    struct mk_graph *m;
    (void)state;
    m = small();
    mk_node(m, "Relu", "ghost", "z");
    refused(m, STENO_ERR_FORMAT, "'ghost'");
    m = small();
    mk_node(m, "Relu", "x", "h");
    refused(m, STENO_ERR_FORMAT, "'h' is written twice");
    m = small();
    mk_input(m, "", STENO_F32, "1");
    refused(m, STENO_ERR_FORMAT, "without a name");
    m = small();
    mk_f32(m, "", "1", (const float[]){1}, 1);
    refused(m, STENO_ERR_FORMAT, "without a name");
    m = small();
    mk_node(m, "Relu", "q", "p")->name = (char[]){"loop_a"};
    mk_node(m, "Relu", "p", "q");
    refused(m, STENO_ERR_FORMAT, "cycle");
    m = small();
    mk_output(m, "nowhere", STENO_F32, "1");
    refused(m, STENO_ERR_FORMAT, "'nowhere'");
    m = small();
    mk_node(m, "com.example:Thing", "x", "t");
    refused(m, STENO_ERR_FORMAT, "com.example");
    m = mk_new(13);
    mk_message(m)->graph = NULL;
    refused(m, STENO_ERR_FORMAT, "no graph");
}

static void bodies_capture_from_outside(void **state)
{
    struct mk_graph *m = mk_new(16), *then = mk_body(m), *other = mk_body(m), *deep = mk_body(m);
    struct steno_graph *g, *b;
    const struct steno_attr *a;
    (void)state;
    mk_input(m, "c", STENO_BOOL, "");
    mk_input(m, "x", STENO_F32, "2");
    mk_node(deep, "Exp", "x", "dy"); /* two levels up */
    mk_output(deep, "dy", STENO_F32, "2");
    mk_if(then, "c", "ty", deep, deep);
    mk_output(then, "ty", STENO_F32, "2");
    mk_node(other, "Neg", "x", "ey");
    mk_output(other, "ey", STENO_F32, "2");
    mk_if(m, "c", "y", then, other);
    mk_output(m, "y", STENO_F32, "2");
    g = accepted(m);
    a = steno_node_attr(&g->nodes[0], "else_branch");
    b = a->g;
    assert_string_equal(b->values[b->nodes[0].in[0]].name, "x");
    assert_int_equal(b->values[b->nodes[0].in[0]].captured_from, g->inputs[1]);
    b = steno_node_attr(&g->nodes[0], "then_branch")->g;
    assert_int_equal(b->depth, 1);
    assert_int_equal(steno_graph_count_nodes(g), 5);
    steno_graph_free(g);
}

static void bodies_within_bodies_have_a_limit(void **state)
{
    struct mk_graph *m = mk_new(16), *inner = mk_body(m);
    (void)state;
    mk_input(m, "c", STENO_BOOL, "");
    mk_node(inner, "Not", "c", "o");
    mk_output(inner, "o", STENO_BOOL, "");
    for (int i = 0; i < STENO_MAX_GRAPH_DEPTH + 2; i++) {
        struct mk_graph *b = mk_body(m);
        mk_node(b, "If", "c", "o");
        mk_attr_graph(b, "then_branch", inner);
        mk_output(b, "o", STENO_BOOL, "");
        inner = b;
    }
    mk_node(m, "If", "c", "y");
    mk_attr_graph(m, "then_branch", inner);
    mk_output(m, "y", STENO_BOOL, "");
    refused(m, STENO_ERR_LIMIT, "body graphs");
}

/* Millions of nested messages of a few bytes each must not overflow the stack. */
static void nested_bytes_are_refused_before_they_recurse(void **state)
{
    enum { LEVELS = 20000 };
    uint8_t *p = malloc(LEVELS * 6);
    size_t at = LEVELS * 6, n = 0;
    struct steno_graph *g;
    steno_err err = {0};
    (void)state;
    assert_non_null(p);
    for (int i = LEVELS; i-- > 0;) {
        /* graph(7) { node(1) { attribute(5) { g(6) { node(1) ... */
        static const uint8_t keys[] = {7 << 3 | 2, 1 << 3 | 2, 5 << 3 | 2, 6 << 3 | 2};
        size_t len = n;
        uint8_t var[6];
        int k = 0;
        do {
            var[k++] = (uint8_t)((len & 0x7f) | (len > 0x7f ? 0x80 : 0));
            len >>= 7;
        } while (len);
        at -= (size_t)k + 1;
        p[at] = i == 0 ? keys[0] : keys[1 + (i - 1) % 3];
        memcpy(p + at + 1, var, (size_t)k);
        n += (size_t)k + 1;
    }
    assert_int_equal(steno_onnx_parse(&g, p + at, n, NULL, NULL, NULL, &err), STENO_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "nesting"));
    free(p);
}

static void functions_are_inlined(void **state)
{
    struct mk_graph *m = mk_new(17), *f;
    struct steno_graph *g;
    Onnx__Node *n;
    (void)state;
    mk_import(m, "my", 1);
    f = mk_function(m, "my", "Twice", "a,unused", "b");
    mk_import(f, "", 13);
    mk_node(f, "Elu", "a", "t");
    mk_attr_float(f, "alpha", 0);
    n = mk_node(f, "Add", "t,t", "b");
    (void)n;
    mk_input(m, "x", STENO_F32, "2");
    pc_graph(m, "my:Twice x y1; my:Twice y1 y");
    mk_output(m, "y", STENO_F32, "2");
    g = accepted(m);
    assert_int_equal(g->n_nodes, 4);
    assert_string_equal(g->nodes[0].op_type, "Elu");
    assert_int_equal(g->nodes[0].opset, 13); /* the import of the function, not of the model */
    assert_string_equal(g->nodes[3].op_type, "Add");
    assert_int_equal(g->nodes[2].in[0], g->nodes[1].out[0]);
    assert_int_equal(g->nodes[3].out[0], g->outputs[0]);
    steno_graph_free(g);
}

static void function_attributes_come_from_the_call_or_the_default(void **state)
{
    struct mk_graph *m = mk_new(17), *f;
    struct steno_graph *g;
    Onnx__Attribute def = ONNX__ATTRIBUTE__INIT;
    Onnx__Attribute *defs[1] = {&def};
    (void)state;
    def.name = (char[]){"slope"};
    def.type = ONNX__ATTRIBUTE__KIND__FLOAT;
    def.f = 0.25f;
    mk_import(m, "my", 1);
    f = mk_function(m, "my", "Leak", "a", "b");
    mk_import(f, "", 16);
    mk_node(f, "LeakyRelu", "a", "b");
    mk_attr_float(f, "alpha", 0);
    mk_message(m)->functions[0]->attribute_proto = defs;
    mk_message(m)->functions[0]->n_attribute_proto = 1;
    mk_message(m)->functions[0]->node[0]->attribute[0]->ref_attr_name = (char[]){"slope"};
    mk_input(m, "x", STENO_F32, "2");
    pc_graph(m, "my:Leak x u; my:Leak u y slope=0.75");
    mk_output(m, "y", STENO_F32, "2");
    g = accepted(m);
    assert_float_equal(steno_node_float(&g->nodes[0], "alpha", -1), 0.25f, 0);
    assert_float_equal(steno_node_float(&g->nodes[1], "alpha", -1), 0.75f, 0);
    steno_graph_free(g);
}

static void a_function_that_calls_itself_is_refused(void **state)
{
    struct mk_graph *m = mk_new(17), *f;
    (void)state;
    mk_import(m, "my", 1);
    f = mk_function(m, "my", "Self", "a", "b");
    mk_import(f, "my", 1);
    mk_node(f, "my:Self", "a", "b");
    mk_input(m, "x", STENO_F32, "2");
    mk_node(m, "my:Self", "x", "y");
    mk_output(m, "y", STENO_F32, "2");
    refused(m, STENO_ERR_LIMIT, "Self");
}

/* Two functions that call each other; a function that calls itself in a branch of an If; 30
 * functions that each call the previous one twice, which would be 2^30 nodes. */
static void endless_functions_are_refused(void **state)
{
    struct mk_graph *m = mk_new(17), *f, *body;
    char name[2][16];
    (void)state;
    mk_import(m, "my", 1);
    for (int i = 0; i < 2; i++) {
        f = mk_function(m, "my", i ? "B" : "A", "a", "b");
        mk_import(f, "my", 1);
        mk_node(f, i ? "my:A" : "my:B", "a", "b");
    }
    mk_input(m, "x", STENO_F32, "2");
    mk_node(m, "my:A", "x", "y");
    mk_output(m, "y", STENO_F32, "2");
    refused(m, STENO_ERR_LIMIT, "nest more than");
    m = mk_new(17);
    mk_import(m, "my", 1);
    f = mk_function(m, "my", "A", "a,c", "b");
    mk_import(f, "my", 1);
    mk_import(f, "", 17);
    body = mk_body(f);
    mk_node(body, "my:A", "a,c", "z");
    mk_output(body, "z", STENO_F32, "2");
    mk_if(f, "c", "b", body, body);
    mk_input(m, "x", STENO_F32, "2");
    mk_input(m, "c", STENO_BOOL, "");
    mk_node(m, "my:A", "x,c", "y");
    mk_output(m, "y", STENO_F32, "2");
    refused(m, STENO_ERR_LIMIT, "deep"); /* the reason stays although the path to it is long */
    m = mk_new(17);
    mk_import(m, "my", 1);
    for (int i = 0; i < 30; i++) {
        snprintf(name[0], sizeof name[0], "F%d", i);
        snprintf(name[1], sizeof name[1], "my:F%d", i - 1);
        f = mk_function(m, "my", name[0], "a", "b");
        mk_import(f, "my", 1);
        mk_import(f, "", 17);
        mk_node(f, i ? name[1] : "Relu", "a", "t");
        mk_node(f, i ? name[1] : "Relu", "t", "b");
    }
    mk_input(m, "x", STENO_F32, "2");
    mk_node(m, "my:F29", "x", "y");
    mk_output(m, "y", STENO_F32, "2");
    refused(m, STENO_ERR_LIMIT, "1000000 nodes");
}

static void a_function_that_never_writes_its_output_is_refused(void **state)
{
    struct mk_graph *m = mk_new(17), *f;
    (void)state;
    mk_import(m, "my", 1);
    f = mk_function(m, "my", "Mute", "a", "b");
    mk_import(f, "", 13);
    mk_node(f, "Relu", "a", "t");
    mk_input(m, "x", STENO_F32, "2");
    mk_node(m, "my:Mute", "x", "y");
    mk_output(m, "y", STENO_F32, "2");
    refused(m, STENO_ERR_FORMAT, "in function Mute: nothing writes output 'b'");
}

static void functions_that_double_30_times_hit_the_node_limit(void **state)
{
    struct mk_graph *m = mk_new(17);
    char name[8], next[16];
    (void)state;
    mk_import(m, "my", 1);
    for (int i = 0; i < 30; i++) {
        struct mk_graph *f;
        snprintf(name, sizeof name, "F%d", i);
        snprintf(next, sizeof next, "my:F%d", i + 1);
        f = mk_function(m, "my", name, "a", "b");
        mk_import(f, "my", 1);
        mk_import(f, "", 13);
        mk_node(f, i < 29 ? next : "Neg", "a", "t");
        mk_node(f, i < 29 ? next : "Neg", "t", "b");
    }
    mk_input(m, "x", STENO_F32, "2");
    mk_node(m, "my:F0", "x", "y");
    mk_output(m, "y", STENO_F32, "2");
    refused(m, STENO_ERR_LIMIT, "nodes");
}

/* ---- external data ---- */

static void external(Onnx__Tensor *t, Onnx__StringStringEntry *e, const char *const *kv)
{
    static Onnx__StringStringEntry *list[3];
    for (int i = 0; i < 3; i++) {
        onnx__string_string_entry__init(&e[i]);
        memcpy(&e[i].key, &kv[2 * i], sizeof e[i].key);
        memcpy(&e[i].value, &kv[2 * i + 1], sizeof e[i].value);
        list[i] = &e[i];
    }
    t->external_data = list;
    t->n_external_data = 3;
    t->data_location = ONNX__TENSOR__DATA_LOCATION__EXTERNAL;
}

static steno_status load_external(const char *location, const char *offset, const char *length,
                                  float *first, steno_err *err)
{
    static const float data[4] = {1, 2, 3, 4};
    const char *kv[] = {"location", location, "offset", offset, "length", length};
    Onnx__StringStringEntry e[3];
    struct mk_graph *m = mk_new(17);
    struct steno_graph *g = NULL;
    char *path, bin[128];
    FILE *f;
    steno_status st;
    external(mk_tensor(m, "w", STENO_F32, "2"), e, kv);
    mk_output(m, "w", STENO_F32, "2");
    path = mk_file(m);
    snprintf(bin, sizeof bin, "%.*s/w.bin", (int)(strrchr(path, '/') - path), path);
    f = fopen(bin, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, sizeof data, 1, f), 1);
    fclose(f);
    st = steno_onnx_load(&g, path, NULL, NULL, err);
    if (!st)
        *first = *(const float *)g->values[g->outputs[0]].constant->data;
    steno_graph_free(g);
    unlink(bin);
    mk_unlink(path);
    mk_free(m);
    return st;
}

static void external_data_is_read_at_its_offset(void **state)
{
    float first = 0;
    (void)state;
    assert_int_equal(load_external("w.bin", "8", "8", &first, NULL), STENO_OK);
    assert_float_equal(first, 3, 0);
    assert_int_equal(load_external("./w.bin", "0", "8", &first, NULL), STENO_OK);
    assert_float_equal(first, 1, 0);
}

static void external_data_outside_the_folder_or_file_is_refused(void **state)
{
    static const struct {
        const char *location, *offset, *length;
        steno_status st;
    } cases[] = {
        {"/etc/passwd", "0", "8", STENO_ERR_FORMAT},
        {"../w.bin", "0", "8", STENO_ERR_FORMAT},
        {"a/../../w.bin", "0", "8", STENO_ERR_FORMAT},
        {"..", "0", "8", STENO_ERR_FORMAT},
        {"", "0", "8", STENO_ERR_FORMAT},
        {".", "0", "8", STENO_ERR_FORMAT},
        {"absent.bin", "0", "8", STENO_ERR_IO},
        {"w.bin", "12", "8", STENO_ERR_FORMAT},
        {"w.bin", "-4", "8", STENO_ERR_FORMAT},
        {"w.bin", "9223372036854775800", "8", STENO_ERR_FORMAT},
        {"w.bin", "zero", "8", STENO_ERR_FORMAT},
        {"w.bin", "0", "4", STENO_ERR_FORMAT},
    };
    float first;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        steno_err err = {0};
        assert_int_equal(
            load_external(cases[i].location, cases[i].offset, cases[i].length, &first, &err),
            cases[i].st);
        assert_true(err.msg[0] != '\0');
    }
}

static void a_link_out_of_the_folder_is_refused(void **state)
{
    const char *kv[] = {"location", "link.bin", "offset", "0", "length", "8"};
    Onnx__StringStringEntry e[3];
    struct mk_graph *m = mk_new(17);
    struct steno_graph *g = NULL;
    char *path, link[128];
    steno_err err = {0};
    (void)state;
    external(mk_tensor(m, "w", STENO_F32, "2"), e, kv);
    path = mk_file(m);
    snprintf(link, sizeof link, "%.*s/link.bin", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(symlink("/etc/hostname", link), 0);
    assert_int_equal(steno_onnx_load(&g, path, NULL, NULL, &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "link"));
    unlink(link);
    mk_unlink(path);
    mk_free(m);
}

static void external_data_without_a_file_is_refused(void **state)
{
    const char *kv[] = {"location", "w.bin", "offset", "0", "length", "8"};
    Onnx__StringStringEntry e[3];
    struct mk_graph *m = mk_new(17);
    (void)state;
    external(mk_tensor(m, "w", STENO_F32, "2"), e, kv);
    refused(m, STENO_ERR_UNSUPPORTED, "w.bin");
}

/* ---- files ---- */

static void every_truncation_is_an_error_or_a_smaller_model(void **state)
{
    struct mk_graph *m = small();
    size_t n;
    uint8_t *p = mk_bytes(m, &n);
    (void)state;
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *exact = malloc(cut ? cut : 1);
        struct steno_graph *g = NULL;
        steno_err err = {0};
        steno_status st;
        assert_non_null(exact);
        memcpy(exact, p, cut);
        st = cut % 2 ? borrow(exact, cut, &g, &err)
                     : steno_onnx_parse(&g, exact, cut, NULL, NULL, NULL, &err);
        /* the last fields of the file are optional, so a truncated file may still be a whole
         * model */
        assert_true(st ? !g && err.msg[0] : g != NULL);
        steno_graph_free(g);
        free(exact);
    }
    free(p);
    mk_free(m);
}

static void files_that_are_not_models_are_named(void **state)
{
    struct steno_graph *g = NULL;
    steno_err err = {0};
    (void)state;
    assert_int_equal(steno_onnx_load(&g, "/nonexistent/m.onnx", NULL, NULL, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "/nonexistent/m.onnx"));
    assert_int_equal(steno_onnx_load(&g, "/tmp", NULL, NULL, &err), STENO_ERR_IO);
    assert_int_equal(steno_onnx_load(&g, "/dev/null", NULL, NULL, &err), STENO_ERR_IO);
    assert_int_equal(steno_onnx_parse(&g, "hello, world", 12, NULL, NULL, NULL, &err),
                     STENO_ERR_FORMAT);
    assert_int_equal(steno_onnx_parse(&g, "", 0, NULL, NULL, NULL, &err), STENO_ERR_FORMAT);
    assert_null(g);
}

static void sequences_are_refused_by_name(void **state)
{
    struct mk_graph *m = small();
    Onnx__Type__SequenceKind k = ONNX__TYPE__SEQUENCE_KIND__INIT;
    (void)state;
    mk_input(m, "seq", STENO_F32, "1");
    mk_message(m)->graph->input[1]->type->value_case = ONNX__TYPE__VALUE_SEQUENCE_TYPE;
    mk_message(m)->graph->input[1]->type->sequence_type = &k;
    refused(m, STENO_ERR_UNSUPPORTED, "'seq'");
}

static void weights_over_the_limit_are_refused(void **state)
{
    struct mk_graph *m = small();
    struct steno_onnx_options opt = {.max_bytes = 23};
    struct steno_graph *g = NULL;
    steno_err err = {0};
    size_t n;
    uint8_t *p = mk_bytes(m, &n);
    (void)state;
    assert_int_equal(steno_onnx_parse(&g, p, n, NULL, &opt, NULL, &err), STENO_ERR_LIMIT);
    opt.max_bytes = 24;
    assert_int_equal(steno_onnx_parse(&g, p, n, NULL, &opt, NULL, &err), STENO_OK);
    steno_graph_free(g);
    free(p);
    mk_free(m);
}

/* ---- elements that stay in the file ---- */

static void matrices_stay_in_the_file_until_they_are_fetched(void **state)
{
    struct mk_graph *m = small();
    struct steno_graph *g = NULL;
    const struct steno_tensor *w;
    steno_err err = {0};
    size_t n;
    uint8_t *p = mk_bytes(m, &n);
    float last;
    (void)state;
    assert_int_equal(borrow(p, n, &g, &err), STENO_OK);
    w = g->values[g->nodes[0].in[1]].constant;
    assert_in_range((uintptr_t)w->data, (uintptr_t)p, (uintptr_t)p + n);
    memcpy(&last, (const char *)w->data + 20, sizeof last);
    assert_float_equal(last, 6, 0);
    assert_int_equal(steno_graph_fetch(g, g->nodes[0].in[1], &err), STENO_OK);
    assert_int_equal((uintptr_t)w->data % 64, 0);
    assert_float_equal(((const float *)w->data)[5], 6, 0);
    steno_graph_unfetch(g, g->nodes[0].in[1]);
    assert_in_range((uintptr_t)w->data, (uintptr_t)p, (uintptr_t)p + n);
    assert_int_equal(steno_graph_unmap(g, &err), STENO_OK);
    free(p);
    assert_float_equal(((const float *)w->data)[5], 6, 0);
    steno_graph_free(g);
    mk_free(m);
}

/* Only the loader itself may mark elements as a place in the file. A file with such a mark is
 * refused. */
static void a_file_cannot_point_into_itself(void **state)
{
    const uint64_t place[2] = {8, 24};
    struct mk_graph *m = small();
    Onnx__Tensor *t = mk_message(m)->graph->initializer[0];
    struct steno_graph *g = NULL;
    steno_err err = {0};
    size_t n, len = t->raw_data.len;
    uint8_t *p, *data = t->raw_data.data;
    (void)state;
    assert_int_equal(len, 24);
    memcpy(data, place, sizeof place);
    t->raw_data.len = sizeof place;
    t->data_location = (Onnx__Tensor__DataLocation)2;
    p = mk_bytes(m, &n);
    assert_int_equal(borrow(p, n, &g, &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "data_location"));
    assert_int_equal(steno_onnx_parse(&g, p, n, NULL, NULL, NULL, &err), STENO_ERR_FORMAT);
    assert_null(g);
    free(p);
    t->raw_data.len = len;
    mk_free(m);
}

static void borrowed_matrices_of_another_size_are_refused(void **state)
{
    struct mk_graph *m = small();
    Onnx__Tensor *t = mk_message(m)->graph->initializer[0];
    struct steno_graph *g = NULL;
    steno_err err = {0};
    size_t n;
    uint8_t *p;
    (void)state;
    t->raw_data.len = 20;
    p = mk_bytes(m, &n);
    assert_int_equal(borrow(p, n, &g, &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "'w': 20 bytes of data, its shape and type need 24"));
    assert_null(g);
    free(p);
    t->raw_data.len = 24;
    mk_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_stay_in_the_file_until_they_are_fetched),
        cmocka_unit_test(a_file_cannot_point_into_itself),
        cmocka_unit_test(borrowed_matrices_of_another_size_are_refused),
        cmocka_unit_test(a_small_model_keeps_names_types_and_symbols),
        cmocka_unit_test(nodes_in_any_order_are_sorted),
        cmocka_unit_test(initializers_among_the_inputs_are_constants),
        cmocka_unit_test(constant_nodes_become_values),
        cmocka_unit_test(typed_fields_of_every_element_type),
        cmocka_unit_test(tensors_whose_data_does_not_fit_their_shape),
        cmocka_unit_test(empty_tensors_are_fine),
        cmocka_unit_test(broken_graphs_are_named),
        cmocka_unit_test(bodies_capture_from_outside),
        cmocka_unit_test(bodies_within_bodies_have_a_limit),
        cmocka_unit_test(nested_bytes_are_refused_before_they_recurse),
        cmocka_unit_test(functions_are_inlined),
        cmocka_unit_test(function_attributes_come_from_the_call_or_the_default),
        cmocka_unit_test(a_function_that_calls_itself_is_refused),
        cmocka_unit_test(endless_functions_are_refused),
        cmocka_unit_test(a_function_that_never_writes_its_output_is_refused),
        cmocka_unit_test(functions_that_double_30_times_hit_the_node_limit),
        cmocka_unit_test(external_data_is_read_at_its_offset),
        cmocka_unit_test(external_data_outside_the_folder_or_file_is_refused),
        cmocka_unit_test(a_link_out_of_the_folder_is_refused),
        cmocka_unit_test(external_data_without_a_file_is_refused),
        cmocka_unit_test(every_truncation_is_an_error_or_a_smaller_model),
        cmocka_unit_test(files_that_are_not_models_are_named),
        cmocka_unit_test(sequences_are_refused_by_name),
        cmocka_unit_test(weights_over_the_limit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
