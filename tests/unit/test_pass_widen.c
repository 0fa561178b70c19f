/* Graphs in 16 bits get the fusions of f32. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdlib.h>

struct spelling {
    const char *text; /* from x to y */
    bool hits;
    int left; /* nodes */
};

static void check(const struct spelling *s, size_t n, float tolerance)
{
    for (size_t i = 0; i < n; i++) {
        struct mk_graph *m = pc_start(17, "2,t,8");
        pc_graph(m, s[i].text);
        pc_graph(m, "-> y");
        pc.context = s[i].text;
        pc_check(m, "widen", s[i].hits, s[i].left, tolerance);
        pc.context = NULL;
    }
}
#define CHECK(TOLERANCE, ...)                                                                      \
    do {                                                                                           \
        static const struct spelling s_[] = {__VA_ARGS__};                                         \
        check(s_, sizeof s_ / sizeof *s_, TOLERANCE);                                              \
    } while (0)

static void arithmetic_in_16_bits_fuses(void **state)
{
#define X "Cast x h to=10;"
#define W "w : 8,5; b : 5; Cast w v to=10; Cast b c to=10;"
#define NORM                                                                                       \
    "eps = 0.001; Cast eps e to=10; ReduceMean h m axes=[-1]; Sub h,m d; Mul d,d q;"               \
    "ReduceMean q z axes=[-1]; Add z,e u; Sqrt u s; Div d,s n;"
    (void)state;
    CHECK(5e-3f, {X W "MatMul h,v p; Add p,c q; Relu q r; Cast r y to=1", true, 3},
          {X NORM "Cast n y to=1", true, 3},
          {X W NORM "MatMul n,v p; Add p,c k; Cast k y to=1", true, 4},
          /* a scalar of an activation, rounded */
          {X
           "root = 1.41421356; one = 1; half = 0.5; Cast root r to=10; Cast one o to=10;"
           "Cast half f to=10; Div h,r a; Erf a b; Add b,o e; Mul h,e g; Mul g,f k; Cast k y to=1",
           true, 3});
}

static void bfloat16_fuses(void **state)
{
    (void)state;
    CHECK(
        5e-2f,
        {"Cast x h to=16; w : 8,5; Cast w v to=16; MatMul h,v p; Relu p r; Cast r y to=1", true, 3},
        {X "Add h,h a; Cast a b to=16; Mul b,b c; Cast c y to=1", true, 4});
}

static void a_cast_that_rounds_stays(void **state)
{
    (void)state;
    CHECK(5e-3f, {X "Cast h y to=1", false, 2},
          {"Relu x r; Cast r h to=10; Cast h y to=1", false, 3},
          {X "Add h,h a; Cast a b to=1; Cast b c to=10; Cast c y to=1", true, 5},
          {"Cast x i to=7; Cast i h to=10; Cast h y to=1", false, 3});
}

/* To the bit: what follows does not round. */
static void a_cast_before_arithmetic_rounds_too(void **state)
{
    (void)state;
    CHECK(0, {X "Relu h r; Cast r y to=1", true, 3},
          {X "Identity h i; Neg i r; Cast r y to=1", true, 3},
          {"big = 100000.0; Mul x,big l; Cast l h to=10; Relu h r; Cast r y to=1", true, 4});
}

static void inputs_and_outputs_keep_their_types(void **state)
{
    struct mk_graph *m = mk_new(17);
    size_t size;
    uint8_t *file;
    steno_network *n;
    (void)state;
    mk_input(m, "x", STENO_F16, "t,8");
    pc_graph(m, "Sigmoid x s; Mul s,x y; Relu y z");
    mk_output(m, "y", STENO_F16, NULL);
    mk_output(m, "z", STENO_F16, NULL);
    file = mk_bytes(m, &size);
    mk_free(m);
    n = pc_open(file, size, 3, NULL, NULL);
    assert_int_equal(pc_found(n, "swish"), 1);
    assert_int_equal(pc_count(n, "Cast"), 3);
    for (int i = 0; i < 2; i++)
        assert_int_equal(steno_network_output(n, i)->dtype, STENO_F16);
    assert_int_equal(steno_network_input(n, 0)->dtype, STENO_F16);
    steno_network_close(n);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_in_16_bits_fuses),
        cmocka_unit_test(bfloat16_fuses),
        cmocka_unit_test(a_cast_that_rounds_stays),
        cmocka_unit_test(a_cast_before_arithmetic_rounds_too),
        cmocka_unit_test(inputs_and_outputs_keep_their_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
