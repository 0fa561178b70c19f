#include "nn/network/network.h"
#include "tests/support/onnx_make.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

enum { T = 5, K = 12, N = 9 };

/* A chain after x [t, K] times W [K, N], as nodes "type in,in out". r is an input [t, N], v an
 * input [N], b a constant [N], s a constant scalar; y is the result. */
struct chain {
    const char *nodes[6][3];
    const char *also; /* a second graph output, or NULL */
    int left;         /* nodes after the pass */
};

static void constants(struct mk_graph *g)
{
    float w[K * N], b[N], half = 0.5f;
    for (int i = 0; i < K * N; i++)
        w[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    for (int i = 0; i < N; i++)
        b[i] = (float)i / 4.0f - 1.0f;
    mk_f32(g, "W", "12,9", w, K * N);
    mk_f32(g, "b", "9", b, N);
    mk_f32(g, "s", "", &half, 1);
}

static steno_network *network(const struct chain *c, int level)
{
    struct steno_network_options opt = {.opt_level = level, .borrow_from = 1};
    struct mk_graph *g = mk_new(17);
    steno_network *n = NULL;
    steno_err err = {0};
    char *path;
    mk_input(g, "x", STENO_F32, "t,12");
    mk_input(g, "r", STENO_F32, "t,9");
    mk_input(g, "v", STENO_F32, "9");
    constants(g);
    mk_node(g, "MatMul", "x,W", "p");
    for (int i = 0; i < 6 && c->nodes[i][0]; i++)
        mk_node(g, c->nodes[i][0], c->nodes[i][1], c->nodes[i][2]);
    mk_output(g, "y", STENO_F32, "t,9");
    if (c->also)
        mk_output(g, c->also, STENO_F32, "t,9");
    path = mk_file(g);
    if (steno_network_open(&n, path, &opt, &err))
        fail_msg("%s", err.msg);
    mk_unlink(path);
    mk_free(g);
    return n;
}

static struct steno_tensor tensor(float *data, int rank, int64_t rows, int64_t cols)
{
    struct steno_tensor t = {.dtype = STENO_F32, .data = data};
    t.shape.rank = rank;
    t.shape.dim[0] = rank == 1 ? cols : rows;
    t.shape.dim[1] = cols;
    return t;
}

static void run(const struct chain *c, int level, float *y, float *also, int *nodes)
{
    static float x[T * K], r[T * N], v[N];
    struct steno_tensor in[3] = {tensor(x, 2, T, K), tensor(r, 2, T, N), tensor(v, 1, 1, N)};
    steno_network *n = network(c, level);
    steno_session *s = NULL;
    steno_err err = {0};
    *nodes = steno_network_graph(n)->n_nodes;
    for (int i = 0; i < T * K; i++)
        x[i] = sinf((float)i);
    for (int i = 0; i < T * N; i++)
        r[i] = cosf((float)i);
    for (int i = 0; i < N; i++)
        v[i] = (float)i;
    if (steno_session_open(&s, n, NULL, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < 3; i++)
        assert_int_equal(steno_session_set(s, i, &in[i], &err), STENO_OK);
    if (steno_session_run(s, &err))
        fail_msg("%s", err.msg);
    memcpy(y, steno_session_get(s, 0)->data, T * N * sizeof *y);
    if (c->also)
        memcpy(also, steno_session_get(s, 1)->data, T * N * sizeof *y);
    steno_session_close(s);
    steno_network_close(n);
}

/* With the pass and without it: the same numbers up to the last places, and the expected number
 * of nodes. */
static void compare(const struct chain *c)
{
    float a[T * N], b[T * N], also_a[T * N] = {0}, also_b[T * N] = {0};
    int nodes, before;
    run(c, 0, a, also_a, &before);
    run(c, 3, b, also_b, &nodes);
    for (int i = 0; i < T * N; i++) {
        assert_true(fabsf(a[i] - b[i]) <= 2e-6f * (1.0f + fabsf(a[i])));
        assert_true(fabsf(also_a[i] - also_b[i]) <= 2e-6f * (1.0f + fabsf(also_a[i])));
    }
    assert_int_equal(nodes, c->left);
}

static void whole_chain_becomes_one_node(void **state)
{
    static const struct chain chains[] = {
        {{{"Add", "p,b", "y"}}, NULL, 1},
        {{{"Add", "b,p", "q"}, {"Relu", "q", "y"}}, NULL, 1},
        {{{"Add", "p,b", "q"}, {"Mul", "q,s", "y"}}, NULL, 1},
        {{{"Mul", "s,p", "q"}, {"Add", "q,b", "z"}, {"Tanh", "z", "y"}}, NULL, 1},
        {{{"Add", "p,b", "q"}, {"Sigmoid", "q", "z"}, {"Mul", "q,z", "y"}}, NULL, 1},
        {{{"Add", "p,b", "q"}, {"Sigmoid", "q", "z"}, {"Mul", "z,q", "m"}, {"Add", "r,m", "y"}},
         NULL,
         1},
        {{{"Add", "p,b", "q"}, {"Mul", "q,s", "z"}, {"Add", "z,r", "y"}}, NULL, 1},
        {{{"Sigmoid", "p", "y"}}, NULL, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
        compare(&chains[i]);
}

static void transposes_with_other_readers_or_broadcasts_stay(void **state)
{
    static const struct chain chains[] = {
        {{{"Add", "p,b", "q"}, {"Relu", "q", "y"}}, "q", 2},    /* q is a graph output */
        {{{"Add", "p,v", "y"}}, NULL, 2},                       /* v is not constant */
        {{{"Relu", "p", "q"}, {"Add", "q,b", "y"}}, NULL, 2},   /* bias after the activation */
        {{{"Relu", "p", "q"}, {"Mul", "q,s", "y"}}, NULL, 2},   /* scale after the activation */
        {{{"Sigmoid", "p", "q"}, {"Tanh", "q", "y"}}, NULL, 2}, /* two activations */
        {{{"Add", "p,r", "q"}, {"Relu", "q", "y"}}, NULL, 2},   /* activation after the residual */
        {{{"Relu", "p", "q"}, {"Tanh", "p", "z"}, {"Add", "q,z", "y"}}, NULL, 4},
        {{{"Add", "p,p", "y"}}, NULL, 2},
        {{{"Add", "p,b", "q"}, {"Sigmoid", "q", "z"}, {"Mul", "q,z", "y"}}, "z", 3},
    };
    (void)state;
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
        compare(&chains[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_chain_becomes_one_node),
        cmocka_unit_test(transposes_with_other_readers_or_broadcasts_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
