/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc */
/* The 1st, 2nd, ... nth allocation fails while a model is loaded, planned and run, until
 * everything passes. Each time there is an error and no crash; AddressSanitizer finds leaks. */

#include "nn/network/network.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Weights, shape arithmetic, a function, an If with captures, folding and an LSTM: they cover
 * the paths of loader and executor. */
static struct mk_graph *model(void)
{
    static float w[48], r[256];
    static const int64_t minus[2] = {-1, 4}, axes[1] = {0};
    struct mk_graph *m = mk_new(17), *f, *then = mk_body(m), *other = mk_body(m);
    mk_import(m, "my", 1);
    f = mk_function(m, "my", "Swish", "a", "b");
    mk_import(f, "", 17);
    pc_graph(f, "Sigmoid a s; Mul a,s b");
    for (int i = 0; i < 48; i++)
        w[i] = (float)i / 48;
    mk_input(m, "x", STENO_F32, "n,4");
    mk_input(m, "c", STENO_BOOL, "");
    mk_f32(m, "w", "4,4", w, 16);
    mk_f32(m, "W", "1,16,4", r, 64);
    mk_f32(m, "R", "1,16,4", r, 64);
    mk_i64(m, "shape", "2", minus, 2);
    mk_i64(m, "axes", "1", axes, 1);
    pc_graph(m, "Transpose w wt; MatMul x,wt h; my:Swish h h2");
    pc_graph(then, "Exp h2 ty; -> ty");
    pc_graph(other, "Mul h2,h2 ey; -> ey");
    mk_if(m, "c", "b", then, other);
    pc_graph(m, "Unsqueeze b,axes b3; LSTM b3,W,R y3 hidden_size=4; Reshape y3,shape y; -> y");
    return m;
}

static steno_status scenario(const void *file, size_t size, steno_err *err)
{
    steno_network *n = NULL;
    steno_session *s = NULL;
    float x[12] = {1, 2, 3};
    uint8_t c = 1;
    struct steno_tensor tx = {.dtype = STENO_F32, .shape = {2, {2, 4}}, .data = x};
    struct steno_tensor tc = {.dtype = STENO_BOOL, .shape = {0, {0}}, .data = &c};
    steno_status st = steno_network_open_memory(&n, file, size, "model", NULL, err);
    if (!st)
        st = steno_session_open(&s, n, NULL, err);
    if (!st)
        st = steno_session_set(s, 0, &tx, err);
    if (!st)
        st = steno_session_set(s, 1, &tc, err);
    for (int i = 0; !st && i < 4; i++) { /* both branches, two lengths */
        c = i & 1;
        tx.shape.dim[0] = 2 + (i >> 1);
        st = steno_session_set(s, 0, &tx, err);
        if (!st)
            st = steno_session_run(s, err);
    }
    steno_session_close(s);
    steno_network_close(n);
    return st;
}

static void every_failing_allocation_is_an_error(void **state)
{
    struct mk_graph *m = model();
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    steno_status st = STENO_ERR_NOMEM;
    long n = 0;
    (void)state;
    mk_free(m);
    for (; st && n < 20000; n++) {
        steno_err err = {0};
        alloc_left = n;
        st = scenario(file, size, &err);
        if (alloc_left >= 0)
            break; /* no allocation failed */
        if (st && !err.msg[0])
            fail_msg("allocation %ld: status %d without a message", n, st);
    }
    alloc_left = -1;
    assert_int_equal(st, STENO_OK);
    assert_true(n > 100);
    free(file);
}

static void a_session_recovers_after_memory_comes_back(void **state)
{
    struct mk_graph *m = model();
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    steno_network *net = NULL;
    steno_session *s = NULL;
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint8_t c = 1;
    struct steno_tensor tx = {.dtype = STENO_F32, .shape = {2, {2, 4}}, .data = x};
    struct steno_tensor tc = {.dtype = STENO_BOOL, .shape = {0, {0}}, .data = &c};
    (void)state;
    mk_free(m);
    assert_int_equal(steno_network_open_memory(&net, file, size, "model", NULL, NULL), STENO_OK);
    assert_int_equal(steno_session_open(&s, net, NULL, NULL), STENO_OK);
    assert_int_equal(steno_session_set(s, 0, &tx, NULL), STENO_OK);
    assert_int_equal(steno_session_set(s, 1, &tc, NULL), STENO_OK);
    for (int n = 0; n < 40; n++) {
        alloc_left = n;
        (void)!steno_session_run(s, NULL);
        alloc_left = -1;
    }
    assert_int_equal(steno_session_run(s, NULL), STENO_OK);
    assert_int_equal(steno_session_get(s, 0)->shape.dim[1], 4);
    steno_session_close(s);
    steno_network_close(net);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failing_allocation_is_an_error),
        cmocka_unit_test(a_session_recovers_after_memory_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
