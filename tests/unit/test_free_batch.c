/* Networks that were exported for one stream run for several: each stream gets the bits that it
 * gets alone. Networks that would mix streams, and operators of unknown behaviour, are refused
 * by name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "nn/network/network.h"
#include "tests/support/pass_check.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

enum { STREAMS = 3, ROWS = 4, WIDTH = 6, MAX_IO = 16 };

static float noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u; /* Numerical Recipes, 3rd ed., 7.1.1 */
    return (float)(int32_t)*seed * 0x1p-31f;
}

/* ---- one network, one stream and several ---- */

/* Inputs of all streams, [streams or 1, ...]. */
struct inputs {
    struct steno_tensor t[MAX_IO];
    bool apart[MAX_IO];
    int n;
};

static void set(steno_session *s, const struct inputs *in, int stream)
{
    steno_err err;
    for (int i = 0; i < in->n; i++) {
        struct steno_tensor t = in->t[i];
        if (in->apart[i] && stream >= 0) {
            t.shape.dim[0] = 1;
            t.data = (char *)t.data + (size_t)stream * steno_numel(&t) * steno_dtype_size(t.dtype);
        }
        if (steno_session_set(s, i, &t, &err))
            fail_msg("%s", err.msg);
    }
    if (steno_session_run(s, &err))
        fail_msg("%s", err.msg);
}

/* together: the network with a free batch. alone: the same network, or one without a free batch. */
static void same_bits(steno_network *together, steno_network *alone, const struct inputs *in)
{
    steno_session *all = NULL, *one = NULL;
    assert_int_equal(steno_session_open(&all, together, NULL, NULL), 0);
    assert_int_equal(steno_session_open(&one, alone, NULL, NULL), 0);
    set(all, in, -1);
    for (int b = 0; b < STREAMS; b++) {
        set(one, in, b);
        for (int o = 0; o < steno_network_n_outputs(alone); o++) {
            const struct steno_tensor *y = steno_session_get(one, o),
                                      *z = steno_session_get(all, o);
            size_t bytes = steno_numel(y) * steno_dtype_size(y->dtype);
            assert_int_equal(y->shape.dim[0], 1);
            assert_int_equal(z->shape.dim[0], STREAMS);
            assert_int_equal(steno_numel(z), STREAMS * steno_numel(y));
            if (memcmp(y->data, (const char *)z->data + (size_t)b * bytes, bytes) != 0)
                fail_msg("stream %d differs in output %d", b, o);
        }
    }
    steno_session_close(all);
    steno_session_close(one);
}

/* ---- graphs made by the test ---- */

static struct mk_graph *begin(void)
{
    static const float w[WIDTH * WIDTH] = {1, -2, 3, 0.5f, 7, 1, 0, 2, 1, 1, -1, 4};
    static const int64_t zero = 0, one = 1;
    struct mk_graph *m = mk_new(13);
    mk_input(m, "x", STENO_F32, "1,4,6");
    mk_f32(m, "w", "6,6", w, WIDTH * WIDTH);
    mk_i64(m, "zero", "", &zero, 1);
    mk_i64(m, "one", "1", &one, 1);
    mk_node(m, "Gather", "x,zero", "first");
    mk_attr_int(m, "axis", 1);
    return m;
}

static steno_status open_made(struct mk_graph *m, const char *inputs, steno_network **out,
                              steno_err *err)
{
    struct steno_network_options o = {.opt_level = -1, .free_batch = inputs};
    char *path = mk_file(m);
    steno_status st = steno_network_open(out, path, &o, err);
    mk_unlink(path);
    return st;
}

/* The patterns of ESPnet's block encoder: extents of 1 baked into Reshape targets, and rows
 * written at constant indices of a tensor, also of constant zeros. */
static void traced_for_one_stream(void **state)
{
    static const int64_t apart[4] = {1, 1, ROWS, WIDTH}, row[4] = {1, 1, 1, WIDTH},
                         flat[3] = {-1, ROWS, WIDTH}, thin[3] = {1, 1, WIDTH}, axis = 1;
    static const int64_t place[3] = {0, 0, 2}, place2[2] = {0, 1};
    static const float zeros[3 * WIDTH];
    static float x[STREAMS * ROWS * WIDTH];
    struct inputs in = {.n = 1, .apart = {true}};
    struct mk_graph *m = begin();
    steno_network *one = NULL, *many = NULL;
    uint32_t seed = 1;
    (void)state;
    mk_i64(m, "apart", "4", apart, 4);
    mk_i64(m, "row", "4", row, 4);
    mk_i64(m, "flat", "3", flat, 3);
    mk_i64(m, "thin", "3", thin, 3);
    mk_i64(m, "place", "1,1,1,3", place, 3);
    mk_i64(m, "place2", "1,1,2", place2, 2);
    mk_f32(m, "zeros", "1,3,6", zeros, 3 * WIDTH);
    pc_graph(m, "MatMul x,w a; Reshape a,apart b; Reshape first,row u; ScatterND b,place,u s; "
                "Reshape s,flat t; ReduceMean t mean");
    mk_attr_ints(m, "axes", &axis, 1);
    pc_graph(m, "Reshape first,thin u2; ScatterND zeros,place2,u2 z; Concat mean,t,z c axis=1; "
                "Relu c y");
    mk_output(m, "y", STENO_F32, "1,8,6");
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = noise(&seed);
    in.t[0] = (struct steno_tensor){
        .dtype = STENO_F32, .shape = {.rank = 3, .dim = {STREAMS, ROWS, WIDTH}}, .data = x};
    assert_int_equal(open_made(m, NULL, &one, NULL), 0);
    assert_int_equal(open_made(m, "x", &many, NULL), 0);
    same_bits(many, one, &in);
    same_bits(many, many, &in);
    steno_network_close(one);
    steno_network_close(many);
    mk_free(m);
}

static void refused_by_name(void **state)
{
    static const int64_t turn[3] = {1, 0, 2};
    static const struct {
        const char *type, *in, *why;
    } cases[] = {
        {"ReduceSum", "x,zeroth", "(ReduceSum): it works along the first axis"},
        {"Transpose", "x", "(Transpose): it works along the first axis"},
        {"Gather", "x,zero", "(Gather): it works along the first axis"},
        {"Concat", "x,x", "(Concat): it works along the first axis"},
        {"Concat", "x,shared", "(Concat): it joins values that all streams share"},
        {"Add", "x,first", "it works along the first axis, or its inputs have fewer axes"},
        {"MatMul", "column,first", "(MatMul): it works along the first axis"},
        {"CumSum", "x,one", "(CumSum): unknown operator"},
        {"Reshape", "x,all", "(Reshape): its output does not begin with an axis of 1"},
        {"ScatterElements", "x,places,x", "(ScatterElements): unknown operator"},
    };
    static const int64_t zeroth = 0, all = -1, places[ROWS * WIDTH];
    static const float shared[ROWS * WIDTH];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mk_graph *m = begin();
        steno_network *n = NULL;
        steno_err err = {0};
        mk_i64(m, "zeroth", "1", &zeroth, 1);
        mk_i64(m, "all", "1", &all, 1);
        mk_i64(m, "places", "1,4,6", places, ROWS * WIDTH);
        mk_f32(m, "shared", "1,4,6", shared, ROWS * WIDTH);
        mk_f32(m, "column", "4,1", shared, ROWS);
        mk_node(m, cases[i].type, cases[i].in, "y");
        if (!strcmp(cases[i].type, "Transpose"))
            mk_attr_ints(m, "perm", turn, 3);
        if (!strcmp(cases[i].type, "Gather") || !strcmp(cases[i].type, "Concat"))
            mk_attr_int(m, "axis", !strcmp(cases[i].in, "x,shared"));
        mk_output(m, "y", STENO_F32, NULL);
        assert_int_equal(open_made(m, "x", &n, &err), STENO_ERR_UNSUPPORTED);
        if (!strstr(err.msg, cases[i].why))
            fail_msg("%s: said '%s', not '%s'", cases[i].type, err.msg, cases[i].why);
        mk_free(m);
    }
}

/* x [1, ?, 6] times a number computed from its extents: from all of them, or from the second
 * one. Only the latter does not depend on the number of streams. */
static void graphs_that_read_the_number_of_streams_are_refused(void **state)
{
    static const int64_t second = 1;
    static float x[STREAMS * ROWS * WIDTH];
    struct inputs in = {.n = 1, .apart = {true}};
    (void)state;
    for (int all = 0; all < 2; all++) {
        struct mk_graph *m = mk_new(13);
        steno_network *n = NULL;
        steno_err err = {0};
        uint32_t seed = 3;
        mk_input(m, "x", STENO_F32, "1,?,6");
        mk_i64(m, "second", "", &second, 1);
        mk_node(m, "Shape", "x", "extents");
        if (all) {
            mk_node(m, "ReduceSum", "extents", "number");
            mk_attr_int(m, "keepdims", 0);
        } else {
            mk_node(m, "Gather", "extents,second", "number");
        }
        pc_graph(m, "Cast number factor to=1; Mul x,factor y");
        mk_output(m, "y", STENO_F32, "1,?,6");
        assert_int_equal(open_made(m, "x", &n, &err), all ? STENO_ERR_UNSUPPORTED : STENO_OK);
        if (all)
            assert_non_null(strstr(err.msg, "(Mul): it depends on the number of streams"));
        for (size_t i = 0; i < sizeof x / sizeof *x; i++)
            x[i] = noise(&seed);
        in.t[0] = (struct steno_tensor){
            .dtype = STENO_F32, .shape = {.rank = 3, .dim = {STREAMS, ROWS, WIDTH}}, .data = x};
        if (!all)
            same_bits(n, n, &in);
        steno_network_close(n);
        mk_free(m);
    }
}

static void wrong_inputs_are_named(void **state)
{
    static const char *const lists[] = {"y", "x,", "x,nothing", "first", "free"};
    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct mk_graph *m = begin();
        steno_network *n = NULL;
        steno_err err = {0};
        steno_status want = strcmp(lists[i], "x,") ? STENO_ERR_INVAL : STENO_OK;
        mk_input(m, "free", STENO_F32, "N,4,6");
        pc_graph(m, "Relu x y; Relu free z; -> y; -> z");
        assert_int_equal(open_made(m, lists[i], &n, &err), want);
        if (want)
            assert_non_null(strstr(err.msg, "is not an input that begins with an axis of 1"));
        steno_network_close(n);
        mk_free(m);
    }
}

/* ---- real exports ---- */

static int64_t extent(const char *name)
{
    static const struct {
        const char *name;
        int64_t n;
    } rows[] = {{"xs_pad", 64},
                {"mask", 42},
                {"buffer_before_downsampling", 8},
                {"buffer_after_downsampling", 24},
                {"pos_enc_xs", 40}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name))
            return rows[i].n;
    fail_msg("no extent for %s", name);
    return 0;
}

/* Inputs of a block after the first one. All f32 inputs but the mask differ between streams. */
static void make_inputs(const steno_network *n, struct inputs *in)
{
    uint32_t seed = 7;
    in->n = steno_network_n_inputs(n);
    assert_true(in->n <= MAX_IO);
    for (int i = 0; i < in->n; i++) {
        const struct steno_value *v = steno_network_input(n, i);
        struct steno_tensor *t = &in->t[i];
        *t = (struct steno_tensor){.dtype = v->dtype, .shape = v->shape};
        in->apart[i] = v->dtype == STENO_F32 && strcmp(v->name, "mask") != 0;
        for (int d = 0; d < v->shape.rank; d++)
            if (v->shape.dim[d] < 0)
                t->shape.dim[d] = extent(v->name);
        if (in->apart[i])
            t->shape.dim[0] = STREAMS;
        t->data = steno_aligned_alloc(steno_numel(t) * steno_dtype_size(t->dtype));
        assert_non_null(t->data);
        memset(t->data, 0, steno_numel(t) * steno_dtype_size(t->dtype));
        for (size_t k = 0; v->dtype == STENO_F32 && k < steno_numel(t); k++)
            ((float *)t->data)[k] = in->apart[i] ? noise(&seed) : 1;
    }
}

static const char own[] = "xs_pad,buffer_before_downsampling,buffer_after_downsampling,prev_addin,"
                          "pos_enc_xs,pos_enc_addin,past_encoder_ctx";

static bool compare_block(const char *rel, struct steno_network_options *o)
{
    steno_network *one = NULL, *many = NULL;
    struct inputs in = {.n = 0};
    steno_err err;
    size_t size;
    void *data = steno_test_shared(rel, &size);
    if (!data)
        return false;
    if (steno_network_open_memory(&one, data, size, rel, o, &err))
        fail_msg("%s", err.msg);
    o->free_batch = own;
    if (steno_network_open_memory(&many, data, size, rel, o, &err))
        fail_msg("%s", err.msg);
    make_inputs(one, &in);
    same_bits(many, one, &in);
    for (int i = 0; i < in.n; i++)
        steno_aligned_free(in.t[i].data);
    steno_network_close(one);
    steno_network_close(many);
    free(data);
    return true;
}

static void blocks_of_espnet(void **state)
{
    static const char *const files[] = {
        "espnet-stream-conformer-op13/full/xformer_encoder.onnx",
        "espnet-stream-conformer-op17/full/xformer_encoder.onnx",
        "espnet-stream-transformer-op13/full/xformer_encoder.onnx",
        "espnet-stream-conformer-op13/quantize/xformer_encoder_qt.onnx",
        "espnet-stream-transformer-op13/quantize/xformer_encoder_qt.onnx"};
    static const char *const levels[] = {"scalar", "avx2", NULL};
    static const enum steno_precision precisions[] = {STENO_BF16_WEIGHTS, STENO_INT8_WEIGHTS,
                                                      STENO_FP32};
    (void)state;
    for (size_t f = 0; f < sizeof files / sizeof *files; f++)
        for (size_t i = 0; i < (f < 3 ? 9 : 6); i++) { /* in f32 a quantized file keeps one range
                                                          for a whole tensor, so it is left out */
            struct steno_network_options o = {
                .opt_level = -1, .cpu = levels[i % 3], .precision = precisions[i / 3]};
            char rel[128];
            snprintf(rel, sizeof rel, "zoo/tiny/%s", files[f]);
            if (!compare_block(rel, &o))
                skip();
        }
}

static void ranges_over_all_streams_are_refused(void **state)
{
    struct steno_network_options o = {.opt_level = -1, .free_batch = own};
    static const char rel[] =
        "zoo/tiny/espnet-stream-conformer-op13/quantize/xformer_encoder_qt.onnx";
    steno_network *n = NULL;
    steno_err err;
    size_t size;
    void *data = steno_test_shared(rel, &size);
    (void)state;
    if (!data)
        skip();
    assert_int_equal(steno_network_open_memory(&n, data, size, rel, &o, &err),
                     STENO_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "(DynamicQuantizeLinear): unknown operator"));
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traced_for_one_stream),
        cmocka_unit_test(refused_by_name),
        cmocka_unit_test(graphs_that_read_the_number_of_streams_are_refused),
        cmocka_unit_test(wrong_inputs_are_named),
        cmocka_unit_test(blocks_of_espnet),
        cmocka_unit_test(ranges_over_all_streams_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
