/* The convolution module of conformers as exporters write it, with channels before time, and
 * near misses. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"
#include "tests/support/zipformer_text.h"

#include <stdlib.h>
#include <string.h>

static void check(const char *dims, const char *text, const char *pass, bool hits, int left)
{
    struct mk_graph *m = pc_start(13, dims);
    pc_graph(m, "w1 : 16,8,1; b1 : 16; w2 : 8,1,3; b2 : 8; w3 : 8,8,1; w5 : 8,1,5; wide : 16,8,3;"
                "grouped : 8,4,1");
    pc_graph(m, text);
    pc_graph(m, "-> y");
    pc.context = text;
    pc_check(m, pass, hits, left, 3e-6f);
    pc.context = NULL;
}

#define MODULE                                                                                     \
    "Transpose x a perm=[0,2,1]; Conv a,w1,b1 c; Split c l,r axis=1; Sigmoid r s; Mul l,s g;"      \
    "Conv g,w2,b2 d group=8 pads=[1,1]; Sigmoid d e; Mul d,e f; Conv f,w3 h;"                      \
    "Transpose h i perm=[0,2,1]; Add x,i y"

static void time_stays_the_slow_axis_through_a_module(void **state)
{
    (void)state;
    check("2,t,8", MODULE, "pointwise", true, 4);
    check("2,t,8", MODULE, "depthwise", true, 4);
    check("2,t,8", MODULE, "glu", true, 4);
    check("1,9,8", MODULE, "depthwise", true, 4);
}

static void padding_and_activation_go_into_the_depthwise_convolution(void **state)
{
    (void)state;
    check("2,t,8",
          "Transpose x a perm=[0,2,1]; Conv a,w5 c group=8 pads=[4,0]; Relu c d;"
          "Transpose d y perm=[0,2,1]",
          "depthwise", true, 1);
    check("1,2,8",
          "Transpose x a perm=[0,2,1]; Conv a,w5,b2 c group=8 pads=[2,2];"
          "Transpose c d perm=[0,2,1]; Tanh d y",
          "depthwise", true, 1);
    check("3,1,8",
          "Transpose x a perm=[0,2,1]; Conv a,w5 c group=8 pads=[4,3]; Sigmoid c d;"
          "Transpose d y perm=[0,2,1]",
          "depthwise", true, 1);
    check("1,t,8",
          "Transpose x a perm=[0,2,1]; Conv a,w5 c group=8 pads=[2,6];"
          "Transpose c y perm=[0,2,1]",
          "depthwise", false, 3);
}

/* m [n, 1, t]: 1 where the first channel is positive. */
#define MASK                                                                                       \
    "zero = 0.0; c0 = [0]; c1 = [1]; last = [2]; Slice x,c0,c1,last u;"                            \
    "Greater u,zero g; Transpose g b perm=[0,2,1]; Cast b m to=1; Transpose x t perm=[0,2,1];"

static void a_mask_of_lengths_is_turned_instead(void **state)
{
    (void)state;
    check("2,t,8", MASK "Mul t,m c; Transpose c y perm=[0,2,1]", "pointwise", true, -1);
    check("2,t,8",
          MASK "Where b,t,zero c; Conv c,w2,b2 d group=8 pads=[1,1];"
               "Transpose d y perm=[0,2,1]",
          "pointwise", true, -1);
    check("1,9,8", MASK "Where b,zero,t c; Conv c,w3 d; Transpose d y perm=[0,2,1]", "pointwise",
          true, -1);
    /* what is not one number for all channels, or is written out */
    check("2,t,8", "Transpose x t perm=[0,2,1]; Exp t e; Mul e,t c; Transpose c y perm=[0,2,1]",
          "pointwise", false, 4);
    check("2,t,8", "Transpose x t perm=[0,2,1]; k : 8,1; Mul t,k y", "pointwise", false, 2);
    check("2,t,8", MASK "Mul t,m y; -> t", "pointwise", false, -1);
}

static void near_misses_of_the_module_stay(void **state)
{
    (void)state;
    check("2,t,8", "Transpose x a perm=[0,2,1]; Conv a,wide c; Transpose c y perm=[0,2,1]",
          "pointwise", false, 3);
    check("2,t,8",
          "Transpose x a perm=[0,2,1]; Conv a,grouped c group=2;"
          "Transpose c y perm=[0,2,1]",
          "pointwise", false, 3);
    check("2,t,8",
          "Transpose x a perm=[0,2,1]; Conv a,w3 c pads=[1,1];"
          "Transpose c y perm=[0,2,1]",
          "pointwise", false, 3);
    check("2,t,8", "Transpose x a perm=[0,2,1]; Relu a c; Add a,c d; Transpose d y perm=[0,2,1]",
          "pointwise", false, 4); /* the first Transpose has two readers */
    check("8,2,t", "Transpose x a perm=[1,0,2]; Conv a,w3 c; Transpose c y perm=[0,2,1]",
          "pointwise", false, 3);
}

/* ---- one product for Q, K and V ---- */

#define HEADS                                                                                      \
    "Reshape q2,d4 q3; Transpose q3 q perm=[0,2,1,3]; Reshape k2,d4 k3;"                           \
    "Transpose k3 k perm=[0,2,3,1]; Reshape v2,d4 v3; Transpose v3 v perm=[0,2,1,3];"              \
    "MatMul q,k s; Softmax s w; MatMul w,v o; Transpose o ot perm=[0,2,1,3]; Reshape ot,d3 a;"

static void check_qkv(const char *projections, bool hits, int left)
{
    struct mk_graph *m = pc_start(13, "2,t,8");
    pc_graph(m, "wq : 8,8; wk : 8,8; wv : 8,8; bq : 8; bv : 8; d4 = [0,0,2,4]; d3 = [0,0,8];"
                "third = 0.3333");
    pc_graph(m, projections);
    pc_graph(m, HEADS "Neg a y; -> y");
    pc_check(m, "qkv", hits, left, 1e-5f);
}

static void products_of_one_input_become_one(void **state)
{
    (void)state;
    check_qkv("MatMul x,wq qa; Add qa,bq q2; MatMul x,wk k2; MatMul x,wv va; Add va,bv v2", true,
              3);
    check_qkv("MatMul x,wq qa; Mul qa,third q2; MatMul x,wk k2; MatMul x,wv v2", true, 3);
    /* only K and V: attention to a memory */
    check_qkv("Exp x e; MatMul e,wq q2; MatMul x,wk k2; MatMul x,wv va; Add va,bv v2", true, 5);
    /* near misses: another input, an activation in between, a second reader of V */
    check_qkv("Exp x e; MatMul x,wq q2; MatMul x,wk k2; MatMul e,wv v2", false, 6);
    check_qkv("MatMul x,wq q2; MatMul x,wk k2; MatMul x,wv va; Relu va v2", false, 5);
    check_qkv("MatMul x,wq q2; MatMul x,wk k2; MatMul x,wv v2; Abs v2 z; -> z", false, 6);
}

/* The columns of one product, cut apart. This is how a network after our passes looks in the
 * exporters' nodes. */
static void columns_of_one_product_are_read_where_they_are(void **state)
{
    static const char from[] = "wqkv : 8,24; bqkv : 24; c0 = [0]; c8 = [8]; c16 = [16]; c24 = "
                               "[24]; last = [-1]; two = [2];"
                               "d4 = [0,0,2,4]; d3 = [0,0,8]; one = [1]; step = [2];";
    static const struct {
        const char *cuts;
        int left;
    } cases[] = {
        {"Slice all,c0,c8,last q2; Slice all,c8,c16,two k2; Slice all,c16,c24,last,one v2;", 3},
        /* Q separate; keys and values from one product */
        {"Exp x e; MatMul e,wq q2; Slice all,c8,c16,last k2; Slice all,c16,c24,last v2;", 5},
        /* near miss: every second column */
        {"Slice all,c0,c8,last q2; Slice all,c8,c24,last,step k2; Slice all,c16,c24,last v2;", 4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mk_graph *m = pc_start(13, "2,t,8");
        pc_graph(m, from);
        pc_graph(m, "wq : 8,8; MatMul x,wqkv p; Add p,bqkv all;");
        pc_graph(m, cases[i].cuts);
        pc_graph(m, HEADS "Neg a y; -> y");
        pc_check(m, "qkv", true, cases[i].left, 1e-5f);
    }
}

/* ---- layers ---- */

#define NORM(X, Y) "LayerNormalization " X ",g,b " Y " axis=-1 epsilon=0.00001;"
#define FF(X, Y)                                                                                   \
    NORM(X, Y "n")                                                                                 \
    "MatMul " Y "n,f1 " Y "1; Add " Y "1,h1 " Y "2; Relu " Y "2 " Y "3;"                           \
    "MatMul " Y "3,f2 " Y "4; Add " Y "4,h2 " Y "5; Add " X "," Y "5 " Y ";"
#define ATTENTION(X, M, Y)                                                                         \
    NORM(X, Y "n")                                                                                 \
    "MatMul " Y "n,wq " Y "q2; MatMul " M ",wk " Y "k2; MatMul " M ",wv " Y "v2;"                  \
    "Reshape " Y "q2,d4 " Y "q3; Transpose " Y "q3 " Y "q perm=[0,2,1,3];"                         \
    "Reshape " Y "k2,d4 " Y "k3; Transpose " Y "k3 " Y "k perm=[0,2,3,1];"                         \
    "Reshape " Y "v2,d4 " Y "v3; Transpose " Y "v3 " Y "v perm=[0,2,1,3];"                         \
    "MatMul " Y "q," Y "k " Y "s; Softmax " Y "s " Y "w; MatMul " Y "w," Y "v " Y "o;"             \
    "Transpose " Y "o " Y "t perm=[0,2,1,3]; Reshape " Y "t,d3 " Y "a; MatMul " Y "a,wo " Y "p;"   \
    "Add " X "," Y "p " Y ";"
#define CONV(X, Y)                                                                                 \
    NORM(X, Y "n")                                                                                 \
    "Transpose " Y "n " Y "a perm=[0,2,1]; Conv " Y "a,w1 " Y "c;"                                 \
    "Split " Y "c " Y "l," Y "r axis=1; Sigmoid " Y "r " Y "s; Mul " Y "l," Y "s " Y "g;"          \
    "Conv " Y "g,w2 " Y "d group=8 pads=[1,1]; Sigmoid " Y "d " Y "e; Mul " Y "d," Y "e " Y "f;"   \
    "Conv " Y "f,w3 " Y "h; Transpose " Y "h " Y "i perm=[0,2,1]; Add " X "," Y "i " Y ";"

static int regions_of(const struct steno_graph *g, const char *type)
{
    int count = 0;
    for (int32_t r = 0; r < g->n_regions; r++) {
        bool used = false;
        for (int32_t i = 0; i < g->n_nodes; i++)
            used = used || steno_node_in_region(g, &g->nodes[i], r);
        count += used && !strcmp(g->regions[r].type, type);
    }
    return count;
}

/* The nodes when each layer counts as one, and the number of layers of `type`. Without the pass
 * there are no layers. */
static void check_graph(struct mk_graph *m, const char *text, const char *type, int count,
                        size_t top)
{
    const struct steno_graph *g;
    steno_network *plain, *all, *without;
    uint8_t *file;
    size_t size;
    pc_graph(m, text);
    file = mk_bytes(m, &size);
    mk_free(m);
    plain = pc_open(file, size, 0, NULL, NULL);
    all = pc_open(file, size, 3, NULL, NULL);
    without = pc_open(file, size, 3, "layers", NULL);
    pc_same(plain, all, 1e-5f);
    pc_same(all, without, 0); /* the pass changes no computation */
    g = steno_network_graph(all);
    if (regions_of(g, type) != count)
        fail_msg("%d regions %s, not %d: %s", regions_of(g, type), type, count, text);
    assert_int_equal(steno_graph_count_top(g), top);
    g = steno_network_graph(without);
    assert_int_equal(g->n_regions, 0);
    assert_int_equal(steno_graph_count_top(g), steno_graph_count_nodes(g));
    steno_network_close(plain);
    steno_network_close(all);
    steno_network_close(without);
    free(file);
}

static void check_layers(const char *text, const char *type, int count, size_t top)
{
    struct mk_graph *m = pc_start(17, "2,t,8");
    pc_graph(m, "g : 8; b : 8; wq : 8,8; wk : 8,8; wv : 8,8; wo : 8,8; f1 : 8,12; h1 : 12;"
                "f2 : 12,8; h2 : 8; w1 : 16,8,1; w2 : 8,1,3; w3 : 8,8,1; d4 = [0,0,2,4];"
                "d3 = [0,0,8]");
    pc_graph(m, "-> y");
    check_graph(m, text, type, count, top);
}

static void zipformer_layers(const char *text, const char *type, int count, size_t top)
{
    struct mk_graph *m = pc_start(13, "3,n,8");
    mk_input(m, "cache", STENO_F32, "2,n,8");
    mk_input(m, "values", STENO_F32, "2,n,8");
    mk_input(m, "gates", STENO_F32, "1,n,2,6");
    mk_input(m, "mask", STENO_BOOL, "n,1,5");
    pc_graph(m, ZT_NUMBERS "four = 4; slope = 0.08; left = 0.035; two = 2; half = -0.5; size = 1.5;"
                           "zb : 8; zs : 8; w20 : 8,20; w18 : 8,18; w6 : 6,8; wv : 8,8; wo : 8,8;"
                           "f1 : 8,12; f2 : 12,8;");
    check_graph(m, text, type, count, top);
}

#define SWOOSH_FF(X, Y)                                                                            \
    "inf = inf; MatMul " X ",f1 " Y "0; Sub " Y "0,four " Y "1; Exp " Y "1 " Y "2;"                \
    "Add " Y "2,plus " Y "3; Log " Y "3 " Y "4; Equal " Y "4,inf " Y "q;"                          \
    "Where " Y "q," Y "1," Y "4 " Y "w; Mul " Y "0,slope " Y "5; Sub " Y "w," Y "5 " Y "6;"        \
    "Sub " Y "6,left " Y "7; MatMul " Y "7,f2 " Y "8; Add " X "," Y "8 " Y ";"
#define ZIPFORMER(SKIP)                                                                            \
    "plus = 1; MatMul x,w20 xq;" ZT_WEIGHTS SWOOSH_FF(                                             \
        "x",                                                                                       \
        "ff") "MatMul ff,w18 x2;" ZT_NONLIN                                                        \
              "MatMul y2,w6 no; Add ff,no gg; MatMul gg,wv v;" ZT_VALUES                           \
              "MatMul y,wo so; Add gg,so h;"                                                       \
              "Sub h,zb bd; Pow bd,two bq; ReduceMean bq bm axes=[-1] keepdims=1; Pow bm,half br;" \
              "Mul br,size bf; Mul h,bf bn; Sub bn," SKIP " sd; Mul sd,zs se; Add " SKIP           \
              ",se end; -> end;"

static void a_zipformers_layer_is_one_node(void **state)
{
    (void)state;
    zipformer_layers(ZIPFORMER("x"), "ZipformerEncoderLayer", 1, 1);
    zipformer_layers(ZIPFORMER("x"), "NonlinModule", 1, 1);
    zipformer_layers(ZIPFORMER("x"), "SelfAttention", 1, 1);
    zipformer_layers(ZIPFORMER("x"), "FeedForward", 1, 1);
    zipformer_layers(ZIPFORMER("ff"), "ZipformerEncoderLayer", 0, 7);
}

static void layers_are_one_node_to_readers(void **state)
{
    (void)state;
    check_layers(FF("x", "y"), "FeedForward", 1, 1);
    check_layers(CONV("x", "y"), "ConvModule", 1, 1);
    check_layers(ATTENTION("x", "yn", "y"), "SelfAttention", 1, 1);
    check_layers(ATTENTION("x", "an", "a") FF("a", "c") ATTENTION("c", "dn", "d") FF("d", "y"),
                 "TransformerEncoderLayer", 2, 2);
    check_layers(FF("x", "a") ATTENTION("a", "cn", "c") CONV("c", "d") FF("d", "e") NORM("e", "n")
                     FF("n", "k") ATTENTION("k", "mn", "m") CONV("m", "o") FF("o", "p")
                         NORM("p", "y"),
                 "ConformerEncoderLayer", 2, 2);
    check_layers("Exp x mem; Neg mem z; -> z;" ATTENTION("x", "an", "a") ATTENTION("a", "mem", "c")
                     FF("c", "y"),
                 "TransformerDecoderLayer", 1, 3);
}

#define RAMP(X, Y)                                                                                 \
    "Shape " X " " Y "s; Slice " Y "s,one,two " Y "d; Expand half," Y "d " Y "e;"                  \
    "Exp " Y "e " Y "f; Unsqueeze " Y "f,one " Y ";"

/* The nodes that depend on shapes alone form one region. If data comes between them they form
 * two: execution never leaves a region and enters it again. */
static void nodes_of_shapes_alone_are_one_region(void **state)
{
    (void)state;
    check_layers("one = [1]; two = [2]; half = 0.5;" RAMP("x", "u") "Add x,u y", "Shapes", 1, 2);
    check_layers("one = [1]; two = [2]; half = 0.5;" RAMP(
                     "x", "u") "Add x,u a; Concat a,x c axis=1;" RAMP("c", "v") "Add c,v y",
                 "Shapes", 2, 5);
}

static void near_misses_of_layers_stay_nodes(void **state)
{
    (void)state;
    /* no normalization; a block whose inner value is read outside is still a block */
    check_layers("MatMul x,f1 a; Relu a c; MatMul c,f2 d; Add x,d y", "FeedForward", 0, 2);
    check_layers(NORM("x", "n") "MatMul n,wq a; Add x,a y", "FeedForward", 0, 2);
    check_layers(FF("x", "a") "Tanh a c;" ATTENTION("c", "yn", "y"), "TransformerEncoderLayer", 0,
                 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_stays_the_slow_axis_through_a_module),
        cmocka_unit_test(padding_and_activation_go_into_the_depthwise_convolution),
        cmocka_unit_test(a_mask_of_lengths_is_turned_instead),
        cmocka_unit_test(near_misses_of_the_module_stay),
        cmocka_unit_test(products_of_one_input_become_one),
        cmocka_unit_test(columns_of_one_product_are_read_where_they_are),
        cmocka_unit_test(layers_are_one_node_to_readers),
        cmocka_unit_test(a_zipformers_layer_is_one_node),
        cmocka_unit_test(nodes_of_shapes_alone_are_one_region),
        cmocka_unit_test(near_misses_of_layers_stay_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
