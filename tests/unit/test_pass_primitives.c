/* Eliminations and fusions of single operators: each pattern and its near misses. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

struct graph {
    const char *dims; /* of x */
    const char *text; /* from x to y */
    bool hits;
    int left; /* nodes that remain; -1: any number */
    int opset;
};

static void check(const struct graph *c, size_t n, const char *pass)
{
    for (size_t i = 0; i < n; i++) {
        struct mk_graph *m = pc_start(c[i].opset ? c[i].opset : 13, c[i].dims);
        pc_graph(m, "one = 1; two = 2; half = 0.5; eps = 0.01; zero = 0; low = -1; six = 6;"
                    "inf = -3.4028235e38");
        pc_graph(m, c[i].text);
        pc_graph(m, "-> y");
        pc.context = c[i].text;
        pc_check(m, pass, c[i].hits, c[i].left, 5e-6f);
        pc.context = NULL;
    }
}
#define CHECK(PASS, ...)                                                                           \
    do {                                                                                           \
        static const struct graph s_[] = {__VA_ARGS__};                                            \
        check(s_, sizeof s_ / sizeof *s_, PASS);                                                   \
    } while (0)

/* m: 1 where x is above a half */
#define MASK "Greater x,half g; Cast g m to=1;"

static void repeated_operators_disappear(void **state)
{
    (void)state;
    CHECK("again", {"t,8", "Relu x a; Relu a y", true, 1, 0},
          {"t,8", "Ceil x a; Round a y", true, 1, 0}, {"t,8", "Sigmoid x a; Relu a y", true, 1, 0},
          {"t,8", "Softmax x a axis=1; Abs a y", true, 1, 0},
          {"t,8", "Relu x a; Relu a y; -> a", false, 2, 0}, /* two outputs need two names */
          {"t,8", "Tanh x a; Relu a y", false, 2, 0}, {"t,8", "Abs x a; Ceil a y", false, 2, 0},
          {"t,8", "Exp x e; Neg e a; Neg a b; Tanh b y", true, 2, 0},
          {"t,8", "Neg x a; Abs a b; Neg b y", false, 3, 0},
          {"t,8", "Greater x,half g; Not g n; Where n,x,two y", true, 2, 0},
          {"t,8", "Greater x,half g; Where g,x,two y", false, 2, 0},
          {"t,8", "Softmax x s axis=-1; ArgMax s i axis=1; Cast i y to=1", true, 2, 0},
          {"t,8", "Softmax x s axis=-1; ArgMax s i axis=0; Cast i y to=1", false, 3, 0},
          {"t,8", "Greater x,half a; Not a b; Not b c; Where c,x,two y", true, 2, 0});
    /* a mask of lengths: a number that is not a Cast of truth values may be any */
    CHECK("again", {"t,8", MASK "Mul x,m a; Mul m,a y", true, 3, 0},
          {"t,8", MASK "Neg x e; Mul m,e a; Relu a b; Mul b,m y", true, 5, 0},
          {"t,8", MASK "Mul x,m a; Relu a y", true, 4, 0},
          {"t,8", MASK "Mul x,m a; Relu a y; -> a", false, 4, 0},
          {"t,8", MASK "Mul x,m a; Add a,half b; Mul b,m y", false, 5, 0},
          {"t,8", MASK "Mul x,m a; Sigmoid a b; Mul b,m y", false, 5, 0},
          {"t,8", "Exp x m; Mul x,m a; Mul a,m y", false, 3, 0},
          {"t,8", "Neg x m; Mul x,m a; Relu a y", false, 3, 0},
          {"t,8", "Floor x f; Cast f i to=7; Cast i m to=1; Mul x,m a; Mul a,m y", false, 5, 0});
}

static void operators_without_effect_disappear(void **state)
{
    (void)state;
    CHECK("identity", {"t,8", "Dropout x a is_test=1 ratio=0.5; Tanh a y", true, 1, 6},
          {"t,8", "Dropout x a is_test=1 consumed_inputs=[0]; Tanh a y", true, 1, 1},
          {"t,8", "Dropout x a ratio=0.0; Tanh a y", false, 2, 6},
          {"t,8", "Split x a axis=1; Tanh a y", true, 1, 0},
          {"t,8", "s = [8]; Split x,s a axis=1; Tanh a y", true, 1, 0},
          {"t,8", "Split x a,b axis=1; Sub a,b c; Tanh c y", false, 3, 0},
          {"t,8", "Slice x a starts=[0] ends=[9] axes=[1]; Tanh a y", true, 1, 9});
}

static void attributes_become_inputs(void **state)
{
    (void)state;
    CHECK("modern", {"t,8", "Slice x a starts=[2] ends=[6] axes=[1]; Tanh a y", true, 2, 9},
          {"4,8", "Slice x a starts=[1,-6] ends=[3,-1]; Tanh a y", true, 2, 1},
          {"4,8,3",
           "Slice x a starts=[1] ends=[9] axes=[1]; Slice a b starts=[1] ends=[2] axes=[2];"
           "Tanh b y",
           true, 2, 9},
          {"t,8", "f = [2]; e = [6]; k = [1]; Slice x,f,e,k a; Tanh a y", false, 2, 10});
}

static void gates_of_every_kind(void **state)
{
    (void)state;
    CHECK("glu", {"t,8", "Split x a,b axis=-1; Sigmoid b g; Mul a,g y", true, 1, 0},
          {"t,8", "Split x a,b axis=1; Sigmoid b s; Mul b,s g; Mul a,g y", true, 1, 0},
          {"t,8", "Split x a,b axis=1; Sigmoid a s; Mul a,s g; Mul g,b y", true, 1, 0},
          {"t,8",
           "root = 1.41421356; Split x a,b axis=1; Div b,root d; Erf d e; Add e,one f; Mul b,f h;"
           "Mul h,half g; Mul a,g y",
           true, 1, 0},
          {"t,8", "Split x a,b axis=1; Relu a g; Mul g,b y", true, 1, 0},
          {"t,8",
           "Slice x a starts=[0] ends=[4] axes=[1]; Slice x b starts=[4] ends=[8] axes=[1];"
           "Sigmoid a s; Mul a,s g; Mul g,b y",
           true, 1, 9},
          {"t,8",
           "Slice x a starts=[0] ends=[4] axes=[1]; Slice x b starts=[3] ends=[7] axes=[1];"
           "Sigmoid a s; Mul a,s g; Mul g,b y",
           false, 4, 9},
          {"t,8", "Split x a,b axis=1; Sigmoid b s; Mul b,s y", false, -1, 0},
          {"t,8", "Split x a,b axis=1; Tanh b g; Mul a,g y", false, 3, 0});
}

static void transposed_factors_of_gemm(void **state)
{
    (void)state;
    CHECK("transpose", {"3,8", "Transpose x a perm=[1,0]; Gemm x,a y", true, 1, 0},
          {"3,8", "Transpose x a; Gemm a,x y alpha=0.5", true, 1, 0},
          {"3,8", "Transpose x a; Gemm a,a y transB=1", true, 1, 0},
          {"3,8", "Transpose x a perm=[0,1]; Gemm a,x y transB=1", false, 1, 0});
}

/* The keys of torch's scaled_dot_product_attention. */
static void last_axes_exchanged_while_others_are_joined(void **state)
{
    (void)state;
    CHECK("transpose",
          {"2,3,4,5",
           "a = [-1,4,5]; c = [2,3,5,4]; Reshape x,a f; Transpose f t perm=[0,2,1];"
           "Reshape t,c u; Tanh u y",
           true, 2, 0},
          {"2,3,4", /* nothing is joined */
           "a = [-1,3,4]; c = [2,4,3]; Reshape x,a f; Transpose f t perm=[0,2,1];"
           "Reshape t,c u; Tanh u y",
           false, -1, 0},
          {"b,3,4,5",
           "a = [-1,4,5]; c = [3,5,4]; Shape x b end=1; Concat b,c s axis=0; Reshape x,a f;"
           "Transpose f t perm=[0,2,1]; Reshape t,s u allowzero=1; Tanh u y",
           true, 2, 0},
          {"2,3,4,5",
           "a = [-1,4,5]; c = [3,2,5,4]; Reshape x,a f; Transpose f t perm=[0,2,1];"
           "Reshape t,c u; Tanh u y",
           false, -1, 0},
          {"2,3,4,5",
           "a = [-1,4,5]; c = [2,3,5,4]; Reshape x,a f; Transpose f t perm=[1,2,0];"
           "Reshape t,c u; Tanh u y",
           false, -1, 0},
          {"2,3,4,4", /* joined otherwise */
           "a = [-1,8,4]; c = [2,3,4,4]; Reshape x,a f; Transpose f t perm=[0,2,1];"
           "Reshape t,c u; Tanh u y",
           false, -1, 0});
}

/* A target that takes zeros literally says as much of the shape, unless one of them is 0. */
static void targets_that_take_zeros_literally(void **state)
{
    (void)state;
    CHECK("reshape",
          {"b,12",
           "c = [3,4]; Shape x b end=1; Concat b,c s axis=0; Reshape x,s u allowzero=1;"
           "Tanh u y",
           true, 2, 0},
          {"b,12",
           "c = [-1,4]; Shape x b end=1; Concat b,c s axis=0; Reshape x,s u allowzero=1;"
           "Tanh u y",
           true, 2, 0});
}

static void parts_of_images_channels_last(void **state)
{
    (void)state;
    CHECK("nhwc",
          {"1,3,t,9",
           "w : 4,3,3,3; f = [0]; e = [2]; k = [2]; Conv x,w c; Slice c,f,e,k s;"
           "Relu s y",
           true, -1, 0},
          {"1,4,t,9",
           "w : 4,4,1,3; v : 4,1,3,3; f = [1]; e = [99]; k = [-2]; s = [2];"
           "Conv x,w c pads=[0,1,0,1]; Concat x,c z axis=2; Conv z,v d group=4;"
           "Slice d,f,e,k,s y",
           true, -1, 0},
          {"1,4,t,9",
           "w : 4,4,1,3; Conv x,w c pads=[0,1,0,1]; Concat c,x z axis=-1; Tanh z y; -> z", true, -1,
           0},
          {"1,4,t,9",
           "w : 4,4,1,3; f = [1]; e = [3]; k = [1]; Conv x,w c pads=[0,1,0,1];"
           "Slice c,f,e,k s; Sigmoid s y",
           true, -1, 0},
          {"1,4,t,9", "w : 4,4,1,3; Conv x,w c pads=[0,1,0,1]; Concat c,x z axis=1; Tanh z y", true,
           -1, 0},
          {"1,4,t,9", "f = [1]; e = [3]; k = [1]; Slice x,f,e,k s; Concat s,s y axis=2", false, 2,
           0});
}

static void reduced_axes_stay(void **state)
{
    (void)state;
    CHECK("reduce",
          {"t,3,8", "a = [1]; ReduceMean x r axes=[1] keepdims=0; Unsqueeze r,a y", true, 1, 0},
          {"t,3,8", "a = [-1]; ReduceSum x,a r keepdims=0; Unsqueeze r,a y", true, 1, 0},
          {"t,3,8", "ReduceMax x r axes=[-1] keepdims=0; Unsqueeze r y axes=[2]", true, 1, 11},
          {"t,3,8", "a = [0,1]; ReduceMean x r axes=[0,1] keepdims=0; Unsqueeze r,a y", true, 1, 0},
          {"t,3,8", "a = [0]; ReduceMean x r axes=[1] keepdims=0; Unsqueeze r,a y", false, 2, 0},
          {"t,3,8", "a = [1]; ReduceMean x r axes=[1] keepdims=0; Unsqueeze r,a y; -> r", false, 2,
           0});
}

static void log_of_softmax(void **state)
{
    (void)state;
    CHECK("logsoftmax", {"t,8", "Softmax x s axis=-1; Log s y", true, 1, 0},
          {"t,8", "Softmax x s axis=0; Log s y", true, 1, 0},
          {"t,3,8", "Softmax x s axis=1; Log s y", true, 1, 11}, /* axes from 1 on are one */
          {"t,8", "Softmax x s axis=-1; Log s y; -> s", false, 2, 0},
          {"t,8", "Sigmoid x s; Log s y", false, 2, 0});
}

static void joined_and_cut(void **state)
{
    (void)state;
    CHECK("concat", {"t,8", "Neg x a; Concat x,a c axis=1; Concat a,c,x y axis=-1", true, 2, 0},
          {"t,8", "Neg x a; Concat x,a c axis=0; Concat c,c y axis=1", false, 3, 0},
          {"t,8", "Neg x a; Concat x,a c axis=1; Concat c,x y axis=1; -> c", false, 3, 0},
          {"t,8", "Neg x a; Concat x,a c axis=0; Tanh c d; Concat d,c y axis=1", false, 4, 0});
    CHECK("slice",
          {"t,3,8", "f = [1]; e = [9]; a = [1]; b = [2]; Slice x,f,e,a s; Slice s,f,e,b y", true, 1,
           0},
          {"t,3,8",
           "f = [1]; e = [9]; a = [2]; b = [1,0]; g = [-1,1]; h = [-9,3]; k = [-1,1];"
           "Slice x,f,e,a s; Slice s,g,h,b,k y",
           true, 1, 0},
          {"t,3,8", "f = [1]; e = [9]; a = [1]; Slice x,f,e,a s; Slice s,f,e,a y", false, 2, 0},
          {"t,3,8", "f = [1]; e = [9]; a = [1]; b = [2]; Slice x,f,e,a s; Slice s,f,e,b y; -> s",
           false, 2, 0});
}

static void einsum_that_is_a_product(void **state)
{
    (void)state;
    CHECK("einsum", {"t,3,8", "w : 4,8,5; Einsum x,w y equation='bij,bjk->bik'", true, 1, 0},
          {"t,3,8", "Einsum x,x y equation='bid,bjd->bij'", true, -1, 0},
          {"t,3,8", "w : 4,3,5; Einsum x,w y equation='bji,bjk->bik'", true, -1, 0},
          {"t,3,8", "w : 4,5,3; Einsum x,w y equation='bji,bkj->bik'", true, -1, 0},
          {"3,8", "w : 8,5; Einsum x,w y equation='ij,jk->ik'", true, 1, 0},
          {"t,3,8", "Einsum x,x y equation='bij,bij->bij'", false, 1, 0},
          {"t,3,8", "Einsum x,x y equation='bij,bkj->bi'", false, 1, 0},
          {"t,3,8", "Einsum x,x y equation='bij,bkj->bki'", true, -1, 0},
          {"t,3,8", "w : 8,5; Einsum x,w y equation='...j,jk->...k'", true, -1, 0},
          {"t,3,8", "w : 5,8; Einsum w,x y equation='kj,...ij->...ik'", false, -1, 0},
          {"t,3,4,8", "Einsum x,x y equation='bqnd,bknd->bnqk'", true, -1, 0},
          {"t,3,4,4", "w : 1,4,3,4; Einsum x,w y equation='bnqk,bknd->bqnd'", true, -1, 0},
          {"t,3,4,8", "w : 8,4,5; Einsum x,w y equation='btnd,dno->bto'", true, -1, 0},
          {"t,3,8", "w : 8,4,5; Einsum x,w y equation='btd,dno->btno'", true, -1, 0},
          {"t,3,8", "w : 1,5; Einsum x,w y equation='bij,jk->bik'", false, 1, 0},
          {"t,3,8", "w : 8,5; Einsum x,w y equation='bij,jk->kib'", false, 1, 0});
}

static void paddings_go_into_the_operator(void **state)
{
    (void)state;
    CHECK("pad", {"1,2,t", "w : 3,2,3; p = [0,0,1,0,0,2]; Pad x,p e; Conv e,w y", true, 1, 0},
          {"1,2,t", "w : 3,2,3; p = [0,0,1,0,0,2]; Pad x,p e; Conv e,w y pads=[1,0]", true, 1, 0},
          {"1,2,t", "w : 3,2,3; Pad x e pads=[0,0,1,0,0,2]; Conv e,w y", true, 1, 10},
          {"1,2,t,5", "w : 3,2,3,3; p = [0,0,1,0,0,0,2,1]; Pad x,p,zero e; Conv e,w y", true, 3,
           0}, /* two Transposes: channels last */
          {"1,2,t", "w : 3,3,3; p = [0,1,1,0,0,1]; Pad x,p e; Conv e,w y", false, 2, 0},
          {"1,2,t", "w : 3,2,3; p = [0,0,1,0,0,2]; Pad x,p,half e; Conv e,w y", false, 2, 0},
          {"1,2,t", "w : 3,2,3; p = [0,0,1,0,0,2]; Pad x,p e mode='edge'; Conv e,w y", false, 2, 0},
          {"1,2,t", "w : 3,2,3; p = [0,0,1,0,0,2]; Pad x,p e; Conv e,w y; -> e", false, 2, 0},
          {"1,2,t", "w : 3,2,3; p = [0,0,1,0,0,-1]; Pad x,p e; Conv e,w y", false, 2, 0},
          {"1,2,t", "p = [0,0,1,0,0,1]; Pad x,p,inf e; MaxPool e y kernel_shape=[3]", true, 1, 0},
          {"1,2,t", "p = [0,0,1,0,0,1]; Pad x,p e; MaxPool e y kernel_shape=[3]", false, 2, 0},
          {"1,2,t", "p = [0,0,1,0,0,1]; Pad x,p e; AveragePool e y kernel_shape=[3]", true, 1, 0},
          {"1,2,t", "p = [0,0,1,0,0,1]; Pad x,p e; AveragePool e y kernel_shape=[3] pads=[1,1]",
           false, 2, 0},
          /* a window within the paddings */
          {"1,2,t", "p = [0,0,3,0,0,1]; Pad x,p e; AveragePool e y kernel_shape=[3]", false, 2, 0},
          {"1,2,t", "p = [0,0,1,0,0,3]; Pad x,p,inf e; MaxPool e y kernel_shape=[3]", false, 2, 0});
}

static void channels_take_factors_and_summands(void **state)
{
#define BN "s : 3; b : 3; m : 3; q : 3; Abs q r; Add r,eps v;"
    (void)state;
    CHECK(
        "affine", {"2,2,t", BN "w : 3,2,3; Conv x,w c; BatchNormalization c,s,b,m,v y", true, 1, 0},
        {"2,2,t", BN "w : 3,2,3; k : 3; Conv x,w,k c; BatchNormalization c,s,b,m,v d; Relu d y",
         true, 1, 0},
        {"2,4,t", BN "w : 4,3,3; ConvTranspose x,w c; BatchNormalization c,s,b,m,v y", true, 1, 0},
        {"2,4,t",
         "s : 6; b : 6; m : 6; q : 6; Abs q r; Add r,eps v; w : 4,3,3;"
         "ConvTranspose x,w c group=2; BatchNormalization c,s,b,m,v y",
         true, 1, 0},
        {"t,8", BN "w : 8,3; Gemm x,w c; BatchNormalization c,s,b,m,v y", true, 1, 0},
        {"t,8",
         BN "w : 3,8; k : 3; Gemm x,w,k c transB=1 alpha=0.5; BatchNormalization c,s,b,m,v y", true,
         1, 0},
        {"2,2,t", "w : 3,2,3; k : 3,1; Conv x,w c; Add c,k y", true, 1, 0},
        {"2,2,t", "w : 3,2,3; k : 1,3,1; Conv x,w c; Mul k,c d; Sub half,d y", true, 1, 0},
        {"2,2,t", "w : 3,2,3; k : 3,1; Conv x,w c; Sub c,k d; Div d,two y", true, 1, 0},
        {"2,2,t,3", "w : 4,1,2,3; k : 4,1,1; Conv x,w c group=2; Add c,k y", true, 1, 0},
        {"2,t,8", "w : 8,5; k : 5; MatMul x,w c; Mul c,k y", true, 1, 0},
        /* near misses */
        {"2,2,t", "w : 3,2,3; k : 2; Conv x,w c; Add c,k y", false, 2, 0}, /* along time */
        {"2,2,t", "w : 3,2,3; Conv x,w c; Add c,c y", false, 2, 0},
        {"2,2,t", "w : 3,2,3; k : 3,1; Conv x,w c; Add c,k y; -> c", false, 2, 0},
        {"2,2,t", "w : 3,2,3; k : 2,1,3,1; Conv x,w c; Add c,k y", false, 2, 0},
        {"2,2,t", "w : 3,2,3; Conv x,w c; Div two,c y", false, 2, 0},
        {"2,2,t", "w : 3,2,3; k : 3,1; Relu x z; Conv x,w c; Conv z,w d; Add c,k e; Add e,d y",
         false, -1, 0},
        {"2,3,8", BN "w : 8,3; MatMul x,w c; BatchNormalization c,s,b,m,v y", false, 2, 0},
        /* a product without a bias */
        {"t,8", BN "w : 8,3; MatMul x,w c; BatchNormalization c,s,b,m,v y", false, 2, 0},
        /* beta would halve the summand; pass linear takes it */
        {"t,8", "w : 8,3; k : 3; Gemm x,w c beta=0.5; Add c,k y", false, 1, 0},
        /* the second factor would make weights infinite */
        {"2,2,t",
         "tiny = 1e-30; big = 3e38; w : 3,2,3; Mul x,tiny z; Conv z,w c; Mul c,big d; Mul d,six y",
         true, 3, 0});
}

static void every_activation_of_a_convolution(void **state)
{
#define CONV "w : 3,2,3; b : 3; Conv x,w,b c;"
    (void)state;
    CHECK("convact", {"1,2,t", CONV "Relu c y", true, 1, 0}, {"1,2,t", CONV "Tanh c y", true, 1, 0},
          {"1,2,t", CONV "Sigmoid c s; Mul c,s y", true, 1, 0},
          {"1,2,t", CONV "LeakyRelu c y alpha=0.3", true, 1, 0},
          {"1,2,t", CONV "Elu c y", true, 1, 0}, {"1,2,t", CONV "Softplus c y", true, 1, 0},
          {"1,2,t", CONV "Softsign c y", true, 1, 0},
          {"1,2,t", CONV "HardSigmoid c y beta=0.4", true, 1, 0},
          {"1,2,t", CONV "ThresholdedRelu c y alpha=0.1", true, 1, 0},
          {"1,2,t", CONV "Clip c,zero,half y", true, 1, 0},
          {"1,2,t", CONV "Clip c,zero y", true, 1, 0},
          {"1,2,t", CONV "Clip c y min=0.0 max=6.0", true, 1, 10},
          {"1,2,t", CONV "HardSwish c y", true, 1, 14},
          {"1,2,t", CONV "Softmax c y axis=1", false, 2, 0},
          {"1,2,t", CONV "ReduceMax x m axes=[0,1,2] keepdims=0; Clip c,zero,m y", false, 3, 0},
          {"1,2,t", CONV "Relu c y; -> c", false, 2, 0});
}

static void layernorm_in_every_spelling(void **state)
{
#define AFFINE "g : 8; b : 8;"
    (void)state;
    CHECK(
        "layernorm",
        {"t,3,8",
         AFFINE "ReduceMean x m axes=[-1]; Sub x,m d; Pow d,two q; ReduceMean q v axes=[2];"
                "Add v,eps u; Sqrt u s; Div d,s n; Mul n,g k; Add k,b y",
         true, 1, 0},
        /* two differences, products, no shift, no scale */
        {"t,3,8",
         "ReduceMean x m axes=[-1]; Sub x,m d; Sub x,m e; Mul d,d q;"
         "ReduceMean q v axes=[-1]; Add eps,v u; Sqrt u s; Div e,s y",
         true, 1, 0},
        /* 1 / Sqrt */
        {"t,3,8",
         AFFINE "ReduceMean x m axes=[-1]; Sub x,m d; Mul d,d q; ReduceMean q v axes=[-1];"
                "Add v,eps u; Sqrt u s; Reciprocal s r; Mul d,r n; Mul g,n k; Add b,k y",
         true, 1, 0},
        {"t,3,8",
         "h = -0.5;" AFFINE "ReduceMean x m axes=[-1]; Sub x,m d; Mul d,d q;"
         "ReduceMean q v axes=[-1]; Add v,eps u; Pow u,h r; Mul d,r n; Mul g,n k; Add b,k y",
         true, 1, 0},
        /* Keras: x * (r gamma) + (beta - mean * (r gamma)) */
        {"t,3,8",
         AFFINE "ReduceMean x m axes=[-1]; Sub x,m d; Mul d,d q; ReduceMean q v axes=[-1];"
                "Add v,eps u; Sqrt u s; Reciprocal s r; Mul r,g w; Mul x,w a; Mul m,w c;"
                "Sub b,c e; Add a,e y",
         true, 1, 0},
        /* mean of the squares minus square of the mean; sums */
        {"t,3,8",
         "n8 = 8; ax = [-1]; ReduceSum x,ax a; Div a,n8 m; Mul x,x q; ReduceSum q,ax b2;"
         "Div b2,n8 e; Mul m,m mm; Sub e,mm v; Add v,eps u; Sqrt u s; Sub x,m d; Div d,s y",
         true, 1, 0},
        /* a scale after the operator goes into it */
        {"t,3,8", AFFINE "c : 8; LayerNormalization x,g,b n; Mul n,c k; Add k,half y", true, 1, 17},
        /* near misses */
        {"t,3,8",
         "ReduceMean x m axes=[1]; Sub x,m d; Mul d,d q; ReduceMean q v axes=[1];"
         "Add v,eps u; Sqrt u s; Div d,s y",
         false, 7, 0},
        {"t,3,8",
         "ReduceMean x m axes=[-1]; Sub x,m d; Abs d q; ReduceMean q v axes=[-1];"
         "Add v,eps u; Sqrt u s; Div d,s y",
         false, 7, 0},
        {"t,3,8",
         "ReduceMean x m axes=[-1]; Sub x,m d; Mul d,d q; ReduceMean q v axes=[-1];"
         "Add v,eps u; Sqrt u s; Div x,s y",
         false, 7, 0},
        {"t,3,8",
         "ReduceMean x m axes=[-1]; Sub x,m d; Mul d,d q; ReduceMean q v axes=[-1];"
         "Add v,eps u; Sqrt u s; Div d,s y; -> s",
         false, 7, 0},
        {"t,3,8",
         "ReduceMean x m axes=[-1]; Sub x,m d; Mul d,d q; ReduceMean q v axes=[-1];"
         "Sqrt v s; Add s,eps u; Div d,u y",
         false, 7, 0});
}

/* A piecewise operator is not part of a normalisation, wherever it stands and however far its
 * limits are from usual rows. Only the arithmetic after or before it may fuse. */
static void a_capped_normalisation_stays(void **state)
{
#define MEAN "ReduceMean x m axes=[-1]; Sub x,m d;"
#define VARIANCE "Mul d,d q; ReduceMean q v axes=[-1];"
#define LIMITS "lo = -1e6; hi = 1e6; floor = 1e-9;"
    (void)state;
    CHECK(
        "layernorm",
        /* of the capped deviation: RMSNormalization */
        {"t,3,8",
         LIMITS MEAN "Clip d,lo,hi c; Mul c,c q; ReduceMean q v axes=[-1];"
                     "Add v,eps u; Sqrt u s; Div c,s y",
         false, 4, 0},
        {"t,3,8", LIMITS MEAN VARIANCE "Min v,hi c; Add c,eps u; Sqrt u s; Div d,s y", false, 8, 0},
        {"t,3,8", LIMITS MEAN VARIANCE "Max v,floor c; Add c,eps u; Sqrt u s; Div d,s y", false, 8,
         0},
        {"t,3,8", LIMITS MEAN VARIANCE "Add v,eps u; Max u,floor c; Sqrt c s; Div d,s y", false, 8,
         0},
        {"t,3,8", LIMITS MEAN VARIANCE "Add v,eps u; Sqrt u s; Min s,hi c; Div d,c y", false, 8, 0},
        {"t,3,8", MEAN VARIANCE "Relu v r; Add r,eps u; Sqrt u s; Div d,s y", false, 8, 0},
        {"t,3,8", MEAN VARIANCE "Abs v r; Add r,eps u; Sqrt u s; Div d,s y", false, 8, 0},
        {"t,3,8",
         AFFINE LIMITS MEAN VARIANCE "Add v,eps u; Sqrt u s; Div d,s n; Clip n,lo,hi c;"
                                     "Mul c,g k; Add k,b y",
         true, 4, 0},
        {"t,3,8",
         AFFINE LIMITS MEAN VARIANCE "Add v,eps u; Sqrt u s; Div d,s n; Mul n,g k;"
                                     "Add k,b o; Clip o,lo,hi y",
         true, 2, 0},
        {"t,3,8",
         LIMITS "Clip x,lo,hi z; ReduceMean z m axes=[-1]; Sub z,m d;" VARIANCE
                "Add v,eps u; Sqrt u s; Div d,s y",
         true, 2, 0},
        /* the mean of (d + e)^2 is the variance + e^2 */
        {"t,3,8",
         MEAN "Add d,eps e; Mul e,e q; ReduceMean q v axes=[-1]; Add v,eps u; Sqrt u s;"
              "Div d,s y",
         true, 1, 0},
        /* the deviation alone: RMSNormalization */
        {"t,3,8", MEAN VARIANCE "Add v,eps u; Sqrt u s; Div d,s n; Add n,m y", false, 4, 0},
        {"t,3,8",
         "n9 = 9; ax = [-1]; ReduceSum x,ax a; Div a,n9 m; Sub x,m d;" VARIANCE
         "Add v,eps u; Sqrt u s; Div d,s y",
         false, 4, 0},
        {"t,3,8",
         AFFINE MEAN "Mul d,g e; Mul e,e q; ReduceMean q v axes=[-1]; Add v,eps u;"
                     "Sqrt u s; Div e,s y",
         false, 4, 0},
        {"t,3,8", MEAN VARIANCE "Sub v,eps u; Sqrt u s; Div d,s y", false, 7, 0},
        /* without eps a constant row is NaN */
        {"t,3,8", MEAN VARIANCE "Sqrt v s; Div d,s y", false, 6, 0},
        /* an output of the inside; a factor by row and not by column; a factor that makes four
         * axes of three */
        {"t,3,8", MEAN VARIANCE "Add v,eps u; Sqrt u s; Div d,s y; -> v", false, 7, 0},
        {"t,3,8", "r : 3,1;" MEAN VARIANCE "Add v,eps u; Sqrt u s; Div d,s n; Mul n,r y", true, 2,
         0},
        {"t,3,8", "r : 2,1,1,8;" MEAN VARIANCE "Add v,eps u; Sqrt u s; Div d,s n; Mul n,r y", true,
         2, 0});
}

static void sums_with_another_divisor_are_a_scale(void **state)
{
    (void)state; /* the variance of a sample: n - 1 */
    CHECK("layernorm", {"t,3,8",
                        "n7 = 7; ax = [-1];" MEAN "Mul d,d q; ReduceSum q,ax w; Div w,n7 v;"
                        "Add v,eps u; Sqrt u s; Div d,s y",
                        true, 1, 0});
}

static void rmsnorm_in_every_spelling(void **state)
{
    (void)state;
    CHECK("rmsnorm",
          {"t,3,8",
           AFFINE "Mul x,x q; ReduceMean q v axes=[-1]; Add v,eps u; Sqrt u s; Div x,s n;"
                  "Mul n,g y",
           true, 1, 0},
          {"t,3,8",
           AFFINE "Pow x,two q; ReduceMean q v axes=[-1]; Add v,eps u; Sqrt u s; Div one,s r;"
                  "Mul x,r n; Mul g,n y",
           true, 1, 0},
          {"t,3,8",
           "h = -0.5; Pow x,two q; ReduceMean q v axes=[-1]; Add v,eps u; Pow u,h r;"
           "Mul x,r y",
           true, 1, 0},
          {"t,3,8",
           AFFINE "Pow x,two q; ReduceMean q v axes=[-1]; Add v,eps u; Sqrt u s; Div x,s n;"
                  "Mul n,g k; Add k,b y",
           true, 2, 0}, /* the operator has no shift: the addition stays */
          {"t,3,8", "Pow x,two q; ReduceMean q v axes=[1]; Add v,eps u; Sqrt u s; Div x,s y", false,
           5, 0},
          {"t,3,8",
           "Exp x z; Pow x,two q; ReduceMean q v axes=[-1]; Add v,eps u; Sqrt u s; Div z,s y",
           false, 6, 0},
          {"t,3,8",
           LIMITS "Pow x,two q; ReduceMean q v axes=[-1]; Min v,hi c; Add c,eps u; Sqrt u s;"
                  "Div x,s y",
           false, 6, 0},
          {"t,3,8",
           LIMITS "Pow x,two q; ReduceMean q v axes=[-1]; Add v,eps u; Sqrt u s; Div x,s n;"
                  "Clip n,lo,hi y",
           true, 2, 0},
          {"t,3,8",
           LIMITS "Pow x,two q; Clip q,floor p; ReduceMean p v axes=[-1]; Add v,eps u; Sqrt u s;"
                  "Div x,s y",
           false, 6, 0},
          {"t,3,8",
           "three = 3; Pow x,three q; ReduceMean q v axes=[-1]; Add v,eps u; Sqrt u s; Div x,s y",
           false, 5, 0},
          {"t,3,8",
           "Pow x,two q; ReduceMean q v axes=[-1]; Add v,eps u; Sqrt u s; Div x,s n; Add n,half y",
           true, 2, 0});
}

static void gemm_is_a_linear(void **state)
{
    (void)state;
    CHECK("linear", {"t,8", "w : 8,5; b : 5; Gemm x,w,b y alpha=0.5", true, 1, 0},
          {"t,8", "w : 5,8; b : 5; Gemm x,w,b c transB=1; Relu c y", true, 1, 0},
          {"t,8", "w : 5,8; Gemm x,w c transB=1; Tanh c y", true, 1, 0},
          {"t,8", "w : 8,5; b : 5; MatMul x,w c; Add c,b d; Div d,two e; Gelu d y", true, -1, 20},
          {"t,8", "w : 8,5; b : 5; MatMul x,w c; Add c,b d; Gelu d y", true, 1, 20},
          {"t,8", "w : 8,5; MatMul x,w c; Gelu c y approximate='tanh'", true, 2, 20},
          {"t,8", "w : 8,5; b : 5; Gemm x,w,b y beta=0.5", false, 1, 0},
          {"8,t", "w : 8,5; Gemm x,w y transA=1", false, 1, 0});
}

static void bias_and_gelu(void **state)
{
    (void)state;
    CHECK("biasgelu", {"t,3,8", "b : 8; Add x,b a; Gelu a y", true, 1, 20},
          {"t,3,8", "b : 8; Add b,x a; Gelu a y approximate='tanh'", true, 1, 20},
          {"t,3,8", "b : 3,1; Add b,x a; Gelu a y", false, 2, 20},
          {"t,3,8", "b : 8; Add b,x a; Gelu a y; -> a", false, 2, 20});
}

static void sum_and_norm(void **state)
{
    (void)state;
    CHECK(
        "skipnorm",
        {"t,3,8", AFFINE "Tanh x z; Add x,z s; LayerNormalization s,g,b y", true, 2, 17},
        {"t,3,8", AFFINE "Tanh x z; Add x,z s; LayerNormalization s,g,b n; Add n,s y", true, 3, 17},
        {"t,3,8", "g : 8; Tanh x z; Add x,z s; RMSNormalization s,g y; -> s", true, 2, 23},
        {"t,3,8", AFFINE "k : 1,3,8; Add x,k s; LayerNormalization s,g,b y", false, 2, 17},
        {"t,3,8", "g : 3,8; Tanh x z; Add x,z s; LayerNormalization s,g y axis=1", false, 3, 17});
}

static void transposed_and_scaled_products(void **state)
{
    (void)state;
    CHECK("matmul", {"t,3,8", "Transpose x u perm=[0,2,1]; MatMul x,u p; Mul p,half y", true, 1, 0},
          {"t,3,8", "Transpose x u perm=[0,2,1]; MatMul u,x p; Div p,six y", true, 1, 0},
          {"t,3,3", "MatMul x,x p; Mul half,p y", true, 1, 0},
          {"t,8,4", "Transpose x u perm=[1,0,2]; MatMul u,u y", false, 2, 0},
          {"t,3,3", "MatMul x,x p; Mul zero,p y", false, 2, 0},
          {"t,3,8", "Transpose x u perm=[0,2,1]; MatMul x,u y; -> u", false, 2, 0});
}

/* ids are [t, 3]; pos is the same for every row or differs. */
static void sum_of_embeddings(void **state)
{
#define TABLES "w : 5,8; p : 4,8; k : 3,8; g : 8; b : 8; Gather w,ids e;"
    static const char *const text[] = {
        TABLES
        "Gather p,pos f; Gather k,ids q; Add e,q s; Add s,f u; LayerNormalization u,g,b y; -> y",
        TABLES "Gather p,pos f; Add f,e u; LayerNormalization u,g,b y; -> y",
        TABLES
        "Gather p,ids f; Gather k,ids q; Add q,f s; Add s,e u; LayerNormalization u,g,b y; -> y",
        /* near misses: the sum is a graph output; no shift; a summand that does not come from a
         * table */
        TABLES "Gather p,pos f; Add f,e u; LayerNormalization u,g,b y; -> u; -> y",
        TABLES "Gather p,pos f; Add f,e u; LayerNormalization u,g y; -> y",
        TABLES "Tanh e f; Add f,e u; LayerNormalization u,g,b y; -> y"};
    (void)state;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        struct mk_graph *m = pc_start(17, "1");
        mk_input(m, "ids", STENO_I64, "t,3");
        mk_input(m, "pos", STENO_I64, "1,3");
        pc.context = text[i];
        pc_graph(m, text[i]);
        pc_check(m, "embed", i < 3, i < 3 ? 1 : -1, 5e-6f);
        pc.context = NULL;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeated_operators_disappear),
        cmocka_unit_test(operators_without_effect_disappear),
        cmocka_unit_test(attributes_become_inputs),
        cmocka_unit_test(gates_of_every_kind),
        cmocka_unit_test(transposed_factors_of_gemm),
        cmocka_unit_test(last_axes_exchanged_while_others_are_joined),
        cmocka_unit_test(targets_that_take_zeros_literally),
        cmocka_unit_test(parts_of_images_channels_last),
        cmocka_unit_test(reduced_axes_stay),
        cmocka_unit_test(log_of_softmax),
        cmocka_unit_test(joined_and_cut),
        cmocka_unit_test(einsum_that_is_a_product),
        cmocka_unit_test(paddings_go_into_the_operator),
        cmocka_unit_test(channels_take_factors_and_summands),
        cmocka_unit_test(every_activation_of_a_convolution),
        cmocka_unit_test(layernorm_in_every_spelling),
        cmocka_unit_test(a_capped_normalisation_stays),
        cmocka_unit_test(sums_with_another_divisor_are_a_scale),
        cmocka_unit_test(rmsnorm_in_every_spelling),
        cmocka_unit_test(gemm_is_a_linear),
        cmocka_unit_test(bias_and_gelu),
        cmocka_unit_test(sum_and_norm),
        cmocka_unit_test(transposed_and_scaled_products),
        cmocka_unit_test(sum_of_embeddings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
