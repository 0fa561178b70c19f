/* Activations in every spelling of exporters, and near misses. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <string.h>

struct spelling {
    const char *text; /* from x to y */
    int left;         /* nodes */
};

static void check(const struct spelling *s, size_t n, const char *pass, bool hits)
{
    for (size_t i = 0; i < n; i++) {
        struct mk_graph *m = pc_start(13, "2,t,8");
        pc_graph(m, "one = 1; two = 2; three = 3; half = 0.5; six = 6; root = 1.41421356;"
                    "iroot = 0.70710678; c = 0.79788456; d = 0.044715; quick = 1.702; wide = 1.5;"
                    "pair : 1,1,8; zero = 0");
        pc_graph(m, s[i].text);
        pc_graph(m, "-> y");
        pc.context = s[i].text;
        pc_check(m, pass, hits, s[i].left, 3e-6f);
        pc.context = NULL;
    }
}
#define CHECK(PASS, HITS, ...)                                                                     \
    do {                                                                                           \
        static const struct spelling s_[] = {__VA_ARGS__};                                         \
        check(s_, sizeof s_ / sizeof *s_, PASS, HITS);                                             \
    } while (0)

static void gelu_in_every_spelling(void **state)
{
    (void)state;
    CHECK("gelu", true,
          /* with erf */
          {"Div x,root a; Erf a b; Add b,one e; Mul x,e f; Mul f,half y", 1},
          {"Mul x,iroot a; Erf a b; Add one,b e; Mul half,x f; Mul f,e y", 1},
          {"Mul x,iroot a; Erf a b; Add one,b e; Mul e,half f; Mul x,f y", 1},
          {"Mul x,iroot a; Erf a b; Mul b,half e; Add e,half f; Mul f,x y", 1},
          {"Neg x n; Div n,root a; Erf a b; Sub one,b e; Mul x,e f; Div f,two y", 1},
          /* with tanh */
          {"Pow x,three a; Mul a,d b; Add x,b e; Mul e,c f; Tanh f t; Add t,one u; Mul x,half h;"
           "Mul h,u y",
           1},
          {"Mul x,x a; Mul a,x b; Mul d,b e; Add e,x f; Mul f,c g; Tanh g t; Add one,t u;"
           "Mul u,half v; Mul x,v y",
           1},
          {"Mul x,x a; Mul a,d b; Add b,one e; Mul e,c f; Mul f,x g; Tanh g t; Add t,one u;"
           "Mul u,x v; Mul half,v y",
           1},
          {"Exp x e; Div e,root a; Erf a b; Add b,one u; Mul e,u f; Mul f,half y", 2});
}

static void near_misses_of_gelu(void **state)
{
    (void)state;
    CHECK("gelu", false, {"Div x,wide a; Erf a b; Add b,one e; Mul x,e f; Mul f,half y", 5},
          {"Div x,root a; Erf a b; Add b,one e; Mul x,e f; Mul f,wide y", 5},
          {"Div x,root a; Erf a b; Add b,two e; Mul x,e f; Mul f,half y", 5},
          {"Div x,root a; Erf a b; Add b,one e; Exp x z; Mul z,e f; Mul f,half y", 6},
          {"Div x,root a; Erf a b; Add b,one e; Mul x,e f; Mul f,half y; -> e", 5},
          {"Mul x,pair p; Div p,root a; Erf a b; Add b,one e; Mul x,e f; Mul f,half y", 6},
          {"Pow x,two a; Mul a,d b; Add x,b e; Mul e,c f; Tanh f t; Add t,one u; Mul x,half h;"
           "Mul h,u y",
           8});
}

static void swish_in_every_spelling(void **state)
{
    (void)state;
    CHECK("swish", true, {"Sigmoid x s; Mul s,x y", 1},
          {"Neg x n; Exp n e; Add e,one u; Div x,u y", 1},
          {"Neg x n; Exp n e; Add one,e u; Reciprocal u r; Mul x,r y", 1},
          {"Mul x,quick q; Sigmoid q s; Mul x,s y", 1},
          {"Add x,three a; Clip a,zero,six b; Mul x,b m; Div m,six y", 1},
          {"HardSigmoid x s alpha=0.16666667 beta=0.5; Mul s,x y", 1},
          {"Softplus x s; Tanh s t; Mul x,t y", 1});
}

static void near_misses_of_swish(void **state)
{
    (void)state;
    CHECK("swish", false, {"Sigmoid x s; Mul s,x y; -> s", 2},
          {"Exp x e; Sigmoid x s; Mul s,e y", 3}, /* gates a different value */
          {"Add x,three a; Clip a,zero,three b; Mul x,b m; Div m,six y", 4},
          {"Sigmoid x s; Tanh s t; Mul x,t y", 3}, {"Sigmoid x s; Add s,x y", 2});
}

/* Piecewise operators that few arguments reach. */
static void near_misses_by_pieces(void **state)
{
#define GELU "Div z,root a; Erf a b; Add b,one e; Mul z,e f; Mul f,half y"
#define LIMITS "far = 20; farther = 22.5; lower = -1e30; upper = 1e20; odd = 7.3; low = 1e-20;"
    (void)state;
    /* before: its result goes into the function */
    CHECK("gelu", true, {LIMITS "Clip x,lower,far z;" GELU, 2}, {LIMITS "Min x,upper z;" GELU, 2},
          {LIMITS "Max x,lower z;" GELU, 2}, {LIMITS "Abs x z;" GELU, 2},
          {LIMITS "Equal x,odd q; Where q,zero,x z;" GELU, 3});
    CHECK("swish", true, {LIMITS "Clip x,lower,far z; Sigmoid z s; Mul z,s y", 2});
    /* within */
    CHECK("gelu", false,
          {LIMITS "Div x,root a; Clip a,lower,far cc; Erf cc b; Min b,upper dd; Add dd,one e;"
                  "Mul x,e f; Mul f,half y",
           7},
          {LIMITS "Div x,root a; Erf a b; Add b,one e; Max e,low h; Mul x,h f; Mul f,half y", 6});
    CHECK("swish", true, {LIMITS "Equal x,odd q; Sigmoid x s; Mul x,s p; Where q,zero,p y", 3},
          {LIMITS "Sigmoid x s; Mul x,s p; Add p,low y", 2});
    CHECK("swish", false,
          {LIMITS "Sub x,odd z; Equal z,odd q; Sigmoid x s; Where q,zero,s t; Mul x,t y", 5},
          {LIMITS "Sigmoid x s; Clip s,low,one cc; Mul x,cc y", 3},

          /* 0 / 0 where the denominator is zero */
          {LIMITS "Sub x,odd dd; Mul x,dd n; Div n,dd z; Sigmoid x s; Mul z,s y", 5},
          {LIMITS "Sub x,odd dd; Mul dd,dd u; Mul x,u n; Div n,u z; Sigmoid x s; Mul z,s y", 6},
          {LIMITS "Mul x,x q; Sqrt q a; Div q,a z; Sigmoid x s; Mul z,s y", -1});
    /* a cap that is part of the function stays part of it; another does not */
    CHECK("swish", true, {"Add x,three a; Relu a r; Min r,six b; Mul x,b m; Div m,six y", 1},
          {"Add x,three a; Max a,zero r; Min six,r b; Div b,six m; Mul x,m y", 1});
    CHECK("swish", false,
          {"seven = 6.0001; Add x,three a; Relu a r; Min r,seven b; Mul x,b m; Div m,six y", 5},
          {LIMITS
           "Add x,three a; Relu a r; Min r,six b; Clip b,low,six cc; Mul x,cc m; Div m,six y",
           6});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gelu_in_every_spelling),  cmocka_unit_test(near_misses_of_gelu),
        cmocka_unit_test(swish_in_every_spelling), cmocka_unit_test(near_misses_of_swish),
        cmocka_unit_test(near_misses_by_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
