/* The parts of a Zipformer layer as icefall exports them, and near misses. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"
#include "tests/support/zipformer_text.h"

#include <stdlib.h>
#include <string.h>

static void check(const char *dims, const char *text, const char *pass, bool hits, int left)
{
    struct mk_graph *m = pc_start(13, dims);
    pc_graph(
        m, "zero = 0; one = 1; two = 2; three = 3; four = 4; b : 8; s : 8; half = -0.5; size = 2.5;"
           "slope = 0.08; left = 0.035; right = 0.313261687; inf = inf; n0 = [0]; n1 = [1];"
           "n2 = [2]; n3 = [3]; n4 = [4]; n8 = [8]; last = [-1]; big = [9223372036854775807]");
    pc_graph(m, text);
    pc_graph(m, "-> y");
    pc_check(m, pass, hits, left, 4e-6f);
}

#define SWOOSH(SHIFT, OFFSET)                                                                      \
    "Sub x," SHIFT " z; Exp z e; Add e,one f; Log f l; Equal l,inf q; Where q,z,l w;"              \
    "Mul x,slope m; Sub w,m u; Sub u," OFFSET " y"

static void swoosh_in_both_spellings(void **state)
{
    (void)state;
    check("2,t,8", SWOOSH("four", "left"), "swoosh", true, 1);
    check("2,t,8", SWOOSH("one", "right"), "swoosh", true, 1);
    check("2,t,8",
          "Sub x,four z; Sub zero,z o; Abs o a; Neg a n; Exp n e; Add one,e f; Log f l;"
          "Max zero,z p; Add p,l w; Mul x,slope m; Sub w,m u; Sub u,left y",
          "swoosh", true, 1);
    check("2,t,8", SWOOSH("four", "right"), "swoosh", false, 9);
    check("2,t,8", SWOOSH("two", "left"), "swoosh", false, 9);
}

static void swoosh_goes_into_products_and_convolutions(void **state)
{
    (void)state;
    check("2,t,8",
          "k : 8,8; MatMul x,k p; Add p,b x0; Sub x0,four z; Exp z e; Add e,one f; Log f l;"
          "Equal l,inf q; Where q,z,l w; Mul x0,slope m; Sub w,m u; Sub u,left y",
          "swoosh", true, 1);
    check("1,3,9,t",
          "k : 4,3,3,3; Conv x,k x0; Sub x0,one z; Exp z e; Add e,one f; Log f l;"
          "Equal l,inf q; Where q,z,l w; Mul x0,slope m; Sub w,m u; Sub u,right y",
          "swoosh", true, 3);
}

static void bias_norm_with_and_without_scale(void **state)
{
    (void)state;
    check("2,t,8",
          "Sub x,b d; Pow d,two q; ReduceMean q m axes=[-1] keepdims=1; Pow m,half r;"
          "Mul r,size f; Mul x,f y",
          "biasnorm", true, 1);
    check("2,t,8",
          "Sub x,b d; Mul d,d q; ReduceMean q m axes=[2] keepdims=1; Pow m,half r;"
          "Mul r,x y",
          "biasnorm", true, 1);
}

static void near_misses_of_bias_norm(void **state)
{
    static const char *const texts[] = {
        "Sub x,b d; Pow d,two q; ReduceMean q m axes=[1] keepdims=1; Pow m,half r; Mul x,r y",
        "Sub x,b d; Pow d,four q; ReduceMean q m axes=[-1] keepdims=1; Pow m,half r; Mul x,r y",
        "Sub x,b d; Pow d,two q; ReduceMean q m axes=[-1] keepdims=1; Pow m,one r; Mul x,r y",
        "Sub x,b d; Pow d,two q; ReduceMean q m axes=[-1] keepdims=1; Pow m,half r; Mul d,r y",
        "Sub x,b d; Pow d,two q; ReduceMean q m axes=[-1] keepdims=1; Pow m,half r; Mul x,r y; -> "
        "d"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check("2,t,8", texts[i], "biasnorm", false, -1);
}

static void bypass_by_channel_and_by_number(void **state)
{
    (void)state;
    check("2,t,8", "Tanh x f; Sub f,x d; Mul d,s e; Add x,e y", "bypass", true, 2);
    check("2,t,8", "Tanh x f; Sub f,x d; Mul size,d e; Add e,x y", "bypass", true, 2);
    check("2,t,8", "Tanh x f; Sub x,f d; Mul d,s e; Add x,e y", "bypass", false, 4);
    check("2,t,8", "Tanh x f; Sub f,x d; Mul d,s e; Add f,e y", "bypass", false, 4);
    check("2,t,8", "Tanh x f; Sub f,x d; Mul d,s e; Add x,e y; -> d", "bypass", false, 4);
    check("2,t,8", "k : 1,1,1,8; Tanh x f; Sub f,x d; Mul d,k e; Add x,e y", "bypass", false, 4);
}

static void glu_of_slices(void **state)
{
    (void)state;
    check("2,t,8", "Slice x,n0,n4,last a; Slice x,n4,n8,last c; Sigmoid c g; Mul a,g y", "glu",
          true, 1);
    check("2,t,8", "Slice x,n0,n4,n2,n1 a; Slice x,n4,big,n2,n1 c; Sigmoid c g; Mul g,a y", "glu",
          true, 1);
    check("2,t,8", "Slice x,n4,n8,last a; Slice x,n0,n4,last c; Sigmoid c g; Mul a,g y", "glu",
          true, 1);
    check("2,t,8", "Slice x,n0,n4,last a; Slice x,n0,n4,n2 c; Sigmoid c g; Mul a,g y", "glu", false,
          -1);
    check("2,t,8",
          "Slice x,n0,n3,last a; Slice x,n4,n8,last c; Slice c,n0,n3,last e; Sigmoid e g;"
          "Mul a,g y",
          "glu", false, -1);
    check("2,8,8", "Slice x,n0,n4,n1 a; Slice x,n4,n8,n1 c; Sigmoid c g; Mul a,g y", "glu", false,
          4);
}

#define WINDOW(DOWN, UP, HEADS)                                                                    \
    "down = " DOWN "; up = " UP "; heads = " HEADS "; flat = [-1,7]; back = [2,-1,3,5];"           \
    "Reshape x,flat r; Shape x sh; Gather sh,n1 n; Mul n,heads hn; Tile down,hn t;"                \
    "Unsqueeze t,last u; Add u,up i; GatherElements r,i e axis=1; Reshape e,back y"

static void relative_window_is_found(void **state)
{
    (void)state;
    check("2,n,3,7", WINDOW("[2,1,0]", "[0,1,2,3,4]", "[2]"), "relwindow", true, 1);
    check("2,n,3,7", WINDOW("[2,1,1]", "[0,1,2,3,4]", "[2]"), "relwindow", false, -1);
    check("2,n,3,7", WINDOW("[2,1,0]", "[0,1,2,3,3]", "[2]"), "relwindow", false, -1);
    check("2,n,3,7", WINDOW("[2,1,0]", "[0,1,2,3,4]", "[1]"), "relwindow", false, -1);
}

static void chunk(const char *text, bool hits, int left)
{
    struct mk_graph *m = pc_start(13, "4,n,8");
    mk_input(m, "cache", STENO_F32, "n,8,3");
    mk_input(m, "mask", STENO_BOOL, "n,1,4");
    pc_graph(m, "zero = 0; n1 = [1]; n2 = [2]; n3 = [3]; back = [-3]; short = [-2];"
                "big = [9223372036854775807]; w1 : 8,1,4; b1 : 8; w2 : 8,1,3; b2 : 8; scale : 8,4;"
                "Transpose x a perm=[1,2,0]");
    pc_graph(m, text);
    pc_graph(m, "-> y");
    pc_check(m, "chunkconv", hits, left, 4e-6f);
}

#define CHUNK                                                                                      \
    "Concat cache,h z axis=2; Conv z,w1,b1 c group=8; Slice z,n3,big,n2,n1 p;"                     \
    "Conv p,w2,b2 v group=8 pads=[1,1]; Mul v,scale g; Add g,c o; Transpose o y perm=[2,0,1];"

static void chunk_convolution_with_all_its_parts(void **state)
{
    (void)state;
    chunk("Shape a sa; Expand mask,sa wide; Where wide,zero,a h;" CHUNK
          "Slice z,back,big,n2,n1 kept; -> kept",
          true, 1);
    chunk("Where mask,zero,a h;" CHUNK "Slice z,back,big,n2,n1 kept; -> kept", true, 1);
    chunk("Concat cache,a z axis=2; Conv z,w1 c group=8; Slice z,n3,big,n2,n1 p;"
          "Conv p,w2 v group=8 pads=[1,1]; Mul scale,v g; Add c,g o; Transpose o y perm=[2,0,1]",
          true, 1);
}

static void near_misses_of_chunk_convolution(void **state)
{
    (void)state;
    chunk("Where mask,zero,a h;" CHUNK "Slice z,short,big,n2,n1 kept; -> kept", false, -1);
    chunk("Where mask,zero,a h;" CHUNK "-> z", false, -1);
    chunk("Where mask,a,a h;" CHUNK, false, -1);
    chunk("Concat a,cache z axis=2; Conv z,w1 c group=8; Slice z,n3,big,n2,n1 p;"
          "Conv p,w2 v group=8 pads=[1,1]; Mul scale,v g; Add c,g o; Transpose o y perm=[2,0,1]",
          false, -1);
    chunk("Concat cache,a z axis=2; Conv z,w1 c group=8; Slice z,n3,big,n2,n1 p;"
          "Conv p,w2 v group=8 pads=[1,1]; Mul scale,v g; Add c,g o; Transpose o y perm=[0,2,1]",
          false, -1);
}

static void chunk_convolution_with_gate_and_activation(void **state)
{
    struct mk_graph *m = pc_start(13, "4,n,16");
    (void)state;
    mk_input(m, "kept", STENO_F32, "n,8,3");
    mk_input(m, "hidden", STENO_BOOL, "n,1,4");
    pc_graph(m, ZT_CHUNK);
    pc_check(m, "chunkconv", true, 1, 4e-6f);
}

/* `hits`: how many of the three the pass finds. */
static void attention(const char *text, int hits)
{
    struct mk_graph *m = pc_start(13, "3,n,20");
    steno_network *n;
    uint8_t *file;
    size_t size;
    mk_input(m, "x2", STENO_F32, "3,n,18");
    mk_input(m, "cache", STENO_F32, "2,n,8");
    mk_input(m, "values", STENO_F32, "2,n,8");
    mk_input(m, "gates", STENO_F32, "1,n,2,6");
    mk_input(m, "mask", STENO_BOOL, "n,1,5");
    pc_graph(m, ZT_NUMBERS "Identity x xq; Slice x,n8,n16,last,n1 v");
    pc_graph(m, text);
    file = mk_bytes(m, &size);
    n = pc_open(file, size, 3, NULL, NULL);
    if (pc_found(n, "weights") != hits)
        fail_msg("found %d of %d in %s", pc_found(n, "weights"), hits, text);
    steno_network_close(n);
    free(file);
    pc_check(m, "weights", hits > 0, -1, 4e-6f);
}

static void attention_whose_weights_serve_three_products(void **state)
{
    (void)state;
    attention(ZT_WEIGHTS ZT_VALUES ZT_NONLIN "-> y; -> y2", 3);
    attention(ZT_WEIGHTS ZT_NONLIN ZT_VALUES "-> a; -> y; -> y2", 3);
    attention(ZT_COLUMNS ZT_SCORES "Softmax sum a axis=-1;" ZT_VALUES "-> y", 2);
    attention(ZT_COLUMNS ZT_SCORES "Softmax sum a axis=3; -> a", 1);
}

static void near_misses_of_attention(void **state)
{
    (void)state;
    attention(ZT_COLUMNS ZT_SCORES "Where mask,fill,sum w; Softmax w a axis=2;" ZT_VALUES "-> y",
              0);
    attention(ZT_COLUMNS ZT_SCORES "Where mask,sum,fill w; Softmax w a axis=-1;" ZT_VALUES "-> y",
              0);
    attention(
        ZT_COLUMNS "Slice z,n1,n3,n0,n1 some; -> some;" ZT_SCORES "Softmax sum a axis=-1; -> a", 0);
    attention(ZT_COLUMNS ZT_SCORES "Softmax sum a axis=-1; -> a; -> sum", 0);
    /* heads that stay apart; the second head; the first third as the gate */
    attention(ZT_WEIGHTS "Concat values,v vz axis=0; Reshape vz,keys v4;"
                         "Transpose v4 vt perm=[2,1,0,3]; MatMul a,vt y; -> y",
              1);
    attention(ZT_WEIGHTS
              "Slice a,n1,n2,n0,n1 head; Slice x2,n0,n6,n2 xs; Slice x2,n6,n12,n2 xu;"
              "Slice x2,n12,big,n2 xg; Tanh xs th; Mul xu,th g0; Reshape g0,one g4;"
              "Transpose g4 gt perm=[2,1,0,3]; Concat gates,gt gz axis=2; MatMul head,gz p4;"
              "Transpose p4 pt perm=[2,1,0,3]; Reshape pt,join6 pj; Mul pj,xg y2; -> y2",
              1);
    attention(ZT_WEIGHTS
              "Slice a,n0,n1,n0,n1 head; Slice x2,n0,n6,n2 xs; Slice x2,n6,n12,n2 xu;"
              "Tanh xs th; Mul xu,th g0; Reshape g0,one g4; Transpose g4 gt perm=[2,1,0,3];"
              "Concat gates,gt gz axis=2; MatMul head,gz p4; Transpose p4 pt perm=[2,1,0,3];"
              "Reshape pt,join6 pj; Mul pj,xs y2; -> y2",
              1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swoosh_in_both_spellings),
        cmocka_unit_test(swoosh_goes_into_products_and_convolutions),
        cmocka_unit_test(bias_norm_with_and_without_scale),
        cmocka_unit_test(near_misses_of_bias_norm),
        cmocka_unit_test(bypass_by_channel_and_by_number),
        cmocka_unit_test(glu_of_slices),
        cmocka_unit_test(relative_window_is_found),
        cmocka_unit_test(chunk_convolution_with_all_its_parts),
        cmocka_unit_test(near_misses_of_chunk_convolution),
        cmocka_unit_test(chunk_convolution_with_gate_and_activation),
        cmocka_unit_test(attention_whose_weights_serve_three_products),
        cmocka_unit_test(near_misses_of_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
