/* Files in ONNX Runtime's own format, written by ONNX Runtime 1.32 (the small inputs of
 * tests/fuzz/ort_format). */
#include <stdlib.h>
#include <string.h>

#include "nn/network/network.h"
#include "nn/onnx/ort_format.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

static void run(const char *path, const struct steno_tensor *in, size_t n, const float *want,
                size_t n_want)
{
    steno_network *net = NULL;
    steno_session *s = NULL;
    const struct steno_tensor *y;
    assert_int_equal(steno_network_open(&net, path, NULL, NULL), STENO_OK);
    assert_int_equal(steno_session_open(&s, net, NULL, NULL), STENO_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(steno_session_set(s, (int)i, &in[i], NULL), STENO_OK);
    assert_int_equal(steno_session_run(s, NULL), STENO_OK);
    y = steno_session_get(s, 0);
    assert_int_equal(steno_numel(y), n_want);
    for (size_t i = 0; i < n_want; i++)
        assert_true(((const float *)y->data)[i] == want[i]);
    steno_session_close(s);
    steno_network_close(net);
}

static void a_network_runs_with_its_attributes_and_weights(void **state)
{
    static float x[6] = {1, 1, 1, -2, -2, -2};
    const struct steno_tensor in = {
        .dtype = STENO_F32, .shape = {.rank = 3, .dim = {1, 2, 3}}, .data = x};
    steno_network *net = NULL;
    (void)state;
    /* weights of 1, three wide, and LeakyRelu with a slope of 0.5 */
    run("tests/fuzz/ort_format/conv", &in, 1, (const float[]){-1, -1.5f, -1}, 3);
    assert_int_equal(steno_network_open(&net, "tests/fuzz/ort_format/conv", NULL, NULL), STENO_OK);
    assert_string_equal(steno_network_meta(net, "k"), "v");
    steno_network_close(net);
}

static void branches_capture_outer_values(void **state)
{
    static float x[2] = {1, 2};
    static bool yes = true, no = false;
    struct steno_tensor in[2] = {{.dtype = STENO_F32, .shape = {.rank = 1, .dim = {2}}, .data = x},
                                 {.dtype = STENO_BOOL, .shape = {.rank = 0}, .data = &yes}};
    (void)state;
    run("tests/fuzz/ort_format/branches", in, 2, (const float[]){2, 3}, 2);
    in[1].data = &no;
    run("tests/fuzz/ort_format/branches", in, 2, x, 2);
}

static void every_cut_is_refused_or_harmless(void **state)
{
    size_t n;
    char *file = steno_test_slurp("tests/fuzz/ort_format/branches", &n);
    (void)state;
    assert_non_null(file);
    for (size_t k = 0; k < n; k++) {
        struct steno_buf out;
        steno_err err = {0};
        char *part = malloc(k + 1); /* its end is where a read too far shows */
        memcpy(part, file, k);
        steno_buf_init(&out, 1 << 20);
        if (steno_ort_format_to_onnx(part, k, &out, &err))
            assert_true(err.msg[0]);
        steno_buf_free(&out);
        free(part);
    }
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_runs_with_its_attributes_and_weights),
        cmocka_unit_test(branches_capture_outer_values),
        cmocka_unit_test(every_cut_is_refused_or_harmless),
    };
    return cmocka_run_group_tests_name("ort_format", tests, NULL, NULL);
}
