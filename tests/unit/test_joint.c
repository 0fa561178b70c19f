/* Joint search, CTC prefix scores and alignment on hand-written scores, against sums over all
 * paths. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/search/align.h"
#include "speech/search/aed_beam.h"
#include "speech/search/ctc_prefix.h"
#include "tests/support/test.h"

#define V 4 /* blank 0, a 1, b 2, eos 3 */
#define T 5

/* Log-probabilities, the same in every run. */
static void make_scores(float *x)
{
    uint32_t seed = 7;
    for (int t = 0; t < T; t++) {
        double sum = 0;
        for (int c = 0; c < V; c++) {
            seed = seed * 1664525u + 1013904223u;
            x[t * V + c] = (float)(seed >> 8) / 4e6F;
            sum += exp((double)x[t * V + c]);
        }
        for (int c = 0; c < V; c++)
            x[t * V + c] -= (float)log(sum);
    }
}

/* The probability of all V^T paths whose output starts with g or, if `whole`, equals g. */
static double by_paths(const float *x, const int32_t *g, int n, bool whole)
{
    double sum = 0;
    for (int path = 0; path < 1024; path++) { /* V^T */
        int out[T], k = 0, last = 0, code = path;
        double p = 0;
        for (int t = 0; t < T; t++, code /= V) {
            int c = code % V;
            p += (double)x[t * V + c];
            if (c && c != last)
                out[k++] = c;
            last = c;
        }
        if (k < n || (whole && k != n))
            continue;
        for (int i = 0; i < n; i++)
            if (out[i] != g[i])
                goto next;
        sum += exp(p);
    next:;
    }
    return log(sum);
}

static double log_sum(double a, double b)
{
    double hi = a > b ? a : b, lo = a > b ? b : a;
    return lo > (double)-INFINITY ? hi + log1p(exp(lo - hi)) : hi;
}

static void prefix_scores_are_sums_over_paths(void **state)
{
    static const int32_t all[V] = {0, 1, 2, 3};
    float x[T * V], got[V];
    steno_ctc_prefix *p = NULL;
    (void)state;
    make_scores(x);
    assert_int_equal(steno_ctc_prefix_open(&p, V, 0, 3, 2, NULL), 0);
    for (int32_t a = 1; a <= 2; a++)
        for (int32_t b = 1; b <= 2; b++) {
            const int32_t zero = 0;
            int32_t g[3] = {a, b, 0};
            double total = 0;
            assert_int_equal(steno_ctc_prefix_start(p, x, T), 0);
            for (int n = 0; n <= 2; n++) {
                assert_int_equal(steno_ctc_prefix_score(p, 0, all, V, got), 0);
                for (int32_t c = 1; c <= 2; c++) {
                    int32_t h[3] = {g[0], g[1], 0};
                    h[n] = c;
                    assert_true(fabs(total + (double)got[c] - by_paths(x, h, n + 1, false)) < 1e-5);
                }
                assert_true(fabs(total + (double)got[3] - by_paths(x, g, n, true)) < 1e-5);
                assert_true((double)got[0] < -1e9);
                if (n < 2) {
                    steno_ctc_prefix_advance(p, &zero, &g[n], 1);
                    total += (double)got[g[n]];
                }
            }
        }
    steno_ctc_prefix_close(p);
}

/* psi of g in logarithms, frame by frame (Watanabe et al. 2017, algorithm 2). x: [frames, V]. */
static double in_logarithms(const float *x, size_t frames, const int32_t *g, size_t n)
{
    double *r = malloc(4 * frames * sizeof *r), *rn = r, *rb = r + frames, psi = 0, sum = 0;
    double *now_n = r + 2 * frames, *now_b = r + 3 * frames;
    assert_non_null(r);
    for (size_t t = 0; t < frames; t++) {
        rn[t] = -INFINITY;
        rb[t] = sum += (double)x[t * V];
    }
    for (size_t i = 0; i < n; i++) {
        psi = now_n[0] = i ? (double)-INFINITY : (double)x[g[i]];
        now_b[0] = -INFINITY;
        for (size_t t = 1; t < frames; t++) {
            double phi = i && g[i - 1] == g[i] ? rb[t - 1] : log_sum(rn[t - 1], rb[t - 1]);
            now_n[t] = log_sum(now_n[t - 1], phi) + (double)x[t * V + (size_t)g[i]];
            now_b[t] = log_sum(now_n[t - 1], now_b[t - 1]) + (double)x[t * V];
            psi = log_sum(psi, phi + (double)x[t * V + (size_t)g[i]]);
        }
        memcpy(rn, now_n, 2 * frames * sizeof *r);
    }
    free(r);
    return psi;
}

/* Probabilities of e^-6000 and less, far below the range of a double. The hypotheses have tokens
 * that are likely early, late or nowhere. */
static void prefix_scores_of_long_audio_are_those_of_logarithms(void **state)
{
    enum { FRAMES = 1500 };
    static const int32_t g[] = {1, 2, 2, 1, 1, 2}, zero = 0;
    float *x = malloc(FRAMES * V * sizeof *x), got;
    steno_ctc_prefix *p = NULL;
    (void)state;
    assert_non_null(x);
    assert_int_equal(steno_ctc_prefix_open(&p, V, 0, 3, 2, NULL), 0);
    for (int kind = 0; kind < 4; kind++) {
        double total = 0;
        for (size_t i = 0; i < FRAMES * V; i++) {
            size_t t = i / V, at = (size_t)kind * 500;
            x[i] = -4.0F - (float)(i * 7919 % 61) / 10;
            if (kind && i % V && (t < at - 100 || t > at))
                x[i] -= kind == 3 ? 400.0F : 80.0F;
        }
        assert_int_equal(steno_ctc_prefix_start(p, x, FRAMES), 0);
        for (size_t n = 0; n < sizeof g / sizeof *g; n++) {
            double want = in_logarithms(x, FRAMES, g, n + 1);
            assert_int_equal(steno_ctc_prefix_score(p, 0, &g[n], 1, &got), 0);
            if (fabs(total + (double)got - want) > 1e-2 + 1e-6 * fabs(want))
                fail_msg("kind %d, %zu tokens: %.6f, in logarithms %.6f", kind, n + 1,
                         total + (double)got, want);
            steno_ctc_prefix_advance(p, &zero, &g[n], 1);
            total += (double)got;
        }
    }
    steno_ctc_prefix_close(p);
    free(x);
}

/* A scorer that prefers one sentence: 1 2 1, then eos. */
static steno_status sentence(void *self, const int32_t *const *prefix, size_t length,
                             const int32_t *parent, size_t n, float *out, steno_err *err)
{
    static const int32_t says[] = {1, 2, 1, 3};
    (void)self;
    (void)parent;
    (void)err;
    for (size_t i = 0; i < n; i++)
        for (int32_t c = 0; c < V; c++) {
            bool on = length <= 4;
            for (size_t k = 1; k < length && on; k++)
                on = prefix[i][k] == says[k - 1];
            out[i * V + (size_t)c] = on && c == says[length - 1] ? -0.1F : -3.0F;
        }
    return STENO_OK;
}

static void the_search_finds_the_likely_sentence(void **state)
{
    static const int32_t want[] = {3, 1, 2, 1, 3};
    struct steno_joint_options o = {
        .vocab = V, .sos = 3, .eos = 3, .beam = 3, .pre_beam_key = -1, .max_len_ratio = -8};
    struct steno_joint_scorer s = {.weight = 1, .score = sentence};
    struct steno_joint_hyp h;
    steno_joint *j = NULL;
    (void)state;
    assert_int_equal(steno_joint_open(&j, &o, NULL), 0);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(steno_joint_run(j, &s, 1, NULL, T, NULL), 0);
        assert_true(steno_joint_count(j) > 0);
        h = steno_joint_get(j, 0);
        assert_int_equal(h.n, 5);
        assert_memory_equal(h.tokens, want, sizeof want);
        assert_true(fabs(h.score + 0.4) < 1e-5);
    }
    steno_joint_close(j);
}

static steno_status not_a_number(void *self, const int32_t *const *prefix, size_t length,
                                 const int32_t *parent, size_t n, float *out, steno_err *err)
{
    (void)self;
    (void)prefix;
    (void)length;
    (void)parent;
    (void)err;
    for (size_t i = 0; i < n * V; i++)
        out[i] = NAN;
    return STENO_OK;
}

static void nan_scores_are_an_error(void **state)
{
    struct steno_joint_options o = {.vocab = V, .sos = 3, .eos = 3, .beam = 2, .pre_beam_key = -1};
    struct steno_joint_scorer s = {.weight = 1, .score = not_a_number};
    steno_joint *j = NULL;
    steno_err err = {0};
    (void)state;
    assert_int_equal(steno_joint_open(&j, &o, NULL), 0);
    assert_int_equal(steno_joint_run(j, &s, 1, NULL, T, &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "not a number"));
    steno_joint_close(j);
    o.beam = V + 1;
    assert_int_equal(steno_joint_open(&j, &o, &err), STENO_ERR_INVAL);
}

static void short_outputs_wait_for_min_len(void **state)
{
    struct steno_joint_options o = {.vocab = V,
                                    .sos = 3,
                                    .eos = 3,
                                    .beam = 3,
                                    .pre_beam_key = -1,
                                    .max_len_ratio = -8,
                                    .min_len_ratio = -5};
    struct steno_joint_scorer s = {.weight = 1, .score = sentence};
    steno_joint *j = NULL;
    (void)state;
    assert_int_equal(steno_joint_open(&j, &o, NULL), 0);
    assert_int_equal(steno_joint_run(j, &s, 1, NULL, T, NULL), 0);
    assert_true(steno_joint_count(j) > 0);
    for (size_t i = 0; i < steno_joint_count(j); i++)
        assert_true(steno_joint_get(j, i).n >= 7); /* sos, five tokens at least, eos */
    steno_joint_close(j);
}

/* Token 1 is a little likelier than 2. */
static steno_status likes_one(void *self, const int32_t *const *prefix, size_t length,
                              const int32_t *parent, size_t n, float *out, steno_err *err)
{
    (void)prefix;
    (void)length;
    (void)parent;
    (void)err;
    for (size_t i = 0; i < n; i++)
        for (int32_t c = 0; c < V; c++)
            out[i * V + (size_t)c] = self ? (c == 2 ? 0 : -20) : c == 1 ? -0.5F : -1;
    return STENO_OK;
}

/* A scorer that prefers token 2 brings it into the beam. A partial scorer does not, because the
 * pre-beam of one token is chosen without it. */
static void a_partial_scorer_has_no_say_in_the_pre_beam(void **state)
{
    (void)state;
    for (int partial = 0; partial < 2; partial++) {
        int marker = 1;
        struct steno_joint_scorer s[2] = {
            {.weight = 1, .score = likes_one},
            {.self = &marker, .weight = 1, .score = likes_one, .partial = partial}};
        struct steno_joint_options o = {.vocab = V,
                                        .sos = 3,
                                        .eos = 3,
                                        .beam = 1,
                                        .pre_beam = 1,
                                        .pre_beam_key = -1,
                                        .ctc_weight = 0.01,
                                        .max_len_ratio = -1};
        float x[T * V];
        steno_joint *j = NULL;
        struct steno_joint_hyp h;
        for (size_t i = 0; i < T * V; i++)
            x[i] = i % V == 3 ? -1e4F : -1.4F;
        assert_int_equal(steno_joint_open(&j, &o, NULL), 0);
        assert_int_equal(steno_joint_run(j, s, 2, x, T, NULL), 0);
        assert_int_equal(steno_joint_count(j), 1);
        h = steno_joint_get(j, 0);
        assert_int_equal(h.tokens[1], partial ? 1 : 2);
        steno_joint_close(j);
    }
}

static void tokens_are_aligned_where_they_are_likely(void **state)
{
    /* - a a - a: two equal tokens, separated by a blank */
    static const int path[T] = {0, 1, 1, 0, 1};
    static const int32_t two[] = {1, 1}, many[] = {1, 1, 1, 1};
    const struct steno_span *s;
    struct steno_align a = {0};
    float x[T * V];
    (void)state;
    for (int t = 0; t < T; t++)
        for (int c = 0; c < V; c++)
            x[t * V + c] = path[t] == c ? -0.1F : -3.0F;
    assert_int_equal(steno_align_run(&a, x, T, V, 0, two, 2, &s), 0);
    assert_true(s[0].first == 1 && s[0].last == 2 && s[1].first == 4 && s[1].last == 4);
    assert_true(fabsf(s[0].peak + 0.1F) < 1e-6F);
    /* four equal tokens need seven frames; with five they are spread evenly */
    assert_int_equal(steno_align_run(&a, x, T, V, 0, many, 4, &s), 0);
    assert_true(s[0].first == 0 && s[3].first == 3);
    assert_int_equal(steno_align_run(&a, x, T, V, 0, NULL, 0, &s), 0);
    steno_align_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefix_scores_are_sums_over_paths),
        cmocka_unit_test(prefix_scores_of_long_audio_are_those_of_logarithms),
        cmocka_unit_test(the_search_finds_the_likely_sentence),
        cmocka_unit_test(nan_scores_are_an_error),
        cmocka_unit_test(short_outputs_wait_for_min_len),
        cmocka_unit_test(a_partial_scorer_has_no_say_in_the_pre_beam),
        cmocka_unit_test(tokens_are_aligned_where_they_are_likely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
