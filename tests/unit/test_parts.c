/* Entries of a cache for all layers: a Gather of one entry reads it where it is, in an input or in
 * a cache that later nodes go on to change. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#define N 64 /* of an entry: whole lines of memory */

static float cache[3][4][N], fresh[4][N];

static steno_session *run(steno_network *n)
{
    struct steno_tensor c = {STENO_F32, {.rank = 3, .dim = {3, 4, N}}, cache},
                        f = {STENO_F32, {.rank = 3, .dim = {1, 4, N}}, fresh};
    steno_session *s = NULL;
    steno_err err = {0};
    if (steno_session_open(&s, n, NULL, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < 2; i++)
        if (steno_session_set(s, 0, &c, &err) || steno_session_set(s, 1, &f, &err) ||
            steno_session_run(s, &err))
            fail_msg("%s", err.msg);
    assert_int_equal(steno_session_misplans(s), 0);
    return s;
}

static float relu(float x)
{
    return x > 0 ? x : 0;
}

/* Layer 0 writes its entry and reads it; layer 1 writes its own; both are read once more. */
static void entries_are_those_of_their_time(void **state)
{
    static const int64_t zero = 0, one = 1, two = 2;
    struct mk_graph *m = mk_new(17);
    steno_network *n;
    steno_session *s;
    uint8_t *file;
    size_t size;
    const float *y, *z, *last;
    (void)state;
    for (int i = 0; i < 3 * 4 * N; i++)
        (&cache[0][0][0])[i] = (float)(i * 37 % 101) - 50;
    for (int i = 0; i < 4 * N; i++)
        (&fresh[0][0])[i] = (float)(i * 53 % 97) - 48;
    mk_input(m, "cache", STENO_F32, "3,b,64");
    mk_input(m, "fresh", STENO_F32, "1,b,64");
    mk_i64(m, "at0", "1,1", &zero, 1);
    mk_i64(m, "at1", "1,1", &one, 1);
    mk_i64(m, "i0", "", &zero, 1);
    mk_i64(m, "i1", "", &one, 1);
    mk_i64(m, "i2", "1", &two, 1);
    pc_graph(m, "ScatterND cache,at0,fresh c1; Gather c1,i0 g1; Relu g1 a");
    mk_i64(m, "front", "1", &zero, 1);
    pc_graph(m, "Unsqueeze a,front a1; ScatterND c1,at1,a1 c2; Gather c2,i1 g2; "
                "Gather cache,i2 old; Add g2,old y; Mul g1,y z");
    mk_output(m, "y", STENO_F32, "1,b,64");
    mk_output(m, "z", STENO_F32, "1,b,64");
    mk_output(m, "c2", STENO_F32, "3,b,64");
    file = mk_bytes(m, &size);
    n = pc_open(file, size, 3, NULL, NULL);
    s = run(n);
    y = steno_session_get(s, 0)->data;
    z = steno_session_get(s, 1)->data;
    last = steno_session_get(s, 2)->data;
    for (int i = 0; i < 4 * N; i++) {
        const float f = (&fresh[0][0])[i], want = relu(f) + (&cache[2][0][0])[i];
        assert_true(y[i] == want);
        assert_true(z[i] == f * want);
        assert_true(last[i] == f && last[4 * N + i] == relu(f));
        assert_true(last[8 * N + i] == (&cache[2][0][0])[i]);
    }
    steno_session_close(s);
    steno_network_close(n);
    free(file);
    mk_free(m);
}

/* A product of all entries with the first one does not overwrite what it still reads. */
static void an_entry_times_all_entries(void **state)
{
    static const int64_t zero = 0;
    struct mk_graph *m = mk_new(17);
    steno_network *n;
    steno_session *s;
    uint8_t *file;
    size_t size;
    const float *y;
    (void)state;
    for (int i = 0; i < 3 * 4 * N; i++)
        (&cache[0][0][0])[i] = (float)(i * 37 % 101) - 50;
    mk_input(m, "cache", STENO_F32, "3,b,64");
    mk_input(m, "fresh", STENO_F32, "1,b,64");
    mk_i64(m, "i0", "", &zero, 1);
    pc_graph(m, "Relu cache r; Gather r,i0 g; Mul g,r y");
    mk_output(m, "y", STENO_F32, "3,b,64");
    file = mk_bytes(m, &size);
    n = pc_open(file, size, 0, NULL, NULL);
    s = run(n);
    y = steno_session_get(s, 0)->data;
    for (int i = 0; i < 3 * 4 * N; i++)
        assert_true(y[i] == relu((&cache[0][0][0])[i]) * relu((&cache[0][0][0])[i % (4 * N)]));
    steno_session_close(s);
    steno_network_close(n);
    free(file);
    mk_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(entries_are_those_of_their_time),
                                       cmocka_unit_test(an_entry_times_all_entries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
