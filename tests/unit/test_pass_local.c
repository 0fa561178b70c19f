/* LocalAttention: the operator against a plain computation, and pass local on attention within a
 * window, written in chunks of three windows and as transformers exports Longformer. Near misses
 * stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/pass_check.h"
#include "tests/support/write_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const levels[] = {"scalar", "avx2", "avx512", "native"};

/* ---- the operator ---- */

struct size {
    int64_t batch, rows, heads, size, v_size, window;
};

enum { Q, K, V, MASK, OFF };

static float numbers[5][1 << 16];
static uint8_t offs[1 << 12];

static void fill(void)
{
    uint32_t x = 7;
    for (size_t k = 0; k < 5; k++)
        for (size_t i = 0; i < 1 << 16; i++) {
            x = x * 1664525u + 1013904223u;
            numbers[k][i] = (float)(x >> 8) / (1 << 23) - 1;
        }
    for (size_t i = 0; i < 1 << 12; i++) {
        offs[i] = i % 7 == 3;
        if (i % 5 == 1)
            numbers[MASK][i] = -10000;
    }
}

static struct mk_graph *operator(const struct size *s, bool masked)
{
    struct mk_graph *m = mk_new(17);
    Onnx__Node *n;
    mk_import(m, "ai.steno", 1);
    mk_input(m, "q", STENO_F32, "b,t,a");
    mk_input(m, "k", STENO_F32, "b,t,a");
    mk_input(m, "v", STENO_F32, "b,t,c");
    if (masked) {
        mk_input(m, "mask", STENO_F32, "b,t");
        mk_input(m, "off", STENO_BOOL, "b,t,1");
    }
    n = mk_node(m, "LocalAttention", masked ? "q,k,v,mask,off" : "q,k,v", "y");
    n->domain = (char *)(uintptr_t) "ai.steno";
    mk_attr_int(m, "heads", s->heads);
    mk_attr_int(m, "size", s->size);
    mk_attr_int(m, "v_size", s->v_size);
    mk_attr_int(m, "window", s->window);
    mk_attr_float(m, "scale", 0.5f);
    mk_output(m, "y", STENO_F32, NULL);
    return m;
}

static steno_session *run(steno_network *n, const struct size *s, bool masked, int threads)
{
    const int64_t cols[] = {s->heads * s->size, s->heads * s->size, s->heads * s->v_size};
    struct steno_session_options opt = {.threads = threads};
    steno_session *session = NULL;
    steno_err err = {0};
    if (steno_session_open(&session, n, &opt, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < (masked ? 5 : 3); i++) {
        struct steno_tensor t = {.dtype = i == OFF ? STENO_BOOL : STENO_F32,
                                 .data = i == OFF ? (void *)offs : numbers[i]};
        t.shape = (struct steno_shape){.rank = i == MASK ? 2 : 3, .dim = {s->batch, s->rows}};
        if (i != MASK)
            t.shape.dim[2] = i == OFF ? 1 : cols[i];
        if (steno_session_set(session, i, &t, &err))
            fail_msg("%s", err.msg);
    }
    if (steno_session_run(session, &err))
        fail_msg("%lld rows, window %lld: %s", (long long)s->rows, (long long)s->window, err.msg);
    return session;
}

/* One result by the formula, in f64. */
static double plain(const struct size *s, bool masked, int64_t b, int64_t t, int64_t h, int64_t c)
{
    const int64_t d = s->heads * s->size, dv = s->heads * s->v_size;
    double sum = 0, y = 0, max = -INFINITY;
    if (masked && offs[b * s->rows + t])
        return 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = t - s->window; j <= t + s->window; j++) {
            double x = 0, w;
            if (j < 0 || j >= s->rows)
                continue;
            for (int64_t i = 0; i < s->size; i++)
                x += (double)numbers[Q][(b * s->rows + t) * d + h * s->size + i] *
                     (double)numbers[K][(b * s->rows + j) * d + h * s->size + i];
            x = x * 0.5 + (masked ? (double)numbers[MASK][b * s->rows + j] : 0);
            max = pass ? max : fmax(max, x);
            w = pass ? exp(x - max) : 0;
            sum += w;
            y += w * (double)numbers[V][(b * s->rows + j) * dv + h * s->v_size + c];
        }
    return y / sum;
}

static void agrees(const steno_session *session, const struct size *s, bool masked)
{
    const struct steno_tensor *y = steno_session_get(session, 0);
    const int64_t dv = s->heads * s->v_size;
    assert_int_equal(y->shape.rank, 3);
    assert_int_equal(y->shape.dim[0], s->batch);
    assert_int_equal(y->shape.dim[1], s->rows);
    assert_int_equal(y->shape.dim[2], dv);
    for (int64_t i = 0; i < s->batch * s->rows * dv; i++) {
        int64_t row = i / dv, c = i % dv;
        double want = plain(s, masked, row / s->rows, row % s->rows, c / s->v_size, c % s->v_size);
        double got = (double)((float *)y->data)[i];
        if (!(fabs(got - want) < 2e-5))
            fail_msg("%lld rows, window %lld: element %lld is %g, expected %g", (long long)s->rows,
                     (long long)s->window, (long long)i, got, want);
    }
}

static void one_size(const struct size *s, bool masked)
{
    struct mk_graph *m = operator(s, masked);
    size_t bytes;
    uint8_t *file = mk_bytes(m, &bytes);
    mk_free(m);
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
        struct steno_network_options opt = {.borrow_from = 1, .opt_level = 3, .cpu = levels[l]};
        steno_network *n = NULL;
        steno_session *one, *two;
        steno_err err = {0};
        if (steno_network_open_memory(&n, file, bytes, "test", &opt, &err))
            fail_msg("%s", err.msg);
        one = run(n, s, masked, 1);
        two = run(n, s, masked, 2);
        assert_int_equal(steno_session_misplans(one), 0);
        agrees(one, s, masked);
        assert_memory_equal(steno_session_get(one, 0)->data, steno_session_get(two, 0)->data,
                            steno_numel(steno_session_get(one, 0)) * sizeof(float));
        steno_session_close(one);
        steno_session_close(two);
        steno_network_close(n);
    }
    free(file);
}

static void every_row_sees_its_window(void **state)
{
    static const struct size sizes[] = {
        {1, 1, 1, 4, 4, 0},    {2, 5, 2, 3, 5, 0},    {1, 5, 1, 8, 8, 1},
        {2, 63, 2, 4, 4, 5},   {1, 64, 2, 4, 4, 64},  {2, 65, 3, 5, 2, 17},
        {1, 129, 1, 4, 4, 63}, {1, 200, 2, 8, 8, 10}, {1, 70, 2, 4, 4, 1000}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int masked = 0; masked < 2; masked++)
            one_size(&sizes[i], masked);
}

static void no_rows_give_no_rows(void **state)
{
    const struct size s = {1, 0, 2, 4, 4, 3};
    (void)state;
    one_size(&s, true);
}

static void bad_attributes_and_inputs_are_named(void **state)
{
    static const struct {
        struct size s;
        const char *says;
    } cases[] = {{{1, 4, 0, 4, 4, 1}, "heads is 0"},
                 {{1, 4, 2, 4, 4, -1}, "window is -1"},
                 {{1, 4, 2, 70000, 4, 1}, "size is 70000"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steno_network_options opt = {.borrow_from = 1, .opt_level = 3};
        struct mk_graph *m = operator(&cases[i].s, false);
        steno_network *n = NULL;
        steno_err err = {0};
        size_t bytes;
        uint8_t *file = mk_bytes(m, &bytes);
        assert_int_not_equal(steno_network_open_memory(&n, file, bytes, "test", &opt, &err), 0);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("'%s' without '%s'", err.msg, cases[i].says);
        free(file);
        mk_free(m);
    }
}

/* ---- chunks of three windows ---- */

/* What a test changes in the graph. */
struct form {
    int w;
    bool masked;
    const char *scores;  /* statements from s0 to s1 */
    const char *weights; /* from p0 to p1 */
    const char *values;  /* the projection that V comes from */
    int band;            /* columns of the band behind the row's own; 0: 2 w + 1 */
    float outside;
};

static const struct form usual = {2, true, "Identity s0 s1", "Identity p0 p1", "wv", 0, -INFINITY};

static void chunks_of(struct mk_graph *m, const char *x, const char *y)
{
    char text[800];
    snprintf(text, sizeof text,
             "Slice %s,n0,back2,n1 %s_0; Slice %s,from1,back1,n1 %s_1; Slice %s,from2,far,n1 %s_2;"
             "Reshape %s_0,rows %s_3; Reshape %s_1,rows %s_4; Reshape %s_2,rows %s_5;"
             "Concat %s_3,%s_4,%s_5 %s_6 axis=2; Reshape %s_6,heads %s",
             x, y, x, y, x, y, y, y, y, y, y, y, y, y, y, y, y, y);
    pc_graph(m, text);
}

static void add_band(struct mk_graph *m, const struct form *f)
{
    const int span = f->band ? f->band : 2 * f->w + 1;
    float band[12 * 36];
    char dims[24];
    for (int i = 0; i < f->w * 3 * f->w; i++) {
        int at = i % (3 * f->w) - i / (3 * f->w);
        band[i] = at >= 0 && at < span ? 0 : f->outside;
    }
    snprintf(dims, sizeof dims, "%d,%d", f->w, 3 * f->w);
    mk_f32(m, "band", dims, band, (size_t)(3 * f->w * f->w));
}

/* Attention of x [b, t, 8] with two heads; t is a multiple of w. */
static struct mk_graph *chunked(const struct form *f, const char *dims, int opset)
{
    struct mk_graph *m = pc_start(opset, dims);
    char text[900];
    snprintf(
        text, sizeof text,
        "wq : 8,8; wk : 8,8; wv : 8,8; bq : 8; n0 = [0]; n1 = [1]; far = [9223372036854775807];"
        "root = 2; inf = -inf; none = 0; back2 = [%d]; back1 = [%d]; from1 = [%d];"
        "from2 = [%d]; rows = [0,-1,%d,8]; heads = [0,0,%d,2,4]; pads = [0,%d,0,0,%d,0];"
        "chunk = [0,-1,%d,2,4]; join = [0,-1,8]; mpads = [0,%d,0,%d]; mrows = [0,-1,%d];"
        "mall = [0,0,1,1,%d]; orows = [0,-1,1,%d,1]; hide = -10000",
        -2 * f->w, -f->w, f->w, 2 * f->w, f->w, 3 * f->w, f->w, f->w, f->w, f->w, f->w, f->w,
        3 * f->w, f->w);
    pc_graph(m, text);
    add_band(m, f);
    snprintf(text, sizeof text,
             "MatMul x,wq q0; Add q0,bq q1; Div q1,root q2; MatMul x,wk k0; MatMul x,%s v0;"
             "Reshape q2,chunk q3; Transpose q3 q perm=[0,1,3,2,4]; Pad k0,pads k1; Pad v0,pads v1",
             f->values);
    pc_graph(m, text);
    chunks_of(m, "k1", "k2");
    chunks_of(m, "v1", "v2");
    pc_graph(m, "Transpose k2 k perm=[0,1,3,4,2]; Transpose v2 v perm=[0,1,3,2,4]; MatMul q,k s0");
    pc_graph(m, f->scores);
    if (f->masked) {
        mk_input(m, "off", STENO_BOOL, *dims == 'b' ? "b,t" : *dims == '1' ? "1,t" : "2,4");
        pc_graph(m, "Where off,hide,none keys");
    } else {
        pc_graph(m, "two = [2]; Shape x xs; Slice xs,n0,two bt; ConstantOfShape bt keys");
    }
    pc_graph(m, "Pad keys,mpads,inf m0; Slice m0,n0,back2,n1 m1; Slice m0,from1,back1,n1 m2;"
                "Slice m0,from2,far,n1 m3; Reshape m1,mrows m4; Reshape m2,mrows m5;"
                "Reshape m3,mrows m6; Concat m4,m5,m6 m7 axis=2; Reshape m7,mall m8;"
                "Add s1,band s2; Add s2,m8 s3; Softmax s3 p0 axis=-1");
    pc_graph(m, f->weights);
    pc_graph(m, f->masked ? "Reshape off,orows o; Where o,none,p1 p2" : "Identity p1 p2");
    pc_graph(m, "MatMul p2,v y0; Transpose y0 y1 perm=[0,1,3,2,4]; Reshape y1,join y; -> y");
    return m;
}

static void check(const struct form *f, const char *dims, bool hits)
{
    pc_check(chunked(f, dims, 17), "local", hits, -1, 2e-6f);
}

static void chunks_of_three_windows_are_one_node(void **state)
{
    struct form f = usual;
    (void)state;
    check(&f, "1,t,8", true);
    check(&f, "b,t,8", true);
    for (f.w = 1; f.w <= 4; f.w *= 2)
        for (int masked = 0; masked < 2; masked++) {
            char what[40];
            snprintf(what, sizeof what, "window %d, masked %d", f.w, masked);
            pc.context = what;
            f.masked = masked;
            check(&f, "1,t,8", true);
            check(&f, "2,4,8", true);
            pc.context = NULL;
        }
}

static void it_is_written_as_a_function(void **state)
{
    struct form f = usual;
    (void)state;
    for (int masked = 0; masked < 2; masked++) {
        f.masked = masked;
        f.w = 3; /* open dimensions are 3 in this check */
        wc_round_trip(chunked(&f, "1,t,8", 17), "LocalAttention", 17);
        wc_round_trip(chunked(&f, "b,t,8", 13), "LocalAttention", 13);
        f.w = 1;
        wc_round_trip(chunked(&f, "b,t,8", 17), "LocalAttention", 17);
    }
}

static void near_misses_stay(void **state)
{
    static const struct {
        const char *what;
        struct form f;
    } misses[] = {
        {"a window that is larger behind",
         {2, true, "Identity s0 s1", "Identity p0 p1", "wv", 6, -INFINITY}},
        {"a window that ends early",
         {2, true, "Identity s0 s1", "Identity p0 p1", "wv", 4, -INFINITY}},
        {"a fill that may be a score",
         {2, true, "Identity s0 s1", "Identity p0 p1", "wv", 0, -1e9f}},
        {"a cap on the scores",
         {2, true, "six = 6; Clip s0,none,six s1", "Identity p0 p1", "wv", 0, -INFINITY}},
        {"another scale for each head",
         {2, true, "per : 2,1,1; Mul s0,per s1", "Identity p0 p1", "wv", 0, -INFINITY}},
        {"a bias of the scores",
         {2, true, "per : 2,1,1; Add s0,per s1", "Identity p0 p1", "wv", 0, -INFINITY}},
        {"weights that are squared",
         {2, true, "Identity s0 s1", "Mul p0,p0 p1", "wv", 0, -INFINITY}},
        {"a weight that is added",
         {2, true, "Identity s0 s1", "tiny = 0.001; Add p0,tiny p1", "wv", 0, -INFINITY}},
        {"weights that are read twice",
         {2, true, "Identity s0 s1", "Identity p0 p1; -> p0", "wv", 0, -INFINITY}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof misses / sizeof *misses; i++) {
        pc.context = misses[i].what;
        check(&misses[i].f, "1,t,8", false);
    }
    pc.context = NULL;
}

/* ---- what exporters write ---- */

static void longformer_of_transformers_is_found(void **state)
{
    static const char *path = "tests/data/lm/longformer.onnx";
    static uint8_t file[1 << 20];
    FILE *f = fopen(path, "rb");
    steno_network *with, *without;
    size_t n;
    (void)state;
    if (!f)
        fail_msg("%s: cannot be read", path);
    n = fread(file, 1, sizeof file, f);
    fclose(f);
    with = pc_open(file, n, 3, NULL, NULL);
    without = pc_open(file, n, 3, "local", NULL);
    assert_int_equal(pc_found(with, "local"), 2);
    assert_int_equal(pc_count(with, "LocalAttention"), 2);
    assert_int_equal(pc_count(without, "LocalAttention"), 0);
    assert_int_equal(pc_count(with, "Softmax"), 0);
    pc_same(without, with, 1e-5f);
    steno_network_close(with);
    steno_network_close(without);
}

static int setup(void **state)
{
    (void)state;
    fill();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_sees_its_window),
        cmocka_unit_test(no_rows_give_no_rows),
        cmocka_unit_test(bad_attributes_and_inputs_are_named),
        cmocka_unit_test(chunks_of_three_windows_are_one_node),
        cmocka_unit_test(it_is_written_as_a_function),
        cmocka_unit_test(near_misses_stay),
        cmocka_unit_test(longformer_of_transformers_is_found),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
