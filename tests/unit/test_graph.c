#include "base/buf.h"
#include "nn/graph/graph.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

static steno_value_id value(struct steno_graph *g, const char *name)
{
    steno_value_id v;
    assert_int_equal(steno_graph_add_value(g, name, &v, NULL), STENO_OK);
    return v;
}

static steno_value_id input(struct steno_graph *g, const char *name)
{
    steno_value_id v = value(g, name);
    g->values[v].is_input = true;
    return v;
}

static int32_t node(struct steno_graph *g, const char *name, steno_value_id a, steno_value_id b,
                    steno_value_id out)
{
    int32_t n;
    assert_int_equal(steno_graph_add_node(g, "", "Op", name, 2, 1, 0, &n, NULL), STENO_OK);
    g->nodes[n].in[0] = a;
    g->nodes[n].in[1] = b;
    g->nodes[n].out[0] = out;
    return n;
}

static void sort_puts_writers_before_readers(void **state)
{
    struct steno_graph *g = steno_graph_new(NULL);
    steno_value_id x = input(g, "x"), a = value(g, "a"), b = value(g, "b"), c = value(g, "c");
    (void)state;
    node(g, "last", b, a, c);
    node(g, "middle", a, STENO_NONE, b);
    node(g, "first", x, STENO_NONE, a);
    assert_int_equal(steno_graph_sort(g, NULL), STENO_OK);
    assert_string_equal(g->nodes[0].name, "first");
    assert_string_equal(g->nodes[1].name, "middle");
    assert_string_equal(g->nodes[2].name, "last");
    assert_int_equal(g->values[c].producer, 2);
    assert_int_equal(g->values[a].uses, 2);
    steno_graph_free(g);
}

static void sort_keeps_an_order_that_is_right(void **state)
{
    struct steno_graph *g = steno_graph_new(NULL);
    steno_value_id x = input(g, "x");
    char name[16];
    (void)state;
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "n%d", i);
        node(g, name, i % 7 ? x : i, STENO_NONE, value(g, name));
    }
    assert_int_equal(steno_graph_sort(g, NULL), STENO_OK);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "n%d", i);
        assert_string_equal(g->nodes[i].name, name);
    }
    steno_graph_free(g);
}

/* x -> in1 -> a -> mid -> b -> in2 -> c. While `mid` is outside the region, in1 and in2 are not
 * convex. */
static struct steno_graph *chain(bool convex, steno_value_id *c)
{
    struct steno_graph *g = steno_graph_new(NULL);
    steno_value_id x = input(g, "x"), a = value(g, "a"), b = value(g, "b"), s = value(g, "s");
    int32_t in1, in2, outer, inner;
    *c = value(g, "c");
    in1 = node(g, "in1", x, STENO_NONE, a);
    node(g, "side", x, STENO_NONE, s);
    node(g, "mid", convex ? x : a, STENO_NONE, b);
    in2 = node(g, "in2", b, a, *c);
    assert_int_equal(steno_graph_add_region(g, "Outer", "o", STENO_NONE, &outer, NULL), STENO_OK);
    assert_int_equal(steno_graph_add_region(g, "Inner", "i", outer, &inner, NULL), STENO_OK);
    g->nodes[in1].region = outer;
    g->nodes[in2].region = inner;
    g->outputs = steno_graph_alloc(g, 2, sizeof *g->outputs, NULL);
    g->outputs[0] = *c;
    g->outputs[1] = s;
    g->n_outputs = 2;
    assert_int_equal(steno_graph_sort(g, NULL), STENO_OK);
    return g;
}

static void nodes_of_a_region_stand_side_by_side(void **state)
{
    steno_value_id c;
    struct steno_graph *g = chain(true, &c);
    int at = 0;
    (void)state;
    assert_int_equal(steno_graph_count_nodes(g), 4);
    assert_int_equal(steno_graph_count_top(g), 3);
    while (strcmp(g->nodes[at].name, "in1"))
        at++;
    assert_string_equal(g->nodes[at + 1].name, "in2");
    assert_int_equal(steno_node_top_region(g, &g->nodes[at + 1]), 0);
    assert_true(steno_node_in_region(g, &g->nodes[at + 1], 1));
    assert_false(steno_node_in_region(g, &g->nodes[at], 1));
    steno_graph_free(g);
}

static void a_region_that_is_not_convex_is_dissolved(void **state)
{
    steno_value_id c;
    struct steno_graph *g = chain(false, &c);
    (void)state;
    assert_int_equal(steno_graph_count_nodes(g), 4);
    assert_int_equal(steno_graph_count_top(g), 4); /* the inner region, of one node, remains */
    for (int i = 0; i < 4; i++)
        assert_true(g->nodes[i].region == STENO_NONE || g->nodes[i].region == 1);
    steno_graph_free(g);
}

static void a_cycle_is_named(void **state)
{
    struct steno_graph *g = steno_graph_new(NULL);
    steno_value_id x = input(g, "x"), a = value(g, "a"), b = value(g, "b");
    steno_err err = {0};
    (void)state;
    node(g, "fine", x, STENO_NONE, value(g, "y"));
    node(g, "round_1", b, x, a);
    node(g, "round_2", a, x, b);
    assert_int_equal(steno_graph_sort(g, &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "round_"));
    assert_non_null(strstr(err.msg, "cycle"));
    steno_graph_free(g);
}

static void a_node_that_reads_itself_is_a_cycle(void **state)
{
    struct steno_graph *g = steno_graph_new(NULL);
    steno_value_id a = value(g, "a");
    steno_err err = {0};
    (void)state;
    node(g, "self", a, STENO_NONE, a);
    assert_int_equal(steno_graph_sort(g, &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "self"));
    steno_graph_free(g);
}

static void unwritten_and_twice_written_values_are_named(void **state)
{
    struct steno_graph *g = steno_graph_new(NULL);
    steno_value_id x = input(g, "x"), ghost = value(g, "ghost"), y = value(g, "y");
    steno_err err = {0};
    (void)state;
    node(g, "a", x, ghost, y);
    assert_int_equal(steno_graph_sort(g, &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "ghost"));
    g->values[ghost].is_input = true;
    node(g, "b", x, x, y);
    assert_int_equal(steno_graph_sort(g, &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "'y' is written twice"));
    steno_graph_free(g);
}

static void a_body_orders_its_node_after_what_it_captures(void **state)
{
    struct steno_graph *g = steno_graph_new(NULL), *body = steno_graph_new(g);
    steno_value_id x = input(g, "x"), a = value(g, "a"), cap;
    int32_t n;
    (void)state;
    assert_int_equal(steno_graph_add_node(g, "", "If", "if", 1, 1, 1, &n, NULL), STENO_OK);
    g->nodes[n].in[0] = x;
    g->nodes[n].out[0] = value(g, "y");
    g->nodes[n].attr[0] =
        (struct steno_attr){.name = "then_branch", .kind = STENO_ATTR_GRAPH, .g = body};
    node(g, "writer", x, STENO_NONE, a);
    assert_int_equal(steno_graph_capture(body, a, &cap, NULL), STENO_OK);
    node(body, "inner", cap, STENO_NONE, value(body, "z"));
    assert_int_equal(steno_graph_sort(g, NULL), STENO_OK);
    assert_string_equal(g->nodes[0].name, "writer");
    assert_int_equal(g->values[a].uses, 1);
    assert_int_equal(steno_graph_count_nodes(g), 3);
    { /* a second capture of the same value reuses the first one */
        steno_value_id again;
        assert_int_equal(steno_graph_capture(body, a, &again, NULL), STENO_OK);
        assert_int_equal(again, cap);
    }
    steno_graph_free(g);
}

static void constants_are_stored_once_and_freed(void **state)
{
    struct steno_graph *g = steno_graph_new(NULL);
    struct steno_tensor t = {.dtype = STENO_F32, .shape = {.rank = 1, .dim = {100}}};
    steno_value_id a, b;
    (void)state;
    t.data = steno_aligned_alloc(400);
    assert_int_equal(steno_graph_take_const(g, "a", &t, &a, NULL), STENO_OK);
    b = value(g, "b");
    steno_graph_share_const(g, b, g->values[a].constant);
    assert_ptr_equal(g->values[b].constant, g->values[a].constant);
    assert_int_equal(steno_graph_const_bytes(g), 400);
    steno_graph_drop_const(g, a);
    assert_null(g->values[a].constant);
    assert_int_equal(g->values[a].shape.dim[0], 100); /* the shape is still known */
    assert_non_null(g->values[b].constant->data);
    steno_graph_drop_const(g, b);
    assert_int_equal(steno_graph_const_bytes(g), 0);
    steno_graph_free(g);
}

static void replaced_values_move_everywhere(void **state)
{
    struct steno_graph *g = steno_graph_new(NULL), *body = steno_graph_new(g);
    steno_value_id x = input(g, "x"), y = input(g, "y"), z = value(g, "z"), cap;
    steno_value_id outs[1] = {x};
    int32_t n;
    (void)state;
    n = node(g, "a", x, x, z);
    g->outputs = outs;
    g->n_outputs = 1;
    assert_int_equal(steno_graph_add_node(g, "", "If", "if", 1, 0, 1, &n, NULL), STENO_OK);
    g->nodes[n].in[0] = z;
    g->nodes[n].attr[0] = (struct steno_attr){.name = "b", .kind = STENO_ATTR_GRAPH, .g = body};
    assert_int_equal(steno_graph_capture(body, x, &cap, NULL), STENO_OK);
    node(body, "inner", cap, cap, value(body, "o"));
    steno_graph_replace_uses(g, x, y);
    steno_graph_apply_replacements(g);
    steno_graph_recount(g);
    assert_int_equal(g->values[x].uses, 0);
    assert_int_equal(g->values[y].uses, 4); /* twice by a, once by the body, once as output */
    assert_int_equal(body->values[cap].captured_from, y);
    steno_graph_free(g);
}

static void dump_cleans_names_from_the_file(void **state)
{
    struct steno_graph *g = steno_graph_new(NULL);
    steno_value_id x = input(g, "x\"\033[31m");
    steno_value_id ins[1] = {x};
    struct steno_buf b;
    (void)state;
    g->inputs = ins;
    g->n_inputs = 1;
    node(g, "evil\nname", x, STENO_NONE, value(g, "y"));
    steno_graph_recount(g);
    for (int dot = 0; dot < 2; dot++) {
        steno_buf_init(&b, 1 << 20);
        assert_int_equal(steno_graph_dump(g, dot, &b), STENO_OK);
        assert_null(memchr(b.data, '\033', b.len));
        assert_non_null(strstr(b.data, "Op"));
        assert_non_null(strstr(b.data, dot ? "digraph" : "x__[31m"));
        steno_buf_free(&b);
    }
    steno_graph_free(g);
}

static void shapes_broadcast_as_numpy_does(void **state)
{
    static const struct {
        struct steno_shape a, b, want;
        steno_status st;
    } cases[] = {
        {{2, {3, 1}}, {1, {4}}, {2, {3, 4}}, STENO_OK},
        {{0, {0}}, {2, {2, 2}}, {2, {2, 2}}, STENO_OK},
        {{1, {0}}, {1, {1}}, {1, {0}}, STENO_OK},
        {{1, {3}}, {1, {4}}, {0, {0}}, STENO_ERR_INVAL},
        {{1, {-2}}, {1, {-2}}, {1, {-2}}, STENO_OK},
        {{1, {-2}}, {1, {-3}}, {1, {-1}}, STENO_OK},
        {{1, {-2}}, {1, {5}}, {1, {5}}, STENO_OK},
        {{1, {-2}}, {1, {1}}, {1, {-2}}, STENO_OK},
        {{-1, {0}}, {1, {5}}, {-1, {0}}, STENO_OK},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct steno_shape out = {.rank = 0};
        assert_int_equal(steno_shape_broadcast(&cases[i].a, &cases[i].b, &out), cases[i].st);
        if (!cases[i].st)
            assert_true(steno_shape_equal(&out, &cases[i].want));
    }
}

static void counts_that_overflow_are_refused(void **state)
{
    struct steno_shape s = {3, {(int64_t)1 << 40, (int64_t)1 << 40, 1}};
    size_t n;
    (void)state;
    assert_int_equal(steno_shape_count(&s, &n), STENO_ERR_LIMIT);
    s.dim[0] = 0; /* one 0 makes the count 0, whatever the other dimensions are */
    s.dim[1] = 5;
    assert_int_equal(steno_shape_count(&s, &n), STENO_OK);
    assert_int_equal(n, 0);
    s = (struct steno_shape){1, {(int64_t)1 << 62}};
    assert_int_equal(steno_shape_bytes(&s, STENO_F32, &n), STENO_ERR_LIMIT);
    s.dim[0] = -1;
    assert_int_equal(steno_shape_count(&s, &n), STENO_ERR_INVAL);
}

static void shape_text_fits_any_buffer(void **state)
{
    struct steno_shape s = {3, {1, -1, 80}};
    char out[32];
    (void)state;
    assert_string_equal(steno_shape_str(&s, out, sizeof out), "[1,?,80]");
    for (size_t n = 1; n < sizeof out; n++)
        assert_true(strlen(steno_shape_str(&s, out, n)) < n);
    s.rank = 0;
    assert_string_equal(steno_shape_str(&s, out, sizeof out), "[]");
    s.rank = STENO_RANK_ANY;
    assert_string_equal(steno_shape_str(&s, out, sizeof out), "[...]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sort_puts_writers_before_readers),
        cmocka_unit_test(sort_keeps_an_order_that_is_right),
        cmocka_unit_test(nodes_of_a_region_stand_side_by_side),
        cmocka_unit_test(a_region_that_is_not_convex_is_dissolved),
        cmocka_unit_test(a_cycle_is_named),
        cmocka_unit_test(a_node_that_reads_itself_is_a_cycle),
        cmocka_unit_test(unwritten_and_twice_written_values_are_named),
        cmocka_unit_test(a_body_orders_its_node_after_what_it_captures),
        cmocka_unit_test(constants_are_stored_once_and_freed),
        cmocka_unit_test(replaced_values_move_everywhere),
        cmocka_unit_test(dump_cleans_names_from_the_file),
        cmocka_unit_test(shapes_broadcast_as_numpy_does),
        cmocka_unit_test(counts_that_overflow_are_refused),
        cmocka_unit_test(shape_text_fits_any_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
