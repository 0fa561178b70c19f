/* The joint search block by block against ESPnet's BatchBeamSearchOnline
 * (tests/data/espnet/block_search.json; tests/espnet/block_search.py says what the decoder is). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "decoder/joint.h"

#define V 12
#define BEAM 8
#define FIRST 24
#define HOP 16
#define TOLERANCE 2e-3 /* recorded rows are rounded to 1e-2, sums of a hundred scores are floats */

static double number(json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static float *numbers(json_t *rows, size_t *n_rows)
{
    float *x = calloc(json_array_size(rows) * V, sizeof *x);
    json_t *row, *v;
    size_t i, k;
    json_array_foreach (rows, i, row)
        json_array_foreach (row, k, v)
            x[i * V + k] = (float)json_number_value(v);
    *n_rows = i;
    return x;
}

/* The decoder: states of the call before and of the one before that, so that it can go back. */
struct toy {
    float *step, *grow;
    size_t frames;
    float now[BEAM][V], prev[BEAM][V], tried[BEAM][V];
    bool again;
    size_t rewinds[2];
};

static steno_status score(void *self, const int32_t *const *prefix, size_t length,
                          const int32_t *parent, size_t n, float *out, steno_err *err)
{
    struct toy *t = self;
    (void)err;
    assert_true(n <= BEAM);
    if (t->again) { /* from the same states */
        memcpy(t->now, t->prev, sizeof t->now);
    } else {
        for (size_t i = 0; i < n; i++)
            if (length > 1)
                memcpy(t->now[i], t->tried[parent[i]], sizeof t->now[i]);
            else
                memset(t->now[i], 0, sizeof t->now[i]);
    }
    t->again = false;
    memcpy(t->prev, t->now, sizeof t->prev);
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t k = 0; k < V; k++) {
            t->tried[i][k] = t->now[i][k] / 2 + t->step[prefix[i][length - 1] * V + (int32_t)k] +
                             t->grow[t->frames % 7 * V + k];
            sum += exp((double)t->tried[i][k]);
        }
        for (size_t k = 0; k < V; k++)
            out[i * V + k] = t->tried[i][k] - (float)log(sum);
    }
    return STENO_OK;
}

/* prev: states before the last call; older: ... before the one before. */
struct history {
    struct toy t;
    float older[BEAM][V];
};

static steno_status score_kept(void *self, const int32_t *const *prefix, size_t length,
                               const int32_t *parent, size_t n, float *out, steno_err *err)
{
    struct history *h = self;
    if (!h->t.again)
        memcpy(h->older, h->t.prev, sizeof h->older);
    return score(&h->t, prefix, length, parent, n, out, err);
}

static void go_back(void *self, int calls)
{
    struct history *h = self;
    h->t.again = true;
    h->t.rewinds[calls]++;
    if (calls)
        memcpy(h->t.prev, h->older, sizeof h->older);
}

static void compare(json_t *want, struct steno_joint_hyp got, size_t number_of, const char *what)
{
    json_t *id;
    size_t k;
    if (got.n != json_array_size(want))
        fail_msg("%s of case %zu has %zu tokens, recorded %zu", what, number_of, got.n,
                 json_array_size(want));
    json_array_foreach (want, k, id)
        if (got.tokens[k] != json_integer_value(id))
            fail_msg("%s of case %zu differs at token %zu", what, number_of, k);
}

static void check(json_t *c, size_t at, steno_joint *j, struct history *h, const float *ctc,
                  size_t rows, size_t steps)
{
    struct steno_joint_scorer s = {.self = h,
                                   .weight = 1 - number(c, "ctc_weight"),
                                   .score = score_kept,
                                   .rewind = go_back};
    json_t *hyp, *running = json_object_get(c, "running");
    size_t end = FIRST, i = 0;
    steno_status st;
    steno_joint_begin(j);
    assert_int_equal(steno_joint_running(j).n, 0);
    for (; end < rows; end += HOP, i++) {
        h->t.frames = end;
        assert_int_equal(steno_joint_block(j, &s, 1, ctc, end, 0, NULL), STENO_OK);
        compare(json_array_get(running, i), steno_joint_running(j), at, "running hypothesis");
    }
    assert_int_equal(i, json_array_size(running));
    h->t.frames = rows;
    while ((st = steno_joint_block(j, &s, 1, ctc, rows, steps, NULL)) == STENO_NEED_MORE)
        ;
    assert_int_equal(st, STENO_OK);
    json_array_foreach (json_object_get(c, "nbest"), i, hyp) {
        assert_true(i < steno_joint_count(j));
        compare(json_object_get(hyp, "yseq"), steno_joint_get(j, i), at, "result");
        if (fabs(steno_joint_get(j, i).score - number(hyp, "score")) > TOLERANCE)
            fail_msg("result %zu of case %zu has score %g, recorded %g", i, at,
                     steno_joint_get(j, i).score, number(hyp, "score"));
    }
}

static void blocks_are_searched_as_espnet_does(void **state)
{
    json_t *all = json_load_file("tests/data/espnet/block_search.json", 0, NULL), *c;
    size_t i, rewinds[2] = {0};
    (void)state;
    assert_non_null(all);
    json_array_foreach (all, i, c) {
        struct steno_joint_options o = {.vocab = V,
                                        .sos = V - 1,
                                        .eos = V - 1,
                                        .beam = (size_t)number(c, "beam"),
                                        .pre_beam = (size_t)number(c, "pre_beam"),
                                        .pre_beam_key = -1,
                                        .ctc_weight = number(c, "ctc_weight"),
                                        .length_bonus = number(c, "length_bonus"),
                                        .max_len_ratio = number(c, "maxlenratio"),
                                        .no_repetition =
                                            json_is_false(json_object_get(c, "repetition"))};
        struct history h = {0};
        steno_joint *j = NULL;
        size_t rows, n;
        float *ctc = numbers(json_object_get(c, "ctc"), &rows);
        h.t.step = numbers(json_object_get(c, "step"), &n);
        h.t.grow = numbers(json_object_get(c, "rows"), &n);
        assert_int_equal(steno_joint_open(&j, &o, NULL), STENO_OK);
        check(c, i, j, &h, ctc, rows, SIZE_MAX);
        check(c, i, j, &h, ctc, rows, 3); /* the last block in pieces */
        for (int k = 0; k < 2; k++)
            rewinds[k] += h.t.rewinds[k];
        steno_joint_close(j);
        free(ctc);
        free(h.t.step);
        free(h.t.grow);
    }
    assert_int_equal(i, 12);
    assert_true(rewinds[0] > 10 && rewinds[1] > 10); /* both ways of going back were taken */
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_are_searched_as_espnet_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
