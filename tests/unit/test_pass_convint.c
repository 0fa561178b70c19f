/* Convolutions of 8-bit numbers in networks that may round by rows: they become products of frames,
 * or f32. The reference is the graph as it is, which rounds over all numbers. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct spelling {
    const char *x;       /* dimensions of the input */
    const char *weights; /* of the constant */
    size_t n;            /* their product */
    steno_dtype t;       /* of the weights */
    const char *scale;   /* dimensions of the weights' scale, of `scales` numbers */
    size_t scales;
    const char *rest; /* from q, zx, wq, wz to the sums p */
    bool hits;
};

/* y is what the quantizers of ONNX Runtime write for a convolution of x. */
static struct mk_graph *make(const struct spelling *s)
{
    static uint8_t data[1024];
    struct mk_graph *m = pc_start(17, s->x);
    Onnx__Tensor *w;
    assert_true(s->n <= sizeof data);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 89 % 251);
    w = mk_tensor(m, "wq", s->t, s->weights);
    w->raw_data.data = data;
    w->raw_data.len = s->n;
    w = mk_tensor(m, "wz", s->t, "");
    w->raw_data.data = data + 3;
    w->raw_data.len = 1;
    mk_f32(m, "ws", s->scale, pc.w + 600, s->scales);
    pc_graph(m, "DynamicQuantizeLinear x q,sx,zx");
    pc_graph(m, s->rest);
    pc_graph(m, "Cast p c to=1; Mul sx,ws f; Mul c,f y; -> y");
    return m;
}

static steno_network *open(const uint8_t *file, size_t size, enum steno_precision p)
{
    const struct steno_network_options o = {.borrow_from = 1, .opt_level = 3, .precision = p};
    steno_network *n = NULL;
    steno_err err = {0};
    if (steno_network_open_memory(&n, file, size, "test", &o, &err))
        fail_msg("%s", err.msg);
    return n;
}

/* Largest difference of the outputs, relative to the largest number. */
static double distance(steno_network *a, steno_network *b)
{
    steno_session *sa = pc_run(a), *sb = pc_run(b);
    const struct steno_tensor *x = steno_session_get(sa, 0), *y = steno_session_get(sb, 0);
    double most = 0, far = 0;
    assert_int_equal(steno_numel(x), steno_numel(y));
    for (size_t i = 0; i < steno_numel(x); i++) {
        const double v = (double)((const float *)x->data)[i];
        most = fmax(most, fabs(v));
        far = fmax(far, fabs(v - (double)((const float *)y->data)[i]));
    }
    steno_session_close(sa);
    steno_session_close(sb);
    return far / most;
}

/* The first recording of a run has the same bits when it is alone and when another with larger
 * numbers is beside it. */
static void check_alone(steno_network *n)
{
    const struct steno_value *v = steno_network_input(n, 0);
    struct steno_tensor t = {.dtype = STENO_F32, .shape = v->shape};
    steno_session *s = NULL;
    float *x, *first = NULL;
    size_t one;
    t.shape.dim[0] = 2;
    for (int i = 1; i < t.shape.rank; i++)
        t.shape.dim[i] = t.shape.dim[i] < 0 ? PC_N : t.shape.dim[i];
    one = steno_numel(&t) / 2;
    x = malloc(2 * one * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < one; i++) {
        x[i] = pc.x[i];
        x[one + i] = 9 * pc.x[i];
    }
    t.data = x;
    assert_int_equal(steno_session_open(&s, n, NULL, NULL), STENO_OK);
    for (int size = 2; size; size--) {
        const struct steno_tensor *y;
        t.shape.dim[0] = size;
        assert_int_equal(steno_session_set(s, 0, &t, NULL), STENO_OK);
        assert_int_equal(steno_session_run(s, NULL), STENO_OK);
        y = steno_session_get(s, 0);
        if (size == 2) {
            first = malloc(steno_numel(y) / 2 * sizeof *first);
            assert_non_null(first);
            memcpy(first, y->data, steno_numel(y) / 2 * sizeof *first);
        } else {
            assert_memory_equal(first, y->data, steno_numel(y) * sizeof *first);
        }
    }
    free(first);
    free(x);
    steno_session_close(s);
}

static void convolutions_round_by_frames_or_not_at_all(void **state)
{
    static const struct spelling cases[] = {
        /* products of frames */
        {"b,24,t", "10,24,1", 240, STENO_U8, "", 1,
         "ConvInteger q,wq,zx,wz p kernel_shape=[1] strides=[1] pads=[0,0] group=1", true},
        {"b,24,t", "10,24,1", 240, STENO_I8, "10,1", 10, "ConvInteger q,wq,zx,wz p", true},
        {"b,24,t", "10,24,1", 240, STENO_I8, "", 1, "ConvInteger q,wq,zx p", true},
        /* f32 */
        {"b,12,t", "12,1,3", 36, STENO_U8, "", 1,
         "ConvInteger q,wq,zx,wz p kernel_shape=[3] pads=[1,1] group=12", true},
        {"b,12,t", "10,12,3", 360, STENO_I8, "10,1", 10, "ConvInteger q,wq,zx,wz p pads=[1,1]",
         true},
        {"b,1,t,16", "8,1,3,3", 72, STENO_U8, "", 1,
         "ConvInteger q,wq,zx,wz p strides=[2,2] pads=[1,1,1,1]", true},
        {"b,24,t", "10,24,1", 240, STENO_U8, "", 1,
         "ConvInteger q,wq,zx,wz p strides=[2] kernel_shape=[1]", true},
        /* a zero point of the file's own, a scale of another axis */
        {"b,24,t", "10,24,1", 240, STENO_U8, "", 1, "ConvInteger q,wq,wz,wz p", false},
        {"b,10,10", "10,10,1", 100, STENO_U8, "1,10", 10, "ConvInteger q,wq,zx,wz p", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mk_graph *m;
        steno_network *exact, *rows;
        uint8_t *file;
        size_t size;
        pc.context = cases[i].rest;
        m = make(&cases[i]);
        file = mk_bytes(m, &size);
        mk_free(m);
        exact = open(file, size, STENO_FP32);
        rows = open(file, size, STENO_INT8_WEIGHTS);
        assert_int_equal(pc_found(exact, "convint"), 0);
        if (pc_found(rows, "convint") != cases[i].hits)
            fail_msg("%zu: %s", i, cases[i].rest);
        if (!(distance(exact, rows) < 0.02))
            fail_msg("%zu: %s: %g", i, cases[i].rest, distance(exact, rows));
        if (cases[i].hits) {
            assert_int_equal(pc_count(rows, "ConvInteger"), 0);
            check_alone(rows);
        }
        steno_network_close(exact);
        steno_network_close(rows);
        free(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_round_by_frames_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
