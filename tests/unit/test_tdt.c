/* search/tdt.h on scores written by hand. The networks are tables: the prediction network's state
 * and output are the sequence read so far, as a number in base 10 with the blank as its first
 * digit; the scores of a pair depend on the frame and on the last token. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/search/tdt.h"
#include "tests/support/test.h"

enum { A, B, UNK, BLANK, VOCAB };
#define DURATIONS 3
#define ROW (VOCAB + DURATIONS)
#define FRAMES 6

/* Scores of a frame, by the last token: A, B, UNK or the blank at the beginning. */
typedef float table[FRAMES][VOCAB][ROW];

struct nets {
    table *scores;
    int predicted, joined; /* rows */
    int runs;              /* of join */
};

static steno_status predict(void *self, const float *const *state, const int32_t *token, size_t n,
                            float *const *next, float *const *row, steno_err *err)
{
    struct nets *s = self;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        next[i][0] = (state[i] ? state[i][0] * 10 : 0) + (float)token[i];
        row[i][0] = (float)token[i];
        s->predicted++;
    }
    return STENO_OK;
}

static steno_status join(void *self, const float *const *enc, const float *const *row, size_t n,
                         float *out, steno_err *err)
{
    struct nets *s = self;
    (void)err;
    for (size_t i = 0; i < n; i++)
        memcpy(out + i * ROW, (*s->scores)[(int)enc[i][0]][(int)row[i][0]], ROW * sizeof *out);
    s->joined += (int)n;
    s->runs++;
    return STENO_OK;
}

static const float frames[FRAMES] = {0, 1, 2, 3, 4, 5};

static struct steno_tdt_options tdt_options(int beam)
{
    return (struct steno_tdt_options){.vocab = VOCAB,
                                      .blank = BLANK,
                                      .silent = UNK,
                                      .durations = DURATIONS,
                                      .max_tokens = 2,
                                      .beam = beam,
                                      .state = 1,
                                      .width = 1};
}

/* Every row says: blank, duration 0. */
static void clear(table t)
{
    memset(t, 0, sizeof(table));
    for (int f = 0; f < FRAMES; f++)
        for (int k = 0; k < VOCAB; k++) {
            t[f][k][BLANK] = 5;
            t[f][k][VOCAB] = 5;
        }
}

static void say(table t, int frame, int last, int token, float score, int duration)
{
    t[frame][last][token] = score;
    t[frame][last][VOCAB + duration] = 9;
}

static void run(steno_tdt *const *t, size_t n, struct nets *s, size_t each)
{
    const struct steno_transducer_nets nets = {
        .self = s, .state = 1, .width = 1, .predict = predict, .join = join};
    steno_tdt_work *w;
    struct steno_tdt_frames f[8];
    assert_int_equal(steno_tdt_work_open(&w, ROW, NULL), STENO_OK);
    for (size_t at = 0; at < FRAMES; at += each) {
        for (size_t i = 0; i < n; i++)
            f[i] =
                (struct steno_tdt_frames){frames + at, at + each > FRAMES ? FRAMES - at : each, 1};
        assert_int_equal(steno_tdt_push(t, f, n, &nets, w, NULL), STENO_OK);
    }
    steno_tdt_work_close(w);
}

static void expect(steno_tdt *t, const struct steno_span *want, size_t n)
{
    struct steno_hyp h;
    size_t count;
    assert_int_equal(steno_tdt_nbest(t, &h, 1, &count), STENO_OK);
    assert_int_equal(count, 1);
    assert_int_equal(h.n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(h.spans[i].token, want[i].token);
        assert_int_equal(h.spans[i].first, want[i].first);
        assert_int_equal(h.spans[i].last, want[i].last);
    }
}

static steno_tdt *open_search(const struct steno_tdt_options *o)
{
    steno_tdt *t;
    steno_err err;
    if (steno_tdt_open(&t, o, &err))
        fail_msg("%s", err.msg);
    return t;
}

/* Frame 0: A for 2 frames. Frame 2: B for 0 frames, then A for 1. Frame 3: a blank for 2. Frame 5:
 * a blank with duration 0 moves on. */
static void durations_table(table t)
{
    clear(t);
    say(t, 0, BLANK, A, 8, 2);
    say(t, 2, A, B, 8, 0);
    say(t, 2, B, A, 8, 1);
    say(t, 3, A, BLANK, 8, 2);
    say(t, 4, A, B, 8, 1); /* skipped */
}

static const struct steno_span with_durations[] = {{.token = A, .first = 0, .last = 1},
                                                   {.token = B, .first = 2, .last = 2},
                                                   {.token = A, .first = 2, .last = 2}};

static void greedy_follows_durations(void **state)
{
    table t;
    struct nets s = {.scores = &t};
    struct steno_tdt_options o = tdt_options(1);
    steno_tdt *d = open_search(&o);
    (void)state;
    durations_table(t);
    run(&d, 1, &s, FRAMES);
    expect(d, with_durations, 3);
    assert_int_equal(s.joined, 5);    /* frames 0, 2, 2, 3, 5 */
    assert_int_equal(s.predicted, 4); /* the blank, A, B, A */
    assert_int_equal(steno_tdt_stable(d), 3);
    assert_int_equal(steno_tdt_last_sound(d), 2);
    assert_int_equal(steno_tdt_frames(d), FRAMES);
    steno_tdt_close(d);
}

static void a_frame_has_at_most_max_tokens(void **state)
{
    static const struct steno_span want[] = {{.token = A, .first = 0, .last = 0},
                                             {.token = A, .first = 0, .last = 0},
                                             {.token = A, .first = 1, .last = 2}};
    table t;
    struct nets s = {.scores = &t};
    struct steno_tdt_options o = tdt_options(1);
    steno_tdt *d = open_search(&o);
    (void)state;
    clear(t);
    say(t, 0, BLANK, A, 8, 0);
    say(t, 0, A, A, 8, 0);
    say(t, 1, A, A, 8, 2); /* resets the count */
    run(&d, 1, &s, FRAMES);
    expect(d, want, 3);
    steno_tdt_close(d);
}

/* Without durations a blank ends a frame, and nothing else does but the limit. */
static void without_durations_a_blank_ends_a_frame(void **state)
{
    static const struct steno_span want[] = {{.token = A, .first = 0, .last = 0},
                                             {.token = B, .first = 0, .last = 0},
                                             {.token = A, .first = 4, .last = 4}};
    table t;
    struct nets s = {.scores = &t};
    struct steno_tdt_options o = tdt_options(1);
    steno_tdt *d;
    (void)state;
    o.durations = 0;
    d = open_search(&o);
    clear(t);
    say(t, 0, BLANK, A, 8, 0);
    say(t, 0, A, B, 8, 0);
    say(t, 4, B, A, 8, 0);
    run(&d, 1, &s, FRAMES);
    expect(d, want, 3);
    steno_tdt_close(d);
}

static void blank_penalty_brings_out_tokens(void **state)
{
    table t;
    struct nets s = {.scores = &t};
    struct steno_tdt_options o = tdt_options(1);
    steno_tdt *d;
    (void)state;
    clear(t);
    say(t, 0, BLANK, A, 4.5f, 2);
    d = open_search(&o);
    run(&d, 1, &s, FRAMES);
    expect(d, NULL, 0);
    steno_tdt_close(d);
    o.blank_penalty = 1;
    d = open_search(&o);
    run(&d, 1, &s, FRAMES);
    expect(d, with_durations, 1);
    steno_tdt_close(d);
}

static void noise(table t, unsigned seed)
{
    float *x = &t[0][0][0];
    for (size_t i = 0; i < sizeof(table) / sizeof *x; i++) {
        seed = seed * 1103515245u + 12345u;
        x[i] = (float)(seed >> 16 & 0xfff) / 512;
    }
}

/* The same hypotheses, scores and spans to the bit. */
static void expect_same(steno_tdt *a, steno_tdt *b)
{
    struct steno_hyp x[64], y[64];
    size_t n, m;
    assert_int_equal(steno_tdt_nbest(a, x, 64, &n), STENO_OK);
    assert_int_equal(steno_tdt_nbest(b, y, 64, &m), STENO_OK);
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++) {
        assert_true(x[i].score == y[i].score);
        assert_int_equal(x[i].n, y[i].n);
        for (size_t k = 0; k < x[i].n; k++) {
            assert_int_equal(x[i].spans[k].token, y[i].spans[k].token);
            assert_int_equal(x[i].spans[k].first, y[i].spans[k].first);
            assert_int_equal(x[i].spans[k].last, y[i].spans[k].last);
        }
    }
    assert_int_equal(steno_tdt_stable(a), steno_tdt_stable(b));
}

static void any_pieces_and_any_company_give_the_same(void **state)
{
    (void)state;
    for (int beam = 1; beam < VOCAB; beam++)
        for (unsigned seed = 1; seed < 200; seed++) {
            table t;
            struct nets s = {.scores = &t};
            struct steno_tdt_options o = tdt_options(beam);
            steno_tdt *whole, *some[5];
            noise(t, seed);
            o.durations = seed % 2 ? DURATIONS : 0;
            whole = open_search(&o);
            run(&whole, 1, &s, FRAMES);
            for (size_t i = 0; i < 5; i++)
                some[i] = open_search(&o);
            run(some, 5, &s, 1 + seed % 4);
            for (size_t i = 0; i < 5; i++) {
                expect_same(whole, some[i]);
                steno_tdt_close(some[i]);
            }
            steno_tdt_close(whole);
        }
}

static void searches_share_runs_of_the_networks(void **state)
{
    table t;
    struct nets s = {.scores = &t};
    struct steno_tdt_options o = tdt_options(1);
    steno_tdt *d[3];
    (void)state;
    durations_table(t);
    for (size_t i = 0; i < 3; i++)
        d[i] = open_search(&o);
    run(d, 3, &s, FRAMES);
    assert_int_equal(s.joined, 15);
    assert_int_equal(s.runs, 5);
    for (size_t i = 0; i < 3; i++)
        steno_tdt_close(d[i]);
}

/* Greedy takes A (8 against 7.9) and is then at a frame that gives everything the same; the beam
 * finds that B is followed by a sure A. */
static void beam_finds_what_greedy_misses(void **state)
{
    static const struct steno_span want[] = {{.token = B, .first = 0, .last = 0},
                                             {.token = A, .first = 1, .last = 1}};
    table t;
    struct nets s = {.scores = &t};
    struct steno_tdt_options o = tdt_options(2);
    struct steno_hyp h[2];
    size_t n;
    steno_tdt *d = open_search(&o);
    (void)state;
    clear(t);
    say(t, 0, BLANK, A, 8, 1);
    say(t, 0, BLANK, B, 7.9f, 1);
    memset(t[1][A], 0, sizeof t[1][A]);
    t[1][A][VOCAB + 1] = 9;
    say(t, 1, B, A, 20, 1);
    run(&d, 1, &s, FRAMES);
    expect(d, want, 2);
    assert_int_equal(steno_tdt_nbest(d, h, 2, &n), STENO_OK);
    assert_int_equal(n, 2);
    assert_true(h[0].score > h[1].score);
    steno_tdt_close(d);
}

/* Frame 0 says A or B, frame 1 the blank: A is likelier by 1. */
static void a_or_b(table t)
{
    clear(t);
    say(t, 0, BLANK, A, 9, 1);
    t[0][BLANK][B] = 8;
}

static steno_hotwords *phrase(const int32_t *tokens, size_t n, float score)
{
    steno_hotwords *h;
    assert_int_equal(steno_hotwords_open(&h, NULL), STENO_OK);
    assert_int_equal(steno_hotwords_add(h, tokens, n, score, NULL), STENO_OK);
    assert_int_equal(steno_hotwords_build(h, NULL), STENO_OK);
    return h;
}

static double best_score(steno_tdt *t)
{
    struct steno_hyp h;
    size_t n;
    assert_int_equal(steno_tdt_nbest(t, &h, 1, &n), STENO_OK);
    return h.score;
}

/* The phrase B gets a score twice (boost and automaton): 2 x 0.4 are too few, 2 x 0.6 enough. */
static void hot_words_bring_out_a_token(void **state)
{
    static const int32_t b[] = {B};
    (void)state;
    for (int hot = 0; hot < 2; hot++) {
        const float score = hot ? 0.6f : 0.4f;
        table t;
        struct nets s = {.scores = &t};
        struct steno_tdt_options o = tdt_options(2);
        const struct steno_span want = {.token = hot ? B : A, .first = 0, .last = 0};
        steno_hotwords *h = phrase(b, 1, score);
        steno_tdt *d;
        o.hotwords = h;
        o.boost = score;
        d = open_search(&o);
        a_or_b(t);
        run(&d, 1, &s, FRAMES);
        expect(d, &want, 1);
        steno_tdt_close(d);
        steno_hotwords_close(h);
    }
}

/* B begins the phrase B A, which does not go on: the end takes the automaton's score back, but not
 * the boost. */
static void the_end_takes_back_an_unfinished_phrase(void **state)
{
    static const int32_t ba[] = {B, A};
    table t;
    struct nets s = {.scores = &t};
    struct steno_tdt_options o = tdt_options(1);
    steno_hotwords *h = phrase(ba, 2, 2);
    steno_tdt *plain, *hot;
    double score;
    (void)state;
    clear(t);
    say(t, 0, BLANK, B, 9, 1);
    o.modified = true;
    plain = open_search(&o);
    run(&plain, 1, &s, FRAMES);
    o.hotwords = h;
    hot = open_search(&o);
    run(&hot, 1, &s, FRAMES);
    score = best_score(plain);
    assert_true(fabs(best_score(hot) - score - 2) < 1e-6);
    steno_tdt_finish(hot);
    assert_true(fabs(best_score(hot) - score) < 1e-6);
    steno_tdt_close(plain);
    steno_tdt_close(hot);
    steno_hotwords_close(h);
}

/* After nothing B is certain; after B anything but B is. */
static void score_words(const void *self, const int32_t *tokens, size_t n, float *out)
{
    (void)self;
    for (int32_t v = 0; v < VOCAB; v++)
        out[v] = (v == B) == (n == 0) ? 0 : -4;
    if (n)
        assert_true(n == 1 && (tokens[0] == A || tokens[0] == B));
}

static void a_language_model_adds_to_tokens_but_not_to_blanks(void **state)
{
    static const struct steno_span want[] = {{.token = B, .first = 0, .last = 0}};
    table t;
    struct nets s = {.scores = &t};
    struct steno_tdt_options o = tdt_options(1);
    steno_tdt *d;
    (void)state;
    o.modified = true;
    o.lm = (struct steno_token_lm){.all = score_words, .history = 1, .weight = 0.5};
    a_or_b(t);
    say(t, 2, B, B, 6, 1); /* 6 - 2 is less than the blank's 5 */
    d = open_search(&o);
    run(&d, 1, &s, FRAMES);
    expect(d, want, 1);
    steno_tdt_close(d);
    o.modified = false;
    assert_int_equal(steno_tdt_open(&d, &o, NULL), STENO_ERR_INVAL);
}

/* The unknown token is silent in a beam, of one hypothesis too if it has the beam's rules. */
static void a_modified_beam_of_one_is_silent_at_unknown_tokens(void **state)
{
    static const struct steno_span unknown[] = {{.token = UNK, .first = 0, .last = 1}};
    (void)state;
    for (int modified = 0; modified < 2; modified++) {
        table t;
        struct nets s = {.scores = &t};
        struct steno_tdt_options o = tdt_options(1);
        steno_tdt *d;
        o.modified = modified;
        clear(t);
        say(t, 0, BLANK, UNK, 9, 2);
        d = open_search(&o);
        run(&d, 1, &s, FRAMES);
        expect(d, unknown, modified ? 0 : 1);
        steno_tdt_close(d);
    }
}

static void a_reset_begins_an_utterance_and_keeps_the_count(void **state)
{
    table t;
    struct nets s = {.scores = &t};
    struct steno_tdt_options o = tdt_options(1);
    steno_tdt *d = open_search(&o);
    (void)state;
    durations_table(t);
    run(&d, 1, &s, FRAMES);
    steno_tdt_reset(d);
    assert_int_equal(steno_tdt_n_tokens(d), 0);
    assert_int_equal(steno_tdt_last_sound(d), 2);
    run(&d, 1, &s, FRAMES);
    expect(d,
           (const struct steno_span[]){{.token = A, .first = 6, .last = 7},
                                       {.token = B, .first = 8, .last = 8},
                                       {.token = A, .first = 8, .last = 8}},
           3);
    steno_tdt_restart(d, 0);
    assert_int_equal(steno_tdt_last_sound(d), -1);
    run(&d, 1, &s, FRAMES);
    expect(d, with_durations, 3);
    steno_tdt_close(d);
}

static void wrong_options_are_named(void **state)
{
    struct steno_tdt_options o = tdt_options(VOCAB);
    steno_tdt *d;
    steno_err err;
    (void)state;
    assert_int_equal(steno_tdt_open(&d, &o, &err), STENO_ERR_INVAL);
    assert_string_equal(err.msg, "transducer: beam 4 is outside 1 to 3");
    o = tdt_options(1);
    o.blank = VOCAB;
    assert_int_equal(steno_tdt_open(&d, &o, &err), STENO_ERR_INVAL);
    o = tdt_options(1);
    o.max_tokens = 0;
    assert_int_equal(steno_tdt_open(&d, &o, &err), STENO_ERR_INVAL);
}

static void the_last_of_some_tokens_is_found(void **state)
{
    static table scores;
    struct nets s = {&scores, 0, 0, 0};
    const int32_t a_or_b[] = {A, B}, unknown[] = {UNK};
    struct steno_tdt_options o = tdt_options(1);
    steno_tdt *t = open_search(&o);
    (void)state;
    durations_table(scores); /* A, B, A */
    assert_int_equal(steno_tdt_find_last(t, a_or_b, 2), -1);
    run(&t, 1, &s, 1);
    assert_int_equal(steno_tdt_find_last(t, a_or_b, 2), 0);
    assert_int_equal(steno_tdt_find_last(t, a_or_b + 1, 1), 0); /* it is not the last token */
    assert_int_equal(steno_tdt_find_last(t, unknown, 1), -1);
    steno_tdt_reset(t);
    assert_int_equal(steno_tdt_find_last(t, a_or_b, 2), -1);
    steno_tdt_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_follows_durations),
        cmocka_unit_test(a_frame_has_at_most_max_tokens),
        cmocka_unit_test(without_durations_a_blank_ends_a_frame),
        cmocka_unit_test(blank_penalty_brings_out_tokens),
        cmocka_unit_test(any_pieces_and_any_company_give_the_same),
        cmocka_unit_test(searches_share_runs_of_the_networks),
        cmocka_unit_test(beam_finds_what_greedy_misses),
        cmocka_unit_test(hot_words_bring_out_a_token),
        cmocka_unit_test(the_end_takes_back_an_unfinished_phrase),
        cmocka_unit_test(a_language_model_adds_to_tokens_but_not_to_blanks),
        cmocka_unit_test(a_modified_beam_of_one_is_silent_at_unknown_tokens),
        cmocka_unit_test(a_reset_begins_an_utterance_and_keeps_the_count),
        cmocka_unit_test(the_last_of_some_tokens_is_found),
        cmocka_unit_test(wrong_options_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
