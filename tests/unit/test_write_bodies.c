/* Fused operators in written files: they read back as one node, and their function bodies
 * compute what the kernels compute. */

#include "tools/optimize/save.h"
#include "nn/ops/body.h"
#include "nn/ops/registry.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"
#include "tests/support/write_check.h"
#include "tests/support/zipformer_text.h"

#include <stdlib.h>
#include <string.h>

/* ---- every fused operator ---- */

static void every_fused_operator_has_a_body(void **state)
{
    (void)state;
    for (const struct steno_op *op = steno_op_next(NULL); op; op = steno_op_next(op)) {
        const struct steno_body_row *r;
        if (strcmp(op->domain, "ai.steno"))
            continue;
        r = steno_body_find(op->type);
        if (!r || strcmp(r->domain, op->domain))
            fail_msg("%s: no row in nn/ops/body.c", op->type);
    }
    for (const struct steno_body_row *r = steno_body_next(NULL); r; r = steno_body_next(r)) {
        assert_non_null(steno_op_find(r->domain, r->type, r->opset));
        assert_ptr_equal(steno_body_find(r->type), r); /* types are unique */
    }
}

static struct mk_graph *linear(const char *act, bool bias, bool scale, bool residual)
{
    struct mk_graph *m = mk_new(13);
    float half = 0.5f;
    mk_input(m, "x", STENO_F32, "3,4");
    mk_f32(m, "w", "4,4", wc_numbers() + 100, 16);
    mk_f32(m, "b", "4", wc_numbers() + 200, 4);
    mk_f32(m, "half", "", &half, 1);
    mk_node(m, "MatMul", "x,w", "a");
    if (scale)
        mk_node(m, "Mul", "a,half", "s");
    if (bias)
        mk_node(m, "Add", scale ? "s,b" : "a,b", "c");
    else
        mk_node(m, "Identity", scale ? "s" : "a", "c");
    mk_node(m, act ? act : "Identity", "c", "d");
    if (residual)
        mk_node(m, "Add", "x,d", "y");
    else
        mk_node(m, "Identity", "d", "y");
    mk_output(m, "y", STENO_F32, "3,4");
    return m;
}

static void linear_with_all_that_it_takes_in(void **state)
{
    static const char *const acts[] = {NULL,       "Relu",        "Sigmoid",   "Tanh", "Softplus",
                                       "Softsign", "HardSigmoid", "LeakyRelu", "Elu"};
    (void)state;
    for (size_t a = 0; a < sizeof acts / sizeof *acts; a++)
        for (int bits = 0; bits < 8; bits++)
            wc_round_trip(linear(acts[a], bits & 1, bits & 2, bits & 4), "Linear", 13);
}

static struct mk_graph *glu(void)
{
    struct mk_graph *m = mk_new(13);
    mk_input(m, "x", STENO_F32, "n,3,8");
    pc_graph(m, "Split x a,b axis=-1; Sigmoid b s; Mul a,s y");
    mk_output(m, "y", STENO_F32, "n,3,4");
    return m;
}

/* The bodies of activations that are operators from opset 14 and 18 on use older ones. */
static void linear_with_newer_activations(void **state)
{
    static const char *const acts[] = {"HardSwish", "Mish"};
    (void)state;
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        struct mk_graph *m = mk_new(18);
        mk_input(m, "x", STENO_F32, "3,4");
        mk_f32(m, "w", "4,4", wc_numbers() + 100, 16);
        mk_node(m, "MatMul", "x,w", "a");
        mk_node(m, acts[i], "a", "y");
        mk_output(m, "y", STENO_F32, "3,4");
        wc_round_trip(m, "Linear", 18);
    }
}

static void glu_in_every_form_of_split(void **state)
{
    static const int opsets[] = {11, 13, 18, 21};
    (void)state;
    for (size_t i = 0; i < 4; i++)
        wc_round_trip(glu(), "Glu", opsets[i]);
}

/* From opset 18 on the last part may be smaller. Before 18 the lengths must be known for that,
 * whether the number of parts is given (num_outputs) or missing, which the operator's text does
 * not allow. */
static void parts_that_may_differ_have_no_form_before_18(void **state)
{
    (void)state;
    for (int said = 0; said < 4; said++)
        for (int opset = 13; opset < 20; opset++) {
            const bool known = said > 1;
            struct steno_save_options so = {.opset = opset};
            struct mk_graph *m = mk_new(18);
            steno_network *n;
            struct steno_buf out;
            steno_err err = {0};
            steno_status st;
            size_t size;
            uint8_t *file;
            mk_input(m, "x", STENO_F32, known ? "2,7" : "2,n");
            mk_node(m, "Split", "x", "a,b");
            mk_attr_int(m, "axis", 1);
            if (said % 2)
                mk_attr_int(m, "num_outputs", 2);
            mk_output(m, "a", STENO_F32, known ? "2,4" : NULL);
            mk_output(m, "b", STENO_F32, known ? "2,3" : NULL);
            file = mk_bytes(m, &size);
            n = wc_open(file, size, 0, true);
            steno_buf_init(&out, WC_MAX_FILE);
            st = steno_network_serialize(n, &so, &out, &err);
            if (st != (opset < 18 && !known ? STENO_ERR_UNSUPPORTED : STENO_OK))
                fail_msg("opset %d: %d %s", opset, (int)st, err.msg);
            assert_true(opset >= 18 || known || strstr(err.msg, "parts that may differ in size"));
            steno_buf_free(&out);
            steno_network_close(n);
            free(file);
            mk_free(m);
        }
}

static void swish_before_it_was_an_operator(void **state)
{
    (void)state;
    wc_round_trip(wc_swish(), "Swish", 13);
}

static struct mk_graph *gelu(void)
{
    struct mk_graph *m = mk_new(13);
    float root = 1.41421356f, one = 1, half = 0.5f;
    mk_input(m, "x", STENO_F32, "2,8");
    mk_f32(m, "root", "", &root, 1);
    mk_f32(m, "one", "", &one, 1);
    mk_f32(m, "half", "", &half, 1);
    pc_graph(m, "Div x,root d; Erf d e; Add e,one p; Mul x,p q; Mul q,half y");
    mk_output(m, "y", STENO_F32, "2,8");
    return m;
}

static void gelu_before_it_was_an_operator(void **state)
{
    (void)state;
    wc_round_trip(gelu(), "Gelu", 13);
}

static struct mk_graph *layernorm(void)
{
    struct mk_graph *m = mk_new(13);
    const int64_t last = -1;
    float two = 2, eps = 1e-3f;
    mk_input(m, "x", STENO_F32, "2,3,8");
    mk_f32(m, "two", "", &two, 1);
    mk_f32(m, "eps", "", &eps, 1);
    mk_f32(m, "gamma", "8", wc_numbers() + 10, 8);
    mk_f32(m, "beta", "8", wc_numbers() + 40, 8);
    mk_node(m, "ReduceMean", "x", "m");
    mk_attr_ints(m, "axes", &last, 1);
    pc_graph(m, "Sub x,m d; Pow d,two q; ReduceMean q v");
    mk_attr_ints(m, "axes", &last, 1);
    pc_graph(m, "Add v,eps w; Sqrt w r; Div d,r n; Mul n,gamma g; Add g,beta y");
    mk_output(m, "y", STENO_F32, "2,3,8");
    return m;
}

static void layernorm_before_it_was_an_operator(void **state)
{
    (void)state;
    wc_round_trip(layernorm(), "LayerNormalization", 13);
    wc_round_trip(layernorm(), "LayerNormalization", 16);
}

static struct mk_graph *masked(void)
{
    struct mk_graph *m = mk_new(13);
    float low = -1e4f, zero = 0;
    mk_input(m, "x", STENO_F32, "1,2,3,5");
    mk_input(m, "mask", STENO_BOOL, "1,1,1,5");
    mk_f32(m, "low", "", &low, 1);
    mk_f32(m, "zero", "", &zero, 1);
    pc_graph(m, "Where mask,low,x a; Softmax a b; Where mask,zero,b y");
    mk_output(m, "y", STENO_F32, "1,2,3,5");
    return m;
}

static void masked_softmax(void **state)
{
    (void)state;
    wc_round_trip(masked(), "MaskedSoftmax", 13);
    wc_round_trip(masked(), "MaskedSoftmax", 12);
}

static struct mk_graph *conv(const char *act)
{
    static const int64_t pads[] = {1, 2}, strides[] = {2};
    struct mk_graph *m = mk_new(13);
    mk_input(m, "x", STENO_F32, "1,4,9");
    mk_f32(m, "w", "6,2,3", wc_numbers() + 300, 36);
    mk_f32(m, "b", "6", wc_numbers() + 400, 6);
    mk_node(m, "Conv", "x,w,b", "c");
    mk_attr_int(m, "group", 2);
    mk_attr_ints(m, "pads", pads, 2);
    mk_attr_ints(m, "strides", strides, 1);
    mk_node(m, act, "c", "y");
    mk_output(m, "y", STENO_F32, "1,6,?");
    return m;
}

static void conv_with_activation(void **state)
{
    (void)state;
    static const char *const acts[] = {"Relu",     "Sigmoid",   "Tanh", "Softplus",
                                       "Softsign", "LeakyRelu", "Elu",  "HardSigmoid"};
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        wc_round_trip(conv(acts[i]), "FusedConv", 13);
}

static struct mk_graph *depthwise(bool bias)
{
    static const int64_t swap[] = {0, 2, 1};
    struct mk_graph *m = mk_new(13);
    mk_input(m, "x", STENO_F32, "1,9,4");
    mk_f32(m, "w", "4,1,3", wc_numbers() + 300, 12);
    mk_f32(m, "b", "4", wc_numbers() + 400, 4);
    mk_node(m, "Transpose", "x", "t");
    mk_attr_ints(m, "perm", swap, 3);
    mk_node(m, "Conv", bias ? "t,w,b" : "t,w", "c");
    mk_attr_int(m, "group", 4);
    mk_node(m, "Transpose", "c", "y");
    mk_attr_ints(m, "perm", swap, 3);
    mk_output(m, "y", STENO_F32, "1,7,4");
    return m;
}

static void depthwise_convolution(void **state)
{
    (void)state;
    wc_round_trip(depthwise(false), "DepthwiseConv1d", 13);
    wc_round_trip(depthwise(true), "DepthwiseConv1d", 13);
}

static void depthwise_convolution_with_padding(void **state)
{
    struct mk_graph *m = pc_start(13, "2,5,8");
    (void)state;
    pc_graph(m, "w5 : 8,1,5; Transpose x a perm=[0,2,1]; Conv a,w5 c group=8 pads=[2,1]; Relu c d;"
                "Transpose d y perm=[0,2,1]; -> y");
    wc_round_trip(m, "DepthwiseConv1d", 13);
}

/* With and without positions, masks of both types, heads joined and separate. */
static void attention(void **state)
{
    static const char *const graphs[] = {
        "MatMul q,k s; Div s,two e; Softmax e w; MatMul w,v o; Transpose o ot perm=[0,2,1,3];"
        "Reshape ot,wide y",
        "MatMul q,k s; Softmax s w; MatMul w,v o; Neg o y",
        "MatMul q,k s; Mul s,two e; ones : 1,2,5,5; Add e,ones f; Softmax f w; MatMul w,v o; Neg o "
        "y",
        "MatMul q,k s; Greater x5,zero m; Where m,low,s e; Softmax e f; Where m,zero,f w;"
        "MatMul w,v o; Neg o y",
    };
    (void)state;
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
        struct mk_graph *m = pc_start(13, "2,5,8");
        pc_graph(m,
                 "wq : 8,8; wk : 8,8; wv : 8,6; d4 = [0,0,2,4]; d3 = [0,0,2,3]; wide = [0,0,6];"
                 "two = 2; zero = 0; low = -1e30; u4 : 2,4; last = [2]; first = [1]; third = [3];"
                 "MatMul x,wq q2; Reshape q2,d4 q3;"
                 "MatMul x,wk k2; Reshape k2,d4 k3; Transpose k3 k perm=[0,2,3,1];"
                 "MatMul x,wv v2; Reshape v2,d3 v3; Transpose v3 v perm=[0,2,1,3]");
        if (i == 1)
            pc_graph(m, "Add q3,u4 qu; Transpose qu q perm=[0,2,1,3]");
        else
            pc_graph(m, "Transpose q3 q perm=[0,2,1,3]");
        if (i == 3)
            pc_graph(m, "at0 = [0]; at5 = [5]; Slice x,at0,at5,last x55; Unsqueeze x55,first x5");
        pc_graph(m, graphs[i]);
        pc_graph(m, "-> y");
        wc_round_trip(m, "Attention", 13);
    }
}

/* A fill that scores reach: hidden keys take weight from the keys that the row sees, and give it
 * away. Few rows and many, scores below the fill, and at its height. */
static void attention_with_a_fill_among_the_scores(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct mk_graph *m = pc_start(13, i % 2 ? "1,2,3,8" : "1,2,24,8");
        mk_input(m, "k", STENO_F32, "1,2,24,8");
        mk_input(m, "v", STENO_F32, "1,2,24,4");
        mk_input(m, "mask", STENO_BOOL, "1,1,1,24");
        pc_graph(m, i < 2 ? "big = 3000; fill = -10000" : "big = 3e6; fill = -20000");
        pc_graph(m, "zero = 0; Transpose k kt perm=[0,1,3,2]; MatMul x,kt s0; Mul s0,big s;"
                    "Where mask,fill,s e; Softmax e f; Where mask,zero,f w; MatMul w,v y; -> y");
        wc_round_trip(m, "Attention", 13);
    }
}

/* Q, K and V of several batches, any of which may be 1. */
static void attention_whose_factors_repeat(void **state)
{
    static const char *const dims[][3] = {
        {"1,2,9,8", "1,2,7,8", "3,2,7,4"},
        {"1,2,3,8", "3,2,7,8", "1,2,7,4"},
        {"3,2,9,8", "1,2,7,8", "1,2,7,4"},
        {"t,2,9,8", "1,2,7,8", "3,2,7,4"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        struct mk_graph *m = pc_start(13, dims[i][0]);
        mk_input(m, "k", STENO_F32, dims[i][1]);
        mk_input(m, "v", STENO_F32, dims[i][2]);
        pc_graph(m, "Transpose k kt perm=[0,1,3,2]; MatMul x,kt s; Softmax s w; MatMul w,v o;"
                    "Neg o y; -> y");
        wc_round_trip(m, "Attention", 13);
    }
}

/* One row of x makes the query; with and without the optional inputs. */
static void attention_of_a_step(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct mk_graph *m = pc_start(13, "2,t,8");
        pc_graph(m, "wq : 8,8; wk : 8,8; wv : 8,6; bv : 6; d4 = [0,0,2,4]; dv = [0,0,2,3];"
                    "d3 = [0,0,6]; from = [-1]; far = [9223372036854775807]; one = [1]; half = 0.5;"
                    "Slice x,from,far,one l; MatMul l,wq q2; MatMul x,wk k2; MatMul x,wv va");
        if (i)
            mk_input(m, "added", STENO_F32, "2,1,1,t");
        pc_graph(m, i ? "Add va,bv v2" : "Identity va v2");
        pc_graph(m, "Reshape q2,d4 q3; Transpose q3 q perm=[0,2,1,3]; Reshape k2,d4 k3;"
                    "Transpose k3 k perm=[0,2,3,1]; Reshape v2,dv v3;"
                    "Transpose v3 v perm=[0,2,1,3]; MatMul q,k s; Mul s,half c");
        pc_graph(m, i ? "Add c,added e; Softmax e w" : "Softmax c w");
        pc_graph(m, "MatMul w,v o; Transpose o ot perm=[0,2,1,3]; Reshape ot,d3 a; Neg a y; -> y");
        wc_round_trip(m, "AbsorbedAttention", 13);
    }
}

/* Two convolutions; the second has Clip and a residual. */
static struct mk_graph *channels_last(void)
{
    static const float lo = -0.2f, hi = 0.4f;
    struct mk_graph *m = mk_new(13);
    mk_input(m, "x", STENO_F32, "1,4,6,5");
    mk_f32(m, "w", "4,4,3,3", wc_numbers() + 300, 144);
    mk_f32(m, "d", "4,1,3,3", wc_numbers() + 200, 36);
    mk_f32(m, "lo", "", &lo, 1);
    mk_f32(m, "hi", "", &hi, 1);
    pc_graph(m, "Conv x,w c pads=[1,1,1,1]; Conv c,d e group=4 pads=[1,1,1,1]; Clip e,lo,hi f; "
                "Add f,c y");
    mk_output(m, "y", STENO_F32, "1,4,6,5");
    return m;
}

static void channels_last_convolution(void **state)
{
    (void)state;
    wc_round_trip(channels_last(), "ConvNhwc", 13);
}

static void pools_of_channels_last_images(void **state)
{
    static const char *const types[] = {"MaxPool", "AveragePool"};
    static const int64_t kernel[] = {3, 2}, pads[] = {1, 0, 1, 1}, strides[] = {2, 1};
    static const int64_t all[] = {1, 1, 1, 1};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct mk_graph *m = mk_new(13);
        mk_input(m, "x", STENO_F32, "1,4,6,5");
        mk_f32(m, "w", "4,4,3,3", wc_numbers() + 300, 144);
        mk_node(m, "Conv", "x,w", "c");
        mk_attr_ints(m, "pads", all, 4);
        mk_node(m, types[i], "c", "y");
        mk_attr_ints(m, "kernel_shape", kernel, 2);
        mk_attr_ints(m, "pads", pads, 4);
        mk_attr_ints(m, "strides", strides, 2);
        mk_attr_int(m, "ceil_mode", 1);
        mk_output(m, "y", STENO_F32, NULL);
        wc_round_trip(m, "PoolNhwc", 13);
    }
}

/* A relative shift by itself: the operator is run through its body, no pattern is matched. */
static void relative_shift_equals_its_body(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++) {
        struct mk_graph *m = mk_new(13);
        const struct steno_body_row *row = steno_body_find("RelativeShift");
        struct steno_attr attr = {.name = "half", .kind = STENO_ATTR_INT, .i = half};
        steno_value_id io[1] = {0};
        struct steno_node node = {.domain = row->domain,
                                  .op_type = row->type,
                                  .n_in = 1,
                                  .n_out = 1,
                                  .n_attr = 1,
                                  .in = io,
                                  .out = io,
                                  .attr = &attr};
        struct steno_graph *g = steno_graph_new(NULL);
        struct steno_buf text;
        steno_buf_init(&text, WC_MAX_FILE);
        assert_int_equal(steno_body_text(g, &node, 13, &text), STENO_OK);
        assert_non_null(strstr(text.data, "out0 = "));
        assert_true((strstr(text.data, "whole") != NULL) == half);
        steno_buf_free(&text);
        steno_graph_free(g);
        mk_free(m);
    }
}

/* ---- Zipformer ---- */

static void zipformer_round_trip(const char *dims, const char *text, const char *type)
{
    static const int opsets[] = {13, 18};
    for (size_t i = 0; i < 2; i++) {
        struct mk_graph *m = pc_start(13, dims);
        pc_graph(m, "zero = 0; one = 1; two = 2; four = 4; half = -0.5; slope = 0.08; left = 0.035;"
                    "b : 8; n1 = [1]; n2 = [2]; n3 = [3]; last = [-1]; back = [-3];"
                    "big = [9223372036854775807]");
        pc_graph(m, text);
        pc_graph(m, "-> y");
        wc_round_trip(m, type, opsets[i]);
    }
}

#define SWOOSH "Sub h,four z; Softplus z w; Mul h,slope m; Sub w,m u; Sub u,left y"

static void zipformers_parts(void **state)
{
    (void)state;
    zipformer_round_trip("2,t,8", "Tanh x h;" SWOOSH, "Swoosh");
    zipformer_round_trip("2,t,8", "k : 8,8; MatMul x,k h;" SWOOSH, "Linear");
    zipformer_round_trip("2,t,8",
                         "Sub x,b d; Pow d,two q; ReduceMean q m axes=[-1] keepdims=1;"
                         "Pow m,half r; Mul r,four f; Mul x,f y",
                         "BiasNorm");
    zipformer_round_trip("2,t,8", "Tanh x f; Sub f,x d; Mul d,b e; Add x,e y", "Bypass");
    zipformer_round_trip("2,n,3,7",
                         "down = [2,1,0]; up = [0,1,2,3,4]; heads = [2]; flat = [-1,7];"
                         "to = [2,-1,3,5]; Reshape x,flat r; Shape x sh; Gather sh,n1 n;"
                         "Mul n,heads hn; Tile down,hn t; Unsqueeze t,last u; Add u,up i;"
                         "GatherElements r,i e axis=1; Reshape e,to y",
                         "RelativeWindow");
}

static void chunk_convolution(void **state)
{
    (void)state;
    for (int masked = 0; masked < 2; masked++) {
        struct mk_graph *m = pc_start(13, "4,n,8");
        mk_input(m, "cache", STENO_F32, "n,8,3");
        mk_input(m, "mask", STENO_BOOL, "n,1,4");
        pc_graph(m, "zero = 0; n1 = [1]; n2 = [2]; n3 = [3]; back = [-3];"
                    "big = [9223372036854775807]; w1 : 8,1,4; b1 : 8; w2 : 8,1,3; b2 : 8;"
                    "scale : 8,4; Transpose x a perm=[1,2,0]; Where mask,zero,a h");
        pc_graph(m, masked ? "Concat cache,h z axis=2; Conv z,w1,b1 c group=8"
                           : "Concat cache,a z axis=2; Conv z,w1 c group=8; Abs h other; -> other");
        pc_graph(
            m, "Slice z,n3,big,n2,n1 p; Conv p,w2,b2 v group=8 pads=[1,1]; Mul v,scale g;"
               "Add g,c o; Transpose o y perm=[2,0,1]; Slice z,back,big,n2,n1 kept; -> kept; -> y");
        wc_round_trip(m, "ChunkConv", 13 + 5 * masked);
    }
}

static void attention_with_positions_by_key(void **state)
{
    struct mk_graph *m = pc_start(13, "2,t,8");
    (void)state;
    mk_input(m, "p", STENO_F32, "1,l,8");
    pc_graph(m, "d4 = [0,-1,2,4]; d3 = [0,-1,8]; u : 2,4; w : 2,4; scale = 2; Reshape x,d4 x4;"
                "Add x4,u qu; Add x4,w qw; Transpose qu a perm=[0,2,1,3];"
                "Transpose qw c perm=[0,2,1,3]; Transpose x4 kt perm=[0,2,3,1]; Reshape p,d4 p4;"
                "Transpose p4 pt perm=[0,2,3,1]; MatMul a,kt ac; MatMul c,pt bd; Add ac,bd s;"
                "Div s,scale sd; Softmax sd sw axis=-1; Transpose x4 v perm=[0,2,1,3];"
                "MatMul sw,v y4; Transpose y4 y5 perm=[0,2,1,3]; Reshape y5,d3 y; -> y");
    wc_round_trip(m, "Attention", 13);
}

/* Opset 11 cannot transpose the last two axes of any rank: the product stays as it is. */
static void a_product_with_a_transpose_in_opset_11(void **state)
{
    (void)state;
    for (int opset = 11; opset <= 12; opset++) {
        for (int from = opset; from <= 13; from += 13 - opset) {
            struct steno_network_options opt = {
                .opt_level = 3, .rewrite_only = true, .write_opset = opset};
            struct steno_save_options so = {.opset = opset};
            struct mk_graph *m = pc_start(from, "2,t,8");
            steno_network *n = NULL;
            struct steno_buf out;
            size_t size;
            uint8_t *file;
            pc_graph(m, "half = 0.5; Transpose x u perm=[0,2,1]; MatMul x,u p; Mul p,half y; -> y");
            /* pass flat makes this MatMul, with an opset of its own */
            pc_graph(m, "rows = [-1,8]; w : 8,4; last = [0,0,4]; two = 2; Shape x s; a = [0];"
                        "c = [2]; four = [4]; Slice s,a,c,a l; Concat l,four t axis=0;"
                        "Reshape x,rows f; Gemm f,w g; Reshape g,t h; Mul h,two z; -> z");
            file = mk_bytes(m, &size);
            steno_buf_init(&out, WC_MAX_FILE);
            assert_int_equal(steno_network_open_memory(&n, file, size, "test", &opt, NULL), 0);
            assert_int_equal(pc_count(n, "FusedMatMul") != 0, opset > 11);
            assert_int_equal(steno_network_serialize(n, &so, &out, NULL), 0);
            steno_network_close(n);
            steno_buf_free(&out);
            free(file);
            mk_free(m);
        }
    }
}

/* Q (and V) of the first columns of a wider value, K of its own. */
static void attention_of_the_first_columns_of_a_value(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct mk_graph *m = pc_start(13, "2,t,24");
        mk_input(m, "k", STENO_F32, "2,2,s,4");
        if (!i)
            mk_input(m, "v", STENO_F32, "2,2,s,4");
        pc_graph(m, "d4 = [0,0,2,4]; zero = [0]; eight = [8]; last = [2]; half = 0.5;"
                    "Slice x,zero,eight,last q2; Reshape q2,d4 q3; Transpose q3 q perm=[0,2,1,3]");
        if (i)
            pc_graph(m, "Slice x,zero,eight,last v2; Reshape v2,d4 v3;"
                        "Transpose v3 v perm=[0,2,1,3]");
        pc_graph(m, "Transpose k kt perm=[0,1,3,2]; MatMul q,kt s0; Mul s0,half c; Softmax c w; "
                    "MatMul w,v y; -> y");
        wc_round_trip(m, "Attention", 13);
    }
}

static void a_chunk_with_gate_and_activation(void **state)
{
    (void)state;
    for (int opset = 13; opset <= 18; opset += 5) {
        struct mk_graph *m = pc_start(13, "4,n,16");
        mk_input(m, "kept", STENO_F32, "n,8,3");
        mk_input(m, "hidden", STENO_BOOL, "n,1,4");
        pc_graph(m, ZT_CHUNK);
        wc_round_trip(m, "ChunkConv", opset);
    }
    zipformer_round_trip("2,t,8", "Split x a,c axis=-1; Sigmoid a s; Mul a,s g; Mul g,c y", "Glu");
    zipformer_round_trip("2,t,8", "Split x a,c axis=-1; Relu c g; Mul g,a y", "Glu");
}

static void zipformers_attention(void **state)
{
    static const char *const types[] = {"AttentionWeights", "WeightedValues", "NonlinAttention"};
    (void)state;
    for (int k = 0; k < 6; k++) {
        struct mk_graph *m = pc_start(13, "3,n,20");
        mk_input(m, "x2", STENO_F32, "3,n,18");
        mk_input(m, "cache", STENO_F32, "2,n,8");
        mk_input(m, "values", STENO_F32, "2,n,8");
        mk_input(m, "gates", STENO_F32, "1,n,2,6");
        mk_input(m, "mask", STENO_BOOL, "n,1,5");
        pc_graph(m, ZT_NUMBERS "Identity x xq; Slice x,n8,n16,last,n1 v");
        pc_graph(m, k < 3 ? ZT_WEIGHTS : ZT_COLUMNS ZT_SCORES "Softmax sum a axis=-1;");
        pc_graph(m, ZT_VALUES ZT_NONLIN "-> y; -> y2");
        wc_round_trip(m, types[k % 3], k < 3 ? 13 : 18);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fused_operator_has_a_body),
        cmocka_unit_test(linear_with_all_that_it_takes_in),
        cmocka_unit_test(linear_with_newer_activations),
        cmocka_unit_test(glu_in_every_form_of_split),
        cmocka_unit_test(parts_that_may_differ_have_no_form_before_18),
        cmocka_unit_test(zipformers_parts),
        cmocka_unit_test(chunk_convolution),
        cmocka_unit_test(attention_with_positions_by_key),
        cmocka_unit_test(a_product_with_a_transpose_in_opset_11),
        cmocka_unit_test(attention_of_the_first_columns_of_a_value),
        cmocka_unit_test(a_chunk_with_gate_and_activation),
        cmocka_unit_test(zipformers_attention),
        cmocka_unit_test(swish_before_it_was_an_operator),
        cmocka_unit_test(gelu_before_it_was_an_operator),
        cmocka_unit_test(layernorm_before_it_was_an_operator),
        cmocka_unit_test(attention_with_a_fill_among_the_scores),
        cmocka_unit_test(attention_whose_factors_repeat),
        cmocka_unit_test(attention_of_a_step),
        cmocka_unit_test(masked_softmax),
        cmocka_unit_test(conv_with_activation),
        cmocka_unit_test(depthwise_convolution),
        cmocka_unit_test(channels_last_convolution),
        cmocka_unit_test(pools_of_channels_last_images),
        cmocka_unit_test(depthwise_convolution_with_padding),
        cmocka_unit_test(attention),
        cmocka_unit_test(relative_shift_equals_its_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
