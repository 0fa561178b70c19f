/* The reference is brute force: every path of a small score array, collapsed by the CTC rule
 * (Graves et al. 2006, section 3.1) and summed per token sequence. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/search/ctc.h"
#include "tests/support/test.h"

enum { A = 1, B = 2 };

static void fill(float *row, int vocab, const float *p)
{
    for (int v = 0; v < vocab; v++)
        row[v] = logf(p[v]);
}

/* Random softmax rows, the same for the same seed. */
static void random_scores(float *s, int frames, int vocab, uint32_t seed)
{
    for (int t = 0; t < frames; t++) {
        float sum = 0;
        for (int v = 0; v < vocab; v++) {
            seed = seed * 1664525u + 1013904223u;
            s[t * vocab + v] = expf((float)(seed >> 8) / 4194304.0f);
            sum += s[t * vocab + v];
        }
        for (int v = 0; v < vocab; v++)
            s[t * vocab + v] = logf(s[t * vocab + v] / sum);
    }
}

static steno_ctc_greedy *greedy(int vocab)
{
    steno_ctc_greedy *g = NULL;
    assert_int_equal(steno_ctc_greedy_open(&g, &(struct steno_ctc_options){.vocab = vocab}, NULL),
                     0);
    return g;
}

static steno_ctc_beam *beam(int vocab, int width)
{
    steno_ctc_beam *b = NULL;
    assert_int_equal(
        steno_ctc_beam_open(&b, &(struct steno_ctc_options){.vocab = vocab, .beam = width}, NULL),
        0);
    return b;
}

static void check_tokens(const struct steno_hyp *h, const int *want, size_t n)
{
    assert_int_equal(h->n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(h->spans[i].token, want[i]);
}

/* Scores in which frame t gives token tok[t] the probability p. */
static void say(float *s, const int *tok, int frames, int vocab, float p)
{
    for (int t = 0; t < frames; t++)
        for (int v = 0; v < vocab; v++)
            s[t * vocab + v] = logf(v == tok[t] ? p : (1 - p) / (float)(vocab - 1));
}

static const int repeated[] = {0, A, A, 0, A, 0, 0, B, B, B, 0};
#define REPEATED 11

static void greedy_repeats_a_token_only_across_a_blank(void **state)
{
    (void)state;
    float s[REPEATED * 3];
    steno_ctc_greedy *g = greedy(3);
    struct steno_hyp h;
    say(s, repeated, REPEATED, 3, 0.8f);
    assert_int_equal(steno_ctc_greedy_push(g, s, REPEATED), STENO_OK);
    h = steno_ctc_greedy_best(g);
    check_tokens(&h, (int[]){A, A, B}, 3);
    assert_int_equal(h.spans[0].first, 1);
    assert_int_equal(h.spans[0].last, 2);
    assert_int_equal(h.spans[1].first, 4);
    assert_int_equal(h.spans[2].first, 7);
    assert_int_equal(h.spans[2].last, 9);
    assert_float_equal(h.spans[2].peak, logf(0.8f), 1e-6f);
    assert_true(fabs(h.score - REPEATED * log(0.8)) < 1e-5);
    assert_int_equal(steno_ctc_greedy_last_sound(g), 9);
    steno_ctc_greedy_close(g);
}

static void reset_does_not_repeat_a_sounding_token(void **state)
{
    (void)state;
    float s[REPEATED * 3];
    steno_ctc_greedy *g = greedy(3);
    steno_ctc_beam *b = beam(3, 4);
    struct steno_hyp h;
    size_t n;
    say(s, repeated, REPEATED, 3, 0.9f);
    assert_int_equal(steno_ctc_greedy_push(g, s, 8), STENO_OK); /* still inside B */
    steno_ctc_greedy_reset(g);
    assert_int_equal(steno_ctc_greedy_push(g, s + 8 * 3, 3), STENO_OK);
    h = steno_ctc_greedy_best(g);
    assert_int_equal(h.n, 0);
    assert_int_equal(steno_ctc_beam_push(b, s, 8), STENO_OK);
    steno_ctc_beam_reset(b);
    assert_int_equal(steno_ctc_beam_push(b, s + 8 * 3, 3), STENO_OK);
    assert_int_equal(steno_ctc_beam_nbest(b, &h, 1, &n), STENO_OK);
    assert_int_equal(h.n, 0);
    /* after a blank: a new token */
    assert_int_equal(steno_ctc_beam_push(b, s + 7 * 3, 1), STENO_OK);
    assert_int_equal(steno_ctc_beam_nbest(b, &h, 1, &n), STENO_OK);
    check_tokens(&h, (int[]){B}, 1);
    assert_int_equal(h.spans[0].first, REPEATED);
    steno_ctc_greedy_close(g);
    steno_ctc_beam_close(b);
}

static void blank_penalty_brings_out_weak_tokens(void **state)
{
    (void)state;
    float s[2];
    steno_ctc_greedy *g = NULL;
    struct steno_ctc_options opt = {.vocab = 2, .blank_penalty = 1.0f};
    fill(s, 2, (float[]){0.6f, 0.4f});
    assert_int_equal(steno_ctc_greedy_open(&g, &opt, NULL), STENO_OK);
    assert_int_equal(steno_ctc_greedy_push(g, s, 1), STENO_OK);
    assert_int_equal(steno_ctc_greedy_best(g).n, 1);
    assert_float_equal(steno_ctc_greedy_best(g).spans[0].peak, logf(0.4f), 1e-6f);
    steno_ctc_greedy_close(g);
}

/* Hannun's example: the best path is blank-blank (0.36), but "A" has more paths
 * (0.24+0.24+0.16). */
static void beam_sums_the_paths_of_a_prefix(void **state)
{
    (void)state;
    float s[4];
    steno_ctc_beam *b = beam(2, 4);
    struct steno_hyp h[2];
    size_t n;
    fill(s, 2, (float[]){0.6f, 0.4f});
    fill(s + 2, 2, (float[]){0.6f, 0.4f});
    assert_int_equal(steno_ctc_beam_push(b, s, 2), STENO_OK);
    assert_int_equal(steno_ctc_beam_nbest(b, h, 2, &n), STENO_OK);
    assert_int_equal(n, 2);
    check_tokens(&h[0], (int[]){A}, 1);
    assert_true(fabs(h[0].score - log(0.64)) < 1e-6);
    assert_true(fabs(h[1].score - log(0.36)) < 1e-6);
    steno_ctc_beam_close(b);
}

static void beam_keeps_prefix_score_when_blank_wins(void **state)
{
    (void)state;
    float s[6];
    steno_ctc_beam *b = beam(2, 1);
    struct steno_hyp h;
    size_t n;
    fill(s, 2, (float[]){0.1f, 0.9f});
    fill(s + 2, 2, (float[]){0.999f, 0.001f});
    fill(s + 4, 2, (float[]){0.999f, 0.001f});
    assert_int_equal(steno_ctc_beam_push(b, s, 3), STENO_OK);
    assert_int_equal(steno_ctc_beam_nbest(b, &h, 1, &n), STENO_OK);
    check_tokens(&h, (int[]){A}, 1);
    /* A--, AA-, AAA; no path that ends in a second A */
    assert_true(fabs(h.score - log(0.9 * (0.999 * 0.999 + 0.001 * 0.999 + 0.001 * 0.001))) < 1e-5);
    assert_int_equal(h.spans[0].first, 0);
    assert_int_equal(h.spans[0].last, 0);
    steno_ctc_beam_close(b);
}

/* Found by fuzz_stream: such a word had no start of speech, so the endpoint dropped it. */
static void a_word_that_wins_no_frame_still_counts_as_sound(void **state)
{
    (void)state;
    float s[4];
    steno_ctc_beam *b = beam(2, 4);
    fill(s, 2, (float[]){0.6f, 0.4f});
    fill(s + 2, 2, (float[]){0.6f, 0.4f});
    assert_int_equal(steno_ctc_beam_last_sound(b), -1);
    assert_int_equal(steno_ctc_beam_push(b, s, 2), STENO_OK);
    assert_true(steno_ctc_beam_last_sound(b) >= 0);
    steno_ctc_beam_close(b);
}

#define BF_T 6
#define BF_V 3

struct entry {
    int tok[BF_T], n;
    double p;
};

/* All V^T paths, collapsed and summed. Returns the number of sequences. */
static int brute_force(const float *s, struct entry *out)
{
    int n_out = 0, total = 1;
    for (int t = 0; t < BF_T; t++)
        total *= BF_V;
    for (int code = 0; code < total; code++) {
        struct entry e = {.n = 0, .p = 0};
        int prev = 0, i, c = code;
        for (int t = 0; t < BF_T; t++, c /= BF_V) {
            int v = c % BF_V;
            e.p += (double)s[t * BF_V + v];
            if (v != 0 && v != prev)
                e.tok[e.n++] = v;
            prev = v;
        }
        for (i = 0; i < n_out; i++)
            if (out[i].n == e.n && !memcmp(out[i].tok, e.tok, (size_t)e.n * sizeof(int)))
                break;
        if (i == n_out) {
            out[n_out] = e;
            out[n_out++].p = 0;
        }
        out[i].p += exp(e.p);
    }
    return n_out;
}

static int by_score(const void *a, const void *b)
{
    double d = ((const struct entry *)b)->p - ((const struct entry *)a)->p;
    return d > 0 ? 1 : d < 0 ? -1 : 0;
}

static void beam_scores_equal_the_sum_over_all_paths(void **state)
{
    (void)state;
    static struct entry ref[1024];
    float s[BF_T * BF_V];
    struct steno_hyp h[64];
    for (uint32_t seed = 1; seed <= 50; seed++) {
        steno_ctc_beam *b = beam(BF_V, 64);
        int n_ref;
        size_t n;
        random_scores(s, BF_T, BF_V, seed);
        n_ref = brute_force(s, ref);
        qsort(ref, (size_t)n_ref, sizeof *ref, by_score);
        assert_int_equal(steno_ctc_beam_push(b, s, BF_T), STENO_OK);
        assert_int_equal(steno_ctc_beam_nbest(b, h, 64, &n), STENO_OK);
        assert_int_equal(n, n_ref); /* 41 sequences fit into 6 frames: nothing is pruned */
        for (int i = 0; i < n_ref; i++) {
            check_tokens(&h[i], ref[i].tok, (size_t)ref[i].n);
            assert_true(fabs(exp(h[i].score) - ref[i].p) < 1e-9 * ref[i].p);
        }
        for (size_t i = 1; i < n; i++)
            assert_true(h[i - 1].score >= h[i].score);
        steno_ctc_beam_close(b);
    }
}

/* A bigram model: 1 is likely after 2, and 2 at the beginning. */
static double score_one(const void *self, const int32_t *tokens, size_t n, int32_t token)
{
    (void)self;
    return n ? (tokens[n - 1] != token ? -0.2 : -1.7) : (token == B ? -0.5 : -1.1);
}

static double bonus_of(const struct entry *e, const steno_hotwords *h)
{
    double sum = 0;
    int32_t at = STENO_HOTWORDS_START, before[BF_T];
    for (int i = 0; i < e->n; i++) {
        float hot = 0;
        at = steno_hotwords_step(h, at, e->tok[i], &hot);
        sum += (double)hot + 0.7 * score_one(NULL, before, (size_t)i, e->tok[i]);
        before[i] = e->tok[i];
    }
    return sum;
}

static void hotwords_and_a_language_model_rank_prefixes(void **state)
{
    (void)state;
    static struct entry ref[1024];
    float s[BF_T * BF_V];
    struct steno_hyp h[64];
    steno_hotwords *hot = NULL;
    assert_int_equal(steno_hotwords_open(&hot, NULL), STENO_OK);
    assert_int_equal(steno_hotwords_add(hot, (int32_t[]){A, B, B}, 3, 1.5f, NULL), STENO_OK);
    assert_int_equal(steno_hotwords_build(hot, NULL), STENO_OK);
    for (uint32_t seed = 1; seed <= 20; seed++) {
        const struct steno_ctc_options o = {.vocab = BF_V,
                                            .beam = 64,
                                            .hotwords = hot,
                                            .lm = {.one = score_one, .history = 1, .weight = 0.7}};
        steno_ctc_beam *b = NULL;
        int n_ref;
        size_t n;
        random_scores(s, BF_T, BF_V, seed);
        n_ref = brute_force(s, ref);
        for (int i = 0; i < n_ref; i++)
            ref[i].p = log(ref[i].p) + bonus_of(&ref[i], hot);
        qsort(ref, (size_t)n_ref, sizeof *ref, by_score);
        assert_int_equal(steno_ctc_beam_open(&b, &o, NULL), STENO_OK);
        assert_int_equal(steno_ctc_beam_push(b, s, BF_T), STENO_OK);
        assert_int_equal(steno_ctc_beam_nbest(b, h, 64, &n), STENO_OK);
        assert_int_equal(n, n_ref);
        for (int i = 0; i < n_ref; i++) {
            check_tokens(&h[i], ref[i].tok, (size_t)ref[i].n);
            assert_true(fabs(h[i].score + bonus_of(&ref[i], hot) - ref[i].p) < 1e-5);
        }
        steno_ctc_beam_close(b);
    }
    steno_hotwords_close(hot);
}

static void same_hyps(steno_ctc_beam *a, steno_ctc_beam *b)
{
    struct steno_hyp x[8], y[8];
    size_t n, m;
    assert_int_equal(steno_ctc_beam_nbest(a, x, 8, &n), STENO_OK);
    assert_int_equal(steno_ctc_beam_nbest(b, y, 8, &m), STENO_OK);
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(x[i].n, y[i].n);
        assert_true(memcmp(&x[i].score, &y[i].score, sizeof x[i].score) == 0);
        for (size_t k = 0; k < x[i].n; k++) {
            assert_int_equal(x[i].spans[k].token, y[i].spans[k].token);
            assert_int_equal(x[i].spans[k].first, y[i].spans[k].first);
            assert_int_equal(x[i].spans[k].last, y[i].spans[k].last);
        }
    }
}

static void any_chunking_gives_the_same_hypotheses(void **state)
{
    (void)state;
    enum { T = 200, V = 7 };
    static float s[T * V];
    static const size_t sizes[] = {1, 3, 17, 199};
    steno_ctc_greedy *g = greedy(V);
    steno_ctc_beam *b = beam(V, 8);
    random_scores(s, T, V, 7);
    assert_int_equal(steno_ctc_greedy_push(g, s, T), STENO_OK);
    assert_int_equal(steno_ctc_beam_push(b, s, T), STENO_OK);
    for (size_t c = 0; c < 4; c++) {
        steno_ctc_greedy *g2 = greedy(V);
        steno_ctc_beam *b2 = beam(V, 8);
        struct steno_hyp x = steno_ctc_greedy_best(g), y;
        for (size_t t = 0; t < T; t += sizes[c]) {
            size_t n = T - t < sizes[c] ? T - t : sizes[c];
            assert_int_equal(steno_ctc_greedy_push(g2, s + t * V, n), STENO_OK);
            assert_int_equal(steno_ctc_beam_push(b2, s + t * V, n), STENO_OK);
        }
        y = steno_ctc_greedy_best(g2);
        assert_int_equal(x.n, y.n);
        assert_memory_equal(x.spans, y.spans, x.n * sizeof *x.spans);
        same_hyps(b, b2);
        steno_ctc_greedy_close(g2);
        steno_ctc_beam_close(b2);
    }
    steno_ctc_greedy_close(g);
    steno_ctc_beam_close(b);
}

static void stable_tokens_never_change(void **state)
{
    (void)state;
    enum { T = 300, V = 6 };
    static float s[T * V];
    int32_t seen[T];
    size_t n_seen = 0, most = 0;
    steno_ctc_beam *b = beam(V, 6);
    random_scores(s, T, V, 99);
    for (int t = 0; t < T; t++) {
        struct steno_hyp h[6];
        size_t n, stable;
        assert_int_equal(steno_ctc_beam_push(b, s + t * V, 1), STENO_OK);
        assert_int_equal(steno_ctc_beam_nbest(b, h, 6, &n), STENO_OK);
        stable = steno_ctc_beam_stable(b);
        assert_true(stable >= n_seen);
        for (size_t i = 0; i < n; i++) {
            assert_true(h[i].n >= stable);
            for (size_t k = 0; k < n_seen; k++)
                assert_int_equal(h[i].spans[k].token, seen[k]);
        }
        for (; n_seen < stable; n_seen++)
            seen[n_seen] = h[0].spans[n_seen].token;
        most = h[0].n;
    }
    assert_true(n_seen > most / 2); /* the stable prefix does grow */
    steno_ctc_beam_close(b);
}

static void old_tokens_are_committed(void **state)
{
    (void)state;
    enum { T = 300, V = 6, DELAY = 20 };
    static float s[T * V];
    steno_ctc_beam *b = NULL;
    struct steno_ctc_options o = {.vocab = V, .beam = 8, .commit_delay = DELAY};
    int32_t seen[T];
    size_t n_seen = 0;
    assert_int_equal(steno_ctc_beam_open(&b, &o, NULL), STENO_OK);
    random_scores(s, T, V, 12);
    for (int t = 0; t < T; t++) {
        struct steno_hyp h;
        size_t n, stable, old = 0;
        assert_int_equal(steno_ctc_beam_push(b, s + t * V, 1), STENO_OK);
        assert_int_equal(steno_ctc_beam_nbest(b, &h, 1, &n), STENO_OK);
        stable = steno_ctc_beam_stable(b);
        while (old < h.n && h.spans[old].last < t - DELAY)
            old++;
        assert_true(stable >= old && stable >= n_seen && stable <= h.n);
        for (size_t i = 0; i < n_seen; i++)
            assert_int_equal(h.spans[i].token, seen[i]);
        for (n_seen = 0; n_seen < stable; n_seen++)
            seen[n_seen] = h.spans[n_seen].token;
    }
    assert_true(n_seen > 50);
    steno_ctc_beam_close(b);
}

static void spans_are_ordered_and_inside_the_utterance(void **state)
{
    (void)state;
    enum { T = 120, V = 5 };
    static float s[T * V];
    steno_ctc_beam *b = beam(V, 8);
    struct steno_hyp h[8];
    size_t n;
    random_scores(s, T, V, 3);
    steno_ctc_beam_restart(b, 1000);
    assert_int_equal(steno_ctc_beam_push(b, s, T), STENO_OK);
    assert_int_equal(steno_ctc_beam_nbest(b, h, 8, &n), STENO_OK);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < h[i].n; k++) {
            const struct steno_span *x = &h[i].spans[k];
            assert_true(x->first <= x->last);
            assert_true(x->first >= (k ? x[-1].last + 1 : 1000));
            assert_true(x->last < 1000 + T);
        }
    assert_int_equal(steno_ctc_beam_frames(b), 1000 + T);
    steno_ctc_beam_close(b);
}

static void broken_scores_do_no_harm(void **state)
{
    (void)state;
    enum { V = 4, T = 64 };
    float s[V];
    static const float odd[] = {0, -1, NAN, INFINITY, -INFINITY, 1e38f, -1e38f};
    steno_ctc_greedy *g = greedy(V);
    steno_ctc_beam *b = beam(V, 4);
    uint32_t seed = 5;
    for (int t = 0; t < 20 * T; t++) {
        struct steno_hyp h[4];
        size_t n;
        for (int v = 0; v < V; v++) {
            seed = seed * 1664525u + 1013904223u;
            s[v] = odd[(seed >> 16) % 7];
        }
        assert_int_equal(steno_ctc_greedy_push(g, s, 1), STENO_OK);
        assert_int_equal(steno_ctc_beam_push(b, s, 1), STENO_OK);
        assert_int_equal(steno_ctc_beam_nbest(b, h, 4, &n), STENO_OK);
        assert_true(n >= 1);
        if (t % T == T - 1)
            steno_ctc_beam_reset(b);
    }
    for (int v = 0; v < V; v++)
        s[v] = NAN;
    steno_ctc_greedy_restart(g, 0);
    assert_int_equal(steno_ctc_greedy_push(g, s, 1), STENO_OK);
    assert_int_equal(steno_ctc_greedy_best(g).n, 0);
    steno_ctc_greedy_close(g);
    steno_ctc_beam_close(b);
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    steno_ctc_greedy *g = NULL;
    steno_ctc_beam *b = NULL;
    assert_int_equal(
        steno_ctc_greedy_open(&g, &(struct steno_ctc_options){.vocab = 3, .blank = 3}, NULL),
        STENO_ERR_INVAL);
    assert_int_equal(
        steno_ctc_beam_open(&b, &(struct steno_ctc_options){.vocab = 3, .beam = 65}, NULL),
        STENO_ERR_INVAL);
    assert_null(g);
    assert_null(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_repeats_a_token_only_across_a_blank),
        cmocka_unit_test(reset_does_not_repeat_a_sounding_token),
        cmocka_unit_test(blank_penalty_brings_out_weak_tokens),
        cmocka_unit_test(beam_sums_the_paths_of_a_prefix),
        cmocka_unit_test(a_word_that_wins_no_frame_still_counts_as_sound),
        cmocka_unit_test(beam_keeps_prefix_score_when_blank_wins),
        cmocka_unit_test(beam_scores_equal_the_sum_over_all_paths),
        cmocka_unit_test(hotwords_and_a_language_model_rank_prefixes),
        cmocka_unit_test(any_chunking_gives_the_same_hypotheses),
        cmocka_unit_test(stable_tokens_never_change),
        cmocka_unit_test(old_tokens_are_committed),
        cmocka_unit_test(spans_are_ordered_and_inside_the_utterance),
        cmocka_unit_test(broken_scores_do_no_harm),
        cmocka_unit_test(options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
