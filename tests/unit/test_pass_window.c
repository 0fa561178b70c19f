/* Pass window: a streaming encoder's attention to cached rows before its chunk, as exporters
 * write it and as this program's own models have it; near misses; and states that are updated in
 * place. */

#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAR "9223372036854775807"
#define NUMBERS                                                                                    \
    "n0 = [0]; n1 = [1]; n2 = [-5]; n3 = [3]; far = [" FAR                                         \
    "]; qs = [16,24]; ks = [16,8]; m : 2,3,8;"
#define ATTEND "ai.steno:Attention q,k,v,m y heads=2 size=8 v_size=4 scale=0.3"
#define SPLITS "Split x,qs q,new axis=2; Concat cache,new z axis=1; Split z,ks k,v axis=-1;"

/* x [n, 3, 40]: queries beside the new part of the cache; cache [n, 5, 24]. */
static struct mk_graph *graph(const char *text, const char *cache)
{
    struct mk_graph *m = pc_start(13, "n,3,40");
    mk_input(m, "cache", STENO_F32, cache);
    mk_import(m, "ai.steno", 1);
    pc_graph(m, NUMBERS);
    pc_graph(m, text);
    pc_graph(m, "-> y; -> kept");
    return m;
}

static void check(const char *text, bool hits, int left)
{
    struct mk_graph *m = graph(text, "n,5,24");
    pc.context = text;
    pc_check(m, "window", hits, left, 3e-6f);
    pc.context = NULL;
}

static void attention_to_the_rows_before_is_one_node(void **state)
{
    (void)state;
    check(SPLITS "Slice z,n3,far,n1 kept; " ATTEND, true, 1);
    check(SPLITS "Slice z,n2,far,n1 kept; " ATTEND, true, 1);
    check(SPLITS "Slice z,n3,far,n1 kept;"
                 "ai.steno:Attention q,k,v y heads=2 size=8 v_size=4 scale=0.3",
          true, 1);
    /* keys that are the values too; queries from another value */
    check("Split x,qs q,new axis=2; Relu q r; Concat cache,new z axis=1; Slice z,n3,far,n1 kept;"
          "ai.steno:Attention r,z,z y heads=2 size=8 v_size=12 k_at=4 v_at=0 scale=0.3",
          true, 3);
}

static void near_misses_stay(void **state)
{
    (void)state;
    check(SPLITS "Slice z,n1,far,n1 kept; " ATTEND, false, 5); /* keeps seven of eight rows */
    check(SPLITS "Slice z,n3,far,n1 kept; " ATTEND "; Relu z p; -> p", false, 6);
    check(SPLITS "Slice z,n3,far,n1 kept; " ATTEND "; Relu v p; -> p", false, 6);
    /* the new rows come before the cache */
    check("Split x,qs q,new axis=2; Concat new,cache z axis=1; Split z,ks k,v axis=-1;"
          "Slice z,n3,far,n1 kept; " ATTEND,
          false, 5);
}

/* ---- states that are updated in place ---- */

enum { BATCH = 3, ROWS = 3, COLUMNS = 40, HELD = 5 * 24, STEPS = 4 };

static void set_x(steno_session *s, int step)
{
    struct steno_tensor x = {.dtype = STENO_F32,
                             .shape = {.rank = 3, .dim = {BATCH, ROWS, COLUMNS}}};
    x.data = pc.x + step * 100;
    assert_int_equal(steno_session_set(s, 0, &x, NULL), STENO_OK);
}

static void states_in_place_equal_the_output(void **state)
{
    struct mk_graph *m = graph(SPLITS "Slice z,n3,far,n1 kept; " ATTEND, "n,5,24");
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    steno_network *n = pc_open(file, size, 3, NULL, NULL);
    static float cache[BATCH * HELD], own[BATCH][HELD + 7];
    struct steno_tensor t = {.dtype = STENO_F32, .shape = {.rank = 3, .dim = {BATCH, 5, 24}}};
    void *row[BATCH];
    steno_session *a, *b;
    (void)state;
    assert_int_equal(steno_session_open(&a, n, NULL, NULL), STENO_OK);
    assert_int_equal(steno_session_open(&b, n, NULL, NULL), STENO_OK);
    assert_int_equal(steno_session_in_place(b, 0), -1);
    assert_int_equal(steno_session_in_place(b, 1), 1);
    assert_int_equal(steno_session_in_place(b, 2), -1);
    t.data = cache;
    for (int i = 0; i < BATCH; i++)
        row[i] = own[BATCH - 1 - i] + i; /* anywhere in memory */
    assert_int_equal(steno_session_set_rows(b, 0, &t, row, NULL), STENO_ERR_INVAL);
    for (int step = 0; step < STEPS; step++) {
        set_x(a, step);
        set_x(b, step);
        assert_int_equal(steno_session_set(a, 1, &t, NULL), STENO_OK);
        assert_int_equal(steno_session_set_rows(b, 1, &t, row, NULL), STENO_OK);
        assert_int_equal(steno_session_run(a, NULL), STENO_OK);
        assert_int_equal(steno_session_run(b, NULL), STENO_OK);
        assert_memory_equal(steno_session_get(a, 0)->data, steno_session_get(b, 0)->data,
                            BATCH * ROWS * 8 * sizeof(float));
        memcpy(cache, steno_session_get(a, 1)->data, sizeof cache);
        for (int i = 0; i < BATCH; i++)
            assert_memory_equal(row[i], cache + i * HELD, HELD * sizeof(float));
    }
    /* back to one block of memory */
    set_x(a, 0);
    set_x(b, 0);
    assert_int_equal(steno_session_set(a, 1, &t, NULL), STENO_OK);
    assert_int_equal(steno_session_set(b, 1, &t, NULL), STENO_OK);
    assert_int_equal(steno_session_run(a, NULL), STENO_OK);
    assert_int_equal(steno_session_run(b, NULL), STENO_OK);
    assert_memory_equal(steno_session_get(a, 1)->data, steno_session_get(b, 1)->data, sizeof cache);
    steno_session_close(a);
    steno_session_close(b);
    steno_network_close(n);
    free(file);
    mk_free(m);
}

static void a_state_that_others_read_is_not_changed_in_place(void **state)
{
    struct mk_graph *m =
        graph(SPLITS "Slice z,n3,far,n1 kept; Relu cache p; -> p; " ATTEND, "n,5,24");
    size_t size;
    uint8_t *file = mk_bytes(m, &size);
    steno_network *n = pc_open(file, size, 3, NULL, NULL);
    steno_session *s;
    (void)state;
    assert_int_equal(pc_found(n, "window"), 1);
    assert_int_equal(steno_session_open(&s, n, NULL, NULL), STENO_OK);
    assert_int_equal(steno_session_in_place(s, 1), -1);
    steno_session_close(s);
    steno_network_close(n);
    free(file);
    mk_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_to_the_rows_before_is_one_node),
        cmocka_unit_test(near_misses_stay),
        cmocka_unit_test(states_in_place_equal_the_output),
        cmocka_unit_test(a_state_that_others_read_is_not_changed_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
