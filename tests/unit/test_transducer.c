/* Searches over toy networks against the results of espnet_onnx and ESPnet with the same
 * networks (tests/espnet/oracle_transducer.py prints the table). */
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/search/rnnt.h"
#include "tests/support/test.h"

#define VOCAB 5
#define FRAMES 9

/* The prediction and the state are one number, made of the tokens so far. */
static steno_status predict(void *self, const float *const *state, const int32_t *token, size_t n,
                            float *const *next, float *const *row, steno_err *err)
{
    (void)err;
    for (size_t i = 0; i < n; i++) {
        int k = state[i] ? (3 * (int)state[i][0] + token[i]) % 11 : 0;
        row[i][0] = next[i][0] = (float)k;
    }
    ++*(int *)self;
    return STENO_OK;
}

static steno_status join(void *self, const float *const *enc, const float *const *row, size_t n,
                         float *out, steno_err *err)
{
    (void)self;
    (void)err;
    for (size_t i = 0; i < n; i++)
        for (int v = 0; v < VOCAB; v++)
            *out++ = (float)(3 * sin(1.7 * (double)enc[i][0] + 2.3 * v + 0.9 * (double)row[i][0]) +
                             (v ? 0 : 1.5));
    return STENO_OK;
}

static steno_status join_nan(void *self, const float *const *enc, const float *const *row, size_t n,
                             float *out, steno_err *err)
{
    steno_status st = join(self, enc, row, n, out, err);
    if (enc[0][0] > 0)
        out[1] = NAN;
    return st;
}

/* Favours token 2 alone. */
static steno_status prefer_two(void *self, const float *const *state, const int32_t *token,
                               size_t n, float *const *next, float *const *row, steno_err *err)
{
    (void)self;
    (void)state;
    (void)token;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        next[i][0] = 0;
        for (int v = 0; v < VOCAB; v++)
            row[i][v] = v == 2 ? 0 : -50;
    }
    return STENO_OK;
}

static const struct row {
    enum steno_transducer_search search;
    bool as_onnx;
    const char *tokens;
    double score;
} rows[] = {
    {STENO_TRANSDUCER_GREEDY, true, "0144222", -3.17925},
    {STENO_TRANSDUCER_GREEDY, false, "0144222", -3.17925},
    {STENO_TRANSDUCER_DEFAULT, true, "01224422422", -9.22065},
    {STENO_TRANSDUCER_DEFAULT, true, "0122222122", -9.03380},
    {STENO_TRANSDUCER_DEFAULT, true, "01222242", -8.79840},
    {STENO_TRANSDUCER_DEFAULT, false, "01224422422", -9.22065},
    {STENO_TRANSDUCER_TSD, true, "0122222122", -9.03380},
    {STENO_TRANSDUCER_TSD, true, "01222242", -8.72187},
    {STENO_TRANSDUCER_TSD, true, "0122224", -11.25629},
    {STENO_TRANSDUCER_TSD, false, "0122222122", -9.03380},
    {STENO_TRANSDUCER_ALSD, true, "01424242424242", -5.68112},
    {STENO_TRANSDUCER_ALSD, true, "02124242424242", -6.13055},
    {STENO_TRANSDUCER_ALSD, true, "0142424242422", -6.54721},
    {STENO_TRANSDUCER_ALSD, false, "01424242424242", -5.68112},
    {STENO_TRANSDUCER_ALSD, false, "02124242424242", -6.13055},
    {STENO_TRANSDUCER_ALSD, false, "0142424242422", -6.54721},
    {STENO_TRANSDUCER_NSC, true, "0122222122", -8.98677},
    {STENO_TRANSDUCER_NSC, true, "01222242", -8.78745},
    {STENO_TRANSDUCER_NSC, true, "0122224", -11.32187},
    {STENO_TRANSDUCER_NSC, false, "0122222122", -8.98829},
    {STENO_TRANSDUCER_MAES, true, "0122222122", -8.98677},
    {STENO_TRANSDUCER_MAES, true, "0122222144", -10.59424},
    {STENO_TRANSDUCER_MAES, true, "01222242", -8.78745},
    {STENO_TRANSDUCER_MAES, false, "0122222122", -8.98849},
};

static struct steno_transducer_options options(enum steno_transducer_search search, bool as_onnx)
{
    return (struct steno_transducer_options){.search = search,
                                             .vocab = VOCAB,
                                             .sos = VOCAB - 1,
                                             .beam = search == STENO_TRANSDUCER_GREEDY ? 1 : 3,
                                             .score_norm = true,
                                             .max_sym_exp = 3,
                                             .u_max = 6,
                                             .n_step = 2,
                                             .prefix_alpha = 2,
                                             .expansion_beta = 2,
                                             .expansion_gamma = 2.3,
                                             .rules = as_onnx ? STENO_RULES_ESPNET_ONNX
                                                              : STENO_RULES_ESPNET};
}

static const float enc[FRAMES] = {0, 1, 2, 3, 4, 5, 6, 7, 8};

static void searches_find_what_espnet_finds(void **state)
{
    (void)state;
    int calls = 0;
    struct steno_transducer_nets nets = {
        .self = &calls, .state = 1, .width = 1, .predict = predict, .join = join};
    steno_transducer *t = NULL;
    size_t k = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct steno_transducer_options o = options(rows[i].search, rows[i].as_onnx);
        struct steno_transducer_hyp h;
        char text[64] = "";
        bool same =
            i && rows[i].search == rows[i - 1].search && rows[i].as_onnx == rows[i - 1].as_onnx;
        k = same ? k + 1 : 0;
        if (!same) {
            steno_transducer_close(t);
            assert_int_equal(steno_transducer_open(&t, &o, NULL), STENO_OK);
            assert_int_equal(steno_transducer_run(t, &nets, enc, FRAMES, 1, NULL), STENO_OK);
        }
        assert_true(k < steno_transducer_count(t));
        assert_int_equal(steno_transducer_get(t, k, &h), STENO_OK);
        for (size_t c = 0; c < h.n && c < sizeof text - 1; c++)
            text[c] = (char)('0' + h.tokens[c]);
        assert_string_equal(text, rows[i].tokens);
        if (fabs(h.score - rows[i].score) > 1e-4)
            fail_msg("row %zu: score %.6f, expected %.6f", i, h.score, rows[i].score);
        for (size_t c = 0; c + 1 < h.n; c++) {
            assert_int_equal(h.spans[c].token, h.tokens[c + 1]);
            assert_true(h.spans[c].first >= (c ? h.spans[c - 1].first : 0));
            assert_true(h.spans[c].first < FRAMES && h.spans[c].peak <= 0);
        }
    }
    steno_transducer_close(t);
}

/* Frames pushed one at a time, in twos, or all but the first: the results are those of the
 * whole. */
static void pieces_give_the_result_of_the_whole(void **state)
{
    static const enum steno_transducer_search all[] = {
        STENO_TRANSDUCER_GREEDY, STENO_TRANSDUCER_DEFAULT, STENO_TRANSDUCER_TSD,
        STENO_TRANSDUCER_ALSD,   STENO_TRANSDUCER_NSC,     STENO_TRANSDUCER_MAES};
    static const size_t pieces[] = {1, 2, FRAMES - 1};
    int calls = 0;
    struct steno_transducer_nets nets = {
        .self = &calls, .state = 1, .width = 1, .predict = predict, .join = join};
    (void)state;
    for (size_t k = 0; k < sizeof all / sizeof *all * 3; k++) {
        struct steno_transducer_options o = options(all[k / 3], false);
        steno_transducer *whole, *cut;
        struct steno_transducer_hyp a, b, best;
        assert_int_equal(steno_transducer_open(&whole, &o, NULL), STENO_OK);
        assert_int_equal(steno_transducer_open(&cut, &o, NULL), STENO_OK);
        assert_int_equal(steno_transducer_run(whole, &nets, enc, FRAMES, 1, NULL), STENO_OK);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(steno_transducer_start(cut, NULL), STENO_OK);
            for (size_t at = 0; at < FRAMES; at += pieces[k % 3]) {
                size_t n = FRAMES - at < pieces[k % 3] ? FRAMES - at : pieces[k % 3];
                struct steno_transducer_nets borrowed = nets; /* another copy each time */
                assert_int_equal(steno_transducer_push(cut, &borrowed, enc + at, n, 1, NULL),
                                 STENO_OK);
                assert_int_equal(steno_transducer_best(cut, &best), STENO_OK);
            }
            assert_true(best.score == best.score);
            assert_int_equal(steno_transducer_finish(cut, &nets, NULL), STENO_OK);
            assert_int_equal(steno_transducer_count(cut), steno_transducer_count(whole));
            for (size_t i = 0; i < steno_transducer_count(whole); i++) {
                assert_int_equal(steno_transducer_get(whole, i, &a), STENO_OK);
                assert_int_equal(steno_transducer_get(cut, i, &b), STENO_OK);
                assert_int_equal(a.n, b.n);
                assert_memory_equal(a.tokens, b.tokens, a.n * sizeof *a.tokens);
                assert_true(a.score == b.score);
                for (size_t j = 0; j + 1 < a.n; j++)
                    assert_int_equal(a.spans[j].first, b.spans[j].first);
            }
            assert_int_equal(steno_transducer_best(cut, &best), STENO_OK);
            assert_int_equal(steno_transducer_get(whole, 0, &a), STENO_OK);
            assert_true(best.score == a.score);
        }
        steno_transducer_close(whole);
        steno_transducer_close(cut);
    }
}

/* Frames whose scores recur; the sequence repeats after 77 frames. */
static float speech(size_t frame)
{
    return (float)(frame % 7 + frame % 11);
}

static void assert_same(steno_transducer *a, steno_transducer *b)
{
    assert_int_equal(steno_transducer_count(a), steno_transducer_count(b));
    for (size_t i = 0; i < steno_transducer_count(a); i++) {
        struct steno_transducer_hyp x, y;
        assert_int_equal(steno_transducer_get(a, i, &x), STENO_OK);
        assert_int_equal(steno_transducer_get(b, i, &y), STENO_OK);
        assert_int_equal(x.n, y.n);
        assert_memory_equal(x.tokens, y.tokens, x.n * sizeof *x.tokens);
        assert_true(x.score == y.score);
        for (size_t k = 0; k + 1 < x.n; k++) {
            assert_int_equal(x.spans[k].first, y.spans[k].first);
            assert_true(x.spans[k].peak == y.spans[k].peak);
        }
    }
}

/* Bytes of the heap; 0 with sanitizers. */
static size_t heap_in_use(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* Memory collected after every frame or never: the same results, with and without a language
 * model. */
static void collecting_memory_changes_no_result(void **state)
{
    enum { LONG = 600 };
    float *frames = malloc(LONG * sizeof *frames);
    (void)state;
    assert_non_null(frames);
    for (size_t i = 0; i < LONG; i++)
        frames[i] = speech(i);
    for (int k = 0; k < 2 * (STENO_TRANSDUCER_MAES + 1); k++) {
        struct steno_transducer_options o = options((enum steno_transducer_search)(k / 2), false);
        int few = 0, many = 0;
        struct steno_transducer_nets nets = {.self = &many,
                                             .state = 1,
                                             .width = 1,
                                             .lm_state = 1,
                                             .predict = predict,
                                             .join = join,
                                             .lm = k % 2 ? prefer_two : NULL};
        steno_transducer *kept, *tidy;
        const size_t at = heap_in_use();
        size_t between;
        o.lm_weight = k % 2 ? 0.01 : 0;
        o.row_bytes = 1;
        assert_int_equal(steno_transducer_open(&tidy, &o, NULL), STENO_OK);
        assert_int_equal(steno_transducer_run(tidy, &nets, frames, LONG, 1, NULL), STENO_OK);
        between = heap_in_use();
        o.row_bytes = (size_t)1 << 30;
        assert_int_equal(steno_transducer_open(&kept, &o, NULL), STENO_OK);
        nets.self = &few;
        assert_int_equal(steno_transducer_run(kept, &nets, frames, LONG, 1, NULL), STENO_OK);
        assert_true(between - at <= heap_in_use() - between);
        assert_same(kept, tidy);
        assert_true(few <= many);
        steno_transducer_close(kept);
        steno_transducer_close(tidy);
    }
    free(frames);
}

/* Like join, for a speaker with about three tokens per second. */
static steno_status join_slowly(void *self, const float *const *e, const float *const *row,
                                size_t n, float *out, steno_err *err)
{
    steno_status st = join(self, e, row, n, out, err);
    for (size_t i = 0; i < n; i++)
        out[i * VOCAB] += (int)e[i][0] % 4 == 3 ? -3 : 6;
    return st;
}

/* An hour of speech without a pause, at 25 frames per second. The search's memory does not grow,
 * except for the tokens of the result (each has a sequence and a link, in arrays that grow by
 * half, and the arrays of the final result). Rows are as wide as those of real networks. ALSD
 * lags by as many frames as it has tokens, and keeps those frames. */
static void an_hour_takes_no_more_memory_than_a_minute(void **state)
{
    enum { SECOND = 25, WIDTH = 128, PER_TOKEN = 400 };
    (void)state;
    for (int search = STENO_TRANSDUCER_GREEDY; search <= STENO_TRANSDUCER_MAES; search++) {
        struct steno_transducer_options o = options((enum steno_transducer_search)search, false);
        int calls = 0;
        struct steno_transducer_nets nets = {.self = &calls,
                                             .state = WIDTH,
                                             .width = WIDTH,
                                             .predict = predict,
                                             .join = join_slowly};
        struct steno_transducer_hyp h;
        steno_transducer *t;
        const size_t before = heap_in_use();
        size_t minute = 0, hour;
        o.row_bytes = 100 * 2 * WIDTH * sizeof(float);
        assert_int_equal(steno_transducer_open(&t, &o, NULL), STENO_OK);
        assert_int_equal(steno_transducer_start(t, NULL), STENO_OK);
        for (size_t i = 0; i < 3600; i++) {
            float frames[SECOND];
            for (size_t k = 0; k < SECOND; k++)
                frames[k] = speech(i * SECOND + k);
            assert_int_equal(steno_transducer_push(t, &nets, frames, SECOND, 1, NULL), STENO_OK);
            if (i == 59)
                minute = heap_in_use() - before;
        }
        assert_int_equal(steno_transducer_best(t, &h), STENO_OK);
        hour = heap_in_use() - before;
        assert_true(h.n > 3600);
        if (hour > minute + minute / 2 + h.n * PER_TOKEN)
            fail_msg("search %d: %zu bytes after a minute, %zu after an hour and %zu tokens",
                     search, minute, hour, h.n);
        steno_transducer_close(t);
    }
}

/* A token sequence that occurs again is not predicted again. */
static void every_sequence_is_predicted_once(void **state)
{
    (void)state;
    for (int search = STENO_TRANSDUCER_DEFAULT; search <= STENO_TRANSDUCER_MAES; search++) {
        int calls = 0;
        struct steno_transducer_nets nets = {
            .self = &calls, .state = 1, .width = 1, .predict = predict, .join = join};
        struct steno_transducer_options o = options((enum steno_transducer_search)search, false);
        float same[40] = {0};
        steno_transducer *t = NULL;
        assert_int_equal(steno_transducer_open(&t, &o, NULL), STENO_OK);
        assert_int_equal(steno_transducer_run(t, &nets, same, 40, 1, NULL), STENO_OK);
        assert_true(calls > 0 && calls < 40 * 12);
        steno_transducer_close(t);
    }
}

static void a_language_model_changes_the_words(void **state)
{
    (void)state;
    int calls = 0;
    struct steno_transducer_nets nets = {.self = &calls,
                                         .state = 1,
                                         .width = 1,
                                         .lm_state = 1,
                                         .predict = predict,
                                         .join = join,
                                         .lm = prefer_two};
    for (int search = STENO_TRANSDUCER_DEFAULT; search <= STENO_TRANSDUCER_MAES; search++) {
        struct steno_transducer_options o = options((enum steno_transducer_search)search, false);
        struct steno_transducer_hyp h;
        steno_transducer *t = NULL;
        o.lm_weight = 1;
        o.expansion_gamma = 1000; /* the blank is always one of the choices */
        assert_int_equal(steno_transducer_open(&t, &o, NULL), STENO_OK);
        assert_int_equal(steno_transducer_run(t, &nets, enc, FRAMES, 1, NULL), STENO_OK);
        assert_int_equal(steno_transducer_get(t, 0, &h), STENO_OK);
        for (size_t i = 1; i < h.n; i++)
            if (h.tokens[i] != 2)
                fail_msg("search %d says %d", search, (int)h.tokens[i]);
        steno_transducer_close(t);
    }
}

static void scores_that_are_not_numbers_are_an_error(void **state)
{
    (void)state;
    int calls = 0;
    struct steno_transducer_nets nets = {
        .self = &calls, .state = 1, .width = 1, .predict = predict, .join = join_nan};
    for (int search = STENO_TRANSDUCER_GREEDY; search <= STENO_TRANSDUCER_MAES; search++) {
        struct steno_transducer_options o = options((enum steno_transducer_search)search, false);
        steno_transducer *t = NULL;
        steno_err err = {0};
        assert_int_equal(steno_transducer_open(&t, &o, NULL), STENO_OK);
        assert_int_equal(steno_transducer_run(t, &nets, enc, FRAMES, 1, &err), STENO_ERR_FORMAT);
        assert_non_null(strstr(err.msg, "not a distribution"));
        assert_int_equal(steno_transducer_count(t), 0);
        steno_transducer_close(t);
    }
}

/* Two frames. The first one allows both steps: the blank, or one more token after the first
 * token. */
static steno_status join_two(void *self, const float *const *e, const float *const *row, size_t n,
                             float *out, steno_err *err)
{
    static const float begin[VOCAB] = {-10, 0, -3, -50, -50};
    static const float then[VOCAB] = {0, -50, -50, -0.2f, -50};
    (void)self;
    (void)e;
    (void)err;
    for (size_t i = 0; i < n; i++)
        memcpy(out + i * VOCAB, row[i][0] > 0 ? then : begin, sizeof begin);
    return STENO_OK;
}

static steno_status predict_two(void *self, const float *const *state, const int32_t *token,
                                size_t n, float *const *next, float *const *row, steno_err *err)
{
    (void)self;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        next[i][0] = 0;
        row[i][0] = state[i] && token[i] ? 1 : 0;
    }
    return STENO_OK;
}

/* ESPnet sorts only the hypotheses that ended by their score per token. */
static void alsd_keeps_the_order_of_its_beam_where_nothing_ended(void **state)
{
    (void)state;
    struct steno_transducer_nets nets = {
        .state = 1, .width = 1, .predict = predict_two, .join = join_two};
    struct steno_transducer_options o = options(STENO_TRANSDUCER_ALSD, true);
    struct steno_transducer_hyp a, b;
    steno_transducer *t = NULL;
    o.beam = 2;
    o.u_max = 0;
    assert_int_equal(steno_transducer_open(&t, &o, NULL), STENO_OK);
    assert_int_equal(steno_transducer_run(t, &nets, enc, 2, 1, NULL), STENO_OK);
    assert_int_equal(steno_transducer_count(t), 2);
    assert_int_equal(steno_transducer_get(t, 0, &a), STENO_OK);
    assert_int_equal(a.n, 2);
    assert_int_equal(steno_transducer_get(t, 1, &b), STENO_OK);
    assert_int_equal(b.n, 3);
    assert_true(a.score > b.score && a.score / 2 < b.score / 3);
    steno_transducer_close(t);
}

static void edges(void **state)
{
    (void)state;
    int calls = 0;
    struct steno_transducer_nets nets = {
        .self = &calls, .state = 1, .width = 1, .predict = predict, .join = join};
    struct steno_transducer_options o = options(STENO_TRANSDUCER_ALSD, false);
    struct steno_transducer_hyp h;
    steno_transducer *t = NULL;
    o.beam = VOCAB;
    assert_int_equal(steno_transducer_open(&t, &o, NULL), STENO_ERR_INVAL);
    for (int search = STENO_TRANSDUCER_GREEDY; search <= STENO_TRANSDUCER_MAES; search++) {
        o = options((enum steno_transducer_search)search, false);
        assert_int_equal(steno_transducer_open(&t, &o, NULL), STENO_OK);
        assert_int_equal(steno_transducer_run(t, &nets, enc, 0, 1, NULL), STENO_OK);
        assert_int_equal(steno_transducer_count(t), 1);
        assert_int_equal(steno_transducer_get(t, 0, &h), STENO_OK);
        assert_int_equal(h.n, 1);
        assert_int_equal(steno_transducer_run(t, &nets, enc, 1, 1, NULL), STENO_OK);
        assert_true(steno_transducer_count(t) >= 1);
        steno_transducer_close(t);
        t = NULL;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(searches_find_what_espnet_finds),
        cmocka_unit_test(pieces_give_the_result_of_the_whole),
        cmocka_unit_test(collecting_memory_changes_no_result),
        cmocka_unit_test(an_hour_takes_no_more_memory_than_a_minute),
        cmocka_unit_test(every_sequence_is_predicted_once),
        cmocka_unit_test(a_language_model_changes_the_words),
        cmocka_unit_test(scores_that_are_not_numbers_are_an_error),
        cmocka_unit_test(alsd_keeps_the_order_of_its_beam_where_nothing_ended),
        cmocka_unit_test(edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
