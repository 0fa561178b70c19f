/* Passes absorb and absorbnorm, on steps of a decoder as exporters write them. The weights of
 * keys and values move to the query side, and the normalization moves into the attention; the
 * result is compared with the graph without the passes. Masks, batches of one, rows that see no
 * key, precisions, near misses. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPLIT                                                                                      \
    "Reshape q2,d4 q3; Transpose q3 q perm=[0,2,1,3]; Reshape k2,d4 k3;"                           \
    "Transpose k3 k perm=[0,2,3,1]; Reshape v2,dv v3; Transpose v3 v perm=[0,2,1,3];"
#define JOIN "MatMul w,v o; Transpose o ot perm=[0,2,1,3]; Reshape ot,d3 a; Neg a y"
#define LAST "Slice x,from,far,one l;"
#define SELF LAST "MatMul l,wq q2; MatMul x,wk k2; MatMul x,wv va; Add va,bv v2;" SPLIT

static struct mk_graph *start(const char *x, const char *text)
{
    struct mk_graph *m = pc_start(13, x);
    pc_graph(m, "wq : 8,8; wk : 8,8; wv : 8,6; bq : 8; bk : 8; bv : 6; d4 = [0,0,2,4];"
                "dv = [0,0,2,3]; d3 = [0,0,6]; from = [-1]; two = [-2]; many = [-5]; zero = [0];"
                "far = [9223372036854775807]; one = [1]; half = 0.5; low = -1e30; nil = 0");
    if (strstr(text, "added"))
        mk_input(m, "added", STENO_F32, "2,1,1,t");
    if (strstr(text, "hidden"))
        mk_input(m, "hidden", STENO_BOOL, "2,1,1,t");
    if (strstr(text, "gone"))
        mk_input(m, "gone", STENO_BOOL, "2,1,1,1");
    if (strstr(text, "mem"))
        mk_input(m, "mem", STENO_F32, "1,s,8");
    pc_graph(m, text);
    pc_graph(m, "-> y");
    return m;
}

static void check(const char *text, bool hits)
{
    pc.context = text;
    pc_check(start("2,t,8", text), "absorb", hits, -1, 1e-5f);
    pc.context = NULL;
}

static void a_step_leaves_its_prefix_unprojected(void **state)
{
    (void)state;
    check(SELF "MatMul q,k s; Softmax s w;" JOIN, true);
    check(SELF "MatMul q,k s; Mul s,half c; Softmax c w;" JOIN, true);
    /* a bias of K adds the same to all scores of a row */
    check(LAST "MatMul l,wq qa; Add qa,bq q2; MatMul x,wk ka; Add ka,bk k2; MatMul x,wv v2;" SPLIT
               "MatMul q,k s; Softmax s w;" JOIN,
          true);
    /* two rows; rows behind other operators, as in a decoder's second attention */
    check("Slice x,two,far,one l; MatMul l,wq q2; MatMul x,wk k2; MatMul x,wv v2;" SPLIT
          "MatMul q,k s; Softmax s w;" JOIN,
          true);
    check(LAST "MatMul l,wk r; Relu r p; Add l,p n; MatMul n,wq q2; MatMul x,wk k2;"
               "MatMul x,wv v2;" SPLIT "MatMul q,k s; Softmax s w;" JOIN,
          true);
}

static void masks_are_those_of_attention(void **state)
{
    (void)state;
    check(SELF "MatMul q,k s; Add s,added c; Softmax c w;" JOIN, true);
    check(SELF "MatMul q,k s; Where hidden,low,s c; Softmax c f; Where hidden,nil,f w;" JOIN, true);
    /* in one of two batch entries all keys are hidden: the result is 0, without the bias of V */
    check(SELF "MatMul q,k s; Where gone,low,s c; Softmax c f; Where gone,nil,f w;" JOIN, true);
}

static void one_batch_serves_all(void **state)
{
    (void)state;
    check(LAST "MatMul l,wq q2; MatMul mem,wk k2; MatMul mem,wv va; Add va,bv v2;" SPLIT
               "MatMul q,k s; Softmax s w;" JOIN,
          true);
    /* the heads are not joined */
    check("Slice mem,from,far,one l; MatMul l,wq q2; MatMul x,wk k2; MatMul x,wv v2;" SPLIT
          "MatMul q,k s; Softmax s w; MatMul w,v o; Neg o y",
          false);
}

static void near_misses_of_a_step_stay(void **state)
{
    (void)state;
    check("MatMul x,wq q2; MatMul x,wk k2; MatMul x,wv v2;" SPLIT "MatMul q,k s; Softmax s w;" JOIN,
          false);
    check("Slice x,many,far,one l; MatMul l,wq q2; MatMul x,wk k2; MatMul x,wv v2;" SPLIT
          "MatMul q,k s; Softmax s w;" JOIN,
          false);
    check("Slice x,zero,far,one l; MatMul l,wq q2; MatMul x,wk k2; MatMul x,wv v2;" SPLIT
          "MatMul q,k s; Softmax s w;" JOIN,
          false);
    check(LAST "MatMul l,wq q2; MatMul x,wk k2; MatMul x,wv va; Relu va v2;" SPLIT
               "MatMul q,k s; Softmax s w;" JOIN,
          false);
    check(LAST "MatMul l,wq q2; MatMul x,wk k2; MatMul x,wv v2;" SPLIT
               "MatMul q,k s; Softmax s w;" JOIN "; Neg v2 z; -> z",
          false);
    check(LAST "Exp x e; MatMul l,wq q2; MatMul x,wk k2; MatMul e,wv v2;" SPLIT
               "MatMul q,k s; Softmax s w;" JOIN,
          false);
}

/* ---- normalized rows ---- */

static void check_norm(const char *x, const char *text, bool hits)
{
    struct mk_graph *m = pc_start(17, x);
    pc_graph(m,
             "wq : 8,8; wk : 8,8; wv : 8,6; bv : 6; ga : 8; be : 8; d4 = [0,0,2,4]; dv = [0,0,2,3];"
             "d3 = [0,0,6]; from = [-1]; two = [-2]; far = [9223372036854775807]; one = [1]; last "
             "= [2]; four = [4]");
    if (strstr(text, "mem"))
        mk_input(m, "mem", STENO_F32, "1,s,8");
    if (strstr(text, "gone"))
        mk_input(m, "gone", STENO_BOOL, "2,1,1,1");
    pc_graph(m, "low = -1e30; nil = 0");
    pc_graph(m, text);
    pc_graph(m, "-> y");
    pc.context = text;
    pc_check(m, "absorbnorm", hits, -1, 1e-5f);
    pc.context = NULL;
}

#define NORM "LayerNormalization x,ga,be n axis=-1 epsilon=0.001;"
#define OF_N "MatMul l,wq q2; MatMul n,wk k2; MatMul n,wv va; Add va,bv v2;" SPLIT
#define PLAIN "MatMul q,k s; Softmax s w;" JOIN

static void normalization_moves_into_the_attention(void **state)
{
    (void)state;
    check_norm("2,t,8", NORM "Slice n,from,far,one l;" OF_N PLAIN, true);
    check_norm("2,t,8", "LayerNormalization x,ga n; Slice n,from,far,one l;" OF_N PLAIN, true);
    /* of two rows; another Slice reads them too */
    check_norm("2,t,8", NORM "Slice n,two,far,one l;" OF_N PLAIN, true);
    check_norm("2,t,8",
               NORM "Slice n,from,far,one l; Slice n,two,far,one b; Neg b z; -> z;" OF_N PLAIN,
               true);
    /* queries from other rows; one batch entry of rows that serves all */
    check_norm("2,t,8", NORM "Slice x,from,far,one l;" OF_N PLAIN, true);
    check_norm("2,t,8", "LayerNormalization mem,ga,be n; Slice x,from,far,one l;" OF_N PLAIN, true);
    check_norm("2,t,8",
               NORM "Slice n,from,far,one l;" OF_N
                    "MatMul q,k s; Where gone,low,s c; Softmax c f; Where gone,nil,f w;" JOIN,
               true);
}

static void rows_with_other_readers_stay_normalized(void **state)
{
    (void)state;
    check_norm("2,t,8", NORM "Slice n,from,far,one l; Neg n z; -> z;" OF_N PLAIN, false);
    check_norm("2,t,8", NORM "Slice n,from,far,one l; -> n;" OF_N PLAIN, false);
    /* columns instead of rows */
    check_norm("2,t,8",
               NORM "Slice n,from,far,one l; Slice n,one,four,last b; Neg b z; -> z;" OF_N PLAIN,
               false);
    /* normalized over more than a row: gamma has rows and columns */
    check_norm("2,3,8",
               "ge : 3,8; LayerNormalization x,ge n axis=1; Slice n,from,far,one l;" OF_N PLAIN,
               false);
}

/* ---- precisions, levels, threads ---- */

enum { C = 32, HV = 48, S = 300, B = 6 };
static float weights[4][C * HV], rows[B * S * C];

static void fill(void)
{
    uint32_t x = 7;
    float *const all[] = {weights[0], weights[1], weights[2], weights[3], rows};
    for (size_t a = 0; a < 5; a++)
        for (size_t i = 0; i < (a < 4 ? C * HV : B * S * C); i++) {
            x = x * 1664525u + 1013904223u;
            all[a][i] = ((float)(x >> 8) / (1 << 23) - 1) * (a < 4 ? 0.3f : 1);
        }
}

/* Two heads of 24 on rows of 32, optionally normalized. */
static struct mk_graph *two_heads(bool normalized)
{
    static const int64_t d4[] = {0, 0, 2, 24}, d3[] = {0, 0, 48}, from[] = {-1},
                         far[] = {INT64_MAX}, one[] = {1};
    struct mk_graph *m = mk_new(17);
    mk_input(m, normalized ? "rows" : "x", STENO_F32, "b,t,32");
    mk_f32(m, "gamma", "32", weights[0] + 5, C);
    mk_f32(m, "beta", "32", weights[1] + 5, C);
    if (normalized)
        pc_graph(m, "LayerNormalization rows,gamma,beta x;");
    mk_f32(m, "wq", "32,48", weights[0], C * HV);
    mk_f32(m, "wk", "32,48", weights[1], C * HV);
    mk_f32(m, "wv", "32,48", weights[2], C * HV);
    mk_f32(m, "bv", "48", weights[3], HV);
    mk_i64(m, "d4", "4", d4, 4);
    mk_i64(m, "dv", "4", d4, 4);
    mk_i64(m, "d3", "3", d3, 3);
    mk_i64(m, "from", "1", from, 1);
    mk_i64(m, "far", "1", far, 1);
    mk_i64(m, "one", "1", one, 1);
    pc_graph(m, SELF "MatMul q,k s; Softmax s w;" JOIN);
    mk_output(m, "y", STENO_F32, "b,1,48");
    return m;
}

/* Weights as a quantizer writes them: i8 with one scale, or u8 with a scale and a zero point for
 * each column. */
static void quantized_weights(struct mk_graph *m, const char *name, const float *w, bool columns)
{
    static uint8_t store[6][C * HV + 1];
    static int used;
    uint8_t *q = store[used++ % 6];
    char other[8];
    float scale[HV];
    Onnx__Tensor *t;
    for (int i = 0; i < HV; i++)
        scale[i] = 0.3f / 120 * (columns ? (float)(1 + i % 3) : 1);
    for (int i = 0; i < C * HV; i++)
        q[i] = (uint8_t)((int)lrintf(w[i] / scale[i % HV]) + (columns ? 126 : 0));
    q[C * HV] = columns ? 126 : 0;
    t = mk_tensor(m, name, columns ? STENO_U8 : STENO_I8, "32,48");
    t->raw_data.data = q;
    t->raw_data.len = C * HV;
    snprintf(other, sizeof other, "%.4sz", name);
    t = mk_tensor(m, other, columns ? STENO_U8 : STENO_I8, "");
    t->raw_data.data = q + C * HV;
    t->raw_data.len = 1;
    snprintf(other, sizeof other, "%.4ss", name);
    mk_f32(m, other, columns ? "48" : "", scale, columns ? HV : 1);
}

#define ROUND(x) "DynamicQuantizeLinear " x " " x "q," x "s," x "z;"
#define PRODUCT(x, w, y)                                                                           \
    "MatMulInteger " x "q," w "," x "z," w "z " y "i; Cast " y "i " y "f to=1;"                    \
    "Mul " x "s," w "s " y "g; Mul " y "f," y "g " y ";"

/* The same network as a quantizer writes it. */
static struct mk_graph *two_heads_in_bytes(bool columns)
{
    static const int64_t d4[] = {0, 0, 2, 24}, d3[] = {0, 0, 48}, from[] = {-1},
                         far[] = {INT64_MAX}, one[] = {1};
    static const char *const names[] = {"wq", "wk", "wv"};
    struct mk_graph *m = mk_new(13);
    mk_input(m, "x", STENO_F32, "b,t,32");
    for (int i = 0; i < 3; i++)
        quantized_weights(m, names[i], weights[i], columns);
    mk_f32(m, "bv", "48", weights[3], HV);
    mk_i64(m, "d4", "4", d4, 4);
    mk_i64(m, "dv", "4", d4, 4);
    mk_i64(m, "d3", "3", d3, 3);
    mk_i64(m, "from", "1", from, 1);
    mk_i64(m, "far", "1", far, 1);
    mk_i64(m, "one", "1", one, 1);
    pc_graph(m, LAST ROUND("l") ROUND("x") PRODUCT("l", "wq", "q2") PRODUCT("x", "wk", "k2")
                    PRODUCT("x", "wv", "va") "Add va,bv v2;");
    pc_graph(m, SPLIT "MatMul q,k s; Softmax s w;" JOIN);
    mk_output(m, "y", STENO_F32, "b,1,48");
    return m;
}

static void run_graph(struct mk_graph *m, bool normalized, enum steno_precision precision,
                      const char *cpu, int level, int threads, float *y)
{
    struct steno_network_options opt = {
        .opt_level = level, .precision = precision, .cpu = cpu, .borrow_from = 1};
    struct steno_session_options so = {.threads = threads};
    struct steno_tensor x = {STENO_F32, {.rank = 3, .dim = {B, S, C}}, rows};
    steno_network *n = NULL;
    steno_session *s = NULL;
    steno_err err = {0};
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    mk_free(m);
    if (steno_network_open_memory(&n, file, size, "absorb", &opt, &err) ||
        steno_session_open(&s, n, &so, &err) || steno_session_set(s, 0, &x, &err) ||
        steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(pc_found(n, "absorb"), level == 3);
    assert_int_equal(pc_found(n, "absorbnorm"), level == 3 && normalized);
    memcpy(y, steno_session_get(s, 0)->data, sizeof *y * B * HV);
    steno_session_close(s);
    steno_network_close(n);
    free(file);
}

static void run(bool normalized, enum steno_precision precision, const char *cpu, int level,
                int threads, float *y)
{
    run_graph(two_heads(normalized), normalized, precision, cpu, level, threads, y);
}

static double apart(const float *a, const float *b)
{
    double most = 0, range = 0;
    for (int i = 0; i < B * HV; i++) {
        range = fmax(range, fabs((double)b[i]));
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    }
    return most / range;
}

static void every_precision_and_level_is_as_near_as_its_format(void **state)
{
    static const struct {
        enum steno_precision p;
        double most;
    } cases[] = {{STENO_FP32, 2e-6},
                 {STENO_BF16_WEIGHTS, 8e-3},
                 {STENO_FP16_WEIGHTS, 1e-3},
                 {STENO_INT8_WEIGHTS, 2e-2}};
    static const char *const levels[] = {"scalar", "avx2", "avx512", "native"};
    static float want[B * HV], y[B * HV], again[B * HV];
    (void)state;
    fill();
    for (int normalized = 0; normalized < 2; normalized++) {
        run(normalized, STENO_FP32, "scalar", 0, 1, want);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
                run(normalized, cases[i].p, levels[l], 3, 1, y);
                if (!(apart(y, want) <= cases[i].most))
                    fail_msg("precision %d, %s, normalized %d: off by %g", (int)cases[i].p,
                             levels[l], normalized, apart(y, want));
                run(normalized, cases[i].p, levels[l], 3, 3, again);
                assert_memory_equal(y, again, sizeof y);
            }
    }
}

/* In 8 bits such a graph is fused like its f32 original and is as near to it. In other
 * precisions the pass leaves it alone, and the bits are those of its own operators. */
static void a_quantized_graph_is_absorbed_in_8_bits(void **state)
{
    static const char *const levels[] = {"scalar", "avx2", "avx512", "native"};
    static float want[B * HV], exact[B * HV], y[B * HV], again[B * HV];
    (void)state;
    fill();
    run(false, STENO_FP32, "scalar", 0, 1, want);
    for (int columns = 0; columns < 2; columns++) {
        run_graph(two_heads_in_bytes(columns), false, STENO_INT8_WEIGHTS, "scalar", 0, 1, exact);
        assert_true(apart(exact, want) < 3e-2);
        for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
            run_graph(two_heads_in_bytes(columns), false, STENO_INT8_WEIGHTS, levels[l], 3, 1, y);
            if (!(apart(y, want) <= 3e-2))
                fail_msg("%s, columns %d: off by %g", levels[l], columns, apart(y, want));
            run_graph(two_heads_in_bytes(columns), false, STENO_INT8_WEIGHTS, levels[l], 3, 3,
                      again);
            assert_memory_equal(y, again, sizeof y);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_leaves_its_prefix_unprojected),
        cmocka_unit_test(masks_are_those_of_attention),
        cmocka_unit_test(one_batch_serves_all),
        cmocka_unit_test(near_misses_of_a_step_stay),
        cmocka_unit_test(normalization_moves_into_the_attention),
        cmocka_unit_test(rows_with_other_readers_stay_normalized),
        cmocka_unit_test(every_precision_and_level_is_as_near_as_its_format),
        cmocka_unit_test(a_quantized_graph_is_absorbed_in_8_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
