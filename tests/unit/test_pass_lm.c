/* Patterns of language models: attention under a causal Where, Q, K and V by Split, products on
 * flattened rows (GPT-2's Conv1D), and shape arithmetic on past and present lengths. Each with a
 * near miss, against the graph without passes. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t zero, one = 1;

/* x [b, t, 12]; `seen` and `hidden` are [t, t], before and after the diagonal. */
static struct mk_graph *start(void)
{
    struct mk_graph *m = pc_start(17, "b,t,12");
    mk_i64(m, "zero", "", &zero, 1);
    mk_i64(m, "one", "", &one, 1);
    return m;
}

static void attention(struct mk_graph *m, const char *scores)
{
    pc_graph(m, "w : 12,36; bias : 36; MatMul x,w p; Add p,bias a; Split a q0,k0,v0 axis=2;"
                "heads = [0,0,3,4]; Reshape q0,heads q1; Reshape k0,heads k1; Reshape v0,heads v1;"
                "Transpose q1 q perm=[0,2,1,3]; Transpose k1 k perm=[0,2,3,1];"
                "Transpose v1 v perm=[0,2,1,3]; MatMul q,k s0; half = 0.5; Mul s0,half s;"
                "Shape x sh; Gather sh,one t; Range zero,t,one r; ax = [1]; Unsqueeze r,ax r1;"
                "GreaterOrEqual r1,r seen; Less r1,r hidden; low = -3e38; near = -10000");
    pc_graph(m, scores);
    pc_graph(m, "Softmax z weights axis=-1; MatMul weights,v y0; Transpose y0 y1 perm=[0,2,1,3];"
                "all = [0,0,12]; Reshape y1,all y; -> y");
}

static void attention_under_a_where(void **state)
{
    static const struct {
        const char *scores;
        bool hits;
    } cases[] = {
        {"Where seen,s,low z", true},
        {"Where hidden,low,s z", true},
        {"Where seen,s,low z0; added : 4,4; Add z0,added z", true},
        {"Where seen,s,low z0; added : 4,4; Add added,z0 z", true},
        /* in a row with all keys hidden the scores would still matter */
        {"Where seen,s,near z", false},
        {"Where hidden,s,low z0; Where seen,z0,low z", false},
        {"Where seen,s,low z; Exp z z9; -> z9", false}, /* a second reader */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mk_graph *m = start();
        pc.context = cases[i].scores;
        attention(m, cases[i].scores);
        pc_check(m, "attention", cases[i].hits, -1, 1e-5f);
    }
    pc.context = NULL;
}

/* The product stays one and Split disappears. Left: Linear, Attention and the nodes of the mask. */
static void parts_of_a_split_are_read_in_place(void **state)
{
    struct mk_graph *m = start();
    (void)state;
    attention(m, "Where seen,s,low z");
    pc_check(m, "qkv", true, 8, 1e-5f);
}

#define LEADING                                                                                    \
    "Shape x sh; from = [0]; to = [2]; Slice sh,from,to lead; cols = [8];"                         \
    "Concat lead,cols target axis=0;"

static void products_of_flattened_rows(void **state)
{
    static const struct {
        const char *text;
        bool hits;
        int left;
    } cases[] = {
        {LEADING "Gemm xf,w,bias g; Reshape g,target y; -> y", true, 1},
        {LEADING "Gemm xf,w g; Reshape g,target y; -> y", true, 1},
        {LEADING "Gemm xf,wt,bias g transB=1; Reshape g,target y; -> y", true, 1},
        {LEADING "Gemm xf,w,bias g alpha=0.5; Reshape g,target y; -> y", false, -1},
        {"other = [8,2,8]; Gemm xf,w,bias g; Reshape g,other y; -> y", false, -1},
        {LEADING "Gemm xf,w,bias g; Reshape g,target y; Exp g g9; -> y; -> g9", false, -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mk_graph *m = start();
        pc.context = cases[i].text;
        pc_graph(m, "rows = [-1,12]; Reshape x,rows xf; w : 12,8; wt : 8,12; bias : 8");
        pc_graph(m, cases[i].text);
        pc_check(m, "flat", cases[i].hits, cases[i].left, 1e-5f);
    }
    pc.context = NULL;
}

/* The Reshape that flattens also joins the heads; the joining remains. */
static void flattened_heads_are_joined(void **state)
{
    struct mk_graph *m = start();
    (void)state;
    pc_graph(m, "heads = [0,0,3,4]; Reshape x,heads h; Exp h e; rows = [-1,12];"
                "Reshape e,rows xf; w : 12,8; Gemm xf,w g;" LEADING "Reshape g,target y; -> y");
    pc_check(m, "flat", true, 4, 1e-5f);
}

/* Keras scales the queries and subtracts the mask from the scores. */
static void attention_by_keras(void **state)
{
    static const struct {
        const char *scores;
        bool hits;
    } cases[] = {
        {"Cast hidden m to=1; Mul q,half qs; MatMul qs,k sk; Sub sk,m z", true},
        {"Cast hidden m to=1; Mul q,half qs; Mul qs,half qt; MatMul qt,k sk; Sub sk,m z", true},
        {"Cast hidden m to=1; Mul q,half qs; MatMul qs,k sk; Sub m,sk z", false},
        {"Cast hidden m to=1; f : 4; Mul q,f qs; MatMul qs,k sk; Sub sk,m z",
         true}, /* a factor per column */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mk_graph *m = start();
        attention(m, cases[i].scores);
        pc.context = cases[i].scores;
        pc_check(m, "attention", cases[i].hits, -1, 1e-5f);
        pc.context = NULL;
    }
}

static void rows_flat_for_a_plain_product(void **state)
{
    struct mk_graph *m = start();
    (void)state;
    pc_graph(m,
             "f = [-1,12]; w : 12,8; b : 8; Reshape x,f xf; MatMul xf,w g; Shape x s; ax = [0];"
             "Gather s,zero d0; Gather s,one d1; Unsqueeze d0,ax u0; Unsqueeze d1,ax u1; n = [8];"
             "Concat u0,u1,n target axis=0; Reshape g,target r; Add r,b y; -> y");
    pc_check(m, "flat", true, 1, 1e-5f);
}

/* (past + new) - past is new: a Reshape to it keeps the shape, and the second computation of the
 * same sum disappears. */
static void lengths_are_computed_with_symbols(void **state)
{
    struct mk_graph *m = start();
    (void)state;
    mk_input(m, "old", STENO_F32, "b,past,12");
    pc_graph(m,
             "Concat old,x both axis=1; Shape both s; Gather s,one total; Shape old so;"
             "Gather so,one before; Sub total,before new; ax = [0]; Unsqueeze new,ax n1;"
             "Shape x sx; Gather sx,zero b; Unsqueeze b,ax b1; cols = [12];"
             "Concat b1,n1,cols target axis=0; Reshape x,target same; Exp same y; -> y; -> both");
    pc_check(m, "identity", true, 2, 0);
}

static void a_difference_that_may_be_negative_stays(void **state)
{
    struct mk_graph *m = start();
    (void)state;
    mk_input(m, "old", STENO_F32, "b,past,12");
    pc_graph(m, "Shape x s; Gather s,one t; Shape old so; Gather so,one before; Sub t,before d;"
                "Range d,t,one r; Cast r rf to=1; Exp rf y; -> y");
    pc_check(m, "shape", false, -1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_under_a_where),
        cmocka_unit_test(attention_by_keras),
        cmocka_unit_test(rows_flat_for_a_plain_product),
        cmocka_unit_test(parts_of_a_split_are_read_in_place),
        cmocka_unit_test(products_of_flattened_rows),
        cmocka_unit_test(flattened_heads_are_joined),
        cmocka_unit_test(lengths_are_computed_with_symbols),
        cmocka_unit_test(a_difference_that_may_be_negative_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
