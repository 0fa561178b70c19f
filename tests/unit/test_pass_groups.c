/* Pass groups: heads of keys and values that several queries share are read where they are, not
 * repeated; and near misses. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdlib.h>

#define NUMBERS                                                                                    \
    "cols = [32,16,8]; ks = [0,-1,2,8]; vs = [0,-1,2,4]; two = [2]; one = [1];"                    \
    "twice = [1,1,2,1,1]; before = [1,2,1,1,1]; kj = [0,4,-1,8]; vj = [0,4,-1,4];"                 \
    "Split x,cols q,kf,vf axis=-1; Reshape kf,ks k4; Reshape vf,vs v4;"
#define TURN "Transpose k4 kt perm=[0,2,1,3]; Transpose v4 vt perm=[0,2,1,3];"
#define REPEAT_K "Unsqueeze kt,two ku; Expand ku,twice kw; Reshape kw,kj k;"
#define REPEAT_V "Unsqueeze vt,two vu; Expand vu,twice vw; Reshape vw,vj v;"
#define ATTEND "ai.steno:Attention q,k,v y heads=4 size=8 v_size=4 scale=0.3 apart=6"

static void check(const char *text, bool hits, int left)
{
    struct mk_graph *m = pc_start(13, "n,5,56");
    mk_import(m, "ai.steno", 1);
    pc_graph(m, NUMBERS);
    pc_graph(m, text);
    pc_graph(m, "-> y");
    pc.context = text;
    pc_check(m, "groups", hits, left, 3e-6f);
    pc.context = NULL;
}

static void shared_heads_are_read_where_they_are(void **state)
{
    (void)state;
    check(TURN REPEAT_K REPEAT_V ATTEND, true, -1);
    check(TURN REPEAT_K REPEAT_V "Relu k z; -> z; " ATTEND, true, -1); /* others read the copies */
    /* the heads are not from a Transpose */
    check("Transpose k4 kt perm=[0,2,1,3]; Transpose v4 vp perm=[0,2,1,3]; Relu vp vt;" REPEAT_K
              REPEAT_V ATTEND,
          true, -1);
    check(TURN REPEAT_K REPEAT_V "m : 5,5; ai.steno:Attention q,k,v,m y heads=4 size=8 v_size=4 "
                                 "scale=0.3 apart=6",
          true, -1);
    check(TURN REPEAT_K REPEAT_V
          "ai.steno:Attention q,k,v y heads=4 size=8 v_size=4 scale=0.3 apart=22",
          true, -1);
}

static void near_misses_stay(void **state)
{
    (void)state;
    /* the heads follow each other twice: 0, 1, 0, 1 */
    check(TURN "Unsqueeze kt,one ku; Expand ku,before kw; Reshape kw,kj k;"
               "Unsqueeze vt,one vu; Expand vu,before vw; Reshape vw,vj v;" ATTEND,
          false, -1);
    /* keys alone are repeated */
    check("vj4 = [0,-1,4,2]; Transpose k4 kt perm=[0,2,1,3]; Reshape vf,vj4 v5;"
          "Transpose v5 v perm=[0,2,1,3];" REPEAT_K
          "ai.steno:Attention q,k,v y heads=4 size=8 v_size=2 scale=0.3 apart=6",
          false, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shared_heads_are_read_where_they_are),
                                       cmocka_unit_test(near_misses_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
