/* Products with two factors that the graph dequantizes from 8 bits, as quantizers write them.
 * They become integer products; the reference is the same graph in f32. Each spelling, and near
 * misses. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void bytes(struct mk_graph *m, const char *name, steno_dtype t, const char *dims, size_t n)
{
    static uint8_t data[512];
    Onnx__Tensor *x = mk_tensor(m, name, t, dims);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 89 % 251);
    assert_true(n <= sizeof data);
    x->raw_data.data = data;
    x->raw_data.len = n;
}

struct spelling {
    const char *weights; /* dimensions of the constant */
    int axis;            /* axis of its scales; -1: one scale */
    bool zeros;          /* has zero points */
    steno_dtype t;       /* of the weights */
    const char *rest;    /* from xd and wd to y */
    bool hits;
};

/* x [b, t, 12] or an image, quantized with one scale; the constant wq, dequantized as wd. */
static struct mk_graph *make(const char *x, const struct spelling *s)
{
    struct mk_graph *m = pc_start(17, x);
    char scales[16] = "";
    size_t n = 1, count = 1;
    int64_t dims[4];
    int rank = 0;
    for (const char *p = s->weights; *p; p += strcspn(p, ","), p += *p == ',')
        dims[rank++] = strtol(p, NULL, 10);
    for (int i = 0; i < rank; i++)
        n *= (size_t)dims[i];
    if (s->axis >= 0) {
        count = (size_t)dims[s->axis];
        snprintf(scales, sizeof scales, "%d", (int)dims[s->axis]);
    }
    bytes(m, "wq", s->t, s->weights, n);
    bytes(m, "wz", s->t, scales, count);
    mk_f32(m, "ws", scales, pc.w + 600, count);
    bytes(m, "xz", STENO_U8, "", 1);
    pc_graph(m, "xs = 0.011; zero = 0.0; bias : 10; tall : 5,1,1; QuantizeLinear x,xs,xz xq;"
                "DequantizeLinear xq,xs,xz xd");
    mk_node(m, "DequantizeLinear", s->zeros ? "wq,ws,wz" : "wq,ws", "wd");
    if (s->axis >= 0)
        mk_attr_int(m, "axis", s->axis);
    pc_graph(m, s->rest);
    return m;
}

static void try(const char *x, const struct spelling *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pc.context = s[i].rest;
        pc_check(make(x, &s[i]), "qdq", s[i].hits, -1, 1e-5f);
    }
}

static void products(void **state)
{
    static const struct spelling cases[] = {
        {"12,10", 1, false, STENO_I8, "MatMul xd,wd y; -> y", true},
        {"12,10", -1, false, STENO_I8, "MatMul xd,wd y; -> y", true},
        {"12,10", 1, true, STENO_U8, "MatMul xd,wd y; -> y", true},
        {"12,10", -1, true, STENO_U8, "MatMul xd,wd a; Add a,bias y; -> y", true},
        {"12,10", 1, false, STENO_I8,
         "MatMul xd,wd a; Relu a b; QuantizeLinear b,xs,xz q;"
         "DequantizeLinear q,xs,xz y; -> y",
         true},
        {"10,12", 0, true, STENO_I8, "Transpose wd wt perm=[1,0]; MatMul xd,wt y; -> y", true},
        {"10,12", 0, false, STENO_U8, "Transpose wd wt; MatMul xd,wt y; -> y", true},
        /* the dequantized weights have two readers */
        {"12,10", 1, false, STENO_I8,
         "MatMul xd,wd a; Exp xd e; MatMul xd,wd b; Sub a,b c; Add c,b y;"
         "-> y; -> e",
         true},
        /* scales along the summed axis, activations that are not bytes, weights on the left */
        {"12,10", 0, false, STENO_I8, "MatMul xd,wd y; -> y", false},
        {"12,10", 1, false, STENO_I8, "MatMul x,wd y; -> y", false},
        {"12,10", 1, false, STENO_I8, "Relu xd xr; MatMul xr,wd y; -> y", false},
        {"12,12", 1, false, STENO_I8, "Transpose xd xt perm=[0,2,1]; MatMul wd,xt y; -> y", false},
    };
    (void)state;
    try("b,t,12", cases, sizeof cases / sizeof cases[0]);
}

static void gemms(void **state)
{
    static const struct spelling cases[] = {
        {"12,10", 1, false, STENO_I8, "Gemm xd,wd,bias y; -> y", true},
        {"10,12", 0, true, STENO_I8, "Gemm xd,wd,bias y transB=1; -> y", true},
        {"10,12", -1, true, STENO_U8, "Gemm xd,wd y transB=1; -> y", true},
        {"12,10", 1, false, STENO_I8,
         "Transpose wd wt perm=[1,0]; Gemm xd,wt,bias y transB=1; -> y", true},
        {"12,10", 1, false, STENO_I8, "Gemm xd,wd,bias y alpha=0.5; -> y", false},
        {"12,10", 1, false, STENO_I8, "Gemm xd,wd,bias y beta=2.0; -> y", false},
        {"10,12", 1, false, STENO_I8, "Gemm xd,wd,bias y transB=1; -> y", false},
    };
    (void)state;
    try("t,12", cases, sizeof cases / sizeof cases[0]);
}

static void convolutions(void **state)
{
    static const struct spelling cases[] = {
        {"5,3,3,3", 0, false, STENO_I8, "Conv xd,wd y pads=[1,1,1,1]; -> y", true},
        {"5,3,2,3", -1, true, STENO_U8, "Conv xd,wd a strides=[2,1]; Add a,tall y; -> y", true},
        {"5,3,2,3", 0, true, STENO_U8, "Conv xd,wd y; -> y", false}, /* zero points differ */
        {"5,3,1,1", -1, true, STENO_I8, "Conv xd,wd y; -> y", true},
        {"5,3,3,3", 0, false, STENO_I8, "b5 : 5; Conv xd,wd,b5 y pads=[1,1,1,1]; -> y", true},
        {"6,1,3,3", 0, false, STENO_I8, "Conv xd,wd y group=3; -> y", false},
        {"5,3,3,3", 1, false, STENO_I8, "Conv xd,wd y; -> y", false},
    };
    (void)state;
    try("b,3,5,6", cases, sizeof cases / sizeof cases[0]);
}

/* Pass qdq does not fuse these weights; they are dequantized once, at load. */
static void others_are_folded(void **state)
{
    static const struct spelling s = {"12,10", 0, false, STENO_I8, "MatMul xd,wd y; -> y", false};
    struct mk_graph *m = make("b,t,12", &s);
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    steno_network *n = pc_open(file, size, 3, NULL, NULL);
    (void)state;
    assert_int_equal(pc_found(n, "qdq"), 0);
    assert_int_equal(steno_graph_count_nodes(steno_network_graph(n)), 3);
    steno_network_close(n);
    free(file);
    mk_free(m);
}

/* In 8 bits of ranges by row, activations that are rounded between products stay unrounded, unless
 * the rounding may stand for a Relu. */
static void activations_between_products_stay_unrounded(void **state)
{
    static const struct {
        const char *graph;
        enum steno_precision precision;
        int left; /* pairs */
    } cases[] = {
        {"QuantizeLinear x,xs,mid q; DequantizeLinear q,xs,mid d; Tanh d y; -> y",
         STENO_INT8_WEIGHTS, 0},
        {"QuantizeLinear x,xs,mid q; DequantizeLinear q,xs,mid d; Tanh d y; -> y", STENO_FP32, 1},
        {"QuantizeLinear x,xs,low q; DequantizeLinear q,xs,low d; Tanh d y; -> y",
         STENO_INT8_WEIGHTS, 1}, /* negative numbers become 0 */
        {"QuantizeLinear x,xs,high q; DequantizeLinear q,xs,high d; Tanh d y; -> y",
         STENO_INT8_WEIGHTS, 1},
        {"Softmax x s; QuantizeLinear s,xs,low q; DequantizeLinear q,xs,low d; Tanh d y; -> y",
         STENO_INT8_WEIGHTS, 0}, /* there are none */
        {"QuantizeLinear x,xs,mid q; DequantizeLinear q,zs,mid d; Tanh d y; -> y",
         STENO_INT8_WEIGHTS, 1}, /* another scale */
        {"QuantizeLinear x,xs,mid q; DequantizeLinear q,xs,low d; Tanh d y; -> y",
         STENO_INT8_WEIGHTS, 1},
    };
    static uint8_t zeros[3] = {100, 0, 255};
    static const char *const names[3] = {"mid", "low", "high"};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct steno_network_options opt = {.opt_level = 3, .precision = cases[i].precision};
        struct mk_graph *m = pc_start(17, "b,t,12");
        steno_network *n;
        uint8_t *file;
        size_t size;
        for (int k = 0; k < 3; k++) {
            Onnx__Tensor *z = mk_tensor(m, names[k], STENO_U8, "");
            z->raw_data.data = &zeros[k];
            z->raw_data.len = 1;
        }
        pc_graph(m, "xs = 0.011; zs = 0.012");
        pc_graph(m, cases[i].graph);
        file = mk_bytes(m, &size);
        pc.context = cases[i].graph;
        assert_int_equal(steno_network_open_memory(&n, file, size, "test", &opt, NULL), STENO_OK);
        assert_int_equal(pc_count(n, "QuantizeLinear"), cases[i].left);
        assert_int_equal(pc_count(n, "DequantizeLinear"), cases[i].left);
        steno_network_close(n);
        free(file);
        mk_free(m);
    }
}

/* ---- pass signs ---- */

/* The first byte of the only constant of u8 and of rank 2 in the graph as it is written, which is 0
 * in the file. */
static int written_weights(struct mk_graph *m, int level)
{
    const struct steno_network_options opt = {.opt_level = level, .rewrite_only = true};
    steno_network *n;
    steno_err err = {0};
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    int found = 0, first = -1;
    if (steno_network_open_memory(&n, file, size, "test", &opt, &err))
        fail_msg("%s", err.msg);
    for (steno_value_id v = 0; v < steno_network_graph(n)->n_values; v++) {
        const struct steno_value *x = &steno_network_graph(n)->values[v];
        if (!x->constant || !x->uses || x->constant->shape.rank < 2 || x->dtype == STENO_F32)
            continue;
        found++;
        assert_int_equal(x->dtype, STENO_U8);
        first = *(const uint8_t *)steno_constant_bytes(x->constant);
    }
    assert_int_equal(found, 1);
    steno_network_close(n);
    free(file);
    mk_free(m);
    return first;
}

static void written_weights_are_signed_as_their_activations(void **state)
{
    static const struct {
        struct spelling s;
        int level, first;
    } cases[] = {
        {{"12,10", 1, false, STENO_I8, "MatMul xd,wd y; -> y", true}, 1, 128},
        {{"12,10", 1, true, STENO_I8, "MatMul xd,wd y; -> y", true}, 1, 128},
        {{"12,10", -1, false, STENO_I8, "MatMul xd,wd y; -> y", true}, 3, 128},
        {{"10,12", 0, false, STENO_I8, "Transpose wd wt; MatMul xd,wt y; -> y", true}, 1, 128},
        {{"10,12", 0, true, STENO_I8, "Transpose wd wt; MatMul xd,wt y; -> y", true}, 3, 128},
        {{"12,10", 1, true, STENO_U8, "MatMul xd,wd y; -> y", true}, 1, 0},
        {{"12,10", -1, false, STENO_U8, "MatMul xd,wd y; -> y", true}, 3, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(written_weights(make("t,12", &cases[i].s), cases[i].level),
                         cases[i].first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),
        cmocka_unit_test(gemms),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(others_are_folded),
        cmocka_unit_test(activations_between_products_stay_unrounded),
        cmocka_unit_test(written_weights_are_signed_as_their_activations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
