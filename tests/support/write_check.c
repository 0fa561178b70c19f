#include "tests/support/write_check.h"

#include "tools/optimize/save.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

const float *wc_numbers(void)
{
    static float numbers[4096];
    const bool made = numbers[1] != 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !made; i++)
        numbers[i] = sinf((float)i * 1.7f) * 2;
    return numbers;
}

steno_network *wc_open(const void *file, size_t size, int level, bool rewrite)
{
    struct steno_network_options opt = {.opt_level = level, .rewrite_only = rewrite};
    steno_network *n = NULL;
    steno_err err = {0};
    if (steno_network_open_memory(&n, file, size, "test", &opt, &err))
        fail_msg("%s", err.msg);
    return n;
}

static steno_session *run(steno_network *n)
{
    steno_session *s = NULL;
    steno_err err = {0};
    if (steno_session_open(&s, n, NULL, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < steno_network_n_inputs(n); i++) {
        const struct steno_value *v = steno_network_input(n, i);
        struct steno_tensor t = {
            .dtype = v->dtype, .shape = v->shape, .data = (void *)(uintptr_t)wc_numbers()};
        static uint8_t mask[4096];
        for (size_t k = 0; k < sizeof mask; k++)
            mask[k] = k % 3 == 0;
        if (v->dtype == STENO_BOOL)
            t.data = mask;
        for (int d = 0; d < t.shape.rank; d++)
            if (t.shape.dim[d] < 0)
                t.shape.dim[d] = 3;
        if (steno_session_set(s, i, &t, &err))
            fail_msg("%s", err.msg);
    }
    if (steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    return s;
}

void wc_same(steno_network *a, steno_network *b, double tolerance)
{
    steno_session *sa = run(a), *sb = run(b);
    assert_int_equal(steno_network_n_outputs(a), steno_network_n_outputs(b));
    for (int i = 0; i < steno_network_n_outputs(a); i++) {
        const struct steno_tensor *x = steno_session_get(sa, i), *y = steno_session_get(sb, i);
        assert_true(steno_shape_equal(&x->shape, &y->shape));
        assert_int_equal(x->dtype, STENO_F32);
        assert_string_equal(steno_network_output(a, i)->name, steno_network_output(b, i)->name);
        for (size_t k = 0; k < steno_numel(x); k++) {
            double p = (double)((float *)x->data)[k], q = (double)((float *)y->data)[k];
            if (fabs(p - q) > tolerance * fmax(1, fabs(p)))
                fail_msg("output %d, element %zu: %g, %g", i, k, p, q);
        }
    }
    steno_session_close(sa);
    steno_session_close(sb);
}

void wc_round_trip(struct mk_graph *m, const char *type, int opset)
{
    struct steno_save_options so = {.opset = opset};
    steno_network *plain, *written, *kernel, *body;
    struct steno_buf out;
    steno_err err = {0};
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    steno_buf_init(&out, WC_MAX_FILE);
    written = wc_open(file, size, 3, true);
    assert_true(pc_count(written, type));
    if (steno_network_serialize(written, &so, &out, &err))
        fail_msg("%s", err.msg);
    plain = wc_open(file, size, 0, false);
    body = wc_open(out.data, out.len, 0, false);
    assert_false(pc_count(body, type));
    kernel = wc_open(out.data, out.len, 3, false);
    assert_true(pc_count(kernel, type));
    assert_int_equal(steno_network_nodes_in_file(kernel),
                     steno_graph_count_nodes(steno_network_graph(written)));
    wc_same(plain, body, 1e-5);
    wc_same(body, kernel, 1e-5);
    steno_network_close(plain);
    steno_network_close(body);
    steno_network_close(kernel);
    steno_network_close(written);
    steno_buf_free(&out);
    free(file);
    mk_free(m);
}

struct mk_graph *wc_swish(void)
{
    struct mk_graph *m = mk_new(13);
    mk_input(m, "x", STENO_F32, "2,8");
    mk_node(m, "Sigmoid", "x", "s");
    mk_node(m, "Mul", "x,s", "y");
    mk_output(m, "y", STENO_F32, "2,8");
    return m;
}
