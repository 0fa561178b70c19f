/* Files with very many nodes. Every pass must be linear in their number, and the number has a
 * limit. A pass that visits all nodes for each node it removes would take minutes here. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef STENO_SANITIZE /* a sanitizer checks memory, not how the work grows */
enum { NODES = 20000 };
#else
enum { NODES = 100000 };
#endif
enum { TOO_MANY = 1000001 };

struct bytes {
    uint8_t *p;
    size_t n, cap;
};

static void put(struct bytes *b, const void *p, size_t n)
{
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n);
        b->p = realloc(b->p, b->cap);
        assert_non_null(b->p);
    }
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

static void varint(struct bytes *b, uint64_t v)
{
    for (; v > 127; v >>= 7)
        put(b, &(uint8_t){(uint8_t)(v | 128)}, 1);
    put(b, &(uint8_t){(uint8_t)v}, 1);
}

/* Protocol Buffers, "Encoding": key, length, bytes. */
static void field(struct bytes *b, unsigned number, const void *p, size_t n)
{
    varint(b, number << 3 | 2);
    varint(b, n);
    put(b, p, n);
}

static void text(struct bytes *b, unsigned number, const char *s)
{
    field(b, number, s, strlen(s));
}

static void node(struct bytes *graph, const char *type, const char *in, const char *out)
{
    struct bytes n = {0};
    text(&n, 1, in);
    text(&n, 2, out);
    text(&n, 3, out);
    text(&n, 4, type);
    field(graph, 1, n.p, n.n);
    free(n.p);
}

/* ValueInfoProto of f32 [4]. */
static void value(struct bytes *graph, unsigned number, const char *name)
{
    static const uint8_t type[] = {0x0a, 8, 0x08, 1, 0x12, 4, 0x0a, 2, 0x08, 4};
    struct bytes v = {0};
    text(&v, 1, name);
    field(&v, 2, type, sizeof type);
    field(graph, number, v.p, v.n);
    free(v.p);
}

/* x through n nodes to y, with the types in rotation. */
static struct bytes chain(int n, const char *const *types, int n_types)
{
    struct bytes graph = {0}, model = {0};
    char in[16] = "x", out[16];
    for (int i = 0; i < n; i++) {
        snprintf(out, sizeof out, i + 1 < n ? "v%d" : "y", i);
        node(&graph, types[i % n_types], in, out);
        memcpy(in, out, sizeof in);
    }
    text(&graph, 2, "chain");
    value(&graph, 11, "x");
    value(&graph, 12, "y");
    varint(&model, 1 << 3);
    varint(&model, 8);
    field(&model, 7, graph.p, graph.n);
    field(&model, 8, (const uint8_t[]){0x10, 17}, 2);
    free(graph.p);
    return model;
}

static void a_long_chain_is_linear_work(void **state)
{
    static const char *const vanish[] = {"Identity", "Neg", "Neg", "Identity"};
    static const char *const stay[] = {"Tanh", "Identity", "Abs", "Abs"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct bytes m = chain(NODES, i ? stay : vanish, 4);
        steno_network *n = pc_open(m.p, m.n, 3, NULL, NULL);
        size_t left = steno_graph_count_nodes(steno_network_graph(n));
        /* an input cannot be an output: one pair of nodes stays between them */
        assert_int_equal(left, i ? NODES / 2 : 2);
        steno_network_close(n);
        free(m.p);
    }
}

static void too_many_nodes_are_refused(void **state)
{
    static const char *const types[] = {"Relu"};
    struct bytes m = chain(TOO_MANY, types, 1);
    steno_network *n = NULL;
    steno_err err = {0};
    (void)state;
    assert_int_equal(steno_network_open_memory(&n, m.p, m.n, "long.onnx", NULL, &err),
                     STENO_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "long.onnx"));
    assert_non_null(strstr(err.msg, "1000000 nodes"));
    free(m.p);
}

/* Unpacked they would take 3.4 GB. The walk over the bytes counts them first. */
static void ten_million_nodes_are_refused_before_they_are_unpacked(void **state)
{
    struct bytes one = {0}, graph = {0}, model = {0};
    steno_network *n = NULL;
    steno_err err = {0};
    (void)state;
    node(&one, "Relu", "x", "q");
    graph.n = one.n * 10000000;
    graph.p = malloc(graph.n);
    assert_non_null(graph.p);
    for (size_t i = 0; i < graph.n; i += one.n)
        memcpy(graph.p + i, one.p, one.n);
    varint(&model, 1 << 3);
    varint(&model, 8);
    field(&model, 7, graph.p, graph.n);
    free(graph.p);
    free(one.p);
    assert_int_equal(steno_network_open_memory(&n, model.p, model.n, "ten.onnx", NULL, &err),
                     STENO_ERR_LIMIT);
    assert_string_equal(err.msg, "ten.onnx: more than 2000000 nodes in the file");
    free(model.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_chain_is_linear_work),
        cmocka_unit_test(too_many_nodes_are_refused),
        cmocka_unit_test(ten_million_nodes_are_refused_before_they_are_unpacked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
