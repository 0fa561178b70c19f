/* Pass past: attention to rows of a cache and to new rows reads both where they are; and near
 * misses. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS                                                                                    \
    "cols = [16,8,6]; qs = [0,-1,4,4]; ks = [0,-1,2,4]; vs = [0,-1,2,3]; two = [2]; one = [1];"    \
    "zero = [0]; times = [1,1,2,1,1]; kj = [1,4,-1,4]; vj = [1,4,-1,3]; yj = [1,-1,12];"           \
    "half = 0.5; third = 0.3; unit = 1; nil = 0; low = -10000; little = -10;"                      \
    "Split x,cols qf,kf,vf axis=-1; Reshape qf,qs q3; Reshape kf,ks k3; Reshape vf,vs v3;"         \
    "Transpose q3 q perm=[0,2,1,3]; Transpose k3 kt perm=[0,2,1,3];"                               \
    "Transpose v3 vt perm=[0,2,1,3];"                                                              \
    "Gather at,zero first; Shape pk ps; Gather ps,one len;"
#define END "Min first,len seen; Max seen,one end;"
#define OLD                                                                                        \
    "Slice pk,zero,end,one po; Slice pv,zero,end,one wo;"                                          \
    "Transpose po pt perm=[0,2,1,3]; Transpose wo wt perm=[0,2,1,3];"
#define REPEAT                                                                                     \
    "Unsqueeze pt,two p1; Tile p1,times p2; Reshape p2,kj p; Unsqueeze kt,two k1;"                 \
    "Tile k1,times k2; Reshape k2,kj k; Unsqueeze wt,two w1; Tile w1,times w2; Reshape w2,vj w;"   \
    "Unsqueeze vt,two v1; Expand v1,times v2; Reshape v2,vj v;"
#define SCORES                                                                                     \
    "Transpose p pp perm=[0,1,3,2]; MatMul q,pp a0; Mul a0,half a1; Transpose k kk "               \
    "perm=[0,1,3,2]; MatMul q,kk b0;"
#define SCALE "Mul b0,half b1;"
#define SOME "Greater first,zero s0; Cast s0 s1 to=1; Sub unit,s1 s2; Mul s2,low hide;"
#define CAUSAL "Unsqueeze at,zero r; Unsqueeze at,one c; LessOrEqual r,c m0; Where m0,nil,low mask;"
#define ATTEND                                                                                     \
    "Add a1,hide a2; Add mask,b1 b2; Concat a2,b2 s axis=3; Softmax s s3 axis=-1;"                 \
    "Concat w,v z axis=2; MatMul s3,z y0;"
#define JOIN "Transpose y0 y1 perm=[0,2,1,3]; Reshape y1,yj y; -> y"
#define WHOLE NUMBERS END OLD REPEAT SCORES SCALE SOME CAUSAL ATTEND JOIN

static uint8_t *file_of(const char *text, const char *rows, const char *held, size_t *size)
{
    char x[32], k[32], v[32];
    struct mk_graph *m;
    uint8_t *file;
    snprintf(x, sizeof x, "1,%s,30", rows);
    snprintf(k, sizeof k, "1,%s,2,4", held);
    snprintf(v, sizeof v, "1,%s,2,3", held);
    m = pc_start(13, x);
    mk_input(m, "pk", STENO_F32, k);
    mk_input(m, "pv", STENO_F32, v);
    mk_input(m, "at", STENO_I64, rows);
    pc_graph(m, text);
    pc.context = text;
    file = mk_bytes(m, size);
    mk_free(m);
    return file;
}

/* The result at positions of which there are n. */
static float *result(steno_network *net, const int64_t *at, int64_t n, size_t *count)
{
    steno_session *s = NULL;
    steno_err err = {0};
    float *y;
    assert_int_equal(steno_session_open(&s, net, NULL, &err), STENO_OK);
    for (int i = 0; i < steno_network_n_inputs(net); i++) {
        const struct steno_value *v = steno_network_input(net, i);
        struct steno_tensor t = {.dtype = v->dtype, .shape = v->shape, .data = pc.x + 7 * i};
        for (int d = 0; d < t.shape.rank; d++)
            if (t.shape.dim[d] < 0)
                t.shape.dim[d] = i == 1 || i == 2 ? 9 : n;
        if (v->dtype == STENO_I64)
            t.data = (void *)(uintptr_t)at;
        assert_int_equal(steno_session_set(s, i, &t, &err), STENO_OK);
    }
    if (steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    *count = steno_numel(steno_session_get(s, 0));
    y = malloc(*count * sizeof *y);
    assert_non_null(y);
    memcpy(y, steno_session_get(s, 0)->data, *count * sizeof *y);
    steno_session_close(s);
    return y;
}

static void same(steno_network *a, steno_network *b, const int64_t *at, int64_t n)
{
    size_t n_a, n_b;
    float *x = result(a, at, n, &n_a), *y = result(b, at, n, &n_b);
    assert_int_equal(n_a, n_b);
    for (size_t i = 0; i < n_a; i++)
        if (!(x[i] - y[i] < 3e-6f && y[i] - x[i] < 3e-6f))
            fail_msg("positions %d ...: element %zu: %.9g, %.9g", (int)at[0], i, (double)x[i],
                     (double)y[i]);
    free(x);
    free(y);
}

/* Both networks: as it is in the file, and after all passes. */
static void check(const char *text, const char *rows, const char *held, bool hits)
{
    static const int64_t at[][3] = {{0, 1, 2},  {4, 5, 6}, {8, 9, 10}, {9, 10, 11}, {20, 21, 22},
                                    {-5, 0, 1}, {3, 7, 5}, {2, 2, 2},  {1, 0, 4}};
    size_t size;
    uint8_t *file = file_of(text, rows, held, &size);
    steno_network *plain = pc_open(file, size, 0, NULL, NULL);
    steno_network *net = pc_open(file, size, 3, NULL, NULL);
    assert_int_equal(pc_found(net, "past"), hits);
    assert_int_equal(pc_count(net, "PastAttention"), hits);
    assert_int_equal(pc_count(net, "Softmax"), !hits);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        if (*rows != '1' && *rows != '2')
            same(plain, net, at[i], 3);
        if (*rows != '3' && *rows != '2')
            same(plain, net, at[i], 1);
    }
    steno_network_close(net);
    net = pc_open(file, size, 3, "past", NULL);
    assert_int_equal(pc_found(net, "past"), 0);
    steno_network_close(net);
    steno_network_close(plain);
    free(file);
    pc.context = NULL;
}

static void caches_are_read_where_they_are(void **state)
{
    (void)state;
    check(WHOLE, "n", "c", true);
    check(WHOLE, "1", "9", true);
    check(WHOLE, "3", "9", true);
    check(WHOLE, "n", "2", true);
}

static void other_spellings_are_found(void **state)
{
    (void)state;
    /* the end of the cache is left to the Slice; no row of it is a part without keys */
    check(NUMBERS "Max first,zero end;" OLD REPEAT SCORES SCALE SOME CAUSAL ATTEND JOIN, "n", "c",
          true);
    /* heads stay apart */
    check(NUMBERS END OLD REPEAT SCORES SCALE SOME CAUSAL ATTEND "-> y0", "n", "c", true);
    /* the mask is widened before it is added */
    check(NUMBERS END OLD REPEAT SCORES SCALE SOME
          "Unsqueeze at,zero r; Unsqueeze at,one c; Greater r,c m0; Shape b1 wide;"
          "Where m0,low,nil m1; Expand m1,wide mask;" ATTEND JOIN,
          "n", "c", true);
}

static void near_misses_stay(void **state)
{
    (void)state;
    /* a row does not see itself */
    check(
        NUMBERS END OLD REPEAT SCORES SCALE SOME
        "Unsqueeze at,zero r; Unsqueeze at,one c; Less r,c m0; Where m0,nil,low mask;" ATTEND JOIN,
        "n", "c", false);
    /* one row of the cache more, or the last rows */
    check(NUMBERS
          "Min first,len seen; Add seen,one end;" OLD REPEAT SCORES SCALE SOME CAUSAL ATTEND JOIN,
          "n", "c", false);
    /* what is hidden has weight, or what is seen */
    check(
        NUMBERS END OLD REPEAT SCORES SCALE
        "Greater first,zero s0; Cast s0 s1 to=1; Sub unit,s1 s2; Mul s2,little hide;" CAUSAL ATTEND
            JOIN,
        "n", "c", false);
    check(NUMBERS END OLD REPEAT SCORES SCALE
          "Less first,two s0; Cast s0 s1 to=1; Mul s1,low hide;" CAUSAL ATTEND JOIN,
          "n", "c", false);
    /* the two halves have other scales */
    check(NUMBERS END OLD REPEAT SCORES "Mul b0,third b1;" SOME CAUSAL ATTEND JOIN, "n", "c",
          false);
    /* too few positions for a proof */
    check(WHOLE, "2", "9", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(caches_are_read_where_they_are),
                                       cmocka_unit_test(other_spellings_are_found),
                                       cmocka_unit_test(near_misses_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
