/* Patterns of Whisper's exports: keys that are scaled as queries are, a softmax whose NaN become 0,
 * logits as embeddings times transposed rows. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

/* Rows x [b, t, 16] of two heads as `a` [b, 2, t, 8]. */
static struct mk_graph *heads(void)
{
    struct mk_graph *m = pc_start(17, "b,t,16");
    pc_graph(m, "split = [0,0,2,8]; s = 0.5; Reshape x,split h; Transpose h a perm=[0,2,1,3]");
    return m;
}

static void scaled_keys_go_into_attention(void **state)
{
    static const char *const keys[] = {"Mul a,s k; Transpose k kt perm=[0,1,3,2]",
                                       "Transpose a k perm=[0,1,3,2]; Mul k,s kt",
                                       "Div a,s k; Transpose k kt perm=[0,1,3,2]"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct mk_graph *m = heads();
        steno_network *n;
        uint8_t *file;
        size_t size;
        pc_graph(m, "u = 0.25; Mul a,u q");
        pc_graph(m, keys[i]);
        pc_graph(m, "MatMul q,kt m; Softmax m w axis=-1; MatMul w,a y; -> y");
        file = mk_bytes(m, &size);
        n = pc_open(file, size, 3, NULL, NULL);
        assert_int_equal(pc_count(n, "Mul") + pc_count(n, "Div"), 0);
        assert_int_equal(pc_count(n, "Attention"), 1);
        steno_network_close(n);
        free(file);
        pc_check(m, "attention", true, -1, 1e-5f);
    }
}

/* The scaled keys are an output: the multiplication stays, and attention reads what it writes. */
static void keys_that_others_read_stay_scaled(void **state)
{
    struct mk_graph *m = heads();
    (void)state;
    pc_graph(m, "Mul a,s q; Mul a,s k; Transpose k kt perm=[0,1,3,2]; MatMul q,kt m");
    pc_graph(m, "Softmax m w axis=-1; MatMul w,a y; -> y; -> k");
    pc_check(m, "attention", true, -1, 1e-5f);
}

static void nan_of_rows_without_keys_become_zero(void **state)
{
    float mask[PC_N * PC_N];
    struct mk_graph *m = heads();
    (void)state;
    for (int i = 0; i < PC_N * PC_N; i++)
        mask[i] = i / PC_N == 1 || i % PC_N > i / PC_N ? -INFINITY : 0; /* row 1 sees nothing */
    mk_f32(m, "mask", "4,4", mask, PC_N * PC_N);
    pc_graph(m, "zero = 0.0; Transpose a kt perm=[0,1,3,2]; MatMul a,kt m; Add m,mask seen");
    pc_graph(m, "Softmax seen w axis=-1; IsNaN w nan; Where nan,zero,w all; MatMul all,a y; -> y");
    pc_check(m, "attention", true, -1, 1e-5f);
}

static void nan_that_become_another_number_stay(void **state)
{
    struct mk_graph *m = heads();
    (void)state;
    pc_graph(m, "Transpose a kt perm=[0,1,3,2]; MatMul a,kt m; Softmax m w axis=-1; IsNaN w nan");
    pc_graph(m, "Where nan,s,w all; MatMul all,a y; -> y");
    pc_check(m, "attention", false, -1, 1e-5f);
}

static void logits_by_embeddings_from_the_left_are_linear(void **state)
{
    struct mk_graph *m = pc_start(17, "b,t,16");
    (void)state;
    pc_graph(m, "e : 5,16; Transpose x t perm=[0,2,1]; MatMul e,t p; Transpose p y perm=[0,2,1]");
    pc_graph(m, "-> y");
    pc_check(m, "linear", true, 1, 1e-5f);
}

static void products_from_the_left_that_stay_transposed_are_not(void **state)
{
    struct mk_graph *m = pc_start(17, "b,t,16");
    (void)state;
    pc_graph(m, "e : 5,16; Transpose x t perm=[0,2,1]; MatMul e,t y; -> y");
    pc_check(m, "linear", false, -1, 1e-5f);
}

/* Embeddings of 8 bits as the matrix of logits; `first`: the bytes are transposed, not their
 * values. */
static uint8_t *tied(bool first, size_t *size)
{
    struct mk_graph *m = pc_start(17, "b,t,32");
    Onnx__Tensor *e = mk_tensor(m, "e", STENO_U8, "7,32"), *z = mk_tensor(m, "z", STENO_U8, "");
    static uint8_t bytes[7 * 32], zero = 121;
    uint8_t *file;
    const float step = 0.01f;
    for (int i = 0; i < 7 * 32; i++)
        bytes[i] = (uint8_t)(i * 89 % 251);
    e->raw_data = (ProtobufCBinaryData){7 * 32, bytes};
    z->raw_data = (ProtobufCBinaryData){1, &zero};
    mk_f32(m, "step", "", &step, 1);
    pc_graph(m, first ? "Transpose e t perm=[1,0]; DequantizeLinear t,step,z w"
                      : "DequantizeLinear e,step,z d; Transpose d w perm=[1,0]");
    pc_graph(m, "MatMul x,w y; -> y");
    file = mk_bytes(m, size);
    mk_free(m);
    return file;
}

static void tied_embeddings_of_8_bits_multiply_as_they_are(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct steno_network_options o = {.opt_level = 3, .precision = STENO_INT8_WEIGHTS};
        steno_network *plain, *bytes = NULL;
        steno_session *a, *b;
        const struct steno_tensor *x, *y;
        steno_err err = {0};
        float worst = 0;
        size_t size;
        uint8_t *file = tied(i, &size);
        plain = pc_open(file, size, 3, NULL, NULL);
        assert_int_equal(pc_found(plain, "qdq"), 0); /* activations of f32 stay f32 */
        if (steno_network_open_memory(&bytes, file, size, "tied", &o, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(pc_found(bytes, "qdq"), 1);
        a = pc_run(plain);
        b = pc_run(bytes);
        x = steno_session_get(a, 0);
        y = steno_session_get(b, 0);
        for (size_t k = 0; k < steno_numel(x); k++)
            worst = fmaxf(worst, fabsf(((float *)x->data)[k] - ((float *)y->data)[k]));
        if (!(worst < 0.1f)) /* sums of 32 products, activations in steps of 0.01 */
            fail_msg("off by %g", (double)worst);
        steno_session_close(a);
        steno_session_close(b);
        steno_network_close(plain);
        steno_network_close(bytes);
        free(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scaled_keys_go_into_attention),
        cmocka_unit_test(keys_that_others_read_stay_scaled),
        cmocka_unit_test(nan_of_rows_without_keys_become_zero),
        cmocka_unit_test(nan_that_become_another_number_stay),
        cmocka_unit_test(logits_by_embeddings_from_the_left_are_linear),
        cmocka_unit_test(products_from_the_left_that_stay_transposed_are_not),
        cmocka_unit_test(tied_embeddings_of_8_bits_multiply_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
