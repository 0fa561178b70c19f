/* The block-by-block joint search against ESPnet's BatchBeamSearchOnline
 * (tests/data/espnet/block_search.json; tests/espnet/block_search.py defines the decoder). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "speech/search/aed_beam.h"
#include "tests/support/test.h"

#define V 12
#define BEAM 8
#define FIRST 24
#define HOP 16
#define TOLERANCE                                                                                  \
    2e-3 /* recorded numbers are rounded to 1e-2; scores are sums of a hundred floats */

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

/* The decoder. It keeps the states before the last call and before the one before that, so that
 * the search can rewind. */
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
    if (t->again) { /* a repeated step: from the same states */
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

/* t.prev: the states before the last call. older: the states before the call before that. */
struct history {
    struct toy t;
    float older[BEAM][V];
    bool fails;
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

static steno_status search_on(steno_joint *j, const struct steno_joint_scorer *s, const float *ctc,
                              size_t frames, size_t last)
{
    struct steno_joint_block b = {
        .j = j, .scorers = s, .n_scorers = 1, .ctc = ctc, .frames = frames, .last = last};
    steno_joint_blocks(&b, 1);
    return b.st;
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

static struct steno_joint_options options_of(json_t *c)
{
    return (struct steno_joint_options){.vocab = V,
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
}

static void compare_results(json_t *c, size_t at, const steno_joint *j)
{
    json_t *hyp;
    size_t i;
    json_array_foreach (json_object_get(c, "nbest"), i, hyp) {
        assert_true(i < steno_joint_count(j));
        compare(json_object_get(hyp, "yseq"), steno_joint_get(j, i), at, "result");
        if (fabs(steno_joint_get(j, i).score - number(hyp, "score")) > TOLERANCE)
            fail_msg("result %zu of case %zu has score %g, recorded %g", i, at,
                     steno_joint_get(j, i).score, number(hyp, "score"));
    }
}

static void check(json_t *c, size_t at, steno_joint *j, struct history *h, const float *ctc,
                  size_t rows, size_t steps)
{
    struct steno_joint_scorer s = {
        .self = h, .weight = 1 - number(c, "ctc_weight"), .score = score_kept, .rewind = go_back};
    json_t *running = json_object_get(c, "running");
    size_t end = FIRST, i = 0;
    steno_status st;
    steno_joint_begin(j);
    assert_int_equal(steno_joint_running(j).n, 0);
    for (; end < rows; end += HOP, i++) {
        h->t.frames = end;
        assert_int_equal(search_on(j, &s, ctc, end, 0), STENO_OK);
        compare(json_array_get(running, i), steno_joint_running(j), at, "running hypothesis");
    }
    assert_int_equal(i, json_array_size(running));
    h->t.frames = rows;
    while ((st = search_on(j, &s, ctc, rows, steps)) == STENO_NEED_MORE)
        ;
    assert_int_equal(st, STENO_OK);
    compare_results(c, at, j);
}

static void blocks_are_searched_as_espnet_does(void **state)
{
    json_t *all = json_load_file("tests/data/espnet/block_search.json", 0, NULL), *c;
    size_t i, rewinds[2] = {0};
    (void)state;
    assert_non_null(all);
    json_array_foreach (all, i, c) {
        struct steno_joint_options o = options_of(c);
        struct history h = {0};
        steno_joint *j = NULL;
        size_t rows, n;
        float *ctc = numbers(json_object_get(c, "ctc"), &rows);
        h.t.step = numbers(json_object_get(c, "step"), &n);
        h.t.grow = numbers(json_object_get(c, "rows"), &n);
        assert_int_equal(steno_joint_open(&j, &o, NULL), STENO_OK);
        check(c, i, j, &h, ctc, rows, SIZE_MAX);
        check(c, i, j, &h, ctc, rows, 3); /* the last block in pieces of 3 frames */
        for (int k = 0; k < 2; k++)
            rewinds[k] += h.t.rewinds[k];
        steno_joint_close(j);
        free(ctc);
        free(h.t.step);
        free(h.t.grow);
    }
    assert_int_equal(i, 12);
    assert_true(rewinds[0] > 10 && rewinds[1] > 10); /* both kinds of rewind occurred */
    json_decref(all);
}

/* A recorded case that is being searched. */
struct walk {
    struct history h;
    steno_joint *j;
    struct steno_joint_scorer s;
    float *ctc;
    size_t rows, end;
    json_t *c;
};

static size_t asked_together;

static void score_together(struct steno_score_request *a, size_t n)
{
    asked_together += n > 1;
    for (size_t i = 0; i < n; i++) {
        a[i].st = score_kept(a[i].self, a[i].prefix, a[i].length, a[i].parent, a[i].n, a[i].out,
                             a[i].err);
        if (((struct history *)a[i].self)->fails)
            a[i].st = steno_fail(a[i].err, STENO_ERR_FORMAT, "on purpose");
    }
}

static void begin_walk(struct walk *w, json_t *c, bool together)
{
    struct steno_joint_options o = options_of(c);
    size_t n;
    *w = (struct walk){.c = c, .end = FIRST};
    w->ctc = numbers(json_object_get(c, "ctc"), &w->rows);
    w->h.t.step = numbers(json_object_get(c, "step"), &n);
    w->h.t.grow = numbers(json_object_get(c, "rows"), &n);
    w->s = (struct steno_joint_scorer){.self = &w->h,
                                       .weight = 1 - number(c, "ctc_weight"),
                                       .score = score_kept,
                                       .score_each = together ? score_together : NULL,
                                       .rewind = go_back};
    assert_int_equal(steno_joint_open(&w->j, &o, NULL), STENO_OK);
    steno_joint_begin(w->j);
}

static void end_walk(struct walk *w)
{
    steno_joint_close(w->j);
    free(w->ctc);
    free(w->h.t.step);
    free(w->h.t.grow);
}

/* The blocks of all cases side by side. Case `bad` fails; SIZE_MAX: none does. */
static void walk_all(json_t *all, bool together, size_t bad)
{
    static struct walk w[STENO_JOINT_MOST];
    struct steno_joint_block b[STENO_JOINT_MOST];
    struct walk *of[STENO_JOINT_MOST];
    size_t cases = json_array_size(all), n;
    assert_in_range(cases, 2, STENO_JOINT_MOST);
    for (size_t i = 0; i < cases; i++)
        begin_walk(&w[i], json_array_get(all, i), together);
    do {
        n = 0;
        for (size_t i = 0; i < cases; i++) {
            size_t rows = w[i].end < w[i].rows ? w[i].end : w[i].rows;
            if (w[i].end == SIZE_MAX)
                continue;
            w[i].h.t.frames = rows;
            w[i].h.fails = i == bad && rows > FIRST;
            of[n] = &w[i];
            b[n++] = (struct steno_joint_block){.j = w[i].j,
                                                .scorers = &w[i].s,
                                                .n_scorers = 1,
                                                .ctc = w[i].ctc,
                                                .frames = rows,
                                                .last = rows == w[i].rows ? 3 : 0};
        }
        steno_joint_blocks(b, n);
        for (size_t k = 0; k < n; k++) {
            struct walk *x = of[k];
            size_t at = (size_t)(x - w);
            if (x->h.fails) {
                assert_int_equal(b[k].st, STENO_ERR_FORMAT);
                x->end = SIZE_MAX;
            } else if (!b[k].last) {
                assert_int_equal(b[k].st, STENO_OK);
                compare(json_array_get(json_object_get(x->c, "running"), (x->end - FIRST) / HOP),
                        steno_joint_running(x->j), at, "running hypothesis");
                x->end += HOP;
            } else if (b[k].st != STENO_NEED_MORE) {
                assert_int_equal(b[k].st, STENO_OK);
                compare_results(x->c, at, x->j);
                x->end = SIZE_MAX;
            }
        }
    } while (n);
    for (size_t i = 0; i < cases; i++)
        end_walk(&w[i]);
}

static void searches_side_by_side_find_the_same(void **state)
{
    json_t *all = json_load_file("tests/data/espnet/block_search.json", 0, NULL);
    (void)state;
    assert_non_null(all);
    walk_all(all, false, SIZE_MAX);
    assert_int_equal(asked_together, 0);
    walk_all(all, true, SIZE_MAX);
    assert_true(asked_together > 20);
    walk_all(all, true, 1); /* a case that fails does not affect the others */
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_are_searched_as_espnet_does),
                                       cmocka_unit_test(searches_side_by_side_find_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
