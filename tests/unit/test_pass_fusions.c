/* Passes for shape arithmetic, views, attention and 8-bit products. Each runs on a graph with
 * its pattern (fewer nodes, the same outputs as without passes) and on a near miss (nothing
 * changes). */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#define w_data pc.w

static struct mk_graph *start(const char *dims)
{
    return pc_start(13, dims);
}

static void check(struct mk_graph *m, const char *pass, bool hits, int left, float tolerance)
{
    pc_check(m, pass, hits, left, tolerance);
}

/* The target is [dim 1, dim 0, 2, 4] by Shape and Gather. With one unknown extent it becomes -1;
 * with two unknown extents that change places, the target stays arithmetic. */
static void targets_become_constant(void **state)
{
    static const int64_t zero[1] = {0}, one[1] = {1}, tail[2] = {2, 4};
    (void)state;
    for (int miss = 0; miss < 2; miss++) {
        struct mk_graph *m = start(miss ? "b,t,8" : "1,t,8");
        mk_i64(m, "zero", "1", zero, 1);
        mk_i64(m, "one", "1", one, 1);
        mk_i64(m, "tail", "2", tail, 2);
        pc_graph(m, "Shape x s; Gather s,zero b; Gather s,one t; Concat t,b,tail target axis=0; "
                    "Reshape x,target r; Exp r y; -> y");
        check(m, "reshape", !miss, miss ? 6 : 2, 0);
    }
}

static void known_shape_arithmetic_goes(void **state)
{
    static const int64_t one[1] = {1}, two[1] = {2};
    (void)state;
    for (int miss = 0; miss < 2; miss++) {
        struct mk_graph *m = start("t,2,8");
        mk_i64(m, "which", "1", miss ? one : two, 1);
        mk_i64(m, "zero", "1", (const int64_t[]){0}, 1);
        mk_node(m, "Shape", "x", "s");
        mk_node(m, "Gather", miss ? "s,zero" : "s,which", "d");
        pc_graph(m, "ConstantOfShape d z; Exp x e; -> e; -> z");
        check(m, "shape", !miss, miss ? 4 : 1, 0);
    }
}

static void views_in_a_row_become_one(void **state)
{
    static const int64_t flat[2] = {4, -1}, axis[1] = {0}, back[3] = {1, 4, 8};
    (void)state;
    for (int miss = 0; miss < 2; miss++) {
        struct mk_graph *m = start("4,8");
        mk_i64(m, "flat", "2", flat, 2);
        mk_i64(m, "axis", "1", axis, 1);
        mk_i64(m, "back", "3", back, 3);
        mk_node(m, "Unsqueeze", "x,axis", "a");
        if (miss)
            mk_node(m, "Neg", "a", "a2");
        mk_node(m, "Reshape", miss ? "a2,flat" : "a,flat", "b");
        pc_graph(m, "Exp b y; -> y");
        check(m, "reshape", !miss, miss ? 4 : -1, 0);
    }
}

static void transposes_in_a_row_become_one(void **state)
{
    static const int64_t p[3] = {2, 0, 1}, q[3] = {0, 2, 1};
    (void)state;
    for (int miss = 0; miss < 2; miss++) {
        struct mk_graph *m = start("2,3,8");
        mk_node(m, "Transpose", "x", "a");
        mk_attr_ints(m, "perm", p, 3);
        if (miss)
            mk_node(m, "Neg", "a", "a2");
        mk_node(m, "Transpose", miss ? "a2" : "a", "b");
        mk_attr_ints(m, "perm", q, 3);
        pc_graph(m, "Exp b y; -> y");
        check(m, "transpose", !miss, miss ? 4 : 2, 0);
    }
}

static void gelu_is_found(void **state)
{
    static const float root = 1.41421356f, wrong = 1.5f, one = 1, half = 0.5f;
    (void)state;
    /* 0, 1: two orders of the factors; 2: a different divisor */
    for (int variant = 0; variant < 3; variant++) {
        struct mk_graph *m = start("2,3,8");
        mk_f32(m, "root", "", variant == 2 ? &wrong : &root, 1);
        mk_f32(m, "one", "", &one, 1);
        mk_f32(m, "half", "", &half, 1);
        pc_graph(m, "Div x,root d; Erf d e; Add e,one a");
        if (variant == 1) {
            pc_graph(m, "Mul half,x h; Mul h,a y");
        } else {
            pc_graph(m, "Mul x,a h; Mul h,half y");
        }
        mk_output(m, "y", STENO_F32, NULL);
        check(m, "gelu", variant < 2, variant < 2 ? 1 : 5, 2e-6f);
    }
}

static void conv_takes_its_activation(void **state)
{
    (void)state;
    for (int miss = 0; miss < 2; miss++) {
        struct mk_graph *m = start("1,2,t");
        mk_f32(m, "w", "4,1,3", w_data, 12); /* with groups, so that pass nhwc leaves it alone */
        pc_graph(m, "Conv x,w c group=2; Relu c y; -> y");
        if (miss)
            mk_output(m, "c", STENO_F32, NULL);
        check(m, "convact", !miss, miss ? 2 : 1, 1e-6f);
    }
}

static void masked_softmax_is_found(void **state)
{
    static const float low = -3.4028235e38f, zero = 0, one = 1;
    (void)state;
    /* 2: ones instead of zeros; 3: a different axis */
    for (int variant = 0; variant < 4; variant++) {
        struct mk_graph *m = start("2,3,t,5");
        mk_input(m, "mask", STENO_BOOL, variant == 1 ? "2,1,t,1" : "2,1,1,5");
        mk_f32(m, "low", "", &low, 1);
        mk_f32(m, "zero", "", variant == 2 ? &one : &zero, 1);
        pc_graph(m, "Where mask,low,x a; Softmax a b");
        mk_attr_int(m, "axis", variant == 3 ? 2 : -1);
        pc_graph(m, "Where mask,zero,b y; -> y");
        check(m, "softmax", variant < 2, variant < 2 ? 1 : 3, 0);
    }
}

/* x [1, 2, t, L]; from: number of rows that the Slice drops. */
static struct mk_graph *shift_graph(const char *dims, int64_t from, bool half)
{
    static const int64_t far[1] = {INT64_MAX}, number[4] = {0, 1, 2, 3};
    static int64_t start_at[1];
    struct mk_graph *m = start(dims);
    start_at[0] = from;
    mk_i64(m, "v0", "1", number, 1);
    mk_i64(m, "v1", "1", number + 1, 1);
    mk_i64(m, "v2", "1", number + 2, 1);
    mk_i64(m, "v3", "1", number + 3, 1);
    mk_i64(m, "from", "1", start_at, 1);
    mk_i64(m, "far", "1", far, 1);
    pc_graph(m, "Shape x s; Gather s,v0 b; Gather s,v1 h; Gather s,v2 t; Gather s,v3 l; "
                "Concat b,h,t,v1 zs axis=0; ConstantOfShape zs z; Concat z,x c axis=-1; "
                "Add l,v1 l1; Concat b,h,l1,t rs axis=0; Reshape c,rs r; "
                "Slice r,from,far,v2,v1 k");
    mk_node(m, "Reshape", "k,s", half ? "back" : "y");
    if (half) {
        pc_graph(m, "Div l,v2 l2; Add l2,v1 w; Slice back,v0,w,v3,v1 y");
    }
    mk_output(m, "y", STENO_F32, NULL);
    return m;
}

static void relative_shift_is_found(void **state)
{
    (void)state;
    check(shift_graph("1,2,t,u", 1, false), "relshift", true, 1, 0);
    check(shift_graph("1,2,t,u", 1, true), "relshift", true, 1, 0);
    /* the width 7 is 2 t - 1 with t = 4 */
    check(shift_graph("1,2,t,7", 1, true), "relshift", true, 1, 0);
    check(shift_graph("1,1,t,1", 1, true), "relshift", true, -1, 0);
}

/* At run time this is the shift, but the graph does not say that t is 4. */
static void another_fold_is_not_a_shift(void **state)
{
    struct mk_graph *m = start("1,2,t,5");
    (void)state;
    mk_i64(m, "zs", "4", (const int64_t[]){1, 2, 4, 1}, 4);
    mk_i64(m, "rs", "4", (const int64_t[]){1, 2, 6, 4}, 4);
    mk_i64(m, "v1", "1", (const int64_t[]){1}, 1);
    mk_i64(m, "v2", "1", (const int64_t[]){2}, 1);
    mk_i64(m, "far", "1", (const int64_t[]){INT64_MAX}, 1);
    mk_i64(m, "bs", "4", (const int64_t[]){1, 2, 4, 5}, 4);
    pc_graph(m, "ConstantOfShape zs z; Concat z,x c axis=-1; Reshape c,rs r; "
                "Slice r,v1,far,v2,v1 k; Reshape k,bs y; -> y");
    check(m, "relshift", false, 4, 0);
}

static void bytes(struct mk_graph *m, const char *name, steno_dtype t, const char *dims, uint8_t *v,
                  size_t n)
{
    Onnx__Tensor *x = mk_tensor(m, name, t, dims);
    x->raw_data.data = v;
    x->raw_data.len = n;
}

/* Exact: the fused operator gives the bits of the separate operators. K is odd; N exceeds one
 * block. */
static void int8_product_is_found(void **state)
{
    static uint8_t w[7 * 300], zero[1] = {3};
    static float bias[300], scales[300];
    (void)state;
    for (int i = 0; i < 7 * 300; i++)
        w[i] = (uint8_t)(i * 89 % 256);
    for (int i = 0; i < 300; i++) {
        bias[i] = (float)(i % 13) / 7 - 1;
        scales[i] = 0.01f + (float)i / 9000;
    }
    for (int variant = 0; variant < 5; variant++) {
        /* 0: plain, 1: bias, 2: scale per column, 3: u8 weights with a zero point, 4: the sum
         * has two readers */
        struct mk_graph *m = start("2,t,7");
        steno_dtype t = variant == 3 ? STENO_U8 : STENO_I8;
        bytes(m, "w", t, "7,300", w, sizeof w);
        bytes(m, "wz", t, "", zero, 1);
        mk_f32(m, "ws", variant == 2 ? "300" : "", scales, variant == 2 ? 300 : 1);
        mk_f32(m, "bias", "300", bias, 300);
        mk_node(m, "DynamicQuantizeLinear", "x", "q,qs,qz");
        mk_node(m, "MatMulInteger", variant == 0 ? "q,w,qz" : "q,w,qz,wz", "i");
        mk_node(m, "Cast", "i", "f");
        mk_attr_int(m, "to", STENO_F32);
        mk_node(m, "Mul", "qs,ws", "s");
        mk_node(m, "Mul", "f,s", variant == 1 ? "p" : "y");
        if (variant == 1)
            mk_node(m, "Add", "bias,p", "y");
        mk_output(m, "y", STENO_F32, NULL);
        if (variant == 4)
            mk_output(m, "f", STENO_F32, NULL);
        check(m, "int8", variant < 4, variant < 4 ? 2 : 5, 0);
    }
}

static void folds_transpose(const char *text, const char *pass, bool hits)
{
    struct mk_graph *m = pc_start(13, "2,t,3,4");
    pc.context = text;
    pc_graph(m, "w : 12,5; turned : 5,12; b : 5; v : 4,5; rows = [0,-1,12]; flat = [-1,12]; other "
                "= [0,-1,4]; two = 2");
    pc_graph(m, text);
    pc_graph(m, "-> y");
    pc_check(m, pass, hits, -1, 1e-5f);
    pc.context = NULL;
}

static void a_transpose_is_folded_into_weights(void **state)
{
    (void)state;
    folds_transpose(
        "Transpose x t perm=[0,1,3,2]; Reshape t,rows r; MatMul r,w p; Add p,b q; Relu q y",
        "foldtranspose", true);
    folds_transpose("Transpose x t perm=[0,1,3,2]; Reshape t,flat r; MatMul r,w p; Neg p y",
                    "foldtranspose", true);
    /* weights whose elements are still in the file, the other way round */
    folds_transpose(
        "Transpose x t perm=[0,1,3,2]; Reshape t,flat r; Gemm r,turned p transB=1; Neg p y",
        "foldtranspose", true);
    /* near misses: other axes; rows that are not whole [a, b]; values with other readers,
     * weights too */
    folds_transpose("Transpose x t perm=[0,2,1,3]; Reshape t,flat r; MatMul r,w y", "foldtranspose",
                    false);
    folds_transpose(
        "Transpose x t perm=[0,3,2,1]; Reshape t,other r; Reshape r,flat s; MatMul s,w y",
        "foldtranspose", false);
    folds_transpose(
        "Transpose x t perm=[0,1,3,2]; Reshape t,rows r; MatMul r,w p; Neg t z; -> z; Neg p y",
        "foldtranspose", false);
    folds_transpose(
        "Transpose x t perm=[0,1,3,2]; Reshape t,rows r; MatMul r,w p; Exp r z; -> z; Neg p y",
        "foldtranspose", false);
    folds_transpose(
        "Transpose x t perm=[0,1,3,2]; Reshape t,flat r; MatMul r,w p; Reshape x,flat f;"
        "MatMul f,w o; Add p,o y",
        "foldtranspose", false);
}

static void the_shape_of_a_transpose_is_known_ahead_of_it(void **state)
{
    (void)state;
    folds_transpose("Transpose x t perm=[1,3,0,2]; Shape t s; Cast s f to=1; Mul f,two y",
                    "transpose", true);
    folds_transpose("Transpose x t; Shape t s; Cast s f to=1; Mul f,two y", "transpose", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_become_constant),
        cmocka_unit_test(known_shape_arithmetic_goes),
        cmocka_unit_test(views_in_a_row_become_one),
        cmocka_unit_test(transposes_in_a_row_become_one),
        cmocka_unit_test(gelu_is_found),
        cmocka_unit_test(conv_takes_its_activation),
        cmocka_unit_test(masked_softmax_is_found),
        cmocka_unit_test(relative_shift_is_found),
        cmocka_unit_test(another_fold_is_not_a_shift),
        cmocka_unit_test(int8_product_is_found),
        cmocka_unit_test(a_transpose_is_folded_into_weights),
        cmocka_unit_test(the_shape_of_a_transpose_is_known_ahead_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
