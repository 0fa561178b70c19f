/* Passes ones and outer, on masks as exporters write them: lengths computed as sums of ones, and
 * tables of all pairs of rows. And near misses. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#define NUMBERS                                                                                    \
    "c0 = [0]; c1 = [1]; c2 = [2]; last = [-1]; both = [0,1]; far = [9223372036854775807];"        \
    "Squeeze c0 z; Squeeze c1 o;"
/* r [n]: 0, 1, ...; u [n, 1]: the same; nn = {n, n} */
#define ROWS                                                                                       \
    NUMBERS "Shape x s; Gather s,z d; Unsqueeze d,c0 n; Concat n,n nn axis=0; Range z,d,o r;"      \
            "Unsqueeze r,last u;"

/* out = ConstantOfShape(in) with this element. */
static void filled(struct mk_graph *m, const char *in, const char *out, steno_dtype t, float value)
{
    Onnx__Node *n = mk_node(m, "ConstantOfShape", in, out);
    Onnx__Attribute *a;
    Onnx__Tensor *one = mk_tensor(m, out[0] == 'f' ? "value_f" : "value_b", t, "1");
    static uint8_t bytes[2] = {0, 1};
    static float numbers[4];
    numbers[(int)value] = value;
    mk_attr_float(m, "value", 0);
    a = n->attribute[n->n_attribute - 1];
    a->type = ONNX__ATTRIBUTE__KIND__TENSOR;
    a->t = one;
    one->raw_data.data = t == STENO_BOOL ? &bytes[value != 0] : (uint8_t *)&numbers[(int)value];
    one->raw_data.len = t == STENO_BOOL ? 1 : sizeof(float);
}

static void check(struct mk_graph *m, const char *pass, const char *text, bool hits, int left)
{
    pc_graph(m, text);
    pc_graph(m, "-> y");
    pc.context = text;
    pc_check(m, pass, hits, left, 0);
    pc.context = NULL;
}

/* ---- outer ---- */

static void outer(const char *text, bool hits, int left)
{
    struct mk_graph *m = pc_start(13, "n,4");
    pc_graph(m, ROWS);
    check(m, "outer", text, hits, left);
}

static void rows_of_a_table_are_picked_before_it_is_made(void **state)
{
    (void)state;
    outer("LessOrEqual u,r t; Gather t,c2 row axis=0; Cast row y to=1", true, -1);
    outer("LessOrEqual u,r t; Gather t,c2 row axis=1; Cast row y to=1", true, -1);
    outer(
        "Less r,u t; Slice t,c1,far,c0 a; Slice a,c0,last,c1 b; Gather b,last row; Cast row y to=1",
        true, -1);
    outer("Expand u,nn e; LessOrEqual e,r t; Cast t y to=1", true, -1);
    outer("Expand u,nn e; Expand r,nn f; Equal f,e t; Gather t,c1 row; Cast row y to=1", true, -1);
}

/* m [n, 1] broadcasts to x [n, 4] without help; the lengths of the Shape need not be known. */
static void masks_broadcast_without_expand(void **state)
{
    (void)state;
    outer("Neg u b; Cast b m to=1; Expand m,s e; Mul x,e y", true, -1);
    outer("Neg u b; Cast b m to=1; Exp x p; Expand m,s e; Add e,p y", true, -1); /* p has s */
    outer("Less u,c1 m; Expand m,s e; Exp x p; Where e,x,p y", true, -1);
    /* the shape of something else, and a part of it */
    outer("Neg u b; Cast b m to=1; Expand m,s e; Mul m,e y", false, -1);
    outer("Neg u b; Cast b m to=1; Slice s,c1,far t; Expand m,t e; Mul x,e y", false, -1);
    outer("Neg u b; Cast b m to=1; Expand m,s e; Max x,e y", false, -1); /* not one of them */
}

static void tables_that_are_read_stay(void **state)
{
    (void)state;
    outer("LessOrEqual u,r t; Gather t,c2 row; Cast row y to=1; Cast t w to=1; -> w", false, -1);
    /* the result has one axis less */
    outer("LessOrEqual u,r t; Gather t,z row; Cast row y to=1", false, -1);
    /* no factor has the axis */
    outer("Expand u,nn e; LessOrEqual e,z t; Cast t y to=1", false, -1);
    outer("Add u,r a; Gather a,c2 row; Cast row y to=1", false, -1); /* not a comparison */
    /* the table is not larger than its factor */
    outer("Equal u,u t; Gather t,c2 row; Cast row y to=1", false, -1);
}

static void masks_filled_with_ones_disappear(void **state)
{
    static const struct {
        const char *op;
        float value;
        bool hits;
    } rows[] = {{"And ones,t a", 1, true},
                {"Or t,ones a", 0, true},
                {"And t,ones a", 0, false},
                {"Or ones,t a", 1, false},
                {"Xor ones,t a", 0, false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mk_graph *m = pc_start(13, "n,4");
        pc_graph(m, ROWS "LessOrEqual u,r t");
        filled(m, "nn", "ones", STENO_BOOL, rows[i].value);
        pc_graph(m, "Cast a y to=1");
        check(m, "outer", rows[i].op, rows[i].hits, -1);
    }
}

/* ---- ones ---- */

static void ones(const char *dims, float value, const char *text, bool hits)
{
    struct mk_graph *m = pc_start(13, dims);
    pc_graph(m, NUMBERS "Gather x,z g axis=2; Shape g s");
    filled(m, "s", "f", STENO_F32, value);
    check(m, "ones", text, hits, -1);
}

static void a_sum_of_ones_is_a_dimension(void **state)
{
    (void)state;
    ones("1,t,4", 1, "ReduceSum f,last l keepdims=0; Cast l i to=7; Cast i y to=1", true);
    ones("1,t,4", 1,
         "ReduceSum f,c1 l keepdims=0; Cast l i to=7; ReduceMax i k keepdims=0;"
         "Add k,c1 p; Cast p y to=1",
         true);
    ones("t,1,4", 1, "ReduceSum f,c0 l keepdims=0; Cast l i to=7; Cast i y to=1", true);
}

static void other_sums_are_computed(void **state)
{
    (void)state;
    ones("1,t,4", 3, "ReduceSum f,last l keepdims=0; Cast l i to=7; Cast i y to=1", false);
    ones("3,t,4", 1, "ReduceSum f,last l keepdims=0; Cast l i to=7; Cast i y to=1", false);
    ones("3,t,4", 1, "ReduceSum f,both l keepdims=0; Cast l i to=7; Cast i y to=1", false);
    ones("1,t,4", 1, "ReduceSum f,last y keepdims=0", false);
}

/* ---- both ---- */

/* The whole mask of ESPnet's encoders: no value in it is T x T. */
static void the_mask_of_espnet_is_a_row(void **state)
{
    struct mk_graph *m = pc_start(13, "1,t,4");
    size_t size;
    uint8_t *file;
    steno_network *n;
    const struct steno_graph *g;
    (void)state;
    pc_graph(m, NUMBERS "Gather x,z g axis=2; Shape g s");
    filled(m, "s", "f", STENO_F32, 1);
    pc_graph(m, "ReduceSum f,last l keepdims=0; Cast l i to=7; ReduceMax i k keepdims=0;"
                "Clip i,,k top; Add k,o w; Unsqueeze w,c0 w1; Concat w1,w1 ww axis=0");
    filled(m, "ww", "ones", STENO_BOOL, 1);
    pc_graph(m, "Shape ones os; Gather os,z len; Range z,len,o r; Unsqueeze r,last u;"
                "Expand u,ww e; LessOrEqual e,r t; And ones,t a; Slice a,c1,far,c0 b;"
                "Slice b,c0,last,c1 c; Sub top,o at; Gather c,at row; Not row not; Cast not y to=1;"
                "-> y");
    file = mk_bytes(m, &size);
    n = pc_open(file, size, 3, NULL, NULL);
    g = steno_network_graph(n);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct steno_shape *s = &g->values[g->nodes[i].out[0]].shape;
        if (!g->nodes[i].dead && s->rank == 2 && s->dim[0] != 1 && s->dim[1] != 1)
            fail_msg("%s has two lengths", g->nodes[i].op_type);
    }
    steno_network_close(n);
    free(file);
    pc_check(m, "outer", true, -1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_a_table_are_picked_before_it_is_made),
        cmocka_unit_test(masks_broadcast_without_expand),
        cmocka_unit_test(tables_that_are_read_stay),
        cmocka_unit_test(masks_filled_with_ones_disappear),
        cmocka_unit_test(a_sum_of_ones_is_a_dimension),
        cmocka_unit_test(other_sums_are_computed),
        cmocka_unit_test(the_mask_of_espnet_is_a_row),
    };
    return cmocka_run_group_tests_name("pass_masks", tests, NULL, NULL);
}
