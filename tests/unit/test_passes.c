/* Every pass on a graph with its pattern (fewer nodes, the same outputs) and on near misses
 * (nothing changes). The reference is the same graph with all passes off. */

#include "nn/passes/passes.h"
#include "nn/rare_ops/rare_ops.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#define C 8
#define c_data pc.w

static struct mk_graph *start(void)
{
    return pc_start(17, "b,3,8");
}

static void check(struct mk_graph *m, const char *pass, bool hits, int left)
{
    pc_check(m, pass, hits, left, 1e-5f);
}

/* ---- eliminations ---- */

static void identity_goes(void **state)
{
    static const float zero = 0, one = 1;
    static const int64_t pads[6] = {0};
    struct mk_graph *m = start();
    (void)state;
    mk_f32(m, "zero", "", &zero, 1);
    mk_f32(m, "one", "", &one, 1);
    mk_i64(m, "pads", "6", pads, 6);
    pc_graph(m, "Identity x a; Dropout a b; Add b,zero c; Mul one,c d; "
                "Transpose d e perm=[0,1,2]; Pad e,pads f; Cast f g");
    mk_attr_int(m, "to", STENO_F32);
    pc_graph(m, "Exp g h; Identity h y; -> y");
    check(m, "identity", true, 1);
}

/* Adding a scalar 0 keeps any shape, known or not. An integer times 0 is 0. */
static void zero_where_the_shape_is_not_known(void **state)
{
    static const float zero = 0, much = 1e6f;
    static const int64_t flat[1] = {-1}, none = 0, nones[3] = {0};
    struct mk_graph *m = start(), *yes = mk_body(m), *no = mk_body(m);
    (void)state;
    mk_f32(m, "zero", "", &zero, 1);
    mk_f32(m, "much", "", &much, 1);
    mk_i64(m, "flat", "1", flat, 1);
    mk_i64(m, "none", "", &none, 1);
    mk_i64(m, "nones", "3", nones, 3);
    pc_graph(m, "ReduceMax x max keepdims=0; Less max,much cond");
    pc_graph(yes, "Reshape x,flat row; -> row");
    pc_graph(no, "Neg x minus; -> minus");
    mk_if(m, "cond", "some", yes, no);
    pc_graph(m, "Add some,zero same; Exp same y; Shape x shape");
    mk_node(m, "Mul", "shape,nones", "z"); /* disappears, and Shape with it */
    pc_graph(m, "Size x size; Mul none,size nothing; Add z,nothing w; Cast w v");
    mk_attr_int(m, "to", STENO_F32);
    pc_graph(m, "-> y; -> v");
    check(m, "identity", true, 6);
}

static void identity_keeps_what_changes_something(void **state)
{
    static const float zeros[C] = {0};
    static const int64_t perm[3] = {0, 2, 1}, from[1] = {-1}, to[1] = {-100}, axis[1] = {2},
                         step[1] = {-1};
    struct mk_graph *m = start();
    (void)state;
    mk_f32(m, "wide", "1,1,1,8", zeros, C);
    mk_i64(m, "from", "1", from, 1);
    mk_i64(m, "to", "1", to, 1);
    mk_i64(m, "axis", "1", axis, 1);
    mk_i64(m, "step", "1", step, 1);
    mk_node(m, "Slice", "x,from,to,axis,step", "reversed"); /* the same shape in reverse order */
    mk_node(m, "Transpose", "reversed", "t");
    mk_attr_ints(m, "perm", perm, 3);
    mk_node(m, "Add", "x,wide", "y"); /* adds 0 but raises the rank */
    mk_node(m, "Identity", "x", "z"); /* an input that is an output keeps its node */
    pc_graph(m, "-> y; -> z; -> t");
    check(m, "identity", false, 4);
}

static void dead_nodes_go(void **state)
{
    struct mk_graph *m = start();
    (void)state;
    pc_graph(m, "Exp x y; Neg x a; Neg a b; -> y");
    check(m, "dead", true, 1);
}

static void constants_fold(void **state)
{
    struct mk_graph *m = start();
    (void)state;
    mk_f32(m, "w", "8", c_data, C);
    pc_graph(m, "Exp w e; Mul e,w f; Add x,f y; -> y; -> f");
    check(m, "fold", true, 1);
}

static void random_numbers_are_not_folded_or_merged(void **state)
{
    static const int64_t shape[2] = {2, 2};
    struct mk_graph *m = mk_new(17);
    steno_network *n;
    size_t size;
    uint8_t *file;
    (void)state;
    mk_node(m, "RandomNormal", "", "a");
    mk_attr_ints(m, "shape", shape, 2);
    mk_node(m, "RandomNormal", "", "b");
    mk_attr_ints(m, "shape", shape, 2);
    pc_graph(m, "Sub a,b y; -> y");
    file = mk_bytes(m, &size);
    mk_free(m);
    steno_rare_ops_add();
    n = pc_open(file, size, 3, NULL, NULL);
    assert_int_equal(steno_graph_count_nodes(steno_network_graph(n)), 3);
    steno_network_close(n);
    free(file);
}

static void an_if_with_a_constant_condition_is_inlined(void **state)
{
    (void)state;
    for (int cond = 0; cond < 2; cond++) {
        struct mk_graph *m = start(), *then = mk_body(m), *other = mk_body(m), *deep = mk_body(m);
        static uint8_t flags[2] = {0, 1};
        Onnx__Tensor *t = mk_tensor(m, "c", STENO_BOOL, "");
        t->raw_data.data = &flags[cond];
        t->raw_data.len = 1;
        mk_input(m, "z", STENO_F32, "1");
        mk_node(m, "Exp", "x", "e");
        mk_node(deep, "Neg", "t", "dy"); /* captures from the outer branch */
        mk_output(deep, "dy", STENO_F32, NULL);
        pc_graph(then, "Exp e t; Greater z,z g");
        mk_if(then, "g", "u", deep, deep);
        pc_graph(then, "-> t; -> u");
        pc_graph(other, "Neg e s; -> s");
        mk_output(other, "s", STENO_F32, NULL); /* one value as two outputs */
        mk_if(m, "c", "y1,y2", then, other);
        pc_graph(m, "-> y1; -> y2");
        check(m, "if", true, -1);
    }
}

static void equal_constants_become_one(void **state)
{
    struct mk_graph *m = start();
    size_t size;
    uint8_t *file;
    steno_network *n;
    static float big[2000];
    (void)state;
    for (int i = 0; i < 2000; i++)
        big[i] = (float)i;
    mk_f32(m, "a", "2000", big, 2000);
    mk_f32(m, "b", "2000", big, 2000);
    mk_f32(m, "other_shape", "1,2000", big, 2000);
    mk_input(m, "i", STENO_F32, "1");
    pc_graph(m, "Mul i,a p; Sub p,b q; Add q,other_shape y; -> y");
    file = mk_bytes(m, &size);
    n = pc_open(file, size, 1, NULL, NULL);
    assert_int_equal(steno_network_weight_bytes(n), 2 * 8000);
    steno_network_close(n);
    free(file);
    check(m, "constants", true, 3);
}

static void equal_nodes_become_one(void **state)
{
    struct mk_graph *m = start();
    (void)state;
    pc_graph(m, "Softmax x a axis=1; Softmax x b axis=1");
    mk_node(m, "Softmax", "x", "c"); /* a different axis */
    mk_attr_int(m, "axis", 2);
    pc_graph(m, "Sub a,b d; Add d,c y; -> y");
    check(m, "cse", true, 4);
}

/* ---- fusions ---- */

static void swish_is_found(void **state)
{
    struct mk_graph *m = start();
    (void)state;
    pc_graph(m, "Sigmoid x s; Mul s,x y; -> y");
    check(m, "swish", true, 1);
    m = start();
    pc_graph(m, "Sigmoid x s; Mul s,x y; -> y");
    mk_output(m, "s", STENO_F32, NULL); /* the gate is an output too */
    check(m, "swish", false, 2);
    m = start();
    pc_graph(m, "Exp x e; Sigmoid x s");
    mk_node(m, "Mul", "s,e", "y"); /* gates a different value */
    mk_output(m, "y", STENO_F32, NULL);
    check(m, "swish", false, 3);
}

static void glu_is_found(void **state)
{
    (void)state;
    for (int miss = 0; miss < 3; miss++) {
        static const int64_t even[2] = {4, 4};
        struct mk_graph *m = start();
        mk_i64(m, "parts", "2", even, 2);
        mk_node(m, "Split", "x,parts", "a,b");
        mk_attr_int(m, "axis", -1);
        mk_node(m, "Sigmoid", miss == 1 ? "a" : "b", "s"); /* the first half is the gate */
        mk_node(m, "Mul", miss == 1 ? "s,b" : "a,s", "y");
        mk_output(m, "y", STENO_F32, NULL);
        if (miss == 2)
            mk_output(m, "a", STENO_F32, NULL);
        check(m, "glu", miss < 2, miss < 2 ? 1 : 3);
    }
}

static void layernorm_is_found(void **state)
{
    static const float eps = 1e-5f, two = 2, three = 3;
    (void)state;
    for (int variant = 0; variant < 5; variant++) {
        static const int64_t last[1] = {-1}, middle[1] = {1};
        struct mk_graph *m = start();
        bool wrong = variant >= 3;
        mk_f32(m, "eps", "", &eps, 1);
        mk_f32(m, "two", "", variant == 3 ? &three : &two, 1);
        mk_f32(m, "gamma", "8", c_data, C);
        mk_f32(m, "beta", "8", c_data + C, C);
        mk_node(m, "ReduceMean", "x", "m");
        mk_attr_ints(m, "axes", variant == 4 ? middle : last, 1);
        mk_node(m, "Sub", "x,m", "d");
        if (variant == 1)
            mk_node(m, "Mul", "d,d", "sq");
        else
            mk_node(m, "Pow", variant == 3 ? "d2,two" : "d,two", "sq");
        if (variant == 3)
            mk_node(m, "Abs", "d", "d2");
        mk_node(m, "ReduceMean", "sq", "v");
        mk_attr_ints(m, "axes", variant == 4 ? middle : last, 1);
        mk_node(m, "Add", variant == 2 ? "eps,v" : "v,eps", "ve");
        pc_graph(m, "Sqrt ve sd; Div d,sd n");
        mk_node(m, "Mul", variant == 2 ? "gamma,n" : "n,gamma", "g");
        pc_graph(m, "Add g,beta y; -> y");
        check(m, "layernorm", !wrong, wrong ? -1 : 1);
    }
}

static void linear_takes_bias_activation_scale_and_residual(void **state)
{
    static const float half = 0.5f;
    struct mk_graph *m = start();
    (void)state;
    mk_f32(m, "w", "8,8", c_data, C * C);
    mk_f32(m, "b", "8", c_data + 5, C);
    mk_f32(m, "half", "", &half, 1);
    pc_graph(m, "MatMul x,w p; Add b,p q; Sigmoid q s");
    mk_node(m, "Mul", "q,s", "r"); /* swish */
    pc_graph(m, "MatMul r,w t; Add t,b u; Mul u,half v");
    mk_node(m, "Add", "x,v", "y"); /* residual */
    mk_output(m, "y", STENO_F32, NULL);
    check(m, "linear", true, 2);
}

/* The batch stays the same symbol through Shape, Slice, Concat, Reshape and back, so the
 * residual is known to have the right shape. */
static void symbols_travel_through_shape_arithmetic(void **state)
{
    static const int64_t zero[1] = {0}, one[1] = {1}, minus[1] = {-1}, flat[3] = {-1, 3, 8};
    struct mk_graph *m = start();
    (void)state;
    mk_f32(m, "w", "8,8", c_data, C * C);
    mk_i64(m, "zero", "1", zero, 1);
    mk_i64(m, "one", "1", one, 1);
    mk_i64(m, "minus", "1", minus, 1);
    mk_i64(m, "flat", "3", flat, 3);
    pc_graph(m, "Shape x s; Slice s,zero,one,zero n; Concat n,minus target axis=0");
    mk_node(m, "Reshape", "x,target", "rows"); /* [b, 24] */
    mk_node(m, "Exp", "rows", "e");
    mk_node(m, "Reshape", "e,flat", "back"); /* [b, 3, 8] */
    pc_graph(m, "MatMul x,w p; Add p,back y; -> y");
    check(m, "linear", true, 4); /* without the symbol 5, because the addition stays */
}

static void every_activation_of_linear(void **state)
{
    static const char *const acts[] = {"Relu", "Sigmoid", "Tanh"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct mk_graph *m = start();
        mk_f32(m, "w", "8,8", c_data, C * C);
        mk_node(m, "MatMul", "x,w", "p");
        mk_node(m, acts[i], "p", "y");
        mk_output(m, "y", STENO_F32, NULL);
        check(m, "linear", true, 1);
    }
}

static void linear_leaves_near_misses(void **state)
{
    struct mk_graph *m = start();
    (void)state;
    mk_f32(m, "w", "8,8", c_data, C * C);
    mk_f32(m, "wide", "2,1,1,8", c_data, 2 * C); /* makes the result larger */
    mk_f32(m, "b", "8", c_data + 5, C);
    pc_graph(m, "MatMul x,w p; Add p,wide y1");
    mk_node(m, "MatMul", "x,w", "q"); /* merged with p */
    mk_node(m, "Relu", "q", "y2");    /* so p has two readers */
    mk_node(m, "MatMul", "x,x2", "y3");
    mk_node(m, "Transpose", "x", "x2"); /* x2 is not constant */
    mk_attr_ints(m, "perm", (int64_t[]){0, 2, 1}, 3);
    pc_graph(m, "-> y1; -> y2; -> y3");
    check(m, "linear", true, 4); /* the Transpose is fused into its product */
}

static void depthwise_convolution_keeps_time_slow(void **state)
{
    (void)state;
    for (int miss = 0; miss < 4; miss++) {
        static const int64_t swap[3] = {0, 2, 1}, one[1] = {1}, two[1] = {2}, pads[2] = {1, 1};
        struct mk_graph *m = start();
        mk_f32(m, "w", miss == 2 ? "8,2,2" : "8,1,2", c_data, miss == 2 ? 4 * C : 2 * C);
        mk_f32(m, "b", "8", c_data + 3, C);
        mk_node(m, "Transpose", "x", "t");
        mk_attr_ints(m, "perm", swap, 3);
        mk_node(m, "Conv", "t,w,b", "c");
        mk_attr_int(m, "group", miss == 2 ? 4 : C);
        mk_attr_ints(m, "strides", miss == 1 ? two : one, 1);
        if (miss == 3)
            mk_attr_ints(m, "pads", pads, 2);
        mk_node(m, "Transpose", "c", "y");
        mk_attr_ints(m, "perm", swap, 3);
        mk_output(m, "y", STENO_F32, NULL);
        check(m, "depthwise", miss == 0 || miss == 3, miss == 0 || miss == 3 ? 1 : 3);
    }
}

static void unknown_pass_names_are_refused(void **state)
{
    struct mk_graph *m = start();
    struct steno_network_options opt = {.opt_level = 3, .disable_passes = "fold,nonesuch"};
    steno_network *n = NULL;
    steno_err err = {0};
    size_t size;
    uint8_t *file;
    (void)state;
    pc_graph(m, "Exp x y; -> y");
    file = mk_bytes(m, &size);
    mk_free(m);
    assert_int_equal(steno_network_open_memory(&n, file, size, "t", &opt, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "nonesuch"));
    free(file);
}

/* Passes read an operator's required inputs and attributes without checks. A file without them
 * is refused by name before any pass runs. */
static void nodes_without_required_inputs_are_refused(void **state)
{
    static const struct {
        const char *text, *lacks; /* the part of the message; NULL: the file is accepted */
    } cases[] = {
        {"w : 4,3,1; Conv x,w y; -> y", NULL},
        {"Conv x y; -> y", "Conv requires input 1"},
        {"Conv x, y; -> y", "Conv requires input 1"},
        {"w : 4,3,1; Conv ,w y; -> y", "Conv requires input 0"},
        {"w : 8,2; MatMul x,w y; -> y", NULL},
        {"MatMul x, y; -> y", "MatMul requires input 1"},
        {"w : 8,2; Gemm ,w y; -> y", "Gemm requires input 0"},
        {"Concat x,x y axis=1; -> y", NULL},
        {"Concat x,,x y axis=1; -> y", "Concat requires input 1"},
        {"Clip x,, y; -> y", NULL},
        {"Slice x y; -> y", "Slice requires input 1"},
        {"k = [1]; TopK x,k ,i; Cast i y to=1; -> y", "TopK requires output 0"},
        {"LayerNormalization x y; -> y", "LayerNormalization requires input 1"},
        {"MatMulInteger x y; -> y", "MatMulInteger requires input 1"},
        {"com.microsoft:SkipLayerNormalization x,x y; -> y", "requires input 2"},
        {"w : 8; com.microsoft:EmbedLayerNormalization x,,w,w,,w y; -> y", "requires input 6"},
        {"ai.steno:Linear x y; -> y", "Linear requires input 1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int level = 0; level <= 3; level += 3) {
            struct steno_network_options opt = {.opt_level = level, .borrow_from = 1};
            struct mk_graph *m = start();
            steno_network *n = NULL;
            steno_err err = {0};
            size_t size;
            uint8_t *file;
            steno_status st;
            pc_graph(m, cases[i].text);
            mk_import(m, "com.microsoft", 1);
            mk_import(m, "ai.steno", 1);
            file = mk_bytes(m, &size);
            mk_free(m);
            st = steno_network_open_memory(&n, file, size, "t", &opt, &err);
            if (st != (cases[i].lacks ? STENO_ERR_FORMAT : STENO_OK) ||
                (cases[i].lacks && !strstr(err.msg, cases[i].lacks)))
                fail_msg("%s: %d %s", cases[i].text, (int)st, err.msg);
            steno_network_close(n);
            free(file);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identity_goes),
        cmocka_unit_test(zero_where_the_shape_is_not_known),
        cmocka_unit_test(identity_keeps_what_changes_something),
        cmocka_unit_test(dead_nodes_go),
        cmocka_unit_test(constants_fold),
        cmocka_unit_test(random_numbers_are_not_folded_or_merged),
        cmocka_unit_test(an_if_with_a_constant_condition_is_inlined),
        cmocka_unit_test(equal_constants_become_one),
        cmocka_unit_test(equal_nodes_become_one),
        cmocka_unit_test(swish_is_found),
        cmocka_unit_test(glu_is_found),
        cmocka_unit_test(layernorm_is_found),
        cmocka_unit_test(linear_takes_bias_activation_scale_and_residual),
        cmocka_unit_test(symbols_travel_through_shape_arithmetic),
        cmocka_unit_test(every_activation_of_linear),
        cmocka_unit_test(linear_leaves_near_misses),
        cmocka_unit_test(depthwise_convolution_keeps_time_slow),
        cmocka_unit_test(unknown_pass_names_are_refused),
        cmocka_unit_test(nodes_without_required_inputs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
