/* Branches of If and bodies of Loop get the passes that the main graph gets, whole layers included.
 * What the branches hold alike is held once: constants, packed weights, initializers of a written
 * file, blocks of a packed cache. */

#include "nn/network/network.h"
#include "nn/onnx/load.h"
#include "nn/passes/passes.h"
#include "tools/optimize/write.h"
#include "nn/ops/body.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WEIGHTS                                                                                    \
    "g : 8; b : 8; wq : 8,8; wk : 8,8; wv : 8,8; wo : 8,8; f1 : 8,12; h1 : 12; f2 : 12,8;"         \
    "h2 : 8; d4 = [0,0,2,4]; d3 = [0,0,8];"
#define NORM(X, Y) "LayerNormalization " X ",g,b " Y " axis=-1 epsilon=0.00001;"
/* x -> y: self attention, feed-forward */
#define LAYER                                                                                      \
    NORM("x", "n")                                                                                 \
    "MatMul n,wq q2; MatMul n,wk k2; MatMul n,wv v2; Reshape q2,d4 q3;"                            \
    "Transpose q3 q perm=[0,2,1,3]; Reshape k2,d4 k3; Transpose k3 k perm=[0,2,3,1];"              \
    "Reshape v2,d4 v3; Transpose v3 v perm=[0,2,1,3]; MatMul q,k s; Softmax s w; MatMul w,v o;"    \
    "Transpose o t perm=[0,2,1,3]; Reshape t,d3 a; MatMul a,wo p; Add x,p c;" NORM(                \
        "c", "m") "MatMul m,f1 e; Add e,h1 r; Relu r u; MatMul u,f2 z; Add z,h2 j; Add c,j y;"

static const struct steno_graph *body(const struct steno_graph *g, const char *attr)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct steno_attr *a = steno_node_attr(&g->nodes[i], attr);
        if (!g->nodes[i].dead && a)
            return a->g;
    }
    fail_msg("no body %s", attr);
    return NULL;
}

static int regions_of(const struct steno_graph *g, const char *type)
{
    int count = 0;
    for (int32_t r = 0; r < g->n_regions; r++)
        count += !strcmp(g->regions[r].type, type);
    return count;
}

/* If(c) {then} else {other}; weights in the main graph or in each branch. */
static struct mk_graph *either(const char *main, const char *then, const char *other)
{
    struct mk_graph *m = pc_start(17, "2,t,8"), *a, *b;
    mk_input(m, "which", STENO_BOOL, "");
    pc_graph(m, main);
    a = mk_body(m);
    b = mk_body(m);
    pc_graph(a, then);
    pc_graph(b, other);
    mk_if(m, "which", "out", a, b);
    pc_graph(m, "-> out");
    return m;
}

static uint8_t *bytes_of(struct mk_graph *m, size_t *size)
{
    uint8_t *file = mk_bytes(m, size);
    mk_free(m);
    return file;
}

/* With either branch taken: all passes, every pass but one, and no pass give the same. */
static void both_ways(const uint8_t *file, size_t size)
{
    for (int way = 0; way < 2; way++) {
        steno_network *plain, *all, *without;
        pc.mask[0] = (uint8_t)way;
        plain = pc_open(file, size, 0, NULL, NULL);
        all = pc_open(file, size, 3, NULL, NULL);
        without = pc_open(file, size, 3, "layers,share", NULL);
        pc_same(plain, all, 1e-5f);
        pc_same(all, without, 0);
        steno_network_close(plain);
        steno_network_close(all);
        steno_network_close(without);
    }
}

static void layers_in_branches_are_one_node(void **state)
{
    size_t size;
    uint8_t *file = bytes_of(either(WEIGHTS, LAYER "-> y", "Neg x y; -> y"), &size);
    steno_network *n = pc_open(file, size, 3, NULL, NULL);
    const struct steno_graph *g = steno_network_graph(n);
    (void)state;
    assert_int_equal(regions_of(body(g, "then_branch"), "TransformerEncoderLayer"), 1);
    assert_int_equal(regions_of(body(g, "else_branch"), "TransformerEncoderLayer"), 0);
    assert_int_equal(steno_graph_count_top(g), 3); /* If, the layer, Neg */
    steno_network_close(n);
    n = pc_open(file, size, 3, "layers", NULL);
    assert_true(steno_graph_count_top(steno_network_graph(n)) > 3);
    steno_network_close(n);
    both_ways(file, size);
    free(file);
}

static void layers_in_a_loop_are_one_node(void **state)
{
    struct mk_graph *m = pc_start(17, "2,t,8"), *b = mk_body(m);
    const int64_t two = 2;
    uint8_t *file;
    size_t size;
    steno_network *n, *plain;
    (void)state;
    pc_graph(m, WEIGHTS);
    mk_i64(m, "trips", "", &two, 1);
    mk_input(b, "i", STENO_I64, "");
    mk_input(b, "go", STENO_BOOL, "");
    mk_input(b, "state", STENO_F32, NULL);
    pc_graph(b, "Identity state x;" LAYER "Identity go on");
    mk_output(b, "on", STENO_BOOL, "");
    pc_graph(b, "-> y");
    mk_node(m, "Loop", "trips,,x", "out");
    mk_attr_graph(m, "body", b);
    pc_graph(m, "-> out");
    file = bytes_of(m, &size);
    n = pc_open(file, size, 3, NULL, NULL);
    plain = pc_open(file, size, 0, NULL, NULL);
    assert_int_equal(regions_of(body(steno_network_graph(n), "body"), "TransformerEncoderLayer"),
                     1);
    pc_same(plain, n, 1e-5f);
    steno_network_close(n);
    steno_network_close(plain);
    free(file);
}

#define LENGTHS                                                                                    \
    "zero = [0]; one = [1]; two = [2]; eight = [8];"                                               \
    "Shape x s; Slice s,two,k3 w; Shape x s2; Slice s2,one,two t1; Mul t1,w tw; Shape x s3;"       \
    "Slice s3,one,two t2; Mul t2,w tx; Concat zb,tw ra axis=0; Concat zb,tx rb axis=0;"            \
    "Reshape x,ra e; Reshape x,rb f; Add e,f y;"

/* Shape arithmetic of a branch is followed as that of the main graph: the last extent is a number,
 * and two ways to compute one dimension are one. A loop's body has other shapes each time. */
static void shapes_are_known_in_branches(void **state)
{
    size_t size;
    uint8_t *file = bytes_of(either("k3 = [3]; zb = [-1];", LENGTHS "-> y",
                                    "m1 = [-1]; Reshape x,m1 x2; Neg x2 x3; one = [1];"
                                    "Unsqueeze x3,one y; -> y"),
                             &size);
    steno_network *n = pc_open(file, size, 3, NULL, NULL);
    (void)state;
    assert_true(pc_found(n, "shape") > 0);
    assert_true(pc_found(n, "cse") > 0);
    steno_network_close(n);
    both_ways(file, size);
    free(file);
}

/* ---- weights ---- */

/* A steno_network_weight_bytes of one product with these weights, in this precision. */
static size_t weight_bytes(const uint8_t *file, size_t size, enum steno_precision p)
{
    struct steno_network_options opt = {.opt_level = 3, .precision = p, .borrow_from = 1};
    steno_network *n = NULL;
    size_t bytes;
    steno_err err = {0};
    if (steno_network_open_memory(&n, file, size, "test", &opt, &err))
        fail_msg("%s", err.msg);
    bytes = steno_network_weight_bytes(n);
    steno_network_close(n);
    return bytes;
}

static const enum steno_precision precisions[] = {STENO_FP32, STENO_BF16_WEIGHTS,
                                                  STENO_INT8_WEIGHTS};

static size_t bytes_of_graph(struct mk_graph *m, enum steno_precision p)
{
    size_t size, bytes;
    uint8_t *file = bytes_of(m, &size);
    both_ways(file, size);
    bytes = weight_bytes(file, size, p);
    free(file);
    return bytes;
}

#define W "big : 16,40;"
#define PRODUCT "one = [1]; d = [-1,16]; Reshape x,d r; MatMul r,big y; -> y"
#define OTHER "one = [1]; d = [-1,16]; Reshape x,d r; Neg r n; MatMul n,big y; -> y"
#define NONE                                                                                       \
    "one = [1]; z : 40; d = [-1,16]; Reshape x,d r; ReduceMax r i axes=[1]; Mul i,z y; -> y"

/* One initializer of the main graph, equal ones of the branches, and one that differs. */
static void weights_of_branches_are_packed_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
        const enum steno_precision p = precisions[i];
        const size_t once = bytes_of_graph(either(W, PRODUCT, NONE), p),
                     shared = bytes_of_graph(either(W, PRODUCT, OTHER), p),
                     equal = bytes_of_graph(either("", W PRODUCT, W OTHER), p),
                     /* other numbers: pc.w from another place on */
            twice = bytes_of_graph(
                either("", W PRODUCT,
                       "huge : 16,40; one = [1]; d = [-1,16]; Reshape x,d r; Neg r n;"
                       "MatMul n,huge y; -> y"),
                p);
        /* NONE has 40 floats more than OTHER */
        assert_true(shared + 160 >= once && shared <= once);
        assert_int_equal(equal, shared);
        assert_true(twice >= shared + (size_t)16 * 40 *
                                          (p == STENO_INT8_WEIGHTS   ? 1
                                           : p == STENO_BF16_WEIGHTS ? 2
                                                                     : 4));
    }
}

/* Q, K and V become one product in each branch: constants that the passes make are shared too. */
static void weights_that_passes_make_are_packed_once(void **state)
{
    size_t one, two;
    (void)state;
    one = bytes_of_graph(either(WEIGHTS, LAYER "-> y", "Neg x y; -> y"), STENO_FP32);
    two = bytes_of_graph(
        either("", WEIGHTS LAYER "-> y", WEIGHTS "Neg x x9;" LAYER "Neg y y9; -> y9"), STENO_FP32);
    assert_int_equal(two, one);
}

/* Two nodes of one graph that multiply by the same weights. */
static void equal_weights_of_a_graph_are_packed_once(void **state)
{
    struct mk_graph *m;
    size_t one, two;
    (void)state;
    m = pc_start(13, "2,t,16");
    pc_graph(m, W "MatMul x,big y; -> y");
    mk_input(m, "unused", STENO_BOOL, "");
    one = bytes_of_graph(m, STENO_FP32);
    m = pc_start(13, "2,t,16");
    pc_graph(m, W "MatMul x,big y; Exp x e; MatMul e,big z; -> y; -> z");
    two = bytes_of_graph(m, STENO_FP32);
    assert_int_equal(two, one);
}

/* ---- files ---- */

static size_t initializer_bytes(const struct steno_graph *g)
{
    size_t sum = 0, bytes;
    for (int32_t i = 0; i < g->n_values; i++)
        if (g->values[i].constant &&
            !steno_shape_bytes(&g->values[i].shape, g->values[i].dtype, &bytes))
            sum += bytes;
    for (int32_t i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_attr; k++)
            if (g->nodes[i].attr[k].kind == STENO_ATTR_GRAPH)
                sum += initializer_bytes(g->nodes[i].attr[k].g);
    return sum;
}

/* A written file has the constants of both branches once, in the main graph. */
static void a_written_file_has_the_weights_of_branches_once(void **state)
{
    struct steno_network_options opt = {.opt_level = 3, .rewrite_only = true};
    struct steno_onnx_write_options how = {.opset = 17, .ir_version = 8, .body = steno_body_text};
    struct steno_graph *back = NULL;
    struct steno_buf out;
    size_t size;
    uint8_t *file = bytes_of(either("", W PRODUCT, W OTHER), &size);
    steno_network *n = NULL, *plain, *written;
    steno_err err = {0};
    (void)state;
    steno_buf_init(&out, 1 << 20);
    if (steno_network_open_memory(&n, file, size, "test", &opt, &err) ||
        steno_onnx_serialize(steno_network_graph(n), &out, &how, &err) ||
        steno_onnx_parse(&back, out.data, out.len, NULL, NULL, NULL, &err))
        fail_msg("%s", err.msg);
    assert_true(initializer_bytes(back) < (size_t)16 * 40 * 4 + 512);
    for (int way = 0; way < 2; way++) {
        pc.mask[0] = (uint8_t)way;
        plain = pc_open(file, size, 0, NULL, NULL);
        written = pc_open((const uint8_t *)out.data, out.len, 3, NULL, NULL);
        pc_same(plain, written, 1e-5f);
        steno_network_close(plain);
        steno_network_close(written);
    }
    steno_graph_free(back);
    steno_network_close(n);
    steno_buf_free(&out);
    free(file);
}

static void remove_all(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    char path[512];
    while (d && (e = readdir(d))) {
        snprintf(path, sizeof path, "%.200s/%.250s", dir, e->d_name);
        (void)unlink(path);
    }
    if (d)
        closedir(d);
    (void)rmdir(dir);
}

/* A packed cache has a shared block once; a load from it shares it again, and has the layers. */
static void a_packed_cache_has_the_weights_of_branches_once(void **state)
{
    char dir[] = "/tmp/steno-branches-XXXXXX";
    struct mk_graph *m =
        either("", WEIGHTS LAYER "-> y", WEIGHTS "Neg x x9;" LAYER "Neg y y9; -> y9");
    char *path = mk_file(m);
    size_t bytes[2], top[2];
    (void)state;
    mk_free(m);
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < 2; i++) {
        struct steno_network_options opt = {.opt_level = 3, .cache_dir = dir};
        steno_network *n = NULL, *plain = NULL;
        steno_err err = {0};
        if (steno_network_open(&n, path, &opt, &err) ||
            steno_network_open(&plain, path, &(struct steno_network_options){.opt_level = 0}, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(steno_network_is_mapped(n), i);
        bytes[i] = steno_network_weight_bytes(n);
        top[i] = steno_graph_count_top(steno_network_graph(n));
        assert_int_equal(
            regions_of(body(steno_network_graph(n), "else_branch"), "TransformerEncoderLayer"), 1);
        pc_same(plain, n, 1e-5f);
        steno_network_close(n);
        steno_network_close(plain);
    }
    assert_int_equal(top[0], top[1]);
    assert_true(bytes[1] <= bytes[0] + 256); /* small constants are the branches' own there */
    remove_all(dir);
    mk_unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_in_branches_are_one_node),
        cmocka_unit_test(layers_in_a_loop_are_one_node),
        cmocka_unit_test(shapes_are_known_in_branches),
        cmocka_unit_test(weights_of_branches_are_packed_once),
        cmocka_unit_test(weights_that_passes_make_are_packed_once),
        cmocka_unit_test(equal_weights_of_a_graph_are_packed_once),
        cmocka_unit_test(a_written_file_has_the_weights_of_branches_once),
        cmocka_unit_test(a_packed_cache_has_the_weights_of_branches_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
